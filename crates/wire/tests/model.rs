//! Compares the request parser with a slow and simple model of the same rules, over requests put together from good and bad parts.
//!
//! The model works on lines and strings and shares no code with the parser. It does not say which problem it finds, as a
//! request may hold several: it says whether there is one.

use wire::http::http1::{Parsed, parse_request};
use wire::http::{BodyFraming, HeadLimits, RequestHead};

const LIMITS: HeadLimits = HeadLimits { head_bytes: 600, request_line_bytes: 60, fields: 5 };

/// What the model says of a request that it accepts.
#[derive(Debug, PartialEq)]
struct Model {
    method: String,
    target: String,
    authority: String,
    framing: BodyFraming,
    keep_alive: bool,
    expects_continue: bool,
    upgrade: Option<String>,
    fields: Vec<(String, String)>,
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// The model's decision on a whole head, given as text in which every character stands for one byte.
fn model(head: &str) -> Option<Model> {
    if head.len() > 2 * LIMITS.head_bytes || head.chars().count() > LIMITS.head_bytes {
        return None;
    }
    let head = head.strip_prefix("\r\n").unwrap_or(head);
    let lines: Vec<&str> = head.strip_suffix("\r\n\r\n")?.split("\r\n").collect();
    if lines.iter().any(|line| line.contains(['\r', '\n']) || line.is_empty()) || lines.len() > LIMITS.fields + 1 {
        return None;
    }
    let [method, target, version] = lines[0].split(' ').collect::<Vec<_>>()[..] else { return None };
    let old = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return None,
    };
    let known =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PURGE", "QUERY", "PRI"];
    if known.iter().any(|known| known.eq_ignore_ascii_case(method) && *known != method) {
        return None;
    }
    if !is_token(method) || method.len() > 32 || lines[0].chars().count() > LIMITS.request_line_bytes {
        return None;
    }
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in &lines[1..] {
        let (name, value) = line.split_once(':')?;
        let value = value.trim_matches([' ', '\t']);
        if !is_token(name) || value.chars().any(|c| (c < ' ' && c != '\t') || c == '\x7f') {
            return None;
        }
        fields.push((name.to_string(), value.to_string()));
    }
    let all = |wanted: &str| -> Vec<&str> {
        fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| &value[..]).collect()
    };
    let framing = model_framing(&all("content-length"), &all("transfer-encoding"), old)?;
    let expects_continue = match (all("expect")[..].to_vec(), framing) {
        (expect, _) if expect.is_empty() => false,
        (expect, _) if expect.len() > 1 || !expect[0].eq_ignore_ascii_case("100-continue") => return None,
        _ if old => false,
        (_, BodyFraming::None | BodyFraming::Length(0)) => return None,
        _ => true,
    };
    let options = items(&all("connection"));
    if !options.iter().all(|option| is_token(option)) {
        return None;
    }
    let has = |wanted: &str| options.iter().any(|option| option == wanted);
    let keep_alive = !has("close") && (!old || has("keep-alive"));
    let mut upgrade = None;
    if has("upgrade") && !old && !all("upgrade").is_empty() {
        let first = items(&all("upgrade")).first()?.clone();
        let (name, version) = first.split_once('/').unwrap_or((&first, "1"));
        if !is_token(name) || !is_token(version) {
            return None;
        }
        upgrade = Some(first);
    }
    let (target, authority) = model_target(method, target, &all("host"), old)?;
    if !authority.is_empty() && all("host") != [&authority[..]] {
        fields.retain(|(name, _)| !name.eq_ignore_ascii_case("host"));
        fields.push(("Host".into(), authority.clone()));
    }
    let method = method.into();
    Some(Model { method, target, authority, framing, keep_alive, expects_continue, upgrade, fields })
}

fn items(values: &[&str]) -> Vec<String> {
    let items = values.iter().flat_map(|value| value.split(','));
    items.map(|item| item.trim_matches([' ', '\t']).to_ascii_lowercase()).filter(|item| !item.is_empty()).collect()
}

fn model_framing(lengths: &[&str], codings: &[&str], old: bool) -> Option<BodyFraming> {
    match (lengths, codings) {
        ([], []) => Some(BodyFraming::None),
        ([length], []) => {
            let digits = !length.is_empty() && length.len() <= 18 && length.chars().all(|c| c.is_ascii_digit());
            Some(BodyFraming::Length(length.parse().ok().filter(|_| digits)?))
        }
        ([], [coding]) if !old && coding.eq_ignore_ascii_case("chunked") => Some(BodyFraming::Chunked),
        _ => None,
    }
}

/// The target and the authority that go on. Paths are taken from [`PATHS`], where the canonical form is written down.
fn model_target(method: &str, target: &str, hosts: &[&str], old: bool) -> Option<(String, String)> {
    let host = match hosts {
        [] if old => String::new(),
        [host] => model_authority(host)?,
        _ => return None,
    };
    if method == "CONNECT" {
        let authority = model_authority(target)?;
        return authority.contains(':').then_some((String::new(), authority));
    }
    if target == "*" {
        return (method == "OPTIONS").then_some(("*".into(), host));
    }
    let lower = target.to_ascii_lowercase();
    let Some(rest) = lower.strip_prefix("http://").or(lower.strip_prefix("https://")) else {
        return Some((model_path(target)?, host));
    };
    let path_at = target.len() - rest.len() + rest.find(['/', '?']).unwrap_or(rest.len());
    let authority = model_authority(&target[target.len() - rest.len()..path_at])?;
    let target = match &target[path_at..] {
        "" if method == "OPTIONS" => "*".into(),
        path if path.starts_with('/') => model_path(path)?,
        query => model_path(&format!("/{query}"))?,
    };
    Some((target, authority))
}

fn model_path(path_and_query: &str) -> Option<String> {
    let (path, query) = path_and_query.find('?').map_or((path_and_query, ""), |at| path_and_query.split_at(at));
    let canonical = PATHS.iter().find(|(sent, _)| *sent == path)?.1?;
    let query = QUERIES.iter().find(|(sent, _)| *sent == query)?.1?;
    Some(format!("{canonical}{query}"))
}

fn model_authority(authority: &str) -> Option<String> {
    AUTHORITIES.iter().find(|(sent, _)| *sent == authority)?.1.map(str::to_string)
}

const METHODS: [&str; 10] = ["GET", "GET", "POST", "HEAD", "OPTIONS", "CONNECT", "get", "G@T", "", "\u{16}\u{3}"];
const VERSIONS: [&str; 8] =
    ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.0", "HTTP/2.0", "http/1.1", "HTTP/1.1 "];
const PATHS: [(&str, Option<&str>); 14] = [
    ("/", Some("/")),
    ("/a/b", Some("/a/b")),
    ("//a;b/", Some("//a;b/")),
    ("/%41%2f", Some("/A%2F")),
    ("/%c3%a9", Some("/%C3%A9")),
    ("/../a", None),
    ("/%2e", None),
    ("/%00", None),
    ("/\u{e9}", None),
    ("/a|b[0]^{x}", Some("/a%7Cb%5B0%5D%5E%7Bx%7D")),
    ("/a\\b", None),
    ("/a#b", None),
    ("a", None),
    ("", None),
];
const QUERIES: [(&str, Option<&str>); 7] = [
    ("", Some("")),
    ("", Some("")),
    ("?", Some("?")),
    ("?a=%&b=[]", Some("?a=%&b=%5B%5D")),
    ("?\\|\u{e9}", Some("?%5C%7C%E9")),
    ("?a?b#", None),
    ("?\u{7f}", None),
];
const AUTHORITIES: [(&str, Option<&str>); 10] = [
    ("a.example", Some("a.example")),
    ("A.Example:80", Some("a.example:80")),
    ("b.", Some("b")),
    ("[::0:1]:8443", Some("[::1]:8443")),
    ("1.2.3.4:1", Some("1.2.3.4:1")),
    ("", None),
    ("u@a", None),
    ("a:0", None),
    ("a..b", None),
    ("a b", None),
];
const FIELDS: [&str; 36] = [
    "Accept: */*",
    "X:",
    "X-Long: 0123456789 0123456789 0123456789 0123456789 0123456789",
    "X:\t\u{e9} \u{80}\tx \t",
    "x~!: y",
    "Content-Length: 5",
    "content-length:0",
    "Content-Length: 5",
    "Content-Length: +5",
    "Content-Length: 5, 5",
    "Content-Length: 9999999999999999999",
    "Transfer-Encoding: chunked",
    "TRANSFER-ENCODING: Chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked;x",
    "Expect: 100-continue",
    "Expect: 100-Continue",
    "Expect: 200",
    "Connection: close",
    "Connection: keep-alive, Upgrade",
    "Connection: ,\tupgrade ,",
    "Connection: a b",
    "Upgrade: websocket",
    "Upgrade: h2c, x",
    "Upgrade: TLS/1.0",
    "Upgrade: a b",
    "Upgrade:",
    "A_B: c",
    "A : b",
    " A: b",
    ": b",
    "A",
    "A: b\nC: d",
    "A: b\rC: d",
    "A: \0",
    "A: \x7f",
];

fn pick<T: Copy>(random: &mut fastrand::Rng, from: &[T]) -> T {
    from[random.usize(0..from.len())]
}

/// A request from parts; most parts are good, so that many requests are.
fn request(random: &mut fastrand::Rng) -> String {
    let good_half = |random: &mut fastrand::Rng, len: usize| {
        if random.u8(0..8) == 0 { random.usize(0..len) } else { random.usize(0..len.div_ceil(2)) }
    };
    let path = PATHS[good_half(random, PATHS.len())].0.to_string() + QUERIES[good_half(random, QUERIES.len())].0;
    let authority = AUTHORITIES[good_half(random, AUTHORITIES.len())].0;
    let target = match random.u8(0..8) {
        0 => authority.to_string(),
        1 => "*".to_string(),
        2 => format!("http://{authority}"),
        3 if path.starts_with(['/', '?']) => format!("HTTPS://{authority}{path}"),
        _ => path,
    };
    let method = METHODS[good_half(random, METHODS.len())];
    let version = VERSIONS[good_half(random, VERSIONS.len())];
    let mut text = format!("{method} {target} {version}\r\n");
    if random.u8(0..10) == 0 {
        text.insert_str(0, pick(random, &["\r\n", "\r\n\r\n", "\n", " "]));
    }
    for _ in 0..pick(random, &[1, 1, 1, 1, 1, 1, 0, 2]) {
        text += &format!("Host: {}\r\n", AUTHORITIES[good_half(random, AUTHORITIES.len())].0);
    }
    for _ in 0..random.usize(0..=3) {
        let good = &FIELDS[..8];
        let field = if random.bool() { pick(random, good) } else { pick(random, &FIELDS) };
        text += &format!("{field}{}", pick(random, &["\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r\n\r\n"]));
    }
    text + "\r\n"
}

#[test]
fn the_parser_agrees_with_the_model() {
    let mut random = fastrand::Rng::with_seed(9112);
    let (mut accepted, mut rejected) = (0, 0);
    for _ in 0..60_000 {
        let text = request(&mut random);
        let bytes: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let mut head = RequestHead::default();
        match parse_request(&bytes, &LIMITS, &mut head) {
            // An empty line within ends the head early: the model checks what was taken.
            Ok(Parsed::Complete { head_len }) => {
                let taken: String = bytes[..head_len].iter().map(|&octet| char::from(octet)).collect();
                assert_eq!(Some(view(&head)), model(&taken), "{text:?}");
                accepted += 1;
            }
            Ok(Parsed::Partial) => panic!("partial: {text:?}"),
            Err(error) => {
                assert_eq!(model(&first_head(&text)), None, "{error}: {text:?}");
                rejected += 1;
            }
        }
    }
    assert!(accepted > 10_000 && rejected > 10_000, "{accepted} accepted, {rejected} refused");
}

/// The text up to the first empty line that ends a head.
fn first_head(text: &str) -> String {
    let start = if text.starts_with("\r\n") { 2 } else { 0 };
    let end = text[start..].find("\r\n\r\n").map_or(text.len(), |end| start + end + 4);
    text[..end].to_string()
}

fn view(head: &RequestHead) -> Model {
    let text = |bytes: &[u8]| bytes.iter().map(|&octet| char::from(octet)).collect::<String>();
    Model {
        method: head.method.as_str().to_string(),
        target: text(&head.target),
        authority: text(&head.authority),
        framing: head.framing,
        keep_alive: head.keep_alive,
        expects_continue: head.expects_continue,
        upgrade: head.upgrade.as_deref().map(str::to_string),
        fields: head.fields.iter().map(|(name, value)| (text(name), text(value))).collect(),
    }
}
