//! An edge and two key servers, each in a network namespace of its own.

use std::process::Command;

use crate::client::{End, connector, visit};
use crate::folder;
use crate::harness::wait_until;
use crate::key_server::KeyServer;
use crate::{metric, outcomes, start};

/// Two namespaces joined to ours by a veth pair each; gone when dropped.
struct Networks(Vec<String>);

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split_whitespace()).output().is_ok_and(|output| output.status.success())
}

impl Networks {
    /// None where that is not allowed.
    fn make() -> Option<Networks> {
        let tag = std::process::id() % 10_000;
        let mut networks = Networks(Vec::new());
        for index in 1..=2 {
            let name = format!("keyless{tag}n{index}");
            let (ours, theirs) = (format!("kl{tag}a{index}"), format!("kl{tag}b{index}"));
            if !ip(&format!("netns add {name}")) {
                return None;
            }
            networks.0.push(name.clone());
            let commands = [
                format!("link add {ours} type veth peer name {theirs}"),
                format!("link set {theirs} netns {name}"),
                format!("addr add 10.77.{index}.1/24 dev {ours}"),
                format!("link set {ours} up"),
                format!("-n {name} addr add 10.77.{index}.2/24 dev {theirs}"),
                format!("-n {name} link set {theirs} up"),
            ];
            if !commands.iter().all(|command| ip(command)) {
                return None;
            }
        }
        Some(networks)
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        self.0.iter().for_each(|name| _ = ip(&format!("netns del {name}")));
    }
}

#[test]
fn an_edge_and_two_key_servers_in_networks_of_their_own() {
    let Some(networks) = Networks::make() else {
        eprintln!("skipped: network namespaces need root");
        return;
    };
    let dir = folder();
    let server = |index: usize, behave: &str| {
        let host = format!("10.77.{}.2", index + 1);
        let before = ["ip", "netns", "exec", &networks.0[index]];
        KeyServer::start_with(dir.path(), &before, &["--host", &host, "--behave", behave])
    };
    let (first, second) = (server(0, "alpn"), server(1, "tls12"));
    let gate = start(dir, &[&first, &second], ", timeout: 300ms");
    let full = || visit(&connector(gate.dir.path()), gate.address("edge")).end;
    let answered = End::Answered { resumed: false };
    while outcomes(&gate, &first, "success") == 0.0 || outcomes(&gate, &second, "success") == 0.0 {
        assert_eq!(full(), answered);
    }
    // The first network goes: no reset, no end, just silence. The second serves on.
    assert!(ip(&format!("-n {} link set lo down", networks.0[0])));
    assert!(
        Command::new("ip")
            .args(["-n", &networks.0[0], "link", "set"])
            .arg(veth_in(&networks.0[0]))
            .arg("down")
            .status()
            .unwrap()
            .success()
    );
    for _ in 0..20 {
        assert_eq!(full(), answered);
    }
    assert!(
        Command::new("ip")
            .args(["-n", &networks.0[0], "link", "set"])
            .arg(veth_in(&networks.0[0]))
            .arg("up")
            .status()
            .unwrap()
            .success()
    );
    let up = format!("portunus_keyless_server_up{{group=\"keys\",server=\"{}\"}}", first.address);
    wait_until("the first to be back", || metric(&gate, &up) == Some(1.0));
    assert_eq!(full(), answered);
}

/// The name of the veth end in a namespace made above.
fn veth_in(network: &str) -> String {
    network.replace("keyless", "kl").replace('n', "b")
}
