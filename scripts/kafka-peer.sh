#!/usr/bin/env bash
# Runs a real Kafka 4.4 broker (KRaft, one node) on free loopback ports, for comparison with Sharemark.
#
#   scripts/kafka-peer.sh fetch        copies the broker's jars into the cache folder
#   scripts/kafka-peer.sh run          starts one, prints "ready bootstrap=HOST:PORT pid=PID", and ends it
#                                      when standard input closes or a signal comes
#   scripts/kafka-peer.sh classpath    prints the class path of the jars
#   scripts/kafka-peer.sh tool CLASS ARGS...   runs a console tool, such as org.apache.kafka.tools.TopicCommand
#
# KAFKA_PEER_PROPERTIES  more broker properties, separated by semicolons
# KAFKA_PEER_FEATURES    features to format with, separated by blanks (share.version=1 ...)
# KAFKA_PEER_LOG         a file for the broker's log (default: in its folder, gone when it ends)
# KAFKA_PEER_HEAP        heap size (64m)
# KAFKA_PEER_NODE_ID     id of the node (1)
set -euo pipefail

version=4.4.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${SHAREMARK_CACHE:-$HOME/.cache/sharemark}
jars=$cache/kafka-$version
pom=$here/tests/java/peer/pom.xml
heap=${KAFKA_PEER_HEAP:-64m}
node_id=${KAFKA_PEER_NODE_ID:-1}

fetch() {
  [ -e "$jars/complete" ] && cmp -s "$pom" "$jars/complete" && return 0
  mkdir -p "$cache"
  local fresh
  fresh=$(mktemp -d "$cache/fetch.XXXXXX")
  if ! mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$fresh" >&2; then
    rm -rf "$fresh"
    return 1
  fi
  cp "$pom" "$fresh/complete"
  rm -rf "$jars"
  mv -T "$fresh" "$jars"
}

free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}

write_properties() {
  local port=$1 controller=$2
  cat <<PROPERTIES
process.roles=broker,controller
node.id=$node_id
controller.quorum.voters=$node_id@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
controller.listener.names=CONTROLLER
log.dirs=$folder/data
log.cleaner.dedupe.buffer.size=4194304
PROPERTIES
  cat "$here/tests/transcripts/broker.properties"
  printf '%s\n' "${KAFKA_PEER_PROPERTIES:-}" | tr ';' '\n'
}

# Stops the broker that this script started, and nothing else.
stop() {
  trap - EXIT INT TERM HUP
  if [ -n "${broker:-}" ] && kill -0 "$broker" 2>/dev/null; then
    kill "$broker" 2>/dev/null || true
    for _ in $(seq 100); do
      kill -0 "$broker" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "$broker" 2>/dev/null || true
    wait "$broker" 2>/dev/null || true
  fi
  rm -rf "$folder"
}

run() {
  fetch
  folder=$(mktemp -d "${TMPDIR:-/tmp}/kafka-peer.XXXXXX")
  trap 'stop; exit 0' INT TERM HUP
  trap stop EXIT
  local port controller log archive options features=()
  port=$(free_port)
  controller=$(free_port)
  log=${KAFKA_PEER_LOG:-$folder/broker.log}
  archive=$cache/kafka-$version.jsa
  write_properties "$port" "$controller" >"$folder/server.properties"
  options="-Xms$heap -Xmx$heap -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile=$here/tests/java/peer/log4j2.properties"
  for feature in ${KAFKA_PEER_FEATURES:-}; do features+=(--feature "$feature"); done
  # Class data sharing saves more than a second of each start; the first orderly stop writes the archive.
  if [ -e "$archive" ]; then
    options="$options -Xshare:auto -XX:SharedArchiveFile=$archive"
  else
    options="$options -XX:ArchiveClassesAtExit=$folder/classes.jsa -Xlog:disable -Xlog:all=error:stderr"
  fi
  # shellcheck disable=SC2086
  java $options -cp "$jars/*" kafka.tools.StorageTool format --cluster-id "$cluster" \
    --config "$folder/server.properties" "${features[@]}" >"$folder/format.log" 2>&1 || {
    cat "$folder/format.log" >&2
    exit 1
  }
  rm -f "$folder/classes.jsa"
  # shellcheck disable=SC2086
  java $options -cp "$jars/*" kafka.Kafka "$folder/server.properties" >"$log" 2>&1 </dev/null &
  broker=$!
  for _ in $(seq 600); do
    grep -q 'Kafka Server started' "$log" && break
    if ! kill -0 "$broker" 2>/dev/null; then
      cat "$log" >&2
      exit 1
    fi
    sleep 0.1
  done
  grep -q 'Kafka Server started' "$log" || { cat "$log" >&2; exit 1; }
  echo "ready bootstrap=127.0.0.1:$port pid=$broker"
  while read -r _; do :; done
  stop_and_keep_archive "$archive"
}

# An orderly stop writes the archive of classes, if there was none; keep it for the next start.
stop_and_keep_archive() {
  kill "$broker" 2>/dev/null || true
  for _ in $(seq 300); do
    kill -0 "$broker" 2>/dev/null || break
    sleep 0.1
  done
  [ -e "$folder/classes.jsa" ] && mv "$folder/classes.jsa" "$1"
  return 0
}

cluster=4L6g3nShT-eMCtK--X86sw
case ${1:-run} in
  fetch) fetch ;;
  run) run ;;
  classpath) fetch; printf '%s/*\n' "$jars" ;;
  tool) fetch; shift; exec java -Xmx128m -XX:TieredStopAtLevel=1 -Xshare:auto -cp "$jars/*" "$@" ;;
  *) sed -n '2,15p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
