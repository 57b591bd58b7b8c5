//! Responses of our own: error pages by status and Accept, bodies from files; what of an upstream's responses is replaced, and what never is.

use std::io::Write;
use std::process::Command;

use crate::harness::{Gate, PORTUNUS, Reply, Upstream, connect, exchange, read_response, statuses, wait_until};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn pages() -> tempfile::TempDir {
    folder(&[
        ("404.html", "<h1>{{status}} {{title}}</h1><p>{{request_id}}</p>"),
        ("404.txt", "nothing here ({{status}})\n"),
        ("5xx.html", "<h1>out of order</h1>"),
        ("host.html", "<h1>host</h1>"),
        ("robots.txt", "User-agent: *\nDisallow: /admin\n"),
        ("closed.html", "<h1>closed</h1>"),
    ])
}

fn upstream() -> Upstream {
    Upstream::start(|seen| {
        let (status, body) = match seen.line() {
            "GET /app/404 HTTP/1.1" | "HEAD /app/404 HTTP/1.1" => ("404 Not Found", "the application's own"),
            "GET /app/503 HTTP/1.1" => ("503 Service Unavailable", "busy"),
            "GET /app/401 HTTP/1.1" => ("401 Unauthorized", "who"),
            _ => ("200 OK", "fine"),
        };
        let fields = "Retry-After: 7\r\nWWW-Authenticate: Basic realm=\"x\"\r\nSet-Cookie: a=b\r\nX-Inner: secret";
        Reply::Keep(
            format!("HTTP/1.1 {status}\r\n{fields}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
        )
    })
}

fn text(upstream: &Upstream) -> String {
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\", error_pages: site }}
upstreams:
  app: {{ servers: [\"{}\"] }}
error_pages:
  site:
    pages: {{ 404: {{ html: 404.html, text: 404.txt }}, 5xx: 5xx.html }}
  strict:
    pages: {{ 404: 404.html, 5xx: 5xx.html }}
    intercept: [404, 5xx]
  host: {{ pages: {{ 4xx: host.html }} }}
hosts:
  host.test: {{ error_pages: host }}
  bare.test: {{ error_pages: none }}
routes:
  - {{ path: \"/app/{{*rest}}\", upstream: app }}
  - {{ path: \"/kept/{{*rest}}\", upstream: app, rewrite: \"/app/{{rest}}\", error_pages: strict, response_headers: {{ set: {{ X-Edge: a }} }} }}
  - {{ path: \"/bare/{{*rest}}\", upstream: app, error_pages: none, methods: [GET] }}
  - {{ path: \"/robots.txt\", respond: {{ status: 200, body_file: robots.txt }} }}
  - {{ path: \"/closed\", respond: {{ status: 503, body_file: closed.html }}, response_headers: {{ set: {{ Retry-After: \"600\" }} }} }}
  - {{ path: \"/typed\", respond: {{ status: 200, body_file: closed.html, content_type: text/plain }} }}
trusted_proxies: [127.0.0.1]
forwarding: {{ trusted_fields: [x-request-id] }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        upstream.address
    )
}

/// The head and the body of the response to one request.
fn ask(gate: &Gate, line: &str, host: &str, fields: &str) -> (String, String) {
    let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n");
    let response = String::from_utf8(exchange(gate.address("web"), request.as_bytes())).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn error_pages_are_chosen_by_place_status_and_accept() {
    let upstream = upstream();
    let gate = Gate::start_in(pages(), &text(&upstream));
    let html = "Accept: text/html\r\n";
    let rows = [
        (
            "GET /x",
            "a.test",
            format!("Accept: {BROWSER}\r\nX-Request-Id: <b>\"id\r\n"),
            "text/html; charset=utf-8",
            "<h1>404 Not Found</h1><p>&lt;b&gt;&quot;id</p>",
        ),
        ("GET /x", "a.test", "Accept: text/plain\r\n".into(), "text/plain; charset=utf-8", "nothing here (404)\n"),
        (
            "GET /x",
            "a.test",
            "Accept: application/json, text/plain, */*\r\n".into(),
            "application/problem+json",
            "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404}\n",
        ),
        ("GET /x", "host.test", html.into(), "text/html; charset=utf-8", "<h1>host</h1>"),
        ("GET /x", "bare.test", html.into(), "text/plain; charset=utf-8", "404 Not Found\n"),
        ("PUT /bare/x", "a.test", html.into(), "text/plain; charset=utf-8", "405 Method Not Allowed\n"),
        // None for its status: as without pages.
        ("GET /%00<script>?<script>", "a.test", html.into(), "text/plain; charset=utf-8", "400 Bad Request\n"),
    ];
    for (at, (line, host, fields, content_type, expected)) in rows.iter().enumerate() {
        let (head, body) = ask(&gate, line, host, fields);
        assert!(head.contains(&format!("\r\nContent-Type: {content_type}")), "{line} {host} {fields}: {head}\n{body}");
        assert_eq!(body, *expected, "{line} {host} {fields}");
        assert_eq!(head.contains("\r\nVary: Accept"), *host != "bare.test", "{line} {host}: {head}");
        let logged = gate.log(at + 1).pop().unwrap();
        let name = match *host {
            "bare.test" => None,
            "host.test" => Some("host"),
            _ => Some("site"),
        };
        assert_eq!(logged["error_pages"].as_str(), name, "{logged}");
    }
    assert!(
        gate.metrics().contains("portunus_error_pages_total{error_pages=\"host\",code=\"404\"} 1"),
        "{}",
        gate.metrics()
    );
    assert!(upstream.seen().is_empty());
}

#[test]
fn responses_of_upstreams_stay_unless_they_are_to_be_replaced() {
    let upstream = upstream();
    let gate = Gate::start_in(pages(), &text(&upstream));
    let html = "Accept: text/html\r\n";
    let (head, body) = ask(&gate, "GET /app/404", "a.test", html);
    assert!(head.contains("X-Inner: secret") && body == "the application's own", "{head}");
    let mut client = connect(gate.address("web"));
    for (path, status, expected) in [
        ("/kept/404", "404 Not Found", "<h1>404 Not Found</h1>"),
        ("/kept/503", "503 Service Unavailable", "<h1>out of order</h1>"),
        ("/kept/401", "401 Unauthorized", "who"),
        ("/kept/200", "200 OK", "fine"),
    ] {
        write!(client, "GET {path} HTTP/1.1\r\nHost: a.test\r\n{html}\r\n").unwrap();
        let (head, body) = read_response(&mut client);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{head}");
        let body = String::from_utf8(body).unwrap();
        assert!(body.starts_with(expected), "{path}: {body}");
        // What the status asks for stays, and what the route adds; all else was about the body that is gone.
        let is_replaced = expected.starts_with('<');
        assert_eq!(head.contains("X-Inner") || head.contains("Set-Cookie"), !is_replaced, "{head}");
        assert!(head.contains("\r\nRetry-After: 7\r\n") && head.contains("\r\nx-edge: a\r\n"), "{head}");
    }
    // Their connection is read to the end of what was replaced, and used again.
    let seen = upstream.seen();
    assert!(seen[1..].iter().all(|request| request.connection == seen[1].connection), "{seen:?}");
    let (head, body) = ask(&gate, "HEAD /kept/404", "a.test", html);
    assert!(
        statuses(head.as_bytes()) == [404] && head.contains("\r\nContent-Type: text/html") && body.is_empty(),
        "{head}"
    );
    let line = gate.log(3).into_iter().find(|line| line["target"] == "/kept/404").unwrap();
    assert_eq!(
        (line["error_pages"].as_str(), line["upstream"]["status"].as_u64()),
        (Some("strict"), Some(404)),
        "{line}"
    );
}

#[test]
fn a_body_from_a_file_is_that_of_the_last_reload() {
    let upstream = upstream();
    let gate = Gate::start_in(pages(), &text(&upstream));
    for (path, status, content_type, expected) in [
        ("/robots.txt", 200, "text/plain; charset=utf-8", "User-agent: *\nDisallow: /admin\n"),
        ("/closed", 503, "text/html; charset=utf-8", "<h1>closed</h1>"),
        ("/typed", 200, "text/plain", "<h1>closed</h1>"),
    ] {
        let (head, body) = ask(&gate, &format!("GET {path}"), "a.test", "");
        assert_eq!((statuses(head.as_bytes()), &*body), (vec![status], expected));
        assert!(head.contains(&format!("\r\nContent-Type: {content_type}\r\n")), "{head}");
        assert_eq!(head.to_ascii_lowercase().contains("\r\nretry-after: 600\r\n"), path == "/closed", "{head}");
    }
    let file = gate.dir.path().join("robots.txt");
    std::fs::write(&file, "new").unwrap();
    assert!(ask(&gate, "GET /robots.txt", "a.test", "").1.starts_with("User-agent"));
    gate.signal("HUP");
    wait_until("the new file", || ask(&gate, "GET /robots.txt", "a.test", "").1 == "new");
    // One that cannot be used leaves everything as it was.
    std::fs::write(&file, vec![b'x'; (1 << 20) + 1]).unwrap();
    gate.signal("HUP");
    gate.wait_for("larger than 1 MiB");
    assert_eq!(ask(&gate, "GET /robots.txt", "a.test", "").1, "new");
}

#[test]
fn pages_that_cannot_be_used_are_problems() {
    let upstream = upstream();
    for (file, content, said) in [
        ("404.html", &b"<p>{{request}}</p>"[..], "`{{request}}` is not known"),
        ("404.html", b"\xff", "is not UTF-8"),
        ("5xx.html", &[b'x'; (1 << 20) + 1], "larger than 1 MiB"),
    ] {
        let dir = pages();
        std::fs::write(dir.path().join(file), content).unwrap();
        std::fs::write(dir.path().join("portunus.yaml"), text(&upstream)).unwrap();
        let checked = Command::new(PORTUNUS).arg("check").arg(dir.path().join("portunus.yaml")).output().unwrap();
        let text = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        assert!(checked.status.code() == Some(1) && text.contains(said) && text.contains(file), "{file}: {text}");
    }
}
