//! What is noted of a dry run: a request that is decided on as any other and goes nowhere. Nobody is asked about it, and nothing counts it; what only
//! others could have said is noted as unknown and taken for good.

use std::net::IpAddr;
use std::sync::Arc;

use config::SendProxy;
use reason::Reason;
use wire::http::Method;

use crate::message::rejection::Rejection;
use crate::upstream::Group;

/// Notes of a dry run. Only a ledger that `explain` opens has some.
#[derive(Debug, Default)]
pub struct DryRun {
    /// Of the request only its line, its host and its client are known, as from a log: not what else its head or its body holds.
    pub is_partial: bool,
    /// Policies in the order in which they were asked.
    pub policies: Vec<PolicyNote>,
    /// The method of the request that a preflight announces, whose route it is decided by.
    pub announced: Option<Method>,
    /// Nobody here can say whether the token is good that the contract demands.
    pub leaves_token: bool,
    /// What would be sent.
    pub forwarded: Option<Forwarded>,
}

/// What a policy says.
#[derive(Debug)]
pub struct PolicyNote {
    /// Its name.
    pub name: String,
    /// It rejects nothing.
    pub logs_only: bool,
    /// What it looks at, in order, as far as it came.
    pub checks: Vec<Check>,
}

/// One thing that a policy looks at.
#[derive(Debug, Clone)]
pub struct Check {
    /// What it is: its key in the configuration.
    pub kind: &'static str,
    /// What it says.
    pub outcome: Outcome,
    /// More about it, where there is more to say.
    pub about: String,
}

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The request may pass.
    Passed,
    /// It may not: the status and why.
    Rejected(u16, Reason),
    /// Only what is counted, or somebody who is asked, can say.
    Unknown,
}

/// What would be sent to an upstream.
#[derive(Debug, Default)]
pub struct Forwarded {
    /// The upstreams that may get it, each with its weight; more than one where the weights decide.
    pub groups: Vec<(Arc<Group>, u32)>,
    /// The request line.
    pub line: String,
    /// The PROXY header that goes ahead of it, and whom it names.
    pub header: Option<(SendProxy, Option<IpAddr>)>,
    /// The client's own address, where the connection comes from it.
    pub source: Option<IpAddr>,
    /// The fields, in order. Where the server decides on one, it is that of the first server.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl DryRun {
    /// A policy is asked.
    pub fn begin_policy(&mut self, name: &str, logs_only: bool) {
        self.policies.push(PolicyNote { name: name.to_owned(), logs_only, checks: Vec::new() });
    }

    /// How much the policy that is asked has looked at so far.
    pub fn checks(&self) -> usize {
        self.policies.last().map_or(0, |policy| policy.checks.len())
    }

    /// The policy that is asked has looked at something.
    pub fn checked(&mut self, kind: &'static str, checked: Result<(), &Rejection>, about: impl Into<String>) {
        let outcome = match checked {
            Ok(()) => Outcome::Passed,
            Err(rejection) => Outcome::Rejected(rejection.status, rejection.reason),
        };
        self.note(kind, outcome, about.into());
    }

    /// What the policy that is asked looks at is not known here.
    pub fn unknown(&mut self, kind: &'static str, about: impl Into<String>) {
        self.note(kind, Outcome::Unknown, about.into());
    }

    fn note(&mut self, kind: &'static str, outcome: Outcome, about: String) {
        if let Some(policy) = self.policies.last_mut() {
            policy.checks.push(Check { kind, outcome, about });
        }
    }
}
