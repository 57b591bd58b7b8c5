//! The messages of a WebSocket to a GraphQL endpoint, each of them validated as a request by HTTP would be.

use std::sync::Arc;

use config::{Detail, Mode};
use contract::validate::{Findings, Part, Violation, Where, code};
use graphql::{Broken, Protocol};
use wire::http::ResponseHead;

use crate::contracts::ActiveContract;
use crate::guard::Admitted;
use crate::guard::graphql::checked;
use crate::message::contract_note::ContractNote;

/// Status codes of a Close frame: bad data (RFC 6455 §7.4.1), and a bad message by the protocols of GraphQL.
const UNSUPPORTED_DATA: u16 = 1003;
const BAD_MESSAGE: u16 = 4400;

/// What validates the messages of a client. It belongs to the generation that the connection began with.
#[derive(Debug)]
pub struct Messages {
    active: Arc<ActiveContract>,
    protocol: Protocol,
    blocks: bool,
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// It goes on.
    Passes,
    /// The client gets these messages in its place.
    Rejected(Vec<String>),
    /// The connection ends with this status.
    Closes(u16),
}

impl Admitted<'_> {
    /// Whether the messages of a WebSocket that this request opens are validated.
    pub fn validates_messages(&self) -> bool {
        self.messages_mode().is_some()
    }

    fn messages_mode(&self) -> Option<Mode> {
        let under = self.under.filter(|under| under.active.graphql.is_some())?;
        let mode = under.active.rule(under.operation?.operation.number())?.request;
        Some(mode).filter(|mode| *mode != Mode::Off && self.head.upgrade.as_deref() == Some("websocket"))
    }

    /// What validates them, in the protocol that the upstream chose; none if they are not validated, or under `log` cannot be.
    ///
    /// # Errors
    /// Nobody could read them: the upstream chose another protocol, or compresses them.
    pub fn messages(&self, response: &ResponseHead) -> Result<Option<Messages>, ()> {
        let (Some(mode), Some(under)) = (self.messages_mode(), self.under) else { return Ok(None) };
        let chosen = response.fields.get("sec-websocket-protocol").and_then(Protocol::named);
        let is_plain = response.fields.get("sec-websocket-extensions").is_none();
        match chosen.filter(|_| is_plain) {
            Some(protocol) => {
                Ok(Some(Messages { active: Arc::clone(under.active), protocol, blocks: mode == Mode::Block }))
            }
            None if mode == Mode::Block => Err(()),
            None => Ok(None),
        }
    }
}

impl Messages {
    /// Largest message, bytes.
    pub fn max_bytes(&self) -> usize {
        self.active.graphql.as_ref().map_or(0, |endpoint| endpoint.options().limits.request_bytes)
    }

    /// Whether everything goes on.
    pub fn only_logs(&self) -> bool {
        !self.blocks
    }

    /// Validates one message.
    pub fn decide(&self, payload: &[u8], is_text: bool, note: &mut Option<ContractNote>) -> Answer {
        if !is_text {
            self.note(violation(code::WEBSOCKET_MESSAGE, "is no text"), note);
            return Answer::Closes(UNSUPPORTED_DATA);
        }
        let Some(endpoint) = &self.active.graphql else { return Answer::Closes(BAD_MESSAGE) };
        let nameless = |violation| Broken { id: None, violation };
        let outcome = checked(nameless, |cache| endpoint.check_message(self.protocol, payload, cache));
        let Err(Broken { id, violation }) = outcome else { return Answer::Passes };
        let answer = match &id {
            Some(id) => Answer::Rejected(self.errors(id, &violation)),
            None => Answer::Closes(BAD_MESSAGE),
        };
        self.note(violation, note);
        answer
    }

    fn errors(&self, id: &str, violation: &Violation) -> Vec<String> {
        const TITLE: &str = "Bad Request";
        let (message, code) = match self.active.config.detail {
            Detail::Empty | Detail::Status => (TITLE, None),
            Detail::Code => (TITLE, Some(violation.code)),
            Detail::Pointer => (violation.what.as_str(), Some(violation.code)),
        };
        self.protocol.errors(id, message, code)
    }

    /// Notes frames that nobody can read.
    pub fn note_frame(&self, what: &str, note: &mut Option<ContractNote>) {
        self.note(violation(code::WEBSOCKET_FRAME, what), note);
    }

    fn note(&self, violation: Violation, note: &mut Option<ContractNote>) {
        let mut findings = Findings::first();
        let _ = findings.add(violation);
        if let Some(note) = note {
            note.validated("request", &findings, self.blocks);
        }
    }
}

fn violation(code: &'static str, what: &str) -> Violation {
    Violation::new(code, Where::named(Part::Body, b"message"), what)
}
