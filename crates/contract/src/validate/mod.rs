//! Validating messages: what a validator is given, what it finds, and the judges of requests, responses and bodies.

mod body;
pub mod code;
mod content_type;
mod findings;
mod message;
mod multipart;
mod parameters;
mod readers;
pub(crate) mod request;
pub(crate) mod response;
mod scratch;
mod value;

pub use body::{BodyPlan, BodyValidator, Hold};
pub use findings::{Enough, Findings, MAX_SHADOWS, MAX_VIOLATIONS, Part, Shadow, Violation, Where, shown};
pub use message::{FieldSource, Framing, RequestParts, ResponseParts};
pub(crate) use scratch::Rooms;
pub use scratch::Scratch;
pub(crate) use value::in_turns;
