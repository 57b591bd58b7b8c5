//! `Location`, `Refresh` and `Set-Cookie` of responses of upstreams as clients are to see them: beginnings of URLs and paths replaced, attributes of cookies set or
//! removed.
//!
//! What an upstream says after the beginning that is replaced never becomes part of a host; what cannot be read stays as it is.

use std::borrow::Cow;

use config::{CookieFlags, CookieRule, CookieSameSite, FieldValue, ResponseRewrites, Rewrite};

use crate::route::Values;

/// The value of a field as the client gets it.
pub fn rewritten<'v>(rewrites: &ResponseRewrites, values: &Values<'_>, name: &[u8], value: &'v [u8]) -> Cow<'v, [u8]> {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let changed = if is("location") {
        url(&rewrites.location, values, value)
    } else if is("refresh") {
        refresh(&rewrites.location, values, value)
    } else if is("set-cookie") {
        cookie(&rewrites.cookies, values, value)
    } else {
        None
    };
    changed.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// What comes in place of something, made for this request.
fn made(value: &FieldValue, values: &Values<'_>) -> Option<Vec<u8>> {
    let mut made = None;
    values.field(value, |text| made = Some(text.to_vec()));
    made
}

/// The length of the scheme and host of a URL (RFC 3986 §3).
fn authority_end(url: &[u8]) -> Option<usize> {
    let start = ["http://", "https://"].iter().find(|scheme| starts_with(url, scheme.as_bytes()))?.len();
    let rest = url.get(start..)?;
    Some(start + rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len()))
}

/// Whether a text begins with another one, in whatever case.
fn starts_with(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// What follows `from` in a path or URL that begins with it; of a host and of a segment it takes all or nothing.
fn after<'v>(from: &[u8], value: &'v [u8]) -> Option<&'v [u8]> {
    // The scheme and the host have no case; a path has.
    let folded = authority_end(from).unwrap_or_default();
    let (host, path) = from.split_at_checked(folded)?;
    let rest = value.get(folded..).filter(|_| starts_with(value, host))?.strip_prefix(path)?;
    // `//host` and what browsers take for it is no path (RFC 3986 §4.2).
    if folded == 0 && !from.is_empty() && value.get(1).is_some_and(|byte| matches!(byte, b'/' | b'\\')) {
        return None;
    }
    let ends = from.ends_with(b"/") || rest.first().is_none_or(|byte| matches!(byte, b'/' | b'?' | b'#'));
    ends.then_some(rest)
}

/// A URL with its beginning replaced; none if it stays.
fn url(rules: &[Rewrite], values: &Values<'_>, value: &[u8]) -> Option<Vec<u8>> {
    let fits = |rule: &Rewrite| Some((after(rule.from.as_bytes(), value)?, rule.to.clone()?));
    let (rest, to) = rules.iter().find_map(fits)?;
    let mut url = made(&to, values)?;
    // A request without a host (HTTP/1.0) gives none.
    if authority_end(&url).is_some_and(|end| url.get(..end).is_some_and(|begin| begin.ends_with(b"/")))
        && !url.ends_with(b"://")
    {
        return None;
    }
    let is_path = url.starts_with(b"/");
    url.extend_from_slice(rest);
    if is_path {
        // Two slashes would begin another host, and so would what browsers read as such.
        let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\') || *byte <= b' ';
        let begins = url.iter().position(|byte| !is_slash(byte)).unwrap_or(url.len());
        url.drain(..begins);
        url.insert(0, b'/');
    }
    Some(url)
}

/// `5; url=/x` with the URL replaced.
fn refresh(rules: &[Rewrite], values: &Values<'_>, value: &[u8]) -> Option<Vec<u8>> {
    // Right behind the time: one within a URL belongs to that.
    let behind = value.iter().position(|byte| matches!(byte, b';' | b','))? + 1;
    let blanks = value.get(behind..)?.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let at = behind + blanks + 4;
    value.get(behind + blanks..at).filter(|part| part.eq_ignore_ascii_case(b"url="))?;
    let (before, rest) = value.split_at_checked(at)?;
    let quote = rest.first().copied().filter(|byte| matches!(byte, b'"' | b'\''));
    let (address, behind) = match quote {
        Some(quote) => {
            let inner = rest.get(1..)?;
            inner.split_at_checked(inner.iter().position(|byte| *byte == quote)?)?
        }
        None => (rest, &b""[..]),
    };
    let changed = url(rules, values, address)?;
    Some([before, quote.as_slice(), &changed, behind].concat())
}

/// A cookie with its attributes changed; none if it stays.
fn cookie(rules: &[CookieRule], values: &Values<'_>, value: &[u8]) -> Option<Vec<u8>> {
    let mut parts = value.split(|byte| *byte == b';');
    let pair = parts.next()?;
    let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
    let rule =
        rules.iter().find(|rule| rule.names.is_empty() || rule.names.iter().any(|one| one.as_bytes() == name))?;
    // Browsers take such cookies with these attributes alone (RFC 6265bis §4.1.3).
    let is_bound = starts_with(name, b"__host-");
    let is_secure = is_bound || starts_with(name, b"__secure-");
    let CookieFlags { secure, http_only, same_site } = rule.flags;
    let secure = if is_secure { None } else { secure };
    let mut out = pair.to_vec();
    for part in parts {
        let (attribute, text) = match part.iter().position(|byte| *byte == b'=') {
            Some(at) => (part.get(..at).unwrap_or_default(), part.get(at + 1..).unwrap_or_default()),
            None => (part, &b""[..]),
        };
        let is = |other: &str| attribute.trim_ascii().eq_ignore_ascii_case(other.as_bytes());
        let is_replaced = is("secure") && secure.is_some()
            || is("httponly") && http_only.is_some()
            || is("samesite") && same_site.is_some();
        if is_replaced {
            continue;
        }
        let changed = if is_bound {
            Change::Stays
        } else if is("path") {
            path(&rule.path, values, text.trim_ascii())
        } else if is("domain") {
            domain(&rule.domain, values, text.trim_ascii())
        } else {
            Change::Stays
        };
        match changed {
            Change::Stays => {
                out.push(b';');
                out.extend_from_slice(part);
            }
            Change::To(text) => out.extend([b";", attribute, b"=", &text].concat()),
            Change::Goes => {}
        }
    }
    let flags = [secure.map(|is| (is, "; Secure")), http_only.map(|is| (is, "; HttpOnly"))];
    flags.into_iter().flatten().filter(|(is, _)| *is).for_each(|(_, text)| out.extend_from_slice(text.as_bytes()));
    out.extend_from_slice(match same_site {
        Some(CookieSameSite::Lax) => b"; SameSite=Lax",
        Some(CookieSameSite::Strict) => b"; SameSite=Strict",
        Some(CookieSameSite::None) => b"; SameSite=None",
        Some(CookieSameSite::Remove) | None => b"",
    });
    Some(out)
}

/// What becomes of an attribute.
enum Change {
    Stays,
    To(Vec<u8>),
    Goes,
}

/// What comes in its place, as far as it is the value of one attribute.
fn attribute(to: Option<&FieldValue>, values: &Values<'_>, rest: &[u8]) -> Change {
    let Some(to) = to else { return Change::Goes };
    match made(to, values).filter(|made| !made.iter().any(|byte| *byte == b';' || byte.is_ascii_control())) {
        Some(made) => Change::To([&made, rest].concat()),
        None => Change::Stays,
    }
}

fn path(rules: &[Rewrite], values: &Values<'_>, value: &[u8]) -> Change {
    let found = rules.iter().find_map(|rule| {
        let rest = value.strip_prefix(rule.from.as_bytes())?;
        let ends = rule.from.ends_with('/') || rest.first().is_none_or(|byte| *byte == b'/');
        ends.then_some((rule.to.as_ref(), rest))
    });
    found.map_or(Change::Stays, |(to, rest)| attribute(to, values, rest))
}

fn domain(rules: &[Rewrite], values: &Values<'_>, value: &[u8]) -> Change {
    let value = value.strip_prefix(b".").unwrap_or(value);
    let found = rules.iter().find(|rule| value.eq_ignore_ascii_case(rule.from.as_bytes()));
    found.map_or(Change::Stays, |rule| attribute(rule.to.as_ref(), values, b""))
}

#[cfg(test)]
mod tests {
    use wire::http::RequestHead;

    use super::*;
    use crate::route::Params;

    fn rule(from: &str, to: &str) -> Rewrite {
        Rewrite { from: from.to_owned(), to: (to != "none").then(|| to.into()) }
    }

    fn check(rewrites: &ResponseRewrites, name: &str, value: &str, expected: &str) {
        let (head, params) = (RequestHead::default(), Params::default());
        let changed = rewritten(rewrites, &Values::of(&head, &params), name.as_bytes(), value.as_bytes());
        assert_eq!(String::from_utf8_lossy(&changed), expected, "{name}: {value}");
    }

    #[test]
    fn beginnings_of_urls_are_replaced() {
        let location = vec![
            rule("http://app:8080/", "/app/"),
            rule("http://bare", "https://a.test"),
            rule("/old", "/new"),
            rule("/cut/", "/"),
            rule("/", "/app/"),
        ];
        let rewrites = ResponseRewrites { location, cookies: Vec::new() };
        for (value, expected) in [
            ("/", "/app/"),
            ("/x?y#z", "/app/x?y#z"),
            ("HTTP://APP:8080/x", "/app/x"),
            ("http://app:8080", "http://app:8080"),
            ("http://app:80801/x", "http://app:80801/x"),
            ("http://bare", "https://a.test"),
            ("http://bare/x", "https://a.test/x"),
            ("http://bare?x", "https://a.test?x"),
            ("http://bare.evil.test/", "http://bare.evil.test/"),
            ("http://bare@evil.test/", "http://bare@evil.test/"),
            ("/old", "/new"),
            ("/old/x", "/new/x"),
            ("/older", "/app/older"),
            ("/cut/x", "/x"),
            // Never the beginning of another host.
            ("/cut//evil.test", "/evil.test"),
            ("/cut/\\evil.test", "/evil.test"),
            ("/cut/\t/evil.test", "/evil.test"),
            ("//evil.test/x", "//evil.test/x"),
            ("/\\evil.test/x", "/\\evil.test/x"),
            ("x", "x"),
            ("https://other/x", "https://other/x"),
            ("", ""),
        ] {
            check(&rewrites, "Location", value, expected);
            check(&rewrites, "content-location", value, value);
        }
        for (value, expected) in [
            ("5; url=/x", "5; url=/app/x"),
            ("5;URL='/x'", "5;URL='/app/x'"),
            ("0; url=\"http://app:8080/x\"", "0; url=\"/app/x\""),
            ("0; url=\"/x", "0; url=\"/x"),
            ("5, url=/x", "5, url=/app/x"),
            ("5; /x?url=/y", "5; /x?url=/y"),
            ("5; other=1; url=/y", "5; other=1; url=/y"),
            ("5", "5"),
        ] {
            check(&rewrites, "refresh", value, expected);
        }
    }

    #[test]
    fn attributes_of_cookies_are_changed_and_nothing_else() {
        let flags = CookieFlags { secure: Some(true), http_only: Some(false), same_site: Some(CookieSameSite::Strict) };
        let of_all = CookieRule {
            path: vec![rule("/app/", "/"), rule("/one", "/two"), rule("/", "/app/")],
            domain: vec![rule("app.internal", "a.test"), rule("gone.internal", "none")],
            ..CookieRule::default()
        };
        let named = CookieRule { names: vec!["s".to_owned()], flags, ..CookieRule::default() };
        let rewrites = ResponseRewrites { location: Vec::new(), cookies: vec![named, of_all] };
        for (value, expected) in [
            ("a=b", "a=b"),
            ("a=b; Path=/; HttpOnly", "a=b; Path=/app/; HttpOnly"),
            ("a=\"b\"; path = /app/x;Secure", "a=\"b\"; path =/x;Secure"),
            ("a=b; Path=/one/x", "a=b; Path=/two/x"),
            ("a=b; Path=/ones", "a=b; Path=/app/ones"),
            ("a=b; Path=x", "a=b; Path=x"),
            ("a=Path=/; Domain=.APP.internal; Max-Age=5", "a=Path=/; Domain=a.test; Max-Age=5"),
            ("a=b; Domain=gone.internal; Path=/", "a=b; Path=/app/"),
            ("a=b; Domain=x.app.internal", "a=b; Domain=x.app.internal"),
            ("s=1; Path=/; httponly; samesite=none", "s=1; Path=/; Secure; SameSite=Strict"),
            ("s=1; Secure; secure", "s=1; Secure; SameSite=Strict"),
            ("__Host-a=b; Path=/; Secure", "__Host-a=b; Path=/; Secure"),
            ("", ""),
            (";;=", ";;="),
        ] {
            check(&rewrites, "set-cookie", value, expected);
        }
        let insecure = CookieFlags { secure: Some(false), ..CookieFlags::default() };
        let cookies = vec![CookieRule { flags: insecure, ..CookieRule::default() }];
        let rewrites = ResponseRewrites { location: Vec::new(), cookies };
        check(&rewrites, "set-cookie", "a=b; Secure; x", "a=b; x");
        check(&rewrites, "set-cookie", "__Secure-a=b; Secure", "__Secure-a=b; Secure");
    }
}
