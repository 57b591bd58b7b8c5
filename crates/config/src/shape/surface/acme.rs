//! Keys of `keystores.acme`. Declares them, nothing else; `surface.rs` says how.

use std::time::Duration;

use super::listeners::SECRET;
use super::upstreams::{CONNECTION_SETTINGS, URL_TLS};
use crate::table::*;

pub(in crate::shape) static ACME: Object = object(
    "keystore.acme",
    "certificates that are ordered from authorities (RFC 8555) and renewed",
    &[
        &[
            required(
                "folder",
                Shape::Text("a folder such as `/var/lib/portunus/public`"),
                "Where keys, certificates and accounts are kept. Made if it is not there; nobody else may write there. `portunus keystore` reads the certificates in its folder `certificates`.",
            ),
            required(
                "directory",
                Shape::OneOrMany(&Shape::Either(&[
                    Shape::Text(
                        "`letsencrypt`, `letsencrypt_staging`, `google`, `zerossl`, or a URL such as `https://ca.internal/acme/directory`",
                    ),
                    Shape::Object(&ACME_DIRECTORY),
                ])),
                "Certificate authorities, asked in this order: the next one if a certificate cannot be had from the one before.",
            ),
            optional(
                "contact",
                Shape::OneOrMany(&Shape::Text("a mail address such as `ops@example.com`")),
                "(none)",
                "Mail addresses that the authorities may write to.",
            ),
            optional(
                "accept_terms",
                Shape::Bool,
                "false",
                "Agree to the terms of service of the authorities. Required.",
            ),
            optional(
                "names",
                Shape::OneOrMany(&Shape::Text("a host name such as `www.example.com`, or an IP address")),
                "(the hosts of routes and tunnels on listeners with this keystore, and `default`)",
                "Names to have certificates for, each of its own. IP addresses share one, which is the default certificate: clients that connect to an address send no server name.",
            ),
            optional(
                "challenges",
                Shape::OneOrMany(&Shape::Choice(&["tls-alpn-01", "http-01"])),
                "[tls-alpn-01, http-01]",
                "How names are proved, in order of preference; after a failure the next one is tried. The authority connects to port 443 for `tls-alpn-01`, and to port 80 for `http-01`: a listener with this keystore, or any that speaks HTTP, must be reached there.",
            ),
            optional(
                "key_types",
                Shape::OneOrMany(&Shape::Choice(&["ecdsa", "rsa"])),
                "[ecdsa]",
                "Keys to have certificates for: ECDSA P-256, RSA of 2048 bits. With both, clients that cannot verify ECDSA get RSA.",
            ),
        ],
        ACME_OPTIONS_ROWS,
    ],
);

settings! {
    /// Settings of ordered certificates that are a value alone.
    pub struct AcmeOptions, ACME_OPTIONS_ROWS {
        retry_interval: Duration = Shape::Duration(100, DAY), "2m",
            "Time after a failed order until the next one for the same certificate. It doubles with each further failure, up to four hours, and is varied by a quarter.";
        renewal_info_interval: Duration = Shape::Duration(SECOND, DAY), "6h",
            "Longest time between two questions to an authority when a certificate should be renewed (RFC 9773), where it responds to them.";
        order_timeout: Duration = Shape::Duration(SECOND, DAY), "10m",
            "Time for one order, from the first request to the certificate.";
        request_timeout: Duration = Shape::Duration(100, 10 * MINUTE), "30s",
            "Time for one request to an authority.";
        max_orders: usize = Shape::Int(1, 100), "4",
            "Orders that are under way at once.";
    }
}

pub(crate) static ACME_DIRECTORY: Object = object(
    "keystore.acme.directory",
    "a certificate authority",
    &[
        &[
            required(
                "url",
                Shape::Text(
                    "`letsencrypt`, `letsencrypt_staging`, `google`, `zerossl`, or a URL such as `https://ca.internal/acme/directory`",
                ),
                "Its directory. What it refers to must be on the same server.",
            ),
            optional(
                "profile",
                Shape::Text("a name such as `shortlived`"),
                "(that of the authority)",
                "Profile of the certificates, by which authorities tell kinds of certificates apart.",
            ),
            optional(
                "external_account",
                Shape::Object(&EXTERNAL_ACCOUNT),
                "(none)",
                "Account with the authority that its ACME account is bound to.",
            ),
        ],
        &URL_TLS,
        &CONNECTION_SETTINGS,
    ],
);

pub(in crate::shape) static EXTERNAL_ACCOUNT: Object = object(
    "keystore.acme.external_account",
    "an account with an authority (RFC 8555, section 7.3.4)",
    &[&[
        required("key_id", Shape::Text("text such as `kid-1`"), "Identifier of the key, as the authority gave it."),
        required("hmac_key", Shape::Object(&SECRET), "The key, in base64url, as the authority gave it."),
    ]],
);
