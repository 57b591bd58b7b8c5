//! `portunus fleet push`: a configuration with all that it names becomes a generation, and is rolled out.
//!
//! It is checked twice, by what `portunus check` does: where it is, so that problems are said as people know them, and as a node will have it, so that
//! nothing is missing there.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use config::Config;
use fleet::generation::{Bundle, gather};
use fleet::store::Stored;
use proxy::generation::Generation;

use super::{Fleet, Pace, Problems, Reach, everywhere, one, short};
use crate::command::explain::shown;
use crate::command::{check, diff, progress};
use crate::edge::sandbox::Needs;
use crate::supervisor::{Beside, Control};

/// `portunus fleet push`.
#[derive(Debug, Clone, Args)]
pub(super) struct Push {
    /// Configuration file (YAML). What it names by relative paths goes with it
    file: PathBuf,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    pace: Pace,
    /// Give it to all nodes at once, whatever they make of it
    #[arg(long, conflicts_with = "stages")]
    all: bool,
    /// What to say of it in the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// Say what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not wait for the end of the roll-out
    #[arg(long)]
    no_wait: bool,
}

/// A folder of ours that is removed in the end.
struct Staging(PathBuf);

impl Drop for Staging {
    fn drop(&mut self) {
        // What is left there is readable for its owner alone.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Staging {
    /// Writes a generation as a node would have it.
    fn of(bundle: &Bundle) -> Result<Staging, Problems> {
        let name = format!("portunus-fleet-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let staging = Staging(std::env::temp_dir().join(name));
        let made = DirBuilder::new().mode(0o700).create(&staging.0);
        made.and_then(|()| bundle.write_into(&staging.0))
            .map_err(|error| one(format!("{}: {error}", staging.0.display())))?;
        Ok(staging)
    }

    fn main(&self, bundle: &Bundle) -> PathBuf {
        self.0.join(&bundle.main)
    }
}

pub(super) fn run(push: &Push) -> Result<ExitCode, Problems> {
    let Some((config, warnings)) = check::examine(&push.file) else { return Ok(ExitCode::FAILURE) };
    warnings.iter().for_each(|warning| complain!("warning: {warning}"));
    let (bundle, own) = bundle_of(&push.file, &config)?;
    own.iter().for_each(|path| say!("each node's own: {}", path.display()));
    let mut fleet = Fleet::of(&push.reach)?;
    let stored = fleet.store.rollout().map_err(one)?;
    if let Some(stored) = stored.as_ref().filter(|stored| stored.rollout.is_under_way()) {
        let generation = short(&stored.rollout.generation);
        return Err(one(format!(
            "the roll-out of {generation} is under way; wait for its end, or end it with `portunus fleet rollback`"
        )));
    }
    let differs = show_changes(&mut fleet, stored.as_ref(), &bundle)?;
    if push.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let is_lost = fleet.next_serial(stored.as_ref())? > stored.as_ref().map_or(1, |stored| stored.rollout.serial + 1);
    if !differs && !is_lost {
        say!("the fleet serves this already");
        return Ok(ExitCode::SUCCESS);
    }
    let serial = fleet.alone(|fleet| begin(push, fleet, stored.as_ref(), &bundle))?;
    if push.no_wait { Ok(ExitCode::SUCCESS) } else { fleet.follow(serial) }
}

/// Uploads, and begins the roll-out: its serial number.
fn begin(push: &Push, fleet: &mut Fleet, stored: Option<&Stored>, bundle: &Bundle) -> Result<u64, Problems> {
    progress("uploading what is not there yet ...");
    let generation = fleet.store.upload(bundle).map_err(one)?;
    let (serial, previous) = (fleet.next_serial(stored)?, stored.and_then(|stored| stored.rollout.settled()));
    let (reports, _) = fleet.store.reports().map_err(one)?;
    let at_once = everywhere(&fleet.config, serial, generation, previous.map(str::to_owned), &push.note);
    let rollout = match push.all || reports.is_empty() {
        true => at_once,
        false => push.pace.staged(at_once),
    };
    fleet.change(&rollout, stored)?;
    fleet
        .store
        .tidy()
        .map_err(|failure| one(format!("pushed, but what is not needed any more stays in etcd: {failure}")))?;
    Ok(serial)
}

/// The generation of a file, and what of it is each node's own.
fn bundle_of(file: &Path, config: &Config) -> Result<(Bundle, BTreeSet<PathBuf>), Problems> {
    let gathered = gather(file, config)?;
    let staging = Staging::of(&gathered.bundle)?;
    let main = staging.main(&gathered.bundle);
    let hint = |mut problems: Problems| {
        problems.push(
            "this is what a node would have of it: what is named by a relative path comes along, other files do not"
                .to_owned(),
        );
        problems
    };
    let texts = |problems: config::Problems| problems.list().iter().map(ToString::to_string).collect::<Vec<_>>();
    let staged = config::load(&main).map_err(|problems| hint(texts(problems)))?;
    let needs = Needs::of(&staged, &Beside::default(), &Control::None);
    let written: Vec<(PathBuf, &str)> = needs.writes_below(&staging.0);
    if !written.is_empty() {
        let problem = |(path, what): (PathBuf, &str)| {
            let path = path.strip_prefix(&staging.0).unwrap_or(&path).display().to_string();
            let place = if path.is_empty() { "beside the file".to_owned() } else { format!("in {path}") };
            format!(
                "{what} {place}: nodes write it, so that it can be no part of a generation; name it by its absolute path"
            )
        };
        return Err(written.into_iter().map(problem).collect());
    }
    let staged = Arc::new(staged);
    Generation::build(Arc::clone(&staged), None).map_err(|error| hint(error.problems))?;
    // Once more, since what looked relative may be named by an absolute path.
    let exact = gather(&main, &staged)?;
    Ok((exact.bundle, exact.own))
}

/// Says what a generation changes; whether it changes anything.
fn show_changes(fleet: &mut Fleet, stored: Option<&Stored>, bundle: &Bundle) -> Result<bool, Problems> {
    let settled = stored.and_then(|stored| stored.rollout.settled()).map(str::to_owned);
    let Some(settled) = settled else {
        say!("the fleet serves nothing yet; this has {} files", bundle.files.len());
        return Ok(true);
    };
    let before = match fleet.store.download(&settled) {
        Ok((_, before)) => before,
        Err(failure) => {
            complain!("warning: what the fleet serves cannot be compared with: {failure}");
            return Ok(true);
        }
    };
    let (old, new) = (Staging::of(&before)?, Staging::of(bundle)?);
    diff::print_files(&old.main(&before), &new.main(bundle))?;
    let paths: BTreeSet<&String> = before.files.keys().chain(bundle.files.keys()).collect();
    for path in paths {
        let sign = match (before.files.get(path), bundle.files.get(path)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), Some(_)) => '~',
            (None, _) => '+',
            (Some(_), None) => '-',
        };
        say!("{}", shown(format!("{sign} file {path}").as_bytes()));
    }
    Ok(before != *bundle)
}
