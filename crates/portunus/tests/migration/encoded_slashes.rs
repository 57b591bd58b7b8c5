//! `%2F` in paths, and long request lines, beside the originals: what they forward goes on, and nothing that they keep out comes in by it.

use super::beside::{Beside, Program, get};

/// Names of packages and rooms, as registries and chat servers have them.
const PATHS: [&str; 8] = [
    "/%40scope%2Fname",
    "/a%2Fb%2Fc",
    "/files/a%2Fb?x=%2F",
    "/sub/x%2Fy",
    "/x/secret%2F",
    "/api/v4/projects/group%2Fproject",
    "/%2Fa",
    "/files/%252F",
];

/// Paths that the originals read as those of another place, or a server behind them would.
const GUARDED: [&str; 5] = ["/admin%2Fx", "/admin%2f", "/x/..%2Fadmin/y", "/%2Fadmin/x", "/files%2F..%2Fadmin%2Fx"];

fn forwards(site: &Beside, listener: &str) {
    for path in PATHS {
        let [theirs, ours] = site.ask(listener, &get("a.test", path));
        assert_eq!(ours, theirs, "{path}: {}", site.yaml());
    }
    for path in GUARDED {
        let [theirs, ours] = site.ask(listener, &get("a.test", path));
        assert!(ours == theirs || ours.status == 400, "{path}: {ours:?} instead of {theirs:?}");
    }
}

#[test]
fn nginx_forwards_encoded_slashes() {
    let site = Beside::start(
        &Program::Nginx,
        "server {
            listen @web@;
            location / { proxy_pass http://@A@; }
            location /admin/ { return 403; }
            location /files/ { proxy_pass http://@B@; }
            location ~ /secret$ { return 403; }
        }",
        &["web"],
    );
    forwards(&site, "web");
    assert!(site.yaml().contains("headers:\n  unusual_names: drop\n"), "{}", site.yaml());
    assert!(site.yaml().contains("paths:\n  allow_encoded_slash: true\n"), "{}", site.yaml());
    // What is rewritten there is decoded first.
    let rewritten = Beside::start(
        &Program::Nginx,
        "server { listen @web@; location /sub/ { proxy_pass http://@A@/other/; } }",
        &["web"],
    );
    let [theirs, ours] = rewritten.ask("web", &get("a.test", "/sub/x%2Fy"));
    assert_eq!((theirs.seen.unwrap().1.as_str(), ours.status), ("GET /other/x/y", 400));
    rewritten.compare_paths("a.test", &["/sub/x/y", "/sub/x%20y"]);
}

#[test]
fn haproxy_forwards_encoded_slashes_and_long_lines() {
    let site = Beside::start(
        &Program::Haproxy,
        "defaults
            mode http
            timeout connect 5s
            timeout client 30s
            timeout server 30s
        frontend www
            bind @web@
            http-request deny if { path_beg /admin/ }
            use_backend files if { path_beg /files/ }
            default_backend app
        backend app
            http-request replace-path ^/sub/(.*)$ /other/\\1
            server one @A@
        backend files
            server two @B@\n",
        &["web"],
    );
    forwards(&site, "web");
    for (length, status) in [(9_000, 200), (14_000, 200), (17_000, 414)] {
        let [theirs, ours] = site.ask("web", &get("a.test", &format!("/{}", "x".repeat(length))));
        assert_eq!(ours.status, status, "{length}");
        assert_eq!(theirs.status == 200, status == 200, "{length}: {theirs:?}");
    }
}
