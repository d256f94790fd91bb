"""Answers that do not solve the problem: they ignore it, or one family of its constraints.

A tier on which one of them does well does not measure what it is named for. Heuristics, which do read every
constraint but search nothing, are reference rows. Each policy returns a full response in the answer grammar.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from gce.domain.randomness import python_generator
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.exact import solve
from gce.domain.tasks.scheduling.heuristics import HEURISTICS, earliest_starts
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.verify import judge
from gce.domain.tasks.task import Policy
from gce.domain.types import Problem

__all__ = ["blind_policies", "families", "heuristic_policies"]

CLIMBED = 10
"""Fixed answers that are improved by coordinate ascent, the best of the training solutions."""


def families(instance: Instance) -> frozenset[str]:
    """The families of constraints that an instance has; one unit crew is part of the setting, not a family."""
    found = {
        "sequencing": bool(instance.precedence),
        "resources": bool(instance.resources) and not _one_crew(instance),
        "deadlines": any(job.deadline is not None for job in instance.jobs),
    }
    return frozenset(name for name, active in found.items() if active)


def _one_crew(instance: Instance) -> bool:
    return [resource.capacity for resource in instance.resources] == [1]


def _answer(starts: Mapping[str, int]) -> str:
    return render(starts)


def _one_after_another(instance: Instance, order: Sequence[str]) -> str:
    starts, now = {}, 0
    for label in order:
        starts[label] = now
        now += instance.job(label).duration
    return _answer({label: starts[label] for label in instance.labels})


def _all_at_zero(problem: Problem, _rng: random.Random) -> str:
    return _answer(dict.fromkeys(problem.instance.labels, 0))


def _label_order(problem: Problem, _rng: random.Random) -> str:
    return _one_after_another(problem.instance, sorted(problem.instance.labels))


def _prompt_order(problem: Problem, _rng: random.Random) -> str:
    return _one_after_another(problem.instance, problem.instance.labels)


def _topological_order(problem: Problem, _rng: random.Random) -> str | None:
    # On sequencing alone this reads all there is to read; it is blind only where resources or deadlines matter too.
    if families(problem.instance) <= {"sequencing"}:
        return None
    return _one_after_another(problem.instance, problem.instance.topological_order)


def _random_starts(problem: Problem, rng: random.Random) -> str:
    horizon = problem.instance.horizon or sum(job.duration for job in problem.instance.jobs)
    return _answer({job.label: rng.randint(0, max(0, horizon - job.duration)) for job in problem.instance.jobs})


def _prompt_example(problem: Problem, _rng: random.Random) -> str:
    return problem.prompt[-1].content.rpartition("Answer: ")[2].join(("Answer: ", ""))


def _earliest_without_resources(problem: Problem, _rng: random.Random) -> str | None:
    # On sequencing alone this is the solution, so it counts as a heuristic there.
    if families(problem.instance) <= {"sequencing"} and not problem.instance.resources:
        return None
    return _answer(earliest_starts(problem.instance))


def _without(family: str) -> Policy:
    def policy(problem: Problem, _rng: random.Random) -> str | None:
        if family not in families(problem.instance):
            return None
        starts = solve(problem.instance.without(family)).starts
        return None if starts is None else _answer({label: starts[label] for label in problem.instance.labels})

    return policy


def blind_policies(training: Sequence[Problem]) -> Mapping[str, Policy]:
    """All blind answers; the fixed ones are fitted to the training problems, tier by tier."""
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
    """The best answer that depends on the number of jobs alone, for each tier; fitted when first asked."""

    def __init__(self, training: Sequence[Problem], arrange: Callable[[Sequence[str]], list[str]]) -> None:
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
            self.fitted[problem.tier] = self._fit(problem.tier, instances)
        labels = self.arrange(problem.instance.labels)
        return _answer(dict(zip(labels, self.fitted[problem.tier], strict=True)))

    def _passes(self, instance: Instance, values: Sequence[int]) -> bool:
        return not judge(instance, dict(zip(self.arrange(instance.labels), values, strict=True)))

    def _fit(self, tier: str, instances: Sequence[Instance]) -> list[int]:
        solutions = []
        for instance in instances:
            starts = solve(instance).starts
            if starts is not None:
                solutions.append([starts[label] for label in self.arrange(instance.labels)])
        score = {tuple(values): self._count(instances, values) for values in solutions}
        best = sorted(score, key=lambda values: (-score[values], values))[:CLIMBED]
        rng = python_generator("fixed answers", tier)
        climbed = [self._climb(instances, list(values), score[values], rng) for values in best]
        return max(climbed)[1]

    def _count(self, instances: Sequence[Instance], values: Sequence[int]) -> int:
        return sum(self._passes(instance, values) for instance in instances)

    def _climb(
        self, instances: Sequence[Instance], values: list[int], count: int, rng: random.Random
    ) -> tuple[int, list[int]]:
        """One round over the coordinates in random order, each set to its best value."""
        latest = max(instance.horizon or 0 for instance in instances)
        for coordinate in rng.sample(range(len(values)), len(values)):
            for value in range(latest):
                trial = [*values[:coordinate], value, *values[coordinate + 1 :]]
                if (found := self._count(instances, trial)) > count:
                    values, count = trial, found
        return count, values


def heuristic_policies(_training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Serial schedules by priority rule, and the earliest start by precedence alone."""

    def policy(name: str) -> Policy:
        def answer(problem: Problem, rng: random.Random) -> str:
            starts = HEURISTICS[name](problem.instance, rng)
            return _answer({label: starts[label] for label in problem.instance.labels})

        return answer

    return {name: policy(name) for name in HEURISTICS}
