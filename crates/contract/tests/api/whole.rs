//! Bodies that are neither JSON, forms nor text: JSON texts in a row, XML and YAML. What passes, and what readers of them take differently.

use contract::options::{Limits, Options, Undeclared};

use super::{Request, all_decisions, contract, contract_with, decision, response_decision, shadows};

/// A document with POST /a, whose request and response have this content.
fn document(version: &str, content: &str) -> String {
    format!(
        "openapi: {version}
info: {{title: t, version: '1'}}
paths: {{/a: {{post: {{requestBody: {{required: true, content: {content}}}, responses: {{'200': {{description: d, content: {content}}}}}}}}}}}
components:
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        id: {{type: integer, format: int64, xml: {{attribute: true}}}}
        name: {{type: string, maxLength: 5, xml: {{name: title}}}}
        tags: {{type: array, maxItems: 2, xml: {{wrapped: true}}, items: {{$ref: '#/components/schemas/Tag'}}}}
        photos: {{type: array, xml: {{wrapped: true, name: urls}}, items: {{type: string, xml: {{name: url}}}}}}
        ages: {{type: array, items: {{type: integer}}}}
        friends: {{type: array, items: {{type: object, properties: {{name: {{type: string}}}}, xml: {{name: friend}}}}}}
        plain: {{type: array, xml: {{wrapped: true}}, items: {{type: number}}}}
        alive: {{type: boolean}}
        either: {{oneOf: [{{type: integer}}, {{type: string, pattern: '^a'}}]}}
        owner: {{type: object, properties: {{x: {{type: integer, xml: {{prefix: o, namespace: 'urn:o'}}}}}}}}
      xml: {{name: pet}}
    Tag: {{type: object, properties: {{id: {{type: integer}}, text: {{type: string}}}}, xml: {{name: tag}}}}
    Bare: {{type: object, properties: {{n: {{type: integer}}}}}}
"
    )
}

const PET: &str = "{application/xml: {schema: {$ref: '#/components/schemas/Pet'}}}";

/// Bodies that are pets, and some that are not.
const PETS: &[(&str, &str)] = &[
    ("<pet><title>Rex</title></pet>", "ok"),
    (
        "<?xml version=\"1.0\" encoding='UTF-8' standalone=\"yes\"?>\r\n<pet id=\"7\">\r\n  <title>R&#x65;x</title>\r\n</pet>\r\n",
        "ok",
    ),
    ("\u{feff}<pet><title>a&amp;b</title></pet>", "ok"),
    ("<pet><title><![CDATA[<a>]]></title><!-- c --></pet>", "ok"),
    ("<pet id='x'><title>Rex</title></pet>", "type body /id"),
    ("<pet id='7.0'><title>Rex</title></pet>", "type body /id"),
    ("<pet><id>7</id><title>Rex</title></pet>", "xml_malformed body id"),
    ("<pet title='Rex'></pet>", "xml_malformed body title"),
    ("<pet><name>Rex</name></pet>", "xml_malformed body name"),
    ("<pet><title>Bartholomew</title></pet>", "max_length body /name"),
    ("<pet><title>a&#98;&#x63;def</title></pet>", "max_length body /name"),
    ("<pet/>", "required body /name"),
    ("<pet></pet>", "required body /name"),
    ("<pet><title/></pet>", "ok"),
    ("<Pet><title>Rex</title></Pet>", "xml_malformed body Pet"),
    ("<pet><title>R</title><title>S</title></pet>", "xml_malformed body title"),
    ("<pet><title>R</title><other>1</other></pet>", "unknown_field body /other"),
    ("<pet other='1'><title>R</title></pet>", "unknown_field body /other"),
    ("<pet><title>R</title><tags><tag><id>1</id></tag><tag><text>x</text></tag></tags></pet>", "ok"),
    ("<pet><title>R</title><tags/></pet>", "ok"),
    ("<pet><title>R</title><tags><tag/><tag/><tag/></tags></pet>", "max_items body /tags"),
    ("<pet><title>R</title><tags><tag><id>x</id></tag></tags></pet>", "type body /tags/0/id"),
    ("<pet><title>R</title><tags><Tag/></tags></pet>", "xml_malformed body Tag"),
    ("<pet><title>R</title><tags x='1'><tag/></tags></pet>", "xml_malformed body tags"),
    ("<pet><title>R</title><tag/></pet>", "unknown_field body /tag"),
    ("<pet><title>R</title><urls><url>a</url><url>b</url></urls></pet>", "ok"),
    ("<pet><title>R</title><photos><url>a</url></photos></pet>", "xml_malformed body photos"),
    ("<pet><ages>1</ages><title>R</title><ages>2</ages></pet>", "ok"),
    ("<pet><title>R</title><ages>1</ages><ages>x</ages></pet>", "type body /ages/1"),
    ("<pet><title>R</title><ages></ages></pet>", "xml_malformed body ages"),
    ("<pet><title>R</title><friend><name>a</name></friend><friend/></pet>", "ok"),
    ("<pet><title>R</title><friends><name>a</name></friends></pet>", "xml_malformed body friends"),
    ("<pet><title>R</title><plain><plain>1.5</plain><plain>2</plain></plain></pet>", "ok"),
    ("<pet><title>R</title><alive>true</alive></pet>", "ok"),
    ("<pet><title>R</title><alive> true </alive></pet>", "type body /alive"),
    ("<pet><title>R</title><alive>1</alive></pet>", "type body /alive"),
    ("<pet><title>R</title><either>12</either></pet>", "ok"),
    ("<pet><title>R</title><either>a12</either></pet>", "ok"),
    ("<pet><title>R</title><either>b</either></pet>", "pattern body /either"),
    ("<pet><title>R</title><owner><o:x xmlns:o='urn:o'>1</o:x></owner></pet>", "ok"),
    ("<pet xmlns:o='urn:o' xmlns:unused='urn:u'><title>R</title><owner><o:x>1</o:x></owner></pet>", "ok"),
    ("<pet><title>R</title><owner><o:x xmlns:o='urn:p'>1</o:x></owner></pet>", "xml_malformed body o:x"),
    ("<pet><title>R</title><owner><p:x xmlns:p='urn:o'>1</p:x></owner></pet>", "xml_malformed body p:x"),
    ("<pet><title>R</title><owner><x>1</x></owner></pet>", "xml_malformed body x"),
    ("<pet><title x='1'>R</title></pet>", "xml_malformed body title"),
    ("<pet><title><b>R</b></title></pet>", "type body /name"),
    ("<pet>text<title>R</title></pet>", "xml_malformed body"),
    ("<pet>text</pet>", "xml_malformed body pet"),
];

#[test]
fn xml_is_read_by_the_xml_objects() {
    let contract = contract(&document("3.0.3", PET));
    for &(body, expected) in PETS {
        for content_type in ["application/xml", "Application/XML; charset=UTF-8"] {
            assert_eq!(decision(&contract, &Request::post("/a", content_type, body)), expected, "{body}");
        }
        let fields = [("Content-Type", "application/xml")];
        assert_eq!(response_decision(&contract, "POST", "/a", 200, &fields, body.as_bytes()), expected, "{body}");
    }
    let found = all_decisions(
        &contract,
        &Request::post(
            "/a",
            "application/xml",
            "<pet id='x'><title>Bartholomew</title><ages>1</ages><ages>x</ages><z/></pet>",
        ),
    );
    let expected =
        ["type body /id", "type body /ages/1", "max_length body /name", "unknown_field body /z"].map(str::to_owned);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(expected.iter().all(|one| found.contains(one)), "{found:?}");
    assert_eq!(
        response_decision(&contract, "POST", "/a", 200, &[("Content-Type", "application/xml")], b""),
        "body_missing body"
    );
}

#[test]
fn roots_lists_and_text_in_xml() {
    let rows = [
        // A component without an `xml` object is called after itself.
        ("{$ref: '#/components/schemas/Bare'}", "<Bare><n>1</n></Bare>", "ok"),
        ("{$ref: '#/components/schemas/Bare'}", "<bare><n>1</n></bare>", "xml_malformed body bare"),
        // What nothing names may be called anything.
        ("{type: object, properties: {n: {type: integer}}}", "<any><n>1</n></any>", "ok"),
        ("{type: object, properties: {n: {type: integer}}}", "<any><n>x</n></any>", "type body /n"),
        ("{type: array, items: {$ref: '#/components/schemas/Tag'}}", "<tags><tag><id>1</id></tag><tag/></tags>", "ok"),
        ("{type: array, items: {$ref: '#/components/schemas/Tag'}}", "<tags><Tag/></tags>", "xml_malformed body Tag"),
        ("{type: array, items: {$ref: '#/components/schemas/Bare'}}", "<l><Bare><n>1</n></Bare></l>", "ok"),
        ("{type: array, items: {$ref: '#/components/schemas/Bare'}}", "<l><x><n>1</n></x></l>", "xml_malformed body x"),
        ("{type: array, items: {type: integer}}", "<l><a>1</a><b>x</b></l>", "type body /1"),
        (
            "{type: object, properties: {n: {type: integer}}, xml: {namespace: 'urn:a'}}",
            "<r xmlns='urn:a'><n>1</n></r>",
            "ok",
        ),
        (
            "{type: object, properties: {n: {type: integer}}, xml: {namespace: 'urn:a'}}",
            "<r><n>1</n></r>",
            "xml_malformed body r",
        ),
        ("{type: object, properties: {n: {type: integer}}}", "<r xmlns='urn:a'><n>1</n></r>", "xml_malformed body r"),
        ("{type: object, properties: {n: {type: integer}}}", "<r><n xmlns='urn:a'>1</n></r>", "xml_malformed body n"),
        // Two members of one name: nobody can say which is meant.
        (
            "{type: object, properties: {n: {type: integer}, m: {type: string, xml: {name: n}}}}",
            "<r><n>1</n></r>",
            "xml_malformed body n",
        ),
        // A schema that allows strings alone has the text of the body.
        ("{type: string, maxLength: 10}", "<a>x</a>", "ok"),
        ("{type: string, maxLength: 10}", "<a>xxxxxxxxxxxxx</a>", "max_length body"),
        ("{type: string}", "<!DOCTYPE a><a/>", "xml_malformed body"),
        ("{type: string, xml: {name: a}, maxLength: 1}", "<a>x</a>", "ok"),
        ("{}", "<a b='1'><c>x</c><c>y</c><d><e/></d></a>", "ok"),
        ("{type: object, additionalProperties: {type: integer}}", "<a><b>1</b><c>2</c></a>", "ok"),
        ("{type: object, additionalProperties: {type: integer}}", "<a><b>1</b><c>x</c></a>", "type body /c"),
    ];
    for (schema, body, expected) in rows {
        for (kind, range) in
            [("text/xml", "text/xml"), ("application/x+xml", "application/*"), ("image/svg+xml", "'*/*'")]
        {
            let contract = contract(&document("3.0.3", &format!("{{{range}: {{schema: {schema}}}}}")));
            assert_eq!(decision(&contract, &Request::post("/a", kind, body)), expected, "{kind} {schema} {body}");
        }
    }
}

/// A member that no schema sees, but that readers take which ignore prefixes or make no difference between attributes and elements (Jackson's XmlMapper).
#[test]
fn nothing_undeclared_in_xml_is_called_like_a_member() {
    let members = "amount: {type: integer, maximum: 100}, ident: {type: string, maxLength: 3, xml: {attribute: true, name: code}}, \
                   note: {type: string, maxLength: 3, xml: {prefix: n, namespace: 'urn:n'}}, \
                   tags: {type: array, items: {type: string, maxLength: 3, xml: {name: tag}}}";
    let rows = [
        ("<pay><amount>1</amount><x:amount xmlns:x='u'>999</x:amount></pay>", "xml_malformed body x:amount"),
        ("<pay><x:amount xmlns:x='u'>999</x:amount></pay>", "xml_malformed body x:amount"),
        ("<pay amount='999'/>", "xml_malformed body amount"),
        ("<pay x:amount='999' xmlns:x='u'/>", "xml_malformed body x:amount"),
        ("<pay><code>longer</code></pay>", "xml_malformed body code"),
        ("<pay><x:code xmlns:x='u'>longer</x:code></pay>", "xml_malformed body x:code"),
        ("<pay x:code='longer' xmlns:x='u'/>", "xml_malformed body x:code"),
        ("<pay ident='longer'/>", "xml_malformed body ident"),
        ("<pay><x:ident xmlns:x='u'>longer</x:ident></pay>", "xml_malformed body x:ident"),
        ("<pay><note>longer</note></pay>", "xml_malformed body note"),
        ("<pay><x:note xmlns:x='urn:n'>longer</x:note></pay>", "xml_malformed body x:note"),
        ("<pay tag='longer'/>", "xml_malformed body tag"),
        ("<pay><x:tags xmlns:x='u'>longer</x:tags></pay>", "xml_malformed body x:tags"),
        // What is called otherwise is an extension.
        ("<pay code='abc'><amount>1</amount><n:note xmlns:n='urn:n'>abc</n:note><tag>a</tag><tag>b</tag></pay>", "ok"),
        ("<pay code='abc' x:lang='en' xmlns:x='u'><amount>1</amount><x:more>999</x:more></pay>", "ok"),
        (
            "<pay xmlns:x='u'><x:more><x:amount>999</x:amount><code>longer</code></x:more><amounts>1</amounts></pay>",
            "ok",
        ),
    ];
    for other in ["", ", additionalProperties: true"] {
        let schema = format!("{{application/xml: {{schema: {{type: object, properties: {{{members}}}{other}}}}}}}");
        let options = Options { undeclared_body_fields: Undeclared::Ignore, ..Options::default() };
        let contract = contract_with(&document("3.1.0", &schema), &options);
        for (body, expected) in rows {
            assert_eq!(decision(&contract, &Request::post("/a", "application/xml", body)), expected, "{other} {body}");
        }
    }
}

/// What is no XML, or is read in different ways.
const HOSTILE: &[&str] = &[
    "",
    " ",
    "text",
    "<a>",
    "</a>",
    "<a></b>",
    "<a/><b/>",
    "<a/>text",
    "text<a/>",
    "<a/>&amp;",
    "<a",
    "<a b>",
    "<a b=1/>",
    "<a b='1'c='2'/>",
    "<a b='1' b='2'/>",
    "<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>",
    "<a b='<'/>",
    "<a b='&x;'/>",
    "<a b='&amp'/>",
    "<a>&x;</a>",
    "<a>&</a>",
    "<a>&amp</a>",
    "<a>&#0;</a>",
    "<a>&#x1f;</a>",
    "<a>&#xd800;</a>",
    "<a>&#x110000;</a>",
    "<a>&#X41;</a>",
    "<a>&#;</a>",
    "<a>&#+65;</a>",
    "<a>\u{1}</a>",
    "<a>\u{fffe}</a>",
    "<a>]]></a>",
    "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>",
    "<!DOCTYPE a SYSTEM 'http://x/'><a/>",
    "<!doctype a><a/>",
    "<!DOCTYPE a [<!ENTITY l 'lol'><!ENTITY m '&l;&l;&l;'>]><a>&m;</a>",
    "<a><!ELEMENT b></a>",
    "<?php echo 1?><a/>",
    "<a><?x y?></a>",
    "<?xml-stylesheet href='x'?><a/>",
    " <?xml version='1.0'?><a/>",
    "<?xml version='1.1'?><a/>",
    "<?xml version='1.0' encoding='UTF-16'?><a/>",
    "<?xml version='1.0' encoding='ISO-8859-1'?><a/>",
    "<?xml encoding='UTF-8'?><a/>",
    "<?xml?><a/>",
    "<?xml version='1.0' version='1.0'?><a/>",
    "<?XML version='1.0'?><a/>",
    "<a><?xml version='1.0'?></a>",
    "<1a/>",
    "<-a/>",
    "<a:/>",
    "<:a/>",
    "<a:b:c xmlns:a='u'/>",
    "<p:a/>",
    "<a p:b='1'/>",
    "<a xmlns:p=''/>",
    "<a xmlns:xml='u'/>",
    "<a xmlns:xmlns='u'/>",
    "<a xmlns='http://www.w3.org/2000/xmlns/'/>",
    "<a xmlns='u' xmlns='u'/>",
    "<a\u{a0}b='1'/>",
    "<a><b></a></b>",
    "< a/>",
    "<a / >",
    "<>x</>",
    "<a><b/>text</a>",
    "<a>1<!-- -->2</a>",
    "<a>1<![CDATA[2]]></a>",
    "<a><![CDATA[1]]><![CDATA[2]]></a>",
    "<a><![CDATA[x]]</a>",
    "<a><!-- -- --></a>",
    "<a><!-- --->x</a>",
    "<![CDATA[x]]>",
    "<a><![cdata[x]]></a>",
];

/// Rejected whatever the schema says.
#[test]
fn hostile_xml_is_rejected() {
    let contract = contract(&document("3.1.0", "{application/xml: {}}"));
    let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    let attributes = |count: usize| {
        let all: Vec<String> = (0..count).map(|number| format!("a{number}='1'")).collect();
        format!("<a {}/>", all.join(" "))
    };
    assert_eq!(decision(&contract, &Request::post("/a", "application/xml", nested(64))), "ok");
    assert_eq!(decision(&contract, &Request::post("/a", "application/xml", attributes(64))), "ok");
    for body in [nested(65), nested(100_000), attributes(65), format!("<{}/>", "a".repeat(1025))] {
        let found = decision(&contract, &Request::post("/a", "application/xml", body.clone()));
        assert_eq!(found, "xml_limit body", "{}", &body[..40]);
    }
    for &body in HOSTILE {
        let found = decision(&contract, &Request::post("/a", "application/xml", body));
        assert!(
            found == "xml_malformed body" || (body.is_empty() && found == "body_missing body"),
            "{body:?}: {found}"
        );
    }
    for body in [&b"\xff\xfe<\0a\0/\0>\0"[..], b"<a>\xff</a>", b"<a>\xc0\x80</a>", b"\xfe\xff\0<\0a\0/\0>"] {
        assert_eq!(decision(&contract, &Request::post("/a", "application/xml", body)), "text_malformed body");
    }
    let utf16 = Request::post("/a", "application/xml; charset=utf-16", "<a/>");
    assert_eq!(decision(&contract, &utf16), "charset header content-type");
    let few = Options { limits: Limits { xml_attributes: 1, ..Limits::default() }, ..Options::default() };
    let few = contract_with(&document("3.1.0", "{application/xml: {}}"), &few);
    assert_eq!(decision(&few, &Request::post("/a", "application/xml", "<a b='1' c='2'/>")), "xml_limit body");
}

#[test]
fn yaml_is_read_by_the_schema() {
    let schema = "{schema: {$ref: '#/components/schemas/Pet'}}";
    let text = document(
        "3.1.0",
        &format!(
            "{{application/yaml: {schema}, text/yaml: {{schema: {{type: string, maxLength: 9}}}}, application/x-yaml: {schema}, 'application/*': {schema}}}"
        ),
    );
    let contract = contract(&text);
    let rows = [
        ("name: Rex\n", "ok"),
        ("{\"name\": \"Rex\", \"id\": 7}", "ok"),
        ("---\nname: 'Rex'\nages: [1, 2]\ntags:\n- id: 1\n  text: a\nalive: true\n...\n", "ok"),
        ("id: 7\n", "required body /name"),
        ("name: 7\n", "type body /name"),
        ("name: Rex\nages: [1, x]\n", "type body /ages/1"),
        ("name: Rex\nother: 1\n", "unknown_field body /other"),
        ("name: Rex\nname: Max\n", "json_duplicate_key body"),
        ("name: Rex\n'name': Max\n", "json_duplicate_key body"),
        ("name: Rex\nalive: yes\n", "yaml_malformed body"),
        ("name: Rex\nid: 012\n", "yaml_malformed body"),
        ("name: !!str Rex\n", "yaml_malformed body"),
        ("name: Rex\n---\nname: Max\n", "yaml_malformed body"),
        ("name: &a Rex\nowner: *b\n", "yaml_malformed body"),
        ("- name: Rex\n", "type body"),
        ("name: \"\\x\"\n", "yaml_malformed body"),
    ];
    for (body, expected) in rows {
        for kind in ["application/yaml", "application/x-yaml", "application/vnd.pets+yaml"] {
            let found = decision(&contract, &Request::post("/a", kind, body));
            assert!(found.starts_with(expected), "{kind} {body:?}: {found}");
        }
        let fields = [("Content-Type", "application/yaml")];
        let found = response_decision(&contract, "POST", "/a", 200, &fields, body.as_bytes());
        assert!(found.starts_with(expected), "{body:?}: {found}");
    }
    // A schema that allows strings alone has the text of the body.
    for (body, expected) in [("a: b", "ok"), ("a: bcdefgh", "max_length body"), ("!x a", "yaml_malformed body")] {
        assert_eq!(decision(&contract, &Request::post("/a", "text/yaml", body)), expected, "{body}");
    }
    let none = Options { limits: Limits { yaml_aliases: 0, ..Limits::default() }, ..Options::default() };
    let none = contract_with(&text, &none);
    assert_eq!(decision(&none, &Request::post("/a", "application/yaml", "name: &a Rex")), "yaml_limit body");
    let found = all_decisions(&contract, &Request::post("/a", "application/yaml", "name: 7\nid: x\nz: 1\n"));
    assert_eq!(found, ["type body /name", "type body /id", "unknown_field body /z"]);
}

/// Aliases of aliases, nesting, and many anchors.
#[test]
fn hostile_yaml_is_rejected() {
    let limits = Limits { decoded_body_bytes: 100_000, ..Limits::default() };
    let contract =
        contract_with(&document("3.1.0", "{application/yaml: {}}"), &Options { limits, ..Options::default() });
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (one, next) in "abcdefghi".chars().zip("bcdefghij".chars()) {
        bomb += &format!("{next}: &{next} [*{one},*{one},*{one},*{one},*{one},*{one},*{one},*{one},*{one},*{one}]\n");
    }
    let anchors: String = (0..200).map(|number| format!("a{number}: &a{number} 1\n")).collect();
    for body in [
        bomb,
        anchors,
        "[".repeat(100),
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        format!("{}x", "? ".repeat(10_000)),
        format!("a: {}", "&a ".repeat(10_000)),
        format!("a: '{}", "x".repeat(100_000)),
    ] {
        let found = decision(&contract, &Request::post("/a", "application/yaml", body.clone()));
        assert!(found.starts_with("yaml_"), "{}: {found}", &body[..40]);
    }
}

#[test]
fn json_texts_in_a_row_are_validated_one_by_one() {
    let item = "{type: object, required: [n], properties: {n: {type: integer}}}";
    let of = |media: &str| {
        contract(&document("3.1.0", &format!("{{application/x-ndjson: {media}, application/json-seq: {media}}}")))
    };
    let of_each = of(&format!("{{schema: {item}}}"));
    let of_items = of(&format!("{{itemSchema: {item}, schema: {{maxItems: 2}}}}"));
    let of_array = of(&format!("{{schema: {{type: array, maxItems: 2, items: {item}}}}}"));
    let rows: [(&[&str], &str); 9] = [
        (&["{\"n\":1}"], "ok"),
        (&["{\"n\":1}", "{\"n\":2}"], "ok"),
        (&["{\"n\":1}", "{\"n\":\"x\"}"], "type body /1/n"),
        (&["{\"n\":1}", "{}"], "required body /1/n"),
        (&["{\"n\":1}", "{\"n\":1,\"x\":1}"], "unknown_field body /1/x"),
        (&["{\"n\":1}", "[1]"], "type body /1"),
        (&["{\"n\":1}", "{\"n\":1"], "sequence_malformed body"),
        (&["{\"n\":1},{\"n\":1}"], "sequence_malformed body"),
        (&["{\"n\":1} {\"n\":1}"], "json_syntax body"),
    ];
    for (texts, expected) in rows {
        let lines: String = texts.iter().map(|text| format!("{text}\n")).collect();
        let records: String = texts.iter().map(|text| format!("\u{1e}{text}\n")).collect();
        for contract in [&of_each, &of_items, &of_array] {
            for (kind, body) in [("application/x-ndjson", &lines), ("application/json-seq", &records)] {
                let found = decision(contract, &Request::post("/a", kind, body.as_str()));
                assert!(found.starts_with(expected), "{kind} {body:?}: {found}");
                let fields = [("Content-Type", kind)];
                let found = response_decision(contract, "POST", "/a", 200, &fields, body.as_bytes());
                assert!(found.starts_with(expected), "{kind} {body:?}: {found}");
            }
        }
    }
    let three = "{\"n\":1}\n".repeat(3);
    for (contract, expected) in [(&of_each, "ok"), (&of_items, "max_items body"), (&of_array, "max_items body")] {
        assert_eq!(decision(contract, &Request::post("/a", "application/x-ndjson", three.as_str())), expected);
    }
    let wrong = "{\"n\":1}\n{\"n\":\"x\"}\n{}\n{\"n\":1,\"y\":2}\n";
    let found = all_decisions(&of_each, &Request::post("/a", "application/x-ndjson", wrong));
    assert_eq!(found, ["type body /1/n", "required body /2/n", "unknown_field body /3/y"]);
    // Where the schema allows strings alone, the body is one.
    let text = contract(&document("3.0.3", "{application/jsonl: {schema: {type: string, maxLength: 5}}}"));
    assert_eq!(decision(&text, &Request::post("/a", "application/jsonl", "a\nb")), "ok");
    assert_eq!(decision(&text, &Request::post("/a", "application/jsonl", "a\nbcdef")), "max_length body");
    let cut = Request::post("/a", "application/json-seq", "\u{1e}{\"n\":1}");
    assert_eq!(decision(&of_each, &cut), "sequence_malformed body");
}

/// What the configuration or the document calls bytes is not read, as before there were readers.
#[test]
fn what_is_listed_or_binary_passes_unread() {
    let options = Options {
        opaque_media_types: vec!["application/xml".to_owned(), "application/yaml".to_owned()],
        ..Options::default()
    };
    let content = "{application/xml: {schema: {type: object}}, application/yaml: {schema: {type: object}}, text/xml: {schema: {type: string, format: binary, maxLength: 3}}, 'image/*': {schema: {type: string, format: binary}}, application/x-ndjson: {schema: {type: string, format: binary}}}";
    let open = contract_with(&document("3.0.3", content), &options);
    for (kind, body, expected) in [
        ("application/xml", "<a", "ok"),
        ("application/yaml", "[", "ok"),
        ("text/xml", "<a", "ok"),
        ("text/xml", "<abc", "max_length body"),
        ("image/svg+xml", "<!DOCTYPE", "ok"),
        ("application/x-ndjson", "{", "ok"),
    ] {
        assert_eq!(decision(&open, &Request::post("/a", kind, body)), expected, "{kind}");
    }
}

#[test]
fn undeclared_fields_of_all_of_them_can_be_reported() {
    let schema = "{schema: {type: object, properties: {name: {type: string}}}}";
    let text = document(
        "3.1.0",
        &format!("{{application/xml: {schema}, application/yaml: {schema}, application/jsonl: {schema}}}"),
    );
    let options = Options { undeclared_body_fields: Undeclared::Report, ..Options::default() };
    let contract = contract_with(&text, &options);
    for (kind, body, expected) in [
        ("application/xml", "<r y='1'><name>a</name><x>1</x></r>", &["body /y", "body /x"][..]),
        ("application/yaml", "name: a\nx: 1\n", &["body /x"]),
        ("application/jsonl", "{\"name\":\"a\"}\n{\"x\":1}\n", &["body /1/x"]),
    ] {
        assert_eq!(shadows(&contract, &Request::post("/a", kind, body)), expected, "{kind}");
    }
}
