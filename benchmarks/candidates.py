"""How many programs are judged a second, with full isolation and without: `python -m benchmarks.candidates`.

The programs are solutions of generated functions with thirteen hidden calls or some more. Beside each kind of runner,
in turns on the same machine: what loops without one do, a plain subprocess a test, of the program with one assertion
behind it, whose exit status counts; as many at a time. And how long one sandbox takes to start, alone, until it has
loaded a program.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from gce.adapters.sandboxes.pool import RunnerPool
from gce.adapters.sandboxes.process import SandboxProcess
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.adapters.system.process import usable_cores
from gce.app.tables.layout import table
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.domain.executions import Execution
from gce.domain.plain_values import from_text
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.programs.exercise import Exercise

PLAIN = "a subprocess a test"


def isolated(pool: RunnerPool, exercises: Sequence[Exercise]) -> int:
    """How many are right."""
    executions = (Execution(each.solution, each.entry_point, each.calls) for each in exercises)
    found = pool.run(executions)
    return sum(
        tuple(outcome.text for outcome in evidence.outcomes) == exercise.expected
        for exercise, evidence in zip(exercises, found, strict=True)
    )


def plain(workers: int, exercises: Sequence[Exercise]) -> int:
    """The same by exit status."""

    def passes(exercise: Exercise) -> bool:
        for call, expected in zip(exercise.calls, exercise.expected, strict=True):
            (argument,) = from_text(call)
            code = f"{exercise.solution}\nassert f({argument!r}) == {from_text(expected)!r}"
            if subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=10, check=False).returncode:
                return False
        return True

    with ThreadPoolExecutor(workers) as threads:
        return sum(threads.map(passes, exercises))


def start_seconds(start: Callable[[], SandboxProcess]) -> float:
    """From nothing to a program that is loaded."""
    began = time.perf_counter()
    process = start()
    process.begin(Execution("def f(x): return x", "f", ("[1]",)), "candidate", time.monotonic() + 10)
    said = process.say()
    taken = time.perf_counter() - began
    process.close()
    assert said == ("V", ""), said
    return taken


def main() -> int:
    """Measure in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100, help="programs in one turn (default 100)")
    parser.add_argument("--turns", type=int, default=5, help="turns of each (default 5)")
    parser.add_argument("--workers", type=int, default=usable_cores(), help="at a time (default: one for each core)")
    parser.add_argument("--json", action="store_true", help="print every turn as JSON")
    arguments = parser.parse_args()
    problems = draw_problems(TASKS["programs"], "pipelines", "P3", "dev", arguments.programs)
    exercises = [problem.instance for problem in problems]
    starts = {name: start for name, start in SANDBOXES.items() if not why_not(name)}
    starts["no sandbox"] = start_unsafe_local
    pools = {name: RunnerPool(start, workers=arguments.workers) for name, start in starts.items()}
    rates: dict[str, list[float]] = {name: [] for name in (*pools, PLAIN)}
    for _ in range(arguments.turns):
        for name, found in rates.items():
            few = exercises if name in pools else exercises[: max(1, len(exercises) // 10)]
            began = time.perf_counter()
            right = isolated(pools[name], few) if name in pools else plain(arguments.workers, few)
            found.append(len(few) / (time.perf_counter() - began))
            if right != len(few):
                raise SystemExit(f"{name}: {right} of {len(few)} solutions are right, expected all")
    for pool in pools.values():
        pool.close()
    begun = {name: [start_seconds(start) for _ in range(20)] for name, start in starts.items()}
    if arguments.json:
        print(json.dumps({"rates": rates, "start_seconds": begun, "workers": arguments.workers}, indent=1))
    else:
        print(shown(rates, begun))
    return 0


def shown(rates: Mapping[str, Sequence[float]], begun: Mapping[str, Sequence[float]]) -> str:
    """Medians and ranges."""
    base = statistics.median(rates[PLAIN])
    rows = [
        [
            name,
            f"{statistics.median(found):.1f} ({min(found):.1f}-{max(found):.1f})",
            f"{statistics.median(found) / base:.1f}",
            f"{1000 * statistics.median(begun[name]):.0f}" if name in begun else "-",
        ]
        for name, found in rates.items()
    ]
    return table(["runner", "programs a second, median (range)", "times a subprocess a test", "start, ms"], rows)


if __name__ == "__main__":
    sys.exit(main())
