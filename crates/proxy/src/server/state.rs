//! What a process knows that the one which takes over from it goes on with: session-ticket keys, the key of sticky sessions, what rates have counted, and how upstream
//! servers fare.
//!
//! Owns what of a generation is worth passing on and to whom it belongs there. Knows nothing of processes or of how it is sent.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tls::TicketSecrets;

use crate::generation::Generation;
use crate::policies::counts::{RateCounts, RateKey};
use crate::upstream::{Found, Group, Health, Operated, Records, Server};

/// What another process goes on with.
#[derive(Default)]
pub struct State {
    /// The session-ticket keys.
    pub tickets: Option<TicketSecrets>,
    /// Those that other machines have, too, and how long the current one has sealed: instead of the former.
    pub shared_tickets: Option<(tls::SharedMasters, std::time::Duration)>,
    /// Nobody is to be sent here, see [`Server::set_aside`](super::Server::set_aside).
    pub is_aside: bool,
    /// The key of sticky sessions of groups that are given none.
    pub sticky_key: Option<[u8; 32]>,
    /// The secrets of QUIC, if it is served.
    pub quic: Option<quic::Secrets>,
    /// The secret by which rates count keys, if there are any.
    pub rate_key: Option<RateKey>,
    /// Upstream servers of which something is known.
    pub servers: Vec<ServerState>,
    /// Policies whose maintenance an operator has switched on.
    pub maintenance: Vec<String>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// What rates have counted, to be looked at when another process is ready to go on with it: what is counted here after that, it does not know.
#[derive(Default)]
pub struct Rates(pub(super) Option<Arc<ArcSwap<Generation>>>);

impl std::fmt::Debug for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rates").finish_non_exhaustive()
    }
}

impl Rates {
    /// Gives what they have counted, piece by piece.
    ///
    /// # Errors
    /// Those of `take`, which end it.
    pub fn pass(&self, take: &mut dyn FnMut(RateCounts) -> io::Result<()>) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |generation| generation.load().policies.pass_counts(take))
    }
}

/// How one upstream server fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerState {
    /// Its group.
    pub upstream: String,
    /// What it is called in the configuration: a name, if one leads to it.
    pub authority: String,
    /// Its address.
    pub server: String,
    /// How it fares.
    pub health: Health,
    /// What an operator says of it.
    pub operated: Operated,
}

/// The servers of a generation, and those that are none at the moment and of which an operator says something.
pub(super) fn servers(generation: &Generation) -> Vec<ServerState> {
    let of_group = |group: &Arc<Group>| {
        let state = |server: &Arc<Server>| ServerState {
            upstream: group.config.name.clone(),
            authority: server.authority.to_string(),
            server: server.name.to_string(),
            health: server.health(),
            operated: server.operated(),
        };
        let members = group.members();
        // No name leads there: without an authority, none will in the other process before a name server says so.
        let absent = group.absent().into_iter().map(|(server, operated)| ServerState {
            upstream: group.config.name.clone(),
            authority: String::new(),
            server,
            health: Health { healthy: true, silent: false, failures: 0, ejections: 0, ejected_ms: 0 },
            operated,
        });
        members.servers.iter().map(state).chain(absent).collect::<Vec<_>>()
    };
    generation.all_groups().iter().flat_map(of_group).collect()
}

/// Has the servers of a generation go on from how they fared. Names lead where they led until a name server has been asked. What checks found
/// counts where there still are checks: nobody else would take it back.
pub(super) fn resume(generation: &Generation, servers: &[ServerState]) {
    for group in generation.all_groups() {
        let known: Vec<&ServerState> = servers.iter().filter(|known| known.upstream == group.config.name).collect();
        let operated = known.iter().filter(|known| known.operated != Operated::default());
        group.go_on_with(operated.map(|known| (known.server.clone(), known.operated)));
        for name in group.names() {
            let authority = match &name.records {
                Records::Addresses(port) => format!("{}:{port}", name.name),
                // What the directory says of weights is asked for again; it may be away at the moment.
                Records::Listed(listed) => listed.service.clone(),
                // What SRV records say of priorities and weights is asked for again.
                Records::Services => continue,
            };
            let of_name = known.iter().filter(|known| known.authority == authority);
            let found: Vec<Found> = of_name.filter_map(|known| known.server.parse().ok()).map(Found::at).collect();
            if !found.is_empty() {
                group.note_resolved(name, Some(&found));
            }
        }
        for server in &group.members().servers {
            let same = |known: &&&ServerState| *known.server == *server.name && *known.authority == *server.authority;
            if let Some(known) = known.iter().find(same) {
                let healthy = known.health.healthy || group.config.health.is_none();
                server.resume(Health { healthy, ..known.health });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_operators_say_goes_along_also_of_servers_that_no_name_leads_to_at_the_moment() {
        let generation = || {
            let text = "listeners: [{ name: web, bind: \"127.0.0.1:0\" }]
upstreams: { app: { servers: [\"app.example:80\"] } }
routes: [{ upstream: app }]
";
            let config = config::parse("portunus.yaml", text, std::path::Path::new("/")).unwrap();
            Generation::build(Arc::new(config), None).unwrap()
        };
        let led_to = |generation: &Generation, addresses: &[&str]| {
            let group = &generation.all_groups()[0];
            let found: Vec<Found> = addresses.iter().map(|address| Found::at(address.parse().unwrap())).collect();
            group.note_resolved(&group.names()[0], Some(&found));
        };
        let (old, new) = (generation(), generation());
        led_to(&old, &["192.0.2.1:80", "192.0.2.2:80"]);
        let said = Operated { drained: true, drained_by_fleet: false, weight: Some(7) };
        old.all_groups()[0].operate("192.0.2.1:80", |operated| *operated = said);
        led_to(&old, &["192.0.2.2:80"]);
        resume(&new, &servers(&old));
        let members = |generation: &Generation| {
            let members = generation.all_groups()[0].members();
            let member = |server: &Arc<Server>| (server.name.to_string(), server.operated());
            members.servers.iter().map(member).collect::<Vec<_>>()
        };
        assert_eq!(members(&new), [("192.0.2.2:80".to_owned(), Operated::default())]);
        led_to(&new, &["192.0.2.1:80"]);
        assert_eq!(members(&new), [("192.0.2.1:80".to_owned(), said)]);
    }

    fn generation(health: &str) -> Generation {
        let text = format!("upstreams: {{ app: {{ servers: [\"127.0.0.1:1\"]{health} }} }}\n");
        let text =
            format!("listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\n{text}routes: [{{ upstream: app }}]\n");
        let config = config::parse("portunus.yaml", &text, std::path::Path::new("/")).unwrap();
        Generation::build(Arc::new(config), None).unwrap()
    }

    #[test]
    fn what_checks_found_counts_only_where_there_still_are_checks() {
        let checked = ", health: { path: / }";
        let old = generation(checked);
        let server = |generation: &Generation| Arc::clone(&generation.all_groups()[0].members().servers[0]);
        server(&old).set_healthy(false);
        server(&old).note_silence(true);
        let known = servers(&old);
        for (health, expected) in [(checked, false), ("", true)] {
            let new = generation(health);
            resume(&new, &known);
            assert_eq!((server(&new).is_healthy(), server(&new).is_silent()), (expected, true), "{health}");
        }
    }
}
