//! Where clients are, as far as a database of addresses knows.

use std::path::PathBuf;

/// The databases: files in the format of MaxMind (MMDB).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GeoipConfig {
    /// Of countries.
    pub country: Option<PathBuf>,
    /// Of autonomous systems.
    pub asn: Option<PathBuf>,
}

impl GeoipConfig {
    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.country.iter().chain(&self.asn)
    }
}

/// A country: two capital letters, as in ISO 3166-1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Country([u8; 2]);

impl Country {
    /// That of this code, if it is one.
    pub fn of(code: &str) -> Option<Country> {
        let code: [u8; 2] = code.as_bytes().try_into().ok()?;
        code.iter().all(u8::is_ascii_uppercase).then_some(Country(code))
    }

    /// Its code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Where clients may be, or may not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    /// Countries; none stands for those that the database does not know.
    pub countries: Vec<Option<Country>>,
    /// Numbers of autonomous systems; none as above.
    pub asns: Vec<Option<u32>>,
}

impl Origins {
    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.countries.is_empty() && self.asns.is_empty()
    }

    /// In words.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        let countries =
            self.countries.iter().map(|one| one.as_ref().map_or("unknown", |country| country.as_str()).to_owned());
        let asns = self.asns.iter().map(|one| one.map_or("AS unknown".to_owned(), |asn| format!("AS {asn}")));
        countries.chain(asns)
    }
}
