//! The two text forms of metrics: OpenMetrics 1.0, which the registry writes, and the older Prometheus text format 0.0.4 made from it.

/// A text form of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4, for old scrapers and for people.
    Text,
}

impl Exposition {
    /// The form a client prefers by its Accept field (RFC 9110 §12.5.1); text if it does not say.
    pub fn preferred(accept: &str) -> Exposition {
        let weight = |wanted: &str| {
            let ranges = accept.split(',').map(str::trim);
            let weights = ranges.filter(|range| range.split(';').next().is_some_and(|kind| kind.trim() == wanted));
            weights.map(quality).fold(0.0, f32::max)
        };
        let text = weight("text/plain").max(weight("text/*")).max(weight("*/*"));
        let open = weight("application/openmetrics-text");
        if open > 0.0 && open >= text { Exposition::OpenMetrics } else { Exposition::Text }
    }

    /// The Content-Type of this form.
    pub fn content_type(self) -> &'static str {
        match self {
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Exposition::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The weight of a media range, 1 unless it has one.
fn quality(range: &str) -> f32 {
    let parameter = range.split(';').skip(1).find_map(|parameter| parameter.trim().strip_prefix("q="));
    parameter.map_or(1.0, |value| value.parse().unwrap_or(0.0))
}

/// Turns OpenMetrics text into Prometheus text: there, a counter is named in full in its description, an info is a gauge, and neither units
/// nor an end are marked.
pub(super) fn to_text(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    // The kind stands in the line after the help whose name it changes.
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            if let Some((_, text)) = help.take() {
                out.extend(["# HELP ", name, suffix, " ", text, "\n"]);
            }
            out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_client_chooses_the_form() {
        fn check(accept: &str, expected: Exposition) {
            assert_eq!(Exposition::preferred(accept), expected, "{accept}");
        }
        check("", Exposition::Text);
        check("*/*", Exposition::Text);
        check("text/html", Exposition::Text);
        check("application/openmetrics-text", Exposition::OpenMetrics);
        check(
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
            Exposition::OpenMetrics,
        );
        check("application/openmetrics-text; q=0.2, */*;q=0.9", Exposition::Text);
        check("application/openmetrics-text;q=0", Exposition::Text);
    }

    #[test]
    fn open_metrics_becomes_prometheus_text() {
        let open = "# HELP a Help of a\n# TYPE a counter\na_total{x=\"# y\"} 1\n# HELP b_seconds B\n# TYPE b_seconds gauge\n\
                    # UNIT b_seconds seconds\nb_seconds 2\n# HELP build I\n# TYPE build info\nbuild_info{v=\"1\"} 1\n# EOF\n";
        let text = "# HELP a_total Help of a\n# TYPE a_total counter\na_total{x=\"# y\"} 1\n# HELP b_seconds B\n\
                    # TYPE b_seconds gauge\nb_seconds 2\n# HELP build_info I\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n";
        assert_eq!(to_text(open), text);
    }
}
