//! What must hold for any bytes at all that come out of a store. Panics where it does not.
//!
//! Shared by the corpus replay beside this folder and by the fuzz target in `/fuzz`, which includes it by path. Owns no inputs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "to panic is how an invariant fails")]

use fleet::etcd::gateway::{self, Page};
use fleet::generation::{MAX_BYTES, Manifest};
use fleet::kept::Kept as _;
use fleet::orders::Orders;
use fleet::rollout::{Report, Rollout};
use fleet::store::certificates::Written;
use fleet::tickets::Tickets;

/// Responses and lines of a watch are read or rejected; what is read as a manifest, a state, a report, orders or masters of tickets says the same once it is written and read again.
pub fn fleet(data: &[u8]) {
    if let Ok(value) = gateway::document(data) {
        let _ = Page::read(&value);
        let _ = gateway::revision(&value);
        let (_, message) = gateway::problem(&value);
        assert!(!message.chars().any(char::is_control) && message.chars().count() <= 300);
    }
    let _ = gateway::stream_line(data);
    if let Ok(manifest) = Manifest::read(data) {
        assert_eq!(Manifest::read(manifest.write().as_bytes()), Ok(manifest.clone()));
        assert!(manifest.files.iter().any(|item| item.path == manifest.main));
        assert!(manifest.files.iter().map(|item| item.size).sum::<u64>() <= MAX_BYTES);
        for item in &manifest.files {
            let stays_below =
                !item.path.starts_with('/') && item.path.split('/').all(|name| !matches!(name, "" | "." | ".."));
            assert!(stays_below, "{:?}", item.path);
        }
    }
    if let Ok(rollout) = Rollout::read(data) {
        assert_eq!(Rollout::read(rollout.write().as_bytes()), Ok(rollout.clone()));
        assert!(rollout.halted("why").serial > rollout.serial);
    }
    if let Ok(orders) = Orders::read(data) {
        assert_eq!(Orders::read(&orders.write()), Ok(orders.clone()));
        assert!(orders.list.iter().all(|order| order.check().is_ok()));
        let more = orders.with(Vec::new(), 0);
        assert!(more.is_ok_and(|more| more.serial > orders.serial));
    }
    if let Ok(tickets) = Tickets::read(data) {
        assert_eq!(Tickets::read(&tickets.write()).map(|again| again.write()), Ok(tickets.write()));
        assert!(tickets.rotated(0).serial > tickets.serial);
    }
    if let Some(written) = Written::read(data) {
        assert_eq!(written.write().as_slice(), data);
    }
    if let Ok(report) = Report::read(data) {
        assert_eq!(
            Report::read(Report::read(report.write().as_bytes()).unwrap().write().as_bytes()).map(|again| again.counts),
            Ok(report.counts)
        );
    }
}
