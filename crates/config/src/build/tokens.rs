//! `tokens`: how bearer tokens are verified, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Build, Fault, identifier, read};
use crate::jwt::Algorithm;
use crate::model::{ClaimRule, IntrospectionConfig, JwtConfig, KeySource, PolicyConfig, TokenCheck, TokensConfig};
use crate::problem::shown;
use crate::table::setting;
use crate::yaml::Node;

/// What contracts and policies refer to, by name.
pub(super) type Verifiers = BTreeMap<String, Arc<TokensConfig>>;

impl Build<'_> {
    /// `policies`, and `claims` that are read elsewhere, say which claims of tokens that are looked up must be remembered.
    pub(super) fn tokens(
        &mut self,
        root: &Node,
        policies: &BTreeMap<String, Arc<PolicyConfig>>,
        claims: &BTreeSet<String>,
    ) -> Verifiers {
        let mut out = BTreeMap::new();
        for entry in root.get("tokens").map(Node::entries).unwrap_or_default() {
            let name = self.take(entry.key_span, identifier(&entry.key));
            let by = match entry.value.get("jwt") {
                Some(jwt) => self.jwt(&entry.key, jwt).map(TokenCheck::Jwt),
                None => entry.value.get("introspection").and_then(|server| {
                    let kept = kept_claims(&entry.key, policies, claims);
                    Some(TokenCheck::Introspection(Arc::new(self.introspection(&entry.key, server, kept)?)))
                }),
            };
            if let (Some(name), Some(by)) = (name, by) {
                let place = self.sources.place(entry.value.span);
                out.insert(name.clone(), Arc::new(TokensConfig { name, place, by }));
            }
        }
        out
    }

    fn jwt(&mut self, name: &str, node: &Node) -> Option<JwtConfig> {
        let algorithms: Vec<Algorithm> = self.parsed_list(node, "algorithms", |text| {
            Algorithm::from_name(text)
                .ok_or_else(|| Fault::new(format!("{} is no algorithm", shown(text)), "write `RS256`"))
        });
        let keys = if let Some(path) = self.file(node, "public_key") {
            Some(KeySource::Pem(path))
        } else if let Some(path) = self.file(node, "key_set") {
            Some(KeySource::Set(path))
        } else if let Some(secret) = read::mapping(node, "secret") {
            self.secret(secret).map(KeySource::Secret)
        } else {
            node.get("key_url").and_then(|url| self.key_url(name, url))
        };
        // A public key must never do as a shared secret (RFC 8725 §2.1).
        let is_secret = matches!(keys, Some(KeySource::Secret(_)));
        if let (Some(at), Some(wrong)) =
            (node.get("algorithms"), algorithms.iter().find(|algorithm| algorithm.is_symmetric() != is_secret))
        {
            let what = if is_secret { "needs a public key" } else { "needs a shared secret" };
            self.problems.add(at.span, format!("{} {what}", wrong.name()), "keep the algorithms that go with the keys");
        }
        Some(JwtConfig { algorithms, keys: keys?, claims: self.claim_rule(node) })
    }

    fn introspection(&mut self, name: &str, node: &Node, kept_claims: Vec<String>) -> Option<IntrospectionConfig> {
        let mut upstream = self.connection_settings("tokens.introspection", node);
        upstream.name = format!("{name}-introspection");
        let (host, target) = self.fetched_from(&mut upstream, node, "tokens")?;
        Some(IntrospectionConfig {
            upstream: Arc::new(upstream),
            host,
            target,
            client_id: read::text(node, "client_id").map(str::to_owned),
            client_secret: self.secret(node.get("client_secret")?)?,
            claims: self.claim_rule(node),
            kept_claims,
            timeout: setting(node, "timeout"),
            cache_ttl: setting(node, "cache_ttl"),
            negative_cache_ttl: setting(node, "negative_cache_ttl"),
            max_cached_tokens: setting(node, "max_cached_tokens"),
            max_concurrent_lookups: setting(node, "max_concurrent_lookups"),
        })
    }

    fn claim_rule(&mut self, node: &Node) -> ClaimRule {
        ClaimRule {
            issuers: self.parsed_list(node, "issuers", |text| Ok(text.to_owned())),
            audiences: self.parsed_list(node, "audiences", |text| Ok(text.to_owned())),
            leeway: setting(node, "leeway"),
            require_expiry: setting(node, "require_expiry"),
        }
    }

    fn key_url(&mut self, name: &str, node: &Node) -> Option<KeySource> {
        let mut upstream = self.connection_settings("tokens.jwt.key_url", node);
        upstream.name = format!("{name}-keys");
        let (host, target) = self.fetched_from(&mut upstream, node, "key sets")?;
        let refresh = setting(node, "refresh_interval");
        Some(KeySource::Url { upstream: Arc::new(upstream), host, target, refresh })
    }
}

/// The claims that policies read from tokens of this verifier, and those that are read whoever verified them, in order and each once.
fn kept_claims(
    verifier: &str,
    policies: &BTreeMap<String, Arc<PolicyConfig>>,
    claims: &BTreeSet<String>,
) -> Vec<String> {
    let of = policies.values().filter(|policy| policy.jwt.as_ref().is_some_and(|jwt| jwt.verifier == verifier));
    let mut names: BTreeSet<String> = of.flat_map(|policy| policy.claims_read()).map(str::to_owned).collect();
    if !names.is_empty() {
        names.extend(claims.iter().cloned());
    }
    names.into_iter().collect()
}
