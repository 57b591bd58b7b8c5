//! `portunus keystore`: add, list, remove, export, check.
//!
//! Arguments, passwords and texts; what a store is and how it changes is the `keystore` crate's. Asks for a password at a terminal only, and
//! never for a confirmation: what replaces or removes more than was named has its own option.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use keystore::date::date;
use keystore::edit::{self, AddOptions, NewPair};
use keystore::inspect::{self, Inspection, Listed};
use keystore::{Location, Password};
use tls::KeyType;
use wire::hexadecimal::hexadecimal;
use zeroize::Zeroizing;

/// Longest password file, bytes.
const MAX_PASSWORD_BYTES: u64 = 64 * 1024;

/// Add, list, remove, export and check certificates and keys.
#[derive(Debug, Clone, Args)]
pub struct KeystoreCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Add a certificate with its key under a name, making the store if there is none.
    Add(Add),
    /// Show what a store serves: names, key types, end of validity, fingerprints.
    List(List),
    /// Remove what serves a name.
    Remove(Remove),
    /// Write the certificates that serve a name as PEM.
    Export(Export),
    /// Check a whole store; exits 1 if anything is wrong with it.
    Check(Check),
}

/// Which store, and what opens it.
#[derive(Debug, Clone, Args)]
struct StoreArguments {
    /// The store: a folder of PEM files, a PKCS#12 file or a Java keystore.
    #[arg(long, value_name = "PATH")]
    store: PathBuf,
    /// The kind of store; distinguished from its content or the ending of its name if left out.
    #[arg(long = "type", value_name = "KIND")]
    kind: Option<Kind>,
    /// File with the store's password; one final newline is not part of it.
    #[arg(long, value_name = "FILE", conflicts_with = "password_env")]
    password_file: Option<PathBuf>,
    /// Environment variable with the store's password.
    #[arg(long, value_name = "VARIABLE")]
    password_env: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A folder of PEM files.
    Folder,
    /// A PKCS#12 file.
    Pkcs12,
    /// A Java keystore (JKS).
    Jks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KeyTypeName {
    Ecdsa,
    Rsa,
    Ed25519,
}

impl From<KeyTypeName> for KeyType {
    fn from(name: KeyTypeName) -> KeyType {
        match name {
            KeyTypeName::Ecdsa => KeyType::Ecdsa,
            KeyTypeName::Rsa => KeyType::Rsa,
            KeyTypeName::Ed25519 => KeyType::Ed25519,
        }
    }
}

#[derive(Debug, Clone, Args)]
struct Add {
    #[command(flatten)]
    store: StoreArguments,
    /// Host name, wildcard such as `*.example.com`, or `default` for clients that ask for no name or an unknown one.
    #[arg(long, value_name = "HOST")]
    name: String,
    /// PEM file with the certificate, and after it the certificates of its issuers.
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,
    /// PEM file with the private key; the certificate's file if left out.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// File with the password of the private key, if that is encrypted.
    #[arg(long, value_name = "FILE")]
    key_password_file: Option<PathBuf>,
    /// Replace what serves the name with a key of the same type.
    #[arg(long)]
    overwrite: bool,
    /// Write a Java keystore for SillyProxy, which keytool cannot read.
    #[arg(long)]
    sillyproxy_format: bool,
}

#[derive(Debug, Clone, Args)]
struct List {
    #[command(flatten)]
    store: StoreArguments,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Args)]
struct Remove {
    #[command(flatten)]
    store: StoreArguments,
    /// The name to remove.
    #[arg(long, value_name = "HOST")]
    name: String,
    /// Remove only what has a key of this type.
    #[arg(long, value_name = "TYPE")]
    key_type: Option<KeyTypeName>,
    /// Remove it also if it serves other names too.
    #[arg(long)]
    all_names: bool,
}

#[derive(Debug, Clone, Args)]
struct Export {
    #[command(flatten)]
    store: StoreArguments,
    /// The name whose certificates to write.
    #[arg(long, value_name = "HOST")]
    name: String,
    /// Which of them, if the name has several.
    #[arg(long, value_name = "TYPE")]
    key_type: Option<KeyTypeName>,
    /// Where to write, readable for the owner only; standard output if left out.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the private key too.
    #[arg(long, requires = "out")]
    with_key: bool,
    /// Replace the output file if it exists.
    #[arg(long, requires = "out")]
    overwrite: bool,
}

#[derive(Debug, Clone, Args)]
struct Check {
    #[command(flatten)]
    store: StoreArguments,
}

/// What a command has to say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// For standard output.
    pub output: String,
    /// For standard error: warnings and problems, one a line.
    pub remarks: String,
    /// Whether anything was wrong.
    pub failed: bool,
}

impl Response {
    fn warnings(&mut self, texts: &[String]) {
        texts.iter().for_each(|text| self.remarks.push_str(&format!("warning: {text}\n")));
    }

    fn problems(&mut self, texts: &[String]) {
        self.failed |= !texts.is_empty();
        texts.iter().for_each(|text| self.remarks.push_str(&format!("error: {text}\n")));
    }
}

/// Asks a person for a password with this text.
pub type Ask<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// Does what the command says; exit code 0, or 1 if anything was wrong.
pub fn run(command: KeystoreCommand) -> ExitCode {
    let prompt = |text: &str| rpassword::prompt_password(text);
    let response = respond(command, std::io::stdin().is_terminal().then_some(&prompt));
    // Whoever reads may have gone; there is nobody left to tell.
    let _ = std::io::stderr().write_all(response.remarks.as_bytes());
    let _ = std::io::stdout().write_all(response.output.as_bytes());
    if response.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Does what the command says, and returns what it has to say instead of printing it. Without `ask` no password is asked for.
pub fn respond(command: KeystoreCommand, ask: Option<Ask<'_>>) -> Response {
    let mut response = Response::default();
    let done = match command.action {
        Action::Add(arguments) => add(arguments, ask, &mut response),
        Action::List(arguments) => list(arguments, ask, &mut response),
        Action::Remove(arguments) => remove(arguments, ask, &mut response),
        Action::Export(arguments) => export(arguments, ask, &mut response),
        Action::Check(arguments) => check(arguments, ask, &mut response),
    };
    if let Err(problems) = done {
        response.problems(&problems);
    }
    response
}

/// What went wrong, one text per problem.
type Problems = Vec<String>;

fn one(problem: impl ToString) -> Problems {
    vec![problem.to_string()]
}

fn add(arguments: Add, ask: Option<Ask<'_>>, response: &mut Response) -> Result<(), Problems> {
    let key_password = arguments.key_password_file.as_deref().map(read_password).transpose()?;
    let key = arguments.key.as_ref().unwrap_or(&arguments.cert);
    let pair = NewPair::read(&arguments.cert, key, key_password.as_ref()).map_err(|error| error.problems)?;
    let (location, password) = arguments.store.open(Purpose::Change, ask)?;
    let options = AddOptions { overwrite: arguments.overwrite, sillyproxy: arguments.sillyproxy_format };
    let notes = edit::add(&location, password.as_ref(), &arguments.name, &pair, options).map_err(one)?;
    response.warnings(&notes);
    let (name, key_type) = (&arguments.name, format!("{:?}", pair.key_type()).to_ascii_lowercase());
    let _ = writeln!(response.output, "added {name} ({key_type}) to {}", location.path().display());
    Ok(())
}

fn remove(arguments: Remove, ask: Option<Ask<'_>>, response: &mut Response) -> Result<(), Problems> {
    let (location, password) = arguments.store.open(Purpose::Read, ask)?;
    let key_type = arguments.key_type.map(KeyType::from);
    let removed = edit::remove(&location, password.as_ref(), &arguments.name, key_type, arguments.all_names);
    for origin in removed.map_err(one)? {
        let _ = writeln!(response.output, "removed {origin}");
    }
    Ok(())
}

fn list(arguments: List, ask: Option<Ask<'_>>, response: &mut Response) -> Result<(), Problems> {
    let (location, password) = arguments.store.open(Purpose::Read, ask)?;
    let inspection = inspect::inspect(&location, password.as_ref());
    let now = SystemTime::now();
    response.output = if arguments.json { json(&inspection, now) } else { table(&inspection.pairs, now) };
    response.warnings(&inspection.warnings);
    response.problems(&inspection.problems);
    Ok(())
}

fn check(arguments: Check, ask: Option<Ask<'_>>, response: &mut Response) -> Result<(), Problems> {
    let (location, password) = arguments.store.open(Purpose::Read, ask)?;
    let inspection = inspect::check(&location, password.as_ref());
    response.warnings(&inspection.warnings);
    response.problems(&inspection.problems);
    if inspection.problems.is_empty() {
        let names: std::collections::BTreeSet<&String> = inspection.pairs.iter().flat_map(|pair| &pair.names).collect();
        let (pairs, names, place) = (inspection.pairs.len(), names.len(), location.path().display());
        let _ = writeln!(response.output, "{place}: {pairs} certificates with their keys, {names} names, no problems");
    }
    Ok(())
}

fn export(arguments: Export, ask: Option<Ask<'_>>, response: &mut Response) -> Result<(), Problems> {
    let (location, password) = arguments.store.open(Purpose::Read, ask)?;
    let key_type = arguments.key_type.map(KeyType::from);
    let found =
        inspect::export(&location, password.as_ref(), &arguments.name, key_type).map_err(|error| error.problems)?;
    let [pair] = found.as_slice() else {
        let types: Vec<String> = found.iter().map(|pair| format!("{:?}", pair.key_type).to_ascii_lowercase()).collect();
        return Err(one(format!("{} has several keys; choose with --key-type: {}", arguments.name, types.join(", "))));
    };
    let Some(out) = arguments.out else {
        response.output.push_str(&pair.chain);
        return Ok(());
    };
    if out.exists() && !arguments.overwrite {
        return Err(one(format!("{}: exists; say --overwrite to replace it", out.display())));
    }
    let key = if arguments.with_key { pair.key.as_str() } else { "" };
    let text = Zeroizing::new([&pair.chain, key].concat());
    keystore::files::replace(&out, text.as_bytes()).map_err(|error| one(format!("{}: {error}", out.display())))?;
    let what = if arguments.with_key { "certificates and private key" } else { "certificates" };
    let _ = writeln!(response.output, "wrote {what} of {} to {}", arguments.name, out.display());
    Ok(())
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// It must exist.
    Read,
    /// It may be new.
    Change,
}

impl StoreArguments {
    /// The store's location, and its password if there is one.
    fn open(&self, purpose: Purpose, ask: Option<Ask<'_>>) -> Result<(Location, Option<Password>), Problems> {
        let place = self.store.display();
        if purpose == Purpose::Read && !self.store.exists() {
            return Err(one(format!("{place}: there is no such store")));
        }
        let location = match self.kind {
            Some(Kind::Folder) => Location::PemFolder(self.store.clone()),
            Some(Kind::Pkcs12) => Location::Pkcs12(self.store.clone()),
            Some(Kind::Jks) => Location::Jks(self.store.clone()),
            None => Location::detect(&self.store).ok_or_else(|| {
                one(format!("{place}: cannot tell what kind of store this is; say --type folder, pkcs12 or jks"))
            })?,
        };
        let password = self.password(&location, ask)?;
        Ok((location, password))
    }

    fn password(&self, location: &Location, ask: Option<Ask<'_>>) -> Result<Option<Password>, Problems> {
        if let Some(file) = &self.password_file {
            return read_password(file).map(Some);
        }
        if let Some(variable) = &self.password_env {
            let value = std::env::var(variable);
            return value.map(|value| Some(Password::new(value))).map_err(|error| one(format!("{variable}: {error}")));
        }
        let Some(ask) = ask.filter(|_| !matches!(location, Location::PemFolder(_))) else { return Ok(None) };
        let place = self.store.display();
        let ask = |text: String| ask(&text).map(Password::new).map_err(one);
        let password = ask(format!("Password of {place}: "))?;
        if !self.store.exists() && ask(format!("Password of {place} again: "))? != password {
            return Err(one("the passwords differ"));
        }
        Ok(Some(password))
    }
}

/// A password from a file, without one final newline.
fn read_password(file: &Path) -> Result<Password, Problems> {
    use std::io::Read;
    let problem = |what: &dyn std::fmt::Display| one(format!("password file {}: {what}", file.display()));
    let mut text = Zeroizing::new(String::new());
    let opened = std::fs::File::open(file).map_err(|error| problem(&error))?;
    let length = opened.take(MAX_PASSWORD_BYTES + 1).read_to_string(&mut text).map_err(|error| problem(&error))?;
    if length as u64 > MAX_PASSWORD_BYTES {
        return Err(problem(&"larger than 64 KiB"));
    }
    let line = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(Password::new(line.to_owned()))
}

/// One row per name and pair, by name.
fn table(pairs: &[Listed], now: SystemTime) -> String {
    let mut rows: Vec<[String; 5]> = Vec::new();
    for pair in pairs {
        for name in &pair.names {
            let days = pair.days_left(now).to_string();
            rows.push([
                name.clone(),
                pair.kind.to_string(),
                date(pair.not_after),
                days,
                hexadecimal(&pair.fingerprint),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    rows.sort();
    rows.insert(0, ["NAME", "KEY", "EXPIRES", "DAYS", "SHA-256"].map(str::to_owned));
    let widths: [usize; 5] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or_default());
    let mut text = String::new();
    for row in rows {
        let [name, kind, expires, days, fingerprint] = row;
        let [first, second, third, fourth, _] = widths;
        let _ = writeln!(text, "{name:first$}  {kind:second$}  {expires:third$}  {days:>fourth$}  {fingerprint}");
    }
    text
}

fn json(inspection: &Inspection, now: SystemTime) -> String {
    let unix = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let pairs: Vec<serde_json::Value> = inspection
        .pairs
        .iter()
        .map(|pair| {
            serde_json::json!({
                "names": pair.names,
                "key": pair.kind.to_string(),
                "not_before": unix(pair.not_before),
                "not_after": unix(pair.not_after),
                "expires": date(pair.not_after),
                "days_left": pair.days_left(now),
                "fingerprint": hexadecimal(&pair.fingerprint),
                "origin": pair.origin,
            })
        })
        .collect();
    format!("{:#}\n", serde_json::Value::Array(pairs))
}
