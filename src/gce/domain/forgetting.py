"""Forgetting: what training on one task costs elsewhere, as records of loss on a text and of pass rates on other tasks.

Pure: knows neither the model that was measured nor where the text came from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attrs import frozen

from gce.domain.measurements import Interval
from gce.domain.paired import Gain
from gce.domain.statistics import Estimate, clustered_mean

__all__ = ["Forgetting", "LossChange", "PassageLoss", "TaskChange", "loss_change"]


@frozen
class PassageLoss:
    """The negative log-likelihood of one passage of a text."""

    nats: float
    """Sum over its tokens."""
    tokens: int


@frozen
class LossChange:
    """Loss on a fixed text before and after training, in nats per token."""

    text: str
    """SHA-256 of the text."""
    passages: int
    tokens: int
    before: float
    after: float
    difference: Estimate
    """After less before, with a 95 % interval clustered by passage."""


@frozen
class TaskChange:
    """Greedy pass rates on dev problems of a task that is not trained on."""

    task: str
    preset: str
    asked: int
    """Problems a tier that were asked for."""
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    """By tier."""
    gain: Gain | None
    """After less before, paired by problem; None if no problem was judged twice."""


@frozen
class Forgetting:
    """What a run measured of it."""

    text: LossChange | None
    """None if it was not measured."""
    no_text: str
    """Why it was not measured."""
    tasks: Mapping[str, TaskChange]
    """By the names that were given."""


def loss_change(text: str, before: Sequence[PassageLoss], after: Sequence[PassageLoss]) -> LossChange:
    """Compare the losses of the same passages, in the same tokens, under two states of a model.

    Raises:
        ValueError: no passage, or passages with other numbers of tokens.
    """
    if not before or [each.tokens for each in before] != [each.tokens for each in after]:
        raise ValueError("expected the same passages in the same tokens, and at least one")
    # Only the sums of clusters count for the interval, so each token has its passage's mean difference.
    differences = [
        [(last.nats - first.nats) / first.tokens] * first.tokens for first, last in zip(before, after, strict=True)
    ]
    tokens = sum(each.tokens for each in before)
    first, last = (math.fsum(each.nats for each in losses) / tokens for losses in (before, after))
    return LossChange(text, len(before), tokens, first, last, clustered_mean(differences))
