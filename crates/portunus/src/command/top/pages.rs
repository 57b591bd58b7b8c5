//! What `portunus top` shows in a terminal: how the server fares, and one table at a time, sorted as the keys say. Draws into any frame; reads no keyboard and asks no server.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table, TableState, Tabs};
use serde_json::Value;

use crate::command::show::{error_rows, items, span, text};

/// Views that events do not carry.
pub const VIEWS: [&str; 4] = ["errors", "policies", "certificates", "clients"];

/// Seconds of requests that are drawn.
const DRAWN_SECONDS: usize = 300;

/// Rows that one press of a page key goes.
const PAGE_ROWS: u16 = 10;

/// One table.
struct Page {
    title: &'static str,
    head: &'static [&'static str],
    /// The column that gets the room that is left.
    wide: usize,
    rows: fn(&Facts) -> Vec<Vec<String>>,
}

/// What the server said last.
#[derive(Default)]
struct Facts {
    event: Value,
    views: BTreeMap<&'static str, Value>,
}

impl Facts {
    fn view(&self, name: &str) -> &Value {
        self.views.get(name).unwrap_or(&Value::Null)
    }
}

const PAGE_COUNT: usize = 7;

static PAGES: [Page; PAGE_COUNT] = [
    Page {
        title: "Servers",
        head: &["UPSTREAM", "SERVER", "STATE", "WEIGHT", "ACTIVE", "REQUESTS", "FAILED", "RETRIES"],
        wide: 1,
        rows: servers,
    },
    Page {
        title: "Listeners",
        head: &["LISTENER", "KIND", "ADDRESSES", "OPEN", "ACCEPTED", "REQUESTS", "BYTES IN", "BYTES OUT"],
        wide: 2,
        rows: listeners,
    },
    Page {
        title: "Errors",
        head: &["TIME", "CLIENT", "REQUEST", "STATUS", "REASON", "FAULT", "AT"],
        wide: 2,
        rows: |facts| error_rows(items(facts.view("errors"), "/errors")).into_iter().map(Vec::from).collect(),
    },
    Page {
        title: "Rejections",
        head: &["REASON", "FAULT", "LAST MINUTE", "SINCE START", "WHAT IT MEANS"],
        wide: 4,
        rows: |facts| rows(&facts.event, "/rejections", &["/reason", "/fault", "/last_minute", "/count", "/meaning"]),
    },
    Page {
        title: "Policies",
        head: &["POLICY", "CONSISTS OF", "MODE", "PASSED", "REJECTED", "LOGGED", "THROTTLED"],
        wide: 1,
        rows: |facts| {
            let paths = ["/name", "/kinds", "/mode", "/passed", "/rejected", "/logged", "/throttled"];
            rows(facts.view("policies"), "/policies", &paths)
        },
    },
    Page {
        title: "Certificates",
        head: &["DAYS", "NOT AFTER", "KEY", "KEYSTORE", "NAMES"],
        wide: 4,
        rows: |facts| {
            let paths = ["/days_left", "/not_after", "/key_type", "/keystore", "/names"];
            rows(facts.view("certificates"), "/certificates", &paths)
        },
    },
    Page {
        title: "Clients",
        head: &["CLIENT", "REQUESTS", "CONNECTIONS", "BYTES IN", "BYTES OUT"],
        wide: 0,
        rows: |facts| {
            let paths = ["/address", "/requests", "/connections", "/bytes_received", "/bytes_sent"];
            rows(facts.view("clients"), "/clients", &paths)
        },
    },
];

fn rows(value: &Value, list: &str, paths: &[&str]) -> Vec<Vec<String>> {
    items(value, list).map(|one| paths.iter().map(|path| text(one, path)).collect()).collect()
}

fn listeners(facts: &Facts) -> Vec<Vec<String>> {
    let numbers = ["/connections/open", "/connections/accepted", "/requests", "/bytes/received", "/bytes/sent"];
    let row = |one: &Value| {
        let socket = |socket: &Value| format!("{} {}", text(socket, "/transport"), text(socket, "/address"));
        let sockets: Vec<String> = items(one, "/sockets").map(socket).collect();
        let words = [text(one, "/name"), text(one, "/kind"), sockets.join(", ")];
        words.into_iter().chain(numbers.iter().map(|path| text(one, path))).collect()
    };
    items(&facts.event, "/listeners").map(row).collect()
}

fn servers(facts: &Facts) -> Vec<Vec<String>> {
    let paths = ["/server", "/state", "/weight", "/in_flight", "/requests", "/failures", "/retries"];
    let of = |upstream: &Value| {
        let name = text(upstream, "/name");
        let with_name = |row: Vec<String>| -> Vec<String> { std::iter::once(name.clone()).chain(row).collect() };
        rows(upstream, "/servers", &paths).into_iter().map(with_name).collect::<Vec<_>>()
    };
    items(&facts.event, "/upstreams").flat_map(of).collect()
}

/// By which column a table is sorted, and which way; as the server gives it until a key says otherwise.
#[derive(Debug, Clone, Copy, Default)]
struct Sort {
    column: Option<usize>,
    is_descending: bool,
}

/// All that is on the screen.
#[derive(Default)]
pub struct Screen {
    facts: Facts,
    requests: VecDeque<u64>,
    page: usize,
    sorts: [Sort; PAGE_COUNT],
    states: [TableState; PAGE_COUNT],
    /// Rows of the table that is shown.
    shown: usize,
    problem: Option<String>,
}

impl Screen {
    /// Takes the server's event.
    pub fn take(&mut self, event: Value) {
        let rate = event.pointer("/rates/requests").and_then(Value::as_f64).unwrap_or_default();
        if self.requests.len() == DRAWN_SECONDS {
            self.requests.pop_front();
        }
        self.requests.push_back(rate.round() as u64);
        (self.facts.event, self.problem) = (event, None);
    }

    /// Takes a view.
    pub fn take_view(&mut self, name: &'static str, view: Value) {
        self.facts.views.insert(name, view);
    }

    /// Notes that the server cannot be asked.
    pub fn away(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Does what a key says. Whether it says anything.
    pub fn press(&mut self, key: KeyCode) -> bool {
        let last = self.shown.saturating_sub(1);
        let (sort, state) = (&mut self.sorts[self.page], &mut self.states[self.page]);
        let at = state.selected().unwrap_or_default();
        match key {
            KeyCode::Tab | KeyCode::Right => self.page = (self.page + 1) % PAGE_COUNT,
            KeyCode::BackTab | KeyCode::Left => self.page = (self.page + PAGE_COUNT - 1) % PAGE_COUNT,
            KeyCode::Char(digit @ '1'..='7') => self.page = digit as usize - '1' as usize,
            KeyCode::Char('s') => {
                let columns = PAGES[self.page].head.len();
                sort.column = sort.column.map_or(Some(0), |column| Some(column + 1).filter(|next| *next < columns));
            }
            KeyCode::Char('r') => sort.is_descending = !sort.is_descending,
            KeyCode::Down | KeyCode::Char('j') => state.select(Some((at + 1).min(last))),
            KeyCode::Up | KeyCode::Char('k') => state.select(Some(at.saturating_sub(1))),
            KeyCode::PageDown => state.select(Some((at + usize::from(PAGE_ROWS)).min(last))),
            KeyCode::PageUp => state.select(Some(at.saturating_sub(usize::from(PAGE_ROWS)))),
            KeyCode::Home => state.select(Some(0)),
            KeyCode::End => state.select(Some(last)),
            _ => return false,
        }
        true
    }

    /// Draws it all; what has no room is left out.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let heights = [4, 1, 1].map(Constraint::Length).into_iter().chain([Constraint::Min(1), Constraint::Length(1)]);
        let [head, line, tabs, table, keys] = Layout::vertical(heights).areas(frame.area());
        frame.render_widget(Paragraph::new(self.head()), head);
        let drawn: Vec<u64> = self.requests.iter().rev().take(usize::from(line.width)).rev().copied().collect();
        frame.render_widget(Sparkline::default().data(&drawn).style(toned(Color::Cyan)), line);
        let titles = PAGES.iter().enumerate().map(|(at, page)| format!("{} {}", at + 1, page.title));
        frame.render_widget(Tabs::new(titles).select(self.page).highlight_style(reversed()).divider(" "), tabs);
        self.table(frame, table);
        let help =
            "q quit  Tab, 1-7 tables  s sort by the next column  r the other way  arrows, PgUp, PgDn, Home, End rows";
        frame.render_widget(Line::styled(help, Style::new().add_modifier(Modifier::DIM)), keys);
    }

    fn head(&self) -> Vec<Line<'static>> {
        let of = |path: &str| text(&self.facts.event, path);
        let is_ready = self.facts.event.pointer("/status/ready").and_then(Value::as_bool);
        let (word, tone) = match (&self.problem, is_ready) {
            (Some(problem), _) => (crate::command::explain::shown(problem.as_bytes()), Color::Red),
            (None, Some(true)) => ("ready".to_owned(), Color::Green),
            (None, Some(false)) => (format!("not ready: {}", of("/status/not_ready")), Color::Red),
            (None, None) => ("connecting".to_owned(), Color::Yellow),
        };
        let seconds = self.facts.event.pointer("/status/uptime_seconds").and_then(Value::as_u64).unwrap_or_default();
        let about = format!(
            "  portunus {}, up {}, configuration {}, reloads rejected {}",
            of("/status/version"),
            span(seconds),
            of("/status/generation"),
            of("/status/reloads/rejected")
        );
        let requests = format!(
            "requests/s {} (5xx {})  latency ms p50 {} p95 {} p99 {}",
            of("/rates/requests"),
            of("/rates/server_errors"),
            of("/rates/latency_ms/p50"),
            of("/rates/latency_ms/p95"),
            of("/rates/latency_ms/p99")
        );
        let connections = format!(
            "connections {} open, {}/s  handshakes/s {}  bytes/s in {} out {}",
            of("/status/connections/open"),
            of("/rates/connections"),
            of("/rates/handshakes"),
            of("/rates/bytes_received"),
            of("/rates/bytes_sent")
        );
        let rest = format!(
            "servers {} of {} up  certificates {}, the next expires in {} days",
            of("/status/servers/up"),
            of("/status/servers/total"),
            of("/status/certificates/total"),
            of("/status/certificates/next_days_left")
        );
        let state = Span::styled(word, toned(tone).add_modifier(Modifier::BOLD));
        vec![Line::from(vec![state, Span::raw(about)]), requests.into(), connections.into(), rest.into()]
    }

    fn table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let (page, sort) = (&PAGES[self.page], self.sorts[self.page]);
        let rows = sorted((page.rows)(&self.facts), sort);
        self.shown = rows.len();
        let state = &mut self.states[self.page];
        state.select(state.selected().map(|at| at.min(self.shown.saturating_sub(1))));
        let head: Vec<String> = page.head.iter().enumerate().map(|(column, name)| headed(name, column, sort)).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let all = cells.chain(head.get(column)).map(|cell| cell.chars().count());
            u16::try_from(all.max().unwrap_or_default()).unwrap_or(u16::MAX)
        };
        let widths = (0..page.head.len()).map(|column| match column == page.wide {
            true => Constraint::Fill(1),
            false => Constraint::Length(width(column)),
        });
        let cells =
            rows.iter().map(|row| Row::new(row.iter().map(|text| Cell::from(text.clone()).style(style_of(text)))));
        let table = Table::new(cells, widths.collect::<Vec<_>>())
            .header(Row::new(head.clone()).style(Style::new().add_modifier(Modifier::BOLD)))
            .column_spacing(2)
            .row_highlight_style(reversed());
        frame.render_stateful_widget(table, area, state);
    }
}

fn headed(name: &str, column: usize, sort: Sort) -> String {
    match sort.column == Some(column) {
        true if sort.is_descending => format!("{name} v"),
        true => format!("{name} ^"),
        false => name.to_owned(),
    }
}

/// Numbers by what they are worth, anything else as text.
fn sorted(mut rows: Vec<Vec<String>>, sort: Sort) -> Vec<Vec<String>> {
    let Some(column) = sort.column else {
        if sort.is_descending {
            rows.reverse();
        }
        return rows;
    };
    let compare = |one: &Vec<String>, other: &Vec<String>| {
        let (Some(one), Some(other)) = (one.get(column), other.get(column)) else { return Ordering::Equal };
        match (one.parse::<f64>(), other.parse::<f64>()) {
            (Ok(one), Ok(other)) => one.total_cmp(&other),
            _ => one.cmp(other),
        }
    };
    rows.sort_by(|one, other| if sort.is_descending { compare(other, one) } else { compare(one, other) });
    rows
}

/// A colour, unless the environment asks for none (<https://no-color.org>).
fn toned(color: Color) -> Style {
    match std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
        true => Style::new().fg(color),
        false => Style::new(),
    }
}

fn style_of(text: &str) -> Style {
    match text {
        "up" => toned(Color::Green),
        "ejected" | "unhealthy" | "upstream" | "proxy" | "key_server" => toned(Color::Red),
        "drained" | "on_trial" | "absent" => toned(Color::Yellow),
        _ => Style::new(),
    }
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::*;

    fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn filled() -> Screen {
        let mut screen = Screen::default();
        let server = |name: &str, requests: u64| json!({ "server": name, "state": "up", "weight": 1, "in_flight": 0, "requests": requests, "failures": 0, "retries": 0 });
        let servers = [server("10.0.0.1:80", 5), server("10.0.0.2:80", 100), server("10.0.0.3:80", 20)];
        screen.take(json!({
            "status": { "ready": true, "version": "1", "generation": 1 },
            "upstreams": [{ "name": "app", "servers": servers }], "rates": { "requests": 7.0 },
        }));
        screen.take_view("clients", json!({ "clients": [{ "address": "192.0.2.1\u{1b}[2J", "requests": 3 }] }));
        screen
    }

    #[test]
    fn tables_are_sorted_by_keys_and_numbers_by_their_worth() {
        let mut screen = filled();
        let order = |text: &str| {
            let mut places: Vec<_> = [1, 2, 3].map(|n| (text.find(&format!("10.0.0.{n}:80")).unwrap(), n)).to_vec();
            places.sort_unstable();
            places.into_iter().map(|(_, n)| n).collect::<Vec<_>>()
        };
        assert_eq!(order(&drawn(&mut screen, 100, 20)), [1, 2, 3]);
        (0..6).for_each(|_| assert!(screen.press(KeyCode::Char('s'))));
        let text = drawn(&mut screen, 100, 20);
        assert!(text.contains("REQUESTS ^") && order(&text) == [1, 3, 2], "{text}");
        screen.press(KeyCode::Char('r'));
        let text = drawn(&mut screen, 100, 20);
        assert!(text.contains("REQUESTS v") && order(&text) == [2, 3, 1], "{text}");
        screen.press(KeyCode::Char('7'));
        let text = drawn(&mut screen, 100, 20);
        assert!(text.contains("CLIENT") && text.contains("192.0.2.1\\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
        assert!(!screen.press(KeyCode::F(1)));
    }

    #[test]
    fn any_size_and_any_number_of_rows_is_drawn() {
        let mut screen = filled();
        for (width, height) in [(1, 1), (3, 2), (20, 5), (80, 24), (300, 100), (80, 0)] {
            for key in [KeyCode::Tab, KeyCode::Down, KeyCode::PageDown, KeyCode::End, KeyCode::Up, KeyCode::Home] {
                screen.press(key);
                drawn(&mut screen, width, height);
            }
        }
        let mut nothing = Screen::default();
        assert!(drawn(&mut nothing, 80, 24).contains("connecting"));
        nothing.away("the server is away".to_owned());
        assert!(drawn(&mut nothing, 80, 24).contains("the server is away"));
    }
}
