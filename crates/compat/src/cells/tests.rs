//! What is planned does what the order says, in the table of routes that serves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use config::{Action, Expression};
use proxy::route::{RouteTable, Routed};
use wire::http::RequestHead;

use super::*;

fn exact(path: &str) -> Language {
    Language::Exact(path.to_owned())
}

fn prefix(start: &str) -> Language {
    Language::Prefix(start.to_owned())
}

fn expression(text: &str, except: &[&str]) -> Language {
    Language::Expression { text: text.to_owned(), except: except.iter().map(|text| (*text).to_owned()).collect() }
}

fn has(language: &Language, path: &str) -> bool {
    match language {
        Language::Exact(own) => own == path,
        Language::Prefix(start) => path.starts_with(start.as_str()),
        Language::Below(own) => {
            path.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        Language::Expression { text, except } => {
            let matches = |text: &str| Expression::new(text).unwrap().matches(path.as_bytes());
            matches(text) && !except.iter().any(|text| matches(text))
        }
    }
}

/// The table of routes for cells, each of which responds with its position.
fn table(cells: &[Language]) -> Result<(RouteTable, String), Unplanned> {
    let wanted: Vec<(Language, bool)> = cells.iter().map(|language| (language.clone(), false)).collect();
    let mut root = Map::default();
    root.push("listeners", Map::of([("name", "web".into()), ("bind", "127.0.0.1:0".into())]));
    for (at, patterns) in plan(&wanted)?.into_iter().enumerate() {
        if !patterns.is_empty() {
            let paths = Value::List(patterns.into_iter().map(|pattern| pattern.path).collect());
            let respond = Map::of([("status", Value::plain(200)), ("body", Value::text(at.to_string()))]);
            root.push("routes", Map::of([("path", paths), ("respond", respond.into())]));
        }
    }
    let text = root.write();
    let config = config::parse("made", &text, Path::new("/")).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let table = RouteTable::compile(&config).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"));
    Ok((table, text))
}

fn found(table: &RouteTable, path: &str) -> Option<usize> {
    let head = RequestHead {
        authority: b"h".to_vec(),
        target: path.as_bytes().to_vec(),
        path_len: path.len(),
        ..RequestHead::default()
    };
    match table.find("web", &head) {
        Routed::Found(route, _) => match &route.config.action {
            Action::Respond { body, .. } => std::str::from_utf8(body).unwrap().parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Paths over a few segments, so that all of them meet.
const PIECES: [&str; 12] = ["/", "/a", "/ab", "/abc", "/b", "/a.x", "/.a", "/c.y", "/ab.x.y", "/a/", "/b/", "/x"];

fn paths() -> Vec<String> {
    let two = PIECES.iter().flat_map(|one| PIECES.map(|other| format!("{one}{other}")));
    let three = PIECES.iter().flat_map(|one| PIECES.map(|other| format!("/a{one}{other}")));
    let all = PIECES.iter().map(|one| (*one).to_owned()).chain(two).chain(three);
    // What `//` means to others is looked at apart.
    all.filter(|path| !path.contains("//")).collect()
}

#[test]
fn the_order_of_cells_is_kept() {
    let pool = [
        exact("/"),
        exact("/a"),
        exact("/a/b"),
        exact("/ab.x"),
        prefix("/"),
        prefix("/a/"),
        prefix("/a"),
        prefix("/ab"),
        prefix("/a/b/"),
        prefix("/a/b"),
        prefix("/a/."),
        prefix("/."),
        Language::Below("/a".to_owned()),
        Language::Below("/a/b".to_owned()),
        expression(r".*\.x", &[]),
        expression(r".*\.y", &[]),
        expression(r".*/\..*", &[]),
        expression(r"/a/.*\.x", &[]),
        expression(r"/a.*\.y", &[]),
        expression(r"/(a|b)/.*", &[]),
        expression(r".*b.*", &["/a/.*"]),
        expression(r"(?i)/A/[^/]*", &[]),
    ];
    let paths = paths();
    let random = &mut fastrand::Rng::with_seed(15);
    let (mut planned, mut unplanned) = (0, 0);
    for _ in 0..50 {
        let mut cells: Vec<Language> = (0..random.usize(1..7)).map(|_| random.choice(&pool).unwrap().clone()).collect();
        if random.bool() {
            cells.push(prefix("/"));
        }
        let Ok((table, text)) = table(&cells) else {
            unplanned += 1;
            continue;
        };
        planned += 1;
        for path in &paths {
            let expected = cells.iter().position(|language| has(language, path));
            assert_eq!(found(&table, path), expected, "{path}\n{cells:#?}\n{text}");
        }
    }
    assert!(planned > 40, "{planned} were planned, {unplanned} not");
}

#[test]
fn plans_are_short_where_they_can_be() {
    let show = |cells: &[Language]| {
        let wanted: Vec<(Language, bool)> = cells.iter().map(|language| (language.clone(), true)).collect();
        let plan = plan(&wanted).unwrap();
        let cell = |patterns: &Vec<Pattern>| {
            let one = |pattern: &Pattern| {
                let mut map = Map::default();
                map.set("p", pattern.path.clone());
                format!("{} {}", map.write().trim_start_matches("p:").trim().replace('\n', " "), pattern.rest)
            };
            patterns.iter().map(|pattern| one(pattern).trim().to_owned()).collect::<Vec<_>>().join(" | ")
        };
        plan.iter().map(cell).collect::<Vec<_>>()
    };
    assert_eq!(
        show(&[exact("/x"), prefix("/api/"), prefix("/im"), prefix("/")]),
        [
            "/x",
            "\"/api/{*rest}\" {rest}",
            "/im | \"/im/{*rest}\" /{rest} | \"/im{more}\" {more} | \"/im{more}/{*rest}\" {more}/{rest}",
            "\"/{*rest}\" {rest}"
        ]
    );
    // An expression goes before the catch-all at its place, but not before a longer literal start.
    assert_eq!(
        show(&[expression(r".*\.php", &[]), prefix("/api/"), prefix("/")]),
        [
            "  regex: \".*\\\\.php\"".trim(),
            "regex: \"/api/(?<rest>.*)\"   except: \".*\\\\.php\" {rest}",
            "\"/{*rest}\" {rest}"
        ]
        .map(|text| text.to_owned())
    );
    // Dead ones are left out.
    assert_eq!(show(&[prefix("/"), exact("/x")]), ["\"/{*rest}\" {rest}", ""]);
    assert_eq!(show(&[exact("/:x/y")]), ["regex: \"/:x/y\""]);
}

#[test]
fn paths_as_they_are_meant() {
    for (text, expected) in [
        ("/a b", Some("/a%20b")),
        ("/é", Some("/%C3%A9")),
        ("/a%20", Some("/a%2520")),
        ("/{x}", Some("/%7Bx%7D")),
        ("/a/../b", None),
        ("/a\\b", None),
        ("/a\tb", None),
    ] {
        assert_eq!(canonical(text).as_deref(), expected, "{text}");
    }
    assert_eq!(canonical_start("/.").as_deref(), Some("/."));
    assert_eq!(canonical("/."), None);
}
