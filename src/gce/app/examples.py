"""Worked examples: problems of the training key space with answers that a plain rule, or a solver, worked out.

They are shown before a problem, by the few-shot mode and by runs that start a weak model with them, or learned by such
a run. It draws no training problem that is one of them, and none is the problem that it stands before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
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
    "shown_before",
    "worked_answers",
    "worked_beside_training",
    "worked_examples",
]

EXAMPLES_DRAWN = 2
"""Worked examples a tier from which those shown are drawn, for each that is shown."""
_TRIED = 50
"""Training problems looked at for each example that is wanted."""

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
        found[tier] = tuple(islice(_worked(task, preset, tier, count * _TRIED, solve), count))
        if len(found[tier]) < count:
            raise BadInput(f"task {task.name} has no {count} worked examples of {tier}: take fewer --shots")
    return {tier: found[source] for tier, source in sources.items()}


def worked_beside_training(
    task: Task, preset: str, tiers: Sequence[str], count: int, *, solve: Any = None
) -> dict[str, tuple[Worked, ...]]:
    """The same for a run, but no more than three quarters of a tier's problems, if so few are different."""
    found: dict[str, tuple[Worked, ...]] = {}
    for tier in tiers:
        different: set[str] = set()
        for index in range(count * _TRIED):
            different.add(draw_problem(task, preset, tier, "train", index, seed=key("examples")).digest)
            if 3 * len(different) >= 4 * count:
                break
        found |= worked_answers(task, preset, [tier], min(count, 3 * len(different) // 4), solve=solve)
    return found


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


def _worked(task: Task, preset: str, tier: str, count: int, solve: Any) -> Iterator[Worked]:
    """Different problems with right answers, among the first `count`."""
    seen = set()
    for index in range(count):
        problem = draw_problem(task, preset, tier, "train", index, seed=key("examples"))
        text = None if problem.digest in seen else task.worked(problem, solve)
        seen.add(problem.digest)
        if text is None:
            continue
        judged = judge(task, problem, _completion(text))
        if judged.right:
            yield Worked(problem, text, judged.verdicts)


def _completion(text: str) -> Completion:
    return Completion("example", text, "stop", policy="")
