//! A generation: a configuration with every file that it names, as one immutable thing with a name.
//!
//! ```text
//!   portunus.yaml and what it names ─gather→ Bundle ─┬→ Manifest: paths, sizes, digests, names of contents
//!                                                    └→ contents
//! ```
//!
//! Relative paths are part of a generation; absolute ones are each node's own, and so is what a node writes. What came from elsewhere is looked at before a
//! byte of it becomes a file: paths stay below their folder, sizes and digests must be those of the manifest.

mod gather;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde_json::{Map, Value, json};
use tls::crypto::digest::sha256;
use wire::hexadecimal::hexadecimal;
use zeroize::Zeroizing;

use crate::seal::Seal;

pub use gather::{Gathered, gather};

/// The version of the form of manifests. A node rejects those that are newer.
pub const FORMAT: u64 = 1;

/// Most files of a generation.
pub const MAX_FILES: usize = 10_000;

/// Largest size of all of them together, bytes.
pub const MAX_BYTES: u64 = 64 << 20;

/// Longest path, bytes, and longest name in it.
const MAX_PATH_BYTES: usize = 1024;
const MAX_NAME_BYTES: usize = 255;

/// Digits of a name or a digest.
const NAME_DIGITS: usize = 64;

/// The files of a generation by their paths below its folder.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Path of the configuration file.
    pub main: String,
    /// All files, that one included.
    pub files: BTreeMap<String, Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for Bundle {
    /// Without what is in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bundle").field(&self.main).field(&self.files.keys()).finish()
    }
}

/// What a generation is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Version of the program that made it.
    pub program: String,
    /// Path of the configuration file.
    pub main: String,
    /// All files, in the order of their paths.
    pub files: Vec<Item>,
}

/// A file of a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Path below the folder of the generation, with `/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content, hexadecimal.
    pub digest: String,
    /// Name of the content in the store.
    pub name: String,
}

/// Why a manifest is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// It is of a later version of the program.
    Newer(u64),
    /// It breaks the form; where.
    Invalid(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Newer(format) => write!(
                f,
                "the generation has format {format}, and this program ({}) knows those up to {FORMAT}; upgrade this node first",
                env!("CARGO_PKG_VERSION")
            ),
            Unreadable::Invalid(what) => write!(f, "the manifest of the generation is invalid: {what}"),
        }
    }
}

impl Manifest {
    /// The manifest of a bundle.
    pub fn of(bundle: &Bundle, seal: &Seal) -> Manifest {
        let item = |(path, content): (&String, &Zeroizing<Vec<u8>>)| Item {
            path: path.clone(),
            size: content.len() as u64,
            digest: hexadecimal(&sha256(content)),
            name: seal.name(content),
        };
        let files = bundle.files.iter().map(item).collect();
        Manifest { program: env!("CARGO_PKG_VERSION").to_owned(), main: bundle.main.clone(), files }
    }

    /// It as text: JSON. The same manifest is always the same text.
    pub fn write(&self) -> String {
        let item = |item: &Item| json!([item.path, item.size, item.digest, item.name]);
        let files: Value = self.files.iter().map(item).collect();
        json!({ "format": FORMAT, "program": self.program, "main": self.main, "files": files }).to_string()
    }

    /// Reads what was written as a manifest, by whomever.
    ///
    /// # Errors
    /// See [`Unreadable`].
    pub fn read(bytes: &[u8]) -> Result<Manifest, Unreadable> {
        let invalid = |what: &str| Unreadable::Invalid(what.to_owned());
        let Ok(Value::Object(members)) = serde_json::from_slice(bytes) else { return Err(invalid("no JSON object")) };
        match members.get("format").and_then(Value::as_u64) {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => return Err(Unreadable::Newer(newer)),
            _ => return Err(invalid("no `format`")),
        }
        let manifest = read_members(&members).ok_or_else(|| invalid("a member is missing or of another kind"))?;
        manifest.check().map_err(Unreadable::Invalid)?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.files.len() > MAX_FILES {
            return Err(format!("more than {MAX_FILES} files"));
        }
        let total = self.files.iter().try_fold(0_u64, |sum, item| sum.checked_add(item.size));
        if total.is_none_or(|total| total > MAX_BYTES) {
            return Err(format!("more than {MAX_BYTES} bytes"));
        }
        let mut before = "";
        for item in &self.files {
            check_path(&item.path)?;
            if item.path.as_str() <= before {
                return Err(format!("{:?} is out of order", item.path));
            }
            if ![&item.digest, &item.name].into_iter().all(|digits| is_name(digits)) {
                return Err(format!("{:?} has no digest or no name", item.path));
            }
            before = &item.path;
        }
        let paths: BTreeSet<&str> = self.files.iter().map(|item| item.path.as_str()).collect();
        let mut folders = paths.iter().flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at]));
        if let Some(both) = folders.find(|folder| paths.contains(folder)) {
            return Err(format!("{both:?} is a file and a folder"));
        }
        if paths.contains(self.main.as_str()) { Ok(()) } else { Err("the configuration file is not in it".to_owned()) }
    }
}

/// Whether something is the name of a content or of a generation: hexadecimal digits.
pub fn is_name(text: &str) -> bool {
    text.len() == NAME_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn read_members(members: &Map<String, Value>) -> Option<Manifest> {
    let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
    let item = |value: &Value| match value.as_array()?.as_slice() {
        [path, size, digest, name] => Some(Item {
            path: path.as_str()?.to_owned(),
            size: size.as_u64()?,
            digest: digest.as_str()?.to_owned(),
            name: name.as_str()?.to_owned(),
        }),
        _ => None,
    };
    let files = members.get("files")?.as_array()?.iter().map(item).collect::<Option<Vec<_>>>()?;
    Some(Manifest { program: text("program")?, main: text("main")?, files })
}

/// A path that stays below its folder: names, none of them `.` or `..`, with `/` between them.
fn check_path(path: &str) -> Result<(), String> {
    let is_name = |name: &str| {
        !matches!(name, "" | "." | "..") && name.len() <= MAX_NAME_BYTES && !name.bytes().any(|byte| byte < b' ')
    };
    if path.len() <= MAX_PATH_BYTES && path.split('/').all(is_name) {
        return Ok(());
    }
    Err(format!("{:?} is no path below a folder", path.chars().take(MAX_NAME_BYTES).collect::<String>()))
}

impl Item {
    /// Whether this is the content that the manifest means.
    pub fn is_of(&self, content: &[u8]) -> bool {
        content.len() as u64 == self.size && hexadecimal(&sha256(content)) == self.digest
    }
}

impl Bundle {
    /// Writes all files into a folder, for us alone, and onto the disk. What is there under their names is replaced.
    ///
    /// # Errors
    /// What the system says; something may be there then.
    pub fn write_into(&self, folder: &Path) -> io::Result<()> {
        let mut made = DirBuilder::new();
        made.mode(0o700).recursive(true).create(folder)?;
        for (path, content) in &self.files {
            check_path(path).map_err(io::Error::other)?;
            let path = folder.join(path);
            if let Some(parent) = path.parent() {
                made.create(parent)?;
            }
            // Never through a link, and never into what somebody has open.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(content)?;
            file.sync_all()?;
        }
        for path in self.files.keys() {
            for parent in folder.join(path).ancestors().skip(1).take_while(|parent| parent.starts_with(folder)) {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(())
    }

    /// Reads a generation from its folder; `main` is the path of its configuration file.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read_from(folder: &Path, main: &str) -> Result<Bundle, String> {
        let mut bundle = Bundle { main: main.to_owned(), files: BTreeMap::new() };
        let mut folders = vec![folder.to_owned()];
        while let Some(at) = folders.pop() {
            let unreadable = |error: io::Error| format!("{}: {error}", at.display());
            for entry in fs::read_dir(&at).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let relative = path.strip_prefix(folder).ok().and_then(Path::to_str);
                let relative = relative.ok_or_else(|| format!("{}: not UTF-8", path.display()))?;
                bundle.files.insert(relative.to_owned(), keystore::files::read(&path, MAX_BYTES)?);
            }
        }
        Ok(bundle)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn bundle() -> Bundle {
        let file = |path: &str, content: &str| (path.to_owned(), Zeroizing::new(content.as_bytes().to_vec()));
        let files = [file("portunus.yaml", "a"), file("certs/a.pem", "key"), file("certs/b.pem", "key")];
        Bundle { main: "portunus.yaml".to_owned(), files: files.into() }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let seal = Seal::of(&[1; 32]).unwrap();
        let manifest = Manifest::of(&bundle(), &seal);
        assert_eq!(Manifest::read(manifest.write().as_bytes()), Ok(manifest.clone()));
        assert_eq!(manifest.files[0].path, "certs/a.pem");
        assert_eq!(manifest.files[0].name, manifest.files[1].name, "what is the same has one name");
        assert!(manifest.files[0].is_of(b"key") && !manifest.files[0].is_of(b"kez") && !manifest.files[0].is_of(b"ke"));
    }

    #[test]
    fn what_breaks_the_form_or_leaves_the_folder_is_rejected() {
        let seal = Seal::of(&[1; 32]).unwrap();
        let text = Manifest::of(&bundle(), &seal).write();
        for (from, to) in [
            ("certs/a.pem", "../a.pem"),
            ("certs/a.pem", "/a.pem"),
            ("certs/a.pem", "certs//a.pem"),
            ("certs/a.pem", "certs/./a.pem"),
            ("certs/a.pem", "certs/a\\n.pem"),
            ("certs/a.pem", "certs/z.pem"),
            ("certs/a.pem", "certs/b.pem"),
            ("certs/a.pem", "certs"),
            ("certs/a.pem", ""),
            ("\"main\":\"portunus.yaml\"", "\"main\":\"other.yaml\""),
            ("\"format\":1", "\"format\":0"),
            ("\"format\":1", "\"format\":\"1\""),
            ("\"format\":1,", ""),
            (",3,", ",-3,"),
            (",3,", ",18446744073709551615,"),
            ("\"files\":[", "\"files\":[7,"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert!(matches!(Manifest::read(changed.as_bytes()), Err(Unreadable::Invalid(_))), "{from} -> {to}");
        }
        let newer = text.replace("\"format\":1", "\"format\":2");
        assert_eq!(Manifest::read(newer.as_bytes()), Err(Unreadable::Newer(2)));
    }

    #[test]
    fn a_bundle_becomes_a_folder_and_a_folder_a_bundle() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("generation");
        bundle().write_into(&at).unwrap();
        assert_eq!(Bundle::read_from(&at, "portunus.yaml"), Ok(bundle()));
        for (path, mode) in [("certs/a.pem", 0o600), ("certs", 0o700), ("", 0o700)] {
            assert_eq!(fs::metadata(at.join(path)).unwrap().permissions().mode() & 0o777, mode, "{path}");
        }
        fs::write(at.join("certs/a.pem"), "left from a crash").unwrap();
        bundle().write_into(&at).unwrap();
        assert_eq!(Bundle::read_from(&at, "portunus.yaml"), Ok(bundle()));
        let mut bad = bundle();
        bad.files.insert("../x".to_owned(), Zeroizing::default());
        assert!(bad.write_into(&folder.path().join("bad")).is_err());
        assert!(!folder.path().join("x").exists());
    }
}
