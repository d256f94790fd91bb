"""Problems of a task, drawn by their identity: the same on every machine.

A split owns quarters of the space of canonical digests, and a draw that falls outside is drawn again: no problem of one
split can be one of another with other labels or another wording, however small the space of problems. No two dev or
test problems of a tier have the same digest, nor training problems of a task whose draws are `distinct`. Knows nothing
of models and verdicts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from hashlib import blake2b
from itertools import count as count_up
from typing import Any

from attrs import define, evolve, field

from gce.domain.problems import Problem, ProblemId, Split
from gce.domain.randomness import python_generator
from gce.domain.tasks.drawing import NoProblem, first_that_fits
from gce.domain.tasks.task import Drawn, Listed, Task

__all__ = ["SPLITS", "ProblemSource", "draw_problem", "draw_problems", "quarter"]

DRAWS = 2_000
"""Draws for one problem at most, those that fall into another split or repeat a problem included."""

SPLITS: Mapping[str, tuple[int, ...]] = {"train": (0, 1), "dev": (2,), "test": (3,)}
"""Which quarters of the space of canonical digests belong to a split."""

_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{8,}")


def quarter(digest: str) -> int:
    """The quarter of the space of digests, 0 to 3: by the first eight digits of a hexadecimal one, else by its hash."""
    if not _HEXADECIMAL.fullmatch(digest):
        digest = blake2b(digest.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return int(digest[:8], 16) % 4


@define
class _Seen:
    """The problems of a tier and split that were drawn; draws do not depend on it, only how soon they are done."""

    digests: dict[str, int] = field(factory=dict)
    """Of the first problems, with their numbers."""
    all: bool = False
    """Whether there are no others."""


class ProblemSource:
    """Draws problems of one task and remembers which it has drawn, so that number i costs no more than a few draws.

    `solve` is the exact solver that the task's `draw` is given.
    """

    def __init__(self, task: Task, *, solve: Any = None) -> None:
        self.task = task
        self._solve = solve
        self._seen: dict[tuple[str, str, Split, int], _Seen] = {}
        self._how = task.draw if isinstance(task.draw, (Drawn, Listed)) else Drawn(task.draw)
        self._last: tuple[str, Problem] | None = None
        """The problem that was drawn again last, which an answer's chart and its judged steps both need."""

    def draw(self, preset: str, tier: str, split: Split, index: int, *, seed: int = 0) -> Problem:
        """Problem number `index` of a tier in one split.

        Where no two may have the same digest, number i follows from those before it, which are drawn first. Where
        `DRAWS` draws find no further one, the problems repeat from the first on, under the keys that they have.

        Raises:
            NoProblem: there is none of this split.
        """
        wanted = ProblemId(self.task.name, preset, split, tier, seed, index)
        if isinstance(self._how, Listed):
            return self._listed(wanted, self._how)
        seen = _Seen()
        if not self._repeats(split):
            seen = self._seen.setdefault((preset, tier, split, seed), seen)
            while not seen.all and len(seen.digests) < index:
                self._next(evolve(wanted, index=len(seen.digests)), self._how, seen)
        return self._next(wanted, self._how, seen)

    def first(self, preset: str, tier: str, split: Split, count: int, *, seed: int = 0) -> tuple[Problem, ...]:
        """The first `count` problems of a tier in one split; all of them, where it has fewer.

        Those of dev and test differ in their digests, so that as many as there are is the n of an evaluation.
        """
        listed = self._how.instances(preset, tier, split) if isinstance(self._how, Listed) else None
        repeats = self._repeats(split)
        drawn: dict[str, Problem] = {}
        for index in range(count if listed is None else len(listed)):
            if len(drawn) == count:
                break
            problem = self.draw(preset, tier, split, index, seed=seed)
            if not repeats and problem.digest in drawn:
                if listed is None:
                    break
                continue
            drawn[problem.key if repeats else problem.digest] = problem
        return tuple(drawn.values())

    def redraw(self, key: str) -> Problem:
        """The problem that has this key.

        Raises:
            ValueError: the key is not one of this task's.
        """
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        try:
            wanted = ProblemId.parse(key)
        except ValueError:
            wanted = None
        tiers = [] if wanted is None else [each.name for each in self.task.presets.get(wanted.preset, ())]
        if wanted is None or wanted.task != self.task.name or wanted.tier not in tiers or wanted.index < 0:
            raise ValueError(f"expected a key of task {self.task.name}, task/preset/split/tier/seed/index, got {key!r}")
        found = self.draw(wanted.preset, wanted.tier, wanted.split, wanted.index, seed=wanted.seed)
        self._last = key, found
        return found

    def _repeats(self, split: Split) -> bool:
        """Whether two problems of a split may have the same digest."""
        return split == "train" and (isinstance(self._how, Listed) or not self._how.distinct)

    def _listed(self, wanted: ProblemId, how: Listed) -> Problem:
        instances = how.instances(wanted.preset, wanted.tier, wanted.split)
        if not instances:
            raise NoProblem(f"task {wanted.task}, tier {wanted.tier}: there are no {wanted.split} problems")
        wanted = evolve(wanted, index=wanted.index % len(instances))
        rng = python_generator(*_purpose(wanted, wanted.task))
        return self._problem(wanted, instances[wanted.index], rng)

    def _next(self, wanted: ProblemId, how: Drawn, seen: _Seen) -> Problem:
        """The problem, unlike those that were seen, or one of them where there are no others."""
        found = None if seen.all else self._unseen(wanted, how, seen.digests)
        if found is None and seen.digests:
            seen.all = True
            wanted = evolve(wanted, index=wanted.index % len(seen.digests))
            found = self._unseen(wanted, how, seen.digests)
        if found is None:
            raise NoProblem(
                f"task {wanted.task}, tier {wanted.tier}: {DRAWS:,} draws gave no problem for the {wanted.split} "
                "split; its digests must be spread over the instances"
            )
        problem = self._problem(wanted, *found)
        seen.digests.setdefault(problem.digest, wanted.index)
        return problem

    def _unseen(self, wanted: ProblemId, how: Drawn, digests: Mapping[str, int]) -> tuple[Any, random.Random] | None:
        """An instance of the split unlike those of lower numbers, with its generator."""
        attempts = count_up()

        def attempt() -> tuple[Any, random.Random] | None:
            rng = python_generator(*_purpose(wanted, how.stream or wanted.task), next(attempts))
            instance = how.draw(wanted.preset, wanted.tier, rng, self._solve)
            digest = self.task.digest(instance)
            fits = quarter(digest) in SPLITS[wanted.split] and digests.get(digest, wanted.index) >= wanted.index
            return (instance, rng) if fits else None

        return first_that_fits(attempt, tries=DRAWS)

    def _problem(self, wanted: ProblemId, instance: Any, rng: random.Random) -> Problem:
        return Problem(wanted, instance, self.task.prompt(instance, rng), self.task.digest(instance))


def _purpose(wanted: ProblemId, stream: str) -> tuple[str | int, ...]:
    """What names the random numbers of a problem."""
    return (wanted.seed, "problem", stream, wanted.preset, wanted.split, wanted.tier, wanted.index)


def draw_problem(
    task: Task, preset: str, tier: str, split: Split, index: int, *, seed: int = 0, solve: Any = None
) -> Problem:
    """Problem number `index` of a tier in one split; the same on every machine.

    Raises:
        NoProblem: there is none of this split.
    """
    return ProblemSource(task, solve=solve).draw(preset, tier, split, index, seed=seed)


def draw_problems(
    task: Task, preset: str, tier: str, split: Split, count: int, *, seed: int = 0, solve: Any = None
) -> tuple[Problem, ...]:
    """The first `count` problems of a tier in one split; all of them, where it has fewer."""
    return ProblemSource(task, solve=solve).first(preset, tier, split, count, seed=seed)
