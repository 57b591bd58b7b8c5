//! What a value may cost: work is linear in its size, and no turn of the validator is longer than others can wait for. Counted in steps, not in time.

use crate::support;

use contract::limits::Limits;
use contract::reason::Reason;
use contract::schema::{Dialect, Direction, Options, Program, Run, SchemaId};

/// Steps that a turn may take: its own, those of one text, and those that one element of `uniqueItems` overdraws.
const TURN: u64 = 1_000_000;

fn compile(schema: &str) -> (Program, SchemaId) {
    let node = support::node::parse(schema).unwrap();
    support::compile(&node, Dialect::OpenApi31, Direction::Request, Options::default()).unwrap()
}

struct Cost {
    decision: Result<(), Reason>,
    steps: u64,
    turns: u32,
    longest: u64,
}

/// Validates a text in pieces as a connection brings them, turn by turn.
fn cost(schema: &str, text: &str) -> Cost {
    let (program, id) = compile(schema);
    let mut run = Run::default();
    let mut check = program.check(id, &mut run);
    let mut cost = Cost { decision: Ok(()), steps: 0, turns: 0, longest: 0 };
    for piece in text.as_bytes().chunks(32 << 10) {
        let mut rest = piece;
        while !rest.is_empty() || check.is_pending() {
            let taken = check.feed_some(rest);
            let steps = check.steps_taken();
            cost.longest = cost.longest.max(steps - cost.steps);
            (cost.steps, cost.turns) = (steps, cost.turns + 1);
            match taken {
                Ok(taken) => rest = &rest[taken..],
                Err(violation) => return Cost { decision: Err(violation.reason), ..cost },
            }
        }
    }
    cost.decision = check.finish().map_err(|violation| violation.reason);
    cost
}

/// Pieces whose evaluation takes little less than a turn share their turns.
#[test]
fn a_turn_goes_on_with_the_next_piece() {
    let branches: Vec<String> =
        (0..10).map(|n| format!(r#"{{"required":["k"],"properties":{{"k":{{"const":"k{n}"}}}}}}"#)).collect();
    let (program, id) = compile(&format!(r#"{{"type":"array","items":{{"oneOf":[{}]}}}}"#, branches.join(",")));
    let items: Vec<String> = (0..60_000).map(|n| format!(r#"{{"k":"k{}"}}"#, n % 10)).collect();
    let text = format!("[{}]", items.join(","));
    let mut run = Run::default();
    let mut check = program.check(id, &mut run);
    let (mut began, mut turns) = (0, 0);
    for piece in text.as_bytes().chunks(4 << 10) {
        let mut rest = piece;
        while !rest.is_empty() || check.is_pending() {
            rest = &rest[check.feed_some(rest).unwrap()..];
            let steps = check.steps_taken();
            assert!(steps - began <= TURN / 2, "{} steps in a turn", steps - began);
            if check.is_turn_over() {
                (began, turns) = (steps, turns + 1);
            }
        }
    }
    check.finish().unwrap();
    assert!(turns >= 5, "{turns}");
}

/// A binary expression or a comparison, distinguished by nothing but whether they hold.
const EXPRESSION: &str = r##"{"$ref":"#/$defs/e","$defs":{
    "e":{"anyOf":[{"$ref":"#/$defs/bin"},{"$ref":"#/$defs/cmp"},{"type":"integer"}]},
    "bin":{"type":"object","required":["left","right"],"additionalProperties":false,"properties":{"left":{"$ref":"#/$defs/e"},"right":{"$ref":"#/$defs/e"}}},
    "cmp":{"type":"object","required":["left","op"],"additionalProperties":false,"properties":{"left":{"$ref":"#/$defs/e"},"op":{"type":"string"}}}}}"##;

fn expression(depth: usize, innermost: &str) -> String {
    (0..depth).fold(innermost.to_owned(), |inner, level| match level % 2 {
        0 => format!(r#"{{"left":{inner},"op":"="}}"#),
        _ => format!(r#"{{"left":{inner},"right":1}}"#),
    })
}

#[test]
fn recursive_alternatives_cost_no_more_than_their_schemas_times_their_values() {
    for (innermost, decision) in [("1", Ok(())), ("null", Err(Reason::AnyOf))] {
        let mut before = 0;
        for depth in [10, 20, 40] {
            let cost = cost(EXPRESSION, &expression(depth, innermost));
            assert_eq!(cost.decision, decision, "{depth}");
            assert!(before == 0 || cost.steps < before * 3, "{depth}: {before} {}", cost.steps);
            assert!(cost.steps < 2_000, "{depth}: {}", cost.steps);
            before = cost.steps;
        }
    }
    // Also where what was looked at counts, and below a dynamic scope.
    for schema in [
        EXPRESSION.replace("\"additionalProperties\":false", "\"unevaluatedProperties\":false"),
        EXPRESSION.replacen(
            "{\"$ref\"",
            "{\"$dynamicAnchor\":\"n\",\"properties\":{\"x\":{\"$dynamicRef\":\"#n\"}},\"$ref\"",
            1,
        ),
    ] {
        let cost = cost(&schema, &expression(30, "1"));
        assert_eq!(cost.decision, Ok(()), "{schema}");
        assert!(cost.steps < 5_000, "{}", cost.steps);
    }
}

/// Recursion that nothing distinguishes, 17 to 40 deep: each level once doubled the work of a body that broke at its end.
#[test]
fn a_rejected_body_costs_at_most_twice_a_legal_one() {
    for depth in [17, 18, 25, 40] {
        let [legal, rejected] = ["1", "x"].map(|innermost| {
            let text = expression(depth, innermost).replace('x', "[]");
            (cost(EXPRESSION, &text), text)
        });
        assert_eq!((legal.0.decision, rejected.0.decision), (Ok(()), Err(Reason::AnyOf)), "{depth}");
        assert!(rejected.0.steps <= 2 * legal.0.steps, "{depth}: {} and {}", legal.0.steps, rejected.0.steps);
    }
    let branch = |n: usize| {
        format!(
            r#"{{"type":"object","required":["v"],"properties":{{"v":{{"type":"integer","minimum":{},"maximum":{}}}}}}}"#,
            n * 100,
            n * 100 + 99
        )
    };
    let branches: Vec<String> = (0..60).map(branch).collect();
    let schema = format!(r#"{{"type":"array","items":{{"oneOf":[{}]}}}}"#, branches.join(","));
    let list =
        |last: &str| format!("[{}{last}]", (0..2_000).map(|n| format!("{{\"v\":{}}},", n % 6_000)).collect::<String>());
    let (legal, rejected) = (cost(&schema, &list("{\"v\":1}")), cost(&schema, &list("{\"v\":-1}")));
    assert_eq!((legal.decision, rejected.decision), (Ok(()), Err(Reason::OneOf)));
    assert!(rejected.steps <= 2 * legal.steps, "{} and {}", legal.steps, rejected.steps);
}

/// The bounds can be set, and both count.
#[test]
fn the_steps_of_a_value_are_bounded_as_configured() {
    let node = support::node::parse(EXPRESSION).unwrap();
    let text = expression(40, "1");
    for (steps_per_byte, steps, is_enough) in [(128, 50_000_000, true), (0, 50_000_000, false), (128, 100, false)] {
        let limits = Limits { steps_free: 100, steps_per_byte, steps, ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, options).unwrap();
        let found = support::validate(&program, id, &mut Run::default(), text.as_bytes(), 100).err();
        let expected = (!is_enough).then_some(Reason::Budget);
        assert_eq!(found.map(|violation| violation.reason), expected, "{steps_per_byte} {steps}");
    }
}

#[test]
fn a_small_value_gets_few_steps_and_a_large_one_as_many_as_its_bytes() {
    // Schemas that double at each level, without a value that would.
    let mut schema =
        r##"{"type":"array","items":{"$ref":"#/$defs/a0"},"contains":true,"$defs":{"a24":{"minLength":1}"##.to_owned();
    for level in 0..24 {
        // Not alike, so that no outcome is that of another.
        schema += &format!(
            r##","a{level}":{{"anyOf":[{{"$ref":"#/$defs/b{level}"}},{{"maxLength":0}}]}},"b{level}":{{"allOf":[{{"$ref":"#/$defs/a{}"}},{{"maxLength":{}}}]}}"##,
            level + 1,
            100 + level
        );
    }
    schema += "}}";
    let limits = Limits::default();
    for count in [1usize, 100, 20_000] {
        let text = format!("[{}]", vec!["\"abc\""; count].join(","));
        let cost = cost(&schema, &text);
        assert!(cost.steps <= limits.steps_free + limits.steps_per_byte * text.len() as u64, "{count}: {}", cost.steps);
        assert!(cost.longest <= TURN);
        assert_eq!(cost.decision, Ok(()), "{count}");
    }
}

#[test]
fn large_values_are_evaluated_in_turns() {
    let branches: Vec<String> = (0..60)
        .map(|n| format!(r#"{{"type":"object","required":["k","v"],"properties":{{"k":{{"const":"k{n}"}},"v":{{"type":"integer"}}}}}}"#))
        .collect();
    let alternatives = format!(r#"{{"type":"array","items":{{"oneOf":[{}]}}}}"#, branches.join(","));
    let items: Vec<String> = (0..20_000).map(|n| format!(r#"{{"k":"k{}","v":{n}}}"#, n % 60)).collect();
    let whole = format!(
        r#"{{"allOf":[{{"anyOf":[{alternatives},{{"type":"null"}}]}},{{"contains":{{"properties":{{"v":{{"const":19999}}}}}}}}]}}"#
    );
    let tuples: Vec<String> = (0..40_000).map(|n| format!("[{n},{{\"a\":[{n}]}}]")).collect();
    let tuples = format!("[{}]", tuples.join(","));
    let open =
        r#"{"type":"array","anyOf":[{"prefixItems":[true]},{"minItems":1}],"unevaluatedItems":{"type":"array"}}"#;
    let members: Vec<String> = (0..9_000).map(|n| format!("\"k{n}\":{{\"a\":[{n},{n}]}}")).collect();
    let object = r#"{"anyOf":[{"propertyNames":{"not":{"const":"x"}},"additionalProperties":{"anyOf":[{"properties":{"a":{"contains":{"minimum":0}}}},{"type":"null"}]}}]}"#;
    for (schema, text, least_turns) in [
        (whole.as_str(), format!("[{}]", items.join(",")), 5),
        (r#"{"type":"array","uniqueItems":true,"items":{"uniqueItems":true}}"#, tuples.clone(), 2),
        (open, tuples, 0),
        (object, format!("{{{}}}", members.join(",")), 0),
    ] {
        let cost = cost(schema, &text);
        assert_eq!(cost.decision, Ok(()), "{schema}");
        assert!(cost.longest <= TURN, "{schema}: {}", cost.longest);
        let pieces = text.len().div_ceil(32 << 10) as u32;
        assert!(
            cost.turns >= pieces + least_turns,
            "{schema}: {} turns for {pieces} pieces, {} steps",
            cost.turns,
            cost.steps
        );
        // What a turn spends on finding its place is bounded too.
        assert!(cost.steps <= 300 * 20_000, "{schema}: {}", cost.steps);
    }
}

#[test]
fn a_twin_is_found_whatever_the_order_of_its_members() {
    let members: Vec<String> = (0..9_000).map(|n| format!("\"k{n}\":{{\"a\":{n},\"b\":[1.0]}}")).collect();
    let other: Vec<String> = (0..9_000).rev().map(|n| format!("\"k{n}\":{{\"b\":[10e-1],\"a\":{n}}}")).collect();
    let schema = r#"{"type":"array","uniqueItems":true}"#;
    let text = |other: &[String]| format!("[{{{}}},1,{{{}}}]", members.join(","), other.join(","));
    assert_eq!(cost(schema, &text(&other)).decision, Err(Reason::UniqueItems));
    assert_eq!(cost(schema, &text(&other[1..])).decision, Ok(()));
}

#[test]
fn many_constants_cost_as_much_as_few() {
    let texts: Vec<String> = (0..16_000).map(|n| format!("\"a-name-like-others-{n:05}-of-them\"")).collect();
    let numbers: Vec<String> = (0..16_000).map(|n| format!("{n}.5")).collect();
    for values in [texts, numbers] {
        let schema = format!(r#"{{"type":"array","items":{{"enum":[{}]}}}}"#, values.join(","));
        let recorded = format!(r#"{{"anyOf":[{schema},{{"type":"null","title":"t"}}],"contains":true}}"#);
        let good = format!("[{}]", values.iter().step_by(16).cloned().collect::<Vec<_>>().join(","));
        for schema in [schema, recorded] {
            let good = cost(&schema, &good);
            assert_eq!(good.decision, Ok(()));
            assert!(good.steps < 10_000, "{}", good.steps);
            assert!(cost(&schema, "[\"a-name-like-others-1-of-them\"]").decision.is_err());
        }
    }
}

/// What the message names of the values that would have been right must not cost what the document lists, or one wrong word costs milliseconds.
#[test]
fn a_value_that_is_none_of_many_constants_is_rejected_as_cheaply_as_one_of_few() {
    let allocations = |count: usize| {
        let values: Vec<String> = (0..count).map(|n| format!("\"a-name-like-others-{n:05}\"")).collect();
        let (program, id) = compile(&format!(r#"{{"type":"array","items":{{"enum":[{}]}}}}"#, values.join(",")));
        let mut run = Run::default();
        let mut decision = || support::validate(&program, id, &mut run, b"[\"x\"]", usize::MAX).unwrap_err();
        assert_eq!(decision().reason, Reason::Enum);
        allocation_counter::measure(|| drop(decision())).count_total
    };
    let (few, many) = (allocations(20), allocations(16_000));
    assert!(many <= few + 10, "{few} allocations with 20 constants, {many} with 16,000");
}

#[test]
fn many_required_members_are_looked_up() {
    let names: Vec<String> = (0..3_000).map(|n| format!("\"k{n}\"")).collect();
    let schema = format!(r#"{{"anyOf":[{{"required":[{}]}},{{"maxProperties":0}}]}}"#, names.join(","));
    let members: Vec<String> = names.iter().map(|name| format!("{name}:1")).collect();
    let cost = cost(&schema, &format!("{{{}}}", members.join(",")));
    assert_eq!(cost.decision, Ok(()));
    assert!(cost.steps < 30_000, "{}", cost.steps);
}

/// An open repetition before a counted one, in every place of a pattern.
#[test]
fn patterns_that_build_their_automaton_are_charged_and_others_wait_no_longer() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut word = || (0..200).map(|_| if random.bool() { 'a' } else { 'c' }).collect::<String>();
    let hostile: Vec<String> = (0..200).map(|_| format!("\"{}\"", word())).collect();
    let pattern = r".*a[^\\n]{1,200}b[a-z]{90}$";
    let limits = Limits::default();
    let list = format!("[{}]", hostile.join(","));
    let names: Vec<String> = hostile.iter().map(|name| format!("{name}:1")).collect();
    for (schema, text) in [
        (format!(r#"{{"items":{{"not":{{"pattern":"{pattern}"}}}}}}"#), list.clone()),
        (format!(r#"{{"items":{{"pattern":"^c?{pattern}|^[ac]"}}}}"#), list),
        (format!(r#"{{"patternProperties":{{"{pattern}":true}}}}"#), format!("{{{}}}", names.join(","))),
        (format!(r#"{{"propertyNames":{{"pattern":"{pattern}|^[ac]"}}}}"#), format!("{{{}}}", names.join(","))),
    ] {
        let cost = cost(&schema, &text);
        assert!(cost.steps <= limits.steps_free + limits.steps_per_byte * text.len() as u64, "{schema}");
        assert!(cost.steps > 100_000, "{schema}: {} steps were charged", cost.steps);
        assert!(cost.longest <= TURN, "{schema}: {}", cost.longest);
    }
}

/// Every pattern reads every byte of a name: long names take as many turns as long strings.
#[test]
fn long_names_are_charged_by_their_bytes() {
    let name = |n: usize| format!("{}{n}", "a".repeat(1_000));
    let members: Vec<String> = (0..2_000).map(|n| format!("\"{}\":1", name(n))).collect();
    let patterns: Vec<String> = (0..100).map(|n| format!("\"^[a-m]*{n}[n-z]*$\":true")).collect();
    let required: Vec<String> = (0..1_000).map(|n| format!("\"{}\"", name(n))).collect();
    let branch = format!("{{\"required\":[{}]}}", required.join(","));
    let branches: Vec<String> = (0..10).map(|n| format!("{{\"title\":\"{n}\",\"allOf\":[{branch}]}}")).collect();
    let text = format!("{{{}}}", members.join(","));
    for (schema, times) in [
        (format!("{{\"patternProperties\":{{{}}}}}", patterns.join(",")), 100),
        (format!("{{\"anyOf\":[{}]}}", branches.join(",")), 10),
    ] {
        let cost = cost(&schema, &text);
        assert_eq!(cost.decision, Ok(()));
        assert!(cost.steps >= (times * text.len() / 40) as u64, "{times}: {} steps for {}", cost.steps, text.len());
        assert!(cost.longest <= TURN, "{times}: {}", cost.longest);
    }
}

/// Alternatives and patterns over one long string are what many values would be.
#[test]
fn long_strings_are_evaluated_in_turns() {
    let patterns: Vec<String> =
        (0..20).map(|n| format!(r#"{{"type":["string","integer"],"pattern":"^[a-z]*(x|y){n}$"}}"#)).collect();
    let (any, none) = (patterns.join(","), patterns.join("},{\"not\":").replace(",\"integer\"", ""));
    let of_items = |schema: &str| format!(r#"{{"type":"array","items":{schema}}}"#);
    let of_members = |schema: &str| format!(r#"{{"type":"object","additionalProperties":{schema}}}"#);
    let anchored = (0..20).map(|n| format!(r#"{{"pattern":"^(a|b|é)*(?:{n})?$"}}"#)).collect::<Vec<_>>().join(",");
    let long = "a".repeat(500_000);
    for (rules, good, bad, reason) in [
        (format!(r#"{{"anyOf":[{any}]}}"#), format!("{long}x7"), long.clone(), Reason::AnyOf),
        (format!(r#"{{"allOf":[{{"not":{none}}}]}}"#), long.clone(), format!("{long}y19"), Reason::Not),
        (format!(r#"{{"allOf":[{anchored}]}}"#), long.clone(), format!("{long}c"), Reason::Pattern),
    ] {
        let good = good.replacen("aaaa", "\\u00e9a", if reason == Reason::Pattern { 1 } else { 0 });
        let texts = |value: &str| (format!("[1,\"{value}\",2]"), format!("{{\"k\":1,\"l\":\"{value}\",\"m\":2}}"));
        for (schema, good, bad) in [
            (of_items(&rules), texts(&good).0, texts(&bad).0),
            (of_members(&rules), texts(&good).1, texts(&bad).1),
            (rules.clone(), format!("\"{good}\""), format!("\"{bad}\"")),
        ] {
            for (text, expected) in [(good, Ok(())), (bad, Err(reason))] {
                let cost = cost(&schema, &text);
                assert_eq!(cost.decision, expected, "{schema}");
                let (program, id) = compile(&schema);
                let whole = support::validate_in_turns(&program, id, &mut Run::default(), text.as_bytes(), 50_000);
                assert_eq!(whole.map_err(|violation| violation.reason), expected, "{schema}");
                assert!(cost.longest <= TURN / 2, "{schema}: {}", cost.longest);
                let pieces = text.len().div_ceil(32 << 10) as u32;
                // A wrong one may be found out at once.
                let is_short = expected == Err(Reason::Pattern);
                assert!(is_short || cost.turns >= pieces + 2, "{schema}: {} turns", cost.turns);
            }
        }
    }
}

/// Small records are what takes most memory for its bytes: two cells and a container each.
#[test]
fn what_is_recorded_takes_a_few_times_its_text() {
    let (program, id) = compile(r#"{"type":"array","contains":true,"items":{"type":"object"}}"#);
    let mut run = Run::default();
    let mut check = program.check(id, &mut run);
    let text = format!("[{}", r#"{"id":0},"#.repeat(200_000));
    check.feed(text.as_bytes()).unwrap();
    let (held, sent) = (check.bytes_held(), text.len());
    assert!(held < sent * 4, "{held} bytes are held for {sent}");
    check.feed(b"1,1]").unwrap_err();
    // And nothing of it once there is a decision.
    let mut check = program.check(id, &mut run);
    check.feed(format!("{text}{{}}]").as_bytes()).unwrap();
    check.finish().unwrap();
    assert!(program.check(id, &mut run).bytes_held() < held / 2);
}

/// Scalars under many rules end a turn by what they cost, not by their bytes.
#[test]
fn scalars_under_many_rules_are_charged_for_each() {
    let all_of = |rule: &dyn Fn(u32) -> String| (0..100).map(rule).collect::<Vec<_>>().join(",");
    let patterns = all_of(&|n| format!(r#"{{"pattern":"^[a-z]+[0-9]{{1,{}}}$"}}"#, n + 1));
    let multiples = all_of(&|n| format!(r#"{{"multipleOf":1e-{}}}"#, n + 1));
    let names = |count: usize, name: &str| vec![name; count].join(",");
    for (schema, text) in [
        (
            format!(r#"{{"items":{{"type":"string","allOf":[{patterns}]}}}}"#),
            format!("[{}]", names(100_000, "\"ab1\"")),
        ),
        (format!(r#"{{"items":{{"type":"number","allOf":[{multiples}]}}}}"#), format!("[{}]", names(100_000, "12.5"))),
        (
            format!(
                r#"{{"items":{{"type":"object","properties":{{"a":{{"allOf":[{patterns}]}},"b":{{"allOf":[{multiples}]}}}}}}}}"#
            ),
            format!("[{}]", names(50_000, r#"{"a":"ab1","b":2.5}"#)),
        ),
    ] {
        let cost = cost(&schema, &text);
        assert_eq!(cost.decision, Ok(()), "{}", &schema[..60]);
        assert!(cost.steps >= 100 * 100_000, "{}: {}", &schema[..60], cost.steps);
        assert!(cost.longest <= TURN / 2, "{}: {}", &schema[..60], cost.longest);
    }
}

/// What compositions cost when a document is loaded: chains and lists of `allOf` whose members may not travel and are required elsewhere.
#[test]
fn compositions_are_compiled_in_linear_looks() {
    let link = |n: usize, next: String| {
        format!(
            r#""s{n}":{{"type":"object","required":["m{n}","o{n}"],"properties":{{"m{n}":{{"readOnly":true}},"o{n}":{{}}}}{next}}}"#
        )
    };
    let chain = |count: usize| {
        let next = |n: usize| {
            if n + 1 < count { format!(r##","allOf":[{{"$ref":"#/$defs/s{}"}}]"##, n + 1) } else { String::new() }
        };
        let links: Vec<String> = (0..count).map(|n| link(n, next(n))).collect();
        format!(r##"{{"$ref":"#/$defs/s0","$defs":{{{}}}}}"##, links.join(","))
    };
    let list = |count: usize| {
        let links: Vec<String> = (0..count).map(|n| link(n, String::new())).collect();
        let parts: Vec<String> = (0..count).map(|n| format!(r##"{{"$ref":"#/$defs/s{n}"}}"##)).collect();
        format!(r#"{{"allOf":[{}],"$defs":{{{}}}}}"#, parts.join(","), links.join(","))
    };
    // Every link is a member of its own, too.
    let members = |count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!(r##""p{n}":{{"$ref":"#/$defs/s{n}"}}"##)).collect();
        chain(count).replacen('{', &format!(r#"{{"properties":{{{}}},"#, members.join(",")), 1)
    };
    let built = |schema: &str, reject_unknown_fields: bool| {
        let node = support::node::parse(schema).unwrap();
        let mut registry = support::registry::Registry::default();
        let base = registry.add("http://localhost/schema", &node, Dialect::OpenApi31);
        let options = Options { reject_unknown_fields, reject_read_only: Some(true), ..Options::default() };
        let mut builder = contract::schema::Builder::new(&registry, options);
        let target = contract::schema::Target { node: &node, base, dialect: Dialect::OpenApi31 };
        let id = builder.add(target, Direction::Request);
        (builder.finish_usable(), id)
    };
    for closed in [false, true] {
        for (name, made) in [("chain", &chain as &dyn Fn(usize) -> String), ("list", &list)] {
            let [(few, _), (many, id)] = [100, 1_000].map(|count| built(&made(count), closed));
            assert!(few.problems.is_empty() && many.problems.is_empty(), "{name}: {:?}", many.problems.first());
            assert!(many.looks < 11 * few.looks && many.looks < 40_000, "{name}: {} and {}", few.looks, many.looks);
            let mut run = Run::default();
            let own: Vec<String> = (0..1_000).map(|n| format!(r#""o{n}":1"#)).collect();
            let text = format!("{{{}}}", own.join(","));
            assert_eq!(support::validate(&many.program, id, &mut run, text.as_bytes(), usize::MAX), Ok(()), "{name}");
            for (other, reason) in [(r#""m7":1"#, Reason::ReadOnly), (r#""p":1"#, Reason::Required)] {
                let text = text.replace(r#""o7":1"#, other);
                let found = support::validate(&many.program, id, &mut run, text.as_bytes(), usize::MAX);
                let found = found.unwrap_err().reason;
                assert!(found == reason || (closed && found == Reason::UnknownField), "{name} {other}: {found}");
            }
        }
        // What is the square of the document by its very meaning ends at a bound.
        let (all, _) = built(&members(400), closed);
        assert!(all.looks < 5_000_000, "{}", all.looks);
    }
}
