//! Keys that clients have made: made, kept in the folder of their set, held, and only then spoken of. The private half goes nowhere else.
//!
//! One at a time, on a thread of its own that ends with it: making an RSA key takes long, and whoever asks for many waits for itself.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use telemetry::{KeyOperation, KeyOutcome};
use tls::KeyType;
use tls::crypto::PrivateKey;
use wire::keyless::{ErrorCode, Frame, KeyFamily, MAKE_KEY_NAME};

use super::crypto_thread::NICENESS;
use super::holdings::Nursery;
use super::keys::Key;
use super::link::Link;
use super::shared::Shared;

/// How soon to ask again while another key is being made.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// What the files of keys that were made are called: this, the key's identifier, and [`ENDING`]. Nothing that a client says is part of it.
const BEGINNING: &str = "made-";
/// See [`BEGINNING`].
const ENDING: &str = ".key";

/// A key that is to be made.
pub(super) struct Order {
    pub(super) link: Arc<Link>,
    pub(super) id: u32,
    pub(super) family: KeyFamily,
    pub(super) nursery: Arc<Nursery>,
    pub(super) received: Instant,
}

/// Begins to make a key; its response comes when it is held.
///
/// # Errors
/// [`ErrorCode::BUSY`] while another one is being made, [`ErrorCode::INTERNAL`] if there is no thread to be had.
pub(super) fn start(order: Order, shared: &Arc<Shared>) -> Result<(), ErrorCode> {
    if shared.is_making.swap(true, Ordering::AcqRel) {
        return Err(ErrorCode::BUSY);
    }
    // Given back when this is dropped, also by a thread that panics or never was.
    let place = Place(Arc::clone(shared));
    let thread = std::thread::Builder::new().name("key-maker".to_owned());
    thread.spawn(move || order.run(&place.0)).map(drop).map_err(|error| {
        tracing::error!(%error, "no thread to make a key");
        ErrorCode::INTERNAL
    })
}

/// The right to make a key.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.is_making.store(false, Ordering::Release);
    }
}

impl Order {
    fn run(&self, shared: &Shared) {
        net::process::lower_priority(NICENESS);
        let begun = Instant::now();
        let made = self.make(shared);
        let outcome = match &made {
            Ok(_) => KeyOutcome::Done,
            Err(problem) => {
                tracing::error!(peer = self.link.peer.label, set = self.nursery.set, "no key was made: {problem}");
                KeyOutcome::Rejected(ErrorCode::NOT_KEPT)
            }
        };
        // Reported before it is answered: a client that has its key finds it in the log.
        let report = shared.maker_report.lock().unwrap_or_else(PoisonError::into_inner);
        report.operation(&KeyOperation {
            peer: &self.link.peer.label,
            address: self.link.peer.address,
            ski: made.as_ref().ok().map(|(key, _)| &key.ski),
            operation: MAKE_KEY_NAME,
            class: "none",
            outcome,
            queued: begun.saturating_duration_since(self.received),
            service: begun.elapsed(),
        });
        report.flush();
        drop(report);
        match made {
            Ok((_, spki)) => self.link.respond(&Frame::response(self.id, &spki)),
            Err(_) => self.link.reject(self.id, ErrorCode::NOT_KEPT, None),
        }
    }

    /// The key as it is held now, and its public half.
    fn make(&self, shared: &Shared) -> Result<(Arc<Key>, Vec<u8>), String> {
        let Nursery { set, folder, operations } = &*self.nursery;
        let kept = count(folder)?;
        let most = shared.limits.max_made_keys;
        if kept >= most {
            let place = folder.display();
            return Err(format!(
                "{place}: holds {kept} keys that were made, and `limits.max_made_keys` is {most}; remove those that no certificate needs, or raise it"
            ));
        }
        let key_type = if self.family == KeyFamily::Rsa { KeyType::Rsa } else { KeyType::Ecdsa };
        let pem = keystore::keys::generate(key_type)?;
        let block = keystore::pem::read(pem.as_bytes()).map_err(|error| error.to_string())?;
        let block = block.first().ok_or_else(|| "the library made no key".to_owned())?;
        let key = PrivateKey::from_der(&block.der).map_err(|error| error.to_string())?;
        let spki = key.public_spki_der().to_vec();
        let key = Key::new(&key, *operations, String::new())?;
        let path = folder.join(format!("{BEGINNING}{}{ENDING}", key.ski_text()));
        // As it is called when the folder is read.
        let key = Arc::new(Key { origin: format!("{}: line {}", path.display(), block.line), ..key });
        keystore::files::replace(&path, pem.as_bytes()).map_err(|error| unwritable(&path, &error))?;
        let _changing = shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let holdings = shared.holdings.load().with(set, &key);
        shared.reporter.held(holdings.keys().count());
        shared.holdings.store(Arc::new(holdings));
        tracing::info!(peer = self.link.peer.label, set, ski = key.ski_text(), "key made");
        Ok((key, spki))
    }
}

/// Keys in a folder that were made.
fn count(folder: &Path) -> Result<usize, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| unwritable(folder, &error))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| name.starts_with(BEGINNING) && name.ends_with(ENDING)).count())
}

fn unwritable(path: &Path, error: &std::io::Error) -> String {
    let place = path.display();
    format!(
        "{place}: {error}; keys are kept there (`make_keys`), so the user of the key server must be able to write there, and a unit must name the folder in `ReadWritePaths`"
    )
}
