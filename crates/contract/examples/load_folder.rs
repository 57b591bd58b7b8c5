//! Loads every OpenAPI document of a folder and says what became of each: an outside judge of the loader on documents of the real world.
//!
//! `cargo run --release -p contract --example load_folder -- FOLDER [EVERY [SKIP]]`: one line per rejected document with its first problem and per error of
//! others, then the sums. With EVERY, only each EVERY-th document, beginning behind SKIP. Asserts nothing; a panic is distinguished from a rejection.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use contract::Contract;
use contract::options::Options;

#[derive(Default)]
struct Sums {
    loaded: usize,
    rejected: usize,
    panicked: usize,
    skipped: usize,
    operations: usize,
    /// Operations whose requests cannot be validated.
    unsupported: usize,
    /// Documents with such operations, and those without that have nothing else.
    with_errors: usize,
    empty: usize,
    warnings: usize,
    bytes: u64,
    time: Duration,
    slowest: (Duration, PathBuf),
    /// Rejections by the words of their first problem.
    reasons: BTreeMap<String, usize>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let number = |text: Option<String>, default| text.and_then(|text| text.parse().ok()).unwrap_or(default);
    let every: usize = number(arguments.next(), 1usize).max(1);
    let skip: usize = number(arguments.next(), 0);
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.sort();
    let mut sums = Sums::default();
    for file in files.iter().skip(skip).step_by(every) {
        load(file, &mut sums);
    }
    report(&sums);
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| ["json", "yaml", "yml"].iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
}

fn load(file: &Path, sums: &mut Sums) {
    let options = Options::default();
    let start = Instant::now();
    let result = std::panic::catch_unwind(|| Contract::load(file, &options));
    let took = start.elapsed();
    sums.time += took;
    sums.bytes += std::fs::metadata(file).map(|file| file.len()).unwrap_or_default();
    if took > sums.slowest.0 {
        sums.slowest = (took, file.to_owned());
    }
    match result {
        Ok(Ok(contract)) => {
            sums.loaded += 1;
            let bad = contract.operations().iter().filter(|one| one.unsupported_request().is_some()).count();
            sums.operations += contract.operations().len();
            sums.unsupported += bad;
            sums.with_errors += usize::from(!contract.errors().is_empty());
            sums.empty += usize::from(bad == contract.operations().len());
            for problem in contract.errors() {
                println!("{problem} (error)");
                *sums.reasons.entry(words(&problem.what)).or_default() += 1;
            }
            sums.warnings += contract.warnings().len();
        }
        Ok(Err(problems))
            if problems
                .iter()
                .any(|problem| problem.what.contains("of Swagger") || problem.what.contains("no OpenAPI document")) =>
        {
            sums.skipped += 1;
        }
        Ok(Err(problems)) => {
            sums.rejected += 1;
            let first = problems.first().map(ToString::to_string).unwrap_or_default();
            println!("{first} ({} problems)", problems.len());
            for problem in &problems {
                *sums.reasons.entry(words(&problem.what)).or_default() += 1;
            }
        }
        Err(_) => {
            sums.panicked += 1;
            println!("{}: PANIC", file.display());
        }
    }
}

/// A message without what differs from document to document.
fn words(what: &str) -> String {
    what.split('`').step_by(2).collect::<Vec<_>>().join("_").chars().take(70).collect()
}

fn report(sums: &Sums) {
    let mut reasons: Vec<_> = sums.reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (reason, count) in reasons.iter().take(40) {
        println!("{count:7} {reason}");
    }
    let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = peak.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned();
    println!(
        "{} loaded ({} with errors, {} without an operation that can be validated), {} rejected, {} panicked, {} not OpenAPI 3; {} operations, {} unsupported, {} warnings, {} MB in {:?}, slowest {:?} {}; {peak}",
        sums.loaded,
        sums.with_errors,
        sums.empty,
        sums.rejected,
        sums.panicked,
        sums.skipped,
        sums.operations,
        sums.unsupported,
        sums.warnings,
        sums.bytes / 1_000_000,
        sums.time,
        sums.slowest.0,
        sums.slowest.1.display(),
    );
}
