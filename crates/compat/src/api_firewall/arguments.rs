//! The settings from their three sources: environment, then flags over it, then `apifw.yaml` in the working directory over both.
//!
//! Unlike the original, what stands in the file is checked, too, and what is required may stand in any of the three. A name that is not known is a
//! problem wherever it stands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use config::problem::Collector;
use config::yaml::{self, Node, Value};

use super::settings::{Kind, Mode, SETTINGS, Setting};

/// What every variable begins with.
const PREFIX: &str = "APIFW_";

/// Largest `apifw.yaml`, bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Where a value was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Environment,
    Flag,
    File,
}

/// One override for some operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) path: String,
    pub(super) method: String,
    pub(super) request: String,
    pub(super) response: String,
}

/// All values that were given.
#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<&'static str, (Source, String)>,
    /// The overrides, as a list.
    pub(super) endpoints: Vec<Endpoint>,
}

impl Settings {
    /// The value active, the default included.
    pub(super) fn get(&self, name: &str) -> &str {
        let default = || SETTINGS.iter().find(|setting| setting.name == name).map_or("", |setting| setting.default);
        self.values.get(name).map_or_else(default, |(_, value)| value.trim())
    }

    /// Where a value was given; none if it was not.
    pub(super) fn source(&self, name: &str) -> Option<Source> {
        self.values.get(name).filter(|(_, value)| !value.trim().is_empty()).map(|(source, _)| *source)
    }

    /// What the program does; none that there is becomes the proxy mode, which says so.
    pub(super) fn mode(&self) -> Mode {
        match self.get("MODE").to_ascii_uppercase().as_str() {
            "API" => Mode::Api,
            "GRAPHQL" => Mode::Graphql,
            _ => Mode::Proxy,
        }
    }

    /// Whether messages are validated without being forwarded.
    pub(super) fn is_api_mode(&self) -> bool {
        self.mode() == Mode::Api
    }

    /// All that were given, with their settings.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| self.source(setting.name).is_some())
    }
}

/// Why nothing is translated.
#[derive(Debug)]
pub(super) enum Rejected {
    Help,
    Version,
    Problems(Vec<String>),
}

/// Reads all three sources. `present`: the names of all variables there are, since a misspelt one must not go unnoticed.
pub(super) fn read(
    words: &[OsString],
    environment: impl Fn(&str) -> Option<String>,
    present: &[String],
    file: &Path,
) -> Result<Settings, Rejected> {
    let mut settings = Settings::default();
    let mut problems = Vec::new();
    for setting in SETTINGS {
        if let Some(value) = environment(&format!("{PREFIX}{}", setting.name)) {
            settings.values.insert(setting.name, (Source::Environment, value));
        }
    }
    for name in present {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        // What an orchestrator says of a service that is called so.
        let is_service = rest.starts_with("SERVICE_") || rest == "PORT" || rest.starts_with("PORT_");
        if !is_service && !SETTINGS.iter().any(|setting| setting.name == rest) {
            problems.push(format!("{name}: there is no such setting"));
        }
    }
    read_flags(words, &mut settings, &mut problems)?;
    let text = settings.get("ENDPOINTS").to_owned();
    read_endpoints(&text, &mut settings, &mut problems);
    if file.exists() {
        read_file(file, &mut settings, &mut problems);
    }
    if problems.is_empty() { Ok(settings) } else { Err(Rejected::Problems(problems)) }
}

fn read_flags(words: &[OsString], settings: &mut Settings, problems: &mut Vec<String>) -> Result<(), Rejected> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(word) = word.to_str() else {
            problems.push("an argument is not UTF-8".to_owned());
            continue;
        };
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            problems.push(format!("{word}: there are flags only, such as `--api-specs=openapi.yaml`"));
            continue;
        };
        match flag {
            "help" | "h" => return Err(Rejected::Help),
            "version" => return Err(Rejected::Version),
            _ => {}
        }
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let Some(setting) = SETTINGS.iter().find(|setting| setting.flag() == name) else {
            problems.push(format!("--{name}: there is no such flag; `--help` lists them"));
            continue;
        };
        let value = match (value, setting.kind) {
            (Some(value), _) => value.to_owned(),
            (None, Kind::Bool) => "true".to_owned(),
            (None, _) => match words.next().and_then(|word| word.to_str()) {
                Some(value) => value.to_owned(),
                None => {
                    problems.push(format!("--{name} needs a value"));
                    continue;
                }
            },
        };
        settings.values.insert(setting.name, (Source::Flag, value));
    }
    Ok(())
}

/// `[METHOD:]PATH|REQUEST|RESPONSE`, separated by commas.
fn read_endpoints(text: &str, settings: &mut Settings, problems: &mut Vec<String>) {
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let mut parts = item.split('|');
        let (Some(place), Some(request), Some(response), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            problems.push(format!("ENDPOINTS: {item:?} is not `[METHOD:]PATH|REQUEST|RESPONSE`"));
            continue;
        };
        let (method, path) = match place.split_once(':') {
            Some((method, path)) if !method.contains('/') => (method, path),
            _ => ("", place),
        };
        settings.endpoints.push(Endpoint {
            path: path.trim().to_owned(),
            method: method.trim().to_ascii_uppercase(),
            request: request.trim().to_owned(),
            response: response.trim().to_owned(),
        });
    }
}

fn read_file(file: &Path, settings: &mut Settings, problems: &mut Vec<String>) {
    let name = file.display().to_string();
    let text = match keystore::files::text(file, MAX_FILE_BYTES) {
        Ok(text) => text,
        Err(error) => return problems.push(format!("cannot read {name}: {error}")),
    };
    let mut collector = Collector::default();
    if let Some(root) = yaml::parse(&text, &mut collector) {
        read_node(&name, "", &root, settings, problems);
    }
    if let Some(found) = collector.finish(&name, &text) {
        problems.extend(found.list().iter().map(ToString::to_string));
    }
}

fn read_node(file: &str, path: &str, node: &Node, settings: &mut Settings, problems: &mut Vec<String>) {
    for entry in node.entries() {
        let key = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        let line = entry.key_span.line;
        let found = SETTINGS.iter().find(|setting| !setting.key.is_empty() && setting.key.eq_ignore_ascii_case(&key));
        match (found, &entry.value.value) {
            (Some(setting), Value::List(items)) if setting.kind == Kind::Endpoints => {
                settings.endpoints = items.iter().map(endpoint).collect();
            }
            (Some(setting), Value::List(items)) if setting.kind == Kind::List => {
                let items = items.iter().filter_map(Node::text).collect::<Vec<_>>().join(";");
                settings.values.insert(setting.name, (Source::File, items));
            }
            (Some(setting), Value::Scalar(scalar)) => {
                settings.values.insert(setting.name, (Source::File, scalar.text.clone()));
            }
            (Some(_), Value::Null) => {}
            (Some(_), _) => problems.push(format!("{file}:{line}: {key} must be one value")),
            (None, Value::Map(_)) if SETTINGS.iter().any(|setting| is_under(setting.key, &key)) => {
                read_node(file, &key, &entry.value, settings, problems);
            }
            (None, _) => problems.push(format!("{file}:{line}: there is no setting {key}")),
        }
    }
}

fn is_under(key: &str, parent: &str) -> bool {
    key.get(..parent.len()).is_some_and(|start| start.eq_ignore_ascii_case(parent))
        && key.as_bytes().get(parent.len()) == Some(&b'.')
}

fn endpoint(node: &Node) -> Endpoint {
    let text = |name: &str| {
        let entry = node.entries().iter().find(|entry| entry.key.eq_ignore_ascii_case(name));
        entry.and_then(|entry| entry.value.text()).unwrap_or_default().to_owned()
    };
    Endpoint {
        path: text("Path"),
        method: text("Method").to_ascii_uppercase(),
        request: text("RequestValidation"),
        response: text("ResponseValidation"),
    }
}

/// What `--help` prints.
pub(super) fn usage() -> String {
    let mut out = String::from(
        "Runs in the place of Wallarm's API Firewall (proxy mode, API mode and GraphQL mode).\n\
         Each setting is a variable in the environment, a flag, or a key of apifw.yaml in the working directory; the later one wins.\n\n",
    );
    for setting in SETTINGS {
        if matches!(setting.kind, Kind::NotBuilt(_)) {
            continue;
        }
        let default =
            if setting.default.is_empty() { String::new() } else { format!(" (default {})", setting.default) };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  --{:<42} {PREFIX}{}{default}", setting.flag(), setting.name);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn read_all(words: &[&str], environment: &[(&str, &str)], file: &str) -> Result<Settings, Rejected> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("apifw.yaml");
        if !file.is_empty() {
            std::fs::write(&path, file).unwrap();
        }
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let look =
            |name: &str| environment.iter().find(|(have, _)| *have == name).map(|(_, value)| (*value).to_owned());
        let present: Vec<String> = environment.iter().map(|(name, _)| (*name).to_owned()).collect();
        read(&words, look, &present, &path)
    }

    #[test]
    fn a_misspelt_variable_is_a_problem() {
        let misspelt = [("APIFW_DENYLIST_TOKEN_FILE", "denied.txt"), ("HOME", "/")];
        let Err(Rejected::Problems(problems)) = read_all(&[], &misspelt, "") else { panic!("it is read") };
        assert_eq!(problems, ["APIFW_DENYLIST_TOKEN_FILE: there is no such setting"]);
        let service = [
            ("APIFW_PORT", "tcp://10.0.0.1:8282"),
            ("APIFW_SERVICE_HOST", "10.0.0.1"),
            ("APIFW_PORT_8282_TCP_PROTO", "tcp"),
        ];
        assert!(read_all(&[], &service, "").is_ok());
    }

    #[test]
    fn the_file_wins_over_flags_and_flags_over_the_environment() {
        let environment =
            [("APIFW_URL", "http://127.0.0.1:1"), ("APIFW_SERVER_URL", "http://a/"), ("APIFW_MODE", "proxy")];
        let file = "server:\n  apihost: http://127.0.0.1:3\nShadowAPI: { ExcludeList: [404, 400] }\n";
        let settings =
            read_all(&["--url", "http://127.0.0.1:2", "--server-url=http://b/"], &environment, file).unwrap();
        assert_eq!(settings.get("URL"), "http://127.0.0.1:3");
        assert_eq!(settings.get("SERVER_URL"), "http://b/");
        assert_eq!(settings.get("MODE"), "proxy");
        assert_eq!(settings.get("SHADOW_API_EXCLUDE_LIST"), "404;400");
        assert_eq!(settings.get("CUSTOM_BLOCK_STATUS_CODE"), "403");
    }

    #[test]
    fn endpoints_come_as_text_or_as_a_list() {
        let text = [("APIFW_ENDPOINTS", "GET:/a/{x}|LOG_ONLY|DISABLE, /b|BLOCK|BLOCK")];
        let settings = read_all(&[], &text, "").unwrap();
        assert_eq!((settings.endpoints[0].method.as_str(), settings.endpoints[0].path.as_str()), ("GET", "/a/{x}"));
        assert_eq!((settings.endpoints[1].method.as_str(), settings.endpoints[1].response.as_str()), ("", "BLOCK"));
        let file = "Endpoints:\n  - { Path: /c, RequestValidation: BLOCK, ResponseValidation: DISABLE }\n";
        assert_eq!(read_all(&[], &text, file).unwrap().endpoints.len(), 1);
    }

    #[test]
    fn what_is_not_known_is_a_problem() {
        for (words, file) in
            [(&["--nothing=1"][..], ""), (&["serve"], ""), (&[], "Server: { Port: 1 }"), (&["--url"], "")]
        {
            assert!(matches!(read_all(words, &[], file), Err(Rejected::Problems(_))), "{words:?} {file}");
        }
        assert!(matches!(read_all(&["--help"], &[], ""), Err(Rejected::Help)));
    }

    #[test]
    fn names_and_keys_are_unique() {
        for (at, setting) in SETTINGS.iter().enumerate() {
            for other in SETTINGS.iter().skip(at + 1) {
                assert!(
                    setting.name != other.name && (setting.key.is_empty() || setting.key != other.key),
                    "{other:?}"
                );
            }
        }
    }
}
