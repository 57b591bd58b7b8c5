//! What a criterion of an ACL asks: a table of those whose meaning is carried exactly, with the arguments, converters, flags and values that are.
//!
//! Whatever is not in it is not understood, and what a rule decides by that is closed: nothing here may be taken for something near to it.

use super::acl::{Counted, MAX_VALUES, Rate, Reader, Test, Users, joined};
use super::items::{BEFORE, is_within_items};
use crate::addresses::{MAPPED_NETWORK, network};
use crate::cells::{Language, canonical, canonical_start};
use crate::conditions::{Match, Of, When};
use crate::expressions::{Subject, literal, native};
use crate::stripped::{PROTOCOL, is_stripped};

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Is,
    Begins,
    Ends,
    Holds,
    Dir,
    Domain,
    Regex,
    Found,
    /// As what `-m` says of a type that is no text.
    Typed(Type),
}

/// Types of `-m` beside texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Address,
    Number,
    Truth,
}

/// Criteria of texts, whose names may end in how they are compared.
const TEXTS: [&str; 14] = [
    "path",
    "url",
    "pathq",
    "capture.req.uri",
    "hdr",
    "req.hdr",
    "req.fhdr",
    "cook",
    "req.cook",
    "url_param",
    "urlp",
    "req.ssl_sni",
    "req_ssl_sni",
    "ssl_fc_sni",
];

/// A criterion as it is written.
pub(crate) struct Criterion {
    /// Without what says how it compares.
    name: String,
    argument: String,
    converters: Vec<String>,
    how: How,
    /// `-m` says that it is compared as a text.
    is_text: bool,
    ignores_case: bool,
    values: Vec<String>,
    /// Values came from a file, which may be empty.
    is_listed: bool,
    shown: String,
}

impl Criterion {
    /// Reads a criterion, flags, values.
    ///
    /// # Errors
    /// What cannot be carried.
    pub(crate) fn read(words: &[String], reader: &mut Reader<'_>) -> Result<Criterion, String> {
        let (shown, rest) = words.split_first().ok_or("an empty test")?;
        let mut pieces = pieces(shown).into_iter();
        let fetch = pieces.next().unwrap_or_default();
        let (name, argument) = match fetch.split_once('(') {
            Some((name, argument)) => (name, argument.strip_suffix(')').ok_or("a parenthesis is missing")?.trim()),
            None => (fetch, ""),
        };
        let (name, how) = named(name);
        let converters: Vec<String> = pieces.map(str::to_owned).collect();
        let mut out = Criterion {
            name: name.to_owned(),
            argument: argument.to_owned(),
            converters,
            how,
            is_text: false,
            ignores_case: false,
            values: Vec::new(),
            is_listed: false,
            shown: shown.clone(),
        };
        out.read_values(rest, reader)?;
        Ok(out)
    }

    /// Flags stand before all values.
    fn read_values(&mut self, words: &[String], reader: &mut Reader<'_>) -> Result<(), String> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut next = || words.next().map_or("", String::as_str);
            match word.as_str() {
                "-i" => self.ignores_case = true,
                "-n" => {}
                "-m" => {
                    self.how = matching(next())?;
                    self.is_text = !matches!(self.how, How::Typed(_));
                }
                "-f" => {
                    self.is_listed = true;
                    self.values.extend(reader.listed(next())?);
                }
                "--" => break,
                flag if flag.starts_with('-') => return Err(format!("the flag `{flag}` is not understood")),
                value => {
                    self.values.push(value.to_owned());
                    break;
                }
            }
        }
        self.values.extend(words.cloned());
        if self.values.iter().any(String::is_empty) {
            return Err("an empty value".to_owned());
        }
        if self.values.len() > MAX_VALUES {
            return Err(format!("more than {MAX_VALUES} values"));
        }
        Ok(())
    }

    /// What is about servers being up: whether it holds when all are. None if it is about something else.
    pub(crate) fn of_health(&self) -> Option<bool> {
        if !matches!(self.name.as_str(), "nbsrv" | "srv_is_up" | "connslots" | "be_conn_free" | "srv_conn_free") {
            return None;
        }
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        match values.as_slice() {
            _ if !self.converters.is_empty() => None,
            [] | ["ge", "1"] | ["gt", "0"] => Some(true),
            ["lt", "1"] | ["le", "0"] | ["eq", "0"] | ["0"] => Some(false),
            // How many there are, too, would decide.
            _ => None,
        }
    }

    fn unknown<T>(&self) -> Result<T, String> {
        Err(format!("`{}` is not understood", self.shown))
    }

    /// What it asks.
    ///
    /// # Errors
    /// Why that is not carried.
    pub(crate) fn test(&self) -> Result<Test, String> {
        // An argument with a comma says which of several values, or how it is parted.
        if self.argument.contains(',') && !self.name.starts_with("sc") {
            return self.unknown();
        }
        if self.values.is_empty() && self.is_listed {
            return Ok(Test::Constant(false));
        }
        match (self.name.as_str(), self.argument.as_str()) {
            ("path", "") => self.paths().map(Test::Paths),
            // The query stands behind the path.
            ("pathq", "") if self.how == How::Begins => self.paths().map(Test::Paths),
            ("hdr" | "req.hdr" | "req.fhdr", name) if name.eq_ignore_ascii_case("host") => self.hosts(),
            ("hdr" | "req.hdr", name) if !name.is_empty() => self.field(name, true),
            ("req.fhdr", name) if !name.is_empty() => self.field(name, false),
            ("cook" | "req.cook", name) if !name.is_empty() => self.of(Of::Cookie, name, false),
            ("url_param" | "urlp", _) => {
                Err("HAProxy ends a parameter at `;`, too, and compares it as it was sent".to_owned())
            }
            ("req.ssl_sni" | "req_ssl_sni" | "ssl_fc_sni", "") => self.server_names(),
            ("method", "") => self.methods(),
            ("src", "") => self.clients(),
            ("hdr_cnt" | "req.hdr_cnt", name) if !name.is_empty() => self.counted(name),
            ("hdr_val" | "req.hdr_val", name) if name.eq_ignore_ascii_case("content-length") => self.body(),
            ("req.body_size" | "req.body_len", "") => self.body(),
            ("ssl_fc", "") => self.truth(Test::Tls),
            ("ssl_c_used", "") => self.truth(Test::Certificate),
            // Whom it is not 0 for ends in the handshake.
            ("ssl_c_verify", "") if self.is_plain() && self.values == ["0"] => Ok(Test::Constant(true)),
            ("dst_port", "") => self.ports(),
            ("http_auth", list) if !list.is_empty() && self.values.is_empty() => {
                self.truth(Test::User(Users { list: list.to_owned(), groups: Vec::new() }))
            }
            ("http_auth_group", list) if !list.is_empty() && !self.values.is_empty() && self.is_plain() => {
                Ok(Test::User(Users { list: list.to_owned(), groups: self.values.clone() }))
            }
            ("always_true", "") if self.values.is_empty() => self.truth(Test::Constant(true)),
            ("always_false", "") if self.values.is_empty() => self.truth(Test::Constant(false)),
            ("req_proto_http" | "req.proto_http", "") if self.values.is_empty() => self.truth(Test::Requests),
            (name, _) if name.starts_with("sc") || name.starts_with("src_") => self.counter(),
            _ => self.unknown(),
        }
    }

    /// Without converters, and compared as criteria of its kind are by themselves.
    fn is_plain(&self) -> bool {
        self.converters.is_empty() && !self.ignores_case && self.how == How::Is && !self.is_text
    }

    /// The same, or with `-m` and its own type.
    fn is_of(&self, kind: Type) -> bool {
        self.converters.is_empty() && (self.how == How::Typed(kind) || (self.how == How::Is && !self.is_text))
    }

    /// What is true or not.
    fn truth(&self, test: Test) -> Result<Test, String> {
        let is_true = self.values.is_empty() || self.values == ["1"] || self.values == ["true"];
        if self.is_of(Type::Truth) && is_true { Ok(test) } else { self.unknown() }
    }

    fn clients(&self) -> Result<Test, String> {
        if !self.is_of(Type::Address) {
            return self.unknown();
        }
        let networks: Option<Vec<_>> = self.values.iter().map(|value| network(value)).collect();
        let mut networks = networks.filter(|networks| !networks.is_empty()).ok_or("`src` of what is no address")?;
        // HAProxy compares an IPv4 client with networks of IPv6 by its mapped address.
        if let Some(mapped) = network(MAPPED_NETWORK)
            && networks.iter().any(|network| network.contains(&mapped))
        {
            networks.extend(network("0.0.0.0/0"));
        }
        Ok(Test::Like(vec![When::of_clients(networks)]))
    }

    fn ports(&self) -> Result<Test, String> {
        let values = self.values.strip_prefix(&["eq".to_owned()]).unwrap_or(&self.values);
        let ports: Option<Vec<u16>> = values.iter().map(|value| value.parse().ok()).collect();
        let ports = ports.filter(|ports| !ports.is_empty() && self.is_of(Type::Number));
        ports.map_or_else(|| self.unknown(), |ports| Ok(Test::Ports(ports)))
    }

    /// A counter of a stick table that is a rate.
    fn counter(&self) -> Result<Test, String> {
        let (slot, kind) = match self.name.strip_prefix("src_") {
            Some(kind) => (None, kind),
            None => {
                let rest = self.name.strip_prefix("sc").unwrap_or_default();
                let digit: String = rest.chars().take_while(char::is_ascii_digit).collect();
                let kind = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('_');
                let first = self.argument.split(',').next().unwrap_or_default().trim();
                (Some(if digit.is_empty() { first.to_owned() } else { digit }), kind)
            }
        };
        let mut arguments = self.argument.split(',').map(str::trim).filter(|word| !word.is_empty());
        let table = arguments.find(|word| !word.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned);
        let of = match kind {
            "http_req_rate" => Counted::Requests,
            "conn_rate" | "sess_rate" => Counted::Connections,
            "conn_cur" => Counted::Open,
            _ => return Err(format!("`{}` is no counter that is carried", self.shown)),
        };
        let over = over(&self.values).filter(|_| self.is_of(Type::Number));
        over.map_or_else(|| self.unknown(), |over| Ok(Test::Rate(Rate { of, slot, table, over })))
    }

    fn methods(&self) -> Result<Test, String> {
        if !self.is_plain() || self.values.is_empty() {
            return self.unknown();
        }
        match () {
            () if self.values.iter().all(|method| crate::conditions::is_method(method)) => {
                Ok(Test::Like(vec![When::of_methods(self.values.clone())]))
            }
            // Requests with these reach no route.
            () if self.values.iter().all(|method| matches!(method.as_str(), "CONNECT" | "TRACE")) => {
                Ok(Test::Constant(false))
            }
            () => self.unknown(),
        }
    }

    fn body(&self) -> Result<Test, String> {
        let over = over(&self.values).filter(|_| self.is_of(Type::Number));
        over.map_or_else(|| self.unknown(), |over| Ok(Test::BodyOver(over)))
    }

    fn counted(&self, name: &str) -> Result<Test, String> {
        known_field(name)?;
        let like = |wanted: Match| Ok(Test::Like(vec![When::value(Of::Header, name, wanted)]));
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        match values.as_slice() {
            _ if !self.is_of(Type::Number) => self.unknown(),
            ["0"] | ["eq", "0"] | ["lt", "1"] | ["le", "0"] => like(Match::Absent),
            ["gt", "0"] | ["ge", "1"] => like(Match::Present),
            _ => self.unknown(),
        }
    }

    /// Converters of a text that change nothing of how it is compared but its case; whether that is ignored then.
    fn is_any_case(&self, others: &[&str]) -> Result<bool, String> {
        let mut is_lower = false;
        for converter in &self.converters {
            match converter.as_str() {
                "lower" => is_lower = true,
                other if others.contains(&other) => {}
                other => return Err(format!("`{other}` of a value is not understood")),
            }
        }
        // What was made lower is like a value in any case only if that is lower, too.
        if is_lower && self.values.iter().any(|value| value.bytes().any(|byte| byte.is_ascii_uppercase())) {
            return Err("`lower` of a value that is compared with capitals".to_owned());
        }
        Ok(is_lower || self.ignores_case)
    }

    fn paths(&self) -> Result<Vec<Language>, String> {
        let any_case = self.is_any_case(&["url_dec"])?;
        let is_decoded = self.converters.iter().any(|converter| converter == "url_dec");
        if is_decoded && !self.values.iter().all(|value| value.bytes().all(is_never_escaped)) {
            return Err("`url_dec` of a path that is compared with what may be escaped".to_owned());
        }
        let flags = if any_case { "(?i)" } else { "" };
        let expression = |text: String| Language::Expression { text: format!("{flags}{text}"), except: Vec::new() };
        if self.values.is_empty() {
            return self.unknown();
        }
        let mut out = Vec::new();
        for value in &self.values {
            // Others stand in paths only escaped, or are escaped here.
            if self.how != How::Regex && !value.bytes().all(stands_in_path) {
                return Err(format!("`{value}` has characters that are escaped in a path here"));
            }
            let language = match self.how {
                How::Is if !any_case => match canonical(value).filter(|path| path == value && path.starts_with('/')) {
                    Some(path) => Language::Exact(path),
                    // No path of a request is so.
                    None => continue,
                },
                How::Begins if value == "/" => Language::Prefix(value.clone()),
                How::Begins if !any_case => {
                    match canonical_start(value).filter(|start| start == value && start.starts_with('/')) {
                        Some(start) => Language::Prefix(start),
                        None => continue,
                    }
                }
                How::Is => expression(literal(value)),
                How::Begins => expression(format!("{}.*", literal(value))),
                How::Ends => expression(format!(".*{}", literal(value))),
                How::Holds => expression(format!(".*{}.*", literal(value))),
                How::Dir => expression(format!(".*/{}(?:/.*)?", literal(value.trim_matches('/')))),
                How::Regex if !is_decoded => {
                    Language::Expression { text: native(value, any_case, Subject::Path)?, except: Vec::new() }
                }
                How::Regex | How::Found | How::Domain | How::Typed(_) => return self.unknown(),
            };
            out.push(language);
        }
        Ok(joined(out))
    }

    /// The host of a request: whole names and what is below one as hosts of routes, what else there is as a condition on it.
    fn hosts(&self) -> Result<Test, String> {
        // What these leave is the name, by which routes go.
        const WITHOUT_PORT: [&str; 3] = ["host_only", "field(1,:)", "word(1,:)"];
        self.is_any_case(&WITHOUT_PORT)?;
        let is_name = self.converters.iter().any(|converter| WITHOUT_PORT.contains(&converter.as_str()));
        let port = if is_name { "(?::[0-9]*)?" } else { "" };
        // Hosts are the same in any case.
        let regex = |text: String| Match::Regex(format!("(?i){text}"));
        if self.values.is_empty() {
            return match self.how {
                How::Found => Ok(Test::Like(vec![When::value(Of::Header, "host", Match::Present)])),
                _ => self.unknown(),
            };
        }
        let (mut names, mut matches) = (Vec::new(), Vec::new());
        for value in &self.values {
            visible(value)?;
            self.has_no_capitals(value)?;
            match self.how {
                How::Is if !is_name && value.contains(':') && crate::addresses::is_authority(value) => {
                    matches.push(regex(literal(value)));
                }
                How::Is => names.push(host_of(value)?),
                How::Ends if value.starts_with('.') => names.push(format!("*{}", below(value)?)),
                How::Begins => matches.push(regex(format!("{}.*", literal(value)))),
                How::Ends => matches.push(regex(format!(".*{}{port}", literal(value)))),
                How::Holds if !is_name => matches.push(regex(format!(".*{}.*", literal(value)))),
                How::Domain => {
                    let word = value.trim_matches(['/', '?', '.', ':']);
                    if word.is_empty() {
                        return self.unknown();
                    }
                    matches.push(regex(format!("(?:.*[/?.:])?{}(?:[/?.:].*)?", literal(word))));
                }
                How::Regex if !is_name => matches.push(Match::Regex(native(value, true, Subject::Value)?)),
                How::Holds | How::Regex | How::Dir | How::Found | How::Typed(_) => return self.unknown(),
            }
        }
        let is_whole = |name: &String| !name.starts_with('*');
        match (names.is_empty(), matches.is_empty()) {
            // Beside one with its port those without are such texts, too.
            (false, false) if !is_name && names.iter().all(is_whole) => {
                let names = names.iter().map(|name| regex(literal(name)));
                Ok(Test::Like(vec![When::value_of(Of::Header, "host", names.chain(matches).collect())]))
            }
            (false, true) => Ok(Test::Hosts(names)),
            (true, false) => Ok(Test::Like(vec![When::value_of(Of::Header, "host", matches)])),
            _ => Err("hosts of which some end so and some are below one".to_owned()),
        }
    }

    /// Names are the same in any case here: what HAProxy finds only where a client writes capitals would be found in every request.
    fn has_no_capitals(&self, value: &str) -> Result<(), String> {
        match !self.ignores_case && has_capitals(value, self.how == How::Regex) {
            true => Err(format!("`{value}` has capitals and no `-i`, and hosts have none here")),
            false => Ok(()),
        }
    }

    /// The name that a ClientHello asks for.
    fn server_names(&self) -> Result<Test, String> {
        self.is_any_case(&[])?;
        let mut names = Vec::new();
        for value in &self.values {
            self.has_no_capitals(value)?;
            match self.how {
                How::Is => names.push(host_of(value)?),
                How::Ends if value.starts_with('.') => names.push(format!("*{}", below(value)?)),
                _ => return Err("names are compared as a whole, or by an end that begins with a dot".to_owned()),
            }
        }
        if names.is_empty() {
            return self.unknown();
        }
        let whens = vec![When::of_server_names(names)];
        Ok(if self.name == "ssl_fc_sni" { Test::Like(whens) } else { Test::Hello(whens) })
    }

    fn field(&self, name: &str, is_list: bool) -> Result<Test, String> {
        if name.eq_ignore_ascii_case(PROTOCOL) && matches!(self.how, How::Is) && !self.values.is_empty() {
            return match self.of(Of::Header, PROTOCOL, is_list)? {
                Test::Like(whens) if whens.len() == 1 => {
                    Ok(whens.into_iter().next().map_or(Test::Constant(false), Test::Said))
                }
                _ => self.unknown(),
            };
        }
        known_field(name)?;
        self.of(Of::Header, name, is_list)
    }

    /// A value of a field or cookie; `is_list`: each item between commas is one.
    fn of(&self, of: Of, name: &str, is_list: bool) -> Result<Test, String> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !name.bytes().all(is_token) {
            return self.unknown();
        }
        let any_case = self.is_any_case(&[])?;
        if self.values.is_empty() {
            return match self.how {
                How::Found => Ok(Test::Like(vec![When::value(of, name, Match::Present)])),
                _ => self.unknown(),
            };
        }
        let mut out = Vec::new();
        for value in &self.values {
            let wanted = match is_list {
                true => self.item(value, any_case)?,
                false => self.whole(value, any_case)?,
            };
            if !out.contains(&wanted) {
                out.push(wanted);
            }
        }
        Ok(Test::Like(vec![When::value_of(of, name, out)]))
    }

    /// What a whole value is.
    fn whole(&self, value: &str, any_case: bool) -> Result<Match, String> {
        visible(value)?;
        let flags = if any_case { "(?i)" } else { "" };
        let regex = |text: String| Match::Regex(format!("{flags}{text}"));
        Ok(match self.how {
            How::Is if !any_case => Match::Exact(value.to_owned()),
            How::Begins if !any_case => Match::Prefix(value.to_owned()),
            How::Is => regex(literal(value)),
            How::Begins => regex(format!("{}.*", literal(value))),
            How::Ends => regex(format!(".*{}", literal(value))),
            How::Holds => regex(format!(".*{}.*", literal(value))),
            How::Regex => Match::Regex(native(value, any_case, Subject::Value)?),
            How::Dir | How::Domain | How::Found | How::Typed(_) => return self.unknown(),
        })
    }

    /// What one of the items of a list is, which blanks around do not belong to.
    fn item(&self, value: &str, any_case: bool) -> Result<Match, String> {
        visible(value)?;
        if self.how != How::Regex && value.contains([',', '"', '\\']) {
            return Err("a value that is compared with more than an item of a list".to_owned());
        }
        let flags = if any_case { "(?i)" } else { "" };
        let text = literal(value);
        let matched = match self.how {
            How::Is => format!(r"(?:{BEFORE},)?[ \t]*{text}[ \t]*(?:,.*)?"),
            How::Begins => format!(r"(?:{BEFORE},)?[ \t]*{text}.*"),
            // A quote that does not end has all behind it.
            How::Ends => format!(r#"{BEFORE}{text}[ \t]*(?:,.*)?|{BEFORE}"(?:[^"\\]|\\.)*{text}[ \t]*"#),
            How::Holds => format!(".*{text}.*"),
            How::Regex => {
                let found = native(value, any_case, Subject::Value)?;
                if !is_within_items(&found) {
                    return Err("its expression may match more, or less, than an item of a list".to_owned());
                }
                return Ok(Match::Regex(found));
            }
            How::Dir | How::Domain | How::Found | How::Typed(_) => return self.unknown(),
        };
        Ok(Match::Regex(format!("{flags}{matched}")))
    }
}

/// A fetch with its arguments, and the converters behind it.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut out) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.extend(text.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    out.extend(text.get(from..));
    out
}

/// The criterion without what says how it compares.
fn named(name: &str) -> (&str, How) {
    let ends = [
        ("_beg", How::Begins),
        ("_end", How::Ends),
        ("_sub", How::Holds),
        ("_dir", How::Dir),
        ("_dom", How::Domain),
        ("_reg", How::Regex),
    ];
    let found = ends.iter().find_map(|(end, how)| Some((name.strip_suffix(end)?, *how)));
    found.filter(|(name, _)| TEXTS.contains(name)).unwrap_or((name, How::Is))
}

fn matching(word: &str) -> Result<How, String> {
    Ok(match word {
        "str" => How::Is,
        "beg" => How::Begins,
        "end" => How::Ends,
        "sub" => How::Holds,
        "dir" => How::Dir,
        "dom" => How::Domain,
        "reg" => How::Regex,
        "found" => How::Found,
        "ip" => How::Typed(Type::Address),
        "int" => How::Typed(Type::Number),
        "bool" => How::Typed(Type::Truth),
        other => return Err(format!("`-m {other}` is not understood")),
    })
}

/// The number that `gt N` or `ge N` must be beyond.
fn over(values: &[String]) -> Option<u64> {
    match values {
        [word, number] if word == "gt" => number.parse().ok(),
        [word, number] if word == "ge" => number.parse::<u64>().ok()?.checked_sub(1),
        _ => None,
    }
}

/// Whether a byte of a path is never escaped in a canonical one, whoever escaped it.
fn is_never_escaped(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte)
}

/// Whether a byte stands in canonical paths as it is.
fn stands_in_path(byte: u8) -> bool {
    is_never_escaped(byte) || b"!$&'()*+,;=:@".contains(&byte)
}

/// Why nothing is decided by it.
pub(crate) const UNBELIEVED: &str = "`x-forwarded-proto` is removed before routes are chosen, unless a proxy of `trusted_proxies` sends it; nothing is decided by it";

/// Whether conditions can be on this field.
fn known_field(name: &str) -> Result<(), String> {
    match is_stripped(name) {
        true => Err(UNBELIEVED.replace(PROTOCOL, name)),
        false if crate::header_fields::FRAMING.contains(&name) => Err(format!("`{name}` is of one connection")),
        false => Ok(()),
    }
}

fn visible(value: &str) -> Result<(), String> {
    match value.is_empty() || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || value.trim() != value {
        true => Err("a value that is not visible ASCII".to_owned()),
        false => Ok(()),
    }
}

/// Whether a text has capitals; an expression, apart from its escapes (`\S`) and from classes of all letters.
fn has_capitals(value: &str, is_expression: bool) -> bool {
    let value = match is_expression {
        true => value.replace("a-zA-Z", "").replace("A-Za-z", ""),
        false => value.to_owned(),
    };
    let mut is_escaped = false;
    value.bytes().any(|byte| {
        let is_behind = is_escaped;
        is_escaped = is_expression && byte == b'\\' && !is_behind;
        byte.is_ascii_uppercase() && !is_behind
    })
}

/// A whole host, without a port: those do not count here.
fn host_of(value: &str) -> Result<String, String> {
    let name = value.to_ascii_lowercase();
    if crate::addresses::is_host(&name) { Ok(name) } else { Err(format!("`{value}` is no host")) }
}

/// What stands behind the `*` of a wildcard for all names that end so.
fn below(value: &str) -> Result<String, String> {
    Ok(format!(".{}", host_of(value.strip_prefix('.').unwrap_or(value))?))
}

#[cfg(test)]
mod tests;
