//! Whether a TXT record is where authorities look for it: at each name server of its zone, asked directly, so that nothing that is cached has a say.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use config::DnsConfig;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData, RecordType};

use super::TxtRecord;

/// Aliases (CNAME records) that are followed from the name of a record.
const MOST_ALIASES: usize = 8;

/// Name servers of a zone that are asked.
const MOST_SERVERS: usize = 16;

/// Time for one question.
const QUESTION_TIME: Duration = Duration::from_secs(3);

/// First pause between two rounds of questions; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Waits until all name servers have a record.
pub(super) async fn wait(config: &DnsConfig, record: &TxtRecord) -> Result<(), String> {
    let limit = config.options.propagation_timeout;
    if limit.is_zero() {
        return Ok(());
    }
    let mut problem = "it took too long to find the name servers of the zone".to_owned();
    let waiting = tokio::time::timeout(limit, seen(&config.name_servers, record, &mut problem));
    if waiting.await.is_ok() {
        return Ok(());
    }
    Err(format!(
        "the record {} was set, but is not to be seen after {limit:?}: {problem}. If these servers cannot be asked from here, name others in `name_servers`, or set `propagation_timeout: 0s` and a `propagation_delay`",
        record.name()
    ))
}

/// Ends once all name servers have the record. Says what is amiss as long as it goes on.
async fn seen(servers: &[SocketAddr], record: &TxtRecord, problem: &mut String) {
    let mut pause = FIRST_PAUSE;
    let mut left: Option<(Name, Vec<SocketAddr>)> = None;
    loop {
        let (name, servers) = match left.take() {
            Some(left) => left,
            None => match servers_of(&record.name(), servers).await {
                Ok(found) => found,
                Err(text) => {
                    *problem = text;
                    rest(&mut pause).await;
                    continue;
                }
            },
        };
        let mut missing = Vec::new();
        for server in servers {
            match has(server, &name, &record.value).await {
                Ok(true) => {}
                Ok(false) => {
                    *problem = format!("the name server {server} does not have it yet");
                    missing.push(server);
                }
                Err(error) => {
                    *problem = format!("the name server {server}: {error}");
                    missing.push(server);
                }
            }
        }
        if missing.is_empty() {
            return;
        }
        left = Some((name, missing));
        rest(&mut pause).await;
    }
}

async fn rest(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

/// The name that a record stands under in the end, and the name servers that have to know it.
async fn servers_of(name: &str, given: &[SocketAddr]) -> Result<(Name, Vec<SocketAddr>), String> {
    let mut name = Name::from_ascii(format!("{name}.")).map_err(|error| format!("{name}: {error}"))?;
    if !given.is_empty() {
        return Ok((name, given.to_vec()));
    }
    let resolver = resolver()?;
    name = follow(&resolver, name).await?;
    let (zone, hosts) = zone_of(&resolver, &name).await?;
    let mut servers = Vec::new();
    for host in hosts {
        let addresses = resolver.lookup_ip(host.clone()).await;
        let addresses: Vec<IpAddr> =
            addresses.map_err(|error| format!("the name server {host} of {zone}: {error}"))?.iter().collect();
        // One of each: IPv6 is not everywhere.
        let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
        servers.extend(address.map(|address| SocketAddr::new(*address, 53)));
    }
    Ok((name, servers))
}

/// The zone that a name is in, and its name servers.
///
/// # Errors
/// None has any.
pub async fn zone_of(resolver: &TokioResolver, name: &Name) -> Result<(Name, Vec<Name>), String> {
    let mut zone = name.clone();
    loop {
        let found = records(resolver, &zone, RecordType::NS).await?;
        let hosts = found.into_iter().filter_map(|data| if let RData::NS(host) = data { Some(host.0) } else { None });
        let hosts: Vec<Name> = hosts.take(MOST_SERVERS).collect();
        if !hosts.is_empty() {
            return Ok((zone, hosts));
        }
        if zone.num_labels() <= 1 {
            return Err(format!("no zone of {name} has name servers"));
        }
        zone = zone.base_name();
    }
}

/// What a name is an alias of (CNAME records) in the end, in lower case and without the last dot; itself if it is none.
///
/// # Errors
/// No name server says so.
pub async fn alias_of(name: &str) -> Result<String, String> {
    let name = Name::from_ascii(format!("{name}.")).map_err(|error| format!("{name}: {error}"))?;
    let end = follow(&resolver()?, name).await?;
    Ok(end.to_ascii().trim_end_matches('.').to_ascii_lowercase())
}

async fn follow(resolver: &TokioResolver, mut name: Name) -> Result<Name, String> {
    for _ in 0..MOST_ALIASES {
        let found = records(resolver, &name, RecordType::CNAME).await?;
        let alias =
            found.into_iter().find_map(|data| if let RData::CNAME(alias) = data { Some(alias.0) } else { None });
        let Some(alias) = alias else { break };
        name = alias;
    }
    Ok(name)
}

/// The system's name servers, without a memory of ours.
///
/// # Errors
/// There are none.
pub fn resolver() -> Result<TokioResolver, String> {
    let resolver = TokioResolver::builder_tokio().and_then(|mut builder| {
        builder.options_mut().cache_size = 0;
        builder.build()
    });
    resolver.map_err(|error| format!("no name server can be asked: {error}"))
}

/// Records of a name of that type alone; none if there is no such name.
async fn records(resolver: &TokioResolver, name: &Name, kind: RecordType) -> Result<Vec<RData>, String> {
    match resolver.lookup(name.clone(), kind).await {
        Ok(found) => {
            let own = found.answers().iter().filter(|record| record.name == *name);
            Ok(own.map(|record| record.data.clone()).collect())
        }
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Records of that type at the end of all aliases of a name.
///
/// # Errors
/// No name server says so.
pub async fn records_to_end(resolver: &TokioResolver, name: &Name, kind: RecordType) -> Result<Vec<RData>, String> {
    let end = follow(resolver, name.clone()).await?;
    records(resolver, &end, kind).await
}

/// Whether a name server has a TXT record.
async fn has(server: SocketAddr, name: &Name, value: &str) -> Result<bool, NetError> {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    let server = NameServerConfig::new(server.ip(), true, connections.into());
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    (options.cache_size, options.attempts, options.timeout) = (0, 1, QUESTION_TIME);
    (options.recursion_desired, options.use_hosts_file) = (false, ResolveHosts::Never);
    let resolver = builder.build()?;
    match resolver.lookup(name.clone(), RecordType::TXT).await {
        Ok(found) => Ok(found.answers().iter().any(|record| match &record.data {
            RData::TXT(text) => text.txt_data.concat() == value.as_bytes(),
            _ => false,
        })),
        Err(error) if error.is_no_records_found() => Ok(false),
        Err(error) => Err(error),
    }
}
