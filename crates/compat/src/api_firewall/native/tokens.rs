//! How tokens are verified: by their signature, or by asking who issued them.

use std::path::Path;

use super::{Writer, quoted, quoted_path};
use crate::api_firewall::arguments::Source;

impl Writer<'_> {
    pub(super) fn tokens(&mut self) {
        match self.get("SERVER_OAUTH_VALIDATION_TYPE").to_ascii_uppercase().as_str() {
            "JWT" => self.jwt(),
            "INTROSPECTION" => self.introspection(),
            other => {
                let text = format!("SERVER_OAUTH_VALIDATION_TYPE: {other:?} is neither JWT nor INTROSPECTION");
                self.problem(text);
            }
        }
    }

    /// By their signature.
    fn jwt(&mut self) {
        let (file, secret) = (
            self.get("SERVER_OAUTH_JWT_PUB_CERT_FILE").to_owned(),
            self.settings.source("SERVER_OAUTH_JWT_SECRET_KEY"),
        );
        if file.is_empty() && secret.is_none() {
            return;
        }
        let algorithm = self.get("SERVER_OAUTH_JWT_SIGNATURE_ALGORITHM").to_ascii_uppercase();
        if file.is_empty() && !algorithm.starts_with("HS") {
            return self.problem(format!(
                "SERVER_OAUTH_JWT_SECRET_KEY: a shared secret verifies no {algorithm}; set SERVER_OAUTH_JWT_SIGNATURE_ALGORITHM to HS256, HS384 or \
                 HS512, or name a public key in SERVER_OAUTH_JWT_PUB_CERT_FILE"
            ));
        }
        let keys = if algorithm.starts_with("HS") {
            match secret {
                Some(Source::Environment) => "secret: { env: APIFW_SERVER_OAUTH_JWT_SECRET_KEY }".to_owned(),
                _ => {
                    return self.problem(
                        "SERVER_OAUTH_JWT_SECRET_KEY: give the secret in the environment; a command line can be read by others, and a \
                         configuration file holds no secret here",
                    );
                }
            }
        } else {
            format!("public_key: {}", quoted_path(Path::new(&file)))
        };
        self.warnings.push(format!(
            "SERVER_OAUTH_JWT_SIGNATURE_ALGORITHM: {algorithm} alone is taken, not its family; a token without `exp` is rejected; scopes are compared \
             exactly"
        ));
        self.verify(format!("jwt: {{ algorithms: [{algorithm}], {keys} }}"));
    }

    /// By asking: with POST and the parameter `token`, and by a credential of our own (RFC 7662 section 2.1).
    fn introspection(&mut self) {
        const CREDENTIAL: &str = "SERVER_OAUTH_INTROSPECTION_CLIENT_AUTH_BEARER_TOKEN";
        let url = self.get("SERVER_OAUTH_INTROSPECTION_ENDPOINT").to_owned();
        if url.is_empty() {
            return self.problem("SERVER_OAUTH_INTROSPECTION_ENDPOINT is required with INTROSPECTION");
        }
        for (setting, accepted) in [
            ("SERVER_OAUTH_INTROSPECTION_TOKEN_PARAM_NAME", "token"),
            ("SERVER_OAUTH_INTROSPECTION_ENDPOINT_PARAMS", ""),
            ("SERVER_OAUTH_INTROSPECTION_CONTENT_TYPE", "application/x-www-form-urlencoded"),
        ] {
            let value = self.get(setting);
            if !value.is_empty() && value != accepted {
                let text = format!(
                    "{setting}: the server is asked with a form of `token` and `token_type_hint`, as RFC 7662 has it; leave it out"
                );
                self.problem(text);
            }
        }
        if self.settings.source(CREDENTIAL) != Some(Source::Environment) {
            return self.problem(format!(
                "{CREDENTIAL}: give our own credential in the environment: a token does not speak for itself here, since whoever has one could ask about \
                 any"
            ));
        }
        let Some(refresh) = self.duration("SERVER_OAUTH_INTROSPECTION_REFRESH_INTERVAL") else { return };
        if !self.get("SERVER_OAUTH_INTROSPECTION_ENDPOINT_METHOD").eq_ignore_ascii_case("POST") {
            self.warnings.push(
                "SERVER_OAUTH_INTROSPECTION_ENDPOINT_METHOD: the server is asked with POST, so that no token stands in a URL and its logs".to_owned(),
            );
        }
        self.warnings.push(
            "SERVER_OAUTH_VALIDATION_TYPE=INTROSPECTION: a token must be `active`, also where the operation asks for no scope; an accepted one is asked about \
             again after SERVER_OAUTH_INTROSPECTION_REFRESH_INTERVAL, used or not"
                .to_owned(),
        );
        self.verify(format!(
            "introspection: {{ url: {}, client_secret: {{ env: APIFW_{CREDENTIAL} }}, cache_ttl: {refresh} }}",
            quoted(&url)
        ));
    }

    /// The original verifies tokens of `oauth2` and `openIdConnect`; of `http` `bearer` it asks that there is one.
    fn verify(&mut self, how: String) {
        self.line("    tokens: api");
        self.line("    bearer_schemes: []");
        self.tokens = Some(how);
    }
}
