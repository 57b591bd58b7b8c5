//! Tasks of the main thread, off the data path: names resolved and health checked, documents and key sets fetched, switches and rates looked after.

mod health;
pub mod documents;
pub mod key_sets;
pub mod rates;
pub mod switches;
pub mod tickets;
pub mod upkeep;
mod schedule;
