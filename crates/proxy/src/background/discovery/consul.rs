//! Consul: the healthy instances of a service, by blocking queries (`/v1/health/service/NAME?index=...&wait=...`).

use std::sync::Arc;
use std::time::Duration;

use config::ListedService;
use serde_json::Value;

use super::Directory;
use super::http::{TIMEOUT, ask};
use crate::discovery::{Instance, Listing, Source};

/// How long Consul may wait for a change. It adds up to a sixteenth.
const WAIT: Duration = Duration::from_secs(48);

/// One service.
pub(super) struct Consul {
    source: Arc<Source>,
    /// Path and query, without the index.
    target: String,
    /// Consul is to wait for something newer than this; 0: for nothing.
    index: u64,
    /// What was believed last is as new as this.
    believed: u64,
}

impl Consul {
    pub(super) fn new(source: &Arc<Source>, listed: &ListedService, datacenter: Option<&str>) -> Consul {
        let tag = listed.tag.as_ref().map(|tag| format!("&tag={tag}")).unwrap_or_default();
        let datacenter = datacenter.map(|name| format!("&dc={name}")).unwrap_or_default();
        let target = format!("/v1/health/service/{}?passing=true{tag}{datacenter}", listed.service);
        Consul { source: Arc::clone(source), target, index: 0, believed: 0 }
    }
}

impl Directory for Consul {
    async fn turn(&mut self, say: &mut dyn FnMut(Listing)) -> Result<(), String> {
        let target = match self.index {
            0 => self.target.clone(),
            index => format!("{}&index={index}&wait={}s", self.target, WAIT.as_secs()),
        };
        let limit = if self.index == 0 { TIMEOUT } else { WAIT + WAIT / 16 + TIMEOUT };
        let answered = ask(&self.source, &target, None, limit).await?;
        let index: Option<u64> =
            answered.head.fields.get("x-consul-index").and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        let index: u64 = index.filter(|index| *index > 0).ok_or("the response has no X-Consul-Index")?;
        let listing = read(&answered.body)?;
        // A directory that has lost its memory knows of nobody; that says nothing of those who are there.
        if index < self.believed && listing.instances.is_empty() {
            self.index = 0;
            return Err("its index went backwards, and it knows no instance any more".to_owned());
        }
        if index != self.index {
            say(listing);
        }
        (self.index, self.believed) = (index, index);
        Ok(())
    }
}

/// Reads a list of instances with their nodes.
fn read(body: &[u8]) -> Result<Listing, String> {
    let list: Value = serde_json::from_slice(body).map_err(|error| format!("the list is no JSON: {error}"))?;
    let Value::Array(list) = list else { return Err("the list is no array".to_owned()) };
    let mut listing = Listing::default();
    for item in &list {
        match instance(item) {
            Ok(instance) => listing.instances.push(instance),
            Err(why) => listing.left_out.push(why),
        }
    }
    Ok(listing)
}

fn instance(item: &Value) -> Result<Instance, String> {
    let text = |path: &str| item.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    // An instance without an address of its own has that of its node.
    let address = text("/Service/Address").or_else(|| text("/Node/Address")).ok_or("an instance has no address")?;
    let address = address.parse().map_err(|_| format!("{} is no address", address.escape_debug()))?;
    let port = item.pointer("/Service/Port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
    let weight = item.pointer("/Service/Weights/Passing").and_then(Value::as_u64).unwrap_or(1);
    let address = std::net::SocketAddr::new(address, port.ok_or_else(|| format!("{address} has no port"))?);
    Ok(Instance { address, weight: u16::try_from(weight).unwrap_or(u16::MAX).clamp(1, 1_000) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn instances_are_read_as_consul_writes_them() {
        let list = r#"[
            {"Node":{"Node":"a","Address":"10.0.0.1"},"Service":{"ID":"app-1","Service":"app","Address":"","Port":8080,"Weights":{"Passing":10,"Warning":1}},"Checks":[]},
            {"Node":{"Node":"b","Address":"10.0.0.2"},"Service":{"Address":"10.1.0.2","Port":8081}},
            {"Node":{"Node":"c","Address":"2001:db8::3"},"Service":{"Port":80,"Weights":{"Passing":0}}},
            {"Node":{"Node":"d","Address":"d.internal"},"Service":{"Port":80}},
            {"Node":{"Node":"e","Address":"10.0.0.5"},"Service":{"Port":65536}},
            {"Node":{"Node":"f","Address":"10.0.0.6"},"Service":{"Port":"80"}},
            {"Node":{"Node":"g"},"Service":null},
            7
        ]"#;
        let listing = read(list.as_bytes()).unwrap();
        let seen: Vec<_> = listing.instances.iter().map(|one| (one.address.to_string(), one.weight)).collect();
        let expected = [("10.0.0.1:8080", 10), ("10.1.0.2:8081", 1), ("[2001:db8::3]:80", 1)];
        assert_eq!(seen, expected.map(|(address, weight)| (address.to_owned(), weight)));
        assert_eq!(listing.left_out.len(), 5, "{:?}", listing.left_out);
        for wrong in ["", "{}", "null", "[", "[1]]", &"[".repeat(10_000)] {
            assert!(read(wrong.as_bytes()).is_err(), "{}", &wrong[..wrong.len().min(20)]);
        }
    }
}
