"""Random frontends of HAProxy: rules in lists, with conditions on what requests say."""

import re

from beside import Request, neighbours, plain

NAME = "haproxy"
FRONTENDS = 12
REQUESTS = 20

FIELDS = ["x", "X-Y", "user-agent", "cookie", "referer", "x-forwarded-for", "host"]
VALUES = ["a", "b", "A", "1", "a.test", "bot", "a,b"]


# Ways in which people strip the start of a path.
STRIPPED = [
    r"replace-path /a/(.*) /\1", r"replace-path ^/a/(.*)$ /\1", r"replace-path /a(/)?(.*) /\2", r"replace-path /a\/?(.*) \/\1", r"replace-path ^/a(/.*)? /z\1",
    "set-path %[path,regsub(^/a/?,/)]", "set-path %[path,regsub(^/a,)]", "set-path %[path,regsub(^/a,/b)]",
]


def command(file, _folder):
    return ["haproxy", "-db", "-f", file]


def sites(chosen, _servers):
    return ["\n    ".join(rule(chosen) for _ in range(chosen.choice([1, 2, 2, 3, 4]))) for _ in range(FRONTENDS)]


def whole(frontends, addresses, _folder, servers):
    text = "global\n    maxconn 500\ndefaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n"
    for at, (frontend, address) in enumerate(zip(frontends, addresses)):
        text += f"frontend f{at}\n    bind {address}\n    {frontend}\n    default_backend A\n"
    return text + "".join(f"backend {name}\n    server one {address}\n" for name, address in servers.items())


def criterion(chosen):
    field, value, flag = chosen.choice(FIELDS), chosen.choice(VALUES), chosen.choice(["", "-i "])
    return chosen.choice([
        f"hdr({field}) {flag}{value}", f"hdr_sub({field}) {flag}{value}", f"hdr_beg({field}) {flag}{value}", f"hdr_end({field}) {flag}{value}",
        f"req.hdr({field}) -m found", f"req.fhdr({field}) {flag}{value}", f"hdr_cnt({field}) {chosen.choice(['0', 'gt 0', '1', 'ge 1'])}",
        f"hdr_reg({field}) {flag}{chosen.choice(['^a', 'a', 'a$', '(a|b)', '[0-9]+'])}", f"hdr_dom({field}) {flag}{value}", f"hdr_len({field}) gt 1",
        f"req.hdr({field},{chosen.choice(['1', '-1'])}) {value}", f"req.hdr({field}),lower {value}", f"req.hdr({field}),field(1,:) {value}",
        f"req.hdr({field}) -m int gt 0", f"path_beg {flag}{chosen.choice(['/a', '/a/', '/', '/A'])}", f"path {flag}/a", f"path_end {flag}a",
        f"path_sub {flag}b", f"path_dir {flag}a", f"path_reg {chosen.choice(['^/a', 'a$', '/a.b', '^/[ab]+$'])}", "path,url_dec -m beg /a", "url_beg /a",
        f"urlp(k) {value}", f"cook(k) {value}", "method GET", "method POST", "method HEAD POST", "src 127.0.0.1", "src 127.0.0.2", "src ::/0",
        "src 10.0.0.0/8", f"hdr(host) {flag}a.test", "hdr_end(host) .test", "hdr_dom(host) -i test", "dst_port 1", "ssl_fc", "always_true",
        "req.proto_http", "req.body_size gt 3",
    ])


def condition(chosen):
    parts = []
    for _ in range(chosen.choice([1, 1, 1, 2, 3])):
        parts.append(chosen.choice(["", "", "!"]) + "{ " + criterion(chosen) + " }")
        if chosen.random() < 0.3:
            parts.append("or")
    if parts[-1] == "or":
        parts.pop()
    return chosen.choice(["if ", "if ", "unless "]) + " ".join(parts)


def rule(chosen):
    maybe = chosen.choice(["", condition(chosen)])
    always = condition(chosen)
    return chosen.choices([
        f"http-request deny {always}",
        f"http-request allow {always}",
        f"http-request {chosen.choice(['set-header', 'add-header'])} {chosen.choice(['x', 'X-Y'])} {chosen.choice(['a', 'b', '1'])} {maybe}",
        f"http-request del-header {chosen.choice(['x', 'X-Y', 'cookie'])} {maybe}",
        f"http-request return status {chosen.choice(['200', '403'])} {always}",
        f"http-request redirect location /r {always}",
        f"tcp-request connection {chosen.choice(['accept', 'reject'])} {chosen.choice(['if { src 127.0.0.1 }', 'if { src 127.0.0.2 }', 'unless { src 127.0.0.1 }'])}",
        f"tcp-request content {chosen.choice(['accept', 'reject'])} {chosen.choice(['if { src 127.0.0.2 }', 'if HTTP', 'unless { src 127.0.0.1 }'])}",
        f"http-request set-path {chosen.choice(['/z', '/z%[path]'])} {maybe}",
        f"use_backend {chosen.choice('BC')} {always}",
        f"http-request redirect {chosen.choice(['code 301 prefix /r', 'location /r code 307', 'drop-query location /r'])} {always}",
        f"http-request {chosen.choice(STRIPPED)} {maybe}",
    ], [35, 10, 10, 5, 5, 5, 5, 5, 5, 15, 5, 8])[0]


def requests(chosen, frontend):
    """Some of all that could be asked: what the rules name, and what is near it."""
    named = re.findall(r"(?:path|url)\w* (?:-i )?(/\w*/?)", frontend)
    # `/%61` is `/a` here, and forwarded as that (docs/migration.md); HAProxy compares the bytes.
    paths = [path for path in neighbours(sorted({"/", "/a", "/a/b", "/b", *named})) if plain(path) == path]
    values = ["a", "b", "A", "1", "a,b", "b, a", "k=a", "k=1; j=2", '"a,b"', "bot/1", "xbotx", "a.test"]
    for _ in range(REQUESTS):
        fields = [f"{chosen.choice(['X', 'x-y', 'User-Agent', 'Cookie', 'Referer', 'X-Forwarded-For'])}: {chosen.choice(values)}" for _ in range(chosen.choice([0, 1, 1, 2]))]
        method = chosen.choice(["GET", "GET", "GET", "POST", "HEAD", "PUT"])
        yield Request(method, chosen.choice(paths), fields, chosen.choice(["a.test", "b.test", "x.a.test", "other"]))
