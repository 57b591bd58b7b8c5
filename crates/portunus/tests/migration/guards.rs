//! Tables of what another program keeps out: each row is a server or frontend of its own, and all of them run in one process of each program.
//!
//! Whatever does not come to the same must be a finding, and must let nothing in.

use super::beside::{Beside, Outcome, Program, import};

/// What the import makes of a row.
#[derive(Clone, Copy, PartialEq)]
pub enum Carried {
    /// Each request comes to the same.
    Exactly,
    /// Whoever is kept out there is kept out here.
    Closed,
}

/// Rules, how they are carried, and requests: `GET / X: a|Y: b`.
pub type Row = (&'static str, Carried, &'static [&'static str]);

/// The request of a row's text, and how often it is sent: to `/6` six times.
fn request(text: &str) -> (String, usize) {
    let mut words = text.splitn(3, ' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let mut fields = words.next().unwrap_or_default().split('|').filter(|field| !field.is_empty()).peekable();
    let host = if fields.peek().is_some_and(|field| field.starts_with("Host: ")) { "" } else { "\nHost: a.test" };
    let fields: String = fields.map(|field| format!("\n{field}")).collect();
    (format!("{method} {path} HTTP/1.1{host}{fields}"), if path.ends_with("/6") { 6 } else { 1 })
}

/// Whether a client got nothing: at most a service was asked about it, which said no.
fn is_kept_out(outcome: &Outcome) -> bool {
    let is_unseen = outcome.seen.as_ref().is_none_or(|(_, target, ..)| target.contains("/status="));
    is_unseen && (outcome.status == 0 || outcome.status >= 400)
}

/// Runs all rows in both programs and compares what comes of their requests. `place` puts the rules of a row behind the listener of a name; `before` and
/// `behind` stand around all of them.
pub fn compare(program: &Program, rows: &[Row], place: impl Fn(&str, &str) -> String, (before, behind): (&str, &str)) {
    let names: Vec<String> = (0..rows.len()).map(|at| format!("row{at}x")).collect();
    let placed: String = rows.iter().zip(&names).map(|((rules, ..), name)| place(rules, name)).collect();
    let listeners: Vec<&str> = names.iter().map(String::as_str).collect();
    let both = Beside::start(program, &format!("{before}{placed}{behind}"), &listeners);
    let mut problems = Vec::new();
    for ((rules, carried, requests), name) in rows.iter().zip(&names) {
        for text in *requests {
            let (request, times) = request(text);
            let [theirs, ours] = (0..times).map(|_| both.ask(name, &request)).next_back().unwrap();
            let is_right = match carried {
                Carried::Exactly => theirs == ours,
                Carried::Closed => theirs == ours || is_kept_out(&ours),
            };
            if !is_right || (is_kept_out(&theirs) && !is_kept_out(&ours)) {
                problems.push(format!("{rules}\n{text}\n  theirs {theirs:?}\n  ours   {ours:?}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}\n\n{}", problems.join("\n\n"), both.yaml());
    assert_eq!(both.printed.status.code(), Some(1));
}

/// Imports each row alone, in the file that `whole` makes of its rules: without a finding each word was carried exactly, with one the import ends with 1.
pub fn findings(program: &str, rows: &[Row], whole: impl Fn(&str) -> String) {
    for (rules, carried, _) in rows {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("the.conf");
        let text = ["@A@", "@B@", "@C@"]
            .iter()
            .zip(1..)
            .fold(whole(rules), |text, (name, port)| text.replace(name, &format!("127.0.0.1:{port}")));
        std::fs::write(&file, text).unwrap();
        let printed = import(program, &file);
        let yaml = String::from_utf8(printed.stdout).unwrap();
        let is_closed = yaml.contains("status: 501") || yaml.contains("left out:");
        assert_eq!(printed.status.code() == Some(1), is_closed, "{rules}\n{yaml}");
        assert!(*carried == Carried::Closed || printed.status.code() == Some(0), "{rules}\n{yaml}");
    }
}
