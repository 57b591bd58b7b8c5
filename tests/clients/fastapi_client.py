"""Calls of an application's own document by its users' libraries. Usage: fastapi_client.py requests|httpx URL; exits with 0 if all went well."""

import sys

from calls import session_of


def main(library, base):
    session = session_of(library)
    different = []

    def expect(status, method, target, **what):
        response = session.request(method, base + target, timeout=60, **what)
        if response.status_code != status:
            different.append(f"{method} {target} {what}: {response.status_code} instead of {status}: {response.text[:300]}")
        return response

    item = {"name": "Ä book", "kind": "toy", "price": {"amount": "12.50", "currency": "EUR"}, "tags": ["a", "b,c"], "released": "2026-01-31"}
    key = {"api_key": "secret"}
    stored = expect(201, "POST", "/items", json=item, headers=key).json()
    expect(201, "POST", "/items", json={"name": "x", "price": {"amount": 3, "currency": "USD"}, "note": None}, headers=key)
    expect(403, "POST", "/items", json=item, headers={"api_key": "other"})
    expect(200, "GET", "/items")
    found = expect(200, "GET", "/items", params={"limit": 5, "tags": ["a", "b,c"], "kind": "toy"})
    if found.json() != [stored]:
        different.append(f"other items: {found.text}")
    expect(200, "GET", "/items", params={"since": "2026-01-01T10:00:00+00:00"}, headers={"trace": "t", "cookie": "session=s"})
    expect(200, "GET", f"/items/{stored['id']}")
    expect(404, "GET", "/items/00000000-0000-4000-8000-000000000000")
    expect(200, "POST", "/form", data={"name": "Ä b", "age": "3"})
    expect(200, "POST", "/upload", files={"picture": ("p.png", bytes(100_000), "image/png")}, data={"title": "t"})
    expect(204, "DELETE", f"/items/{stored['id']}")
    # What the application would reject is rejected before it.
    expect(400, "GET", "/items", params={"limit": 0})
    expect(400, "GET", "/items/x")
    expect(400, "POST", "/items", json={**item, "price": {"amount": 1, "currency": "eur"}}, headers=key)
    expect(400, "POST", "/items", json={**item, "more": 1}, headers=key)
    expect(400, "POST", "/items", json=item)
    expect(400, "POST", "/items", json=item, headers={"api-key": "secret"})
    expect(400, "POST", "/items", json=item, headers={**key, "api-key": "secret"})
    expect(400, "POST", "/form", data={"name": "x" * 21})
    sys.exit("\n".join(different) or None)


main(*sys.argv[1:])
