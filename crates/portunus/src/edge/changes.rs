//! What operators change in a running edge over the API of the admin side: which servers get requests and how many, maintenance, the log level.
//!
//! Nothing here is written to a file: a restart forgets it. A reload keeps it, and so does an upgrade, but for the log level.

use std::cell::Cell;
use std::sync::Arc;

use proxy::generation::Generation;
use proxy::upstream::{Group, Operated};
use serde_json::{Value, json};

use super::{Edge, views};
use crate::admin::{Change, Rejection};

impl Edge {
    /// Changes something; gives what is so now.
    pub(super) fn apply(&self, change: &Change) -> Result<Value, Rejection> {
        match change {
            Change::LogLevel { level, lasts } => {
                telemetry::set_level_for(level, *lasts).map_err(|error| Rejection::Invalid(error.to_string()))?;
                tracing::warn!(log_level = level, seconds = lasts.as_secs(), "an operator: log level for a while");
                Ok(json!({ "level": level, "seconds": lasts.as_secs() }))
            }
            Change::Drain { server, upstream, drained } => {
                let apply = |operated: &mut Operated| operated.drained = *drained;
                let (found, is_new) = self.operate(server, upstream.as_deref(), apply)?;
                let what = if *drained { "drained: no new requests go there" } else { "no longer drained" };
                if is_new {
                    tracing::warn!(server, "an operator: server {what}");
                }
                Ok(found)
            }
            Change::Weight { server, upstream, weight } => {
                let (found, is_new) =
                    self.operate(server, upstream.as_deref(), |operated| operated.weight = *weight)?;
                if is_new {
                    tracing::warn!(
                        server,
                        weight,
                        "an operator: weight of a server; none is that of the configuration"
                    );
                }
                Ok(found)
            }
            Change::Maintenance { policy, on } => {
                self.server.between_reloads(|generation| maintain(generation, policy.as_deref(), *on))
            }
        }
    }

    fn operate(
        &self,
        server: &str,
        upstream: Option<&str>,
        change: impl Fn(&mut Operated),
    ) -> Result<(Value, bool), Rejection> {
        self.server.between_reloads(|generation| operate(generation, server, upstream, change))
    }
}

/// Changes what operators say of a server, in one upstream or in all that have it; gives how these stand, and whether anything is other than before.
fn operate(
    generation: &Generation,
    name: &str,
    upstream: Option<&str>,
    change: impl Fn(&mut Operated),
) -> Result<(Value, bool), Rejection> {
    let is_new = Cell::new(false);
    let change = |operated: &mut Operated| {
        let before = *operated;
        change(operated);
        is_new.set(is_new.get() || *operated != before);
    };
    let groups = generation.config.upstreams.keys().filter_map(|name| generation.group(name));
    let wanted = |group: &&Arc<Group>| upstream.is_none_or(|upstream| group.config.name == upstream);
    let mut servers = Vec::new();
    for group in groups.filter(wanted) {
        let was_absent = group.absent().iter().any(|(label, _)| label == name);
        group.operate(name, change);
        let members = group.members();
        let found = members.servers.iter().enumerate().filter(|(_, server)| *server.name == *name);
        servers.extend(found.map(|(index, server)| {
            json!({
                "upstream": group.config.name, "server": &*server.name, "state": views::state(server),
                "weight": members.weight(index), "in_flight": server.load(),
            })
        }));
        if was_absent {
            let operated = group.absent().into_iter().find(|(label, _)| label == name).map(|(_, operated)| operated);
            servers.push(views::absent(&group.config.name, name, operated.unwrap_or_default()));
        }
    }
    if servers.is_empty() {
        let place = upstream.map_or("no upstream has a".to_owned(), |upstream| format!("upstream `{upstream}` has no"));
        return Err(Rejection::Unknown(format!("{place} server `{name}`; `portunus status` lists them")));
    }
    Ok((json!({ "servers": servers }), is_new.get()))
}

/// Turns the switches of `maintenance` policies.
fn maintain(generation: &Generation, policy: Option<&str>, on: bool) -> Result<Value, Rejection> {
    let switches = generation.policies.named_switches();
    let names: Vec<&str> = switches.iter().map(|(name, _)| *name).collect();
    let wanted = match (policy, &names[..]) {
        (Some(policy), _) => policy,
        (None, [only]) => only,
        (None, []) => {
            return Err(Rejection::Unknown("there is no policy with `maintenance` in the configuration".to_owned()));
        }
        (None, several) => {
            return Err(Rejection::Invalid(format!(
                "there are several policies with `maintenance`; name one of {}",
                several.join(", ")
            )));
        }
    };
    let Some((name, switch)) = switches.iter().find(|(name, _)| *name == wanted) else {
        return Err(Rejection::Unknown(format!("there is no policy `{wanted}` with `maintenance`")));
    };
    if switch.order(on) {
        tracing::warn!(policy = name, on, "an operator: maintenance");
    }
    Ok(json!({ "policy": name, "on": on, "closed": switch.is_closed() }))
}
