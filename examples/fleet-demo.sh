#!/usr/bin/env bash
# A fleet on this machine: three members of etcd, a Redis, three edges, and a balancer before them, on loopback addresses. Says what to paste, and ends
# with everything that it started on Ctrl-C. `./x fleet-demo` builds the program and runs this.
#
#   fleet-demo.sh PROGRAM          start, print commands, wait for Ctrl-C
#   fleet-demo.sh PROGRAM --try    start, run the commands, say whether each did what it should, end
set -euo pipefail

program=$(realpath "${1:?say where the program is: fleet-demo.sh target/release/portunus}")
mode=${2:-}
place=$(mktemp --directory --tmpdir portunus-fleet.XXXXXX)
# Tries may run beside each other and beside a demo.
net=127.40.0
[ "$mode" != --try ] || net=127.$((64 + RANDOM % 60)).$((1 + RANDOM % 250))
balancer=$net.100:8080
declare -A started=()

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

fail() {
  printf 'fleet-demo: %s\n' "$*" >&2
  exit 1
}

finish() {
  trap - EXIT INT TERM
  local name
  for name in load balancer edge-1 edge-2 edge-3 redis etcd-1 etcd-2 etcd-3; do stop "$name"; done
  wait 2>/dev/null || true
  rm -rf --one-file-system "$place"
}
trap finish EXIT
trap 'exit 0' INT TERM

# start NAME COMMAND...: in the background, its words in NAME.log.
start() {
  local name=$1
  shift
  "$@" >"$place/$name.log" 2>&1 </dev/null &
  started[$name]=$!
}

stop() {
  local pid=${started[$1]:-}
  [ -z "$pid" ] || kill -"${2:-TERM}" "$pid" 2>/dev/null || true
  unset "started[$1]"
}

# until_true WHAT COMMAND...: within a minute.
until_true() {
  local what=$1
  shift
  for _ in $(seq 300); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  tail --lines=5 "$place"/*.log >&2
  fail "not within a minute: $what"
}

etcd_member() {
  local number=$1 all
  all=$(for other in 1 2 3; do printf 'm%s=http://%s.%s:2380,' "$other" "$net" "$other"; done)
  start "etcd-$number" etcd --name "m$number" --data-dir "$place/etcd-$number" --initial-cluster "${all%,}" \
    --listen-peer-urls "http://$net.$number:2380" --initial-advertise-peer-urls "http://$net.$number:2380" \
    --listen-client-urls "http://$net.$number:2379" --advertise-client-urls "http://$net.$number:2379" \
    --auto-compaction-mode=revision --auto-compaction-retention=1000
}

node_file() {
  printf 'fleet:\n  etcd: ["http://%s.1:2379", "http://%s.2:2379", "http://%s.3:2379"]\n' "$net" "$net" "$net"
  printf '  prefix: /portunus/demo\n  node: %s\n  seal: { key_file: fleet.key }\n  cache: cache-%s\n' "$1" "$1"
}

edge() {
  local number=$1
  node_file "edge-$number" >"$place/edge-$number.yaml"
  start "edge-$number" env ADDRESS="$net.1$number" NODE="edge-$number" FOLDER="$place/edge-$number" PORTUNUS_CONTROL=none \
    "$program" run "$place/edge-$number.yaml"
}

# What the fleet serves. What differs from node to node is a variable.
write_site() {
  mkdir -p "$place/site"
  head --bytes=32 /dev/urandom | base64 >"$place/site/secret"
  cat >"$place/site/portunus.yaml" <<YAML
listeners:
  - { name: web, bind: "\${ADDRESS:-127.0.0.1}:8080" }
  - { name: https, bind: "\${ADDRESS:-127.0.0.1}:8443", tls: { keystore: public } }
admin: { bind: "\${ADDRESS:-127.0.0.1}:9090" }
keystores:
  public: { acme: { folder: "\${FOLDER:-/nowhere}", directory: internal, names: [www.demo.test] } }
rate_store: { address: "$net.4:6379", secret: { file: secret }, nodes: 3 }
policies:
  few: { rate_limit: { rate: 5/s, burst: 10, key: client, scope: fleet } }
routes:
  - { name: hello, path: /, respond: { status: 200, body: "version one, from \${NODE:-nobody}\n" } }
  - { name: few, path: /few, policies: [few], respond: { status: 200, body: "ok\n" } }
YAML
}

# Another program would do as well; this one takes an edge out that does not respond.
write_balancer() {
  cat >"$place/balancer.yaml" <<YAML
listeners: [{ name: balancer, bind: "$balancer" }]
upstreams:
  edges:
    servers: ["$net.11:8080", "$net.12:8080", "$net.13:8080"]
    health: { path: /readyz, port: 9090, interval: 500ms, fall: 1, rise: 1 }
routes: [{ path: "/{*rest}", upstream: edges }]
YAML
}

load() {
  while sleep 0.2; do curl --silent --output /dev/null "http://$balancer/?[1-40]" || true; done
}

begin() {
  say "three members of etcd, a Redis"
  for number in 1 2 3; do etcd_member "$number"; done
  start redis redis-server --bind "$net.4" --port 6379 --save "" --protected-mode no
  until_true "etcd serves" curl --silent --fail "http://$net.1:2379/health"
  write_site
  cd "$place"
  node_file operator >fleet.yaml
  export PORTUNUS_FLEET=$place/fleet.yaml
  "$program" fleet key fleet.key
  say "the first push, then three edges and a balancer"
  "$program" fleet push site/portunus.yaml --all >push.log
  for number in 1 2 3; do edge "$number"; done
  for number in 1 2 3; do until_true "edge-$number serves" curl --silent --fail "http://$net.1$number:9090/readyz"; done
  write_balancer
  start balancer env PORTUNUS_CONTROL=none "$program" run balancer.yaml
  until_true "the balancer serves" curl --silent --fail "http://$balancer/"
  load &
  started[load]=$!
  until_true "one certificate for all" same_certificate
  until_true "three nodes report" nodes_report 3
}

nodes_report() { [ "$("$program" fleet nodes --json | grep --count '"serving"')" -eq "$1" ]; }

fingerprint() {
  openssl s_client -connect "$1:8443" -servername www.demo.test </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256
}

same_certificate() {
  local one two three
  one=$(fingerprint "$net.11") && two=$(fingerprint "$net.12") && three=$(fingerprint "$net.13")
  [ -n "$one" ] && [ "$one" = "$two" ] && [ "$one" = "$three" ]
}

guide() {
  cat <<TEXT

Everything is in $place; Ctrl-C ends it. In another terminal:

  cd $place; export PORTUNUS_FLEET=$place/fleet.yaml
  alias portunus=$program

  # Who is there, and what the balancer gets
  portunus fleet nodes
  curl http://$balancer/

  # Push a change, and watch its roll-out: one node, then all
  sed -i 's/version one/version two/' site/portunus.yaml
  portunus fleet push site/portunus.yaml --watch 10

  # Poison it: the first node answers with errors, the roll-out halts, and the node goes back
  sed 's/status: 200, body: "version/status: 503, body: "version/' site/portunus.yaml >site/poisoned.yaml
  portunus fleet push site/poisoned.yaml --watch 60

  # Kill a node, and a member of etcd: nobody notices
  kill -9 ${started[edge-3]} ${started[etcd-1]}
  portunus fleet status; curl http://$balancer/

  # One certificate, ordered once, at all nodes; its authority is ca/ca.pem of a node's folder
  curl --cacert edge-1/ca/ca.pem --resolve www.demo.test:8443:$net.12 https://www.demo.test:8443/

  # A rate of 5 requests a second for the whole fleet: 429 beyond
  curl --silent --output /dev/null --write-out '%{http_code}\n' 'http://$balancer/few?[1-40]' | sort | uniq -c

TEXT
}

serves() { curl --silent "http://$1:8080/" | grep --quiet --fixed-strings "$2"; }

# expect WHAT TEXT COMMAND...: the command's words must hold the text, whatever its status.
expect() {
  local what=$1 text=$2 said
  shift 2
  said=$("$@" 2>&1) || true
  grep --quiet --fixed-strings -- "$text" <<<"$said" || fail "$what: expected \"$text\", got: $said"
  echo "ok: $what"
}

few() { curl --silent --output /dev/null --write-out '%{http_code}\n' "http://$balancer/few?[1-60]" | sort | uniq --count; }

try() {
  expect "the balancer gets the first version" "version one" curl --silent "http://$balancer/"
  sed -i 's/version one/version two/' site/portunus.yaml
  expect "a change is rolled out" ": everywhere" "$program" fleet push site/portunus.yaml --watch 2
  expect "the balancer gets the second version" "version two" curl --silent "http://$balancer/"
  sed 's/status: 200, body: "version/status: 503, body: "version/' site/portunus.yaml >site/poisoned.yaml
  expect "a poisoned change halts" "halted" "$program" fleet push site/poisoned.yaml --watch 60
  expect "what was served before is served" "version two" curl --silent "http://$balancer/"
  stop edge-3 KILL
  stop etcd-1 KILL
  for _ in 1 2 3 4 5 6; do expect "without an edge and a member of etcd" "version two" curl --silent --retry 3 "http://$balancer/"; done
  # A node counts as there until its lease has ended, and halts a roll-out that waits for it.
  until_true "the edge counts as gone" nodes_report 2
  sed -i 's/version two/version three/' site/portunus.yaml
  expect "a push without them" ": everywhere" "$program" fleet push site/portunus.yaml --watch 1
  edge 3
  until_true "the edge is back with what was pushed" serves "$net.13" "version three"
  expect "a certificate that one node ordered" "version three" curl --silent --cacert edge-1/ca/ca.pem \
    --resolve "www.demo.test:8443:$net.12" https://www.demo.test:8443/
  expect "a rate for the fleet" " 429" few
  echo "all of it did what it should"
}

for tool in etcd:etcd-server redis-server:redis-server curl:curl openssl:openssl; do
  command -v "${tool%%:*}" >/dev/null || fail "${tool%%:*} is needed: the Debian package ${tool##*:}"
done
begin
if [ "$mode" = --try ]; then
  try
else
  guide
  while sleep 1; do :; done
fi
