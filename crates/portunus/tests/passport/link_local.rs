//! Clients and servers at IPv6 link-local addresses: a router that announces `fe80::1` as its name server (RFC 8106) is asked there.

use super::site::{Site, run, within};

#[test]
fn link_local_clients_and_servers_are_reached() {
    let mut site = Site::new();
    let edge = site.edge.clone();
    for address in ["fe80::1/64", "fe80::2/64", "2001:db8::1/128"] {
        run(&["ip", "-n", &edge, "-6", "address", "add", address, "dev", "lo", "nodad"]);
    }
    let server = "import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(socket.getaddrinfo('fe80::2%lo', 14011)[0][4])
print('ready')
while True:
    data, peer = s.recvfrom(2048)
    s.sendto(b'seen ' + data, peer)
";
    site.python(&edge, server);
    let server = "import socket, threading
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(socket.getaddrinfo('fe80::2%lo', 14012)[0][4])
s.listen()
print('ready')
while True:
    c = s.accept()[0]
    c.sendall(c.recv(2048).split(b'Host: ')[1].split(b'\\r\\n')[0])
    c.close()
";
    site.python(&edge, server);
    let running = site.portunus_as_it_is(
        "udp_listeners:
  - { name: any, bind: \"[::]:14001\", upstream: \"[fe80::2%lo]:14011\" }
  - { name: one, bind: \"[fe80::1%lo]:14002\", upstream: u }
listeners:
  - { name: t, bind: \"[fe80::1%lo]:14003\", tunnel: { upstream: t } }
upstreams:
  u: { protocol: udp, servers: [\"[fe80::2%lo]:14011\"] }
  t: { protocol: tcp, servers: [\"[fe80::2%lo]:14012\"] }
",
    );
    for port in ["]:14001", "]:14002", "]:14003"] {
        running.wait_for(port);
    }
    let client = "import socket
for source, port in (('fe80::2%lo', 14001), ('fe80::2%lo', 14002), ('2001:db8::1', 14001), ('2001:db8::1', 14002)):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.settimeout(30)
    s.bind(socket.getaddrinfo(source, 0)[0][4])
    s.sendto(b'q', socket.getaddrinfo('fe80::1%lo', port)[0][4])
    data, peer = s.recvfrom(2048)
    print(source, port, data.decode(), peer[0], peer[1])
s = socket.create_connection(('fe80::1%lo', 14003), 30)
s.sendall(b'Host: me\\r\\n')
print('tunnel', s.recv(2048).decode())
";
    let output = within(&edge, &["python3", "-c", client]).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).replace("%lo", "");
    let expected = "fe80::2 14001 seen q fe80::1 14001
fe80::2 14002 seen q fe80::1 14002
2001:db8::1 14001 seen q fe80::1 14001
2001:db8::1 14002 seen q fe80::1 14002
tunnel me
";
    assert_eq!(text, expected);
}
