#!/usr/bin/env bash
# Runs the Node.js cases against the broker at BOOTSTRAP (host:port). Arguments name cases; none means all.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${BOOTSTRAP:?set BOOTSTRAP to host:port}"
packages=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}/interop-node
if ! cmp -s "$here/package-lock.json" "$packages/installed"; then
  mkdir -p "$packages"
  cp "$here/package.json" "$here/package-lock.json" "$packages"
  (cd "$packages" && npm ci --silent --no-audit --no-fund --no-update-notifier >&2)
  cp "$here/package-lock.json" "$packages/installed"
fi
cp "$here"/*.mjs "$packages" # Node.js looks for packages beside the program.
exec node "$packages/cases.mjs" "$@"
