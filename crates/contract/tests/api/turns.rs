//! Turns: what is validated when a body is complete (forms, everything that is wrong, what was encoded) lets go again and again, and says the same.

use contract::options::{Limits, Options};
use contract::validate::{BodyPlan, Findings, RequestParts, Scratch};
use contract::{Contract, Found};

use super::{Request, all_decisions, contract, contract_with, framing, said};

/// A document with POST /a and this content.
fn posting(content: &str) -> String {
    format!(
        "openapi: 3.1.0\ninfo: {{title: t, version: '1'}}\npaths:\n  /a:\n    post:\n      requestBody:\n        required: true\n        content: {content}\n      responses: {{'200': {{description: ok}}}}\n"
    )
}

/// How often the validator lets go while it validates a body that came whole, the most memory that it held then, and the decision.
fn turns(contract: &Contract, request: &Request, mut findings: Findings) -> (usize, usize, String) {
    let Found::Operation(matched, values) = contract.find("POST", b"/a") else { panic!() };
    let framing = framing(&request.body);
    let fields = &request.fields;
    let parts = RequestParts { path: b"/a", query: None, fields, framing, has_client_certificate: false };
    let mut scratch = Scratch::new();
    let BodyPlan { mut validator, .. } =
        matched.validate_request(&values, &parts, &mut scratch, &mut findings).unwrap();
    let (mut turns, mut held) = (0, 0);
    while let Ok(false) = validator.feed_some(&request.body, &mut findings) {
        turns += 1;
    }
    while let Ok(false) = validator.finish_some(&mut findings) {
        (turns, held) = (turns + 1, held.max(validator.bytes_held()));
    }
    let _ = validator.finish(&mut findings);
    (turns, held, said(&findings))
}

const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn forms_are_validated_in_turns() {
    let patterns: Vec<String> = (0..20).map(|n| format!("{{pattern: '^(a|b)*c{n}$'}}")).collect();
    let schema = format!(
        "{{schema: {{type: object, additionalProperties: {{type: string, not: {{anyOf: [{}]}}}}}}}}",
        patterns.join(", ")
    );
    let contract = contract(&posting(&format!("{{{FORM}: {schema}, multipart/form-data: {schema}}}")));
    let value = "ab".repeat(1_500);
    let form = |last: &str| {
        let fields: Vec<String> = (0..400).map(|n| format!("f{n}={value}")).collect();
        format!("{}&last={last}", fields.join("&"))
    };
    let body = form("x");
    let (turns_taken, held, decision) = turns(&contract, &Request::post("/a", FORM, body.as_str()), Findings::first());
    assert_eq!(decision, "ok");
    assert!(turns_taken >= 5, "{turns_taken}");
    assert!((body.len()..10 * body.len()).contains(&held), "{held} are held for {}", body.len());
    let (_, _, decision) = turns(&contract, &Request::post("/a", FORM, form("abc3")), Findings::first());
    assert_eq!(decision, "not body /last");
    let part =
        |n: usize, value: &str| format!("--b\r\nContent-Disposition: form-data; name=\"p{n}\"\r\n\r\n{value}\r\n");
    let parts: String = (0..50).map(|n| part(n, &value.repeat(10))).collect();
    for (last, expected) in [("x", "ok"), ("abc3", "not body /p50")] {
        let body = format!("{parts}{}--b--\r\n", part(50, last));
        let request = Request::post("/a", "multipart/form-data; boundary=b", body);
        let (turns, _, decision) = turns(&contract, &request, Findings::first());
        assert_eq!(decision, expected);
        assert!(turns >= 5, "{turns}");
    }
}

/// Of text, everything may be left to say when it ends.
#[test]
fn long_text_is_validated_in_turns() {
    let patterns: Vec<String> = (0..20).map(|n| format!("{{pattern: '^[a-z]*(x|y){n}$'}}")).collect();
    let schema = format!("{{type: string, anyOf: [{}]}}", patterns.join(", "));
    let contract = contract(&posting(&format!("{{text/plain: {{schema: {schema}}}}}")));
    let text = "a".repeat(500_000);
    for (last, expected) in [("x7", "ok"), ("x20", "any_of body")] {
        let request = Request::post("/a", "text/plain", format!("{text}{last}"));
        let (turns, held, decision) = turns(&contract, &request, Findings::first());
        assert_eq!(decision, expected);
        assert!(turns >= 2, "{turns}");
        assert!(held >= text.len(), "{held}");
    }
}

/// A form of tens of thousands of fields costs as much per field as a small one.
#[test]
fn many_parts_are_linear() {
    let limits = Limits { multipart_parts: 100_000, body_bytes: 64 << 20, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let schema = "{type: object, additionalProperties: {type: string}}";
    let contract = contract_with(&posting(&format!("{{multipart/form-data: {{schema: {schema}}}}}")), &options);
    let mut before = 0;
    for count in [4_000, 8_000] {
        let part = |n: usize| format!("--b\r\nContent-Disposition: form-data; name=\"p{n}\"\r\n\r\nx\r\n");
        let body = (0..count).map(part).collect::<String>() + "--b--\r\n";
        let request = Request::post("/a", "multipart/form-data; boundary=b", body);
        let (turns, _, decision) = turns(&contract, &request, Findings::first());
        assert_eq!(decision, "ok");
        assert!(turns >= 2 && (before == 0 || turns <= 3 * before), "{before} {turns}");
        before = turns;
    }
}

#[test]
fn everything_that_is_wrong_is_found_in_turns() {
    let schema = "{type: array, contains: {const: 1}, items: {type: object, required: [id], additionalProperties: false, properties: {id: {type: integer}, v: {not: {const: 7}}}}}";
    let contract = contract(&posting(&format!("{{application/json: {{schema: {schema}}}}}")));
    let items: Vec<String> = (0..60_000)
        .map(|n| match n {
            100 => "{\"v\":0}".to_owned(),
            30_000 => "{\"id\":1,\"v\":7}".to_owned(),
            59_000 => "{\"id\":2,\"w\":1}".to_owned(),
            _ => format!("{{\"id\":{n}}}"),
        })
        .collect();
    let request = Request::post("/a", "application/json", format!("[{}]", items.join(",")));
    let (turns, _, _) = turns(&contract, &request, Findings::all());
    assert!(turns >= 5, "{turns}");
    let found = all_decisions(&contract, &request);
    for expected in ["required body /100/id", "not body /30000/v", "contains body"] {
        assert_eq!(found.iter().filter(|one| *one == expected).count(), 1, "{expected}: {found:?}");
    }
    assert!(found.iter().any(|one| one.ends_with("body /59000/w")), "{found:?}");
    assert_eq!(found.len(), 4, "{found:?}");
}

/// Blocks that hold nothing, and Zstandard, of which nothing comes out before its window is full.
#[test]
fn decoding_lets_go_though_nothing_comes_of_it() {
    let contract = contract(&posting("{application/json: {schema: {type: integer}}}"));
    let last = [1 | 1 << 3, 0, 0, b'1'];
    let mut empty = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    empty.extend(std::iter::repeat_n([0; 3], 10_000).flatten());
    empty.extend(last);
    // Each block is 128 KiB of spaces, in a window of 8 MiB.
    let mut late = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x68];
    late.extend(std::iter::repeat_n([2, 0, 0x10, b' '], 80).flatten());
    late.extend(last);
    // Stored blocks of deflate.
    let mut stored: Vec<u8> = std::iter::repeat_n([0, 0, 0, 0xff, 0xff], 100_000).flatten().collect();
    stored.extend([1, 1, 0, 0xfe, 0xff, b'1']);
    for (coding, body, least) in [("zstd", empty, 20), ("zstd", late, 2), ("deflate", stored, 10)] {
        let request = Request::post("/a", "application/json", body).with("Content-Encoding", coding);
        let (turns, _, decision) = turns(&contract, &request, Findings::first());
        assert!(decision == "ok" || decision == "body_ratio body", "{decision}");
        assert!(turns >= least, "{coding}: {turns}");
    }
}

/// All parameters of a head share one account of steps.
#[test]
fn a_head_takes_no_more_steps_than_others_can_wait_for() {
    let pattern = r".*a[^\n]{1,200}b[a-z]{90}$";
    let parameters: Vec<String> = (0..40)
        .map(|n| format!("{{in: query, name: q{n}, schema: {{type: string, pattern: '{pattern}|{n}$'}}}}"))
        .collect();
    let text = posting("{text/plain: {}}")
        .replace("      requestBody:", &format!("      parameters: [{}]\n      requestBody:", parameters.join(", ")));
    let contract = contract(&text.replace("required: true", "required: false"));
    let mut random = fastrand::Rng::with_seed(9);
    let mut word = || (0..600).map(|_| if random.bool() { 'a' } else { 'c' }).collect::<String>();
    let query: Vec<String> = (0..40).map(|n| format!("q{n}={}{n}", word())).collect();
    let request = Request { method: "POST", ..Request::get(&format!("/a?{}", query.join("&"))) };
    let decision = super::decision_in_pieces(&contract, &request, usize::MAX);
    assert!(decision.starts_with("step_budget query q"), "{decision}");
    let first = Request { method: "POST", ..Request::get(&format!("/a?{}", query[0])) };
    assert_eq!(super::decision_in_pieces(&contract, &first, usize::MAX), "ok");
}
