//! What templates write: escapes, queries, authorities, locations, and what they reject.

use std::sync::Arc;

use config::*;

use super::{head, route, template};
use crate::route::{BadParameter, RouteTable, Routed, Values, build_authority, build_location, build_target};

/// Matches `request` against the one `path`, and writes with what matched.
fn write(
    path: &str,
    request: &str,
    write: impl FnOnce(&wire::http::RequestHead, &crate::route::Params, &mut Vec<u8>) -> Result<(), BadParameter>,
) -> Option<String> {
    let mut route = route(&format!("* * {path} %2F +empty"));
    route.options.allow_encoded_slash = Some(true);
    let table = RouteTable::compile_routes(&["web"], &[route]).unwrap();
    let head = head(&format!("GET h {request}")).unwrap();
    let Routed::Found(_, params) = table.find("web", &head) else { panic!("{path} does not match {request}") };
    let mut out = b"before ".to_vec();
    write(&head, &params, &mut out).ok()?;
    Some(String::from_utf8(out).unwrap().strip_prefix("before ").unwrap().to_string())
}

fn forward(rewrite: Option<&str>) -> Forward {
    Forward {
        to: ForwardTo::Group("g".to_string()),
        rewrite: rewrite.map(template),
        drops_empty_query: false,
        host: HostRewrite::Keep,
        mirror: None,
    }
}

#[test]
fn a_target_is_the_rewritten_path_and_the_query() {
    for (path, request, rewrite, expected) in [
        ("/a/{x}", "/a/b%20c?q=1", None, Some("/a/b%20c?q=1")),
        ("/a/{*x}", "/a/b/c?q=1", Some("/v2/{0}"), Some("/v2/b/c?q=1")),
        ("/a/{*x}", "/a/", Some("/v2/{0}"), Some("/v2/")),
        ("/a/{x}", "/a/b?", Some("/v2"), Some("/v2?")),
        ("/a/{x}", "/a/b?", Some("/v2?x=1"), Some("/v2?x=1")),
        ("/a/{x}", "/a/b?y=1", Some("/v2?x=1"), Some("/v2?x=1&y=1")),
        ("/a/{x}", "/a/b?y=1", Some("/v2?"), Some("/v2?y=1")),
        ("/a/{x}", "/a/b?y=1", Some("/v2?x=1&"), Some("/v2?x=1&y=1")),
        ("/a/{x}", "/a/b%26c=d+e;f", Some("/s?q={0:query}"), Some("/s?q=b%26c%3Dd%2Be%3Bf")),
        ("/a/{x}", "/a/%C3%BC%25", Some("/s?q={0:query}"), Some("/s?q=%C3%BC%25")),
        ("/a/{x}", "/a/b;c,d$&+=:@!e", Some("/{0:segment}"), Some("/b%3Bc%2Cd$&+=:@%21e")),
        ("/a/{*x}", "/a/b/c%20d", Some("/{0:segment}"), Some("/b%2Fc%20d")),
        ("/a/{*x}", "/a//b", Some("/{0:segment}"), Some("/%2Fb")),
        ("/{x}/{y}", "/a/b", Some("/{1}/{0}"), Some("/b/a")),
        // Pieces that are harmless where they stood, and not where they are put.
        ("/a{x}", "/a..", Some("/{0}"), None),
        ("/a{x}", "/a..", Some("/{0:segment}"), None),
        ("/a{x}", "/a..;v=1", Some("/x/{0}/y"), None),
        ("/a{x}", "/a.", Some("/x/{0}/y"), None),
        ("/a{x}", "/a.%2Fb", Some("/x/{0}"), None),
        ("/a{x}", "/a..%252Fb", Some("/x/{0}"), None),
        ("/a{x}", "/ab%2F.c", Some("/x/{0}"), Some("/x/b%2F.c")),
        ("/a{x}", "/a.", Some("/x/.{0}"), None),
        ("/a{x}", "/a..", Some("/x?y={0}"), Some("/x?y=..")),
        ("/a{x}", "/a..b", Some("/{0}"), Some("/..b")),
    ] {
        let forward = forward(rewrite);
        let written =
            write(path, request, |head, params, out| build_target(&forward, head, || Values::of(head, params), out));
        assert_eq!(written.as_deref(), expected, "{path} {request} {rewrite:?}");
    }
}

#[test]
fn an_authority_takes_only_labels() {
    for (authority, request, allow, expected) in [
        ("www.{0:label}.com", "/acme", &[][..], Some("www.acme.com")),
        ("www.{0:label}.com:8443", "/ACME", &[], Some("www.acme.com:8443")),
        ("{0:label}.test", "/a-1", &["a-1.test"], Some("a-1.test")),
        ("{0:label}.test", "/a-1", &["A-1.TEST"], Some("a-1.test")),
        ("{0:label}.test", "/a-2", &["a-1.test"], None),
        ("{0:label}.test", "/evil.test", &[], None),
        ("{0:label}.test", "/user@evil", &[], None),
        ("{0:label}.test", "/evil:80", &[], None),
        ("{0:label}.test", "/evil%2Fx", &[], None),
        ("{0:label}.test", "/%C3%BC", &[], None),
        ("{0:label}.test", "/-a", &[], None),
        ("{0:label}.test", "/a-", &[], None),
        ("{0:label}.test", "/a_b", &[], None),
        ("h:{0:label}", "/8443", &[], Some("h:8443")),
        ("h:{0:label}", "/99999", &[], None),
        ("{0:label}", "/2130706433", &[], None),
        ("{0:label}", "/0x7f000001", &[], None),
        ("10.0.0.{0:label}", "/7", &[], Some("10.0.0.7")),
        ("10.0.0.{0:label}", "/0x7", &[], None),
        ("10.0.0.{0:label}", "/300", &[], None),
    ] {
        let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
        let authority = template(authority);
        let written =
            write("/{x}", request, |head, params, out| build_authority(&authority, &allow, head, params, out));
        assert_eq!(written.as_deref(), expected, "{authority:?} {request}");
    }
    let long = format!("/{}", "a".repeat(64));
    let authority = template("{0:label}.test");
    assert_eq!(write("/{x}", &long, |head, params, out| build_authority(&authority, &[], head, params, out)), None);
    assert!(
        write("/{x}", &long[..64], |head, params, out| build_authority(&authority, &[], head, params, out)).is_some()
    );
}

#[test]
fn a_location_stays_on_its_host() {
    for (path, request, to, expected) in [
        ("/{x}", "/a", "https://{0:label}.h.test/", Some("https://a.h.test/")),
        ("/{x}", "/b", "https://{0:label}.h.test/", None),
        ("/{x}", "/a.evil", "https://{0:label}.h.test/", None),
        ("/{x}", "/a", "https://{0:label}.h.test?x", Some("https://a.h.test?x")),
        ("/old/{*rest}", "/old/a/b?q=1", "/new/{0}", Some("/new/a/b?q=1")),
        ("/old/{*rest}", "/old/a?q=1", "https://other.test/{0}", Some("https://other.test/a?q=1")),
        ("/old/{*rest}", "/old/a?q=1", "/new?x={0:query}", Some("/new?x=a")),
        ("/{*rest}", "/a", "/{0}", Some("/a")),
        ("/{*rest}", "//evil.test", "/{0}", None),
        ("/v{x}", "/v1.0", "/new/{0}", Some("/new/1.0")),
        ("/v{x}", "/v..", "/new/{0}", None),
        ("/{*rest}", "//evil.test", "//cdn.test/{0}", Some("//cdn.test//evil.test")),
    ] {
        let allow = if to.contains("label") { vec!["A.h.test".to_string()] } else { Vec::new() };
        let to = template(to);
        let written = write(path, request, |head, params, out| {
            build_location(&to, &allow, RedirectQuery::Keep, &Values::of(head, params), out)
        });
        assert_eq!(written.as_deref(), expected, "{path} {request} {to:?}");
    }
}

#[test]
fn the_query_of_a_redirect() {
    use RedirectQuery::{Append, Drop, Keep};
    for (query, to, request, expected) in [
        (Keep, "/new", "/old?q=1", "/new?q=1"),
        (Keep, "/new?x=1", "/old?q=1", "/new?x=1"),
        (Append, "/new", "/old?q=1", "/new?q=1"),
        (Append, "/new?x=1", "/old?q=1", "/new?x=1&q=1"),
        (Append, "/new?x=1", "/old", "/new?x=1"),
        (Append, "/new?x=1", "/old?", "/new?x=1"),
        (Drop, "/new", "/old?q=1", "/new"),
        (Drop, "/new?x=1", "/old?q=1", "/new?x=1"),
    ] {
        let to = template(to);
        let location =
            |head: &_, params: &_, out: &mut _| build_location(&to, &[], query, &Values::of(head, params), out);
        assert_eq!(write("/old", request, location).as_deref(), Some(expected), "{query:?} {to:?} {request}");
    }
}

#[test]
fn templates_that_cannot_work_are_reported_at_load() {
    let rewrite = |text: &str| Action::Forward(forward(Some(text)));
    let redirect = |text: &str| Action::Redirect {
        status: 308,
        to: template(text),
        allow: Vec::new(),
        query: RedirectQuery::Keep,
    };
    let authority = |text: &str| {
        let to = ForwardTo::Authority {
            tls: false,
            authority: template(text),
            allow: Vec::new(),
            settings: Arc::new(UpstreamConfig::new("dynamic")),
        };
        Action::Forward(Forward {
            to,
            rewrite: None,
            drops_empty_query: false,
            host: HostRewrite::Upstream,
            mirror: None,
        })
    };
    for (action, expected) in [
        (rewrite("x"), "must begin with `/`"),
        (rewrite("{0}"), "must begin with `/`"),
        (rewrite("/{1}"), "uses parameter 1, but the path has only 1"),
        (rewrite("/a b"), "percent-encode"),
        (rewrite("/a%2"), "not a path with a query"),
        (rewrite("/a|b"), "not a path with a query"),
        (rewrite("/ü"), "percent-encode"),
        (rewrite("/a\r\nX: y"), "percent-encode"),
        (rewrite("/a#b"), "not a path with a query"),
        (rewrite("/a/../{0}"), "dot segment"),
        (rewrite("/a/%2e%2E/{0}"), "dot segment"),
        (redirect("{0}"), "must begin with `/`"),
        (redirect("ftp://h/"), "must begin with `/`"),
        (redirect("https://h{0}"), "redirect's host"),
        (redirect("https://{0}/"), "redirect's host"),
        (redirect("//h{0}"), "redirect's host"),
        (redirect("/a\r\nX: y"), "percent-encode"),
        (redirect("/{7}"), "uses parameter 7"),
        (authority("user@{0:label}"), "is not `host`"),
        (authority("a/{0:label}"), "is not `host`"),
        (authority("h:{0:label}0000000"), "is not `host`"),
        (authority("{3:label}.test"), "uses parameter 3"),
    ] {
        let mut route = route("* * /x/{id}");
        route.action = action;
        let problems = RouteTable::compile_routes(&["web"], std::slice::from_ref(&route)).unwrap_err();
        assert_eq!(problems.len(), 1, "{:?}", route.action);
        assert!(problems[0].contains(expected), "{problems:?} says nothing of {expected}");
        assert!(problems[0].starts_with("test.yaml:1: "));
    }
    for action in
        [redirect("https://{0:label}.h.test/x"), redirect("https://h.test/{0}"), authority("{0:label}.test:80")]
    {
        let mut route = route("* * /x/{id}");
        route.action = action;
        assert!(RouteTable::compile_routes(&["web"], &[route]).is_ok());
    }
}
