"""Tokens are drawn by inverting the cumulative distribution, in numpy and in mlx alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gce.adapters.models.local.token_sampling import draw


def in_mlx(logits: Any, uniforms: Any, temperatures: Any) -> Any:
    mx = pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    from gce.adapters.models.backends.mlx.decoder import draw as draw_in_mlx

    with mx.stream(mx.cpu):
        return draw_in_mlx(mx.array(logits), uniforms, temperatures)


def arrays(logits: Any, uniforms: Any, temperatures: Any) -> tuple[Any, Any, Any]:
    return (np.asarray(logits, np.float32), np.asarray(uniforms, np.float32), np.asarray(temperatures, np.float32))


@pytest.fixture(params=[draw, in_mlx], ids=["numpy", "mlx"])
def drawing(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_uniform_number_picks_the_token_whose_share_it_falls_in(drawing: Any) -> None:
    """Shares 1/2, 1/4, 1/4: they end at 0.5, 0.75 and 1."""
    uniforms = [0.0, 0.49, 0.51, 0.74, 0.76, 1.0]
    logits = np.log([[0.5, 0.25, 0.25]] * 6)
    tokens, own, sampling = drawing(*arrays(logits, uniforms, [1.0] * 6))
    assert tokens.tolist() == [0, 0, 1, 1, 2, 2]
    assert own == pytest.approx(np.log([0.5, 0.5, 0.25, 0.25, 0.25, 0.25]), abs=1e-6)
    assert sampling == pytest.approx(own, abs=1e-6)


def test_temperature_sharpens_what_is_sampled_from_but_not_what_the_model_says(drawing: Any) -> None:
    """At temperature 1/2 shares are squared: 1/5 and 4/5 become 1/17 and 16/17."""
    tokens, own, sampling = drawing(*arrays(np.log([[0.2, 0.8]] * 2), [0.05, 0.07], [0.5, 0.5]))
    assert tokens.tolist() == [0, 1]
    assert own == pytest.approx(np.log([0.2, 0.8]), abs=1e-6)
    assert sampling == pytest.approx(np.log([1 / 17, 16 / 17]), abs=1e-6)


def test_temperature_0_takes_the_best_and_is_sure_of_it(drawing: Any) -> None:
    tokens, own, sampling = drawing(*arrays([[1.0, 3.0, 2.0]] * 2, [0.01, 0.99], [0.0, 0.0]))
    assert tokens.tolist() == [1, 1]
    assert own == pytest.approx(3.0 - np.log(np.exp([1.0, 3.0, 2.0]).sum()), abs=1e-6)
    assert sampling.tolist() == [0.0, 0.0]


def test_each_row_has_its_own_temperature(drawing: Any) -> None:
    tokens, _, sampling = drawing(*arrays(np.log([[0.1, 0.9]] * 3), [0.05] * 3, [1.0, 0.0, 1.0]))
    assert tokens.tolist() == [0, 1, 0]
    assert sampling == pytest.approx([np.log(0.1), 0.0, np.log(0.1)], abs=1e-6)


def test_a_token_without_weight_is_never_drawn(drawing: Any) -> None:
    """Weights far below float32's smallest are 0: first, in the middle and last."""
    logits = [[-1e4, 0.0, -1e4, 0.0, -1e4]] * 5
    tokens, own, _ = drawing(*arrays(logits, [0.0, 0.25, 0.5, 0.75, 1.0], [1.0] * 5))
    assert set(tokens.tolist()) <= {1, 3}
    assert own == pytest.approx(np.log(0.5), abs=1e-6)


def test_even_numbers_draw_tokens_in_their_shares(drawing: Any) -> None:
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    uniforms = (np.arange(1000) + 0.5) / 1000
    tokens, _, _ = drawing(*arrays(np.tile(np.log(shares), (1000, 1)), uniforms, [1.0] * 1000))
    assert np.bincount(tokens, minlength=4) == pytest.approx(1000 * shares, abs=1)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(2, 50))
def test_numpy_and_mlx_draw_alike(seed: int, rows: int, size: int) -> None:
    rng = np.random.Generator(np.random.Philox(seed))
    given_arrays = arrays(
        rng.normal(size=(rows, size)) * 3, rng.random(rows), rng.choice([0.0, 0.5, 0.8, 1.0, 1.5], size=rows)
    )
    ours, theirs = draw(*given_arrays), in_mlx(*given_arrays)
    assert ours[0].tolist() == theirs[0].tolist()
    assert ours[1] == pytest.approx(theirs[1], abs=1e-4)
    assert ours[2] == pytest.approx(theirs[2], abs=1e-4)
