"""The decision on performance tasks: exact levels, hand-worked intervals, verdicts, properties, recorded rounds."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache
from math import exp, isclose, log
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.performance import decision
from gce.domain.performance.admission import admission
from gce.domain.performance.decision import (
    GAIN,
    LEVEL,
    LOOKS,
    MOST,
    Comparison,
    Round,
    Timing,
    decide,
    decide_same,
    ratio,
)
from gce.domain.performance.summary import fast_p, geometric_mean, harmonic_mean
from gce.domain.statistics import Estimate

GAINS = ("partial", "matches the human", "beats the human")


def rounds(candidate: list[float], base: float = 1.0, human: float | None = None) -> list[Round]:
    person = None if human is None else Timing(human)
    return [Round(n, Timing(base), Timing(each), person) for n, each in enumerate(candidate)]


def test_looks_are_after_10_rounds_and_then_after_each_batch_of_5() -> None:
    assert [*LOOKS] == [10, 15, 20, 25, 30]


def test_the_level_over_all_looks_is_at_most_a_fortieth_by_another_way_of_counting() -> None:
    """Paths of a fair walk counted one by one, as whole numbers; the first rank by hand: 1 of 2^10 is below 0.83 %."""
    ranks = decision._ranks()
    assert list(ranks) == list(LOOKS) and ranks[10] == 1

    @cache
    def crossing(n: int, below: int) -> int:
        """The number of ways, of 2^(30 - n), in which the lower limit exceeds the median at this look or later."""
        if n in ranks and below < ranks[n]:
            return 1 << (MOST - n)
        return 0 if n == MOST else crossing(n + 1, below) + crossing(n + 1, below + 1)

    chance = crossing(0, 0) / 2**MOST
    assert 0.0149 < chance <= LEVEL


def test_limits_are_the_smallest_and_the_largest_of_ten_and_the_third_of_fifteen() -> None:
    times = [1.0 + n / 10 for n in range(10)]
    found = ratio(times, [1.0] * 10)
    assert isclose(found.low, 1.0) and isclose(found.high, 1.9)
    assert isclose(found.value, (1.4 * 1.5) ** 0.5)
    found = ratio([float(n) for n in range(1, 16)], [1.0] * 15)
    assert [round(each, 9) for each in (found.low, found.value, found.high)] == [3, 8, 13]


@pytest.mark.parametrize(
    ("candidate", "human", "verdict"),
    [
        ([1.0] * 10, 0.5, "no gain"),
        ([0.5] * 10, 0.5, "matches the human"),
        ([0.4] * 10, 0.5, "beats the human"),
        ([0.8] * 10, 0.5, "partial"),
        ([0.5] * 10, None, "partial"),
        ([1.2] * 10, 0.5, "no gain"),
    ],
)
def test_clear_cases_are_settled_at_the_first_look(candidate: list[float], human: float | None, verdict: str) -> None:
    found = decide(rounds(candidate, human=human))
    assert (found.verdict, found.settled) == (verdict, True)


def test_an_interval_with_both_the_least_gain_and_the_humans_ratio_is_inconclusive() -> None:
    noisy = [0.5, 1.1] * 15
    found = decide(rounds(noisy, human=0.7))
    assert found.gain is not None and found.gain.low < GAIN < 1 / 0.7 < found.gain.high
    assert (found.verdict, found.settled) == ("inconclusive", True)
    assert decide(rounds(noisy, human=0.4)).verdict == "no gain"  # The human's 2.5 lies above the interval.
    assert not decide(rounds(noisy[:10], human=0.7)).settled


def test_between_looks_nothing_is_decided() -> None:
    assert not any(decide(rounds([0.1] * n)).settled for n in (0, 5, 9, 11, 14))


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=30, max_size=30), st.sampled_from(LOOKS)
)
def test_swapping_base_and_candidate_inverts_the_ratio_and_its_interval(
    pairs: list[tuple[float, float]], look: int
) -> None:
    one, other = [list(each) for each in zip(*pairs[:look], strict=True)]
    there, back = ratio(one, other), ratio(other, one)
    assert (
        isclose(there.value, 1 / back.value) and isclose(there.low, 1 / back.high) and isclose(there.high, 1 / back.low)
    )
    assert there.low <= there.value <= there.high


@given(st.lists(st.floats(0.01, 100), min_size=30, max_size=30), st.floats(0.1, 10), st.sampled_from(LOOKS))
def test_a_constant_factor_is_the_ratio(times: list[float], factor: float, look: int) -> None:
    found = ratio([factor * each for each in times[:look]], times[:look])
    assert all(isclose(each, factor) for each in (found.value, found.low, found.high))


@given(st.lists(st.floats(0.01, 100), min_size=30, max_size=30), st.none() | st.floats(0.01, 100))
def test_thirty_rounds_settle_whatever_they_show(candidate: list[float], human: float | None) -> None:
    found = rounds(candidate, human=human)
    assert decide(found).settled and decide_same(found).settled


@pytest.mark.parametrize("times", [([1.0] * 9, [1.0] * 9), ([1.0] * 10, [1.0] * 15), ([0.0] * 10, [1.0] * 10)])
def test_times_without_a_look_or_of_zero_are_refused(times: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="expected"):
        ratio(*times)


def test_the_reward_is_the_share_of_the_humans_logarithm() -> None:
    found = Comparison("t", "partial", gain=Estimate(2.0, 1.9, 2.1), human=Estimate(4.0, 3.9, 4.1))
    assert isclose(found.reward, 0.5)
    assert Comparison("t", "incorrect").reward == 0.0
    assert Comparison("t", "beats the human", gain=Estimate(9, 8, 10), human=Estimate(3, 2, 4)).reward == 1.0
    assert Comparison("t", "no gain", gain=Estimate(1.04, 1, 2), human=Estimate(3, 2, 4)).reward == 0.0


def compared(verdict: str, low: float = 1.0, high: float = 1.0, fault: str = "") -> Comparison:
    gain = None if verdict == "incorrect" else Estimate((low * high) ** 0.5, low, high)
    return Comparison("t", verdict, gain=gain, fault=fault)  # type: ignore[arg-type]


def test_a_task_is_admitted_only_if_it_tells_the_humans_work_from_nothing() -> None:
    fine = compared("no gain", 0.98, 1.02)
    assert not admission(compared("partial", 1.2, 2.0), fine).reasons
    for human, same, words in (
        (
            evolve(compared("partial", 1.19, 2.0), rounds=(Round(1, Timing(1.0), Timing(1.0)),) * 10),
            fine,
            "the human's gain is 1.54 (1.19-2, n = 10): its lower limit must be at least 1.2",
        ),
        (compared("incorrect", fault="run raised"), fine, "not equal to the base: run raised"),
        (compared("partial", 2.0, 2.1), compared("no gain", 0.94, 1.02), "within"),
        (compared("partial", 2.0, 2.1), compared("partial", 1.06, 1.2), "within"),
        (compared("partial", 2.0, 2.1), compared("incorrect", fault="x"), "not equal to itself"),
    ):
        found = admission(human, same)
        assert words in " ".join(found.reasons)
    assert len(admission(compared("no gain", 1.0, 1.1), compared("partial", 1.06, 1.2)).reasons) == 3


def test_means_over_tasks_by_hand() -> None:
    attempts = {"a": [compared("partial", 2.0, 2.0)], "b": [compared("partial", 8.0, 8.0), compared("incorrect")]}
    found = geometric_mean(attempts)
    assert isclose(found.value, 16 ** (1 / 3)) and found.low < found.value < found.high
    assert isclose(harmonic_mean(attempts), 3 / (1 / 2 + 1 / 8 + 1))
    assert isclose(fast_p(attempts, 2.0), (1 + 1 / 2) / 2)
    assert isclose(fast_p(attempts, 4.0), (0 + 1 / 2) / 2)
    assert geometric_mean({"a": [compared("partial", 2.0, 2.0)]}).low == 0.0
    with pytest.raises(ValueError, match="expected"):
        harmonic_mean({})


def gains(differences: list[float], seed: int, times: int) -> Counter[str]:
    """Verdicts on resampled rounds of identical code, whose sign is drawn as the order in a round is."""
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    for _ in range(times):
        drawn = [rng.choice((-1, 1)) * rng.choice(differences) for _ in range(MOST)]
        for look in LOOKS:
            decided = decide(rounds([exp(-each) for each in drawn[:look]], human=0.5))
            if decided.settled:
                break
        found[decided.verdict] += 1
    return found


RECORDED = Path(__file__).parent / "performance_identical.json"


@pytest.mark.slow
def test_identical_code_gets_a_gain_in_at_most_a_fortieth_of_2000_resamplings_of_recorded_rounds() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    for seed, pairs in enumerate(recorded["rounds"].values()):
        found = gains([log(base / other) for base, other in pairs], seed, 2000)
        assert sum(found[each] for each in GAINS) <= 0.025 * 2000, found


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.02, 0.2, 3.0])
def test_the_level_holds_for_noise_of_any_size(spread: float) -> None:
    rng = random.Random(5)
    found = gains([rng.gauss(0, spread) * rng.choice((1, 1, 10)) for _ in range(200)], 6, 1000)
    # Binomial: a true 2.5 % exceeds 4 % of 1,000 once in 700 times.
    assert sum(found[each] for each in GAINS) <= 40, found
