//! What becomes of a request, and why, without serving it: a dry run. The head goes through the parser, the client through its rules, the ClientHello of a
//! current browser through the choice of a certificate, and the request through `exchange::run`, up to where it would leave.
//!
//! Owns no decision. What only shows while serving (rates, what services say, which server is free) is said to be unknown. Opens no connection.

mod kept;
mod listener;
mod question;
mod view;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use config::{Config, LogConfig, Service};
use net::chunk::CHUNK_BYTES;
use telemetry::Reporter;
use tokio::runtime::{LocalOptions, LocalRuntime};
use wire::http::http1::{Parsed, parse_request};
use wire::http::{Fields, HeadLimits, RequestHead};

use crate::admission::Admission;
use crate::connection::Conn;
use crate::exchange::{self, Exchange};
use crate::generation::{BuildError, Generation};
use crate::message::context::{Aborted, Context};
use crate::message::dry_run::DryRun;
use crate::message::forwarding::remove_nominated;
use crate::message::ledger::OpenRequest;
use crate::message::rejection::Rejection;
use crate::message::scratch;
use crate::message::sides::Piece;
use crate::worker::{Shared, Worker};
use kept::Kept;

pub use crate::message::dry_run::{Check, Outcome};
pub use question::{Question, Url};
pub use view::{
    ContractView, Explanation, GroupView, ListenerView, PolicyView, ResponseView, RouteView, RoutesView, Server,
    TlsView, TunnelView, UpstreamView,
};

/// How long session tickets would live, if any were made.
const NO_ROTATION: Duration = Duration::from_secs(3600);

/// Explains requests under one configuration.
pub struct Explainer {
    worker: Rc<Worker>,
    runtime: LocalRuntime,
}

impl Explainer {
    /// Reads everything that a configuration names, as a start does.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn new(config: Config) -> Result<Explainer, Vec<String>> {
        let generation = Generation::build(Arc::new(config), None).map_err(|BuildError { problems, .. }| problems)?;
        let failed = |what: &str, error: &dyn std::fmt::Display| vec![format!("{what}: {error}")];
        let quiet = LogConfig { access: None, level: generation.config.log.level.clone() };
        let reporter = Reporter::start(&quiet, 1).map_err(|error| failed("reporting", &error))?;
        reporter.validation_memory().allow(generation.config.limits.max_validation_memory_bytes);
        let tickets = Arc::new(tls::TicketKeys::new(NO_ROTATION));
        let unusable = "TLS cannot be set up";
        let acceptor = Arc::new(tls::Acceptor::new(tickets).map_err(|error| failed(unusable, &error))?);
        let quic_secrets = quic::Secrets::random().map_err(|error| failed(unusable, &error))?;
        let shared = Arc::new(Shared {
            generation: Arc::new(ArcSwap::from_pointee(generation)),
            acceptor,
            quic_secrets,
            admission: Arc::new(Admission::new(u64::MAX)),
            hops: Arc::default(),
            flows: AtomicUsize::new(0),
            workers_up: AtomicUsize::new(0),
            listening: AtomicUsize::new(0),
            beats: Box::default(),
            validation_memory: reporter.validation_memory(),
            encoder_memory: AtomicUsize::new(0),
            window_memory: Arc::default(),
            reporter,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.map_err(|error| failed("a runtime cannot be made", &error))?;
        Ok(Explainer { worker: Worker::new(&shared, 0), runtime })
    }

    /// The configuration.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.worker.pin().config)
    }

    /// What becomes of a request.
    ///
    /// # Errors
    /// Nobody knows which listener it comes to; says what to add.
    pub fn explain(&self, question: &Question) -> Result<Explanation, String> {
        let generation = self.worker.pin();
        let (listener, view) = listener::choose(&generation, question)?;
        let client = Some(SocketAddr::new(question.client, 0));
        let accepted_at = (SystemTime::now(), Instant::now());
        let mut conn = Conn {
            local_port: question.url.port,
            ..Conn::new(Arc::clone(listener), client, view.bound_port, accepted_at)
        };
        let mut explanation = Explanation { listener: view, ..Explanation::default() };
        if let Service::Tunnel(_) = listener.service {
            let tunnel = view::tunnel(&generation, listener, question);
            tunnel.into_iter().for_each(|(tunnel, policies)| {
                (explanation.tunnel, explanation.policies) = (Some(tunnel), policies);
            });
        }
        if !explanation.tunnel.as_ref().is_some_and(|tunnel| tunnel.passthrough) {
            explanation.tls = listener::tls(&generation, &mut conn, question);
        }
        let is_broken = explanation.tls.as_ref().is_some_and(|tls| tls.rejected.is_some());
        if explanation.tunnel.is_some() || is_broken {
            return Ok(explanation);
        }
        self.runtime.block_on(self.request(&generation, &conn, question, &mut explanation));
        Ok(explanation)
    }

    /// The request itself.
    async fn request(&self, generation: &Generation, conn: &Conn, question: &Question, explanation: &mut Explanation) {
        let mut parts = scratch::take();
        let mut open = OpenRequest::new(&mut parts, conn, &self.worker);
        // One id for all, so that two explanations of a request are the same.
        open.ledger.request_id = [b'0'; 32];
        open.ledger.dry_run = Some(Box::new(DryRun { is_partial: question.is_partial, ..DryRun::default() }));
        let mut sink = Kept::default();
        if let Err(rejection) = read(generation, conn, &question.head, &mut open.parts.request) {
            open.ledger.rejected(&rejection);
            explanation.response = view::rejected(&rejection, &open.ledger);
            open.end();
            return;
        }
        let sent = names(&open.parts.request.fields);
        remove_nominated(&mut open.parts.request.fields);
        let context = Context::of_read(&self.worker, conn, generation, &mut open.parts.request);
        let left = names(&open.parts.request.fields);
        explanation.removed = sent.into_iter().filter(|name| !left.contains(name)).collect();
        let scratch::Parts { request, response, timers } = &mut *open.parts;
        let (head, mut body) = (&*request, Piece::new(&question.body));
        let ledger = &mut open.ledger;
        let served =
            exchange::run(Exchange { context, head, response, body: &mut body, sink: &mut sink, ledger, timers });
        let is_aborted = matches!(Box::pin(served).await, Err(Aborted));
        view::fill(explanation, context, head, (&sink, &open.ledger), is_aborted);
        open.end();
        scratch::give(parts);
    }
}

/// Reads a head as it is read from a connection of HTTP/1.
fn read(generation: &Generation, conn: &Conn, bytes: &[u8], head: &mut RequestHead) -> Result<(), Rejection> {
    let limits = generation.config.limits_at(&conn.listener.name);
    let limits = HeadLimits {
        head_bytes: limits.max_head_bytes.min(CHUNK_BYTES),
        request_line_bytes: limits.max_request_line_bytes,
        fields: limits.max_headers,
    };
    match parse_request(bytes, &limits, head)? {
        Parsed::Complete { .. } => Ok(()),
        // A connection has no room for more.
        Parsed::Partial => Err(Rejection::of(reason::Reason::RequestHeadTooLarge)),
    }
}

/// Names of fields, in lower case.
fn names(fields: &Fields) -> Vec<String> {
    fields.iter().map(|(name, _)| String::from_utf8_lossy(name).to_ascii_lowercase()).collect()
}
