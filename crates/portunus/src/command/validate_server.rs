//! `portunus validate-server`: one document, and every way in which another proxy can ask about a request that it holds.
//!
//! Makes a native configuration of its arguments and runs that; `--print` shows it, to go on with.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use config::Config;
use proxy::server::Source;

use crate::edge;
use crate::supervisor::Origin;

/// The name of the file that is made, for messages.
const MADE: &str = "(made from the arguments)";

/// Validate requests that another proxy holds: nginx, Traefik, Caddy, Envoy
#[derive(Debug, Clone, Args)]
pub struct ValidateServerCommand {
    /// OpenAPI document, YAML or JSON, or GraphQL schema (.graphql, .graphqls, .gql)
    document: PathBuf,
    /// Address to listen on; whoever can connect to it can ask
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9191")]
    bind: String,
    /// Network of a proxy that asks, beside this machine: what others say of a request is not believed; may be repeated
    #[arg(long, value_name = "NETWORK")]
    trust: Vec<String>,
    /// Path under which the document's paths stand, in place of its servers' paths; of a GraphQL schema, its endpoint (/graphql)
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
    /// Let every request pass, and log what is wrong
    #[arg(long)]
    log: bool,
    /// What proxies are configured to show of bodies: whole, or unseen. Default: unseen, but for Envoy's external processing
    #[arg(long, value_name = "WHICH", value_parser = ["whole", "unseen"])]
    bodies: Option<String>,
    /// Serve metrics on this address
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Print the configuration instead of running it
    #[arg(long)]
    print: bool,
}

impl ValidateServerCommand {
    /// Whether it prints and ends.
    pub fn is_brief(&self) -> bool {
        self.print
    }
}

/// Runs until it is told to end, or prints.
pub fn run(command: ValidateServerCommand) -> ExitCode {
    let text = configuration(&command);
    let made = parse(&text);
    match made {
        Err(problems) => {
            problems.iter().for_each(|problem| complain!("error: {problem}"));
            ExitCode::FAILURE
        }
        Ok(_) if command.print => {
            say!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Ok(config) => {
            let source: Source = Box::new(move || parse(&text));
            edge::run(config, source, Origin::default(), |_, _| ())
        }
    }
}

fn parse(text: &str) -> Result<Config, Vec<String>> {
    config::parse(MADE, text, Path::new(""))
        .map_err(|problems| problems.list().iter().map(ToString::to_string).collect())
}

/// The configuration that the arguments mean.
fn configuration(command: &ValidateServerCommand) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let document = std::path::absolute(&command.document).unwrap_or_else(|_| command.document.clone());
    let request = if command.log { "log" } else { "block" };
    let path = command.base_path.as_deref().map(quoted);
    let document = quoted(&document.display().to_string());
    let contract = match (super::contract::is_schema(&command.document), path) {
        (true, path) => {
            let path = path.map(|path| format!(", path: {path}")).unwrap_or_default();
            format!("graphql: {{ schema: {document}{path} }}, request: {request}")
        }
        (false, path) => {
            let base = path.map(|path| format!(", base_path: {path}")).unwrap_or_default();
            format!("document: {document}{base}, request: {request}, response: off")
        }
    };
    let bodies = command.bodies.as_deref().map(|bodies| format!(", bodies: {bodies}")).unwrap_or_default();
    let admin =
        command.admin.as_deref().map(|bind| format!("admin: {{ bind: {} }}\n", quoted(bind))).unwrap_or_default();
    let trusted = ["127.0.0.0/8", "::1/128"].into_iter().chain(command.trust.iter().map(String::as_str));
    let trusted: Vec<String> = trusted.map(quoted).collect();
    let mut text = format!(
        "# Made by `portunus validate-server`. docs/validate-server.md has what belongs into the other proxy.\n\
         listeners:\n  - {{ name: validation, bind: {} }}\n{admin}trusted_proxies: [{}]\n\
         forwarding: {{ trusted_fields: [X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Port, X-Forwarded-Host, X-Forwarded-Method, X-Forwarded-Uri] }}\n\
         contracts:\n  api: {{ {contract} }}\nroutes:\n",
        quoted(&command.bind),
        trusted.join(", "),
    );
    for (protocol, path) in [
        ("auth_request", "/auth_request"),
        ("forward_auth", "/forward_auth"),
        ("ext_authz", "/ext_authz/{*path}"),
        ("ext_authz_grpc", "/envoy.service.auth.v3.Authorization/Check"),
        ("ext_proc", "/envoy.service.ext_proc.v3.ExternalProcessor/Process"),
    ] {
        text.push_str(&format!(
            "  - name: {protocol}\n    path: {}\n    contract: api\n    validate: {{ protocol: {protocol}{bodies} }}\n",
            quoted(path)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn whatever_is_asked_makes_a_configuration() {
        let plain = ValidateServerCommand {
            document: "openapi.yaml".into(),
            bind: "127.0.0.1:9191".into(),
            trust: Vec::new(),
            base_path: None,
            log: false,
            bodies: None,
            admin: None,
            print: false,
        };
        let all = ValidateServerCommand {
            trust: vec!["10.0.0.0/8".into()],
            base_path: Some("/v1".into()),
            log: true,
            bodies: Some("whole".into()),
            admin: Some("127.0.0.1:9192".into()),
            ..plain.clone()
        };
        for command in [plain, all] {
            let text = configuration(&command);
            let config = parse(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
            assert_eq!(config.routes.len(), 5);
        }
    }
}
