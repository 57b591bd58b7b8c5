//! nginx's `stream` beside its import: TCP and UDP, TLS taken off and passed on by name, PROXY headers, who may connect. And limits of connections and of
//! bandwidth, which TCP and HTTP share.

use std::io::{Read, Write};
use std::net::UdpSocket;

use super::beside::{Beside, Program};
use crate::harness::secure::Secure;
use crate::harness::{PATIENCE, connect, connect_from};

fn beside(stream: &str, listeners: &[&str]) -> Beside {
    Beside::start(&Program::Nginx, &format!("@stream@{stream}"), listeners)
}

/// Which upstream responds over a connection, whose end nobody waits for: bytes are forwarded. None where it is closed before.
fn responds(mut stream: impl Read + Write) -> Option<char> {
    let _ = stream.write_all(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((_, name)) = text.split_once("\r\n\r\nupstream ").filter(|(_, name)| !name.is_empty()) {
            return name.chars().next();
        }
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => all.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

/// The same of both, which must agree; a listener under TLS is asked for a name.
fn agreed(both: &Beside, listener: &str, name: Option<&str>) -> Option<char> {
    let [theirs, ours] = both.addresses(listener).map(|address| match name {
        Some(name) => responds(Secure::connect(address, both.dir(), name, "http/1.1")),
        None => responds(connect(address)),
    });
    assert_eq!(theirs, ours, "{listener} {name:?}\n{}", both.yaml());
    ours
}

#[test]
fn tcp_goes_where_it_went() {
    let both = beside(
        "upstream pool { least_conn; server @A@ weight=2; server @B@ backup; }
         server { listen @tcp@; proxy_pass pool; proxy_timeout 5m; proxy_connect_timeout 3s; }
         server { listen @other@; proxy_pass @B@; proxy_download_rate 1m; proxy_upload_rate 512k; }
         server { listen @open@; allow 127.0.0.0/8; deny all; proxy_pass @C@; }
         server { listen @denied@; deny 127.0.0.0/8; proxy_pass @C@; }
         limit_conn_zone $binary_remote_addr zone=each:1m;
         server { listen @few@; limit_conn each 10; proxy_pass @C@; }
         server { listen @header@; proxy_protocol on; proxy_pass @inner@; }
         server { listen @inner@ proxy_protocol; set_real_ip_from 127.0.0.0/8; proxy_pass @A@; }
         server { listen @secures@ ssl; ssl_certificate @dir@/certs/0-Ecdsa.pem; ssl_certificate_key @dir@/certs/0-Ecdsa.pem;
                  proxy_pass @A@; }",
        &["tcp", "other", "open", "denied", "few", "header", "inner", "secures"],
    );
    for (listener, name, expected) in [
        ("tcp", None, Some('A')),
        ("other", None, Some('B')),
        ("open", None, Some('C')),
        ("denied", None, None),
        ("few", None, Some('C')),
        ("header", None, Some('A')),
        ("secures", Some("a.test"), Some('A')),
    ] {
        assert_eq!(agreed(&both, listener, name), expected, "{listener}");
    }
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
    let yaml = both.yaml();
    for expected in [
        "idle_timeout: 5m",
        "idle_timeout: 10m",
        "connect_timeout: 3s",
        "connect_timeout: 1m",
        "bandwidth_limit: { download: 1MiB, upload: 512KiB }",
        "concurrency_limit: { max_in_flight: 10 }",
        "send_proxy: v1",
        "balance: least_loaded",
    ] {
        assert!(yaml.contains(expected), "{expected}: {yaml}");
    }
}

#[test]
fn names_of_hellos_decide_where_tls_is_not_opened() {
    let both = beside(
        "map $ssl_preread_server_name $target {
            hostnames;
            a.test @one@;
            .b.test @two@;
            default @three@;
         }
         server { listen @fronts@; ssl_preread on; proxy_pass $target; }
         ssl_certificate @dir@/certs/0-Ecdsa.pem;
         ssl_certificate_key @dir@/certs/0-Ecdsa.pem;
         server { listen @one@ ssl; proxy_pass @A@; }
         server { listen @two@ ssl; ssl_certificate @dir@/certs/1-Ecdsa.pem; ssl_certificate_key @dir@/certs/1-Ecdsa.pem; proxy_pass @B@; }
         server { listen @three@ ssl; ssl_certificate @dir@/certs/1-Ecdsa.pem; ssl_certificate_key @dir@/certs/1-Ecdsa.pem; proxy_pass @C@; }",
        &["fronts", "one", "two", "three"],
    );
    assert_eq!(agreed(&both, "fronts", Some("a.test")), Some('A'));
    assert_eq!(agreed(&both, "fronts", Some("b.test")), Some('B'));
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
}

#[test]
fn addresses_of_clients_decide_where_a_geo_says_so() {
    let both = beside(
        "upstream wide { server @B@; }
         geo $target { default @A@; 127.0.0.0/8 wide; 127.0.0.1 @C@; 127.1.0.0/16 @A@; delete 127.1.0.0/16; 2001:db8::/32 wide; }
         geo $proxy_protocol_addr $named { default @C@; 192.0.2.0/24 wide; 192.0.2.7/32 @A@; }
         geo $nobody { 10.0.0.0/8 @A@; }
         server { listen @tcp@; proxy_pass $target; }
         server { listen @none@; proxy_pass $nobody; }
         server { listen @head@ proxy_protocol; set_real_ip_from 127.0.0.0/8; proxy_pass $named; }",
        &["tcp", "none", "head"],
    );
    let from = |client: &str, header: &str, listener: &str| {
        let [theirs, ours] = both.addresses(listener).map(|address| {
            let mut stream = connect_from(client, address);
            stream.write_all(header.as_bytes()).unwrap();
            responds(stream)
        });
        assert_eq!(theirs, ours, "{client} {header:?}\n{}", both.yaml());
        ours
    };
    for (client, expected) in [("127.0.0.1", 'C'), ("127.0.0.2", 'B'), ("127.1.0.1", 'B')] {
        assert_eq!(from(client, "", "tcp"), Some(expected), "{client}");
        assert_eq!(from(client, "", "none"), None, "{client}");
    }
    for (client, expected) in [("192.0.2.7", 'A'), ("192.0.2.8", 'B'), ("198.51.100.1", 'C')] {
        let header = format!("PROXY TCP4 {client} 127.0.0.1 4711 25\r\n");
        assert_eq!(from("127.0.0.1", &header, "head"), Some(expected), "{client}");
    }
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
}

#[test]
fn datagrams_go_where_they_went() {
    let application = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = application.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = application.recv_from(&mut buffer) {
            let _ = application.send_to(&buffer[..length], from);
        }
    });
    let both = beside(
        &format!(
            "server {{ listen @tcp@; proxy_pass @A@; }}
             server {{ listen @tcp@ udp; proxy_pass {target}; proxy_timeout 20s; }}"
        ),
        &["tcp"],
    );
    for address in both.addresses("tcp") {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect(address).unwrap();
        client.send(b"question").unwrap();
        let mut buffer = [0; 64];
        let length = client.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"question", "{address}");
    }
    assert_eq!(agreed(&both, "tcp", None), Some('A'));
    assert_eq!(both.left_out(), Vec::<String>::new(), "{}", both.yaml());
}

/// Where it is not known where connections go, or whose they are, nothing listens.
#[test]
fn what_cannot_be_said_is_left_out_and_closed() {
    let both = beside(
        "map $remote_addr $by_address { 10.0.0.1 @A@; default @B@; }
         map $ssl_preread_server_name $by_pattern { ~^x @A@; default @B@; }
         server { listen @tcp@; proxy_pass @A@; }
         server { listen 127.99.98.97:1; proxy_pass $by_address; }
         server { listen 127.99.98.97:2; ssl_preread on; proxy_pass $by_pattern; }
         geo $by_range { ranges; 10.0.0.0-10.0.0.9 @A@; default @B@; }
         geo $ssl_server_name $by_word { 10.0.0.0/8 @A@; default @B@; }
         geo $by_client { 10.0.0.0/8 @A@; default @B@; }
         server { listen 127.99.98.97:3; return hello; }
         server { listen 127.99.98.97:5; proxy_pass $by_range; }
         server { listen 127.99.98.97:6; proxy_pass $by_word; }
         server { listen 127.99.98.97:7 proxy_protocol; proxy_pass $by_client; }
         server { listen 127.99.98.97:8 udp; proxy_pass $by_client; }
         server { listen 127.99.98.97:4 udp; proxy_pass @A@; proxy_protocol on; }
         server { listen @bind@; proxy_pass @A@; proxy_bind 127.0.0.1; }
         server { listen @head@ proxy_protocol; proxy_pass @A@; }",
        &["tcp", "bind", "head"],
    );
    let left_out = both.left_out();
    for expected in [
        "listen 127.99.98.97:1: the server is chosen by a variable that is not the name of a ClientHello; the listener is left out",
        "listen 127.99.98.97:2: `~^x` of the map is no name of a host; the listener is left out",
        "listen 127.99.98.97:3: `return` has no counterpart; the listener is left out",
        "listen 127.99.98.97:4: datagrams go on without a PROXY header; the listener is left out",
        "listen 127.99.98.97:5: `ranges` of the geo has no counterpart; the listener is left out",
        "listen 127.99.98.97:6: `$ssl_server_name` of the geo is not the address of the client; the listener is left out",
        "listen 127.99.98.97:7: `$remote_addr` of the geo is not the address of the client; the listener is left out",
        "listen 127.99.98.97:8: the server is chosen by a variable; the listener is left out",
        "proxy_bind 127.0.0.1: of addresses to connect from there is the client's",
        "listen … proxy_protocol: whose PROXY headers are believed is not said",
    ] {
        assert!(left_out.iter().any(|text| text.contains(expected)), "{expected}: {left_out:#?}");
    }
    assert_eq!(left_out.len(), 11, "{left_out:#?}");
    assert_eq!(agreed(&both, "tcp", None), Some('A'));
    let yaml = both.yaml();
    assert!((1..9).all(|port| !yaml.contains(&format!("\"127.99.98.97:{port}\""))), "{yaml}");
}

#[test]
fn bandwidth_and_requests_at_once_are_limited_as_there() {
    let both = Beside::start(
        &Program::Nginx,
        "limit_conn_zone $binary_remote_addr zone=each:1m;
         limit_conn_zone $server_name zone=all:1m;
         limit_conn_zone $http_x_key zone=key:1m;
         server {
            listen @web@;
            limit_conn each 100;
            location / { proxy_pass http://@A@; }
            location /slow/ { limit_rate 64k; limit_rate_after 1m; proxy_pass http://@A@; }
            location /few/ { limit_conn all 50; limit_conn key 5; proxy_pass http://@A@; }
            location /any/ { limit_rate $rate; proxy_pass http://@A@; }
            set $rate 1k;
         }",
        &["web"],
    );
    both.compare_paths("a.test", &["/", "/slow/x", "/few/x"]);
    let yaml = both.yaml();
    for expected in [
        "each: { concurrency_limit: { max_in_flight: 100 } }",
        "all: { concurrency_limit: { max_in_flight: 50, key: all } }",
        "key: { concurrency_limit: { max_in_flight: 5, key: { header: x-key } } }",
        "bandwidth_limit: { download: 64KiB, burst: 1MiB }",
        "differs: ",
    ] {
        assert!(yaml.contains(expected), "{expected}: {yaml}");
    }
    let left_out = both.left_out();
    assert!(
        left_out.iter().any(|text| text.contains("limit_rate $rate: a rate is a fixed number of bytes")),
        "{left_out:?}"
    );
}
