"""Trains with rollouts from a model server, breaks something again and again, and compares with a quiet run.

    PYTHONPATH=tests python -m crash.server_faults --faults 100 --seed 1

server  SIGKILL of `gce serve-policy`, which is started again within two seconds
cut     all connections to it are dropped, by FIN or by RST
gone    the network is gone for up to eight seconds: connections are refused, or stay open and nothing passes
run     SIGKILL of `gce train`, which is then resumed

Each comes in the middle of an answer, as a proxy between both sees it: when a request has been passed on, or a part of
the reply. A run that finds no server when it begins stops in one line, and is resumed. A run that ends is compared byte
by byte, times aside, and its rollouts are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from policy_servers import PolicyProcess
from tcp_proxy import Proxy
from tiny_llama import write_tiny_llama

from crash.forked_trainers import TESTS, differences
from crash.killing import MEMORY, what_is_left

KINDS = ("server", "cut", "gone", "run")
SETTINGS = (
    *("--task", "toy_task:ADDITION", "--problems", "4", "--rollouts", "4", "--second-wave", "4", "--updates", "2"),
    *("--iterations", "6", "--dev", "2", "--test", "3", "--max-tokens", "24", "--layers", "2", "--threads", "1"),
    *("--algorithm", "grpo", "--set", "model.timeout=5"),
)
"""Log-probabilities of the server enter the updates. Some of what is held is longer than the timeout."""
MOST_REQUESTS = 60
"""Between two faults; a quiet run has about 200."""
NO_SERVER = "does the server run?"


@dataclass
class Report:
    """What was broken, and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    stops: int = 0
    """In one line, after which the run was resumed."""
    runs: int = 0
    rollouts: int = 0
    lost: int = 0
    doubled: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        each = ", ".join(f"{kind} {self.faults[kind]}" for kind in KINDS)
        return (
            f"{self.faults.total()} faults ({each}) in {self.runs} runs with {self.rollouts} rollouts, {self.stops} "
            f"stopped for want of a server: {self.lost} lost, {self.doubled} doubled, "
            f"{len(self.differences)} differences"
        )


class Trainer:
    """Runs of `gce train` in a process each."""

    def __init__(self, base: Path, port: int, report: Report) -> None:
        self._report = report
        self._settings = (*SETTINGS, "--model", str(base), "--sampler", f"http://127.0.0.1:{port}/v1")
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}

    @contextmanager
    def running(self, run: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Begin a run or resume it, and wait for its end; AssertionError where it fails."""
        arguments = ["--resume"] if (run / "run.sqlite").exists() else self._settings
        command = [sys.executable, "-m", "gce", "train", *arguments, "--run-dir", str(run)]
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
            yield process
            status = process.wait()
            log.seek(0)
            said = log.read()
            stopped = status == 2 and said.count(NO_SERVER) == 1
            sound = (stopped or status in (0, -9)) and "Traceback" not in said
            assert sound, f"{run}: exit status {status}: {said[-5000:]}"
            self._report.stops += stopped


class Breaking:
    """A server behind a proxy, and what can happen to them."""

    def __init__(self, base: Path, rng: random.Random) -> None:
        self._rng = rng
        self._server = PolicyProcess("--model", str(base), "--threads", "1")
        self._proxy = Proxy(self._server.port)
        self.port = self._proxy.port

    def close(self) -> None:
        """End both."""
        self._proxy.close()
        self._server.kill()

    def break_something(self, kind: str, process: subprocess.Popen[bytes]) -> str:
        """Wait for the moment, and mend it after some time; return what happened, nothing where the run ended."""
        rng, proxy = self._rng, self._proxy
        number, in_reply, part = rng.randint(1, MOST_REQUESTS), rng.random() < 0.5, rng.random()
        seconds, other = rng.uniform(0.1, 8.0), rng.random() < 0.5
        acts: dict[str, Callable[[], None]] = {
            "server": self._kill_server,
            "cut": lambda: proxy.cut(reset=other),
            "gone": proxy.refuse if other else proxy.hold,
            "run": process.kill,
        }
        moment = proxy.meanwhile(number, acts[kind], in_reply=in_reply, part=part)
        while not moment.wait(0.05):
            if process.poll() is not None:
                return ""
        how = f"{kind} in the {'reply' if in_reply else 'request'} number {number}"
        if kind == "server":
            time.sleep(seconds / 4)
            self._server.start()
        elif kind == "cut":
            how += ", RST" if other else ", FIN"
        elif kind == "gone":
            how += f", {'refused' if other else 'held'} for {seconds:.1f} s"
            time.sleep(seconds)
            if other:
                proxy.listen()
            else:
                proxy.release()
        return how

    def _kill_server(self) -> None:
        self._server.kill()
        self._proxy.cut()


def break_and_compare(home: Path, faults: int, seed: int, *, say: Callable[[str], None] = lambda _: None) -> Report:
    """Runs to which `faults` things happen in all, each compared with one to which nothing did when it ends."""
    rng, report = random.Random(seed), Report()
    base = write_tiny_llama(home / "base", layers=2)
    breaking = Breaking(base, rng)
    try:
        train = Trainer(base, breaking.port, report)
        with train.running(home / "whole"):
            pass
        whole = what_is_left(home / "whole")
        kinds = list(KINDS)
        while report.faults.total() < faults or not report.runs:
            run, ended = home / f"run{report.runs}", False
            while not ended:
                with train.running(run) as process:
                    while process.poll() is None and report.faults.total() < faults:
                        kind = rng.choice(kinds)
                        if not (what := breaking.break_something(kind, process)):
                            break
                        report.faults[kind] += 1
                        kinds.remove(kind)  # Every kind once before any comes again.
                        kinds = kinds or list(KINDS)
                        say(f"{run.name}: {what}")
                ended = process.returncode == 0
            _compare(run, whole, report)
            say(f"{run.name}: ended, {report}")
    finally:
        breaking.close()
    return report


def _compare(run: Path, whole: dict[str, Any], report: Report) -> None:
    left = what_is_left(run)
    keys, expected = ([each["key"] for each in found["rollouts"]] for found in (left, whole))
    report.runs, report.rollouts = report.runs + 1, report.rollouts + len(keys)
    report.lost += len(set(expected) - set(keys))
    report.doubled += len(keys) - len(set(keys))
    report.differences += differences(run.name, left, whole)


def main() -> None:
    """Print each fault and the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        report = break_and_compare(Path(folder), given.faults, given.seed, say=lambda text: print(text, flush=True))
    print(report, json.dumps(report.differences), sep="\n")
    sys.exit(bool(report.differences or report.lost or report.doubled))


if __name__ == "__main__":
    main()
