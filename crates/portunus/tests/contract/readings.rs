//! What servers that decode a path before they match it read a path of a contract as, by generation: for random templates and paths each finds the operation
//! that the contract found, or one of the readings shows another one, and the request is rejected.

use contract::options::Options;
use contract::{Contract, Found};
use fastrand::Rng;
use wire::http::readings::{Patterns, readings};
use wire::http::target::canonical_path;

const SEGMENTS: [&str; 14] =
    ["a", "b", "a:b", "@a", "a+b", "a%3Ab", "{X}", "{X}", "{X}:b", "{X}:a", "a:{X}", "{X}-a", "{X},{Y}", "%40{X}"];

fn document(templates: &[String]) -> String {
    let mut text = "openapi: 3.1.0\ninfo: { title: t, version: '1' }\npaths:\n".to_owned();
    for template in templates {
        let names: Vec<&str> = template.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
        let one = |name: &&str| format!("{{ name: {name}, in: path, required: true, schema: {{ type: string }} }}");
        let parameters: Vec<String> = names.iter().map(one).collect();
        text += &format!(
            "  '{template}':\n    parameters: [{}]\n    get: {{ responses: {{ default: {{ description: any }} }} }}\n",
            parameters.join(", ")
        );
    }
    text
}

fn random_templates(random: &mut Rng) -> Vec<String> {
    let mut templates = vec!["/{x}".to_owned(), "/{x}/{y}".to_owned()];
    for _ in 0..random.usize(1..6) {
        let mut template = String::new();
        for number in 0..random.usize(1..3) {
            let segment = random.choice(SEGMENTS).unwrap();
            template +=
                &format!("/{}", segment.replace('X', &format!("x{number}")).replace('Y', &format!("y{number}")));
        }
        templates.push(template);
    }
    templates
}

/// A path after one of the templates, of which some characters are escaped, once or twice.
fn random_path(random: &mut Rng, templates: &[String]) -> String {
    let mut plain = random.choice(templates).unwrap().clone();
    while let Some((start, rest)) = plain.split_once('{') {
        let value = random.choice(["a", "b", "a:b", "+b", "a-a", "a,b:a", "@a"]).unwrap();
        plain = format!("{start}{value}{}", rest.split_once('}').unwrap().1);
    }
    let mut out = String::new();
    for byte in plain.bytes() {
        match random.u8(..4) {
            0 if b":@+,".contains(&byte) => out += &format!("%{byte:02x}"),
            1 if b":@+,".contains(&byte) => out += &format!("%25{byte:02X}"),
            _ => out.push(char::from(byte)),
        }
    }
    out
}

/// The path with the escapes of reserved characters decoded once, in canonical form.
fn decoded(path: &str) -> String {
    let marks = [("%3A", ":"), ("%3a", ":"), ("%40", "@"), ("%2B", "+"), ("%2b", "+"), ("%2C", ","), ("%2c", ",")];
    // Escaped percent signs wait, so that nothing is decoded twice.
    let kept = path.replace("%25", "\0");
    marks.iter().fold(kept, |text, (escape, mark)| text.replace(escape, mark)).replace('\0', "%")
}

#[test]
fn servers_that_decode_first_find_the_same_operation_or_nothing_is_forwarded() {
    let mut random = Rng::with_seed(38);
    let (mut passed, mut with_escapes, mut rejected) = (0, 0, 0);
    for _ in 0..400 {
        let templates = random_templates(&mut random);
        let Ok(contract) = Contract::from_text("api.yaml", &document(&templates), &Options::default()) else {
            continue;
        };
        let undone: Vec<String> = templates.iter().map(|template| decoded(template)).collect();
        let Ok(behind) = Contract::from_text("behind.yaml", &document(&undone), &Options::default()) else { continue };
        if !contract.errors().is_empty() || !behind.errors().is_empty() {
            continue;
        }
        let template = |contract: &Contract, path: &[u8]| match contract.find("GET", path) {
            Found::Operation(found, _) => Some(decoded(found.operation.template())),
            _ => None,
        };
        for _ in 0..40 {
            let mut path = Vec::new();
            let Ok(_) = canonical_path(random_path(&mut random, &templates).as_bytes(), &mut path) else { continue };
            let Found::Operation(own, _) = contract.find("GET", &path) else { continue };
            let number = own.operation.number();
            let patterns = Patterns { expressions: false, escapes: contract.has_escapes() };
            let is_ambiguous = readings(&path, patterns).iter().any(|reading| {
                matches!(contract.find_decoded("GET", reading), Found::Operation(other, _) if other.operation.number() != number)
            });
            if is_ambiguous {
                rejected += 1;
                continue;
            }
            passed += 1;
            with_escapes += u32::from(path.contains(&b'%'));
            let text = String::from_utf8(path.clone()).unwrap();
            for reading in [decoded(&text), decoded(&decoded(&text))] {
                let (expected, found) = (template(&contract, &path), template(&behind, reading.as_bytes()));
                assert_eq!(found, expected, "{text} as {reading}: {templates:?}");
            }
        }
    }
    assert!(passed > 2_000 && with_escapes > 500 && rejected > 500, "{passed} {with_escapes} {rejected}");
}
