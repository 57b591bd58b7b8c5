//! What the admin side answers, by path.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use telemetry::Exposition;
use tokio::sync::{Mutex, Semaphore};

use super::admit::Admission;
use super::api::{Rejection, View};
use super::document::{self, Asked};
use super::seats::{Purpose, Sitting};
use super::{AdminState, JsonSource, api, dashboard, events};

const JSON: &str = "application/json";

/// On every response: nothing is sniffed, kept, framed or read by another origin.
const RESPONSE_FIELDS: [(HeaderName, &str); 4] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Where an upgrade may not be asked for.
const NO_UPGRADE: &str = "an upgrade is asked for on the Unix socket of the server";

/// What the pages share.
struct Pages {
    state: AdminState,
    /// Streams of events that may still begin.
    streams: Arc<Semaphore>,
    /// Reloads run one after the other.
    reloading: Mutex<()>,
}

pub(super) fn router(mut state: AdminState, admission: Admission) -> Router {
    let extra = std::mem::take(&mut state.extra);
    let index = index(&extra, state.api.is_some());
    let mut router = Router::new()
        .route("/", get(async || index))
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/config", get(async |pages: State<Arc<Pages>>| json((pages.state.config_json)())))
        .route("/clients", get(clients))
        .route("/reload", post(reload))
        .route("/upgrade", post(upgrade));
    for (path, source) in extra {
        let source = Arc::new(source);
        router = router.route(path, get(async move || json(source())));
    }
    if state.api.is_some() {
        let mut router_of_api = Router::new();
        for (name, view) in View::ALL {
            let show = async move |State(pages): State<Arc<Pages>>| shown(pages, view).await;
            router_of_api = router_of_api.route(&format!("/api/v1/{name}"), get(show));
        }
        for name in api::CHANGES {
            let change =
                async move |State(pages): State<Arc<Pages>>, request: Request| changed(pages, name, request).await;
            router_of_api = router_of_api.route(&format!("/api/v1/{name}"), post(change));
        }
        let document = get(async || json(document::DOCUMENT.to_owned()));
        router_of_api = router_of_api.route("/api/v1/reload", post(reload)).route("/api/v1/events", get(stream));
        router_of_api = router_of_api.route("/api/v1/openapi.json", document);
        router = router.merge(router_of_api.layer(middleware::from_fn(validate)));
        router = dashboard::add(router);
    }
    let streams = Arc::new(Semaphore::new(MAX_STREAMS));
    let pages = Arc::new(Pages { state, streams, reloading: Mutex::new(()) });
    router.with_state(pages).layer(middleware::from_fn_with_state(Arc::new(admission), admit))
}

/// Every page: method, path, what it is. Those of one role stand here, too.
pub const PAGES: &[(&str, &str, &str)] = &[
    ("GET", "/metrics", "metrics, OpenMetrics 1.0 or Prometheus text by `Accept`"),
    ("GET", "/healthz", "200 while the process runs"),
    ("GET", "/readyz", "200 while traffic is served, with what is amiss all the same; else 503 with the reason"),
    ("GET", "/config", "configuration in use, secrets redacted"),
    ("GET", "/started", "configuration that the process was started with, secrets redacted"),
    ("GET", "/clients", "heaviest client addresses; `?by=rate` by bytes per second"),
    ("GET", "/shadow", "what was asked for or sent back and stands in no API document, with counts"),
    ("GET", "/keys", "key server: its keys and who may use them"),
    ("POST", "/reload", "load the configuration again; 422 with every problem if it is rejected"),
    ("POST", "/upgrade", "start the program again and hand over to it; 422 if it does not serve. Only on Unix sockets"),
    ("GET", "/dashboard", "all of `/api/v1/` for people with a browser"),
    ("GET", "/api/v1/status", "how the process stands: readiness, generation, last reload, totals"),
    ("GET", "/api/v1/listeners", "listeners with addresses, connections, requests, bytes"),
    ("GET", "/api/v1/routes", "routes with what they match and do, and requests by class of status"),
    ("GET", "/api/v1/upstreams", "upstreams and their servers with state, weight, load"),
    ("GET", "/api/v1/certificates", "certificates by days left"),
    ("GET", "/api/v1/connections", "open connections by listener and client"),
    ("GET", "/api/v1/rejections", "what was rejected or failed, by reason, with meaning and remedy"),
    ("GET", "/api/v1/errors", "what failed or was rejected last: who, when, whose fault"),
    ("GET", "/api/v1/policies", "policies with where they are attached and what they decided"),
    ("GET", "/api/v1/contracts", "what contracts said, by operation"),
    ("GET", "/api/v1/handshakes", "handshakes by version, cipher, key type, resumed"),
    ("GET", "/api/v1/clients", "heaviest clients by bytes"),
    ("GET", "/api/v1/shadow", "as `/shadow`"),
    ("GET", "/api/v1/key-servers", "key servers with state, connections, operations"),
    ("GET", "/api/v1/history", "rates of the last ten minutes, one point each two seconds"),
    ("GET", "/api/v1/events", "server-sent events: all of that once a second, with rates"),
    ("GET", "/api/v1/openapi.json", "the OpenAPI document of the API"),
    ("POST", "/api/v1/reload", "as `/reload`"),
    ("POST", "/api/v1/drain", "keep new requests from a server, or no longer"),
    ("POST", "/api/v1/weight", "give a server another share of the load"),
    ("POST", "/api/v1/maintenance", "switch a policy with `maintenance`"),
    ("POST", "/api/v1/log-level", "another log level for a while"),
];

/// Paths that a role has or has not.
const OF_ONE_ROLE: [&str; 3] = ["/shadow", "/started", "/keys"];

/// Streams of events at once.
const MAX_STREAMS: usize = 8;

fn index(extra: &[(&'static str, JsonSource)], has_api: bool) -> String {
    let mut text = String::from("Portunus, admin side\n\n");
    let is_there = |path: &str| match path.starts_with("/api/") || path == "/dashboard" {
        true => has_api,
        false => !OF_ONE_ROLE.contains(&path) || extra.iter().any(|(other, _)| *other == path),
    };
    for (method, path, about) in PAGES.iter().filter(|(_, path, _)| is_there(path)) {
        let about = about.replace('`', "");
        text.extend([format!("{method:<4} {path:<20} {about}\n")]);
    }
    text
}

/// The gate in front of every page.
async fn admit(State(admission): State<Arc<Admission>>, request: Request, next: Next) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    let checked =
        admission.check(uri, headers).and_then(|()| admission.authenticate(request.method(), uri.path(), headers));
    let sitting = request.extensions().get::<Arc<Sitting>>().cloned();
    let serving = sitting.as_ref().map(|sitting| sitting.serve(checked.unwrap_or(Purpose::Page)));
    let mut response = match checked {
        Ok(_) => next.run(request).await,
        Err((StatusCode::UNAUTHORIZED, reason)) => {
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], format!("{reason}\n")).into_response()
        }
        Err((status, reason)) => (status, format!("{reason}\n")).into_response(),
    };
    for (name, value) in RESPONSE_FIELDS {
        // The dashboard has a policy of its own, since it has a script.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    drop(serving);
    response
}

/// Lets a request to the API pass that is what its document says.
async fn validate(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, api::MAX_BODY_BYTES).await else {
        let text = format!("the body is cut, or longer than {} bytes", api::MAX_BODY_BYTES);
        return problems(StatusCode::PAYLOAD_TOO_LARGE, &[text]);
    };
    let checked = document::check(&Asked {
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query(),
        content_type: parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes),
        body: &body,
    });
    match checked {
        Ok(()) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err((status, found)) => problems(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), &found),
    }
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, JSON)], text).into_response()
}

async fn metrics(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    let exposition = Exposition::preferred(accept);
    ([(CONTENT_TYPE, exposition.content_type())], (pages.state.metrics)(exposition)).into_response()
}

async fn ready(State(pages): State<Arc<Pages>>) -> Response {
    match (pages.state.ready)() {
        Ok(further) => {
            let lines = further.iter().map(|line| format!("{line}\n"));
            ["ready\n".to_owned()].into_iter().chain(lines).collect::<String>().into_response()
        }
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn clients(State(pages): State<Arc<Pages>>, RawQuery(query): RawQuery) -> Response {
    match &pages.state.clients {
        Some(clients) => json(clients(query.as_deref() == Some("by=rate"))),
        None => (StatusCode::NOT_FOUND, "this server keeps no client table\n").into_response(),
    }
}

/// Runs what may wait for a lock off this thread, so that others are served meanwhile.
async fn aside<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, Response> {
    tokio::task::spawn_blocking(run).await.map_err(|_| {
        let text = "a defect of the program; the diagnostic log has it";
        problems(StatusCode::INTERNAL_SERVER_ERROR, &[text.to_owned()])
    })
}

fn problems(status: StatusCode, problems: &[String]) -> Response {
    let body = serde_json::json!({ "problems": problems });
    (status, [(CONTENT_TYPE, JSON)], format!("{body}\n")).into_response()
}

async fn shown(pages: Arc<Pages>, view: View) -> Response {
    let Some(role) = pages.state.api.clone() else { return StatusCode::NOT_FOUND.into_response() };
    match aside(move || role.view(view)).await {
        Ok(value) => json(format!("{value}\n")),
        Err(response) => response,
    }
}

async fn changed(pages: Arc<Pages>, name: &'static str, request: Request) -> Response {
    let Some(role) = pages.state.api.clone() else { return StatusCode::NOT_FOUND.into_response() };
    let Ok(body) = axum::body::to_bytes(request.into_body(), api::MAX_BODY_BYTES).await else {
        let text = format!("the body is cut, or longer than {} bytes", api::MAX_BODY_BYTES);
        return problems(StatusCode::PAYLOAD_TOO_LARGE, &[text]);
    };
    let change = match api::read_change(name, &body) {
        Ok(change) => change,
        Err(problem) => return problems(StatusCode::BAD_REQUEST, &[problem]),
    };
    match aside(move || role.change(&change)).await {
        Ok(Ok(value)) => json(format!("{value}\n")),
        Ok(Err(Rejection::Unknown(problem))) => problems(StatusCode::NOT_FOUND, &[problem]),
        Ok(Err(Rejection::Invalid(problem))) => problems(StatusCode::BAD_REQUEST, &[problem]),
        Ok(Err(Rejection::Busy(problem))) => problems(StatusCode::CONFLICT, &[problem]),
        Err(response) => response,
    }
}

async fn stream(State(pages): State<Arc<Pages>>) -> Response {
    let Some(role) = pages.state.api.clone() else { return StatusCode::NOT_FOUND.into_response() };
    match Arc::clone(&pages.streams).try_acquire_owned() {
        Ok(place) => {
            let body = axum::body::Body::new(events::begin(role, place));
            ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
        }
        Err(_) => {
            let text = format!("{MAX_STREAMS} streams are open already");
            problems(StatusCode::SERVICE_UNAVAILABLE, &[text])
        }
    }
}

async fn reload(State(pages): State<Arc<Pages>>) -> Response {
    let _one_at_a_time = pages.reloading.lock().await;
    let reloading = Arc::clone(&pages);
    let result = tokio::task::spawn_blocking(move || (reloading.state.reload)()).await;
    let (status, body) = match result {
        Ok(Ok(reloaded)) if reloaded.waiting.is_empty() => {
            (StatusCode::OK, serde_json::json!({ "generation": reloaded.generation }))
        }
        Ok(Ok(reloaded)) => {
            let reported =
                serde_json::json!({ "generation": reloaded.generation, "waiting_for_restart": reloaded.waiting });
            (StatusCode::OK, reported)
        }
        Ok(Err(problems)) => (StatusCode::UNPROCESSABLE_ENTITY, serde_json::json!({ "problems": problems })),
        Err(_) => {
            let problem = "the reload failed by a defect of the program; the diagnostic log has it";
            (StatusCode::INTERNAL_SERVER_ERROR, serde_json::json!({ "problems": [problem] }))
        }
    };
    (status, [(CONTENT_TYPE, JSON)], format!("{body}\n")).into_response()
}

async fn upgrade(State(pages): State<Arc<Pages>>) -> Response {
    if pages.state.upgrade.is_none() {
        return (StatusCode::FORBIDDEN, NO_UPGRADE).into_response();
    }
    let asked = tokio::task::spawn_blocking(move || pages.state.upgrade.as_ref().map(|upgrade| upgrade())).await;
    let (status, body) = match asked.ok().flatten() {
        Some(Ok(pid)) => (StatusCode::OK, serde_json::json!({ "pid": pid })),
        Some(Err(problems)) => (StatusCode::UNPROCESSABLE_ENTITY, serde_json::json!({ "problems": problems })),
        None => {
            let problem = "the upgrade failed by a defect of the program; the diagnostic log has it";
            (StatusCode::INTERNAL_SERVER_ERROR, serde_json::json!({ "problems": [problem] }))
        }
    };
    (status, [(CONTENT_TYPE, JSON)], format!("{body}\n")).into_response()
}
