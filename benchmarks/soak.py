"""Hours of the default run's loop, watched from outside: `python -m benchmarks.soak --minutes 30`.

Every ten seconds: memory, open files, threads, and bytes on disk of a training that never says that it is done. In
every second quarter another process reads the whole run every ten seconds, as a report does; iterations with and
without it are compared. Prints one JSON object for each look and a table at the end; exit status 1 where open files or
threads grew. Linux alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

from gce.adapters.runs.reader import DirectoryReader

LOOK_SECONDS = 10.0
SETTLED = 0.2
"""The share of the time after which nothing should grow that does not hold more records."""


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path, help="keep the looks here, too, as JSON lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        looks, iterations = soak(Path(folder) / "run", 60 * options.minutes)
    lines = [json.dumps(look) for look in looks]
    print(*lines, sep="\n")
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")
    print(table(looks, iterations))
    settled = looks[int(SETTLED * len(looks)) :]
    return int(any(settled[-1][name] > settled[0][name] for name in ("files", "threads")))


def soak(run: Path, seconds: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was seen, look by look, and the run's iterations, each with the share of it that was read beside."""
    command = [sys.executable, "-m", "gce.app.train", "--run-dir", str(run), "--iterations", "1000000"]
    sizes = ["--problems", "16", "--test", "0", "--dev", "0"]
    looks: list[dict[str, Any]] = []
    ended: dict[int, float] = {}
    spans: list[tuple[float, float]] = []
    with open(run.parent / "log", "wb") as log:
        training = subprocess.Popen([*command, *sizes], stdout=log, stderr=log)
    reader: subprocess.Popen[bytes] | None = None
    began = time.monotonic()
    try:
        while (now := time.monotonic() - began) < seconds:
            if training.poll() is not None:
                raise RuntimeError(f"the training ended: {(run.parent / 'log').read_text()[-2000:]}")
            reading = int(4 * now / seconds) % 2 == 1 and (run / "run.sqlite").exists()
            if reading and reader is None:
                reader = subprocess.Popen([sys.executable, "-c", READ, str(run)], stdout=subprocess.DEVNULL)
                spans.append((now, seconds))
            elif not reading and reader is not None:
                reader.kill()
                reader.wait()
                reader, spans[-1] = None, (spans[-1][0], now)
            for record in _iterations(run):
                ended.setdefault(record["iteration"], now)
            looks.append(
                {"seconds": round(now, 1), "iterations": len(ended), "read": reading, **_of_process(training.pid)}
            )
            looks[-1]["disk"] = _bytes(run)
            time.sleep(LOOK_SECONDS)
    finally:
        for process in (training, reader):
            if process is not None:
                process.kill()
                process.wait()
    found = []
    for record in _iterations(run):
        took = sum(record["seconds"].values())
        end = ended.get(record["iteration"])
        if end is not None:
            beside = sum(max(0.0, min(end, stop) - max(end - took, start)) for start, stop in spans)
            found.append({"seconds": took, "read": beside / took})
    return looks, found


READ = """
import sys, time
from gce.adapters.runs.reader import DirectoryReader
while True:
    with DirectoryReader(sys.argv[1]) as run:
        for stream in ("iterations", "evaluations", "rollouts", "traces"):
            for record in run.read(stream):
                pass
    time.sleep(10)
"""


def table(looks: Sequence[dict[str, Any]], iterations: Sequence[dict[str, Any]]) -> str:
    """Looks spread evenly over the time, and the iterations' seconds with a reader and without."""
    rows = ["minutes  iterations  memory MB  files  threads  disk MB"]
    for place in range(9):
        look = looks[round(place * (len(looks) - 1) / 8)]
        rows.append(
            f"{look['seconds'] / 60:7.1f}  {look['iterations']:10d}  {look['memory'] / 1e6:9.0f}  {look['files']:5d}  "
            f"{look['threads']:7d}  {look['disk'] / 1e6:7.1f}"
        )
    late = looks[int(SETTLED * len(looks)) :]
    done = [look["iterations"] for look in late]
    if len(set(done)) > 1:
        slopes = (linear_regression(done, [look[name] / 1e6 for look in late]).slope for name in ("memory", "disk"))
        rows.append("MB more an iteration, after the first fifth: memory {:.2f}, disk {:.2f}".format(*slopes))
    for name, chosen in (
        ("read all along", [each["seconds"] for each in iterations if each["read"] > 0.9]),
        ("not read", [each["seconds"] for each in iterations if each["read"] < 0.1]),
    ):
        if chosen:
            rows.append(
                f"seconds an iteration, {name}: median {median(chosen):.1f} "
                f"({min(chosen):.1f}-{max(chosen):.1f}, n = {len(chosen)})"
            )
    return "\n".join(rows)


def _iterations(run: Path) -> list[dict[str, Any]]:
    if not (run / "run.sqlite").exists():
        return []
    with DirectoryReader(run) as store:
        return list(store.read("iterations"))


def _bytes(run: Path) -> int:
    total = 0
    for path in run.rglob("*"):
        with suppress(FileNotFoundError):  # Old checkpoints are deleted meanwhile.
            total += path.stat().st_size
    return total


def _of_process(pid: int) -> dict[str, int]:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "memory": 1024 * int(lines["VmRSS"].split()[0]),
        "files": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(lines["Threads"]),
    }


if __name__ == "__main__":
    sys.exit(main())
