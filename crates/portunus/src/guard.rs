//! What stands between a routed request and its upstream. Sole maker of [`Admitted`].

use wire::http::{BodyFraming, Method, RequestHead};

use crate::http::refusal::Refusal;
use crate::route::{CompiledRoute, Params};

/// Why a request was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The route names no contract.
    NoContract,
}

/// Proof that a request may go to its upstream. Only [`admit`] makes one.
#[derive(Debug, Clone, Copy)]
pub struct Admitted<'a> {
    head: &'a RequestHead,
    route: &'a CompiledRoute,
    params: Params,
    reason: Reason,
}

impl<'a> Admitted<'a> {
    /// The request.
    pub fn head(&self) -> &'a RequestHead {
        self.head
    }

    /// Its route.
    pub fn route(&self) -> &'a CompiledRoute {
        self.route
    }

    /// The parameters of its path.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Why it was let through.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

/// Judges what no route can speak of: CONNECT has no path.
///
/// # Errors
/// 405 for CONNECT.
pub fn judge_method(head: &RequestHead) -> Result<(), Refusal> {
    if head.method == Method::Connect {
        return Err(Refusal { allow: Some(String::new()), ..Refusal::client(405, "method_never_allowed") });
    }
    Ok(())
}

/// Judges a routed request by what its head tells.
///
/// # Errors
/// 405 for methods that never pass, 413 for a body that says it is too long.
pub fn admit<'a>(head: &'a RequestHead, route: &'a CompiledRoute, params: Params) -> Result<Admitted<'a>, Refusal> {
    if matches!(head.method, Method::Connect | Method::Trace) {
        return Err(Refusal { allow: Some(String::new()), ..Refusal::client(405, "method_never_allowed") });
    }
    if matches!(head.framing, BodyFraming::Length(length) if length > route.config.max_body_bytes) {
        return Err(Refusal::client(413, "body_too_large"));
    }
    Ok(Admitted { head, route, params, reason: Reason::NoContract })
}
