//! What was measured, and how it is reported: medians over the rounds.

use serde_json::{Value, json};

use super::proxies::Front;
use super::rows::{Kind, Row};

/// Everything that one run measured.
#[derive(Debug)]
pub(super) struct Results {
    machine: String,
    versions: Vec<(Front, String)>,
    /// Time that the hypervisor gave to others, percent.
    pub(super) stolen_percent: f64,
    samples: Vec<(Row, Front, Value)>,
}

impl Results {
    /// Of nothing yet.
    pub(super) fn new(machine: String, versions: Vec<(Front, String)>) -> Results {
        Results { machine, versions, stolen_percent: 0.0, samples: Vec::new() }
    }

    /// One round of a front in a row, as the generator told it.
    pub(super) fn add(&mut self, row: &Row, front: Front, sample: Value) {
        self.samples.push((*row, front, sample));
    }

    /// The median of a figure over the rounds; none without rounds.
    fn median(&self, row: &Row, front: Front, figure: &str) -> Option<f64> {
        let rounds = self.samples.iter().filter(|(of, by, _)| of == row && *by == front);
        let mut values: Vec<f64> = rounds.filter_map(|(_, _, sample)| sample[figure].as_f64()).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    fn fronts(&self) -> impl Iterator<Item = Front> {
        self.versions.iter().map(|(front, _)| *front)
    }

    /// The table of one row.
    pub(super) fn print_row(&self, row: &Row) {
        println!("\n{}\n", row.title());
        let figure = |front, name: &str| self.median(row, front, name).unwrap_or_default();
        let ran = self.fronts().filter(|front| self.median(row, *front, "requests").is_some());
        if matches!(row.kind, Kind::Idle { .. }) {
            println!("| front | KiB per connection |\n|---|---:|");
            for front in ran {
                println!("| {} | {:.1} |", front.name(), figure(front, "kib_per_connection"));
            }
            return;
        }
        println!(
            "| front | requests/s | mean ms | stdev ms | p50 ms | p90 ms | p99 ms | CPU µs/request | load core | errors |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
        for front in ran {
            let ms = |name: &str| figure(front, name) / 1000.0;
            println!(
                "| {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.2} | {:.0} |",
                front.name(),
                figure(front, "requests_per_second"),
                ms("mean_us"),
                ms("stdev_us"),
                ms("p50_us"),
                ms("p90_us"),
                ms("p99_us"),
                figure(front, "cpu_us_per_request"),
                figure(front, "load_share"),
                figure(front, "errors"),
            );
        }
    }

    /// The figures that are quoted: ours by the best of the others.
    pub(super) fn print_summary(&self) {
        println!("\n{}; {:.1} % stolen\n", self.machine, self.stolen_percent);
        self.versions.iter().for_each(|(front, version)| println!("- {}: {version}", front.name()));
        println!("\n| row | figure | portunus | best other | ratio |\n|---|---|---:|---:|---:|");
        let mut rows: Vec<Row> = Vec::new();
        for (row, ..) in &self.samples {
            if !rows.contains(row) {
                rows.push(*row);
            }
        }
        for row in &rows {
            let (figure, shown) = match row.kind {
                Kind::WithApplication { .. } => ("p50_us", "p50 µs, beside node https"),
                Kind::Alone { .. } => ("cpu_us_per_request", "CPU µs/request"),
                Kind::Idle { .. } => ("kib_per_connection", "KiB/connection"),
            };
            let is_rival = |front: &Front| match row.kind {
                Kind::WithApplication { .. } => *front == Front::NodeHttps,
                _ => !matches!(front, Front::Portunus | Front::NodeHttp | Front::NodeHttps),
            };
            let best =
                self.fronts().filter(is_rival).filter_map(|front| Some((self.median(row, front, figure)?, front)));
            let best = best.min_by(|a, b| a.0.total_cmp(&b.0));
            if let (Some(ours), Some((theirs, rival))) = (self.median(row, Front::Portunus, figure), best) {
                let ratio = ours / theirs.max(f64::MIN_POSITIVE);
                println!("| {} | {shown} | {ours:.1} | {theirs:.1} ({}) | {ratio:.2} |", row.name(), rival.name());
            }
        }
    }

    /// Every round.
    pub(super) fn to_json(&self) -> Value {
        let samples = self
            .samples
            .iter()
            .map(|(row, front, sample)| json!({ "row": row.name(), "front": front.name(), "sample": sample }));
        json!({
            "machine": self.machine,
            "stolen_percent": self.stolen_percent,
            "versions": self.versions.iter().map(|(front, text)| json!([front.name(), text])).collect::<Vec<_>>(),
            "samples": samples.collect::<Vec<_>>(),
        })
    }
}
