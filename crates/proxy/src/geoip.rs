//! Where a client is: its address looked up in databases of countries and autonomous systems (MMDB, MaxMind DB File Format 2.0).
//!
//! A file is read whole, within a bound, and validated when a generation is built; one that the file system says is untouched is not read again. What the library makes
//! of hostile bytes is bounded by the library; should it panic, the file is rejected at load, and an address is unknown at run time. Unknown is what no database says.

use std::fs::Metadata;
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Country, GeoipConfig, Origins};
use maxminddb::{PathElement, Reader, WithinOptions, path};

/// Largest database, bytes.
const MAX_DATABASE_BYTES: u64 = 512 * 1024 * 1024;

/// A database.
#[derive(Debug)]
pub struct Database {
    reader: Reader<Vec<u8>>,
}

/// What a database is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Countries.
    Country,
    /// Numbers of autonomous systems.
    Asn,
}

/// Bounds the ways through the search tree before anything follows all of them: nodes that share their branches make more ways than there can be addresses,
/// and those that lead to IPv4 a second time are followed by nobody who counts. Writers have the networks of IPv4 in up to five places.
fn check_size(reader: &Reader<Vec<u8>>) -> Result<(), String> {
    let most = (reader.metadata().node_count as usize).saturating_add(1).saturating_mul(6);
    let all = WithinOptions::default().include_aliased_networks().include_networks_without_data();
    for (count, way) in reader.networks(all).map_err(|error| error.to_string())?.enumerate() {
        way.map_err(|error| error.to_string())?;
        if count > most {
            return Err("its tree has more branches than nodes could make".to_owned());
        }
    }
    Ok(())
}

impl Database {
    /// Reads a database of that kind.
    ///
    /// # Errors
    /// It is none, or of something else; says what is wrong.
    pub fn read(bytes: Vec<u8>, kind: Kind) -> Result<Database, String> {
        let read = || {
            let reader = Reader::from_source(bytes).map_err(|error| error.to_string())?;
            check_size(&reader)?;
            reader.verify().map_err(|error| error.to_string())?;
            let database = Database { reader };
            let (what, has_some) = match kind {
                Kind::Country => ("countries", database.holds(|found| found.country().is_some())),
                Kind::Asn => ("numbers of autonomous systems", database.holds(|found| found.asn().is_some())),
            };
            if has_some { Ok(database) } else { Err(format!("it holds no {what}")) }
        };
        let read = catch_unwind(AssertUnwindSafe(read));
        read.unwrap_or_else(|_| Err("it cannot be read".to_owned())).map_err(|problem| {
            let problem: String = problem.chars().filter(|character| !character.is_control()).take(200).collect();
            format!(
                "not such a database (MMDB): {problem}; download it again, or have its writer fill in what is missing"
            )
        })
    }

    /// Whether a record is as wanted. Each place of the tree was visited before, when it was verified.
    fn holds(&self, is_wanted: impl Fn(Found<'_>) -> bool) -> bool {
        let networks = self.reader.networks(Default::default());
        networks.is_ok_and(|networks| networks.flatten().any(|found| is_wanted(Found(&found))))
    }

    /// The country of an address.
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        self.find(address, |found| found.country())
    }

    /// The autonomous system of an address.
    pub fn asn(&self, address: IpAddr) -> Option<u32> {
        self.find(address, |found| found.asn())
    }

    fn find<T>(&self, address: IpAddr, read: impl Fn(Found<'_>) -> Option<T>) -> Option<T> {
        let look_up = || {
            let found = self.reader.lookup(address.to_canonical()).ok()?;
            read(Found(&found))
        };
        catch_unwind(AssertUnwindSafe(look_up)).ok().flatten()
    }
}

/// A record, in one of the forms that are in use.
struct Found<'a>(&'a maxminddb::LookupResult<'a, Vec<u8>>);

impl<'a> Found<'a> {
    fn country(&self) -> Option<Country> {
        let code = self.text(&path!["country", "iso_code"]);
        Country::of(code.or_else(|| self.text(&path!["country"])).or_else(|| self.text(&path!["country_code"]))?)
    }

    fn asn(&self) -> Option<u32> {
        // Writers differ in the width that they give a number; MaxMind's is this one.
        let number = |path: &[PathElement<'_>]| {
            let wide = || self.0.decode_path::<u64>(path).ok().flatten().and_then(|number| u32::try_from(number).ok());
            let narrow = || self.0.decode_path::<u16>(path).ok().flatten().map(u32::from);
            self.0.decode_path::<u32>(path).ok().flatten().or_else(narrow).or_else(wide)
        };
        let written = || self.text(&path!["asn"])?.strip_prefix("AS")?.parse().ok();
        let found = number(&path!["autonomous_system_number"]).or_else(|| number(&path!["asn"])).or_else(written);
        found.filter(|number| *number > 0)
    }

    fn text(&self, path: &[PathElement<'_>]) -> Option<&'a str> {
        self.0.decode_path::<&str>(path).ok().flatten()
    }
}

/// A database as it was read from a file.
#[derive(Debug)]
struct Loaded {
    path: PathBuf,
    state: State,
    database: Database,
}

/// What the file system says of a file; equal where it is untouched.
type State = (u64, u64, u64, (i64, i64), (i64, i64));

fn state(found: &Metadata) -> State {
    (found.dev(), found.ino(), found.len(), (found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()))
}

/// The databases of a generation.
#[derive(Debug, Default)]
pub struct Geoip {
    country: Option<Arc<Loaded>>,
    asn: Option<Arc<Loaded>>,
}

/// Of those of whom nobody asks where they are.
pub static NOWHERE: Geoip = Geoip { country: None, asn: None };

impl Geoip {
    /// Reads the databases; what is as it was stays.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn load(config: &GeoipConfig, previous: Option<&Geoip>) -> Result<Geoip, Vec<String>> {
        let before = |of: fn(&Geoip) -> &Option<Arc<Loaded>>| previous.and_then(|previous| of(previous).as_ref());
        let mut problems = Vec::new();
        let mut load = |path: &Option<PathBuf>, kind, before| {
            load(path.as_deref()?, kind, before).map_err(|problem| problems.push(format!("geoip: {problem}"))).ok()
        };
        let country = load(&config.country, Kind::Country, before(|geoip| &geoip.country));
        let asn = load(&config.asn, Kind::Asn, before(|geoip| &geoip.asn));
        if problems.is_empty() { Ok(Geoip { country, asn }) } else { Err(problems) }
    }
}

fn load(path: &Path, kind: Kind, before: Option<&Arc<Loaded>>) -> Result<Arc<Loaded>, String> {
    let place = path.display();
    let unreadable = |error: std::io::Error| format!("cannot read {place}: {error}");
    let file = keystore::files::open(path).map_err(unreadable)?;
    let state = state(&file.metadata().map_err(unreadable)?);
    if let Some(before) = before.filter(|before| before.path == path && before.state == state) {
        return Ok(Arc::clone(before));
    }
    let mut bytes = Vec::new();
    file.take(MAX_DATABASE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_DATABASE_BYTES {
        return Err(format!("{place} is larger than {MAX_DATABASE_BYTES} bytes"));
    }
    let database = Database::read(bytes, kind).map_err(|problem| format!("{place} is {problem}"))?;
    Ok(Arc::new(Loaded { path: path.to_owned(), state, database }))
}

/// A client, and who may know where it is.
#[derive(Debug, Clone, Copy)]
pub struct Located<'a> {
    /// The databases.
    pub geoip: &'a Geoip,
    /// Its address; none where that is not certain.
    pub address: Option<IpAddr>,
}

impl Default for Located<'_> {
    fn default() -> Self {
        Located { geoip: &NOWHERE, address: None }
    }
}

impl Located<'_> {
    /// Its country.
    pub fn country(&self) -> Option<Country> {
        self.geoip.country.as_ref()?.database.country(self.address?)
    }

    /// Its autonomous system.
    pub fn asn(&self) -> Option<u32> {
        self.geoip.asn.as_ref()?.database.asn(self.address?)
    }

    /// Whether it is in one of these countries, or in one of these autonomous systems.
    pub fn is_in_any(&self, origins: &Origins) -> bool {
        (!origins.countries.is_empty() && origins.countries.contains(&self.country()))
            || (!origins.asns.is_empty() && origins.asns.contains(&self.asn()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// Written by `mmdb_writer` 0.2.6 (see `fuzz/README.md`).
    fn file(name: &str) -> Vec<u8> {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mmdb").join(name)).unwrap()
    }

    #[test]
    fn addresses_are_found_in_all_forms_of_records() {
        let check = |name: &str, address: &str, country: Option<&str>, asn: Option<u32>| {
            let address = address.parse().unwrap();
            let of = |kind| Database::read(file(name), kind).ok();
            let found = of(Kind::Country).and_then(|database| database.country(address));
            assert_eq!(found.as_ref().map(Country::as_str), country, "{name} {address}");
            assert_eq!(of(Kind::Asn).and_then(|database| database.asn(address)), asn, "{name} {address}");
        };
        for (name, address, country, asn) in [
            ("country", "192.0.2.1", Some("DE"), None),
            ("country", "192.0.2.128", Some("AT"), None),
            ("country", "::ffff:192.0.2.1", Some("DE"), None),
            ("country", "2001:db8:1::7", Some("NO"), None),
            ("country", "2001:db8:2::7", None, None),
            ("country", "127.0.0.1", None, None),
            ("asn", "192.0.2.1", None, Some(64500)),
            ("asn", "2001:db8::1", None, Some(4_200_000_001)),
            ("asn", "198.51.100.1", None, None),
            ("flat", "192.0.2.1", Some("DE"), Some(64500)),
            ("flat", "198.51.100.1", Some("AT"), Some(64501)),
            ("country_v4", "192.0.2.1", Some("DE"), None),
            ("country_v4", "2001:db8::1", None, None),
            ("odd_codes", "192.0.2.1", None, None),
            ("odd_codes", "198.51.100.1", None, None),
            ("odd_codes", "203.0.113.1", None, None),
            ("odd_codes", "2001:db8::1", Some("FR"), None),
        ] {
            check(name, address, country, asn);
        }
    }

    #[test]
    fn what_is_no_such_database_is_rejected_in_words() {
        for (name, expected) in [
            ("no_countries", "it holds no countries"),
            ("asn", "it holds no countries"),
            ("no_metadata", "metadata"),
            ("metadata_cut", ""),
            ("only_metadata", "beyond"),
            ("cut", "metadata"),
            ("data_ff", ""),
            ("pointer_loop", ""),
            // 188 nodes with 2^91 ways through them.
            ("tree_shared", "more branches"),
        ] {
            let problem = Database::read(file(name), Kind::Country).unwrap_err();
            assert!(
                problem.starts_with("not such a database (MMDB): ") && problem.contains(expected),
                "{name}: {problem}"
            );
        }
        // A tree that leads back to itself ends at the last bit.
        if let Ok(database) = Database::read(file("tree_loop"), Kind::Country) {
            assert_eq!(database.country("::1".parse().unwrap()), None);
        }
    }
}
