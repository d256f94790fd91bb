"""Demonstrations: problems of the training key space with right answers by a plain rule, or by a solver.

The few-shot mode shows them before a problem; so do runs that start a weak model with them, which may also learn them.
Such a run draws no training problem that is one of them, and none is the problem that it stands before.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from gce.app.evaluation.scoring import judge
from gce.domain.completions import Completion
from gce.domain.learning import Trace, single_turn
from gce.domain.problems import Message, Problem
from gce.domain.randomness import generator, key
from gce.domain.tasks import ProblemSource, Task
from gce.domain.verdicts import Verdict
from gce.errors import BadInput
from gce.ports.evaluator import Evaluator

__all__ = [
    "EXAMPLES_DRAWN",
    "Demonstration",
    "Turns",
    "also_from",
    "demonstrations",
    "demonstrations_for_training",
    "digests_of",
    "few_shot_turns",
    "texts_digest",
    "turns_before",
]

EXAMPLES_DRAWN = 2
"""Demonstrations a tier from which those shown are drawn, for each that is shown."""
_SHARE = 0.75
"""Of a tier's different problems, how many a run takes for examples at most."""
_TRIED = 50
"""Training problems looked at for the next example, on average, before it is said that there are no more."""

Turns = tuple[Message, ...]
"""A conversation so far."""


@frozen
class Demonstration:
    """A problem with a right answer, its reasoning written out."""

    problem: Problem
    text: str
    verdicts: tuple[Verdict, ...]

    @property
    def trace(self) -> Trace:
        """As something to learn, of iteration 0: no model wrote it."""
        return Trace(
            key=f"example/{self.problem.key}",
            problem=self.problem.key,
            tier=self.problem.tier,
            iteration=0,
            turns=single_turn(self.problem.prompt, _completion(self.text), author="task"),
            verdicts=self.verdicts,
            content_digest=self.problem.digest,
        )

    @property
    def turns(self) -> Turns:
        """As a conversation."""
        return (*self.problem.prompt, Message("assistant", self.text))


def demonstrations(
    task: Task, evaluator: Evaluator, preset: str, tiers: Sequence[str], count: int, *, solve: Any = None
) -> dict[str, tuple[Demonstration, ...]]:
    """By tier, `count` demonstrations; for a held-out tier those of the last one that is not.

    Raises:
        BadInput: the task has no demonstrations, or too few of them are right.
    """
    taught = task.training_tiers(preset, ladder=True)
    if not taught:
        raise BadInput(f"preset {preset} of task {task.name} has no tier to take examples from")
    sources = {tier: tier if tier in taught else taught[-1] for tier in tiers}
    found = {}
    for tier in dict.fromkeys(sources.values()):
        found[tier] = _found(task, evaluator, preset, tier, count, solve, share=1.0)
        if len(found[tier]) < count:
            raise BadInput(
                f"task {task.name} has {len(found[tier])} worked examples of {tier}, expected {count}: "
                + ("take fewer --shots" if found[tier] else "do without them")
            )
    return {tier: found[source] for tier, source in sources.items()}


def demonstrations_for_training(
    task: Task,
    evaluator: Evaluator,
    preset: str,
    tiers: Sequence[str],
    count: int,
    *,
    solve: Any = None,
    or_else: str = "leave out --bootstrap and --warm-up",
) -> dict[str, tuple[Demonstration, ...]]:
    """By tier, at most `count` demonstrations, and at most three quarters of the tier's problems, where so few differ.

    A tier that has none is left out: one rule may not do for all.

    Raises:
        BadInput: there are none at all.
    """
    if not tiers:
        raise BadInput(f"preset {preset} of task {task.name} has no tier to take examples from")
    found = {tier: _found(task, evaluator, preset, tier, count, solve, share=_SHARE) for tier in tiers}
    found = {tier: examples for tier, examples in found.items() if examples}
    if not found:
        names = ", ".join(tiers)
        raise BadInput(f"task {task.name} has no worked examples of {names}: {or_else}")
    return found


def also_from(further: Sequence[str]) -> str:
    """What is said of further presets of a warm-up, as words behind `examples a tier`."""
    return f", and as many of each tier of {' and '.join(further)}" if further else ""


def digests_of(known: Mapping[str, Sequence[Demonstration]]) -> frozenset[str]:
    """Of all problems that are demonstrated: those that training must not draw."""
    return frozenset(each.problem.digest for of_tier in known.values() for each in of_tier)


def texts_digest(known: Mapping[str, Sequence[Demonstration]]) -> str:
    """SHA-256 over problems and texts, in order."""
    told = [[name, each.problem.digest, each.text] for name, of_tier in known.items() for each in of_tier]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def few_shot_turns(
    task: Task, evaluator: Evaluator, preset: str, tiers: Sequence[str], count: int, *, solve: Any = None
) -> dict[str, Turns]:
    """By tier, `count` demonstrations as one conversation."""
    found = demonstrations(task, evaluator, preset, tiers, count, solve=solve)
    return {tier: tuple(turn for each in of_tier for turn in each.turns) for tier, of_tier in found.items()}


def turns_before(problem: Problem, known: Mapping[str, Sequence[Demonstration]], count: int, iteration: int) -> Turns:
    """`count` demonstrations of the problem's tier, none of them the problem.

    They are the same for all problems of an iteration, whose prompts then begin alike and are computed once.
    """
    of_tier = known.get(problem.tier, ())
    order = generator("shown", problem.tier, iteration).permutation(len(of_tier)).tolist()
    others = [of_tier[place] for place in order if of_tier[place].problem.digest != problem.digest]
    return tuple(turn for each in others[:count] for turn in each.turns)


def _found(
    task: Task, evaluator: Evaluator, preset: str, tier: str, count: int, solve: Any, *, share: float
) -> tuple[Demonstration, ...]:
    """Up to `count` problems that differ, with right answers; no more than a share of those that were looked at."""
    seen: set[str] = set()
    found: list[Demonstration] = []
    source = ProblemSource(task)
    for index in itertools.count():
        if len(found) == count <= share * len(seen) or index == _TRIED * (len(found) + 1):
            break
        problem = source.draw(preset, tier, "train", index, seed=key("examples"))
        if problem.digest in seen:
            continue
        seen.add(problem.digest)
        text = task.teaching.demonstration(problem, solve) if len(found) < count else None
        if text is not None:
            judged = judge(task, evaluator, problem, _completion(text))
            if judged.right:
                found.append(Demonstration(problem, text, judged.verdicts))
    return tuple(found[: int(share * len(seen))])


def _completion(text: str) -> Completion:
    return Completion("example", text, "stop", policy="")
