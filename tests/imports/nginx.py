"""Random servers of nginx: locations, conditions, access rules, rewriting."""

import re

from beside import Request, neighbours

NAME = "nginx"
SERVERS = 8
REQUESTS = 30


def command(file, folder):
    return ["nginx", "-g", "daemon off; master_process off;", "-p", folder, "-c", file]


def sites(chosen, servers):
    return [(server(chosen, servers), second(chosen, servers)) for _ in range(SERVERS)]


def whole(sites, addresses, folder, _servers):
    text = f"worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit; events {{ worker_connections 256; }}\nhttp {{ access_log off;\n"
    for (own, other), address in zip(sites, addresses):
        text += f"server {{ listen {address}; server_name a.test; set $s 0; {own} }}\n{other.replace('ADDRESS', address)}\n"
    return text + "}\n"


def passed(chosen, servers, has_uri=True):
    uri = chosen.choice(["", "", "", "/", "/y", "/y/", "$request_uri"]) if has_uri else chosen.choice(["", "", "", "$request_uri"])
    return f"proxy_pass http://{servers[chosen.choice('ABC')]}{uri};"


def second(chosen, servers):
    """Another server of the same address, or none."""
    return chosen.choice([
        "",
        "",
        "server { listen ADDRESS; server_name *.b.test; deny all; location / { " + passed(chosen, servers, False) + " } }",
        "server { listen ADDRESS; server_name b.test; location / { " + passed(chosen, servers, False) + " } }",
    ])


def condition(chosen):
    return chosen.choice([
        "$http_x = 1", '$http_x = ""', '$http_x != ""', "$http_x", "$http_x ~ a", "$http_x ~* ^a$", "$http_user_agent ~* bot", "$arg_k = 1", "$arg_k",
        "$cookie_k = 1", "$request_method = POST", "$request_method = GET", "$request_method !~ ^(GET|HEAD)$", "$request_method ~ ^(PUT|POST)$",
        "$host = a.test", "$host = b.test", "$host != a.test", "$scheme = http", "$uri ~ ^/a", "$request_uri ~ a", "$remote_addr = 127.0.0.1", "$s = 1",
        "$s", "$http_host = a.test",
    ])


def response(chosen):
    return chosen.choice(["return 403;", "return 403;", "return 404;", "return 200 ok;", "return 302 /r;", "return 301 http://b.test$request_uri;"])


def ifs(chosen, servers, in_location):
    what = chosen.random()
    if in_location and what < 0.25:
        return f"if ({condition(chosen)}) {{ {passed(chosen, servers, False)} }}"
    if what < 0.3:
        return f"if ({condition(chosen)}) {{ set $s {chosen.choice('12')}; }}"
    if in_location and what < 0.35:
        return f"if ({condition(chosen)}) {{ rewrite ^/a /z break; }}"
    return f"if ({condition(chosen)}) {{ {response(chosen)} }}"


# Directives that may stand once in a block.
ONCE = ("limit_except", "internal", "satisfy", "try_files")


def location(chosen, servers):
    head = chosen.choice(["/", "/a", "/a/", "= /a", "^~ /a/", "~ ^/a", "~* ^/B", "~ a$", "~ ^/a.b$", "~ ^/[^/]+/b$", "/b", "= /", r"~ \.php$", "/@a/", "~ ^/@"])
    inner = {}
    for at in range(chosen.choice([0, 0, 1, 1, 2])):
        rule = chosen.choice([
            ifs(chosen, servers, True),
            ifs(chosen, servers, True),
            chosen.choice(["deny all;", "allow 127.0.0.1; deny all;", "deny 127.0.0.1;", "deny ::/0;", "allow ::1; deny all;"]),
            f"limit_except {chosen.choice(['GET', 'POST', 'GET POST'])} {{ {chosen.choice(['deny all;', 'deny 127.0.0.1;', 'allow 127.0.0.1; deny all;'])} }}",
            f"set $s {chosen.choice(['1', '2', '$http_x'])};",
            f"rewrite {chosen.choice(['^/a/(.*)$', '^/a/(.*)', '^/(.*)', '^/a(/.*)?$'])} /q/$1 break;",
            "internal;",
            "satisfy any;",
            "try_files $uri =404;",
        ])
        name = rule.split()[0].rstrip(";")
        inner[name if name in ONCE else at] = rule
    is_expression = head.startswith("~")
    end = chosen.choice([passed(chosen, servers, not is_expression), passed(chosen, servers, False), passed(chosen, servers, False), response(chosen)])
    return head, f"location {head} {{ {' '.join(inner.values())} {end} }}"


def server(chosen, servers):
    rules = [chosen.choice([ifs(chosen, servers, False), f"set $s {chosen.choice('12')};", "deny 127.0.0.1;", "allow 127.0.0.1; deny all;", "rewrite ^/old /r permanent;"]) for _ in range(chosen.choice([0, 0, 0, 1]))]
    locations = {}
    for _ in range(chosen.choice([1, 2, 3, 4])):
        head, text = location(chosen, servers)
        locations[head.replace("^~ ", "")] = text
    return " ".join([*rules, *locations.values()])


def requests(chosen, site):
    named = re.findall(r"location (?:= |\^~ )?(/\S*)", site[0])
    # What nginx rewrites it makes one slash of several in first; here they go on as they are (docs/migration.md).
    is_rewritten = re.search(r"proxy_pass http://[^/;]+/|rewrite", site[0])
    paths = neighbours(sorted({"/", "/a", "/a/b", "/ab", "/b", "/x.php", "/@a/x", "/old", *named}))
    paths = [path for path in paths if not is_rewritten or "//" not in path]
    values = ["1", "a", "A", "0", "bot/1", "k=1", "K=1", "j=1; k=1", ""]
    for _ in range(REQUESTS):
        fields = [f"{chosen.choice(['X', 'x', 'User-Agent', 'Cookie', 'Y'])}: {chosen.choice(values)}" for _ in range(chosen.choice([0, 1, 1, 2]))]
        method = chosen.choice(["GET", "GET", "GET", "POST", "HEAD", "PUT"])
        yield Request(method, chosen.choice(paths), fields, chosen.choice(["a.test", "a.test", "b.test", "x.b.test", "other"]))
