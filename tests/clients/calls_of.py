"""What clients call of the applications that `rows_contract` puts under their own documents: data, made into requests by each library as its users do.

A call has a method, a path (`{id}`: what an earlier response had, see `keep`), a `query`, `headers`, and `json`, a `form` or a form with a `file`; then the status
that the client gets, the reason code if it is rejected before the application, what of the response is kept, and how many items it has (`found`)."""


def call(method, path, status, code="", **more):
    return {"method": method, "path": path, "status": status, "code": code, **more}


TOKEN = {"Authorization": "Bearer any"}
PET = {"name": "Änne", "kind": "cat", "age": 3, "tags": ["a", "b,c"], "note": None, "owner": {"name": "O", "mail": "o@example.com"}}
SALE = {"amount": 12.5, "currency": "EUR", "payment": {"kind": "card", "token": "tok_0123abcd"}}
LOGIN = [["user", "Ä b"], ["password", "long enough&=+%"]]
PICTURE = {"field": "picture", "name": "é.png", "type": "image/png", "bytes": 100_000}

NESTJS = [
    call("POST", "/pets", 201, json={"name": "x", "kind": "dog", "age": 0}, headers=TOKEN, keep="id"),
    call("DELETE", "/pets/{id}", 204, headers={"X-Api-Key": "key"}),
    call("POST", "/pets", 201, json=PET, headers=TOKEN, keep="id"),
    call("GET", "/pets", 200, found=1),
    call("GET", "/pets", 200, query=[["limit", "1"]], found=1),
    call("GET", "/pets", 200, query=[["tags", "a"], ["tags", "b,c"], ["born_after", "2026-01-31"]], found=1),
    call("GET", "/pets", 200, query=[["filter[kind]", "dog"], ["filter[min_age]", "0"]], headers={"X-Trace": "00ff"}, found=0),
    call("GET", "/pets/{id}", 200),
    call("GET", "/pets/00000000-0000-4000-8000-000000000000", 404),
    call("PATCH", "/pets/{id}", 200, json={"age": 4}, headers=TOKEN),
    call("POST", "/sales", 200, json=SALE),
    call("POST", "/sales", 200, json={**SALE, "amount": 1, "payment": {"kind": "transfer", "iban": "DE02120300000000202051"}}),
    call("POST", "/login", 200, form=LOGIN),
    call("POST", "/login", 200, form=[*LOGIN, ["remember", "on"]]),
    call("POST", "/pictures", 200, form=[["title", "tïtle"]], file=PICTURE),
    call("GET", "/report", 200),
    call("GET", "/report", 200, headers={"Accept": "text/csv, */*;q=0.1"}),
    # Each wrong in one thing.
    call("GET", "/pets", 400, "maximum", query=[["limit", "101"]]),
    call("GET", "/pets", 400, "type", query=[["limit", "ten"]]),
    call("GET", "/pets", 400, "parameter_repeated", query=[["limit", "1"], ["limit", "2"]]),
    call("GET", "/pets", 400, "format", query=[["born_after", "31.1.2026"]]),
    call("GET", "/pets", 400, "enum", query=[["filter[kind]", "bird"]]),
    call("GET", "/pets", 400, "parameter_undeclared", query=[["page", "1"]]),
    call("GET", "/pets", 400, "pattern", headers={"X-Trace": "xyz"}),
    call("POST", "/pets", 401, "security_missing", json=PET),
    call("POST", "/pets", 400, "enum", json={**PET, "kind": "bird"}, headers=TOKEN),
    call("POST", "/pets", 400, "type", json={**PET, "age": "3"}, headers=TOKEN),
    call("POST", "/pets", 400, "type", json={**PET, "age": 3.5}, headers=TOKEN),
    call("POST", "/pets", 400, "type", json={**PET, "name": None}, headers=TOKEN),
    call("POST", "/pets", 400, "max_items", json={**PET, "tags": list("abcdef")}, headers=TOKEN),
    call("POST", "/pets", 400, "required", json={"name": "x", "kind": "dog"}, headers=TOKEN),
    call("POST", "/pets", 400, "format", json={**PET, "owner": {"name": "O", "mail": "nobody"}}, headers=TOKEN),
    call("POST", "/pets", 400, "unknown_field", json={**PET, "admin": True}, headers=TOKEN),
    call("POST", "/pets", 400, "unknown_field", json={**PET, "owner": {"name": "O", "role": "root"}}, headers=TOKEN),
    call("POST", "/pets", 415, "content_type_undeclared", form=[["name", "x"]], headers=TOKEN),
    call("POST", "/pets", 400, "body_missing", headers=TOKEN),
    call("PATCH", "/pets/{id}", 400, "maximum", json={"age": 41}, headers=TOKEN),
    call("PUT", "/pets/{id}", 405, "method_undeclared", json=PET, headers=TOKEN),
    call("GET", "/dogs", 404, "path_undeclared"),
    call("POST", "/sales", 400, "minimum", json={**SALE, "amount": 0}),
    call("POST", "/sales", 400, "multiple_of", json={**SALE, "amount": 0.001}),
    call("POST", "/sales", 400, "pattern", json={**SALE, "currency": "eur"}),
    call("POST", "/sales", 400, "enum", json={**SALE, "payment": {"kind": "cash"}}),
    call("POST", "/sales", 400, "required", json={**SALE, "payment": {"kind": "card", "iban": "DE02120300000000202051"}}),
    call("POST", "/login", 400, "min_length", form=[["user", "u"], ["password", "short"]]),
    call("POST", "/login", 400, "required", form=[["user", "u"]]),
    call("POST", "/login", 415, "content_type_undeclared", json={"user": "u", "password": "long enough"}),
    call("POST", "/pictures", 400, "max_length", form=[["title", "t" * 21]], file=PICTURE),
    call("POST", "/pictures", 415, "part_content_type", form=[["title", "t"]], file={**PICTURE, "field": "image"}),
    call("DELETE", "/pets/{id}", 401, "security_missing"),
    # What was rejected has changed nothing.
    call("GET", "/pets", 200, found=1),
    call("DELETE", "/pets/{id}", 204, headers={"X-Api-Key": "key"}),
    call("GET", "/pets/{id}", 404),
]

ITEM = {"name": "Ä book", "kind": "toy", "price": {"amount": "12.50", "currency": "EUR"}, "tags": ["a", "b,c"], "released": "2026-01-31"}
KEY = {"api_key": "secret"}

FASTAPI = [
    call("POST", "/items", 201, json={"name": "x", "price": {"amount": 3, "currency": "USD"}, "note": None}, headers=KEY, keep="id"),
    call("DELETE", "/items/{id}", 204),
    call("POST", "/items", 201, json=ITEM, headers=KEY, keep="id"),
    # A rejection of the application's own.
    call("POST", "/items", 403, json=ITEM, headers={"api_key": "other"}),
    call("GET", "/items", 200, found=1),
    call("GET", "/items", 200, query=[["limit", "5"], ["tags", "a"], ["tags", "b,c"], ["kind", "toy"]], found=1),
    call("GET", "/items", 200, query=[["since", "2026-01-01T10:00:00+00:00"]], headers={"trace": "t", "Cookie": "session=s"}, found=1),
    call("GET", "/items/{id}", 200),
    call("GET", "/items/00000000-0000-4000-8000-000000000000", 404),
    call("POST", "/form", 200, form=[["name", "Ä b"], ["age", "3"]]),
    call("POST", "/upload", 200, form=[["title", "t"]], file=PICTURE),
    call("GET", "/items", 400, "minimum", query=[["limit", "0"]]),
    call("GET", "/items", 400, "enum", query=[["kind", "car"]]),
    call("GET", "/items", 400, "format", query=[["since", "yesterday"]]),
    call("GET", "/items", 400, "parameter_undeclared", query=[["page", "1"]]),
    call("GET", "/items/x", 400, "format"),
    call("POST", "/items", 400, "pattern", json={**ITEM, "price": {"amount": 1, "currency": "eur"}}, headers=KEY),
    call("POST", "/items", 400, "minimum", json={**ITEM, "price": {"amount": 0, "currency": "EUR"}}, headers=KEY),
    call("POST", "/items", 400, "format", json={**ITEM, "released": "31.1.2026"}, headers=KEY),
    call("POST", "/items", 400, "unknown_field", json={**ITEM, "more": 1}, headers=KEY),
    call("POST", "/items", 400, "required", json={"name": "x"}, headers=KEY),
    call("POST", "/items", 400, "parameter_missing", json=ITEM),
    call("POST", "/items", 400, json=ITEM, headers={**KEY, "api-key": "secret"}),
    call("POST", "/form", 400, "max_length", form=[["name", "x" * 21]]),
    call("POST", "/form", 400, "type", form=[["name", "x"], ["age", "old"]]),
    call("POST", "/upload", 415, "part_content_type", form=[["title", "t"]], file={**PICTURE, "field": "image"}),
    call("PUT", "/items/{id}", 405, "method_undeclared", json=ITEM),
    call("GET", "/items", 200, found=1),
    call("DELETE", "/items/{id}", 204),
    call("GET", "/items/{id}", 404),
]
