"""Evaluators of schedules beside the verifier: shares of constraints that hold, and how short a right schedule is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.tasks.scheduling.answer import parse
from gce.domain.tasks.scheduling.branch_and_bound import MAX_JOBS, solve
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.resource_profile import overloads
from gce.domain.verdicts import Verdict, Violation, deciding

__all__ = ["SCORES", "least_makespan"]

Starts = Mapping[str, int]

NODES = 200_000
"""Nodes that the proof of a shortest schedule may take."""


def _of_schedule(share: Callable[[Instance, Starts], float]) -> Callable[..., float]:
    """The share where the answer gives each job one start and no other job; else 0."""

    def score(problem: Problem, completion: Completion, _verdicts: Sequence[Verdict]) -> float:
        answer = parse(completion.text)
        if isinstance(answer, Violation) or sorted(label for label, _ in answer.entries) != sorted(
            problem.instance.labels
        ):
            return 0.0
        return share(problem.instance, dict(answer.entries))

    return score


def _ends(instance: Instance, starts: Starts) -> dict[str, int]:
    return {job.label: starts[job.label] + job.duration for job in instance.jobs}


def _precedence(instance: Instance, starts: Starts) -> float:
    """The share of pairs in which the later job starts when the earlier one has ended; 1 without pairs."""
    ends = _ends(instance, starts)
    held = [starts[after] >= ends[before] for before, after in instance.precedence]
    return sum(held) / len(held) if held else 1.0


def _capacity(instance: Instance, starts: Starts) -> float:
    """The share of jobs that are in no resource's worst overload."""
    overloaded = {label for _, _, _, holding in overloads(instance, starts) for label in holding}
    return 1.0 - len(overloaded) / len(instance.jobs)


def _deadlines(instance: Instance, starts: Starts) -> float:
    """The share of deadlines kept, that of the project among them; 1 without deadlines."""
    ends = _ends(instance, starts)
    kept = [ends[job.label] <= job.deadline for job in instance.jobs if job.deadline is not None]
    if instance.horizon is not None:
        kept.append(max(ends.values()) <= instance.horizon)
    return sum(kept) / len(kept) if kept else 1.0


def _optimality(problem: Problem, completion: Completion, verdicts: Sequence[Verdict]) -> float | None:
    """The least makespan over that of a right answer; 0 for one that is not right, None where no least is proven."""
    own = deciding(verdicts)
    if not own or not all(verdict.right for verdict in own):
        return 0.0
    least, makespan = least_makespan(problem.instance), own[0].measures["makespan"]
    if least is None:
        return None
    return least / makespan if makespan else 1.0


@lru_cache(maxsize=4096)
def least_makespan(instance: Instance) -> int | None:
    """Return the proven least makespan under all constraints; None for too many jobs, or more than `NODES`."""
    if len(instance.jobs) > MAX_JOBS:
        return None
    found = solve(instance, node_limit=NODES)
    return found.makespan if found.status == "optimal" else None


SCORES: Mapping[str, Callable[[Problem, Completion, Sequence[Verdict]], float | None]] = {
    "precedence": _of_schedule(_precedence),
    "capacity": _of_schedule(_capacity),
    "deadlines": _of_schedule(_deadlines),
    "optimality": _optimality,
}
