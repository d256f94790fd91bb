"""Worked examples: problems of the training key space with answers that a plain rule, or a solver, worked out.

They are shown before a problem, by the few-shot mode and by runs that start a weak model with them, or learned by such
a run. It draws no training problem that is one of them, and none is the problem that it stands before.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from gce.app.evaluation import judge
from gce.domain.randomness import generator, key
from gce.domain.tasks.task import Task, draw_problem
from gce.domain.types import Completion, Message, Problem, Trace, Verdict
from gce.errors import BadInput

__all__ = [
    "EXAMPLES_DRAWN",
    "Turns",
    "Worked",
    "also_from",
    "digests_of",
    "shown_before",
    "texts_digest",
    "worked_answers",
    "worked_beside_training",
    "worked_examples",
]

EXAMPLES_DRAWN = 2
"""Worked examples a tier from which those shown are drawn, for each that is shown."""
_SHARE = 0.75
"""Of a tier's different problems, how many a run takes for examples at most."""
_TRIED = 50
"""Training problems looked at for the next example, on average, before it is said that there are no more."""

Turns = tuple[Message, ...]
"""A conversation so far."""


@frozen
class Worked:
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
            messages=self.problem.prompt,
            completion=_completion(self.text),
            verdicts=self.verdicts,
            digest=self.problem.digest,
        )

    @property
    def turns(self) -> Turns:
        """As a conversation."""
        return (*self.problem.prompt, Message("assistant", self.text))


def worked_answers(
    task: Task, preset: str, tiers: Sequence[str], count: int, *, solve: Any = None
) -> dict[str, tuple[Worked, ...]]:
    """By tier, `count` examples; for a held-out tier those of the last one that is not.

    Raises:
        BadInput: the task has no worked answers, or too few of them are right.
    """
    taught = task.training_tiers(preset, ladder=True)
    if not taught:
        raise BadInput(f"preset {preset} of task {task.name} has no tier to take examples from")
    sources = {tier: tier if tier in taught else taught[-1] for tier in tiers}
    found = {}
    for tier in dict.fromkeys(sources.values()):
        found[tier] = _worked(task, preset, tier, count, solve, share=1.0)
        if len(found[tier]) < count:
            raise BadInput(
                f"task {task.name} has {len(found[tier])} worked examples of {tier}, expected {count}: "
                + ("take fewer --shots" if found[tier] else "do without them")
            )
    return {tier: found[source] for tier, source in sources.items()}


def worked_beside_training(
    task: Task, preset: str, tiers: Sequence[str], count: int, *, solve: Any = None
) -> dict[str, tuple[Worked, ...]]:
    """By tier, at most `count` examples, and at most three quarters of the tier's problems, where so few differ.

    A tier that has none is left out: one rule may not do for all.

    Raises:
        BadInput: there are none at all.
    """
    if not tiers:
        raise BadInput(f"preset {preset} of task {task.name} has no tier to take examples from")
    found = {tier: _worked(task, preset, tier, count, solve, share=_SHARE) for tier in tiers}
    found = {tier: examples for tier, examples in found.items() if examples}
    if not found:
        names = ", ".join(tiers)
        raise BadInput(f"task {task.name} has no worked examples of {names}: leave out --bootstrap and --warm-up")
    return found


def also_from(settings: Mapping[str, Any]) -> str:
    """What a run's settings say of further presets, as words behind `examples a tier`."""
    further = settings.get("warm_up_also")
    return f", and as many of each tier of {' and '.join(further)}" if further else ""


def digests_of(worked: Mapping[str, Sequence[Worked]]) -> frozenset[str]:
    """Of all problems that are examples: those that training must not draw."""
    return frozenset(each.problem.digest for of_tier in worked.values() for each in of_tier)


def texts_digest(worked: Mapping[str, Sequence[Worked]]) -> str:
    """SHA-256 over problems and texts, in order."""
    told = [[name, each.problem.digest, each.text] for name, of_tier in worked.items() for each in of_tier]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def worked_examples(
    task: Task, preset: str, tiers: Sequence[str], count: int, *, solve: Any = None
) -> dict[str, Turns]:
    """The same as one conversation for each tier."""
    found = worked_answers(task, preset, tiers, count, solve=solve)
    return {tier: tuple(turn for each in worked for turn in each.turns) for tier, worked in found.items()}


def shown_before(problem: Problem, worked: Mapping[str, Sequence[Worked]], count: int, iteration: int) -> Turns:
    """`count` examples of the problem's tier, none of them the problem.

    They are the same for all problems of an iteration, whose prompts then begin alike and are computed once.
    """
    of_tier = worked.get(problem.tier, ())
    order = generator("shown", problem.tier, iteration).permutation(len(of_tier)).tolist()
    others = [of_tier[place] for place in order if of_tier[place].problem.digest != problem.digest]
    return tuple(turn for each in others[:count] for turn in each.turns)


def _worked(task: Task, preset: str, tier: str, count: int, solve: Any, *, share: float) -> tuple[Worked, ...]:
    """Up to `count` problems that differ, with right answers; no more than a share of those that were looked at."""
    seen: set[str] = set()
    found: list[Worked] = []
    for index in itertools.count():
        if len(found) == count <= share * len(seen) or index == _TRIED * (len(found) + 1):
            break
        problem = draw_problem(task, preset, tier, "train", index, seed=key("examples"))
        if problem.digest in seen:
            continue
        seen.add(problem.digest)
        text = task.worked(problem, solve) if len(found) < count else None
        if text is not None:
            judged = judge(task, problem, _completion(text))
            if judged.right:
                found.append(Worked(problem, text, judged.verdicts))
    return tuple(found[: int(share * len(seen))])


def _completion(text: str) -> Completion:
    return Completion("example", text, "stop", policy="")
