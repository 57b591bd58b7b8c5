//! Many edges that act as one: what they must agree on is in etcd, and none of them waits for it on the data path.
//!
//! ```text
//!   certificates.rs   one node orders certificates, all have them
//!   agent.rs      a node: follows, fetches, reports, drives
//!   store.rs      what is in etcd, under which keys, sealed        cache.rs   what is on the disk
//!   rollout.rs    who serves what, and what comes next             generation.rs   a configuration with all its files
//!   kept.rs, copy.rs   small values that all nodes share           tickets.rs     masters of session tickets
//!   orders.rs     what operators have set over the configuration
//!   threads.rs, lease.rs   what a node runs on, and how it says that it is there
//!   seal.rs       the key                                          etcd.rs, link.rs   calls of etcd's JSON gateway
//! ```
//!
//! Blocking, on threads of its own. Knows no listener, no request and no signal: it is given a folder to write into, and says what is there.
#![forbid(unsafe_code)]

pub mod certificates;
pub mod agent;
mod threads;
mod lease;
pub mod cache;
pub mod copy;
pub mod store;
pub mod rollout;
pub mod orders;
pub mod tickets;
pub mod generation;
pub mod kept;
pub mod seal;
pub mod etcd;
mod link;
