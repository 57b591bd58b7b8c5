//! Tests of the route table: tables of requests, conflicts, path tricks, templates, and a comparison with a slow matcher.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod conditions;
mod differential;
mod in_order;
mod matching;
mod readings;
mod templates;

use config::*;
use wire::http::target::canonical_path;
use wire::http::{Method, RequestHead};

use super::{RouteTable, Routed};

/// A path pattern from `/a/p{x}/{*rest}`, or from `~` and an expression (`~~` for decoded paths, `_` for a blank), or from `^` and a prefix.
pub(super) fn pattern(text: &str) -> PathPattern {
    if let Some(expression) = text.strip_prefix("~~") {
        let expression = Expression::new(&expression.replace('_', " ")).unwrap().decoded();
        return PathPattern { text: text.to_string(), segments: vec![Segment::Regex(expression)] };
    }
    if let Some(prefix) = text.strip_prefix("^/") {
        let mut parts: Vec<&str> = prefix.split('/').collect();
        let last = Segment::Prefix { text: parts.pop().unwrap().to_string(), name: "rest".to_string() };
        let segments = parts.into_iter().map(|part| Segment::Static(part.to_string())).chain([last]).collect();
        return PathPattern { text: text.to_string(), segments };
    }
    if let Some(expression) = text.strip_prefix('~') {
        let expression = Expression::new(expression).unwrap();
        let start = String::from_utf8(expression.literal_start().to_vec()).unwrap();
        let whole = start.strip_prefix('/').and_then(|start| start.rsplit_once('/')).map(|(whole, _)| whole);
        let literal =
            whole.into_iter().flat_map(|whole| whole.split('/')).map(|name| Segment::Static(name.to_string()));
        let segments = literal.chain([Segment::Regex(expression.clone())]).collect();
        return PathPattern { text: text.to_string(), segments };
    }
    let segments = text.strip_prefix('/').expect("a pattern begins with /").split('/');
    let segment = |text: &str| match text.strip_suffix('}').and_then(|text| text.split_once('{')) {
        None => Segment::Static(text.to_string()),
        Some((prefix, name)) => match name.strip_prefix('*') {
            Some(name) => Segment::CatchAll { name: name.to_string() },
            None => Segment::Param { prefix: prefix.to_string(), name: name.to_string() },
        },
    };
    PathPattern { text: text.to_string(), segments: segments.map(segment).collect() }
}

/// A template from `/x/{0}?q={1:query}`; escapes are `raw` (when left out), `segment`, `query`, `label`.
pub(super) fn template(text: &str) -> Template {
    let mut parts = Vec::new();
    for (at, piece) in text.split('{').enumerate() {
        let literal = match piece.split_once('}') {
            Some((param, literal)) if at > 0 => {
                let (index, escape) = param.split_once(':').unwrap_or((param, "raw"));
                let escape = match escape {
                    "raw" => Escape::Raw,
                    "segment" => Escape::PathSegment,
                    "query" => Escape::Query,
                    "label" => Escape::HostLabel,
                    other => panic!("no escape {other}"),
                };
                parts.push(TemplatePart::Param { index: index.parse().unwrap(), escape });
                literal
            }
            _ => piece,
        };
        if !literal.is_empty() {
            parts.push(TemplatePart::Text(literal.to_string()));
        }
    }
    Template { parts }
}

/// A condition on a header field from `x=value`, `x^=start`, `x~=expression`, `x?` (there) or `x!` (not there); alternatives between `|`.
fn condition(text: &str) -> ValueCondition {
    let name: String = text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let any = text[name.len()..].split('|').map(|text| match (text, text.split_once('=')) {
        ("?", _) => ValueMatch::Present,
        ("!", _) => ValueMatch::Absent,
        (_, Some(("", value))) => ValueMatch::Exact(value.to_string()),
        (_, Some(("^", value))) => ValueMatch::Prefix(value.to_string()),
        (_, Some(("~", value))) => ValueMatch::Regex(Expression::new(value).unwrap()),
        _ => panic!("what is {text}?"),
    });
    let any = any.collect();
    ValueCondition { of: ValueOf::Header, name, any }
}

/// A route from `METHODS HOSTS PATH [field=value]... [@listener]... [&PATH]... [!PATH]... [#group] [+leniency]... [%2F]`; methods and hosts are separated by commas, `*` is
/// any. It is named by its whole text.
pub(super) fn route(text: &str) -> RouteConfig {
    let mut words = text.split(' ');
    let mut list =
        || words.next().unwrap().split(',').filter(|word| *word != "*").map(str::to_string).collect::<Vec<_>>();
    let methods = list().iter().map(|method| Method::from_bytes(method.as_bytes()).unwrap()).collect();
    let hosts = list().into_iter().map(|host| match host.strip_prefix("*.") {
        Some(suffix) => HostPattern::Wildcard(suffix.to_string()),
        None => HostPattern::Exact(host),
    });
    let hosts = hosts.collect();
    let path = pattern(words.next().unwrap());
    let mut route = RouteConfig {
        name: text.to_string(),
        place: "test.yaml:1".to_string(),
        listeners: Vec::new(),
        hosts,
        methods,
        path,
        is_further_path: false,
        group: None,
        when: Conditions::default(),
        action: Action::Respond {
            status: 200,
            content_type: "text/plain".to_string(),
            body: [].into(),
            body_file: None,
            variables: config::BodyVariables::None,
            if_healthy: None,
        },
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        hsts: None,
        options: RouteOptions::default(),
        max_body_bytes: Some(0),
        upgrades: Vec::new(),
        contract: ContractChoice::Inherited,
        policies: Vec::new(),
        responses: config::ResponseRules::default(),
        log_fields: [].into(),
        lenient: Leniency::default(),
    };
    for word in words {
        match word {
            ";" => route.options.allow_ambiguous_path = true,
            "%2F" => route.options.allow_encoded_slash = Some(true),
            "+redirect" => route.lenient.redirect_to_match = true,
            "+options" => route.lenient.response_options = true,
            "+head" => route.lenient.explicit_head = true,
            "+empty" => route.lenient.empty_parameters = true,
            "+forbid" => route.lenient.forbid_unknown_hosts = true,
            _ if word.starts_with('&') => route.when.0.push(Condition::Path(vec![pattern(&word[1..])])),
            _ if word.starts_with('!') => {
                let path = Condition::Path(vec![pattern(&word[1..])]);
                route.when.0.push(Condition::Not(Conditions(vec![path])));
            }
            _ => match (word.strip_prefix('@'), word.strip_prefix('#')) {
                (Some(listener), _) => route.listeners.push(listener.to_string()),
                (_, Some(group)) => route.group = Some(group.parse().unwrap()),
                _ => route.when.0.push(Condition::Value(condition(word))),
            },
        }
    }
    route
}

/// The head of a request from `METHOD host target [field=value]...`; none if its path is rejected before routing.
pub(super) fn head(text: &str) -> Option<RequestHead> {
    let mut words = text.split(' ');
    let method = Method::from_bytes(words.next().unwrap().as_bytes()).unwrap();
    let authority = words.next().unwrap().as_bytes().to_vec();
    let target = words.next().unwrap();
    let mut head = RequestHead { method, authority, ..RequestHead::default() };
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    if path == "*" {
        head.target.push(b'*');
    } else {
        head.has_encoded_slash = canonical_path(path.as_bytes(), &mut head.target).ok()?;
    }
    head.path_len = head.target.len();
    head.target.extend_from_slice(query.as_bytes());
    for word in words {
        let (name, value) = word.split_once('=').unwrap();
        head.fields.push(name.as_bytes(), value.as_bytes());
    }
    Some(head)
}

/// The table of these routes for the listeners `web` and `api`.
pub(super) fn compile(routes: &[&str]) -> Result<RouteTable, Vec<String>> {
    let routes: Vec<RouteConfig> = routes.iter().map(|text| route(text)).collect();
    RouteTable::compile_routes(&["web", "api"], &routes)
}

/// What the table says, as text: the route's text and its parameters in brackets, or a status and what goes with it.
pub(super) fn ask(table: &RouteTable, listener: &str, request: &str) -> String {
    let Some(head) = head(request) else { return "rejected".to_string() };
    match table.find(listener, &head) {
        Routed::Found(route, params) => {
            let value = |index| String::from_utf8_lossy(params.value(head.path(), index).unwrap()).into_owned();
            let values: Vec<String> = (0..params.len()).map(value).collect();
            format!("{} [{}]", route.config.name, values.join(" "))
        }
        Routed::UnknownHost => format!("host {}", table.unknown_host_status()),
        Routed::NotFound => "404".to_string(),
        Routed::MethodNotAllowed(allow) => format!("405 {allow}"),
        Routed::Options(allow) => format!("200 {allow}"),
        Routed::RedirectTo(status, location) => format!("{status} {}", String::from_utf8(location).unwrap()),
        Routed::EncodedSlash | Routed::AmbiguousPath | Routed::MethodInOtherCase => "400".to_string(),
    }
}

/// Asks a table of `routes` on listener `web` and compares.
pub(super) fn check(routes: &[&str], expected: &[(&str, &str)]) {
    let table = compile(routes).unwrap();
    for (request, response) in expected {
        // A response that begins with a route's text may leave the rest of the text out.
        let got = ask(&table, "web", request);
        assert_eq!(got, *response, "{request}");
    }
}
