//! Requests over HTTP/2 whose response does not wait for their body.

use std::process::Command;

use crate::harness::{Gate, certificates};

/// curl 7.88 of Debian 12 took every other one for a failure, since its stream was reset while the body was on its way.
#[test]
fn curl_gets_responses_that_do_not_wait_for_its_body() {
    let text = "workers: 1
listeners: [{ name: web, bind: \"127.0.0.1:0\", tls: { keystore: main } }]
keystores: { main: { folder: certs, default: a.test } }
routes:
  - { hosts: [a.test], path: /fixed, respond: { status: 200, body: done } }
  - { hosts: [a.test], path: /moved, redirect: { to: /fixed } }
";
    let gate = Gate::start_in(certificates(&[("a.test", false)]), text);
    let address = gate.address("web");
    for _ in 0..20 {
        for (path, expected) in [("fixed", "200"), ("moved", "308"), ("nowhere", "404")] {
            let output = Command::new("curl")
                .args([
                    "--silent",
                    "--show-error",
                    "--http2",
                    "--cacert",
                    "ca.pem",
                    "--data",
                    "{}",
                    "--output",
                    "/dev/null",
                ])
                .args(["--write-out", "%{http_code}", "--connect-to", &format!("a.test:443:{address}")])
                .arg(format!("https://a.test/{path}"))
                .current_dir(gate.dir.path())
                .output()
                .expect("curl is installed (Debian package curl)");
            assert!(output.status.success(), "{path}: {output:?}");
            assert_eq!(output.stdout, expected.as_bytes(), "{path}: {output:?}");
        }
    }
}
