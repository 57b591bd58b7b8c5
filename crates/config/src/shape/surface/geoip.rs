//! Keys of `geoip`. Declares them, nothing else; `surface.rs` says how.

use crate::table::*;

pub(in crate::shape) static GEOIP: Object = object(
    "geoip",
    "databases of addresses, in the format of MaxMind (MMDB)",
    &[&[
        optional(
            "country",
            Shape::Text("a path such as `GeoLite2-Country.mmdb`"),
            "(none)",
            "Countries: `country.iso_code` of MaxMind's and DB-IP's databases, also those of cities; `country` or `country_code` where that is a text. The file is watched.",
        ),
        optional(
            "asn",
            Shape::Text("a path such as `GeoLite2-ASN.mmdb`"),
            "(none)",
            "Autonomous systems: `autonomous_system_number`, or `asn` as a number or a text such as `AS64500`. The file is watched.",
        ),
    ]],
);
