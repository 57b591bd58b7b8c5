//! Texts with HAProxy's log-format expressions (`%[src]`, `%ci`) as native templates.
//!
//! What stands for the same in every request of a listener is put in as text; what has no native counterpart is an error that names it.

use super::criterion::pieces;
use crate::header_fields::is_identity;

/// Longest text that comes of it, bytes.
const MAX_BYTES: usize = 4_096;

/// What is known of the clients of a listener.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts {
    pub(crate) tls: bool,
    pub(crate) port: Option<u16>,
    /// Clients show a certificate; none if some do.
    pub(crate) certificate: Option<bool>,
}

/// What becomes of the query of a request in a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    Keep,
    Drop,
}

/// The native template for a header field.
///
/// # Errors
/// What has no counterpart.
pub(crate) fn field(text: &str, facts: Facts) -> Result<String, String> {
    template(text, facts).and_then(|(out, query)| match query {
        Query::Drop => Ok(out),
        Query::Keep => Err("the URL with its query has no counterpart in a field".to_owned()),
    })
}

/// What a text that has a native template stands for otherwise, so that servers may see somebody else.
pub(crate) fn differing(text: &str) -> Option<&'static str> {
    let has = |start: &str| text.contains(&format!("[{start}"));
    match () {
        () if has("ssl_c_s_dn") || has("ssl_c_i_dn") => {
            Some("names are written as RFC 2253 says (`CN=a,O=b`), and there as `/O=b/CN=a`")
        }
        () => None,
    }
}

/// Why a text that has a native template stands for more than HAProxy puts in, if it does: all of a field and not what stands behind its last comma.
pub(crate) fn whole(text: &str) -> Option<&'static str> {
    let is_part = |from: &str| {
        let argument =
            from.strip_prefix("req.").unwrap_or(from).strip_prefix("hdr(").and_then(|from| from.split_once(')'));
        argument.is_some_and(|(argument, _)| !argument.trim().eq_ignore_ascii_case("host"))
    };
    let mut fetches = text.split('%').skip(1).filter_map(|from| {
        // Flags may stand before the bracket: `%{-Q}[…]`.
        let from = match from.strip_prefix('{') {
            Some(flags) => flags.split_once('}')?.1,
            None => from,
        };
        from.strip_prefix('[')
    });
    fetches.any(is_part).then_some(
        "HAProxy puts in what stands behind the last comma of the field, and this all of it; the same with `req.fhdr`",
    )
}

/// The header fields that a text or a sample puts in.
pub(crate) fn fields_of(text: &str) -> impl Iterator<Item = String> {
    let named = |(at, fetch): (usize, &str)| {
        let argument = text.get(at + fetch.len()..)?.split([')', ',']).next()?.trim().to_ascii_lowercase();
        Some(if fetch == "cook(" { "cookie".to_owned() } else { argument })
    };
    text.match_indices("hdr(").chain(text.match_indices("cook(")).filter_map(named)
}

/// The native template for the target of a redirect, and what becomes of the query.
///
/// # Errors
/// What has no counterpart.
pub(crate) fn target(text: &str, facts: Facts) -> Result<(String, Query), String> {
    if let Some(why) = whole(text) {
        return Err(why.to_owned());
    }
    let (out, query) = template(text, facts)?;
    match out.chars().any(char::is_control) {
        true => Err("a control character in it".to_owned()),
        false => Ok((out, query)),
    }
}

/// Text as it stands in a template.
pub(crate) fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// The same, when text must stand alone.
pub(crate) fn constant(text: &str, facts: Facts) -> Option<String> {
    let out = field(text, facts).ok()?;
    (!out.contains(['{', '}'])).then_some(out)
}

fn template(text: &str, facts: Facts) -> Result<(String, Query), String> {
    let mut out = String::new();
    let mut query = Query::Drop;
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(&literal(before));
        let behind = from.get(1..).unwrap_or_default();
        if let Some(after) = behind.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        // Flags, such as `%{+Q}[…]`.
        let behind = match behind.strip_prefix('{') {
            Some(flags) if !flags.starts_with("+Q") && !flags.starts_with("-Q") => {
                return Err("flags of a format".to_owned());
            }
            Some(flags) => flags.split_once('}').map_or("", |(_, behind)| behind),
            None => behind,
        };
        let (native, after) = match behind.strip_prefix('[') {
            Some(inner) => {
                let (expression, after) = bracketed(inner).ok_or("a bracket is not closed")?;
                if is_url(expression) {
                    query = Query::Keep;
                    if !after.is_empty() {
                        return Err("text behind the URL of the request".to_owned());
                    }
                    ("{path}".to_owned(), after)
                } else {
                    (fetched(expression, facts)?, after)
                }
            }
            None => {
                let length = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
                let (name, after) = behind.split_at_checked(length).unwrap_or((behind, ""));
                (alias(name, facts)?, after)
            }
        };
        out.push_str(&native);
        rest = after;
    }
    out.push_str(&literal(rest));
    match out.len() <= MAX_BYTES {
        true => Ok((out, query)),
        false => Err("it becomes too long".to_owned()),
    }
}

/// What stands before the bracket that closes.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ']' if depth == 0 => return Some((text.get(..at)?, text.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

fn is_url(expression: &str) -> bool {
    matches!(expression, "capture.req.uri" | "url" | "pathq")
}

fn alias(name: &str, facts: Facts) -> Result<String, String> {
    let expression = match name {
        "ci" => "src",
        "HM" => "method",
        "HP" => "path",
        "fp" => "dst_port",
        "ID" => "unique-id",
        "sslv" => "ssl_fc_protocol",
        "sslc" => "ssl_fc_cipher",
        _ => return Err(format!("`%{name}` has no counterpart")),
    };
    fetched(expression, facts)
}

/// A fetch as a variable, or as the text that it stands for.
pub(crate) fn fetched(expression: &str, facts: Facts) -> Result<String, String> {
    let unknown = || format!("`%[{expression}]` has no counterpart");
    let mut pieces = pieces(expression).into_iter();
    let fetch = pieces.next().unwrap_or_default();
    let converters = pieces.collect::<Vec<_>>().join(",");
    let (name, argument) = match fetch.split_once('(') {
        Some((name, argument)) => (name, argument.trim_end_matches(')').trim()),
        None => (fetch, ""),
    };
    let argument = if name == "str" { argument.split(',').next().unwrap_or_default() } else { argument };
    let is_host = matches!(name, "hdr" | "req.hdr" | "req.fhdr") && argument.eq_ignore_ascii_case("host");
    // Hosts have no capitals here.
    let is_name = is_host
        && matches!(
            converters.as_str(),
            "host_only"
                | "lower,host_only"
                | "host_only,lower"
                | "field(1,:)"
                | "lower,field(1,:)"
                | "field(1,:),lower"
        );
    let is_plain = converters.is_empty() || is_name || (is_host && converters == "lower");
    if !is_plain {
        return Err(unknown());
    }
    let is_token =
        !argument.is_empty() && argument.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let native = match name {
        "hdr" | "req.hdr" | "req.fhdr" if is_name => "host".to_owned(),
        "hdr" | "req.hdr" | "req.fhdr" if is_host => "authority".to_owned(),
        "hdr" | "req.hdr" | "req.fhdr" if is_token => {
            let field = argument.to_ascii_lowercase();
            if is_identity(&field) {
                return Err(format!(
                    "`{argument}` is what any client may send; name the proxies in front in `trusted_proxies`"
                ));
            }
            format!("header.{field}")
        }
        "url_param" | "urlp" if !argument.is_empty() => {
            return Err(format!("`{name}` puts in a parameter as it was sent, and ends it at `;`, too"));
        }
        "cook" | "req.cook" if is_token => format!("cookie.{argument}"),
        "str" => return Ok(literal(argument)),
        "int" | "bool" => return Ok(literal(argument)),
        "ssl_fc" => return Ok(if facts.tls { "1" } else { "0" }.to_owned()),
        "dst_port" => return facts.port.map(|port| port.to_string()).ok_or_else(unknown),
        "src" => "client.address".to_owned(),
        "path" => "path".to_owned(),
        "method" | "capture.req.method" => "method".to_owned(),
        "unique-id" | "uuid" => "request.id".to_owned(),
        "ssl_fc_protocol" => "tls.version".to_owned(),
        "ssl_fc_cipher" => "tls.cipher".to_owned(),
        "ssl_fc_sni" => "tls.server_name".to_owned(),
        "ssl_c_s_dn" if argument.is_empty() && facts.certificate != Some(false) => "certificate.subject".to_owned(),
        "ssl_c_i_dn" if argument.is_empty() && facts.certificate != Some(false) => "certificate.issuer".to_owned(),
        _ => return Err(unknown()),
    };
    Ok(format!("{{{native}}}"))
}

/// A template with the placeholders of which something is known replaced by that, which is a template as well.
pub(super) fn substituted(
    template: &str,
    known: impl Fn(&str) -> Result<Option<String>, String>,
) -> Result<String, String> {
    let (mut out, mut rest) = (String::with_capacity(template.len()), template);
    while let Some((text, behind)) = rest.split_once('{') {
        out.push_str(text);
        // A brace that is meant is written twice.
        let (piece, after) = match (behind.strip_prefix('{'), behind.split_once('}')) {
            (Some(after), _) => ("{{".to_owned(), after),
            (None, Some((name, after))) => (known(name)?.unwrap_or_else(|| format!("{{{name}}}")), after),
            (None, None) => ("{".to_owned(), behind),
        };
        out.push_str(&piece);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_become_variables() {
        let facts = Facts { tls: true, port: Some(443), certificate: None };
        for (text, expected) in [
            ("plain {x} 100%%", Ok("plain {{x}} 100%")),
            ("%[src]", Ok("{client.address}")),
            ("%ci:%[dst_port]", Ok("{client.address}:443")),
            ("https://%[hdr(Host)]/x", Ok("https://{authority}/x")),
            ("%[req.hdr(host),lower]", Ok("{authority}")),
            ("%[req.hdr(host),lower,field(1,:)]", Ok("{host}")),
            ("%[req.hdr(User-Agent)]", Ok("{header.user-agent}")),
            ("%[req.hdr(x,1)]", Err("`%[req.hdr(x,1)]` has no counterpart")),
            ("%[urlp(k)]", Err("`urlp` puts in")),
            ("%{+Q}[ssl_c_s_dn]", Ok("{certificate.subject}")),
            ("%[ssl_fc]", Ok("1")),
            ("%[str(a,b)]", Ok("a")),
            ("%[hdr(x-forwarded-for)]", Err("`x-forwarded-for` is what any client")),
            ("%[date]", Err("`%[date]` has no counterpart")),
            ("%[src", Err("a bracket")),
            ("%[path,upper]", Err("`%[path,upper]`")),
            ("%t", Err("`%t` has")),
            ("%[url]", Err("the URL")),
        ] {
            let found = field(text, facts);
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{text}"),
                Err(start) => assert!(found.as_ref().is_err_and(|why| why.starts_with(start)), "{text}: {found:?}"),
            }
        }
        assert_eq!(
            target("https://%[hdr(host)]%[capture.req.uri]", facts),
            Ok(("https://{authority}{path}".to_owned(), Query::Keep))
        );
    }

    #[test]
    fn what_is_a_part_there_and_a_whole_here_is_told() {
        for (text, is_part) in [
            ("%[req.hdr(x)]", true),
            ("a%[src] %[hdr( X )]", true),
            ("%{-Q}[req.hdr(x)]", true),
            ("%[req.fhdr(x)]", false),
            ("%[req.hdr(Host)]", false),
            ("%[hdr(host),lower] %[src]", false),
            ("hdr(x)", false),
        ] {
            assert_eq!(whole(text).is_some(), is_part, "{text}");
        }
    }

    #[test]
    fn placeholders_are_replaced_and_text_is_not() {
        let known = |name: &str| match name {
            "host" => Ok(Some("a.test".to_owned())),
            "bad" => Err("changed".to_owned()),
            _ => Ok(None),
        };
        for (template, expected) in [
            ("{host}", Ok("a.test")),
            ("x{{host}}{host}{path}", Ok("x{{host}}a.test{path}")),
            ("{{{host}}}", Ok("{{a.test}}")),
            ("}{ho", Ok("}{ho")),
            ("{bad}", Err("changed")),
            ("{{bad}}", Ok("{{bad}}")),
        ] {
            let written = substituted(template, known);
            assert_eq!(written.as_deref().map_err(String::as_str), expected, "{template}");
        }
    }
}
