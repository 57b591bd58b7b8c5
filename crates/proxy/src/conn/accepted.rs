//! A connection on its way from the listener to its task, and its place in the counts.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use config::{ListenerConfig, Place};
use net::{Endpoint, Stream};
use transport::Transport;

use crate::admission::Counted;
use crate::worker::Worker;

/// A connection that metrics count as open, until this is dropped: at its end, and also where its task panics or is cut short.
#[derive(Debug)]
pub struct Opened {
    worker: Rc<Worker>,
    listener: Arc<ListenerConfig>,
    /// Who the log says it is, once that is known.
    client: Option<SocketAddr>,
    /// Bytes received and sent that were reported by nobody else.
    traffic: (u64, u64),
    /// Where such bytes are counted while it lives.
    transport: Option<Rc<Transport>>,
    quic: Option<quic::Connection>,
    /// Its place in the counts. Dropped after it was reported: who waits for the last connection finds it in the metrics.
    admitted: Counted,
}

impl Opened {
    /// A connection that was just accepted from `peer` and counted.
    pub fn new(
        worker: Rc<Worker>,
        listener: Arc<ListenerConfig>,
        peer: Option<SocketAddr>,
        admitted: Counted,
    ) -> Opened {
        Opened { worker, listener, client: peer, traffic: (0, 0), transport: None, quic: None, admitted }
    }

    /// The worker it is served by.
    pub fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// It turned out whose it is; false if that client has `per_client` already. One that was counted as its peer's is not counted again.
    pub fn identify(&mut self, client: Option<SocketAddr>, is_counted: bool, per_client: usize) -> bool {
        self.client = client;
        is_counted || self.admitted.count(client, per_client)
    }

    /// It is carried by this transport from now on.
    pub fn carried_by(&mut self, transport: &Rc<Transport>) {
        self.transport = Some(Rc::clone(transport));
    }

    /// It is carried by QUIC.
    pub fn carried_by_quic(&mut self, connection: &quic::Connection) {
        self.quic = Some(connection.clone());
    }

    /// It ended with these bytes received and sent.
    pub fn close(mut self, traffic: (u64, u64)) {
        self.traffic = traffic;
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let (received, sent) = match (&self.transport, &self.quic) {
            (Some(transport), _) => transport.traffic(),
            (None, Some(connection)) => {
                let stats = connection.stats();
                (stats.received, stats.sent)
            }
            (None, None) => self.traffic,
        };
        self.worker.report.connection_closed(&self.listener.name, self.client, received, sent);
    }
}

/// A connection on its way from the listener to its task.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: Stream,
    /// The socket's peer; none on Unix sockets.
    pub peer: Option<SocketAddr>,
    /// Port of the listening socket; 0 on Unix sockets.
    pub bound_port: u16,
    /// Its socket, which tells the listener.
    pub place: Rc<Place<Endpoint>>,
    /// Whether its peer may speak for others by a PROXY header. If so, it is not yet counted as anybody's.
    pub is_balancer: bool,
    /// When, on the wall clock.
    pub at: SystemTime,
    /// Its place in the counts and in the metrics.
    pub opened: Opened,
}
