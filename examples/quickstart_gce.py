"""A generated problem, three answers, three verdicts: python examples/quickstart_gce.py, five seconds, no model."""

from __future__ import annotations

from typing import Any

import gce
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.heuristics import earliest_starts


def main() -> None:
    """Print the problem, then each answer with what the verifier says of it."""
    problem = gce.draw_problem(gce.TASKS["scheduling"], "grounded", "T4", "train", 0)
    instance = problem.instance
    print(problem.prompt[0].content)

    optimal = solve(instance).starts
    assert optimal is not None, "every drawn problem has a schedule"
    right = render({label: optimal[label] for label in instance.labels})
    violating = render(earliest_starts(instance))  # reads the sequence, forgets the rest
    plausible = "Everything fits one after another.\n" + render(one_after_another(instance))
    for name, answer in (("right", right), ("violating", violating), ("plausible but wrong", plausible)):
        verdict = gce.judge(problem, answer)
        print(f"\n{name}:\n{answer}\n-> {verdict.status}, score {verdict.score}")
        for violation in verdict.violations[:3]:
            print(f"   {violation.kind}: {violation.message}")


def one_after_another(instance: Any) -> Any:
    """A schedule without any overlap, in the order of the prompt."""
    starts, now = {}, 0
    for job in instance.jobs:
        starts[job.label] = now
        now += job.duration
    return starts


if __name__ == "__main__":
    main()
