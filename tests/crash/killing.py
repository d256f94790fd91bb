"""Trains in a process of its own, kills it again and again, and compares what is left with a run that nobody killed.

    PYTHONPATH=tests python -m crash.killing --kills 100 --seed 1

A kill is SIGKILL, which nothing can catch: at a step of the store (`hold`, `file`, ... `delete`), or some time after
the run directory was opened.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.forked_trainers import ForkedTrainers, differences
from gce.adapters.runs.run_directory import STEPS, RunDirectory

SETTINGS = (
    *("--task", "toy_task:ADDITION", "--problems", "4", "--rollouts", "2", "--second-wave", "3", "--updates", "2"),
    *("--iterations", "3", "--dev", "1", "--test", "2", "--max-tokens", "12", "--layers", "2", "--threads", "1"),
)
MOST_STEPS = 3
"""A kill at a step waits for its first, second or third time."""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files are kept in memory, if anywhere: a killed process loses nothing that it has written, synced or not."""


@dataclass(frozen=True)
class Kill:
    """At the `count`-th time that `step` is told, or `seconds` after the run directory was opened."""

    step: str = ""
    count: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.step} {self.count}" if self.step else f"after {self.seconds:.2f} s"


NEVER = Kill()


@dataclass
class Report:
    """What was done, and what came of it."""

    kills: list[Kill] = field(default_factory=list)
    runs: int = 0
    resumes: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        steps = sum(bool(kill.step) for kill in self.kills)
        return (
            f"{len(self.kills)} kills ({steps} at steps of the store, {len(self.kills) - steps} at random moments) in "
            f"{self.runs} runs, {self.resumes} resumes, {len(self.differences)} differences"
        )


def kill_and_compare(base: Path, home: Path, kills: int, seed: int, *, say: Any = lambda _: None) -> Report:
    """Runs of the model in `base`, killed `kills` times in all, each compared with one that was not when it ends."""
    rng = random.Random(seed)
    with Trainer(base) as train:
        began = time.monotonic()
        train(home / "whole", NEVER)
        took = time.monotonic() - began
        whole = what_is_left(home / "whole")
        steps = list(STEPS)
        report = Report()
        run = home / "run0"
        while len(report.kills) < kills or run.exists():
            kill = NEVER
            if len(report.kills) < kills:
                # Every step once before any comes again, and random moments between them.
                if rng.random() < 0.3:
                    kill = Kill(seconds=rng.uniform(0.01, took))
                else:
                    kill = Kill(steps.pop(rng.randrange(len(steps))), rng.randint(1, MOST_STEPS))
                    steps = steps or list(STEPS)
            report.resumes += (run / "run.sqlite").exists()
            if train(run, kill):
                report.kills.append(kill)
                say(f"{run.name}: killed, {kill}")
                continue
            say(f"{run.name}: ended")
            report.differences += differences(run.name, what_is_left(run), whole)
            report.runs += 1
            run = home / f"run{report.runs}"
    return report


class Trainer:
    """Runs `gce train` or its `--resume` in a process of its own."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._trainers = ForkedTrainers(
            RunDirectory, "gce.adapters.models.backends.mlx.model", "transformers.models.llama.configuration_llama"
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self._trainers.close()

    def __call__(self, run: Path, kill: Kill) -> bool:
        """Whether it was killed; an AssertionError where it failed otherwise."""
        arguments = [*SETTINGS, "--model", str(self._base), "--run-dir", str(run)]
        if (run / "run.sqlite").exists():
            arguments = ["--run-dir", str(run), "--resume"]
        self._trainers.begin(arguments, step=kill.step, count=kill.count, seconds=kill.seconds)
        status, said = self._trainers.end()
        if status not in (0, -signal.SIGKILL):
            raise AssertionError(f"{run}: exit status {status}: {said[-2000:]}")
        return status != 0


def what_is_left(run: Path) -> dict[str, Any]:
    """All that must repeat: records, buffer and loop without times, the adapter's and the optimizer's bytes."""
    names = sorted(str(path.relative_to(run)) for path in run.rglob("*") if "sqlite-" not in path.name)
    with RunDirectory.open(run) as store:
        streams = ("iterations", "rollouts", "traces", "evaluations")
        left: dict[str, Any] = {name: list(store.read(name)) for name in streams}
        last = store.last()
        left |= {"config": store.config, "held": list(store.held()), "loop": last and last[2]}
    for record in left["iterations"] + left["evaluations"] + left["held"]:
        record["seconds"] = None
    for path in sorted((run / "checkpoints" / "last").iterdir()):
        left[path.name] = path.read_bytes()
    for name in ("test-before.jsonl", "test-after.jsonl"):
        left[name] = (run / name).read_bytes()
    summary = json.loads((run / "summary.json").read_text())
    left["summary"] = {name: value for name, value in summary.items() if name not in ("seconds", "peak_bytes")}
    return {**left, "names": names}


def main() -> None:
    """Print each kill and the report."""
    from tiny_llama import write_tiny_llama

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        base = write_tiny_llama(Path(folder) / "base", layers=2)
        report = kill_and_compare(base, Path(folder), given.kills, given.seed, say=lambda text: print(text, flush=True))
    print(report, *report.differences, sep="\n")
    sys.exit(bool(report.differences))


if __name__ == "__main__":
    main()
