"""Demonstrations: problems of the training split with right answers from a simple rule or a solver.

The few-shot strategy shows them before a problem. A training run may also show them, or learn them in an SFT warm-up.
Such a run never draws a demonstrated problem for training, and a problem is never its own demonstration.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from gce.app.evaluation.scoring import judge_each
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
"""Number of demonstrations drawn per tier for each one that is shown."""
_SHARE = 0.75
"""Maximum share of a tier's distinct problems that a run uses as demonstrations."""
_TRIED = 50
"""Average number of training problems tried for each demonstration before the search ends."""

Turns = tuple[Message, ...]
"""A conversation so far."""


@frozen
class Demonstration:
    """A problem with a right answer and its reasoning."""

    problem: Problem
    text: str
    verdicts: tuple[Verdict, ...]

    @property
    def trace(self) -> Trace:
        """The demonstration as a trace of iteration 0, which no model generated."""
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
        """The demonstration as a conversation."""
        return (*self.problem.prompt, Message("assistant", self.text))


def demonstrations(
    task: Task, evaluator: Evaluator, preset: str, tiers: Sequence[str], count: int, *, solve: Any = None
) -> dict[str, tuple[Demonstration, ...]]:
    """Return `count` demonstrations by tier; a held-out tier gets those of the last tier that is not held out.

    Raises:
        BadInput: the task has no demonstrations, or too few of them are right.
    """
    taught = task.training_tiers(preset, ladder=True)
    if not taught:
        raise BadInput(f"preset {preset} of task {task.name} has no tier to take demonstrations from")
    sources = {tier: tier if tier in taught else taught[-1] for tier in tiers}
    found = {}
    for tier in dict.fromkeys(sources.values()):
        found[tier] = _found(task, evaluator, preset, tier, count, solve, share=1.0)
        if len(found[tier]) < count:
            raise BadInput(
                f"task {task.name} has {len(found[tier])} demonstrations of {tier}, expected {count}",
                hint="take fewer {shots}" if found[tier] else "use a strategy that needs none",
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
    or_else: str = "leave out {bootstrap} and {warm_up}",
) -> dict[str, tuple[Demonstration, ...]]:
    """Return at most `count` demonstrations by tier, and at most three quarters of a tier's distinct problems.

    A tier without demonstrations is left out, because one rule may not suit all tiers.

    Raises:
        BadInput: no tier has demonstrations.
    """
    if not tiers:
        raise BadInput(f"preset {preset} of task {task.name} has no tier to take demonstrations from")
    found = {tier: _found(task, evaluator, preset, tier, count, solve, share=_SHARE) for tier in tiers}
    found = {tier: examples for tier, examples in found.items() if examples}
    if not found:
        names = ", ".join(tiers)
        raise BadInput(f"task {task.name} has no demonstrations of {names}", hint=or_else)
    return found


def also_from(further: Sequence[str]) -> str:
    """Return a clause about the additional presets of a warm-up, to follow `examples a tier`."""
    return f", and as many of each tier of {' and '.join(further)}" if further else ""


def digests_of(known: Mapping[str, Sequence[Demonstration]]) -> frozenset[str]:
    """Return the digests of all demonstrated problems, which training must not draw."""
    return frozenset(each.problem.digest for of_tier in known.values() for each in of_tier)


def texts_digest(known: Mapping[str, Sequence[Demonstration]]) -> str:
    """Return the SHA-256 of problems and texts, in order."""
    told = [[name, each.problem.digest, each.text] for name, of_tier in known.items() for each in of_tier]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def few_shot_turns(
    task: Task, evaluator: Evaluator, preset: str, tiers: Sequence[str], count: int, *, solve: Any = None
) -> dict[str, Turns]:
    """Return `count` demonstrations by tier, joined into one conversation."""
    found = demonstrations(task, evaluator, preset, tiers, count, solve=solve)
    return {tier: tuple(turn for each in of_tier for turn in each.turns) for tier, of_tier in found.items()}


def turns_before(problem: Problem, known: Mapping[str, Sequence[Demonstration]], count: int, iteration: int) -> Turns:
    """Return `count` demonstrations of the problem's tier, none of which is the problem itself.

    All problems of an iteration get the same ones, so that their prompts share a cached prefix.
    """
    of_tier = known.get(problem.tier, ())
    order = generator("shown", problem.tier, iteration).permutation(len(of_tier)).tolist()
    others = [of_tier[place] for place in order if of_tier[place].problem.digest != problem.digest]
    return tuple(turn for each in others[:count] for turn in each.turns)


def _found(
    task: Task, evaluator: Evaluator, preset: str, tier: str, count: int, solve: Any, *, share: float
) -> tuple[Demonstration, ...]:
    """Return up to `count` distinct problems with right answers, at most a share of the problems tried.

    Those that are wanted are judged together; where some are wrong, the next problems take their place.
    """
    seen: set[str] = set()
    found: list[Demonstration] = []
    waiting: list[tuple[Problem, Completion]] = []
    source = ProblemSource(task)
    for index in itertools.count():
        if waiting and (len(found) + len(waiting) == count or index >= _TRIED * (len(found) + 1)):
            found += [
                Demonstration(each.problem, each.completion.text, each.verdicts)
                for each in judge_each(task, evaluator, waiting)
                if each.right
            ]
            waiting.clear()
        if len(found) == count <= share * len(seen) or index >= _TRIED * (len(found) + 1):
            break
        problem = source.draw(preset, tier, "train", index, seed=key("examples"))
        if problem.digest in seen:
            continue
        seen.add(problem.digest)
        text = task.teaching.demonstration(problem, solve) if len(found) + len(waiting) < count else None
        if text is not None:
            waiting.append((problem, _completion(text)))
    return tuple(found[: int(share * len(seen))])


def _completion(text: str) -> Completion:
    return Completion("example", text, "stop", policy="")
