//! Bounds of enrolment at key servers, of both sides.

use super::{FixedBound, bound};

pub(super) const ENROLMENT: &[FixedBound] = &[
    bound(
        "keyserver/src/shared.rs",
        "MAX_STRANGERS",
        "Requests with tokens that are decided at the same time",
        "16",
        "Guessing is slow, and costs the disk little.",
    ),
    bound(
        "keyserver/src/shared.rs",
        "MAX_STRANGERS_OF_ADDRESS",
        "Those of one address (IPv6: of one /64)",
        "4",
        "Whoever guesses keeps no node from enrolling.",
    ),
    bound(
        "keyserver/src/enrolment.rs",
        "DENIAL_PAUSE",
        "Time until a token that is not good is answered",
        "1s",
        "It keeps one of those places meanwhile.",
    ),
    bound(
        "keyserver/src/register.rs",
        "MAX_ENTRIES",
        "Open tokens",
        "100000",
        "Operators make them; this stops a script that went wrong.",
    ),
    bound("wire/src/enrolment.rs", "MAX_NAME_BYTES", "Name of a node", "253 bytes", "A host name is no longer."),
    bound(
        "wire/src/enrolment.rs",
        "MAX_SIGNATURE_BYTES",
        "Signature of a request",
        "72 bytes",
        "ECDSA over P-256 is no longer.",
    ),
    bound(
        "wire/src/enrolment.rs",
        "MAX_AUTHORITIES",
        "Certificate authorities that a node gets",
        "16",
        "One, or two while one is replaced.",
    ),
];
