//! Questions to a directory over HTTP, bounded in size and time.

use std::time::Duration;

use net::Deadline;
use transport::Transport;
use wire::http::Method;

use crate::discovery::Source;
use crate::own_request::{Answered, Failed, exchange};
use crate::upstream::{Target, Wish, connect};

/// Largest response, bytes.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// Time for a response that need not wait for anything.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which one stream of changes is followed before everything is asked for anew: one that ended without a word is noticed so.
pub(super) const STREAM_TIME: Duration = Duration::from_secs(60);

/// Connects to one of the servers of a directory.
///
/// # Errors
/// None of them can be reached; in words for the log.
pub(super) async fn connected(source: &Source) -> Result<Transport, String> {
    let group = &source.group;
    group.resolved(group.config.connect_timeout).await;
    let mut tried = Vec::new();
    loop {
        let wish = Wish { not: &tried, is_again: !tried.is_empty(), ..Wish::default() };
        let Ok(taken) = group.take(wish) else { return Err("no server".to_owned()) };
        match connect(Target::own(group, &taken.server)).await {
            Ok(transport) => return Ok(transport),
            Err(error) if tried.len() + 1 >= group.members().servers.len() => {
                return Err(error.reason().code().to_owned());
            }
            Err(_) => tried.push(taken.server.id),
        }
    }
}

/// Asks for a target, and gives the whole response of 200. `body`: what is posted; `limit`: how long the directory may take.
///
/// # Errors
/// As [`connected`]; or no such response came in time.
pub(super) async fn ask(
    source: &Source,
    target: &str,
    body: Option<&str>,
    limit: Duration,
) -> Result<Answered, String> {
    let transport = connected(source).await?;
    let method = if body.is_some() { Method::Post } else { Method::Get };
    let request = request(&method, target, &fields(source), body);
    let asked = exchange(&transport, request.as_bytes(), &method, MAX_LIST_BYTES);
    match Deadline::new().within(limit, asked).await {
        Err(_) => Err(format!("no whole response in {limit:?}")),
        Ok(Err(Failed::Silent)) => Err("the connection ended without a response".to_owned()),
        Ok(Err(Failed::Invalid(problem))) => Err(problem),
        Ok(Ok((answered, _))) if answered.head.status == 200 => Ok(answered),
        Ok(Ok((answered, _))) => Err(format!("the response was {}", answered.head.status)),
    }
}

/// Fields that say who asks, and for what.
pub(super) fn fields(source: &Source) -> String {
    let token = source.token.as_ref().map(|token| format!("X-Consul-Token: {}\r\n", token.as_str()));
    format!("User-Agent: portunus\r\nAccept: application/json\r\n{}", token.unwrap_or_default())
}

fn request(method: &Method, target: &str, fields: &str, body: Option<&str>) -> String {
    let length = body.map(|body| format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    let (length, body) = (length.unwrap_or_default(), body.unwrap_or_default());
    format!(
        "{} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}Connection: close\r\n\r\n{body}",
        method.as_str()
    )
}

/// Text as it stands in a query.
pub(super) fn in_query(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
