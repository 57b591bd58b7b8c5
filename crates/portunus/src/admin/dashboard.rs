//! The dashboard: a page, its style and its script, embedded, without anything from elsewhere. It shows what the API says, and can do what the API lets it.

use axum::Router;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::routing::get;

/// Path, media type, content.
const FILES: [(&str, &str, &str); 3] = [
    ("/dashboard", "text/html; charset=utf-8", include_str!("dashboard/page.html")),
    ("/dashboard/style.css", "text/css; charset=utf-8", include_str!("dashboard/style.css")),
    ("/dashboard/page.js", "text/javascript; charset=utf-8", include_str!("dashboard/page.js")),
];

/// Nothing inline, nothing from elsewhere, no frame, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Whether a path is one of these, which are the same everywhere and need no token.
pub(super) fn has(path: &str) -> bool {
    FILES.iter().any(|(known, ..)| *known == path)
}

/// Adds them.
pub(super) fn add<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    FILES.into_iter().fold(router, |router, (path, kind, content)| {
        let file = ([(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY)], content);
        router.route(path, get(async move || file))
    })
}
