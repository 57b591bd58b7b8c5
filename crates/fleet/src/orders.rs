//! What the operators of a fleet have set, over what its configuration says: who is denied, what is in maintenance, which servers and which nodes get no
//! requests. It is one value that all nodes share, small, so that it is everywhere at once. Pure: time comes from outside.

use std::fmt;

use serde_json::{Map, Value, json};
use wire::hexadecimal::from_hexadecimal;
use zeroize::Zeroizing;

use crate::kept::{Kept, Unread};

/// The version of the form. What is newer is not obeyed.
const FORMAT: u64 = 1;

/// Most orders.
pub const MAX_ORDERS: usize = 5_000;

/// Longest name in an order, bytes, and longest remark.
const MAX_NAME_BYTES: usize = 512;

/// What something is ordered of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An address or network is denied, by all policies with `deny` or by one.
    Deny,
    /// A token or user is denied, by all policies with `jwt` or `basic` and contracts with `deny_tokens`, or by one policy.
    DenyToken,
    /// A policy is in maintenance.
    Maintenance,
    /// An upstream server gets no new requests, in all upstreams or in one.
    Drain,
    /// A node says that nobody is to be sent to it.
    Node,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Deny, Kind::DenyToken, Kind::Maintenance, Kind::Drain, Kind::Node];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Deny => "deny",
            Kind::DenyToken => "deny-token",
            Kind::Maintenance => "maintenance",
            Kind::Drain => "drain",
            Kind::Node => "node",
        }
    }

    fn of(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// One order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What it is about.
    pub kind: Kind,
    /// Whom: a network, a [`TokenName`], a policy, a server, a node.
    pub name: String,
    /// The policy or the upstream that it holds for alone.
    pub only: Option<String>,
    /// When it ends, seconds since 1970; none: it does not by itself.
    pub until: Option<u64>,
    /// Who gave it, and when: seconds since 1970, by that clock.
    pub by: String,
    /// See `by`.
    pub at: u64,
    /// What they had to say.
    pub note: String,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.name)?;
        self.only.iter().try_for_each(|only| write!(f, " (in {only} alone)"))
    }
}

impl Order {
    /// What may be only once.
    fn key(&self) -> (Kind, &str, Option<&str>) {
        (self.kind, &self.name, self.only.as_deref())
    }

    /// Whether it holds at this time.
    pub fn holds(&self, now: u64) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// What is wrong with it, if anything is.
    ///
    /// # Errors
    /// In words, with what to write.
    pub fn check(&self) -> Result<(), String> {
        let Order { kind, name, only, by, note, .. } = self;
        let is_plain = |text: &String| text.len() <= MAX_NAME_BYTES && !text.chars().any(char::is_control);
        if name.is_empty() || ![Some(name), only.as_ref(), Some(by), Some(note)].into_iter().flatten().all(is_plain) {
            return Err(format!("names and remarks have 1 to {MAX_NAME_BYTES} bytes, and no controls"));
        }
        match kind {
            Kind::Deny => config::network(name).map(drop),
            Kind::DenyToken => match TokenName::of(name)? {
                Some(_) => Ok(()),
                None => Err(format!("{name:?} names no token; {}", TokenName::FORMS)),
            },
            Kind::Maintenance | Kind::Node if only.is_some() => Err(format!("{} holds for no other", kind.word())),
            Kind::Maintenance | Kind::Drain | Kind::Node => Ok(()),
        }
    }
}

/// What a token is denied by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenName<'n> {
    /// Its id, the claim `jti` (RFC 7519 §4.1.7).
    Id(&'n str),
    /// The SHA-256 of what identifies it.
    Digest([u8; 32]),
    /// The user whose password is shown.
    User(&'n str),
}

impl TokenName<'_> {
    const FORMS: &'static str = "write `jti:ID`, `sha256:` and 64 digits, or `user:NAME`";

    /// Reads the name of a token; none if it is none, as a token itself.
    ///
    /// # Errors
    /// It begins as a name and does not go on as one, in words.
    pub fn of(name: &str) -> Result<Option<TokenName<'_>>, String> {
        let Some((kind, rest)) = name.split_once(':') else { return Ok(None) };
        let read = match kind {
            "jti" => Some(rest).filter(|id| !id.is_empty()).map(TokenName::Id),
            "sha256" => from_hexadecimal(rest).map(TokenName::Digest),
            "user" => Some(rest).filter(|user| !user.is_empty()).map(TokenName::User),
            _ => return Ok(None),
        };
        read.map(Some).ok_or_else(|| format!("{name:?} names no token; {}", TokenName::FORMS))
    }
}

/// All orders, in the order of what they are about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// Grows with every change.
    pub serial: u64,
    /// The orders.
    pub list: Vec<Order>,
}

impl Orders {
    /// The same with these, in the place of those about the same; and without those that have ended.
    ///
    /// # Errors
    /// There would be too many.
    pub fn with(&self, orders: Vec<Order>, now: u64) -> Result<Orders, String> {
        let is_kept = |order: &&Order| order.holds(now) && orders.iter().all(|other| other.key() != order.key());
        let mut list: Vec<Order> = self.list.iter().filter(is_kept).cloned().collect();
        list.extend(orders);
        list.sort_by(|one, other| one.key().cmp(&other.key()));
        list.dedup_by(|one, other| one.key() == other.key());
        if list.len() > MAX_ORDERS {
            return Err(format!(
                "there can be {MAX_ORDERS} at most; longer lists belong into the configuration (`deny_file`)"
            ));
        }
        Ok(Orders { serial: self.next(now), list })
    }

    /// The same without those about this; the number of these.
    pub fn without(&self, kind: Kind, names: &[String], only: Option<&str>, now: u64) -> (Orders, usize) {
        let is_meant =
            |order: &&Order| order.kind == kind && order.only.as_deref() == only && names.contains(&order.name);
        let found = self.list.iter().filter(is_meant).count();
        let list = self.list.iter().filter(|order| !is_meant(order) && order.holds(now)).cloned().collect();
        (Orders { serial: self.next(now), list }, found)
    }

    /// A number that is larger also where the store has lost the newest ones.
    fn next(&self, now: u64) -> u64 {
        self.serial.saturating_add(1).max(now)
    }

    /// Those that hold at this time.
    pub fn active(&self, now: u64) -> impl Iterator<Item = &Order> {
        self.list.iter().filter(move |order| order.holds(now))
    }
}

impl Kept for Orders {
    const NAME: &'static str = "orders";

    fn serial(&self) -> u64 {
        self.serial
    }

    fn write(&self) -> Zeroizing<Vec<u8>> {
        let order = |order: &Order| {
            json!({
                "kind": order.kind.word(), "name": order.name, "only": order.only, "until": order.until,
                "by": order.by, "at": order.at, "note": order.note,
            })
        };
        let list: Value = self.list.iter().map(order).collect();
        Zeroizing::new(json!({ "format": FORMAT, "serial": self.serial, "orders": list }).to_string().into_bytes())
    }

    fn read(bytes: &[u8]) -> Result<Orders, Unread> {
        let Ok(Value::Object(members)) = serde_json::from_slice(bytes) else { return Err(Unread::Invalid) };
        match members.get("format").and_then(Value::as_u64) {
            Some(FORMAT) => read_members(&members).ok_or(Unread::Invalid),
            Some(newer) if newer > FORMAT => Err(Unread::Newer),
            _ => Err(Unread::Invalid),
        }
    }
}

fn read_members(members: &Map<String, Value>) -> Option<Orders> {
    let list = members.get("orders")?.as_array().filter(|list| list.len() <= MAX_ORDERS)?;
    // Room is left for what is counted on.
    let serial = members.get("serial")?.as_u64().filter(|serial| *serial < u64::MAX / 4)?;
    Some(Orders { serial, list: list.iter().map(read_order).collect::<Option<_>>()? })
}

fn read_order(value: &Value) -> Option<Order> {
    let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
    let only = match value.get("only")? {
        Value::Null => None,
        only => Some(only.as_str()?.to_owned()),
    };
    let until = match value.get("until")? {
        Value::Null => None,
        until => Some(until.as_u64()?),
    };
    let order = Order {
        kind: Kind::of(&text("kind")?)?,
        name: text("name")?,
        only,
        until,
        by: text("by")?,
        at: value.get("at")?.as_u64()?,
        note: text("note")?,
    };
    order.check().is_ok().then_some(order)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn order(kind: Kind, name: &str, until: Option<u64>) -> Order {
        let (only, by, note) = (None, "ops@host".to_owned(), "why".to_owned());
        Order { kind, name: name.to_owned(), only, until, by, at: 7, note }
    }

    #[test]
    fn orders_replace_each_other_end_and_are_taken_back() {
        let none = Orders::default();
        let deny = |until| order(Kind::Deny, "192.0.2.0/24", until);
        let one = none.with(vec![deny(Some(100)), order(Kind::Maintenance, "shop", None)], 50).unwrap();
        assert_eq!((one.serial, one.list.len()), (50, 2));
        assert_eq!((one.active(99).count(), one.active(100).count()), (2, 1));
        let longer = one.with(vec![deny(Some(200))], 50).unwrap();
        assert_eq!((longer.serial, longer.list.len(), longer.list[0].until), (51, 2, Some(200)));
        let only = Order { only: Some("api".to_owned()), ..deny(None) };
        let both = longer.with(vec![only], 50).unwrap();
        assert_eq!(both.list.len(), 3, "one everywhere, and one in a policy");
        let (rest, found) = both.without(Kind::Deny, &["192.0.2.0/24".to_owned()], Some("api"), 300);
        assert_eq!((found, rest.list.len(), rest.serial), (1, 1, 300), "what has ended goes, too");
        assert_eq!(rest.without(Kind::Deny, &["192.0.2.0/24".to_owned()], None, 300).1, 0);
        let many = (0..MAX_ORDERS).map(|number| order(Kind::Drain, &format!("s{number}"), None)).collect();
        let full = none.with(many, 0).unwrap();
        assert!(full.with(vec![deny(None)], 0).unwrap_err().contains("5000 at most"));
    }

    #[test]
    fn orders_are_read_as_they_were_written_and_nothing_else_is() {
        let digits = format!("sha256:{}", "a".repeat(64));
        let all = vec![
            order(Kind::Deny, "2001:db8::/32", None),
            order(Kind::DenyToken, "jti:7", Some(9)),
            order(Kind::DenyToken, &digits, None),
            order(Kind::DenyToken, "user:anna", None),
            Order { only: Some("app".to_owned()), ..order(Kind::Drain, "10.0.0.1:80", None) },
            order(Kind::Node, "edge-1", None),
        ];
        let orders = Orders::default().with(all, 1_700_000_000).unwrap();
        let text = String::from_utf8(orders.write().to_vec()).unwrap();
        assert_eq!(Orders::read(text.as_bytes()), Ok(orders));
        assert_eq!(Orders::read(text.replace("\"format\":1", "\"format\":2").as_bytes()), Err(Unread::Newer));
        for (from, to) in [
            ("\"deny\"", "\"allow\""),
            ("2001:db8::/32", "2001:db8::1/32"),
            ("2001:db8::/32", ""),
            ("jti:7", "7"),
            ("jti:7", "jti:"),
            ("sha256:a", "sha256:g"),
            ("jti:7", "user:"),
            ("edge-1", "edge\\n1"),
            ("\"until\":9", "\"until\":\"9\""),
            ("\"serial\":1700000000", "\"serial\":18446744073709551615"),
            ("\"orders\":[", "\"orders\":[7,"),
            ("\"note\":\"why\"", "\"remark\":\"why\""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert!(changed != text && Orders::read(changed.as_bytes()) == Err(Unread::Invalid), "{from} -> {to}");
        }
    }
}
