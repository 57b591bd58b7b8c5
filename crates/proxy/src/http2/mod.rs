//! The frames of an HTTP/2 connection, towards clients and upstreams: looked at before the `h2` crate gets them.
//!
//! `io` is the connection's bytes, `frames` and `blocks` what is read of them, `floods` the account of what a client has the connection do for
//! nothing, and `outbox` what streams have handed over and the socket has not taken.

pub mod io;
pub mod outbox;
pub mod windows;
pub mod frames;
pub mod blocks;
pub mod floods;
