//! `bench keyless`: what keys on another machine cost. The edge half: full handshakes through an edge and a key server, against the same with local keys.

mod edge;
mod site;

pub(crate) use edge::{Options, run};
