#!/usr/bin/env bash
# Runs the tests that franz-go's own package brings, at the version in go.mod, against the broker at BOOTSTRAP
# (host:port). The arguments go to the test program: -test.run PATTERN chooses tests. "build" only builds it.
# RECORDS says how many records most of them write (50000), CHAOS=1 has them cut connections and move groups.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
program=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}/interop-go-client-tests
mkdir -p "$(dirname "$program")"
go test -c -o "$program.$$" github.com/twmb/franz-go/pkg/kgo
mv "$program.$$" "$program" # At once, as several of these may run side by side.
[ "${1:-}" = build ] && exit
cd "$(go list -f '{{.Dir}}' github.com/twmb/franz-go/pkg/kgo)" # Some tests read the package's own source.
KGO_SEEDS=${BOOTSTRAP:?set BOOTSTRAP to host:port} KGO_TEST_RF=1 KGO_TEST_RECORDS=${RECORDS:-50000} \
  KGO_TEST_CHAOS=${CHAOS:-0} exec "$program" -test.v "$@"
