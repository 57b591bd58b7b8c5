//! `tcp-check` and `option redis-check`: what a server of a backend in TCP mode is asked, and what it says.

use config::Expression;

use super::sections::Proxy;
use super::syntax::Line;
use crate::native::{Map, Value};

/// What a healthy Redis is asked, and says (`option redis-check`).
const PING: &str = "*1\r\n$4\r\nPING\r\n";
const PONG: &str = "+PONG\r\n";

/// The steps of a check; none where a server that takes a connection is healthy.
///
/// # Errors
/// The line that cannot be carried.
pub(super) fn steps<'p>(proxy: &'p Proxy, lines: &[&'p Line]) -> Result<Option<Value>, &'p Line> {
    let mut steps: Vec<Map> = Vec::new();
    if proxy.option("redis-check").is_some() {
        steps.push(Map::of([("send", Value::text(PING)), ("expect", Value::text(PONG))]));
    }
    if proxy.option("tcp-check").is_some() {
        for (at, line) in lines.iter().enumerate() {
            step(line, at == 0, &mut steps).ok_or(*line)?;
        }
    }
    // Without an answer that counts, a connection is what counts.
    let is_asked = steps.iter().any(|step| step.get("expect").is_some());
    Ok(is_asked.then(|| Value::List(steps.into_iter().map(Value::Map).collect())))
}

/// Adds what a line says; none if that cannot be carried.
fn step(line: &Line, is_first: bool, steps: &mut Vec<Map>) -> Option<()> {
    match line.rest(1) {
        [connect] if connect == "connect" && is_first => {}
        [comment, _] if comment == "comment" => {}
        [send, text] if send == "send" && !text.is_empty() => steps.push(Map::of([("send", Value::text(text))])),
        [send, hex] if send == "send-binary" => steps.push(Map::of([("send", binary(hex)?)])),
        [expect, kind, pattern] if expect == "expect" && !pattern.is_empty() => {
            let expected = match kind.as_str() {
                "string" => Value::text(pattern),
                "binary" => binary(pattern)?,
                // There the end of a text may have a line feed behind it.
                "rstring" if !pattern.contains('$') && Expression::new(pattern).is_ok() => {
                    Value::Map(Map::of([("expression", Value::text(pattern))]))
                }
                _ => return None,
            };
            match steps.last_mut().filter(|step| step.get("expect").is_none()) {
                Some(step) => step.set("expect", expected),
                None => steps.push(Map::of([("expect", expected)])),
            }
        }
        _ => return None,
    }
    Some(())
}

fn binary(hex: &str) -> Option<Value> {
    let fits = !hex.is_empty() && hex.len().is_multiple_of(2) && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    fits.then(|| Value::Map(Map::of([("hex", Value::text(hex))])))
}
