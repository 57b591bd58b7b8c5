//! `portunus as sillyproxy …`: SillyProxy's arguments and routes file, translated into the one `Config`.
//!
//! `arguments.rs` reads the arguments, `routes_json.rs` with `json.rs`, `pattern.rs` and `upstream_url.rs` the routes, `yaml.rs` prints the
//! result as a native configuration, `keystore_mode.rs` puts certificates into a keystore. `docs/sillyproxy.md` is the guide for users, with
//! every departure and its reason.

mod arguments;
mod json;
mod keystore_mode;
mod pattern;
mod routes_json;
mod upstream_url;
mod yaml;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::limits::Limits;
use config::{
    ArgumentSecret, Config, Effective, Endpoint, Forwarding, KeystoreConfig, ListenerConfig, ListenerOptions,
    LogConfig, ResponseRules, Secret, ServerAddress, ServerConfig, Service, TlsConfig, TlsSettings, UnixSocket,
    UpstreamConfig,
};
use proxy::route::RouteTable;
use tls::{Policy, ProtocolVersion};

use super::Front;
use super::go_flags::Rejected;
use arguments::{Arguments, USAGE};

pub use routes_json::{RoutesFile, UpstreamOptions, read as read_routes};

/// The name of the one listener and of the one keystore.
const NAME: &str = "sillyproxy";
/// SillyProxy reads its keystore again this often.
const RELOAD_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// Does what SillyProxy would do with these arguments (without the program's name): the configuration to run with, or the end.
pub fn run(words: &[OsString]) -> Front {
    let arguments = match arguments::read(words) {
        Ok(arguments) => arguments,
        Err(rejected) => return rejection(rejected),
    };
    if arguments.keystore_mode {
        return keystore_mode::run(&arguments);
    }
    match translate(&arguments) {
        Ok((config, warnings)) => Front::Run { config: Box::new(config), warnings },
        Err(problems) => failure(&problems),
    }
}

/// Prints the native configuration that does what SillyProxy would do with these arguments (without the program's name).
pub fn import(words: &[OsString]) -> Front {
    let arguments = match arguments::read(words) {
        Ok(arguments) => arguments,
        Err(rejected) => return rejection(rejected),
    };
    if arguments.keystore_mode {
        return failure(&["only what runs can be imported; leave out the word `keystore`".to_string()]);
    }
    match translate(&arguments) {
        Ok((config, warnings)) => {
            let errors = warnings.iter().map(|warning| format!("portunus: {warning}\n")).collect();
            Front::Exit { code: 0, output: yaml::write(&config), errors }
        }
        Err(problems) => failure(&problems),
    }
}

fn rejection(rejected: Rejected) -> Front {
    match rejected {
        Rejected::Help => Front::Exit { code: 0, output: USAGE.to_string(), errors: String::new() },
        Rejected::Problem(text) => {
            Front::Exit { code: 2, output: String::new(), errors: format!("portunus: {text}\n{USAGE}") }
        }
    }
}

fn failure(problems: &[String]) -> Front {
    let errors = problems.iter().map(|problem| format!("portunus: {problem}\n")).collect();
    Front::Exit { code: 1, output: String::new(), errors }
}

/// What is said of a password among the arguments.
const KEYPASS: &str = "others on this machine can see -keypass; -keypass-file FILE keeps the password to itself";

/// The configuration that the arguments and the routes file stand for, and what an operator should know.
fn translate(arguments: &Arguments) -> Result<(Config, Vec<String>), Vec<String>> {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let file = read_routes_file(arguments).map_err(|found| problems.extend(found)).ok();
    if arguments.keystore.as_os_str().is_empty() {
        problems.push("no keystore: name a Java keystore with -keystore FILE".to_string());
    }
    let bind = bind(&arguments.bind).unwrap_or_else(|problem| {
        problems.push(problem);
        Vec::new()
    });
    let Some(file) = file.filter(|_| problems.is_empty()) else { return Err(problems) };
    warnings.extend(file.warnings);
    let speaks_tls = file.upstreams.values().any(|upstream| upstream.tls.is_some());
    if arguments.upstreams.insecure {
        warnings.push(
            "-insecure-upstreams: upstreams are not verified, so whoever sits between can read and change everything"
                .to_string(),
        );
    } else if speaks_tls && arguments.upstreams.ca.is_none() {
        warnings.push(
            "upstreams are verified with this system's roots (SillyProxy did not verify them); for a private authority give \
             -upstream-ca FILE, or -insecure-upstreams to go without"
                .to_string(),
        );
    }
    if !arguments.keypass.is_empty() {
        warnings.push(KEYPASS.to_string());
    }
    let config = Config {
        unusual_names: Default::default(),
        methods: Default::default(),
        workers: std::thread::available_parallelism().map_or(1, NonZero::get),
        listeners: vec![Arc::new(listener(bind, arguments.min_tls))],
        udp_listeners: Vec::new(),
        keystores: BTreeMap::from([(NAME.to_string(), keystore(arguments))]),
        key_servers: BTreeMap::new(),
        tokens: BTreeMap::new(),
        policies: BTreeMap::new(),
        rate_store: None,
        discovery: BTreeMap::new(),
        error_pages: BTreeMap::new(),
        compression: BTreeMap::new(),
        contracts: BTreeMap::new(),
        host_rules: Vec::new(),
        named_sockets: sockets(&file.upstreams),
        routes: file.routes,
        upstreams: file.upstreams,
        trusted_proxies: Vec::new(),
        forwarding: no_forwarding(),
        admin: None,
        log: LogConfig::default(),
        limits: Limits { keep_alive_timeout: Duration::from_secs(60), ..Limits::default() },
        listener_limits: BTreeMap::new(),
        ticket_keys: None,
        ech_keys: None,
        geoip: config::GeoipConfig::default(),
        tracing: None,
        environment: config::FromEnvironment::default(),
        sandbox: config::SandboxConfig::default(),
        included: Vec::new(),
        named_files: Vec::new(),
        written: Vec::new(),
        effective: Effective::default(),
        unused: Default::default(),
    };
    // Conflicts stop SillyProxy too; here all of them are reported, before anything is bound.
    RouteTable::compile(&config)?;
    Ok((config, warnings))
}

/// Largest routes file, bytes.
const MAX_ROUTES_BYTES: u64 = 64 << 20;

fn read_routes_file(arguments: &Arguments) -> Result<RoutesFile, Vec<String>> {
    let path = &arguments.routes;
    if path.as_os_str().is_empty() {
        return Err(vec!["no routes: name a JSON file with -routes FILE".to_string()]);
    }
    let name = path.display().to_string();
    let text = keystore::files::text(path, MAX_ROUTES_BYTES);
    let text = text.map_err(|error| vec![format!("cannot read the routes file {name}: {error}")])?;
    read_routes(text.as_bytes(), &name, &arguments.upstreams)
}

fn keystore(arguments: &Arguments) -> KeystoreConfig {
    let password = match &arguments.keypass_file {
        Some(file) => Secret::File(file.clone()),
        None => Secret::Argument(ArgumentSecret(arguments.keypass.clone())),
    };
    KeystoreConfig {
        key_servers: None,
        name: NAME.to_string(),
        location: keystore::Location::Jks(arguments.keystore.clone()),
        password: Some(password),
        default: None,
        reload_interval: RELOAD_INTERVAL,
        acme: None,
    }
}

/// SillyProxy sends none; `X-Forwarded-By` is an edit of each route.
fn no_forwarding() -> Forwarding {
    Forwarding {
        x_forwarded: false,
        x_real_ip: false,
        forwarded: false,
        via: false,
        request_id: false,
        ..Forwarding::default()
    }
}

/// The Unix sockets that servers are behind.
fn sockets(upstreams: &BTreeMap<String, Arc<UpstreamConfig>>) -> Vec<PathBuf> {
    let servers = upstreams.values().flat_map(|upstream| &upstream.servers);
    let path = |server: &ServerConfig| match &server.address {
        ServerAddress::Unix(path) => Some(path.clone()),
        _ => None,
    };
    servers.filter_map(path).collect()
}

fn listener(bind: Vec<Endpoint>, min_tls: u64) -> ListenerConfig {
    // What SillyProxy's code does; its help text and its README each say something else.
    let (policy, min_version) = match min_tls {
        2 => (Policy::Legacy, ProtocolVersion::Tls11),
        3 => (Policy::Intermediate, ProtocolVersion::Tls12),
        _ => (Policy::Legacy, ProtocolVersion::Tls10),
    };
    let alpn = ["h2", "http/1.1", "http/1.0"].map(str::to_owned).into();
    let settings = TlsSettings { policy, min_version, alpn, client_certificate: None };
    ListenerConfig {
        name: NAME.to_string(),
        bind,
        unix_socket: UnixSocket::default(),
        tls: Some(TlsConfig {
            keystore: NAME.to_string(),
            settings: Arc::new(settings),
            names: BTreeMap::new(),
            strict_sni: false,
            require_sni: false,
        }),
        proxy_protocol: None,
        service: Service::Http,
        contract: None,
        policies: Vec::new(),
        responses: ResponseRules::default(),
        options: ListenerOptions::default(),
    }
}

/// Where `-bind` listens: `:443` is every address of both families.
fn bind(text: &str) -> Result<Vec<Endpoint>, String> {
    let problem =
        || format!("-bind {text}: expected an address and a port, such as `:443`, `127.0.0.1:8443` or `[::1]:8443`");
    let (host, port) = text.rsplit_once(':').ok_or_else(problem)?;
    let port = match port {
        "" => 0,
        "http" => 80,
        "https" => 443,
        _ => port
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| port.parse::<u16>().ok())
            .flatten()
            .ok_or_else(problem)?,
    };
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let addresses = match (host, literal) {
        ("", _) => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
        ("localhost", _) => vec![Ipv4Addr::LOCALHOST.into()],
        (_, Some(literal)) => vec![IpAddr::V6(literal.parse().map_err(|_| problem())?)],
        (host, None) => vec![IpAddr::V4(host.parse().map_err(|_| problem())?)],
    };
    Ok(addresses.into_iter().map(|address| Endpoint::Tcp(SocketAddr::new(address, port))).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn bind_is_read_as_go_does() {
        for (text, expected) in [
            (":443", Some("0.0.0.0:443 [::]:443")),
            ("127.0.0.1:8443", Some("127.0.0.1:8443")),
            ("[::1]:8443", Some("[::1]:8443")),
            ("localhost:https", Some("127.0.0.1:443")),
            (":", Some("0.0.0.0:0 [::]:0")),
            ("443", None),
            ("::1:443", None),
            ("example.com:443", None),
            (":65536", None),
            (":+1", None),
        ] {
            let shown = bind(text).ok().map(|endpoints| {
                let each = endpoints.iter().map(|endpoint| match endpoint {
                    Endpoint::Tcp(address) => address.to_string(),
                    Endpoint::Unix(_) => panic!("no Unix sockets here"),
                });
                each.collect::<Vec<_>>().join(" ")
            });
            assert_eq!(shown.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_lowest_tls_version_is_what_the_code_of_sillyproxy_does() {
        for (number, policy, version) in [
            (0, Policy::Legacy, ProtocolVersion::Tls10),
            (1, Policy::Legacy, ProtocolVersion::Tls10),
            (2, Policy::Legacy, ProtocolVersion::Tls11),
            (3, Policy::Intermediate, ProtocolVersion::Tls12),
            (4, Policy::Legacy, ProtocolVersion::Tls10),
        ] {
            let settings = listener(Vec::new(), number).tls.unwrap().settings;
            assert_eq!((settings.policy, settings.min_version), (policy, version), "{number}");
        }
    }
}
