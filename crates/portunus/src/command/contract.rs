//! `portunus contract`: what a document allows and what it leaves open, before anything is served under it, and a first document where there is none.
//!
//! Loads and validates as the running program does; sends nothing and listens nowhere.

mod cases;
mod learn;
mod lint;
mod messages;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use contract::Contract;
use contract::options::{OnUnsupported, Options};
use graphql::{Endpoint, requires_document};

/// Check API documents, and messages against them
#[derive(Debug, Args)]
pub struct ContractCommand {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say whether SPEC loads: its operations, and every problem with file and line
    Check {
        #[command(flatten)]
        spec: Spec,
        /// Print no operations
        #[arg(long, short)]
        quiet: bool,
    },
    /// Say what of SPEC cannot be enforced, is ambiguous or leaves holes, each with its fix
    Lint {
        #[command(flatten)]
        spec: Spec,
        /// How findings are printed
        #[arg(long, value_enum, default_value = "text")]
        format: lint::Format,
    },
    /// Validate recorded cases, or messages in files, against SPEC
    Test {
        #[command(flatten)]
        spec: Spec,
        /// Recorded cases: requests and responses, each with the decision that is expected (YAML or JSON; JSON lines in .jsonl)
        #[arg(required_unless_present = "request", conflicts_with = "request")]
        cases: Option<PathBuf>,
        /// An HTTP/1 request as text; line ends may be LF, and Content-Length may be left out
        #[arg(long)]
        request: Option<PathBuf>,
        /// The response to it, as text
        #[arg(long, requires = "request")]
        response: Option<PathBuf>,
    },
    /// Print a first document, learnt from access logs (JSON) and HAR files
    Learn(learn::LearnArguments),
}

#[derive(Debug, Args)]
struct Spec {
    /// OpenAPI document, YAML or JSON, or a folder with an openapi.yaml; or a GraphQL schema (.graphql, .graphqls, .gql)
    spec: PathBuf,
    /// Path under which the document's paths stand, in place of its servers' paths; of a GraphQL schema, its endpoint (/graphql)
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
    /// Media type whose bodies pass unread; may be repeated
    #[arg(long, value_name = "TYPE")]
    opaque: Vec<String>,
    /// Take warnings for errors
    #[arg(long)]
    strict: bool,
    /// What becomes of operations that cannot be validated: reject_operation or fail
    #[arg(long, value_name = "ACTION", default_value = "reject_operation", value_parser = ["reject_operation", "fail"])]
    on_unsupported: String,
}

/// Does what the arguments say: 0 if the document compiles and the messages keep it, else 1.
pub fn run(command: ContractCommand) -> ExitCode {
    match command.action {
        Action::Check { spec, quiet } => check(&spec, quiet),
        Action::Lint { spec, .. } if is_schema(&spec.spec) => {
            eprintln!(
                "{}: schemas of GraphQL are not linted; `contract check` says whether one loads",
                spec.spec.display()
            );
            ExitCode::FAILURE
        }
        Action::Lint { spec, format } => lint::run(&spec, format),
        Action::Test { spec, cases, request, response } => with_contract(&spec, |loaded| match (cases, request) {
            (Some(cases), _) => cases::run(loaded, &cases),
            (None, Some(request)) => messages::test(loaded, &request, response.as_deref()),
            (None, None) => Err("name recorded cases, or a request with `--request`".to_owned()),
        }),
        Action::Learn(arguments) => learn::run(&arguments),
    }
}

/// What SPEC comes to.
struct Loaded {
    contract: Contract,
    /// Where it is a schema of GraphQL.
    graphql: Option<Endpoint>,
}

/// Does something with the contract of a document: 0 if all is as it should be.
fn with_contract(spec: &Spec, run: impl FnOnce(&Loaded) -> Result<bool, String>) -> ExitCode {
    let loaded = match load(spec) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    match run(&loaded) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

impl Spec {
    fn options(&self) -> Options {
        Options {
            base_path: self.base_path.clone(),
            opaque_media_types: self.opaque.clone(),
            strict: self.strict,
            on_unsupported: match self.on_unsupported.as_str() {
                "fail" => OnUnsupported::Fail,
                _ => OnUnsupported::RejectOperation,
            },
            ..Options::default()
        }
    }

    /// Reports why the document does not load.
    fn rejected(&self, problems: &[contract::Problem]) -> ExitCode {
        problems.iter().for_each(|problem| eprintln!("{problem}"));
        eprintln!("{}: rejected ({})", self.spec.display(), counted(problems.len(), "problem"));
        ExitCode::FAILURE
    }
}

fn load(spec: &Spec) -> Result<Loaded, ExitCode> {
    if is_schema(&spec.spec) {
        return load_schema(spec);
    }
    let contract = Contract::load(&spec.spec, &spec.options()).map_err(|problems| spec.rejected(&problems))?;
    Ok(Loaded { contract, graphql: None })
}

/// Whether a file is a schema of GraphQL, by its name.
pub(super) fn is_schema(file: &Path) -> bool {
    file.extension().and_then(|end| end.to_str()).is_some_and(|end| matches!(end, "graphql" | "graphqls" | "gql"))
}

/// A schema under the default options, and the document of what its requests look like.
fn load_schema(spec: &Spec) -> Result<Loaded, ExitCode> {
    let rejected = |problems: Vec<String>| {
        problems.iter().for_each(|problem| eprintln!("{problem}"));
        eprintln!("{}: rejected ({})", spec.spec.display(), counted(problems.len(), "problem"));
        ExitCode::FAILURE
    };
    let name = spec.spec.display().to_string();
    let text = keystore::files::text(&spec.spec, spec.options().limits.document_bytes as u64);
    let text = text.map_err(|error| rejected(vec![format!("{name}: {error}")]))?;
    let mut options = graphql::Options::default();
    if let Some(path) = &spec.base_path {
        options.path.clone_from(path);
    }
    let endpoint = Endpoint::load(&name, &text, options).map_err(rejected)?;
    let document = requires_document(endpoint.options());
    let contract = Contract::from_text("graphql.json", &document, &Options::default());
    let contract = contract.map_err(|problems| spec.rejected(&problems))?;
    Ok(Loaded { contract, graphql: Some(endpoint) })
}

fn check(spec: &Spec, quiet: bool) -> ExitCode {
    let Loaded { contract, graphql } = match load(spec) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    contract.errors().iter().for_each(|error| eprintln!("{error}"));
    contract.warnings().iter().for_each(|warning| eprintln!("{warning} (warning)"));
    let mut out = String::new();
    for operation in contract.operations().iter().filter(|_| !quiet) {
        let id = operation.id().map(|id| format!("  {id}")).unwrap_or_default();
        // Writing to a String cannot fail.
        let note = if operation.unsupported_request().is_some() {
            "  (cannot be validated: 501)"
        } else if operation.unsupported_response().is_some() {
            "  (responses cannot be validated: 501 where they are blocked)"
        } else {
            ""
        };
        let _ = writeln!(out, "{:7} {}{id}{note}", operation.method(), operation.template());
    }
    for field in graphql.iter().flat_map(Endpoint::root_fields).filter(|_| !quiet) {
        let _ = writeln!(out, "{field}");
    }
    let mut counts = vec![counted(contract.operations().len(), "operation")];
    if !contract.errors().is_empty() {
        counts.push(counted(contract.errors().len(), "error"));
    }
    counts.push(counted(contract.warnings().len(), "warning"));
    println!("{out}{}: ok ({})", spec.spec.display(), counts.join(", "));
    ExitCode::SUCCESS
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
