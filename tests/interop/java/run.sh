#!/usr/bin/env bash
# Runs the Java cases against the broker at BOOTSTRAP (host:port). Arguments name cases; none means all.
# CONTROL, if set, is the address of its control endpoint; cases that use one run then, too.
# NODES, if set beside it, says how many nodes there are, which some cases then let fail.
# EXPECT_UNKNOWN_KEYS, if set, lists the API keys unknown to Kafka 4.4 that the broker must announce.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}/interop-java
: "${BOOTSTRAP:?set BOOTSTRAP to host:port}"
mkdir -p "$build"
# Whoever comes while another builds waits for it, and finds it done.
exec 9>"$build/lock"
flock 9
if ! { find "$here/src" "$here/pom.xml" -type f -newer "$build/built" | grep -q .; } 2>/dev/null && [ -e "$build/built" ]; then :; else
  touch "$build/started"
  mvn -q -B -f "$here/pom.xml" "-Dsharemark.build=$build" compile dependency:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$build/dependency" >&2
  mv "$build/started" "$build/built"
fi
exec 9>&-
exec java -Xmx192m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto \
  -cp "$build/classes:$build/dependency/*" sharemark.interop.Main "$@"
