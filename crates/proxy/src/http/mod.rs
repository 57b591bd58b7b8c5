//! HTTP on the client's connection: requests read and responses written, in each version's own form.
//!
//! What happens to a request in between is `exchange`, once for both.

pub mod h1;
pub mod h2;
pub mod h3;
mod streams;
mod upgraded;
