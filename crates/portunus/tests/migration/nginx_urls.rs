//! URLs and cookies of upstreams behind an imported nginx: `proxy_redirect` and `proxy_cookie_…`.

use super::published::import;

fn location(directives: &str) -> (String, String) {
    import(
        "nginx",
        &format!("server {{ listen 8080; location /app/ {{ proxy_pass http://127.0.0.1:9000/; {directives} }} }}"),
    )
}

#[test]
fn urls_and_cookies_are_rewritten_as_there() {
    for (directives, parts) in [
        (
            "proxy_redirect http://127.0.0.1:9000/ /app/; proxy_redirect / /app/;",
            &["{ from: \"http://127.0.0.1:9000/\", to: /app/ }", "{ from: /, to: /app/ }"][..],
        ),
        ("proxy_redirect http:// $scheme://;", &["{ from: \"http://\", to: \"{scheme}://\" }"]),
        ("proxy_redirect http://up https://$host/;", &["{ from: \"http://up\", to: \"https://{host}/\" }"]),
        ("proxy_redirect off; proxy_cookie_path off; proxy_cookie_domain off; proxy_cookie_flags off;", &[]),
        ("proxy_cookie_path / /app/;", &["path: [{ from: /, to: /app/ }]"]),
        ("proxy_cookie_domain .up.internal $host;", &["domain: [{ from: up.internal, to: \"{host}\" }]"]),
        (
            "proxy_cookie_path / /app/; proxy_cookie_flags one httponly; proxy_cookie_flags ~ secure samesite=strict;",
            &["name: one", "http_only: true", "secure: true", "same_site: strict"],
        ),
    ] {
        let (yaml, said) = location(directives);
        for part in parts {
            assert!(yaml.contains(part), "{directives}: no {part} in\n{yaml}");
        }
        assert!(!said.contains("left out") && !yaml.contains("left out:"), "{directives}: {yaml}\n{said}");
        assert_eq!(parts.is_empty(), !yaml.contains("rewrite_location") && !yaml.contains("cookies"), "{yaml}");
    }
    let (yaml, _) = location("proxy_cookie_path / \"/; secure; HttpOnly\";");
    assert!(yaml.contains("secure: true") && yaml.contains("differs: "), "{yaml}");
    let (yaml, _) = location("proxy_redirect /old /new;");
    assert!(yaml.contains("{ from: /old, to: /new }") && yaml.contains("differs: "), "{yaml}");
}

#[test]
fn what_is_not_the_same_is_a_finding() {
    for directive in [
        "proxy_redirect ~^/(.*)$ /app/$1",
        "proxy_redirect http://$host/ /app/",
        "proxy_redirect / https://a.test",
        "proxy_redirect / app/",
        "proxy_cookie_path ~^/ /app/",
        "proxy_cookie_path /x \"/; secure\"",
        "proxy_cookie_path / \"/; priority=high\"",
        "proxy_cookie_domain ~up a.test",
        "proxy_cookie_domain up \"a.test; secure\"",
        "proxy_cookie_flags ~s secure",
        "proxy_cookie_flags s secret",
    ] {
        let (yaml, said) = location(&format!("{directive};"));
        assert!(said.contains("left out") || yaml.contains("left out:"), "{directive}: {yaml}\n{said}");
    }
}
