//! What the demo prints: for each thing that it shows a line of purpose, a command to paste, and what that prints. A test runs every one of them.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use super::Options;
use super::files::{
    API, APP, AUDIT_LOG, CA_FILE, CONFIG_FILE, CURL_FILE, GATE_LOG, GATE_SOCKET, KEYS, MORE_FILE, VAULT, WEBSITE,
};

/// Something to try: its purpose, the command, and what that prints, where `…` stands for anything.
struct Trial {
    purpose: &'static str,
    command: String,
    prints: &'static str,
}

/// What is said once everything serves.
pub(super) fn text(options: &Options, folder: &Path, token: &str) -> String {
    let port = options.admin_port;
    let mut text = format!(
        "Dashboard: http://127.0.0.1:{port}/dashboard#token={token}

Paste these into another terminal. Expected output follows `#>`; `…` stands for parts that vary. Ctrl-C here ends everything.

cd {}
",
        quoted(&folder.display().to_string())
    );
    for Trial { purpose, command, prints } in trials(options) {
        let _ = write!(text, "\n# {purpose}\n{command}\n");
        prints.lines().for_each(|line| _ = writeln!(text, "#> {line}"));
    }
    let _ = write!(
        text,
        "\nThe gate loads each change of {CONFIG_FILE} at once, and logs to {GATE_LOG}. More to try: {MORE_FILE}, all in that folder."
    );
    text
}

fn trials(options: &Options) -> Vec<Trial> {
    let curl = |rest: String| format!("curl -K {CURL_FILE} {rest}");
    let (https, tunnel) = (options.https_port, options.tunnel_port);
    let api = format!("https://{API}:{https}/v1");
    let address = shown(options);
    vec![
        Trial {
            purpose: "A website over TLS; browsers learn that it speaks HTTP/3",
            command: curl(format!("-D - -o /dev/null https://{WEBSITE}:{https}/ | grep -i alt-svc")),
            prints: "alt-svc: h3=\"…\"; ma=…",
        },
        Trial {
            purpose: "An API under its contract, shop.yaml: an order that it allows",
            command: curl(format!("--json '{{\"product\":7,\"count\":2}}' {api}/orders")),
            prints: "{\"product\":7,\"count\":2}",
        },
        Trial {
            purpose: "and one that it does not, which the shop never sees",
            command: curl(format!("--json '{{\"product\":7,\"count\":-2}}' {api}/orders")),
            prints: "{\"code\":\"minimum\",\"detail\":\"must be at least 1\",\"in\":\"body\",\"pointer\":\"/count\",…}",
        },
        Trial {
            purpose: "A rate limit: five searches, where three an hour are allowed (run it again, and all five are rejected)",
            command: curl(format!("'https://{WEBSITE}:{https}/search?q=[1-5]'")),
            prints: "found\nfound\nfound\n429 Too Many Requests\n429 Too Many Requests",
        },
        Trial {
            purpose: "A tunnel: TLS for any TCP server, here a Gopher server, which learns who its client is",
            command: curl(format!("gophers://{APP}:{tunnel}/1hello")),
            prints: "You said hello, and the PROXY protocol says that you come from ….",
        },
        Trial {
            purpose: "and for UDP, here TFTP",
            command: curl(format!("tftp://{address}:{tunnel}/hello")),
            prints: "Datagrams pass, too.",
        },
        Trial {
            purpose: "A private key that only the key server has, and the last line of its audit log",
            command: format!("{} && tail -n 1 {AUDIT_LOG}", curl(format!("https://{VAULT}:{}/", options.keyless_port))),
            prints: "The key server signed for this handshake.\n{…\"operation\":\"ecdsa_sha256\",\"outcome\":\"done\",…}",
        },
        Trial {
            purpose: "What happens to a request, and why",
            command: format!("./portunus explain {CONFIG_FILE} GET {api}/products/seven"),
            prints: "listener   https (…)\n…\ncontract   shop, GET /products/{product}: is broken (mode block)\n\
                     \u{20}          type: path product: must be an integer, is a string\n…",
        },
        Trial {
            purpose: "An upgrade: the program is started again, and no connection is refused meanwhile",
            command: format!("./portunus upgrade --control {GATE_SOCKET}"),
            prints: "upgraded: process … serves, the old one drains",
        },
    ]
}

/// The file that keeps commands short: where the names are, whom to trust.
pub(super) fn curl_file(options: &Options) -> String {
    let (address, ports) =
        (shown(options), [options.https_port, options.http_port, options.tunnel_port, options.keyless_port]);
    let resolved: String = ports.iter().map(|port| format!("resolve = \"*:{port}:{address}\"\n")).collect();
    format!(
        "# For curl -K: where the names of the demo are, and whom to trust.\nsilent\nshow-error\nnoproxy = \"*\"\ncacert = \"{CA_FILE}\"\n{resolved}"
    )
}

/// Further commands, some of which need other programs.
pub(super) fn more(options: &Options) -> String {
    let (https, http) = (options.https_port, options.http_port);
    let address = shown(options);
    let curl = |rest: String| format!("curl -K {CURL_FILE} {rest}");
    let commands = [
        ("What the server sees", curl(format!("https://{WEBSITE}:{https}/headers"))),
        (
            "An old client gets the RSA certificate",
            curl(format!("-v --tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256 https://{WEBSITE}:{https}/")),
        ),
        ("A redirect of a route", curl(format!("-i https://{WEBSITE}:{https}/old/page"))),
        ("Plain HTTP is redirected", curl(format!("-i http://{WEBSITE}:{http}/page"))),
        ("A path that no route knows", curl(format!("-i https://{API}:{https}/v2/"))),
        (
            "Metrics",
            format!(
                "curl -H \"Authorization: Bearer $(cat admin.token)\" http://127.0.0.1:{}/metrics",
                options.admin_port
            ),
        ),
        ("The gate's state", format!("./portunus status --control {GATE_SOCKET}")),
        ("HTTP/3, by a curl whose --version lists HTTP3", {
            format!(
                "curl --cacert {CA_FILE} --resolve {WEBSITE}:{https}:{address} --http3-only --include https://{WEBSITE}:{https}/headers"
            )
        }),
        ("HTTP/3 by a browser", chromium(options, &address)),
    ];
    commands.iter().map(|(what, command)| format!("# {what}\n{command}\n\n")).collect()
}

/// Chromium, which speaks QUIC with servers of public CAs alone unless it is told otherwise, and is to know the certificate by its key.
fn chromium(options: &Options, shown: &str) -> String {
    let port = options.https_port;
    let key = format!(
        "$(openssl x509 -in {KEYS}/www-ecdsa.pem -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64)"
    );
    format!(
        "chromium --user-data-dir=\"$(mktemp -d)\" --origin-to-force-quic-on={WEBSITE}:{port} \
         --host-resolver-rules=\"MAP *.portunus.test {shown}\" --ignore-certificate-errors-spki-list=\"{key}\" \
         https://{WEBSITE}:{port}/headers"
    )
}

/// Where a client finds the gate, as URLs have it.
fn shown(options: &Options) -> String {
    match options.bind {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        IpAddr::V6(address) if address.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// A word of a shell that is this text.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
