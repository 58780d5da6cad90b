#!/usr/bin/env bash
# Runs the franz-go cases against the broker at BOOTSTRAP (host:port). Arguments name cases; none means all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
: "${BOOTSTRAP:?set BOOTSTRAP to host:port}"
program=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}/interop-go
mkdir -p "$(dirname "$program")"
go build -o "$program" .
exec "$program" "$@"
