//! Bodies of fixed responses with variables in them: escaped for their type whatever a client sends, bounded, for nobody else.

use std::fs;
use std::process::Command;

use crate::harness::signing::{SECRET, token};
use crate::harness::{Gate, PORTUNUS, exchange, read_response, wait_until};

const ROUTES: &str = r#"
  - path: "/html/{name}"
    respond: { status: 200, content_type: "text/html; charset=utf-8", template: true, body: "<p title=\"{query.q}\">{query.q} {name} {header.x-a}</p>{{}}" }
  - path: "/json/{name}"
    respond: { status: 200, content_type: application/json, template: true, body: "{{\"q\":\"{query.q}\",\"who\":\"{claim.sub}\",\"a\":\"{header.x-a}\"}}" }
    policies: maybe
  - path: /text
    respond: { status: 404, template: true, body: "{method} {host}{path}: {query.q} from {client.address}\n" }
    response_headers: { set: { cache-control: "max-age=60" }, add: { x-content-type-options: none } }
  - { path: /plain, respond: { status: 200, body: "{client.address} {query.q}" } }
  - { path: /file, respond: { status: 200, body_file: page.html, template: true } }
  - { path: /many, respond: { status: 200, body_file: many.txt, template: true } }
"#;

fn start() -> Gate {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), SECRET).unwrap();
    fs::write(dir.path().join("page.html"), "<h1>{query.q}</h1><style>p {{ color: red }}</style>").unwrap();
    fs::write(dir.path().join("many.txt"), "{header.x-a}".repeat(64)).unwrap();
    Gate::start_in(
        dir,
        &format!(
            "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\n\
             tokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}\n\
             policies: {{ maybe: {{ jwt: {{ verifier: id, allow_missing: true }} }} }}\nroutes:{ROUTES}"
        ),
    )
}

/// Head and body of the response to a GET.
fn get(gate: &Gate, target: &str, fields: &str) -> (String, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n{fields}\r\n");
    let response = exchange(gate.address("web"), request.as_bytes());
    let response = String::from_utf8(response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn values_in_html_are_text_and_nothing_else() {
    let gate = start();
    for (query, name, field, expected) in [
        ("a", "b", "c", "<p title=\"a\">a b c</p>{}"),
        (
            "%3Cscript%3Ealert(1)%3C/script%3E",
            "%3Cb%3E",
            "</p><script>",
            "<p title=\"&lt;script&gt;alert(1)&lt;/script&gt;\">&lt;script&gt;alert(1)&lt;/script&gt; %3Cb%3E &lt;/p&gt;&lt;script&gt;</p>{}",
        ),
        (
            "%22+onmouseover=%22x",
            "'",
            "'\"`&#60;",
            "<p title=\"&#34; onmouseover=&#34;x\">&#34; onmouseover=&#34;x &#39; &#39;&#34;&#96;&amp;#60;</p>{}",
        ),
        ("%00%0d%0a%1b(J", "b", "\u{2028}", "<p title=\"???"),
    ] {
        let (head, body) = get(&gate, &format!("/html/{name}?q={query}"), &format!("X-A: {field}\r\n"));
        assert!(body.starts_with(expected), "{query} {name} {field}: {body}");
        assert!(
            head.contains("\r\ncache-control: no-store") && head.contains("\r\nx-content-type-options: nosniff"),
            "{head}"
        );
        assert_eq!((body.matches('<').count(), body.matches('"').count()), (2, 2), "{body}");
    }
    // Bytes that are no text.
    let request = b"GET /html/b?q=%ff%c0%80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-A: \xff\xfe\r\n\r\n";
    let response = exchange(gate.address("web"), request);
    assert!(String::from_utf8(response).unwrap().ends_with("\">\u{fffd}\u{fffd}\u{fffd} b \u{fffd}\u{fffd}</p>{}"));
}

#[test]
fn values_in_json_stay_in_their_strings() {
    let gate = start();
    let claims = r#""sub":"u\"1\\","role":"x""#;
    let bearer = format!("Authorization: Bearer {}\r\n", token(claims));
    for (query, value) in [
        ("%22,%22who%22:%22root%22,%22x%22:%22", "\",\"who\":\"root\",\"x\":\""),
        ("%5C", "\\"),
        ("%5C%22%7D", "\\\"}"),
        ("%0a%0d%00%1f", "\n\r\0\u{1f}"),
        ("%E2%80%A8%3C/script%3E", "\u{2028}</script>"),
        ("", ""),
    ] {
        let (_, body) = get(&gate, &format!("/json/a?q={query}"), &bearer);
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(json, serde_json::json!({ "q": value, "who": "u\"1\\", "a": "" }), "{body}");
        assert!(!body.contains('<'), "{body}");
    }
    let (_, body) = get(&gate, "/json/a?q=1", "X-Sub: root\r\n");
    assert_eq!(body, r#"{"q":"1","who":"","a":""}"#);
}

#[test]
fn a_body_of_text_is_made_for_each_request_and_kept_by_nobody() {
    let gate = start();
    let (head, body) = get(&gate, "/text?q=a%0d%0aSet-Cookie:%20x", "");
    assert_eq!(body, "GET x.test/text: a??Set-Cookie: x from 127.0.0.1\n");
    // The route's own fields go before ours.
    assert_eq!(
        (head.matches("cache-control").count(), head.matches("x-content-type-options").count()),
        (1, 1),
        "{head}"
    );
    assert!(
        head.contains("cache-control: max-age=60") && head.contains("content-type: text/plain; charset=utf-8"),
        "{head}"
    );
    assert_eq!(get(&gate, "/plain?q=1", "").1, "{client.address} {query.q}", "only where it is asked for");
    let mut stream = crate::harness::connect(gate.address("web"));
    std::io::Write::write_all(
        &mut stream,
        b"HEAD /text?q=1 HTTP/1.1\r\nHost: x\r\n\r\nGET /text?q=1 HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    .unwrap();
    let mut length = 0;
    // HEAD says the length that GET has; the harness reads none behind the first head.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
        head.extend(byte);
    }
    for line in String::from_utf8(head).unwrap().lines() {
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.parse().unwrap();
        }
    }
    // The names of the methods differ by one letter.
    assert_eq!(read_response(&mut stream).1.len() + 1, length);
}

#[test]
fn what_a_request_can_make_of_a_body_is_bounded() {
    let gate = start();
    let (_, body) = get(&gate, "/many", &format!("X-A: {}\r\n", "a".repeat(6_000)));
    assert_eq!(body.len(), 64 * 2048);
    let (_, body) = get(&gate, "/file?q=%26", "");
    assert_eq!(body, "<h1>&amp;</h1><style>p { color: red }</style>");
}

#[test]
fn a_file_that_cannot_be_used_keeps_what_was_there() {
    let gate = start();
    let file = gate.dir.path().join("page.html");
    let page = |text: &str| {
        fs::write(&file, text).unwrap();
        gate.signal("HUP");
    };
    page("<b>{query.q}</b>");
    wait_until("the new page", || get(&gate, "/file?q=1", "").1 == "<b>1</b>");
    page("<a href=\"{query.q}\">x</a>");
    gate.wait_for("page.html: a variable stands in the attribute `href` of `<a>`; fix: put it into text");
    page("<b>{claim.sub}</b>");
    gate.wait_for("a claim, which no file can hold");
    page("<b>{querry.q}</b>");
    gate.wait_for("unknown parameter or variable `querry.q`");
    assert_eq!(get(&gate, "/file?q=2", "").1, "<b>2</b>");
}

#[test]
fn bodies_that_cannot_be_made_are_problems_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.js"), "a").unwrap();
    let check = |respond: &str| {
        let file = dir.path().join("p.yaml");
        let text = format!(
            "listeners: [{{ name: web, bind: \":0\" }}]\nroutes:\n  - {{ path: /, respond: {{ status: 200, {respond} }} }}\n"
        );
        fs::write(&file, text).unwrap();
        let output = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    for (respond, said) in [
        ("template: true", "p.yaml:3:40: there is no body to write variables into"),
        ("template: true, body: \"{x}\"", "unknown parameter or variable `x`"),
        ("template: true, body: \"{claim.sub}\"", "no policy verifies tokens here"),
        (
            "template: true, body: \"<script>{host}</script>\", content_type: \"text/html; charset=utf-8\"",
            "a variable stands in `<script>`",
        ),
        ("template: true, body: \"{host}\", content_type: text/html", "write `text/html; charset=utf-8`"),
        (
            "template: true, body: \"{host}\", content_type: application/json",
            "a variable stands outside of a string of the JSON",
        ),
        ("template: true, body: \"{host}\", content_type: text/css", "charset=utf-8"),
        (
            "template: true, body: \"{host}\", content_type: \"text/css; charset=utf-8\"",
            "no rule says how variables are written into `text/css`",
        ),
        ("template: true, body_file: a.js", "no rule says how variables are written into `text/javascript`"),
    ] {
        let (success, text) = check(respond);
        assert!(!success && text.contains(said), "{respond}: {text}");
    }
    for (respond, said) in [
        (
            "body: \"a {client.address}\"",
            "`{client.address}` in its body looks like a variable and is sent as it stands; `template: true` replaces it",
        ),
        (
            "body: \"a $remote_addr\"",
            "`$remote_addr` in its body looks like a variable and is sent as it stands; `template: true` replaces variables",
        ),
        (
            "template: true, body: \"a $remote_addr {host}\"",
            "`$remote_addr` in its body looks like a variable and is sent as it stands",
        ),
    ] {
        let (success, text) = check(respond);
        assert!(success && text.contains(said), "{respond}: {text}");
    }
    assert!(!check("body: \"{ a: {}, b.c: {x.y} }\"").1.contains("looks like"));
}
