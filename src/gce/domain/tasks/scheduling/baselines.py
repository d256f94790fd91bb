"""Prompt-blind baselines, which ignore the problem or one family of its constraints, and heuristics.

If a baseline does well on a tier, the tier does not measure what its name says. Heuristics, which read every constraint
but do not search, are reference rows. Each policy returns a full response in the answer grammar.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from gce.domain.problems import Problem
from gce.domain.randomness import python_generator
from gce.domain.tasks.parts import Policy
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.branch_and_bound import MAX_JOBS, solve
from gce.domain.tasks.scheduling.heuristics import HEURISTICS, earliest_starts
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.short_schedules import short_schedule

__all__ = ["families", "heuristic_policies", "prompt_blind_baselines"]

Arrange = Callable[[Sequence[str]], list[str]]
"""Orders the labels: the first gets the first fixed start, the second the second, and so on."""

CLIMBED = 10
"""Number of fixed answers, the best training solutions, that coordinate ascent improves."""


def families(instance: Instance) -> frozenset[str]:
    """Return the families of constraints in an instance; a single crew of one unit does not count as a family."""
    found = {
        "sequencing": bool(instance.precedence),
        "resources": bool(instance.resources) and not _one_crew(instance),
        "deadlines": any(job.deadline is not None for job in instance.jobs),
    }
    return frozenset(name for name, active in found.items() if active)


def _one_crew(instance: Instance) -> bool:
    return [resource.capacity for resource in instance.resources] == [1]


def _one_after_another(instance: Instance, order: Sequence[str]) -> str:
    starts, now = {}, 0
    for label in order:
        starts[label] = now
        now += instance.job(label).duration
    return render({label: starts[label] for label in instance.labels})


def _all_at_zero(problem: Problem, _rng: random.Random) -> str:
    return render(dict.fromkeys(problem.instance.labels, 0))


def _label_order(problem: Problem, _rng: random.Random) -> str:
    return _one_after_another(problem.instance, sorted(problem.instance.labels))


def _prompt_order(problem: Problem, _rng: random.Random) -> str:
    return _one_after_another(problem.instance, problem.instance.labels)


def _topological_order(problem: Problem, _rng: random.Random) -> str | None:
    # With sequencing alone this reads the whole problem; it is prompt-blind only if resources or deadlines matter too.
    if families(problem.instance) <= {"sequencing"}:
        return None
    return _one_after_another(problem.instance, problem.instance.topological_order)


def _random_starts(problem: Problem, rng: random.Random) -> str:
    horizon = problem.instance.horizon or sum(job.duration for job in problem.instance.jobs)
    return render({job.label: rng.randint(0, max(0, horizon - job.duration)) for job in problem.instance.jobs})


def _prompt_example(problem: Problem, _rng: random.Random) -> str:
    return "Answer: " + problem.prompt[-1].content.rpartition("Answer: ")[2]


def _earliest_without_resources(problem: Problem, _rng: random.Random) -> str | None:
    # With sequencing alone this is the solution, so it counts as a heuristic there.
    if families(problem.instance) <= {"sequencing"} and not problem.instance.resources:
        return None
    return render(earliest_starts(problem.instance))


def _best(instance: Instance) -> Mapping[str, int] | None:
    """Return an optimal schedule, or a short one of a large instance; None if there is none."""
    return solve(instance).starts if len(instance.jobs) <= MAX_JOBS else short_schedule(instance)


def _without(family: str) -> Policy:
    def policy(problem: Problem, _rng: random.Random) -> str | None:
        if family not in families(problem.instance):
            return None
        starts = _best(problem.instance.without(family))
        return None if starts is None else render({label: starts[label] for label in problem.instance.labels})

    return policy


def prompt_blind_baselines(training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Return all prompt-blind baselines; the fixed answers are fitted to the training problems of each tier."""
    by_rank, by_position = _FixedAnswers(training, sorted), _FixedAnswers(training, list)
    return {
        "every job at 0": _all_at_zero,
        "one after another, label order": _label_order,
        "one after another, prompt order": _prompt_order,
        "one after another, topological": _topological_order,
        "random starts": _random_starts,
        "the prompt's own example": _prompt_example,
        "best fixed answer, by label rank": by_rank.answer,
        "best fixed answer, by prompt position": by_position.answer,
        "earliest start, resources ignored": _earliest_without_resources,
        "optimal, sequencing dropped": _without("sequencing"),
        "optimal, resources dropped": _without("resources"),
        "optimal, deadlines dropped": _without("deadlines"),
    }


class _FixedAnswers:
    """The best answer per tier that depends only on the number of jobs; fitted on first use."""

    def __init__(self, training: Sequence[Problem], arrange: Arrange) -> None:
        self.arrange = arrange
        self.training: dict[str, list[Instance]] = defaultdict(list)
        for problem in training:
            self.training[problem.tier].append(problem.instance)
        self.fitted: dict[str, list[int]] = {}

    def answer(self, problem: Problem, _rng: random.Random) -> str | None:
        instances = self.training.get(problem.tier)
        if not instances:
            return None
        if problem.tier not in self.fitted:
            self.fitted[problem.tier] = _fit(problem.tier, instances, self.arrange)
        labels = self.arrange(problem.instance.labels)
        return render(dict(zip(labels, self.fitted[problem.tier], strict=True)))


def _fit(tier: str, instances: Sequence[Instance], arrange: Arrange) -> list[int]:
    """Find the starts that solve most instances: take the instances' best solutions and improve them by climbing.

    Those of large instances are not improved.
    """
    solutions = []
    for instance in instances:
        starts = _best(instance)
        if starts is not None:
            solutions.append([starts[label] for label in arrange(instance.labels)])
    stack = _Stack(instances, arrange)
    score = {tuple(values): stack.solved(values) for values in solutions}
    best = sorted(score, key=lambda values: (-score[values], values))[:CLIMBED]
    if len(best[0]) > MAX_JOBS:
        return list(best[0])  # Climbing would take hours.
    rng = python_generator("fixed answers", tier)
    climbed = [_climb(stack, list(values), score[values], rng) for values in best]
    return max(climbed)[1]


def _climb(stack: _Stack, values: list[int], count: int, rng: random.Random) -> tuple[int, list[int]]:
    """Improve the answer by one round of coordinate ascent, in random order of coordinates."""
    for coordinate in rng.sample(range(len(values)), len(values)):
        for value in range(stack.latest_end):
            trial = [*values[:coordinate], value, *values[coordinate + 1 :]]
            if (found := stack.solved(trial)) > count:
                values, count = trial, found
    return count, values


class _Stack:
    """The verifier's constraints on instances of equal size, as arrays over instances; jobs are in arranged order."""

    def __init__(self, instances: Sequence[Instance], arrange: Arrange) -> None:
        labels = [arrange(instance.labels) for instance in instances]
        count, jobs = len(instances), len(labels[0])
        kinds = max(len(instance.resources) for instance in instances)
        self.latest_end = max(instance.horizon or 0 for instance in instances)
        self.durations = np.zeros((count, jobs), np.int64)
        self.due = np.full((count, jobs), np.iinfo(np.int64).max)
        self.precedes = np.zeros((count, jobs, jobs), bool)
        """precedes[i, j, k]: in instance i, job j must end before job k starts."""
        self.holds = [
            (np.zeros((count, jobs), np.int64), np.zeros((count, kinds, jobs), np.int64))
            for _ in range(max(len(job.holds) for instance in instances for job in instance.jobs))
        ]
        """Pairs (length, units) of arrays: how long after its start a job holds which units. More than one pair if a
        job releases some units early."""
        self.capacities = np.zeros((count, kinds, 1), np.int64)
        for index, instance in enumerate(instances):
            place = {label: at for at, label in enumerate(labels[index])}
            for job in instance.jobs:
                at = place[job.label]
                self.durations[index, at] = job.duration
                for (lengths, units), (length, held) in zip(self.holds, job.holds, strict=False):
                    lengths[index, at] = length
                    units[index, : len(held), at] = held
                hours = [hour for hour in (job.deadline, instance.horizon) if hour is not None]
                if hours:
                    self.due[index, at] = min(hours)
            for before, after in instance.precedence:
                self.precedes[index, place[before], place[after]] = True
            for kind, resource in enumerate(instance.resources):
                self.capacities[index, kind] = resource.capacity

    def solved(self, values: Sequence[int]) -> int:
        """Return the number of instances that these starts solve.

        Deadlines and precedence reject most instances, so resources are checked only for the rest. They are checked at
        each start, because usage can rise only there.
        """
        starts = np.array(values)
        ends = starts + self.durations
        left = np.flatnonzero((ends <= self.due).all(axis=1))
        early = ends[left][:, :, None] > starts
        left = left[~(early & self.precedes[left]).any(axis=(1, 2))]
        parts = []
        for lengths, units in self.holds:
            releases = starts + lengths[left]
            holding = (starts <= starts[:, None]) & (releases[:, None, :] > starts[:, None])
            parts.append(units[left] @ holding.transpose(0, 2, 1))
        held = reduce(np.add, parts)
        return int((held <= self.capacities[left]).all(axis=(1, 2)).sum())


def heuristic_policies(_training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Return serial schedules by priority rule, and the earliest starts under precedence alone."""

    def policy(name: str) -> Policy:
        def answer(problem: Problem, rng: random.Random) -> str:
            starts = HEURISTICS[name](problem.instance, rng)
            return render({label: starts[label] for label in problem.instance.labels})

        return answer

    return {name: policy(name) for name in HEURISTICS}
