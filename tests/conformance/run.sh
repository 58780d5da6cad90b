#!/usr/bin/env bash
# Runs Kafka's own compiled tests, each method against a broker that is started for it.
#
#   SHAREMARK_BIN=target/debug/sharemark tests/conformance/run.sh all
#   SHAREMARK_BIN=target/debug/sharemark tests/conformance/run.sh --select-class CLASS ...
#
# Other arguments than "all" are those of JUnit's console launcher, such as --select-method CLASS#METHOD. Without any
# it only builds. For each run of a method it prints one line that starts with "run".
#
# KAFKA_PEER    scripts/kafka-peer.sh: run them on a real Kafka 4.4 of one node instead
# METHODS       a file with the methods to run, one a line, named as in methods.tsv (all)
# THREADS       how many methods run at once (8)
# LOGS          folder for what the brokers say (a fresh one)
# ALL_TYPES     true: run what Kafka runs with separate and with combined controllers twice
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}/conformance
threads=${THREADS:-8}
logs=${LOGS:-$(mktemp -d "${TMPDIR:-/tmp}/conformance.XXXXXX")}
mkdir -p "$build" "$logs"
# Whoever comes while another builds waits for it, and finds it done.
exec 9>"$build/lock"
flock 9
if ! { find "$here/src" "$here/pom.xml" -type f -newer "$build/built" | grep -q .; } 2>/dev/null && [ -e "$build/built" ]; then :; else
  rm -rf "$build/classes" "$build/dependency"
  touch "$build/started"
  mvn -q -B -f "$here/pom.xml" "-Dsharemark.build=$build" compile dependency:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$build/dependency" >&2
  mv "$build/started" "$build/built"
fi
exec 9>&-
[ $# != 0 ] || exit 0
if [ "$1" = all ]; then
  set --
  for class in $(jar tf "$build"/dependency/kafka-clients-integration-tests-*-test.jar | grep 'Test\.class$' | tr / .) \
    kafka.server.ShareGroup{Heartbeat,Describe}RequestTest.class; do
    set -- "$@" --select-class "${class%.class}"
  done
fi
parallel=junit.jupiter.execution.parallel
# Tests that wait in the common pool must not keep each other from running, so it is larger than the machine.
exec java -Xmx1g -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto \
  -Djava.util.concurrent.ForkJoinPool.common.parallelism=64 -Dlog4j2.level=OFF -Dlog4j2.statusLoggerLevel=OFF \
  "-Dsharemark.logs=$logs" "-Dsharemark.types.all=${ALL_TYPES:-false}" \
  "-Dsharemark.methods=${METHODS:-}" \
  -cp "$build/classes:$build/dependency/*" org.junit.platform.console.ConsoleLauncher execute \
  --disable-banner --disable-ansi-colors --details=none \
  --config junit.jupiter.extensions.autodetection.enabled=true \
  --config junit.jupiter.execution.timeout.testtemplate.method.default=180s \
  --config $parallel.enabled=true --config $parallel.mode.default=concurrent \
  --config $parallel.config.strategy=fixed --config $parallel.config.fixed.parallelism="$threads" \
  --config $parallel.config.fixed.max-pool-size="$threads" \
  "$@"
