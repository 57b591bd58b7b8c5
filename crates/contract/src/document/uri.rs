//! References between documents: resolution against a base (RFC 3986 §5.2) and percent decoding. Opens nothing.

/// What a reference means beside `base`, without its fragment, and the fragment with its escapes resolved (empty if there is none).
pub(super) fn join(base: &str, reference: &str) -> (String, String) {
    let (reference, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    (join_resource(base, reference), unescape(fragment))
}

fn join_resource(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    if has_scheme(reference) {
        return reference.to_owned();
    }
    let (scheme, rest) = base.split_once(':').unwrap_or(("", base));
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    if let Some(with_authority) = reference.strip_prefix("//") {
        return format!("{scheme}://{with_authority}");
    }
    let path = path.split('?').next().unwrap_or_default();
    let (reference_path, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
    let joined = match reference_path.starts_with('/') {
        true => reference_path.to_owned(),
        false => format!("{}/{reference_path}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    };
    format!("{scheme}://{authority}{}{query}", without_dots(&joined))
}

/// RFC 3986 §3.1.
pub(super) fn has_scheme(reference: &str) -> bool {
    reference.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

/// RFC 3986 §5.2.4, for absolute paths.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
        if is_last && matches!(segment, "." | "..") {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

/// Resolves percent escapes; text that is no UTF-8 afterwards, or holds a broken escape, stays as it is.
pub(super) fn unescape(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        let decoded =
            digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit())).and_then(|d| u8::from_str_radix(d, 16).ok());
        out.push(decoded.unwrap_or(byte));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_as_rfc_3986_says() {
        let base = "file:///api/v1/openapi.yaml";
        let rows = [
            ("", "file:///api/v1/openapi.yaml", ""),
            ("#/a~1b", "file:///api/v1/openapi.yaml", "/a~1b"),
            ("#/paths/~1a%20b", "file:///api/v1/openapi.yaml", "/paths/~1a b"),
            ("pet.yaml", "file:///api/v1/pet.yaml", ""),
            ("./pet.yaml#/Pet", "file:///api/v1/pet.yaml", "/Pet"),
            ("../x/./pet.yaml", "file:///api/x/pet.yaml", ""),
            ("../../../../pet.yaml", "file:///pet.yaml", ""),
            ("/pet.yaml", "file:///pet.yaml", ""),
            ("https://example.com/pet.json#Pet", "https://example.com/pet.json", "Pet"),
            ("urn:example:pet", "urn:example:pet", ""),
        ];
        for (reference, resource, fragment) in rows {
            assert_eq!(join(base, reference), (resource.to_owned(), fragment.to_owned()), "{reference}");
        }
        assert_eq!(join("https://example.com", "a").0, "https://example.com/a");
    }
}
