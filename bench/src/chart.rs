//! The ratios of a run as a bar chart (SVG 1.1). Draws what `table` computed, nothing else.

use std::fmt::Write;

use crate::peers::Peer;
use crate::table::Results;
use crate::works::Aim;

const LABEL_WIDTH: f64 = 430.0;
const BAR_AREA: f64 = 420.0;
const BAR_HEIGHT: f64 = 14.0;
const GAP: f64 = 10.0;
const TOP: f64 = 56.0;
/// Bars beyond this ratio are cut; their number still tells.
const RATIO_MAX: f64 = 2.0;

/// The chart; bars are ratios to nginx, less is better, a mark shows the aim.
pub(crate) fn svg(results: &Results) -> String {
    let mut body = String::new();
    let mut y = TOP;
    for (work, lines) in results.rows() {
        let middle = y + BAR_HEIGHT * lines.len() as f64 / 2.0 + 4.0;
        text(&mut body, LABEL_WIDTH - 8.0, middle, "end", work.title);
        let first = y;
        for line in &lines {
            let Some((ratio, _)) = line.ratio else { continue };
            let width = BAR_AREA * ratio.min(RATIO_MAX) / RATIO_MAX;
            let (color, height) = (color(line.peer), BAR_HEIGHT - 2.0);
            let _ = writeln!(
                body,
                r#"<rect x="{LABEL_WIDTH}" y="{y}" width="{width:.1}" height="{height}" fill="{color}"/>"#
            );
            text(&mut body, LABEL_WIDTH + width + 4.0, y + 10.0, "start", &format!("{ratio:.2}"));
            y += BAR_HEIGHT;
        }
        for aim in work.aims.iter().filter_map(|aim| if let Aim::OfNginx(ratio) = aim { Some(ratio) } else { None }) {
            let x = LABEL_WIDTH + BAR_AREA * aim / RATIO_MAX;
            let _ = writeln!(
                body,
                r##"<line x1="{x:.1}" y1="{first}" x2="{x:.1}" y2="{y}" stroke="#111" stroke-dasharray="3 2"/>"##
            );
        }
        y += GAP;
    }
    let mut head = String::new();
    text(&mut head, 8.0, 20.0, "start", "Cost relative to nginx in the same round (less is better; dashed: the aim)");
    let mut x = LABEL_WIDTH;
    for (peer, _, _) in &results.peers {
        let _ = writeln!(head, r#"<rect x="{x}" y="32" width="12" height="12" fill="{}"/>"#, color(*peer));
        text(&mut head, x + 16.0, 42.0, "start", peer.name());
        x += 90.0;
    }
    text(&mut head, 8.0, y + 12.0, "start", &results.machine);
    let (width, height) = (LABEL_WIDTH + BAR_AREA + 60.0, y + 24.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{head}{body}</svg>\n"
    )
}

fn color(peer: Peer) -> &'static str {
    match peer {
        Peer::Nginx => "#8a8f98",
        Peer::Haproxy => "#5b8fd6",
        Peer::OtherNginx => "#5d6168",
        Peer::OtherHaproxy => "#8f6fd0",
        Peer::Earlier => "#e8b48a",
        Peer::Portunus => "#d9772b",
    }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{content}</text>"#);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_bar() {
        let drawn = svg(&crate::table::tests::sample_results());
        assert!(drawn.contains(">0.60</text>") && drawn.contains(">1.00</text>"), "{drawn}");
        assert_eq!(drawn.matches("<rect ").count(), 3, "background and two bars");
        assert!(drawn.contains("stroke-dasharray"), "the aim");
    }
}
