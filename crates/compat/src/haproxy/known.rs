//! Keywords of proxies and of the process: what is carried elsewhere, what has no meaning here, and what is left out, with the reason.

use super::sections::{Global, Proxy};
use super::syntax::{Line, Section};
use crate::migration::Report;

/// What is read where it counts, and what has no meaning here or is done by itself.
const PROXY: &[&str] = &[
    "acl",
    "backlog",
    "balance",
    "bind",
    "bind-process",
    "block",
    "capture",
    "clitcpka-cnt",
    "clitcpka-idle",
    "clitcpka-intvl",
    "compression",
    "cookie",
    "default-server",
    "default_backend",
    "description",
    "disabled",
    "dispatch",
    "enabled",
    "error-log-format",
    "external-check",
    "filter",
    "fullconn",
    "grace",
    "hash-balance-factor",
    "hash-type",
    "http-after-response",
    "http-check",
    "http-request",
    "http-response",
    "http-reuse",
    "id",
    "guid",
    "load-server-state-from-file",
    "log",
    "log-format",
    "log-format-sd",
    "log-tag",
    "max-keep-alive-queue",
    "mode",
    "monitor-uri",
    "no",
    "option",
    "redirect",
    "retries",
    "retry-on",
    "server",
    "server-state-file-name",
    "server-template",
    "srvtcpka-cnt",
    "srvtcpka-idle",
    "srvtcpka-intvl",
    "source",
    "stats",
    "stick",
    "stick-table",
    "tcp-check",
    "tcp-request",
    "timeout",
    "unique-id-format",
    "unique-id-header",
    "use-server",
    "use_backend",
    "declare",
    "email-alert",
    "errorfile",
    "reqdeny",
    "reqideny",
    "reqtarpit",
    "reqitarpit",
    "reqallow",
    "reqiallow",
    "reqpass",
];

/// What is left out, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("errorfiles", "pages for errors are files of HTML or text: name them in `error_pages`"),
    ("errorloc", "an error is no redirect; `error_pages` has pages for errors"),
    ("errorloc302", "an error is no redirect; `error_pages` has pages for errors"),
    ("errorloc303", "an error is no redirect; `error_pages` has pages for errors"),
    ("http-error", "a page for errors is a file of HTML or text: name it in `error_pages`"),
    ("maxconn", "connections are limited for the process (`limits.max_connections`), requests by `concurrency_limit`"),
    ("rate-limit", "sessions are not limited by frontend; `rate_limit` limits requests"),
    ("monitor-net", "checks of balancers are requests like others"),
    ("monitor", "whether it fails is said by `respond: { if_healthy: UPSTREAM }`"),
    ("http-send-name-header", "servers do not get their own names"),
    ("ignore-persist", "cookies that keep clients at servers count for all requests"),
    ("force-persist", "a server that is down gets no requests"),
    ("persist", "nothing here reads RDP"),
    ("tcp-response", "what servers send in tunnels is not looked at"),
    ("reqadd", "it is of old versions: write `http-request add-header`"),
    ("reqrep", "it is of old versions: write `http-request replace-path`"),
    ("reqirep", "it is of old versions: write `http-request replace-path`"),
    ("reqdel", "it is of old versions: write `http-request del-header`"),
    ("reqidel", "it is of old versions: write `http-request del-header`"),
    ("rspadd", "it is of old versions: write `http-response add-header`"),
    ("rspdel", "it is of old versions: write `http-response del-header`"),
    ("rspidel", "it is of old versions: write `http-response del-header`"),
    ("rsprep", "it is of old versions: write `http-response set-header`"),
    ("rspirep", "it is of old versions: write `http-response set-header`"),
];

/// Options that are carried, or have no meaning here.
const OPTIONS: &[&str] = &[
    "abortonclose",
    "allbackups",
    "checkcache",
    "clitcpka",
    "contstats",
    "disable-h2-upgrade",
    "dontlog-normal",
    "dontlognull",
    "external-check",
    "forceclose",
    "forwardfor",
    "h1-case-adjust-bogus-client",
    "h1-case-adjust-bogus-server",
    "http-buffer-request",
    "http-ignore-probes",
    "http-keep-alive",
    "http-no-delay",
    "http-pretend-keepalive",
    "http-restrict-req-hdr-names",
    "http-server-close",
    "http-tunnel",
    "http-use-htx",
    "http-use-proxy-header",
    "httpchk",
    "httpclose",
    "httplog",
    "httpslog",
    "idle-close-on-response",
    "ldap-check",
    "log-health-checks",
    "log-separate-errors",
    "logasap",
    "mysql-check",
    "nolinger",
    "pgsql-check",
    "prefer-last-server",
    "redis-check",
    "redispatch",
    "smtpchk",
    "socket-stats",
    "splice-auto",
    "splice-request",
    "splice-response",
    "srvtcpka",
    "ssl-hello-chk",
    "tcp-check",
    "tcp-smart-accept",
    "tcp-smart-connect",
    "tcpka",
    "tcplog",
    "transparent",
    "http_proxy",
    "independent-streams",
    "spop-check",
    "persist",
];

/// Settings of the process that have no meaning here, or are read where they count.
const GLOBAL: &[&str] = &[
    "ca-base",
    "chroot",
    "cluster-secret",
    "cpu-map",
    "cpu-policy",
    "crt-base",
    "daemon",
    "default-path",
    "description",
    "external-check",
    "gid",
    "grace",
    "group",
    "h1-case-adjust",
    "h1-case-adjust-file",
    "hard-stop-after",
    "insecure-fork-wanted",
    "issuers-chain-path",
    "limited-quic",
    "localpeer",
    "log",
    "log-send-hostname",
    "log-tag",
    "master-worker",
    "maxconn",
    "maxconnrate",
    "maxpipes",
    "maxsessrate",
    "maxsslconn",
    "maxsslrate",
    "mworker-max-reloads",
    "nbproc",
    "nbthread",
    "no",
    "node",
    "nopoll",
    "noepoll",
    "nokqueue",
    "noreuseport",
    "numa-cpu-mapping",
    "pidfile",
    "pp2-never-send-local",
    "presetenv",
    "quiet",
    "resetenv",
    "server-state-base",
    "server-state-file",
    "setenv",
    "spread-checks",
    "ssl-default-bind-ciphers",
    "ssl-default-bind-ciphersuites",
    "ssl-default-bind-curves",
    "ssl-default-bind-options",
    "ssl-default-bind-sigalgs",
    "ssl-default-server-ciphers",
    "ssl-default-server-ciphersuites",
    "ssl-default-server-options",
    "ssl-dh-param-file",
    "ssl-engine",
    "ssl-load-extra-del-ext",
    "ssl-load-extra-files",
    "ssl-mode-async",
    "ssl-server-verify",
    "ssl-skip-self-issued-ca",
    "ssl-provider",
    "ssl-propquery",
    "stats",
    "strict-limits",
    "thread-group",
    "thread-groups",
    "uid",
    "ulimit-n",
    "unix-bind",
    "unsetenv",
    "user",
    "zero-warning",
    "set-dumpable",
    "set-var",
    "set-var-fmt",
    "expose-experimental-directives",
    "expose-deprecated-directives",
    "busy-polling",
    "anonkey",
    "harden.reject-privileged-ports.tcp",
    "harden.reject-privileged-ports.quic",
    "prealloc-fd",
    "stats-file",
    "shm-stats-file",
];

/// The comments for what is left out of a proxy.
pub(crate) fn audit(proxy: &Proxy, report: &Report) -> Vec<String> {
    let mut out = Vec::new();
    for line in &proxy.lines {
        if let Some(why) = why(proxy, line) {
            out.push(report.left_out(&line.place, &line.shown(), why));
        }
    }
    out
}

fn why(proxy: &Proxy, line: &Line) -> Option<&'static str> {
    match (line.word(0), line.word(1)) {
        ("option", name) => match name {
            "transparent" | "http_proxy" => Some("servers are those that are named"),
            "originalto" => Some("the address that a client connected to is not sent"),
            "accept-invalid-http-request"
            | "accept-invalid-http-response"
            | "accept-unsafe-violations-in-http-request"
            | "accept-unsafe-violations-in-http-response" => Some("invalid messages are rejected"),
            "checkcache" => Some("responses with cookies are delivered also where caches may keep them"),
            "disable-h2-upgrade" => Some("HTTP/2 is served without TLS, too"),
            name if OPTIONS.contains(&name) => None,
            _ => Some("it is not known here"),
        },
        // What bytes alone have no use for is not missed.
        ("errorfile" | "errorfiles" | "errorloc" | "errorloc302" | "errorloc303" | "http-error", _)
            if proxy.is_tcp() =>
        {
            None
        }
        ("filter", "compression") => None,
        // Closed where requests are.
        ("filter", kind) if is_deciding(kind) => None,
        ("filter", "bwlim-in" | "bwlim-out") => {
            Some("bandwidth is limited by a policy (`bandwidth_limit`); nothing limits this place")
        }
        ("filter", _) => Some("nothing here does this"),
        ("stick-table", _) if line.has("peers") => Some("tables are not shared between machines"),
        ("compression", "algo" | "type" | "offload" | "direction" | "algo-res" | "type-res" | "minsize-res") => None,
        ("compression", _) => Some("nothing here does this"),
        (keyword, _) => match LEFT_OUT.iter().find(|(name, _)| *name == keyword) {
            Some((_, why)) => Some(why),
            None if PROXY.contains(&keyword) => None,
            None => Some("it is not known here"),
        },
    }
}

/// Whether a filter may decide about requests.
pub(crate) fn is_deciding(kind: &str) -> bool {
    kind == "spoe" || kind == "fcgi-app" || kind.starts_with("lua.")
}

/// The comments for what is left out of the process, and for sections that are not there.
pub(crate) fn audit_process(global: &Global, sections: &[Section], report: &Report) -> Vec<String> {
    let mut out = Vec::new();
    for line in &global.lines {
        let keyword = line.word(0);
        let is_tuning = [
            "tune.",
            "profiling.",
            "ssl-security-level",
            "ocsp-update.",
            "51degrees",
            "wurfl",
            "deviceatlas",
            "httpclient.",
        ]
        .iter()
        .any(|start| keyword.starts_with(start));
        if !GLOBAL.contains(&keyword) && !is_tuning {
            let why = if keyword.starts_with("lua-") { "there are no scripts" } else { "it is not known here" };
            out.push(report.left_out(&line.place, &line.shown(), why));
        }
    }
    for section in sections {
        let why = match section.kind.as_str() {
            "peers" => "machines share no tables",
            "program" => "no other program is run",
            "cache" => "nothing is cached here",
            "log-forward" => "logs of others are not taken",
            "http-errors" => "pages for errors are files of HTML or text: name them in `error_pages`",
            "fcgi-app" => "FastCGI is not spoken",
            "mailers" => "no mail is sent; see the alert rules for Prometheus",
            "crt-store" | "acme" | "dynamic-update" | "namespace_list" => "it is not known here",
            _ => continue,
        };
        out.push(report.left_out(&section.place, &format!("{} {}", section.kind, section.name), why));
    }
    out
}
