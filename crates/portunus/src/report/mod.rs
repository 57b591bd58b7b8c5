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

mod clients;
mod count;
mod diagnostics;
mod exposition;
mod keyless;
mod keyholder;
mod line;
mod metrics;
mod page;
mod process;
mod queue;
mod record;
mod reporter;
mod shadow;
mod slow;
mod summary;
mod validation;
mod worker;
mod writer;

pub use diagnostics::{Diagnostics, OncePerSecond};
pub use keyholder::{KeyOperation, KeyOutcome, KeyReport, KeyholderReporter};
pub use keyless::KeyCounts;
pub use line::MmproxyLine;
pub(crate) use line::civil;
pub use line::version_name;
pub use record::{ConnRecord, ContractRecord, Fault, FlowRecord, RequestRecord, TunnelRecord, Verdict};
pub use reporter::{Exposition, Reporter};
pub use shadow::ShadowKind;
pub use slow::CertificateExpiry;
pub use summary::render_summary;
pub use validation::{MemoryBound, ValidationMemory};
pub use worker::WorkerReport;
