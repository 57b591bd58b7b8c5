//! What a configuration becomes, as text that shows only what deviates from the defaults: the `{:#?}` form of the program's own types, without the
//! fields that are as in a configuration that says nothing. So a new setting changes none of the expected files.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// A line of the `{:#?}` form with what stands below it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    text: String,
    below: Vec<Line>,
}

/// The fields of a struct, by the struct's name.
pub type Usual = BTreeMap<String, Vec<String>>;

/// The structs of a configuration that sets nothing it need not, as the first of each kind is.
pub fn usual(value: &impl Debug) -> Usual {
    let mut usual = Usual::new();
    remember(&lines_of(value), &mut usual);
    usual
}

fn remember(lines: &[Line], usual: &mut Usual) {
    for line in lines {
        if let Some(name) = struct_name(&line.text) {
            usual.entry(name.to_owned()).or_insert_with(|| line.below.iter().map(text_of).collect());
        }
        remember(&line.below, usual);
    }
}

/// What deviates.
pub fn deviations(value: &impl Debug, usual: &Usual) -> String {
    let mut out = String::new();
    for line in lines_of(value) {
        write(&line, usual, 0, &mut out);
    }
    out
}

/// All of it but where things stand in their file.
pub fn whole(value: &impl Debug) -> String {
    let text = format!("{value:#?}");
    text.lines().filter(|line| !is_place(line)).map(|line| format!("{line}\n")).collect()
}

fn is_place(line: &str) -> bool {
    line.trim_start().starts_with("place: ")
}

fn lines_of(value: &impl Debug) -> Vec<Line> {
    let text = format!("{value:#?}");
    let mut open: Vec<Vec<Line>> = vec![Vec::new()];
    for line in text.lines().map(str::trim).filter(|line| !is_place(line)) {
        if matches!(line.trim_end_matches(','), "}" | "]" | ")") {
            let below = open.pop().unwrap();
            open.last_mut().unwrap().last_mut().unwrap().below = below;
        } else {
            open.last_mut().unwrap().push(Line { text: line.trim_end_matches(',').to_owned(), below: Vec::new() });
            if line.ends_with(['{', '[', '(']) {
                open.push(Vec::new());
            }
        }
    }
    assert_eq!(open.len(), 1, "{text}");
    open.pop().unwrap()
}

/// The name of the struct that a line opens, whether it is a field or an item.
fn struct_name(line: &str) -> Option<&str> {
    let name = line.strip_suffix(" {")?.rsplit(' ').next()?;
    name.starts_with(|c: char| c.is_ascii_uppercase()).then_some(name)
}

fn text_of(line: &Line) -> String {
    let below: Vec<String> = line.below.iter().map(text_of).collect();
    format!("{}{}", line.text, below.join("\n"))
}

fn write(line: &Line, usual: &Usual, depth: usize, out: &mut String) {
    let known = struct_name(&line.text).and_then(|name| usual.get(name));
    let is_usual = |inner: &Line| known.is_some_and(|known| known.contains(&text_of(inner)));
    out.push_str(&"  ".repeat(depth));
    out.push_str(
        line.text.strip_suffix([' ', '{', '[', '(']).unwrap_or(&line.text).trim_end_matches([' ', '{', '[', '(']),
    );
    out.push('\n');
    for inner in line.below.iter().filter(|inner| !is_usual(inner)) {
        write(inner, usual, depth + 1, out);
    }
}
