//! Connecting to a server: address, socket, TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use net::{Chunk, Deadline, Source, Stream};
use tls::{Connector, ServerName, Session};

use super::Group;
use super::server::Server;
use crate::config::{ServerAddress, UpstreamTls};
use crate::passport::Refused;
use crate::report::Fault;
use crate::transport::{Broken, NoKeys, Transport};

/// Roots that Debian and its kin keep, trusted where no other file is named.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// A name has no address (yet).
    Unresolved,
    /// The deadline passed.
    Timeout,
    /// Refused, unreachable, no descriptors.
    Socket(io::Error),
    /// The client may not be passed on, or there is nowhere for it to go.
    Client(Refused),
    /// TLS failed: certificate, version, alert.
    Tls(tls::Error),
}

impl ConnectError {
    /// Whether we ran out of descriptors or memory, which says nothing about the server.
    pub fn is_our_shortage(&self) -> bool {
        let ConnectError::Socket(error) = self else { return false };
        matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            ConnectError::Client(_) => Fault::Client,
            ConnectError::Socket(error) if error.kind() == io::ErrorKind::PermissionDenied => Fault::Ours,
            _ => Fault::Upstream,
        }
    }

    /// Stable code for logs.
    pub fn code(&self) -> &'static str {
        match self {
            ConnectError::Unresolved => "upstream_unresolved",
            ConnectError::Timeout => "upstream_connect_timeout",
            ConnectError::Client(refused) => refused.code(),
            ConnectError::Socket(error) if error.kind() == io::ErrorKind::PermissionDenied => "upstream_not_permitted",
            ConnectError::Socket(error) if error.kind() == io::ErrorKind::ConnectionRefused => "upstream_refused",
            ConnectError::Socket(_) => "upstream_unreachable",
            ConnectError::Tls(tls::Error::PeerCertificate(_)) => "upstream_certificate",
            ConnectError::Tls(_) => "upstream_tls",
        }
    }
}

/// Where to connect and with which TLS.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The group, for its settings.
    pub group: &'a Group,
    /// The server.
    pub server: &'a Server,
    /// Under which address.
    pub source: Source,
    /// What goes ahead of everything, TLS included: a PROXY header or nothing.
    pub ahead: &'a [u8],
}

impl<'a> Target<'a> {
    /// A server reached under our own address.
    pub fn own(group: &'a Group, server: &'a Server) -> Target<'a> {
        Target { group, server, source: Source { address: None, mark: group.config.source.mark }, ahead: &[] }
    }
}

/// Connects within the group's connect deadline, TLS included.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(target: Target<'_>) -> Result<Transport, ConnectError> {
    let limit = target.group.config.connect_timeout;
    match Deadline::new().within(limit, connect_unbounded(target, limit)).await {
        Ok(result) => result,
        Err(_) if target.server.is_unresolved() => Err(ConnectError::Unresolved),
        Err(_) => Err(ConnectError::Timeout),
    }
}

async fn connect_unbounded(target: Target<'_>, limit: Duration) -> Result<Transport, ConnectError> {
    let stream = match &target.server.config.address {
        ServerAddress::Ip(address) => connect_tcp(*address, target.source).await?,
        ServerAddress::Unix(path) => connect_unix(path).await?,
        ServerAddress::Name(..) => connect_any(&resolved(target.server).await, limit, target.source).await?,
    };
    stream.send(target.ahead).await.map_err(ConnectError::Socket)?;
    let Some(connector) = target.group.connector_to(target.server) else { return Ok(Transport::plain(stream)) };
    let name = server_name(target)?;
    let session = Session::client(connector, &name).map_err(ConnectError::Tls)?;
    Transport::handshake(stream, Chunk::empty(), session, &NoKeys).await.map_err(|(_, broken)| match broken {
        Broken::Socket(error) => ConnectError::Socket(error),
        Broken::Tls(error) => ConnectError::Tls(error),
        Broken::Key(failure) => ConnectError::Tls(tls::Error::Ours(failure.to_string().into())),
    })
}

/// The addresses of a name; waits for the first answer (within the connect deadline).
async fn resolved(server: &Server) -> Arc<Vec<SocketAddr>> {
    const POLL: Duration = Duration::from_millis(20);
    loop {
        let addresses = server.resolved();
        if !addresses.is_empty() {
            return addresses;
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn connect_tcp(address: SocketAddr, source: Source) -> Result<Stream, ConnectError> {
    net::transparent::connect_tcp(address, source).await.map_err(ConnectError::Socket)
}

/// Connects to an address that is no server's, within `limit`, without TLS, and sends `ahead`.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect_to(
    address: SocketAddr,
    source: Source,
    ahead: &[u8],
    limit: Duration,
) -> Result<Transport, ConnectError> {
    let connecting = async {
        let stream = connect_tcp(address, source).await?;
        stream.send(ahead).await.map_err(ConnectError::Socket)?;
        Ok(Transport::plain(stream))
    };
    Deadline::new().within(limit, connecting).await.unwrap_or(Err(ConnectError::Timeout))
}

async fn connect_unix(path: &Path) -> Result<Stream, ConnectError> {
    Stream::connect_unix(path).await.map_err(ConnectError::Socket)
}

/// Tries the addresses in order, each for its share of the time, so that one black hole does not use it all up.
async fn connect_any(addresses: &[SocketAddr], limit: Duration, source: Source) -> Result<Stream, ConnectError> {
    let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last = ConnectError::Unresolved;
    let fits = |address: &&SocketAddr| source.address.is_none_or(|source| source.is_ipv4() == address.is_ipv4());
    for address in addresses.iter().filter(fits) {
        match Deadline::new().within(share, connect_tcp(*address, source)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = ConnectError::Timeout,
        }
    }
    Err(last)
}

/// The name to verify: the configured one, else the server's own. A Unix socket has none, so there it must be configured.
fn server_name(target: Target<'_>) -> Result<ServerName, ConnectError> {
    let configured = target.group.config.tls.as_ref().and_then(|tls| tls.name.as_deref());
    let text = match (configured, &target.server.config.address) {
        (Some(name), _) => name,
        (None, ServerAddress::Ip(address)) => return Ok(ServerName::Ip(address.ip())),
        (None, ServerAddress::Name(name, _)) => name,
        (None, ServerAddress::Unix(_)) => "localhost",
    };
    Ok(match text.parse::<IpAddr>() {
        Ok(address) => ServerName::Ip(address),
        Err(_) => ServerName::Dns(text.to_owned()),
    })
}

/// The TLS context of a group, which offers the protocol `alpn`, if there is one.
///
/// # Errors
/// A file is missing or unusable; says which.
pub fn connector(settings: &UpstreamTls, alpn: Option<&[u8]>) -> Result<Connector, String> {
    let mut roots = Vec::new();
    if settings.verify {
        roots = keystore::trust::certificates(settings.ca.as_deref().unwrap_or(Path::new(SYSTEM_ROOTS)))?;
    }
    let identity = match (&settings.client_certificate, &settings.client_key) {
        (Some(chain), Some(key)) => Some(keystore::trust::pair(chain, key)?),
        _ => None,
    };
    let alpn: Vec<Vec<u8>> = alpn.into_iter().map(Vec::from).collect();
    Connector::new(&roots, settings.verify, identity, &alpn, settings.policy.min_version())
        .map_err(|error| error.to_string())
}
