"""How the scores of several evaluators become one reward, and which answers are positives.

Correctness gates everything: an answer that the verifier does not call right has the reward 0. Rules:

- sum: the mean of the scores, by weight.
- lexicographic: 1 for the answers of a problem that no other beats: by the first evaluator, of equal ones by the
  second, and so on.
- pareto: 1 for the answers of a problem that no other dominates, which is at least as good for each evaluator and
  better for one.

Evaluators that are held out score and never teach: they are no part of a combination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Literal, get_args

from attrs import field, frozen, validators

from gce.domain.answers import Answer
from gce.domain.evaluators.scores import VERIFIER

__all__ = ["RULES", "Combination", "Rule", "scores_by_evaluator"]

Rule = Literal["sum", "lexicographic", "pareto"]
RULES: tuple[Rule, ...] = get_args(Rule)
Scores = Mapping[str, float | None]
"""By evaluator; None where it failed or does not apply."""


def _weights(_combination: object, _attribute: object, weights: Mapping[str, float]) -> None:
    if VERIFIER not in weights:
        raise ValueError(f"expected {VERIFIER} among the evaluators, got {', '.join(weights) or 'none'}")
    for name, weight in weights.items():
        if not 0.0 < weight < float("inf"):
            raise ValueError(f"expected a weight above 0 for {name}, got {weight!r}")


@frozen
class Combination:
    """Evaluators that teach, and the rule that combines their scores."""

    weights: Mapping[str, float] = field(validator=_weights)
    """Above 0, by evaluator, the verifier among them; the order is that of the lexicographic rule."""
    rule: Rule = field(default="sum", validator=validators.in_(RULES))

    @property
    def admit_at(self) -> float:
        """The reward from which on an answer is a positive: by sum, that of a right answer with no other score."""
        if self.rule != "sum":
            return 1.0
        return self.weights[VERIFIER] / fsum(self.weights.values())

    def rewards(self, group: Sequence[Scores], right: Sequence[bool]) -> list[float]:
        """Return the reward of each of a problem's answers, in [0, 1], in their order.

        A score that is missing counts as 0, so that an evaluator cannot be avoided. That of the verifier is 1 for a
        right answer, also where its reward is graded: every right answer is a positive.

        Args:
            group: scores of the answers by evaluator; that of the verifier is its reward.
            right: whether the verifier calls each answer right.
        """
        rows = [
            tuple(1.0 if name == VERIFIER and is_right else scores.get(name) or 0.0 for name in self.weights)
            for scores, is_right in zip(group, right, strict=True)
        ]
        if self.rule == "sum":
            total = fsum(self.weights.values())
            found = [fsum(w * s for w, s in zip(self.weights.values(), row, strict=True)) / total for row in rows]
            return [min(1.0, reward) if is_right else 0.0 for reward, is_right in zip(found, right, strict=True)]
        rivals = [row for row, is_right in zip(rows, right, strict=True) if is_right]
        if self.rule == "lexicographic":
            best = max(rivals, default=())
            return [float(is_right and row == best) for row, is_right in zip(rows, right, strict=True)]
        return [
            float(is_right and not any(_dominates(other, row) for other in rivals))
            for row, is_right in zip(rows, right, strict=True)
        ]


def scores_by_evaluator(answer: Answer) -> dict[str, float | None]:
    """Return the scores of an answer by evaluator; that of the verifier is its reward."""
    return {VERIFIER: answer.reward, **{each.evaluator: each.score for each in answer.verdicts if each.beside}}


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one row is at least as good as another everywhere, and better somewhere."""
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))
