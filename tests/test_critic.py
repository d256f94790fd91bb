"""The critic: what it reads, how well it predicts, and that it knows no answer to the problem it is asked about."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_task import ADDITION

from gce.app import cli
from gce.app.evaluation.critic import critic, early_stopping
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.evaluators.critic import (
    FEATURES,
    LENGTH,
    auroc,
    beginning,
    calibration_error,
    features_of,
    first_half,
    out_of_fold,
    predicted_rewards,
    quality,
)
from gce.domain.tasks import draw_problem
from gce.errors import SettingError


def test_features_of_a_known_completion() -> None:
    """Tokens 1 2 1 2 3: of the pairs 12 21 12 23 one repeats; log2(6) for five tokens; two below one half."""
    found = Completion("", "a", "stop", "", token_ids=(1, 2, 1, 2, 3), log_probabilities=(-0.1, -1.0, -0.1, -3.0, 0.0))
    row = dict(zip(FEATURES, features_of([found])[0], strict=True))
    assert row[LENGTH] == pytest.approx(math.log2(6)) and row["repeated pairs"] == pytest.approx(0.25)
    assert row["distinct tokens"] == pytest.approx(0.6) and row["tokens below one half"] == pytest.approx(0.4)
    assert row["log-probability, mean"] == pytest.approx(-0.84) and row["log-probability, least"] == -3.0
    assert np.isfinite(features_of([Completion("", "", "length", "")])).all()


def test_auroc_by_hand() -> None:
    """Positives 0.8 and 0.4, others 0.6 and 0.4: pairs 1, 1, 0 and one half, of 4."""
    predicted, positive = np.array([0.8, 0.4, 0.6, 0.4]), np.array([True, True, False, False])
    assert auroc(predicted, positive) == pytest.approx(2.5 / 4)
    assert math.isnan(auroc(predicted, np.ones(4, bool)))


def test_calibration_error_by_hand() -> None:
    """Each of two answers is a bin: |0.2 - 0| and |0.9 - 1|, on average 0.15."""
    assert calibration_error(np.array([0.9, 0.2]), np.array([1.0, 0.0])) == pytest.approx(0.15)


def test_quality_of_the_mean_is_zero() -> None:
    found = quality(np.full(4, 0.5), np.array([0.0, 1.0, 0.0, 1.0]))
    assert found.explained == 0.0 and found.auroc == 0.5 and found.calibration == pytest.approx(0.5 * 1.0)


def _drawn(n: int, effect: float, seed: int) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    y = (rng.random(n) < 1 / (1 + np.exp(-effect * x[:, 0]))).astype(float)
    return x, y, ["T0", "T1"] * (n // 2), [f"p{place // 4}" for place in range(n)]


def test_a_feature_that_tells_is_found_and_noise_is_not() -> None:
    """A logit of 2 x predicts with an AUROC near 0.86; without effect it is 0.5 within three standard errors."""
    x, y, tiers, problems = _drawn(2_000, 2.0, 0)
    found = quality(out_of_fold(x, y, tiers, problems), y)
    assert found.auroc == pytest.approx(0.86, abs=0.03) and found.explained > 0.3 and found.calibration < 0.05
    x, y, tiers, problems = _drawn(2_000, 0.0, 1)
    null = quality(out_of_fold(x, y, tiers, problems), y)
    assert null.auroc == pytest.approx(0.5, abs=0.04) and null.explained < 0.01


def test_no_answer_is_predicted_from_its_own_problem() -> None:
    """Scores that are a coin of the problem, and a feature that names it: only leaking would predict them."""
    rng = np.random.default_rng(3)
    coins = rng.integers(0, 2, 100).astype(float)
    y = np.repeat(coins, 4)
    x = np.eye(100).repeat(4, axis=0)
    problems = [f"p{place // 4}" for place in range(400)]
    found = quality(out_of_fold(x, y, ["T"] * 400, problems), y)
    assert abs(found.auroc - 0.5) < 0.12 and found.explained < 0.05


def test_graded_scores_are_predicted_by_ridge() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((500, 1))
    y = np.clip(0.5 + 0.1 * x[:, 0] + 0.05 * rng.standard_normal(500), 0.0, 1.0)
    found = quality(out_of_fold(x, y, ["T"] * 500, [f"{place}" for place in range(500)]), y)
    assert found.explained == pytest.approx(0.8, abs=0.05)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40))
def test_quality_is_bounded(pairs: list[tuple[float, float]]) -> None:
    predicted, scores = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    found = quality(predicted, scores)
    assert 0.0 <= found.calibration <= 1.0
    assert math.isnan(found.auroc) or 0.0 <= found.auroc <= 1.0


def test_too_few_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 5 problems, got 2"):
        out_of_fold(np.zeros((4, 1)), np.zeros(4), ["T"] * 4, ["a", "a", "b", "b"])


@pytest.mark.slow
def test_the_command_and_its_python_face(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlx.core")
    options = ("--n", "4", "--samples", "2", "--seeds", "2")
    assert cli.main(("critic", *options, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["critics"]] == ["all features", "length alone", "tier alone"]
    assert (found["problems"], found["samples"], len(found["critics"][0]["qualities"])) == (24, 2, 2)
    one, *_, oracle = found["choices"]
    assert one["against_one"]["value"] == 0.0 <= oracle["against_one"]["value"]
    assert [each["stopped"] for each in found["savings"]] == [0.1, 0.25, 0.5]


def test_an_early_stop_knows_nothing_of_the_length() -> None:
    """At 5 tokens, texts of 8 and 20 that begin alike are alike; words stand in where no tokens are counted."""
    short, long = (Completion("", "", "stop", "", token_ids=(*range(n),), tokens=n) for n in (8, 20))
    one, other = features_of([beginning(short, 5), beginning(long, 5)])
    assert one.tolist() == other.tolist() and first_half(long).tokens == 10
    assert beginning(Completion("", "a b c d", "stop", ""), 3).text == "a b c"


def test_what_early_stopping_saves_and_loses() -> None:
    """Of 20 answers of 10 tokens, the ten that repeat a token are wrong. Half are stopped after 5 tokens: that saves a
    quarter of all tokens and loses no right answer; at random it would lose half of them."""
    problems = [draw_problem(ADDITION, "small", "T0", "test", i) for i in range(10)]
    answers = [
        Answer(problem, Completion("", "", "stop", "", token_ids=ids, tokens=10), (), float(right), right)
        for problem in problems
        for ids, right in (((1,) * 10, False), ((*range(10),), True))
    ]
    right = np.array([float(each.right) for each in answers])
    *_, half = early_stopping(answers, right, [[2 * i, 2 * i + 1] for i in range(10)], right, 2)
    assert (half.stopped, half.tokens.value, half.lost.value, half.lost_by_chance) == (0.5, 0.25, 0.0, 0.5)


def test_rewards_of_answers_to_few_problems_are_predicted_by_their_mean() -> None:
    problem, said = draw_problem(ADDITION, "small", "T0", "test", 0), Completion("", "w1", "stop", "")
    answers = [Answer(problem, said, (), reward, bool(reward)) for reward in (0.0, 1.0, 0.5)]
    assert predicted_rewards(answers, [0.0, 1.0, 0.5], seed=0) == [0.5] * 3


def test_a_critic_of_one_outcome_estimates_nothing() -> None:
    """Each answer is wrong: one line says what came and what to do."""
    with pytest.raises(SettingError, match=r"expected at least 10 answers .* got 0 and 60: nothing can be estimated"):
        critic(ADDITION, lambda _messages: "no idea", n=10, samples=2, progress=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--samples", "1"), "--samples must be at least 2"),
        (("--temperature", "0"), "--temperature must be above 0"),
        (("--n", "1"), "raise --n"),
    ],
)
def test_what_a_critic_cannot_be_fitted_to(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlx.core")
    assert cli.main(("critic", "--tiers", "T0", "--n", "2", "--samples", "2", *options)) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
