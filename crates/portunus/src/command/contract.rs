//! `portunus contract check` and `portunus contract test`: what a document allows, before anything is served under it.
//!
//! Loads and validates as the running program does; sends nothing and listens nowhere.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use contract::options::{OnUnsupported, Options};
use contract::validate::{BodyPlan, Enough, FieldSource, Findings, Framing, RequestParts, ResponseParts, Scratch};
use contract::{Contract, Found, Matched};
use wire::http::{BodyFraming, Fields, HeadLimits, Method, RequestHead, ResponseHead, http1};

/// Largest message file, bytes.
const MAX_MESSAGE_BYTES: u64 = 64 * 1024 * 1024;

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
    /// Validate messages in files against SPEC
    Test {
        #[command(flatten)]
        spec: Spec,
        /// An HTTP/1 request as text; line ends may be LF, and Content-Length may be left out
        #[arg(long)]
        request: PathBuf,
        /// The answer to it, as text
        #[arg(long)]
        response: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct Spec {
    /// OpenAPI document, YAML or JSON, or a folder with an openapi.yaml
    spec: PathBuf,
    /// Path under which the document's paths stand, in place of its servers' paths
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
        Action::Test { spec, request, response } => test(&spec, &request, response.as_deref()),
    }
}

fn load(spec: &Spec) -> Result<Contract, ExitCode> {
    let options = Options {
        base_path: spec.base_path.clone(),
        opaque_media_types: spec.opaque.clone(),
        strict: spec.strict,
        on_unsupported: match spec.on_unsupported.as_str() {
            "fail" => OnUnsupported::Fail,
            _ => OnUnsupported::RejectOperation,
        },
        ..Options::default()
    };
    Contract::load(&spec.spec, &options).map_err(|problems| {
        problems.iter().for_each(|problem| eprintln!("{problem}"));
        eprintln!("{}: rejected ({})", spec.spec.display(), counted(problems.len(), "problem"));
        ExitCode::FAILURE
    })
}

fn check(spec: &Spec, quiet: bool) -> ExitCode {
    let contract = match load(spec) {
        Ok(contract) => contract,
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

/// Validates a request, and the response to it if there is one.
fn test(spec: &Spec, request: &Path, response: Option<&Path>) -> ExitCode {
    let contract = match load(spec) {
        Ok(contract) => contract,
        Err(code) => return code,
    };
    let validated = validate_files(&contract, request, response);
    match validated {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn validate_files(contract: &Contract, request: &Path, response: Option<&Path>) -> Result<bool, String> {
    let message = Message::read(request)?;
    let mut head = RequestHead::default();
    http1::parse_request(&message.head, &head_limits(), &mut head)
        .map_err(|error| format!("{}: no request that would be let in: {}", request.display(), error.reason.code()))?;
    let (matched, values) = match contract.find(head.method.as_str(), head.path()) {
        Found::Operation(matched, values) => (matched, values),
        Found::UnknownPath => return Ok(rejected("the document has no such path")),
        Found::UnknownMethod { allow } => return Ok(rejected(&format!("the path takes {allow} only"))),
    };
    let operation = matched.operation;
    println!("operation: {} {}", operation.method(), operation.template());
    let (mut scratch, mut findings) = (Scratch::new(), Findings::all());
    let parts = RequestParts {
        path: head.path(),
        query: head.query().strip_prefix(b"?"),
        fields: &Given(&head.fields),
        framing: message.framing(head.framing),
        has_client_certificate: false,
    };
    let is_declared =
        |name: &[u8]| operation.header_parameters().any(|(own, _)| own.as_bytes().eq_ignore_ascii_case(name));
    let is_key = |name: &[u8]| {
        let demands = operation.security().iter().flat_map(|requirement| &requirement.demands);
        let fields = demands.filter_map(|demand| demand.scheme.field());
        fields.into_iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    };
    let mut odd = head.fields.iter().map(|(name, _)| name).filter(|name| name.contains(&b'_'));
    if let Some(name) = odd.find(|name| !is_declared(name) && !is_key(name)) {
        let name = String::from_utf8_lossy(name);
        return Ok(rejected(&format!(
            "underscore_in_field_name: {name}: is not declared, and `_` is `-` to many servers"
        )));
    }
    let plan = matched.validate_request(&values, &parts, &mut scratch, &mut findings);
    finish(plan, &message.body, &mut findings);
    let request_is_good = report("request", &findings);
    match response {
        Some(response) => Ok(validate_response(matched, &head.method, response)? && request_is_good),
        None => Ok(request_is_good),
    }
}

fn validate_response(matched: Matched<'_>, method: &Method, file: &Path) -> Result<bool, String> {
    let message = Message::read(file)?;
    let mut head = ResponseHead::default();
    http1::parse_response(&message.head, &head_limits(), method, &mut head).map_err(|error| {
        format!("{}: no response that would be let through: {}", file.display(), error.reason.code())
    })?;
    let (mut scratch, mut findings) = (Scratch::new(), Findings::all());
    let parts = ResponseParts {
        status: head.status,
        fields: &Given(&head.fields),
        framing: message.framing(head.framing),
        responds_head: *method == Method::Head,
    };
    let plan = matched.validate_response(&parts, &mut scratch, &mut findings);
    finish(plan, &message.body, &mut findings);
    Ok(report("response", &findings))
}

/// Gives the body to its validator; everything found is in `findings`.
fn finish(plan: Result<BodyPlan<'_>, Enough>, body: &[u8], findings: &mut Findings) {
    let Ok(BodyPlan { mut validator, .. }) = plan else { return };
    if validator.feed(body, findings).is_ok() {
        // What is found stands in `findings`.
        let _ = validator.finish(findings);
    }
}

fn rejected(why: &str) -> bool {
    println!("request: rejected\n  {why}");
    false
}

fn report(what: &str, findings: &Findings) -> bool {
    println!("{what}: {}", if findings.is_empty() { "ok" } else { "rejected" });
    findings.violations().iter().for_each(|violation| println!("  {violation}"));
    findings.shadows().iter().for_each(|shadow| println!("  not declared: {} {}", shadow.part.as_str(), shadow.name));
    findings.is_empty()
}

fn head_limits() -> HeadLimits {
    let limits = config::limits::Limits::default();
    HeadLimits {
        head_bytes: limits.max_head_bytes,
        request_line_bytes: limits.max_request_line_bytes,
        fields: limits.max_headers,
    }
}

/// A message from a file: its head as HTTP/1 writes it, and its body.
struct Message {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Message {
    fn read(file: &Path) -> Result<Message, String> {
        let cannot = |error: std::io::Error| format!("{}: cannot be read: {error}", file.display());
        if std::fs::metadata(file).map_err(cannot)?.len() > MAX_MESSAGE_BYTES {
            return Err(format!("{}: larger than {MAX_MESSAGE_BYTES} bytes", file.display()));
        }
        Ok(Message::of(&std::fs::read(file).map_err(cannot)?))
    }

    /// Splits at the first empty line, whatever the line ends are.
    fn of(bytes: &[u8]) -> Message {
        let mut head = Vec::new();
        let mut rest = bytes;
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            rest = after;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                break;
            }
            head.extend_from_slice(line);
            head.extend_from_slice(b"\r\n");
        }
        let names_framing = |name: &[u8]| {
            head.split(|byte| *byte == b'\n')
                .any(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
        };
        let says_length = names_framing(b"content-length:") || names_framing(b"transfer-encoding:");
        // An editor ends a file with a line feed that is no part of the body.
        let body = if says_length { rest } else { rest.strip_suffix(b"\n").unwrap_or(rest) };
        if !says_length && !body.is_empty() {
            head.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        Message { body: body.to_vec(), head }
    }

    fn framing(&self, framing: BodyFraming) -> Framing {
        match framing {
            BodyFraming::None => Framing::Empty,
            BodyFraming::Length(0) => Framing::Empty,
            BodyFraming::Length(length) => Framing::Length(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => Framing::Unknown,
        }
    }
}

/// Fields of a parsed head, as validates take them.
struct Given<'f>(&'f Fields);

impl FieldSource for Given<'_> {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.0.iter().for_each(|(name, value)| visit(name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split_whatever_their_line_ends() {
        let rows: [(&[u8], &[u8], &[u8]); 4] = [
            (b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b""),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b""),
            (b"POST / HTTP/1.1\nHost: a\n\n{}\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", b"{}"),
            (b"POST / HTTP/1.1\ncontent-length: 3\n\n{}\n", b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n", b"{}\n"),
        ];
        for (text, head, body) in rows {
            let message = Message::of(text);
            assert_eq!((message.head.as_slice(), message.body.as_slice()), (head, body));
        }
    }
}
