"""Random servers of nginx: locations in one another, conditions, variables of `map` and `geo`, access rules, passwords, rewriting."""

import os
import re

from beside import Request, neighbours

NAME = "nginx"
SERVERS = 8
REQUESTS = 30

# `p` is the password of `u`.
USERS = "u:$2y$04$abcdefghijklmnopqrstuudMegMbPN37MbpdEfAtP66w1z0RBCtLG\n"

# What every server may read: requests by one value, by two, in order of expressions, by client.
TABLES = """
map $http_x $mapped { default 0; a 1; ~^b 1; "" 2; }
map $uri $by_path { default 0; /a 1; ~^/b 1; ~*\\.PHP$ 2; }
map $request_method $by_method { default 0; POST 1; ~^P 2; }
map $host $by_host { default 0; hostnames; a.test 1; *.b.test 1; }
map $http_x:$arg_k $by_both { default 0; a:1 1; ~^1: 1; }
map $cookie_k $http_made { default ""; 1 a; }
map $http_upgrade $closing { default upgrade; "" close; }
map $remote_addr $by_client { default 0; 127.0.0.1 1; }
map $mapped $chained { default 0; 1 1; }
geo $near { default 0; 127.0.0.2 1; 127.0.0.8/29 1; }
geo $arg_k $of_argument { default 0; 10.0.0.0/8 1; }
"""

BY_TABLE = [
    "$mapped", "$mapped = 1", "$mapped = 2", "$by_path", "$by_path = 2", "$by_method = 1", "$by_method", "$by_host", "$by_both", "$http_made = a", "$http_made",
    "$by_client", "$chained", "$near", "$near = 0", "$of_argument",
]


def command(file, folder):
    return ["nginx", "-g", "daemon off; master_process off;", "-p", folder, "-c", file]


def check(file, folder):
    return ["nginx", "-t", "-p", folder, "-c", file]


def sites(chosen, servers):
    return [(server(chosen, servers), second(chosen, servers)) for _ in range(SERVERS)]


def whole(sites, addresses, folder, _servers):
    with open(os.path.join(folder, "users"), "w") as file:
        file.write(USERS)
    named = " ".join(text for site in sites for text in site)
    tables = "".join(f"{line}\n" for line in TABLES.strip().splitlines() if is_needed(line, named))
    text = f"worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit; events {{ worker_connections 256; }}\nhttp {{ access_log off;\n{tables}"
    for (own, other), address in zip(sites, addresses):
        own, other = (part.replace("FOLDER", folder).replace("ADDRESS", address) for part in (own, other))
        text += f"server {{ listen {address}; server_name a.test; set $s 0; {own} }}\n{other}\n"
    return text + "}\n"


def is_needed(table, named):
    """Whether the variable of a table is named: one that is not understood would close them all."""
    name = re.search(r"(\$\w+) \{", table).group(1)
    return name in named or (name == "$mapped" and "$chained" in named)


def passed(chosen, servers, has_uri=True):
    uri = chosen.choice(["", "", "", "/", "/y", "/y/", "$request_uri"]) if has_uri else chosen.choice(["", "", "", "$request_uri"])
    user = chosen.choice([""] * 6 + ["proxy_set_header X-User $http_x; ", 'proxy_set_header X-User ""; ', "proxy_set_header X-User $remote_user; ", "proxy_set_header X-User $mapped; "])
    return f"{user}proxy_pass http://{servers[chosen.choice('ABC')]}{uri};"


def second(chosen, servers):
    """Another server of the same address, or none."""
    name = chosen.choice(["*.b.test", "b.test", "b.*", ".b.test", r"~^x\.b\.", "\"\"", "b.test *.b.test"])
    default = chosen.choice(["", "", "", " default_server"])
    inner = chosen.choice(["deny all; ", "", "", "return 403; ", "if ($http_x = 1) { return 403; } "])
    # A server that keeps somebody out under names that cannot be carried is no configuration to import.
    name = "b.test" if inner and name in ("b.*", r"~^x\.b\.") else name
    text = f"server {{ listen ADDRESS{default}; server_name {name}; {inner}location / {{ {passed(chosen, servers, False)} }} }}"
    return chosen.choice(["", "", text])


def condition(chosen):
    if chosen.random() < 0.25:
        return chosen.choice(BY_TABLE)
    return chosen.choice([
        "$http_x = 1", '$http_x = ""', '$http_x != ""', "$http_x", "$http_x ~ a", "$http_x ~* ^a$", "$http_user_agent ~* bot", "$arg_k = 1", "$arg_k",
        "$cookie_k = 1", "$request_method = POST", "$request_method = GET", "$request_method !~ ^(GET|HEAD)$", "$request_method ~ ^(PUT|POST)$",
        "$host = a.test", "$host = b.test", "$host != a.test", "$scheme = http", "$uri ~ ^/a", "$request_uri ~ a", "$remote_addr = 127.0.0.1", "$s = 1",
        "$s", "$http_host = a.test", "$request_method ~* post", "$args ~ k=1", "$args", "$query_string = k=1", "$is_args", "$content_type ~ json",
        "$http_cookie ~ k=1", "$http_authorization", '$http_authorization = ""', "$server_name = a.test", "$host ~ ^a", "$host ~* (a|b).test$",
        "$remote_addr ~ ^127.0.0.1", "$remote_user = u", "$request_uri = /a", "$request_uri !~ ^/(a|b)", "$uri = /a", "$http_x_forwarded_for ~ 10",
        "$http_x !~* ^(a|b)$", "$arg_k !~ ^[0-9]+$", "$document_uri ~ b", "$http_referer ~ a", "$http_x_y = 1", "$request = a", "$server_protocol = HTTP/1.0",
        "$https", "$cookie_K", "$arg_K = 1", "$http_content_length = 0",
    ])


def response(chosen):
    return chosen.choice([
        "return 403;", "return 403;", "return 404;", "return 200 ok;", "return 302 /r;", "return 301 http://b.test$request_uri;", "return 444;", "return 204;",
        "return 401;", "return 308 https://$host$uri;",
    ])


def ifs(chosen, servers, in_location):
    what = chosen.random()
    if in_location and what < 0.2:
        return f"if ({condition(chosen)}) {{ {passed(chosen, servers, False).split('; ')[-1]} }}"
    if what < 0.3:
        return f"if ({condition(chosen)}) {{ set $s {chosen.choice(['1', '2', '$http_x', '$s$arg_k'])}; }}"
    if in_location and what < 0.35:
        return f"if ({condition(chosen)}) {{ rewrite ^/a /z break; }}"
    if what < 0.4:
        return f"if ({condition(chosen)}) {{ rewrite {chosen.choice(['^/a', '^', '^/(.*)'])} /b {chosen.choice(['last', 'redirect', 'permanent'])}; }}"
    if what < 0.43:
        return f"if ({condition(chosen)}) {{ break; }}"
    return f"if ({condition(chosen)}) {{ {response(chosen)} }}"


ADDRESSES = [
    "deny all;", "allow 127.0.0.1; deny all;", "deny 127.0.0.1;", "deny ::/0;", "allow ::1; deny all;", "deny 127.0.0.2; allow 127.0.0.0/8; deny all;",
    "allow 127.0.0.0/30; deny all;", "allow all;", "allow 10.0.0.0/8; deny all;", "deny 127.0.0.8/29;", "allow 127.0.0.2; deny 127.0.0.0/24; allow all;",
]
PASSWORD = 'auth_basic "r"; auth_basic_user_file FOLDER/users;'

# Directives that may stand once in a block.
ONCE = ("limit_except", "internal", "satisfy", "try_files", "auth_basic", "auth_request", "error_page", "proxy_method", "rewrite", "proxy_intercept_errors")


def rule(chosen, servers):
    """One that stands in a location."""
    return chosen.choices([
        ifs(chosen, servers, True),
        chosen.choice(ADDRESSES),
        f"limit_except {chosen.choice(['GET', 'POST', 'GET POST'])} {{ {chosen.choice([*ADDRESSES, PASSWORD])} }}",
        f"set $s {chosen.choice(['1', '2', '$http_x'])};",
        f"rewrite {chosen.choice(['^/a/(.*)$', '^/a/(.*)', '^/(.*)', '^/a(/.*)?$'])} /q/$1 {chosen.choice(['break', 'break', 'last'])};",
        "internal;",
        f"satisfy {chosen.choice(['any', 'all'])};",
        chosen.choice(["try_files $uri =404;", "try_files $uri $uri/ /b;"]),
        chosen.choice([PASSWORD, PASSWORD, "auth_basic off;"]),
        "auth_request /sub;",
        chosen.choice(["error_page 403 /e;", "error_page 403 =200 /a;", "error_page 401 403 /b;", "error_page 404 = /b;"]),
        "proxy_method PUT;",
        "valid_referers none server_names a.test; if ($invalid_referer) { return 403; }",
    ], [40, 20, 15, 5, 6, 3, 6, 3, 10, 5, 5, 1, 3])[0]


HEADS = ["/", "/a", "/a/", "= /a", "^~ /a/", "~ ^/a", "~* ^/B", "~ a$", "~ ^/a.b$", "~ ^/[^/]+/b$", "/b", "= /", r"~ \.php$", "/@a/", "~ ^/@", "/a/b", "= /a/b", "^~ /", r"~* ^/(a|b)/", "~ /x", "= /e"]
INNER = {"/a": ["/a/b", "~ b$", "= /a/b", "/ab"], "/a/": ["/a/b", "~ b$", "= /a/b"], "/": ["/a", "~ a$", "= /b", r"~ \.php$"], "^~ /a/": ["/a/b", "~ b$"]}


def location(chosen, servers, head, depth=0):
    inner = {}
    for at in range(chosen.choice([0, 0, 1, 1, 2, 3])):
        text = rule(chosen, servers)
        name = text.split()[0].rstrip(";")
        inner[name if name in ONCE else at] = text
    within = ""
    if head in INNER and depth == 0 and chosen.random() < 0.15:
        within = location(chosen, servers, chosen.choice(INNER[head]), 1)
    is_expression = head.startswith("~")
    end = chosen.choice([passed(chosen, servers, not is_expression), passed(chosen, servers, False), passed(chosen, servers, False), response(chosen)])
    return f"location {head} {{ {' '.join(inner.values())} {within} {end} }}"


def server(chosen, servers):
    rules = {}
    for at in range(chosen.choice([0, 0, 0, 1, 1, 2])):
        text = chosen.choice([
            ifs(chosen, servers, False), ifs(chosen, servers, False), f"set $s {chosen.choice('12')};", chosen.choice(ADDRESSES), "rewrite ^/old /r permanent;",
            f"rewrite ^/a/(.*)$ /b/$1{chosen.choice([' last', ''])};", PASSWORD, "satisfy any;", "error_page 403 /e;", "error_page 404 /b;", "return 403;", "auth_request /sub;",
            "merge_slashes off;", "underscores_in_headers on;", "ignore_invalid_headers off;",
        ])
        rules[text.split()[0].rstrip(";") if not text.startswith(("if", "allow", "deny", "set")) else at] = text
    locations = {}
    for _ in range(chosen.choice([1, 2, 3, 4])):
        head = chosen.choice(HEADS)
        locations[head.replace("^~ ", "")] = location(chosen, servers, head)
    if any("auth_request" in text for text in [*rules.values(), *locations.values()]):
        answer = chosen.choice(["return 403;", "return 204;", f"proxy_pass http://{servers['C']};", "if ($http_x = 1) { return 403; } return 200;"])
        locations["= /sub"] = f"location = /sub {{ internal; {answer} }}"
    return " ".join([*rules.values(), *locations.values()])


# `u:p` and `u:x`.
FIELDS = [
    "Authorization: Basic dTpw", "Authorization: Basic dTp4", "Content-Type: application/json", "X_Y: 1", "X-Forwarded-For: 10.0.0.1", "Upgrade: x", "X-User: u",
    "Referer: http://a.test/", "Referer: http://z.test/",
]


def requests(chosen, site):
    named = re.findall(r"location (?:= |\^~ )?(/\S*)", site[0])
    # What nginx rewrites it makes one slash of several in first; here they go on as they are (docs/migration.md).
    is_rewritten = re.search(r"proxy_pass http://[^/;]+/|rewrite", site[0])
    paths = neighbours(sorted({"/", "/a", "/a/b", "/ab", "/b", "/x.php", "/@a/x", "/old", *named}))
    paths = [path for path in paths if not is_rewritten or "//" not in path]
    queries = ["?k=1", "?k=2&k=1", "?k=1&k=2", "?K=1", "?k=%31", "?k", "?k=", "?j=1&k=10.0.0.1", "?"]
    values = ["1", "a", "A", "0", "b", "bot/1", "k=1", "K=1", "j=1; k=1", "k=1; k=2", "a,b", "1, a", ""]
    has_password = "auth_basic" in site[0]
    for _ in range(REQUESTS):
        fields = [f"{chosen.choice(['X', 'X', 'x', 'User-Agent', 'Cookie', 'Y'])}: {chosen.choice(values)}" for _ in range(chosen.choice([0, 1, 1, 2]))]
        if chosen.random() < 0.2:
            fields.append(chosen.choice(FIELDS))
        if has_password and chosen.random() < 0.4:
            fields = [field for field in fields if not field.startswith("Authorization")] + [FIELDS[0]]
        path = chosen.choice(paths)
        if "?" not in path and chosen.random() < 0.15:
            path += chosen.choice(queries)
        method = chosen.choice(["GET", "GET", "GET", "POST", "HEAD", "PUT"])
        client = chosen.choice(["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.9"])
        yield Request(method, path, fields, chosen.choice(["a.test", "a.test", "a.test", "b.test", "x.b.test", "other", "A.test:80"]), client)
