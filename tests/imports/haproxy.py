"""Random frontends of HAProxy: rules in lists, with conditions on what requests say, named and unnamed; backends with rules of their own; plain TCP."""

import re

from beside import Request, neighbours, plain

NAME = "haproxy"
FRONTENDS = 12
REQUESTS = 20

FIELDS = ["x", "X-Y", "user-agent", "cookie", "referer", "x-forwarded-for", "host"]
VALUES = ["a", "b", "A", "1", "a.test", "bot", "a,b", "a b"]


# Ways in which people strip the start of a path.
STRIPPED = [
    r"replace-path /a/(.*) /\1", r"replace-path ^/a/(.*)$ /\1", r"replace-path /a(/)?(.*) /\2", r"replace-path /a\/?(.*) \/\1", r"replace-path ^/a(/.*)? /z\1",
    "set-path %[path,regsub(^/a/?,/)]", "set-path %[path,regsub(^/a,)]", "set-path %[path,regsub(^/a,/b)]", r"replace-uri ^/a/(.*) /\1", r"replace-pathq /a(/)?(.*) /\2",
]


def command(file, _folder):
    return ["haproxy", "-db", "-f", file]


def check(file, _folder):
    return ["haproxy", "-c", "-f", file]


def sites(chosen, _servers):
    return [frontend(chosen) for _ in range(FRONTENDS)]


def frontend(chosen):
    """Its mode, rules, and rules of a backend of its own."""
    count = chosen.choice([1, 2, 2, 3, 4])
    if chosen.random() < 0.1:
        return "tcp", "\n    ".join(["tcp-request inspect-delay 1s", *(tunnel_rule(chosen) for _ in range(count))]), ""
    names, lines = [], []
    for _ in range(chosen.choice([0, 0, 0, 1, 2, 3])):
        names.append(f"n{chosen.choice('123')}")
        lines.append(f"acl {names[-1]} {criterion(chosen)}")
    lines += [rule(chosen, names) for _ in range(count)]
    own = [chosen.choice([
        f"http-request deny {condition(chosen, [])}", f"http-request allow {condition(chosen, [])}", "http-request set-path /own%[path]",
        f"http-request redirect location /o {condition(chosen, [])}", f"http-request {chosen.choice(STRIPPED)}",
        "http-request set-header X-User %[req.hdr(x)]", "http-request del-header X-User", f"http-request auth {condition(chosen, [])}",
        "http-request set-header X-User own if { req.hdr(x) a }", "http-request add-header X-User own", "http-request set-method PUT",
    ]) for _ in range(chosen.choice([0, 0, 1, 2]))]
    return "http", "\n    ".join(lines), "\n    ".join(own)


def whole(frontends, addresses, _folder, servers):
    text = "global\n    maxconn 500\ndefaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n    timeout tarpit 10ms\nuserlist l\n    user u insecure-password p\n"
    for at, ((mode, rules, own), address) in enumerate(zip(frontends, addresses)):
        if mode == "tcp":
            text += f"frontend f{at}\n    mode tcp\n    bind {address}\n    {rules}\n    default_backend TA\n"
            continue
        name = f"own{at}" if own else "A"
        text += f"frontend f{at}\n    bind {address}\n    {rules}\n    default_backend {name}\n"
        if own:
            text += f"backend {name}\n    {own}\n    server one {servers['A']}\n"
    text += "".join(f"backend T{name}\n    mode tcp\n    server one {address}\n" for name, address in servers.items())
    return text + "".join(f"backend {name}\n    server one {address}\n" for name, address in servers.items())


def tunnel_rule(chosen):
    condition = chosen.choice([
        "if HTTP", "if !HTTP", "if { src 127.0.0.2 }", "unless { src 127.0.0.1 }", "if { req.ssl_hello_type 1 }", "if { req.len gt 0 }", "if WAIT_END", "if { req.ssl_sni -i a.test }",
        "if { req.payload(0,3) -m str GET }", "if { src 127.0.0.0/30 } HTTP", "if { src 127.0.0.9 } or { src 127.0.0.2 }", "", "if !{ req.ssl_hello_type 1 }",
    ])
    return chosen.choice([
        f"tcp-request content {chosen.choice(['accept', 'reject'])} {condition}", f"tcp-request content {chosen.choice(['accept', 'reject'])} {condition}",
        f"tcp-request {chosen.choice(['connection', 'session'])} {chosen.choice(['accept', 'reject'])} {chosen.choice(['if { src 127.0.0.1 }', 'if { src 127.0.0.2 }', 'unless { src 127.0.0.0/29 }'])}",
        f"use_backend T{chosen.choice('BC')} {condition or 'if TRUE'}",
    ])


def criterion(chosen):
    field, value, flag = chosen.choice(FIELDS), chosen.choice(VALUES).replace(" ", r"\ "), chosen.choice(["", "-i "])
    network = chosen.choice(["127.0.0.1", "127.0.0.0/30", "127.0.0.2 127.0.0.9", "10.0.0.0/8", "::/0", "0.0.0.0/0"])
    return chosen.choice([
        f"hdr({field}) {flag}{value}", f"hdr_sub({field}) {flag}{value}", f"hdr_beg({field}) {flag}{value}", f"hdr_end({field}) {flag}{value}",
        f"req.hdr({field}) -m found", f"req.fhdr({field}) {flag}{value}", f"hdr_cnt({field}) {chosen.choice(['0', 'gt 0', '1', 'ge 1'])}",
        f"hdr_reg({field}) {flag}{chosen.choice(['^a', 'a', 'a$', '(a|b)', '[0-9]+'])}", f"hdr_dom({field}) {flag}{value}", f"hdr_len({field}) gt 1",
        f"req.hdr({field},{chosen.choice(['1', '-1'])}) {value}", f"req.hdr({field}),lower {value}", f"req.hdr({field}),field(1,:) {value}",
        f"req.hdr({field}) -m int gt 0", f"path_beg {flag}{chosen.choice(['/a', '/a/', '/', '/A'])}", f"path {flag}/a", f"path_end {flag}a",
        f"path_sub {flag}b", f"path_dir {flag}a", f"path_reg {chosen.choice(['^/a', 'a$', '/a.b', '^/[ab]+$'])}", "path,url_dec -m beg /a", "url_beg /a",
        f"urlp(k) {value}", f"cook(k) {value}", "method GET", "method POST", "method HEAD POST", f"src {network}", f"src {network}",
        f"hdr(host) {flag}a.test", "hdr_end(host) .test", "hdr_dom(host) -i test", "dst_port 1", "ssl_fc", "always_true",
        "req.proto_http", "req.body_size gt 3", "path_beg /a /b", "path /a /a/b /b", f"hdr({field}) {flag}a b 1", f"path_len gt {chosen.choice('12')}",
        "method -m str get", "method get", f"hdr({field}) -m beg {flag}a", f"hdr({field}) -m len 1", f"hdr({field}) -m sub a", f"hdr({field}) -m reg ^a", "query -m found",
        "query -m str k=1", "query -m sub k", f"base {flag}a.test/a", "base_beg a.test/a", "base_end a", "base_sub test/", "base_reg ^a", "url_reg ^/a", "url /a", "url_sub a",
        "pathq /a?k=1", "capture.req.uri /a", "capture.req.method GET", "req.ver 1.1", "req.ver 1.0", f"hdr_ip(x-forwarded-for) {network}", "http_first_req",
        "urlp(k) -m found", "urlp(k) 1 2", f"urlp_reg(k) ^{value.replace(chr(92) + ' ', '.')}", "url_param(k) 1", "cook(k) -m found", "cook_cnt(k) gt 0", "req.cook(k) 1",
        "hdr(host),host_only a.test", "req.hdr(host),field(1,:) -i a.test", "path,lower -m beg /a", "path -m dir a", "path -m end /", "nbsrv(A) ge 1", "src_port gt 1023",
        "src_is_local", "http_auth(l)", "http_auth_group(l) g", "req.hdrs -m sub x", "req.hdr_names -m sub x", "unique-id -m found", "req.hdr(x),length gt 1", "path,word(1,/) a",
        "rand(100) ge 0", "be_conn(A) ge 0", "fe_conn lt 1000", "hdr_val(x) gt 0", "hdr(x) -m bool 1", "hdr(x) -m bin 61", "hdr(x) -- -i",
        "hdr(x) -i -- a", "hdr(x) -n a", "hdr(x) -m str -i a", "hdr(x) -u 3 a", "path_beg -i -- /A", "url_dir a", "url_dom a.test", "url_len gt 2", "hdr_dir(x) a", "always_false",
        "req.hdr(x),upper A", "req.hdr(x),hex 61", "req.hdr(x),bytes(0,1) a", "var(txn.v) -m str 1", "var(txn.v) -m found", "method,lower get", "res.hdr(x) a",
    ])


PREDEFINED = ["METH_GET", "METH_POST", "METH_HEAD", "HTTP_1.1", "HTTP_1.0", "LOCALHOST", "TRUE", "FALSE", "HTTP_URL_SLASH", "HTTP_URL_ABS", "HTTP_CONTENT", "WAIT_END", "REQ_CONTENT", "HTTP"]


def condition(chosen, names):
    parts = []
    for _ in range(chosen.choice([1, 1, 1, 2, 3])):
        what = chosen.random()
        if names and what < 0.5:
            one = chosen.choice(names)
        elif what < 0.55:
            one = chosen.choice(PREDEFINED)
        else:
            one = "{ " + criterion(chosen) + " }"
        parts.append(chosen.choice(["", "", "!"]) + one)
        if chosen.random() < 0.3:
            parts.append(chosen.choice(["or", "||"]))
    if parts[-1] in ("or", "||"):
        parts.pop()
    return chosen.choice(["if ", "if ", "unless "]) + " ".join(parts)


def rule(chosen, names):
    maybe = chosen.choice(["", condition(chosen, names)])
    always = condition(chosen, names)
    return chosen.choices([
        f"http-request deny {always}",
        f"http-request allow {always}",
        f"http-request {chosen.choice(['set-header', 'add-header'])} {chosen.choice(['x', 'X-Y', 'X-User'])} {chosen.choice(['a', 'b', '1', '%[src]', '%[req.hdr(x)]', '%[path]'])} {maybe}",
        f"http-request del-header {chosen.choice(['x', 'X-Y', 'cookie', 'X-User', 'x -m beg'])} {maybe}",
        f"http-request return status {chosen.choice(['200', '403'])} {always}",
        f"http-request redirect location /r {always}",
        f"tcp-request connection {chosen.choice(['accept', 'reject'])} {chosen.choice(['if { src 127.0.0.1 }', 'if { src 127.0.0.2 }', 'unless { src 127.0.0.1 }'])}",
        f"tcp-request content {chosen.choice(['accept', 'reject'])} {chosen.choice(['if { src 127.0.0.2 }', 'if HTTP', 'unless { src 127.0.0.1 }', 'if { path_beg /a }', 'if !HTTP', 'if { hdr(x) a }'])}",
        f"http-request set-path {chosen.choice(['/z', '/z%[path]'])} {maybe}",
        f"use_backend {chosen.choice('BC')} {always}",
        f"http-request redirect {chosen.choice(['code 301 prefix /r', 'location /r code 307', 'drop-query location /r', 'scheme https', 'scheme https code 301', 'location http://b.test%[path]', 'prefix http://b.test'])} {always}",
        f"http-request {chosen.choice(STRIPPED)} {maybe}",
        chosen.choice([
            f"http-request auth {always}", "http-request auth unless { http_auth(l) }", "http-request deny unless { http_auth(l) }", f"http-request auth realm r if !{{ http_auth(l) }} {{ path_beg /a }}",
            f"http-request set-var(txn.v) {chosen.choice(['str(1)', 'req.hdr(x)', 'path', 'src', 'int(1)'])} {maybe}", f"http-request deny if {{ var(txn.v) -m {chosen.choice(['str 1', 'found', 'beg /a'])} }}",
            f"http-request set-method PUT {maybe}", f"http-request set-query {chosen.choice(['k=1', '%[query]&z'])} {maybe}", f"http-request set-uri /u {maybe}",
            f"http-request replace-header x {chosen.choice(['a b', '(.*) 1', '^a$ b', 'a,?(.*) b'])} {maybe}", f"http-request replace-value x {chosen.choice(['a b', '^(.*)$ 1'])} {maybe}",
            f"http-request deny deny_status {chosen.choice(['429', '401', '200', '404'])} {always}", f"http-request reject {always}", f"http-request tarpit {always}",
            f"http-request wait-for-body time 1s {maybe}", f"redirect location /r {always}", f"redirect prefix /r {always}", f"monitor-uri {chosen.choice(['/a', '/b', '/m'])}",
            "option forwardfor", "http-request set-src hdr(x-forwarded-for)", f"http-request capture req.hdr(x) len 10 {maybe}", f"http-request set-log-level silent {maybe}",
            "option http-restrict-req-hdr-names reject", "option http-restrict-req-hdr-names delete", f"use_backend %[req.hdr(x),lower]", "use_backend %[str(B)]",
            f"http-request strict-mode on", f"http-request pause 1 {maybe}", f"http-request set-nice 1 {maybe}", "http-request disable-l7-retry",
            f"http-request early-hint Link a {maybe}", f"http-request del-header {chosen.choice(['^x -m reg', 'y -m end', 'x -m str'])} {maybe}", f"http-request set-pathq /q?k=1 {maybe}",
            f"http-request unset-var(txn.v) {maybe}", f"monitor fail {always}",
        ]),
    ], [35, 10, 10, 5, 5, 5, 5, 5, 5, 15, 5, 8, 15])[0]


MORE = ["Authorization: Basic dTpw", "Authorization: Basic dTp4", "X_Y: a", "X.Y: a", "X-User: u", "Content-Type: text/plain"]


def requests(chosen, site):
    """Some of all that could be asked: what the rules name, and what is near it."""
    _, rules, own = site
    named = re.findall(r"(?:path|url|base|pathq)\w* (?:-i )?(?:a\.test)?(/\w*/?)", rules + own)
    # `/%61` is `/a` here, and forwarded as that (docs/migration.md); HAProxy compares the bytes.
    paths = [path for path in neighbours(sorted({"/", "/a", "/a/b", "/b", *named})) if plain(path) == path]
    # Whatever the query is, too (docs/migration.md).
    is_monitored = "monitor-uri" in rules
    values = ["a", "b", "A", "1", "a,b", "b, a", "k=a", "k=1; j=2", '"a,b"', "bot/1", "xbotx", "a.test", "", "a:b", "10.0.0.1", "127.0.0.1, 10.0.0.1"]
    queries = ["?k=1", "?k=a", "?k=2&k=1", "?j;k=1", "?k=%31", "?K=1", "?k", "?"]
    has_password = "auth" in rules + own
    for _ in range(REQUESTS):
        fields = [f"{chosen.choice(['X', 'X', 'x-y', 'User-Agent', 'Cookie', 'Referer', 'X-Forwarded-For'])}: {chosen.choice(values)}" for _ in range(chosen.choice([0, 1, 1, 2]))]
        if chosen.random() < 0.15:
            fields.append(chosen.choice(MORE))
        if has_password and chosen.random() < 0.4:
            fields = [field for field in fields if not field.startswith("Authorization")] + [MORE[0]]
        path = chosen.choice(paths)
        if "?" not in path and chosen.random() < 0.2:
            path += chosen.choice(queries)
        path = path.split("?")[0] if is_monitored else path
        method = chosen.choice(["GET", "GET", "GET", "POST", "HEAD", "PUT"])
        client = chosen.choice(["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.9"])
        yield Request(method, path, fields, chosen.choice(["a.test", "a.test", "b.test", "x.a.test", "other"]), client)
