//! What operators say of the servers of a group, by label: also of those that a name does not lead to at the moment, since it may lead there again.
//!
//! Knows no server and no file.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::server::Operated;

/// How long a server may be no member of its group before what operators say of it is forgotten: an address may be another machine's by then.
const ABSENT: Duration = Duration::from_secs(3600);

/// What operators say, by label.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders(BTreeMap<String, Order>);

#[derive(Debug, Clone, Copy)]
struct Order {
    operated: Operated,
    /// Since when the server has been no member.
    absent_since: Option<Instant>,
}

impl Orders {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, label: &str) -> Option<Operated> {
        self.0.get(label).map(|order| order.operated)
    }

    /// Notes what is said of a server from now on; nothing is no order.
    pub(super) fn set(&mut self, label: &str, operated: Operated) {
        if operated == Operated::default() {
            self.0.remove(label);
            return;
        }
        let absent_since = self.0.get(label).and_then(|order| order.absent_since);
        self.0.insert(label.to_owned(), Order { operated, absent_since });
    }

    /// All of them.
    pub(super) fn list(&self) -> impl Iterator<Item = (&String, Operated)> {
        self.0.iter().map(|(label, order)| (label, order.operated))
    }

    /// Takes over those for which that holds, with the time that they have been absent.
    pub(super) fn take_over(&mut self, others: &Orders, holds: impl Fn(&str) -> bool) {
        self.0.extend(others.0.iter().filter(|(label, _)| holds(label)).map(|(label, order)| (label.clone(), *order)));
    }

    /// Notes who is a member now, and forgets who has not been one for long.
    pub(super) fn note_members(&mut self, is_member: impl Fn(&str) -> bool, now: Instant) {
        self.0.retain(|label, order| {
            if is_member(label) {
                order.absent_since = None;
                return true;
            }
            now.saturating_duration_since(*order.absent_since.get_or_insert(now)) < ABSENT
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use config::{ServerAddress, ServerConfig, UpstreamConfig};

    use super::super::{Found, Group};
    use super::*;

    const DRAINED: Operated = Operated { drained: true, drained_by_fleet: false, weight: None };

    /// Of a literal `192.0.2.N:80` for each number, and of a name.
    fn group(literals: &[u8], has_name: bool) -> Group {
        let literal = |last: &u8| ServerConfig::at(ServerAddress::Ip(([192, 0, 2, *last], 80).into()));
        let name = has_name.then(|| ServerConfig::at(ServerAddress::Name("app.example".to_owned(), 80)));
        let servers = literals.iter().map(literal).chain(name).collect();
        Group::new(&Arc::new(UpstreamConfig { servers, ..UpstreamConfig::new("app") })).unwrap()
    }

    /// Its name leads to these.
    fn leads_to(group: &Group, last: &[u8]) {
        let found: Vec<Found> = last.iter().map(|last| Found::at(([10, 0, 0, *last], 80).into())).collect();
        group.note_resolved(&group.names()[0], Some(&found));
    }

    fn drain(group: &Group, label: &str, drained: bool) -> usize {
        group.operate(label, |operated| operated.drained = drained).len()
    }

    #[test]
    fn a_drain_of_an_address_that_left_can_be_undone() {
        let group = group(&[], true);
        leads_to(&group, &[1, 2]);
        assert_eq!(drain(&group, "10.0.0.1:80", true), 1);
        leads_to(&group, &[2]);
        assert_eq!(group.absent(), [("10.0.0.1:80".to_owned(), DRAINED)]);
        leads_to(&group, &[1, 2]);
        assert_eq!((group.absent(), group.members().servers[0].operated()), (Vec::new(), DRAINED), "it is back");
        leads_to(&group, &[2]);
        assert_eq!((drain(&group, "10.0.0.1:80", false), group.absent()), (0, Vec::new()));
        leads_to(&group, &[1, 2]);
        assert_eq!(group.members().servers[0].operated(), Operated::default());
        // Nobody can fill the list with servers that never were there.
        drain(&group, "10.0.0.9:80", true);
        assert_eq!(group.operated(), []);
    }

    #[test]
    fn a_reload_goes_on_with_servers_that_can_still_be_members() {
        let before = group(&[1, 2], true);
        leads_to(&before, &[1]);
        for label in ["192.0.2.1:80", "192.0.2.2:80", "10.0.0.1:80"] {
            assert_eq!(drain(&before, label, true), 1);
        }
        for (literals, has_name, expected) in [
            (&[1, 2][..], true, &["10.0.0.1:80", "192.0.2.1:80", "192.0.2.2:80"][..]),
            (&[2], true, &["10.0.0.1:80", "192.0.2.2:80"]),
            (&[2], false, &["192.0.2.2:80"]),
            (&[], true, &["10.0.0.1:80"]),
        ] {
            let after = group(literals, has_name);
            after.go_on_from(&before);
            let kept: Vec<String> = after.operated().into_iter().map(|(label, _)| label).collect();
            assert_eq!(kept, expected, "{literals:?} {has_name}");
            assert!(after.members().servers.iter().all(|server| server.operated() == DRAINED));
        }
    }

    #[test]
    fn what_is_said_of_a_server_is_kept_for_an_hour_without_it() {
        let (said, start, minute) = (DRAINED, Instant::now(), Duration::from_secs(60));
        let mut orders = Orders::default();
        orders.set("a:1", said);
        orders.set("b:1", said);
        for (minutes, a_is_member, expected) in [
            (0, true, Some(said)),
            (1, false, Some(said)),
            (60, false, Some(said)),
            // It comes back, and leaves again: the hour begins anew.
            (60, true, Some(said)),
            (70, false, Some(said)),
            (129, false, Some(said)),
            (130, false, None),
        ] {
            orders.note_members(|label| label == "b:1" || a_is_member, start + minute * minutes);
            assert_eq!((orders.get("a:1"), orders.get("b:1")), (expected, Some(said)), "after {minutes} minutes");
        }
        // A reload does not begin the hour anew.
        orders.note_members(|_| false, start + minute * 140);
        let mut next = Orders::default();
        next.take_over(&orders, |label| label == "b:1");
        next.note_members(|_| false, start + minute * 199);
        assert_eq!(next.get("b:1"), Some(said));
        next.note_members(|_| false, start + minute * 200);
        assert!(next.is_empty());
    }
}
