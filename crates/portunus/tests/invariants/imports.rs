//! Configurations of other programs, any bytes: rejected with a place, or what is made of them is a configuration.

/// What an import makes of a text.
type Made = Result<Result<String, Vec<String>>, String>;

/// nginx.
pub fn nginx(bytes: &[u8]) {
    check(bytes, "nginx.conf", compat::nginx::of_text);
}

/// HAProxy.
pub fn haproxy(bytes: &[u8]) {
    check(bytes, "haproxy.cfg", compat::haproxy::of_text);
}

/// hitch.
pub fn hitch(bytes: &[u8]) {
    check(bytes, "hitch.conf", compat::hitch::of_text);
}

/// stunnel.
pub fn stunnel(bytes: &[u8]) {
    check(bytes, "stunnel.conf", compat::stunnel::of_text);
}

/// Kubernetes Ingress.
pub fn ingress(bytes: &[u8]) {
    check(bytes, "ingress.yaml", compat::ingress::of_text);
}

fn check(bytes: &[u8], name: &str, import: impl Fn(&str) -> Made) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match import(text) {
        Err(problem) => {
            let mut parts = problem.splitn(3, ':');
            let has_line = parts.next() == Some(name)
                && parts.next().and_then(|line| line.parse::<usize>().ok()).is_some_and(|line| line > 0);
            assert!(has_line, "{problem:?} has no place");
            assert!(!problem.contains('\n'), "{problem:?}");
        }
        Ok(Err(problems)) => panic!("what was made is no configuration: {problems:#?}"),
        Ok(Ok(made)) => assert!(made.contains("listeners:"), "{made}"),
    }
}
