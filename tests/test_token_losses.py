"""The loss of one token and its slope: by hand, and against differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.models.local.token_sequences import Objective, token_losses

LOGS = st.floats(-9.0, 0.0)


def one(objective: Any, found: Any, weight: Any, sampled: float = 0.0, base: float = 0.0) -> tuple[Any, Any]:
    arrays = (np.array([value], np.float64) for value in (found, weight, sampled, base))
    losses, pushes = token_losses(objective, *arrays)
    return losses.item(), pushes.item()


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
    objective, step = Objective(clip, kl), 1e-5
    up, down = (one(objective, found + side, weight, sampled, base)[0] for side in (step, -step))
    push = one(objective, found, weight, sampled, base)[1]
    assert push == pytest.approx((down - up) / (2 * step), rel=1e-4, abs=1e-4)


def test_no_log_probability_overflows() -> None:
    objective = Objective(clip=0.2, kl=0.1)
    arrays = [np.array(values, np.float32) for values in ([0, -1e4], [-1, -1], [-1e4, 0], [-1e4, 0])]
    losses, pushes = token_losses(objective, *arrays)
    assert np.isfinite(losses).all()
    assert np.isfinite(pushes).all()
