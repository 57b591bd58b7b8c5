//! `keystores.acme`: which certificates are ordered, from whom, and how names are proved.
//!
//! Asks nobody, and makes no folder.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tls::KeyType;

use super::{Build, Fault, Referenced, address, read};
use crate::model::{
    AcmeConfig, AcmeDnsConfig, AskConfig, AuthorityConfig, ChallengeKind, Config, DnsConfig, DnsUpdateConfig,
    DnsUpdater, ExternalAccount, HostPattern, ListenerConfig, OnDemandConfig, Output, ServerConfig, Service,
    TsigKeyConfig, UpstreamConfig, UpstreamProtocol,
};
use crate::problem::{Collector, shown};
use crate::shape::surface::{ACME_DIRECTORY, ASK, AcmeOptions, DnsOptions, OnDemandOptions};
use crate::table::{defaults, setting};
use crate::yaml::Node;

/// The word for a CA of our own.
const INTERNAL: &str = "internal";

/// Authorities that are called by a word.
const AUTHORITIES: [(&str, &str); 4] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt_staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
    ("google", "https://dv.acme-v02.api.pki.goog/directory"),
    ("zerossl", "https://acme.zerossl.com/v2/DV90"),
];

impl Build<'_> {
    pub(super) fn acme(&mut self, keystore: &str, node: &Node) -> Option<AcmeConfig> {
        let folder = node.get("folder").and_then(|at| {
            let folder = self.written(at, "certificates that are ordered", Output::Folder)?;
            let parent = folder.parent().map(ToOwned::to_owned).unwrap_or_default();
            self.referenced.push(Referenced { path: parent, is_folder: true, is_read: false, span: at.span });
            Some(folder)
        });
        let directories = node.get("directory").map(Node::one_or_many).unwrap_or_default();
        let is_internal = self.is_internal(node, directories);
        let directories = if is_internal { &[] } else { directories };
        let authorities: Vec<_> =
            directories.iter().enumerate().filter_map(|(at, node)| self.authority(keystore, at, node)).collect();
        if !is_internal && !setting::<bool>(node, "accept_terms") {
            let at = node.entry("accept_terms").map_or(node.span, |entry| entry.key_span);
            let what = "certificate authorities issue to those who agree to their terms of service";
            self.problems.add(at, what, "read them, then add `accept_terms: true`");
        }
        let challenges = if is_internal {
            // Nothing has to be proved, so any name will do.
            vec![ChallengeKind::TlsAlpn01, ChallengeKind::Dns01]
        } else {
            self.parsed_list(node, "challenges", challenge)
        };
        let (names, addresses) = self.names(node, &challenges);
        let key_types =
            self.parsed_list(node, "key_types", |text| Ok(if text == "rsa" { KeyType::Rsa } else { KeyType::Ecdsa }));
        for key in ["directory", "challenges", "key_types"] {
            if let Some(list) = node.get(key).filter(|list| list.one_or_many().is_empty()) {
                self.problems.add(list.span, format!("`{key}` is empty"), "name at least one, or remove the key");
            }
        }
        Some(AcmeConfig {
            folder: folder?,
            is_internal,
            authorities,
            contact: self.parsed_list(node, "contact", mail_address),
            dns: if is_internal { None } else { self.dns(keystore, node, &challenges).map(Arc::new) },
            names,
            addresses,
            on_demand: self.on_demand(keystore, node),
            challenges,
            key_types,
            options: AcmeOptions::read(node),
        })
    }

    /// Certificates that are ordered when a client first asks for their name. Somebody must say for which.
    fn on_demand(&mut self, keystore: &str, acme: &Node) -> Option<OnDemandConfig> {
        let node = read::mapping(acme, "on_demand")?;
        let allow = self.parsed_list(node, "allow", |text| match subject(text)? {
            Subject::Name(name) => Ok(HostPattern::of_text(&name)),
            Subject::Address(_) => {
                let what = format!("{} is an address, which no client asks for by name", shown(text));
                Err(Fault::new(what, "list it in `names`"))
            }
        });
        let ask = node.get("ask").map(|node| self.ask(keystore, node));
        let at = acme.entry("on_demand").map_or(node.span, |entry| entry.key_span);
        if let Some(list) = node.get("allow").filter(|list| list.one_or_many().is_empty()) {
            self.problems.add(list.span, "`allow` is empty", "name at least one, or remove the key");
        } else if node.get("allow").is_none() && ask.is_none() {
            let what = "anybody could have certificates ordered, for any name";
            self.problems.add(at, what, "add `allow` with the names that may be had, or `ask` with a URL to ask");
        }
        // What was wrong with whom to ask has been said; nothing is allowed because it could not be read.
        let ask = ask.map_or(Some(None), |ask| ask.map(Some))?;
        Some(OnDemandConfig { allow, ask, options: OnDemandOptions::read(node) })
    }

    /// Who is asked for names: a URL, or a mapping with one.
    fn ask(&mut self, keystore: &str, node: &Node) -> Option<AskConfig> {
        let bare = defaults(ASK.all_fields());
        let (settings, at) = match node.text() {
            Some(_) => (&bare, node),
            None => (node, node.get("url")?),
        };
        let mut upstream = self.connection_settings("keystore.acme.on_demand.ask", settings);
        upstream.name = format!("{keystore}-ask");
        if let Some(entry) = settings.entry("protocol") {
            self.problems.add(entry.key_span, "names are asked for over HTTP/1.1", "remove `protocol`");
        }
        let (host, target) = self.server_of_url(&mut upstream, at.span, at.text()?)?;
        if target.contains('#') {
            self.problems.add(at.span, "the URL has a fragment, which is not sent", "remove it, with its `#`");
        }
        Some(AskConfig { upstream: Arc::new(upstream), host, target })
    }

    /// Whether certificates are issued by a CA of our own, which stands alone.
    fn is_internal(&mut self, node: &Node, directories: &[Node]) -> bool {
        let Some(word) = directories.iter().find(|directory| directory.text() == Some(INTERNAL)) else { return false };
        if directories.len() > 1 {
            let what = "`internal` issues whatever is wanted, so that no other authority would ever be asked";
            self.problems.add(word.span, what, "let it stand alone, or remove it");
        }
        for key in ["contact", "dns"] {
            if let Some(entry) = node.entry(key) {
                let what = format!("`{key}` has no effect: `internal` asks nobody");
                self.problems.add(entry.key_span, what, format!("remove `{key}`"));
            }
        }
        true
    }

    /// One of the authorities: a word, a URL, or a mapping with one of them.
    fn authority(&mut self, keystore: &str, index: usize, node: &Node) -> Option<Arc<AuthorityConfig>> {
        // A word or a URL alone is a mapping that leaves all else at its default.
        let bare = defaults(ACME_DIRECTORY.all_fields());
        let (settings, at) = match node.text() {
            Some(_) => (&bare, node),
            None => (node, node.get("url")?),
        };
        let text = at.text()?;
        let url = AUTHORITIES.iter().find(|(word, _)| *word == text).map_or(text, |(_, url)| url);
        if !url.starts_with("https://") {
            let words: Vec<&str> = AUTHORITIES.iter().map(|(word, _)| *word).collect();
            let fix =
                format!("write a URL that begins with `https://`, `internal` alone, or one of {}", words.join(", "));
            self.problems.add(at.span, format!("{} is not the directory of an authority", shown(text)), fix);
            return None;
        }
        let mut upstream = self.connection_settings("keystore.acme.directory", settings);
        upstream.name = format!("{keystore}-acme-{}", index + 1);
        if let Some(entry) = settings.entry("protocol") {
            self.problems.add(entry.key_span, "authorities are asked over HTTP/1.1", "remove `protocol`");
        }
        let (host, _) = self.server_of_url(&mut upstream, at.span, url)?;
        let external_account = read::mapping(settings, "external_account").and_then(|node| {
            let key_id = read::text(node, "key_id")?.to_owned();
            Some(ExternalAccount { key_id, hmac_key: self.secret(node.get("hmac_key")?)? })
        });
        Some(Arc::new(AuthorityConfig {
            url: url.to_owned(),
            upstream: Arc::new(upstream),
            host,
            profile: read::text(settings, "profile").map(str::to_owned),
            issuer: self.parsed(settings, "issuer", address::host_name),
            external_account,
        }))
    }

    fn dns(&mut self, keystore: &str, acme: &Node, challenges: &[ChallengeKind]) -> Option<DnsConfig> {
        let is_asked = challenges.contains(&ChallengeKind::Dns01);
        let Some(entry) = acme.entry("dns") else {
            if let Some(list) = acme.get("challenges").filter(|_| is_asked) {
                let what = "nothing says how records for `dns-01` are set";
                self.problems.add(
                    list.span,
                    what,
                    "add `dns: { run: PROGRAM }`, `dns: { update: … }` or `dns: { acme_dns: … }`",
                );
            }
            return None;
        };
        if !is_asked {
            let what = "`dns` has no effect: `challenges` does not hold `dns-01`";
            self.problems.add(entry.key_span, what, "add `dns-01` to `challenges`, or remove `dns`");
        }
        let node = &entry.value;
        let by = if let Some(run) = node.get("run") {
            DnsUpdater::Program(self.program(run)?)
        } else if let Some(update) = read::mapping(node, "update") {
            DnsUpdater::Update(self.dns_update(keystore, update)?)
        } else {
            DnsUpdater::AcmeDns(self.acme_dns(keystore, read::mapping(node, "acme_dns")?)?)
        };
        let name_servers = self.parsed_list(node, "name_servers", |text| {
            text.parse().or_else(|_| text.parse().map(|address| SocketAddr::new(address, 53))).map_err(|_| {
                Fault::new(
                    format!("{} is not the address of a name server", shown(text)),
                    "write `192.0.2.53` or `192.0.2.53:53`",
                )
            })
        });
        Some(DnsConfig { by, name_servers, options: DnsOptions::read(node) })
    }

    /// A program, which must be there, and its arguments.
    fn program(&mut self, node: &Node) -> Option<Vec<String>> {
        let (program, arguments) = node.one_or_many().split_first()?;
        let path = self.reference(program, false)?;
        let arguments = arguments.iter().filter_map(|argument| argument.text().map(str::to_owned));
        Some(std::iter::once(path.to_str()?.to_owned()).chain(arguments).collect())
    }

    fn dns_update(&mut self, keystore: &str, node: &Node) -> Option<DnsUpdateConfig> {
        let mut upstream = UpstreamConfig::new(format!("{keystore}-dns"));
        upstream.protocol = UpstreamProtocol::Tcp;
        let at = node.get("server")?;
        let server = at.text().and_then(|text| self.server(at.span, text, address::Service::Names));
        upstream.servers = vec![ServerConfig::at(server?)];
        let key = read::mapping(node, "key").and_then(|key| {
            Some(TsigKeyConfig {
                name: self.parsed(key, "name", address::host_name)?,
                algorithm: read::text(key, "algorithm")?.to_owned(),
                secret: self.secret(key.get("secret")?)?,
            })
        });
        let zones = self.parsed_list(node, "zone", address::host_name);
        Some(DnsUpdateConfig { upstream: Arc::new(upstream), zones, key, ttl: setting(node, "ttl") })
    }

    fn acme_dns(&mut self, keystore: &str, node: &Node) -> Option<AcmeDnsConfig> {
        let mut upstream = self.connection_settings("keystore.acme.dns.acme_dns", node);
        upstream.name = format!("{keystore}-dns");
        let (host, target) = self.fetched_from(&mut upstream, node, "records")?;
        let accounts = self.file(node, "accounts")?;
        let prefix = target.trim_end_matches('/').to_owned();
        Some(AcmeDnsConfig { upstream: Arc::new(upstream), host, prefix, accounts })
    }

    /// The names that are listed, and the addresses among them.
    fn names(&mut self, node: &Node, challenges: &[ChallengeKind]) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
        let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
        let list = self.parsed_list(node, "names", |text| {
            let name = subject(text)?;
            match &name {
                Subject::Name(name) if name.starts_with("*.") => proves_wildcards(challenges, name)?,
                Subject::Address(_) if !challenges.iter().any(|kind| kind.proves_addresses()) => {
                    let what = format!("{} cannot be proved by the `challenges` that there are", shown(text));
                    return Err(Fault::new(what, "add `tls-alpn-01` or `http-01` to them"));
                }
                Subject::Name(_) | Subject::Address(_) => {}
            }
            Ok(name)
        });
        for subject in list {
            match subject {
                Subject::Name(name) => _ = names.insert(name),
                Subject::Address(address) => _ = addresses.insert(address),
            }
        }
        if let Some(list) = node.get("names").filter(|list| list.one_or_many().is_empty()) {
            self.problems.add(list.span, "`names` is empty", "name at least one, or remove the key");
        }
        (names, addresses)
    }
}

/// What a certificate may be for.
#[derive(Debug, PartialEq, Eq)]
enum Subject {
    Name(String),
    Address(IpAddr),
}

fn subject(text: &str) -> Result<Subject, Fault> {
    let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = address.parse() {
        return Ok(Subject::Address(address));
    }
    let name = address::host_pattern(text)?.to_string();
    if name.contains('_') {
        let what = format!("{} holds a `_`, for which no authority issues a certificate", shown(text));
        return Err(Fault::new(what, "use another name, or serve this one from a keystore of another kind"));
    }
    Ok(Subject::Name(name))
}

fn proves_wildcards(challenges: &[ChallengeKind], name: &str) -> Result<(), Fault> {
    if challenges.iter().any(|kind| kind.proves_wildcards()) {
        return Ok(());
    }
    let what = format!("{} cannot be proved by the `challenges` that there are", shown(name));
    Err(Fault::new(what, "add `dns-01` or `dns-persist-01` to them, or list the names below it"))
}

fn challenge(text: &str) -> Result<ChallengeKind, Fault> {
    match text {
        "tls-alpn-01" => Ok(ChallengeKind::TlsAlpn01),
        "http-01" => Ok(ChallengeKind::Http01),
        "dns-01" => Ok(ChallengeKind::Dns01),
        "dns-persist-01" => Ok(ChallengeKind::DnsPersist01),
        _ => Err(Fault::new(format!("{} is no challenge", shown(text)), "write `tls-alpn-01`")),
    }
}

/// Reads a mail address as a URI; what is before the `@` is for its server to understand.
fn mail_address(text: &str) -> Result<String, Fault> {
    let address = text.strip_prefix("mailto:").unwrap_or(text);
    let is_plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b',' | b'?' | b'@'))
    };
    match address.split_once('@') {
        Some((user, host)) if is_plain(user) && is_plain(host) => Ok(format!("mailto:{address}")),
        _ => Err(Fault::new(format!("{} is not a mail address", shown(text)), "write it as `ops@example.com`")),
    }
}

/// Gives keystores that list no names those of the routes and tunnels that are served from them.
pub(super) fn add_names(root: &Node, config: &mut Config, problems: &mut Collector) {
    keeps_challenges_apart(root, config, problems);
    for entry in root.get("keystores").map(Node::entries).unwrap_or_default() {
        let Some(acme) = config.keystores.get(&entry.key).and_then(|keystore| keystore.acme.clone()) else { continue };
        let default = config.keystores.get(&entry.key).and_then(|keystore| keystore.default.clone());
        if let (Some(default), false) = (entry.value.get("default"), acme.addresses.is_empty()) {
            let what = "clients that send no server name get the certificate for the IP addresses in `names`";
            problems.add(default.span, what, "remove `default`, or the addresses");
        }
        if !acme.names.is_empty() || !acme.addresses.is_empty() {
            continue;
        }
        let mut names = served_names(config, &entry.key, &acme.challenges);
        names.extend(default);
        let is_covered =
            |name: &str| name.split_once('.').is_some_and(|(_, parent)| names.contains(&format!("*.{parent}")));
        let names: BTreeSet<String> = names.iter().filter(|name| !is_covered(name)).cloned().collect();
        if names.is_empty() && acme.on_demand.is_none() {
            let at = entry.value.entry("acme").map_or(entry.key_span, |acme| acme.key_span);
            let what = "there is no name to order a certificate for";
            problems.add(at, what, "add `names`, or give routes on listeners with this keystore their `hosts`");
        }
        if let Some(keystore) = config.keystores.get_mut(&entry.key) {
            keystore.acme = Some(Arc::new(AcmeConfig { names, ..AcmeConfig::clone(&acme) }));
        }
    }
}

/// Notes listeners that offer the protocol of challenges themselves: where certificates are ordered it is ours, and a handshake with it is an authority's.
fn keeps_challenges_apart(root: &Node, config: &Config, problems: &mut Collector) {
    let listeners = root.get("listeners").map(Node::items).unwrap_or_default();
    for tls in listeners.iter().filter_map(|listener| read::mapping(listener, "tls")) {
        let keystore = read::text(tls, "keystore").and_then(|name| config.keystores.get(name));
        if keystore.is_none_or(|keystore| keystore.acme.is_none()) {
            continue;
        }
        let names = tls.get("names").map(Node::items).unwrap_or_default();
        let lists = std::iter::once(tls).chain(names).filter_map(|node| node.get("alpn"));
        for item in lists.flat_map(Node::one_or_many).filter(|item| item.text() == Some("acme-tls/1")) {
            let what = "`acme-tls/1` is how authorities ask for proofs of names, which this listener gives itself: its keystore has `acme`";
            problems.add(item.span, what, "remove it, or pass TLS through to the server that proves its own names");
        }
    }
}

/// The names that listeners with this keystore serve, as far as certificates can be had for them.
fn served_names(config: &Config, keystore: &str, challenges: &[ChallengeKind]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let uses = |listener: &&Arc<ListenerConfig>| listener.tls.as_ref().is_some_and(|tls| tls.keystore == keystore);
    for listener in config.listeners.iter().filter(uses) {
        let patterns: Vec<&HostPattern> = match &listener.service {
            Service::Tunnel(tunnel) => {
                tunnel.rules.iter().filter(|rule| !rule.passthrough).flat_map(|rule| &rule.names).collect()
            }
            Service::Http | Service::RedirectToHttps { .. } => {
                let is_here = |listeners: &[String]| listeners.is_empty() || listeners.contains(&listener.name);
                config.routes.iter().filter(|route| is_here(&route.listeners)).flat_map(|route| &route.hosts).collect()
            }
        };
        names.extend(patterns.into_iter().filter_map(|pattern| issuable(pattern, challenges)));
    }
    names
}

/// The name of a host, unless no certificate for it can be ordered this way.
fn issuable(pattern: &HostPattern, challenges: &[ChallengeKind]) -> Option<String> {
    let text = pattern.to_string();
    match subject(&text).ok()? {
        Subject::Name(name) if name.starts_with("*.") => proves_wildcards(challenges, &name).is_ok().then_some(name),
        Subject::Name(name) => Some(name),
        Subject::Address(_) => None,
    }
}
