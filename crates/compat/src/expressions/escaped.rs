//! Expressions on decoded paths as expressions on canonical ones: there, reserved characters stand as they are or escaped, and all but unreserved ones escaped.
//! One decoded byte stays one, whether it is written with one character or three.

use std::collections::BTreeMap;

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use config::MAX_EXPRESSION_BYTES;

/// How a byte of a decoded path stands in a canonical one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// As it is.
    Plain,
    /// As it is, or escaped.
    Either,
    Escaped,
    /// Not at all.
    Never,
}

/// How a byte is written. An escaped slash is rejected by what an import writes.
fn written(byte: u8) -> Written {
    match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' => Written::Plain,
        _ if byte.is_ascii_alphanumeric() => Written::Plain,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@' => Written::Either,
        0..=0x1f | 0x7f | b'\\' => Written::Never,
        _ => Written::Escaped,
    }
}

/// Whether a byte stands for a digit of an escape.
fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte)
}

/// The expression on canonical paths for one on decoded ones, both over the whole of them.
///
/// # Errors
/// Why there is none.
pub(super) fn in_paths(text: &str) -> Result<String, String> {
    let mut parser = regex_syntax::ParserBuilder::new();
    let parsed = parser.utf8(false).unicode(false).nest_limit(32).build().parse(text);
    let Ok(parsed) = parsed else { return Err("its expression cannot be carried".to_owned()) };
    if is_alike(&parsed, true) {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    write(&parsed, true, &mut out)?;
    match out.len() <= MAX_EXPRESSION_BYTES {
        true => Ok(out),
        false => Err("its expression becomes too long where characters may be escaped".to_owned()),
    }
}

/// Whether an expression matches the same canonical paths as decoded ones; `is_apart`: what follows it begins with no digit of an escape.
fn is_alike(hir: &Hir, is_apart: bool) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(Look::Start | Look::End) => true,
        HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.iter().all(|byte| written(*byte) == Written::Plain),
        HirKind::Class(_) => {
            let bytes = bytes_of(hir);
            !bytes.is_empty() && bytes.iter().all(|byte| written(*byte) == Written::Plain)
        }
        HirKind::Repetition(repetition) => {
            is_wide(repetition) && is_apart
                || is_alike(&repetition.sub, is_apart && !begins_with_digit(&repetition.sub))
        }
        HirKind::Capture(capture) => is_alike(&capture.sub, is_apart),
        HirKind::Alternation(parts) => parts.iter().all(|part| is_alike(part, is_apart)),
        HirKind::Concat(parts) => {
            parts.iter().zip(apart(parts, is_apart)).all(|(part, is_apart)| is_alike(part, is_apart))
        }
    }
}

/// For each part, whether what follows it begins with no digit of an escape.
fn apart(parts: &[Hir], last: bool) -> Vec<bool> {
    let mut is_apart = last;
    let mut out = Vec::with_capacity(parts.len());
    for part in parts.iter().rev() {
        out.push(is_apart);
        let is_skipped = part.properties().minimum_len().unwrap_or(0) == 0;
        is_apart = !begins_with_digit(part) && (is_apart || !is_skipped);
    }
    out.reverse();
    out
}

/// What a wide repetition is of, in short.
fn short(repetition: &Repetition) -> Option<&'static str> {
    let bytes = bytes_of(&repetition.sub);
    let lacks = (0u8..=255).filter(|byte| !bytes.contains(byte) && written(*byte) != Written::Never);
    match (is_wide(repetition), lacks.collect::<Vec<_>>().as_slice()) {
        (true, []) => Some("."),
        (true, [b'/']) => Some("[^/]"),
        _ => None,
    }
}

/// Whether this is any number of characters of nearly every kind, which takes whole escapes.
fn is_wide(repetition: &Repetition) -> bool {
    let bytes = bytes_of(&repetition.sub);
    let is_in = |byte: u8| bytes.contains(&byte);
    let takes_escapes = (0u8..=255).filter(|byte| is_digit(*byte) || *byte == b'%').all(is_in);
    let others = (0u8..=255).filter(|byte| matches!(written(*byte), Written::Either | Written::Escaped));
    repetition.max.is_none() && repetition.min <= 1 && takes_escapes && others.into_iter().all(is_in)
}

/// Whether something that this matches may begin with a digit of an escape.
fn begins_with_digit(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.first().is_some_and(|byte| is_digit(*byte)),
        HirKind::Class(_) => bytes_of(hir).iter().any(|byte| is_digit(*byte)),
        HirKind::Repetition(repetition) => begins_with_digit(&repetition.sub),
        HirKind::Capture(capture) => begins_with_digit(&capture.sub),
        HirKind::Alternation(parts) => parts.iter().any(begins_with_digit),
        HirKind::Concat(parts) => {
            let skipped = parts.iter().take_while(|part| part.properties().minimum_len().unwrap_or(0) == 0).count();
            parts.iter().take(skipped + 1).any(begins_with_digit)
        }
    }
}

/// The bytes of a class, or of a literal of one byte; none of others. What is one character of ASCII or another is a class of characters.
fn bytes_of(hir: &Hir) -> Vec<u8> {
    match hir.kind() {
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().flat_map(|range| range.start()..=range.end()).collect()
        }
        HirKind::Class(Class::Unicode(class)) => {
            let class = class.to_byte_class();
            class.iter().flat_map(|class| class.ranges()).flat_map(|range| range.start()..=range.end()).collect()
        }
        HirKind::Literal(literal) if literal.0.len() == 1 => literal.0.to_vec(),
        _ => Vec::new(),
    }
}

/// Writes an expression anew; `is_apart` as for [`is_alike`].
fn write(hir: &Hir, is_apart: bool, out: &mut String) -> Result<(), String> {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Look(Look::Start) => out.push('^'),
        HirKind::Look(Look::End) => out.push('$'),
        HirKind::Look(_) => return Err("its expression asks for the ends of words or lines".to_owned()),
        HirKind::Literal(literal) => literal.0.iter().try_for_each(|byte| one_of(&[*byte], out))?,
        HirKind::Class(_) => one_of(&bytes_of(hir), out)?,
        HirKind::Repetition(repetition) => {
            match short(repetition).filter(|_| is_apart) {
                Some(short) => out.push_str(short),
                None => {
                    out.push_str("(?:");
                    write(&repetition.sub, is_apart && !begins_with_digit(&repetition.sub), out)?;
                    out.push(')');
                }
            }
            match (repetition.min, repetition.max) {
                (0, None) => out.push('*'),
                (1, None) => out.push('+'),
                (0, Some(1)) => out.push('?'),
                (least, None) => out.push_str(&format!("{{{least},}}")),
                (least, Some(most)) if least == most => out.push_str(&format!("{{{least}}}")),
                (least, Some(most)) => out.push_str(&format!("{{{least},{most}}}")),
            }
            out.push_str(if repetition.greedy { "" } else { "?" });
        }
        HirKind::Capture(capture) => {
            match &capture.name {
                Some(name) => out.push_str(&format!("(?<{name}>")),
                None => out.push('('),
            }
            write(&capture.sub, is_apart, out)?;
            out.push(')');
        }
        HirKind::Concat(parts) => {
            let apart = apart(parts, is_apart);
            parts.iter().zip(apart).try_for_each(|(part, is_apart)| write(part, is_apart, out))?;
        }
        HirKind::Alternation(parts) => {
            out.push_str("(?:");
            for (at, part) in parts.iter().enumerate() {
                out.push_str(if at > 0 { "|" } else { "" });
                write(part, is_apart, out)?;
            }
            out.push(')');
        }
    }
    Ok(())
}

/// One of these bytes.
fn one_of(bytes: &[u8], out: &mut String) -> Result<(), String> {
    let of = |wanted: &[Written]| -> Vec<u8> {
        bytes.iter().copied().filter(|byte| wanted.contains(&written(*byte))).collect()
    };
    let plain = of(&[Written::Plain, Written::Either]);
    let escaped = of(&[Written::Either, Written::Escaped]);
    match (plain.as_slice(), escaped.as_slice()) {
        ([], []) => return Err("its expression holds what no path has".to_owned()),
        (plain, []) => set(plain, out),
        ([], escaped) => escapes(escaped, out),
        (plain, escaped) => {
            out.push_str("(?:");
            set(plain, out);
            out.push('|');
            escapes(escaped, out);
            out.push(')');
        }
    }
    Ok(())
}

/// A class of bytes of ASCII.
fn set(bytes: &[u8], out: &mut String) {
    if let [one] = bytes {
        return out.push_str(&regex_syntax::escape(&char::from(*one).to_string()));
    }
    out.push('[');
    let mut at = 0;
    while let Some(first) = bytes.get(at).copied() {
        let mut last = first;
        while bytes.get(at + 1).copied() == last.checked_add(1) && at + 1 < bytes.len() {
            last += 1;
            at += 1;
        }
        let shown = |byte: u8| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("\\x{byte:02X}"),
        };
        out.push_str(&shown(first));
        if last > first {
            out.push_str(if last - first > 1 { "-" } else { "" });
            out.push_str(&shown(last));
        }
        at += 1;
    }
    out.push(']');
}

/// The escapes of these bytes.
fn escapes(bytes: &[u8], out: &mut String) {
    if let [one] = bytes {
        return out.push_str(&format!("%{one:02X}"));
    }
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'A' + (value - 10) };
    let mut seconds: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for byte in bytes {
        seconds.entry(digit(byte >> 4)).or_default().push(digit(byte & 0xf));
    }
    // First digits with the same second ones stand together.
    let mut alike: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (first, second) in seconds {
        match alike.iter_mut().find(|(_, other)| *other == second) {
            Some((firsts, _)) => firsts.push(first),
            None => alike.push((vec![first], second)),
        }
    }
    out.push_str("%(?:");
    for (at, (firsts, seconds)) in alike.iter().enumerate() {
        out.push_str(if at > 0 { "|" } else { "" });
        set(firsts, out);
        set(seconds, out);
    }
    out.push(')');
}
