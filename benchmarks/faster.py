"""How well the speed-ups of task `faster` repeat: `python -m benchmarks.faster`.

For each tier, the slow and the fast form of drawn problems are judged as a program would be, beside the slow and the
fast form. The speed-up of the slow form over itself should be 1 and below the margin of `verify.MARGIN`, that of the
fast form as large as the known one. Equality of values is not looked at here, so few calls are made before the timed
ones.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from attrs import evolve

from gce.app.tables.layout import table
from gce.app.wiring.sandboxes import LazyRunner, add_runner
from gce.domain.completions import Completion
from gce.domain.executions import Execution
from gce.domain.problems import Problem
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.faster.verify import graded, request, speedup
from gce.domain.tasks.programs.answer import fenced
from gce.errors import GceError

FASTER = TASKS["faster"]
CALLS = 3


def asked(problem: Problem, program: str) -> Execution:
    """The timed calls of an answer, and few others."""
    execution = request(problem, Completion("answer", fenced(program), "stop", policy=""))
    assert execution is not None
    return evolve(execution, calls=execution.calls[:CALLS])


def cell(values: list[float]) -> str:
    """Median, and the whole range."""
    return f"{np.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> int:
    """Draw, time and print a row for each tier."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=20, help="problems a tier (default 20)")
    add_runner(parser)
    arguments = parser.parse_args()
    runner, rows = LazyRunner(arguments.runner), []
    try:
        for tier in FASTER.tiers("functions"):
            problems = draw_problems(FASTER, "functions", tier.name, "test", arguments.n)
            again, known, scores = [], [], []
            executions = [asked(each, form) for each in problems for form in (each.instance.slow, each.instance.fast)]
            for number, evidence in enumerate(runner.run(executions)):
                slow, fast = (outcomes[CALLS:] for outcomes in evidence.rivals)
                own = speedup(evidence.outcomes[CALLS:], slow)
                known.append(speedup(fast, slow))
                if number % 2:
                    scores.append(graded(own, known[-1]))
                else:
                    again.append(own)
            rows.append([tier.name, str(len(problems)), cell(again), cell(known), cell(scores)])
    except GceError as error:
        print(f"benchmarks.faster: {error}", file=sys.stderr)
        return 2
    print(table(["tier", "n", "slow form over itself", "known speed-up", "score of the fast form"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
