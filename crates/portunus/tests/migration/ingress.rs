//! Ingress objects as configurations, and what clients get of them.

use std::io::Write as _;
use std::process::{Command, Output};

use crate::harness::secure::Secure;
use crate::harness::{PORTUNUS, Reply, Upstream, ask_on, certificates, connect, path, read_response, vacant};

/// What the command prints for manifests.
fn printed(text: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("all.yaml"), text).unwrap();
    Command::new(PORTUNUS).args(["import", "ingress", "all.yaml"]).current_dir(dir.path()).output().unwrap()
}

/// What is made of manifests, and what is left out.
fn imported(text: &str) -> (String, Vec<String>, Option<i32>) {
    let printed = printed(text);
    let errors = String::from_utf8(printed.stderr).unwrap();
    let left = errors.lines().map(|line| line.trim_start_matches("portunus: ").to_owned()).collect();
    (String::from_utf8(printed.stdout).unwrap(), left, printed.status.code())
}

fn assert_holds(yaml: &str, pieces: &[&str]) {
    for piece in pieces {
        assert!(yaml.contains(piece), "no {piece:?} in\n{yaml}");
    }
}

const SHOP: &str = "
apiVersion: v1
kind: Service
metadata: { name: shop, namespace: web }
spec:
  ports: [{ name: http, port: 8080 }]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  namespace: web
  annotations:
    nginx.ingress.kubernetes.io/proxy-body-size: 8m
    nginx.ingress.kubernetes.io/proxy-read-timeout: \"120\"
    nginx.ingress.kubernetes.io/limit-rps: \"10\"
spec:
  ingressClassName: nginx
  tls:
    - hosts: [shop.example.com]
      secretName: shop-tls
  rules:
    - host: shop.example.com
      http:
        paths:
          - { path: /, pathType: Prefix, backend: { service: { name: shop, port: { name: http } } } }
          - { path: /api, pathType: Prefix, backend: { service: { name: api, port: { number: 80 } } } }
          - { path: /ping, pathType: Exact, backend: { service: { name: api, port: { number: 80 } } } }
    - host: \"*.example.org\"
      http:
        paths:
          - { path: /, pathType: Prefix, backend: { service: { name: api, port: { number: 80 } } } }
";

#[test]
fn rules_become_routes() {
    let (yaml, left, status) = imported(SHOP);
    assert_holds(
        &yaml,
        &[
            "servers: [\"shop.web.svc:8080\"]",
            "servers: [\"api.web.svc:80\"]",
            "hosts: shop.example.com",
            "hosts: \"*.example.org\"",
            "path: /ping",
            "[/api, \"/api/{*rest}\"]",
            "to: \"https://{host}{path}\", status: 308",
            "max_body: 8MiB",
            "stream_idle_timeout: 120s",
            "10/s",
            "folder: /etc/portunus/keys",
        ],
    );
    assert_eq!(
        left,
        ["left out: all.yaml:20: secret shop-tls: write its tls.crt and tls.key to /etc/portunus/keys as PEM files"]
    );
    assert_eq!(status, Some(1));
}

/// An Ingress with these annotations and this path.
fn with(annotations: &str, path: &str) -> (String, Vec<String>, Option<i32>) {
    let text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: a\n  annotations:\n{annotations}\nspec:\n  rules:\n    - host: a.test\n      http:\n        paths:\n          \
         - {{ path: \"{path}\", pathType: ImplementationSpecific, backend: {{ service: {{ name: a, port: {{ number: 80 }} }} }} }}\n"
    );
    imported(&text)
}

fn annotation(name: &str, value: &str) -> String {
    format!("    nginx.ingress.kubernetes.io/{name}: '{value}'")
}

#[test]
fn annotations_are_carried() {
    let (yaml, left, status) = with(&annotation("rewrite-target", "/$2"), "/something(/|$)(.*)");
    assert_holds(
        &yaml,
        &["path: /something, upstream: default-a, rewrite: /", "\"/something/{*rest}\"", "rewrite: \"/{rest}\""],
    );
    assert_eq!((left, status), (Vec::new(), Some(0)));
    let (yaml, ..) = with(&annotation("rewrite-target", "/v/$1"), "/api/([a-z]+)");
    assert_holds(&yaml, &["(?i)/api/([a-z]+).*", "rewrite: \"/v/{1}\""]);
    let (yaml, ..) = with(&annotation("whitelist-source-range", "10.0.0.0/8, 192.0.2.1/32"), "/");
    assert_holds(&yaml, &["allow: [\"10.0.0.0/8\", \"192.0.2.1/32\"]", "policies: [access]"]);
    let (yaml, ..) = with(&annotation("backend-protocol", "GRPC"), "/");
    assert_holds(&yaml, &["protocol: http2"]);
    let (yaml, ..) = with(&annotation("auth-url", "http://oauth.auth.svc.cluster.local:4180/oauth2/auth"), "/");
    assert_holds(&yaml, &["path: /oauth2/auth", "oauth.auth.svc.cluster.local:4180", "policies: [signed-in]"]);
    for (page, expected) in [
        ("https://$host/oauth2/start?rd=$escaped_request_uri", "sign_in: \"/oauth2/start?rd={uri}\""),
        ("https://auth.example.com/start", "sign_in: \"https://auth.example.com/start?rd={url}\""),
        ("https://auth.example.com/?a=b", "sign_in: \"https://auth.example.com/?a=b&rd={url}\""),
    ] {
        let both = [annotation("auth-url", "http://auth.test:4180/auth"), annotation("auth-signin", page)].join("\n");
        let (yaml, left, status) = with(&both, "/");
        assert_holds(&yaml, &[expected]);
        assert_eq!((left, status), (Vec::new(), Some(0)));
    }
    let (yaml, ..) = with(&annotation("affinity", "cookie"), "/");
    assert_holds(&yaml, &["sticky: { cookie: INGRESSCOOKIE }"]);
}

#[test]
fn what_keeps_somebody_out_is_closed() {
    for (name, value) in [
        ("auth-type", "basic"),
        ("auth-tls-secret", "default/ca"),
        ("whitelist-source-range", "everybody"),
        ("enable-modsecurity", "true"),
        ("configuration-snippet", "deny all;"),
        ("auth-url", "https://$host/oauth2/auth"),
        ("backend-protocol", "FCGI"),
    ] {
        let (yaml, left, status) = with(&annotation(name, value), "/");
        assert!(yaml.contains("respond: { status: 501 }") && !yaml.contains("upstream: "), "{name}\n{yaml}");
        assert_eq!((left.len(), status), (1, Some(1)), "{name}: {left:?}");
    }
    // What does not is a comment.
    for (name, value) in
        [("enable-cors", "true"), ("configuration-snippet", "more_set_headers \"X: 1\";"), ("nosuch", "1")]
    {
        let (yaml, left, status) = with(&annotation(name, value), "/");
        assert!(yaml.contains("upstream: default-a"), "{name}\n{yaml}");
        assert_eq!((left.len(), status), (1, Some(1)), "{name}: {left:?}");
    }
}

#[test]
fn what_is_no_manifest_is_rejected() {
    for (text, expected) in [
        ("kind: Deployment", "all.yaml:1: there is no Ingress in it"),
        ("\n---\na: [", "all.yaml:"),
        ("apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: { name: a }", "an Ingress of `extensions/v1beta1`"),
    ] {
        let (yaml, errors, status) = imported(text);
        assert!(yaml.is_empty() && status == Some(2) && errors.concat().contains(expected), "{text}: {errors:?}");
    }
}

/// What is made of manifests is served, with the addresses of servers in place of the names that a cluster resolves, ports that are free in place of 80 and
/// 443, and a folder of the test for the secrets.
#[test]
fn what_is_made_is_served() {
    let named = |name: &'static str| {
        Upstream::start(move |seen| {
            let body = format!("{name} {}", seen.line().split(' ').nth(1).unwrap());
            Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
        })
    };
    let [shop, api, rewritten] = ["shop", "api", "rewritten"].map(named);
    let dir = certificates(&[("shop.example.com", false)]);
    let more = annotation("rewrite-target", "/$2");
    // So few that they are soon used up, also where each request takes long.
    let shop_manifests = SHOP.replace("limit-rps: \"10\"", "limit-rps: \"3\"");
    assert_ne!(shop_manifests, SHOP);
    let manifests = format!(
        "{shop_manifests}---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: b\n  annotations:\n{more}\nspec:\n  rules:\n    - host: b.test\n      http:\n        paths:\n          \
         - {{ path: \"/part(/|$)(.*)\", pathType: ImplementationSpecific, backend: {{ service: {{ name: b, port: {{ number: 80 }} }} }} }}\n"
    );
    let (plain, secure) = (vacant(), vacant());
    let mut output = printed(&manifests);
    let mut yaml = String::from_utf8(output.stdout).unwrap();
    for (from, to) in [
        ("bind: \":80\"", format!("bind: \"{plain}\"")),
        ("bind: \":443\"", format!("bind: \"{secure}\"")),
        ("shop.web.svc:8080", shop.address.to_string()),
        ("api.web.svc:80", api.address.to_string()),
        ("b.default.svc:80", rewritten.address.to_string()),
        ("/etc/portunus/keys", path(&dir, "certs")),
    ] {
        assert_eq!(yaml.matches(from).count(), if from.starts_with('/') { 2 } else { 1 }, "{from}\n{yaml}");
        yaml = yaml.replace(from, &to);
    }
    output.stdout = yaml.into_bytes();
    let _gate = super::beside::serve(&output, dir.path(), 2);
    let ask = |host: &str, path: &str| ask_on(plain, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let said = |(head, body): (String, Vec<u8>)| (head[9..12].to_owned(), String::from_utf8(body).unwrap());
    // The host with TLS is sent there.
    let (head, _) = ask("shop.example.com", "/a?b");
    assert!(head.starts_with("HTTP/1.1 308 ") && head.contains("https://shop.example.com/a?b"), "{head}");
    for (host, path, expected) in [
        ("x.example.org", "/any", "api /any"),
        ("b.test", "/part/deep?x=1", "rewritten /deep?x=1"),
        ("b.test", "/part", "rewritten /"),
    ] {
        assert_eq!(said(ask(host, path)), ("200".to_owned(), expected.to_owned()), "{host}{path}");
    }
    for (host, path) in [("b.test", "/other"), ("example.org", "/"), ("nobody.test", "/")] {
        assert_eq!(said(ask(host, path)).0, "404", "{host}{path}");
    }
    for (path, expected) in [
        ("/", "shop /"),
        ("/api/v1", "api /api/v1"),
        ("/apis", "shop /apis"),
        ("/ping", "api /ping"),
        ("/ping/", "shop /ping/"),
    ] {
        let mut client = Secure::over(connect(secure), dir.path(), "shop.example.com", "http/1.1");
        write!(client, "GET {path} HTTP/1.1\r\nHost: shop.example.com\r\n\r\n").unwrap();
        assert_eq!(said(read_response(&mut client)), ("200".to_owned(), expected.to_owned()), "{path}");
    }
    // Fifteen may come at once, of which some have come already, three a second after that; beyond `proxy-body-size` nothing is taken.
    let statuses: Vec<String> = (0..80).map(|_| said(ask("x.example.org", "/")).0).collect();
    assert!(
        statuses[..7].iter().all(|status| status == "200") && statuses.iter().any(|status| status == "429"),
        "{statuses:?}"
    );
    let large = ask_on(plain, "POST / HTTP/1.1\r\nHost: b.test\r\nContent-Length: 9000000\r\n\r\n");
    assert!(large.0.starts_with("HTTP/1.1 4"), "{}", large.0);
}
