//! Measures loading a folder of many names, each with an ECDSA and an RSA pair. It reports and checks nothing.
//!
//! `cargo run --release -p keystore --example scale -- make FOLDER [NAMES]` makes the folder (10,000 names if not told otherwise), and
//! `cargo run --release -p keystore --example scale -- load FOLDER` loads it and then reloads it twenty times, telling time and memory. Chains hold
//! a leaf and an intermediate certificate; one key of each type serves all names, since making RSA keys is slow and loading does not notice.

use keystore::pem::{self, Label};
use keystore::{Location, Store};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The program's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", folder] => make(Path::new(folder), 10_000),
        ["make", folder, names] => make(Path::new(folder), names.parse()?),
        ["load", folder] => load(PathBuf::from(folder)),
        _ => Err("usage: scale make FOLDER [NAMES] | scale load FOLDER".into()),
    }
}

fn make(folder: &Path, names: usize) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir(folder)?;
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::<String>::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "Intermediate of the scale example");
    let intermediate = pem::write(&Label::Certificate, authority.self_signed(&authority_key)?.der());
    let issuer = Issuer::new(authority, &authority_key);
    let keys = [
        ("ecdsa", KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?),
        ("rsa", KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256)?),
    ];
    for index in 0..names {
        let name = format!("host-{index:05}.scale.example");
        for (word, key) in &keys {
            let mut leaf = CertificateParams::new(vec![name.clone(), format!("www.{name}")])?;
            leaf.distinguished_name.push(DnType::CommonName, name.as_str());
            let leaf = leaf.signed_by(key, &issuer)?;
            let text =
                [&pem::write(&Label::Certificate, leaf.der()), intermediate.as_str(), &key.serialize_pem()].concat();
            std::fs::write(folder.join(format!("{name}.{word}.pem")), text)?;
        }
    }
    Ok(())
}

fn load(folder: PathBuf) -> Result<(), Box<dyn Error>> {
    let location = Location::PemFolder(folder);
    let at_start = resident_kib()?;
    let begun = Instant::now();
    let mut store = Store::load(&location, None, None)?;
    let took = begun.elapsed();
    let loaded = resident_kib()?;
    let names =
        store.entries.iter().flat_map(|entry| &entry.names).filter(|name| !name.starts_with("www.")).count() / 2;
    println!("{names} names, {} pairs: loaded in {took:?}", store.entries.len());
    println!(
        "resident {at_start} KiB before, {loaded} KiB after: {:.1} KiB a name",
        (loaded - at_start) / names.max(1) as f64
    );
    for round in 1..=20 {
        let begun = Instant::now();
        store = Store::load(&location, None, Some(&store))?;
        println!("reload {round}: {:?}, resident {} KiB", begun.elapsed(), resident_kib()?);
    }
    Ok(())
}

/// Resident memory of this process, KiB.
fn resident_kib() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS line")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
