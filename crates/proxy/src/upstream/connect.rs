//! Connecting to a server: address, socket, TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use config::{SendProxy, ServerAddress, UpstreamTls};
use keystore::trust;
use net::{Chunk, Deadline, Source, Stream};
use reason::Reason;
use reason::Side;
use tls::{Connector, ServerName, Session};
use transport::{Broken, NoKeys, Transport};
use wire::proxy_protocol::{Extras, Origin, write_v1, write_v2};

use super::Group;
use super::server::Server;
use crate::passport::Rejected;

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// A name has no address (yet).
    Unresolved,
    /// All servers fail their checks, or are left out since they cannot be connected to.
    NoServer,
    /// All servers that are up have as much to do as they may have.
    Overflow,
    /// That was waited for in vain.
    QueueTimeout,
    /// The deadline passed.
    Timeout,
    /// Rejected, unreachable, no descriptors.
    Socket(io::Error),
    /// The client may not be passed on, or there is nowhere for it to go.
    Client(Rejected),
    /// TLS failed: certificate, version, alert.
    Tls(tls::Error),
}

impl ConnectError {
    /// Whether we ran out of descriptors or memory, which says nothing about the server.
    pub fn is_our_shortage(&self) -> bool {
        let ConnectError::Socket(error) = self else { return false };
        matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
    }

    /// The reason for logs and metrics.
    pub fn reason(&self) -> Reason {
        match self {
            ConnectError::Unresolved => Reason::UpstreamUnresolved,
            ConnectError::NoServer => Reason::NoHealthyUpstream,
            ConnectError::Overflow => Reason::UpstreamOverflow,
            ConnectError::QueueTimeout => Reason::UpstreamQueueTimeout,
            ConnectError::Timeout => Reason::UpstreamConnectTimeout,
            ConnectError::Client(rejected) => rejected.reason(),
            ConnectError::Socket(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Reason::UpstreamNotPermitted
            }
            ConnectError::Socket(error) if error.kind() == io::ErrorKind::ConnectionRefused => Reason::UpstreamRefused,
            ConnectError::Socket(_) => Reason::UpstreamUnreachable,
            ConnectError::Tls(tls::Error::PeerCertificate(_)) => Reason::UpstreamCertificate,
            ConnectError::Tls(_) => Reason::UpstreamTls,
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
    /// What goes ahead of everything, TLS included: a client's PROXY header. Empty for connections of our own, which say that they are that where the
    /// group expects a header.
    pub ahead: &'a [u8],
    /// Another port than the server's own, for its checks.
    pub port: Option<u16>,
    /// The server chooses between versions of HTTP, where its group lets it; else what is spoken is HTTP/1.1 in such groups.
    pub negotiates: bool,
}

impl<'a> Target<'a> {
    /// A server reached under our own address.
    pub fn own(group: &'a Group, server: &'a Server) -> Target<'a> {
        Target {
            group,
            server,
            source: Source { address: None, mark: group.config.source.mark },
            ahead: &[],
            port: None,
            negotiates: false,
        }
    }
}

/// Connects within the group's connect deadline, TLS included.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(target: Target<'_>) -> Result<Transport, ConnectError> {
    let limit = target.group.config.connect_timeout;
    let connected = Deadline::new().within(limit, connect_unbounded(target)).await;
    let connected = connected.unwrap_or(Err(ConnectError::Timeout));
    if let Err(ConnectError::Tls(error)) = &connected
        && target.server.may_complain()
    {
        // The access log has a word for all of these. Said now and then: a line for each connection would be a flood.
        let (upstream, server) = (&target.group.config.name, &target.server.name);
        tracing::warn!(upstream, %server, "TLS with a server failed: {error}{}", advice(error));
    }
    match &connected {
        // What another port does says nothing of this one.
        _ if target.port.is_some() => {}
        Err(error) if error.is_our_shortage() || error.reason().side() != Side::Upstream => {}
        // A server that rejects says so at once: nobody waits for it.
        connected => target.server.note_silence(matches!(connected, Err(ConnectError::Timeout))),
    }
    connected
}

async fn connect_unbounded(target: Target<'_>) -> Result<Transport, ConnectError> {
    let stream = match &target.server.address {
        ServerAddress::Ip(address) => {
            let mut address = *address;
            address.set_port(target.port.unwrap_or(address.port()));
            let stream = connect_tcp(address, target.source).await?;
            stream.keep_alive(target.group.config.keepalive);
            stream
        }
        ServerAddress::Unix(path) => connect_unix(path).await?,
        // Each address of a name is a server of its own.
        ServerAddress::Name(..) | ServerAddress::Service(_) | ServerAddress::Listed(_) => {
            return Err(ConnectError::Unresolved);
        }
    };
    if target.ahead.is_empty() {
        stream.send(&own_header(target.group.config.send_proxy)).await.map_err(ConnectError::Socket)?;
    } else {
        stream.send(target.ahead).await.map_err(ConnectError::Socket)?;
    }
    let negotiator = target.group.negotiator().filter(|_| target.negotiates);
    let Some(connector) = negotiator.or_else(|| target.group.connector_to(target.server)) else {
        return Ok(Transport::plain(stream));
    };
    let name = server_name(target)?;
    let session = Session::client(connector, &name).map_err(ConnectError::Tls)?;
    Transport::handshake(stream, Chunk::empty(), session, &NoKeys).await.map_err(|(_, broken)| match broken {
        Broken::Socket(error) => ConnectError::Socket(error),
        Broken::Tls(error) => ConnectError::Tls(error),
        Broken::Key(failure) => ConnectError::Tls(tls::Error::Ours(failure.to_string().into())),
        broken @ Broken::Certificate(_) => ConnectError::Tls(tls::Error::Ours(broken.to_string().into())),
    })
}

/// What an operator may do about it.
fn advice(error: &tls::Error) -> &'static str {
    match error {
        tls::Error::PeerCertificate(why) if why.contains("a common name does not count") => {
            "; set `tls.server_name` to a name that it has, or see `tls.verify_name`"
        }
        _ => "",
    }
}

/// Whether HTTP/2 was agreed on for a connection.
pub fn speaks_http2(transport: &Transport) -> bool {
    transport.tls_info().is_some_and(|info| info.alpn.as_deref() == Some(b"h2"))
}

/// The header of a connection or datagram that is nobody's but ours: checks, and requests of our own.
pub(crate) fn own_header(version: SendProxy) -> Vec<u8> {
    let mut header = Vec::new();
    match version {
        SendProxy::Off => {}
        SendProxy::V1 => write_v1(&mut header, &Origin::Local),
        SendProxy::V2 | SendProxy::V2Tlvs => write_v2(&mut header, &Origin::Local, &Extras::default()),
    }
    header
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

/// The name to verify: the configured one, else the server's own. A Unix socket has none, so there it must be configured.
fn server_name(target: Target<'_>) -> Result<ServerName, ConnectError> {
    let configured = target.group.config.tls.as_ref().and_then(|tls| tls.name.as_deref());
    let text = match (configured, &target.server.config.address) {
        (Some(name), _) => name,
        (None, ServerAddress::Ip(address)) => return Ok(ServerName::Ip(address.ip())),
        (None, ServerAddress::Name(name, _) | ServerAddress::Service(name)) => name,
        (None, ServerAddress::Listed(listed)) => &listed.service,
        (None, ServerAddress::Unix(_)) => "localhost",
    };
    Ok(match text.parse::<IpAddr>() {
        Ok(address) => ServerName::Ip(address),
        Err(_) => ServerName::Dns(text.to_owned()),
    })
}

/// The TLS context of a group, which offers these protocols by ALPN, if there are any.
///
/// # Errors
/// A file is missing or unusable; says which.
pub fn connector(settings: &UpstreamTls, alpn: &[&[u8]]) -> Result<Connector, String> {
    let mut roots = Vec::new();
    if settings.verify {
        roots = trust::certificates(settings.ca.as_deref().unwrap_or(Path::new(trust::SYSTEM_ROOTS)))?;
    }
    let identity = match (&settings.client_certificate, &settings.client_key) {
        (Some(chain), Some(key)) => Some(trust::pair(chain, key)?),
        _ => None,
    };
    let alpn: Vec<Vec<u8>> = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let made = Connector::new(&roots, settings.verify, identity, &alpn, settings.policy.min_version());
    let mut connector = made.map_err(|error| error.to_string())?;
    connector.check_names(settings.names);
    Ok(connector)
}
