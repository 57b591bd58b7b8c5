//! Texts with nginx's variables as native templates.
//!
//! A variable that stands for the same in every request of a listener is put in as text; what has no native counterpart is an error that names it.

use std::collections::{BTreeMap, BTreeSet};

use crate::sites::REST;

/// How deep variables may stand for others.
const MAX_DEPTH: usize = 8;
/// Longest text that comes of it, bytes.
const MAX_BYTES: usize = 4_096;

/// The host that a request names, as [`Values::expanded`] writes it.
const HOSTS: [&str; 2] = ["${http_host}", "${host}"];
/// Stands for the whole URL of a request while a text is cut.
const WHOLE_URL: char = '\u{1}';

/// What variables stand for at a place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    /// Whether clients speak TLS.
    pub(crate) tls: bool,
    /// The port they connect to, unless it is several.
    pub(crate) port: Option<u16>,
    /// The first name of the server.
    pub(crate) server_name: String,
    /// What `set` gave a name.
    pub(crate) set: BTreeMap<String, String>,
    /// Names that the configuration defines, and whose value at this place is not known.
    pub(crate) unknown: BTreeSet<String>,
    /// Groups of the expression that the path is matched by.
    pub(crate) groups: Vec<String>,
    /// What the request's server is called: `$proxy_host` and `$proxy_port`.
    pub(crate) proxy: Option<(String, u16)>,
    /// Whether proxies in front are believed.
    pub(crate) has_trusted: bool,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// Cuts a text at its variables.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let behind = from.get(1..).unwrap_or_default();
        let (name, after) = match behind.strip_prefix('{') {
            Some(inner) => inner.split_once('}').unwrap_or(("", behind)),
            None => {
                let is_digit = behind.starts_with(|c: char| c.is_ascii_digit());
                let length = match is_digit {
                    true => 1,
                    false => behind.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count(),
                };
                behind.split_at_checked(length).unwrap_or((behind, ""))
            }
        };
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            // A dollar that begins no name is text.
            out.push(Piece::Text(rest.get(..=at).unwrap_or_default()));
            rest = behind;
            continue;
        }
        out.push(Piece::Text(before));
        out.push(Piece::Variable(name));
        rest = after;
    }
    out.push(Piece::Text(rest));
    out.retain(|piece| !matches!(piece, Piece::Text("")));
    out
}

/// Whether a text is this variable alone.
pub(crate) fn is_variable(text: &str, name: &str) -> bool {
    pieces(text) == [Piece::Variable(name)]
}

/// The variable that a text is, if it is one alone.
pub(crate) fn variable_of(text: &str) -> Option<&str> {
    match pieces(text).as_slice() {
        [Piece::Variable(name)] => Some(name),
        _ => None,
    }
}

/// Where a template stands, which decides how its text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Field,
    Target,
    /// The query of a target, in which values are encoded.
    Query,
}

/// What becomes of the query of a request in a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    Keep,
    Drop,
}

impl Values {
    /// `set`: the variable stands for what the text stands for here, whatever its own variables come to mean further on.
    pub(crate) fn assign(&mut self, name: &str, text: &str) {
        let is_lasting = |piece: &Piece<'_>| match piece {
            Piece::Text(_) => true,
            Piece::Variable(other) => {
                !self.unknown.contains(*other) && !other.starts_with(|c: char| c.is_ascii_digit())
            }
        };
        let value = match pieces(text).iter().all(is_lasting) {
            true => self.expanded(text).ok(),
            false => None,
        };
        match value {
            Some(value) => {
                self.unknown.remove(name);
                self.set.insert(name.to_owned(), value);
            }
            None => self.forget(name),
        }
    }

    /// Something else gives a variable its value.
    pub(crate) fn forget(&mut self, name: &str) {
        self.set.remove(name);
        self.unknown.insert(name.to_owned());
    }

    /// A variable of a text whose value is not known here, though one of its name may be there by itself.
    pub(crate) fn shadowed(&self, text: &str) -> Option<String> {
        let is_known = |name: &str| self.groups.iter().any(|group| group == name) || !self.unknown.contains(name);
        pieces(text).into_iter().find_map(|piece| match piece {
            Piece::Variable(name) if !is_known(name) => Some(name.to_owned()),
            _ => None,
        })
    }

    /// The text that a text with variables stands for in every request.
    pub(crate) fn constant(&self, text: &str) -> Option<String> {
        self.constant_within(text, 0)
    }

    fn constant_within(&self, text: &str, depth: usize) -> Option<String> {
        let mut out = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Variable(name) => out.push_str(&self.constant_variable(name, depth)?),
            }
        }
        (out.len() <= MAX_BYTES).then_some(out)
    }

    fn constant_variable(&self, name: &str, depth: usize) -> Option<String> {
        if self.unknown.contains(name) {
            return None;
        }
        match name {
            "scheme" => Some(if self.tls { "https" } else { "http" }.to_owned()).filter(|_| !self.has_trusted),
            "https" => Some(if self.tls { "on" } else { "" }.to_owned()),
            "server_port" => self.port.map(|port| port.to_string()),
            "server_name" => Some(self.server_name.clone()),
            "proxy_host" => self.proxy.as_ref().map(|(host, _)| host.clone()),
            "proxy_port" => self.proxy.as_ref().map(|(_, port)| port.to_string()),
            _ if depth < MAX_DEPTH => self.constant_within(self.set.get(name)?, depth + 1),
            _ => None,
        }
    }

    /// A header field's value as a native template.
    ///
    /// # Errors
    /// The variable that has no counterpart.
    pub(crate) fn field(&self, text: &str) -> Result<String, String> {
        self.template(text, Use::Field, 0)
    }

    fn template(&self, text: &str, of: Use, depth: usize) -> Result<String, String> {
        let mut out = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(&literal(text, of)),
                Piece::Variable(name) => out.push_str(&self.variable(name, of, depth)?),
            }
        }
        match out.len() <= MAX_BYTES {
            true => Ok(out),
            false => Err("it becomes too long".to_owned()),
        }
    }

    fn variable(&self, name: &str, of: Use, depth: usize) -> Result<String, String> {
        if let Some(text) = self.constant_variable(name, depth).filter(|_| !matches!(name, "scheme")) {
            return Ok(literal(&text, of));
        }
        if let Some(text) = self.set.get(name).filter(|_| depth < MAX_DEPTH) {
            return self.template(text, of, depth + 1);
        }
        if self.groups.iter().any(|group| group == name) {
            return Ok(format!("{{{name}}}"));
        }
        if self.unknown.contains(name) {
            return Err(format!("`${name}` has no counterpart: the configuration defines it"));
        }
        let native = match name {
            "remote_addr" => "client.address",
            "host" => "host",
            "http_host" => "authority",
            "scheme" => "scheme",
            "request_id" => "request.id",
            "request_method" => "method",
            "uri" | "document_uri" => "path",
            "request_uri" if of != Use::Target => "uri",
            "args" | "query_string" if of != Use::Target => "query",
            "ssl_protocol" => "tls.version",
            "ssl_cipher" => "tls.cipher",
            "ssl_server_name" => "tls.server_name",
            "ssl_client_s_dn" => "certificate.subject",
            "ssl_client_i_dn" => "certificate.issuer",
            "ssl_client_serial" => "certificate.serial",
            _ => return self.named(name),
        };
        Ok(format!("{{{native}}}"))
    }

    /// A variable with a name of the user's.
    fn named(&self, name: &str) -> Result<String, String> {
        let unknown = || format!("`${name}` has no counterpart");
        if let Some(argument) = name.strip_prefix("arg_") {
            return Ok(format!("{{query.{argument}}}"));
        }
        if let Some(cookie) = name.strip_prefix("cookie_") {
            return Ok(format!("{{cookie.{cookie}}}"));
        }
        let Some(field) = name.strip_prefix("http_") else { return Err(unknown()) };
        let field = field.replace('_', "-");
        let is_forwarded = field.starts_with("x-forwarded-") || matches!(field.as_str(), "x-real-ip" | "forwarded");
        match is_forwarded && !self.has_trusted {
            true => {
                Err(format!("`${name}` is what any client may send; name the proxies in front in `trusted_proxies`"))
            }
            false => Ok(format!("{{header.{field}}}")),
        }
    }

    /// The target of a redirect, and what becomes of the query.
    ///
    /// # Errors
    /// What cannot be said.
    pub(crate) fn target(&self, text: &str) -> Result<(String, Query), String> {
        let (text, query) = query_of(text);
        let mut text = self.expanded(&text)?;
        if let Some(rest) = text.strip_prefix("${scheme}://") {
            if self.has_trusted {
                return Err("`$scheme` at the beginning of a URL, behind proxies that are believed".to_owned());
            }
            text = format!("{}://{rest}", if self.tls { "https" } else { "http" });
        }
        if text.chars().any(|c| c.is_control() && c != REST) {
            return Err("a control character in it".to_owned());
        }
        let target = self.template(&text, Use::Target, 0)?;
        Ok((target, query))
    }

    /// The page that somebody is sent to who has not signed in: a path of this host or a URL, and in its query where to come back to.
    ///
    /// # Errors
    /// What cannot be said.
    pub(crate) fn page(&self, text: &str) -> Result<String, String> {
        let text = self.expanded(text)?;
        let (place, query) = text.split_once('?').unwrap_or((&text, ""));
        let scheme = if self.tls { "https" } else { "http" };
        let schemes = ["${scheme}", if self.has_trusted { "${scheme}" } else { scheme }];
        let own = schemes.iter().flat_map(|scheme| HOSTS.map(|host| format!("{scheme}://{host}")));
        let own = own.filter_map(|own| place.strip_prefix(own.as_str())).find(|path| path.starts_with('/'));
        let place = match self.target(own.unwrap_or(place))? {
            (place, Query::Drop) => place,
            (_, Query::Keep) => return Err("the request's path in that of another page".to_owned()),
        };
        if query.is_empty() {
            return Ok(place);
        }
        let query = HOSTS.iter().fold(query.to_owned(), |query, host| {
            query.replace(&format!("${{scheme}}://{host}${{request_uri}}"), &WHOLE_URL.to_string())
        });
        let parts: Result<Vec<_>, _> = query.split(WHOLE_URL).map(|part| self.template(part, Use::Query, 0)).collect();
        Ok(format!("{place}?{}", parts?.join("{url}")))
    }

    /// The text with what `set` gave a name put in.
    pub(crate) fn expanded(&self, text: &str) -> Result<String, String> {
        let mut text = text.to_owned();
        for _ in 0..MAX_DEPTH {
            let mut out = String::new();
            let mut is_changed = false;
            for piece in pieces(&text) {
                match piece {
                    Piece::Text(text) => out.push_str(text),
                    Piece::Variable(name) => match self.set.get(name) {
                        Some(value) => {
                            is_changed = true;
                            out.push_str(value);
                        }
                        None => out.push_str(&format!("${{{name}}}")),
                    },
                }
            }
            if out.len() > MAX_BYTES {
                return Err("it becomes too long".to_owned());
            }
            if !is_changed {
                return Ok(out);
            }
            text = out;
        }
        Err("variables that stand for each other".to_owned())
    }
}

/// The text without what stands for the query of the request at its end. `$request_uri` brings the query with it, `$uri` does not.
fn query_of(text: &str) -> (String, Query) {
    for end in ["$is_args$args", "?$args", "$is_args$query_string", "?$query_string", "${is_args}${args}"] {
        if let Some(text) = text.strip_suffix(end) {
            return (text.to_owned(), Query::Keep);
        }
    }
    match pieces(text).last() {
        Some(Piece::Variable("request_uri")) => {
            let at = text.rfind('$').unwrap_or(0);
            (format!("{}$uri", text.get(..at).unwrap_or_default()), Query::Keep)
        }
        _ => (text.to_owned(), Query::Drop),
    }
}

/// Text as it stands in a template.
fn literal(text: &str, of: Use) -> String {
    match of {
        Use::Field => text.replace('{', "{{").replace('}', "}}"),
        Use::Target | Use::Query => {
            let keep = |c: char| c.is_ascii_graphic() && !"{}<>\"\\^`|".contains(c) || c == REST;
            let mut out = String::new();
            for c in text.chars() {
                match keep(c) {
                    true => out.push(c),
                    false => c.to_string().bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}"))),
                }
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values {
            tls: true,
            port: Some(8443),
            server_name: "www.example.com".to_owned(),
            set: [("a", "x$b"), ("b", "y"), ("c", "$d"), ("d", "$c"), ("u", "$uri")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            groups: vec!["1".to_owned(), "id".to_owned()],
            proxy: Some(("app".to_owned(), 80)),
            has_trusted: false,
            unknown: ["arg_mapped", "mapped"].map(str::to_owned).into(),
        }
    }

    #[test]
    fn what_is_set_counts_where_it_stands() {
        let mut values = Values { unknown: ["a", "b", "arg_k"].map(str::to_owned).into(), ..Values::default() };
        values.assign("b", "1");
        values.assign("a", "x$b");
        values.assign("b", "2");
        assert_eq!(values.constant("$a$b").as_deref(), Some("x12"));
        for text in ["$arg_k", "$1", "$nothing$arg_k"] {
            values.assign("a", text);
            assert!(values.constant("$a").is_none() && values.field("$a").is_err(), "{text}");
        }
        assert_eq!(values.shadowed("$host$arg_k").as_deref(), Some("arg_k"));
        values.assign("arg_k", "y");
        assert_eq!(values.field("$arg_k").as_deref(), Ok("y"));
    }

    #[test]
    fn fields() {
        for (text, expected) in [
            ("plain", Ok("plain")),
            ("$remote_addr", Ok("{client.address}")),
            ("a${host}b", Ok("a{host}b")),
            ("{\"a\": \"$1\"}", Ok("{{\"a\": \"{1}\"}}")),
            ("$http_x_tenant/$arg_q", Ok("{header.x-tenant}/{query.q}")),
            ("$server_name:$server_port", Ok("www.example.com:8443")),
            ("$a $id", Ok("xy {id}")),
            ("$u", Ok("{path}")),
            ("costs 5$ and $", Ok("costs 5$ and $")),
            ("$proxy_host", Ok("app")),
            ("$scheme", Ok("{scheme}")),
            ("$http_x_forwarded_for", Err("any client may send")),
            ("$upstream_addr", Err("`$upstream_addr` has no counterpart")),
            ("$c", Err("has no counterpart")),
            ("$arg_mapped", Err("the configuration defines it")),
            ("$mapped", Err("the configuration defines it")),
        ] {
            let found = values().field(text);
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{text}"),
                Err(part) => assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn targets() {
        use Query::{Drop, Keep};
        for (text, expected, query) in [
            ("https://$host$request_uri", "https://{host}{path}", Keep),
            ("https://www.example.com$uri", "https://www.example.com{path}", Drop),
            ("$scheme://new.example.com$request_uri", "https://new.example.com{path}", Keep),
            ("/new/$1", "/new/{1}", Drop),
            ("/new/$1$is_args$args", "/new/{1}", Keep),
            ("/new?x=1&a=$arg_a", "/new?x=1&a={query.a}", Drop),
            ("/a b/é", "/a%20b/%C3%A9", Drop),
            ("https://$server_name:$server_port/x", "https://www.example.com:8443/x", Drop),
            ("/x/$u", "/x/{path}", Drop),
        ] {
            assert_eq!(values().target(text), Ok((expected.to_owned(), query)), "{text}");
        }
        assert!(values().target("/x/$unknown").is_err());
        assert!(values().target("/$c").is_err());
    }

    #[test]
    fn constants() {
        for (text, expected) in
            [("x", Some("x")), ("$a:1", Some("xy:1")), ("$scheme", Some("https")), ("$host", None), ("$c", None)]
        {
            assert_eq!(values().constant(text).as_deref(), expected, "{text}");
        }
    }
}
