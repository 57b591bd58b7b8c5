//! How tokens are verified, by name: what contracts and policies refer to. Keys and what was looked up pass on from generation to generation where
//! nothing else could be said of a token.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use config::{Config, JwtConfig, KeySource, TokenCheck, TokensConfig};

use super::introspection::{Granted, Introspection};
use super::keys::KeyRing;
use super::token::{Claims, TokenRule, Untellable};
use crate::upstream::Group;

/// A way to verify tokens that is active.
#[derive(Debug)]
pub enum Verifier {
    /// By their signature.
    Signed(Box<Signed>),
    /// By asking their issuer.
    Asked(Arc<Introspection>),
}

/// How signed tokens are verified.
#[derive(Debug)]
pub struct Signed {
    /// Keys, algorithms and claims.
    pub rule: TokenRule,
    /// The way to a key set at a URL.
    key_group: Option<Arc<Group>>,
}

/// What a genuine token says.
#[derive(Debug)]
pub enum Grant {
    /// By itself.
    Claims(Box<Claims>),
    /// By the word of its issuer.
    Said(Rc<Granted>),
}

impl Grant {
    /// Whether every one of these scopes is granted.
    pub fn grants(&self, scopes: &[String]) -> bool {
        match self {
            Grant::Claims(claims) => claims.grants(scopes),
            Grant::Said(granted) => granted.grants(scopes),
        }
    }

    /// A claim as one text, as [`Claims::text`] has it.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn text(&self, name: &str) -> Result<Option<Cow<'_, str>>, Untellable> {
        self.claims().text(name)
    }

    /// Whether a claim is one of these values, or a list that holds one.
    pub fn is_any(&self, name: &str, values: &[String]) -> bool {
        self.claims().is_any(name, values)
    }

    /// The values of a claim, as [`Claims::values`] has them.
    pub fn values(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        self.claims().values(name)
    }

    fn claims(&self) -> &Claims {
        match self {
            Grant::Claims(claims) => claims,
            Grant::Said(granted) => granted.claims(),
        }
    }
}

impl Verifier {
    fn load(config: &TokensConfig, previous: Option<&Verifier>) -> Result<Verifier, String> {
        match &config.by {
            TokenCheck::Jwt(jwt) => Signed::load(jwt, previous).map(|signed| Verifier::Signed(Box::new(signed))),
            TokenCheck::Introspection(server) => {
                let before = previous.and_then(Verifier::asked);
                Introspection::load(server, before.map(Arc::as_ref)).map(|server| Verifier::Asked(Arc::new(server)))
            }
        }
    }

    /// How signed tokens are verified, if these are.
    pub fn signed(&self) -> Option<&TokenRule> {
        match self {
            Verifier::Signed(signed) => Some(&signed.rule),
            Verifier::Asked(_) => None,
        }
    }

    /// Where it is known whether a token is good, if not here: at its issuer, or where keys are that were never fetched.
    pub fn who_knows(&self) -> Option<String> {
        match self {
            Verifier::Asked(server) => Some(format!("asks {}{}", server.config.host, server.config.target)),
            Verifier::Signed(signed) => {
                let is_known = signed.rule.keys.keys().is_some();
                (!is_known).then(|| "its keys are fetched when it serves".to_owned())
            }
        }
    }

    /// Who is asked about them, if anybody is.
    pub fn asked(&self) -> Option<&Arc<Introspection>> {
        match self {
            Verifier::Signed(_) => None,
            Verifier::Asked(server) => Some(server),
        }
    }
}

impl Signed {
    fn load(jwt: &JwtConfig, previous: Option<&Verifier>) -> Result<Signed, String> {
        let previous = match previous {
            Some(Verifier::Signed(signed)) => Some(signed),
            _ => None,
        };
        let kept = previous.map(|previous| &previous.rule.keys);
        let is_fetched = matches!(jwt.keys, KeySource::Url { .. });
        let keys = match kept.filter(|ring| is_fetched && ring.source == jwt.keys) {
            Some(ring) => Arc::clone(ring),
            None => Arc::new(KeyRing::load(&jwt.keys, &jwt.algorithms)?),
        };
        let key_group = match &jwt.keys {
            KeySource::Url { upstream, .. } => {
                let kept = previous.and_then(|previous| previous.key_group.as_ref());
                let kept = kept.filter(|group| group.config == *upstream && group.config.tls.is_none());
                Some(kept.cloned().map_or_else(|| Group::new(upstream).map(Arc::new), Ok)?)
            }
            _ => None,
        };
        let rule = TokenRule { algorithms: jwt.algorithms.clone(), keys, claims: jwt.claims.clone() };
        Ok(Signed { rule, key_group })
    }
}

/// All of a configuration.
#[derive(Debug, Default)]
pub struct Verifiers {
    by_name: BTreeMap<String, Arc<Verifier>>,
}

impl Verifiers {
    /// Reads the keys and secrets that a configuration names.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn load(config: &Config, previous: Option<&Verifiers>) -> Result<Verifiers, Vec<String>> {
        let (mut by_name, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, tokens) in &config.tokens {
            let before = previous.and_then(|previous| previous.by_name.get(name)).map(Arc::as_ref);
            match Verifier::load(tokens, before) {
                Ok(verifier) => _ = by_name.insert(name.clone(), Arc::new(verifier)),
                Err(problem) => problems.push(format!("tokens {name}: {problem}")),
            }
        }
        if problems.is_empty() { Ok(Verifiers { by_name }) } else { Err(problems) }
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Verifier>> {
        self.by_name.get(name)
    }

    /// Keys that are fetched, and the ways to them.
    pub fn fetched_keys(&self) -> impl Iterator<Item = (Arc<KeyRing>, Arc<Group>)> {
        self.by_name.values().filter_map(|verifier| match &**verifier {
            Verifier::Signed(signed) => Some((Arc::clone(&signed.rule.keys), Arc::clone(signed.key_group.as_ref()?))),
            Verifier::Asked(_) => None,
        })
    }

    /// The ways to whom is asked about tokens.
    pub fn asked(&self) -> impl Iterator<Item = Arc<Group>> {
        self.by_name.values().filter_map(|verifier| verifier.asked()).map(|server| Arc::clone(&server.group))
    }
}

/// What is allowed and may still not be meant.
pub fn warnings(config: &Config) -> impl Iterator<Item = String> {
    config.tokens.values().filter_map(|tokens| {
        let (upstream, what) = match &tokens.by {
            TokenCheck::Introspection(server) => {
                (&server.upstream, "`introspection` sends tokens and its secret in the clear")
            }
            TokenCheck::Jwt(JwtConfig { keys: KeySource::Url { upstream, .. }, .. }) => (
                upstream,
                "keys come from `key_url` in the clear, and whoever is on the way can put others in their place",
            ),
            TokenCheck::Jwt(_) => return None,
        };
        let fix = "use an `https://` URL unless the server is on this machine";
        upstream.tls.is_none().then(|| format!("{}: {what}; {fix}", tokens.place))
    })
}
