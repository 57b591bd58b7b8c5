//! Requests to one authority: HTTP over the connections of the program, within bounds, and to no other server.
//!
//! What the library is given was looked at: an authority may be broken or hostile, and the library takes a malformed URL in a directory for a fault of
//! ours.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use bytes::Bytes;
use config::AuthorityConfig;
use http::{Request, Response, Uri};
use http_body::Body as _;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use net::Deadline;
use proxy::generation::Generation;
use proxy::own_request::{Answered, Failed, exchange};
use proxy::upstream::{Group, Target, Wish, connect};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use transport::Transport;
use wire::http::Method;

use crate::foreign::{is_same_directory, shown};

/// Largest response of an authority. Chains take some kilobytes.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// Connections that are kept for the next request.
const MAX_IDLE: usize = 4;

/// How long.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// Longest time that an authority may have itself left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Names of an authority, by its directory, that are looked at.
const MAX_ISSUERS: usize = 16;

/// Longest of them.
const MAX_ISSUER_BYTES: usize = 253;

/// Who we are.
const USER_AGENT: &str = concat!("portunus/", env!("CARGO_PKG_VERSION"));

/// The HTTP side of one authority. Its connections live with the task that was started with it.
#[derive(Clone)]
pub struct Client {
    jobs: mpsc::UnboundedSender<Job>,
    /// Until when it wants to be left alone.
    pause: Arc<Mutex<Option<SystemTime>>>,
    /// What its directory said last that it is called.
    issuers: Arc<Mutex<Vec<String>>>,
}

struct Job {
    request: Request<BodyWrapper<Bytes>>,
    reply: oneshot::Sender<Result<BytesResponse, Error>>,
}

/// What a request needs to know of its authority.
struct Place {
    generations: Arc<ArcSwap<Generation>>,
    authority: Arc<AuthorityConfig>,
    timeout: Duration,
    idle: RefCell<Vec<(Transport, Instant)>>,
    pause: Arc<Mutex<Option<SystemTime>>>,
    issuers: Arc<Mutex<Vec<String>>>,
}

impl Client {
    /// Starts the task that has the connections; it ends with the last client. Needs a runtime that takes local tasks.
    pub fn start(generations: Arc<ArcSwap<Generation>>, authority: Arc<AuthorityConfig>, timeout: Duration) -> Client {
        let (jobs, mut received) = mpsc::unbounded_channel::<Job>();
        let pause = Arc::<Mutex<Option<SystemTime>>>::default();
        let (idle, issuers) = (RefCell::default(), Arc::<Mutex<Vec<String>>>::default());
        let place =
            Place { generations, authority, timeout, idle, pause: Arc::clone(&pause), issuers: Arc::clone(&issuers) };
        let place = Rc::new(place);
        tokio::task::spawn_local(async move {
            while let Some(Job { request, reply }) = received.recv().await {
                let place = Rc::clone(&place);
                tokio::task::spawn_local(async move {
                    // Who asked may have given up.
                    let _ = reply.send(place.answer(request).await.map_err(|text| Error::Other(text.into())));
                });
            }
        });
        Client { jobs, pause, issuers }
    }

    /// What the authority is called in the DNS, as its directory says (`caaIdentities`, RFC 8555 §7.1.1), if it was asked for it.
    pub fn issuers(&self) -> Vec<String> {
        self.issuers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Until when the authority wants to be left alone, if it has said so.
    pub fn pause(&self) -> Option<SystemTime> {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.jobs.send(Job { request, reply });
        Box::pin(async move {
            let gone = || Error::Other("the task that asks authorities has ended".into());
            sent.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }
}

impl Place {
    async fn answer(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, String> {
        let uri = request.uri().clone();
        check_origin(&self.authority.host, &uri)?;
        let answered = Deadline::new().within(self.timeout, self.ask(request)).await;
        let answered = answered.map_err(|_| format!("no whole response in {:?}", self.timeout))??;
        let status = answered.head.status;
        if matches!(status, 429 | 503) {
            self.note_pause(answered.head.fields.get("retry-after"));
        }
        let is_directory = is_same_directory(&uri.to_string(), &self.authority.url);
        check_body(status, &answered.body, is_directory, &self.authority.host)?;
        if is_directory {
            *self.issuers.lock().unwrap_or_else(PoisonError::into_inner) = issuers(&answered.body);
        }
        let mut response = Response::builder().status(status);
        for (name, value) in answered.head.fields.iter() {
            // The library adds it to a time, which ends the program if the sum is beyond all times.
            let pause = if is_retry_after(name) { seconds(value) } else { None };
            response = match pause {
                Some(pause) => response.header(name, pause.min(LONGEST_PAUSE).as_secs()),
                None => response.header(name, value),
            };
        }
        let (parts, ()) = response.body(()).map_err(|error| error.to_string())?.into_parts();
        Ok(BytesResponse { parts, body: Box::new(Bytes::from(answered.body)) })
    }

    async fn ask(&self, request: Request<BodyWrapper<Bytes>>) -> Result<Answered, String> {
        let (parts, mut body) = request.into_parts();
        let mut content = Vec::new();
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            content.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
        let method = match parts.method.as_str() {
            "POST" => Method::Post,
            "HEAD" => Method::Head,
            _ => Method::Get,
        };
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut text =
            format!("{} {target} HTTP/1.1\r\nHost: {}\r\n", method.as_str(), self.authority.host).into_bytes();
        text.extend_from_slice(format!("User-Agent: {USER_AGENT}\r\n").as_bytes());
        if let Some(kind) = parts.headers.get(http::header::CONTENT_TYPE) {
            text.extend_from_slice(b"Content-Type: ");
            text.extend_from_slice(kind.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        if method == Method::Post {
            text.extend_from_slice(format!("Content-Length: {}\r\n", content.len()).as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(&content);
        self.send(&text, &method).await
    }

    /// Sends a request on a connection that is there, or on a fresh one. A connection that ends without a response had been closed meanwhile, and what is
    /// asked twice is rejected by its nonce.
    async fn send(&self, text: &[u8], method: &Method) -> Result<Answered, String> {
        if let Some(transport) = self.take_idle() {
            match exchange(&transport, text, method, MAX_RESPONSE_BYTES).await {
                Ok((answered, is_free)) => {
                    self.keep_idle(transport, is_free);
                    return Ok(answered);
                }
                Err(Failed::Invalid(problem)) => return Err(problem),
                Err(Failed::Silent) => {}
            }
        }
        let transport = self.connect().await?;
        match exchange(&transport, text, method, MAX_RESPONSE_BYTES).await {
            Ok((answered, is_free)) => {
                self.keep_idle(transport, is_free);
                Ok(answered)
            }
            Err(Failed::Silent) => Err("the connection closed before a response".to_owned()),
            Err(Failed::Invalid(problem)) => Err(problem),
        }
    }

    async fn connect(&self) -> Result<Transport, String> {
        let generation = self.generations.load_full();
        let group = generation.issuance.group(&self.authority.upstream.name).cloned();
        let group: Arc<Group> = group.ok_or_else(|| "it is configured no more".to_owned())?;
        drop(generation);
        group.resolved(group.config.connect_timeout).await;
        let taken = group.take(Wish::default()).map_err(|_| format!("{} cannot be resolved", self.authority.host))?;
        let connected = connect(Target::own(&group, &taken.server)).await;
        connected.map_err(|error| format!("{} cannot be connected to: {}", self.authority.host, error.reason().code()))
    }

    fn take_idle(&self) -> Option<Transport> {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|(transport, since)| since.elapsed() < IDLE_TIME && !transport.has_news());
        idle.pop().map(|(transport, _)| transport)
    }

    fn keep_idle(&self, transport: Transport, is_free: bool) {
        let mut idle = self.idle.borrow_mut();
        if is_free && idle.len() < MAX_IDLE {
            idle.push((transport, Instant::now()));
        }
    }

    /// The authority wants to be left alone (RFC 8555 §6.6).
    fn note_pause(&self, retry_after: Option<&[u8]>) {
        if let Some(seconds) = retry_after.and_then(seconds) {
            let until = SystemTime::now().checked_add(seconds.min(LONGEST_PAUSE));
            *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
    }
}

fn is_retry_after(name: impl AsRef<[u8]>) -> bool {
    name.as_ref().eq_ignore_ascii_case(b"retry-after")
}

/// A `Retry-After` of seconds. Dates are not read: ours may be another one.
fn seconds(value: &[u8]) -> Option<Duration> {
    let digits = std::str::from_utf8(value).ok()?.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // What is too large for a number is long.
    is_number.then(|| Duration::from_secs(digits.parse().unwrap_or(u64::MAX)))
}

/// An authority may send us to itself, and nowhere else.
fn check_origin(host: &str, uri: &Uri) -> Result<(), String> {
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_ascii_lowercase(),
        _ => format!("{host}:443").to_ascii_lowercase(),
    };
    let asked = uri.authority().map(|authority| with_port(authority.as_str()));
    if uri.scheme_str() == Some("https") && asked == Some(with_port(host)) {
        return Ok(());
    }
    Err(format!(
        "the authority refers to another server, {}; its URLs must begin with https://{host}/",
        shown(&uri.to_string())
    ))
}

/// Looks at a body before the library does: errors are problem documents, and a directory has whole URLs of the same server.
fn check_body(status: u16, body: &[u8], is_directory: bool, host: &str) -> Result<(), String> {
    if !(200..300).contains(&status) && !matches!(serde_json::from_slice(body), Ok(Value::Object(_))) {
        return Err(format!("the response was {status} without a problem document"));
    }
    if !is_directory || !(200..300).contains(&status) {
        return match is_directory {
            true => Err(format!("the response for the directory was {status}")),
            false => Ok(()),
        };
    }
    let Ok(Value::Object(directory)) = serde_json::from_slice(body) else {
        return Err("the directory is no JSON object".to_owned());
    };
    for name in ["newNonce", "newAccount", "newOrder"] {
        if !directory.get(name).is_some_and(Value::is_string) {
            return Err(format!("the directory lacks `{name}`; is this the URL of an ACME directory?"));
        }
    }
    for (name, url) in directory.iter().filter(|(name, _)| *name != "meta") {
        let Some(url) = url.as_str() else { continue };
        let uri: Uri = url.parse().map_err(|_| format!("`{name}` of the directory is no URL: {}", shown(url)))?;
        check_origin(host, &uri)?;
    }
    Ok(())
}

/// What an authority is called in the DNS, by its directory: host names alone, and few of them.
fn issuers(directory: &[u8]) -> Vec<String> {
    let directory: Value = serde_json::from_slice(directory).unwrap_or_default();
    let names = directory.get("meta").and_then(|meta| meta.get("caaIdentities")).and_then(Value::as_array);
    let is_host = |name: &&str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        (1..=MAX_ISSUER_BYTES).contains(&name.len()) && name.bytes().all(is_plain)
    };
    let names = names.into_iter().flatten().filter_map(Value::as_str).filter(is_host);
    names.map(str::to_ascii_lowercase).take(MAX_ISSUERS).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pauses_beyond_all_times_are_long_ones() {
        for (text, expected) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("18446744073709551615", Some(u64::MAX)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected.map(Duration::from_secs), "{text:?}");
        }
    }

    #[test]
    fn an_authority_leads_to_itself_alone() {
        for (host, uri, expected) in [
            ("ca.example", "https://ca.example/order/1", true),
            ("ca.example", "https://ca.example:443/order/1", true),
            ("ca.example:443", "https://CA.example/order/1", true),
            ("ca.example:14000", "https://ca.example:14000/", true),
            ("[2001:db8::1]:14000", "https://[2001:db8::1]:14000/dir", true),
            ("ca.example", "http://ca.example/order/1", false),
            ("ca.example", "https://ca.example:14000/", false),
            ("ca.example", "https://10.0.0.1/", false),
            ("ca.example", "https://ca.example.evil.example/", false),
            ("ca.example", "https://ca.example@evil.example/", false),
            ("ca.example", "/order/1", false),
        ] {
            assert_eq!(check_origin(host, &uri.parse().unwrap()).is_ok(), expected, "{host} {uri}");
        }
    }

    #[test]
    fn what_an_authority_says_is_looked_at_first() {
        let whole = |more: &str| {
            let url = |name: &str| format!("\"{name}\":\"https://ca.example/{name}\"");
            format!("{{{},{},{}{more}}}", url("newNonce"), url("newAccount"), url("newOrder"))
        };
        for (status, body, is_directory, expected) in [
            (200, whole(""), true, ""),
            (200, whole(",\"meta\":{\"website\":\"http://elsewhere.example\"}"), true, ""),
            (200, whole(",\"renewalInfo\":\"https://elsewhere.example/ari\""), true, "another server"),
            (200, whole(",\"revokeCert\":\"http://[\""), true, "is no URL"),
            (200, "{\"newNonce\":\"https://ca.example/\"}".to_owned(), true, "lacks `newAccount`"),
            (200, "<html>".to_owned(), true, "no JSON object"),
            (404, "{}".to_owned(), true, "was 404"),
            (502, "<html>".to_owned(), false, "without a problem document"),
            (403, "{\"type\":\"urn:ietf:params:acme:error:unauthorized\"}".to_owned(), false, ""),
            (200, "-----BEGIN CERTIFICATE-----".to_owned(), false, ""),
        ] {
            let found = check_body(status, body.as_bytes(), is_directory, "ca.example").err().unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{status} {body}: {found}");
        }
    }

    #[test]
    fn an_authority_is_called_by_host_names_alone() {
        let called = |list: &str| issuers(format!("{{\"meta\":{{\"caaIdentities\":{list}}}}}").as_bytes());
        assert_eq!(called("[\"CA.example\",\"a.example; policy=wildcard\",\"\",7,\"b.example\\\"\"]"), ["ca.example"]);
        assert_eq!(called(&format!("[{}\"a\"]", "\"a\",".repeat(100))).len(), 16);
        assert!(called("{}").is_empty() && issuers(b"{}").is_empty() && issuers(b"").is_empty());
    }
}
