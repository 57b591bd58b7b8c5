//! Which certificate and TLS settings a ClientHello gets: first the name, then the key type.
//!
//! Pure but for the tables it reads. Owns the meaning of SNI (RFC 6066 §3), of names in keystores, and of "the same TLS policy" that
//! decides on 421 and on resumption.

use std::collections::HashMap;
use std::sync::Arc;

use config::TlsSettings;
use tls::{Alert, Choice, Chooser, ClientAuth, ProtocolVersion};
use wire::client_hello::ClientHello;

use crate::challenges::{ACME_PROTOCOL, Challenges};
use crate::demands::OnDemand;
use crate::host_map::HostMap;
use crate::keyless::KeyGroup;
use crate::pairs::Pairs;

/// The name under which a keystore holds what clients without a known name get.
pub const DEFAULT_NAME: &str = "default";

/// Names to identities, built from one keystore.
#[derive(Debug, Default)]
pub struct IdentityTable {
    exact: HashMap<Box<str>, Pairs>,
    /// Keyed by what follows `*.`.
    wildcard: HashMap<Box<str>, Pairs>,
    default: Pairs,
}

impl IdentityTable {
    /// The table of a store. `default` names the host whose identities are the default ones; without it the alias `default` is, or what is
    /// the store's only certificate.
    ///
    /// # Errors
    /// No identity is for the host that `default` names.
    pub fn new(store: &keystore::Store, default: Option<&str>) -> Result<IdentityTable, String> {
        let mut table = IdentityTable::default();
        for entry in &store.entries {
            for name in &entry.names {
                if name == DEFAULT_NAME {
                    table.default.put(&entry.identity);
                } else if let Some(base) = name.strip_prefix("*.") {
                    table.wildcard.entry(base.into()).or_default().put(&entry.identity);
                } else {
                    table.exact.entry(name.as_str().into()).or_default().put(&entry.identity);
                }
            }
        }
        if let Some(default) = default {
            let pairs = table.find(default).ok_or_else(|| {
                let fix = match names_of(store) {
                    names if names.is_empty() => "remove `default`: no certificate here names a host".to_owned(),
                    names => format!("name one that is here: {names}"),
                };
                format!("no certificate is for `default: {default}`; {fix}")
            })?;
            table.default = pairs.clone();
        } else if !table.has_default() && is_one_certificate(store) {
            store.entries.iter().for_each(|entry| table.default.put(&entry.identity));
        }
        Ok(table)
    }

    /// The same of a store that fills by itself: until a certificate is there for the host that `default` names, there is none.
    pub fn growing(store: &keystore::Store, default: Option<&str>) -> IdentityTable {
        IdentityTable::new(store, default).or_else(|_| IdentityTable::new(store, None)).unwrap_or_default()
    }

    /// Whether clients that send no server name get a certificate.
    pub fn has_default(&self) -> bool {
        self.default.choose(&ClientHello::default()).is_some()
    }

    /// The identities of `name` (lower case, A-labels): exact, then wildcard, which stands for one label in a certificate (RFC 9525 §6.3).
    fn find(&self, name: &str) -> Option<&Pairs> {
        self.exact.get(name).or_else(|| {
            let (_, base) = name.split_once('.')?;
            self.wildcard.get(base)
        })
    }
}

/// Whether all certificates of a store are for the same names, one per type of key.
fn is_one_certificate(store: &keystore::Store) -> bool {
    let mut names = store.entries.iter().map(|entry| &entry.names);
    let Some(first) = names.next() else { return false };
    names.all(|names| names == first)
}

/// The problem with a keystore that has no default certificate, and the fix.
pub(crate) fn no_default(store: &keystore::Store) -> String {
    let fix = match names_of(store) {
        names if names.is_empty() => "call the file of one of the certificates `default.pem` (in PKCS#12 and Java keystores, its alias `default`), \
             since none of them names a host"
            .to_owned(),
        names => format!("add `default: HOST`; there are certificates for {names}"),
    };
    format!("no default certificate for clients that send no server name or an unknown one; {fix}")
}

/// The first names that a store has certificates for.
fn names_of(store: &keystore::Store) -> String {
    const SHOWN: usize = 5;
    let mut names: Vec<&str> = store.entries.iter().flat_map(|entry| &entry.names).map(String::as_str).collect();
    names.retain(|name| *name != DEFAULT_NAME);
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    names.truncate(SHOWN);
    format!("{}{more}", names.join(", "))
}

/// Settings of a name, ready for use, with a digest that is equal exactly where they mean the same.
#[derive(Debug)]
pub struct TlsRule {
    settings: Arc<TlsSettings>,
    alpn: Arc<[Vec<u8>]>,
    client_auth: Option<Arc<ClientAuth>>,
    /// SHA-256 over settings and the contents of the CA and CRL files.
    digest: [u8; 32],
}

impl TlsRule {
    /// Reads the CA and CRL files and digests the whole.
    ///
    /// # Errors
    /// A file is missing or holds no certificate or list; says which.
    pub fn new(settings: &Arc<TlsSettings>) -> Result<TlsRule, String> {
        let mut digested = format!("{settings:?}").into_bytes();
        let mut client_auth = None;
        if let Some(rule) = &settings.client_certificate {
            let roots = keystore::trust::certificates(&rule.ca)?;
            let lists = rule.crl.as_deref().map(keystore::trust::revocation_lists).transpose()?.unwrap_or_default();
            roots.iter().chain(&lists).for_each(|der| digested.extend_from_slice(&tls::crypto::digest::sha256(der)));
            let auth = ClientAuth::new(&roots, &lists, rule.required)
                .map_err(|error| format!("{}: {error}", rule.ca.display()))?;
            client_auth = Some(Arc::new(auth));
        }
        let alpn = settings.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let digest = tls::crypto::digest::sha256(&digested);
        Ok(TlsRule { settings: Arc::clone(settings), alpn, client_auth, digest })
    }

    /// Whether connections made under `other` may carry requests for names under this rule.
    pub fn is_same_policy(&self, other: &TlsRule) -> bool {
        self.digest == other.digest
    }

    /// Whether clients are asked for a certificate, and whether they must show one.
    pub fn demands_certificate(&self) -> Option<bool> {
        self.settings.client_certificate.as_ref().map(|rule| rule.required)
    }

    /// The SAN allow-list for client certificates; empty where there is none.
    pub fn allowed_sans(&self) -> &[String] {
        self.settings.client_certificate.as_ref().map_or(&[], |rule| &rule.allow_san)
    }
}

/// One listener's view of names: identities and rules. Answers the TLS library's early callback.
#[derive(Debug)]
pub struct TlsFront {
    identities: Arc<IdentityTable>,
    default_rule: Arc<TlsRule>,
    rules: HostMap<Arc<TlsRule>>,
    strict_sni: bool,
    require_sni: bool,
    key_group: Option<Arc<KeyGroup>>,
    /// Where its certificates are ordered: what authorities ask for.
    challenges: Option<Arc<Challenges>>,
    /// Where certificates come from that are ordered once a client asks for them.
    on_demand: Option<OnDemand>,
    /// Something reads the fingerprints of clients.
    wants_fingerprint: bool,
}

impl TlsFront {
    /// Puts a listener's view together; `rules` go by host pattern, `key_group` has the keys of identities without one.
    pub fn new(
        identities: Arc<IdentityTable>,
        default_rule: Arc<TlsRule>,
        rules: HostMap<Arc<TlsRule>>,
        strict_sni: bool,
        key_group: Option<Arc<KeyGroup>>,
    ) -> TlsFront {
        TlsFront {
            identities,
            default_rule,
            rules,
            strict_sni,
            require_sni: false,
            key_group,
            challenges: None,
            on_demand: None,
            wants_fingerprint: false,
        }
    }

    /// The same, which rejects handshakes that name no server, if `require_sni`.
    pub fn requiring_sni(self, require_sni: bool) -> TlsFront {
        TlsFront { require_sni, ..self }
    }

    /// The same, which notes the fingerprints of clients if something reads them.
    pub fn noting_fingerprints(self, wants_fingerprint: bool) -> TlsFront {
        TlsFront { wants_fingerprint, ..self }
    }

    /// The same, where names are proved to authorities.
    pub fn proving(self, challenges: Option<Arc<Challenges>>) -> TlsFront {
        TlsFront { challenges, ..self }
    }

    /// The same, with certificates on demand.
    pub fn demanding(self, on_demand: Option<OnDemand>) -> TlsFront {
        TlsFront { on_demand, ..self }
    }

    /// Certificates on demand.
    pub fn on_demand(&self) -> Option<&OnDemand> {
        self.on_demand.as_ref()
    }

    /// Whether a handshake was an authority's, to see a proof, and its connection carries nothing.
    pub fn is_proof(&self, info: &tls::Info) -> bool {
        // No rule of such a listener offers the protocol for anything else.
        info.alpn.as_deref() == Some(ACME_PROTOCOL) && self.challenges.is_some()
    }

    /// The key servers that have the keys of identities without one.
    pub fn key_group(&self) -> Option<&Arc<KeyGroup>> {
        self.key_group.as_ref()
    }

    /// The name under which a certificate is known for a host: its own, or the wildcard's; none if only the default serves it.
    pub fn known_name(&self, host: &str) -> Option<Box<str>> {
        let is_on_demand = || self.on_demand.as_ref().is_some_and(|on_demand| on_demand.demands().has(host));
        if self.identities.exact.contains_key(host) || is_on_demand() {
            return Some(host.into());
        }
        let (_, base) = host.split_once('.')?;
        self.identities.wildcard.contains_key(base).then(|| format!("*.{base}").into())
    }

    /// The rule a host is served under: its own, its longest wildcard's, the listener's. Hosts are matched as those of routes.
    pub fn rule(&self, host: Option<&str>) -> &Arc<TlsRule> {
        host.and_then(|host| self.rules.find(host.as_bytes())).unwrap_or(&self.default_rule)
    }
}

impl Chooser for TlsFront {
    fn awaits(&self, hello: &ClientHello<'_>) -> Option<Box<str>> {
        let on_demand = self.on_demand.as_ref()?;
        let name = hello.server_name.and_then(host_name)?;
        let is_there = || self.identities.find(&name).is_some() || on_demand.demands().has(&name);
        // Who looks for a proof that is not there demands nothing.
        let is_proof = matches!(hello.alpn[..], [ACME_PROTOCOL]);
        (!is_proof && on_demand.could_have(&name) && !is_there()).then(|| name.into_boxed_str())
    }

    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Alert> {
        let name = hello.server_name.and_then(host_name);
        if let Some(proof) = self.challenges.as_ref().and_then(|all| all.choice(hello, name.as_deref())) {
            return Ok(proof);
        }
        let is_unknown = self.strict_sni && hello.server_name.is_some() && name.is_none();
        if is_unknown || (self.require_sni && hello.server_name.is_none()) {
            return Err(Alert::UNRECOGNIZED_NAME);
        }
        let found = name.as_deref().and_then(|name| self.identities.find(name));
        let demanded = match (&self.on_demand, &name) {
            (Some(on_demand), Some(name)) if found.is_none() => on_demand.demands().find(name),
            _ => None,
        };
        let found = found.or(demanded.as_ref());
        // A name that could have a certificate gets no other one.
        let could_have = |name: &str| self.on_demand.as_ref().is_some_and(|on_demand| on_demand.could_have(name));
        if found.is_none() && name.as_deref().is_some_and(|name| self.strict_sni || could_have(name)) {
            return Err(Alert::UNRECOGNIZED_NAME);
        }
        let pairs = found.unwrap_or(&self.identities.default);
        let rule = self.rule(name.as_deref());
        let identity = pairs.choose(hello).ok_or(Alert::HANDSHAKE_FAILURE)?;
        Ok(Choice {
            identity: Arc::clone(identity),
            policy: rule.settings.policy,
            min_version: rule.settings.min_version.max(ProtocolVersion::Tls10),
            alpn: Arc::clone(&rule.alpn),
            client_auth: rule.client_auth.clone(),
            context: context(found.and(name.as_deref()), rule),
        })
    }

    fn asks_for_certificates(&self) -> bool {
        self.default_rule.client_auth.is_some() || self.rules.values().any(|rule| rule.client_auth.is_some())
    }

    fn wants_fingerprint(&self) -> bool {
        self.wants_fingerprint
    }
}

/// What a ticket may not cross: the name served and the rule it is served under.
fn context(name: Option<&str>, rule: &TlsRule) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(32 + 64);
    bytes.extend_from_slice(&rule.digest);
    bytes.extend_from_slice(name.unwrap_or(DEFAULT_NAME).as_bytes());
    tls::crypto::digest::sha256(&bytes)
}

/// SNI bytes as a host name in lower case; none for anything that is no DNS name (an address, controls, too long).
pub fn host_name(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.strip_suffix('.').unwrap_or(text);
    let valid = !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        })
        && text.parse::<std::net::IpAddr>().is_err();
    valid.then(|| text.to_ascii_lowercase())
}
