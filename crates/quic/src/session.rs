//! The library's traits for TLS, over `tls::quic`: which bytes and keys belong to which level, and what becomes of a handshake.
//!
//! The library asks for both keys of 1-RTT at once, so they are handed over when the client has proved itself; before that nothing is sent under them.
//! Ruled by RFC 9001 §4.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use tls::packet::retry_tag;
use tls::quic::{Level, Secrets};
use tls::{Acceptor, Alert, Chooser, Error, Handshake, Info, QuicSession};

use crate::keys::{Packets, initial_keys, keys};

/// The one version there is (RFC 9000 §15).
pub(crate) const VERSION: u32 = 1;

/// What became of a handshake.
pub(crate) enum Outcome {
    /// It is done.
    Done(Box<Info>),
    /// TLS failed, with the name that was asked for.
    Failed(Error, Option<Box<str>>),
    /// It needs a key that is elsewhere, which it cannot wait for, for this name.
    RemoteKey(Option<Box<str>>),
}

/// Where an outcome is left for whoever accepted the connection.
pub(crate) type Left = Arc<OnceLock<Outcome>>;

/// What a connection is accepted with; without a chooser, what is there before one is.
pub(crate) struct Door {
    pub(crate) acceptor: Arc<Acceptor>,
    pub(crate) chooser: Option<Arc<dyn Chooser + Send + Sync>>,
    pub(crate) outcome: Left,
}

impl ServerConfig for Door {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version == VERSION { Ok(initial_keys(dst_cid, true)) } else { Err(UnsupportedVersion) }
    }

    fn retry_tag(&self, _version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        retry_tag(orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let mut parameters = Vec::new();
        params.write(&mut parameters);
        let tls = match &self.chooser {
            Some(chooser) => QuicSession::server(&self.acceptor, Arc::clone(chooser), &parameters),
            None => Err(Error::Ours("nobody was asked for this connection".into())),
        };
        Box::new(Tls::new(tls, Side::Server, Arc::clone(&self.outcome)))
    }
}

/// One handshake.
pub(crate) struct Tls {
    /// The library of QUIC wants its sessions to be shareable between threads. Never locked: used by unique access only.
    session: Mutex<Result<QuicSession, Error>>,
    side: Side,
    /// The level that is sent at, and what comes belongs to: the library takes nothing of an earlier one once the next has begun.
    level: Level,
    is_handshaking: bool,
    parameters: Option<Result<TransportParameters, TransportError>>,
    /// The secrets after the last update of keys.
    current: Option<Secrets>,
    outcome: Left,
}

impl Tls {
    pub(crate) fn new(session: Result<QuicSession, Error>, side: Side, outcome: Left) -> Tls {
        Tls {
            session: Mutex::new(session),
            side,
            level: Level::Initial,
            is_handshaking: true,
            parameters: None,
            current: None,
            outcome,
        }
    }

    fn session(&mut self) -> &mut Result<QuicSession, Error> {
        self.session.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the handshake for a fault of TLS.
    fn failed(&mut self, error: Error) -> TransportError {
        let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner).as_ref().ok();
        let alert = session.and_then(QuicSession::alert).unwrap_or(match error {
            Error::Peer(_) => Alert::UNEXPECTED_MESSAGE,
            _ => Alert::INTERNAL_ERROR,
        });
        let name = session.and_then(QuicSession::server_name);
        let _ = self.outcome.set(Outcome::Failed(error, name));
        // What exactly was wrong is for our log.
        TransportError { code: TransportErrorCode::crypto(alert.0), frame: None, reason: String::new() }
    }

    fn waits_for_key(&mut self) -> TransportError {
        let name = self.session().as_ref().ok().and_then(QuicSession::server_name);
        let _ = self.outcome.set(Outcome::RemoteKey(name));
        TransportError { code: TransportErrorCode::CONNECTION_REFUSED, frame: None, reason: String::new() }
    }

    fn note_parameters(&mut self) {
        let (side, None) = (self.side, &self.parameters) else { return };
        let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner).as_ref().ok();
        if let Some(mut bytes) = session.and_then(QuicSession::peer_parameters) {
            self.parameters = Some(TransportParameters::read(side, &mut bytes).map_err(TransportError::from));
        }
    }

    fn done(&mut self) {
        self.is_handshaking = false;
        if let Some(info) = self.session().as_ref().ok().and_then(QuicSession::info) {
            let _ = self.outcome.set(Outcome::Done(Box::new(info)));
        }
    }

    /// The keys of the next level, once it has begun.
    fn next_level(&mut self) -> Option<Keys> {
        let next = match self.level {
            Level::Initial => Level::Handshake,
            Level::Handshake if !self.is_handshaking => Level::Application,
            _ => return None,
        };
        let secrets = self.session().as_mut().ok()?.secrets(next)?;
        self.level = next;
        let keys = keys(&secrets.write, &secrets.read);
        if next == Level::Application {
            self.current = Some(secrets);
        }
        Some(keys)
    }
}

impl Session for Tls {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        initial_keys(dst_cid, side.is_server())
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.side.is_client().then_some(false)
    }

    fn is_handshaking(&self) -> bool {
        self.is_handshaking
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        let level = self.level;
        let outcome = match self.session() {
            Ok(session) => session.provide(level, buf),
            Err(error) => Err(error.clone()),
        };
        self.note_parameters();
        match outcome {
            // Under QUIC no handshake is suspended for a certificate.
            Ok(Handshake::WantInput | Handshake::WantCertificate) => {}
            Ok(Handshake::WantKey) => return Err(self.waits_for_key()),
            Ok(Handshake::Done) => self.done(),
            Err(error) => return Err(self.failed(error)),
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.parameters.clone().transpose()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let (level, is_server) = (self.level, self.side.is_server());
        if let Ok(session) = self.session() {
            buf.extend_from_slice(&session.take(level));
            if level == Level::Application && is_server {
                // The ticket is out.
                session.release();
            }
        }
        self.next_level()
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let current = self.current.take()?;
        let next = Secrets { read: current.read.next(), write: current.write.next() };
        let pair = KeyPair { local: Packets::of(&next.write), remote: Packets::of(&next.read) };
        self.current = Some(next);
        Some(pair)
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((token, tag)) = payload.split_last_chunk::<16>() else { return false };
        retry_tag(orig_dst_cid, &[header, token].concat()) == *tag
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}
