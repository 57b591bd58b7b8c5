//! What every comparison is reported: the program, how often and for how long, and where the results go.

use std::path::PathBuf;

/// Options that the comparisons share.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// The portunus program.
    #[arg(long, default_value = "target/release/portunus")]
    pub(crate) portunus: PathBuf,
    /// Rounds of each row.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Measured time of each round, seconds.
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Load before it, seconds.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) warm_up: f64,
    /// Where the results go.
    #[arg(long, default_value = "bench/results")]
    pub(crate) out: PathBuf,
    /// Name the rows and end.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print configurations, and what else is given, and end.
    #[arg(long)]
    pub(crate) configs: bool,
}
