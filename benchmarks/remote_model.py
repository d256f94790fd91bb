"""Requests a second of `gce evaluate` with a model behind a server: `python -m benchmarks.remote_model`.

The server is a process of its own on this machine that takes 50 ms for each answer. A round is one evaluation, whose
answers are judged and written to a file as they come; its time is that from the first request to the last record.
Efficiency is the share of the rate that so many requests in flight could reach, concurrency / 50 ms. Prints a JSON
object for each round, and medians with their ranges.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.slow_server import SECONDS

RATES = ("requests_a_second", "efficiency")


@contextmanager
def slow_server() -> Iterator[str]:
    """The URL of a server in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.slow_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


def evaluate(url: str, concurrency: int, requests: int) -> dict[str, float]:
    """One round."""
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.jsonl"
        command = [sys.executable, "-m", "gce", "evaluate", "--model", f"{url}/v1#slow", "--answers", str(answers)]
        command += ["--tiers", "T1", "--n", str(requests), "--concurrency", str(concurrency)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        ended = answers.stat().st_mtime_ns / 1e9
        assert answers.read_bytes().count(b"\n") == requests + 1
    with urllib.request.urlopen(url) as reply:
        seen = json.load(reply)
    assert len(seen["begun"]) == requests
    rate = requests / (ended - seen["begun"][0])
    return {
        "concurrency": concurrency,
        "requests": requests,
        "requests_a_second": round(rate, 1),
        "efficiency": round(rate * SECONDS / concurrency, 3),
        "server_late_ms": round(1e3 * statistics.median(seen["late"]), 2),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--concurrency", default="64,500", help="requests in flight (default %(default)s)")
    parser.add_argument("--requests", type=int, default=3200, help="of a round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each, in turns (default %(default)s)")
    given = parser.parse_args()
    sizes, found = list(map(int, given.concurrency.split(","))), list[dict[str, float]]()
    with slow_server() as url:
        for _ in range(given.rounds):
            for size in sizes:
                found.append(evaluate(url, size, given.requests))
                print(json.dumps(found[-1]), flush=True)
    for size in sizes:
        for name in RATES:
            values = [each[name] for each in found if each["concurrency"] == size]
            low, median, high = min(values), statistics.median(values), max(values)
            print(json.dumps({"concurrency": size, name: median, "low": low, "high": high, "rounds": len(values)}))


if __name__ == "__main__":
    main()
