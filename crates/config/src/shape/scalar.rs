//! The check of scalars: words, numbers, durations, sizes, text.
//!
//! Checks one value alone; `shape.rs` walks the tree.

use std::time::Duration;

use super::{Kind, Named, hiding, how_to_write, mismatch};
use crate::problem::closest;
use crate::table::Shape;
use crate::units;
use crate::yaml::{Node, Scalar};

/// What and fix.
type Fault = (String, String);

/// Whether a scalar fits a shape.
pub(super) fn fits(shape: &Shape, scalar: &Scalar, node: &Node) -> bool {
    check(shape, scalar, node, Named { key: "", kind: Kind::Key, at: node.span }).is_ok()
}

/// Checks a scalar against a shape; shapes of collections never fit.
pub(super) fn check(shape: &Shape, scalar: &Scalar, node: &Node, named: Named<'_>) -> Result<(), Fault> {
    let text = scalar.text.as_str();
    let wrong = || (mismatch(shape, node, named), how_to_write(shape, named));
    let guess = |guess: Option<String>| match guess {
        Some(guess) => (mismatch(shape, node, named), format!("did you mean {}?", named.written(&guess))),
        None => wrong(),
    };
    match shape {
        Shape::Text(_) | Shape::Verbatim(_) if hiding::is_hidden(text) => Err((
            "this is no value but what stands in place of one".to_owned(),
            "write the value itself; `GET /config` does not show what works as a credential".to_owned(),
        )),
        Shape::Verbatim(_) => Ok(()),
        Shape::Text(_) if text.is_empty() => Err((format!("{} is empty", named.subject()), how_to_write(shape, named))),
        Shape::Text(_) if named.key == "bind" && text.parse::<u16>().is_ok() => Err((
            wrong().0,
            format!("for this port of every address, write {}", named.written(&format!("\":{text}\""))),
        )),
        Shape::Text(what) if what.starts_with("an address") && scalar.is_number() => Err(wrong()),
        Shape::Text(what) if what.starts_with("requests per second") && scalar.is_number() => {
            Err((wrong().0, format!("say in which time: {}", named.written(&format!("{text}/s")))))
        }
        Shape::Text(_) if scalar.is_bool() || scalar.is_number() => {
            Err((wrong().0, format!("quote it if it is meant as text: {}", named.written(&format!("\"{text}\"")))))
        }
        Shape::Text(_) => Ok(()),
        Shape::Bool if scalar.is_bool() => Ok(()),
        Shape::Bool => Err(guess(bool_guess(text))),
        Shape::Choice(words) if words.contains(&text) => Ok(()),
        Shape::Choice(words) => Err(guess(closest(text, words.iter().copied()).map(str::to_owned))),
        // There is always one.
        Shape::Size(_, max) | Shape::Int(_, max) | Shape::Duration(_, max) if bounds(named.key) && means_none(text) => {
            let most = match shape {
                Shape::Size(..) => units::size_text(*max),
                Shape::Int(..) => max.to_string(),
                _ => units::duration_text(Duration::from_millis(*max)),
            };
            Err((wrong().0, format!("there is always a limit; for the highest, write {}", named.written(&most))))
        }
        Shape::Int(min, max) => {
            let number = if scalar.plain { units::whole(text) } else { None };
            let digits = text.replace(['_', ' '], "");
            within(number, *min, *max, named, u64::to_string).unwrap_or_else(|| {
                Err(guess(units::whole(&digits).filter(|n| (min..=max).contains(&n)).map(|_| digits.clone())))
            })
        }
        Shape::Duration(min, max) => {
            let millis = units::duration(text).and_then(|duration| u64::try_from(duration.as_millis()).ok());
            within(millis, *min, *max, named, |millis| units::duration_text(Duration::from_millis(*millis)))
                .unwrap_or_else(|| Err(guess(units::duration_guess(text))))
        }
        // Elsewhere that means no limit; here nothing would pass.
        Shape::Size(1.., max) if named.key == "max_body" && units::size(text) == Some(0) => {
            let most = named.written(&units::size_text(*max));
            Err((format!("{} is 0, and every body is larger", named.subject()), format!("for no limit, write {most}")))
        }
        Shape::Size(min, max) => within(units::size(text), *min, *max, named, |bytes| units::size_text(*bytes))
            .unwrap_or_else(|| Err(guess(units::size_guess(text)))),
        Shape::Either(alternatives) => {
            if alternatives.iter().any(|shape| check(shape, scalar, node, named).is_ok()) {
                Ok(())
            } else {
                Err(wrong())
            }
        }
        Shape::Object(_) | Shape::Table(..) | Shape::List(_) | Shape::OneOrMany(_) => Err(wrong()),
    }
}

/// Checks a number that could be read against its bounds; none if it could not be read.
fn within(
    number: Option<u64>,
    min: u64,
    max: u64,
    named: Named<'_>,
    text: impl Fn(&u64) -> String,
) -> Option<Result<(), Fault>> {
    let number = number?;
    let (bound, word, beyond) = match number {
        number if number < min => (min, "least", "more"),
        number if number > max => (max, "most", "less"),
        _ => return Some(Ok(())),
    };
    let what = format!("{} must be at {word} {}, not {}", named.subject(), text(&bound), text(&number));
    let written = text(&bound);
    let written = written.strip_suffix(" bytes").unwrap_or(&written);
    Some(Err((what, format!("write {} or {beyond}", named.written(written)))))
}

/// Whether a key is that of a limit.
fn bounds(key: &str) -> bool {
    (key.contains("max_") || key.ends_with("timeout")) && !["pool_max_idle", "max_lifetime"].contains(&key)
}

/// Whether other programs have this for no limit at all.
fn means_none(text: &str) -> bool {
    const WORDS: [&str; 9] = ["unlimited", "none", "off", "infinite", "infinity", "disabled", "no", "never", "-1"];
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// What other formats and YAML 1.1 call a boolean.
fn bool_guess(text: &str) -> Option<String> {
    match text.to_lowercase().as_str() {
        "yes" | "y" | "on" | "1" | "true" => Some("true".to_owned()),
        "no" | "n" | "off" | "0" | "false" => Some("false".to_owned()),
        _ => None,
    }
}
