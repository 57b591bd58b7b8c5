//! What the operators of a fleet have set, as an edge obeys it: by the lists, switches and servers that operators of one machine change, too.
//!
//! Says the whole of it each time: what is not among the orders any more holds no more. What an operator of this machine has said stays.

use std::collections::BTreeSet;

use fleet::orders::{Kind, Order, TokenName};
use proxy::generation::Generation;
use proxy::server::{DeniedLists, DeniedOne};
use proxy::upstream::{Group, Operated};

/// Obeys these orders and no others; what of them has no effect.
pub(super) fn obey(generation: &Generation, orders: &[Order]) -> Vec<String> {
    let mut without_effect = deny(generation, orders);
    without_effect.extend(maintain(generation, orders));
    without_effect.extend(drain(generation, orders));
    without_effect
}

fn deny(generation: &Generation, orders: &[Order]) -> Vec<String> {
    let entries = orders.iter().filter_map(|order| Some((order.only.clone(), denied(order)?)));
    generation.policies.denials().set(DeniedLists::of(entries.collect()));
    let [by_address, by_token, by_user] = generation.policies.denying();
    let has_list = generation.contracts.denies_tokens();
    let has_effect = |order: &Order| {
        let (policies, key) = match (order.kind, TokenName::of(&order.name)) {
            (Kind::Deny, _) => (&by_address, "deny"),
            (Kind::DenyToken, Ok(Some(TokenName::User(_)))) => (&by_user, "basic"),
            (Kind::DenyToken, Ok(Some(TokenName::Digest(_)))) if has_list && order.only.is_none() => return None,
            (Kind::DenyToken, _) => (&by_token, "jwt"),
            (Kind::Maintenance | Kind::Drain | Kind::Node, _) => return None,
        };
        match &order.only {
            None if policies.is_empty() => Some(format!("{order}: there is no policy with `{key}` that would")),
            Some(only) if !policies.contains(&only.as_str()) => {
                Some(format!("{order}: there is no such policy, or it has no `{key}`"))
            }
            None | Some(_) => None,
        }
    };
    orders.iter().filter_map(has_effect).collect()
}

fn denied(order: &Order) -> Option<DeniedOne> {
    match order.kind {
        Kind::Deny => config::network(&order.name).ok().map(DeniedOne::Network),
        Kind::DenyToken => TokenName::of(&order.name).ok()?.map(|name| match name {
            TokenName::Id(id) => DeniedOne::TokenId(id.to_owned()),
            TokenName::Digest(digest) => DeniedOne::Token(digest),
            TokenName::User(name) => DeniedOne::User(name.to_owned()),
        }),
        Kind::Maintenance | Kind::Drain | Kind::Node => None,
    }
}

fn maintain(generation: &Generation, orders: &[Order]) -> Vec<String> {
    let switches = generation.policies.named_switches();
    let wanted = |name: &str| orders.iter().any(|order| order.kind == Kind::Maintenance && order.name == name);
    for (name, switch) in &switches {
        let on = wanted(name);
        if switch.order_of_fleet(on) {
            tracing::warn!(policy = name, on, "an operator of the fleet: maintenance");
        }
    }
    let is_there = |order: &&Order| switches.iter().any(|(name, _)| *name == order.name);
    let all = orders.iter().filter(|order| order.kind == Kind::Maintenance);
    all.filter(|order| !is_there(order))
        .map(|order| format!("{order}: there is no such policy with `maintenance`"))
        .collect()
}

fn drain(generation: &Generation, orders: &[Order]) -> Vec<String> {
    let orders: Vec<&Order> = orders.iter().filter(|order| order.kind == Kind::Drain).collect();
    let mut obeyed = BTreeSet::new();
    for group in generation.config.upstreams.keys().filter_map(|name| generation.group(name)) {
        let of_group = |order: &&&Order| order.only.as_ref().is_none_or(|only| *only == group.config.name);
        let wanted: BTreeSet<&str> = orders.iter().filter(of_group).map(|order| order.name.as_str()).collect();
        let no_more = group.operated().into_iter().filter(|(_, operated)| operated.drained_by_fleet);
        let no_more: Vec<String> =
            no_more.map(|(name, _)| name).filter(|name| !wanted.contains(name.as_str())).collect();
        no_more.iter().for_each(|server| _ = set(group, server, false));
        let found = wanted.into_iter().filter(|server| set(group, server, true));
        obeyed.extend(found.map(|server| (group.config.name.clone(), server.to_owned())));
    }
    let has_effect = |order: &&Order| {
        let is_of = |(group, server): &(String, String)| {
            *server == order.name && order.only.as_ref().is_none_or(|only| only == group)
        };
        obeyed.iter().any(is_of)
    };
    let idle = orders.into_iter().filter(|order| !has_effect(order));
    idle.map(|order| format!("{order}: no upstream has such a server")).collect()
}

/// Drains a server of a group, or takes that back; whether there is such a server.
fn set(group: &Group, server: &str, is_drained: bool) -> bool {
    let before = group.operated().into_iter().any(|(name, operated)| name == server && operated.drained_by_fleet);
    let found = !group.operate(server, |operated: &mut Operated| operated.drained_by_fleet = is_drained).is_empty();
    if before != is_drained && found {
        let what = if is_drained { "drained: no new requests go there" } else { "no longer drained" };
        tracing::warn!(server, upstream = group.config.name, "an operator of the fleet: server {what}");
    }
    found || before
}
