"""The label-search strategy: labels for a claim, its opposite and related claims that predict each other best (ICM).

The search asks for log-probabilities only: of a claim's label given the labels of the others. The probability that the
claim's label has, given the labels found for the others, is the belief that counts. Nothing is trained on.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import pairwise
from math import exp
from typing import Any

from gce.domain.metrics.beliefs.label_search import Labels, LabelSearch, searching
from gce.domain.problems import Message, Problem
from gce.domain.randomness import generator
from gce.domain.strategies.predictions import LABELS, NO, YES, asked_for_label, log_shares
from gce.domain.strategies.requests import (
    Exchange,
    Failed,
    Score,
    Settings,
    Strategy,
    Turns,
    beliefs_of,
    draft_of,
    whole_number,
)
from gce.domain.tasks.parts import Beliefs
from gce.domain.tasks.task import Task

__all__ = ["LABEL_SEARCH"]

ITERATIONS, MOST = 50, 1000
"""Of the search by default, and at most."""
CLAIMS = 4
"""Most claims that are labelled: the claim, its opposite, and the first related ones. Predictions are remembered, and
there are at most 2^(CLAIMS - 1) different ones of each claim."""

Key = tuple[int, tuple[tuple[int, int], ...]]
"""An example, and the labels of the others."""
Pairs = frozenset[tuple[int, int, int, int]]


def _with_iterations(written: str) -> Strategy:
    iterations = whole_number(written, 1, MOST)

    def converse(task: Task, problem: Problem, settings: Settings) -> Exchange:
        known = beliefs_of(task)
        claims, contradictions = _claims(known, problem)
        search = searching(
            len(claims),
            len(LABELS),
            generator("label search", settings.seed, problem.key),
            inconsistent=lambda *pair: pair in contradictions,
            settings=LabelSearch(iterations=iterations),
        )
        predicted: dict[Key, tuple[float, float]] = {}

        def prediction(example: int, labels: Labels) -> Generator[Score, Any, tuple[float, float] | Failed]:
            key = (example, tuple(sorted(labels.items())))
            if key not in predicted:
                shares = yield from _asked(claims, key)
                if isinstance(shares, Failed):
                    return shares
                predicted[key] = shares[YES], shares[NO]
            return predicted[key]

        labels, asked = None, next(search)
        while labels is None:
            found = yield from prediction(*asked)
            if isinstance(found, Failed):
                return found
            try:
                asked = search.send(found)
            except StopIteration as ended:
                labels = ended.value
        found = yield from prediction(0, {each: label for each, label in labels.items() if each != 0})
        if isinstance(found, Failed):
            return found
        readings = (
            draft_of(claims[each], known.write(1.0 - label), reading="label") for each, label in sorted(labels.items())
        )
        return (*readings, draft_of(problem, known.write(min(exp(found[0]), 1.0))))

    return Strategy(
        "label-search",
        converse,
        f"labels of related claims that predict each other best (ICM), {ITERATIONS} iterations; @N: N",
        needs=frozenset({"score", "beliefs"}),
        options=_with_iterations,
    )


def _claims(known: Beliefs, problem: Problem) -> tuple[list[Problem], Pairs]:
    """Return what is labelled, and which pairs of labels cannot both be right, in either order; label 0 is yes."""
    claims, pairs = [problem, known.opposite(problem)], [(0, 0, 1, 0), (0, 1, 1, 1)]
    for kind, related in known.related(problem).items():
        start = len(claims)
        claims += related[: CLAIMS - start]
        places = range(start, len(claims))
        if kind == "implication":
            pairs += [(one, 0, other, 1) for one, other in pairwise(places)]
        else:
            pairs += [(one, 0, other, 0) for one in places for other in places if one < other]
    return claims, frozenset([*pairs, *((other, second, one, first) for one, first, other, second in pairs)])


def _asked(claims: list[Problem], key: Key) -> Generator[Score, Any, Mapping[str, float] | Failed]:
    example, labels = key
    shown: Turns = tuple(
        turn
        for each, label in labels
        for turn in (*asked_for_label(claims[each].prompt), Message("assistant", LABELS[label]))
    )
    reply = yield Score((*shown, *asked_for_label(claims[example].prompt)), LABELS)
    return log_shares(reply)


LABEL_SEARCH = _with_iterations(str(ITERATIONS))
