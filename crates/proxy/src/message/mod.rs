//! What is shared by those who serve a request: its context, its body, its response, its rejection, and the notes taken on it.

pub mod context;
pub mod ledger;
pub mod contract_note;
pub mod h2;
pub mod h3_answer;
pub mod h3;
pub mod on_stream;
pub mod received;
pub mod opening;
pub mod sides;
pub mod body;
pub mod dry_run;
mod host_label;
pub mod forwarding;
pub mod rewrites;
pub mod rejection;
pub mod grpc;
pub mod encoder;
pub mod scratch;
pub mod date;
