//! The API mode: documents by number, a list of errors in the response, and nothing is forwarded.

use std::path::Path;

use super::{Writer, quoted, quoted_path};
use crate::api_firewall::database::Schema;

impl Writer<'_> {
    pub(super) fn api_mode(&mut self, database: &Path, schemas: &[Schema]) {
        self.listeners("");
        self.keystore();
        if !schemas.is_empty() {
            self.line("contracts:");
        }
        let unknown = self.unknown_parameters("API_MODE_UNKNOWN_PARAMETERS_DETECTION");
        let body = self.number("MAX_REQUEST_BODY_SIZE").unwrap_or_default();
        let passes_options = self.flag("PASS_OPTIONS");
        for schema in schemas {
            self.line(format!("  {}:\n    document: {}", schema.contract(), quoted_path(database)));
            self.line("    request: block\n    response: off\n    block_status: 403\n    detail: empty");
            if passes_options {
                self.line("    allow_options: true");
            }
            self.leniency(unknown);
            self.line(format!("    limits: {{ max_body: {body} }}"));
            self.allowed_addresses();
        }
        let errors = self.number("API_MODE_MAX_ERRORS_IN_RESPONSE").unwrap_or_default().min(1_000);
        let ids: Vec<String> = schemas.iter().map(|schema| format!("{}: {}", schema.id, schema.contract())).collect();
        self.line("routes:");
        self.line(format!("  - name: api\n    listeners: [api]\n    max_body: {body}"));
        self.line(format!(
            "    validate: {{ protocol: schemas, max_errors: {errors}, schemas: {{ {} }} }}",
            ids.join(", ")
        ));
        self.liveness();
        let (status, word) = if schemas.is_empty() { (500, "not ready") } else { (200, "ok") };
        let body = quoted(&format!("{{\"status\":\"{word}\"}}"));
        self.line(format!(
            "  - name: readiness\n    listeners: [health]\n    path: /v1/readiness\n    methods: [GET]\n    \
             respond: {{ status: {status}, content_type: application/json, body: {body} }}"
        ));
    }
}
