//! What stands around a line on its way to a log service: the header of syslog (RFC 5424), or the fields that the journal expects.

use std::time::SystemTime;

use reason::Side;

use super::Clock;
use super::escape::decimal;
use crate::rules::SyslogHeader;

/// How serious a record is, as syslog and the journal count (RFC 5424 §6.2.1): a warning if somebody but the client is at fault.
pub(super) fn severity(fault: Side) -> u8 {
    match fault {
        Side::Upstream | Side::Proxy | Side::KeyServer => 4,
        _ => 6,
    }
}

/// `<PRI>1 TIMESTAMP HOSTNAME APP-NAME PROCID MSGID -` and a space.
pub(super) fn syslog(
    out: &mut Vec<u8>,
    clock: &mut Clock,
    header: &SyslogHeader,
    (kind, started, severity): (&str, SystemTime, u8),
) {
    out.push(b'<');
    decimal(out, u64::from(header.facility) * 8 + u64::from(severity));
    out.extend_from_slice(b">1 ");
    clock.write(out, started);
    out.extend_from_slice(header.origin.as_bytes());
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b" - ");
}

/// What the journal calls a message, up to its text.
pub(super) fn journal(out: &mut Vec<u8>, severity: u8) {
    out.extend_from_slice(b"PRIORITY=");
    decimal(out, u64::from(severity));
    out.extend_from_slice(b"\nSYSLOG_IDENTIFIER=portunus\nMESSAGE=");
}
