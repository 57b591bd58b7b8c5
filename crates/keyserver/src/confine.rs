//! The sandbox of the key server: the files it may use from its start on, by Landlock, and the system calls, by seccomp.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::{AuditTarget, Endpoint, KeyServerConfig};
use net::confine::Files;

/// Allows this process, from now on, the files it is configured with, `control` among them, and the system calls it needs. To be called
/// before any other thread is made.
///
/// # Errors
/// The kernel rejects.
pub fn confine(config: &KeyServerConfig, control: Option<&Path>) -> Result<Files, Vec<String>> {
    let mut read: BTreeSet<PathBuf> = read_folders(config);
    // Links may lead elsewhere, as renewal tools lay them; passwords and the configuration itself are read again at a reload.
    let targets: Vec<PathBuf> = read.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    read.extend(targets);
    for folder in read.clone() {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        read.extend(links.filter_map(|entry| Some(std::fs::canonicalize(entry.path()).ok()?.parent()?.to_owned())));
    }
    for set in config.keys.values() {
        read.extend(keystore::keys::real_folders(&set.folders));
        if let Some(config::Secret::File(path)) = &set.password {
            read.insert(parent(path));
        }
    }
    if let Some(config::Secret::File(path)) = config.admin.as_ref().and_then(|admin| admin.token.as_ref()) {
        read.insert(parent(path));
    }
    if let Some(tls) = config.admin.as_ref().and_then(|admin| admin.tls.as_ref()) {
        let rule = tls.client_certificate.as_ref();
        let files = [Some(&tls.certificate), Some(&tls.private_key), rule.map(|rule| &rule.ca)];
        let lists = rule.and_then(|rule| rule.crl.as_ref());
        read.extend(files.into_iter().flatten().chain(lists).map(parent));
    }
    read.extend(config.config_folder.clone());
    read.insert(PathBuf::from("/proc/self"));
    let mut write = BTreeSet::new();
    let mut folder_of = |path: &Path| write.insert(parent(path));
    if let Some(AuditTarget::File(path)) = &config.audit {
        folder_of(path);
    }
    let admin = config.admin.iter().map(|admin| &admin.bind);
    for endpoint in config.listeners.iter().flat_map(|listener| &listener.bind).chain(admin) {
        if let Endpoint::Unix(path) = endpoint {
            folder_of(path);
        }
    }
    config.pid_file.as_deref().into_iter().chain(control).for_each(|path| _ = folder_of(path));
    // Keys are made in the first folder of their set, and in no other.
    write.extend(config.keys.values().filter(|set| set.grows).filter_map(|set| set.folders.first().cloned()));
    write.extend(config.enrolment.as_ref().map(|enrolment| enrolment.folder.clone()));
    let (read, write): (Vec<_>, Vec<_>) = (read.into_iter().collect(), write.into_iter().collect());
    net::confine::sandbox(&read, &write).map_err(|problem| vec![problem])
}

/// The folders that keys and trust are read from.
fn read_folders(config: &KeyServerConfig) -> BTreeSet<PathBuf> {
    let sets = config.keys.values();
    let folders = sets.clone().flat_map(|set| set.folders.clone());
    let files = sets.flat_map(|set| set.files.iter().map(parent));
    let tls = config.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let tls = tls.flat_map(|tls| {
        [Some(&tls.certificate), Some(&tls.private_key), tls.client_ca.as_ref(), tls.client_crl.as_ref()]
    });
    let enrolment =
        config.enrolment.iter().flat_map(|enrolment| [enrolment.folder.clone(), parent(&enrolment.server_ca)]);
    folders.chain(files).chain(tls.flatten().map(parent)).chain(enrolment).collect()
}

/// The folder that a file is in.
fn parent(path: impl AsRef<Path>) -> PathBuf {
    match path.as_ref().parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
