"""Intervals of identical code: `python -m benchmarks.identical_code [DIR] [--comparisons N] [--minutes M]`.

Compares the base of performance tasks with a copy of itself, task by task in turn, each time with new sandboxes and new
inputs, by the rule that `gce performance admit` has for an empty patch. Prints for each task, and over all: how many
comparisons were made, how many intervals lie within [0.95, 1.05], how many contain 1, how many verdicts claim
a gain, and the smallest and largest ratio. Exit status 1 if a gain was found.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gce.app.wiring.performance import find_measuring, find_tasks, tree_writer
from gce.domain.performance.decision import CLOSE, GAIN, Comparison, decide_same
from gce.domain.randomness import key
from gce.domain.statistics import wilson

NO_GAIN = ("no gain", "inconclusive")


def main() -> int:
    """Compare, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("dir", type=Path, nargs="?", help="a task, or a directory of tasks (default: the shipped ones)")
    parser.add_argument("--comparisons", type=int, default=100, metavar="N")
    parser.add_argument("--minutes", type=float, default=60.0, metavar="M", help="start no comparison after these")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tasks, measuring = find_tasks(arguments.dir), find_measuring()
    found: dict[str, list[Comparison]] = {task.name: [] for _, task in tasks}
    end = time.monotonic() + 60 * arguments.minutes
    for number, (directory, task) in enumerate(itertools.islice(itertools.cycle(tasks), arguments.comparisons)):
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory(prefix="gce-") as home:
            tree = Path(home, "base")
            tree_writer(directory)(task.base, tree)
            drawn = key(arguments.seed, number)
            compared = measuring.compare(task, tree, tree, seed=drawn, rule=decide_same, checked=0)
        if compared.gain is None:
            raise SystemExit(f"{task.name}: the base is not equal to itself: {compared.fault}")
        found[task.name].append(compared)
        gain = compared.gain
        print(
            f"# {task.name}: {gain.value:.3f} ({gain.low:.3f}-{gain.high:.3f}, n = {len(compared.rounds)})", flush=True
        )
    print("| task | comparisons | within | contain 1 | gains | ratios |\n|---|---|---|---|---|---|")
    for name, several in found.items():
        if several:
            print(row(name, several))
    together = [each for several in found.values() for each in several]
    print(row("all", together))
    within = sum(map(is_within, together))
    limits = wilson(within, len(together))
    print(f"within [{CLOSE}, {GAIN}]: {within} of {len(together)} (95 % interval {limits.low:.3f}-{limits.high:.3f})")
    return int(any(each.verdict not in NO_GAIN for each in together))


def is_within(compared: Comparison) -> bool:
    """Whether the interval lies within the limits that admission sets."""
    return compared.gain is not None and compared.gain.low >= CLOSE and compared.gain.high <= GAIN


def row(name: str, several: Sequence[Comparison]) -> str:
    """Return a row of the table."""
    gains = [each.gain for each in several if each.gain is not None]
    around = sum(each.low <= 1.0 <= each.high for each in gains)
    claimed = sum(each.verdict not in NO_GAIN for each in several)
    values = [each.value for each in gains]
    cells = (len(several), sum(map(is_within, several)), around, claimed, f"{min(values):.3f}-{max(values):.3f}")
    return "| " + " | ".join(map(str, (name, *cells))) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
