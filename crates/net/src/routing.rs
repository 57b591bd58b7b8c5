//! The policy routing that lets answers to foreign addresses come back to our transparent sockets.
//!
//! ```text
//! rule:  what leaves this machine from FROM (or carries MARK) is looked up in TABLE
//! route: in TABLE every address is local, on the loopback interface
//! ```
//!
//! Owns what is there, what is missing, and its making and taking away. What is ours carries a protocol number of ours ([`PROTOCOL`]); nothing else is ever
//! removed. Changes need CAP_NET_ADMIN. Keeps nothing over a restart of the machine.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{CREATE, Message, Netlink, number};
use crate::own_addresses::address;

/// Marks rules and routes as made by us, in the field that says which program made them. Free in `/etc/iproute2/rt_protos`.
pub const PROTOCOL: u8 = 112;

const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const GET_RULE: u16 = 34;
/// Length of an `rtmsg` and of a `fib_rule_hdr`.
const FIXED_BYTES: usize = 12;

const RULE_TO_TABLE: u8 = 1;
const ROUTE_LOCAL: u8 = 2;
const SCOPE_HOST: u8 = 254;

mod rule_attribute {
    pub(super) const SOURCE: u16 = 2;
    pub(super) const INPUT_INTERFACE: u16 = 3;
    pub(super) const PRIORITY: u16 = 6;
    pub(super) const MARK: u16 = 10;
    pub(super) const SUPPRESS_GROUP: u16 = 13;
    pub(super) const SUPPRESS_LENGTH: u16 = 14;
    pub(super) const TABLE: u16 = 15;
    pub(super) const MARK_MASK: u16 = 16;
    pub(super) const PROTOCOL: u16 = 21;
}

mod route_attribute {
    pub(super) const DESTINATION: u16 = 1;
    pub(super) const OUTPUT_INTERFACE: u16 = 4;
    pub(super) const TABLE: u16 = 15;
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The routing table, 1 to 252 or above 255; ours alone.
    pub table: u32,
    /// Networks of this machine that the applications answer from; the family of each says which rule it gets.
    pub from: Vec<(IpAddr, u8)>,
    /// Packets with this mark are to come back as well, whatever their source; 0 for none.
    pub mark: u32,
}

impl Default for Plan {
    /// Applications on loopback, both families.
    fn default() -> Plan {
        Plan {
            table: 112,
            from: vec![(Ipv4Addr::new(127, 0, 0, 0).into(), 8), (Ipv6Addr::LOCALHOST.into(), 128)],
            mark: 0,
        }
    }
}

/// One rule or route of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// What leaves from this network is looked up in the table.
    From {
        /// The network.
        network: (IpAddr, u8),
        /// The table.
        table: u32,
    },
    /// What carries the mark is looked up in the table.
    Mark {
        /// IPv6 rather than IPv4.
        v6: bool,
        /// The mark.
        mark: u32,
        /// The table.
        table: u32,
    },
    /// In the table, every address is local.
    Route {
        /// IPv6 rather than IPv4.
        v6: bool,
        /// The table.
        table: u32,
    },
}

/// As the command that would make it.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = if self.is_v6() { "-6 " } else { "" };
        match self {
            Part::From { network: (address, length), table } => {
                write!(f, "ip {dash}rule add from {address}/{length} iif lo table {table}")
            }
            Part::Mark { mark, table, .. } => write!(f, "ip {dash}rule add fwmark {mark:#x} table {table}"),
            Part::Route { v6, table } => {
                write!(f, "ip {dash}route add local {} dev lo table {table}", if *v6 { "::/0" } else { "0.0.0.0/0" })
            }
        }
    }
}

impl Part {
    /// Whether it is about IPv6.
    pub fn is_v6(&self) -> bool {
        match self {
            Part::From { network: (address, _), .. } => address.is_ipv6(),
            Part::Mark { v6, .. } | Part::Route { v6, .. } => *v6,
        }
    }

    fn family(&self) -> u8 {
        family(self.is_v6())
    }

    /// The message that makes it.
    fn message(&self, loopback: u32) -> Message {
        let rule = |length: u8, table: u32| {
            let fixed = [self.family(), 0, length, 0, short(table), 0, 0, RULE_TO_TABLE, 0, 0, 0, 0];
            Message::new(NEW_RULE, &fixed)
                .with(rule_attribute::TABLE, &table.to_ne_bytes())
                .with(rule_attribute::PROTOCOL, &[PROTOCOL])
        };
        match self {
            Part::From { network: (address, length), table } => rule(*length, *table)
                .with(rule_attribute::INPUT_INTERFACE, b"lo\0")
                .with(rule_attribute::SOURCE, &octets(*address)),
            Part::Mark { mark, table, .. } => rule(0, *table).with(rule_attribute::MARK, &mark.to_ne_bytes()),
            Part::Route { table, .. } => {
                let fixed = [self.family(), 0, 0, 0, short(*table), PROTOCOL, SCOPE_HOST, ROUTE_LOCAL, 0, 0, 0, 0];
                Message::new(NEW_ROUTE, &fixed)
                    .with(route_attribute::TABLE, &table.to_ne_bytes())
                    .with(route_attribute::OUTPUT_INTERFACE, &loopback.to_ne_bytes())
            }
        }
    }

    /// Whether what the kernel told of does what this part is for, whoever made it.
    fn is(&self, reported: &Message, loopback: u32) -> bool {
        reported.byte(0) == self.family()
            && match self {
                Part::From { network: (address, length), table } => {
                    let wanted = (Some(masked(octets(*address), *length)), *length, None, true, *table);
                    rule_of(reported).is_some_and(|rule| rule == wanted)
                }
                Part::Mark { mark, table, .. } => {
                    rule_of(reported).is_some_and(|rule| rule == (None, 0, Some(*mark), false, *table))
                }
                Part::Route { table, .. } => is_local_route(reported, *table, loopback),
            }
    }
}

/// Source and its length, mark, whether only for what leaves this machine, table. None if it asks for more than these.
type Rule = (Option<Vec<u8>>, u8, Option<u32>, bool, u32);

fn rule_of(reported: &Message) -> Option<Rule> {
    use rule_attribute::*;
    // Neither a destination nor a type of service, not inverted, and to a table.
    if reported.byte(1) != 0
        || reported.byte(3) != 0
        || reported.byte(7) != RULE_TO_TABLE
        || reported.body.get(8..12)? != [0; 4]
    {
        return None;
    }
    let mut rule: Rule = (None, reported.byte(2), None, false, u32::from(reported.byte(4)));
    for (kind, value) in reported.attributes(FIXED_BYTES) {
        match kind {
            SOURCE => rule.0 = Some(masked(value.to_vec(), reported.byte(2))),
            INPUT_INTERFACE if value == b"lo\0" => rule.3 = true,
            MARK => rule.2 = number(value).filter(|mark| *mark != 0),
            MARK_MASK if number(value).is_some_and(|mask| mask == u32::MAX || mask == 0) => {}
            TABLE => rule.4 = number(value)?,
            PRIORITY | PROTOCOL | SUPPRESS_GROUP => {}
            SUPPRESS_LENGTH if number(value) == Some(u32::MAX) => {}
            _ => return None,
        }
    }
    Some(rule)
}

fn is_local_route(reported: &Message, table: u32, loopback: u32) -> bool {
    let attribute =
        |wanted: u16| reported.attributes(FIXED_BYTES).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let in_table = attribute(route_attribute::TABLE).and_then(number).unwrap_or(u32::from(reported.byte(4))) == table;
    let on_loopback = attribute(route_attribute::OUTPUT_INTERFACE).and_then(number) == Some(loopback);
    let everything = reported.byte(1) == 0
        && attribute(route_attribute::DESTINATION).and_then(address).is_none_or(|to| to.is_unspecified());
    in_table && on_loopback && everything && reported.byte(7) == ROUTE_LOCAL
}

/// What a plan needs, rules and routes of the families it names.
pub fn parts(plan: &Plan) -> Vec<Part> {
    let table = plan.table;
    let mut parts: Vec<Part> = plan.from.iter().map(|network| Part::From { network: *network, table }).collect();
    for v6 in [false, true] {
        if !plan.from.iter().any(|(address, _)| address.is_ipv6() == v6) {
            continue;
        }
        if plan.mark != 0 {
            parts.push(Part::Mark { v6, mark: plan.mark, table });
        }
        parts.push(Part::Route { v6, table });
    }
    parts
}

/// The parts of a plan that are not there.
///
/// # Errors
/// The kernel does not tell.
pub fn missing(plan: &Plan) -> io::Result<Vec<Part>> {
    let mut netlink = Netlink::open(0)?;
    let loopback = loopback(&netlink)?;
    let reported = everything(&mut netlink)?;
    Ok(parts(plan).into_iter().filter(|part| !reported.iter().any(|reported| part.is(reported, loopback))).collect())
}

/// Makes one part.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] without CAP_NET_ADMIN, [`io::ErrorKind::NetworkDown`] if the loopback interface is down; also
/// where the machine has no IPv6.
pub fn make(part: &Part) -> io::Result<()> {
    let mut netlink = Netlink::open(0)?;
    let loopback = loopback(&netlink)?;
    match netlink.change(&part.message(loopback), CREATE) {
        // Somebody was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Removes every rule and route of ours, of every table; gives their number.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] without CAP_NET_ADMIN.
pub fn remove_ours() -> io::Result<usize> {
    let mut netlink = Netlink::open(0)?;
    let mut removed = 0;
    for reported in everything(&mut netlink)? {
        let kind = match reported.kind {
            NEW_RULE if is_our_rule(&reported) => DELETE_RULE,
            NEW_ROUTE if reported.byte(5) == PROTOCOL => DELETE_ROUTE,
            _ => continue,
        };
        match netlink.change(&Message { kind, body: reported.body }, 0) {
            Ok(()) => removed += 1,
            // Gone already.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

fn is_our_rule(reported: &Message) -> bool {
    reported.attributes(FIXED_BYTES).any(|(kind, value)| kind == rule_attribute::PROTOCOL && value == [PROTOCOL])
}

/// Every rule and route of both families.
fn everything(netlink: &mut Netlink) -> io::Result<Vec<Message>> {
    let mut all = Vec::new();
    for v6 in [false, true] {
        let mut fixed = [0; FIXED_BYTES];
        fixed[0] = family(v6);
        for kind in [GET_RULE, GET_ROUTE] {
            match netlink.dump(&Message::new(kind, &fixed)) {
                Ok(reported) => all.extend(reported),
                // A kernel without IPv6 has none of it.
                Err(error) if v6 && is_without_v6(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(all)
}

/// Whether an error says that the machine has no IPv6, or has it switched off (`disable_ipv6`; a lacking capability is another error).
pub fn is_without_v6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EACCES))
}

fn loopback(netlink: &Netlink) -> io::Result<u32> {
    Ok(rustix::net::netdevice::name_to_index(netlink.socket(), "lo")?)
}

fn family(v6: bool) -> u8 {
    u8::try_from(if v6 { libc::AF_INET6 } else { libc::AF_INET }).unwrap_or(0)
}

/// The table where it fits into a byte; else the attribute alone tells it.
fn short(table: u32) -> u8 {
    u8::try_from(table).unwrap_or(0)
}

/// The network's own bits; a rule keeps those of the host as they were given.
fn masked(mut octets: Vec<u8>, length: u8) -> Vec<u8> {
    for (index, octet) in octets.iter_mut().enumerate() {
        let bits = usize::from(length).saturating_sub(8 * index).min(8);
        *octet &= u8::try_from(0xff00_u16 >> bits & 0xff).unwrap_or(0);
    }
    octets
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_knows_itself_and_nothing_narrower() {
        let plan = Plan { mark: 7, ..Plan::default() };
        let all = parts(&plan);
        assert_eq!(all.len(), 6);
        for part in &all {
            let message = part.message(1);
            for other in &all {
                assert_eq!(other.is(&message, 1), other == part, "{other} of {part}");
            }
            assert!(!part.is(&part.message(2), 1) || !matches!(part, Part::Route { .. }));
            // A port makes a rule narrower.
            assert!(matches!(part, Part::Route { .. }) || !part.is(&message.with(24, &[0, 80, 0, 80]), 1), "{part}");
        }
        let other_table = Part::Route { v6: false, table: 1000 };
        assert!(!other_table.is(&all[3].message(1), 1));
        assert!(other_table.is(&other_table.message(1), 1));
    }

    #[test]
    fn parts_are_reported_as_commands() {
        let reported: Vec<String> = parts(&Plan { mark: 123, ..Plan::default() }).iter().map(Part::to_string).collect();
        let expected = [
            "ip rule add from 127.0.0.0/8 iif lo table 112",
            "ip -6 rule add from ::1/128 iif lo table 112",
            "ip rule add fwmark 0x7b table 112",
            "ip route add local 0.0.0.0/0 dev lo table 112",
            "ip -6 rule add fwmark 0x7b table 112",
            "ip -6 route add local ::/0 dev lo table 112",
        ];
        assert_eq!(reported, expected);
    }
}
