"""What three cheap evaluators and a critic add to a training run: `python -m benchmarks.evaluator_overhead`.

Small runs of the shipped model take turns, each in a process of its own: one as it is, and one with the evaluators
`steps`, `length` and `deadlines`, held out so that both generate and learn the same, after which a critic is fitted to
its rollouts and predicts each. Prints the processor seconds of each pair, and the median overhead with its range.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from gce.domain.completions import Completion
from gce.domain.evaluators.critic import features_of, out_of_fold

EVALUATORS = ("steps", "length", "deadlines")
SIZES: Any = {"iterations": 1, "updates": 4, "dev": 0, "shifts": 0, "threads": 1, "progress": False}


def once(problems: int, test: int, *, evaluators: bool) -> dict[str, Any]:
    """Train in this process, and return its processor seconds and the weights that it came to."""
    import gce

    gce.train(**{**SIZES, "problems": 5, "samples": 1, "updates": 1, "test": 0})  # Loading is not measured.
    began = time.process_time()
    held_out: Any = {"evaluators": {"hold_out": EVALUATORS}} if evaluators else {}
    result = gce.train(problems=problems, samples=4, test=test, **SIZES, **held_out)
    if evaluators:
        with result.runs.read(result.name) as run:
            rows = list(run.read("rollouts"))
        said = [Completion("", each["text"], each["finish_reason"], "", tokens=each["tokens"]) for each in rows]
        columns = [[each[name] for each in rows] for name in ("tier", "problem")]
        import numpy as np

        out_of_fold(features_of(said), np.array([each["right"] for each in rows], float), *columns)
    return {"seconds": time.process_time() - began, "policy": result.summary["policy"]}


def main() -> None:
    """Print a JSON object for each pair, and one for all."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=4, help="pairs of runs (default %(default)s)")
    parser.add_argument("--problems", type=int, default=20, help="problems of four rollouts (default %(default)s)")
    parser.add_argument("--test", type=int, default=10, help="test problems per tier (default %(default)s)")
    parser.add_argument("--once", choices=("plain", "evaluators"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(json.dumps(once(given.problems, given.test, evaluators=given.once == "evaluators")))
        return
    added = []
    for pair in range(given.pairs):
        order = ("plain", "evaluators") if pair % 2 == 0 else ("evaluators", "plain")
        found = {kind: _in_process(kind, given.problems, given.test) for kind in order}
        assert found["plain"]["policy"] == found["evaluators"]["policy"], "both learn the same"
        seconds = {kind: round(each["seconds"], 2) for kind, each in found.items()}
        added.append(100.0 * (seconds["evaluators"] / seconds["plain"] - 1.0))
        print(json.dumps({"pair": pair + 1, **seconds, "overhead_percent": round(added[-1], 1)}), flush=True)
    summary = {"median": statistics.median(added), "low": min(added), "high": max(added)}
    print(json.dumps({name: round(value, 1) for name, value in summary.items()} | {"pairs": len(added)}))


def _in_process(kind: str, problems: int, test: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.evaluator_overhead", "--once", kind]
    sizes = ["--problems", str(problems), "--test", str(test)]
    ran = subprocess.run([*command, *sizes], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
