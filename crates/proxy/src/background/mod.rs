//! Tasks of the main thread, off the data path: names resolved, directories asked and health checked, documents and key sets fetched, switches and rates looked after, rates shared with other nodes.

mod health;
pub mod discovery;
pub mod documents;
pub mod key_sets;
pub mod rate_store;
pub mod rates;
pub mod switches;
pub mod tickets;
pub mod upkeep;
mod schedule;
