#!/usr/bin/env bash
# Runs the kcat cases against the broker at BOOTSTRAP (host:port).
set -euo pipefail
: "${BOOTSTRAP:?set BOOTSTRAP to host:port}"
cases=0 failed=0

# Runs one case: its name, what must come out, and the command.
check() {
  local what=$1 expected=$2 actual
  shift 2
  cases=$((cases + 1))
  if actual=$("$@" 2>&1) && [ "$actual" = "$expected" ]; then
    echo "ok $what"
  else
    failed=$((failed + 1))
    printf 'FAILED %s\nexpected: %s\ngot: %s\n' "$what" "$expected" "$actual"
  fi
}

produce() { printf '%s\n' a b c | timeout 30 kcat -b "$BOOTSTRAP" -P -q -t "$1" -p 0 "${@:2}"; }
consume() { timeout 30 kcat -b "$BOOTSTRAP" -C -q -e -t "$1" -p 0 -o beginning "${@:2}"; }
list() { timeout 30 kcat -b "$BOOTSTRAP" -L -t "$1" | grep -c "topic \"$1\" with 1 partitions"; }
offset_at() { timeout 30 kcat -b "$BOOTSTRAP" -Q -t "$1:0:$2"; }

# Reads a topic as the only member of a group, which begins where it has committed.
group() { timeout 30 kcat -b "$BOOTSTRAP" -q -e -X auto.offset.reset=earliest -G "$2" "$1"; }

# TOPICS names topics that exist, one for each codec and one more: kcat cannot create any.
set -- ${TOPICS:?set TOPICS to five topic names}
check "produce" "" produce "$1"
check "consume" "$(printf 'a\nb\nc')" consume "$1"
check "keys and format" "$(printf '0:a\n1:b\n2:c')" consume "$1" -f '%o:%s\n'
check "consume as a group" "$(printf 'a\nb\nc')" group "$1" "kcat-$$"
check "consume on as a group" "" group "$1" "kcat-$$"
check "list" "1" list "$1"
check "query the end" "$1 [0] offset 3" offset_at "$1" -1
check "query the start" "$1 [0] offset 0" offset_at "$1" -2
for codec in gzip snappy lz4 zstd; do
  shift
  check "produce $codec" "" produce "$1" -z "$codec"
  check "consume $codec" "$(printf 'a\nb\nc')" consume "$1"
done
echo "cases $cases"
[ "$failed" -eq 0 ]
