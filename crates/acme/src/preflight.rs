//! Whether names can be proved, before an authority looks: their records in the DNS, and whether the ports that it connects to lead here.
//!
//! Asks name servers and opens connections; orders, writes and changes nothing.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use config::{AcmeConfig, ChallengeKind, Config, DnsUpdater, ListenerConfig};
use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use net::Endpoint;
use tokio::net::TcpStream;

use crate::dns::{self, StandingRecord, TxtRecord};
use crate::storage::Storage;

/// Time to connect.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// What there is to say of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The keystore that orders its certificate.
    pub keystore: String,
    /// The name.
    pub name: String,
    /// What is so; if it is wrong, with the fix.
    pub text: String,
    /// How it is.
    pub verdict: Verdict,
}

/// How a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It can be proved, as far as can be seen from here.
    Good,
    /// It may not be, and cannot be seen from here.
    Uncertain,
    /// It cannot be.
    Bad,
}

/// Looks at all names that the keystores of a configuration order certificates for. `begin` is called with each before it is looked at.
pub async fn run(config: &Config, begin: impl Fn(&str)) -> Vec<Finding> {
    let mut findings = Vec::new();
    let resolver = dns::resolver();
    for keystore in config.keystores.values() {
        let Some(acme) = keystore.acme.as_ref().filter(|acme| !acme.is_internal) else { continue };
        let here = Here { config, keystore: &keystore.name, acme };
        for name in &acme.names {
            begin(name);
            let (verdict, text) = match &resolver {
                Ok(resolver) => here.name(resolver, name).await,
                Err(problem) => (Verdict::Bad, problem.clone()),
            };
            findings.push(Finding { keystore: keystore.name.clone(), name: name.clone(), text, verdict });
        }
        for address in &acme.addresses {
            begin(&address.to_string());
            let (verdict, text) = here.by_connecting(&[*address]).await;
            findings.push(Finding { keystore: keystore.name.clone(), name: address.to_string(), text, verdict });
        }
    }
    findings
}

/// What names of one keystore are held against.
struct Here<'a> {
    config: &'a Config,
    keystore: &'a str,
    acme: &'a AcmeConfig,
}

impl Here<'_> {
    /// The first way that works counts.
    async fn name(&self, resolver: &TokioResolver, name: &str) -> (Verdict, String) {
        let mut found: Option<(Verdict, String)> = None;
        if self.acme.challenges.contains(&ChallengeKind::Dns01) {
            found = Some(self.by_record(resolver, name.trim_start_matches("*.")).await);
        }
        if self.acme.challenges.contains(&ChallengeKind::DnsPersist01) {
            let standing = self.by_standing_record(name).await;
            found = found.filter(|found| found.0 <= standing.0).or(Some(standing));
        }
        if found.as_ref().is_some_and(|(verdict, _)| *verdict == Verdict::Good) || name.starts_with("*.") {
            return found.unwrap_or_else(|| {
                (Verdict::Bad, "a wildcard is proved by `dns-01` or `dns-persist-01` alone".to_owned())
            });
        }
        if self.acme.challenges.iter().all(|kind| kind.port().is_none()) {
            return found.unwrap_or_else(|| (Verdict::Bad, "`challenges` is empty".to_owned()));
        }
        let connected = match addresses(resolver, name).await {
            Ok(addresses) => self.by_connecting(&addresses).await,
            Err(problem) => (Verdict::Bad, problem),
        };
        match found {
            Some(found) if found.0 < connected.0 => found,
            _ => connected,
        }
    }

    /// Whether each address leads to a listener that proves names. An authority takes any of them.
    async fn by_connecting(&self, addresses: &[IpAddr]) -> (Verdict, String) {
        let mut best: Option<(Verdict, String)> = None;
        for kind in &self.acme.challenges {
            let Some(port) = kind.port() else { continue };
            let mut worst = (Verdict::Good, String::new());
            for address in addresses {
                let found = self.at(*address, port, *kind).await;
                if found.0 > worst.0 {
                    worst = found;
                }
            }
            if worst.0 == Verdict::Good {
                let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let text = format!("{} can be proved at port {port} of {}", kind.name(), list.join(" and "));
                return (Verdict::Good, text);
            }
            if best.as_ref().is_none_or(|best| worst.0 < best.0) {
                best = Some(worst);
            }
        }
        best.unwrap_or_else(|| (Verdict::Bad, "no challenge is proved by connecting".to_owned()))
    }

    async fn at(&self, address: IpAddr, port: u16, kind: ChallengeKind) -> (Verdict, String) {
        let place = SocketAddr::new(address, port);
        let is_here = is_ours(address);
        if is_here && self.config.listeners.iter().any(|listener| self.proves(listener, place, kind)) {
            return (Verdict::Good, String::new());
        }
        let connected = tokio::time::timeout(CONNECT_TIME, TcpStream::connect(place)).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match (connected, is_here) {
            (Ok(_), true) => (
                Verdict::Uncertain,
                format!(
                    "{place} is this machine, and no listener of the file that could prove a name is bound there; something else listens: see that it forwards to one ({})",
                    kind.name()
                ),
            ),
            (Ok(_), false) => (
                Verdict::Uncertain,
                format!(
                    "{place} responds, and is no address of this machine: see that it forwards to a listener with keystore `{}` ({})",
                    self.keystore,
                    kind.name()
                ),
            ),
            (Err(error), true) => (
                Verdict::Bad,
                format!(
                    "nothing listens at {place}, which is this machine ({error}); bind a listener that proves names there, or forward the port ({})",
                    kind.name()
                ),
            ),
            (Err(error), false) => (
                Verdict::Bad,
                format!(
                    "{place} cannot be connected to ({error}), and is no address of this machine; correct the record, or open and forward port {port} ({})",
                    kind.name()
                ),
            ),
        }
    }

    /// Whether a listener would respond to an authority that connects there.
    fn proves(&self, listener: &ListenerConfig, place: SocketAddr, kind: ChallengeKind) -> bool {
        let is_there = |bind: &Endpoint| match bind {
            Endpoint::Tcp(bind) => {
                bind.port() == place.port() && (bind.ip() == place.ip() || is_all_of(bind.ip(), place.ip()))
            }
            Endpoint::Unix(_) => false,
        };
        let speaks = match kind {
            ChallengeKind::TlsAlpn01 => listener.tls.as_ref().is_some_and(|tls| tls.keystore == self.keystore),
            ChallengeKind::Http01 => listener.tls.is_none() && listener.reads_requests(),
            ChallengeKind::Dns01 | ChallengeKind::DnsPersist01 => false,
        };
        speaks && listener.bind.iter().any(is_there)
    }

    /// Whether the record that stands for good is there, for the account with the first authority.
    async fn by_standing_record(&self, name: &str) -> (Verdict, String) {
        let Some(authority) = self.acme.authorities.first() else {
            return (Verdict::Bad, "no authority is asked".to_owned());
        };
        let host = &authority.host;
        let Some((account, said)) = Storage::at(&self.acme.folder).account_url(&authority.url) else {
            let text = format!(
                "the record names our account with {host}, and there is none in `folder` yet; start once, then check again (dns-persist-01)"
            );
            return (Verdict::Uncertain, text);
        };
        let issuers = authority.issuer.clone().map_or(said, |issuer| vec![issuer]);
        if issuers.is_empty() {
            let text = format!("{host} did not say what it is called in the DNS; name it as `issuer` of `directory`");
            return (Verdict::Bad, text);
        }
        let wildcard = name.starts_with("*.");
        let record = StandingRecord { host: name.trim_start_matches("*.").to_owned(), issuers, account, wildcard };
        match record.look().await {
            Ok(()) => (Verdict::Good, format!("{} is for our account with {host}", record.name())),
            Err(problem) => (Verdict::Bad, problem),
        }
    }

    /// Whether the record of a host is where we set it.
    async fn by_record(&self, resolver: &TokioResolver, host: &str) -> (Verdict, String) {
        let record = TxtRecord::new(host, String::new()).name();
        let end = match dns::alias_of(&record).await {
            Ok(end) => end,
            Err(problem) => return (Verdict::Bad, problem),
        };
        if let Some(DnsUpdater::Update(update)) = self.acme.dns.as_ref().map(|dns| &dns.by)
            && update.zone_of(&record).or_else(|| update.zone_of(&end)).is_none()
        {
            let text = format!(
                "{record} is in no `zone` of `dns.update`, and no alias (CNAME) of a name that is; add its zone, or the alias"
            );
            return (Verdict::Bad, text);
        }
        let is_alias = end != record;
        if !is_alias && matches!(self.acme.dns.as_ref().map(|dns| &dns.by), Some(DnsUpdater::AcmeDns(_))) {
            let text = format!(
                "{record} is no alias (CNAME) of the `fulldomain` of its account with the acme-dns server; add that record"
            );
            return (Verdict::Bad, text);
        }
        match zone_of(resolver, &end).await {
            Ok(zone) if is_alias => (Verdict::Good, format!("{record} is an alias of {end}, in the zone {zone}")),
            Ok(zone) => (Verdict::Good, format!("{record} is in the zone {zone}")),
            Err(problem) => (Verdict::Bad, problem),
        }
    }
}

/// Whether a listener at all addresses has this one.
fn is_all_of(bind: IpAddr, address: IpAddr) -> bool {
    bind.is_unspecified() && (bind.is_ipv4() == address.is_ipv4())
}

/// Whether an address is one of this machine: a socket can have it.
fn is_ours(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// All addresses of a name.
async fn addresses(resolver: &TokioResolver, name: &str) -> Result<Vec<IpAddr>, String> {
    let name = Name::from_ascii(format!("{name}.")).map_err(|error| format!("{name}: {error}"))?;
    let mut all = Vec::new();
    for kind in [RecordType::A, RecordType::AAAA] {
        for data in dns::records_to_end(resolver, &name, kind).await? {
            match data {
                RData::A(address) => all.push(IpAddr::V4(address.0)),
                RData::AAAA(address) => all.push(IpAddr::V6(address.0)),
                _ => {}
            }
        }
    }
    if all.is_empty() {
        return Err(format!(
            "{} has no A or AAAA record; add one with an address that leads here",
            name.to_ascii().trim_end_matches('.')
        ));
    }
    Ok(all)
}

/// The zone that a name is in: the nearest name that has name servers.
async fn zone_of(resolver: &TokioResolver, name: &str) -> Result<String, String> {
    let name = Name::from_ascii(format!("{name}.")).map_err(|error| format!("{name}: {error}"))?;
    let (zone, _) = dns::zone_of(resolver, &name).await?;
    Ok(zone.to_ascii().trim_end_matches('.').to_owned())
}
