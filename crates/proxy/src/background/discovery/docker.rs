//! Docker: the running containers with the label `portunus.service`, listed anew whenever the engine reports an event of one of them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use config::ListedService;
use net::Deadline;
use serde_json::{Map, Value};
use wire::http::Method;

use super::http::{STREAM_TIME, TIMEOUT, ask, connected, fields, in_query};
use super::{Directory, PAUSE};
use crate::discovery::{Instance, Listing, Source};
use crate::own_request::{Asked, send};

/// The label that says which service a container belongs to.
const SERVICE: &str = "portunus.service";
/// The label that says at which port it is served.
const PORT: &str = "portunus.port";
/// The label that says what share of the load it gets.
const WEIGHT: &str = "portunus.weight";

/// One service.
pub(super) struct Docker {
    source: Arc<Source>,
    network: Option<String>,
    list: String,
    events: String,
}

impl Docker {
    pub(super) fn new(source: &Arc<Source>, listed: &ListedService, network: Option<&str>) -> Docker {
        let label = format!("\"label\":[\"{SERVICE}={}\"]", listed.service);
        let list = in_query(&format!("{{{label},\"status\":[\"running\"]}}"));
        let events = in_query(&format!("{{{label},\"type\":[\"container\"]}}"));
        Docker {
            source: Arc::clone(source),
            network: network.map(str::to_owned),
            list: format!("/containers/json?filters={list}"),
            events: format!("/events?filters={events}"),
        }
    }

    async fn listing(&self) -> Result<Listing, String> {
        let answered = ask(&self.source, &self.list, None, TIMEOUT).await?;
        read(&answered.body, self.network.as_deref())
    }
}

impl Directory for Docker {
    async fn turn(&mut self, say: &mut dyn FnMut(Listing)) -> Result<(), String> {
        let transport = connected(&self.source).await?;
        let fields = fields(&self.source);
        let asked =
            Asked { method: &Method::Get, host: "localhost", target: &self.events, fields: &fields, body: None };
        let got = Deadline::new().within(TIMEOUT, send(&transport, asked)).await;
        let got = got.unwrap_or_else(|_| Err(format!("no response in {TIMEOUT:?}")))?;
        if got.status() != 200 {
            return Err(format!("the response was {}", got.status()));
        }
        // Whatever happens from here on is reported, so nothing falls between list and events.
        say(self.listing().await?);
        // What an event says is of no interest, but that there was one.
        let following = got.each_piece(async |_| {
            tokio::time::sleep(PAUSE).await;
            say(self.listing().await?);
            Ok(true)
        });
        match Deadline::new().within(STREAM_TIME, following).await {
            Err(_) => Ok(()),
            Ok(followed) => followed.and_then(|()| Err("the stream of events ended".to_owned())),
        }
    }
}

/// Reads a list of containers.
fn read(body: &[u8], network: Option<&str>) -> Result<Listing, String> {
    let list: Value = serde_json::from_slice(body).map_err(|error| format!("the list is no JSON: {error}"))?;
    let Value::Array(list) = list else { return Err("the list is no array".to_owned()) };
    let mut listing = Listing::default();
    for item in &list {
        let status = item.get("Status").and_then(Value::as_str).unwrap_or_default();
        // A container with a health check serves once that says so.
        if ["(unhealthy)", "(health: starting)"].iter().any(|state| status.contains(state)) {
            continue;
        }
        match container(item, network) {
            Ok(instance) => listing.instances.push(instance),
            Err(why) => {
                let id = item.get("Id").and_then(Value::as_str).unwrap_or("a container").escape_debug();
                listing.left_out.push(format!("{}: {why}", id.take(12).collect::<String>()));
            }
        }
    }
    Ok(listing)
}

fn container(item: &Value, network: Option<&str>) -> Result<Instance, String> {
    let label = |name: &str| item.get("Labels").and_then(|labels| labels.get(name)).and_then(Value::as_str);
    let port = match label(PORT) {
        Some(text) => text.parse::<u16>().map_err(|_| format!("its label {PORT} is no port"))?,
        None => only_port(item).ok_or_else(|| format!("it exposes no port, or several; set the label {PORT}"))?,
    };
    let weight = match label(WEIGHT) {
        Some(text) => text.parse::<u16>().ok().filter(|weight| (1..=1_000).contains(weight)),
        None => Some(1),
    };
    let networks = item.pointer("/NetworkSettings/Networks").and_then(Value::as_object);
    let address = address_in(networks.ok_or("it has no network")?, network)?;
    let weight = weight.ok_or_else(|| format!("its label {WEIGHT} is no number from 1 to 1000"))?;
    Ok(Instance { address: SocketAddr::new(address, port), weight })
}

/// The port that a container exposes over TCP, if it is one alone.
fn only_port(item: &Value) -> Option<u16> {
    let ports = item.get("Ports")?.as_array()?.iter();
    let tcp = ports.filter(|port| port.get("Type").and_then(Value::as_str) == Some("tcp"));
    let mut ports = tcp.filter_map(|port| port.get("PrivatePort")?.as_u64());
    let first = ports.next()?;
    // Each address that it is published at is an entry of its own.
    if ports.all(|port| port == first) { u16::try_from(first).ok() } else { None }
}

fn address_in(networks: &Map<String, Value>, wanted: Option<&str>) -> Result<IpAddr, String> {
    let network = match wanted {
        Some(name) => networks.get(name).ok_or_else(|| format!("it is not in the network {name}"))?,
        None if networks.len() > 1 => return Err("it is in several networks; set `network`".to_owned()),
        None => networks.values().next().ok_or("it has no network")?,
    };
    let text = |key: &str| network.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = text("IPAddress").or_else(|| text("GlobalIPv6Address")).ok_or("it has no address there")?;
    text.parse().map_err(|_| "its address is none".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn containers_are_read_as_docker_writes_them() {
        let list = r#"[
            {"Id":"aaaaaaaaaaaaaaaa","Labels":{"portunus.service":"app"},"Ports":[{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},{"IP":"::","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},{"PrivatePort":53,"Type":"udp"}],"Status":"Up 2 minutes","NetworkSettings":{"Networks":{"bridge":{"IPAddress":"172.17.0.2"}}}},
            {"Id":"bb","Labels":{"portunus.port":"9000","portunus.weight":"3"},"Ports":[],"Status":"Up 2 minutes (healthy)","NetworkSettings":{"Networks":{"front":{"IPAddress":"172.18.0.3"}}}},
            {"Id":"cc","Labels":{"portunus.port":"9000"},"Status":"Up 2 minutes (unhealthy)","NetworkSettings":{"Networks":{"front":{"IPAddress":"172.18.0.4"}}}},
            {"Id":"dd","Labels":{},"Ports":[{"PrivatePort":80,"Type":"tcp"},{"PrivatePort":81,"Type":"tcp"}],"NetworkSettings":{"Networks":{"front":{"IPAddress":"172.18.0.5"}}}},
            {"Id":"ee","Labels":{"portunus.port":"80"},"NetworkSettings":{"Networks":{"front":{"IPAddress":"172.18.0.6"},"back":{"IPAddress":"172.19.0.6"}}}},
            {"Id":"ff","Labels":{"portunus.port":"80"},"NetworkSettings":{"Networks":{"host":{"IPAddress":""}}}},
            {"Id":"gg","Labels":{"portunus.port":"x"},"NetworkSettings":{}},
            {"Id":"hh","Labels":{"portunus.port":"80","portunus.weight":"0"},"NetworkSettings":{"Networks":{"front":{"IPAddress":"172.18.0.7"}}}},
            null
        ]"#;
        let read_in = |network| {
            let listing = read(list.as_bytes(), network).unwrap();
            let seen: Vec<_> = listing.instances.iter().map(|one| (one.address.to_string(), one.weight)).collect();
            (seen, listing.left_out.len())
        };
        let expect =
            |list: &[(&str, u16)]| list.iter().map(|(text, weight)| ((*text).to_owned(), *weight)).collect::<Vec<_>>();
        assert_eq!(read_in(None), (expect(&[("172.17.0.2:80", 1), ("172.18.0.3:9000", 3)]), 6));
        assert_eq!(read_in(Some("front")), (expect(&[("172.18.0.3:9000", 3), ("172.18.0.6:80", 1)]), 6));
        for wrong in ["", "{\"message\":\"no\"}", "null", &"[".repeat(10_000)] {
            assert!(read(wrong.as_bytes(), None).is_err());
        }
    }
}
