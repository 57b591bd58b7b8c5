//! What the library's state machine needs to be a client: for tests and load generators. The product connects to nobody over QUIC. It is no feature:
//! with one, a build of the bench would give functions other names than a build without, and `packaging/profile` would fit one of them.

use std::sync::Arc;

use quinn_proto::{
    ClientConfig, ConnectError, EndpointConfig, Side, crypto, transport_parameters::TransportParameters,
};
use tls::{Connector, QuicSession, ServerName};

use crate::keys::ResetKey;
use crate::session::{Left, Tls};

/// A client whose TLS is that of `connector`.
pub fn config(connector: Arc<Connector>) -> ClientConfig {
    ClientConfig::new(Arc::new(Dial(connector)))
}

/// A client's end.
pub fn endpoint_config() -> EndpointConfig {
    // A client tells nobody the tokens of its resets.
    EndpointConfig::new(Arc::new(ResetKey([1; 32])))
}

struct Dial(Arc<Connector>);

impl crypto::ClientConfig for Dial {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let mut parameters = Vec::new();
        params.write(&mut parameters);
        let session = QuicSession::client(&self.0, &ServerName::Dns(server_name.into()), &parameters);
        Ok(Box::new(Tls::new(session, Side::Client, Left::default())))
    }
}
