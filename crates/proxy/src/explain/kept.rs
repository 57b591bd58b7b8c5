//! The response of a dry run, kept for whoever asked.

use std::task::{Context, Poll};

use net::pace::Pace;
use reason::Reason;
use transport::Broken;
use wire::http::{BodyFraming, Fields, ResponseHead};

use crate::message::sides::ResponseSink;
use crate::policies::cors::Decoration;

/// Most of a body that is kept, bytes.
const MOST_BODY_BYTES: usize = 64 * 1024;

/// What a client would have got, if the response is ours.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Status; 0 if there is no response of ours.
    pub(super) status: u16,
    /// Fields in order, but for those of the connection.
    pub(super) fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body, cut.
    pub(super) body: Vec<u8>,
    decoration: Option<Decoration>,
}

impl Kept {
    /// The fields that a policy sets on whatever response there is.
    pub(super) fn decoration(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let fields = self.decoration.iter().flat_map(Decoration::fields);
        fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = MOST_BODY_BYTES.saturating_sub(self.body.len());
        self.body.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }
}

impl ResponseSink for Kept {
    fn pace(&mut self, _: Pace) {}

    fn takes_interim(&self) -> bool {
        true
    }

    async fn interim(&mut self, _: &ResponseHead) -> Result<(), Broken> {
        Ok(())
    }

    fn be_last(&mut self) {}

    fn decorate(&mut self, decoration: Decoration) {
        self.decoration.get_or_insert_default().add(decoration);
    }

    fn begin(&mut self, status: u16) {
        self.status = status;
        self.fields.clear();
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let is_decorated = self.decoration.as_ref().is_some_and(|decoration| decoration.replaces(name));
        // When it would have been sent says nothing.
        if !is_decorated && !name.eq_ignore_ascii_case(b"date") {
            self.fields.push((name.to_vec(), value.to_vec()));
        }
    }

    fn finish_head(&mut self, _: BodyFraming, _: Option<&[u8]>) {
        let decoration = self.decoration();
        self.fields.extend(decoration);
    }

    fn switch(&mut self, _: &[u8]) {}

    async fn flush(&mut self) -> Result<(), Broken> {
        Ok(())
    }

    async fn piece_now(&mut self, piece: &[u8]) -> Result<(), Broken> {
        self.keep(piece);
        Ok(())
    }

    async fn end(&mut self, _: Option<&Fields>) -> Result<(), Broken> {
        Ok(())
    }

    async fn last(&mut self, piece: &[u8], _: Option<&Fields>) -> Result<(), Broken> {
        self.keep(piece);
        Ok(())
    }

    fn has_begun(&self) -> bool {
        self.status != 0
    }

    fn reached(&self) -> Option<std::net::SocketAddr> {
        None
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<Reason> {
        Poll::Pending
    }
}
