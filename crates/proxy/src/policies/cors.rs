//! Which pages of other origins may use a resource (Fetch, "CORS protocol"): origins as configured, and the fields that say so.

use std::fmt::Write as _;
use std::time::Duration;

use config::{Cors, OriginPattern};
use wire::http::{Method, RequestHead};

/// How long a client may believe that HTTP/3 is served.
const ALTERNATIVE_LASTS: Duration = Duration::from_secs(3600);

/// Fields of a response that policies set, whoever makes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoration {
    fields: Vec<(&'static str, Vec<u8>)>,
    /// Only a policy says who may read it.
    is_of_cors: bool,
    /// Only we say where else we can be reached.
    names_alternative: bool,
    /// The route says it.
    leaves_alternative: bool,
}

impl Decoration {
    /// Cookies that an authentication service sets.
    pub fn of_cookies(cookies: Vec<Vec<u8>>) -> Decoration {
        let fields = cookies.into_iter().map(|cookie| ("Set-Cookie", cookie)).collect();
        Decoration { fields, ..Decoration::default() }
    }

    /// That HTTP/3 is served at the same host, on this port (RFC 7838 §3).
    pub fn of_http3(port: u16) -> Decoration {
        let value = format!("h3=\":{port}\"; ma={}", ALTERNATIVE_LASTS.as_secs());
        Decoration { fields: vec![("Alt-Svc", value.into_bytes())], names_alternative: true, ..Decoration::default() }
    }

    /// That the route says where else the host can be reached: whatever was to say it is left out.
    pub fn of_own_alternative() -> Decoration {
        Decoration { leaves_alternative: true, ..Decoration::default() }
    }

    /// Adds what another policy sets.
    pub fn add(&mut self, other: Decoration) {
        if other.leaves_alternative {
            self.fields.retain(|(name, _)| *name != "Alt-Svc");
            self.names_alternative = false;
        }
        self.fields.extend(other.fields);
        self.is_of_cors |= other.is_of_cors;
        self.names_alternative |= other.names_alternative;
    }

    /// Whether a field of a response gives way to ours.
    pub fn replaces(&self, name: &[u8]) -> bool {
        (self.is_of_cors && name.get(..15).is_some_and(|start| start.eq_ignore_ascii_case(b"access-control-")))
            || (self.names_alternative && name.eq_ignore_ascii_case(b"alt-svc"))
    }

    /// The fields.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (name.as_bytes(), value.as_slice()))
    }
}

/// The origin of the page that sends a request; none if there is none, or several.
pub fn origin_of(head: &RequestHead) -> Option<&[u8]> {
    let mut values = head.fields.get_all("origin");
    values.next().filter(|_| values.next().is_none())
}

/// The method that a preflight asks for; none if the request is no preflight.
pub fn preflight(head: &RequestHead) -> Option<&[u8]> {
    if head.method != Method::Options {
        return None;
    }
    origin_of(head)?;
    let mut methods = head.fields.get_all("access-control-request-method");
    methods.next().filter(|_| methods.next().is_none())
}

/// Whether pages of this origin may read responses.
fn allows(rule: &Cors, origin: &[u8]) -> bool {
    rule.any_origin || rule.origins.iter().any(|pattern| matches(pattern, origin))
}

fn matches(pattern: &OriginPattern, origin: &[u8]) -> bool {
    match pattern {
        OriginPattern::Exact(own) => own.as_bytes() == origin,
        OriginPattern::Below { scheme, suffix } => {
            let labels = origin.strip_prefix(scheme.as_bytes()).and_then(|rest| rest.strip_suffix(suffix.as_bytes()));
            // What stands for the asterisk is labels of a host, so neither user, port, path nor another scheme can hide in it.
            labels.is_some_and(|labels| labels.split(|byte| *byte == b'.').all(is_label))
        }
    }
}

fn is_label(label: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    !label.is_empty() && label.len() <= 63 && label.iter().all(fits)
}

/// What a response to a request says, whatever it is.
pub fn decorate(rule: &Cors, head: &RequestHead) -> Decoration {
    let mut fields = Vec::new();
    let is_public = rule.any_origin && !rule.credentials;
    if !is_public {
        // Also where nothing is allowed: a cache must not show one origin what another one got.
        fields.push(("Vary", b"Origin".to_vec()));
    }
    if let Some(origin) = origin_of(head).filter(|origin| allows(rule, origin)) {
        fields.push(("Access-Control-Allow-Origin", if is_public { b"*".to_vec() } else { origin.to_vec() }));
        if rule.credentials {
            fields.push(("Access-Control-Allow-Credentials", b"true".to_vec()));
        }
        if !rule.expose_headers.is_empty() {
            fields.push(("Access-Control-Expose-Headers", rule.expose_headers.join(", ").into_bytes()));
        }
    }
    Decoration { fields, is_of_cors: true, ..Decoration::default() }
}

/// What the response to a preflight says; none if the policy does not allow what is asked for.
pub fn answer(rule: &Cors, head: &RequestHead, method: &[u8]) -> Option<Decoration> {
    origin_of(head).filter(|origin| allows(rule, origin))?;
    // Methods that need no preflight are allowed by nature (Fetch, "CORS-safelisted method").
    let is_simple = matches!(method, b"GET" | b"HEAD" | b"POST");
    if !is_simple && !rule.methods.iter().any(|own| own.as_str().as_bytes() == method) {
        return None;
    }
    let asked = head.fields.get_all("access-control-request-headers").flat_map(|list| list.split(|byte| *byte == b','));
    let mut asked = asked.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
    if !asked.all(|name| rule.headers.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))) {
        return None;
    }
    let mut fields = decorate(rule, head).fields;
    fields.retain(|(name, _)| !matches!(*name, "Access-Control-Expose-Headers" | "Vary"));
    fields.push(("Vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers".to_vec()));
    let methods: Vec<&str> = rule.methods.iter().map(Method::as_str).collect();
    fields.push(("Access-Control-Allow-Methods", methods.join(", ").into_bytes()));
    if !rule.headers.is_empty() {
        fields.push(("Access-Control-Allow-Headers", rule.headers.join(", ").into_bytes()));
    }
    let mut age = String::new();
    // Writing to a string cannot fail.
    let _ = write!(age, "{}", rule.max_age.as_secs());
    fields.push(("Access-Control-Max-Age", age.into_bytes()));
    Some(Decoration { fields, is_of_cors: true, ..Decoration::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asterisk_stands_for_labels_and_nothing_else() {
        let pattern = OriginPattern::Below { scheme: "https://".to_owned(), suffix: ".example.com:8443".to_owned() };
        for (origin, expected) in [
            ("https://a.example.com:8443", true),
            ("https://a.b-1.example.com:8443", true),
            ("https://example.com:8443", false),
            ("https://.example.com:8443", false),
            ("https://a.example.com", false),
            ("http://a.example.com:8443", false),
            ("https://evil.com/.example.com:8443", false),
            ("https://evil.com:1.example.com:8443", false),
            ("https://u@a.example.com:8443", false),
            ("https://a.example.com:8443.evil.com", false),
            ("https://A.example.com:8443", false),
            ("https://a..example.com:8443", false),
            ("https://aexample.com:8443", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(matches(&pattern, origin.as_bytes()), expected, "{origin}");
        }
        let exact = OriginPattern::Exact("https://app.example.com".to_owned());
        assert!(matches(&exact, b"https://app.example.com"));
        for other in [
            "https://app.example.com.evil.com",
            "https://app.example.com:443",
            "https://appXexample.com",
            "http://app.example.com",
        ] {
            assert!(!matches(&exact, other.as_bytes()), "{other}");
        }
    }
}
