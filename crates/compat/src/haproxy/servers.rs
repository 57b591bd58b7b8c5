//! Backends as upstreams: servers, balancing, checks, timeouts, retries, TLS to them.

use super::address::address;
use super::sections::{Kind, Proxy, milliseconds};
use super::syntax::Line;
use super::{Making, checks};
use crate::addresses::is_host;
use crate::draft::Draft;
use crate::migration::absolute;
use crate::native::{Map, Value, duration};

/// Options for checks that are no requests.
const CHECKS: [&str; 9] = [
    "mysql-check",
    "pgsql-check",
    "redis-check",
    "smtpchk",
    "ldap-check",
    "ssl-hello-chk",
    "spop-check",
    "tcp-check",
    "external-check",
];

/// Most servers of an upstream.
const MAX_SERVERS: usize = 1_000;

/// A server with the options of `default-server` before its own.
pub(super) struct Server<'l> {
    pub(super) line: &'l Line,
    pub(super) name: String,
    address: String,
    pub(super) options: Vec<String>,
}

/// Options that take no word behind them.
const SWITCHES: &[&str] = &[
    "agent-check",
    "allow-0rtt",
    "backup",
    "check",
    "check-send-proxy",
    "check-ssl",
    "check-via-socks4",
    "disabled",
    "enabled",
    "no-agent-check",
    "no-backup",
    "no-check",
    "no-check-ssl",
    "no-send-proxy",
    "no-send-proxy-v2",
    "no-send-proxy-v2-ssl",
    "no-send-proxy-v2-ssl-cn",
    "no-ssl",
    "no-ssl-reuse",
    "no-sslv3",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "no-verifyhost",
    "non-stick",
    "send-proxy",
    "send-proxy-v2",
    "send-proxy-v2-ssl",
    "send-proxy-v2-ssl-cn",
    "ssl",
    "ssl-reuse",
    "stick",
    "tfo",
    "tls-tickets",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
];
/// Options that change nothing here.
const HARMLESS: &[&str] = &[
    "allow-0rtt",
    "id",
    "init-addr",
    "no-ssl-reuse",
    "no-sslv3",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "pool-low-conn",
    "pool-max-conn",
    "pool-purge-delay",
    "resolve-net",
    "resolve-opts",
    "resolve-prefer",
    "resolvers",
    "ssl-reuse",
    "stick",
    "tcp-ut",
    "tfo",
    "tls-tickets",
    "ciphers",
    "ciphersuites",
    "curves",
    "sigalgs",
    "enabled",
    "cookie",
    "minconn",
    "log-proto",
    "no-check",
    "no-backup",
    "no-ssl",
    "no-send-proxy",
    "check-proto",
    "check-alpn",
    "check-sni",
    "check-ssl",
    "no-check-ssl",
    "no-send-proxy-v2",
    "downinter",
    "fastinter",
    "error-limit",
    "hash-key",
    "guid",
];
/// Options that are read where they count.
const CARRIED: &[&str] = &[
    "alpn",
    "backup",
    "ca-file",
    "check",
    "crl-file",
    "crt",
    "disabled",
    "fall",
    "inter",
    "interface",
    "maxconn",
    "maxqueue",
    "no-verifyhost",
    "observe",
    "on-error",
    "port",
    "proto",
    "rise",
    "send-proxy",
    "send-proxy-v2",
    "send-proxy-v2-ssl",
    "slowstart",
    "sni",
    "source",
    "ssl",
    "ssl-min-ver",
    "ssl-max-ver",
    "usesrc",
    "verify",
    "verifyhost",
    "weight",
    "force-tlsv13",
    "force-tlsv12",
];

impl Server<'_> {
    fn has(&self, option: &str) -> bool {
        self.options().any(|(name, _)| name == option)
    }

    /// The last value of an option.
    fn value(&self, option: &str) -> Option<&str> {
        self.options().filter(|(name, _)| *name == option).last().map(|(_, value)| value)
    }

    /// Options with their values.
    fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut words = self.options.iter();
        std::iter::from_fn(move || {
            let name = words.next()?.as_str();
            let value = if SWITCHES.contains(&name) { "" } else { words.next().map_or("", String::as_str) };
            Some((name, value))
        })
    }

    /// A switch, unless `no-` takes it back.
    fn is_on(&self, option: &str) -> bool {
        let off = format!("no-{option}");
        self.options()
            .filter(|(name, _)| *name == option || *name == off)
            .last()
            .is_some_and(|(name, _)| name == option)
    }
}

/// All servers of a backend.
fn servers(proxy: &Proxy) -> Vec<Server<'_>> {
    let mut defaults: Vec<String> = Vec::new();
    let mut out = Vec::new();
    for line in &proxy.lines {
        let from = match line.word(0) {
            "default-server" => {
                defaults.extend(line.rest(1).iter().cloned());
                continue;
            }
            "server" => 3,
            "server-template" => 4,
            "dispatch" => {
                out.push(Server {
                    line,
                    name: "dispatch".to_owned(),
                    address: line.word(1).to_owned(),
                    options: Vec::new(),
                });
                continue;
            }
            _ => continue,
        };
        let mut options = defaults.clone();
        options.extend(line.rest(from).iter().cloned());
        out.push(Server { line, name: line.word(1).to_owned(), address: line.word(from - 1).to_owned(), options });
        if out.len() > MAX_SERVERS {
            break;
        }
    }
    out
}

impl Making<'_> {
    /// The upstream for a backend, or for one server of it; none if it has no server.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn upstream(
        &mut self,
        name: &str,
        server: Option<&str>,
        is_tcp: bool,
    ) -> Result<Option<String>, String> {
        let key = (name.to_owned(), server.map(str::to_owned), is_tcp);
        if let Some(made) = self.upstreams.get(&key) {
            return made.clone();
        }
        let is_of = |proxy: &&Proxy| proxy.kind != Kind::Frontend && proxy.name == name;
        let made = match self.proxies.iter().find(is_of).cloned() {
            Some(proxy) => self.made_upstream(&proxy, server, is_tcp),
            None => Err(format!("there is no backend `{name}`")),
        };
        self.upstreams.insert(key, made.clone());
        made
    }

    fn made_upstream(&mut self, proxy: &Proxy, only: Option<&str>, is_tcp: bool) -> Result<Option<String>, String> {
        let mut upstream = Map::default();
        upstream.comment(format!(
            "{}: {} {}",
            proxy.place,
            if proxy.kind == Kind::Listen { "listen" } else { "backend" },
            proxy.name
        ));
        let all = servers(proxy);
        if is_tcp && proxy.one("use-server").is_some() {
            return Err("`use-server` chooses among its servers".to_owned());
        }
        if all.iter().any(|server| server.line.word(0) == "dispatch") && all.len() > 1 {
            return Err("`dispatch` stands beside servers".to_owned());
        }
        let spares = all.iter().filter(|server| server.is_on("backup") && !server.has("disabled")).count();
        let has_several = spares > 1 && only.is_none() && proxy.option("allbackups").is_none();
        let mut list = Vec::new();
        let mut used: Vec<&Server<'_>> = Vec::new();
        // Where all are spare, they are the servers.
        let has_first = all.iter().any(|server| !server.is_on("backup") && !server.has("disabled"));
        for server in all.iter().filter(|server| only.is_none_or(|name| server.name == name)) {
            if server.has("disabled") || server.value("weight") == Some("0") {
                upstream.comment(format!(
                    "{}: {}: it gets no requests, and is not there",
                    server.line.place,
                    server.line.shown()
                ));
                continue;
            }
            let spare = used.iter().filter(|server| server.is_on("backup")).count() + 1;
            // Of several that are spare only the first that is up gets requests.
            let rank = if has_several && server.is_on("backup") { spare } else { 0 };
            list.push(self.server(server, has_first && only.is_none(), rank, &mut upstream)?);
            used.push(server);
        }
        let Some(first) = used.first() else { return Ok(None) };
        upstream.set("servers", Value::List(list));
        if is_tcp {
            upstream.set("protocol", "tcp");
        } else if first.value("proto") == Some("h2") || first.value("alpn").is_some_and(|alpn| alpn == "h2") {
            upstream.set("protocol", "http2");
        }
        self.one_for_all(&used, &mut upstream);
        self.tls_to(&used, is_tcp, &mut upstream)?;
        if let Some(send) = [("send-proxy-v2-ssl", "v2_tlvs"), ("send-proxy-v2", "v2"), ("send-proxy", "v1")]
            .iter()
            .find(|(option, _)| first.is_on(option))
        {
            upstream.set("send_proxy", send.1);
        }
        self.source(proxy, &used, &mut upstream)?;
        self.balance(proxy, &used, is_tcp, &mut upstream);
        self.health(proxy, &used, &mut upstream)?;
        self.times(proxy, &used, is_tcp, &mut upstream);
        if let Some(why) = Draft::rejects_upstream(&upstream) {
            return Err(format!("its servers cannot be carried: {why}"));
        }
        let wanted = match only {
            Some(server) => format!("{}-{server}", proxy.name),
            None => proxy.name.clone(),
        };
        Ok(Some(self.draft.upstreams.intern(&wanted, upstream)))
    }

    /// What servers of one upstream have alike.
    fn one_for_all(&self, used: &[&Server<'_>], upstream: &mut Map) {
        let same =
            ["send-proxy", "send-proxy-v2", "proto", "slowstart", "port", "inter", "fall", "rise", "observe", "check"];
        let Some(first) = used.first() else { return };
        for server in used.iter().skip(1) {
            let other = same
                .iter()
                .find(|option| server.value(option) != first.value(option) || server.has(option) != first.has(option));
            if let Some(option) = other {
                let why = "servers of one upstream have the same; that of the first is taken";
                upstream.comment(self.report.left_out(
                    &server.line.place,
                    &format!("server {} … {option}", server.name),
                    why,
                ));
            }
        }
    }

    fn server(&self, server: &Server<'_>, has_first: bool, rank: usize, upstream: &mut Map) -> Result<Value, String> {
        if server.has("redir") {
            return Err(format!("server `{}` redirects requests", server.name));
        }
        for (option, value) in server.options() {
            if !CARRIED.contains(&option) && !HARMLESS.contains(&option) {
                let what = format!("server {} … {option} {value}", server.name);
                upstream.comment(self.report.left_out(&server.line.place, what.trim_end(), "nothing here does this"));
            }
        }
        let is_srv = server.line.word(0) == "server-template" && server.address.starts_with('_');
        let mut native = match is_srv {
            true => Map::of([("srv", Value::text(server.address.clone()))]),
            false => {
                let address = address(&server.address).ok_or_else(|| {
                    format!("`{}` of server `{}` is no server with a port", server.address, server.name)
                })?;
                Map::of([("address", Value::text(address))])
            }
        };
        let number = |option: &str| server.value(option).and_then(|value| value.parse::<u64>().ok());
        if let Some(weight) = number("weight").filter(|weight| *weight > 1) {
            native.set("weight", Value::plain(weight.min(1_000)));
        }
        if rank > 0 {
            native.set("priority", Value::plain(rank.min(100)));
        } else if server.is_on("backup") && has_first {
            native.set("backup", Value::plain(true));
        }
        if let Some(most) = number("maxconn").filter(|most| *most > 0) {
            native.set("max_in_flight", Value::plain(most.min(1_000_000)));
        }
        Ok(match (native.entries().count(), native.get("address")) {
            (1, Some(address)) => address.clone(),
            _ => native.into(),
        })
    }

    /// TLS to servers: all of them, verified in one way.
    fn tls_to(&self, used: &[&Server<'_>], is_tcp: bool, upstream: &mut Map) -> Result<(), String> {
        let Some(first) = used.first().filter(|_| used.iter().any(|server| server.is_on("ssl"))) else { return Ok(()) };
        let keys = ["verify", "ca-file", "crl-file", "sni", "crt", "verifyhost"];
        if used.iter().any(|other| !other.is_on("ssl") || keys.iter().any(|key| other.value(key) != first.value(key))) {
            return Err("its servers differ in TLS".to_owned());
        }
        let mut tls = Map::default();
        let global = self.global.one("ssl-server-verify").map(|line| line.word(1));
        let is_verified = first.value("verify").or(global).unwrap_or("required") != "none";
        match (first.value("ca-file"), is_verified) {
            (Some("@system-ca"), true) => {}
            (Some(ca), true) => tls.set("ca", absolute(&self.global.file("ca-base", &self.root, ca))),
            (None, true) => return Err("servers are to be verified, and no authority is named".to_owned()),
            (_, false) => {
                tls.set("insecure_skip_verify", Value::plain(true));
                upstream.comment("HAProxy does not verify the certificates of these servers either; better name their authority in `ca`");
            }
        }
        if is_verified && first.value("crl-file").is_some() {
            return Err("certificates of servers are not compared with revocation lists".to_owned());
        }
        let name = first
            .value("verifyhost")
            .or_else(|| first.value("sni").and_then(|sni| sni.strip_prefix("str(")?.strip_suffix(')')));
        let host = first.address.rsplit_once(':').map_or(first.address.as_str(), |(host, _)| host);
        match name {
            Some(name) if is_host(name) => tls.set("server_name", name),
            Some(name) => return Err(format!("`{name}` is no host")),
            None if first.value("sni").is_some() => {
                let why = "the name is that of the server; `server_name` says another one";
                upstream.comment(self.report.left_out(&first.line.place, &format!("server {} … sni", first.name), why));
            }
            // Without a name HAProxy verifies the chain alone.
            None if is_verified && host.parse::<std::net::IpAddr>().is_ok() => {
                let why =
                    "the address of the server is verified, too, which HAProxy does not; name it in `server_name`";
                upstream.comment(self.report.differs(&first.line.place, &format!("server {}", first.name), why));
            }
            None => {}
        }
        if !tls.entries().any(|(key, _)| key == "server_name")
            && first.address.starts_with(['/', 'u'])
            && first.address.contains('/')
        {
            return Err("TLS to a Unix socket without a name".to_owned());
        }
        if let Some(certificate) = first.value("crt") {
            let file = absolute(&self.global.file("crt-base", &self.root, certificate));
            tls.set("client_certificate", file.as_str());
            tls.set("client_key", file);
        }
        if first.has("force-tlsv13") || first.value("ssl-min-ver") == Some("TLSv1.3") {
            tls.set("policy", "modern");
        }
        if tls.is_empty() {
            upstream.set("tls", Value::plain(true));
        } else {
            upstream.set("tls", tls);
        }
        if first.value("alpn").is_some_and(|alpn| alpn != "h2" && alpn.contains("h2")) && !is_tcp {
            upstream.set("protocol", "auto");
        }
        Ok(())
    }

    /// `balance`: how a server is chosen.
    fn algorithm(&self, line: &Line, is_tcp: bool, upstream: &mut Map) {
        let hash = |of: Value| Value::Map(Map::of([("hash", of)]));
        let named = |of: &str, name: &str| Value::Map(Map::of([(of, Value::text(name.to_ascii_lowercase()))]));
        let algorithm = if line.word(1) == "hash" { line.word(2) } else { line.word(1) };
        let (name, argument) = algorithm.split_once('(').unwrap_or((algorithm, ""));
        let argument = argument.trim_end_matches(')');
        match name {
            "roundrobin" | "static-rr" => {}
            "leastconn" => upstream.set("balance", "least_loaded"),
            "random" => upstream.set("balance", "random_two"),
            "source" | "src" => upstream.set("balance", hash("client".into())),
            "uri" if !is_tcp && !line.has("len") && !line.has("depth") => {
                upstream.set("balance", hash(if line.has("whole") { "target" } else { "path" }.into()))
            }
            "path" if !is_tcp => upstream.set("balance", hash("path".into())),
            "pathq" if !is_tcp => upstream.set("balance", hash("target".into())),
            "hdr" | "req.hdr" if !argument.is_empty() && !is_tcp => {
                upstream.set("balance", hash(named("header", argument)))
            }
            "req.cook" | "cook" if !argument.is_empty() && !is_tcp => {
                upstream.set("balance", hash(named("cookie", argument)))
            }
            _ => {
                upstream.comment(self.report.left_out(
                    &line.place,
                    &line.shown(),
                    "nothing here chooses so; servers take turns",
                ));
            }
        }
    }

    fn balance(&self, proxy: &Proxy, used: &[&Server<'_>], is_tcp: bool, upstream: &mut Map) {
        let hash = |of: Value| Value::Map(Map::of([("hash", of)]));
        if let Some(line) = proxy.one("balance") {
            self.algorithm(line, is_tcp, upstream);
        }
        if let Some(line) = proxy.one("hash-balance-factor")
            && let Ok(factor) = line.word(1).parse::<u64>()
            && matches!(upstream.get("balance"), Some(Value::Map(_)))
            && factor > 100
        {
            upstream.update("balance", |balance| balance.set("balance_factor", Value::plain(factor.min(1_000))));
        }
        for line in proxy.lines.iter().filter(|line| line.word(0) == "stick") {
            match line.words.as_slice() {
                [_, on, src, ..]
                    if (on == "on" || on == "store-request") && src == "src" && upstream.get("balance").is_none() =>
                {
                    upstream.set("balance", hash("client".into()));
                    let how = "the address of the client chooses the server, by a hash";
                    upstream.comment(self.report.differs(&line.place, &line.shown(), how));
                }
                _ => upstream.comment(self.report.left_out(
                    &line.place,
                    &line.shown(),
                    "nothing here keeps clients at servers by this",
                )),
            }
        }
        let Some(line) =
            proxy.one("cookie").filter(|_| !is_tcp && used.iter().any(|server| server.value("cookie").is_some()))
        else {
            return;
        };
        match line.has("insert") {
            true => {
                let mut sticky = Map::of([("cookie", Value::text(line.word(1)))]);
                if let Some(life) = line.after("maxlife").and_then(milliseconds).filter(|life| *life >= 1_000) {
                    sticky.set("lifetime", duration(life));
                }
                upstream.set("sticky", sticky);
            }
            false => upstream.comment(self.report.left_out(
                &line.place,
                &line.shown(),
                "cookies of the application are not changed; `insert` is carried",
            )),
        }
    }

    /// Checks. What servers say to one may decide who is written to, as of a primary and its replicas: where it cannot be asked for, nobody is.
    fn health(&self, proxy: &Proxy, used: &[&Server<'_>], upstream: &mut Map) -> Result<(), String> {
        let lines: Vec<&Line> =
            proxy.lines.iter().filter(|line| line.word(0) == "tcp-check" || line.word(0) == "external-check").collect();
        let is_tcp = upstream.get("protocol") == Some(&Value::text("tcp"));
        // Of several, the last one counts there.
        let count = CHECKS.iter().filter(|name| proxy.option(name).is_some()).count();
        let by_itself = is_tcp && count == 1 && proxy.option("httpchk").is_none();
        let Some(first) = used.iter().find(|server| server.is_on("check")) else { return Ok(()) };
        let asked = if by_itself { checks::steps(proxy, &lines) } else { Ok(None) };
        let steps = asked.as_ref().ok().and_then(|steps| steps.clone());
        let decides = |line: &&&Line| line.word(0) == "external-check" || line.word(1) == "expect";
        if let Some(line) = proxy.all("http-check").find(|line| line.word(1) == "expect" && line.word(2) == "!") {
            return Err(format!(
                "`{}` ({}) decides which servers are used, and is not asked here",
                line.shown(),
                line.place
            ));
        }
        if let Some(line) = lines.iter().find(decides).filter(|_| steps.is_none()) {
            let line = asked.err().unwrap_or(line);
            return Err(format!(
                "`{}` ({}) decides which servers are used, and is not asked here",
                line.shown(),
                line.place
            ));
        }
        let ports = |server: &&Server<'_>| server.value("port") != first.value("port") && server.is_on("check");
        let is_asked = proxy.option("httpchk").is_some() || steps.is_some();
        if is_asked && used.iter().any(ports) {
            return Err("its servers are checked at different ports".to_owned());
        }
        if is_asked && is_tcp && used.iter().any(|server| server.is_on("check") && server.has("addr")) {
            return Err("its servers are checked at other addresses".to_owned());
        }
        let other = CHECKS
            .iter()
            .find_map(|name| proxy.option(name))
            .filter(|line| line.word(1) != "tcp-check" || !lines.is_empty())
            .filter(|_| steps.is_none());
        if let Some(line) = other {
            let why = "a server that takes a connection is healthy; no more is asked of it";
            upstream.comment(self.report.left_out(&line.place, &line.shown(), why));
        }
        let mut health = Map::default();
        match (proxy.option("httpchk"), steps) {
            (Some(line), _) => self.http_check(proxy, line, &mut health, upstream),
            (None, Some(steps)) => health.set("steps", steps),
            (None, None) => health.set("path", "none"),
        }
        if is_asked {
            self.tls_of_checks(first, upstream);
        }
        let inter = first.value("inter").and_then(milliseconds).filter(|time| *time > 0).unwrap_or(2_000);
        health.set("interval", duration(inter));
        let timeout = proxy.timeout("check").map_or(inter, |time| time.min(inter));
        if timeout != 2_000 {
            health.set("timeout", duration(timeout.max(1)));
        }
        for key in ["fall", "rise", "port"] {
            if let Some(number) =
                first.value(key).and_then(|value| value.parse::<u64>().ok()).filter(|number| *number > 0)
            {
                let most = if key == "port" { 65_535 } else { 100 };
                health.set(key, Value::plain(number.min(most)));
            }
        }
        upstream.set("health", health);
        Ok(())
    }

    /// Checks have the TLS of the upstream; there, that of their server where no other port is asked, unless it says so.
    fn tls_of_checks(&self, server: &Server<'_>, upstream: &mut Map) {
        let is_by_itself = server.is_on("ssl") && !server.has("port") && !server.has("addr");
        if (is_by_itself || server.is_on("check-ssl")) != server.is_on("ssl") {
            let why = "checks have TLS where requests have it: these will fail until the checked port agrees";
            let what = format!("server {} … check", server.name);
            upstream.comment(self.report.left_out(&server.line.place, &what, why));
        }
    }

    /// `option httpchk` and `http-check`.
    fn http_check(&self, proxy: &Proxy, line: &Line, health: &mut Map, upstream: &mut Map) {
        let words = line.rest(2);
        let (mut method, mut path) = match words {
            [] => ("OPTIONS".to_owned(), "/".to_owned()),
            [path] => ("OPTIONS".to_owned(), path.clone()),
            [method, path, ..] => (method.clone(), path.clone()),
        };
        let mut headers: Vec<(String, String)> = Vec::new();
        // Fields used to stand behind the version.
        for field in words.get(2).map(String::as_str).unwrap_or_default().split("\r\n").skip(1) {
            headers.extend(field.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned())));
        }
        let mut left = |line: &Line, why: &str| upstream.comment(self.report.left_out(&line.place, &line.shown(), why));
        for line in proxy.all("http-check") {
            match line.word(1) {
                "send" => {
                    method = line.after("meth").map_or(method, str::to_owned);
                    path = line.after("uri").map_or(path, str::to_owned);
                    let at = line.words.windows(3).filter(|words| matches!(words, [hdr, ..] if hdr == "hdr"));
                    headers.extend(at.filter_map(|words| Some((words.get(1)?.clone(), words.get(2)?.clone()))));
                    if line.has("body") {
                        left(line, "a check sends no body");
                    }
                }
                "expect" => {
                    let at = 2 + usize::from(line.word(2) == "!");
                    match (line.word(at), line.word(at + 1)) {
                        ("status", statuses)
                            if at == 2
                                && statuses.bytes().all(|byte| byte.is_ascii_digit() || b",-".contains(&byte)) =>
                        {
                            health.set("statuses", Value::texts(statuses.split(',')));
                        }
                        ("rstatus", expression) if at == 2 && status_range(expression).is_some() => {
                            health.set("statuses", status_range(expression).unwrap_or_default());
                        }
                        ("string", text) if at == 2 => health.set("body", text),
                        _ => left(line, "what is expected is a status or a text"),
                    }
                }
                "disable-on-404" | "send-state" | "comment" | "set-var" | "unset-var" => {}
                _ => left(line, "a check is one request"),
            }
        }
        if !matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS") {
            left(line, "a check is GET, HEAD or OPTIONS");
            method = "GET".to_owned();
        }
        health.set("path", if path.starts_with('/') { path } else { "/".to_owned() });
        if method != "GET" {
            health.set("method", method);
        }
        let mut fields = Map::default();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            match name.as_str() {
                "host" if is_host(&value) => health.set("host", value),
                "connection" | "user-agent" | "host" => {}
                _ if crate::header_fields::field_fits(&name, &value).is_ok() => fields.set(&name, value),
                _ => {}
            }
        }
        if !fields.is_empty() {
            health.set("headers", fields);
        }
    }

    /// Timeouts, retries and the queue.
    fn times(&self, proxy: &Proxy, used: &[&Server<'_>], is_tcp: bool, upstream: &mut Map) {
        if let Some(time) = proxy.timeout("connect") {
            upstream.set("connect_timeout", duration(time));
        }
        if let Some(time) = proxy.timeout("server").filter(|_| !is_tcp) {
            upstream.set("response_header_timeout", duration(time));
            upstream.set("idle_timeout", duration(time));
        }
        if used.iter().any(|server| server.value("maxconn").is_some_and(|most| most != "0")) && !is_tcp {
            let time = proxy.timeout("queue").or(proxy.timeout("connect")).unwrap_or(5_000);
            let size = used
                .iter()
                .filter_map(|server| server.value("maxqueue")?.parse::<u64>().ok())
                .max()
                .filter(|size| *size > 0);
            let queue = Map::of([
                ("size", Value::plain(size.unwrap_or(10_000).min(100_000))),
                ("timeout", Value::text(duration(time))),
            ]);
            upstream.set("queue", queue);
        }
        let slow = used.iter().find_map(|server| Some((server, milliseconds(server.value("slowstart")?)?)));
        match (slow, matches!(upstream.get("balance"), Some(Value::Map(_)))) {
            (Some((_, time)), false) => upstream.set("slow_start", duration(time)),
            (Some((server, _)), true) => {
                let why = "a hash decides on the server";
                upstream.comment(self.report.left_out(
                    &server.line.place,
                    &format!("server {} … slowstart", server.name),
                    why,
                ));
            }
            _ => {}
        }
        let failures = used.iter().find(|server| server.has("observe"));
        let mut ejection = Map::of([("failures", Value::plain(0))]);
        if let Some(server) = failures {
            let limit = server.value("error-limit").and_then(|limit| limit.parse::<u64>().ok()).unwrap_or(10);
            ejection.set("failures", Value::plain(limit.clamp(1, 1_000)));
        }
        if failures.is_none_or(|server| server.value("observe") == Some("layer4")) {
            ejection.set("statuses", Value::List(Vec::new()));
        }
        upstream.set("ejection", ejection);
        if !is_tcp {
            self.retries(proxy, upstream);
        }
    }

    fn retries(&self, proxy: &Proxy, upstream: &mut Map) {
        let mut on: Vec<Value> = Vec::new();
        let mut add = |word: Value| {
            if !on.contains(&word) {
                on.push(word);
            }
        };
        match proxy.one("retry-on") {
            None => add("connect".into()),
            Some(line) => {
                for word in line.rest(1) {
                    match word.as_str() {
                        "none" => {}
                        "conn-failure" => add("connect".into()),
                        "empty-response" | "junk-response" => add("reset".into()),
                        "response-timeout" => add("timeout".into()),
                        "500" | "502" | "503" | "504" => add(Value::plain(word)),
                        "all-retryable-errors" => {
                            ["connect", "reset", "timeout"].into_iter().for_each(|word| add(word.into()));
                            [500, 502, 503, 504].into_iter().for_each(|status| add(Value::plain(status)));
                        }
                        other => {
                            let why = "retried are lost connections, timeouts and statuses from 500 on, of requests that may be repeated";
                            upstream.comment(self.report.left_out(&line.place, &format!("retry-on … {other}"), why));
                        }
                    }
                }
            }
        }
        let count = proxy.one("retries").and_then(|line| line.word(1).parse::<u64>().ok());
        if count == Some(0) {
            on.clear();
        }
        let mut retries = Map::of([("on", Value::List(on))]);
        if let Some(count) = count.filter(|count| (1..100).contains(count)) {
            retries.set("attempts", Value::plain(count + 1));
        }
        upstream.set("retries", retries);
    }
}

/// Statuses by an expression that begins with a digit.
fn status_range(expression: &str) -> Option<String> {
    match expression.strip_prefix('^')? {
        "2" | "2.." | "2[0-9][0-9]" | "2..$" => Some("200-299".to_owned()),
        "3" | "3.." => Some("300-399".to_owned()),
        "[23]" | "[23].." | "[2-3]" | "(2|3)" | "(2|3)[0-9][0-9]" | "[2|3]" => Some("200-399".to_owned()),
        _ => None,
    }
}
