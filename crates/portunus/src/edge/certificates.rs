//! A node's part in the certificates of its fleet: between the crate `fleet`, which has them in etcd, and the crate `acme`, which orders them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use acme::mirror;
use acme::peers::{Membership, PeerNews, Peers, Proof};
use config::{AcmeConfig, FleetConfig};
use fleet::certificates::{Certificates, Host};
use fleet::store::certificates::{Place, Written};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use zeroize::Zeroizing;

use super::Edge;

/// Takes part. Where that cannot be done, which is logged, nothing is ordered here.
pub fn join(fleet: &FleetConfig, node: &str, edge: &Arc<Edge>) -> Membership {
    let (sender, news) = unbounded_channel();
    let host = Arc::new(Node { edge: Arc::clone(edge), sender });
    let started = Certificates::start(fleet, node, host);
    let report = |problem: &String| tracing::error!("fleet: no certificate is ordered here: {problem}");
    Membership { peers: Arc::new(Others(started.inspect_err(report).ok())), news }
}

/// The other nodes, as orders see them; none if this one is alone, and never orders.
#[derive(Debug)]
struct Others(Option<Certificates>);

impl Others {
    fn certificates(&self) -> Result<&Certificates, String> {
        self.0.as_ref().ok_or_else(|| "this node is alone".to_owned())
    }
}

impl Peers for Others {
    fn leads(&self) -> bool {
        self.0.as_ref().is_some_and(Certificates::leads)
    }

    fn put(&self, keystore: &str, path: &str, content: Option<&[u8]>) -> Result<SystemTime, String> {
        let place = Place { keystore: keystore.to_owned(), path: path.to_owned() };
        self.certificates()?.put(&place, content).map(mirror::time)
    }

    fn show(&self, proof: &Proof) -> Result<Box<dyn Send>, String> {
        let shown = self.certificates()?.show(proof.write().as_bytes())?;
        Ok(Box::new(shown))
    }

    fn demand(&self, keystore: &str, name: &str) {
        if let Some(certificates) = &self.0 {
            certificates.demand(keystore, name);
        }
    }

    fn reject(&self, keystore: &str, name: &str, why: &str) {
        if let Some(certificates) = &self.0 {
            certificates.reject(keystore, name, why.as_bytes());
        }
    }

    fn resign(&self) {
        if let Some(certificates) = &self.0 {
            certificates.resign();
        }
    }
}

/// This node, as the fleet sees it.
struct Node {
    edge: Arc<Edge>,
    sender: UnboundedSender<PeerNews>,
}

impl Node {
    fn say(&self, news: PeerNews) {
        // Nobody listens if the process is about to end.
        let _ = self.sender.send(news);
    }

    /// The folder of a keystore whose certificates are ordered.
    fn folder(&self, keystore: &str) -> Option<PathBuf> {
        let config = self.edge.config();
        let acme = config.keystores.get(keystore)?.acme.as_deref()?;
        Some(acme.folder.clone())
    }

    fn folders(&self) -> Vec<(String, PathBuf)> {
        let config = self.edge.config();
        let of = |acme: &Arc<AcmeConfig>| acme.folder.clone();
        let all = config.keystores.values();
        all.filter_map(|keystore| Some((keystore.name.clone(), keystore.acme.as_ref().map(of)?))).collect()
    }
}

impl Host for Node {
    fn keystores(&self) -> Vec<String> {
        if self.edge.server.is_leaving() {
            return Vec::new();
        }
        self.folders().into_iter().map(|(keystore, _)| keystore).collect()
    }

    fn files(&self) -> Vec<(Place, u64)> {
        let of = |(keystore, folder): (String, PathBuf)| {
            let listed = mirror::list(&folder);
            listed.into_iter().map(move |(path, at)| (Place { keystore: keystore.clone(), path }, at))
        };
        self.folders().into_iter().flat_map(of).collect()
    }

    fn written(&self, place: &Place) -> u64 {
        self.folder(&place.keystore).map_or(0, |folder| mirror::written(&folder, &place.path))
    }

    fn read(&self, place: &Place) -> Option<Zeroizing<Vec<u8>>> {
        mirror::read(&self.folder(&place.keystore)?, &place.path)
    }

    fn take(&self, place: &Place, written: &Written) -> Result<(), String> {
        // Of a keystore that is not served here, or not yet.
        let Some(folder) = self.folder(&place.keystore) else { return Ok(()) };
        let content = written.content.as_ref().map(|content| content.as_slice());
        mirror::take(&folder, &place.path, written.at, content)?;
        self.say(PeerNews::Took(place.keystore.clone(), place.path.clone()));
        Ok(())
    }

    fn show(&self, proof: &[u8]) -> Option<Box<dyn Send>> {
        let challenges = self.edge.server.shared().generation.load().issuance.challenges().cloned()?;
        let proof = Proof::read(proof)?;
        let shown = proof.show(&challenges).inspect_err(|problem| tracing::warn!("fleet: {problem}")).ok()?;
        Some(Box::new(shown))
    }

    fn demand(&self, keystore: &str, name: &str) {
        self.say(PeerNews::Demanded(keystore.to_owned(), name.to_owned()));
    }

    fn reject(&self, keystore: &str, name: &str, why: &[u8]) {
        let why = String::from_utf8_lossy(why).into_owned();
        self.say(PeerNews::Rejected(keystore.to_owned(), name.to_owned(), why));
    }

    fn note_change(&self) {
        self.say(PeerNews::Changed);
    }
}
