//! A strict reader of metrics text: whatever a scraper could stumble over is a failed test.

use std::collections::{BTreeMap, BTreeSet};

/// Samples by name and labels as written, `name{a="b"}`.
pub(crate) type Samples = BTreeMap<String, f64>;

/// Reads OpenMetrics text; panics on anything malformed.
pub(crate) fn open_metrics(text: &str) -> Samples {
    let body = text.strip_suffix("# EOF\n").expect("ends with EOF");
    read(body, |family, kind| match kind {
        "counter" => vec![format!("{family}_total")],
        "info" => vec![format!("{family}_info")],
        "gauge" => vec![family.to_owned()],
        "histogram" => ["bucket", "sum", "count"].map(|suffix| format!("{family}_{suffix}")).into(),
        other => panic!("kind {other}"),
    })
}

/// Reads Prometheus text 0.0.4; panics on anything malformed.
pub(crate) fn prometheus_text(text: &str) -> Samples {
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
    read(text, |family, kind| match kind {
        "counter" => {
            assert!(family.ends_with("_total"), "{family}");
            vec![family.to_owned()]
        }
        "gauge" => vec![family.to_owned()],
        "histogram" => ["bucket", "sum", "count"].map(|suffix| format!("{family}_{suffix}")).into(),
        other => panic!("kind {other}"),
    })
}

fn read(text: &str, names: impl Fn(&str, &str) -> Vec<String>) -> Samples {
    let mut samples = Samples::new();
    let mut families = BTreeSet::new();
    let (mut help, mut allowed) = (String::new(), Vec::new());
    for line in text.split_terminator('\n') {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (family, words) = rest.split_once(' ').expect(line);
            assert!(!words.is_empty());
            help = family.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (family, kind) = rest.split_once(' ').expect(line);
            assert_eq!(family, help, "help stands before type");
            assert!(families.insert(family.to_owned()), "{family} twice");
            allowed = names(family, kind);
        } else {
            let (name, labels, value) = sample(line);
            assert!(allowed.contains(&name), "{line} does not belong to {allowed:?}");
            assert!(samples.insert(format!("{name}{labels}"), value).is_none(), "{line} twice");
        }
    }
    for family in &families {
        if samples.keys().any(|key| key.starts_with(&format!("{family}_bucket{{"))) {
            histogram(family, &samples);
        }
    }
    samples
}

/// Name, labels as written, value.
fn sample(line: &str) -> (String, String, f64) {
    let end = line.find(['{', ' ']).expect(line);
    let name = &line[..end];
    assert!(name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit()), "{line}");
    assert!(name.starts_with("portunus_") || name.starts_with("process_"), "{line}");
    let mut rest = &line[end..];
    let mut labels = "";
    if rest.starts_with('{') {
        let length = labels_length(rest);
        (labels, rest) = rest.split_at(length);
    }
    let value = rest.strip_prefix(' ').expect(line);
    assert!(!value.contains(' '), "{line}");
    (name.to_owned(), labels.to_owned(), value.parse().expect(line))
}

/// The length of `{name="value",...}`.
fn labels_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut seen = BTreeSet::new();
    let mut at = 1;
    loop {
        let equals = at + text[at..].find("=\"").expect(text);
        let name = &text[at..equals];
        assert!(!name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{text}");
        assert!(seen.insert(name), "{name} twice in {text}");
        at = equals + 2;
        while bytes[at] != b'"' {
            if bytes[at] == b'\\' {
                at += 1;
                assert!(matches!(bytes[at], b'\\' | b'"' | b'n'), "{text}");
            }
            at += 1;
        }
        match bytes[at + 1] {
            b',' => at += 2,
            b'}' => return at + 2,
            other => panic!("{:?} after a label in {text}", char::from(other)),
        }
    }
}

/// Buckets grow, and the last one is the count.
fn histogram(family: &str, samples: &Samples) {
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (key, value) in samples {
        if let Some(labels) = key.strip_prefix(&format!("{family}_bucket{{")) {
            let (bound, others) = labels.strip_prefix("le=\"").expect("le comes first").split_once('"').unwrap();
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
            let others = others.strip_prefix(',').map_or(String::new(), |others| format!("{{{others}"));
            series.entry(others).or_default().push((bound, *value));
        }
    }
    for (labels, mut buckets) in series {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{family}{labels}: {buckets:?}");
        let last = buckets.last().unwrap();
        assert_eq!(last.0, f64::INFINITY);
        assert_eq!(last.1, samples[&format!("{family}_count{labels}")]);
        assert!(samples.contains_key(&format!("{family}_sum{labels}")));
    }
}
