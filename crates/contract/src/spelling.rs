//! Names that are nearly another one: what an author who mistyped a name must have meant. Knows no names.

/// Shortest known name of which one wrong letter is taken for a slip: below, other words are that near (`not` and `note`).
const MIN_CHARS: usize = 4;

/// The known name that `name`, which is none of them, is meant to be: the same but for case and separators (`min_items`), or but for one letter.
pub(crate) fn meant<'k>(name: &str, mut known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let folded = folded(name);
    known.find(|known| {
        let other = self::folded(known);
        folded == other || known.chars().count() >= MIN_CHARS && is_one_apart(&folded, &other)
    })
}

fn folded(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Whether one letter is missing, too many or another, or two neighbours have changed places.
fn is_one_apart(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let start = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[start..], &other[start..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[..one.len() - end], &other[..other.len() - end]);
    match (one, other) {
        ([], [_]) | ([_], []) | ([_], [_]) => true,
        ([a, b], [c, d]) => a == d && b == c,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn slips_are_seen_and_other_words_are_not() {
        let known = ["minItems", "maxItems", "in", "not", "type", "name", "schema", "required", "pattern"];
        let rows = [
            ("min_items", Some("minItems")),
            ("minitems", Some("minItems")),
            ("minItem", Some("minItems")),
            ("requierd", Some("required")),
            ("requried", Some("required")),
            ("patern", Some("pattern")),
            ("schemas", Some("schema")),
            ("Name", Some("name")),
            ("id", None),
            ("typ", Some("type")),
            ("note", None),
            ("enumNames", None),
            ("nullable", None),
        ];
        for (name, expected) in rows {
            assert_eq!(meant(name, known.into_iter()), expected, "{name}");
        }
    }
}
