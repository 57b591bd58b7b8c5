//! What etcd's JSON gateway says, read as what any stranger says: numbers that are numbers, base64 that is base64, nothing that is trusted to be there.
//!
//! The gateway writes 64-bit numbers as texts and leaves out what is zero, false or empty (the JSON mapping of protocol buffers).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::{Event, KeyValue};

/// Most characters of an error that are shown.
const MAX_MESSAGE: usize = 300;

/// A response, or a line of a stream.
///
/// # Errors
/// It is no JSON object.
pub fn document(bytes: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice::<Value>(bytes.trim_ascii()) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) | Err(_) => Err(format!("no JSON object but {}", shown(&String::from_utf8_lossy(bytes)))),
    }
}

/// A 64-bit number; 0 if it is not there.
///
/// # Errors
/// It is something else.
pub fn number(value: &Value, name: &str) -> Result<i64, String> {
    let number = match value.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(Value::String(text)) => text.parse().ok(),
        Some(Value::Number(number)) => number.as_i64(),
        Some(_) => None,
    };
    number.ok_or_else(|| format!("`{name}` is no 64-bit number"))
}

/// A truth value; false if it is not there.
pub fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// The revision of the store that a response names, if it does.
///
/// # Errors
/// It is no number.
pub fn revision(value: &Value) -> Result<Option<i64>, String> {
    value.get("header").map(|header| number(header, "revision")).transpose()
}

/// Bytes; none if they are not there.
fn bytes(value: &Value, name: &str) -> Result<Vec<u8>, String> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => BASE64.decode(text).map_err(|_| format!("`{name}` is no base64")),
        Some(_) => Err(format!("`{name}` is no base64")),
    }
}

/// An error's code and words.
pub fn problem(value: &Value) -> (i64, String) {
    // In a stream it is an object of its own.
    let value = value.get("error").filter(|error| error.is_object()).unwrap_or(value);
    let code = number(value, "code").ok().filter(|code| *code != 0);
    let code = code.or_else(|| number(value, "grpc_code").ok()).unwrap_or(0);
    let message = value.get("message").or(value.get("error")).and_then(Value::as_str);
    (code, shown(message.unwrap_or("no reason given")))
}

/// Keys of one response.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Them, in order.
    pub entries: Vec<KeyValue>,
    /// The last of them, byte for byte.
    pub last_key: Vec<u8>,
    /// There are more behind them.
    pub more: bool,
}

impl Page {
    /// Reads the response of a range.
    ///
    /// # Errors
    /// It is none.
    pub fn read(value: &Value) -> Result<Page, String> {
        let mut page = Page { more: flag(value, "more"), ..Page::default() };
        match value.get("kvs") {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) => {
                for item in items {
                    page.entries.push(entry(item)?);
                }
                if let Some(last) = items.last() {
                    page.last_key = bytes(last, "key")?;
                }
            }
            Some(_) => return Err("`kvs` is no list".to_owned()),
        }
        Ok(page)
    }
}

fn entry(value: &Value) -> Result<KeyValue, String> {
    let key = bytes(value, "key")?;
    if key.is_empty() {
        return Err("a value without a key".to_owned());
    }
    Ok(KeyValue {
        key: String::from_utf8_lossy(&key).into_owned(),
        value: bytes(value, "value")?,
        created: number(value, "create_revision")?,
        changed: number(value, "mod_revision")?,
        lease: number(value, "lease")?,
    })
}

/// What a line of a watch says.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamLine {
    /// It has begun, or nothing has changed.
    Progress,
    /// What changed, and the revision that it led to.
    Events(i64, Vec<Event>),
    /// It cannot begin there; the oldest revision that is kept.
    Compacted(i64),
    /// It has ended with an error: code and words.
    Failed(i64, String),
}

/// Reads a line of a watch.
///
/// # Errors
/// It is none.
pub fn stream_line(line: &[u8]) -> Result<StreamLine, String> {
    let value = document(line)?;
    let Some(result) = value.get("result") else {
        let (code, message) = problem(&value);
        return Ok(StreamLine::Failed(code, message));
    };
    if flag(result, "canceled") {
        return Ok(match number(result, "compact_revision")? {
            0 => {
                let reason = result.get("cancel_reason").and_then(Value::as_str);
                StreamLine::Failed(0, shown(reason.unwrap_or("the watch was canceled")))
            }
            revision => StreamLine::Compacted(revision),
        });
    }
    let events = match result.get("events") {
        None | Some(Value::Null) => return Ok(StreamLine::Progress),
        Some(Value::Array(events)) => events,
        Some(_) => return Err("`events` is no list".to_owned()),
    };
    let event = |event: &Value| {
        let is_deletion = match event.get("type") {
            None | Some(Value::Null) => false,
            Some(Value::String(kind)) if kind == "PUT" => false,
            Some(Value::String(kind)) if kind == "DELETE" => true,
            Some(_) => return Err("an event of an unknown type".to_owned()),
        };
        let entry = entry(event.get("kv").unwrap_or(&Value::Null))?;
        Ok(Event { entry, is_deletion })
    };
    let events = events.iter().map(event).collect::<Result<Vec<_>, String>>()?;
    let newest = events.iter().map(|event| event.entry.changed).max().unwrap_or(0);
    Ok(StreamLine::Events(revision(result)?.unwrap_or(newest), events))
}

/// What somebody else wrote, in one short line.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn pages_are_read_and_nothing_is_guessed() {
        let read = |text: &str| document(text.as_bytes()).and_then(|value| Page::read(&value));
        assert_eq!(read("{\"header\":{\"revision\":\"7\"}}"), Ok(Page::default()));
        let whole = "{\"kvs\":[{\"key\":\"L2E=\",\"create_revision\":\"2\",\"mod_revision\":\"3\",\"version\":\"2\",\"value\":\"eA==\",\"lease\":\"9\"}],\"count\":\"1\",\"more\":true}";
        let entry = KeyValue { key: "/a".into(), value: b"x".to_vec(), created: 2, changed: 3, lease: 9 };
        assert_eq!(read(whole), Ok(Page { entries: vec![entry], last_key: b"/a".to_vec(), more: true }));
        for text in [
            "",
            "[]",
            "{\"kvs\":{}}",
            "{\"kvs\":[{}]}",
            "{\"kvs\":[{\"key\":\"*\"}]}",
            "{\"kvs\":[{\"key\":\"L2E=\",\"mod_revision\":\"x\"}]}",
            "{\"kvs\":[{\"key\":\"L2E=\",\"mod_revision\":1.5}]}",
            "{\"kvs\":[{\"key\":\"L2E=\",\"value\":7}]}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lines_of_a_watch_are_read() {
        let read = |text: &str| stream_line(text.as_bytes());
        assert_eq!(read("{\"result\":{\"header\":{},\"created\":true}}"), Ok(StreamLine::Progress));
        let put = "{\"result\":{\"header\":{\"revision\":\"5\"},\"events\":[{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"5\"}},{\"type\":\"DELETE\",\"kv\":{\"key\":\"Yg==\",\"mod_revision\":\"5\"}}]}}";
        let Ok(StreamLine::Events(5, events)) = read(put) else { panic!("{:?}", read(put)) };
        let seen: Vec<_> = events.iter().map(|event| (event.entry.key.as_str(), event.is_deletion)).collect();
        assert_eq!(seen, [("a", false), ("b", true)]);
        let compacted = "{\"result\":{\"canceled\":true,\"compact_revision\":\"12\"}}";
        assert_eq!(read(compacted), Ok(StreamLine::Compacted(12)));
        let failed = "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"no leader\"}}";
        assert_eq!(read(failed), Ok(StreamLine::Failed(14, "no leader".into())));
        for text in [
            "x",
            "{\"result\":{\"events\":7}}",
            "{\"result\":{\"events\":[{\"type\":\"X\",\"kv\":{\"key\":\"YQ==\"}}]}}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_are_short_and_one_line() {
        let value = document(b"{\"error\":\"a\\nb\",\"code\":14,\"message\":\"a\\nb\"}").unwrap();
        assert_eq!(problem(&value), (14, "a b".to_owned()));
        assert_eq!(problem(&document(b"{}").unwrap()).0, 0);
    }
}
