//! The GraphQL mode: one endpoint under a schema, with the original's measures of cost, and WebSockets.

use std::path::Path;

use super::{Writer, quoted, quoted_path};

/// Limits of the original, and ours. There 0 is no limit.
const LIMITS: [(&str, &str, u64); 5] = [
    ("GRAPHQL_MAX_QUERY_COMPLEXITY", "max_complexity", u64::MAX >> 11),
    ("GRAPHQL_NODE_COUNT_LIMIT", "max_nodes", u64::MAX >> 11),
    ("GRAPHQL_MAX_QUERY_DEPTH", "max_depth", 60),
    ("GRAPHQL_MAX_ALIASES_NUM", "max_aliases", 10_000),
    ("GRAPHQL_BATCH_QUERY_LIMIT", "max_batch", 100),
];

impl Writer<'_> {
    pub(super) fn graphql_mode(&mut self) {
        self.listeners("\n    contract: api");
        self.keystore();
        self.upstream();
        self.endpoint();
    }

    /// Requests for the endpoint go to the path of the backend; whatever else is asked for is 403, in every mode.
    pub(super) fn endpoint_route(&mut self) {
        let (Some(own), Some(backend)) = (self.url("URL", 80, 443), self.url("SERVER_URL", 80, 443)) else { return };
        let (path, rewrite) = (quoted(rooted(&own.path)), quoted(rooted(&backend.path)));
        self.line(format!("    upgrades: [websocket]\n    path: {path}"));
        if path != rewrite {
            self.line(format!("    rewrite: {rewrite}"));
        }
        self.line("  - name: other\n    listeners: [api]\n    respond: { status: 403 }");
    }

    fn endpoint(&mut self) {
        let Some(own) = self.url("URL", 80, 443) else { return };
        let Some(request) = self.mode("GRAPHQL_REQUEST_VALIDATION") else { return };
        let schema = quoted_path(Path::new(self.get("GRAPHQL_SCHEMA")));
        let path = quoted(rooted(&own.path));
        self.line(format!("contracts:\n  api:\n    request: {request}\n    block_status: 403\n    detail: status"));
        self.line(format!("    graphql:\n      schema: {schema}\n      path: {path}\n      error_status: 200"));
        let introspection = self.flag("GRAPHQL_INTROSPECTION");
        self.line(format!("      introspection: {introspection}\n      list_arguments: []"));
        if self.flag("GRAPHQL_DISABLE_FIELD_DUPLICATION") {
            self.line("      duplicate_fields: block");
        }
        self.websocket_origins();
        self.line("      limits:");
        for (setting, key, most) in LIMITS {
            let Some(limit) = self.number(setting) else { return };
            let limit = if limit == 0 { most } else { limit };
            if limit > most {
                self.warnings.push(format!("{setting}: {limit} is more than is possible here; {most} is taken"));
            }
            // Depth, complexity and the like of nothing would reject every request.
            let least = u64::from(key != "max_aliases");
            self.line(format!("        {key}: {}", limit.clamp(least, most)));
        }
        if self.flag("GRAPHQL_PLAYGROUND") {
            self.problem("GRAPHQL_PLAYGROUND: not built: pages are served by a web server, not here");
        }
        let body = self.number("MAX_REQUEST_BODY_SIZE").unwrap_or_default();
        self.line(format!("        max_request: {}", body.clamp(1024, 16 * 1024 * 1024)));
        self.line(format!("    limits: {{ max_body: {body} }}"));
        self.lists();
    }

    /// There, no origin is checked unless it is said so.
    fn websocket_origins(&mut self) {
        self.line("      websocket: true");
        if !self.flag("GRAPHQL_WS_CHECK_ORIGIN") {
            self.warnings.push(
                "GRAPHQL_WS_CHECK_ORIGIN is false: pages of any site may open WebSockets with the cookies of their visitors".to_owned(),
            );
            return self.line("      websocket_origins: [\"*\"]");
        }
        let list = self.get("GRAPHQL_WS_ORIGIN").to_owned();
        let origins: Vec<String> =
            list.split(';').map(str::trim).filter(|origin| !origin.is_empty()).map(quoted).collect();
        // Without a list, that of the host that is asked.
        if !origins.is_empty() {
            self.line(format!("      websocket_origins: [{}]", origins.join(", ")));
        }
    }
}

/// A path of a URL, of which `/` may be left out.
fn rooted(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}
