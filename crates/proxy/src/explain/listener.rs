//! The listener that a request comes to, and the handshake before it: the certificate and rule that a current browser gets.

use std::sync::Arc;

use config::{Endpoint, ListenerConfig, Service};
use tls::{Alert, Chooser, Info};
use wire::client_hello::ClientHello;

use super::question::Question;
use super::view::{ListenerView, TlsView};
use crate::addressed;
use crate::certificates::host_name;
use crate::client;
use crate::connection::{Conn, ConnTls};
use crate::generation::Generation;

/// What a current browser offers: TLS 1.3 and 1.2, and what it can verify.
const CIPHER_SUITES: [u16; 9] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8];
const SIGNATURE_SCHEMES: [u16; 8] = [0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601];
const GROUPS: [u16; 4] = [0x11ec, 0x001d, 0x0017, 0x0018];
const VERSIONS: [u16; 2] = [0x0304, 0x0303];

/// The listener of a request.
///
/// # Errors
/// Nobody knows which one; says what to add.
pub(super) fn choose<'g>(
    generation: &'g Generation,
    question: &Question,
) -> Result<(&'g Arc<ListenerConfig>, ListenerView), String> {
    let config = &generation.config;
    let names = |listeners: &[&Arc<ListenerConfig>]| {
        listeners.iter().map(|listener| listener.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let url = &question.url;
    let (listener, chosen_by) = match &question.listener {
        Some(name) => {
            let named = config.listeners.iter().find(|listener| listener.name == *name);
            let all: Vec<_> = config.listeners.iter().collect();
            (named.ok_or_else(|| format!("there is no listener `{name}`; there are: {}", names(&all)))?, "name")
        }
        None => {
            let scheme = if url.is_https { "https" } else { "http" };
            let found = addressed::find(config, url.is_https, &url.host, url.port);
            let found = found.map_err(|listeners| match &listeners[..] {
                [] => format!("no listener serves {scheme}"),
                several => {
                    let port = url.port;
                    format!(
                        "several listeners may serve {scheme} on port {port}; say which with --listener: {}",
                        names(several)
                    )
                }
            })?;
            (found.listener, if found.by_port { "port" } else { "scheme" })
        }
    };
    let service = match listener.service {
        Service::Http => "http",
        Service::Tunnel(_) => "tunnel",
        Service::RedirectToHttps { .. } => "redirect_to_https",
    };
    let port = |endpoint: &Endpoint| match endpoint {
        Endpoint::Tcp(address) => Some(address.port()),
        Endpoint::Unix(_) => None,
    };
    let view = ListenerView {
        name: listener.name.clone(),
        bind: listener.bind.iter().map(ToString::to_string).collect(),
        service,
        chosen_by,
        proxy_protocol: listener.proxy_protocol.is_some(),
        bound_port: listener.bind.iter().find_map(port).unwrap_or(0),
    };
    Ok((listener, view))
}

/// The handshake of a connection, which is then under TLS unless it fails; none where the listener has no TLS.
pub(super) fn tls(generation: &Generation, conn: &mut Conn, question: &Question) -> Option<TlsView> {
    let listener = Arc::clone(&conn.listener);
    let mut view = TlsView::default();
    let (Some(front), Some(tls)) = (generation.front(&listener.name), &listener.tls) else { return None };
    let sent = Some(question.url.host.as_bytes()).filter(|host| host_name(host).is_some());
    view.server_name = sent.map(|name| String::from_utf8_lossy(name).into_owned());
    view.keystore = tls.keystore.clone();
    let hello = ClientHello {
        legacy_version: 0x0303,
        cipher_suites: CIPHER_SUITES.to_vec(),
        server_name: sent,
        alpn: vec![b"h2", b"http/1.1"],
        signature_schemes: SIGNATURE_SCHEMES.to_vec(),
        groups: GROUPS.to_vec(),
        versions: VERSIONS.to_vec(),
        ..ClientHello::default()
    };
    let choice = match front.choose(&hello) {
        Ok(choice) => choice,
        Err(alert) => {
            view.rejected = Some(alert_name(alert));
            return Some(view);
        }
    };
    let store = generation.stores.get(&tls.keystore);
    let mut entries = store.into_iter().flat_map(|store| &store.entries);
    if let Some(entry) = entries.find(|entry| Arc::ptr_eq(&entry.identity, &choice.identity)) {
        view.names.clone_from(&entry.names);
        view.not_after = Some(keystore::date::date(entry.not_after));
        view.origin.clone_from(&entry.origin);
    }
    view.key_type = telemetry::key_type_name(Some(choice.identity.key_type())).to_owned();
    view.key_on_key_server = choice.identity.is_remote();
    view.is_default = sent.is_none_or(|name| front.known_name(&String::from_utf8_lossy(name)).is_none());
    view.policy = format!("{:?}", choice.policy).to_ascii_lowercase();
    view.min_version = telemetry::version_name(choice.min_version.max(choice.policy.min_version()));
    view.alpn = choice.alpn.iter().map(|protocol| String::from_utf8_lossy(protocol).into_owned()).collect();
    let rule = Arc::clone(front.rule(view.server_name.as_deref()));
    view.client_certificate = match rule.demands_certificate() {
        None => "none",
        Some(false) => "optional",
        Some(true) => "required",
    };
    let peer = question.certificate.as_deref().filter(|_| rule.demands_certificate().is_some());
    view.lacks_certificate = rule.demands_certificate() == Some(true) && peer.is_none() && !question.is_partial;
    if !client::is_allowed(&rule, peer) {
        view.rejected = Some("access_denied");
        return Some(view);
    }
    let info = Info {
        alpn: choice.alpn.contains(&b"http/1.1".to_vec()).then(|| b"http/1.1"[..].into()),
        key_type: Some(choice.identity.key_type()),
        ..addressed::usual_tls(view.server_name.as_deref(), peer.map(|peer| Box::new(peer.clone())))
    };
    conn.tls = Some(ConnTls { info, rule });
    Some(view)
}

fn alert_name(alert: Alert) -> &'static str {
    match alert {
        Alert::UNRECOGNIZED_NAME => "unrecognized_name",
        _ => "handshake_failure",
    }
}
