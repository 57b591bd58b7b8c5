//! HTTP: one message loop for all versions.
//!
//! `h1` and `h2` read requests and write answers on a client's connection; `exchange` is what happens in between, once, for both:
//! route, guard, forward, relay. Framing is always made anew and hop-by-hop fields end here.

mod answered;
pub mod body;
mod date;
pub(crate) mod exchange;
pub(crate) mod forwarding;
mod grpc;
pub mod h1;
pub mod h2;
mod h2_blocks;
mod h2_floods;
pub(crate) mod h2_frames;
mod h2_io;
mod h2_message;
mod h2_outbox;
pub(crate) mod ledger;
pub mod refusal;
mod relay;
mod replay;
pub(crate) mod scratch;
pub(crate) mod sides;
mod upstream_h1;
pub(crate) mod upstream_h2;

pub use forwarding::{TrailerRule, may_be_trusted};
