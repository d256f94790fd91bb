"""Metrics: every entry keeps the contract, and so do a rate, pass@k and a slope that a user might write; by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import toy_task
from attrs import evolve

from gce.app.evaluation.comparison import Measured, against
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.metrics import METRICS, Metric, MetricSettings, by_tier, by_unit, overall, point
from gce.domain.metrics.beliefs.entries import BELIEF_METRICS
from gce.domain.metrics.consultation import CONSULTATION_METRICS
from gce.domain.metrics.means import TOKENS
from gce.domain.metrics.rates import ACCURACY, COVERAGE
from gce.domain.statistics import Estimate, clustered_mean, mean_of_problems, mean_pass_at_k
from gce.domain.tasks import draw_problems
from gce.domain.verdicts import Verdict
from gce.testing.contracts.metric import check_metric

PROBLEMS = [problem for tier in ("T0", "T1") for problem in draw_problems(toy_task.ADDITION, "small", tier, "test", 4)]


def conversation(problem: Any, status: str, tokens: int | None = 5, reason: str = "stop") -> Conversation:
    verdict = Verdict(status, {"right": 1.0, "failed": None}.get(status, 0.0), "e", "1")  # type: ignore[arg-type]
    completion = Completion("key", "w1", reason, "policy")  # type: ignore[arg-type]
    answer = Answer(problem, completion, (verdict,), verdict.score, status == "right")
    return Conversation((answer,), 1, 10, tokens)


def samples(count: int) -> list[Conversation]:
    """Of each problem; about every second is right, and one of all fails."""
    found = [
        conversation(problem, ("right", "wrong", "right", "unreadable")[(place + sample) % 4], 5 + place + sample)
        for place, problem in enumerate(PROBLEMS)
        for sample in range(count)
    ]
    return [*found[:-1], conversation(PROBLEMS[-1], "failed")]


def slope() -> Metric[Estimate]:
    """How much an answer's length rises with its problem's first number, with problems as clusters: a user's own."""

    def points(conversations: Sequence[Conversation]) -> tuple[float, tuple[float, ...]]:
        written = tuple(float(each.tokens or 0) for each in conversations)
        return float(conversations[0].last.problem.instance.a), written

    def fitted(clusters: Sequence[tuple[float, tuple[float, ...]]], settings: MetricSettings) -> Estimate:
        x = np.array([a for a, lengths in clusters for _ in lengths])
        y = np.array([length for _, lengths in clusters for length in lengths])
        of = np.array([place for place, (_, lengths) in enumerate(clusters) for _ in lengths])
        away = x - x.mean()
        value = float(away @ y / (away @ away))
        pull = away * (y - y.mean() - value * away)
        spread = sum(float(pull[of == place].sum()) ** 2 for place in range(len(clusters)))
        reach = -float(np.log(1 - settings.confidence)) * math.sqrt(spread) / float(away @ away)
        return Estimate(value, value - reach, value + reach)

    return Metric(
        name="length slope",
        help="tokens written for each unit of the first number",
        over="problem",
        contribution=points,
        estimate=fitted,
        unit="tokens",
        higher_is_better=None,
    )


OF_OTHERS = {metric.name for metric in (*BELIEF_METRICS, *CONSULTATION_METRICS)}
"""test_belief_metrics.py has conversations with beliefs, test_consultation.py those with a user."""


@pytest.mark.parametrize(
    "metric",
    [*(metric for name, metric in METRICS.items() if name not in OF_OTHERS), slope()],
    ids=lambda metric: metric.name,
)
def test_every_metric_keeps_the_contract(metric: Metric[Any]) -> None:
    k = int(metric.name.partition("@")[2] or 0)
    if k <= 64:
        check_metric(metric, samples(max(3, k + 1)))
    assert all(name == each.name for name, each in METRICS.items())


def test_a_metric_that_breaks_the_contract_is_caught() -> None:
    """It calls what is above its mean the upper limit, and its confidence changes nothing but one side."""
    accuracy: Metric[Any] = ACCURACY
    broken = evolve(accuracy, estimate=lambda found, _settings: Estimate(0.5, 0.6, 0.7))
    with pytest.raises(AssertionError):
        check_metric(broken, samples(3))
    narrow = evolve(accuracy, estimate=lambda found, settings: Estimate(0.5, 0.4, 1.0 - settings.confidence / 2))
    with pytest.raises(AssertionError, match="more confidence"):
        check_metric(narrow, samples(3))


def test_accuracy_is_the_share_right_of_what_was_judged() -> None:
    found = [conversation(PROBLEMS[0], status) for status in ("right", "wrong", "unreadable", "failed", "right")]
    (share,) = by_tier(ACCURACY, found).values()
    assert (share.correct, share.n, share.unreadable, share.failed) == (2, 4, 1, 1)
    # Four answers to one problem are one trial: 0.5 -+ 1.96 * sqrt(0.25 + 3.8415 / 4) / 4.8415.
    assert (share.low, share.high) == pytest.approx((0.05462, 0.94538), abs=1e-5)
    exact = overall(ACCURACY, found, MetricSettings(interval="clopper-pearson"))
    assert exact is not None and (exact.low, exact.high) == (0.0, 1.0)
    covered = overall(COVERAGE, found)
    assert covered is not None and covered.share == 4 / 5


def test_pass_at_k_leaves_out_problems_with_fewer_samples() -> None:
    """Of two problems one has 8 samples, 4 of them right; the other 2, none right."""
    eight = [conversation(PROBLEMS[0], status) for status in ["right", "wrong"] * 4]
    two = [conversation(PROBLEMS[1], "wrong")] * 2 + [conversation(PROBLEMS[1], "failed")] * 6
    assert by_tier(METRICS["pass@1"], eight + two) == {"T0": mean_pass_at_k([(8, 4), (2, 0)], 1)}
    assert by_tier(METRICS["pass@8"], eight + two) == {"T0": mean_pass_at_k([(8, 4)], 8)}
    assert by_tier(METRICS["pass@64"], eight + two) == {}


def test_mean_reward_weighs_problems_the_same() -> None:
    """Half of two samples, and the one of another problem: 3/4, as wide as two trials leave it."""
    found = [conversation(PROBLEMS[0], status) for status in ("right", "wrong")] + [conversation(PROBLEMS[1], "right")]
    assert overall(METRICS["mean reward"], found) == mean_of_problems([0.5, 1.0])


def test_tokens_of_one_problem_are_a_cluster() -> None:
    """2, 4 of one problem and 6, 8 of another: mean 5, residual sums -4 and 4, standard error sqrt(2 * 32) / 4 = 2."""
    found = [conversation(PROBLEMS[place // 2], "right", 2 * place + 2) for place in range(4)]
    estimate = overall(TOKENS, found)
    assert estimate is not None and estimate.value == 5.0
    assert estimate.high - 5.0 == pytest.approx(1.959964 * 2.0, abs=1e-5)
    one = clustered_mean([[1.0, 2.0]])
    assert (one.value, one.low, one.high) == (1.5, -math.inf, math.inf)
    assert overall(TOKENS, [conversation(PROBLEMS[0], "right", None)]) is None
    with pytest.raises(ValueError, match="at least one value"):
        clustered_mean([])


def test_a_metric_over_the_run_has_one_unit() -> None:
    run = evolve(TOKENS, over="run", contribution=lambda found: (float(len(found)),))
    assert list(by_unit(run, samples(2)).values()) == [(16.0,)]


def test_only_paired_metrics_are_compared() -> None:
    zero = Measured(tuple(conversation(each, "wrong", 5) for each in PROBLEMS), 1.0)
    more = Measured(tuple(conversation(each, "right", 7 + place) for place, each in enumerate(PROBLEMS)), 1.0)
    found = {"zero-shot": zero, "more": more}
    assert against(found)["more"].gained == 8
    longer = against(found, TOKENS)["more"]
    assert (longer.gained, longer.lost, longer.mean.value) == (8, 0, 5.5)
    assert longer.p == longer.adjusted < 0.05
    with pytest.raises(ValueError, match="pass@1 cannot be compared problem by problem"):
        against(found, METRICS["pass@1"])


def test_the_slope_by_hand() -> None:
    """Lengths 2 a + 1 lie on a line: slope 2, no width."""
    found = [conversation(each, "right", 2 * each.instance.a + 1) for each in PROBLEMS]
    estimate = overall(slope(), found)
    assert estimate is not None and point(estimate) == pytest.approx(2.0)
    assert estimate.high - estimate.low == pytest.approx(0.0, abs=1e-9)
