//! One record per request and per connection: log line, metrics, per-client totals. Nobody else formats traffic.
//!
//! ```text
//!   worker thread                                  writer thread            admin thread
//!   RequestRecord ─→ WorkerReport ─→ line buffer ─→ Queue ─→ file, stdout, journald, syslog
//!                        └─→ WorkerShared (counters, client table) ←─ sums ─ Reporter::metrics
//! ```
//!
//! Absent on purpose: the data path takes no lock it could wait for, writes no file, and asks for no memory once it has seen its labels.
//! A log that cannot be written never slows traffic; the lines it costs are counted to the last one.
#![forbid(unsafe_code)]

pub mod reference;
mod reporter;
mod snapshot;
mod decisions;
mod diagnostics;
mod metrics;
mod shared;
mod process;
mod upstreams;
mod slow;
mod keyless;
mod exporter;
mod worker;
mod exemplars;
mod recent_errors;
mod span;
mod form;
mod key_cells;
mod key_server;
mod line;
mod rules;
mod redact;
mod page;
mod record;
mod trace;
mod shadow;
mod exposition;
mod validation;
mod writer;
mod queue;
mod target;
mod remote;
mod dial;
mod once_per_second;
mod clients;
mod count;
mod drawn;
mod logged;
mod lock;

pub use decisions::Decisions;
pub use diagnostics::{Diagnostics, end_level, level, set_level, set_level_for};
pub use exporter::Export;
pub use exposition::Exposition;
pub use key_server::{KeyReport, KeyServerReporter};
pub use keyless::KeyCounts;
pub use line::MmproxyLine;
pub use line::civil;
pub use line::key_type_name;
pub use line::version_name;
pub use logged::{Logged, LoggedRequest, MAX_LINE_BYTES, read_line};
pub use once_per_second::OncePerSecond;
pub use page::Metric;
pub use recent_errors::RecentError;
pub use record::{
    AddedFields, ConnRecord, ContractRecord, Decision, FlowRecord, KeyOperation, KeyOutcome, RequestRecord,
    TunnelRecord, WouldReject,
};
pub use remote::JOURNAL_SOCKET;
pub use reporter::Reporter;
pub use shadow::ShadowKind;
pub use slow::{CertificateExpiry, EnrolmentStanding, FleetStanding, RateStoreTotals};
pub use snapshot::{ByClass, KeyServerTotals, Latency, ListenerTotals, Negotiated, Reloads, ServerTotals, Snapshot};
pub use target::open_file;
pub use trace::{Ended, Trace};
pub use upstreams::{ServerView, UpstreamView, Views};
pub use validation::{MemoryBound, ValidationMemory};
pub use worker::WorkerReport;
