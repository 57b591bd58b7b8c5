//! Authorities that are broken or hostile, beside one that is neither: what they send is bounded, leads nowhere, and stops nothing.

use std::io::Write;

use keystore::dev_ca::{DevCa, Purpose};
use serde_json::{Value, json};

use super::edge::{Wanted, is_served, ports, start, wait_for_kept, yaml};
use super::pebble::Planned;
use crate::harness::{Gate, Reply, Seen, Upstream, vacant, wait_until};

const HOST: &str = "www.portunus.test";

/// An authority with a wrong side for each first segment of a path: a gate that terminates TLS for it.
struct Hostile {
    _gate: Gate,
    base: String,
    upstream: Upstream,
}

impl Hostile {
    fn start() -> Hostile {
        let address = vacant();
        let base = format!("https://{address}");
        let own = base.clone();
        let upstream = Upstream::start(move |seen| reply(seen, &own));
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::new("Hostile CA's server").unwrap();
        let pair = ca.issue(&[&address.ip().to_string()], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
        std::fs::create_dir(dir.path().join("certs")).unwrap();
        std::fs::write(dir.path().join("certs/default.pem"), format!("{}{}", pair.certificate_pem, *pair.key_pem))
            .unwrap();
        std::fs::write(dir.path().join("ca.pem"), ca.certificate_pem()).unwrap();
        let yaml = format!(
            "workers: 1
listeners: [{{ name: tls, bind: \"{address}\", tls: {{ keystore: main }} }}]
keystores: {{ main: {{ folder: certs }} }}
upstreams: {{ ca: {{ servers: [\"{}\"] }} }}
routes: [{{ path: \"/{{*rest}}\", upstream: ca }}]
",
            upstream.address
        );
        Hostile { _gate: Gate::start_in(dir, &yaml), base, upstream }
    }

    /// The items of `directory` for these of its sides.
    fn directories(&self, sides: &[&str]) -> String {
        let ca = self._gate.dir.path().join("ca.pem").display().to_string();
        let item = |side: &&str| format!("{{ url: \"{}/{side}/dir\", tls: {{ ca: \"{ca}\" }} }}", self.base);
        sides.iter().map(item).collect::<Vec<_>>().join(", ")
    }
}

fn respond(status: &str, fields: &str, body: &str) -> Reply {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\nReplay-Nonce: bm9uY2U\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    Reply::Keep(text.into_bytes())
}

fn found(value: &Value) -> Reply {
    respond("200 OK", "Content-Type: application/json\r\n", &value.to_string())
}

fn directory(base: &str, side: &str) -> Value {
    json!({
        "newNonce": format!("{base}/{side}/nonce"),
        "newAccount": format!("{base}/{side}/account"),
        "newOrder": format!("{base}/{side}/order"),
    })
}

/// What one side says to one request.
fn reply(seen: &Seen, base: &str) -> Reply {
    let target = seen.line().split(' ').nth(1).unwrap().to_owned();
    let mut parts = target.trim_start_matches('/').splitn(2, '/');
    let (side, what) = (parts.next().unwrap(), parts.next().unwrap_or_default());
    match (side, what) {
        ("garbage", "dir") => respond("200 OK", "", "<html>"),
        ("silent", "dir") => Reply::Silence,
        ("endless", "dir") => Reply::Take(Box::new(|mut stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            while stream.write_all(format!("10000\r\n{}\r\n", " ".repeat(65536)).as_bytes()).is_ok() {}
        })),
        ("deep", "dir") => respond("200 OK", "", &"[".repeat(100_000)),
        ("redirect", "dir") => respond("302 Found", "Location: https://127.0.0.1:1/\r\n", ""),
        ("badurl", "dir") => {
            let mut directory = directory(base, side);
            directory["newNonce"] = json!("http://[");
            found(&directory)
        }
        ("elsewhere", "dir") => {
            let mut directory = directory(base, side);
            directory["newOrder"] = json!("https://127.0.0.1:1/order");
            found(&directory)
        }
        (_, "dir") => found(&directory(base, side)),
        _ => reply_of_order(side, what, base),
    }
}

/// The same, once the directory was believed.
fn reply_of_order(side: &str, what: &str, base: &str) -> Reply {
    match (side, what) {
        (_, "nonce") => respond("200 OK", "", ""),
        ("nonces", "account") => {
            let problem = json!({ "type": "urn:ietf:params:acme:error:badNonce", "detail": "never" });
            respond("400 Bad Request", "", &problem.to_string())
        }
        (_, "account") => respond("201 Created", &format!("Location: {base}/{side}/account/1\r\n"), "{}"),
        ("limited", "order") => {
            let problem =
                json!({ "type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many\u{1b}[31m\nlines" });
            respond("429 Too Many Requests", "Retry-After: 18446744073709551615\r\n", &problem.to_string())
        }
        ("leads", "order") => {
            respond("201 Created", "Location: https://127.0.0.1:1/order/1\r\n", &order(base, side, 1))
        }
        (_, "order") => {
            let count = if side == "many" { 1000 } else { 1 };
            respond("201 Created", &format!("Location: {base}/{side}/order/1\r\n"), &order(base, side, count))
        }
        (_, "authz/0") => {
            let name = if side == "other" { "bank.example" } else { HOST };
            let token = if side == "token" { "../../../etc/passwd" } else { "dG9rZW4tb2Ytb3Vycw" };
            let challenge = |kind: &str| json!({ "type": kind, "url": format!("{base}/{side}/challenge"), "status": "pending", "token": token });
            found(&json!({
                "identifier": { "type": "dns", "value": name },
                "status": "pending",
                "challenges": if side == "unknown" { vec![challenge("carrier-pigeon-01")] } else { vec![challenge("tls-alpn-01")] },
            }))
        }
        (_, "challenge") => found(
            &json!({ "type": "tls-alpn-01", "url": format!("{base}/x"), "status": "pending", "token": "dG9rZW4tb2Ytb3Vycw" }),
        ),
        (_, "order/1") => found(
            &serde_json::from_str::<Value>(&order(base, side, 1))
                .map(|mut order| {
                    order["status"] = json!(if side == "pending" { "pending" } else { "valid" });
                    order["certificate"] = json!(format!("{base}/{side}/certificate"));
                    order
                })
                .unwrap(),
        ),
        (_, "certificate") => {
            let pair =
                DevCa::new("x").unwrap().issue(&[HOST, "bank.example"], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
            respond("200 OK", "", &pair.certificate_pem)
        }
        _ => respond("404 Not Found", "", "{}"),
    }
}

fn order(base: &str, side: &str, count: usize) -> String {
    let authorizations: Vec<_> = (0..count).map(|index| format!("{base}/{side}/authz/{index}")).collect();
    let status = if side == "chain" { "processing" } else { "pending" };
    json!({ "status": status, "authorizations": authorizations, "finalize": format!("{base}/{side}/finalize") })
        .to_string()
}

/// An authority looks at a certificate that nobody else trusts, under no rule of the listener's: nothing may be had over such a connection.
#[test]
fn a_connection_that_looks_at_a_proof_carries_nothing() {
    let (hostile, own) = (Hostile::start(), Upstream::ok());
    let wanted = Wanted {
        gate: vacant().ip(),
        ports: (0, 0),
        hosts: &[HOST],
        directories: hostile.directories(&["pending"]),
        acme: ", order_timeout: 10m",
        web: "",
        more: "",
    };
    let gate = Gate::start_in(tempfile::tempdir().unwrap(), &yaml(&own, &wanted));
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let look = |protocols: &str, version: &str| {
        let mut client = std::process::Command::new("openssl")
            .args(["s_client", "-ign_eof", "-servername", HOST, "-alpn", protocols, version])
            .args(["-connect", &gate.address("tls").to_string()])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("openssl is installed (Debian package openssl)");
        // A client that was turned away has closed its input already.
        let _ = client.stdin.take().unwrap().write_all(request.as_bytes());
        String::from_utf8_lossy(&client.wait_with_output().unwrap().stdout).into_owned()
    };
    let is_proof = |said: &str| said.contains("ALPN protocol: acme-tls/1");
    wait_until("the proof", || is_proof(&look("acme-tls/1", "-tls1_3")));
    for version in ["-tls1_2", "-tls1_3"] {
        let said = look("acme-tls/1", version);
        assert!(is_proof(&said) && !said.contains("HTTP/"), "{said}");
        // RFC 8737 §4: whoever offers anything beside it looks at no proof.
        for more in ["acme-tls/1,http/1.1", "h2,acme-tls/1", "http/1.1"] {
            assert!(!is_proof(&look(more, version)), "{more}");
        }
    }
    assert!(own.seen().is_empty(), "{:?}", own.seen());
    wait_until("the log", || gate.log(1).iter().filter(|line| line["reason"] == "acme_challenge").count() >= 3);
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn what_a_hostile_authority_sends_is_bounded_and_leads_nowhere() {
    let Some(planned) = Planned::new() else { return };
    let hostile = Hostile::start();
    let cases = [
        ("garbage", "the directory is no JSON object"),
        ("silent", "no whole response in 1s"),
        ("endless", "larger than 262144 bytes"),
        ("deep", "the directory is no JSON object"),
        ("redirect", "the response was 302"),
        ("badurl", "`newNonce` of the directory is no URL"),
        ("elsewhere", "refers to another server, https://127.0.0.1:1/order"),
        ("nonces", "badNonce: never"),
        ("limited", r"rateLimited: too many\\u{1b}[31m\\nlines"),
        ("leads", "refers to another server, https://127.0.0.1:1/order/1"),
        ("many", "asks for 1000 proofs of 1 names"),
        ("other", "a proof of bank.example, which was not ordered"),
        ("token", "the token of the challenge for www.portunus.test is malformed: ../../../etc/passwd"),
        ("unknown", "offers no challenge for www.portunus.test"),
        ("pending", "the authority did not come to an end in time"),
        ("chain", "another key than ours"),
    ];
    let sides: Vec<&str> = cases.iter().map(|(side, _)| *side).collect();
    let directories = format!("{}, {}", hostile.directories(&sides), planned.directory());
    let own = Upstream::ok();
    let acme = ", request_timeout: 1s, order_timeout: 5s";
    let gate = start(&own, &Wanted { directories, acme, ..Wanted::from(&planned, &[HOST]) });
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    wait_for_kept(&gate, "www.portunus.test.ecdsa");
    wait_until("the name to be served", || is_served(&gate, HOST));
    for (side, problem) in cases {
        let said = |line: &String| line.contains("not issued by this authority") && line.contains(problem);
        wait_until(&format!("{side}: {problem}; {:#?}", gate.diagnostics()), || gate.diagnostics().iter().any(said));
    }
    assert!(!gate.diagnostics().iter().any(|line| line.contains("panic")), "{:#?}", gate.diagnostics());
    let asked = hostile.upstream.seen();
    assert!(!asked.iter().any(|seen| seen.line().contains("finalize")), "nothing was finalized");
    assert!(asked.iter().filter(|seen| seen.line().contains("/nonces/account")).count() <= 70);
}
