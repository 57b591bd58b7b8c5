//! A client that is gone without a word, as a machine without power is.

use super::site::{Site, run, tcp_echo, within};
use crate::harness::wait_until;

#[test]
fn a_client_that_vanished_loses_its_tunnel() {
    let mut site = Site::new();
    let (edge, client) = (site.edge.clone(), site.client.clone());
    site.python(&edge, &tcp_echo("127.0.0.1", 8000));
    let running = site
        .portunus_as_it_is(
        "listeners: [ { name: t, bind: \"198.51.100.1:7000\", limits: { keepalive: 1s }, tunnel: { upstream: u, idle_timeout: 30d } } ]
upstreams: { u: { servers: [\"127.0.0.1:8000\"], protocol: tcp } }
",
    )
    .listens("198.51.100.1:7000");
    let holder = "import socket
s = socket.create_connection(('198.51.100.1', 7000))
s.sendall(b'x')
s.recv(1000)
print('there')
while s.recv(1000):
    pass
";
    site.python(&client, holder);
    // What it has not acknowledged would be sent again for a quarter of an hour before anything else is asked: its system acknowledges a moment later.
    let queues = ["ss", "-Htn", "state", "established", "sport = :7000"];
    wait_until("all to be acknowledged", || {
        let output = within(&edge, &queues).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().count() == 1 && text.split_whitespace().nth(1) == Some("0")
    });
    // Its network goes down: not even a reset comes back any more.
    let links = run(&["ip", "-n", &client, "-o", "link", "show", "type", "veth"]);
    let name = links.split(": ").nth(1).and_then(|name| name.split('@').next()).unwrap().to_owned();
    run(&["ip", "-n", &client, "link", "set", &name, "down"]);
    let line = &running.log(1)[0];
    assert_eq!((&line["kind"], &line["ended_by"]), (&"tunnel".into(), &"client".into()), "{line}");
    assert_eq!(line["reason"], "tunnel_client_reset", "{line}");
}
