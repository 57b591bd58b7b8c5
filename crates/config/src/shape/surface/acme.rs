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
                        "`letsencrypt`, `letsencrypt_staging`, `google`, `zerossl`, `internal`, or a URL such as `https://ca.internal/acme/directory`",
                    ),
                    Shape::Object(&ACME_DIRECTORY),
                ])),
                "Certificate authorities, asked in this order: the next one if a certificate cannot be had from the one before. `internal`, alone, is a development CA in `folder`, for any name: clients must trust `folder`/ca/ca.pem.",
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
                Shape::OneOrMany(&Shape::Choice(&["tls-alpn-01", "http-01", "dns-01", "dns-persist-01"])),
                "[tls-alpn-01, http-01]",
                "How names are proved, in order of preference; after a failure the next one is tried. The authority connects to port 443 for `tls-alpn-01`, and to port 80 for `http-01`: a listener with this keystore, or any that speaks HTTP, must be reached there. For `dns-01` and `dns-persist-01`, which alone prove wildcards, it looks for a TXT record: a new one each time, which `dns` says how to set, or one that you set once and that names the account (`portunus check --online` prints it).",
            ),
            optional("dns", Shape::Object(&DNS), "(none)", "How records for `dns-01` are set. Required by it."),
            optional(
                "key_types",
                Shape::OneOrMany(&Shape::Choice(&["ecdsa", "rsa"])),
                "[ecdsa]",
                "Keys to have certificates for: ECDSA P-256, RSA of 2048 bits. With both, clients that cannot verify ECDSA get RSA.",
            ),
            optional(
                "on_demand",
                Shape::Object(&ON_DEMAND),
                "(none: certificates are for `names` alone)",
                "Certificates that are ordered when a client first asks for their name.",
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

pub(in crate::shape) static ON_DEMAND: Object = object(
    "keystore.acme.on_demand",
    "certificates that are ordered when a client first asks for their name; its handshake waits",
    &[
        &[
            optional(
                "allow",
                Shape::OneOrMany(&Shape::Text(
                    "a host name such as `www.example.com`, or `*.example.com` for all names below it",
                )),
                "(any name that `ask` agrees to)",
                "Names that may be had so. Other names are not asked about. At least one of `allow` and `ask` is required.",
            ),
            optional(
                "ask",
                Shape::Either(&[Shape::Text("a URL such as `http://127.0.0.1:9000/may-have`"), Shape::Object(&ASK)]),
                "(nobody)",
                "Who must agree to each name, before it is ordered and before it is renewed: a server that is sent `GET URL?domain=NAME`. A response of 200 agrees; any other, or none in time, refuses.",
            ),
        ],
        ON_DEMAND_OPTIONS_ROWS,
    ],
);

settings! {
    /// Settings of certificates on demand that are a value alone.
    pub struct OnDemandOptions, ON_DEMAND_OPTIONS_ROWS {
        wait: Duration = Shape::Duration(100, 5 * MINUTE), "30s",
            "Longest time that a handshake waits for the certificate of its name, beyond `handshake_timeout`. The order goes on without it.";
        ask_timeout: Duration = Shape::Duration(10, MINUTE), "5s",
            "Time for one question to `ask`, connecting included.";
        refusal_time: Duration = Shape::Duration(100, DAY), "10m",
            "Time for which a name that was refused, or whose order failed, is refused without a question or another order.";
        max_orders_per_hour: usize = Shape::Int(1, 100_000), "60",
            "Orders for names without a certificate in any 60 minutes, those before a restart included. Renewals do not count.";
        max_names: usize = Shape::Int(1, 100_000), "1000",
            "Names that certificates are kept for, with those that are being ordered. Beyond them, further names are refused.";
    }
}

pub(crate) static ASK: Object = object(
    "keystore.acme.on_demand.ask",
    "a server that says which names certificates may be ordered for",
    &[
        &[required(
            "url",
            Shape::Text("a URL such as `https://control.internal/may-have`"),
            "Its address. `domain=NAME` is added to the query.",
        )],
        &URL_TLS,
        &CONNECTION_SETTINGS,
    ],
);

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
                "issuer",
                Shape::Text("a host name such as `letsencrypt.org`"),
                "(what its directory says)",
                "What the authority is called in records for `dns-persist-01`, and in CAA records.",
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

pub(in crate::shape) static DNS: Object = Object {
    one_of: &["run", "update", "acme_dns"],
    ..object(
        "keystore.acme.dns",
        "how TXT records are set",
        &[
            &[
                optional(
                    "run",
                    Shape::OneOrMany(&Shape::Text("a program such as `/etc/portunus/dns-hook`, then its arguments")),
                    "",
                    "A program. It is run with the further arguments `present` or `cleanup`, the name of the record (`_acme-challenge.www.example.com.`) and its value, and must exit with 0 once the record is set or removed. There is no shell, and nothing in its environment but `PATH`.",
                ),
                optional(
                    "update",
                    Shape::Object(&DNS_UPDATE),
                    "",
                    "Dynamic updates (RFC 2136) of a name server such as BIND, Knot or PowerDNS.",
                ),
                optional("acme_dns", Shape::Object(&ACME_DNS), "", "An acme-dns server."),
                optional(
                    "name_servers",
                    Shape::OneOrMany(&Shape::Text("an address such as `192.0.2.53`, or `192.0.2.53:5353`")),
                    "(those of the zone, by its NS records)",
                    "Name servers that are asked for each record until they have it, before the authority is. Needed where those of the zone cannot be asked from here.",
                ),
            ],
            DNS_OPTIONS_ROWS,
        ],
    )
};

settings! {
    /// Settings of records in the DNS that are a value alone.
    pub struct DnsOptions, DNS_OPTIONS_ROWS {
        timeout: Duration = Shape::Duration(100, HOUR), "1m",
            "Time to set or to remove one record. A program that takes longer is killed.";
        propagation_timeout: Duration = Shape::Duration(0, HOUR), "2m",
            "Longest time until all name servers have a record that was set. If they do not by then, the order fails, before the authority has looked. `0s`: they are not asked.";
        propagation_delay: Duration = Shape::Duration(0, HOUR), "0s",
            "Time to wait after that, for caches and servers that are not asked.";
    }
}

pub(in crate::shape) static DNS_UPDATE: Object = object(
    "keystore.acme.dns.update",
    "dynamic updates of a name server (RFC 2136), over TCP",
    &[&[
        required(
            "server",
            Shape::Text("a name server such as `192.0.2.53:53` or `ns1.example.com:53`"),
            "The primary name server of the zones.",
        ),
        required(
            "zone",
            Shape::OneOrMany(&Shape::Text("a zone such as `example.com`")),
            "Zones that it may be asked to change.",
        ),
        optional("key", Shape::Object(&TSIG_KEY), "(none: updates are not signed)", "Key to sign updates with (TSIG)."),
        optional("ttl", Shape::Duration(SECOND, DAY), "1m", "Time to live of the records."),
    ]],
);

pub(in crate::shape) static TSIG_KEY: Object = object(
    "keystore.acme.dns.update.key",
    "a key for updates (RFC 8945)",
    &[&[
        required("name", Shape::Text("a name such as `portunus.example.com`"), "Its name, as the server knows it."),
        optional(
            "algorithm",
            Shape::Choice(&["hmac-sha256", "hmac-sha384", "hmac-sha512"]),
            "hmac-sha256",
            "Its algorithm.",
        ),
        required("secret", Shape::Object(&SECRET), "The key itself, in base64."),
    ]],
);

pub(in crate::shape) static ACME_DNS: Object = object(
    "keystore.acme.dns.acme_dns",
    "an acme-dns server",
    &[
        &[
            required("url", Shape::Text("a URL such as `https://auth.acme-dns.io`"), "Its address."),
            required(
                "accounts",
                Shape::Text("a file such as `acme-dns.json`"),
                "A JSON file with the account of each host: `{\"www.example.com\": {\"username\": …, \"password\": …, \"subdomain\": …}}`. `_acme-challenge.HOST` must be a CNAME record to the `fulldomain` of the account. Read for each record.",
            ),
        ],
        &URL_TLS,
        &CONNECTION_SETTINGS,
    ],
);
