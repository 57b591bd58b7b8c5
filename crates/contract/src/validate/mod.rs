//! Validating messages: what a validator is given, what it finds, and the validators of requests, responses and bodies.

mod body;
pub mod code;
mod content_type;
mod findings;
mod form;
mod markup;
mod multipart;
mod parameters;
mod readers;
mod request;
mod response;
mod scratch;
mod sequence;
mod value;
mod whole;

pub use crate::message::{FieldSource, Framing, Part, RequestParts, ResponseParts, shown};
pub use body::{BodyPlan, BodyValidator, Hold};
pub use findings::{Enough, Findings, MAX_SHADOWS, MAX_VIOLATIONS, Shadow, Violation, Where};
pub use request::is_everyday_field;
pub use scratch::Scratch;

use crate::contract::Matched;
use crate::openapi::PathValues;

impl<'c> Matched<'c> {
    /// Validates the head of a request, and says how to validate its body. `values` come from [`crate::Contract::find`].
    ///
    /// # Errors
    /// [`Enough`] once as many violations are found as are wanted; they are in `findings`.
    pub fn validate_request<'s>(
        self,
        values: &PathValues,
        parts: &RequestParts<'_>,
        scratch: &'s mut Scratch,
        findings: &mut Findings,
    ) -> Result<BodyPlan<'s>, Enough>
    where
        'c: 's,
    {
        request::validate(self, values, parts, scratch, findings)
    }

    /// Validates the head of a response, and says how to validate its body.
    ///
    /// # Errors
    /// [`Enough`] once as many violations are found as are wanted; they are in `findings`.
    pub fn validate_response<'s>(
        self,
        parts: &ResponseParts<'_>,
        scratch: &'s mut Scratch,
        findings: &mut Findings,
    ) -> Result<BodyPlan<'s>, Enough>
    where
        'c: 's,
    {
        response::validate(self, parts, scratch, findings)
    }
}
