//! Metrics as text, made of what threads counted: sums over threads, and the encoder's calls for each kind of metric.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

use super::count::{BUCKET_COUNT, Bounds, Count, Durations, Family, Slot};

pub(super) fn every_label<const N: usize>(slot: &Slot<N, Count>) -> Option<([&str; N], u64)> {
    Some((slot.texts(), slot.cells.get()))
}

/// Sums a family over all threads, by the labels `row` gives a slot; slots without are left out.
pub(super) fn sums<'a, const N: usize, const M: usize, W, V: Default + 'a>(
    threads: &'a [Arc<W>],
    family: fn(&W) -> &Family<N, V>,
    row: impl Fn(&'a Slot<N, V>) -> Option<([&'a str; M], u64)>,
) -> BTreeMap<[&'a str; M], u64> {
    let mut sums = BTreeMap::new();
    for (labels, value) in threads.iter().flat_map(|worker| family(worker).slots()).filter_map(row) {
        *sums.entry(labels).or_default() += value;
    }
    sums
}

/// A histogram ready to be shown.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds_ns: [u64; BUCKET_COUNT - 1],
    pub(super) buckets: [u64; BUCKET_COUNT],
    sum_ns: u64,
}

/// Sums histograms over all threads, by the labels `row` gives a slot.
pub(super) fn durations<'a, const N: usize, const M: usize, W, B: Bounds + 'a, V: Default + 'a>(
    threads: &'a [Arc<W>],
    family: fn(&W) -> &Family<N, V>,
    row: impl Fn(&'a Slot<N, V>) -> ([&'a str; M], &'a Durations<B>),
) -> BTreeMap<[&'a str; M], Histogram> {
    let mut sums: BTreeMap<_, Histogram> = BTreeMap::new();
    for (labels, durations) in threads.iter().flat_map(|worker| family(worker).slots()).map(row) {
        let sum =
            sums.entry(labels).or_insert_with(|| Histogram { bounds_ns: B::NS, buckets: [0; BUCKET_COUNT], sum_ns: 0 });
        durations.add_to(&mut sum.buckets, &mut sum.sum_ns);
    }
    sums
}

/// What is known of a metric beside its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name as Prometheus shows it, `_total` of counters and `_info` included.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: &'static str,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// What it counts or measures.
    pub help: String,
}

impl Metric {
    pub(super) fn new(
        name: &str,
        help: &str,
        kind: MetricType,
        labels: impl IntoIterator<Item = &'static str>,
    ) -> Metric {
        let (suffix, kind) = match kind {
            MetricType::Counter => ("_total", "counter"),
            MetricType::Info => ("_info", "info"),
            MetricType::Histogram => ("", "histogram"),
            _ => ("", "gauge"),
        };
        let labels = labels.into_iter().map(str::to_owned).collect();
        Metric { name: format!("{name}{suffix}"), kind, labels, help: help.to_owned() }
    }
}

/// Metrics on their way into text, or into a list of what metrics there are.
pub(super) enum Page<'a> {
    /// Writes them. A metric without a single value is left out.
    Values(DescriptorEncoder<'a>),
    /// Lists them, with a value or without.
    Names(&'a mut Vec<Metric>),
}

impl Page<'_> {
    fn each<const N: usize, T>(
        &mut self,
        (name, help, kind): (&str, &str, MetricType),
        labels: [&'static str; N],
        rows: impl IntoIterator<Item = ([impl AsRef<str>; N], T)>,
        write: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
    ) -> fmt::Result {
        let encoder = match self {
            Page::Values(encoder) => encoder,
            Page::Names(list) => {
                list.push(Metric::new(name, help, kind, labels));
                return Ok(());
            }
        };
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for (values, value) in rows {
            let mut pairs = [("", ""); N];
            for ((pair, label), value) in pairs.iter_mut().zip(labels).zip(&values) {
                *pair = (label, value.as_ref());
            }
            if N == 0 {
                write(&mut metric, &value)?;
            } else {
                write(&mut metric.encode_family(&pairs)?, &value)?;
            }
        }
        Ok(())
    }

    pub(super) fn counters<'v, const N: usize, T: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        rows: impl IntoIterator<Item = ([&'v str; N], T)>,
    ) -> fmt::Result {
        self.each((name, help, MetricType::Counter), labels, rows, |metric, value| {
            metric.encode_counter(value, None::<&Exemplar<NoLabelSet, f64>>)
        })
    }

    pub(super) fn gauges<'v, const N: usize, T: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        rows: impl IntoIterator<Item = ([&'v str; N], T)>,
    ) -> fmt::Result {
        self.each((name, help, MetricType::Gauge), labels, rows, |metric, value| metric.encode_gauge(value))
    }

    pub(super) fn gauge<T: EncodeGaugeValue>(&mut self, name: &str, help: &str, value: T) -> fmt::Result {
        self.gauges(name, help, [], [([], value)])
    }

    pub(super) fn info(&mut self, name: &str, help: &str, labels: &[(&'static str, &'static str)]) -> fmt::Result {
        match self {
            Page::Values(encoder) => {
                encoder.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(&labels)
            }
            Page::Names(list) => {
                list.push(Metric::new(name, help, MetricType::Info, labels.iter().map(|(label, _)| *label)));
                Ok(())
            }
        }
    }

    pub(super) fn histograms<'v, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
        rows: impl IntoIterator<Item = ([&'v str; N], Histogram)>,
    ) -> fmt::Result {
        self.each((name, help, MetricType::Histogram), labels, rows, |metric, histogram| {
            let bounds = histogram.bounds_ns.iter().map(|&ns| ns as f64 / 1e9).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(histogram.buckets).collect();
            let count = histogram.buckets.iter().sum();
            metric.encode_histogram::<NoLabelSet>(histogram.sum_ns as f64 / 1e9, count, &buckets, None)
        })
    }
}
