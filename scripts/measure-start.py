#!/usr/bin/env python3
"""Measures from outside how fast the broker starts and how much memory it takes while idle.

    scripts/measure-start.py [--runs N] [--check] [PROGRAM [ARGUMENT...]]

Start: from the exec of PROGRAM (target/release/sharemark) to the last byte of the first answer to an ApiVersions
request. Memory: the resident set one second later. With --check the exit code is 1 when the median start is above
START_MS_MAX or the largest memory above IDLE_MIB_MAX.
"""

import argparse
import pathlib
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time

START_MS_MAX = 20
IDLE_MIB_MAX = 16

API_VERSIONS = 18


def api_versions_request():
    client_id = b"measure-start"
    frame = struct.pack(">hhih", API_VERSIONS, 0, 1, len(client_id)) + client_id
    return struct.pack(">i", len(frame)) + frame


def receive(connection, size):
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise SystemExit("the broker closed the connection")
        received += part
    return received


def ask(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(api_versions_request())
        (length,) = struct.unpack(">i", receive(connection, 4))
        correlation_id, error, count = struct.unpack(">ihi", receive(connection, length)[:10])
        if correlation_id != 1 or error != 0 or count == 0:
            raise SystemExit("the first answer is not the one expected")


def resident_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) / 1024


def measure(command):
    begin = time.perf_counter()
    broker = subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        ready = broker.stdout.readline()
        found = re.match(r"ready bootstrap=127\.0\.0\.1:(\d+) .*startup_ms=(\d+)$", ready)
        if not found:
            raise SystemExit(f"not a ready line: {ready!r}")
        ask(int(found.group(1)))
        start_ms = (time.perf_counter() - begin) * 1000
        time.sleep(1)
        idle_mib = resident_mib(broker.pid)
    finally:
        broker.send_signal(signal.SIGTERM)
        exit_code = broker.wait(timeout=10)
    if exit_code != 0:
        raise SystemExit(f"the broker ended with exit code {exit_code}")
    return start_ms, idle_mib, int(found.group(2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    command = options.command or [str(root / "target" / "release" / "sharemark")]
    if shutil.which(command[0]) is None:
        raise SystemExit(f"there is no {command[0]}: cargo build --release -p sharemark")
    starts, sizes = [], []
    for run in range(1, options.runs + 1):
        start_ms, idle_mib, own_ms = measure(command)
        print(f"run {run}: first answer after {start_ms:.1f} ms (own count {own_ms} ms), idle {idle_mib:.1f} MiB")
        starts.append(start_ms)
        sizes.append(idle_mib)
    start_ms, idle_mib = statistics.median(starts), max(sizes)
    print(f"start median {start_ms:.1f} ms, slowest {max(starts):.1f} ms; idle memory at most {idle_mib:.1f} MiB")
    if options.check and (START_MS_MAX < start_ms or IDLE_MIB_MAX < idle_mib):
        print(f"above the limits of {START_MS_MAX} ms and {IDLE_MIB_MAX} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
