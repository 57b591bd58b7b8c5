//! A request before its contract: operation, head, tokens, body, in that order, each before anything of it goes on. Its lists have spoken.
//!
//! Under `block` the body is held until the decision, unless the document says that nobody looks into it: then it passes while its length is
//! validated. Under `log` nothing waits. What was found goes into the record, and what no document declares to the list of shadows.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use config::{ContractConfig, Mode};
use contract::openapi::{Demand, PathValues, Requirement};
use contract::validate::{BodyPlan, FieldSource, Findings, Framing, Hold, Part, RequestParts, Violation, Where, code};
use contract::{Found, Matched};
use reason::Reason;
use telemetry::ShadowKind;
use wire::http::fields::is_token;
use wire::http::readings::{Patterns, is_void};
use wire::http::{BodyFraming, Fields, Method, RequestHead, ResponseHead};

use crate::auth::{Grant, Introspection, Verifier, introspection, lookups, token};
use crate::contracts::{ActiveContract, Rule, verifies_token};
use crate::guard::body::{GuardedBody, HoldError};
use crate::guard::validation::{ScratchSpace, Side, Validation, caught, panicked, rejection};
use crate::guard::{Admitted, Grounds, Under, as_forwarded, fits, graphql};
use crate::message::body::BodyError;
use crate::message::context::{Context, Failure, client_failed};
use crate::message::contract_note::ContractNote;
use crate::message::ledger::Ledger;
use crate::message::rejection::{Rejection, Reported};
use crate::message::scratch::Timers;
use crate::message::sides::{MessageBody, ResponseSink, while_wanted};
use crate::own_request::{self, Asked as OwnRequest};
use crate::route::{CompiledRoute, Params, readings};

/// Fields as a validator visits them.
pub(super) struct Visited<'f>(pub(super) &'f Fields);

impl FieldSource for Visited<'_> {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.0.iter().for_each(|(name, value)| visit(name, value));
    }
}

/// A routed request that asks for admission under a contract.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// Where it comes from.
    pub context: Context<'a>,
    /// Its head.
    pub head: &'a RequestHead,
    /// Its route.
    pub route: &'a CompiledRoute,
    /// The parameters of its path.
    pub params: Params,
    /// The contract.
    pub active: &'a Arc<ActiveContract>,
    /// Whether the request is here, or another proxy holds it.
    pub origin: Origin,
}

/// Who holds a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This program, which forwards it.
    Own,
    /// Another proxy, which says what it is and forwards it as it came. What this connection shows of a client is that proxy's.
    Relayed {
        /// Whether its body is shown, too.
        shows_body: bool,
    },
}

/// What is asked of the exchange while a request is validated.
pub struct ExchangeParts<'r, A> {
    /// Where interim responses go.
    pub sink: &'r mut A,
    /// The head of such a response, to be written into.
    pub interim: &'r mut ResponseHead,
    /// What becomes of the request.
    pub ledger: &'r mut Ledger,
    /// Timers.
    pub timers: &'r mut Timers,
}

/// Validates a request by its contract, its body included.
///
/// # Errors
/// A rejection, or the client is gone.
pub async fn admit_under<'a: 'b, 'b, B: MessageBody, A: ResponseSink>(
    candidate: Candidate<'a>,
    body: &mut GuardedBody<'b, B>,
    scratch: &'b mut ScratchSpace,
    exchange: &mut ExchangeParts<'_, A>,
) -> Result<Admitted<'a>, Failure> {
    let Candidate { head, route, active, .. } = candidate;
    if active.awaits_document {
        return Err(Rejection::of(Reason::ContractDocumentMissing).into());
    }
    let method = active.contract.method_of(head.method.as_str(), head.path());
    let found = active.contract.find(method, head.path());
    let hidden = candidate.hidden_operation(method, &found);
    let (operation, values) = match found {
        Found::Operation(operation, values) => (operation, values),
        other => {
            let admitted = candidate.unknown(&other, exchange.ledger)?;
            let is_validated = hidden.is_some_and(|rule| rule.request == Mode::Block);
            return if is_validated { Err(candidate.ambiguous().into()) } else { Ok(admitted) };
        }
    };
    let number = operation.operation.number();
    exchange.ledger.contract = Some(ContractNote::new(active, Some(number)));
    let Some(rule) = active.rule(number) else { return Err(Rejection::of(Reason::OperationRuleMissing).into()) };
    if hidden.is_some_and(|hidden| hidden.request == Mode::Block && rule.request == Mode::Off) {
        return Err(candidate.ambiguous().into());
    }
    if rule.request == Mode::Off {
        candidate.has_response_rules(operation, rule, exchange.ledger)?;
        fits(head, route.config.max_body(candidate.context.limits()))?;
        return Ok(candidate.admitted(Grounds::Off, Some(operation), rule.response, false));
    }
    let is_ambiguous = hidden.is_some() || candidate.loses_a_value(method, operation, &values);
    let mut asked = Asked { candidate, operation, rule, is_ambiguous, leaves_token: false };
    candidate.has_response_rules(operation, rule, exchange.ledger)?;
    if let Some(dry_run) = &mut exchange.ledger.dry_run {
        if dry_run.is_partial {
            return Ok(candidate.admitted(Grounds::Off, Some(operation), rule.response, false));
        }
        asked.leaves_token = asked.shows_token_of_others();
        dry_run.leaves_token = asked.leaves_token;
    }
    let looked_up = match active.verifier.as_ref().and_then(|verifier| verifier.asked()) {
        Some(server) if !asked.leaves_token => Box::pin(asked.look_up(server)).await,
        _ => None,
    };
    let (validation, holds) = asked.validate_head(&values, looked_up, scratch, exchange.ledger)?;
    if body.is_done() {
        return asked.decision(validation, false, exchange.ledger);
    }
    if asked.blocks() && holds {
        return asked.hold(validation, body, exchange).await;
    }
    let reason = if asked.blocks() { Grounds::Validated } else { Grounds::Logged };
    body.watch(validation, asked.blocks());
    Ok(candidate.admitted(reason, Some(operation), rule.response, false))
}

/// A request whose operation is known.
#[derive(Clone, Copy)]
struct Asked<'a> {
    candidate: Candidate<'a>,
    operation: Matched<'a>,
    rule: &'a Rule,
    /// Another server may read its path as that of another operation.
    is_ambiguous: bool,
    /// In a dry run: its token is one that nobody here can say anything about.
    leaves_token: bool,
}

impl<'a> Asked<'a> {
    fn blocks(&self) -> bool {
        self.rule.request == Mode::Block
    }

    /// Validates the head, and says what is to validate the body and whether it must be held.
    fn validate_head<'b>(
        &self,
        values: &PathValues,
        looked_up: Option<LookedUp>,
        scratch: &'b mut ScratchSpace,
        ledger: &mut Ledger,
    ) -> Result<(Validation<'b>, bool), Failure>
    where
        'a: 'b,
    {
        let Candidate { context, head, route, active, .. } = self.candidate;
        let max_body_bytes = self.rule.max_body_bytes.min(route.config.max_body(context.limits()));
        let mut findings = if self.blocks() { Findings::first() } else { Findings::all() };
        if self.is_ambiguous {
            let what = "may be read as the path of another operation";
            let _ = findings.add(Violation::new(Reason::AmbiguousPath.code(), Where::of(Part::Path), what));
        }
        let rendered = |noted| as_forwarded::fields(&self.candidate, self.operation.operation, noted);
        let is_rendered = self.rule.reads_rewritten && self.candidate.origin == Origin::Own;
        let (as_sent, as_forwarded) = (Visited(&head.fields), is_rendered.then(|| rendered(ledger.noted())));
        let parts = self.candidate.parts(as_forwarded.as_ref().map_or(&as_sent as &dyn FieldSource, |fields| fields));
        *scratch = ScratchSpace::take();
        let Some(space) = scratch.as_mut() else { return Err(Rejection::of(Reason::ValidationBuffersMissing).into()) };
        let planned = caught(|| self.operation.validate_request(values, &parts, space, &mut findings));
        if planned.is_none() {
            let _ = findings.add(panicked(Part::Header));
        }
        if findings.violations().is_empty() {
            graphql::check_head(active, self.operation, head, &mut findings);
        }
        let challenged = self.validate_tokens(&parts, looked_up, &mut findings);
        if matches!(head.framing, BodyFraming::Length(length) if length > max_body_bytes) {
            let what = format!("is larger than {max_body_bytes} bytes");
            let _ = findings.add(Violation::new(code::BODY_TOO_LARGE, Where::of(Part::Body), what));
        }
        if self.blocks()
            && let Some(first) = findings.violations().first()
        {
            let mut rejected = rejection(active, Side::Request, first);
            challenge(&mut rejected, challenged);
            self.found(&findings, ledger);
            return Err(rejected.into());
        }
        let plan = planned.and_then(Result::ok);
        let holds = plan.as_ref().is_some_and(|plan| plan.hold == Hold::UntilDecision);
        let validator = plan.map(|BodyPlan { mut validator, .. }| {
            validator.set_limit(max_body_bytes);
            if graphql::reads_body(active, self.operation) {
                validator.keep_text();
            }
            validator
        });
        Ok((Validation::new(active, Side::Request, validator, findings), holds))
    }

    /// Reads the whole body and gives the decision.
    async fn hold<'b, B: MessageBody, A: ResponseSink>(
        &self,
        mut validation: Validation<'b>,
        body: &mut GuardedBody<'b, B>,
        exchange: &mut ExchangeParts<'_, A>,
    ) -> Result<Admitted<'a>, Failure> {
        let Candidate { head, .. } = self.candidate;
        let has_continued = head.expects_continue && exchange.sink.takes_interim();
        if has_continued {
            exchange.interim.clear();
            exchange.interim.status = 100;
            let sent = exchange.sink.interim(exchange.interim).await;
            sent.map_err(|broken| client_failed(&broken, exchange.ledger))?;
        }
        let pace = self.candidate.route.config.pace(self.candidate.context.limits());
        let received = Cell::new(0);
        let is_throttled = body.is_throttled();
        let deadline = &mut exchange.timers.upload;
        let held = if is_throttled {
            // While it waits for its bandwidth, nobody reads from the client and would learn that it has left.
            while_wanted(Box::pin(body.hold(&mut validation, pace, &received, deadline)), exchange.sink).await
        } else {
            Ok(body.hold(&mut validation, pace, &received, deadline).await)
        };
        exchange.ledger.received.set(received.get());
        let held = held.map_err(|why| {
            exchange.ledger.blame(why);
            Failure::Aborted
        })?;
        let error = match held {
            Ok(()) => return self.decision(validation, has_continued, exchange.ledger),
            Err(error) => error,
        };
        if matches!(error, HoldError::Validated(_)) {
            self.found(&validation.findings, exchange.ledger);
        }
        let reason =
            if let HoldError::Body(BodyError::Void(reason)) = error { reason } else { Reason::RequestTruncated };
        match error.into_rejection() {
            Some(rejected) => Err(rejected.into()),
            None => {
                exchange.ledger.blame(reason);
                Err(Failure::Aborted)
            }
        }
    }

    /// The decision on a request of which everything is here.
    fn decision(
        &self,
        mut validation: Validation<'_>,
        has_continued: bool,
        ledger: &mut Ledger,
    ) -> Result<Admitted<'a>, Failure> {
        let _ = validation.finish();
        let findings = validation.findings;
        self.found(&findings, ledger);
        let reason = match findings.violations().first() {
            Some(first) if self.blocks() => {
                return Err(rejection(self.candidate.active, Side::Request, first).into());
            }
            Some(_) => Grounds::Logged,
            None => Grounds::Validated,
        };
        Ok(self.candidate.admitted(reason, Some(self.operation), self.rule.response, has_continued))
    }

    fn found(&self, findings: &Findings, ledger: &mut Ledger) {
        let Candidate { context, active, .. } = self.candidate;
        note(context, active, self.rule, Side::Request, findings, self.blocks(), ledger);
    }

    /// The bearer token that the request shows and that is to be verified. All schemes of tokens read the one Authorization field.
    fn token<'p>(&self, parts: &RequestParts<'p>) -> Option<&'p [u8]> {
        let requirements = self.operation.operation.security();
        let is_verified = |demand: &&Demand| verifies_token(&self.candidate.active.config, &demand.scheme);
        let mut demands = requirements.iter().flat_map(|requirement| &requirement.demands).filter(is_verified);
        demands.find_map(|demand| demand.scheme.credential(parts))
    }

    /// Whether it shows a token, and only others know whether that is good.
    fn shows_token_of_others(&self) -> bool {
        let verifier = self.candidate.active.verifier.as_ref();
        let fields = Visited(&self.candidate.head.fields);
        verifier.is_some_and(|verifier| verifier.who_knows().is_some())
            && self.token(&self.candidate.parts(&fields)).is_some()
    }

    /// Has the token looked up that the request shows, as the client sent it; none if it shows none, or under `log` if nothing is known of it yet.
    async fn look_up(&self, server: &Arc<Introspection>) -> Option<LookedUp> {
        let fields = Visited(&self.candidate.head.fields);
        let token = without_bearer(self.token(&self.candidate.parts(&fields))?);
        if !self.blocks() {
            return lookups::look_up_for_later(server, token, ask_about);
        }
        Some(look_up(server, token, self.candidate.context).await)
    }

    /// Verifies the bearer token that a request shows, once and whatever alternative it satisfies, since the upstream would believe it; then one
    /// alternative whose credentials are all there and whose scopes it grants is enough. Gives why it was rejected.
    fn validate_tokens(
        &self,
        parts: &RequestParts<'_>,
        looked_up: Option<LookedUp>,
        findings: &mut Findings,
    ) -> Option<token::Rejected> {
        let active = self.candidate.active;
        active.config.tokens.as_ref()?;
        let verifier = active.verifier.as_deref();
        let Some(token) = self.token(parts).filter(|_| !self.leaves_token_in_query(parts)) else {
            let rejected = token::rejected(Reason::JwtMalformed);
            return self.may_hold_token(parts).then(|| report_token(rejected, findings));
        };
        if self.leaves_token {
            return None;
        }
        let granted = match (verifier.and_then(Verifier::signed), looked_up) {
            (Some(rule), _) => {
                rule.check(without_bearer(token), SystemTime::now()).map(|claims| Grant::Claims(Box::new(claims)))
            }
            (None, Some(outcome)) => outcome.map(Grant::Said),
            // Nobody waits for the server; nothing is known of the token yet.
            (None, None) if !self.blocks() => return None,
            // A credential that was not there when tokens were looked up.
            (None, None) => Err(token::rejected(Reason::IntrospectionFailed)),
        };
        let requirements = self.operation.operation.security();
        let rejected = match granted {
            Err(rejected) => rejected,
            Ok(granted) => {
                let mut shown = requirements.iter().filter(|one| one.credentials(parts).is_some()).peekable();
                shown.peek()?;
                let is_verified = |demand: &&Demand| verifies_token(&active.config, &demand.scheme);
                let grants = |one: &Requirement| {
                    one.demands.iter().filter(is_verified).all(|demand| granted.grants(&demand.scopes))
                };
                if shown.any(grants) {
                    return None;
                }
                token::Rejected { reason: Reason::JwtScope, insufficient: true }
            }
        };
        Some(report_token(rejected, findings))
    }

    /// A token in the query is looked at by nobody here, and by some upstreams (RFC 6750 §2.3).
    fn leaves_token_in_query(&self, parts: &RequestParts<'_>) -> bool {
        parts.query.is_some_and(|query| self.operation.operation.leaves_token_in_query(query))
    }

    /// Whether somebody may find a token to verify where [`token`](Self::token) finds none: in the query; in Authorization that is there twice, or names
    /// Bearer and is not written as RFC 6750 has it. Readers differ in what may stand around the name; so whatever no name may hold ends it here.
    fn may_hold_token(&self, parts: &RequestParts<'_>) -> bool {
        let requirements = self.operation.operation.security();
        let mut demands = requirements.iter().flat_map(|requirement| &requirement.demands);
        if !demands.any(|demand| verifies_token(&self.candidate.active.config, &demand.scheme)) {
            return false;
        }
        let (mut count, mut names_bearer) = (0, false);
        parts.fields.each(&mut |name, value| {
            if name.eq_ignore_ascii_case(b"authorization") {
                names_bearer |= value.split(|byte| *byte == b',').any(|credential| {
                    let mut words = credential.split(|byte| !is_token(&[*byte])).filter(|word| !word.is_empty());
                    words.next().is_some_and(|first| first.eq_ignore_ascii_case(b"bearer"))
                });
                count += 1;
            }
        });
        count > 1 || names_bearer || self.leaves_token_in_query(parts)
    }
}

fn report_token(rejected: token::Rejected, findings: &mut Findings) -> token::Rejected {
    let what = match rejected.reason.status() {
        503 => "the token cannot be verified now",
        _ => "the token is not accepted",
    };
    let _ = findings.add(Violation::new(rejected.reason.code(), Where::of(Part::Security), what));
    rejected
}

/// What an introspection server says of a token.
pub(super) async fn look_up(server: &Arc<Introspection>, token: &[u8], context: Context<'_>) -> LookedUp {
    let (report, host) = (&context.worker.report, &server.config.host);
    let waited = |time, result: Result<(), Reason>| {
        report.authentication("introspection", host, result.err().map_or("accepted", |reason| reason.code()), time);
    };
    lookups::look_up(server, token, ask_about, waited).await
}

/// Asks an introspection server about a token; the body of its response.
pub(super) async fn ask_about(server: Arc<Introspection>, token: Vec<u8>) -> Result<Vec<u8>, String> {
    let (fields, form) = (server.fields(), server.form(&token));
    let (host, target) = (server.config.host.as_str(), server.config.target.as_str());
    let asked = OwnRequest { method: &Method::Post, host, target, fields: &fields, body: Some(&form) };
    own_request::ask(&server.group, asked, introspection::MAX_RESPONSE_BYTES).await
}

/// What an introspection server says of a request's token.
pub(super) type LookedUp = Result<Rc<introspection::Granted>, token::Rejected>;

/// What follows `Bearer` in a credential that is a whole Authorization field, as API keys are; else all of it.
fn without_bearer(credential: &[u8]) -> &[u8] {
    match credential.split_at_checked(7) {
        Some((scheme, token)) if scheme.trim_ascii_end().eq_ignore_ascii_case(b"bearer") => token.trim_ascii(),
        _ => credential,
    }
}

fn challenge(rejection: &mut Rejection, challenged: Option<token::Rejected>) {
    let Some(reported) = rejection.reported_mut() else { return };
    reported.challenge = Some(match challenged {
        Some(_) => "Bearer error=\"invalid_token\"",
        None => "Bearer",
    });
    if challenged.is_some_and(|rejected| rejected.insufficient) && rejection.status == 401 {
        rejection.status = 403;
    }
    // Nobody could say whether the token is good.
    if let Some(reason) = challenged.map(|rejected| rejected.reason).filter(|reason| reason.status() == 503)
        && rejection.status == 401
    {
        (rejection.status, rejection.fault) = (reason.status(), reason.side());
    }
}

impl<'a> Candidate<'a> {
    /// Rejects a request whose response would be rejected whatever it is, since nobody can validate it: it is not to be executed for that.
    fn has_response_rules(&self, operation: Matched<'_>, rule: &Rule, ledger: &mut Ledger) -> Result<(), Failure> {
        match operation.operation.unsupported_response() {
            Some(why) if rule.response == Mode::Block => {
                let violation = Violation::new(code::OPERATION_UNSUPPORTED, Where::of(Part::Operation), why);
                let rejected = rejection(self.active, Side::Request, &violation);
                let mut findings = Findings::first();
                let _ = findings.add(violation);
                note(self.context, self.active, rule, Side::Request, &findings, true, ledger);
                Err(rejected.into())
            }
            _ => Ok(()),
        }
    }

    /// The paths that a server may read this one as, where the route does not say that its upstream reads paths as they are.
    fn other_readings(&self) -> Vec<Vec<u8>> {
        let patterns = Patterns { expressions: false, escapes: self.active.contract.has_escapes() };
        if self.route.config.options.allow_ambiguous_path { Vec::new() } else { readings(self.head, patterns) }
    }

    /// The rule of another operation that the path is of where a server decodes it, makes slashes one or drops `;` parameters. It may demand what the one
    /// that the path is of as written does not.
    fn hidden_operation(&self, method: &str, found: &Found<'a>) -> Option<&'a Rule> {
        let own = if let Found::Operation(own, _) = found { Some(own.operation.number()) } else { None };
        let other = self.other_readings().into_iter().find_map(|reading| {
            let Found::Operation(other, _) = self.active.contract.find_decoded(method, &reading) else { return None };
            Some(other.operation.number()).filter(|other| Some(*other) != own)
        });
        self.active.rule(other?)
    }

    /// Whether a value of the path is empty where a server drops `;` parameters, so that the path is none of this operation there.
    fn loses_a_value(&self, method: &str, own: Matched<'_>, values: &PathValues) -> bool {
        let path = self.head.path();
        let is_elsewhere = |reading: &Vec<u8>| match self.active.contract.find_decoded(method, reading) {
            Found::Operation(other, _) => other.operation.number() != own.operation.number(),
            _ => true,
        };
        own.operation.plain_path_values(values, path).any(is_void) && self.other_readings().iter().any(is_elsewhere)
    }

    /// The rejection of a path that may be that of an operation which is validated, while the one that it is of as written is not.
    fn ambiguous(&self) -> Rejection {
        let (config, reason) = (&self.active.config, Reason::AmbiguousPath);
        let rejection = Rejection::with_status(reason, config.block_status.unwrap_or(reason.status()));
        rejection.telling(|details| details.reported = Some(reported_unknown(config, reason)))
    }

    fn admitted(
        &self,
        grounds: Grounds,
        operation: Option<Matched<'a>>,
        response: Mode,
        has_continued: bool,
    ) -> Admitted<'a> {
        let under = Under { active: self.active, operation, response, has_continued };
        Admitted { head: self.head, route: self.route, params: self.params, grounds, under: Some(under) }
    }

    fn parts<'p>(&self, fields: &'p dyn FieldSource) -> RequestParts<'p>
    where
        'a: 'p,
    {
        RequestParts {
            path: self.head.path(),
            query: self.head.query().strip_prefix(b"?"),
            fields,
            framing: match self.head.framing {
                _ if self.origin == (Origin::Relayed { shows_body: false }) => Framing::Unseen,
                BodyFraming::None | BodyFraming::Length(0) => Framing::Empty,
                BodyFraming::Length(length) => Framing::Length(length),
                BodyFraming::Chunked | BodyFraming::UntilClose => Framing::Unknown,
            },
            has_client_certificate: self.origin == Origin::Own
                && self.context.conn.tls.as_ref().is_some_and(|tls| tls.info.peer.is_some()),
        }
    }

    /// What the document does not have.
    fn unknown(&self, found: &Found<'a>, ledger: &mut Ledger) -> Result<Admitted<'a>, Failure> {
        let config = &self.active.config;
        let (method, path) = (self.head.method.as_str(), String::from_utf8_lossy(self.head.path()));
        let (kind, reason, allow) = match found {
            Found::UnknownMethod { allow } => (ShadowKind::Method, Reason::MethodUndeclared, Some((*allow).to_owned())),
            _ => (ShadowKind::Path, Reason::PathUndeclared, None),
        };
        let note = ledger.contract.insert(ContractNote::new(self.active, None));
        let is_allowed = config.allow_options && kind == ShadowKind::Method && self.head.method == Method::Options;
        if !is_allowed && !config.shadow_exclude.paths.iter().any(|prefix| path.starts_with(prefix)) {
            self.context.worker.report.shadow(&self.active.name, kind, method, &path);
        }
        // What the document does not have cannot be validated on its way back either.
        let blocks = config.request == Mode::Block || config.response == Mode::Block;
        let is_silent = is_allowed || (!blocks && config.request == Mode::Off);
        if !is_silent {
            note.broken(
                "request",
                reason,
                || (format!("{method} {path}"), "is not in the document".to_owned()),
                1,
                blocks,
            );
        }
        if is_allowed || !blocks {
            fits(self.head, self.route.config.max_body(self.context.limits()))?;
            return Ok(self.admitted(Grounds::NoOperation, None, Mode::Off, false));
        }
        let allow = allow.filter(|_| config.block_status.is_none());
        let rejection = Rejection::with_status(reason, config.block_status.unwrap_or(reason.status()));
        let reported = Some(reported_unknown(config, reason));
        Err(rejection.telling(|details| (details.allow, details.reported) = (allow, reported)).into())
    }
}

fn reported_unknown(config: &ContractConfig, reason: Reason) -> Reported {
    Reported {
        detail: config.detail,
        part: "",
        name: String::new(),
        pointer: String::new(),
        what: String::new(),
        header: config.status_header.clone().map(|name| (name, format!("request:{}:request", reason.code()))),
        challenge: None,
        is_graphql: config.graphql.is_some(),
    }
}

/// Notes what a validator has found: for the record, and for the list of shadows.
pub(super) fn note(
    context: Context<'_>,
    active: &ActiveContract,
    rule: &Rule,
    side: Side,
    findings: &Findings,
    blocks: bool,
    ledger: &mut Ledger,
) {
    if let Some(note) = &mut ledger.contract {
        note.validated(side.as_str(), findings, blocks);
    }
    let report = &context.worker.report;
    let list = |part: Part, name: &str| {
        if !is_excluded(active, part, name) {
            // Of a body that nobody declared there is no name.
            report.shadow(&active.name, kind_of(part), &rule.label, if name.is_empty() { part.as_str() } else { name });
        }
    };
    findings.shadows().iter().for_each(|shadow| list(shadow.part, &shadow.name));
    for violation in findings.violations() {
        let is_undeclared = violation.code == code::PARAMETER_UNDECLARED
            || violation.code == code::BODY_UNDECLARED
            || violation.code == code::STATUS_UNDECLARED
            || violation.code.ends_with("unknown_field");
        if is_undeclared {
            let place = &violation.place;
            list(place.part, if place.name.is_empty() { &place.pointer } else { &place.name });
        }
    }
}

fn is_excluded(active: &ActiveContract, part: Part, name: &str) -> bool {
    part == Part::Status && active.config.shadow_exclude.statuses.iter().any(|status| status.to_string() == name)
}

fn kind_of(part: Part) -> ShadowKind {
    match part {
        Part::Status => ShadowKind::Status,
        Part::Body => ShadowKind::Field,
        _ => ShadowKind::Parameter,
    }
}

/// Notes what the validator of a body that was not held has found by the end of the exchange.
pub fn note_watched<B: MessageBody>(
    admitted: &Admitted<'_>,
    context: Context<'_>,
    body: &mut GuardedBody<'_, B>,
    ledger: &mut Ledger,
) {
    if !matches!(admitted.grounds(), Grounds::Validated | Grounds::Logged) {
        return;
    }
    let (Some(under), Some(validation)) = (admitted.under, body.watched()) else { return };
    let Some(rule) = under.operation.and_then(|operation| under.active.rule(operation.operation.number())) else {
        return;
    };
    note(context, under.active, rule, Side::Request, &validation.findings, rule.request == Mode::Block, ledger);
}
