"""What the cases of all clients share: the broker's address, names, and the program that runs them."""

import json
import os
import sys
import time
import traceback
import urllib.request

BOOTSTRAP = os.environ.get("BOOTSTRAP", "")
CONTROL = os.environ.get("CONTROL", "")
WAIT_SECONDS = 30
CASES = []
NAMES = 0


def case(body):
    CASES.append(body)
    return body


def control_case(body):
    """A case that needs the control endpoint."""
    return case(body) if CONTROL else body


def control(path, **fields):
    """Posts to the control endpoint."""
    request = urllib.request.Request(f"http://{CONTROL}{path}", json.dumps(fields).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        return json.load(answer)


def same(what, expected, actual):
    if expected != actual:
        raise AssertionError(f"{what}: expected {expected!r}, got {actual!r}")


def fresh(prefix):
    global NAMES
    NAMES += 1
    return f"{prefix}-py-{os.getpid()}-{NAMES}"


def numbered(count):
    return [f"v{index}" for index in range(count)]


def until(what, condition):
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if condition():
            return
    raise AssertionError(f"{what}: not within {WAIT_SECONDS} s")


def main():
    wanted = sys.argv[1:]
    cases = [body for body in CASES if not wanted or body.__name__ in wanted]
    failed = 0
    for body in cases:
        start = time.monotonic()
        try:
            body()
            print(f"ok {body.__name__} ({(time.monotonic() - start) * 1000:.0f} ms)", flush=True)
        except Exception:  # Any failure is the case's; the next case runs all the same.
            failed += 1
            print(f"FAILED {body.__name__}", flush=True)
            traceback.print_exc(file=sys.stdout)
    print(f"cases {len(cases)}", flush=True)
    os._exit(1 if failed or not cases else 0)  # A client of a failed case may still wait for its broker.
