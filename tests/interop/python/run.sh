#!/usr/bin/env bash
# Runs the Python cases against the broker at BOOTSTRAP (host:port). Arguments name cases; none means all.
# CONTROL, if set, is the address of its control endpoint; cases that use one run then, too.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${BOOTSTRAP:?set BOOTSTRAP to host:port}"
environment=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}/interop-python
if ! cmp -s "$here/requirements.txt" "$environment/requirements.txt"; then
  python3 -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2
  cp "$here/requirements.txt" "$environment/requirements.txt"
fi
exec "$environment/bin/python" "$here/cases.py" "$@"
