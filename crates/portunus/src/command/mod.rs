//! What the command line does besides running: check, keystore, import.

pub mod keystore;
pub mod run;
