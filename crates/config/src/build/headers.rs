//! Header fields in a configuration: names, values and edits.
//!
//! Checks what RFC 9110 §5 demands, and that no edit touches the framing of a message or the connection (RFC 9110 §7.6.1): those are the program's.

use super::placeholders::{Scope, field_template};
use super::{Build, Fault};
use crate::model::{FieldValue, HeaderEdits};
use crate::problem::shown;
use crate::shape::hiding::REDACTED;
use crate::yaml::Node;

/// Fields that frame a message or govern one connection.
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Reads a field name, to lower case.
pub(super) fn field_name(text: &str) -> Result<String, Fault> {
    if text.len() <= 256 && is_token(text) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(Fault::new(
        format!("{} is not a field name", shown(text)),
        "use letters, digits and `-`, without colon or spaces",
    ))
}

/// A token (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// Reads a field value: visible ASCII with spaces and tabs inside (RFC 9110 §5.5).
pub(super) fn field_value(text: &str) -> Result<String, Fault> {
    if text == REDACTED {
        let fix = "write the value itself; `GET /config` does not show values that look like credentials";
        return Err(Fault::new("this is no value but what stands in place of one", fix));
    }
    if text.trim() != text {
        return Err(Fault::new("a field value cannot start or end with blanks", "remove them"));
    }
    match text.chars().find(|c| !matches!(c, '\t' | ' '..='~')) {
        None => Ok(text.to_owned()),
        Some('\n' | '\r') => Err(Fault::new("a field value cannot hold a line break", "write it on one line")),
        Some(_) => {
            Err(Fault::new("a field value can hold visible ASCII only", "encode the rest as the field's own rules say"))
        }
    }
}

/// Fields about the client that the program writes itself.
pub(super) const WRITTEN: [&str; 8] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-real-ip",
    "forwarded",
    "via",
    "x-request-id",
];

/// The value of a field: text with placeholders.
fn value(name: &str, text: &str, scope: Scope<'_>) -> Result<FieldValue, Fault> {
    field_template(text, scope).map_err(|fault| {
        let written = WRITTEN.iter().find(|written| name.eq_ignore_ascii_case(written));
        match written {
            Some(written) => {
                Fault { fix: format!("remove it: Portunus writes `{written}` itself (`forwarding`)"), ..fault }
            }
            None => fault,
        }
    })
}

impl Build<'_> {
    /// Edits under `key`; `host` has a key of its own on the way to the upstream.
    pub(super) fn header_edits(&mut self, route: &Node, key: &str, scope: Scope<'_>) -> HeaderEdits {
        let Some(node) = route.get(key) else { return HeaderEdits::default() };
        let on_request = key == "request_headers";
        HeaderEdits {
            remove: self
                .parsed_list(node, "remove", |text| field_name(text).and_then(|name| editable(name, on_request))),
            set: self.edited(node, "set", on_request, scope),
            add: self.edited(node, "add", on_request, scope),
            rewrites: if on_request { None } else { self.rewrites(node, scope) },
        }
    }

    /// Fields to write.
    fn edited(&mut self, node: &Node, key: &str, on_request: bool, scope: Scope<'_>) -> Vec<(String, FieldValue)> {
        let fields = self.fields(node, key, |name| editable(name, on_request));
        let spans = node.get(key).map(Node::entries).unwrap_or_default();
        let span =
            |name: &str| spans.iter().find(|entry| entry.key.eq_ignore_ascii_case(name)).map(|entry| entry.value.span);
        let mut read = Vec::with_capacity(fields.len());
        for (name, text) in fields {
            let Some(span) = span(&name) else { continue };
            if let Some(value) = self.take(span, value(&name, &text, scope)) {
                read.push((name, value));
            }
        }
        read
    }

    /// Names and values of the table under `key`; a name in two spellings is one too many.
    pub(super) fn fields(
        &mut self,
        node: &Node,
        key: &str,
        allow: impl Fn(String) -> Result<String, Fault>,
    ) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> = Vec::new();
        for entry in node.get(key).map(Node::entries).unwrap_or_default() {
            let name = self.take(entry.key_span, field_name(&entry.key).and_then(&allow));
            let value = entry.value.text().and_then(|text| self.take(entry.value.span, field_value(text)));
            let (Some(name), Some(value)) = (name, value) else { continue };
            if out.iter().any(|(other, _)| *other == name) {
                let what = format!("{} is in `{key}` twice; case does not matter", shown(&name));
                self.problems.add(entry.key_span, what, "keep one of the two");
            } else {
                out.push((name, value));
            }
        }
        out
    }
}

/// A field that a message may be given from outside.
pub(super) fn not_framing(name: String) -> Result<String, Fault> {
    if FRAMING.contains(&name.as_str()) {
        let what = format!("{} frames the message or governs the connection", shown(&name));
        return Err(Fault::new(what, "leave it out; Portunus writes it itself"));
    }
    Ok(name)
}

/// Whether a field may be edited.
pub(super) fn editable(name: String, on_request: bool) -> Result<String, Fault> {
    let name = not_framing(name)?;
    if on_request && name == "host" {
        return Err(Fault::new(
            "`host` cannot be edited here",
            "use the route's key `host`: `host: { set: app.internal }`",
        ));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::super::placeholders::Claims;
    use super::*;

    const SCOPE: Scope<'_> = Scope { parameters: &["tenant", "host"], empty: &[], claims: Claims::Verified };

    #[test]
    fn names_and_values() {
        assert_eq!(field_name("X-Beta"), Ok("x-beta".to_owned()));
        for wrong in ["", "a b", "a:", ":path", "é", "a\n"] {
            assert!(field_name(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(field_value("a\tb c"), Ok("a\tb c".to_owned()));
        assert_eq!(field_value(""), Ok(String::new()));
        for wrong in [REDACTED, " a", "a ", "a\nb", "a\r\nb: c", "a\0", "é", "\u{7f}"] {
            assert!(field_value(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn values_hold_parameters_and_variables() {
        let show = |text: &str| {
            value("x-a", text, SCOPE).map(|value| match value {
                FieldValue::Text(text) => text,
                FieldValue::Template(template) => format!("{:?}", template.parts).replace(", escape: Field", ""),
            })
        };
        for (text, expected) in [
            ("max-age=31536000", "max-age=31536000"),
            ("{{\"group\":\"a\"}}", "{\"group\":\"a\"}"),
            ("$apr1$x", "$apr1$x"),
            ("100% %2F %AB%", "100% %2F %AB%"),
            ("{client.address}", "[Variable { variable: ClientAddress }]"),
            ("a{{{tenant}}}b", "[Text(\"a{\"), Param { index: 0 }, Text(\"}b\")]"),
            ("{path.tenant}", "[Param { index: 0 }]"),
            // A parameter of the path goes before a variable of that name.
            ("{host}", "[Param { index: 1 }]"),
            ("{claim.https://x.test/roles}", "[Variable { variable: Claim(\"https://x.test/roles\") }]"),
            ("{header.X-A}{query.b}", "[Variable { variable: Header(\"x-a\") }, Variable { variable: Query(\"b\") }]"),
        ] {
            assert_eq!(show(text).unwrap(), expected, "{text}");
        }
        for (text, fix) in [
            ("{client_ip}", "the path of this route has `tenant` and `host`; variables are"),
            ("{client.adress}", "did you mean `{client.address}`?"),
            ("{path.other}", "the path of this route has no such parameter"),
            ("{header.}", "variables are"),
            ("{claim.}", "write it as the token has it"),
            ("{claim.a b}", "write it as the token has it"),
            ("{", "`{{` or `}}` for a brace"),
            ("}", "`{{` or `}}` for a brace"),
            ("{{a}", "`{{` or `}}` for a brace"),
            ("$remote_addr", "write `{client.address}`"),
            ("a${host}", "write `a{host}`"),
            ("$http_x_tenant/$arg_q", "write `{header.x-tenant}/$arg_q`"),
            ("%[src]", "write `{client.address}`"),
            ("%[req.hdr(X-A)]", "write `{header.X-A}`"),
            ("%{REMOTE_ADDR}s", "write `{client.address}s`"),
            ("%REQ(X-A)%", "write `{header.X-A}`"),
            ("%DOWNSTREAM_REMOTE_ADDRESS%", "write `{client.address}`"),
            ("{http.request.remote.host}", "write `{client.address}`"),
            ("{http.request.header.X-A}", "write `{header.X-A}`"),
            ("{http.request.uri.query.q}", "write `{query.q}`"),
            ("{http.request.uri}", "write `{uri}`"),
            ("{http.request.uri.query}", "write `{query}`"),
            ("$request_uri", "write `{uri}`"),
            ("$args", "write `{query}`"),
            ("%[url]", "write `{url}`"),
            ("%REQ(:PATH)%", "write `{uri}`"),
            ("{query.*}", "write `{query}` for all of the query"),
        ] {
            let fault = value("x-a", text, SCOPE).unwrap_err();
            assert!(fault.fix.contains(fix), "{text}: {fault:?}");
        }
        let unverified = Scope { claims: Claims::Unverified, ..SCOPE };
        let fault = value("x-a", "{claim.sub}", unverified).unwrap_err();
        assert!(fault.fix.contains("name a policy with `jwt`"), "{fault:?}");
        let fix = value("X-Real-IP", "$remote_addr", SCOPE).unwrap_err().fix;
        assert_eq!(fix, "remove it: Portunus writes `x-real-ip` itself (`forwarding`)");
    }

    #[test]
    fn framing_is_not_editable() {
        for name in FRAMING {
            assert!(editable(name.to_owned(), true).is_err() && editable(name.to_owned(), false).is_err(), "{name}");
        }
        assert!(editable("host".to_owned(), true).is_err());
        assert!(editable("host".to_owned(), false).is_ok());
    }
}
