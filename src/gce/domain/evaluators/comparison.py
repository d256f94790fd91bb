"""What evaluators say of the same test problems before and after training: those that teach, and those held out.

If what was taught rises and what was held out does not, training may have learned the evaluators and not the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from attrs import field, frozen

from gce.domain.answers import Answer
from gce.domain.evaluators.combination import scores_by_evaluator
from gce.domain.evaluators.judges import JudgeRow
from gce.domain.evaluators.score_matrix import EffectiveNumber, disagreement, effective_number
from gce.domain.paired import Gain, means_of_tiers, paired_gain
from gce.domain.randomness import generator
from gce.domain.serialization import OMIT_DEFAULT

__all__ = ["EvaluatorRow", "EvaluatorScores", "compare_evaluators"]

LEAST = 10
"""Answers with a score by every evaluator, below which agreement is not measured."""


@frozen
class EvaluatorRow:
    """The scores of one evaluator."""

    name: str
    weight: float | None
    """In the reward; None if it is held out."""
    n: int
    """Problems with a score before and after."""
    missing: int
    """Problems without one of both: it failed, or does not apply."""
    before: float | None = None
    """Mean over tiers of the mean score on these problems, in [0, 1]; None without such problems."""
    after: float | None = None
    gain: Gain | None = None


@frozen
class EvaluatorScores:
    """The scores of all evaluators of a run."""

    rows: tuple[EvaluatorRow, ...]
    gap: Gain | None
    """How much more the mean of those that teach rose than the mean of those that are held out, on problems with all
    scores; None where one side is empty."""
    answers: int
    """Answers after training that have a score by every evaluator; what follows is measured on them."""
    disagreement: float | None = None
    """See `gce.domain.evaluators.score_matrix.disagreement`; None for fewer than `LEAST` answers."""
    effective: EffectiveNumber | None = None
    judges: tuple[JudgeRow, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Of all answers of the run, rollouts included."""


def compare_evaluators(
    before: Iterable[Answer], after: Iterable[Answer], weights: Mapping[str, float], held_out: Sequence[str]
) -> EvaluatorScores:
    """Compare the scores of answers to the same problems, an answer each; failed answers are left out.

    Args:
        before: answers to test problems before training.
        after: the same after it.
        weights: of the evaluators that teach, by name.
        held_out: names of the others.
    """
    names = (*weights, *held_out)
    first, last = _scores(before), _scores(after)
    both = [key for key in last if key in first]
    rows = tuple(_row(name, weights.get(name), [(first[key], last[key]) for key in both]) for name in names)
    whole = [(first[key], last[key]) for key in both if all(_has_all(each[key][1], names) for each in (first, last))]
    gap = None
    if whole and weights and held_out:
        gap = paired_gain(
            [(tier, _rise(one, other, held_out), _rise(one, other, (*weights,))) for (tier, one), (_, other) in whole]
        )
    complete = {key: scores for key, (_, scores) in last.items() if _has_all(scores, names)}
    if len(complete) < LEAST or len(names) < 2:
        return EvaluatorScores(rows, gap, len(complete))
    matrix = np.array([[scores[name] for name in names] for scores in complete.values()], float)
    found = effective_number(matrix, list(complete), generator(0, "effective number of evaluators"))
    return EvaluatorScores(rows, gap, len(complete), disagreement(matrix), found)


_Scored = tuple[str, Mapping[str, float | None]]
"""The tier of a problem, and the scores of the answer to it."""


def _scores(answers: Iterable[Answer]) -> dict[str, _Scored]:
    return {each.problem.key: (each.problem.tier, scores_by_evaluator(each)) for each in answers if not each.failed}


def _has_all(scores: Mapping[str, float | None], names: Sequence[str]) -> bool:
    return all(scores.get(name) is not None for name in names)


def _mean(scores: Mapping[str, float | None], names: Sequence[str]) -> float:
    return sum(scores[name] or 0.0 for name in names) / len(names)


def _rise(before: Mapping[str, float | None], after: Mapping[str, float | None], names: Sequence[str]) -> float:
    return _mean(after, names) - _mean(before, names)


def _row(name: str, weight: float | None, both: Sequence[tuple[_Scored, _Scored]]) -> EvaluatorRow:
    pairs = [
        (tier, one, other)
        for (tier, before), (_, after) in both
        if (one := before.get(name)) is not None and (other := after.get(name)) is not None
    ]
    if not pairs:
        return EvaluatorRow(name, weight, 0, len(both))
    return EvaluatorRow(name, weight, len(pairs), len(both) - len(pairs), *means_of_tiers(pairs), paired_gain(pairs))
