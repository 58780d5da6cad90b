#!/usr/bin/env bash
# Runs a Kafka Connect worker, distributed and exactly once, against the broker at BOOTSTRAP (host:port).
#
#   run.sh fetch      copies the worker's jars into the cache folder
#   run.sh PORT       runs a worker whose REST interface listens on that port of 127.0.0.1
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}
jars=$cache/connect-4.4.0

# The newest file connectors that are published. They are a plug-in with a class loader of its own, and bring the clients
# that they were built with, since the worker's lack a class that they ask for.
connectors=4.3.1

fetch() {
  mkdir -p "$cache"
  local fresh
  fresh=$(mktemp -d "$cache/fetch.XXXXXX")
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$fresh/worker"
  for artifact in connect-file kafka-clients; do
    mvn -q -B -f "$here/pom.xml" dependency:copy "-Dartifact=org.apache.kafka:$artifact:$connectors" \
      -DoutputDirectory="$fresh/plugins/file"
  done
  cat "$here/pom.xml" "$here/run.sh" >"$fresh/complete"
  rm -rf "$jars"
  mv -T "$fresh" "$jars"
}

cat "$here/pom.xml" "$here/run.sh" | cmp -s - "$jars/complete" || fetch >&2
[ "${1:?give fetch or a port}" = fetch ] && exit

folder=$(mktemp -d "${TMPDIR:-/tmp}/connect-worker.XXXXXX")
cat >"$folder/worker.properties" <<PROPERTIES
bootstrap.servers=${BOOTSTRAP:?set BOOTSTRAP to host:port}
listeners=http://127.0.0.1:$1
group.id=connect-workers
plugin.path=$jars/plugins
exactly.once.source.support=enabled
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=connect-configs
config.storage.replication.factor=1
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions=3
status.storage.topic=connect-status
status.storage.replication.factor=1
status.storage.partitions=1
offset.flush.interval.ms=1000
session.timeout.ms=10000
heartbeat.interval.ms=1000
PROPERTIES
java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto \
  "-Dlog4j2.configurationFile=$here/log4j2.properties" -cp "$jars/worker/*" \
  org.apache.kafka.connect.cli.ConnectDistributed "$folder/worker.properties" &
worker=$!
trap 'kill "$worker" 2>/dev/null || true' TERM INT
wait "$worker" || wait "$worker" || true # The first wait ends with the signal, the second with the worker.
rm -rf "$folder"
