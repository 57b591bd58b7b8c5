//! OAuth 2 and OpenID Connect by local validation of tokens: signature, algorithm, times, issuer, audience, scopes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use super::site::{Response, Site, checked, write};
use crate::harness::signing::{base64url, signed, unsigned};
use crate::harness::{Reply, Upstream, certificates, path, wait_until};

/// One operation that demands a scope, one that takes a token or a key, one that takes nobody's word.
const BANK: &str = r##"
openapi: 3.0.3
info: { title: Bank, version: "1" }
components:
  securitySchemes:
    login:
      type: oauth2
      flows: { clientCredentials: { tokenUrl: "https://id.test/token", scopes: { read: read, write: write } } }
    oidc: { type: openIdConnect, openIdConnectUrl: "https://id.test/.well-known/openid-configuration" }
    key: { type: apiKey, in: header, name: X-Api-Key }
paths:
  /accounts:
    get:
      security: [{ login: [read] }]
      responses: { default: { description: any } }
    post:
      security: [{ login: [read, write] }, { key: [] }]
      responses: { default: { description: any } }
  /me:
    get:
      security: [{ oidc: [] }]
      responses: { default: { description: any } }
  /open:
    get:
      responses: { default: { description: any } }
"##;

const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims() -> String {
    claims_at(now())
}

/// Of a token that was issued then.
fn claims_at(time: u64) -> String {
    format!(
        r#"{{"iss":"https://id.test","aud":["shop","bank"],"exp":{},"nbf":{},"scope":"read write-some"}}"#,
        time + 600,
        time - 5
    )
}

/// Of one that has expired.
fn expired() -> String {
    let time = now();
    claims_at(time).replace(&format!("\"exp\":{}", time + 600), &format!("\"exp\":{}", time - 3600))
}

fn hs256(head: &str, claims: &str) -> String {
    signed(SECRET, &unsigned(head, claims))
}

fn openssl(folder: &Path, arguments: &str) {
    let done = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

fn ok() -> impl Fn(&crate::harness::Seen) -> Reply + Send + Sync {
    |_| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
}

fn bank(jwt: &str, files: &[(&str, &str)]) -> Site {
    Site::with(BANK, &format!(", tokens: id | jwt: {{ {jwt} }}"), files, ok())
}

fn ask(site: &Site, request: &str, token: &str) -> Response {
    site.get(request, &format!("Authorization: Bearer {token}\r\n"))
}

const HS: &str = "algorithms: [HS256], secret: { file: secret }, issuers: https://id.test, audiences: bank";
const HEAD: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

#[test]
fn a_genuine_token_passes_and_every_defect_is_distinguished() {
    let site = bank(HS, &[("secret", SECRET)]);
    let good = hs256(HEAD, &claims());
    assert_eq!(ask(&site, "GET /accounts", &good).status, 200);
    assert_eq!(ask(&site, "GET /me", &good).status, 200);
    let issued = now();
    let with = |from: &str, to: &str| hs256(HEAD, &claims_at(issued).replace(from, to));
    let exp = format!("\"exp\":{}", issued + 600);
    let mut forged = good.clone();
    forged.replace_range(good.len() - 2.., if good.ends_with("AA") { "BA" } else { "AA" });
    for (token, status, code) in [
        (hs256(HEAD, &expired()), 401, "jwt_expired"),
        (with(&exp, "\"x\":1"), 401, "jwt_no_expiry"),
        (with(&exp, "\"exp\":\"never\""), 401, "jwt_malformed"),
        (with("\"nbf\":", &format!("\"nbf\":{},\"x\":", now() + 3600)), 401, "jwt_not_yet_valid"),
        (with("https://id.test", "https://evil.test"), 401, "jwt_issuer"),
        (with("\"bank\"", "\"bar\""), 401, "jwt_audience"),
        (with("read write-some", "READ"), 403, "jwt_scope"),
        (with("read write-some", "read-all"), 403, "jwt_scope"),
        (with("{\"iss\"", "{\"iss\":\"https://evil.test\",\"iss\""), 401, "jwt_malformed"),
        (forged, 401, ""),
        (format!("{}.", unsigned(r#"{"alg":"none"}"#, &claims())), 401, "jwt_algorithm"),
        (hs256(r#"{"alg":"HS384"}"#, &claims()), 401, "jwt_algorithm"),
        (hs256(r#"{"alg":"hs256"}"#, &claims()), 401, "jwt_algorithm"),
        (hs256(r#"{"alg":"HS256","crit":["exp"]}"#, &claims()), 401, "jwt_critical_header"),
        (hs256(r#"{"alg":"HS256","b64":false}"#, &claims()), 401, "jwt_critical_header"),
        (format!("{good}.x"), 401, "jwt_malformed"),
        (format!("{good}="), 401, "jwt_malformed"),
        ("nonsense".to_owned(), 401, "jwt_malformed"),
    ] {
        let response = ask(&site, "GET /accounts", &token);
        assert_eq!(response.status, status, "{code} {token}: {response:?}");
        if !code.is_empty() {
            assert_eq!(response.json()["code"], code, "{token}");
        }
        assert_eq!(response.fields("www-authenticate").len(), usize::from(status == 401), "{response:?}");
    }
    assert_eq!(site.get("GET /accounts", "").json()["code"], "security_missing");
    assert_eq!(site.get("GET /open", "").status, 200);
    assert_eq!(site.seen(), 3);
}

#[test]
fn one_alternative_is_enough_and_a_bad_token_is_no_key() {
    let site = bank(HS, &[("secret", SECRET)]);
    let reader = hs256(HEAD, &claims());
    let writer = hs256(HEAD, &claims().replace("write-some", "write"));
    assert_eq!(ask(&site, "POST /accounts", &reader).status, 403);
    assert_eq!(ask(&site, "POST /accounts", &writer).status, 200);
    assert_eq!(site.get("POST /accounts", "X-Api-Key: k\r\n").status, 200);
    assert_eq!(site.get("POST /accounts", "").status, 401);
    let two = format!("Authorization: Bearer {writer}\r\nAuthorization: Bearer {reader}\r\n");
    assert_eq!(site.get("POST /accounts", &two).status, 400);
}

#[test]
fn log_mode_lets_bad_tokens_pass_and_says_so() {
    let site = Site::with(BANK, &format!(", request: log, tokens: id | jwt: {{ {HS} }}"), &[("secret", SECRET)], ok());
    assert_eq!(ask(&site, "GET /accounts", "nonsense").status, 200);
    assert_eq!(site.gate.log(1)[0]["contract"]["reason"], "jwt_malformed");
}

/// A public key must never do as a shared secret, nor an algorithm of its kind for another.
#[test]
fn public_keys_check_their_own_algorithm_only() {
    let folder = tempfile::tempdir().unwrap();
    openssl(folder.path(), "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out key");
    openssl(folder.path(), "pkey -in key -pubout -out key.pem");
    let pem = std::fs::read_to_string(folder.path().join("key.pem")).unwrap();
    let site = bank("algorithms: RS256, public_key: key.pem", &[("key.pem", &pem)]);
    let sign = |head: &str, digest: &str| {
        let message = unsigned(head, &claims());
        std::fs::write(folder.path().join("message"), &message).unwrap();
        openssl(folder.path(), &format!("dgst -{digest} -sign key -out signature message"));
        format!("{message}.{}", base64url(&std::fs::read(folder.path().join("signature")).unwrap()))
    };
    assert_eq!(ask(&site, "GET /accounts", &sign(r#"{"alg":"RS256"}"#, "sha256")).status, 200);
    assert_eq!(ask(&site, "GET /accounts", &sign(r#"{"alg":"RS512"}"#, "sha512")).status, 401);
    assert_eq!(ask(&site, "GET /accounts", &sign(r#"{"alg":"RS256"}"#, "sha512")).status, 401);
    assert_eq!(ask(&site, "GET /accounts", &signed(&pem, &unsigned(HEAD, &claims()))).status, 401);
    assert_eq!(site.seen(), 1);
}

/// An EC key pair: the set with its public half, and a function that signs.
fn ec_set(id: &str) -> (String, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().unwrap();
    openssl(folder.path(), "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key");
    openssl(folder.path(), "pkey -in key -pubout -outform DER -out public");
    let public = std::fs::read(folder.path().join("public")).unwrap();
    let point = &public[public.len() - 64..];
    let set = format!(
        r#"{{"keys":[{{"kty":"EC","crv":"P-256","use":"enc","kid":"other"}},{{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"{id}","x":"{}","y":"{}"}}]}}"#,
        base64url(&point[..32]),
        base64url(&point[32..])
    );
    let head = format!(r#"{{"alg":"ES256","kid":"{id}"}}"#);
    let sign = move |claims: &str| {
        let message = unsigned(&head, claims);
        std::fs::write(folder.path().join("message"), &message).unwrap();
        openssl(folder.path(), "dgst -sha256 -sign key -out signature message");
        let der = std::fs::read(folder.path().join("signature")).unwrap();
        let number = |at: usize| {
            let length = usize::from(der[at + 1]);
            let digits = der[at + 2..at + 2 + length].strip_prefix(&[0]).unwrap_or(&der[at + 2..at + 2 + length]);
            ([vec![0; 32 - digits.len()], digits.to_vec()].concat(), at + 2 + length)
        };
        let (r, next) = number(2);
        format!("{message}.{}", base64url(&[r, number(next).0].concat()))
    };
    (set, sign)
}

#[test]
fn keys_come_from_a_set_by_their_name_and_change_with_the_file() {
    let (first_set, first) = ec_set("one");
    let (second_set, second) = ec_set("two");
    let site = bank("algorithms: ES256, key_set: jwks.json", &[("jwks.json", &first_set)]);
    assert_eq!(ask(&site, "GET /accounts", &first(&claims())).status, 200);
    assert_eq!(ask(&site, "GET /accounts", &second(&claims())).json()["code"], "jwt_unknown_key");
    write(site.gate.dir.path(), "jwks.json", &second_set);
    wait_until("the new keys", || ask(&site, "GET /accounts", &second(&claims())).status == 200);
    assert_eq!(ask(&site, "GET /accounts", &first(&claims())).status, 401);
    write(site.gate.dir.path(), "jwks.json", "{}");
    site.gate.wait_for("not a key set");
    assert_eq!(ask(&site, "GET /accounts", &second(&claims())).status, 200);
}

#[test]
fn keys_come_from_a_url_and_the_last_good_ones_are_kept() {
    let (set, sign) = ec_set("one");
    let serving = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let served = std::sync::Arc::clone(&serving);
    let provider = Upstream::start(move |_| {
        let set = served.lock().unwrap().clone();
        match set.is_empty() {
            true => Reply::Close(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
            false => {
                Reply::Close(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{set}", set.len()).into_bytes())
            }
        }
    });
    let url = format!(
        "algorithms: ES256, key_url: {{ url: \"http://{}/keys.json?v=1\", refresh_interval: 10s }}",
        provider.address
    );
    let site = bank(&url, &[]);
    let token = sign(&claims());
    // Without keys nobody is let in, and it is not the client's fault.
    assert_eq!(ask(&site, "GET /accounts", &token).status, 503);
    // One that is too small, one that is half there, and one that says in no word for what it is cost the others nothing.
    let others = r#"[{"kty":"RSA","kid":"w","n":"AQAB","e":"AQAB"},{"kty":"EC","kid":"h","crv":"P-256","x":"AA"},{"kty":"EC","use":["enc"]},"#;
    *serving.lock().unwrap() = set.replacen('[', others, 1);
    wait_until("the keys", || ask(&site, "GET /accounts", &token).status == 200);
    assert_eq!(provider.seen()[0].line(), "GET /keys.json?v=1 HTTP/1.1");
    serving.lock().unwrap().clear();
    let before = provider.seen().len();
    wait_until("another fetch", || provider.seen().len() > before);
    assert_eq!(ask(&site, "GET /accounts", &token).status, 200);
    // A reload keeps what was fetched.
    site.gate.signal("HUP");
    site.gate.wait_for("reloaded");
    assert_eq!(ask(&site, "GET /accounts", &token).status, 200);
}

/// A provider that replaces its key under the same name: the token is signed by a key that is not here, and only the signature says so.
#[test]
fn a_key_that_changes_under_its_name_is_fetched_when_a_signature_does_not_fit() {
    let ((first_set, first), (second_set, second)) = (ec_set("one"), ec_set("one"));
    let serving = std::sync::Arc::new(std::sync::Mutex::new(first_set));
    let served = std::sync::Arc::clone(&serving);
    let provider = Upstream::start(move |_| {
        let set = served.lock().unwrap().clone();
        Reply::Close(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{set}", set.len()).into_bytes())
    });
    let url = format!(
        "algorithms: ES256, key_url: {{ url: \"http://{}/keys.json\", refresh_interval: 24h }}",
        provider.address
    );
    let site = bank(&url, &[]);
    let (before, after) = (first(&claims()), second(&claims()));
    wait_until("the keys", || ask(&site, "GET /accounts", &before).status == 200);
    *serving.lock().unwrap() = second_set;
    wait_until("the new key", || ask(&site, "GET /accounts", &after).status == 200);
    assert_eq!(ask(&site, "GET /accounts", &before).status, 401);
    assert_eq!(provider.seen().len(), 2, "asked as seldom as by unknown names");
}

/// `openssl s_server` that gives out the files of a folder, under the certificate there.
pub struct Provider(Child, pub u16);

impl Provider {
    pub fn start(folder: &Path, port: u16) -> Provider {
        let certificate = std::fs::read_dir(folder.join("certs")).unwrap().next().unwrap().unwrap().path();
        let mut child = Command::new("openssl")
            .args(["s_server", "-WWW", "-accept", &format!("127.0.0.1:{port}"), "-cert"])
            .arg(&certificate)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let accepting = lines.find_map(|line| line.strip_prefix("ACCEPT ")?.rsplit_once(':')?.1.parse().ok());
        let port = accepting.expect("it tells its port");
        std::thread::spawn(move || lines.for_each(drop));
        Provider(child, port)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn keys_come_over_tls_from_whom_our_ca_knows_and_outlive_their_provider() {
    let (set, sign) = ec_set("one");
    let folder = certificates(&[("id.test", false)]);
    let stranger = certificates(&[("id.test", false)]);
    write(folder.path(), "keys.json", &set);
    let provider = Provider::start(folder.path(), 0);
    let token = sign(&claims());
    let site = |ca: &tempfile::TempDir, name: &str| {
        let (url, ca) = (format!("https://127.0.0.1:{}/keys.json", provider.1), path(ca, "ca.pem"));
        bank(
            &format!(
                "algorithms: ES256, key_url: {{ url: \"{url}\", refresh_interval: 10s, tls: {{ ca: {ca}, server_name: {name} }} }}"
            ),
            &[],
        )
    };
    for rejected in [site(&stranger, "id.test"), site(&folder, "other.test")] {
        rejected.gate.wait_for("key set not fetched: upstream_certificate");
        let response = ask(&rejected, "GET /accounts", &token);
        assert_eq!((response.status, rejected.seen()), (503, 0), "{response:?}");
    }
    let site = site(&folder, "id.test");
    wait_until("the keys", || ask(&site, "GET /accounts", &token).status == 200);
    // The provider goes away: an unknown key makes us ask again, and what there was stays good.
    drop(provider);
    let (_, other) = ec_set("two");
    wait_until("a fetch that fails", || {
        assert_eq!(ask(&site, "GET /accounts", &other(&claims())).status, 401);
        site.gate
            .diagnostics()
            .iter()
            .any(|line| line.contains("key set not fetched") && line.contains("\"kept\":true"))
    });
    assert_eq!(ask(&site, "GET /accounts", &token).status, 200);
}

#[test]
fn what_cannot_be_checked_stops_the_start() {
    for (contract, files, reported) in [
        ("", &[][..], "nothing says how to verify them"),
        (
            ", tokens: id | jwt: { algorithms: HS256, secret: { file: secret } }",
            &[("secret", "short")][..],
            "as long as its digest",
        ),
        (
            ", tokens: id | jwt: { algorithms: RS256, public_key: k.pem }",
            &[("k.pem", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")][..],
            "k.pem",
        ),
        (", tokens: id | jwt: { algorithms: RS256, secret: { file: secret } }", &[("secret", SECRET)][..], "RS256"),
        (", tokens: id | jwt: { algorithms: none, public_key: k.pem }", &[][..], "algorithms"),
    ] {
        let folder = super::site::folder(BANK, files);
        std::fs::write(folder.path().join("portunus.yaml"), super::site::yaml(&Upstream::ok(), contract, "")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_portunus"))
            .args(["check", "portunus.yaml"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && errors.contains(reported), "{contract}: {errors}");
    }
}

/// What springdoc, FastAPI and NestJS emit.
const BEARER: &str = r##"
openapi: 3.0.3
info: { title: Shop, version: "1" }
components:
  securitySchemes:
    jwt: { type: http, scheme: Bearer, bearerFormat: JWT }
    opaque: { type: http, scheme: bearer }
paths:
  /orders:
    get:
      security: [{ jwt: [] }]
      responses: { default: { description: any } }
  /legacy:
    get:
      security: [{ opaque: [] }]
      responses: { default: { description: any } }
"##;

#[test]
fn tokens_of_http_bearer_schemes_are_verified() {
    let site = Site::with(BEARER, &format!(", tokens: id | jwt: {{ {HS} }}"), &[("secret", SECRET)], ok());
    let expired = hs256(HEAD, &expired());
    let mut forged = hs256(HEAD, &claims());
    forged.replace_range(forged.len() - 8.., "AAAAAAAA");
    let none = format!("{}.", unsigned(r#"{"alg":"none"}"#, &claims()));
    for path in ["/orders", "/legacy"] {
        for (token, code) in [
            (&expired, "jwt_expired"),
            (&none, "jwt_algorithm"),
            (&"opaque".to_owned(), "jwt_malformed"),
            (&forged, ""),
        ] {
            let response = ask(&site, &format!("GET {path}"), token);
            assert_eq!(response.status, 401, "{path} {token}: {response:?}");
            assert!(code.is_empty() || response.json()["code"] == code, "{path} {token}: {response:?}");
        }
    }
    assert_eq!(site.seen(), 0);
    assert_eq!(ask(&site, "GET /orders", &hs256(HEAD, &claims())).status, 200);
}

#[test]
fn bearer_schemes_narrow_what_is_verified() {
    let site = Site::with(
        BEARER,
        &format!(", tokens: id, bearer_schemes: jwt | jwt: {{ {HS} }}"),
        &[("secret", SECRET)],
        ok(),
    );
    assert_eq!(ask(&site, "GET /orders", "opaque").status, 401);
    assert_eq!(ask(&site, "GET /legacy", "opaque").status, 200);
    assert_eq!(site.get("GET /legacy", "").status, 401, "it must be there all the same");
}

#[test]
fn a_check_of_tokens_that_checks_nothing_is_a_problem_and_an_unverified_one_a_warning() {
    let open =
        BEARER.replace("security: [{ jwt: [] }]", "security: []").replace("security: [{ opaque: [] }]", "security: []");
    let (fine, said) = checked(&open, &[("secret", SECRET)], &format!(", tokens: id | jwt: {{ {HS} }}"));
    assert!(!fine && said.contains("verifies nothing"), "{said}");
    let (fine, said) = checked(BEARER, &[("secret", SECRET)], "");
    assert!(fine && said.matches("is not verified here").count() == 2, "{said}");
    let (fine, said) =
        checked(BEARER, &[("secret", SECRET)], &format!(", tokens: id, bearer_schemes: jwt | jwt: {{ {HS} }}"));
    assert!(fine && said.contains("scheme opaque") && !said.contains("scheme jwt "), "{said}");
    let (fine, said) =
        checked(BEARER, &[("secret", SECRET)], &format!(", tokens: id, bearer_schemes: [jwt, jvt] | jwt: {{ {HS} }}"));
    assert!(!fine && said.contains("names jvt"), "{said}");
    let (fine, said) =
        checked(BEARER, &[("secret", SECRET)], &format!(", tokens: id, bearer_schemes: [] | jwt: {{ {HS} }}"));
    assert!(!fine && said.contains("verifies nothing"), "{said}");
    let (fine, said) = checked(BEARER, &[("secret", SECRET)], &format!(", tokens: id | jwt: {{ {HS} }}"));
    assert!(fine && !said.contains("verified"), "{said}");
}

/// An upstream behind the edge believes the tokens that pass it, whatever else the request shows.
#[test]
fn a_forged_token_is_rejected_beside_another_alternative() {
    let lax = BEARER
        .replace("security: [{ jwt: [] }]", "security: [{ jwt: [] }, {}]")
        .replace("security: [{ opaque: [] }]", "security: [{ opaque: [] }, { key: [] }]")
        .replace("    jwt:", "    key: { type: apiKey, in: header, name: X-Api-Key }\n    jwt:");
    let site = Site::with(&lax, &format!(", tokens: id | jwt: {{ {HS} }}"), &[("secret", SECRET)], ok());
    let none = format!("Authorization: Bearer {}.\r\n", unsigned(r#"{"alg":"none"}"#, &claims()));
    assert_eq!(site.get("GET /orders", &none).status, 401);
    assert_eq!(site.get("GET /legacy", &format!("{none}X-Api-Key: k\r\n")).status, 401);
    assert_eq!(site.seen(), 0);
    assert_eq!(site.get("GET /orders", "").status, 200, "nobody has to show one");
    assert_eq!(site.get("GET /legacy", "X-Api-Key: k\r\n").status, 200);
    let good = format!("Authorization: Bearer {}\r\nX-Api-Key: k\r\n", hs256(HEAD, &claims()));
    assert_eq!(site.get("GET /legacy", &good).status, 200);
}

/// Nor does a token pass as none that is there twice, or is written so that some readers find it and others do not.
#[test]
fn a_token_that_some_would_miss_is_rejected_beside_another_alternative() {
    let lax = BEARER
        .replace("security: [{ jwt: [] }]", "security: [{}, { jwt: [] }]")
        .replace("security: [{ opaque: [] }]", "security: [{ key: [] }, { opaque: [] }]")
        .replace("    jwt:", "    key: { type: apiKey, in: header, name: X-Api-Key }\n    jwt:");
    let lookup = "introspection: { url: \"http://127.0.0.1:9/\", client_id: edge, client_secret: { file: secret } }";
    for section in [format!("jwt: {{ {HS} }}"), lookup.to_owned()] {
        let site = Site::with(&lax, &format!(", tokens: id | {section}"), &[("secret", SECRET)], ok());
        let none = format!("{}.", unsigned(r#"{"alg":"none"}"#, &claims()));
        for fields in [
            format!("Authorization: Bearer\t{none}\r\n"),
            format!("Authorization: bEARER\t {none}\r\n"),
            format!("Authorization: Bearer,{none}\r\n"),
            format!("Authorization: ,Bearer {none}\r\n"),
            format!("Authorization: Basic dTpw, Bearer {none}\r\n"),
            format!("Authorization: Basic dTpw,\tbearer {none}\r\n"),
            format!("Authorization: Bearer {none}, Basic dTpw\r\n"),
            format!("Authorization: Bearer\u{a0}{none}\r\n"),
            "Authorization: Bearer\r\n".to_owned(),
            "Authorization: Bearer \r\n".to_owned(),
        ] {
            for (path, key) in [("/orders", ""), ("/legacy", "X-Api-Key: k\r\n")] {
                let response = site.get(&format!("GET {path}"), &format!("{fields}{key}"));
                assert_eq!((response.status, site.seen()), (401, 0), "{section} {path} {fields}: {response:?}");
                assert_eq!(response.json()["code"], "jwt_malformed", "{fields}");
            }
        }
        // What is no token is the upstream's own business.
        for fields in ["", "Authorization: Basic dTpw\r\n", "Authorization: Bearerish x\r\n"] {
            assert_eq!(site.get("GET /orders", fields).status, 200, "{fields}");
            assert_eq!(site.get("GET /legacy", &format!("X-Api-Key: k\r\n{fields}")).status, 200, "{fields}");
        }
    }
}

/// A token in the query (RFC 6750 §2.3) is verified by nobody, so none passes, whether or not undeclared parameters do.
#[test]
fn a_token_in_the_query_is_rejected_where_tokens_are_verified() {
    let lax = BEARER.replace("security: [{ jwt: [] }]", "security: [{}, { jwt: [] }]");
    let undeclared = format!(", undeclared: {{ query: off }}, tokens: id | jwt: {{ {HS} }}");
    let site = Site::with(&lax, &undeclared, &[("secret", SECRET)], ok());
    let (good, none) = (hs256(HEAD, &claims()), format!("{}.", unsigned(r#"{"alg":"none"}"#, &claims())));
    let bearer = format!("Authorization: Bearer {good}\r\n");
    for (target, fields) in [
        (format!("/orders?access_token={none}"), ""),
        (format!("/orders?access_token={good}"), ""),
        (format!("/orders?a=b&%61ccess%5Ftoken={none}"), ""),
        (format!("/orders?access_token={none}"), bearer.as_str()),
        (format!("/legacy?access_token={none}"), bearer.as_str()),
        ("/orders?access_token".to_owned(), ""),
    ] {
        let response = site.get(&format!("GET {target}"), fields);
        assert_eq!((response.status, site.seen()), (401, 0), "{target} {fields}: {response:?}");
        assert_eq!(response.json()["code"], "jwt_malformed", "{target}");
    }
    assert_eq!(site.get("GET /orders?access=x&token=y&my_access_token=z", "").status, 200);
    // What the document declares is the API's own.
    let declared =
        "security: [{}, { jwt: [] }]\n      parameters: [{ name: access_token, in: query, schema: { type: string } }]";
    let declared = BEARER.replace("security: [{ jwt: [] }]", declared);
    assert_ne!(declared, BEARER);
    let site = Site::with(&declared, &undeclared, &[("secret", SECRET)], ok());
    assert_eq!(site.get("GET /orders?access_token=x", "").status, 200);
}

/// A token that the document calls an API key in Authorization is verified as one in a bearer scheme: the upstream believes it as much.
#[test]
fn api_keys_in_authorization_are_tokens() {
    let keyed = BEARER
        .replace("type: http, scheme: Bearer, bearerFormat: JWT", "type: apiKey, in: header, name: Authorization");
    assert_ne!(keyed, BEARER);
    let site = Site::with(&keyed, &format!(", tokens: id | jwt: {{ {HS} }}"), &[("secret", SECRET)], ok());
    let (good, none) = (hs256(HEAD, &claims()), format!("{}.", unsigned(r#"{"alg":"none"}"#, &claims())));
    let expired = hs256(HEAD, &expired());
    for value in [
        format!("Bearer {none}"),
        format!("Bearer {expired}"),
        format!("bearer  {none}"),
        none.clone(),
        expired.clone(),
        "Bearer x".to_owned(),
        "x".to_owned(),
        format!("Basic {good}"),
        format!("Token {good}"),
        format!("Bearer {good}, Bearer {none}"),
        "Bearer".to_owned(),
        format!("Bearer\t{none}"),
    ] {
        let response = site.get("GET /orders", &format!("Authorization: {value}\r\n"));
        assert_eq!((response.status, site.seen()), (401, 0), "{value}: {response:?}");
    }
    for (count, value) in [format!("Bearer {good}"), format!("bearer {good}"), good].iter().enumerate() {
        let response = site.get("GET /orders", &format!("Authorization: {value}\r\n"));
        assert_eq!((response.status, site.seen()), (200, count + 1), "{value}: {response:?}");
    }
    // Left out of those that are verified, or without anything to verify it by, it must only be there, and `check` says so.
    let (fine, said) = checked(&keyed, &[("secret", SECRET)], "");
    assert!(fine && said.contains("scheme jwt ") && said.contains("is not verified here"), "{said}");
    let (fine, said) =
        checked(&keyed, &[("secret", SECRET)], &format!(", tokens: id, bearer_schemes: opaque | jwt: {{ {HS} }}"));
    assert!(fine && said.contains("scheme jwt ") && said.contains("is not verified here"), "{said}");
    let (fine, said) = checked(
        &keyed,
        &[("secret", SECRET)],
        &format!(", tokens: id, bearer_schemes: [jwt, opaque] | jwt: {{ {HS} }}"),
    );
    assert!(fine && !said.contains("verified"), "{said}");
    let site = Site::with(
        &keyed,
        &format!(", tokens: id, bearer_schemes: opaque | jwt: {{ {HS} }}"),
        &[("secret", SECRET)],
        ok(),
    );
    assert_eq!(site.get("GET /orders", "Authorization: anything\r\n").status, 200);
}
