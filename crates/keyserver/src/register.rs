//! What enrolment keeps on disk: the authority, tokens that are open, nodes that have certificates, and what was revoked.
//!
//! ```text
//! FOLDER/authority.key     the key of the authority, and its certificate
//! FOLDER/authority.pem     its certificate, for other key servers to trust
//! FOLDER/tokens/HASH       a token that may be redeemed, by the SHA-256 of its secret
//! FOLDER/nodes/NAME        what a node was enrolled as, and until when its last certificate is valid
//! FOLDER/revoked/ID        an enrolment whose certificates are accepted no more
//! ```
//!
//! The running server and the commands of operators change it, one at a time, under a lock. A token is gone from the disk before anything is made of it.
//! Text of our own, read as strictly as if it were a stranger's.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use keystore::authority::Authority;
use keystore::files;
use net::trusted::{self, Closed, Owner};
use rustix::fs::{FlockOperation, fcntl_lock};
use tls::crypto::digest;
use wire::enrolment::is_node_name;
use wire::hexadecimal::{from_hexadecimal, hexadecimal};
use zeroize::Zeroizing;

/// What the authority is called in its certificate.
const CALLED: &str = "Portunus enrolment CA";

/// How long the authority is valid.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Largest of the files, bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024;

/// Most tokens that are open at once, and most nodes.
pub const MAX_ENTRIES: usize = 100_000;

/// Whose turn it is within this process: locks of files are those of processes.
static TURN: Mutex<()> = Mutex::new(());

/// What all certificates of one enrolment have in common: the first bytes of their serial numbers.
pub type EnrolmentId = [u8; 8];

/// Bytes of a serial number: those of the enrolment, and those of the certificate.
pub const SERIAL_BYTES: usize = 16;

/// Names that a token is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// This one.
    Exact(String),
    /// Those that end in this, with its dot.
    Under(String),
}

impl Names {
    /// A name, or `*.` and the end of names; none if it is neither.
    pub fn parse(text: &str) -> Option<Names> {
        match text.strip_prefix('*') {
            None => is_node_name(text).then(|| Names::Exact(text.to_owned())),
            Some(end) => end.strip_prefix('.').filter(|rest| is_node_name(rest)).map(|_| Names::Under(end.to_owned())),
        }
    }

    fn hold(&self, name: &str) -> bool {
        match self {
            Names::Exact(only) => only == name,
            Names::Under(end) => name.strip_suffix(end.as_str()).is_some_and(|label| !label.is_empty()),
        }
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Names::Exact(name) => f.write_str(name),
            Names::Under(end) => write!(f, "*{end}"),
        }
    }
}

/// A token that may be redeemed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// For which names.
    pub names: Names,
    /// Until when, seconds since 1970.
    pub ends: u64,
    /// How often yet.
    pub uses: u32,
}

/// A node that was enrolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its enrolment.
    pub id: EnrolmentId,
    /// When its last certificate ends, seconds since 1970.
    pub ends: u64,
    /// It is to have no further one.
    pub is_revoked: bool,
}

/// The folder.
#[derive(Debug, Clone)]
pub struct Register {
    folder: PathBuf,
}

/// The lock on a folder, until it is dropped.
struct Turn {
    _here: MutexGuard<'static, ()>,
    _file: File,
}

impl Register {
    /// That of a folder.
    pub fn at(folder: &Path) -> Register {
        Register { folder: folder.to_owned() }
    }

    /// The folder whose changes show what was revoked.
    pub fn revocations(&self) -> PathBuf {
        self.folder.join("revoked")
    }

    /// Where the certificate of the authority is, for others to trust.
    pub fn authority_certificate(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// Makes the folders that are missing.
    ///
    /// # Errors
    /// What cannot be made.
    pub fn make_folders(&self) -> Result<(), String> {
        for folder in [self.folder.clone(), self.folder.join("tokens"), self.folder.join("nodes"), self.revocations()] {
            if folder.is_dir() {
                continue;
            }
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.map_err(|error| unusable(&folder, &error))?;
            self.give(&folder);
        }
        Ok(())
    }

    /// The authority; made if there is none.
    ///
    /// # Errors
    /// It cannot be read or kept, or others may read its key.
    pub fn authority(&self) -> Result<Authority, String> {
        let _turn = self.turn()?;
        let path = self.folder.join("authority.key");
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let (made, files) = Authority::make(CALLED, None, SystemTime::now(), AUTHORITY_LIFETIME)?;
                let both = Zeroizing::new(format!("{}{}", *files.key, files.certificate));
                self.replace(&path, both.as_bytes())?;
                self.replace(&self.authority_certificate(), files.certificate.as_bytes())?;
                return Ok(made);
            }
            Err(error) => return Err(unusable(&path, &error)),
            // Who may read it enrols whom they like.
            Ok(found) => trusted::check(&path, &found, Owner::OursOrService, Closed::ToReaders)?,
        }
        let both = Zeroizing::new(text(&path)?);
        let kept = Authority::kept(CALLED, &both, &both);
        let fix = "restore it, or remove it to have a new one made, and enrol all nodes anew";
        kept.map_err(|problem| format!("{}: {problem}; {fix}", path.display()))
    }

    /// Opens a token with this secret.
    ///
    /// # Errors
    /// It cannot be kept, or too many are open.
    pub fn open_token(&self, secret: &[u8], grant: &Grant, now: SystemTime) -> Result<(), String> {
        let _turn = self.turn()?;
        let open = self.grants()?;
        for (path, grant) in &open {
            if grant.ends <= seconds(now) {
                fs::remove_file(path).map_err(|error| unusable(path, &error))?;
            }
        }
        if open.len() >= MAX_ENTRIES {
            return Err(format!("{}: {MAX_ENTRIES} tokens are open", self.folder.display()));
        }
        self.replace(&self.token(secret), write_grant(grant).as_bytes())
    }

    /// The tokens that are open, and may have ended.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn open_tokens(&self) -> Result<Vec<Grant>, String> {
        Ok(self.grants()?.into_iter().map(|(_, grant)| grant).collect())
    }

    /// Uses a token once, for a node that is called so, and gives the enrolment that comes of it. When this returns, the use is on the disk: whatever happens
    /// then, nobody has it again.
    ///
    /// # Errors
    /// Why it is not good for that; or what cannot be read or written, which is for the log alone, too.
    pub fn redeem(&self, secret: &[u8], name: &str, now: SystemTime) -> Result<EnrolmentId, String> {
        let _turn = self.turn()?;
        let path = self.token(secret);
        let grant = match text(&path) {
            Ok(found) => read_grant(&found).ok_or_else(|| damaged(&path))?,
            Err(_) if !path.exists() => return Err("no such token: it was used, has ended, or never was".to_owned()),
            Err(problem) => return Err(problem),
        };
        if grant.ends <= seconds(now) {
            self.remove(&path)?;
            return Err("the token has ended".to_owned());
        }
        if !grant.names.hold(name) {
            return Err(format!("the token is for {}", grant.names));
        }
        let before = self.node(name)?;
        if let (Names::Under(_), Some(node)) = (&grant.names, &before)
            && (node.is_revoked || node.ends > seconds(now))
        {
            let why = if node.is_revoked { "was revoked" } else { "is enrolled" };
            return Err(format!("a node that is called so {why}; a token for this name alone replaces it"));
        }
        match grant.uses.checked_sub(1).filter(|left| *left > 0) {
            Some(uses) => self.replace(&path, write_grant(&Grant { uses, ..grant }).as_bytes())?,
            None => self.remove(&path)?,
        }
        if let Some(node) = before.filter(|node| !node.is_revoked) {
            // Whoever was called so before is somebody else from now on.
            self.forbid(name, &node)?;
        }
        fresh_id()
    }

    /// Notes a certificate that is about to be given away.
    ///
    /// # Errors
    /// It cannot be noted, so that it must not be given away; or the node was revoked or replaced meanwhile.
    pub fn note_issued(&self, name: &str, id: EnrolmentId, ends: SystemTime, is_new: bool) -> Result<(), String> {
        let _turn = self.turn()?;
        let before = self.node(name)?;
        if !is_new && before.as_ref().is_none_or(|node| node.id != id || node.is_revoked) {
            return Err("the node was revoked, or enrolled anew by another one".to_owned());
        }
        let node = Node { id, ends: seconds(ends), is_revoked: false };
        self.replace(&self.node_path(name), write_node(&node).as_bytes())
    }

    /// What a node was enrolled as; none if it never was.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn node(&self, name: &str) -> Result<Option<Node>, String> {
        let path = self.node_path(name);
        match text(&path) {
            Ok(found) => read_node(&found).map(Some).ok_or_else(|| damaged(&path)),
            Err(_) if !path.exists() => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// All nodes by name, in order.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn nodes(&self) -> Result<Vec<(String, Node)>, String> {
        let names = listed(&self.folder.join("nodes"))?.into_iter().filter(|name| is_node_name(name));
        let read = |name: String| Ok(self.node(&name)?.map(|node| (name, node)));
        let nodes: Result<Vec<_>, String> = names.map(read).collect();
        nodes.map(|nodes| nodes.into_iter().flatten().collect())
    }

    /// Has no certificate of a node accepted any more, nor renewed.
    ///
    /// # Errors
    /// There is no such node, or it cannot be kept.
    pub fn revoke(&self, name: &str) -> Result<(), String> {
        let _turn = self.turn()?;
        let known = if is_node_name(name) { self.node(name)? } else { None };
        let Some(node) = known else {
            return Err(format!("no node is enrolled as {name:?}"));
        };
        self.forbid(name, &node)?;
        self.replace(&self.node_path(name), write_node(&Node { is_revoked: true, ..node }).as_bytes())
    }

    /// Enrolments whose certificates are not accepted.
    ///
    /// # Errors
    /// They cannot be read: then none of any node may be accepted.
    pub fn revoked(&self) -> Result<HashSet<EnrolmentId>, String> {
        let folder = self.revocations();
        let id = |name: String| from_hexadecimal(&name).ok_or_else(|| damaged(&folder.join(name)));
        listed(&folder)?.into_iter().map(id).collect()
    }

    /// Notes that an enrolment ends, and forgets those whose certificates have ended by themselves.
    fn forbid(&self, name: &str, node: &Node) -> Result<(), String> {
        let folder = self.revocations();
        // Clocks of those who verify may differ.
        let past = seconds(SystemTime::now()).saturating_sub(keystore::authority::SKEW.as_secs());
        for path in listed(&folder)?.into_iter().map(|other| folder.join(other)) {
            let ends = text(&path).ok().and_then(|found| read_node(&found)).map(|node| node.ends);
            if ends.is_some_and(|ends| ends < past) {
                self.remove(&path)?;
            }
        }
        let gone = Node { is_revoked: true, ..node.clone() };
        self.replace(&folder.join(hexadecimal(&node.id)), write_node(&gone).as_bytes())?;
        tracing::info!(node = name, "certificates of this enrolment are accepted no more");
        Ok(())
    }

    fn grants(&self) -> Result<Vec<(PathBuf, Grant)>, String> {
        let folder = self.folder.join("tokens");
        let read = |path: PathBuf| {
            let grant = read_grant(&text(&path)?).ok_or_else(|| damaged(&path))?;
            Ok((path, grant))
        };
        listed(&folder)?.into_iter().map(|name| read(folder.join(name))).collect()
    }

    fn token(&self, secret: &[u8]) -> PathBuf {
        self.folder.join("tokens").join(hexadecimal(&digest::sha256(secret)))
    }

    fn node_path(&self, name: &str) -> PathBuf {
        self.folder.join("nodes").join(name)
    }

    fn turn(&self) -> Result<Turn, String> {
        let here = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.join("lock");
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let locked = opened.and_then(|file| {
            self.give(&path);
            fcntl_lock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map(|file| Turn { _here: here, _file: file }).map_err(|error| unusable(&path, &error))
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), String> {
        files::replace(path, content).map_err(|error| unusable(path, &error))?;
        self.give(path);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), String> {
        files::remove(path).map_err(|error| unusable(path, &error))
    }

    /// What root makes is the key server's, whose user the folder belongs to. Where that cannot be, whoever cannot read it says so.
    fn give(&self, path: &Path) {
        let Ok(owner) = fs::metadata(&self.folder) else { return };
        if rustix::process::geteuid().is_root() && owner.uid() != 0 {
            let _ = chown(path, Some(owner.uid()), Some(owner.gid()));
        }
    }
}

/// A new enrolment. Serial numbers are positive and all of one length: the first byte is neither 0 nor above 127.
fn fresh_id() -> Result<EnrolmentId, String> {
    let mut id: EnrolmentId = digest::random().map_err(|error| error.to_string())?;
    id[0] = (id[0] & 0x3f) | 0x40;
    Ok(id)
}

/// Seconds since 1970.
pub fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn text(path: &Path) -> Result<String, String> {
    files::text(path, MAX_FILE_BYTES).map_err(|error| format!("{}: {error}", path.display()))
}

/// Names in a folder but those of files that are being written, in order.
fn listed(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| unusable(folder, &error))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    Ok(names)
}

fn unusable(path: &Path, error: &io::Error) -> String {
    let place = path.display();
    format!(
        "{place}: {error}; enrolment is kept there, so the user of the key server must be able to write there, and a unit must name the folder in `ReadWritePaths`"
    )
}

fn damaged(path: &Path) -> String {
    format!("{}: damaged; remove it", path.display())
}

fn write_grant(grant: &Grant) -> String {
    format!("names {}\nends {}\nuses {}\n", grant.names, grant.ends, grant.uses)
}

fn read_grant(text: &str) -> Option<Grant> {
    let [names, ends, uses] = values(text, ["names ", "ends ", "uses "])?;
    Some(Grant {
        names: Names::parse(names)?,
        ends: ends.parse().ok()?,
        uses: uses.parse().ok().filter(|uses| *uses > 0)?,
    })
}

fn write_node(node: &Node) -> String {
    format!("id {}\nends {}\nrevoked {}\n", hexadecimal(&node.id), node.ends, node.is_revoked)
}

fn read_node(text: &str) -> Option<Node> {
    let [id, ends, is_revoked] = values(text, ["id ", "ends ", "revoked "])?;
    Some(Node { id: from_hexadecimal(id)?, ends: ends.parse().ok()?, is_revoked: is_revoked.parse().ok()? })
}

/// What stands behind these words, each on a line of its own, in this order.
fn values<'t, const N: usize>(text: &'t str, words: [&str; N]) -> Option<[&'t str; N]> {
    let lines: Vec<&str> = text.strip_suffix('\n')?.split('\n').collect();
    let lines: [&str; N] = lines.try_into().ok()?;
    let mut values = [""; N];
    for ((value, line), word) in values.iter_mut().zip(lines).zip(words) {
        *value = line.strip_prefix(word)?;
    }
    Some(values)
}

#[cfg(test)]
mod tests;
