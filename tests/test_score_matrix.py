"""Statistics of the scores of several evaluators, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gce.domain.evaluators.score_matrix import (
    consensus_correlation,
    correlations,
    disagreement,
    effective_number,
    effective_rank,
    eigenvalues,
    participation_ratio,
    simulated_consensus,
)

SCORES = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(2, 5)),
    elements=st.floats(0.0, 1.0, allow_subnormal=False),
)


def test_unanimous_evaluators_do_not_disagree() -> None:
    assert disagreement(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.3, 0.3, 0.3]])) == 0.0


def test_disagreement_is_a_share_of_the_largest() -> None:
    """(0, 1) has the variance 1/4, the largest of two; (0, 0, 1) has 2/9, the largest of three; (0, 1/2) has 1/16."""
    assert disagreement(np.array([[0.0, 1.0]])) == pytest.approx(1.0)
    assert disagreement(np.array([[0.0, 0.0, 1.0]])) == pytest.approx(1.0)
    assert disagreement(np.array([[0.0, 0.5], [0.5, 0.5]])) == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("values", "ratio", "rank"),
    [
        ([1.0, 1.0, 1.0, 1.0], 4.0, 4.0),
        ([3.0, 0.0, 0.0], 1.0, 1.0),
        ([2.0, 1.0, 1.0], 16 / 6, math.exp(0.5 * math.log(2) + 0.5 * math.log(4))),
    ],
)
def test_effective_numbers_of_known_eigenvalues(values: list[float], ratio: float, rank: float) -> None:
    assert participation_ratio(np.array(values)) == pytest.approx(ratio)
    assert effective_rank(np.array(values)) == pytest.approx(rank)


def test_correlations_of_three_known_columns() -> None:
    """The second column mirrors the first, and the third is constant."""
    scores = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5], [0.5, 0.5, 0.5]])
    assert correlations(scores) == pytest.approx(np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    assert eigenvalues(scores) == pytest.approx([2.0, 1.0, 0.0])


def test_three_copies_and_one_other_amount_to_fewer_than_four() -> None:
    """Eigenvalues near 3, 1, 0, 0: 16 / 10. Independent columns show nearly 4, and no factor."""
    rng = np.random.default_rng(0)
    one, other = rng.random((2, 400))
    scores = np.column_stack([one, one, one, other])
    found = effective_number(scores, list(range(400)), rng, resamples=200)
    assert found.participation_ratio.value == pytest.approx(1.6, abs=0.02) and found.factors == 1
    assert found.participation_ratio.high < 2.0 < 3.8 < found.null_participation_ratio.low
    independent = effective_number(rng.random((400, 4)), list(range(400)), rng, resamples=200)
    assert independent.factors == 0 and independent.effective_rank.value > 3.9


def test_answers_to_one_problem_are_drawn_together() -> None:
    """Copies of each answer leave the estimate, and must not narrow its interval."""
    rng = np.random.default_rng(1)
    scores = np.clip(rng.random((40, 1)) + 0.3 * rng.random((40, 3)), 0.0, 1.0)
    plain = effective_number(scores, list(range(40)), np.random.default_rng(2), resamples=300)
    copied = effective_number(
        np.repeat(scores, 5, axis=0), [place // 5 for place in range(200)], np.random.default_rng(2), resamples=300
    )
    one, other = plain.participation_ratio, copied.participation_ratio
    assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high))


@pytest.mark.parametrize(("k", "r"), [(1, 0.5), (4, 0.867), (3, 0.0), (8, 0.2)])
def test_a_shared_factor_alone_predicts_a_held_out_evaluator(k: int, r: float) -> None:
    """The closed form against a simulation of n = 5,000, within 0.02: two standard errors of a correlation."""
    rng = np.random.default_rng(k)
    factor = rng.standard_normal(5_000)
    scores = math.sqrt(r) * factor[:, None] + math.sqrt(1.0 - r) * rng.standard_normal((5_000, k + 1))
    simulated = float(np.corrcoef(scores[:, :k].mean(axis=1), scores[:, k])[0, 1])
    assert consensus_correlation(k, r) == pytest.approx(simulated, abs=0.03)
    assert consensus_correlation(4, 0.867) == pytest.approx(0.914, abs=5e-4)


@given(SCORES)
def test_invariants(scores: np.ndarray) -> None:
    k = scores.shape[1]
    values = eigenvalues(scores)
    assert 0.0 <= disagreement(scores) <= 1.0 + 1e-9
    assert values.sum() == pytest.approx(k, abs=1e-6)
    assert 1.0 - 1e-9 <= participation_ratio(values) <= effective_rank(values) + 1e-6 <= k + 1e-5
    assert disagreement(scores[:, ::-1].copy()) == pytest.approx(disagreement(scores))


@pytest.mark.parametrize(
    "scores", [np.zeros((0, 2)), np.zeros((3, 1)), np.array([[0.0, 2.0]]), np.array([[0.0, math.nan]]), np.zeros(3)]
)
def test_what_is_no_score_matrix(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected scores"):
        disagreement(scores)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("evaluators", "correlation"), [(4, 0.867), (2, 0.9), (8, 0.8)])
def test_transfer_on_path_b_is_arithmetic(evaluators: int, correlation: float, seed: int) -> None:
    """At n = 5,000 the simulation is within 0.01 of the closed form: 0.914 for four evaluators and r = 0.867."""
    found = simulated_consensus(evaluators, correlation, np.random.default_rng(seed))
    assert found == pytest.approx(consensus_correlation(evaluators, correlation), abs=0.01)


def test_nothing_transfers_on_path_a() -> None:
    """Orthogonal evaluators: within four standard errors of 0."""
    found = [simulated_consensus(4, 0.0, np.random.default_rng(seed)) for seed in range(5)]
    assert max(map(abs, found)) < 4 / math.sqrt(5_000)
    with pytest.raises(ValueError, match="at least 2 answers, got 1"):
        simulated_consensus(4, 0.5, np.random.default_rng(0), answers=1)
