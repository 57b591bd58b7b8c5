//! HTTP/3 where keys are elsewhere: its handshakes cannot wait for them, so responses do not announce it, and `check` says so.

use std::process::{Command, Output};

use super::key_server::KeyServer;
use super::{PATIENT, SITE, folder, metric, yaml};
use crate::harness::{Gate, PORTUNUS, wait_until};

fn text_of(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

#[test]
fn http3_is_not_announced_and_check_says_why() {
    let dir = folder();
    let server = KeyServer::start(dir.path(), "tls12");
    let text = yaml(&[&server], PATIENT).replace(", policy: legacy } }", " }, http3: true }");
    assert!(text.contains("http3: true"), "{text}");
    let gate = Gate::start_in(dir, &text);
    let connections = format!("portunus_keyless_connections{{group=\"keys\",server=\"{}\"}}", server.address);
    wait_until("the key server to be connected", || metric(&gate, &connections) >= Some(1.0));
    for version in ["--http1.1", "--http2"] {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--noproxy", "*", "--include", version, "--cacert", "ca.pem"])
            .args(["--connect-to", &format!("{SITE}:443:{}", gate.address("edge")), &format!("https://{SITE}/")])
            .current_dir(gate.dir.path())
            .output()
            .expect("curl is installed (Debian package curl)");
        let response = text_of(&output);
        assert!(response.starts_with("HTTP/") && response.contains(" 200"), "{version}: {response}");
        assert!(!response.to_ascii_lowercase().contains("alt-svc"), "{version}: {response}");
    }
    let checked = Command::new(PORTUNUS).arg("check").arg(gate.dir.path().join("portunus.yaml")).output().unwrap();
    assert!(checked.status.success());
    let wanted = "listener `edge`: its certificates without a private key are not served over HTTP/3";
    assert!(text_of(&checked).contains(wanted), "{}", text_of(&checked));
}
