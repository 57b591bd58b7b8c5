//! One record per request and per connection: log line, metrics, per-client totals. Nobody else formats traffic.

mod record;

pub use record::{ConnRecord, Fault, Reporter, RequestRecord, WorkerReport};
pub mod diagnostics {
    //! Diagnostic log.
    macro_rules! once_per_second { ($($arg:tt)*) => { tracing::warn!($($arg)*) } }
    pub(crate) use once_per_second;
}
