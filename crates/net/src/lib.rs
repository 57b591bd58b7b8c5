//! The per-core engine, and every socket the program touches.
//!
//! Owns runtimes, listeners, streams, datagrams, chunks, deadlines and policy routing. Knows no protocol above the socket, and nothing of the
//! program. All socket I/O goes through here, so that another engine can replace the readiness engine behind the same calls. An
//! idle stream holds no buffer.

pub mod channel;
pub mod udp;
pub mod transparent;
pub mod trusted;
pub mod splice;
pub mod routing;
pub mod poller;
pub mod pace;
pub mod own_addresses;
mod netlink;
pub mod link;
pub mod listen;
pub mod unix_socket;
pub mod inherited;
pub mod stream;
mod option;
pub mod engine;
pub mod in_place;
pub mod process;
pub mod deadline;
pub mod confine;
pub mod capabilities;
pub mod clock;
pub mod chunk;
pub mod pool;
pub mod places;
pub mod alarm;

pub use alarm::Alarm;
pub use channel::Channel;
pub use chunk::Chunk;
pub use deadline::{Deadline, Elapsed};
pub use in_place::in_place;
pub use inherited::{Inherited, SocketFile};
pub use link::{Link, Linked};
pub use listen::{Bound, Endpoint, Listener, is_about_one_connection};
pub use own_addresses::OwnAddresses;
pub use places::{Places, Room, Seat, client_key};
pub use poller::Poller;
pub use pool::Pool;
pub use stream::{GoneWait, Stream};
pub use transparent::Source;
pub use udp::{UdpBound, UdpFlow, UdpListener};
