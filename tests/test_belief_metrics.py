"""Belief metrics: numbers worked by hand, properties that hold for all beliefs, and what each cannot see."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_task
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.belief_agents import METRICS as TABULATED
from benchmarks.belief_agents import cells, main, unexpected
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.metrics import METRICS, overall
from gce.domain.metrics.beliefs import (
    calibration,
    clustering,
    coherence,
    martingale,
    predictability,
    scores,
    sycophancy,
)
from gce.domain.metrics.beliefs.entries import BELIEF_METRICS
from gce.domain.metrics.beliefs.judge_agreement import judge_correlation, judge_preference
from gce.domain.metrics.beliefs.label_search import LabelSearch, label_search, labels_utility
from gce.domain.metrics.beliefs.world_in_the_loop import uplift_per_token
from gce.domain.statistics import clustered_standard_error
from gce.domain.tasks import draw_problems
from gce.domain.verdicts import Verdict
from gce.testing.beliefs.agents import AGENTS
from gce.testing.beliefs.paths import draw_paths
from gce.testing.contracts.metric import check_metric

NAN = math.nan
PROBABILITY = st.floats(0.0, 1.0)
ANSWERS = st.lists(st.tuples(PROBABILITY, st.sampled_from([0.0, 1.0])), min_size=2, max_size=40)


def value(found: clustering.Clustered | None) -> float:
    assert found is not None
    return found.value


def test_scores_by_hand_with_the_worst_score_for_unreadable_beliefs() -> None:
    """Beliefs 0.8 (held), 0.4 (did not), unreadable (held); posteriors 0.5, 0.4, 0.7."""
    belief, outcome, exact, of = [0.8, 0.4, NAN], [1, 0, 1], [0.5, 0.4, 0.7], [0, 1, 2]
    assert value(scores.brier(belief, outcome, problem=of)) == pytest.approx((0.04 + 0.16 + 1) / 3)
    assert value(scores.brier(belief, outcome, problem=of, unreadable=False)) == pytest.approx(0.1)
    assert value(scores.excess_brier(belief, exact, problem=of)) == pytest.approx((0.09 + 0 + 0.49) / 3)
    assert value(scores.log_score(belief, outcome, problem=of)) == pytest.approx(
        (-math.log(0.8) - math.log(0.6) - math.log(0.001)) / 3
    )
    assert value(scores.readable(belief, problem=of)) == pytest.approx(2 / 3)
    assert value(scores.brier([0.8, NAN], [1, NAN], problem=[0, 1])) == pytest.approx(0.04), "no outcome, no score"
    assert scores.brier([NAN], [1], problem=[0], unreadable=False) is None
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\].*got 1.2"):
        scores.brier([1.2], [1], problem=[0])
    with pytest.raises(ValueError, match="outcomes of 0 or 1"):
        scores.brier([0.2], [0.5], problem=[0])


@given(PROBABILITY, PROBABILITY)
def test_the_expected_brier_score_is_that_of_the_posterior_and_the_excess(belief: float, exact: float) -> None:
    losses = scores.brier_losses([belief, belief], [1, 0])
    expected = exact * losses[0] + (1 - exact) * losses[1]
    excess = value(scores.excess_brier([belief], [exact], problem=[0]))
    assert expected == pytest.approx(exact * (1 - exact) + excess)
    assert excess <= value(scores.excess_brier([NAN], [exact], problem=[0])) + 1e-12, "unreadable is worst"


@pytest.mark.slow
@given(ANSWERS)
def test_brier_is_reliability_less_resolution_plus_uncertainty(answers: list[tuple[float, float]]) -> None:
    stated, outcome = np.array(answers).T
    belief = (np.minimum(np.floor(10 * stated), 9) + 0.5) / 10  # The middle of each bin.
    found = calibration.calibration(belief, outcome)
    assert found is not None and sum(found.counts) == len(answers)
    total = found.reliability - found.resolution + found.uncertainty + found.within_bins
    brier = value(scores.brier(belief, outcome, problem=np.arange(len(belief))))
    assert total == pytest.approx(brier)
    assert min(found.reliability, found.resolution, found.uncertainty) >= -1e-12
    assert found.within_bins == pytest.approx(0.0, abs=1e-9), "each bin holds one value"


def test_calibration_by_hand() -> None:
    """0.25 of which one of four held, 0.75 of which two of four did: gaps 0 and 1/4; base rate 3/8."""
    belief, outcome = [0.25] * 4 + [0.75] * 4, [1, 0, 0, 0, 1, 1, 0, 0]
    found = calibration.calibration(belief, outcome)
    assert found is not None and (found.belief, found.frequency) == ((0.25, 0.75), (0.25, 0.5))
    assert (found.reliability, found.resolution) == pytest.approx((1 / 32, 1 / 64))
    # Debiased: in each bin s^2 / 4 is subtracted; s^2 is 1/4 and 1/3.
    unbiased = value(calibration.reliability(belief, outcome, problem=range(8)))
    assert unbiased == pytest.approx((4 * (0 - 1 / 16) + 4 * (1 / 16 - 1 / 12)) / 8)


def test_reliability_of_the_base_rate_is_seldom_far_from_0() -> None:
    """One bin, 500 answers: the z score is at least -1/sqrt(2), also where frequency and belief are the same."""
    exactly = calibration.reliability([0.3] * 500, [1] * 150 + [0] * 350, problem=range(500))
    assert exactly is not None and exactly.value == pytest.approx(-0.21 * 500 / 499 / 500)
    assert exactly.value / exactly.standard_error == pytest.approx(-1 / math.sqrt(2), abs=1e-6)
    rng = np.random.default_rng(5)
    found = [calibration.reliability([0.3] * 500, rng.random(500) < 0.3, problem=range(500)) for _ in range(300)]
    assert sum(each is not None and each.p < 0.05 for each in found) < 0.05 * 300
    wrong = calibration.reliability([0.5] * 500, rng.random(500) < 0.3, problem=range(500))
    assert wrong is not None and wrong.value > 4 * wrong.standard_error


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 3)), min_size=2).filter(lambda rows: rows[0][1] != rows[1][1])
)
def test_the_mean_has_the_package_s_clustered_standard_error(rows: list[tuple[float, int]]) -> None:
    values, clusters = zip(*rows, strict=True)
    found = clustering.mean(values, problem=clusters)
    assert found is not None
    assert found.standard_error == pytest.approx(clustered_standard_error(values, clusters), abs=1e-9)


def test_the_martingale_slope_by_hand() -> None:
    """Changes -0.1, 0, 0.1 at 0.2, 0.5, 0.8: slope 1/3, on a line; a constant belief has no slope."""
    before, after = [0.2, 0.5, 0.8], [0.1, 0.5, 0.9]
    found = martingale.martingale_slope(before, after, problem=range(3))
    assert found is not None and found.value == pytest.approx(1 / 3) and found.standard_error < 1e-9
    assert martingale.martingale_slope([0.5] * 3, after, problem=range(3)) is None
    assert value(martingale.drift(before, after, problem=range(3))) == pytest.approx(0.0)
    assert value(martingale.information_gain([0.5], [0.8], [1], problem=[0])) == pytest.approx(0.25 - 0.04)
    assert value(martingale.share_unmoved([0.5, 0.2, NAN], [0.5, 0.3, 0.1], problem=range(3))) == 0.5
    starts, ends, of = martingale.steps([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], problem=[7, 9])
    assert (list(starts), list(ends), list(of)) == ([0.1, 0.2, 0.4, 0.5], [0.2, 0.3, 0.5, 0.6], [7, 7, 9, 9])


def test_a_second_reading_removes_the_bias_of_noise() -> None:
    """Beliefs of variance 0.04 that never change, read with noise of variance 0.01: M is -0.2 and M_IV 0."""
    rng = np.random.default_rng(1)
    true = np.where(rng.random(20_000) < 0.5, 0.3, 0.7)
    before, after, again = (true + np.where(rng.random(true.size) < 0.5, 0.1, -0.1) for _ in range(3))
    of = np.arange(true.size)
    assert value(martingale.martingale_slope(before, after, problem=of)) == pytest.approx(-0.2, abs=0.02)
    found = martingale.martingale_slope_iv(before, after, again, problem=of)
    assert found is not None and abs(found.value) < 4 * found.standard_error < 0.1
    noise = rng.random(true.size)
    assert martingale.martingale_slope_iv(before, after, noise, problem=of) is None, "a weak instrument"
    same = martingale.martingale_slope_iv(before, after, before, problem=of)
    assert value(same) == pytest.approx(value(martingale.martingale_slope(before, after, problem=of)))


def test_exact_bayes_drifts_in_no_direction_over_many_seeds() -> None:
    """z scores of 200 seeds have mean 0 and deviation 1; those of an agent who discounts evidence do not."""
    scores_of: dict[str, list[float]] = {name: [] for name in ("exact Bayes", "discounts disconfirming evidence")}
    for seed in range(200):
        paths = draw_paths(500, seed)
        for name, found in scores_of.items():
            path = AGENTS[name].path(paths.prior, paths.ratios)
            drift = martingale.drift(path[:, 0], path[:, -1], problem=np.arange(500))
            assert drift is not None
            found.append(drift.value / drift.standard_error)
    fair, biased = (np.array(found) for found in scores_of.values())
    assert abs(fair.mean()) < 4 / math.sqrt(200) < abs(biased.mean())
    assert 0.8 < fair.std() < 1.2


def test_a_draw_that_agents_share_is_tested_once() -> None:
    """Four agents whose beliefs are the same without a user: a drift of 6 standard errors is one finding, of 2 none."""
    shown = {"+": clustering.Clustered(1.0, 0.1, 9, 9), "-": clustering.Clustered(-1.0, 0.1, 9, 9), ".": None}
    fine: dict[str, dict[str, clustering.Clustered | None]] = {agent: {} for agent in AGENTS}
    for agent, metric, cell in cells():
        fine[agent][metric] = shown.get(cell, clustering.Clustered(0.0, 0.1, 9, 9))
    assert unexpected({0: fine}) == []
    for error, findings in ((2.0, []), (6.0, [("exact Bayes", "drift")])):
        drifted = clustering.Clustered(error * 0.1, 0.1, 9, 9)
        alike = [agent for agent, metric, cell in cells() if (metric, cell) == ("drift", "0") and "noise" not in agent]
        found = fine | {agent: fine[agent] | {"drift": drifted} for agent in alike}
        assert len(alike) == 4
        assert [(each.agent, each.metric) for each in unexpected({0: found})] == findings


@given(PROBABILITY, PROBABILITY)
def test_coherence_by_its_definition(one: float, other: float) -> None:
    assert value(coherence.complement_error([one], [1 - one], problem=[0])) == pytest.approx(0.0)
    assert value(coherence.implication_error([one], [other], problem=[0])) == max(0.0, one - other)
    cells = [[one * other, one * (1 - other), 1 - one]]
    assert value(coherence.partition_error(cells, problem=[0])) == pytest.approx(0.0, abs=1e-12)
    assert value(coherence.partition_error([[0.5, 0.5, 0.5]], problem=[0])) == 0.5


@given(st.floats(-6, 6), st.floats(0.1, 0.95))
def test_a_bayesian_has_no_excess_shift(start: float, reliability: float) -> None:
    trust = math.log(reliability / (1 - reliability))
    neutral, supported, opposed = (1 / (1 + math.exp(-x)) for x in (start, start + trust, start - trust))
    found = sycophancy.excess_shift([neutral], [supported], [opposed], [reliability], problem=[0])
    assert value(found) == pytest.approx(0.0, abs=1e-6)
    ignores = sycophancy.excess_shift([neutral], [neutral], [neutral], [reliability], problem=[0])
    assert value(ignores) == pytest.approx(-trust)


def test_sycophancy_by_hand() -> None:
    """Neutral 0.8, 0.9 with a supporting user and 0.5 with an opposing one; the claim holds, so the second is wrong."""
    asked = [0.8], [0.9], [0.5]
    assert value(sycophancy.opinion_shift([0.9], [0.5], problem=[0])) == pytest.approx(0.2)
    assert value(sycophancy.harm(*asked, [1], problem=[0])) == pytest.approx(0.25 - 0.04)
    assert value(sycophancy.harm(*asked, [0], problem=[0])) == pytest.approx(0.81 - 0.64)
    assert value(sycophancy.agreement_gap(*asked, [1], problem=[0])) == pytest.approx(0.25 - 0.01)
    assert sycophancy.agreement_gap([0.5], [0.9], [0.5], [1], problem=[0]) is None


def test_predictability_by_hand() -> None:
    given_others, alone = np.log([0.8, 0.5]), np.log([0.4, 0.5])
    uplift = predictability.mutual_predictability(given_others, alone, problem=[0, 1])
    assert value(uplift) == pytest.approx(math.log(2) / 2)
    skipped = predictability.mutual_predictability(given_others, alone, problem=[0, 1], repeats=[True, False])
    assert value(skipped) == pytest.approx(0.0)
    assert predictability.policy_pairs("a", ["b", "a"], predictor="another", predicted="any") == (
        ("b", "a"),
        ("b", "b"),
    )
    joint = np.log([[[[0.5, 0.8], [0.25, 0.5]]]])  # One question, one judge; rows are sources.
    first, second = predictability.peer_prediction(joint, np.log([[[0.5, 0.4]]]))
    assert (first.value, second.value) == pytest.approx((math.log(2), -math.log(2)))
    assert value(uplift_per_token([-2.0, -3.0], [-4.0, -3.0], [4, 1], problem=[0, 1])) == pytest.approx(0.25)


@given(st.integers(2, 12), st.data())
def test_context_questions_are_distinct_others(count: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, count - 1))
    drawn = predictability.context_questions(count, np.random.default_rng(0), k=k, trials=2)
    assert drawn.shape == (count, 2, k)
    for target, trials in enumerate(drawn):
        assert all(len(set(row)) == k and target not in row and set(row) <= set(range(count)) for row in trials)


def test_agreement_of_a_judge_by_hand() -> None:
    """Two answers to each of two problems: one pair in the right order, one graded the same."""
    found = judge_preference([3, 1, 2, 2], [0.9, 0.1, 0.8, 0.3], problem=[0, 0, 1, 1])
    assert value(found) == 0.75
    assert value(judge_correlation([1, 2, 3, 4], [10, 30, 20, 40], problem=range(4))) == pytest.approx(0.8)
    assert judge_correlation([1, 1], [1, 2], problem=[0, 1]) is None
    assert judge_preference([1, 2], [1, 2], problem=[0, 1]) is None


def test_label_search_finds_the_labels_that_predict_each_other() -> None:
    """Twelve examples in two groups that a constraint keeps apart; a label is likely if its group has it."""

    def predict(example: int, labels: Mapping[int, int]) -> list[float]:
        alike = [label for other, label in labels.items() if other % 2 == example % 2]
        shares = np.array([1 + alike.count(0), 1 + alike.count(1)]) / (2 + len(alike))
        return list(np.log(shares))

    def inconsistent(one: int, first: int, other: int, second: int) -> bool:
        return one % 2 != other % 2 and first == second

    settings = LabelSearch(iterations=150)
    found = label_search(12, 2, predict, np.random.default_rng(3), inconsistent=inconsistent, settings=settings)
    assert len(found) == 12 and len({found[each] for each in range(0, 12, 2)}) == 1
    assert {found[0], found[1]} == {0, 1}
    assert labels_utility({0: 1}, predict, inconsistent) == pytest.approx(50 * math.log(0.5))
    assert settings.temperature(1) == 10.0
    assert settings.temperature(10**9) == pytest.approx(10 / (1 + 0.99 * 20.723), rel=1e-3)


def conversations() -> list[Conversation]:
    """Two samples each of 12 problems in a random world: paths of three beliefs, and one set with opinions."""
    rng = np.random.default_rng(0)
    found = []
    for place, problem in enumerate(draw_problems(toy_task.ADDITION, "small", "T0", "test", 12)):
        exact = (place + 1) / 14
        for _ in range(2):
            beliefs = [float(np.clip(exact + rng.normal(0, 0.02 + 0.02 * step), 0, 1)) for step in range(3)]
            found.append(conversation(problem, [{"belief": each} for each in beliefs], exact, place % 2))
        marks: list[dict[str, float]] = [{}, {"opinion": 1.0, "reliability": 0.7}, {"opinion": 0.0, "reliability": 0.7}]
        asked = [{"belief": float(rng.uniform(0.2, 0.8)), **mark} for mark in marks]
        found.append(conversation(problem, asked[1:] + asked[:1], exact, place % 2))
        again = [{"belief": float(rng.uniform(0.2, 0.8))} for _ in range(3)]
        readings = ("order", "sample", "complement", "implication", "partition", "label")
        found += [conversation(problem, again, exact, place % 2, reading) for reading in readings]
        for _ in range(2):
            noted = conversation(problem, [{"belief": float(rng.uniform()), "target": exact}], exact, place % 2)
            notes = {**{name: -float(rng.uniform(0.1, 2)) for name in NOTES}, "report tokens": 5.0}
            notes["grade"] = float(rng.uniform())
            found.append(evolve(noted, attempts=(evolve(noted.last, notes=notes),)))
    return found


NOTES = (
    *("predicted given", "predicted blind", "own given", "own blind", "peer's given", "peer's blind"),
    *("report given", "report blind"),
)


def conversation(
    problem: object, beliefs: list[dict[str, float]], exact: float, outcome: float, reading: Any = "before"
) -> Conversation:
    known = {"outcome": float(outcome), "posterior": exact}
    attempts = [
        Answer(problem, Completion("k", "w", "stop", "p"), (Verdict("right", 1.0, "e", "1", known | each),), 1.0, True)  # type: ignore[arg-type]
        for each in beliefs
    ]
    first: Any
    first, last = ("opinion" if "opinion" in beliefs[0] else reading), len(attempts) - 1
    marked = (evolve(each, reading="" if place == last else first) for place, each in enumerate(attempts))
    return Conversation(tuple(marked), 1, 10, 5)


@pytest.mark.parametrize("metric", BELIEF_METRICS, ids=lambda metric: metric.name)
def test_every_entry_keeps_the_contract_of_metrics(metric: object) -> None:
    check_metric(metric, conversations())  # type: ignore[arg-type]


def test_entries_read_measures_and_count_unreadable_answers() -> None:
    """A belief of 0.9 in a claim that holds, and an unreadable one: (0.01 + 1) / 2."""
    first, second = draw_problems(toy_task.ADDITION, "small", "T0", "test", 2)
    found = [conversation(first, [{"belief": 0.9}], 0.8, 1), conversation(second, [{}], 0.8, 1)]
    measured = {
        name: overall(METRICS[name], found) for name in ("brier", "brier of readable", "readable", "excess brier")
    }
    assert {name: each.value for name, each in measured.items() if each} == pytest.approx(
        {"brier": 0.505, "brier of readable": 0.01, "readable": 0.5, "excess brier": (0.01 + 0.64) / 2}
    )
    assert overall(METRICS["martingale slope"], found) is None


def test_metrics_of_100_000_answers_take_seconds() -> None:
    """All functions together; the limit for a slow machine is 10 s of processor time."""
    rng = np.random.default_rng(0)
    one, other, third = rng.random((3, 100_000))
    outcome, of = (rng.random(100_000) < one).astype(float), np.arange(100_000) // 4
    start = time.process_time()
    for measure in (
        scores.brier,
        scores.excess_brier,
        scores.log_score,
        calibration.reliability,
        calibration.resolution,
    ):
        assert measure(one, outcome, problem=of)
    assert martingale.martingale_slope(one, other, problem=of)
    assert martingale.martingale_slope_iv(one, other, one + 0 * third, problem=of)
    assert sycophancy.excess_shift(one, other, third, np.full(100_000, 0.7), problem=of)
    assert sycophancy.agreement_gap(one, other, third, outcome, problem=of)
    assert judge_correlation(one, other, problem=of) and judge_preference(one, other, problem=of)
    assert time.process_time() - start < 10.0


PAGE = Path(__file__).parents[1] / "docs" / "reference" / "belief-metrics.md"


def test_the_page_shows_the_expected_signs() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines()]
    (agents,) = (row[1:] for row in rows if row[:2] == ["metric", "exact Bayes"])
    shown = {
        (agent, row[0]): cell.split()[0]
        for row in rows
        if row and row[0] in TABULATED and len(row) == len(agents) + 1
        for agent, cell in zip(agents, row[1:], strict=True)
    }
    assert shown == {(agent, metric): cell for agent, metric, cell in cells()}


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    page = PAGE.read_text()
    assert all(table.strip() in page for table in capsys.readouterr().out.split("\n\n"))
