//! One record, field by field, in any of the forms that have all of them: an object of JSON, `logfmt`, or fields of the journal.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use super::escape::{address, cut, decimal, escape, fixed};
use super::{Clock, FIELD_BYTES, TARGET_BYTES};
use crate::record::{AddedFields, WouldReject};
use crate::redact::Redacted;
use crate::rules::Rules;

/// Fields one line can have cut.
const MAX_TRUNCATED: usize = 12;

/// How a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `"name":value`, in one object.
    Json,
    /// `name=value`, in one line.
    Logfmt,
    /// `PORTUNUS_NAME=value`, a line each.
    Journal,
}

/// Fields on their way into a buffer.
pub(super) struct Fields<'a> {
    pub(super) out: &'a mut Vec<u8>,
    style: Style,
    redacted: &'a Redacted,
    /// Paths of fields to leave out.
    removed: &'a [Box<str>],
    /// The object that is open, if one is, and where its text begins.
    object: Option<(&'static str, usize)>,
    /// The open object is left out.
    is_muted: bool,
    truncated: [&'static str; MAX_TRUNCATED],
    truncated_count: usize,
}

impl<'a> Fields<'a> {
    /// Goes on with an object of JSON that `out` ends in.
    pub(super) fn on(out: &'a mut Vec<u8>) -> Fields<'a> {
        Fields {
            out,
            style: Style::Json,
            redacted: Redacted::nothing(),
            removed: &[],
            object: None,
            is_muted: false,
            truncated: [""; MAX_TRUNCATED],
            truncated_count: 0,
        }
    }

    /// Begins with what every line begins with.
    pub(super) fn begin(
        out: &'a mut Vec<u8>,
        clock: &mut Clock,
        (style, rules): (Style, &'a Rules),
        (kind, started): (&'static str, SystemTime),
        client: Option<SocketAddr>,
    ) -> Fields<'a> {
        out.extend_from_slice(match style {
            Style::Json => b"{\"time\":\"",
            Style::Logfmt => b"time=",
            Style::Journal => b"PORTUNUS_TIME=",
        });
        clock.write(out, started);
        match style {
            Style::Json => out.push(b'"'),
            Style::Logfmt => {}
            Style::Journal => out.push(b'\n'),
        }
        let mut fields = Fields { style, redacted: &rules.redacted, removed: &rules.removed, ..Fields::on(out) };
        fields.text("kind", kind.as_bytes());
        if let Some(client) = client {
            fields.address("client_address", Some(client.ip()));
            fields.number("client_port", u64::from(client.port()));
        }
        fields
    }

    /// Begins a field, unless it is to be left out.
    fn key(&mut self, name: &str) -> bool {
        if self.is_muted || !self.removed.is_empty() && self.is_removed(name) {
            return false;
        }
        match self.style {
            Style::Json => {
                // Without the comma at the start of an inner object.
                if self.out.last() != Some(&b'{') {
                    self.out.push(b',');
                }
                self.out.push(b'"');
                self.out.extend_from_slice(name.as_bytes());
                self.out.extend_from_slice(b"\":");
            }
            Style::Logfmt => {
                self.out.push(b' ');
                if let Some((object, _)) = self.object {
                    self.out.extend_from_slice(object.as_bytes());
                    self.out.push(b'.');
                }
                self.out.extend_from_slice(name.as_bytes());
                self.out.push(b'=');
            }
            Style::Journal => {
                let start = self.out.len();
                self.out.extend_from_slice(b"PORTUNUS_");
                if let Some((object, _)) = self.object {
                    self.out.extend(object.bytes().map(journal_byte));
                    self.out.push(b'_');
                }
                self.out.extend(name.bytes().map(journal_byte));
                // The journal takes no longer name.
                self.out.truncate(start + 64);
                self.out.push(b'=');
            }
        }
        true
    }

    fn is_removed(&self, name: &str) -> bool {
        let is_it = |removed: &str| match self.object {
            None => removed == name,
            Some((object, _)) => {
                removed.strip_prefix(object).and_then(|rest| rest.strip_prefix('.')).is_some_and(|rest| rest == name)
            }
        };
        self.removed.iter().any(|removed| is_it(removed))
    }

    fn end_value(&mut self) {
        if self.style == Style::Journal {
            self.out.push(b'\n');
        }
    }

    pub(super) fn text(&mut self, name: &'static str, value: &[u8]) {
        let kept = cut(value, FIELD_BYTES);
        if self.quoted(name, kept, Redacted::nothing()) && kept.len() < value.len() {
            self.note_cut(name);
        }
    }

    /// The target of a request, redacted.
    pub(super) fn target(&mut self, value: &[u8]) {
        let kept = cut(value, TARGET_BYTES);
        if self.quoted("target", kept, self.redacted) && kept.len() < value.len() {
            self.note_cut("target");
        }
    }

    /// An address, if there is one.
    pub(super) fn address(&mut self, name: &'static str, value: Option<IpAddr>) {
        let Some(value) = value else { return };
        if self.key(name) {
            let quote: &[u8] = if self.style == Style::Json { b"\"" } else { b"" };
            self.out.extend_from_slice(quote);
            address(self.out, value);
            self.out.extend_from_slice(quote);
            self.end_value();
        }
    }

    /// A text that is left out where it is empty.
    pub(super) fn some(&mut self, name: &'static str, value: &[u8]) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    /// An object of its own, so that no name of a configuration is one of ours; absent if nothing is in it.
    pub(super) fn added(&mut self, added: &dyn AddedFields) {
        self.open("fields");
        let (redacted, mut is_cut) = (self.redacted, false);
        added.each(&mut |name, value| {
            if !value.is_empty() {
                let kept = cut(value, FIELD_BYTES);
                is_cut |= self.quoted(name, kept, redacted) && kept.len() < value.len();
            }
        });
        self.close();
        if is_cut {
            self.note_cut("fields");
        }
    }

    /// Policies that only log, in an object of their own; absent if there is none. One that was asked at several places has what it said first.
    pub(super) fn would_reject(&mut self, policies: &[WouldReject]) {
        if policies.is_empty() {
            return;
        }
        self.open("would_reject");
        for (policy, reason) in said_first(policies) {
            self.quoted(policy, reason.as_bytes(), Redacted::nothing());
        }
        self.close();
    }

    fn quoted(&mut self, name: &str, value: &[u8], redacted: &Redacted) -> bool {
        if !self.key(name) {
            return false;
        }
        let quote: &[u8] = match self.style {
            Style::Json => b"\"",
            Style::Logfmt if needs_quotes(value) => b"\"",
            _ => b"",
        };
        self.out.extend_from_slice(quote);
        redacted.pieces(value, &mut |piece| escape(self.out, piece));
        self.out.extend_from_slice(quote);
        self.end_value();
        true
    }

    fn note_cut(&mut self, name: &'static str) {
        if self.truncated_count < MAX_TRUNCATED {
            self.truncated[self.truncated_count] = name;
            self.truncated_count += 1;
        }
    }

    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        if self.key(name) {
            decimal(self.out, value);
            self.end_value();
        }
    }

    pub(super) fn seconds(&mut self, name: &'static str, value: Duration) {
        if self.key(name) {
            decimal(self.out, value.as_secs());
            self.out.push(b'.');
            fixed(self.out, value.subsec_micros(), 6);
            self.end_value();
        }
    }

    /// A share of one.
    pub(super) fn share(&mut self, name: &'static str, millionths: u32) {
        if self.key(name) {
            decimal(self.out, u64::from(millionths / 1_000_000));
            self.out.push(b'.');
            fixed(self.out, millionths % 1_000_000, 6);
            self.end_value();
        }
    }

    pub(super) fn flag(&mut self, name: &'static str, value: bool) {
        if self.key(name) {
            self.out.extend_from_slice(if value { b"true" } else { b"false" });
            self.end_value();
        }
    }

    pub(super) fn open(&mut self, name: &'static str) {
        let start = self.out.len();
        self.is_muted = !self.removed.is_empty() && self.is_removed(name);
        if self.style == Style::Json && self.key(name) {
            self.out.push(b'{');
        }
        self.object = Some((name, start));
    }

    pub(super) fn close(&mut self) {
        let object = self.object.take();
        if !std::mem::take(&mut self.is_muted) && self.style == Style::Json {
            match (self.out.last(), object) {
                // Nothing is in it.
                (Some(b'{'), Some((_, start))) => self.out.truncate(start),
                _ => self.out.push(b'}'),
            }
        }
    }

    /// Ends the line.
    pub(super) fn end(mut self) {
        if self.truncated_count > 0 && self.key("truncated") {
            let (first, between, last): (&[u8], &[u8], &[u8]) = match self.style {
                Style::Json => (b"[\"", b"\",\"", b"\"]"),
                _ => (b"", b",", b""),
            };
            for (i, name) in self.truncated.iter().take(self.truncated_count).enumerate() {
                self.out.extend_from_slice(if i == 0 { first } else { between });
                self.out.extend_from_slice(name.as_bytes());
            }
            self.out.extend_from_slice(last);
            self.end_value();
        }
        self.out.extend_from_slice(match self.style {
            Style::Json => b"}\n",
            // The empty line ends an entry of the journal.
            Style::Logfmt | Style::Journal => b"\n",
        });
    }
}

/// Names of policies with the code of what each said first.
pub(super) fn said_first(policies: &[WouldReject]) -> impl Iterator<Item = (&str, &'static str)> {
    policies.iter().enumerate().filter_map(|(at, one)| {
        let is_first = policies.iter().take(at).all(|before| before.policy != one.policy);
        is_first.then(|| (&*one.policy, one.reason.code()))
    })
}

/// Whether a reader of `logfmt` would take a bare value for something else.
fn needs_quotes(value: &[u8]) -> bool {
    value.is_empty() || value.iter().any(|byte| !(b'!'..=b'~').contains(byte) || matches!(byte, b'"' | b'=' | b'\\'))
}

/// A byte of the name of a field of the journal.
fn journal_byte(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte.to_ascii_uppercase() } else { b'_' }
}
