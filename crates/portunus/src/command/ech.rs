//! `portunus ech`: makes keys for Encrypted Client Hello, and prints the DNS records that clients learn them from.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use keystore::ech::{MAX_KEYS, for_dns, read, to_text};
use keystore::files;
use tls::EchKey;

/// Keys for Encrypted Client Hello (ECH), and their DNS records.
#[derive(Debug, Args)]
pub struct EchCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Put a new key before those in FILE, making the file if there is none, and print the DNS records for it
    Rotate(Rotate),
    /// Print the DNS records for the first key in FILE
    Show(Show),
}

#[derive(Debug, Args)]
struct Rotate {
    #[command(flatten)]
    show: Show,
    /// The name that everybody may see in place of those that clients ask for; needs a certificate, too [default: that of the first key]
    #[arg(long, value_name = "NAME")]
    public_name: Option<String>,
    /// Keys to keep, the new one among them: clients know an earlier one until their DNS record is outdated
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=MAX_KEYS as i64))]
    keep: u8,
}

#[derive(Debug, Args)]
struct Show {
    /// File of keys, as `ech_keys` names it
    file: PathBuf,
    /// A name that clients ask for, for its record; may be repeated [default: NAME stands in its place]
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// Protocols that the records say, `h3` among them where HTTP/3 is served
    #[arg(long, value_name = "PROTOCOLS", default_value = "h2,http/1.1", value_parser = protocols)]
    alpn: String,
}

/// Makes a key or prints records; gives the exit status.
pub fn run(command: EchCommand) -> ExitCode {
    let done = match &command.action {
        Action::Rotate(rotate) => rotated(rotate).map(|keys| (keys, &rotate.show)),
        Action::Show(show) => read(&show.file).map(|keys| (keys, show)),
    };
    match done {
        Ok((keys, show)) => {
            keys.first().into_iter().for_each(|key| print_records(key, show));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            complain!("portunus ech: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the file with a new key before the others.
fn rotated(rotate: &Rotate) -> Result<Vec<EchKey>, String> {
    let file = &rotate.show.file;
    let is_there = file.symlink_metadata().is_ok();
    let mut keys = if is_there { read(file)? } else { Vec::new() };
    let known = keys.first().map(|key| key.public_name().to_owned());
    let name = rotate.public_name.clone().or(known).ok_or(
        "--public-name is missing: the name that everybody may see in place of those that clients ask for, such as cover.example.com",
    )?;
    // Clients say by this number which key they mean; one that was just dropped does not come again at once.
    let start = keys.first().map_or(0, |first| first.id().wrapping_add(1));
    let mut ids = (0..=u8::MAX).map(|step| start.wrapping_add(step));
    let id = ids.find(|id| !keys.iter().any(|key| key.id() == *id)).unwrap_or_default();
    keys.insert(0, EchKey::generate(&name, id).map_err(|error| error.to_string())?);
    keys.truncate(usize::from(rotate.keep));
    files::replace(file, to_text(&keys).as_bytes()).map_err(|error| format!("{}: {error}", file.display()))?;
    let count = if keys.len() == 1 { "1 key".to_owned() } else { format!("{} keys", keys.len()) };
    complain!(
        "{}: {count}; the first is new. Put the records into DNS once all servers have loaded the file",
        file.display()
    );
    Ok(keys)
}

fn print_records(key: &EchKey, show: &Show) {
    let unnamed = ["NAME".to_owned()];
    let names = if show.name.is_empty() { &unnamed[..] } else { &show.name };
    for name in names {
        let name = name.trim_end_matches('.');
        say!("{name}. 300 IN HTTPS 1 . alpn=\"{}\" ech=\"{}\"", show.alpn, for_dns(key));
    }
}

/// Names of protocols that may stand in a record as they are.
fn protocols(text: &str) -> Result<String, String> {
    let fits =
        |one: &str| !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.-".contains(&byte));
    if text.split(',').all(fits) {
        Ok(text.to_owned())
    } else {
        Err("write protocols with commas between: h2,http/1.1".to_owned())
    }
}
