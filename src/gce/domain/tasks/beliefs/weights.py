"""Bayes' rule as sums: weights of evidence, the written steps of a demonstration about independent reports.

The weight of a report is 10 log10 of its probability if the claim is true over that if it is false, in decibans (Good,
1950, "Probability and the Weighing of Evidence"; the unit is Turing's). Weights for the claim are added up, and so are
those against it; the difference says how probable the claim is. Each step is a difference of two rates, an addition of
two numbers, or, at the end, one function of one number, where Bayes' rule itself multiplies odds in every line.

Weights are rounded to a tenth of a deciban, and what follows from the sums is within two points of the exact posterior.
The demonstration states the exact one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10

from attrs import frozen

from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.beliefs.sources import Source, Witnesses

__all__ = ["Step", "steps_of", "weight_of", "written_steps"]

_INTRODUCTION = "Weights of evidence add up. A weight is 10 log10 of the chance if true to the chance if false."


@frozen
class Step:
    """A report, or one of several kinds of test in it, and what it weighs."""

    told: str
    """What is weighed, with both chances, as "1: 73 to 27"."""
    weight: int
    """In tenths of a deciban: above 0 for the claim, below 0 against it."""


def weight_of(if_true: float, if_false: float, times: int = 1) -> int:
    """Return the weight of so many equal reports in tenths of a deciban, rounded; chances in any unit, both above 0."""
    return round(100 * times * log10(if_true / if_false))


def written_steps(question: BeliefQuestion) -> list[str] | None:
    """Return the steps as lines, the last one with the exact percentage; None if they are no sum of weights.

    They are none in other worlds than `Witnesses`, where a rate is 0 or 100 %, and where a report may be copied that
    comes later or is not shown.
    """
    steps = steps_of(question)
    if steps is None or question.target is None:
        return None
    lines, pro, contra = [_INTRODUCTION], 0, 0
    for step in steps:
        pro, contra = pro + max(step.weight, 0), contra + max(-step.weight, 0)
        lines.append(
            f"{step.told}, weight {_sided(step.weight)}. Total {_decibans(pro)} for, {_decibans(contra)} against."
        )
    greater, less = max(pro, contra), min(pro, contra)
    return [
        *lines,
        f"{_decibans(greater)} - {_decibans(less)} = {_sided(pro - contra)}: {100 * question.target:.0f} %.",
    ]


def _sided(weight: int) -> str:
    return _decibans(abs(weight)) + (" for" if weight > 0 else " against" if weight < 0 else "")


def _decibans(weight: int) -> str:
    return f"{weight // 10}.{weight % 10}"


def steps_of(question: BeliefQuestion) -> Sequence[Step] | None:
    """Return what is weighed in the order of the prompt, the base rate first; None where that cannot be done."""
    world, shown = question.world, len(question.evidence)
    if not isinstance(world, Witnesses) or question.prior is None or question.posterior is None:
        return None
    sources = world.sources[:shown]
    rates = (world.base_rate, *(rate for source in sources for rate in (source.hit, source.false_alarm)))
    if not all(0 < rate < 100 for rate in rates) or any(source.copies >= at for at, source in enumerate(sources)):
        return None
    about_opposite = not _agree(question, world)
    steps = [_step("Base rate", world.base_rate, 100 - world.base_rate, about_opposite)]
    for at, source in enumerate(sources):
        steps += _of_source(at, source, sources, about_opposite)
    opinion = question.opinion
    if opinion is not None and opinion.option is not None and opinion.reliability is not None:
        right = 100 * opinion.reliability
        steps.append(_step("The user", right, 100 - right, about_opposite=opinion.option == 1))
    return steps


def _agree(question: BeliefQuestion, world: Witnesses) -> bool:
    """Whether the question asks for the claim of the world and not for the opposite; all at 0.5 is both."""
    beliefs = (question.prior, *question.path) if question.path else (question.prior,)
    return all(
        belief is not None and abs(belief - world.posterior(range(pieces))) < 1e-9
        for pieces, belief in enumerate(beliefs)
    )


def _of_source(at: int, source: Source, sources: Sequence[Source], about_opposite: bool) -> Iterator[Step]:
    number, rates, opposite = at + 1, (source.hit, source.false_alarm), (100 - source.hit, 100 - source.false_alarm)
    if about_opposite:
        rates, opposite = rates[::-1], opposite[::-1]
    yes = f"{number}: yes {rates[0]} to {rates[1]}"
    if source.runs > 1:
        for said, times, (true, false) in (
            ("yes", source.yes, rates),
            ("no", source.runs - source.yes, opposite),
        ):
            if times:
                yield Step(f"{yes}, {times} times {said}, {true} to {false}", weight_of(true, false, times))
        return
    said, chances = ("yes", rates) if source.yes else ("no", opposite)
    true, false = chances
    told = f"{yes}, says {said}"
    if source.copies >= 0:
        copied, original = source.copying, source.copies + 1
        if source.yes == sources[source.copies].yes:
            alone = [round((100 - copied) * chance / 100) for chance in chances]
            true, false = (copied + each for each in alone)
            told += f" as {original}, {copied} + {alone[0]} to {copied} + {alone[1]}"
        else:
            # It has not copied, and the chance of that is the same in both cases.
            told += f" not as {original}"
    yield Step(f"{told}, {true} to {false}", weight_of(true, false))


def _step(name: str, if_true: float, if_false: float, about_opposite: bool) -> Step:
    """The step of two chances, which are exchanged if the question is about the opposite."""
    true, false = (if_false, if_true) if about_opposite else (if_true, if_false)
    return Step(f"{name} {true:g} to {false:g}", weight_of(true, false))
