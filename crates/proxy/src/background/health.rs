//! Active health checks: a GET to each server of a group that asks for them, on its own connection, over the
//! group's own protocol and TLS.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use config::{HealthCheck, SendProxy, ServerAddress, UpstreamProtocol};
use net::Deadline;
use transport::Transport;
use wire::proxy_protocol::{Extras, Origin, write_v1, write_v2};

use crate::background::get::get;
use crate::upstream::{Group, Server, Target, connect, h2};

/// What checks call themselves in User-Agent.
const AGENT: &str = "portunus-health";

/// How one server did lately.
#[derive(Debug, Clone, Copy, Default)]
struct History {
    /// Checks in a row with the same result.
    streak: u32,
    healthy: bool,
}

/// What one check found.
#[derive(Debug)]
pub struct Finding {
    server: Arc<Server>,
    group: Arc<Group>,
    healthy: bool,
}

/// Keeps count of checks. One per process.
#[derive(Debug, Default)]
pub struct Checks {
    due: HashMap<u64, Instant>,
    history: HashMap<u64, History>,
}

impl Checks {
    /// Starts every check that is due, each in a task of its own.
    pub fn start_due(&mut self, groups: &[Arc<Group>], findings: &tokio::sync::mpsc::UnboundedSender<Finding>) {
        let now = Instant::now();
        let mut live = HashMap::new();
        for group in groups {
            let Some(check) = &group.config.health else { continue };
            for server in &group.members().servers {
                let due = self.due.get(&server.id).copied().unwrap_or(now);
                if due > now {
                    live.insert(server.id, due);
                    continue;
                }
                live.insert(server.id, now + check.interval);
                let (group, server, findings) = (Arc::clone(group), Arc::clone(server), findings.clone());
                let check = check.clone();
                tokio::task::spawn_local(async move {
                    let healthy = is_healthy(&group, &server, &check).await;
                    let _ = findings.send(Finding { server, group, healthy });
                });
            }
        }
        self.history.retain(|server, _| live.contains_key(server));
        self.due = live;
    }

    /// Checks by what a check found; gives group, server and decision if the decision is new.
    pub fn note(&mut self, finding: &Finding) -> Option<(Arc<Group>, Arc<Server>, bool)> {
        let check = finding.group.config.health.as_ref()?;
        let history = self.history.entry(finding.server.id).or_default();
        if history.healthy == finding.healthy && history.streak > 0 {
            history.streak += 1;
        } else {
            *history = History { streak: 1, healthy: finding.healthy };
        }
        let wanted = if finding.healthy { check.rise } else { check.fall };
        let is_new = history.streak >= wanted && finding.server.set_healthy(finding.healthy);
        is_new.then(|| (Arc::clone(&finding.group), Arc::clone(&finding.server), finding.healthy))
    }
}

/// One check: 200 to 399 in time is healthy.
async fn is_healthy(group: &Group, server: &Server, check: &HealthCheck) -> bool {
    let status = Deadline::new().within(check.timeout, status(group, server, check)).await.ok().flatten();
    status.is_some_and(|status| (200..400).contains(&status))
}

/// What a server answers, in the group's own protocol; 200 where taking the connection is answer enough.
async fn status(group: &Group, server: &Server, check: &HealthCheck) -> Option<u16> {
    // Who expects a header gets one that says the connection is our own.
    let mut header = Vec::new();
    match group.config.send_proxy {
        SendProxy::Off => {}
        SendProxy::V1 => write_v1(&mut header, &Origin::Local),
        SendProxy::V2 | SendProxy::V2Tlvs => write_v2(&mut header, &Origin::Local, &Extras::default()),
    }
    let transport = connect(Target { ahead: &header, ..Target::own(group, server) }).await.ok()?;
    let Some(path) = &check.path else { return Some(200) };
    let own = match server.address {
        // A socket's path is no authority (RFC 3986 §3.2), and strict servers reject it.
        ServerAddress::Unix(_) => "localhost",
        ServerAddress::Ip(_) | ServerAddress::Name(..) | ServerAddress::Service(_) => &server.authority,
    };
    let host = check.host.as_deref().unwrap_or(own);
    match group.config.protocol {
        UpstreamProtocol::Http2 => {
            let scheme = if group.connector_to(server).is_some() { "https" } else { "http" };
            let uri = http::Uri::builder().scheme(scheme).authority(host).path_and_query(path.as_str()).build().ok()?;
            http2_status(transport, uri).await
        }
        UpstreamProtocol::Http1 | UpstreamProtocol::Tcp => {
            get(&transport, host, path, &format!("User-Agent: {AGENT}\r\n")).await.ok().map(|got| got.status())
        }
    }
}

async fn http2_status(transport: Transport, uri: http::Uri) -> Option<u16> {
    let (sender, connection, _) = h2::open(Rc::new(transport)).await.ok()?;
    let asking = async {
        let request = http::Request::get(uri).header(http::header::USER_AGENT, AGENT).body(()).ok()?;
        let (response, _) = sender.ready().await.ok()?.send_request(request, true).ok()?;
        Some(response.await.ok()?.status().as_u16())
    };
    tokio::select! {
        biased;
        status = asking => status,
        // The connection moves the frames; if it ends first, there is no response.
        _ = connection => None,
    }
}
