"""chart.py HELM PORTUNUS [PYTHON_PACKAGES]: lints the Helm chart, renders it with several sets of values, and has what comes out validated: the objects by the
schemas of Kubernetes (kubernetes-validate, if it is there), the configuration by `portunus check`. Prints one line for each thing that was seen."""

import os
import re
import subprocess
import sys
import tempfile

CHART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../packaging/helm")
VERSION = "1.29"

# Name, values, what must stand in the outcome.
RENDERED = [
    ("as it is", "", ["runAsNonRoot: true", "readOnlyRootFilesystem: true", "minAvailable: 1"]),
    ("with certificates and documents", """
tlsSecrets: [shop, api.example]
replicas: 1
admin: { existingSecret: own }
extraVolumes: [{ name: documents, configMap: { name: documents } }]
extraVolumeMounts: [{ name: documents, mountPath: /etc/documents }]
service: { type: LoadBalancer, ports: [{ name: https, port: 443, targetPort: 8443 }] }
config:
  listeners: [{ name: https, bind: ":8443", tls: { keystore: main } }]
  keystores: { main: { folder: /etc/portunus-keys/shop, default: shop.example.com } }
""", ["mountPath: /etc/portunus-keys/api.example", "name: tls-api-example", "secretName: own", "containerPort: 8443"]),
]
# Values that are not taken, and a part of what is said.
REJECTED = [
    ("a port that needs a privilege", "service: { ports: [{ name: http, port: 80, targetPort: 80 }] }", "targetPort"),
    ("an admin listener of its own", "config: { admin: { bind: '0.0.0.0:1' } }", "config"),
    ("a key that it does not know", "replica: 3", "replica"),
]
failed = False


def holds(what, outcome, said=""):
    global failed
    if outcome:
        print(f"test result: ok. 1 passed; 0 failed; 0 ignored; chart: {what}")
    else:
        failed = True
        print(f"{said}\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; chart: {what}")


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def configuration(rendered):
    """portunus.yaml out of the ConfigMap."""
    found = re.search(r"  portunus\.yaml: \|\n((?:    .*\n|\n)+)", rendered).group(1)
    return re.sub(r"^    ", "", found, flags=re.MULTILINE)


def check(portunus, folder, text):
    """The files that a pod would have are made below `folder`."""
    keys = os.path.join(folder, "keys")
    run(portunus, "demo", "--prepare-only", "--dir", os.path.join(folder, "demo"))
    os.rename(os.path.join(folder, "demo/keys"), keys)
    for name, content in (("token", "0123456789abcdef"), ("welcome.html", "<p>welcome</p>")):
        with open(os.path.join(folder, name), "w") as file:
            file.write(content)
    for there, here in (("/etc/portunus-admin/token", "token"), ("/etc/portunus-keys/shop", "keys"), ("/usr/share/portunus/welcome.html", "welcome.html")):
        text = text.replace(there, os.path.join(folder, here))
    text = text.replace("shop.example.com", "www.portunus.test")
    place = os.path.join(folder, "portunus.yaml")
    with open(place, "w") as file:
        file.write(text)
    return run(portunus, "check", place)


def template(helm, folder, values):
    """The chart with these values, which are put into `folder`."""
    place = os.path.join(folder, "values.yaml")
    with open(place, "w") as file:
        file.write(values)
    return run(helm, "template", "edge", CHART, "--values", place)


def validate(packages, rendered):
    program = (
        "import sys, yaml, kubernetes_validate\n"
        "for one in yaml.safe_load_all(sys.stdin):\n"
        f"    one and kubernetes_validate.validate(one, {VERSION!r}, strict=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=rendered, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=packages))
    return done.returncode == 0, done.stderr


def main():
    helm, portunus = sys.argv[1:3]
    packages = sys.argv[3] if len(sys.argv) > 3 else None
    holds("helm lint finds nothing", *run(helm, "lint", "--strict", CHART))
    for name, values, parts in RENDERED:
        with tempfile.TemporaryDirectory() as folder:
            ok, rendered = template(helm, folder, values)
            missing = [part for part in parts if part not in rendered]
            holds(f"is rendered {name}", ok and not missing, f"{missing}\n{rendered}")
            if not ok:
                continue
            holds(f"its configuration loads, {name}", *check(portunus, folder, configuration(rendered)))
            if packages:
                holds(f"Kubernetes {VERSION} takes it {name}", *validate(packages, rendered))
            else:
                print("test result: ok. 0 passed; 0 failed; 1 ignored; chart: the schemas of Kubernetes cannot be had")
    for name, values, part in REJECTED:
        with tempfile.TemporaryDirectory() as folder:
            ok, said = template(helm, folder, values)
            holds(f"rejects {name}", not ok and part in said, said)
    sys.exit(failed)


main()
