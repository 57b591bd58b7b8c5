//! Certificates that other programs name file by file, as one keystore: a folder that holds them already, or one that is made of links to them.

use std::path::{Path, PathBuf};

use keystore::{names, pem};
use tls::crypto::Certificate;

use super::Front;
use super::files::Files;
use super::migration::{Place, Problem, Report, absolute, finish, name_of, rejected};
use super::native::{Map, Value};

/// A certificate with its key, or a folder of them that is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    /// None if it is in the same file.
    pub(crate) key: Option<PathBuf>,
    pub(crate) place: Place,
    /// Whether `certificate` is the folder.
    is_folder: bool,
}

impl Pair {
    pub(crate) fn new(certificate: PathBuf, key: Option<PathBuf>, place: &Place) -> Pair {
        Pair { certificate, key, place: place.clone(), is_folder: false }
    }

    /// Those of a folder whose files are not known.
    pub(crate) fn folder(folder: PathBuf, place: &Place) -> Pair {
        Pair { is_folder: true, ..Pair::new(folder, None, place) }
    }

    /// The folders that its files are in.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        self.files().filter_map(|file| if self.is_folder { Some(file) } else { file.parent() })
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        [Some(self.certificate.as_path()), self.key.as_deref()].into_iter().flatten()
    }
}

/// The folder that an import makes, and what is linked there.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Where; none if none is to be made.
    pub(crate) folder: Option<PathBuf>,
    /// What each link leads to, and the link.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
}

/// Where a folder is expected that nobody has made yet.
pub(crate) const EXPECTED: &str = "/etc/portunus/keys";

/// Folders that hold everything, so that none is a keystore for having certificates in two of its folders.
const OF_ALL: [&str; 6] = ["/", "/etc", "/home", "/root", "/usr", "/var"];

/// Folders in which distributions keep the certificates of authorities: none is a keystore.
const OF_AUTHORITIES: [&str; 6] =
    ["/etc/ssl", "/etc/ssl/certs", "/etc/pki", "/etc/pki/tls", "/etc/pki/tls/certs", "/usr/share/ca-certificates"];

/// The keystore with these certificates, of which the first is for clients that ask for no name, or for `default` if it has that. Files that are not here are
/// noted.
pub(crate) fn keystore(
    pairs: &[Pair],
    default: Option<&str>,
    files: &mut Files,
    links: &mut Links,
    report: &Report,
) -> Map {
    let mut map = Map::default();
    let named = pairs.iter().filter(|pair| pair.certificate != Path::new(EXPECTED));
    named.for_each(|pair| report.expect(files, pair.files(), &pair.place));
    let name =
        pairs.first().and_then(|pair| served_name(&pair.certificate, default, files)).or(default.map(str::to_owned));
    // One without a host's name is for all others only if its file says so, or if it is alone.
    let is_nameless = pairs
        .first()
        .is_some_and(|pair| leaf(&pair.certificate, files).is_some_and(|leaf| leaf.dns_names().is_empty()));
    let wanted = linked(pairs, is_nameless);
    let folder = match (&links.folder, common_folder(pairs)) {
        (Some(folder), _) => {
            let folder = folder.clone();
            for pair in pairs.iter().filter(|pair| pair.is_folder) {
                let why = format!("its files are not here to be linked; link them in {}", folder.display());
                map.comment(report.left_out(&pair.place, &pair.certificate.display().to_string(), &why));
            }
            links.links.extend(wanted.into_iter().map(|(file, link)| (file, folder.join(link))));
            links.links.sort();
            links.links.dedup();
            absolute(&folder)
        }
        (None, Some(folder)) if is_usable(&folder, pairs, files) && (!is_nameless || files.has_default(&folder)) => {
            absolute(&folder)
        }
        (None, _) => {
            let place = pairs.first().map(|pair| pair.place.clone());
            let why =
                format!("a keystore is one folder of PEM files; make it (`portunus import … --keys {EXPECTED}` does)");
            map.comment(
                place.map_or(String::new(), |place| report.left_out(&place, "certificates in several folders", &why)),
            );
            for (file, link) in wanted {
                map.comment(format!("  {EXPECTED}/{} -> {}", link.display(), absolute(&file)));
            }
            EXPECTED.to_owned()
        }
    };
    map.set("folder", folder);
    if let Some(name) = name {
        map.set("default", name);
    }
    map
}

/// The folder that holds all files, in it or one below, and no other kinds of files that would be in the way.
fn common_folder(pairs: &[Pair]) -> Option<PathBuf> {
    let folders: Vec<&Path> = pairs.iter().flat_map(Pair::folders).collect();
    let first = folders.first()?;
    if folders.iter().all(|folder| folder == first) {
        return Some(first.to_path_buf());
    }
    let above = first.parent().filter(|above| !OF_ALL.iter().any(|of| Path::new(of) == *above));
    let is_in =
        |candidate: &Path| folders.iter().all(|folder| *folder == candidate || folder.parent() == Some(candidate));
    [Some(*first), above].into_iter().flatten().find(|candidate| is_in(candidate)).map(Path::to_path_buf)
}

/// Whether a folder can be served as it is. Of one that is not here nothing speaks against it but its name.
fn is_usable(folder: &Path, pairs: &[Pair], files: &Files) -> bool {
    match pairs.iter().flat_map(Pair::files).any(|file| files.exists(file)) {
        true => files.is_keystore(folder),
        false => !OF_AUTHORITIES.iter().any(|of| Path::new(of) == folder),
    }
}

/// Links to files under names that a keystore reads: what each leads to, and its name within the folder.
fn linked(pairs: &[Pair], is_nameless: bool) -> Vec<(PathBuf, PathBuf)> {
    let mut out: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    for pair in pairs.iter().filter(|pair| !pair.is_folder) {
        if out.iter().any(|(file, _)| *file == pair.certificate) {
            continue;
        }
        let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let parent =
            pair.certificate.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        // Certbot and its like name the folder after the host, and all files alike.
        let own = match stem(&pair.certificate).as_str() {
            "fullchain" | "cert" | "server" | "tls" => parent.unwrap_or_default(),
            own => own.to_owned(),
        };
        let wanted = name_of(&own);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let name =
            std::iter::once(wanted.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
        taken.push(name.clone());
        let file = if is_nameless && out.is_empty() { "default.pem" } else { "fullchain.pem" };
        out.push((pair.certificate.clone(), Path::new(&name).join(file)));
        if let Some(key) = pair.key.as_ref().filter(|key| **key != pair.certificate) {
            out.push((key.clone(), Path::new(&name).join("privkey.key")));
        }
    }
    out
}

/// A name that a certificate is served under: `wanted` if it is one, else its first.
fn served_name(certificate: &Path, wanted: Option<&str>, files: &mut Files) -> Option<String> {
    let certificate = leaf(certificate, files)?;
    let names = certificate.dns_names();
    if let Some(wanted) = wanted.filter(|wanted| names.iter().any(|name| names::covers(name, wanted))) {
        return Some(wanted.to_owned());
    }
    let first = names.iter().find(|name| !name.starts_with("*.")).or(names.first())?;
    // A wildcard is no host; what it covers is.
    Some(first.strip_prefix("*.").map_or(first.clone(), |parent| format!("www.{parent}")))
}

/// The first certificate of a file, if it can be read.
fn leaf(file: &Path, files: &mut Files) -> Option<Certificate> {
    let text = files.read(file).ok()?;
    let blocks = pem::read(text.as_bytes()).ok()?;
    let leaf = blocks.into_iter().find(|block| block.label == pem::Label::Certificate)?;
    Certificate::from_der(&leaf.der).ok()
}

/// Makes the links.
///
/// # Errors
/// The first thing that went wrong.
pub(crate) fn make(links: &Links) -> Result<(), String> {
    for (file, link) in &links.links {
        let fault = |error: std::io::Error| format!("{}: {error}", link.display());
        if let Some(folder) = link.parent() {
            std::fs::create_dir_all(folder).map_err(fault)?;
        }
        let target = std::path::absolute(file).map_err(fault)?;
        if std::fs::read_link(link).is_ok_and(|old| old == target) {
            continue;
        }
        std::os::unix::fs::symlink(&target, link).map_err(fault)?;
    }
    Ok(())
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    Old,
    Tls12,
    Tls13,
}

/// Makes the links, and prints what was made of a configuration of another program, or why nothing was.
pub(crate) fn printed(source: &str, made: Result<(Map, Links), Problem>, report: &Report) -> Front {
    let linked = made.map_err(|problem| problem.to_string()).and_then(|(root, links)| make(&links).map(|()| root));
    match linked {
        Ok(root) => finish(source, root, report),
        Err(problem) => rejected(&problem),
    }
}

/// Says in `tls` which policy has these versions.
pub(crate) fn put_policy(tls: &mut Map, versions: &[Version], (place, shown): (&Place, &str), report: &Report) {
    let (policy, missing) = policy(versions);
    if let Some(policy) = policy {
        tls.set("policy", policy);
    }
    if let Some(why) = missing {
        tls.comment(report.left_out(place, shown, why));
    }
}

/// The native settings for the versions that are allowed: never more than those. The comment says what is missing.
pub(crate) fn policy(versions: &[Version]) -> (Option<Value>, Option<&'static str>) {
    let has = |version: Version| versions.contains(&version);
    let old = has(Version::Old).then_some("TLS 1.0 and 1.1 are left out; `policy: legacy` has them");
    match (has(Version::Tls12), has(Version::Tls13)) {
        (false, true) => (Some("modern".into()), old),
        _ => (None, old),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn pair(certificate: &str, key: &str) -> Pair {
        let place = Place { file: Rc::from("x"), line: 1 };
        Pair::new(certificate.into(), (!key.is_empty()).then(|| key.into()), &place)
    }

    #[test]
    fn folders_that_hold_all() {
        for (pairs, expected) in [
            (vec![pair("/a/x.pem", "/a/x.key")], Some("/a")),
            (
                vec![pair("/l/a/fullchain.pem", "/l/a/privkey.pem"), pair("/l/b/fullchain.pem", "/l/b/privkey.pem")],
                Some("/l"),
            ),
            (vec![pair("/e/certs/x.pem", "/e/private/x.key")], Some("/e")),
            (vec![pair("/a/x.pem", ""), pair("/b/c/y.pem", "")], None),
            (vec![pair("/certs/x.pem", "/keys/x.key")], None),
            (vec![pair("/etc/a/x.pem", "/etc/b/x.key")], None),
            (vec![pair("/a/x.pem", ""), pair("/a/b/y.pem", "")], Some("/a")),
        ] {
            assert_eq!(common_folder(&pairs), expected.map(PathBuf::from));
        }
    }

    #[test]
    fn links_have_names_of_their_own() {
        let pairs = [
            pair("/l/a.test/fullchain.pem", "/l/a.test/privkey.pem"),
            pair("/x/site.crt", ""),
            pair("/y/site.crt", "/y/k"),
        ];
        let links: Vec<String> = linked(&pairs, false).iter().map(|(_, link)| link.display().to_string()).collect();
        assert_eq!(
            links,
            [
                "a.test/fullchain.pem",
                "a.test/privkey.key",
                "site/fullchain.pem",
                "site-2/fullchain.pem",
                "site-2/privkey.key"
            ]
        );
    }
}
