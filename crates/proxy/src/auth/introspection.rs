//! What an introspection server (RFC 7662) says of a token: read strictly, checked as the claims of a JSON Web Token are, and for how long it may be
//! believed. Sends nothing and keeps nothing; `lookups.rs` keeps.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::{IntrospectionConfig, Secret};
use reason::Reason;
use tls::crypto::digest;
use tls::crypto::verify::keyed_hash;
use tokio::sync::Semaphore;

use super::base64url::encode_base64;
use super::json::{Object, Value};
use super::token::{Claims, Rejected, check_claims, is_too_long, rejected};
use crate::upstream::Group;

/// Largest response, bytes.
pub const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// Scopes of one token that are kept, bytes.
const MAX_SCOPE_BYTES: usize = 4 * 1024;

/// A server that knows which tokens are active.
#[derive(Debug)]
pub struct Introspection {
    /// As configured.
    pub config: Arc<IntrospectionConfig>,
    /// The way to it.
    pub group: Arc<Group>,
    /// Lookups that may run at once, of all workers.
    pub slots: Semaphore,
    /// The field that shows who asks.
    authorization: String,
    identity: Arc<Identity>,
}

/// What lookups are kept under. It passes on from generation to generation as long as nothing else could be said of a token.
pub struct Identity {
    key: [u8; 32],
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// What a token is good for.
#[derive(Debug, PartialEq)]
pub struct Granted {
    /// Separated by spaces.
    scopes: Box<str>,
    /// Those that policies ask for.
    claims: Claims,
}

impl Granted {
    /// Whether every one of these scopes is granted.
    pub fn grants(&self, scopes: &[impl AsRef<str>]) -> bool {
        scopes.iter().all(|wanted| self.scopes.split(' ').any(|scope| scope == wanted.as_ref()))
    }

    /// What else the server said of the token.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }
}

/// What is known of a token, and for how long.
#[derive(Debug)]
pub struct Said {
    /// What it is good for, or why it is rejected.
    pub outcome: Result<Granted, Reason>,
    /// How long that may be believed.
    pub keep: Duration,
}

impl Introspection {
    /// Reads the secret. What was looked up by `previous` stays known where nothing else could be said of it.
    ///
    /// # Errors
    /// The secret cannot be read or used, the way to the server cannot be made, or there is no entropy.
    pub fn load(config: &Arc<IntrospectionConfig>, previous: Option<&Introspection>) -> Result<Introspection, String> {
        let authorization = authorization(config.client_id.as_deref(), &config.client_secret)?;
        let same = previous.filter(|one| one.config == *config && one.authorization == authorization);
        let kept_group = previous.map(|one| &one.group);
        let group = match kept_group.filter(|group| group.config == config.upstream && group.config.tls.is_none()) {
            Some(group) => Arc::clone(group),
            None => Arc::new(Group::new(&config.upstream)?),
        };
        let identity = match same {
            Some(same) => Arc::clone(&same.identity),
            None => Arc::new(Identity { key: digest::random::<32>().map_err(|error| error.to_string())? }),
        };
        Ok(Introspection {
            config: Arc::clone(config),
            group,
            slots: Semaphore::new(config.max_concurrent_lookups),
            authorization,
            identity,
        })
    }

    /// What lookups are kept under.
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// What stands for a token in memory.
    ///
    /// # Errors
    /// It is too long to be looked at.
    pub fn hash(&self, token: &[u8]) -> Result<[u8; 32], Rejected> {
        if is_too_long(token) {
            return Err(rejected(Reason::JwtTooLong));
        }
        Ok(keyed_hash(&self.identity.key, token))
    }

    /// The fields of the request that asks.
    pub fn fields(&self) -> String {
        format!(
            "User-Agent: portunus\r\nAccept: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\nAuthorization: {}\r\n",
            self.authorization
        )
    }

    /// The body of the request that asks for a token (RFC 7662 §2.1).
    pub fn form(&self, token: &[u8]) -> String {
        format!("token={}&token_type_hint=access_token", form_encoded(token))
    }

    /// What a response of 200 says at this moment.
    ///
    /// # Errors
    /// It does not say whether the token is active, in words for the log.
    pub fn read(&self, response: &[u8], now: SystemTime) -> Result<Said, String> {
        let said = Object::read(response)?;
        match said.get("active") {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Ok(self.rejected(Reason::TokenInactive)),
            Some(_) => return Err("`active` is no boolean".to_owned()),
            None => return Err("there is no `active`".to_owned()),
        }
        if let Err(rejected) = check_claims(&self.config.claims, &said, now) {
            return Ok(self.rejected(rejected.reason));
        }
        let scopes = scopes(&said);
        if scopes.len() > MAX_SCOPE_BYTES {
            return Err(format!("the scopes are longer than {MAX_SCOPE_BYTES} bytes"));
        }
        let most = self.config.cache_ttl;
        let keep = match said.get("exp") {
            Some(Value::Number(end)) => {
                let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                let left = end + self.config.claims.leeway.as_secs_f64() - now;
                if left < most.as_secs_f64() { Duration::try_from_secs_f64(left).unwrap_or_default() } else { most }
            }
            _ => most,
        };
        let is_kept = |name: &str| self.config.kept_claims.iter().any(|kept| kept == name || outermost(kept) == name);
        let claims = Claims(said.only(is_kept));
        Ok(Said { outcome: Ok(Granted { scopes: scopes.into(), claims }), keep })
    }

    fn rejected(&self, reason: Reason) -> Said {
        Said { outcome: Err(reason), keep: self.config.negative_cache_ttl }
    }
}

/// The member that holds a claim within objects.
fn outermost(claim: &str) -> &str {
    claim.split_once('.').map_or(claim, |(outer, _)| outer)
}

/// The scopes in `scope` (RFC 7662 §2.2), or in `scp` as some servers write it, separated by spaces.
fn scopes(said: &Object) -> String {
    let mut out = Vec::new();
    for name in ["scope", "scp"] {
        match said.get(name) {
            Some(Value::Text(text)) => out.push(text.as_str()),
            // One with a space in it would be two.
            Some(Value::List(list)) => out.extend(list.iter().filter_map(|scope| match scope {
                Value::Text(scope) if !scope.contains(' ') => Some(scope.as_str()),
                _ => None,
            })),
            _ => {}
        }
    }
    out.join(" ")
}

/// The value of Authorization: user and password (RFC 6749 §2.3.1) where there is a name, else the secret as a bearer token.
fn authorization(client: Option<&str>, secret: &Secret) -> Result<String, String> {
    let secret = secret.read()?;
    let secret = secret.as_str();
    if secret.is_empty() {
        return Err("introspection: the client secret is empty".to_owned());
    }
    match client {
        Some(client) => {
            let pair = format!("{}:{}", form_encoded(client.as_bytes()), form_encoded(secret.as_bytes()));
            let mut out = b"Basic ".to_vec();
            encode_base64(pair.as_bytes(), &mut out);
            String::from_utf8(out).map_err(|error| error.to_string())
        }
        None if secret.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(format!("Bearer {secret}")),
        None => Err("introspection: the secret is no bearer token; set `client_id` if it is a password".to_owned()),
    }
}

/// Bytes as a form has them.
fn form_encoded(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(*byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use config::UpstreamConfig;

    use super::*;

    /// A response, and what it says for how many seconds, or why it says nothing.
    type Row<'r> = (&'r str, Result<(&'r str, u64), &'r str>);

    fn server(audiences: &[&str]) -> Introspection {
        let config = IntrospectionConfig {
            upstream: UpstreamConfig::new("id").into(),
            host: "id.test".to_owned(),
            target: "/introspect".to_owned(),
            client_id: Some("a:b".to_owned()),
            client_secret: Secret::Argument(config::ArgumentSecret(keystore::Password::new("p w".to_owned()))),
            claims: config::ClaimRule {
                audiences: audiences.iter().map(ToString::to_string).collect(),
                ..config::ClaimRule::default()
            },
            kept_claims: Vec::new(),
            timeout: Duration::from_secs(1),
            cache_ttl: Duration::from_secs(60),
            negative_cache_ttl: Duration::from_secs(10),
            max_cached_tokens: 10,
            max_concurrent_lookups: 2,
        };
        Introspection::load(&config.into(), None).unwrap()
    }

    #[test]
    fn what_is_said_of_a_token_is_read_strictly() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        let rows: [Row<'_>; 21] = [
            (r#"{"active":true}"#, Ok(("", 60))),
            (r#"{"active":true,"scope":"a b","exp":1010}"#, Ok(("a b", 10))),
            (r#"{"active":true,"scp":["a","b c"],"exp":9999}"#, Ok(("a", 60))),
            (r#"{"active":false}"#, Ok(("token_inactive", 10))),
            (r#"{"active":false,"exp":1,"scope":7}"#, Ok(("token_inactive", 10))),
            (r#"{"active":true,"exp":1000}"#, Ok(("jwt_expired", 10))),
            (r#"{"active":true,"exp":-1e308}"#, Ok(("jwt_expired", 10))),
            (r#"{"active":true,"exp":1e308}"#, Ok(("", 60))),
            (r#"{"active":true,"exp":"1010"}"#, Ok(("jwt_malformed", 10))),
            (r#"{"active":true,"nbf":1001}"#, Ok(("jwt_not_yet_valid", 10))),
            (r#"{"active":"true"}"#, Err("no boolean")),
            (r#"{"active":1}"#, Err("no boolean")),
            (r#"{"active":null}"#, Err("no boolean")),
            (r#"{}"#, Err("no `active`")),
            (r#"{"Active":true}"#, Err("no `active`")),
            (r#"[true]"#, Err("not a JSON object")),
            (r#"true"#, Err("not a JSON object")),
            (r#""#, Err("EOF")),
            (r#"{"active":true}{"#, Err("trailing")),
            (r#"{"active":false,"active":true}"#, Err("twice")),
            ("<html>", Err("expected")),
        ];
        let server = server(&[]);
        for (response, expected) in rows {
            let read = server.read(response.as_bytes(), at(1000));
            match (&read, expected) {
                (Ok(said), Ok((text, seconds))) => {
                    let what = said.outcome.as_ref().map_or_else(|reason| reason.code(), |granted| &granted.scopes);
                    assert_eq!((what, said.keep.as_secs()), (text, seconds), "{response}");
                }
                (Err(why), Err(part)) => assert!(why.contains(part), "{response}: {why}"),
                _ => panic!("{response}: {read:?}"),
            }
        }
        let many = format!(r#"{{"active":true,"scope":"{}"}}"#, "a ".repeat(3000));
        assert!(server.read(many.as_bytes(), at(1000)).is_err());
    }

    #[test]
    fn audiences_and_scopes_are_checked_as_for_signed_tokens() {
        let server = server(&["shop"]);
        let reason = |text: &str| server.read(text.as_bytes(), UNIX_EPOCH).unwrap().outcome.map_err(Reason::code);
        assert_eq!(reason(r#"{"active":true}"#).unwrap_err(), "jwt_audience");
        assert_eq!(reason(r#"{"active":true,"aud":"bank"}"#).unwrap_err(), "jwt_audience");
        let granted = reason(r#"{"active":true,"aud":["bank","shop"],"scope":"read  write"}"#).unwrap();
        for (scopes, expected) in
            [(&[][..], true), (&["read"], true), (&["read", "write"], true), (&["READ"], false), (&["rea"], false)]
        {
            assert_eq!(granted.grants(scopes), expected, "{scopes:?}");
        }
    }

    #[test]
    fn the_request_names_the_token_and_who_asks() {
        let server = server(&[]);
        assert_eq!(server.form(b"a+b&c=\xff"), "token=a%2Bb%26c%3D%FF&token_type_hint=access_token");
        // `a%3Ab:p%20w`
        assert!(server.fields().ends_with("Authorization: Basic YSUzQWI6cCUyMHc=\r\n"), "{}", server.fields());
    }
}
