//! Databases of addresses: whatever the bytes, what is found is a country or a number, and the same each time.

use std::net::IpAddr;

use proxy::geoip::{Database, Kind};

/// Any bytes as a database of either kind.
pub fn check(bytes: &[u8]) {
    let addresses = ["0.0.0.0", "127.0.0.1", "192.0.2.1", "255.255.255.255", "::", "::1", "2001:db8:1::1", "ffff::"];
    let addresses = addresses.map(|text| text.parse::<IpAddr>().unwrap());
    if let Ok(database) = Database::read(bytes.to_vec(), Kind::Country) {
        for address in addresses {
            let found = database.country(address);
            assert!(found.is_none_or(|found| found.as_str().bytes().all(|byte| byte.is_ascii_uppercase())));
            assert_eq!(found, database.country(address));
        }
    }
    match Database::read(bytes.to_vec(), Kind::Asn) {
        Ok(database) => assert!(addresses.iter().all(|address| database.asn(*address) != Some(0))),
        Err(problem) => assert!(problem.lines().count() == 1 && problem.len() < 1_000, "{problem}"),
    }
}
