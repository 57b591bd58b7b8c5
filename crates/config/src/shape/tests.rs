//! The shape against itself: every object is listed, defaults are true, fixtures satisfy the schema.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::surface::{OBJECTS, ROOT};
use super::*;
use crate::{json_schema, key_server_json_schema, parse, yaml};

/// A tree as JSON, the way any YAML reader with the core schema would give it to a schema checker.
fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Null | Value::Rejected => Json::Null,
        Value::Scalar(scalar) if scalar.is_bool() => Json::Bool(scalar.text.eq_ignore_ascii_case("true")),
        Value::Scalar(scalar) if scalar.is_number() => serde_json::from_str(&scalar.text).unwrap(),
        Value::Scalar(scalar) => Json::String(scalar.text.clone()),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.value))).collect::<Map<_, _>>())
        }
    }
}

fn each_yaml(folder: &str, mut with: impl FnMut(&str, &str)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../portunus").join(folder);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json")
            && !path.to_string_lossy().ends_with(".expected.json")
        {
            with(&path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
            count += 1;
        }
    }
    assert!(count > 0, "no files in {}", folder.display());
}

#[test]
fn every_object_that_is_used_is_listed_once() {
    fn objects(shape: &Shape, into: &mut Vec<&'static str>) {
        match shape {
            Shape::Object(object) => into.push(object.name),
            Shape::Table(_, inner) | Shape::List(inner) | Shape::OneOrMany(inner) => objects(inner, into),
            Shape::Either(alternatives) => alternatives.iter().for_each(|shape| objects(shape, into)),
            _ => {}
        }
    }
    let mut used = vec![ROOT.name];
    OBJECTS.iter().flat_map(|object| object.all_fields()).for_each(|field| objects(&field.shape, &mut used));
    let mut listed: Vec<_> = OBJECTS.iter().map(|object| object.name).collect();
    for names in [&mut used, &mut listed] {
        names.sort_unstable();
    }
    used.dedup();
    assert_eq!(used, listed);
}

#[test]
fn fields_are_unique_and_say_something() {
    for object in OBJECTS {
        let names: Vec<_> = object.all_fields().map(|field| field.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{}.{name} twice", object.name);
        }
        for field in object.all_fields() {
            assert!(field.doc.ends_with('.') && !field.doc.contains('|'), "{}.{}", object.name, field.name);
            assert_eq!(
                field.required || object.one_of.contains(&field.name),
                field.default.is_empty(),
                "{}.{}",
                object.name,
                field.name
            );
        }
        assert!(object.one_of.iter().all(|name| names.contains(name)), "{}", object.name);
    }
}

/// Writes every default out as the shape states it.
fn spelled_out(object: &Object, indent: usize) -> String {
    let mut out = String::new();
    for field in object.all_fields().filter(|field| !field.default.is_empty() && !field.default.starts_with('(')) {
        writeln!(
            out,
            "{:indent$}{}: {}",
            "",
            field.name,
            if field.default.contains('*') { format!("\"{}\"", field.default) } else { field.default.to_owned() }
        )
        .unwrap();
    }
    out
}

/// Every object that has defaults, without any key that is not required.
const BARE: &str = "
listeners:
  - { name: a, bind: \":1\", tls: { keystore: k, names: [ { host: x } ] } }
  - { name: b, bind: \":2\", redirect_to_https: {} }
keystores: { k: { folder: f } }
upstreams: { u: { servers: [ { address: \"a:1\" } ], tls: {}, retries: {}, ejection: {}, health: { path: / } } }
routes:
  - { upstream: u }
  - { redirect: { to: /x } }
  - { respond: { status: 200 } }
forwarding: {}
admin: { bind: \"127.0.0.1:9\" }
log: { access: {} }
limits: {}
";

/// The same with every default spelled out.
fn full_file() -> String {
    let object = |name: &str| OBJECTS.iter().copied().find(|object| object.name == name).unwrap();
    let spelled = |name: &str, indent| spelled_out(object(name), indent);
    format!(
        "
{root}listeners:
  - name: a
    bind: \":1\"
    tls:
      keystore: k
{tls}      names:
        - host: x
{name}  - name: b
    bind: \":2\"
    redirect_to_https:
{redirect_to_https}keystores:
  k:
    folder: f
{keystore}upstreams:
  u:
    servers:
      - address: a:1
{server}    tls:
{upstream_tls}    retries:
{retries}    ejection:
{ejection}    health:
      path: /
{health}{upstream}routes:
  - upstream: u
{route}  - redirect:
      to: /x
{redirect}  - respond:
      status: 200
{respond}forwarding:
{forwarding}admin:
  bind: 127.0.0.1:9
{admin}log:
{log}  access:
{access}limits:
{limits}",
        root = spelled("configuration", 0),
        tls = spelled("tls", 6),
        name = spelled("tls.names", 10),
        redirect_to_https = spelled("redirect_to_https", 6),
        keystore = spelled("keystore", 4),
        server = spelled("server", 8),
        upstream_tls = spelled("upstream.tls", 6),
        retries = spelled("retries", 6),
        ejection = spelled("upstream.ejection", 6),
        health = spelled("health", 6),
        upstream = spelled("upstream", 4).replace("    tls: false\n", ""),
        route = spelled("route", 4),
        redirect = spelled("redirect", 6),
        respond = spelled("respond", 6),
        forwarding = spelled("forwarding", 2),
        admin = spelled("admin", 2),
        log = spelled("log", 2),
        access = spelled("access", 4),
        limits = spelled("limits", 2),
    )
}

#[test]
fn defaults_in_the_shape_are_the_defaults_active() {
    let full = full_file();
    assert!(full.contains("tunnel_idle_timeout: 1h") && full.contains("path: \"/{*rest}\""), "{full}");
    let built = |text: &str| {
        let config = parse("p.yaml", text, Path::new("")).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        // Places hold line numbers.
        let text = format!("{config:#?}");
        text.lines().filter(|line| !line.contains("place: ")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(built(BARE), built(&full));
}

#[test]
fn valid_files_satisfy_the_schema() {
    let [gate, key_server] = [json_schema(), key_server_json_schema()]
        .map(|schema| jsonschema::draft202012::options().build(&schema).unwrap());
    for folder in ["tests/config/valid", "../../examples"] {
        each_yaml(folder, |name, text| {
            let schema = if name.ends_with("/key-server.yaml") { &key_server } else { &gate };
            let mut problems = Collector::default();
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            let json = to_json(&yaml::parse(text, &mut problems).unwrap());
            let errors: Vec<_> =
                schema.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{name}: {errors:#?}");
        });
    }
}

#[test]
fn the_schema_is_a_schema_and_rejects_what_the_shape_rejects() {
    assert!(jsonschema::draft202012::meta::is_valid(&json_schema()));
    let schema = jsonschema::draft202012::options().build(&json_schema()).unwrap();
    let check = |text: &str, fits: bool| {
        let mut problems = Collector::default();
        let node = yaml::parse(text, &mut problems).unwrap();
        check_file(&surface::ROOT, &node, &mut problems);
        assert_eq!(problems.is_empty(), fits, "shape: {text}");
        assert_eq!(schema.is_valid(&to_json(&node)), fits, "schema: {text}");
    };
    check("listeners: []", true);
    // That something must listen is checked when the file is understood: it may be a listener of datagrams.
    check("{}", true);
    check("listener: []", false);
    check("listeners: [{ name: a, bind: ':1', more: 1 }]", false);
    check("listeners: [{ name: a }]", false);
    check("listeners: [{ name: a, bind: [':1'] }]", true);
    check("listeners: [{ name: 1, bind: ':1' }]", false);
    check("{ listeners: [], workers: auto }", true);
    check("{ listeners: [], workers: 4 }", true);
    check("{ listeners: [], workers: 0 }", false);
    check("{ listeners: [], workers: many }", false);
    check("{ listeners: [], limits: { max_header_bytes: 32KiB, request_header_timeout: 5s } }", true);
    check("{ listeners: [], limits: { max_header_bytes: 32 KiB } }", false);
    check("{ listeners: [], limits: { request_header_timeout: 5 } }", false);
    check("{ listeners: [], routes: [{ upstream: a, respond: { status: 200 } }] }", false);
    check("{ listeners: [], routes: [{ path: / }] }", false);
    check("{ listeners: [], routes: [{ redirect: { to: /, status: 302 } }] }", true);
    check("{ listeners: [], routes: [{ redirect: { to: /, status: 300 } }] }", false);
    check("{ listeners: [], keystores: { a: { folder: x, jks: y } } }", false);
    check("{ listeners: [], keystores: { a: { pkcs12: x, password: secret } } }", false);
    check("{ listeners: [], log: { access: none } }", true);
    check("{ listeners: [], log: { access: {} } }", true);
    check("{ listeners: [], log: { access: yes } }", false);
    check("{ listeners: [], log: ~ }", false);
}
