//! What validating costs in process: nanoseconds, bytes per second and allocations for each body, valid, wrong at the first byte, wrong at the last.
//! Asserts nothing but the decisions. `cargo bench -p contract` prints the table.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bodies;
#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use contract::schema::{Dialect, Direction, Options, Run};

/// How long each row is measured, and about how long each of its batches takes, of which the fastest counts: noise only ever adds.
const ROW: Duration = Duration::from_millis(600);
const BATCH: Duration = Duration::from_micros(100);

fn main() {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    println!("{:<28} {:>9} {:>11} {:>7} {:>12}", "body", "bytes", "ns", "GB/s", "allocations");
    for (name, schema, body) in bodies::all() {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            rows(name, schema, &body);
        }
    }
}

fn rows(name: &str, schema: &str, body: &str) {
    let node = support::node::parse(schema).unwrap();
    let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, Options::default())
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    let mut run = Run::default();
    let wrong_first = body.replacen('{', "[", 1);
    let at = body.rfind('}').unwrap();
    let wrong_last = format!("{},\"unknown\":1}}", &body[..at]);
    for (what, text, is_valid) in
        [("valid", body, true), ("wrong at first byte", &wrong_first, false), ("wrong at last", &wrong_last, false)]
    {
        let validate = |run: &mut Run| {
            let mut check = program.check(id, run);
            check.feed(black_box(text.as_bytes())).and_then(|()| check.finish()).is_ok()
        };
        let warm = validate(&mut run);
        assert_eq!(
            warm,
            is_valid,
            "{name}: {what}: {:?}",
            support::validate(&program, id, &mut run, text.as_bytes(), usize::MAX)
        );
        let counted = allocation_counter::measure(|| {
            black_box(validate(&mut run));
        });
        let nanoseconds = fastest(|| {
            black_box(validate(&mut run));
        });
        let rate = text.len() as f64 / nanoseconds;
        let label = format!("{name}, {what}");
        println!("{label:<28} {:>9} {nanoseconds:>11.0} {rate:>7.2} {:>12}", text.len(), counted.count_total);
    }
}

/// The fastest of many short batches: on a busy machine long ones are always interrupted.
fn fastest(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    work();
    let batch = (BATCH.as_nanos() / start.elapsed().as_nanos().max(1)).clamp(1, 1000) as u32;
    let mut best = f64::MAX;
    let all = Instant::now();
    while all.elapsed() < ROW {
        let start = Instant::now();
        (0..batch).for_each(|_| work());
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(batch));
    }
    best
}
