#!/usr/bin/env bash
# Runs the fuzz targets and prints for each how often it ran, how much code that reached, and how large its corpus is.
#
#   scripts/fuzz.sh [--runs N] [--sanitizer none|address] [--keep] [TARGET...]
#
# A run starts from fuzz/corpus and keeps what it finds in ~/.cache/sharemark/fuzz. --keep replaces fuzz/corpus, but for
# what is called found-*, by the few inputs that reach everything that any of them reaches. A target stops at the first
# input that breaks something and says where that input is. docs/fuzzing.md tells more.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=10000000
sanitizer=none
keep=false
targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --runs) runs="${2:?--runs takes a number}"; shift ;;
    --sanitizer) sanitizer="${2:?--sanitizer takes a name}"; shift ;;
    --keep) keep=true ;;
    -*) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
if [ ${#targets[@]} -eq 0 ]; then
  for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

CARGO_FUZZ=0.13.2
toolchain="${FUZZ_TOOLCHAIN:-nightly}"
cache="$HOME/.cache/sharemark"
export PATH="$cache/tools/bin:$PATH"
if ! cargo-fuzz --version 2>/dev/null | grep -qx "cargo-fuzz $CARGO_FUZZ"; then
  cargo install --quiet --locked --root "$cache/tools" --version "$CARGO_FUZZ" cargo-fuzz
fi
target_dir="${FUZZ_TARGET_DIR:-$cache/target-fuzz-$sanitizer}"
# Inputs come from seeds that are nearly right, so the fuzzer needs no help with comparisons, which costs half its speed.
for target in "${targets[@]}"; do
  cargo "+$toolchain" fuzz build --target-dir "$target_dir" --sanitizer "$sanitizer" --no-trace-compares "$target" >&2
done
host="$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')"

# The address sanitizer keeps what was freed for a while, which must not count as the memory of a target.
export ASAN_OPTIONS=quarantine_size_mb=16

# Long inputs are slow, short ones reach little.
input_bytes_max() {
  case "$1" in
    commands | share_partition) echo 200 ;;
    frames) echo 256 ;;
    *) echo 512 ;;
  esac
}

status=0
printf '%-16s %12s %8s %9s %9s %8s\n' target executions edges features seconds inputs
for target in "${targets[@]}"; do
  binary="$target_dir/$host/release/$target"
  found="$cache/fuzz/$target"
  log="$cache/fuzz/$target.log"
  mkdir -p "$found" "fuzz/corpus/$target" "fuzz/artifacts/$target"
  begin=$SECONDS
  "$binary" "-runs=$runs" "-max_len=$(input_bytes_max "$target")" -rss_limit_mb=512 -malloc_limit_mb=64 -timeout=60 \
    -print_final_stats=1 "-artifact_prefix=fuzz/artifacts/$target/" "$found" "fuzz/corpus/$target" >"$log" 2>&1 ||
    { status=1; grep -aE 'panicked at|ERROR|Test unit written' -A1 "$log" >&2 || true; }
  if [ "$keep" = true ] && [ "$status" -eq 0 ]; then
    cp "fuzz/corpus/$target"/* "$found"
    find "fuzz/corpus/$target" -type f ! -name 'found-*' -delete
    "$binary" -set_cover_merge=1 "fuzz/corpus/$target" "$found" >>"$log" 2>&1
  fi
  last="$(grep -aE '^#[0-9]+.*cov: ' "$log" | tail -n 1)"
  executions="$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)"
  edges="$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' <<<"$last")"
  features="$(sed -n 's/.*ft: \([0-9]*\).*/\1/p' <<<"$last")"
  inputs="$(find "fuzz/corpus/$target" -type f | wc -l)"
  printf '%-16s %12s %8s %9s %9s %8s\n' "$target" "${executions:-?}" "${edges:-?}" "${features:-?}" \
    "$((SECONDS - begin))" "$inputs"
done
printf 'fuzz/corpus: %s inputs, %s bytes\n' "$(find fuzz/corpus -type f | wc -l)" \
  "$(find fuzz/corpus -type f -exec cat {} + | wc -c)"
exit "$status"
