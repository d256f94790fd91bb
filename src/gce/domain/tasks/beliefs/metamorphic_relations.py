"""Metamorphic relations of beliefs: how verdicts must change with a response or a world, whatever belief is right."""

from __future__ import annotations

import random
from collections.abc import Mapping

from attrs import evolve

from gce.domain.problems import Problem
from gce.domain.tasks.beliefs.answer import parse, render
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.beliefs.sources import Witnesses
from gce.domain.tasks.parts import Relation
from gce.domain.verdicts import Violation

__all__ = ["RELATIONS"]

Changed = tuple[Problem, str] | None


def _other_notation(problem: Problem, text: str, _rng: random.Random) -> Changed:
    """Write the same probability as a decimal, without the reasoning."""
    belief = parse(text)
    return None if isinstance(belief, Violation) else (problem, render(belief))


def _reasoning(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Put reasoning with numbers before the answer."""
    before = rng.choice(("It is 20 % at first.", "Answer: 0.9\nNo, that is too much.", "P = 1e999 or NaN?", "0.5\n\n"))
    return None if isinstance(parse(text), Violation) else (problem, f"{before}\n{text}")


def _far_off(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Move the belief by 5 to 50 points."""
    belief = parse(text)
    if isinstance(belief, Violation):
        return None
    by = rng.uniform(0.05, 0.5)
    return problem, render(belief + by if belief + by <= 1.0 else belief - by)


def _two_numbers(problem: Problem, text: str, _rng: random.Random) -> Changed:
    """State a second probability on the answer line."""
    return None if isinstance(parse(text), Violation) else (problem, text.rstrip() + " or 0.5")


def _other_order(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Let independent sources report in another order."""
    question: BeliefQuestion = problem.instance
    world, count = question.world, len(question.evidence)
    if not isinstance(world, Witnesses) or any(source.copies >= 0 for source in world.sources) or count < 2:
        return None
    order = rng.sample(range(count), count)
    changed = Witnesses(world.base_rate, tuple(world.sources[at] for at in (*order, *range(count, world.pieces))))
    path = tuple(changed.posterior(range(pieces)) for pieces in range(1, count + 1))
    evidence = tuple(question.evidence[at] for at in order)
    other = evolve(question, world=changed, evidence=evidence, path=path, posterior=path[-1])
    return evolve(problem, instance=other), text


RELATIONS: Mapping[str, Relation] = {
    "decimal notation": Relation(_other_notation, "the verdict stays"),
    "numbers before the answer": Relation(_reasoning, "the verdict stays"),
    "another order of sources": Relation(_other_order, "the verdict stays"),
    "a belief far off": Relation(_far_off, "right becomes wrong"),
    "two numbers": Relation(_two_numbers, "right becomes wrong"),
}
