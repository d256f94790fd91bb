"""Label search by mutual predictability: internal coherence maximization (ICM), by simulated annealing.

It looks for the labels that a model predicts best from each other, with logical constraints between them. The model is
a function argument, or whoever answers the generator `searching`: the search itself is pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from attrs import field, frozen, validators

__all__ = ["Inconsistent", "LabelSearch", "Labels", "Predict", "label_search", "labels_utility", "searching"]

Found = TypeVar("Found")

Labels: TypeAlias = Mapping[int, int]
"""Label of each example that has one."""
Predict: TypeAlias = Callable[[int, Labels], Sequence[float]]
"""(example, labels of the others) -> log-probability of each label, in nats."""
Inconsistent: TypeAlias = Callable[[int, int, int, int], bool]
"""(example, its label, other example, its label) -> whether both cannot be right."""
Search: TypeAlias = Generator[tuple[int, Labels], Sequence[float], Found]
"""Yields the arguments of `Predict`, and receives what it returns."""


@frozen
class LabelSearch:
    """Settings of the search, by default those of the paper."""

    iterations: int = field(default=1000, validator=validators.ge(0))
    seeds: int = field(default=8, validator=validators.ge(0))
    """Examples labelled at random before the search."""
    alpha: float = 50.0
    """Weight of predictability, against one for each inconsistent pair."""
    start: float = 10.0
    least: float = 0.01
    cooling: float = 0.99
    """The temperature of iteration n is max(least, start / (1 + cooling log n))."""
    fixes: int = 10
    """Most inconsistent pairs that are mended before a proposal is accepted."""

    def temperature(self, iteration: int) -> float:
        """Return the temperature of an iteration, from 1."""
        return max(self.least, self.start / (1 + self.cooling * math.log(iteration)))


def labels_utility(labels: Labels, predict: Predict, inconsistent: Inconsistent, *, alpha: float = 50.0) -> float:
    """Return alpha * (mean over labelled examples of log p(label | the others)) - number of inconsistent pairs.

    The paper's formula has a sum. The mean is the same for a fixed set of labelled examples, up to the scale of alpha,
    and makes sets of different sizes comparable: with the sum every new label lowers the utility. 0 for no labels.
    """
    return _answered(_utility(labels, inconsistent, alpha), predict)


def label_search(
    examples: int,
    labels: int,
    predict: Predict,
    generator: np.random.Generator,
    *,
    inconsistent: Inconsistent = lambda *_: False,
    settings: LabelSearch | None = None,
) -> dict[int, int]:
    """Return the labels that `searching` finds with a function that predicts."""
    return _answered(searching(examples, labels, generator, inconsistent=inconsistent, settings=settings), predict)


def searching(
    examples: int,
    labels: int,
    generator: np.random.Generator,
    *,
    inconsistent: Inconsistent = lambda *_: False,
    settings: LabelSearch | None = None,
) -> Search[dict[int, int]]:
    """Return labels for examples, found by ICM; not every example need have one after few iterations.

    Each iteration draws an example, labels it as the model predicts from the others, mends inconsistent pairs, and
    accepts the proposal if the utility rises, or else with probability exp(rise / temperature).

    Traps: it finds the most coherent concept, which need not be the truth; swapping all labels is as coherent if
    nothing names them, so compare up to permutation; each iteration asks for as many predictions as there are labels,
    several times if pairs are inconsistent; the result depends on the seed: run several.

    Source: Wen et al. (2025), Unsupervised Elicitation of Language Models, arXiv 2506.10139, algorithms 1 and 2.

    Raises:
        ValueError: no example, or fewer than two labels.
    """
    if examples < 1 or labels < 2:
        raise ValueError(f"expected at least one example and two labels, got {examples} and {labels}")
    given = settings or LabelSearch()

    def utility(found: Labels) -> Search[float]:
        return _utility(found, inconsistent, given.alpha)

    seeded = generator.permutation(examples)[: given.seeds]
    current = {int(each): int(generator.integers(labels)) for each in seeded}
    current, reached = yield from _mended(current, labels, utility, inconsistent, given.fixes)
    for iteration in range(1, given.iterations + 1):
        example = int(generator.integers(examples))
        predicted = int(np.argmax((yield example, _without(current, example))))
        proposed = {**current, example: predicted}
        proposal, found = yield from _mended(proposed, labels, utility, inconsistent, given.fixes)
        rise = found - reached
        if rise > 0 or generator.random() < math.exp(rise / given.temperature(iteration)):
            current, reached = proposal, found
    return current


def _answered(search: Search[Found], predict: Predict) -> Found:
    """Return what a search returns whose questions a function answers."""
    reply: Sequence[float] | None = None
    while True:
        try:
            asked = next(search) if reply is None else search.send(reply)
        except StopIteration as ended:
            found: Found = ended.value
            return found
        reply = predict(*asked)


def _utility(labels: Labels, inconsistent: Inconsistent, alpha: float) -> Search[float]:
    if not labels:
        return 0.0
    found = []
    for each, label in labels.items():
        predicted = yield each, _without(labels, each)
        found.append(predicted[label])
    return alpha * math.fsum(found) / len(found) - len(_conflicts(labels, inconsistent))


def _mended(
    found: dict[int, int],
    labels: int,
    utility: Callable[[Labels], Search[float]],
    inconsistent: Inconsistent,
    fixes: int,
) -> Search[tuple[dict[int, int], float]]:
    """Give inconsistent pairs the consistent labels of highest utility, while that raises the utility."""
    reached = yield from utility(found)
    for _ in range(fixes):
        conflicts = _conflicts(found, inconsistent)
        if not conflicts:
            break
        one, other = conflicts[0]
        options = [
            {**found, one: first, other: second}
            for first in range(labels)
            for second in range(labels)
            if not inconsistent(one, first, other, second)
        ]
        utilities = []
        for each in options:
            utilities.append((yield from utility(each)))
        if not options or not max(utilities) > reached:
            break
        reached = max(utilities)
        found = options[utilities.index(reached)]
    return found, reached


def _conflicts(labels: Labels, inconsistent: Inconsistent) -> list[tuple[int, int]]:
    listed = sorted(labels)
    return [
        (one, other)
        for place, one in enumerate(listed)
        for other in listed[place + 1 :]
        if inconsistent(one, labels[one], other, labels[other])
    ]


def _without(labels: Labels, example: int) -> dict[int, int]:
    return {each: label for each, label in labels.items() if each != example}
