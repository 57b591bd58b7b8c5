"""Requests that schemathesis makes of a document, through a running gate under that document: what it says is valid must pass, what it says is
invalid must be refused by the gate itself. Usage: contract.py DOCUMENT URL EXAMPLES. Prints what was wrong; its exit status says whether anything was."""

import sys

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

document, url, examples = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(document, encoding="utf-8") as text:
    takes_key = "X-Api-Key" in text.read()
counts = {"valid": 0, "invalid": 0}
wrong = []

# Put on every refusal of the gate's by its configuration, and on nothing else.
REFUSED = "contract-status"

# What requests itself cannot carry: then it was never sent.
UNSENT = (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeEncodeError, ValueError)


def judge(case, mode):
    if mode == GenerationMode.POSITIVE and takes_key:
        # An empty key, which is made too, is none.
        case.headers = {**(case.headers or {}), "X-Api-Key": "key"}
    try:
        response = case.call(base_url=url, timeout=20)
    except UNSENT:
        return
    refused = REFUSED in response.headers
    if mode == GenerationMode.POSITIVE:
        counts["valid"] += 1
        if refused:
            wrong.append(("valid, refused", case, response))
    else:
        counts["invalid"] += 1
        if not refused and response.status_code not in (400, 404, 405, 414, 431):
            wrong.append(("invalid, passed", case, response))


def run(operation, mode):
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=examples, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def test(case):
        judge(case, mode)

    try:
        test()
    except schemathesis.errors.SchemathesisError as error:
        # An operation whose input cannot be invalid has no invalid requests.
        print(f"{operation.label}: {mode}: {error}", file=sys.stderr)


schema = schemathesis.openapi.from_path(document)
for result in schema.get_all_operations():
    operation = result.ok()
    run(operation, GenerationMode.POSITIVE)
    run(operation, GenerationMode.NEGATIVE)

for what, case, response in wrong[:20]:
    request = response.request
    body = request.body[:300] if request.body else b""
    told = response.headers.get(REFUSED, "")
    print(f"{what}: {request.method} {request.url} {dict(request.headers)} {body!r}: {response.status_code} {told}")
print(f"{counts['valid']} valid, {counts['invalid']} invalid, {len(wrong)} judged otherwise")
sys.exit(1 if wrong or counts["valid"] < examples or counts["invalid"] < examples else 0)
