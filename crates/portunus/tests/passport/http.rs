//! HTTP onward from the client's own address: whom an unmodified web server sees, over connections that serve one client each.

use super::site::{Running, Site};

/// A web server that responds with its client's address, and counts its connections.
fn web(address: &str, port: u16) -> String {
    format!(
        r#"
import http.server, socket, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def setup(self):
        super().setup()
        self.number = Server.number = Server.number + 1
    def do_GET(self):
        text = "%s %d %d" % (*self.client_address[:2], self.number)
        print(self.path, text, self.headers.get("X-Forwarded-For"))
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass
class Server(http.server.ThreadingHTTPServer):
    number = 0
    request_queue_size = 128
    address_family = socket.AF_INET6 if ":" in "{address}" else socket.AF_INET
server = Server(("{address}", {port}), Handler)
print("ready")
server.serve_forever()
"#
    )
}

/// A gate at 198.51.100.1:80 and [2001:db8:1::1]:80 in front of web servers on loopback.
fn site(listener: &str, servers: &str, more: &str) -> (Site, Running) {
    let mut site = Site::new();
    let edge = site.edge.clone();
    for address in ["127.0.0.1", "::1"] {
        site.python(&edge, &web(address, 8080));
    }
    let yaml = format!(
        "workers: 2\nlisteners:\n- name: web\n  bind: [\":80\"]\n  {listener}\nupstreams:\n  app: {{ servers: {servers}, transparent: true, connect_timeout: 1m }}\n\
         routes:\n- upstream: app\n{more}"
    );
    let running = site.portunus(&yaml).listens("[::]:80");
    (site, running)
}

const BOTH: &str = "[\"127.0.0.1:8080\", \"[::1]:8080\"]";

const CLIENT: &str = r#"
import http.client
def opened(source, header=b""):
    six = ":" in source[0]
    s = tcp(("2001:db8:1::1", 80) if six else ("198.51.100.1", 80), source)
    s.sendall(header)
    c = http.client.HTTPConnection("edge")
    c.sock = s
    return c
def ask(c, **fields):
    c.request("GET", "/", headers=fields)
    response = c.getresponse()
    return response.status, response.read().decode()
"#;

fn client(site: &Site, program: &str) -> String {
    site.client(&format!("{CLIENT}\n{program}"))
}

#[test]
fn an_unmodified_web_server_sees_the_true_client() {
    let (site, running) = site("half_close: serve", BOTH, "");
    client(
        &site,
        r#"
for host in ["203.0.113.7", "2001:db8::7"]:
    one, other = opened((host, 4711)), opened((host, 4712))
    status, first = ask(one)
    assert (status, first.rsplit(" ", 1)[0]) == (200, host + " 4711"), first
    status, second = ask(other)
    assert second.rsplit(" ", 1)[0] == host + " 4712", second
    # The same connection for the same client, never another's.
    assert ask(one)[1] == first and ask(other)[1] == second and first.split()[2] != second.split()[2]
    one.close()
    other.close()
"#,
    );
    let log = running.log(8);
    assert!(log.iter().all(|line| line["port_kept"] == true && line["status"] == 200), "{log:#?}");
}

/// Whom a PROXY header or a trusted proxy names; who is not trusted goes on as itself.
#[test]
fn the_client_is_whom_a_balancer_names() {
    let listener = "proxy_protocol: { trust: [198.51.100.10], header: optional, header_timeout: 1m }";
    let (site, _running) = site(listener, BOTH, "trusted_proxies: [203.0.113.8]\n");
    client(
        &site,
        r#"
c = opened(("198.51.100.10", 0), v2(("203.0.113.7", 4711), ("198.51.100.1", 80), socket.SOCK_STREAM))
assert ask(c)[1].startswith("203.0.113.7 4711 ")
# Version 6 clients through version 4.
c = opened(("198.51.100.10", 0), v2(("2001:db8::8", 4713), ("2001:db8:1::1", 80), socket.SOCK_STREAM))
assert ask(c)[1].startswith("2001:db8::8 4713 ")
# A trusted proxy's clients, two of them on one connection: any port of theirs.
c = opened(("203.0.113.8", 0))
for host in ["203.0.113.7", "2001:db8::7", "203.0.113.7"]:
    status, said = ask(c, **{"X-Forwarded-For": host})
    assert said.startswith(host + " "), said
# Who says so without being trusted.
c = opened(("203.0.113.7", 4714))
assert ask(c, **{"X-Forwarded-For": "203.0.113.99"})[1].startswith("203.0.113.7 4714 ")
"#,
    );
}

/// Row 112 of the attack matrix.
#[test]
fn sources_that_are_ours_or_nobodys_are_rejected() {
    let listener = "proxy_protocol: { trust: [198.51.100.10], header: optional, header_timeout: 1m }";
    let (site, running) = site(listener, "[\"127.0.0.1:8080\"]", "trusted_proxies: [203.0.113.8]\n");
    client(
        &site,
        r#"
for host in ["127.0.0.1", "198.51.100.1", "224.0.0.1", "169.254.1.1"]:
    header = v2((host, 9), ("198.51.100.1", 80), socket.SOCK_STREAM)
    assert ask(opened(("198.51.100.10", 0), header))[0] == 403, host
    # What is no address of a client names nobody, and nobody goes on in its place: servers may trust the proxy's own address.
    assert ask(opened(("203.0.113.8", 0)), **{"X-Forwarded-For": host})[0] == 403, host
# No server of its family.
assert ask(opened(("2001:db8::7", 0)))[0] == 503
assert ask(opened(("203.0.113.7", 4711)))[1].startswith("203.0.113.7 4711 ")
"#,
    );
    let log = running.log(10);
    for (reason, count) in [("source_is_own_address", 2), ("source_is_loopback", 2), ("no_target_of_family", 1)] {
        assert_eq!(log.iter().filter(|line| line["reason"] == reason).count(), count, "{reason}: {log:#?}");
    }
}

/// Requests at once on one connection of a client: one of them has its port, the others one of their own, all its address.
#[test]
fn a_port_that_is_taken_is_another_one() {
    let (site, running) = site("half_close: serve", "[\"127.0.0.1:8080\"]", "");
    client(
        &site,
        r#"
import threading
results = []
def one():
    c = opened(("203.0.113.7", 0))
    for _ in range(20):
        results.append(ask(c)[1].split())
threads = [threading.Thread(target=one) for _ in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(results) == 400 and all(host == "203.0.113.7" for host, _, _ in results), results
"#,
    );
    assert!(running.log(400).iter().all(|line| line["status"] == 200));
}
