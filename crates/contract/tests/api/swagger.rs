//! Documents of Swagger 2.0: what they say of messages, and what was assumed to read them.

use contract::Contract;
use contract::options::Options;

use super::{Request, contract, decision, problems, response_decision};

const PETS: &str = "
swagger: '2.0'
info: {title: pets, version: '1'}
host: api.example
basePath: /v2
schemes: [https]
consumes: [application/json]
produces: [application/json]
securityDefinitions:
  key: {type: apiKey, in: header, name: X-Key}
  user: {type: basic}
  login: {type: oauth2, flow: implicit, authorizationUrl: 'https://id.example/', scopes: {read: r}}
parameters:
  Limit: {name: limit, in: query, type: integer, maximum: 100}
  Pet: {name: pet, in: body, required: true, schema: {$ref: '#/definitions/Pet'}}
responses:
  Missing: {description: m, schema: {type: object, required: [code], properties: {code: {type: integer}}}}
paths:
  /pets:
    parameters: [{$ref: '#/parameters/Limit'}, {name: X-Shared, in: header, type: integer}]
    get:
      security: [{key: []}]
      parameters:
        - {name: tags, in: query, type: array, items: {type: string, maxLength: 3}, maxItems: 2}
        - {name: ids, in: query, type: array, items: {type: integer}, collectionFormat: multi}
        - {name: bars, in: query, type: array, items: {type: integer}, collectionFormat: pipes}
        - {name: limit, in: query, type: integer, maximum: 5}
      responses:
        '200':
          description: d
          headers: {X-Total: {type: integer}}
          schema: {type: array, items: {$ref: '#/definitions/Pet'}}
        '404': {$ref: '#/responses/Missing'}
        '204': {description: nothing}
    post:
      security: [{user: []}, {login: [read]}]
      parameters: [{$ref: '#/parameters/Pet'}]
      responses: {'201': {description: d}}
  /forms:
    post:
      consumes: [application/x-www-form-urlencoded]
      parameters:
        - {name: name, in: formData, required: true, type: string, maxLength: 3}
        - {name: n, in: formData, type: array, items: {type: integer}}
      responses: {default: {description: d}}
  /files:
    post:
      consumes: [multipart/form-data]
      parameters: [{name: file, in: formData, required: true, type: file}, {name: size, in: formData, type: integer}]
      produces: [application/octet-stream]
      responses: {'200': {description: d, schema: {type: file}}}
  /tabs:
    get:
      parameters: [{name: t, in: query, type: array, items: {type: string}, collectionFormat: tsv}]
      responses: {default: {description: d}}
  /two:
    post:
      parameters: [{name: a, in: body, schema: {}}, {name: f, in: formData, type: string}]
      responses: {default: {description: d}}
definitions:
  Pet:
    type: object
    discriminator: kind
    required: [kind]
    properties: {kind: {type: string}, id: {type: integer, readOnly: true}, nick: {type: string, x-nullable: true}}
  Cat:
    allOf: [{$ref: '#/definitions/Pet'}, {type: object, required: [lives], properties: {lives: {type: integer}}}]
";

#[test]
fn requests_are_validated_as_the_document_says() {
    let contract = contract(PETS);
    let get = |target: &str| Request::get(target).with("X-Key", "k");
    let json = |body: &str| Request::post("/v2/pets", "application/json", body).with("Authorization", "Basic dTpw");
    let form = |body: &str| Request::post("/v2/forms", "application/x-www-form-urlencoded", body);
    let rows = [
        (get("/v2/pets?tags=a,b&ids=1&ids=2&bars=1%7C2&limit=5"), "ok"),
        (get("/pets"), "unknown path"),
        (Request::get("/v2/pets"), "security_missing security"),
        (get("/v2/pets?tags=a,b,c"), "max_items query tags"),
        (get("/v2/pets?tags=long"), "max_length query tags /0"),
        (get("/v2/pets?ids=1&ids=x"), "type query ids /1"),
        (get("/v2/pets?limit=6"), "maximum query limit"),
        (get("/v2/pets").with("X-Shared", "x"), "type header x-shared"),
        (get("/v2/pets?other=1"), "parameter_undeclared query other"),
        (json(r#"{"kind":"Cat","lives":9,"nick":null}"#), "ok"),
        (json(r#"{"kind":"Cat"}"#), "ok"),
        (json(r#"{"kind":"Cat","lives":"x"}"#), "type body /lives"),
        (json(r#"{"kind":"Pet","id":1}"#), "read_only body /id"),
        (json(""), "body_missing body"),
        (
            Request::post("/v2/pets", "text/plain", "{}").with("Authorization", "Bearer t"),
            "content_type_undeclared header content-type",
        ),
        (form("name=abc&n=1,2"), "ok"),
        (form("name=abcd"), "max_length body /name"),
        (form("n=1"), "required body /name"),
        (form("name=a&n=x"), "type body /n/0"),
        (Request::get("/v2/tabs?t=a"), "operation_unsupported operation"),
        (Request::post("/v2/two", "application/json", "1"), "operation_unsupported operation"),
    ];
    for (request, expected) in rows {
        assert_eq!(decision(&contract, &request), expected, "{request:?}");
    }
    let part = |name: &str, more: &str, value: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{value}\r\n")
    };
    let file = part("file", "; filename=\"f\"\r\nContent-Type: application/octet-stream", "bytes");
    for (size, expected) in [("1", "ok"), ("x", "type body /size")] {
        let body = format!("{file}{}--b--\r\n", part("size", "", size));
        let request = Request::post("/v2/files", "multipart/form-data; boundary=b", body);
        assert_eq!(decision(&contract, &request), expected, "{size}");
    }
}

/// Method, path, status, fields and body, and what is said of them.
type Row<'a> = (&'a str, &'a str, u16, Vec<(&'a str, &'a str)>, &'a [u8], &'a str);

#[test]
fn responses_are_validated_as_the_document_says() {
    let contract = contract(PETS);
    let json = ("Content-Type", "application/json");
    let rows: [Row<'_>; 8] = [
        ("GET", "/v2/pets", 200, vec![json, ("X-Total", "1")], br#"[{"kind":"Pet","id":1}]"#, "ok"),
        ("GET", "/v2/pets", 200, vec![json, ("X-Total", "x")], b"[]", "type header x-total"),
        ("GET", "/v2/pets", 200, vec![json], br#"[{"id":1}]"#, "required body /0/kind"),
        ("GET", "/v2/pets", 404, vec![json], br#"{"code":1}"#, "ok"),
        ("GET", "/v2/pets", 404, vec![json], b"{}", "required body /code"),
        ("GET", "/v2/pets", 500, vec![json], b"{}", "status_undeclared status 500"),
        ("GET", "/v2/pets", 204, vec![], b"", "ok"),
        ("POST", "/v2/files", 200, vec![("Content-Type", "application/octet-stream")], b"\x00\xff", "ok"),
    ];
    for (method, path, status, fields, body, expected) in rows {
        assert_eq!(response_decision(&contract, method, path, status, &fields, body), expected, "{path} {status}");
    }
}

#[test]
fn what_was_assumed_is_listed() {
    let said = problems(PETS);
    let bare = PETS.replace("consumes: [application/json]\nproduces: [application/json]\n", "");
    for (text, expected) in [
        (&said, "openapi.yaml:2:1: Swagger 2.0 is read as OpenAPI 3.0"),
        (&said, "`x-nullable` is taken for `nullable`"),
        (&problems(&bare), "`consumes` names no media type that fits; application/json is assumed"),
        (&problems(&bare), "`produces` names no media type that fits; application/json is assumed"),
        (&said, "the style `tsv`"),
        (&said, "a request body needs its `content`"),
        (&said, "it has two bodies, or a body beside a form"),
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let options = Options::default();
    let json =
        r#"{"swagger": "2.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": {"get": {"responses": {}}}}}"#;
    assert_eq!(Contract::from_text("a.json", json, &options).unwrap().errors(), &[]);
}

/// Schemas may stand in other files; what else stands there is not converted, and is not passed over either.
#[test]
fn schemas_in_other_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "openapi.yaml",
        "swagger: '2.0'\ninfo: {title: t, version: '1'}\npaths:\n  /a:\n    post:\n      consumes: [application/json]\n      parameters: [{name: b, in: body, schema: {$ref: 'schemas.yaml#/A'}}]\n      responses: {default: {description: d}}\n  /b:\n    post:\n      parameters: [{$ref: 'schemas.yaml#/P'}]\n      responses: {default: {description: d}}\n",
    );
    write(
        "schemas.yaml",
        "A: {type: object, properties: {a: {$ref: '#/B'}}}\nB: {type: string, x-nullable: true}\nP: {name: p, in: body, schema: {}}\n",
    );
    let contract = Contract::load(folder.path(), &Options::default()).unwrap();
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", r#"{"a":null}"#)), "ok");
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", r#"{"a":1}"#)), "type body /a");
    assert_eq!(decision(&contract, &Request::post("/b", "application/json", "1")), "operation_unsupported operation");
}
