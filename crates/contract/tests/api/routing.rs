//! Paths and methods: which operation a request belongs to.

use contract::options::Options;

use super::{Request, contract, contract_with, decision, problems};

fn document(servers: &str, paths: &[&str]) -> String {
    let paths: String = paths
        .iter()
        .map(|path| {
            let names: Vec<&str> = path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            let parameters: String = names
                .iter()
                .map(|name| format!("{{name: {name}, in: path, required: true, schema: {{type: string}}}}, "))
                .collect();
            format!("  '{path}':\n    parameters: [{parameters}]\n    get: {{responses: {{'200': {{description: ok}}}}}}\n    put: {{responses: {{'200': {{description: ok}}}}}}\n")
        })
        .collect();
    format!("openapi: 3.1.0\ninfo: {{title: t, version: '1'}}\n{servers}paths:\n{paths}")
}

#[test]
fn paths_below_the_bases_of_servers() {
    let servers = "servers: [{url: 'https://a.example/v1'}, {url: /v2/}, {url: 'https://{host}/{stage}/x', variables: {host: {default: h}, stage: {default: s, enum: [s, t]}}}]\n";
    let contract = contract(&document(servers, &["/a/{x}", "/"]));
    let rows = [
        ("/v1/a/1", "ok"),
        ("/v2/a/1", "ok"),
        ("/s/x/a/1", "ok"),
        ("/t/x/a/1", "ok"),
        ("/a/1", "unknown path"),
        ("/v1/", "ok"),
        ("/v1", "unknown path"),
    ];
    for (path, expected) in rows {
        assert_eq!(decision(&contract, &Request::get(path)), expected, "{path}");
    }
    let configured = Options { base_path: Some("/api".to_owned()), ..Options::default() };
    let contract = contract_with(&document(servers, &["/a/{x}"]), &configured);
    assert_eq!(decision(&contract, &Request::get("/api/a/1")), "ok");
    assert_eq!(decision(&contract, &Request::get("/v1/a/1")), "unknown path");
}

#[test]
fn unknown_paths_and_methods() {
    let contract = contract(&document("", &["/a/{x}", "/a/{x}.json", "/a/me"]));
    let method = |method, target: &str| Request { method, ..Request::get(target) };
    let rows = [
        (method("GET", "/a/1"), "ok"),
        (method("PUT", "/a/1.json"), "ok"),
        (method("GET", "/a/1/"), "unknown path"),
        (method("GET", "/A/1"), "unknown path"),
        (method("GET", "/a/"), "unknown path"),
        (method("DELETE", "/a/me"), "unknown method, allow GET, PUT"),
        (method("get", "/a/me"), "unknown method, allow GET, PUT"),
        (method("HEAD", "/a/me"), "unknown method, allow GET, PUT"),
        (method("OPTIONS", "/a/me"), "unknown method, allow GET, PUT"),
    ];
    for (request, expected) in rows {
        assert_eq!(decision(&contract, &request), expected, "{request:?}");
    }
}

#[test]
fn templates_that_match_the_same_are_problems() {
    let text = document("", &["/a/{x}", "/a/{y}"]);
    assert!(problems(&text).contains("`/a/{x}` and `/a/{y}` match the same paths"), "{}", problems(&text));
}

/// The best-known firewall takes a template with a colon for a regular expression.
#[test]
fn colons_and_other_marks_are_text() {
    let contract =
        contract(&document("", &["/v1/{name}:cancel", "/a:b", "/(x)+", "/d.json", "/~{user}", "/{from}..{to}"]));
    let rows = [
        ("/v1/op:cancel", "ok"),
        ("/v1/op:start", "unknown path"),
        ("/a:b", "ok"),
        ("/aXb", "unknown path"),
        ("/(x)+", "ok"),
        ("/x", "unknown path"),
        ("/dXjson", "unknown path"),
        ("/~ann", "ok"),
        ("/1..2", "ok"),
        ("/1..", "unknown path"),
    ];
    for (path, expected) in rows {
        assert_eq!(decision(&contract, &Request::get(path)), expected, "{path}");
    }
}
