"""The loss of one token and its slope: by hand, and against differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.models.local.token_sequences import Example, normalized, step_metrics, token_losses
from gce.domain.learning import Objective

LOGS = st.floats(-9.0, 0.0)


def one(objective: Any, found: Any, weight: Any, sampled: float = 0.0, base: float = 0.0) -> tuple[Any, Any]:
    (loss,), (push,) = several(objective, [found], [weight], [sampled], [base])
    return loss, push


def several(
    objective: Any, found: Any, weights: Any, sampled: Any, base: Any, sizes: Any = (1,), scales: Any = 1.0
) -> tuple[list[float], list[float]]:
    """Losses and pushes of the tokens of sequences of these sizes."""
    members = np.repeat(np.eye(len(sizes)), sizes, axis=0)
    values = (found, weights, sampled, base, [scales] * len(members), members)
    losses, pushes = token_losses(objective, *(np.array(each, np.float64) for each in values))
    return losses.tolist(), pushes.tolist()


def test_without_more_it_is_the_weighted_negative_log_likelihood() -> None:
    assert one(Objective(), -2.0, 0.5) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("ratio", "weight", "loss", "push"),
    [
        (1.0, 2.0, -2.0, 2.0),
        (1.1, 2.0, -2.2, 2.2),
        (1.5, 2.0, -2.4, 0.0),
        (0.5, 2.0, -1.0, 1.0),
        (1.5, -1.0, 1.5, -1.5),
        (0.5, -1.0, 0.8, 0.0),
    ],
    ids=["as sampled", "a little likelier", "likely enough", "less likely", "wrong and likelier", "unlikely enough"],
)
def test_clipped_at_a_fifth_by_hand(ratio: float, weight: float, loss: float, push: float) -> None:
    found = one(Objective(clip=0.2), -2.0 + math.log(ratio), weight, sampled=-2.0)
    assert found == pytest.approx((loss, push))


def test_divergence_by_hand() -> None:
    """The base finds the token twice as likely: 2 - log 2 - 1, and it is pushed up by 2 - 1."""
    found = one(Objective(kl=0.5), -2.0, 0.0, base=-2.0 + math.log(2))
    assert found == pytest.approx((0.5 * (1 - math.log(2)), 0.5))
    assert one(Objective(kl=0.5), -2.0, 0.0, base=-2.0) == (0.0, 0.0)


@given(LOGS, LOGS, LOGS, st.floats(-2, 2), st.sampled_from([None, 0.2]), st.sampled_from([0.0, 0.3]))
def test_what_it_pushes_by_is_minus_the_slope(
    found: Any, sampled: Any, base: Any, weight: float, clip: float | None, kl: float
) -> None:
    if clip is not None and any(abs(found - sampled - math.log(edge)) < 1e-3 for edge in (1 - clip, 1 + clip)):
        return  # A corner has no slope.
    objective, step = Objective(clip=clip, kl=kl), 1e-5
    up, down = (one(objective, found + side, weight, sampled, base)[0] for side in (step, -step))
    push = one(objective, found, weight, sampled, base)[1]
    assert push == pytest.approx((down - up) / (2 * step), rel=1e-4, abs=1e-4)


def test_no_log_probability_overflows() -> None:
    objective = Objective(clip=0.2, kl=0.1)
    arrays = [np.array(values, np.float32) for values in ([0, -1e4], [-1, -1], [-1e4, 0], [-1e4, 0], [1, 1])]
    losses, pushes = token_losses(objective, *[*arrays, np.eye(2, dtype=np.float32)])
    assert np.isfinite(losses).all()
    assert np.isfinite(pushes).all()


TWO = (2, 1)
"""Tokens of two sequences: their log-ratios log 2 and log 8 have the mean log 4, the other's is log 0.5."""
FOUND = [math.log(2) - 1, math.log(8) - 1, math.log(0.5) - 1]


@pytest.mark.parametrize(
    ("ratio", "losses", "pushes"),
    [
        ("token", [-2.0, -4.5, 0.8], [2.0, 0.0, 0.0]),
        ("sequence", [-4.0, -4.0, 0.8], [4.0, 4.0, 0.0]),
        ("product", [-4.5, -4.5, 0.8], [0.0, 0.0, 0.0]),
    ],
)
def test_ratios_of_tokens_and_of_sequences_by_hand(ratio: Any, losses: list[float], pushes: list[float]) -> None:
    """Clipped to 0.8 and 4.5: ratios of tokens are 2, 8 and 0.5; geometric means 4 and 0.5; products 16 and 0.5."""
    objective = Objective(clip=0.2, clip_high=3.5, ratio=ratio)
    found = several(objective, FOUND, [1.0, 1.0, -1.0], [-1.0] * 3, [0.0] * 3, TWO)
    assert found[0] == pytest.approx(losses)
    assert found[1] == pytest.approx(pushes)


@given(
    st.lists(LOGS, min_size=3, max_size=3),
    st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    st.sampled_from(["token", "sequence", "product"]),
    st.sampled_from([0.0, 0.3]),
)
def test_pushes_of_sequences_are_minus_the_slope_of_all_their_losses(
    found: list[float], weights: list[float], ratio: Any, kl: float
) -> None:
    """Of ratios that are not clipped; each token is scaled by 0.7."""
    objective, step = Objective(clip=1.0, clip_high=1e9, ratio=ratio, kl=kl), 1e-6

    def total(place: int, by: float) -> float:
        moved = [value + by * (place == other) for other, value in enumerate(found)]
        return math.fsum(several(objective, moved, weights, [-2.0] * 3, [-1.0] * 3, TWO, 0.7)[0])

    pushes = several(objective, found, weights, [-2.0] * 3, [-1.0] * 3, TWO, 0.7)[1]
    for place, push in enumerate(pushes):
        slope = (total(place, step) - total(place, -step)) / (2 * step)
        assert push == pytest.approx(-slope, rel=1e-4, abs=1e-4 * (1 + abs(push)))


def test_normalization_by_hand() -> None:
    """3 + 1 tokens. Per sequence each token of the first counts 1/2 x 1/3 instead of 1/4; of 8 tokens at most, 1/16."""
    examples = [Example((1, 2, 3, 4), 1, 1.0), Example((1, 2), 1, 1.0)]
    scales = {
        name: [each.scale for each in normalized(examples, Objective(normalization=name, length=8))]
        for name in ("token", "sequence", "constant")
    }
    assert scales == {"token": [1.0, 1.0], "sequence": pytest.approx([2 / 3, 2.0]), "constant": [0.25, 0.25]}


def test_metrics_of_a_step_by_hand() -> None:
    """Log-ratios log 2, log 8 and log 0.5, clipped to 0.8 and 4.5; the third token's weight is negative."""
    scores = [
        (
            Example((9, 1, 2), 1, 1.0, sampled=(-1.0, -1.0), base=(FOUND[0], FOUND[1] + math.log(2))),
            np.array(FOUND[:2]),
        ),
        (Example((9, 3), 1, -1.0, sampled=(-1.0,), base=(FOUND[2],)), np.array(FOUND[2:])),
    ]
    logs = [math.log(2), math.log(8), math.log(0.5)]
    expected = {
        "kl": (1 - math.log(2)) / 3,
        "approx_kl": sum(math.exp(each) - 1 - each for each in logs) / 3,
        "logp_difference": (math.log(2) + math.log(8) + math.log(2)) / 3,
        "max_logp_difference": math.log(8),
        "clipped_low": 1 / 3,
        "clipped_high": 1 / 3,
    }
    objective = Objective(clip=0.2, clip_high=3.5, kl=0.1)
    assert step_metrics(objective, scores) == pytest.approx(expected)
    shares = {"clipped_low": 1 / 2, "clipped_high": 0.0}
    by_sequence = step_metrics(Objective(clip=0.2, clip_high=3.5, kl=0.1, ratio="sequence"), scores)
    assert by_sequence == pytest.approx({**expected, **shares}), "each sequence counts once; 4 is not clipped"
    found = step_metrics(Objective(), [(Example((9, 1), 1, 1.0), np.array([-1.0]))])
    assert found == {}, "nothing is known of the sampler"
