//! Rates of requests beside nginx's `limit_req`: the same limit, the same requests, and as many pass for each client, and reach the server behind.
//!
//! The rate is one request in a minute, so that what passes is the burst. nginx's `burst` is what may come beyond the rate, so ours is one more.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::distribution::{Site, nginx_with};
use crate::harness::{Gate, PATIENCE, Upstream, read_to_end, statuses, vacant};

/// nginx and ours, each before a server of its own.
struct Both {
    theirs: Site,
    ours: Gate,
    upstreams: [Upstream; 2],
    started: Instant,
}

/// Who asks: from which address, with which further fields.
type Client = ([u8; 4], &'static str);

impl Both {
    /// `zones`: keys of nginx's zones `one` and `two`; `limits`: directives of the location; `policies`: our table, and those of our route.
    fn start(zones: &[&str], limits: &str, policies: &str, named: &str) -> Both {
        let upstreams = [Upstream::ok(), Upstream::ok()];
        let started = Instant::now();
        let address = vacant();
        let zones: String = zones
            .iter()
            .zip(["one", "two"])
            .map(|(key, name)| format!("limit_req_zone {key} zone={name}:1m rate=1r/m;\n"))
            .collect();
        let theirs = nginx_with(
            address,
            &format!(
                "{zones}limit_req_status 429; set_real_ip_from 127.0.0.9; real_ip_header X-Forwarded-For;\n\
                 server {{ listen {address}; location / {{ {limits} proxy_pass http://{}; }} }}",
                upstreams[0].address
            ),
        );
        let ours = Gate::start(&format!(
            "workers: 2\ntrusted_proxies: [127.0.0.9]\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nupstreams: {{ app: {{ servers: [\"{}\"] }} }}\n\
             policies: {{ {policies} }}\nroutes:\n  - {{ upstream: app, policies: {named} }}\n",
            upstreams[1].address
        ));
        Both { theirs, ours, upstreams, started }
    }

    fn address(&self, at: usize) -> SocketAddr {
        [self.theirs.address, self.ours.address("web")][at]
    }

    /// Each client asks so often, in turns, by several methods; how many requests of each passed, at theirs and at ours.
    fn passed(&self, clients: &[(Client, usize)]) -> [Vec<usize>; 2] {
        [0, 1].map(|at| {
            let mut passed: Vec<usize> = vec![0; clients.len()];
            let most = clients.iter().map(|(_, times)| *times).max().unwrap();
            for turn in 0..most {
                for (number, (client, _)) in clients.iter().enumerate().filter(|(_, (_, times))| turn < *times) {
                    passed[number] += usize::from(ask(self.address(at), *client, turn));
                }
            }
            passed
        })
    }

    /// How many of each passed at both, as expected and as the servers saw.
    fn check(&self, clients: &[(Client, usize)], expected: [&[usize]; 2]) {
        let before: [usize; 2] = [0, 1].map(|at| self.upstreams[at].seen().len());
        let passed = self.passed(clients);
        // A minute lets one more pass. No run takes that long, but if one does, it says nothing.
        if self.started.elapsed().as_secs() >= 60 {
            return;
        }
        assert_eq!([&passed[0][..], &passed[1][..]], expected, "{clients:?}");
        for at in [0, 1] {
            let seen = self.upstreams[at].seen().len() - before[at];
            assert_eq!(seen, passed[at].iter().sum::<usize>(), "what does not pass does not reach the server ({at})");
        }
    }
}

/// Whether a request passes; it is rejected with 429 otherwise.
fn ask(to: SocketAddr, (from, fields): Client, turn: usize) -> bool {
    let (method, body) = [("GET", ""), ("POST", "Content-Length: 3\r\n\r\na=b"), ("DELETE", "")][turn % 3];
    let end = if body.is_empty() { "\r\n" } else { body };
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("{method} /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}{end}");
    stream.write_all(request.as_bytes()).unwrap();
    match statuses(&read_to_end(&mut stream))[..] {
        [200] => true,
        [429] => false,
        ref other => panic!("{other:?} for {request}"),
    }
}

fn from(last: u8) -> Client {
    ([127, 0, 0, last], "")
}

#[test]
fn as_many_pass_of_each_client() {
    for burst in [0, 1, 4, 9] {
        let theirs = if burst == 0 { String::new() } else { format!("burst={burst} nodelay") };
        let both = Both::start(
            &["$binary_remote_addr"],
            &format!("limit_req zone=one {theirs};"),
            &format!("p: {{ rate_limit: {{ rate: 1/m, burst: {} }} }}", burst + 1),
            "p",
        );
        let most = burst + 1;
        let expected = [most, most.min(3), 1, most];
        both.check(&[(from(2), 12), (from(3), 3), (from(4), 1), (from(5), most)], [&expected, &expected]);
        // And no more of those who have used it up, whatever they say of themselves.
        let spoofed = ([127, 0, 0, 2], "X-Forwarded-For: 192.0.2.1\r\n");
        both.check(&[(from(2), 2), (spoofed, 2), (from(6), 1)], [&[0, 0, 1], &[0, 0, 1]]);
    }
}

#[test]
fn clients_behind_a_trusted_proxy_count_by_their_own_address() {
    let both = Both::start(
        &["$binary_remote_addr"],
        "limit_req zone=one burst=2 nodelay;",
        "p: { rate_limit: { rate: 1/m, burst: 3 } }",
        "p",
    );
    let behind = |fields| ([127, 0, 0, 9], fields);
    let clients = [
        (behind("X-Forwarded-For: 192.0.2.1\r\n"), 6),
        (behind("X-Forwarded-For: 192.0.2.2\r\n"), 2),
        (behind("X-Forwarded-For: 2001:db8:0:1::1\r\n"), 6),
        (behind("X-Forwarded-For: 2001:db8:0:2::1\r\n"), 6),
    ];
    both.check(&clients, [&[3, 2, 3, 3]; 2]);
    // nginx counts each address, of which everybody with IPv6 has 2^64. Ours counts their network.
    both.check(&[(behind("X-Forwarded-For: 2001:db8:0:1::2\r\n"), 6)], [&[3], &[0]]);
}

#[test]
fn as_many_pass_of_each_value() {
    for (key, ours, fields) in [
        ("$http_x_key", "{ header: x-key }", ["X-Key: a\r\n", "X-Key: A\r\n", "x-key: b c\r\n", "X-KEY: ann\r\n"]),
        (
            "$cookie_key",
            "{ cookie: key }",
            ["Cookie: key=a\r\n", "Cookie: key=A\r\n", "Cookie: o=a; key=b\r\n", "Cookie: key=ann; o=1\r\n"],
        ),
    ] {
        let both = Both::start(
            &[key],
            "limit_req zone=one burst=3 nodelay;",
            &format!("p: {{ rate_limit: {{ rate: 1/m, burst: 4, key: {ours} }} }}"),
            "p",
        );
        let clients: Vec<_> =
            fields.iter().zip([7, 5, 4, 2]).map(|(fields, times)| (([127, 0, 0, 2], *fields), times)).collect();
        both.check(&clients, [&[4, 4, 4, 2]; 2]);
        // A value is used up from wherever it is sent.
        both.check(&[(([127, 0, 0, 3], fields[0]), 2), (([127, 0, 0, 3], fields[3]), 3)], [&[0, 2]; 2]);
        // nginx does not count requests without a value, so that whoever leaves it out has no limit. Ours count by the address of the client.
        both.check(&[(from(4), 9), (from(5), 9)], [&[9, 9], &[4, 4]]);
    }
}

#[test]
fn combinations_and_all_requests_together() {
    let both = Both::start(
        &["$binary_remote_addr$http_x_key"],
        "limit_req zone=one burst=1 nodelay;",
        "p: { rate_limit: { rate: 1/m, burst: 2, key: [client, { header: x-key }] } }",
        "p",
    );
    let clients = [
        (([127, 0, 0, 2], "X-Key: a\r\n"), 4),
        (([127, 0, 0, 2], "X-Key: b\r\n"), 4),
        (([127, 0, 0, 3], "X-Key: a\r\n"), 4),
    ];
    both.check(&clients, [&[2, 2, 2]; 2]);

    let both = Both::start(
        &["$server_port"],
        "limit_req zone=one burst=6 nodelay;",
        "p: { rate_limit: { rate: 1/m, burst: 7, key: all } }",
        "p",
    );
    // In turns, so three, two and two.
    both.check(&[(from(2), 5), (from(3), 5), (from(4), 5)], [&[3, 2, 2]; 2]);
}

#[test]
fn of_two_limits_both_hold() {
    let start = |ours| {
        Both::start(
            &["$binary_remote_addr", "$http_x_key"],
            "limit_req zone=one burst=3 nodelay; limit_req zone=two burst=1 nodelay;",
            "client: { rate_limit: { rate: 1/m, burst: 4 } }, key: { rate_limit: { rate: 1/m, burst: 2, key: { header: x-key } } }",
            ours,
        )
    };
    // Beyond what the client may send, and beyond what the key may.
    let [a, b, c] = ["X-Key: a\r\n", "X-Key: b\r\n", "X-Key: c\r\n"].map(|key| ([127, 0, 0, 2], key));
    let both = start("[client, key]");
    both.check(&[(a, 2), (b, 2)], [&[2, 2]; 2]);
    both.check(&[(a, 1), (c, 1)], [&[0, 0]; 2]);
    // nginx takes nothing of the first limit for a request that the second one rejects. Ours asks one policy after the other, and each counts what
    // it is asked about: the narrower one first gives what nginx gives.
    for (ours, passed) in [("[client, key]", 1), ("[key, client]", 2)] {
        let both = start(ours);
        both.check(&[(a, 3)], [&[2]; 2]);
        both.check(&[(b, 3)], [&[2], &[passed]]);
    }
}

#[test]
fn a_limit_on_trial_rejects_nothing() {
    let both = Both::start(
        &["$binary_remote_addr"],
        "limit_req zone=one; limit_req_dry_run on;",
        "p: { mode: log, rate_limit: { rate: 1/m, burst: 1 } }",
        "p",
    );
    both.check(&[(from(2), 5), (from(3), 1)], [&[5, 1]; 2]);
}

/// From many connections at once: no more, and no fewer.
#[test]
fn at_once_as_many_pass_as_in_turns() {
    let both = Both::start(
        &["$binary_remote_addr"],
        "limit_req zone=one burst=19 nodelay;",
        "p: { rate_limit: { rate: 1/m, burst: 20 } }",
        "p",
    );
    let passed = [0, 1].map(|at| {
        let address = both.address(at);
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                std::thread::spawn(move || {
                    let client = 2 + thread % 2;
                    (client, (0..10).filter(|turn| ask(address, from(client), *turn)).count())
                })
            })
            .collect();
        let mut of_clients = BTreeMap::new();
        for thread in threads {
            let (client, count) = thread.join().unwrap();
            *of_clients.entry(client).or_insert(0) += count;
        }
        of_clients
    });
    if both.started.elapsed().as_secs() < 60 {
        assert_eq!(passed, [0, 1].map(|_| BTreeMap::from([(2, 20), (3, 20)])));
    }
}
