//! What the command line does besides running: check, keystore, import.

pub mod dev_ca;
pub mod keystore;
pub mod run;
