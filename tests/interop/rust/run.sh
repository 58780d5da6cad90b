#!/usr/bin/env bash
# Runs the krafka cases against the broker at BOOTSTRAP (host:port). Arguments name cases; none means all.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${BOOTSTRAP:?set BOOTSTRAP to host:port}"
target=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}/interop-rust
CARGO_TARGET_DIR=$target cargo build --quiet --locked --manifest-path "$here/Cargo.toml" >&2
exec "$target/debug/interop" "$@"
