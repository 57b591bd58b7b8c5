//! Diagnostics for people who run the program: `tracing` events on standard error. Not the access log.
//!
//! Events are handed to a writer thread of their own, so that a terminal or pipe nobody reads cannot stop a worker. In front of a terminal
//! they are text, else JSON lines. A panic becomes one event.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tracing::Event;
use tracing::field::{Field, Visit};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::Handle;

use super::line::Clock;
use super::lock::lock;
use super::queue::Queue;
use super::target::Target;
use super::writer;

/// How long the end of the program waits for standard error to take the last events.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// The running diagnostics; dropping it writes what waits.
#[derive(Debug)]
pub struct Diagnostics {
    queue: Arc<Queue>,
}

impl Diagnostics {
    /// Sends events of `level` (`error`, `warn`, `info`, `debug`, `trace`) and above to standard error. Once per process.
    ///
    /// # Errors
    /// The level is none of those, diagnostics run already, or no thread can be started.
    pub fn start(level: &str) -> io::Result<Diagnostics> {
        let queue = Arc::new(Queue::new());
        let (subscriber, handle) = subscriber(level, !io::stderr().is_terminal(), &queue)?;
        writer::start("diagnostics", Target::Stderr, Arc::clone(&queue))?;
        subscriber.try_init().map_err(io::Error::other)?;
        let _ = LEVEL.set(handle);
        level.clone_into(&mut lock(&LEVELS).configured);
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            let payload = panic.payload();
            let said = payload.downcast_ref::<&str>().copied();
            let said = said.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)");
            tracing::error!(place, said, "a panic; this is a defect of the program");
        }));
        Ok(Diagnostics { queue })
    }
}

impl Drop for Diagnostics {
    fn drop(&mut self) {
        self.queue.stop(LAST_EVENTS_TIMEOUT);
    }
}

/// Where the level of the process is set.
static LEVEL: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// What the configuration says, and what an operator says for a while.
#[derive(Debug)]
struct Levels {
    configured: String,
    /// Until when.
    other: Option<(String, Instant)>,
}

static LEVELS: Mutex<Levels> = Mutex::new(Levels { configured: String::new(), other: None });

/// Sends events of another level from now on, or once the level ends that somebody set for a while. Nothing happens where no diagnostics run.
///
/// # Errors
/// There is no such level.
pub fn set_level(level: &str) -> io::Result<()> {
    filter(level)?;
    let mut levels = lock(&LEVELS);
    level.clone_into(&mut levels.configured);
    if levels.other.is_some() { Ok(()) } else { apply(level) }
}

/// Sends events of another level for a while, whatever the configuration says. [`end_level`] ends it.
///
/// # Errors
/// There is no such level.
pub fn set_level_for(level: &str, lasts: Duration) -> io::Result<()> {
    filter(level)?;
    let mut levels = lock(&LEVELS);
    levels.other = Some((level.to_owned(), Instant::now() + lasts));
    apply(level)
}

/// Goes back to the level of the configuration once the time of another one is over. To be called now and then.
pub fn end_level() {
    let mut levels = lock(&LEVELS);
    if levels.other.take_if(|(_, until)| *until <= Instant::now()).is_some() {
        // It was a level before.
        let _ = apply(&levels.configured);
        tracing::warn!(log_level = levels.configured, "the log level is that of the configuration again");
    }
}

/// The level that events are sent of.
pub fn level() -> String {
    let levels = lock(&LEVELS);
    levels.other.as_ref().map_or(&levels.configured, |(level, _)| level).clone()
}

fn apply(level: &str) -> io::Result<()> {
    let filter = filter(level)?;
    match LEVEL.get() {
        Some(handle) => handle.reload(filter).map_err(io::Error::other),
        None => Ok(()),
    }
}

/// What takes events, and where its level is set.
type Subscriber = (Box<dyn tracing::Subscriber + Send + Sync>, Handle<EnvFilter, Registry>);

fn subscriber(level: &str, json: bool, queue: &Arc<Queue>) -> io::Result<Subscriber> {
    let writer = Lines(Arc::clone(queue));
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    let layer = if json { layer.event_format(JsonEvents).boxed() } else { layer.with_target(false).boxed() };
    let (filter, handle) = tracing_subscriber::reload::Layer::new(filter(level)?);
    Ok((Box::new(tracing_subscriber::registry().with(filter).with(layer)), handle))
}

/// The crates of the program, by their names in events.
const OURS: [&str; 17] = [
    "acme",
    "portunus",
    "compat",
    "config",
    "contract",
    "fleet",
    "graphql",
    "keyserver",
    "keystore",
    "net",
    "proxy",
    "quic",
    "reason",
    "telemetry",
    "tls",
    "transport",
    "wire",
];

/// Our own crates at `level`; libraries only from `warn` on, as their details are about their insides.
fn filter(level: &str) -> io::Result<EnvFilter> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let known = ["error", "warn", "info", "debug", "trace"];
    if !known.contains(&level) {
        return Err(invalid(format!("`{level}` is no log level; say one of {}", known.join(", "))));
    }
    let libraries = if level == "error" { "error" } else { "warn" };
    let ours = OURS.map(|name| format!("{name}={level}"));
    EnvFilter::try_new(format!("{libraries},{}", ours.join(","))).map_err(|error| invalid(error.to_string()))
}

/// Writes an event as an object of JSON, with the time under the name that it has in the access log.
struct JsonEvents;

impl<S, N> FormatEvent<S, N> for JsonEvents
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (mut time, mut fields) = (Vec::new(), Members::default());
        Clock::default().write(&mut time, SystemTime::now());
        event.record(&mut fields);
        let (metadata, Members { message, others }) = (event.metadata(), fields);
        let time = String::from_utf8_lossy(&time);
        write!(writer, "{{\"time\":\"{time}\",\"level\":\"{}\",\"message\":{message}", metadata.level())?;
        for (name, value) in &others {
            write!(writer, ",{}:{value}", Value::from(*name))?;
        }
        writeln!(writer, ",\"target\":{}}}", Value::from(metadata.target()))
    }
}

/// Fields of an event, in their order.
#[derive(Default)]
struct Members {
    message: Value,
    others: Vec<(&'static str, Value)>,
}

impl Members {
    fn put(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }
}

impl Visit for Members {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

/// Makes each event one entry of the queue.
#[derive(Debug, Clone)]
struct Lines(Arc<Queue>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        // The formatter writes an event with one call.
        self.0.push(event);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::queue::Work;
    use super::*;

    fn events(level: &str, json: bool, run: impl FnOnce()) -> Vec<String> {
        let queue = Arc::new(Queue::new());
        tracing::subscriber::with_default(subscriber(level, json, &queue).unwrap().0, run);
        std::thread::scope(|scope| {
            // Once stopping, the queue gives out what it holds and then says so.
            let stopping = scope.spawn(|| queue.stop(Duration::from_secs(10)));
            let mut events = Vec::new();
            loop {
                match queue.next() {
                    Work::Write(chunk) => {
                        events.push(String::from_utf8(chunk.bytes.clone()).unwrap());
                        queue.count_written(chunk.lines);
                        queue.recycle(chunk);
                    }
                    Work::Reopen => panic!("nobody asked for that"),
                    Work::Stop => break,
                }
            }
            queue.ended();
            assert_eq!(stopping.join().unwrap(), 0);
            events
        })
    }

    #[test]
    fn an_event_is_one_json_line_with_its_fields() {
        let lines = events("info", true, || {
            tracing::info!(target: "portunus", port = 8443, "listening\non \u{1b}[31m all");
            tracing::debug!(target: "portunus", "too fine");
            tracing::info!(target: "h2", "of a library");
            tracing::warn!(target: "h2", "of a library, but serious");
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0].matches('\n').count(), 1);
        let event: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(event["port"], 8443);
        assert_eq!(event["level"], "INFO");
        assert_eq!(event["message"], "listening\non \u{1b}[31m all");
        assert!(
            event.get("timestamp").is_none() && event["time"].as_str().is_some_and(|time| time.len() == 24),
            "{event}"
        );
        assert_eq!(event["target"], "portunus");
        let ordered = events("info", true, || tracing::info!(target: "portunus", listener = "a", address = "b", "c"));
        assert!(ordered[0].contains(r#""message":"c","listener":"a","address":"b","target""#), "{ordered:?}");
    }

    #[test]
    fn an_event_is_text_at_a_terminal() {
        let lines = events("debug", false, || tracing::debug!(target: "tls", alert = 40, "refused"));
        assert!(
            lines[0].contains("DEBUG") && lines[0].contains("refused") && lines[0].contains("alert=40"),
            "{lines:?}"
        );
    }

    #[test]
    fn an_unknown_level_is_rejected() {
        assert!(filter("loud").unwrap_err().to_string().contains("error, warn, info"));
    }
}
