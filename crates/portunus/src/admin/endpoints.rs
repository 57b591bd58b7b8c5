//! What the admin side answers, by path.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use telemetry::Exposition;
use tokio::sync::Mutex;

use super::admit::Admission;
use super::{AdminState, JsonSource};

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
    /// Reloads run one after the other.
    reloading: Mutex<()>,
}

pub(super) fn router(mut state: AdminState, admission: Admission) -> Router {
    let extra = std::mem::take(&mut state.extra);
    let index = index(&extra);
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
    let pages = Arc::new(Pages { state, reloading: Mutex::new(()) });
    router.with_state(pages).layer(middleware::from_fn_with_state(Arc::new(admission), admit))
}

/// Every page: method, path, what it is. Those of one role stand here, too.
pub const PAGES: &[(&str, &str, &str)] = &[
    ("GET", "/metrics", "metrics, OpenMetrics 1.0 or Prometheus text by `Accept`"),
    ("GET", "/healthz", "200 while the process runs"),
    ("GET", "/readyz", "200 while traffic is served, else 503 with the reason"),
    ("GET", "/config", "configuration in use, secrets redacted"),
    ("GET", "/started", "configuration that the process was started with, secrets redacted"),
    ("GET", "/clients", "heaviest client addresses; `?by=rate` by bytes per second"),
    ("GET", "/shadow", "what was asked for or sent back and stands in no API document, with counts"),
    ("GET", "/keys", "key server: its keys and who may use them"),
    ("POST", "/reload", "load the configuration again; 422 with every problem if it is rejected"),
    ("POST", "/upgrade", "start the program again and hand over to it; 422 if it does not serve. Only on Unix sockets"),
];

/// Paths that a role has or has not.
const OF_ONE_ROLE: [&str; 3] = ["/shadow", "/started", "/keys"];

fn index(extra: &[(&'static str, JsonSource)]) -> String {
    let mut text = String::from("Portunus, admin side\n\n");
    let is_there = |path: &str| !OF_ONE_ROLE.contains(&path) || extra.iter().any(|(other, _)| *other == path);
    for (method, path, about) in PAGES.iter().filter(|(_, path, _)| is_there(path)) {
        let about = about.replace('`', "");
        text.extend([format!("{method:<4} {path:<9} {about}\n")]);
    }
    text
}

/// The gate in front of every page.
async fn admit(State(admission): State<Arc<Admission>>, request: Request, next: Next) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    let checked =
        admission.check(uri, headers).and_then(|()| admission.authenticate(request.method(), uri.path(), headers));
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err((StatusCode::UNAUTHORIZED, reason)) => {
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], format!("{reason}\n")).into_response()
        }
        Err((status, reason)) => (status, format!("{reason}\n")).into_response(),
    };
    for (name, value) in RESPONSE_FIELDS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
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
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn clients(State(pages): State<Arc<Pages>>, RawQuery(query): RawQuery) -> Response {
    match &pages.state.clients {
        Some(clients) => json(clients(query.as_deref() == Some("by=rate"))),
        None => (StatusCode::NOT_FOUND, "this server keeps no client table\n").into_response(),
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
