//! Names of files by a pattern with `*`. What else a pattern may hold, and what it means, is for those who have one to say.

/// Whether a name suits a pattern. `one` says how much of a pattern, from its start, stands for one byte of a name; none if it stands for another. Goes back
/// to the last star only, so it is quadratic at worst.
pub fn suits(pattern: &[u8], name: &[u8], one: impl Fn(&[u8], u8) -> Option<usize>) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while let Some(byte) = name.get(from) {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, from));
            at += 1;
            continue;
        }
        match one(pattern.get(at..).unwrap_or_default(), *byte) {
            Some(length) => (at, from) = (at + length, from + 1),
            None => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, from) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}
