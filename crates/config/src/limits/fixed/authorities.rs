//! Bounds that certificate authorities can reach.

use super::{FixedBound, bound};

pub(super) const AUTHORITIES: &[FixedBound] = &[
    bound(
        "acme/src/client.rs",
        "MAX_RESPONSE_BYTES",
        "Response of an authority",
        "256KiB",
        "A chain takes some kilobytes, and everything else less.",
    ),
    bound(
        "acme/src/client.rs",
        "LONGEST_PAUSE",
        "Time for which an authority may have itself left alone (`Retry-After`)",
        "86400s",
        "A broken one does not end renewals.",
    ),
    bound(
        "acme/src/authority.rs",
        "MOST_NONCES",
        "Further tries of a request whose nonce is not accepted",
        "20",
        "Each of them is three requests; authorities that reject one nonce in two are borne.",
    ),
    bound(
        "acme/src/service.rs",
        "SHORTEST_ASKING",
        "Time between two questions when to renew a certificate",
        "60s",
        "As RFC 9773 advises, whatever the authority says; `renewal_info_interval` may make it shorter.",
    ),
    bound("acme/src/key.rs", "MAX_CHAIN", "Certificates in a chain", "10", "Chains have two to four."),
    bound(
        "acme/src/proof.rs",
        "MAX_TOKEN_BYTES",
        "Token of a challenge",
        "256 bytes",
        "Authorities send 22 to 64 characters.",
    ),
    bound(
        "acme/src/dns/update.rs",
        "MAX_RESPONSE_BYTES",
        "Response of a name server to an update",
        "4KiB",
        "It has a header, the zone and a signature.",
    ),
    bound(
        "acme/src/dns/acme_dns.rs",
        "MAX_ACCOUNTS_BYTES",
        "File with the accounts of an acme-dns server",
        "1MiB",
        "Some thousand hosts.",
    ),
    bound(
        "acme/src/dns/program.rs",
        "MAX_OUTPUT_BYTES",
        "What is kept of the output of a program that sets records",
        "4KiB",
        "It is quoted in the log if the program fails; the rest is read and dropped.",
    ),
    bound(
        "acme/src/dns/propagation.rs",
        "MOST_ALIASES",
        "Aliases (CNAME records) that are followed from the name of a TXT record",
        "8",
        "As resolvers have it.",
    ),
    bound(
        "acme/src/dns/propagation.rs",
        "MOST_SERVERS",
        "Name servers of a zone that are asked for a TXT record",
        "16",
        "Zones have two to thirteen.",
    ),
];
