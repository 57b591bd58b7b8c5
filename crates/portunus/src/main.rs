//! Arguments, config, signals, exit code.
fn main() {}
