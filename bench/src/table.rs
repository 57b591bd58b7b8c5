//! What was measured, and how it is reported: medians over the rounds, ratios to nginx within each round.

use crate::peers::Peer;
use crate::works::{Kind, Work};

/// One round of one row on one proxy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// Answered requests; held connections where memory is checked.
    pub(crate) requests: f64,
    /// What went wrong.
    pub(crate) errors: u64,
    /// The last of it.
    pub(crate) last_error: String,
    /// Answered requests per second; 0 where that means nothing.
    pub(crate) requests_per_second: f64,
    /// Half of the requests took at most this long; 0 if it is not known.
    pub(crate) p50_us: f64,
    /// 99 of 100 took at most this long; 0 if it is not known.
    pub(crate) p99_us: f64,
    /// What is checked: CPU time per request, µs; or memory per connection, KiB.
    pub(crate) cost: f64,
    /// What of that was spent in user space; 0 if it is not known.
    pub(crate) user_cost: f64,
    /// Share of one core that the proxy used.
    pub(crate) cpu_share: f64,
    /// Share of the other core that generator and upstream used; 0 if it is not known. Close to 1 the load was the limit, not the proxy.
    pub(crate) load_share: f64,
    /// The most resident memory, KiB.
    pub(crate) peak_kib: f64,
}

/// Everything that one run measured.
#[derive(Debug)]
pub(crate) struct Results {
    /// The machine, in one line.
    pub(crate) machine: String,
    /// Each proxy with its version and configuration.
    pub(crate) peers: Vec<(Peer, String, String)>,
    /// Time that the hypervisor gave to others, percent.
    pub(crate) stolen_percent: f64,
    /// In the order in which they were run.
    rows: Vec<(Work, Rounds)>,
}

/// The rounds of each proxy.
type Rounds = Vec<(Peer, Vec<Sample>)>;

/// A line of the table: medians over the rounds.
#[derive(Debug)]
pub(crate) struct Line {
    /// The proxy.
    pub(crate) peer: Peer,
    /// The median round of each figure.
    pub(crate) median: Sample,
    /// Cost by that of nginx in the same round, the median and the worst; none without nginx.
    pub(crate) ratio: Option<(f64, f64)>,
    /// The same by the HAProxy that was given, the median.
    pub(crate) by_haproxy: Option<f64>,
    /// Errors of all rounds.
    pub(crate) errors: u64,
}

impl Results {
    /// Nothing yet.
    pub(crate) fn new(machine: String) -> Results {
        Results { machine, peers: Vec::new(), stolen_percent: 0.0, rows: Vec::new() }
    }

    /// Adds a round.
    pub(crate) fn add(&mut self, work: &Work, peer: Peer, sample: Sample) {
        if self.rows.last().is_none_or(|(last, _)| last.name != work.name) {
            self.rows.push((*work, Vec::new()));
        }
        let Some((_, peers)) = self.rows.last_mut() else { return };
        match peers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, samples)) => samples.push(sample),
            None => peers.push((peer, vec![sample])),
        }
    }

    /// The rows with their lines, nginx first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Work, Vec<Line>)> {
        self.rows.iter().map(|(work, peers)| {
            let of = |wanted| peers.iter().find(|(peer, _)| *peer == wanted).map(|(_, samples)| samples.as_slice());
            let nginx = of(Peer::Nginx).or_else(|| of(Peer::OtherNginx));
            let haproxy = of(Peer::OtherHaproxy);
            let mut lines: Vec<_> = peers.iter().map(|(peer, samples)| line(*peer, samples, nginx, haproxy)).collect();
            lines.sort_by_key(|line| line.peer);
            (work, lines)
        })
    }

    /// Each row in which an earlier program of ours ran, and our cost by its own, round by round: lower quartile, median, upper quartile.
    fn beside_earlier(&self) -> impl Iterator<Item = (&'static str, [f64; 3])> {
        self.rows.iter().filter_map(|(work, peers)| {
            let of = |wanted| peers.iter().find(|(peer, _)| *peer == wanted).map(|(_, samples)| samples.as_slice());
            Some((work.name, quartiles(ratios(of(Peer::Portunus)?, of(Peer::Earlier)?))))
        })
    }

    /// All of it, every round.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let sample = |sample: &Sample| {
            serde_json::json!({
                "requests": sample.requests, "errors": sample.errors, "last_error": sample.last_error,
                "requests_per_second": sample.requests_per_second, "p50_us": sample.p50_us, "p99_us": sample.p99_us,
                "cost": sample.cost, "user_cost": sample.user_cost, "cpu_share": sample.cpu_share, "load_share": sample.load_share, "peak_kib": sample.peak_kib,
            })
        };
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|(work, peers)| {
                let rounds: serde_json::Map<_, _> = peers
                    .iter()
                    .map(|(peer, samples)| (peer.name().to_owned(), samples.iter().map(sample).collect()))
                    .collect();
                serde_json::json!({ "work": work.name, "title": work.title, "unit": unit(work), "aims": aims(work), "rounds": rounds })
            })
            .collect();
        let peers: Vec<_> = self
            .peers
            .iter()
            .map(|(peer, version, config)| serde_json::json!({ "name": peer.name(), "version": version, "config": config }))
            .collect();
        serde_json::json!({ "machine": self.machine, "stolen_percent": self.stolen_percent, "peers": peers, "rows": rows })
    }
}

fn line(peer: Peer, samples: &[Sample], nginx: Option<&[Sample]>, haproxy: Option<&[Sample]>) -> Line {
    let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
    let by_haproxy = haproxy.map(|haproxy| median(ratios(samples, haproxy)));
    let ratios = nginx.map(|nginx| ratios(samples, nginx)).unwrap_or_default();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    Line {
        peer,
        median: Sample {
            requests: of(|sample| sample.requests),
            requests_per_second: of(|sample| sample.requests_per_second),
            p50_us: of(|sample| sample.p50_us),
            p99_us: of(|sample| sample.p99_us),
            cost: of(|sample| sample.cost),
            user_cost: of(|sample| sample.user_cost),
            cpu_share: of(|sample| sample.cpu_share),
            load_share: of(|sample| sample.load_share),
            peak_kib: of(|sample| sample.peak_kib),
            ..Sample::default()
        },
        ratio: (!ratios.is_empty()).then(|| (median(ratios), worst)),
        by_haproxy,
        errors: samples.iter().map(|sample| sample.errors).sum(),
    }
}

/// Costs by those of another program, round by round.
fn ratios(own: &[Sample], other: &[Sample]) -> Vec<f64> {
    own.iter().zip(other).map(|(own, other)| own.cost / other.cost.max(f64::MIN_POSITIVE)).collect()
}

/// Lower quartile, median, upper quartile.
pub(crate) fn quartiles(mut ratios: Vec<f64>) -> [f64; 3] {
    ratios.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| ratios.get(ratios.len() * quarter / 4).copied().unwrap_or_default())
}

/// What a row aims at, for people.
fn aims(work: &Work) -> String {
    work.aims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// What the cost of a row is counted in.
pub(crate) fn unit(work: &Work) -> &'static str {
    if matches!(work.kind, Kind::Idle { .. }) { "KiB/connection" } else { "CPU us/request" }
}

/// Prints the last row, while the others still run.
pub(crate) fn print_work(results: &Results, work: &Work) {
    for line in results.rows().filter(|(row, _)| row.name == work.name).flat_map(|(_, lines)| lines) {
        eprintln!("   {}", text_of(work, &line));
    }
}

fn text_of(work: &Work, line: &Line) -> String {
    let ratio = line.ratio.map(|(median, worst)| format!(", ratio {median:.2}, worst {worst:.2}")).unwrap_or_default();
    let rate = match line.median.requests_per_second {
        0.0 => String::new(),
        rate => format!("; {rate:.0} requests/s"),
    };
    let apart = apart(&line.median);
    format!("{:<14} {:8.1} {} ({apart}){ratio}{rate}", line.peer.name(), line.median.cost, unit(work))
}

/// Prints the table as Markdown, with what is needed to check it.
pub(crate) fn print(results: &Results) {
    println!("\nMachine: {}; {:.1} % of the time stolen", results.machine, results.stolen_percent);
    for (peer, version, config) in &results.peers {
        println!("\n<details><summary>{}: {version}</summary>\n\n```\n{config}```\n\n</details>", peer.name());
    }
    println!(
        "\nRatio: cost by that of nginx in the same round, the median (and the worst) of all rounds; then the same by the HAProxy that was given.\n"
    );
    println!(
        "| work | proxy | ratio (worst) | by HAProxy | aim | cost | user + system | requests/s | p50 us | p99 us | its core | load core | peak MiB | errors |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (work, lines) in results.rows() {
        for line in lines {
            println!("{}", markdown(work, &line));
        }
    }
    println!();
    for (name, [lower, median, upper]) in results.beside_earlier() {
        println!("{name}: {median:.3} of the earlier program, quartiles {lower:.3} and {upper:.3}");
    }
}

fn markdown(work: &Work, line: &Line) -> String {
    let figure = |value: f64, digits: usize| if value > 0.0 { format!("{value:.digits$}") } else { "-".to_owned() };
    let ratio = line.ratio.map_or("-".to_owned(), |(median, worst)| format!("{median:.2} ({worst:.2})"));
    let by_haproxy = line.by_haproxy.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let aim = if line.peer == Peer::Portunus && !work.aims.is_empty() { aims(work) } else { "-".to_owned() };
    let median = &line.median;
    format!(
        "| {} | {} | {ratio} | {by_haproxy} | {aim} | {} {} | {} | {} | {} | {} | {} | {} | {:.1} | {} |",
        work.title,
        line.peer.name(),
        figure(median.cost, 1),
        unit(work),
        apart(median),
        figure(median.requests_per_second, 0),
        figure(median.p50_us, 0),
        figure(median.p99_us, 0),
        figure(median.cpu_share, 2),
        figure(median.load_share, 2),
        median.peak_kib / 1024.0,
        line.errors
    )
}

/// Time in user space and in the kernel.
fn apart(sample: &Sample) -> String {
    match sample.user_cost {
        0.0 => "-".to_owned(),
        user => format!("{user:.1} + {:.1}", sample.cost - user),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::works;

    /// Three rounds of the first row on two proxies.
    pub(crate) fn sample_results() -> Results {
        let mut results = Results::new("a machine".to_owned());
        let work = works::all()[0];
        for (nginx, ours) in [(10.0, 8.0), (20.0, 12.0), (10.0, 5.0)] {
            let sample = |cost| Sample { cost, user_cost: cost / 4.0, requests: 100.0, errors: 1, ..Sample::default() };
            results.add(&work, Peer::Portunus, sample(ours));
            results.add(&work, Peer::Nginx, sample(nginx));
        }
        results
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let results = sample_results();
        let (work, lines) = results.rows().next().unwrap();
        assert_eq!((lines[0].peer, lines[1].peer), (Peer::Nginx, Peer::Portunus));
        assert_eq!(lines[0].ratio, Some((1.0, 1.0)));
        assert_eq!(lines[1].ratio, Some((0.6, 0.8)), "8/10, 12/20 and 5/10");
        assert_eq!((lines[1].median.cost, lines[1].errors), (8.0, 3));
        assert!(
            markdown(work, &lines[1])
                .contains("| portunus | 0.60 (0.80) | - | 0.88 | 8.0 CPU us/request | 2.0 + 6.0 |")
        );
        assert_eq!(results.to_json()["rows"][0]["rounds"]["nginx"][1]["cost"], 20.0);
    }

    #[test]
    fn an_earlier_program_and_a_given_haproxy_are_compared_with_round_by_round() {
        let mut results = Results::new("a machine".to_owned());
        let work = works::all()[0];
        for (ours, other) in [(8.0, 10.0), (12.0, 10.0), (9.0, 10.0)] {
            let sample = |cost| Sample { cost, ..Sample::default() };
            results.add(&work, Peer::Portunus, sample(ours));
            results.add(&work, Peer::Earlier, sample(other));
            results.add(&work, Peer::OtherHaproxy, sample(20.0));
        }
        assert_eq!(results.beside_earlier().collect::<Vec<_>>(), [(work.name, [0.8, 0.9, 1.2])]);
        let (_, lines) = results.rows().next().unwrap();
        let ours = lines.iter().find(|line| line.peer == Peer::Portunus).unwrap();
        assert_eq!((ours.ratio, ours.by_haproxy), (None, Some(0.45)));
    }

    #[test]
    fn medians() {
        for (values, expected) in [(vec![], 0.0), (vec![3.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0], 2.5)] {
            assert_eq!(median(values), expected);
        }
    }
}
