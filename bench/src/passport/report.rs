//! What `bench passport` measured, and how it is reported: medians over the rounds, and ratios of the medians to go-mmproxy on one processor.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::proxies::Proxy;

/// One round of one row on one proxy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    /// How much per second.
    pub(super) rate: f64,
    pub(super) rate_unit: &'static str,
    /// Megabits per second each way.
    pub(super) megabits: Option<f64>,
    /// CPU time of the proxy for one unit.
    pub(super) cost: f64,
    pub(super) cost_unit: &'static str,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    pub(super) loss_percent: Option<f64>,
    pub(super) errors: u64,
}

impl Sample {
    /// For watching the run.
    pub(super) fn text(&self, proxy: Proxy) -> String {
        format!("{:<24} {:.0} {}; {:.3} {}", proxy.name(), self.rate, self.rate_unit, self.cost, self.cost_unit)
    }
}

/// Everything that one run measured.
#[derive(Debug)]
pub(super) struct Results {
    machine: String,
    /// Time that the hypervisor gave to others, percent.
    pub(super) stolen_percent: f64,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    title: &'static str,
    proxies: Vec<(Proxy, Vec<Sample>)>,
}

impl Row {
    /// The median of a figure on a proxy; none if it did not run or the figure means nothing there.
    fn median(&self, proxy: Proxy, figure: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let (_, samples) = self.proxies.iter().find(|(known, _)| *known == proxy)?;
        let mut values: Vec<f64> = samples.iter().filter_map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}

impl Results {
    pub(super) fn new(machine: String) -> Results {
        Results { machine, stolen_percent: 0.0, rows: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &'static str, title: &'static str, proxy: Proxy, sample: Sample) {
        if self.rows.last().is_none_or(|row| row.name != name) {
            self.rows.push(Row { name, title, proxies: Vec::new() });
        }
        let Some(row) = self.rows.last_mut() else { return };
        match row.proxies.iter_mut().find(|(known, _)| *known == proxy) {
            Some((_, samples)) => samples.push(sample),
            None => row.proxies.push((proxy, vec![sample])),
        }
    }

    /// Prints the table as Markdown and writes JSON.
    pub(super) fn report(&mut self, out: &Path) -> io::Result<()> {
        println!("\nMachine: {}; {:.1} % of the time stolen", self.machine, self.stolen_percent);
        println!(
            "Medians of the rounds. Ratios: to go-mmproxy with one processor; cost the lower, rate the higher the better.\n"
        );
        println!(
            "| work | proxy | rate | ratio | Mbit/s each way | CPU cost | ratio | p50 us | p99 us | loss % | errors |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|");
        for row in &mut self.rows {
            row.proxies.sort_by_key(|(proxy, _)| *proxy);
        }
        for row in &self.rows {
            for (proxy, samples) in &row.proxies {
                println!("{}", line(row, *proxy, samples));
            }
        }
        std::fs::create_dir_all(out)?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let file = out.join(format!("passport-{seconds}.json"));
        std::fs::write(&file, format!("{:#}\n", self.to_json()))?;
        println!("\nwritten: {}", file.display());
        Ok(())
    }

    fn to_json(&self) -> serde_json::Value {
        let sample = |sample: &Sample| {
            serde_json::json!({
                "rate": sample.rate, "rate_unit": sample.rate_unit, "megabits_each_way": sample.megabits,
                "cost": sample.cost, "cost_unit": sample.cost_unit, "p50_us": sample.p50_us, "p99_us": sample.p99_us,
                "loss_percent": sample.loss_percent, "errors": sample.errors,
            })
        };
        let row = |row: &Row| {
            let rounds: serde_json::Map<_, _> = row
                .proxies
                .iter()
                .map(|(proxy, samples)| (proxy.name().to_owned(), samples.iter().map(sample).collect()))
                .collect();
            serde_json::json!({ "work": row.name, "title": row.title, "rounds": rounds })
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        serde_json::json!({ "machine": self.machine, "stolen_percent": self.stolen_percent, "rows": rows })
    }
}

/// What of a sample is reported; none where it means nothing.
type Figure = fn(&Sample) -> Option<f64>;

fn line(row: &Row, proxy: Proxy, samples: &[Sample]) -> String {
    let of = |figure: Figure| row.median(proxy, figure);
    let shown = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let ratio = |figure: Figure| {
        let base = row.median(Proxy::GoMmproxy1, figure).filter(|base| *base > 0.0)?;
        of(figure).filter(|value| *value > 0.0).map(|value| value / base)
    };
    let rate: Figure = |sample| Some(sample.rate);
    let cost: Figure = |sample| Some(sample.cost).filter(|cost| *cost > 0.0);
    let first = samples.first().copied().unwrap_or_default();
    format!(
        "| {} | {} | {} {} | {} | {} | {} {} | {} | {} | {} | {} | {} |",
        row.title,
        proxy.name(),
        shown(of(rate), 0),
        first.rate_unit,
        shown(ratio(rate), 2),
        shown(of(|sample| sample.megabits), 0),
        shown(of(cost), 3),
        first.cost_unit,
        shown(ratio(cost), 2),
        shown(of(|sample| sample.p50_us), 1),
        shown(of(|sample| sample.p99_us), 1),
        shown(of(|sample| sample.loss_percent), 2),
        samples.iter().map(|sample| sample.errors).sum::<u64>(),
    )
}
