"""Kills or freezes parts of runs on a Ray cluster of this machine, or fills stores, and compares with a quiet run.

    PYTHONPATH=tests python -m crash.ray_kills --kills 100 --seed 1

A kill is SIGKILL at a random moment: of a worker, of a node with its worker, or of the process of the run, which is
then resumed. `freeze` stops a node and its worker for up to five seconds (SIGSTOP), as where the network is gone and
comes back. `store` fills the object store of a node for up to five seconds, where the disk that it spills to is full,
too. A run that ends is compared byte by byte, times aside, and its traces are counted.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
import toy_task
from full_store import NOTHING_SPILLED, full_store
from ray._private import ray_constants
from ray.cluster_utils import Cluster

from crash.forked_trainers import TESTS
from crash.killing import MEMORY, what_is_left
from gce.adapters.models.scripted import ScriptedModel
from gce.domain.completions import SampleRequest

KINDS = ("worker", "node", "driver", "freeze", "store")
STORE = 100 << 20
STOPPED = ("object store is full", "its worker died each time", "a worker cannot be started")
PAUSE = 0.5, 8.0
"""Seconds between two kills."""
SETTINGS = (
    *("--task", "toy_task:ADDITION", "--model", "crash.ray_kills:slow", "--problems", "12", "--rollouts", "4"),
    *("--second-wave", "4", "--updates", "2", "--iterations", "8", "--dev", "2", "--test", "4", "--max-tokens", "2048"),
)
"""About sixty shares of 8 requests, of a tenth of a second each."""


def slow(config: Any, task: Any) -> ScriptedModel:
    """The careless model, which takes its time, in answers so long that those of a share go by the object store."""
    model = toy_task.careless(config, task)

    def answer(request: SampleRequest) -> str:
        time.sleep(0.0125)
        return f"{'w0 ' * 400}{model._answer(request)}"

    return ScriptedModel(answer)


@dataclass
class Compared:
    """What became of runs that ended."""

    runs: int = 0
    traces: int = 0
    lost: int = 0
    doubled: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, name: str, left: dict[str, Any], whole: dict[str, Any]) -> None:
        """Compare what a run left with what one left that nothing happened to."""
        keys, expected = ([each["key"] for each in found["traces"]] for found in (left, whole))
        self.runs, self.traces = self.runs + 1, self.traces + len(keys)
        self.lost += len(set(expected) - set(keys))
        self.doubled += len(keys) - len(set(keys))
        self.differences += [f"{name}: {part}" for part in whole if left.get(part) != whole[part]]


@dataclass
class Report(Compared):
    """What was killed, and what came of it."""

    kills: Counter[str] = field(default_factory=Counter)
    stops: int = 0
    """How often a run ended in one line, and was resumed."""

    def __str__(self) -> str:
        each = ", ".join(f"{name} {self.kills[name]}" for name in KINDS)
        return (
            f"{self.kills.total()} kills ({each}), {self.stops} stops in {self.runs} runs with {self.traces} traces: "
            f"{self.lost} lost, {self.doubled} doubled, {len(self.differences)} differences"
        )


class Machines:
    """A head without CPUs, and two nodes with one each."""

    def __init__(self) -> None:
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        self.cluster = Cluster(initialize_head=True, head_node_args=head | NOTHING_SPILLED)
        self.nodes = [self.cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.shutdown()

    def kill_node(self, place: int) -> None:
        """Kill a node, and add another."""
        self.cluster.remove_node(self.nodes.pop(place), allow_graceful=False)
        self.nodes.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE))

    def kill_worker(self, rng: random.Random) -> bool:
        """Kill a worker that has started; False where there is none."""
        found = sorted(self.workers())
        if found:
            os.kill(rng.choice(found), signal.SIGKILL)
        return bool(found)

    def freeze_node(self, place: int, seconds: float) -> None:
        """Let a node and its workers do nothing for so long."""
        raylet = _raylet(self.nodes[place])
        frozen = [raylet, *_workers({raylet})]
        for number, pause in ((signal.SIGSTOP, seconds), (signal.SIGCONT, 0.0)):
            for process in frozen:
                with suppress(ProcessLookupError):
                    os.kill(process, number)
            time.sleep(pause)

    def workers(self) -> list[int]:
        """Processes of workers of these nodes."""
        return _workers({_raylet(node) for node in self.nodes})

    def fill_store(self, place: int, seconds: float) -> None:
        """Let nothing more fit into the object store of a node for so long; the last place is the head's."""
        node = [*self.nodes, self.cluster.head_node][place]
        ray.init(self.cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        with full_store(node):
            time.sleep(seconds)
        ray.shutdown()


def _raylet(node: Any) -> int:
    process: int = node.all_processes[ray_constants.PROCESS_TYPE_RAYLET][0].process.pid
    return process


def _workers(raylets: Container[int]) -> list[int]:
    """Processes of workers that these have started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in raylets and (path / "cmdline").read_bytes().startswith(b"ray::_Process"):
                found.append(int(path.name))
    return found


def kill_and_compare(home: Path, kills: int, seed: int, *, minutes: float = 1e9, say: Any = lambda _: None) -> Report:
    """Runs on a cluster, killed `kills` times in all or as often as in so many minutes, each compared when it ends."""
    rng, report, began = random.Random(seed), Report(), time.monotonic()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    command = [sys.executable, "-m", "gce.app.train"]
    whole_run = subprocess.run([*command, *SETTINGS, "--run-dir", str(home / "whole")], capture_output=True, text=True)
    assert whole_run.returncode == 0, whole_run.stderr
    whole, kinds = left_of(home / "whole"), list(KINDS)
    with Machines() as machines:
        on_ray = [*SETTINGS, "--executor", "ray", "--workers", "2", "--address", machines.cluster.address]
        while (killing := report.kills.total() < kills and time.monotonic() - began < 60 * minutes) or not report.runs:
            run = home / f"run{report.runs}"
            while True:
                begun = (run / "run.sqlite").exists()
                arguments = ["--resume"] if begun else on_ray
                with open(home / "log", "w") as log:
                    driver = subprocess.Popen([*command, *arguments, "--run-dir", str(run)], stdout=log, stderr=log)
                while killing and driver.poll() is None and report.kills.total() < kills:
                    time.sleep(rng.uniform(*PAUSE))
                    if not machines.workers() or driver.poll() is not None:
                        continue
                    kind = rng.choice(kinds)
                    if kind == "driver":
                        driver.kill()
                    elif kind == "node":
                        machines.kill_node(rng.randrange(2))
                    elif kind == "freeze":
                        machines.freeze_node(rng.randrange(2), rng.uniform(0.1, 5.0))
                    elif kind == "store":
                        machines.fill_store(rng.randrange(3), rng.uniform(0.1, 5.0))
                    elif not machines.kill_worker(rng):
                        continue
                    report.kills[kind] += 1
                    kinds.remove(kind)  # Every kind once before any comes again.
                    kinds = kinds or list(KINDS)
                    say(f"{run.name}: killed {kind}, {report}")
                status = driver.wait()
                if status == 0:
                    break
                said = (home / "log").read_text()
                # A full store, or four deaths with the same share, stop a run in one line, after which it is resumed.
                stopped = [line for line in said.splitlines() if any(words in line for words in STOPPED)]
                sound = len(stopped) == 1 and "Traceback" not in said
                assert sound or status == -signal.SIGKILL, f"exit status {status}: {said[:9000]}"
                report.stops += len(stopped)
                for line in stopped:
                    say(f"{run.name}: {line}")
            report.add(run.name, left_of(run), whole)
            say(f"{run.name}: ended")
    return report


def left_of(run: Path) -> dict[str, Any]:
    """All that must repeat, but for where it was computed."""
    left = what_is_left(run)
    for config in (left["config"]["settings"], left["summary"]["config"]):
        del config["executor"]
    return left


def main() -> None:
    """Print each kill and the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run, and kill nothing, after this time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        report = kill_and_compare(
            Path(folder), given.kills, given.seed, minutes=given.minutes, say=lambda text: print(text, flush=True)
        )
    print(report, json.dumps(report.differences), sep="\n")
    sys.exit(bool(report.differences or report.lost or report.doubled))


if __name__ == "__main__":
    main()
