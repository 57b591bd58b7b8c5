//! What the edge keeps once it serves, by its configuration: files, capabilities, system calls. All else it gives up before it has a second thread.
//!
//! [`Needs`] is what a configuration asks for; [`enter`] gives up the rest; [`Kept`] says of a later configuration what is out of its reach. The means are
//! those of `net::confine` and `net::capabilities`.

mod needs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use config::SandboxMode;
use net::capabilities::{self, Capability};
use net::confine::{Confined, Files, Places, Role, Sealed, confine};

use crate::supervisor;
pub use needs::Needs;
use needs::{NAMED, real};

/// Folders that one line of the log names.
const MAX_NAMED: usize = 12;

/// What the process was left with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// What may be read, written to and run; none if files are not closed off.
    places: Option<Places>,
    /// What was to be written to and was not there at the start: said then, and no reason to reject whatever comes next.
    missing: BTreeSet<PathBuf>,
    /// Files, and folders of sockets, that may be written to by themselves, as the configuration named them: they may be gone later.
    named: BTreeSet<PathBuf>,
    /// What may be written to without somebody having said so, and what of it was configuration at the start.
    open: Vec<PathBuf>,
    exposed: BTreeSet<PathBuf>,
    /// What was said at the start.
    concerns: Vec<String>,
    /// Capabilities that are left.
    capabilities: Vec<Capability>,
    /// Those that were given up.
    given_up: Vec<Capability>,
    /// What is given up once it serves.
    sealed: Sealed,
}

/// Gives up all that is not needed, for good. To be called before any other thread is made. Gives what is kept, and what could not be given up.
///
/// # Errors
/// The configuration demands the sandbox, and something could not be given up.
pub fn enter(needs: &Needs, mode: SandboxMode) -> Result<(Kept, Vec<String>), Vec<String>> {
    let floor = supervisor::floor();
    if mode < floor {
        return Err(vec![format!(
            "sandbox: `{}` is less than the `{}` of the process to take over from, and an upgrade never lowers it: restart instead",
            mode.name(),
            floor.name()
        )]);
    }
    if mode == SandboxMode::Off {
        return Ok((Kept::default(), Vec::new()));
    }
    let mut problems = needs.concerns.clone();
    // With the rights of the start, and as the log itself would; which says what is wrong if it cannot be.
    for path in needs.files.keys() {
        let _ = telemetry::open_file(path);
    }
    let threads = net::process::threads().unwrap_or(1);
    if threads > 1 {
        problems.push(format!("{} threads that were there before are not closed off", threads - 1));
    }
    let wanted: Vec<Capability> = needs.capabilities.keys().copied().collect();
    let before = capabilities::held();
    if let Err(error) = capabilities::keep_only(&wanted) {
        problems.push(format!("capabilities cannot be given up: {error}"));
    }
    let capabilities = capabilities::held();
    let given_up = before.into_iter().filter(|one| !capabilities.contains(one)).collect();
    let there = |places: &BTreeMap<PathBuf, &str>| places.keys().filter_map(|path| path.canonicalize().ok()).collect();
    let places = Places {
        read: there(&needs.readable()),
        write: there(&needs.write),
        run: there(&needs.run),
        connect: there(&needs.connect),
        files: there(&needs.files),
        sockets: there(&needs.sockets),
    };
    let missing = needs.write.keys().filter(|path| !path.exists()).cloned().collect();
    let role = if needs.run.is_empty() { Role::Gate } else { Role::GateWithPrograms };
    let Confined { privileges, files, calls } = confine(role, &places);
    let is_closed = matches!(files, Ok(Files::Closed));
    let files = match files {
        Ok(Files::Open) => {
            Err("this kernel has no Landlock: files beside those of the configuration are not closed off".to_owned())
        }
        files => files.map(|_| ()),
    };
    problems.extend([privileges, files, calls].into_iter().filter_map(Result::err));
    if mode == SandboxMode::On && !problems.is_empty() {
        return Err(problems.iter().map(|problem| demanded(problem)).collect());
    }
    let sealed = Sealed { connections: false, unix_sockets: !needs.has_unix_sockets() };
    let kept = Kept { places: is_closed.then_some(places), missing, capabilities, given_up, sealed, ..Kept::of(needs) };
    Ok((kept, problems))
}

/// What keeps a server from starting.
fn demanded(problem: &str) -> String {
    format!("sandbox: {problem}; fix this, or write `sandbox: auto`")
}

impl Kept {
    /// Logs what is left, and what could not be given up.
    pub fn report(&self, problems: &[String]) {
        let named = |of: fn(&Places) -> &Vec<PathBuf>| {
            self.places.as_ref().map_or_else(|| "everything".to_owned(), |places| list(of(places)))
        };
        let (read, write) = (named(|places| &places.read), named(|places| &places.write));
        let (files, sockets) = (named(|places| &places.files), named(|places| &places.sockets));
        let programs = named(|places| &places.run);
        let programs = if programs.is_empty() { "none" } else { &programs };
        let capabilities: Vec<&str> = self.capabilities.iter().map(|one| one.name()).collect();
        let capabilities = if capabilities.is_empty() { "none".to_owned() } else { capabilities.join(" ") };
        let missing = net::confine::missing().join("; ");
        tracing::info!(
            read,
            write,
            files,
            sockets,
            programs,
            capabilities,
            missing,
            "sandbox: no new privileges, and this is left"
        );
        problems.iter().for_each(|problem| tracing::warn!("sandbox: {problem}"));
    }

    /// What it has by a configuration, before anything is given up.
    fn of(needs: &Needs) -> Kept {
        let folders = needs.write.iter().filter(|(path, why)| **why != NAMED && path.is_dir());
        let open: Vec<PathBuf> =
            folders.map(|(path, _)| path).chain(needs.files.keys()).map(|path| real(path)).collect();
        let exposed = exposed(needs, &open);
        let named = needs.files.keys().chain(needs.sockets.keys()).cloned().collect();
        Kept { named, open, exposed, concerns: needs.concerns.clone(), ..Kept::default() }
    }

    /// Gives up what only binding took. To be called once everything is bound. Says whether no more Unix sockets can be made.
    ///
    /// # Errors
    /// The kernel rejects.
    pub fn seal(&self) -> Result<bool, String> {
        net::confine::seal(self.sealed)?;
        Ok(self.sealed.unix_sockets)
    }

    /// What of `needs` is out of reach, each with what to do about it.
    pub fn lacks(&self, needs: &Needs) -> Vec<String> {
        let fix = "`portunus upgrade` loads it without losing a connection";
        let mut problems = Vec::new();
        if self.sealed.unix_sockets && needs.has_unix_sockets() {
            problems.push(format!("the configuration names a Unix socket, and there was none at the start, so that no more are made: {fix}, or name its folder in `sandbox.connect` beforehand"));
        }
        if let Some(Places { read, write, run, connect, files, sockets }) = &self.places {
            let covers = |granted: &[PathBuf], path: &Path| {
                // What is not there is reported by whoever wants it.
                path.canonicalize().map_or(true, |path| granted.iter().any(|folder| path.starts_with(folder)))
            };
            // What is written to is made where it is missing, or others make it: in the folder above it that is there.
            let may_write = |path: &Path| {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                let there = path.ancestors().find_map(|above| above.canonicalize().ok());
                there.is_none_or(|there| write.iter().any(|folder| there.starts_with(folder)))
            };
            let is_open = |path: &Path| [read, write, run].into_iter().any(|granted| covers(granted, path));
            for (path, why) in needs.read.iter().filter(|(path, _)| !is_open(path)) {
                let path = path.display();
                problems.push(format!("{path} ({why}) is outside of what the sandbox left open at the start: {fix}, or name the folder in `sandbox.read` beforehand"));
            }
            for (path, why) in needs.run.iter().filter(|(path, _)| !covers(run, path)) {
                problems.push(format!("{} ({why}) may not be run since the start: {fix}", path.display()));
            }
            // Only newer kernels close them off.
            let is_reached = |path: &Path| {
                let is_open = [connect, write, sockets].into_iter().any(|granted| covers(granted, path));
                is_open || !net::confine::closes_unix_sockets()
            };
            for (path, why) in needs.connect.iter().filter(|(path, _)| !is_reached(path)) {
                problems.push(format!("{} ({why}) may not be connected to since the start: {fix}", path.display()));
            }
            let is_written = |granted: &[PathBuf], path: &Path| {
                let is_granted = |path: PathBuf| granted.iter().any(|granted| path.starts_with(granted));
                self.named.contains(path) || may_write(path) || path.canonicalize().is_ok_and(is_granted)
            };
            let beside = needs.files.iter().filter(|(path, _)| !is_written(files, path));
            for (path, why) in beside.chain(needs.sockets.iter().filter(|(path, _)| !is_written(sockets, path))) {
                let path = path.display();
                problems.push(format!("{path} ({why}) may not be made or written to since the start, since it was not named then: {fix}, or name a folder of its own in `sandbox.write` beforehand"));
            }
            let is_missed = |path: &Path| !self.missing.contains(path) && !may_write(path);
            for (path, why) in needs.write.iter().filter(|(path, _)| is_missed(path)) {
                let path = path.display();
                problems.push(format!("{path} ({why}) may not be written to since the start: {fix}, or name the folder in `sandbox.write` beforehand"));
            }
        }
        for path in exposed(needs, &self.open).difference(&self.exposed) {
            problems.push(format!("{} is configuration, and this process may have written to it since the start: {fix}, or name a place that is not written to", path.display()));
        }
        problems.extend(needs.concerns.iter().filter(|concern| !self.concerns.contains(concern)).cloned());
        // One that the process never had may not be needed: where a range of ports is open to all.
        let lacking = needs.capabilities.iter().filter(|(one, _)| self.given_up.contains(one));
        let text =
            |(one, why): (&Capability, &&str)| format!("{} ({why}) was given up at the start: {fix}", one.name());
        problems.extend(lacking.map(text));
        problems
    }

    /// A word to problems that files out of reach may be the cause of.
    pub fn hint(&self, problems: &[String]) -> Option<String> {
        let read = &self.places.as_ref()?.read;
        problems.iter().any(|problem| problem.contains("ermission denied")).then(|| {
            format!("the sandbox may be the reason: since the start this process reads below {} alone. `portunus upgrade` opens what the configuration names now, without losing a connection", list(read))
        })
    }
}

/// What is configuration, and lies in one of these places, though nobody said that it may.
fn exposed(needs: &Needs, open: &[PathBuf]) -> BTreeSet<PathBuf> {
    let named: Vec<PathBuf> =
        needs.write.iter().filter(|(_, why)| **why == NAMED).map(|(path, _)| real(path)).collect();
    let open = open.iter().filter(|place| !named.iter().any(|named| place.starts_with(named)));
    open.flat_map(|place| needs.exposed_in(place)).map(|(path, _)| path.clone()).collect()
}

/// Some names of folders.
fn list(places: &[PathBuf]) -> String {
    let mut names: Vec<String> = places.iter().take(MAX_NAMED).map(|path| path.display().to_string()).collect();
    if places.len() > MAX_NAMED {
        names.push(format!("and {} more", places.len() - MAX_NAMED));
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_can_be_written_to_where_the_one_above_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [open, closed] = ["open", "closed"].map(|name| root.join(name));
        [&open, &closed].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let places = Places { read: Vec::new(), write: vec![open.clone()], ..Places::default() };
        let missing = BTreeSet::from([closed.join("before")]);
        let kept = Kept { places: Some(places), missing, ..Kept::default() };
        for (folder, is_reached) in [
            (open.clone(), true),
            (open.join("new/store"), true),
            (closed.clone(), false),
            (closed.join("new/store"), false),
            (closed.join("before"), true),
            (root.join("elsewhere"), false),
        ] {
            let mut needs = Needs::default();
            needs.write.insert(folder.clone(), "certificates");
            assert_eq!(kept.lacks(&needs).is_empty(), is_reached, "{}", folder.display());
        }
    }
}
