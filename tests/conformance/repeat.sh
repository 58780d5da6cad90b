#!/usr/bin/env bash
# Runs Kafka's own tests RUNS times and prints for each method how many of its runs passed.
#
#   SHAREMARK_BIN=target/debug/sharemark tests/conformance/repeat.sh RUNS ARGUMENTS-OF-run.sh...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
runs=${1:?say how many runs}
shift
lines=$(mktemp "${TMPDIR:-/tmp}/conformance-runs.XXXXXX")
trap 'rm -f "$lines"' EXIT
for run in $(seq "$runs"); do
  # A failed test is counted, and does not end the runs.
  { "$here/run.sh" "$@" || true; } | sed 's/^\(\x1b\[0m\)*//' | grep -a '^run' >"$lines.one"
  echo "run $run: $(cut -f4 "$lines.one" | sort | uniq -c | xargs)" >&2
  cat "$lines.one" >>"$lines"
  rm -f "$lines.one"
done
awk -F'\t' '{ all[$2]++; if ($4 == "successful") passed[$2]++; else if ($6 != "") why[$2] = $6 }
  END { for (name in all) printf "%d of %d\t%s\t%s\n", passed[name], all[name], name, why[name] }' "$lines" | sort -t "$(printf '\t')" -k2
