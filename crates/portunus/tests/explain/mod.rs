//! What the commands say that explain a configuration, held against what the program does: `portunus explain`, `portunus diff`.
//!
//! One binary with a module per theme, because each binary links the whole program.

mod agreement;
mod command;
mod diff;
mod hostile;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the program in a folder.
pub fn portunus(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(crate::harness::PORTUNUS).current_dir(folder).args(arguments).output().unwrap()
}

/// What `explain portunus.yaml` says with these arguments more, as JSON that keeps its schema.
pub fn explained(folder: &Path, arguments: &[&str]) -> Value {
    let output = portunus(folder, &[&["explain", "portunus.yaml", "--json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let value = serde_json::from_slice(&output.stdout).unwrap();
    keeps_schema("explain.schema.json", &value);
    value
}

/// Holds a document against a schema of `docs/`.
pub fn keeps_schema(name: &str, value: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?} in {value:#}");
}
