//! Ingress objects as configurations, and what clients get of them.

use std::process::Command;

use crate::harness::PORTUNUS;

/// What is made of manifests, and what is left out.
fn imported(text: &str) -> (String, Vec<String>, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("all.yaml"), text).unwrap();
    let printed =
        Command::new(PORTUNUS).args(["import", "ingress", "all.yaml"]).current_dir(dir.path()).output().unwrap();
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
