//! The per-core engine, and every socket the program touches.
//!
//! Owns runtimes, listeners, streams, datagrams, chunks, deadlines and policy routing. Knows no protocol above the socket, and nothing of the
//! program. All socket I/O goes through here, so that another engine can replace the readiness engine behind the same calls. An
//! idle stream holds no buffer.

pub mod alarm;
pub mod chunk;
pub mod clock;
pub mod confine;
pub mod deadline;
pub mod engine;
pub mod listen;
mod netlink;
mod option;
pub mod own_addresses;
pub mod poller;
pub mod pool;
pub mod process;
pub mod routing;
pub mod splice;
pub mod stream;
pub mod transparent;
pub mod udp;

pub use alarm::Alarm;
pub use chunk::Chunk;
pub use deadline::{Deadline, Elapsed};
pub use listen::{Bound, Endpoint, Listener, SocketFile, is_about_one_connection};
pub use own_addresses::OwnAddresses;
pub use poller::Poller;
pub use pool::Pool;
pub use stream::{GoneWait, Stream};
pub use transparent::Source;
pub use udp::{UdpBound, UdpFlow, UdpListener};
