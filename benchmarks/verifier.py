"""Answers judged a second, ours and by the method of the reference."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.contest import Turn, measured
from gce.adapters.solvers.pure_python import ExactSolver
from gce.adapters.system.clocks import SystemClock
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.scheduling.dispatch import by_deadline
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.reasoning import worked_response
from gce.domain.tasks.scheduling.verify import verify

CHARACTERS = 1_000
ANSWERS = 60
TIMES = 20
"""How often a turn judges them all; once is over before a clock can be trusted."""


def answers() -> list[tuple[Instance, str]]:
    """Problems of ten jobs, each with a right answer at the end of a thousand characters."""
    task = TASKS["scheduling"]
    solve = ExactSolver(SystemClock()).solve
    found = []
    for problem in draw_problems(task, "grounded", "T5", "dev", ANSWERS, seed=1, solve=solve):
        instance = problem.instance
        text = worked_response(instance, by_deadline(instance, instance.labels), deadlines=True)
        if verify(instance, text).right:
            found.append((instance, text[-CHARACTERS:]))
    return found


def ours() -> Callable[[], Turn]:
    """`gce.verify`."""
    return _judging(verify)


def reference() -> Callable[[], Turn]:
    """Rebuilt from what is known of it: every letter before a number counts, the last one wins, hours one by one."""
    return _judging(_judge_hour_by_hour)


def _judging(judge: Callable[[Instance, str], object]) -> Callable[[], Turn]:
    judged = answers() * TIMES

    def work() -> float:
        for instance, text in judged:
            judge(instance, text)
        return len(judged)

    return lambda: measured(work)


_PAIR = re.compile(r"([A-Za-z])\s*[:=\-]?\s*(\d+)")


def _judge_hour_by_hour(instance: Instance, text: str) -> bool:
    starts = {label.upper(): int(hour) for label, hour in _PAIR.findall(text)}
    if any(label not in starts for label in instance.labels):
        return False
    ends = {job.label: starts[job.label] + job.duration for job in instance.jobs}
    kept = all(ends[before] <= starts[after] for before, after in instance.precedence)
    for hour in range(max(ends.values())):
        running = [job for job in instance.jobs if starts[job.label] <= hour < ends[job.label]]
        for index, resource in enumerate(instance.resources):
            kept &= sum(job.demands[index] for job in running) <= resource.capacity
    kept &= all(job.deadline is None or ends[job.label] <= job.deadline for job in instance.jobs)
    return kept and (instance.horizon is None or max(ends.values()) <= instance.horizon)
