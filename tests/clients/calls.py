"""Calls of an API by its users' libraries. Usage: calls.py requests|httpx URL < CALLS; exits with 0 if each went as the list says (calls_of.py)."""

import json
import sys


def session_of(library):
    """A session of this library that takes nothing from the environment."""
    if library == "requests":
        import requests as http

        session = http.Session()
        session.trust_env = False
        return session
    import httpx

    return httpx.Client(trust_env=False)


def main(library, base):
    session = session_of(library)
    kept, different = {}, []
    for call in json.loads(sys.stdin.read().encode()):
        what = {"headers": call.get("headers", {}), "timeout": 60}
        if "query" in call:
            what["params"] = [tuple(pair) for pair in call["query"]]
        if "json" in call:
            what["json"] = call["json"]
        if "form" in call:
            what["data"] = dict(call["form"])
        if "file" in call:
            one = call["file"]
            what["files"] = {one["field"]: (one["name"], b"\x89PNG" * (one["bytes"] // 4), one["type"])}
        response = session.request(call["method"], base + call["path"].format(**kept), **what)
        code = ""
        if "application/problem+json" in response.headers.get("content-type", ""):
            code = response.json().get("code", "")
        if (response.status_code, code) != (call["status"], call.get("code", "")):
            different.append(f"{call}: {response.status_code} {response.text[:300]}")
        elif "keep" in call:
            kept[call["keep"]] = response.json()[call["keep"]]
        elif "found" in call and len(response.json()) != call["found"]:
            different.append(f"{call}: {response.text[:300]}")
    sys.exit("\n".join(different) or None)


if __name__ == "__main__":
    main(*sys.argv[1:])
