//! A configuration file is rejected with positions that are right and messages of one line each, or it becomes a configuration that keeps its
//! promises to the data path.

use std::path::Path;

use config::{
    Action, Config, FieldValue, ForwardTo, HeaderEdits, HostPattern, Problem, Problems, RouteConfig, Segment, Template,
    TemplatePart, parse,
};
use proxy::route::RouteTable;
use wire::http::target::canonical_path;

/// Any bytes as a configuration file.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse("p.yaml", text, Path::new("/etc/portunus")) {
        Err(problems) => rejected(text.strip_prefix('\u{feff}').unwrap_or(text), &problems),
        Ok(config) => accepted(text, &config),
    }
}

fn rejected(text: &str, problems: &Problems) {
    assert!(!problems.list().is_empty() && problems.list().len() <= 100);
    assert!(problems.further() == 0 || problems.list().len() == 100);
    assert!(problems.list().is_sorted_by_key(|problem| (problem.line, problem.column)));
    for problem in problems.list() {
        assert!(!problem.what.is_empty() && !problem.fix.is_empty());
        assert!(!problem.to_string().contains(char::is_control), "{problem:?}");
        assert!(!problem.what.contains("could not be understood"), "{problem:?}");
        if problem.line > 0 {
            position_is_right(text, problem);
        }
    }
    assert_eq!(problems.to_string().lines().count(), problems.list().len() + usize::from(problems.further() > 0));
    assert!(!problems.render(false).contains('\x1b'));
}

/// Line and column counted anew from the bytes that are meant.
fn position_is_right(text: &str, problem: &Problem) {
    assert!(text.get(problem.span.clone()).is_some(), "{problem:?}");
    let before = &text[..problem.span.start];
    let mut line = 1;
    let mut column = 1;
    let mut chars = before.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\r' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    assert_eq!((problem.line, problem.column), (line, column), "{problem:?}");
}

fn accepted(text: &str, config: &Config) {
    // What it prints of itself is a configuration, and the same one; but for what it does not show.
    let effective = config.effective.to_string();
    match parse("p.yaml", &effective, Path::new("/etc/portunus")) {
        Ok(again) => {
            assert_eq!(again.effective.to_string(), effective);
            assert_eq!(without_places(&again), without_places(config));
        }
        Err(problems) => assert!(effective.contains("(redacted)"), "{effective}\n{problems}"),
    }
    let again = parse("p.yaml", &format!("\u{feff}{text}"), Path::new("/etc/portunus"));
    if !text.starts_with('\u{feff}') {
        assert_eq!(without_places(&again.unwrap()), without_places(config));
    }
    assert!(config.workers > 0 && (!config.listeners.is_empty() || !config.udp_listeners.is_empty()));
    assert!(config.limits.max_request_line_bytes <= config.limits.max_head_bytes);
    for listener in &config.listeners {
        assert!(!listener.bind.is_empty() && !listener.name.is_empty());
        if let Some(tls) = &listener.tls {
            assert!(config.keystores.contains_key(&tls.keystore));
            for settings in tls.names.values().chain([&tls.settings]) {
                assert!(settings.min_version >= settings.policy.min_version());
            }
        }
    }
    for upstream in config.upstreams.values() {
        assert!(!upstream.servers.is_empty() || !upstream.original_dst.is_empty());
    }
    for route in &config.routes {
        route_keeps_its_promises(route, config);
    }
    let _ = RouteTable::compile(config);
}

fn without_places(config: &Config) -> String {
    let text = format!("{config:#?}");
    text.lines().filter(|line| !line.trim_start().starts_with("place: ")).collect::<Vec<_>>().join("\n")
}

fn route_keeps_its_promises(route: &RouteConfig, config: &Config) {
    for name in &route.listeners {
        assert!(config.listeners.iter().any(|listener| listener.name == *name));
    }
    for host in &route.hosts {
        let (HostPattern::Exact(name) | HostPattern::Wildcard(name)) = host;
        assert!(name.is_ascii() && *name == name.to_ascii_lowercase() && !name.contains('*') && !name.is_empty());
    }
    let mut parameters = 0;
    for segment in &route.path.segments {
        match segment {
            Segment::Static(text) => {
                let mut canonical = Vec::new();
                assert_eq!(canonical_path(format!("/{text}").as_bytes(), &mut canonical), Ok(false));
                assert_eq!(canonical, format!("/{text}").as_bytes());
            }
            Segment::Param { .. } | Segment::CatchAll { .. } => parameters += 1,
            Segment::Prefix { text, .. } => {
                let mut canonical = Vec::new();
                assert!(route.group.is_some());
                assert_eq!(canonical_path(format!("/{text}x").as_bytes(), &mut canonical), Ok(false));
                assert_eq!(canonical, format!("/{text}x").as_bytes());
                parameters += 1;
            }
            Segment::Regex(expression) => parameters += expression.groups().len(),
        }
    }
    assert!(parameters <= 16);
    edits_are_clean(&route.request_headers);
    edits_are_clean(&route.response_headers);
    match &route.action {
        Action::Forward(forward) => {
            if let Some(rewrite) = &forward.rewrite {
                template_is_sound(rewrite, parameters);
                assert!(
                    matches!(rewrite.parts.first(), Some(TemplatePart::Text(text)) if text.starts_with(['/', '?']))
                );
            }
            match &forward.to {
                ForwardTo::Group(name) => assert!(config.upstreams.contains_key(name)),
                ForwardTo::Split(shares) => {
                    assert!(shares.iter().all(|share| config.upstreams.contains_key(&share.group)));
                    assert!(shares.iter().any(|share| share.weight > 0));
                }
                ForwardTo::Authority { authority, allow, .. } => {
                    template_is_sound(authority, parameters);
                    let is_open = authority.parts.iter().any(|part| matches!(part, TemplatePart::Param { .. }));
                    assert!(!is_open || !allow.is_empty());
                }
            }
        }
        Action::Redirect { status, to, .. } => {
            template_is_sound(to, parameters);
            assert!(matches!(status, 301 | 302 | 303 | 307 | 308));
        }
        Action::Respond { status, .. } => assert!((200..600).contains(status)),
        Action::Validate(validate) => assert!(validate.prefix.is_empty() || validate.prefix.starts_with('/')),
    }
}

fn template_is_sound(template: &Template, parameters: usize) {
    for part in &template.parts {
        match part {
            TemplatePart::Text(text) => {
                assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}")
            }
            TemplatePart::Param { index, .. } => assert!(*index < parameters),
            TemplatePart::Variable { .. } => {}
        }
    }
}

fn edits_are_clean(edits: &HeaderEdits) {
    for (name, value) in edits.set.iter().chain(&edits.add) {
        assert!(!name.is_empty() && *name == name.to_ascii_lowercase());
        let literal = match value {
            FieldValue::Text(text) => text.clone(),
            FieldValue::Template(template) => template.parts.iter().map(literal).collect(),
        };
        assert!(!literal.contains(['\r', '\n', '\0']));
        assert!(!["content-length", "transfer-encoding", "connection"].contains(&name.as_str()));
    }
}

/// The text of a part that is the same for each request.
fn literal(part: &TemplatePart) -> &str {
    match part {
        TemplatePart::Text(text) => text,
        TemplatePart::Param { .. } | TemplatePart::Variable { .. } => "",
    }
}
