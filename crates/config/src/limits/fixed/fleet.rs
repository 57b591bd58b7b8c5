//! Bounds that etcd, or whoever writes there, can reach.

use super::{FixedBound, bound};

pub(super) const FLEET: &[FixedBound] = &[
    bound(
        "fleet/src/etcd.rs",
        "MAX_RESPONSE_BYTES",
        "Response of etcd",
        "32MiB",
        "A page of a hundred values; the largest value that etcd takes is 1.5 MB.",
    ),
    bound("fleet/src/etcd.rs", "CALL_TIMEOUT", "Call of etcd", "5s", "Then the next member is asked."),
    bound("fleet/src/link.rs", "CONNECT_TIMEOUT", "Connecting to etcd", "3s", "Then the next member is asked."),
    bound("fleet/src/etcd.rs", "MAX_KEYS", "Keys below a prefix", "200000", "A fleet has some thousand."),
    bound(
        "fleet/src/generation.rs",
        "MAX_FILES",
        "Files of a generation",
        "10000",
        "Folders of certificates may be large; what is larger has a place on each node.",
    ),
    bound(
        "fleet/src/generation.rs",
        "MAX_BYTES",
        "All files of a generation",
        "64MiB",
        "They are held in memory while they are verified.",
    ),
    bound(
        "fleet/src/store.rs",
        "MAX_MANIFEST_BYTES",
        "Manifest of a generation",
        "16MiB",
        "Ten thousand files with the longest paths.",
    ),
    bound(
        "fleet/src/store/certificates.rs",
        "MAX_VALUE_BYTES",
        "Shared file of a keystore, or proof",
        "512KiB",
        "Files of a keystore's folder have half of it at most.",
    ),
    bound("fleet/src/certificates.rs", "MAX_PROOFS", "Proofs that are shown at once", "4096", "Further ones are not."),
    bound(
        "fleet/src/certificates.rs",
        "MAX_ERRANDS",
        "Names on demand that wait to be asked for",
        "2048",
        "Further ones are asked for by the next client.",
    ),
];
