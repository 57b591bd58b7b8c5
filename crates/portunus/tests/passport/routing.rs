//! `portunus routing`: makes what is missing once, says what is missing in words, removes only what is its own.

use super::site::{Site, run};

fn rules(site: &Site) -> String {
    let of = |family: &str| {
        let rules = run(&["ip", "-n", &site.edge, family, "rule", "show"]);
        let routes = run(&["ip", "-n", &site.edge, family, "route", "show", "table", "all"]);
        routes.lines().filter(|line| line.contains("table 1")).fold(rules, |all, line| format!("{all}{line}\n"))
    };
    of("-4") + &of("-6")
}

#[test]
fn routing_is_made_once_checked_in_words_and_taken_away() {
    let site = Site::new();
    let before = rules(&site);
    let (good, reported) = site.routing(&["check"]);
    assert!(!good && reported.contains("missing rule: what applications answer from 127.0.0.0/8"), "{reported}");
    assert!(reported.contains("(ip -6 route add local ::/0 dev lo table 112)"), "{reported}");
    assert!(
        reported.contains("run `portunus routing setup`") && reported.contains("ok      CAP_NET_ADMIN"),
        "{reported}"
    );

    let (good, reported) = site.routing(&["setup"]);
    assert!(good && reported.matches("made: ").count() == 4, "{reported}");
    let made = rules(&site);
    assert!(
        made.contains("from 127.0.0.0/8 iif lo lookup 112") && made.contains("from ::1 iif lo lookup 112"),
        "{made}"
    );
    assert!(made.contains("local default dev lo table 112"), "{made}");
    let (good, reported) = site.routing(&["check"]);
    assert!(good && !reported.contains("missing"), "{reported}");

    let (good, reported) = site.routing(&["setup"]);
    assert!(good && reported.contains("all rules and routes are already in place"), "{reported}");
    assert_eq!(rules(&site), made);

    let (good, reported) = site.routing(&["teardown"]);
    assert!(good && reported.contains("removed 4"), "{reported}");
    assert_eq!(rules(&site), before);
    let (good, reported) = site.routing(&["teardown"]);
    assert!(good && reported.contains("nothing to remove"), "{reported}");
}

#[test]
fn what_an_operator_made_counts_and_stays() {
    let site = Site::new();
    let by_hand = |words: &[&str]| run(&[&["ip", "-n", &site.edge], words].concat());
    by_hand(&["rule", "add", "from", "127.0.0.1/8", "iif", "lo", "table", "123"]);
    by_hand(&["route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "123"]);
    // Narrower than what is needed, so it does not count.
    by_hand(&["-6", "rule", "add", "from", "::1/128", "iif", "lo", "sport", "443", "ipproto", "tcp", "table", "123"]);
    let (good, reported) = site.routing(&["setup", "--table", "123", "--mark", "0x7b"]);
    assert!(good && reported.matches("made: ").count() == 4, "{reported}");
    assert!(reported.contains("made: ip -6 rule add from ::1/128 iif lo table 123"), "{reported}");
    assert!(reported.contains("made: ip rule add fwmark 0x7b table 123"), "{reported}");
    assert!(site.routing(&["check", "--table", "123", "--mark", "123"]).0);
    assert!(!site.routing(&["check", "--table", "123", "--mark", "124"]).0);
    site.routing(&["teardown"]);
    let left = rules(&site);
    assert!(left.contains("from 127.0.0.1/8 iif lo lookup 123") && left.contains("table 123"), "{left}");
    assert!(left.contains("sport 443") && !left.contains("fwmark"), "{left}");
}

#[test]
fn a_machine_without_ipv6_gets_its_ipv4_part() {
    let site = Site::new();
    let switch_off = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6";
    run(&["ip", "netns", "exec", &site.edge, "sh", "-c", switch_off]);
    let (good, reported) = site.routing(&["setup"]);
    assert!(good && reported.contains("made: ip route add local 0.0.0.0/0 dev lo table 112"), "{reported}");
    let (good, reported) = site.routing(&["check", "--from", "127.0.0.0/8"]);
    assert!(good, "{reported}");
}

#[test]
fn without_the_capability_it_says_so() {
    let site = Site::new();
    let mut words = vec!["setpriv", "--bounding-set=-net_admin,-net_raw", "--inh-caps=-net_admin,-net_raw"];
    words.extend([env!("CARGO_BIN_EXE_portunus"), "routing"]);
    let unprivileged = |action: &str| {
        let output = super::site::within(&site.edge, &[&words[..], &[action]].concat()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (good, reported) = unprivileged("check");
    assert!(
        !good && reported.contains("missing CAP_NET_ADMIN: this process may not use foreign addresses"),
        "{reported}"
    );
    let (good, reported) = unprivileged("setup");
    assert!(!good && reported.contains("needs CAP_NET_ADMIN"), "{reported}");
}
