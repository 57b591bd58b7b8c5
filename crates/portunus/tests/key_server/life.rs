//! Start, reload, drain, and what the kernel says of the process.

use super::server::{CONFIG, OwnKeyServer, PROGRAM, run, site, succeeded};
use crate::harness::{end_of, output_of, vacant, wait_until};

#[test]
fn the_process_is_shut_in_and_its_memory_locked() {
    let dir = site();
    let key_server = OwnKeyServer::start(dir.path(), CONFIG);
    key_server.exercise("selection");
    let status = std::fs::read_to_string(format!("/proc/{}/status", key_server.child.id())).unwrap();
    let field = |name: &str| {
        let line =
            status.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {status}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2");
    // What is locked later needs it where the limit is not to be lifted (capabilities(7), CAP_IPC_LOCK).
    let but_for_locks = |name: &str| u64::from_str_radix(&field(name), 16).unwrap() & !(1 << 14);
    assert_eq!(["CapInh:", "CapEff:", "CapPrm:", "CapAmb:"].map(but_for_locks), [0; 4]);
    // Whoever may not change capabilities keeps this one, and has nothing to gain by it.
    if may_change_capabilities() {
        assert_eq!(but_for_locks("CapBnd:"), 0);
    } else {
        eprintln!("skipped: the bounding set, which only who has CAP_SETPCAP can change");
    }
    // What is left open is said, and asked of the kernel before that is forbidden.
    let what = "but for what this kernel leaves open";
    key_server.wait_for(what, 1);
    let said = key_server.diagnostics().into_iter().find(|line| line.contains(what)).unwrap();
    let missing = net::confine::missing_of(net::confine::Role::KeyServer).join("; ");
    assert!(said.contains(&format!("\"missing\":\"{missing}\"")), "{said}: {missing}");
    assert_ne!(field("VmLck:"), "0", "memory is locked");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", key_server.child.id())).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert!(cores.split_whitespace().nth(4) == Some("0"), "{cores}");
}

/// Whether this process has CAP_SETPCAP, and so what it starts.
fn may_change_capabilities() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap() & (1 << 8) != 0
}

/// A link that appears among the keys and leads to a file in a folder that was not named. Without the sandbox it is followed.
#[test]
fn the_running_server_cannot_open_what_was_not_named() {
    for sandbox in [true, false] {
        let dir = site();
        let key_server = OwnKeyServer::start(dir.path(), &format!("{CONFIG}sandbox: {sandbox}\n"));
        if key_server.diagnostics().iter().any(|line| line.contains("no Landlock")) {
            eprintln!("skipped: this kernel has no Landlock");
            return;
        }
        let link = dir.path().join("key-server/keys/linked.key");
        // A key of its own: one that is held already is listed by either place.
        let outside = dir.path().join("outside.key");
        run("openssl", &["genpkey", "-algorithm", "ED25519", "-out", outside.to_str().unwrap()]);
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        key_server.signal("HUP");
        let is_held = || key_server.keys().contains("linked.key");
        if sandbox {
            key_server.wait_for("reload rejected", 1);
            let reported = key_server.diagnostics().join("\n");
            assert!(reported.contains("linked.key") && reported.contains("Permission denied"), "{reported}");
            assert!(!is_held());
            key_server.exercise("selection");
        } else {
            wait_until("the key is held", is_held);
        }
    }
}

/// The folder of the configuration, written to as a whole: by the check and the start alike.
#[test]
fn a_folder_that_is_written_to_must_not_hold_the_trust() {
    let dir = site();
    let file = dir.path().join("key-server/key-server.yaml");
    std::fs::write(&file, format!("{CONFIG}enrolment: {{ folder: ., server_ca: ca.pem }}\n")).unwrap();
    for command in ["check", "run"] {
        let output = std::process::Command::new(PROGRAM)
            .args(["key-server", command])
            .arg(&file)
            .env("PORTUNUS_CONTROL", "none")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let is_named = text.contains("(enrolment) is written to by this process, which could replace");
        assert!(!output.status.success() && is_named, "{command}: {text}");
    }
}

/// As renewal tools lay them: a folder for each site, in it a link to the newest of the site's keys, which lie elsewhere.
#[test]
fn links_below_the_folders_are_followed_at_the_start_and_at_a_reload() {
    let dir = site();
    let path = |name: &str| dir.path().join(name);
    for folder in ["archive/a", "key-server/more/live/a"] {
        std::fs::create_dir_all(path(folder)).unwrap();
    }
    for key in ["archive/a/1.key", "archive/a/2.key"] {
        run("openssl", &["genpkey", "-algorithm", "ED25519", "-out", path(key).to_str().unwrap()]);
    }
    let link = path("key-server/more/live/a/a.key");
    std::os::unix::fs::symlink(path("archive/a/1.key"), &link).unwrap();
    let key_server = OwnKeyServer::start(dir.path(), CONFIG);
    let held = || {
        let page = key_server.keys();
        let keys: serde_json::Value = serde_json::from_str(page.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        let key = keys.as_array().unwrap().iter().find(|key| key["origin"].as_str().unwrap().contains("live/a/a.key"));
        key.map(|key| key["ski"].clone())
    };
    let first = held().expect("the key is held");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(path("archive/a/2.key"), &link).unwrap();
    key_server.signal("HUP");
    wait_until("the next key is held", || held().is_some_and(|ski| ski != first));
}

/// Whether a process that is aborted with no limit on its core file leaves one.
fn dumps_core(child: &mut std::process::Child) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    let pid = child.id().to_string();
    // Whoever may not raise the limit leaves it as it is.
    let _ = std::process::Command::new("prlimit").args(["--pid", &pid, "--core=unlimited:unlimited"]).output();
    run("kill", &["-ABRT", &pid]);
    end_of(child).core_dumped()
}

#[test]
fn a_crash_leaves_no_dump_whatever_the_limit_says() {
    let dir = site();
    let mut key_server = OwnKeyServer::start(dir.path(), CONFIG);
    key_server.exercise("selection");
    let filter = std::fs::read_to_string(format!("/proc/{}/coredump_filter", key_server.child.id())).unwrap();
    assert_eq!(filter.trim(), "00000000", "no kind of mapping goes into a dump");
    assert!(!dumps_core(&mut key_server.child), "a dump was written");
    let mut other = std::process::Command::new("sleep").arg("1000").current_dir(dir.path()).spawn().unwrap();
    if !dumps_core(&mut other) {
        eprintln!("note: no process dumps core here, so that the crash proved nothing");
    }
}

#[test]
fn keys_come_and_go_by_reload_and_by_file_change_and_a_broken_one_changes_nothing() {
    let dir = site();
    let key_server = OwnKeyServer::start(dir.path(), CONFIG);
    let held = |name: &str| key_server.keys().contains(name);
    assert!(held("site-1.example.key") && !held("new.key"));
    let new = dir.path().join("key-server/keys/new.key");
    run("openssl", &["genpkey", "-algorithm", "ED25519", "-out", new.to_str().unwrap()]);
    key_server.wait_for("files changed", 1);
    wait_until("the new key is held", || held("new.key"));
    std::fs::write(&new, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
    key_server.signal("HUP");
    key_server.wait_for("reload rejected", 1);
    assert!(held("new.key"), "what was held stays");
    std::fs::remove_file(&new).unwrap();
    wait_until("the key is gone", || !held("new.key"));
    let metrics = key_server.page("/metrics");
    for name in [
        "portunus_key_server_keys",
        "portunus_key_server_reloads_total",
        "keyless_key_load_duration",
        "certificate_expiration_timestamp_seconds",
    ] {
        assert!(metrics.contains(name), "{name} is missing: {metrics}");
    }
}

#[test]
fn nothing_is_lost_by_reloads_under_load() {
    let dir = site();
    let key_server = OwnKeyServer::start(dir.path(), CONFIG);
    let arguments = ["--seconds", "3", "--connections", "8", "--in-flight", "4", "--verify", "all", "--plain"];
    let load = key_server.bench(2, &arguments).spawn().unwrap();
    for round in 0..5 {
        let extra = dir.path().join(format!("key-server/keys/extra-{round}.key"));
        run("openssl", &["genpkey", "-algorithm", "ED25519", "-out", extra.to_str().unwrap()]);
        key_server.signal("HUP");
        key_server.wait_for("\"reloaded\"", round + 1);
    }
    let report = succeeded("bench", &output_of(load));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["good"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["good"], report["sent"], "{report}");
    let metrics = key_server.page("/metrics");
    for name in [
        "portunus_key_server_operations_total{peer=\"edge.portunus.test\",operation=\"ecdsa_sha256\",outcome=\"done\"}",
        "portunus_key_server_queue_seconds_bucket{",
        "portunus_key_server_service_seconds_count{class=\"ecdsa\"}",
        "keyless_requests{opcode=\"ecdsa_sha256\"}",
        "keyless_request_exec_duration_per_opcode_count{type=\"ecdsa_sha256\",error=\"\"}",
    ] {
        assert!(metrics.contains(name), "{name} is missing: {metrics}");
    }
}

#[test]
fn sigterm_ends_it_in_order_under_load() {
    let dir = site();
    let mut key_server = OwnKeyServer::start(dir.path(), &format!("{CONFIG}limits: {{ drain_timeout: 5m }}\n"));
    let arguments = ["--seconds", "100", "--connections", "2", "--in-flight", "8", "--verify", "all"];
    let load = key_server.bench(1, &arguments).spawn().unwrap();
    key_server.audit(50);
    key_server.signal("TERM");
    let status = end_of(&mut key_server.child);
    assert!(status.success(), "{:#?}", key_server.diagnostics());
    let output = output_of(load);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["wrong"], 0, "{report}");
    assert!(report["failure"].is_string() && report["good"].as_u64().unwrap() > 0, "{report}");
    assert!(!dir.path().join("key-server/keys.sock").exists(), "the socket is removed");
}

#[test]
fn during_the_delay_peers_are_served_and_readiness_is_gone() {
    let dir = site();
    let config = format!("{CONFIG}limits: {{ drain_delay: 1h }}\n");
    let mut key_server = OwnKeyServer::start(dir.path(), &config);
    wait_until("readiness", || key_server.page("/readyz").starts_with("HTTP/1.1 200 "));
    key_server.signal("TERM");
    key_server.wait_for("draining", 1);
    let readiness = key_server.page("/readyz");
    assert!(readiness.starts_with("HTTP/1.1 503 ") && readiness.ends_with("draining\n"), "{readiness}");
    key_server.exercise("selection");
    key_server.signal("TERM");
    assert!(end_of(&mut key_server.child).code().is_some(), "the second signal ends it at once");
}

/// A peer that is within its handshake holds the drain up.
#[test]
fn while_it_drains_its_addresses_are_free() {
    let dir = site();
    // At an address of its own, so that nobody else is given its port; and the drain goes on for as long as this test may.
    let config = CONFIG.replace("127.0.0.1:0", &vacant().to_string());
    let config = format!("{config}limits: {{ handshake_timeout: 10m, drain_timeout: 10m }}\n");
    let mut key_server = OwnKeyServer::start(dir.path(), &config);
    let ready = |key_server: &OwnKeyServer| key_server.page("/readyz");
    wait_until("readiness", || ready(&key_server).starts_with("HTTP/1.1 200 "));
    let mut stalled = crate::harness::connect(key_server.edges);
    std::io::Write::write_all(&mut stalled, &[22, 3, 1]).unwrap();
    wait_until("the connection", || key_server.page("/metrics").contains("_connections 1\n"));
    key_server.signal("TERM");
    key_server.wait_for("draining", 1);
    wait_until("the socket's file to go", || !dir.path().join("key-server/keys.sock").exists());
    for address in [key_server.edges, key_server.admin] {
        let bind = || net::Bound::bind(&net::Endpoint::Tcp(address), 0o660, 1);
        wait_until("the port to be free", || bind().is_ok());
    }
    assert!(key_server.child.try_wait().unwrap().is_none(), "it still waits for its peer");
    key_server.signal("TERM");
    assert_eq!(end_of(&mut key_server.child).code(), Some(1), "the second signal ends it at once");
}

#[test]
fn what_was_sent_before_the_drain_is_answered_also_what_was_not_read_yet() {
    let dir = site();
    // One slow thread and few requests in flight, so that most of what is sent is not read when the drain begins; nothing is BUSY, however slow it is.
    let config = format!(
        "{CONFIG}crypto_threads: 1\nlimits: {{ max_in_flight: 4, drain_timeout: 5m, target_wait: 10s, operation_timeout: 5m }}\n"
    );
    let mut key_server = OwnKeyServer::start(dir.path(), &config);
    std::fs::write(dir.path().join("key-server/server.pid"), key_server.child.id().to_string()).unwrap();
    key_server.exercise("drain");
    assert!(end_of(&mut key_server.child).success(), "{:#?}", key_server.diagnostics());
}

/// Peers that ask again at once after BUSY, far more of them than can be served. What a rejection may cost does not depend on how fast they are.
#[test]
fn a_storm_of_rejected_requests_is_paid_for_by_the_work_that_is_done() {
    let dir = site();
    let key_server =
        OwnKeyServer::start(dir.path(), &format!("{CONFIG}crypto_threads: 1\nlimits: {{ target_wait: 20ms }}\n"));
    let count = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
    let storm = |seconds: &str| {
        let storm = ["--ignore-retry-after", "--connections", "8", "--in-flight", "64", "--verify", "all", "--seconds"];
        let output = key_server.bench(1, &[&storm[..], &[seconds]].concat()).output().unwrap();
        let report: serde_json::Value = serde_json::from_str(&succeeded("bench", &output)).unwrap();
        (count(&report["good"]), count(&report["errors"]["busy"]), report)
    };
    // Until something was done and something rejected, however slow the machine is.
    let storms = ["3", "10", "30", "60"].into_iter().map(storm);
    let (good, busy, report) = storms.into_iter().find(|(good, busy, _)| *good > 0 && *busy > 0).expect("work is done");
    // Sixteen for each job that is done, by a pace that is learned on the way, and more where that of the machine changes; without that it is hundreds. On a
    // machine that does little in this time, what is saved up for a spike is the most of it (`MAX_CREDIT` of the backlog, whose own tests turn the clock).
    let saved_up = 8_192;
    assert!(busy <= 100 * good + saved_up, "{busy} rejections for {good} responses: {report}");
    let errors = report["errors"].as_object().unwrap();
    assert!(errors.keys().all(|name| name == "busy"), "{report}");
}

#[test]
fn a_load_that_measures_nothing_is_rejected() {
    let dir = site();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let place = ["--ca", &path("ca.pem"), "--certificate", &path("edge/client.pem"), "--key", &path("edge/client.key")];
    for (name, value) in [
        ("--rate", "0"),
        ("--rate", "NaN"),
        ("--seconds", "0"),
        ("--seconds", "NaN"),
        ("--operation", "ping"),
        ("--operation", "rsa_decrypt"),
    ] {
        let site = path("edge/chains/site-1.example.pem");
        let arguments = [&["key-server", "bench", "--certificate-file", &site, name, value][..], &place].concat();
        let output = std::process::Command::new(PROGRAM).args(arguments).output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && reported.contains(value) && !reported.contains("panicked"),
            "{name} {value}: {reported}"
        );
    }
}

#[test]
fn check_names_keys_and_every_problem() {
    let dir = site();
    let file = dir.path().join("key-server/key-server.yaml");
    std::fs::write(&file, CONFIG).unwrap();
    let out = run(PROGRAM, &["key-server", "check", file.to_str().unwrap()]);
    assert_eq!(out.lines().count(), 13, "{out}");
    assert!(out.contains("ECDSA P-521") && out.contains("one.p12") && out.contains("two.jks"), "{out}");
    // A client's certificate where the server's belongs, and a key that is encrypted with another password.
    let path = |name: &str| dir.path().join(name);
    std::fs::copy(path("edge/client.pem"), path("key-server/server.pem")).unwrap();
    std::fs::copy(path("edge/client.key"), path("key-server/server.key")).unwrap();
    std::fs::write(path("key-server/password"), "wrong").unwrap();
    let output = std::process::Command::new(PROGRAM).args(["key-server", "check"]).arg(&file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    for part in ["not for servers", "does not open this key", "one.p12"] {
        assert!(errors.contains(part), "{part} is missing: {errors}");
    }
}
