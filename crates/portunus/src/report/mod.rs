//! One record per request and per connection: log line, metrics, per-client totals. Nobody else formats traffic.

mod record;

pub use record::{ConnRecord, Fault, Reporter, RequestRecord, WorkerReport};
