//! Checks of HAProxy beside those of its import: which server gets connections is what they are for.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::beside::{Beside, Program, get};
use crate::harness::{Reply, Seen, Upstream, trial, vacant, wait_until};

/// Two servers of a database, at addresses of their own, with a service at the same port of each that says whether it is the one that takes writes.
struct Pair {
    servers: Vec<Upstream>,
    checks: Vec<Upstream>,
    /// Which one takes writes.
    primary: Arc<AtomicUsize>,
}

impl Pair {
    fn start() -> Pair {
        let addresses: Vec<Ipv4Addr> = (0..2)
            .map(|_| match vacant() {
                SocketAddr::V4(address) => *address.ip(),
                SocketAddr::V6(_) => unreachable!("vacant addresses are of IPv4"),
            })
            .collect();
        let first = TcpListener::bind((addresses[0], 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let primary = Arc::new(AtomicUsize::new(0));
        let sockets = [first, TcpListener::bind((addresses[1], port)).unwrap()];
        let checks = sockets.into_iter().enumerate().map(|(own, socket)| {
            let primary = Arc::clone(&primary);
            Upstream::on(socket, move |seen: &Seen| {
                let is_asked = seen.line().starts_with("OPTIONS /primary HTTP/1.");
                let status = if is_asked && primary.load(Ordering::SeqCst) == own { "200 OK" } else { "503 No" };
                Reply::Close(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes())
            })
        });
        let checks = checks.collect();
        let servers = (0..2).map(|own| {
            let socket = TcpListener::bind((addresses[own], 0)).unwrap();
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nserver {own}");
            Upstream::on(socket, move |_| Reply::Close(response.clone().into_bytes()))
        });
        let servers = servers.collect();
        Pair { servers, checks, primary }
    }
}

/// As documentation of Patroni has it.
#[test]
fn a_check_over_http_decides_where_tcp_goes() {
    let pair = Pair::start();
    let text = format!(
        "defaults
            mode tcp
            timeout connect 5s
            timeout client 30s
            timeout server 30s
        listen postgres
            bind @db@
            option httpchk OPTIONS /primary
            http-check expect status 200
            default-server inter 1s fall 1 rise 1
            server one {} maxconn 100 check port {port}
            server two {} maxconn 100 check port {port}\n",
        pair.servers[0].address,
        pair.servers[1].address,
        port = pair.checks[0].address.port()
    );
    let site = Beside::start(&Program::Haproxy, &text, &["db"]);
    assert_eq!(site.left_out(), Vec::<String>::new(), "{}", site.yaml());
    for primary in [0, 1, 0] {
        pair.primary.store(primary, Ordering::SeqCst);
        let expected = Some(format!("server {primary}"));
        let all_go_there =
            || (0..6).all(|_| site.ask("db", &get("a.test", "/")).iter().all(|one| one.body == expected));
        wait_until("all connections to go to the primary", all_go_there);
    }
}

/// What documentation has for Redis: only the primary takes writes.
#[test]
fn what_a_server_says_on_a_connection_decides_where_tcp_goes() {
    let primary = Arc::new(AtomicUsize::new(0));
    let server = |own: usize| {
        let primary = Arc::clone(&primary);
        trial::server(move |_, stream| {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            while let Some(line) = lines.next() {
                let role = if primary.load(Ordering::SeqCst) == own { "master" } else { "slave" };
                let response = match line.as_str() {
                    "PING" => "+PONG\r\n".to_owned(),
                    "info replication" => format!("$1\r\nrole:{role}\r\n"),
                    "QUIT" => "+OK\r\n".to_owned(),
                    line if line.starts_with("GET ") => {
                        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
                        format!("HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nserver {own}")
                    }
                    _ => return,
                };
                if (&stream).write_all(response.as_bytes()).is_err() || line.starts_with("GET ") {
                    return;
                }
            }
        })
    };
    let text = format!(
        "defaults
            mode tcp
            timeout connect 5s
            timeout client 30s
            timeout server 30s
        listen redis
            bind @db@
            option tcp-check
            tcp-check connect
            tcp-check send PING\\r\\n
            tcp-check expect string +PONG
            tcp-check send info\\ replication\\r\\n
            tcp-check expect rstring role:mas.er
            tcp-check send-binary 515549540d0a
            tcp-check expect binary 2b4f4b
            default-server inter 1s fall 1 rise 1
            server one {} check
            server two {} check\n",
        server(0),
        server(1)
    );
    let site = Beside::start(&Program::Haproxy, &text, &["db"]);
    assert_eq!(site.left_out(), Vec::<String>::new(), "{}", site.yaml());
    for wanted in [0, 1, 0] {
        primary.store(wanted, Ordering::SeqCst);
        let expected = Some(format!("server {wanted}"));
        let all_go_there =
            || (0..6).all(|_| site.ask("db", &get("a.test", "/")).iter().all(|one| one.body == expected));
        wait_until("all connections to go to the primary", all_go_there);
    }
}

#[test]
fn what_checks_ask_that_is_not_carried_is_said() {
    let import = |check: &str, server: &str| {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "listen db\n mode tcp\n bind 127.0.0.1:1\n {check}\n server one 127.0.0.1:2 {server}\n server two 127.0.0.1:3 {server}\n"
        );
        std::fs::write(dir.path().join("h.cfg"), text).unwrap();
        let printed = super::beside::import_in(&["haproxy", "h.cfg"], dir.path());
        (String::from_utf8(printed.stderr).unwrap(), printed.status.code())
    };
    for (check, server, said) in [
        (
            "option pgsql-check user x",
            "check",
            "option pgsql-check user x: a server that takes a connection is healthy",
        ),
        ("option mysql-check", "check", "option mysql-check: a server that takes a connection is healthy"),
        ("option smtpchk", "check", "option smtpchk: a server that takes a connection is healthy"),
        ("option tcp-check\n tcp-check connect", "check", "option tcp-check: a server"),
        (
            "option httpchk GET /primary",
            "check check-ssl verify none port 8008",
            "checks have TLS where requests have it",
        ),
        ("option httpchk GET /primary", "ssl verify none check port 8008", "checks have TLS where requests have it"),
        ("", "check on-marked-down shutdown-sessions", "server one … on-marked-down shutdown-sessions"),
        ("", "check agent-check agent-port 8080", "server one … agent-check"),
    ] {
        let (errors, code) = import(check, server);
        assert!(errors.contains(said), "{check} {server}: {errors}");
        assert_eq!(code, Some(1), "{check} {server}");
    }
    // What a server says decides whether it is the one that may be written to: where it is not asked, nothing goes to any.
    for (check, said) in [
        (
            "option tcp-check\n tcp-check send info\\r\\n\n tcp-check expect ! string role:slave",
            "`tcp-check expect ! string role:slave` (h.cfg:6) decides which servers are used, and is not asked here; nobody passes",
        ),
        (
            "option external-check\n external-check command /bin/true",
            "`external-check command /bin/true` (h.cfg:5) decides which servers are used, and is not asked here; nobody passes",
        ),
        (
            "option httpchk GET /\n server zero 127.0.0.1:9 check port 8009",
            "its servers are checked at different ports; nobody passes",
        ),
        (
            "option tcp-check\n tcp-check expect string master\n server zero 127.0.0.1:9 check port 8009",
            "its servers are checked at different ports; nobody passes",
        ),
        (
            "option tcp-check\n tcp-check expect string master\n server zero 127.0.0.1:9 check port 8008 addr 127.0.0.9",
            "its servers are checked at other addresses; nobody passes",
        ),
        (
            "option httpchk GET /\n server zero 127.0.0.1:9 check port 8008 addr 127.0.0.9",
            "its servers are checked at other addresses; nobody passes",
        ),
    ] {
        let (errors, code) = import(check, "check port 8008");
        assert!(errors.contains(said), "{check}: {errors}");
        assert_eq!(code, Some(1), "{check}");
    }
}
