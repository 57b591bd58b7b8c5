//! The rows of the comparison.

use super::proxies::Front;

/// What is done in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The published table: the application and the front share core 0.
    WithApplication {
        /// Clients at once.
        connections: usize,
        /// Body of the POST that is echoed.
        bytes: usize,
    },
    /// The front alone on core 0, a fast upstream beside the load.
    Alone {
        /// Clients at once.
        connections: usize,
        /// Body of the POST that is echoed.
        bytes: usize,
        /// Workers of the front; two have both cores, which they share with the load.
        workers: usize,
    },
    /// Connections that have asked once and are then held idle; checked by memory.
    Idle {
        /// How many.
        connections: usize,
    },
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) kind: Kind,
}

/// Bodies of the published table, bytes.
const PUBLISHED_BODIES: [usize; 4] = [10, 100, 1_000, 10_000];

/// Clients of the published table.
const PUBLISHED_CONNECTIONS: [usize; 2] = [300, 3_000];

/// All rows, in order.
pub(super) fn all() -> Vec<Row> {
    let published = PUBLISHED_CONNECTIONS.into_iter().flat_map(|connections| {
        PUBLISHED_BODIES.into_iter().map(move |bytes| Kind::WithApplication { connections, bytes })
    });
    let alone = |(connections, bytes)| Kind::Alone { connections, bytes, workers: 1 };
    let alone = [(64, 100), (64, 10_000), (16, 100_000), (16, 1_000_000)].into_iter().map(alone);
    let rest = [Kind::Alone { connections: 64, bytes: 100, workers: 2 }, Kind::Idle { connections: 3_000 }];
    published.chain(alone).chain(rest).map(|kind| Row { kind }).collect()
}

impl Row {
    /// Short name, for `--only`.
    pub(super) fn name(&self) -> String {
        match self.kind {
            Kind::WithApplication { connections, bytes } => format!("node-{connections}-{bytes}"),
            Kind::Alone { bytes, workers: 1, .. } => format!("alone-{bytes}"),
            Kind::Alone { bytes, workers, .. } => format!("workers{workers}-{bytes}"),
            Kind::Idle { connections } => format!("idle-{connections}"),
        }
    }

    /// As it stands above its table.
    pub(super) fn title(&self) -> String {
        match self.kind {
            Kind::WithApplication { connections, bytes } => {
                format!("Echo of {bytes} bytes by Node, {connections} connections; application and proxy on one core")
            }
            Kind::Alone { connections, bytes, workers: 1 } => {
                format!("Echo of {bytes} bytes, {connections} connections; the proxy alone on its core")
            }
            Kind::Alone { connections, bytes, workers } => {
                format!("Echo of {bytes} bytes, {connections} connections; {workers} workers beside the load")
            }
            Kind::Idle { connections } => format!("Memory of {connections} idle connections"),
        }
    }

    /// Whether a front has a place in it.
    pub(super) fn takes(&self, front: Front) -> bool {
        let is_application = matches!(front, Front::NodeHttp | Front::NodeHttps);
        match self.kind {
            Kind::WithApplication { .. } => true,
            // A thread for each connection is not a number of workers.
            Kind::Alone { workers, .. } => !is_application && (workers == 1 || front != Front::Stunnel),
            Kind::Idle { .. } => !is_application,
        }
    }

    /// Clients and bytes.
    pub(super) fn load(&self) -> (usize, usize) {
        match self.kind {
            Kind::WithApplication { connections, bytes } | Kind::Alone { connections, bytes, .. } => {
                (connections, bytes)
            }
            Kind::Idle { connections } => (connections, 10),
        }
    }

    /// Workers of the front.
    pub(super) fn workers(&self) -> usize {
        match self.kind {
            Kind::Alone { workers, .. } => workers,
            _ => 1,
        }
    }
}
