//! `portunus contract lint`: prints what `contract::lint` finds.

use std::process::ExitCode;

use clap::ValueEnum;
use contract::lint::{Finding, lint};
use serde_json::{Value, json};

use super::{Spec, counted};

/// How findings are printed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Format {
    /// A line each
    Text,
    /// One JSON object
    Json,
}

/// 0 if the document loads and nothing in it is an error; with `--strict`, if nothing is found at all.
pub(super) fn run(spec: &Spec, format: Format) -> ExitCode {
    let findings = match lint(&spec.spec, &spec.options()) {
        Ok(findings) => findings,
        Err(problems) => return spec.rejected(&problems),
    };
    let errors = findings.iter().filter(|finding| finding.rule.is_error()).count();
    let warnings = findings.len() - errors;
    match format {
        Format::Text => {
            findings.iter().for_each(|finding| say!("{}", line(finding)));
            say!("{}: {}, {}", spec.spec.display(), counted(errors, "error"), counted(warnings, "warning"));
        }
        Format::Json => {
            let findings: Vec<Value> = findings.iter().map(object).collect();
            say!("{:#}", json!({ "errors": errors, "warnings": warnings, "findings": findings }));
        }
    }
    if errors > 0 || (spec.strict && warnings > 0) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn severity(finding: &Finding) -> &'static str {
    if finding.rule.is_error() { "error" } else { "warning" }
}

fn line(finding: &Finding) -> String {
    let Finding { rule, problem, operation } = finding;
    let through = if operation.is_empty() { String::new() } else { format!(" ({operation})") };
    format!("{problem}{through}; {} [{} {}]", rule.fix(), severity(finding), rule.code())
}

fn object(finding: &Finding) -> Value {
    let Finding { rule, problem, operation } = finding;
    json!({
        "rule": rule.code(),
        "severity": severity(finding),
        "file": problem.file.display().to_string(),
        "line": problem.line,
        "column": problem.column,
        "operation": operation,
        "what": problem.what,
        "fix": rule.fix(),
    })
}
