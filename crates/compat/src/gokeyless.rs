//! `portunus as gokeyless …`: the settings of that key server, translated into a native configuration, which is then read like any other.
//!
//! A setting comes from a flag, else from the environment (`KEYLESS_…`), else from the file, else it has that program's default. What cannot be
//! taken over is rejected with what to do instead. `docs/gokeyless.md` lists every departure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use config::yaml::{self, Node};
use config::{self, KeyServerConfig, Problems};

use super::go_duration::milliseconds;

/// Where the file is looked for if no flag names it.
const PLACES: [&str; 2] = ["gokeyless.yaml", "/etc/keyless/gokeyless.yaml"];

/// Settings that are taken over, but for the key stores.
const KNOWN: [&str; 9] = [
    "loglevel",
    "auth_cert",
    "auth_key",
    "cloudflare_ca_cert",
    "port",
    "metrics_port",
    "pid_file",
    "sign_timeout",
    "sign_retry_count",
];

/// Settings about enrolment with the vendor's authority.
const ENROLMENT: [&str; 5] = ["auth_csr", "hostname", "zone_id", "origin_ca_api_key", "init_endpoint"];

/// What `-h` prints.
const USAGE: &str = "\
Usage: portunus as gokeyless [-c FILE] [FLAGS]       run the key server
       portunus import gokeyless [-c FILE] [FLAGS]   print the same as a native configuration

Settings (as --auth-cert VALUE, as KEYLESS_AUTH_CERT in the environment, or in the file, in this order):
  loglevel, auth_cert, auth_key, cloudflare_ca_cert, port, metrics_port, pid_file, sign_timeout, sign_retry_count;
  in the file only: private_key_stores, with `dir` or `file` each
Our own flags:
  --allow-rsa-decrypt   answer the RSA key exchange of TLS 1.2 and earlier, in constant time
  --no-lock-memory      run where the limit forbids to lock memory
";

/// What became of the arguments.
#[derive(Debug)]
pub enum Translated {
    /// A native configuration and what the operator should know.
    Config {
        /// The file's text.
        yaml: String,
        /// Where the process id goes.
        pid_file: Option<PathBuf>,
        /// One line each.
        warnings: Vec<String>,
    },
    /// Help was asked for.
    Help(&'static str),
    /// Every problem, one line each.
    Rejected(Vec<String>),
}

/// Everything that was said, from all places.
#[derive(Default)]
struct Settings {
    values: BTreeMap<String, String>,
    folders: Vec<String>,
    files: Vec<String>,
    allow_decrypt: bool,
    no_lock: bool,
    problems: Vec<String>,
}

/// Translates the arguments (without the program's name), with the environment and the file they mean.
pub fn translate(words: &[OsString]) -> Translated {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| matches!(word.as_str(), "-h" | "--help" | "-help")) {
        return Translated::Help(USAGE);
    }
    let mut settings = Settings::default();
    let mut flags = BTreeMap::new();
    settings.read_flags(&words, &mut flags);
    match flags.remove("config").map(PathBuf::from).or_else(default_file) {
        Some(file) => settings.read_file(&file),
        None => settings
            .problems
            .push(format!("no configuration: name it with -c FILE, or put it at {}", PLACES.join(" or "))),
    }
    for name in KNOWN.iter().chain(&ENROLMENT) {
        if let Ok(value) = std::env::var(format!("KEYLESS_{}", name.to_uppercase())) {
            settings.values.insert((*name).to_owned(), value);
        }
    }
    settings.values.extend(flags);
    settings.finish()
}

/// The native configuration active for these arguments: translated, then read as a file would be.
///
/// # Errors
/// Every problem, one line each.
pub fn load(words: &[OsString]) -> Result<KeyServerConfig, Vec<String>> {
    match translate(words) {
        Translated::Config { yaml, pid_file, .. } => {
            let base = std::env::current_dir().map_err(|error| vec![format!("the working folder: {error}")])?;
            let lines = |problems: Problems| problems.list().iter().map(ToString::to_string).collect::<Vec<_>>();
            let mut config = config::parse_key_server("gokeyless", &yaml, &base).map_err(lines)?;
            config.pid_file = pid_file.map(|path| base.join(path));
            Ok(config)
        }
        Translated::Help(text) => Err(vec![text.to_owned()]),
        Translated::Rejected(problems) => Err(problems),
    }
}

fn default_file() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

impl Settings {
    /// `--name value` and `--name=value`, one dash or two, `-` for `_`.
    fn read_flags(&mut self, words: &[String], flags: &mut BTreeMap<String, String>) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                self.problems.push(format!("{word:?} is no flag; known are those that -h lists"));
                continue;
            };
            let (name, given) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            let name = name.replace('-', "_");
            match name.as_str() {
                "allow_rsa_decrypt" => self.allow_decrypt = true,
                "no_lock_memory" => self.no_lock = true,
                "c" | "config" => self.take_flag("config", given, &mut words, flags),
                known if KNOWN.contains(&known) || ENROLMENT.contains(&known) => {
                    self.take_flag(known, given, &mut words, flags);
                }
                "config_only" | "manual_activation" | "debug" | "version" => {
                    self.problems.push(format!("--{name} is not taken over; leave it out"));
                }
                _ => self.problems.push(format!("--{name} is not known; known are those that -h lists")),
            }
        }
    }

    fn take_flag<'w>(
        &mut self,
        name: &str,
        given: Option<&str>,
        words: &mut impl Iterator<Item = &'w String>,
        flags: &mut BTreeMap<String, String>,
    ) {
        match given.map(str::to_owned).or_else(|| words.next().cloned()) {
            Some(value) => drop(flags.insert(name.to_owned(), value)),
            None => self.problems.push(format!("--{name} lacks its value")),
        }
    }

    fn read_file(&mut self, file: &Path) {
        let place = file.display();
        let text = match keystore::files::text(file, yaml::MAX_FILE_BYTES as u64) {
            Ok(text) => text,
            Err(error) => return self.problems.push(format!("{place}: {error}; name the file with -c")),
        };
        let mut problems = config::problem::Collector::default();
        let root = yaml::parse(&text, &mut problems);
        if let Some(found) = problems.finish(&place.to_string(), &text) {
            self.problems.extend(found.list().iter().map(ToString::to_string));
        }
        for entry in root.as_ref().map(Node::entries).unwrap_or_default() {
            let at = format!("{place}:{}", entry.key_span.line);
            let name = entry.key.replace('-', "_");
            if name == "private_key_stores" {
                entry.value.items().iter().for_each(|store| self.read_store(store, &place.to_string()));
            } else if !KNOWN.contains(&name.as_str()) && !ENROLMENT.contains(&name.as_str()) {
                self.problems.push(format!("{at}: `{}` is not known; remove it", entry.key));
            } else if let Some(value) = entry.value.text().filter(|value| !value.is_empty()) {
                self.values.insert(name, value.to_owned());
            }
        }
    }

    fn read_store(&mut self, store: &Node, place: &str) {
        let at = format!("{place}:{}", store.span.line);
        match store.entries() {
            [only] => match (only.key.as_str(), only.value.text()) {
                ("dir", Some(folder)) => self.folders.push(folder.to_owned()),
                ("file", Some(file)) => self.files.push(file.to_owned()),
                ("uri", _) => self.problems.push(format!(
                    "{at}: keys in a PKCS#11 module are not served; export them to files that only the server may read, or keep the other key server for them"
                )),
                _ => self.problems.push(format!("{at}: a store has `dir` or `file` with a path")),
            },
            _ => self.problems.push(format!("{at}: a store has exactly one of `dir` and `file`")),
        }
    }

    fn value(&self, name: &str, default: &str) -> String {
        self.values.get(name).cloned().unwrap_or_else(|| default.to_owned())
    }

    fn finish(mut self) -> Translated {
        for name in ENROLMENT.iter().filter(|name| self.values.contains_key(**name)) {
            self.problems.push(format!(
                "`{name}` is about enrolment with the vendor's authority, which is not done here; get the certificate by the vendor's own means, name it with `auth_cert` and `auth_key`, and remove `{name}`"
            ));
        }
        if self.folders.is_empty() && self.files.is_empty() && self.problems.is_empty() {
            self.problems.push("`private_key_stores` names no keys; add `- dir: FOLDER` or `- file: FILE`".to_owned());
        }
        let mut warnings = Vec::new();
        let level = self.log_level();
        let ports = (self.port("port", 2407), self.port("metrics_port", 2406));
        let timeout = self.sign_timeout(&mut warnings);
        if self.value("sign_retry_count", "0") != "0" {
            warnings
                .push("`sign_retry_count` is not used: a key in memory does not fail once and then succeed".to_owned());
        }
        if !self.allow_decrypt {
            warnings.push("RSA decryption is off; edges that still need it: --allow-rsa-decrypt".to_owned());
        }
        warnings.push(format!(
            "metrics are on 127.0.0.1:{} only; `portunus import gokeyless` and `admin` let them be elsewhere",
            ports.1
        ));
        if !self.problems.is_empty() {
            return Translated::Rejected(self.problems);
        }
        let pid_file = self.values.get("pid_file").map(PathBuf::from);
        Translated::Config { yaml: self.native(&level, ports, timeout), pid_file, warnings }
    }

    fn log_level(&mut self) -> String {
        let given = self.value("loglevel", "1");
        match given.as_str() {
            "0" => "debug",
            "1" => "info",
            "2" => "warn",
            "3" | "4" | "5" => "error",
            _ => {
                self.problems.push(format!("`loglevel` {given:?} is none; use 0 (all) to 5 (fatal only)"));
                "info"
            }
        }
        .to_owned()
    }

    fn port(&mut self, name: &str, default: u16) -> u16 {
        let given = self.value(name, &default.to_string());
        given.parse().unwrap_or_else(|_| {
            self.problems.push(format!("`{name}` {given:?} is not a port; use 1 to 65535"));
            default
        })
    }

    /// The longest that an operation may take, milliseconds; none if it is not bounded there.
    fn sign_timeout(&mut self, warnings: &mut Vec<String>) -> Option<u64> {
        /// What the native setting allows.
        const BOUNDS: (u64, u64) = (10, 600_000);
        let given = self.value("sign_timeout", "0");
        let Some(wanted) = milliseconds(&given) else {
            self.problems.push(format!("`sign_timeout` {given:?} is no duration such as `5s`"));
            return None;
        };
        let taken = wanted.clamp(BOUNDS.0, BOUNDS.1);
        if wanted > 0 && taken != wanted {
            warnings.push(format!("`sign_timeout` is {taken} ms; it may be 10 ms to 10 minutes"));
        }
        (wanted > 0).then_some(taken)
    }

    fn native(&self, level: &str, (port, metrics_port): (u16, u16), timeout: Option<u64>) -> String {
        let path = |name: &str, default: &str| quoted(&self.value(name, default));
        let operations = if self.allow_decrypt { "[sign, sign_legacy, rsa_decrypt]" } else { "[sign, sign_legacy]" };
        let mut out = format!(
            "listeners:\n  - name: edges\n    bind: \":{port}\"\n    tls:\n      certificate: {}\n      private_key: {}\n      client_ca: {}\n",
            path("auth_cert", "server.pem"),
            path("auth_key", "server-key.pem"),
            path("cloudflare_ca_cert", "keyless_cacert.pem"),
        );
        out.push_str("keys:\n  stores:\n");
        let list = |paths: &[String]| paths.iter().map(|path| quoted(path)).collect::<Vec<_>>().join(", ");
        // Writing to a String cannot fail.
        if !self.folders.is_empty() {
            let _ = writeln!(out, "    folders: [{}]", list(&self.folders));
        }
        if !self.files.is_empty() {
            let _ = writeln!(out, "    files: [{}]", list(&self.files));
        }
        let _ = writeln!(out, "    operations: {operations}");
        out.push_str("access:\n  - clients: \"*\" # every certificate of the authority may use every key, as it was\n    keys: all\n");
        out.push_str("ecdsa_opcodes_on_rsa_keys: true\naudit: none\n");
        let _ = writeln!(out, "admin:\n  bind: \"127.0.0.1:{metrics_port}\"\nlog_level: {level}");
        if self.no_lock {
            out.push_str("lock_memory: false\n");
        }
        if let Some(timeout) = timeout {
            let _ = writeln!(out, "limits:\n  operation_timeout: {timeout}ms");
        }
        out
    }
}

/// A path as a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn translated(file: &str, flags: &[&str]) -> Translated {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gokeyless.yaml");
        std::fs::write(&path, file).unwrap();
        let path = path.to_str().unwrap();
        let words: Vec<OsString> = ["-c", path].iter().chain(flags).map(OsString::from).collect();
        translate(&words)
    }

    #[test]
    fn a_usual_file_becomes_a_valid_native_one() {
        let file = "loglevel: 0\nport: 2500\nauth_cert: /etc/keyless/server.pem\nauth_key: /etc/keyless/server-key.pem\n\
                    cloudflare_ca_cert: /etc/keyless/ca.pem\nsign_timeout: 5s\npid_file: /run/k.pid\n\
                    private_key_stores:\n  - dir: /etc/keyless/keys\n  - file: /etc/keyless/one.key\n";
        let Translated::Config { yaml, pid_file, .. } =
            translated(file, &["--metrics-port=2600", "--auth-cert", "other.pem"])
        else {
            panic!("refused")
        };
        assert_eq!(pid_file, Some(PathBuf::from("/run/k.pid")));
        let config = config::parse_key_server("imported", &yaml, Path::new("/"))
            .unwrap_or_else(|problems| panic!("{problems}{yaml}"));
        assert!(config.ecdsa_opcodes_on_rsa_keys);
        assert_eq!(config.log_level, "debug");
        assert_eq!(config.listeners[0].tls.as_ref().unwrap().certificate, Path::new("/other.pem"));
        assert_eq!(config.limits.operation_timeout, std::time::Duration::from_secs(5));
        for part in ["\":2500\"", "127.0.0.1:2600", "\"/etc/keyless/one.key\""] {
            assert!(yaml.contains(part), "{part} is missing: {yaml}");
        }
    }

    #[test]
    fn the_timeout_is_taken_over_as_go_writes_it() {
        for (given, expected) in [
            ("1m30s", Some("90000ms")),
            ("1.5s", Some("1500ms")),
            ("0", None),
            ("0s", None),
            ("1h", Some("600000ms")),
            ("1ms", Some("10ms")),
        ] {
            let file = format!("private_key_stores: [{{ dir: a }}]\nsign_timeout: {given}\n");
            let Translated::Config { yaml, warnings, .. } = translated(&file, &[]) else { panic!("rejected: {given}") };
            let written = yaml.split_once("operation_timeout: ").map(|(_, rest)| rest.trim_end());
            assert_eq!(written, expected, "{given}");
            let is_bounded = warnings.iter().any(|warning| warning.contains("sign_timeout"));
            assert_eq!(is_bounded, ["1h", "1ms"].contains(&given), "{given}: {warnings:?}");
            config::parse_key_server("imported", &yaml, Path::new("/"))
                .unwrap_or_else(|problems| panic!("{given}: {problems}"));
        }
    }

    #[test]
    fn what_cannot_be_taken_over_is_rejected_with_what_to_do() {
        let cases = [
            ("private_key_stores:\n  - uri: pkcs11:token=a\n", "PKCS#11"),
            ("private_key_stores: [{ dir: a, file: b }]\n", "exactly one"),
            ("private_key_stores: [{ dir: a }]\nhostname: a.example\n", "enrolment"),
            ("private_key_stores: [{ dir: a }]\nport: x\n", "not a port"),
            ("private_key_stores: [{ dir: a }]\nfoo: x\n", ":2: `foo` is not known"),
            ("port: 1\n", "names no keys"),
            ("private_key_stores: [{ dir: a }]\nsign_timeout: soon\n", "no duration"),
            ("private_key_stores: [\n", "gokeyless.yaml:"),
        ];
        for (file, part) in cases {
            let Translated::Rejected(problems) = translated(file, &[]) else { panic!("accepted: {file}") };
            assert!(problems.iter().any(|problem| problem.contains(part)), "{file}: {problems:?}");
        }
    }
}
