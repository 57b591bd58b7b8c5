//! Security requirements: which credentials must be shown, and how they are taken out of a request.

use contract::Found;
use contract::validate::{Framing, RequestParts};

use super::{Request, contract, decision, problems};

const DOCUMENT: &str = "
openapi: 3.1.0
info: {title: t, version: '1'}
security: [{bearer: [read, write]}, {key: [], other: []}]
components:
  securitySchemes:
    bearer: {type: oauth2, flows: {}}
    basic: {type: http, scheme: Basic}
    key: {type: apiKey, in: query, name: key}
    other: {type: apiKey, in: cookie, name: other}
    header: {type: apiKey, in: header, name: X-Key}
    mutual: {type: mutualTLS}
    digest: {type: http, scheme: digest}
    connect: {type: openIdConnect, openIdConnectUrl: https://example.com/.well-known/openid-configuration}
paths:
  /a: {get: {responses: {'200': {description: ok}}}}
  /open: {get: {security: [], responses: {'200': {description: ok}}}}
  /maybe: {get: {security: [{}, {basic: []}], responses: {'200': {description: ok}}}}
  /basic: {get: {security: [{basic: []}], responses: {'200': {description: ok}}}}
  /header: {get: {security: [{header: []}], responses: {'200': {description: ok}}}}
  /digest: {get: {security: [{digest: []}], responses: {'200': {description: ok}}}}
  /mutual: {get: {security: [{mutual: []}], responses: {'200': {description: ok}}}}
  /connect: {get: {security: [{connect: [a]}], responses: {'200': {description: ok}}}}
";

#[test]
fn one_alternative_must_be_shown_completely() {
    let contract = contract(DOCUMENT);
    let get = Request::get;
    let rows = [
        (get("/a"), "security_missing security"),
        (get("/a").with("Authorization", "Bearer t"), "ok"),
        (get("/a").with("authorization", "bearer t"), "ok"),
        (get("/a").with("Authorization", "Bearer "), "security_missing security"),
        (get("/a").with("Authorization", "Bearert"), "security_missing security"),
        (get("/a").with("Authorization", "Basic t"), "security_missing security"),
        (get("/a").with("Authorization", "Bearer t").with("Authorization", "Bearer u"), "security_missing security"),
        (get("/a?key=k"), "security_missing security"),
        (get("/a?key=k").with("Cookie", "other=o"), "ok"),
        (get("/a?key=").with("Cookie", "other=o"), "security_missing security"),
        (get("/a?key=k&key=l").with("Cookie", "other=o"), "security_missing security"),
        (get("/a?key=k").with("Cookie", "other=o; other=p"), "security_missing security"),
        (get("/open"), "ok"),
        (get("/maybe"), "ok"),
        (get("/basic").with("Authorization", "Basic dTpw"), "ok"),
        (get("/basic").with("Authorization", "Basic dTo="), "ok"),
        (get("/basic").with("Authorization", "basic dTpwOnE="), "ok"),
        // RFC 7617 §2: a user and a password with a colon between them, in base64.
        (get("/basic").with("Authorization", "Basic abc123"), "security_missing security"),
        (get("/basic").with("Authorization", "Basic dXA="), "security_missing security"),
        (get("/basic").with("Authorization", "Basic u:pw"), "security_missing security"),
        (get("/basic").with("Authorization", "Basic dTpwCg=="), "security_missing security"),
        (get("/basic").with("Authorization", "Basic dTp"), "security_missing security"),
        (get("/basic"), "security_missing security"),
        // One field, one credential: readers differ in which of several they take.
        (get("/basic").with("Authorization", "Basic dTpw, Bearer t"), "security_missing security"),
        (get("/basic").with("Authorization", "Basic dTpw,"), "security_missing security"),
        (get("/a").with("Authorization", "Bearer t, Basic dTpw"), "security_missing security"),
        (get("/a").with("Authorization", "Bearer t,Bearer u"), "security_missing security"),
        (get("/a").with("Authorization", "Bearer t u"), "security_missing security"),
        (get("/a").with("Authorization", "Bearer 17|a.b-c_d~e+/=="), "ok"),
        (get("/digest").with("Authorization", r#"Digest username="a, Bearer \"b", realm = "r", nc=1"#), "ok"),
        (get("/digest").with("Authorization", "Digest t"), "ok"),
        (get("/digest").with("Authorization", "Digest a=b, , c=d,"), "ok"),
        (get("/digest").with("Authorization", r#"Digest username="a", Bearer t"#), "security_missing security"),
        (get("/digest").with("Authorization", r#"Digest username="a", Bearer"#), "security_missing security"),
        (get("/digest").with("Authorization", r#"Digest username="a, Bearer t"#), "security_missing security"),
        (get("/digest").with("Authorization", "Digest t, =x"), "security_missing security"),
        (get("/header").with("x-key", "k"), "ok"),
        (get("/header").with("x-key", "k").with("X-KEY", "l"), "security_missing security"),
        (get("/mutual"), "security_missing security"),
        (get("/connect").with("Authorization", "Bearer t"), "ok"),
    ];
    for (request, expected) in rows {
        assert_eq!(decision(&contract, &request), expected, "{request:?}");
    }
}

#[test]
fn requirements_are_data_and_credentials_can_be_taken_out() {
    let contract = contract(DOCUMENT);
    let Found::Operation(matched, _) = contract.find("GET", b"/a") else { panic!("no operation") };
    let security = matched.operation.security();
    assert_eq!(security[0].demands[0].scopes, ["read", "write"]);
    assert!(security[0].demands[0].scheme.is_bearer());
    let fields = vec![("Cookie", "a=b; other=o"), ("Authorization", "Bearer  tok ")];
    let parts = RequestParts {
        path: b"/a",
        query: Some(b"x=1&%6bey=k%20"),
        fields: &fields,
        framing: Framing::Empty,
        has_client_certificate: true,
    };
    assert_eq!(security[0].credentials(&parts), Some(vec![b"tok".as_slice()]));
    assert_eq!(security[1].credentials(&parts), Some(vec![b"k%20".as_slice(), b"o"]));
    let Found::Operation(mutual, _) = contract.find("GET", b"/mutual") else { panic!("no operation") };
    assert_eq!(mutual.operation.security()[0].credentials(&parts), Some(vec![b"".as_slice()]));
}

#[test]
fn schemes_that_nobody_declared_are_problems() {
    let text = DOCUMENT.replace("security: [{basic: []}], ", "security: [{basik: []}], ");
    assert!(problems(&text).contains("`basik` is not declared"), "{}", problems(&text));
}
