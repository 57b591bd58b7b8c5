//! What a document unfolds to, measured before it is validated: fragments may be spread within each other, so a short one can stand for very much.
//!
//! Each fragment is measured once and counted as often as it is spread, so this takes time in proportion to the document.

use std::collections::HashMap;

use apollo_compiler::ast::{Definition, Document, FragmentDefinition, OperationDefinition, Selection};
use contract::validate::{Violation, code};

use crate::options::Limits;
use crate::violation::{named, over};

/// Levels of selection sets and fragments within each other.
const MAX_LEVELS: usize = 60;

/// What a selection set unfolds to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Fields.
    pub(crate) fields: u64,
    /// Those under another name.
    pub(crate) aliases: u64,
    /// Nested fields.
    pub(crate) depth: u64,
    /// Fields that stand in no other field.
    pub(crate) root_fields: u64,
    /// Levels of selection sets and fragments.
    levels: usize,
}

impl Size {
    /// Both beside each other.
    fn beside(self, other: Size) -> Size {
        Size {
            fields: self.fields.saturating_add(other.fields),
            aliases: self.aliases.saturating_add(other.aliases),
            depth: self.depth.max(other.depth),
            root_fields: self.root_fields.saturating_add(other.root_fields),
            levels: self.levels.max(other.levels),
        }
    }

    /// Within a field.
    fn below(self, is_alias: bool) -> Size {
        Size {
            fields: self.fields.saturating_add(1),
            aliases: self.aliases.saturating_add(u64::from(is_alias)),
            depth: self.depth + 1,
            root_fields: 1,
            levels: self.levels + 1,
        }
    }
}

/// Measures every operation of a document and holds it to the limits.
///
/// # Errors
/// A limit is exceeded, or a fragment is spread within itself, defined twice or not at all.
pub(crate) fn measure(document: &Document, limits: &Limits) -> Result<(), Violation> {
    let mut measuring = Measuring { fragments: HashMap::new(), measured: HashMap::new() };
    let mut operations: Vec<&OperationDefinition> = Vec::new();
    for definition in &document.definitions {
        match definition {
            Definition::OperationDefinition(operation) => operations.push(operation),
            Definition::FragmentDefinition(fragment) => {
                let name = fragment.name.as_str();
                // The library keeps the first and goes on: what was measured has to be what it looks at.
                if measuring.fragments.insert(name, fragment).is_some() {
                    return Err(named(code::GRAPHQL_INVALID, name, "is defined twice"));
                }
            }
            // The library rejects what defines types.
            _ => {}
        }
    }
    let mut fields = 0_u64;
    for operation in operations {
        let size = measuring.selections(&operation.selection_set, 0)?;
        fields = fields.saturating_add(size.fields);
        check(&size, limits)?;
    }
    // Whatever nothing spreads is looked at, too: the library does.
    let names: Vec<&str> = measuring.fragments.keys().copied().collect();
    for name in names {
        fields = fields.max(measuring.fragment(name, 0)?.fields);
    }
    if fields > limits.fields {
        return Err(over(code::GRAPHQL_FIELDS, "the document unfolds to more fields", limits.fields));
    }
    Ok(())
}

fn check(size: &Size, limits: &Limits) -> Result<(), Violation> {
    for (value, limit, code, what) in [
        (size.depth, limits.depth, code::GRAPHQL_DEPTH, "fields are nested deeper"),
        (size.aliases, limits.aliases, code::GRAPHQL_ALIASES, "the operation has more aliases"),
        (size.root_fields, limits.root_fields, code::GRAPHQL_ROOT_FIELDS, "the operation has more root fields"),
    ] {
        if value > limit {
            return Err(over(code, what, limit));
        }
    }
    Ok(())
}

struct Measuring<'d> {
    fragments: HashMap<&'d str, &'d FragmentDefinition>,
    /// None while it is being measured.
    measured: HashMap<&'d str, Option<Size>>,
}

impl<'d> Measuring<'d> {
    fn selections(&mut self, selections: &'d [Selection], level: usize) -> Result<Size, Violation> {
        let mut all = Size::default();
        for selection in selections {
            let size = match selection {
                Selection::Field(field) => {
                    let is_alias = field.alias.as_ref().is_some_and(|alias| *alias != field.name);
                    self.within(&field.selection_set, level)?.below(is_alias)
                }
                Selection::InlineFragment(inline) => self.within(&inline.selection_set, level)?,
                Selection::FragmentSpread(spread) => self.fragment(spread.fragment_name.as_str(), level)?,
            };
            all = all.beside(size);
        }
        if level + all.levels > MAX_LEVELS {
            return Err(too_deep());
        }
        Ok(all)
    }

    fn within(&mut self, selections: &'d [Selection], level: usize) -> Result<Size, Violation> {
        if level == MAX_LEVELS {
            return Err(too_deep());
        }
        self.selections(selections, level + 1)
    }

    fn fragment(&mut self, name: &'d str, level: usize) -> Result<Size, Violation> {
        // The library reports each spread of it, however many there are.
        let Some(fragment) = self.fragments.get(name).copied() else {
            return Err(named(code::GRAPHQL_INVALID, name, "is spread and not defined"));
        };
        match self.measured.get(name) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(named(code::GRAPHQL_FRAGMENT_CYCLE, name, "is spread within itself")),
            None => {}
        }
        self.measured.insert(name, None);
        let size = self.within(&fragment.selection_set, level)?;
        let size = Size { levels: size.levels + 1, ..size };
        self.measured.insert(name, Some(size));
        Ok(size)
    }
}

fn too_deep() -> Violation {
    over(code::GRAPHQL_NESTING, "selection sets and fragments are nested deeper", MAX_LEVELS)
}

/// Whether some selection set asks for the same leaf field twice.
pub(crate) fn has_duplicates(document: &Document) -> bool {
    document.definitions.iter().any(|definition| match definition {
        Definition::OperationDefinition(operation) => repeats(&operation.selection_set),
        Definition::FragmentDefinition(fragment) => repeats(&fragment.selection_set),
        _ => false,
    })
}

fn repeats(selections: &[Selection]) -> bool {
    let mut names = std::collections::HashSet::new();
    selections.iter().any(|selection| match selection {
        Selection::Field(field) if field.selection_set.is_empty() => !names.insert(field.response_name()),
        Selection::Field(field) => repeats(&field.selection_set),
        Selection::InlineFragment(inline) => repeats(&inline.selection_set),
        Selection::FragmentSpread(_) => false,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(query: &str) -> Result<(), &'static str> {
        let limits = Limits { depth: 4, fields: 20, root_fields: 5, aliases: 3, ..Limits::default() };
        let document = Document::parse(query, "query").unwrap_or_else(|_| panic!("{query}"));
        measure(&document, &limits).map_err(|violation| violation.code)
    }

    #[test]
    fn fragments_count_as_often_as_they_are_spread() {
        let doubling = (0..30).fold(String::from("{...F0} fragment F30 on Q{a}"), |all, at| {
            format!("{all} fragment F{at} on Q{{...F{next} ...F{next}}}", next = at + 1)
        });
        let chain = (0..300).fold(String::from("{...F0} fragment F300 on Q{a}"), |all, at| {
            format!("{all} fragment F{at} on Q{{...F{next}}}", next = at + 1)
        });
        for (query, expected) in [
            ("{a b c d e}", Ok(())),
            ("{...F} fragment F on Q{a} fragment F on Q{b}", Err("graphql_invalid")),
            ("{...F}", Err("graphql_invalid")),
            ("{a b c d e f}", Err("graphql_root_fields")),
            ("{...F ...F} fragment F on Q{a b c}", Err("graphql_root_fields")),
            ("{a{b{c{d}}}}", Ok(())),
            ("{a{b{c{d{e}}}}}", Err("graphql_depth")),
            ("{a{...F}} fragment F on Q{b{c{d}}}", Ok(())),
            ("{a{b{...F}}} fragment F on Q{b{c{d}}}", Err("graphql_depth")),
            ("{x:a y:a z:a a:a}", Ok(())),
            ("{x:a y:a z:a w:a}", Err("graphql_aliases")),
            ("{c{...F ...F}} fragment F on Q{x:a y:a}", Err("graphql_aliases")),
            ("{a{b c d e f g h i j k l m n o p q r s t}}", Ok(())),
            ("{a{b c d e f g h i j k l m n o p q r s t u}}", Err("graphql_fields")),
            // What another operation of the document costs to validate counts as well.
            ("query A{a{b c d e f g h i j k}} query B{a{b c d e f g h i j k}}", Err("graphql_fields")),
            ("{...F} fragment F on Q{...G} fragment G on Q{...F}", Err("graphql_fragment_cycle")),
            ("{a} fragment F on Q{...F}", Err("graphql_fragment_cycle")),
            ("{a{...F}} fragment F on Q{a{...F}}", Err("graphql_fragment_cycle")),
            ("{...Nothing a}", Err("graphql_invalid")),
            (&doubling, Err("graphql_root_fields")),
            (&chain, Err("graphql_nesting")),
        ] {
            assert_eq!(check(query), expected, "{query}");
        }
    }

    #[test]
    fn the_same_leaf_twice_is_seen() {
        for (query, expected) in [
            ("{a b}", false),
            ("{a a}", true),
            ("{a{b} a{c}}", false),
            ("{a{b b}}", true),
            ("{x:a x:b}", true),
            ("{...on Q{a a}}", true),
            ("{...F} fragment F on Q{a a}", true),
        ] {
            let document = Document::parse(query, "query").unwrap_or_else(|_| panic!("{query}"));
            assert_eq!(has_duplicates(&document), expected, "{query}");
        }
    }
}
