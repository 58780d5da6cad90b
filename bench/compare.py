#!/usr/bin/env python3
"""Prints what a record costs in our share partition and in Kafka 4.4's own, measured in one run.

    bench/compare.py [--ours-only | --kafka-only] [JMH OPTIONS...]

Runs `cargo bench` for the share partition, then the same cycles through Kafka's class (Maven fetches its jars), then prints
medians side by side, in nanoseconds a record, with the ratio and the one that we want. At the end it prints what whole
requests cost our server, from ShareFetch to acknowledge. It builds under SHAREMARK_CACHE (default ~/.cache/sharemark).
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("SHAREMARK_CACHE", pathlib.Path.home() / ".cache/sharemark")) / "bench"

# Each cycle: our name, Kafka's, how many records it has, and how many times less than Kafka we want a record to cost.
CYCLES = [
    ("one_range_of_500", "one_range_of_500", 500, 3),
    ("single_offsets_500_in_one_call", "single_offsets_500_in_one_call", 500, 75),
    ("single_offsets_in_500_calls", "single_offsets_in_500_calls", 500, 75),
    ("types_mixed_per_offset_500", "types_mixed_per_offset_500", 500, 75),
    ("ranges_of_5_over_20_members", "ranges_of_5_over_20_members", 500, 15),
    ("ranges_of_5_over_20_members_split", "ranges_of_5_over_20_members_split", 500, 75),
    ("partitions_10000_with_50_records", "partitions_10000_with_50_records", 500_000, 10),
    ("partitions_10000_with_50_records", "partitions_10000_with_50_records_uncounted", 500_000, 2),
    ("expiry_of_400_acquired_together", "expiry_of_400_acquired_together", 400, 6),
    ("expiry_of_400_split", "expiry_of_400_split", 400, 6),
]
UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
LINE = re.compile(r"[├╰]─ (\w+) +([\d.]+) (\w+) +│ +([\d.]+) (\w+) +│ +([\d.]+) (\w+)")


def cargo_bench(package, bench):
    """Runs a bench and returns the nanoseconds of its cycles: fastest and median."""
    command = ["cargo", "bench", "-q", "-p", package, "--bench", bench]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for name, fastest, fastest_unit, _, _, median, median_unit in LINE.findall(output):
        found[name] = (float(fastest) * UNITS[fastest_unit], float(median) * UNITS[median_unit])
    return found


def kafka_bench(options):
    """Runs Kafka's cycles and returns the nanoseconds of each: fastest and median."""
    maven = ["mvn", "-q", "-B", "-f", str(ROOT / "bench/pom.xml"), f"-Dsharemark.build={CACHE}", "compile"]
    subprocess.run([*maven, "dependency:copy-dependencies", "-DincludeScope=runtime"], check=True, stdout=sys.stderr)
    report = CACHE / "jmh.json"
    command = ["java", "-cp", f"{CACHE}/classes:{CACHE}/dependency/*", "org.openjdk.jmh.Main", "-foe", "true"]
    subprocess.run([*command, "-rf", "json", "-rff", str(report), *options], check=True, stdout=sys.stderr)
    found = {}
    for run in json.loads(report.read_text()):
        percentiles = run["primaryMetric"]["scorePercentiles"]
        found[run["benchmark"].rsplit(".", 1)[1]] = (percentiles["0.0"], percentiles["50.0"])
    return found


def main():
    options = sys.argv[1:]
    which = options.pop(0) if options and options[0].endswith("-only") else ""
    ours = {} if which == "--kafka-only" else cargo_bench("sharemark-share-coordinator", "share_partition")
    kafkas = {} if which == "--ours-only" else kafka_bench(options)
    print("nanoseconds a record, medians (fastest in brackets)")
    print(f"{'cycle':<44}{'ours':>18}{'Kafka':>22}{'ratio':>8}{'wanted':>8}")
    for our_name, kafka_name, records, wanted in CYCLES:
        cells = []
        for found, name in ((ours, our_name), (kafkas, kafka_name)):
            fastest, median = (value / records for value in found.get(name, (float("nan"),) * 2))
            cells.append((fastest, median))
        text = [f"{median:.2f} ({fastest:.2f})" for fastest, median in cells]
        ratio = cells[1][1] / cells[0][1]
        print(f"{kafka_name:<44}{text[0]:>18}{text[1]:>22}{ratio:>8.1f}{wanted:>8}")
    if which != "--kafka-only":
        print("\nmicroseconds a request or cycle of our server, medians (fastest in brackets)")
        for name, (fastest, median) in cargo_bench("sharemark", "requests").items():
            print(f"{name:<44}{f'{median / 1e3:.1f} ({fastest / 1e3:.1f})':>18}")


if __name__ == "__main__":
    main()
