"""Trains into a PostgreSQL server, breaks something again and again, and compares with a run that nothing happened to.

PYTHONPATH=tests python -m crash.postgres_faults --faults 100 --seed 1

step    SIGKILL of the writer at a step of the store (`hold`, `rows`, `commit`), inside its transaction
kill    SIGKILL of the writer at a random moment
crash   `pg_ctl stop -m immediate` of the server at a random moment, then a start
cut     the TCP connection is dropped at a random moment
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from postgres_server import PASSWORD, Server, running
from tcp_proxy import Proxy

from crash.forked_trainers import ForkedTrainers, differences
from gce.adapters.runs.postgres.store import STEPS, PostgresRuns

SETTINGS = (
    *("--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--problems", "4", "--rollouts", "2"),
    *("--second-wave", "3", "--updates", "2", "--iterations", "3", "--dev", "2", "--test", "3"),
)
KINDS = ("step", "kill", "crash", "cut")
MOST_STEPS = 3
"""A kill at a step waits for its first, second or third time."""


@dataclass(frozen=True)
class Fault:
    """What happens to a run, and when: at the `count`-th time of a step, or so many seconds after it was begun."""

    kind: str = ""
    step: str = ""
    count: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.step} {self.count}" if self.step else f"{self.kind} after {self.seconds:.2f} s"


NOTHING = Fault()


@dataclass
class Report:
    """What was done, and what came of it."""

    faults: list[Fault] = field(default_factory=list)
    runs: int = 0
    resumes: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = Counter(fault.kind for fault in self.faults)
        return (
            f"{len(self.faults)} faults ({', '.join(f'{kinds[kind]} {kind}' for kind in KINDS)}) in {self.runs} runs, "
            f"{self.resumes} resumes, {len(self.differences)} differences"
        )


def break_and_compare(faults: int, seed: int, *, say: Callable[[str], None] = lambda _: None) -> Report:
    """Runs to which `faults` things happen in all, each compared with one to which nothing did when it ends."""
    rng, report = random.Random(seed), Report()
    os.environ["PGPASSWORD"] = PASSWORD
    with running() as server:
        proxy = Proxy(server.port)
        with Trainer(server, proxy) as train:
            train("whole", NOTHING)
            began = time.monotonic()
            train("timed", NOTHING)
            took = time.monotonic() - began
            whole, kinds = train.left("whole"), list(KINDS)
            while len(report.faults) < faults or report.runs == 0 or train.begun(f"run{report.runs}"):
                run, fault = f"run{report.runs}", NOTHING
                if len(report.faults) < faults:
                    kind = rng.choice(kinds)
                    moment = Fault(kind, seconds=rng.uniform(0.01, 0.8 * took))
                    at_step = Fault(kind, rng.choice(STEPS), rng.randint(1, MOST_STEPS))
                    fault = at_step if kind == "step" else moment
                report.resumes += train.begun(run)
                if train(run, fault):
                    report.faults.append(fault)
                    kinds.remove(fault.kind)  # Every kind once before any comes again.
                    kinds = kinds or list(KINDS)
                    say(f"{run}: {fault}")
                    continue
                say(f"{run}: ended")
                report.differences += differences(run, train.left(run), whole)
                report.runs += 1
        proxy.close()
    return report


class Trainer:
    """Runs `gce train` or its `--resume` in a process of its own."""

    def __init__(self, server: Server, proxy: Proxy) -> None:
        self._server, self._proxy, self._runs = server, proxy, PostgresRuns()
        self._trainers = ForkedTrainers(PostgresRuns, "psycopg", "toy_task", "gce.app.training.run")

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self._trainers.close()

    def name(self, run: str) -> str:
        """The run's name, by way of the proxy."""
        return f"{self._server.by_tcp(self._proxy.port)}#{run}"

    def begun(self, run: str) -> bool:
        """Whether there is such a run."""
        return self.name(run) in self._runs.find(self.name(run))

    def __call__(self, run: str, fault: Fault) -> bool:
        """Whether it did not end; an AssertionError where it ended in another way than in one line or by a kill."""
        name = self.name(run)
        arguments = ["--resume"] if self.begun(run) else SETTINGS
        seconds = fault.seconds if fault.kind == "kill" else 0.0
        self._trainers.begin(["--run-dir", name, *arguments], step=fault.step, count=fault.count, seconds=seconds)
        if fault.kind in ("crash", "cut"):
            time.sleep(fault.seconds)
            if fault.kind == "cut":
                self._proxy.cut()
            else:
                self._server.stop("immediate")
                self._server.start()
        status, said = self._trainers.end()
        expected = 2 if fault.kind in ("crash", "cut") else -signal.SIGKILL
        assert status in (0, expected), f"{run}: {fault}: exit status {status}: {said[-2000:]}"
        assert "Traceback" not in said and PASSWORD not in said, said[-2000:]
        return status != 0

    def left(self, run: str) -> dict[str, Any]:
        """All that must repeat: records, buffer, loop, answers and summary without times, and the model's bytes."""
        with self._runs.open(self.name(run)) as store:
            streams = ("iterations", "rollouts", "traces", "evaluations")
            left: dict[str, Any] = {stream: list(store.read(stream)) for stream in streams}
            last = store.last()
            assert last is not None and last[1] is not None
            left |= {"config": store.config, "held": list(store.held()), "loop": last[2], "iteration": last[0]}
            left["arrays"] = {name: array.tobytes() for name, array in last[1].arrays.items()}
            left["settings"] = last[1].settings
        for record in left["iterations"] + left["evaluations"] + left["held"]:
            record["seconds"] = None
        with self._runs.read(self.name(run)) as reader:
            left |= {name: reader.answers(name) for name in ("test-before", "test-after")}
            summary = reader.summary() or {}
        left["summary"] = {name: value for name, value in summary.items() if name not in ("seconds", "peak_bytes")}
        assert self._runs.verify(self.name(run)).problems == ()
        return left


def main() -> None:
    """Print each fault and the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    report = break_and_compare(given.faults, given.seed, say=lambda text: print(text, flush=True))
    print(report, *report.differences, sep="\n")
    sys.exit(bool(report.differences))


if __name__ == "__main__":
    main()
