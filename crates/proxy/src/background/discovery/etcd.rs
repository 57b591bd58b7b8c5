//! etcd: servers that registered themselves below a prefix, usually with a lease that ends with them; by the JSON gateway (`/v3/kv/range`, `/v3/watch`).

use std::net::SocketAddr;
use std::sync::Arc;

use config::ListedService;
use net::Deadline;
use serde_json::{Value, json};
use wire::http::Method;

use super::Directory;
use super::http::{STREAM_TIME, TIMEOUT, ask, connected, fields};
use crate::auth::base64url::{decode_leniently, encode_base64};
use crate::discovery::{Instance, Listing, Source};
use crate::own_request::{Asked, send};

/// Most keys of a service that are asked for.
const MAX_KEYS: u32 = 1_000;

/// One service.
pub(super) struct Etcd {
    source: Arc<Source>,
    /// The first key of the service, and the first one behind all of them, in base64.
    range: (String, String),
    /// What was believed last is as new as this.
    revision: i64,
}

impl Etcd {
    pub(super) fn new(source: &Arc<Source>, listed: &ListedService, prefix: &str) -> Etcd {
        let below = format!("{prefix}/{}", listed.service);
        // `0` comes behind `/`.
        let range = (base64(&format!("{below}/")), base64(&format!("{below}0")));
        Etcd { source: Arc::clone(source), range, revision: 0 }
    }

    /// What stands in etcd, and as of when.
    async fn listing(&self) -> Result<(Listing, i64), String> {
        let (key, range_end) = &self.range;
        let question = json!({ "key": key, "range_end": range_end, "limit": MAX_KEYS.to_string() }).to_string();
        let answered = ask(&self.source, "/v3/kv/range", Some(&question), TIMEOUT).await?;
        read(&answered.body)
    }
}

impl Directory for Etcd {
    async fn turn(&mut self, say: &mut dyn FnMut(Listing)) -> Result<(), String> {
        let (listing, revision) = self.listing().await?;
        // A store that was set up anew knows of nobody; that says nothing of those who are there.
        if revision < self.revision && listing.instances.is_empty() {
            return Err("its revision went backwards, and it knows no server any more".to_owned());
        }
        say(listing);
        self.revision = revision;
        let (key, range_end) = &self.range;
        let start = (revision + 1).to_string();
        let question = json!({ "create_request": { "key": key, "range_end": range_end, "start_revision": start } });
        let (question, transport) = (question.to_string(), connected(&self.source).await?);
        let fields = format!("{}Content-Type: application/json\r\n", fields(&self.source));
        let asked = Asked {
            method: &Method::Post,
            host: "localhost",
            target: "/v3/watch",
            fields: &fields,
            body: Some(&question),
        };
        let mut lines = 0;
        let following = async {
            let got = send(&transport, asked).await?;
            if got.status() != 200 {
                return Err(format!("the response was {}", got.status()));
            }
            // The first line says that it watches; whatever it says then is a reason to ask anew.
            let is_first = async |piece: &[u8]| {
                lines += piece.iter().filter(|byte| **byte == b'\n').count();
                Ok(lines < 2)
            };
            got.each_piece(is_first).await
        };
        match Deadline::new().within(STREAM_TIME, following).await {
            Err(_) => Ok(()),
            Ok(followed) if lines >= 2 => followed,
            Ok(followed) => followed.and_then(|()| Err("the watch ended".to_owned())),
        }
    }
}

/// Reads what a range holds.
fn read(body: &[u8]) -> Result<(Listing, i64), String> {
    let reply: Value = serde_json::from_slice(body).map_err(|error| format!("the response is no JSON: {error}"))?;
    let revision: Option<i64> =
        reply.pointer("/header/revision").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let revision: i64 = revision.filter(|revision| *revision > 0).ok_or("the response has no revision")?;
    let mut listing = Listing::default();
    for entry in reply.get("kvs").and_then(Value::as_array).into_iter().flatten() {
        match server(entry) {
            Ok(instance) => listing.instances.push(instance),
            Err(why) => listing.left_out.push(why),
        }
    }
    Ok((listing, revision))
}

/// A value is `ADDRESS:PORT`, or a mapping with `address` (or `Addr`, as gRPC's resolver for etcd writes it) and perhaps `weight`.
fn server(entry: &Value) -> Result<Instance, String> {
    let decoded = |key: &str| Some(decode_leniently(entry.get(key)?.as_str()?.as_bytes()));
    let key = decoded("key").map(|key| String::from_utf8_lossy(&key).escape_debug().to_string()).unwrap_or_default();
    let value = decoded("value").and_then(|value| String::from_utf8(value).ok()).unwrap_or_default();
    let mapping: Option<Value> = serde_json::from_str(&value).ok().filter(Value::is_object);
    let member = |name: &str| mapping.as_ref()?.get(name);
    let address = member("address").or_else(|| member("Addr")).and_then(Value::as_str).unwrap_or(value.trim());
    let address: SocketAddr = address.parse().map_err(|_| format!("{key}: its value is no address with a port"))?;
    let weight = member("weight").map_or(Some(1), Value::as_u64).and_then(|weight| u16::try_from(weight).ok());
    let weight = weight.filter(|weight| (1..=1_000).contains(weight));
    Ok(Instance { address, weight: weight.ok_or_else(|| format!("{key}: its weight is no number from 1 to 1000"))? })
}

fn base64(text: &str) -> String {
    let mut out = Vec::new();
    encode_base64(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn servers_are_read_as_they_register() {
        let values = [
            "10.0.0.1:80",
            "{\"address\":\"10.0.0.2:81\",\"weight\":5}",
            "{\"Op\":0,\"Addr\":\"[2001:db8::1]:82\",\"Metadata\":null}",
            "app.internal:80",
            "10.0.0.1",
            "",
            "{}",
            "{\"address\":\"10.0.0.3:80\",\"weight\":0}",
            "{\"address\":\"10.0.0.3:80\",\"weight\":\"1\"}",
            "[]",
        ];
        let entries: Vec<Value> =
            values.iter().map(|value| json!({ "key": base64("/services/app/x"), "value": base64(value) })).collect();
        let reply = json!({ "header": { "revision": "42" }, "kvs": entries, "count": "10" }).to_string();
        let (listing, revision) = read(reply.as_bytes()).unwrap();
        let seen: Vec<_> = listing.instances.iter().map(|one| (one.address.to_string(), one.weight)).collect();
        assert_eq!(
            seen,
            [("10.0.0.1:80".to_owned(), 1), ("10.0.0.2:81".to_owned(), 5), ("[2001:db8::1]:82".to_owned(), 1)]
        );
        assert_eq!((listing.left_out.len(), revision), (7, 42));
        assert_eq!(read(br#"{"header":{"revision":"1"}}"#).unwrap(), (Listing::default(), 1));
        for wrong in [
            "",
            "{}",
            r#"{"header":{"revision":1}}"#,
            r#"{"header":{"revision":"0"}}"#,
            r#"{"error":"no","code":14}"#,
            &"[".repeat(10_000),
        ] {
            assert!(read(wrong.as_bytes()).is_err());
        }
    }
}
