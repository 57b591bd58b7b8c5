//! The per-core engine, and every socket the program touches.
//!
//! Owns runtimes, listeners, streams, chunks and deadlines. Knows no protocol above TCP and Unix sockets, and nothing of the
//! program. All socket I/O goes through here, so that another engine can replace the readiness engine behind the same calls. An
//! idle stream holds no buffer.

pub mod chunk;
pub mod clock;
pub mod deadline;
pub mod engine;
pub mod listen;
pub mod process;
pub mod stream;

pub use chunk::Chunk;
pub use deadline::{Deadline, Elapsed};
pub use listen::{Bound, Endpoint, Listener};
pub use stream::Stream;
