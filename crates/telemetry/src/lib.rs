//! One record per request and per connection: log line, metrics, per-client totals. Nobody else formats traffic.
//!
//! ```text
//!   worker thread                                  writer thread            admin thread
//!   RequestRecord ─→ WorkerReport ─→ line buffer ─→ Queue ─→ file, stdout
//!                        └─→ WorkerShared (counters, client table) ←─ sums ─ Reporter::metrics
//! ```
//!
//! Absent on purpose: the data path takes no lock it could wait for, writes no file, and asks for no memory once it has seen its labels.
//! A log that cannot be written never slows traffic; the lines it costs are counted to the last one.
#![forbid(unsafe_code)]

pub mod reference;
mod metrics;
mod reporter;
mod summary;
mod process;
mod slow;
mod keyless;
mod worker;
mod key_server;
mod line;
mod page;
mod record;
mod shadow;
mod exposition;
mod diagnostics;
mod queue;
mod validation;
mod writer;
mod clients;
mod count;

pub use diagnostics::{Diagnostics, OncePerSecond};
pub use key_server::{KeyOperation, KeyOutcome, KeyReport, KeyServerReporter};
pub use keyless::KeyCounts;
pub use line::MmproxyLine;
pub use line::civil;
pub use line::version_name;
pub use page::Metric;
pub use record::{ConnRecord, ContractRecord, Decision, FlowRecord, RequestRecord, TunnelRecord};
pub use reporter::{Exposition, Reporter};
pub use shadow::ShadowKind;
pub use slow::CertificateExpiry;
pub use summary::render_summary;
pub use validation::{MemoryBound, ValidationMemory};
pub use worker::WorkerReport;
