"""Worlds with exact posteriors: by hand, against a second method, coherent, calibrated, and martingales."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise, permutations, product
from math import comb, erf, erfc, sqrt
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from gce.domain.tasks.beliefs.counting import Finish, Statement, Urn
from gce.domain.tasks.beliefs.elections import CountNight, House, Poll, Polls
from gce.domain.tasks.beliefs.generate import FAMILIES, LEVELS, draw_question, draw_world
from gce.domain.tasks.beliefs.log_odds import from_log_odds, log_odds, shifted
from gce.domain.tasks.beliefs.question import BeliefQuestion, World
from gce.domain.tasks.beliefs.sources import Machine, Source, Witnesses
from gce.domain.tasks.beliefs.wording import after_pieces

# By hand


def test_two_witnesses_by_hand() -> None:
    """Odds 1:4, times 4 for a yes at 80 %, times 1/9 for a no at 90 %."""
    world = Witnesses(20, (Source(80, 20, 1), Source(90, 10, 0)))
    assert world.posterior(()) == pytest.approx(0.2)
    assert world.posterior((0,)) == pytest.approx(0.5)
    assert world.posterior((0, 1)) == pytest.approx(0.1)


def test_a_certain_copier_adds_nothing_and_an_irrelevant_source_neither() -> None:
    alone = Witnesses(50, (Source(80, 20, 1),))
    copied = Witnesses(50, (Source(80, 20, 1), Source(70, 30, 1, copies=0, copying=100), Source(40, 40, 0)))
    assert copied.posterior(range(3)) == pytest.approx(alone.posterior((0,))) == pytest.approx(0.8)
    assert copied.posterior((1,)) == pytest.approx(0.8), "what it copied is as good as having heard it"
    assert copied.posterior((2,)) == pytest.approx(0.5)


def test_positive_findings_alone_are_weighed_with_the_tests_behind_them() -> None:
    """2 of 6 positive at 50 % against 20 %: (0.5^2 0.5^4) / (0.2^2 0.8^4) = 0.015625 / 0.016384."""
    world = Witnesses(50, (Source(50, 20, 2, runs=6),))
    assert world.posterior((0,)) == pytest.approx(0.015625 / (0.015625 + 0.016384))


def test_a_machine_by_hand() -> None:
    """Faulty 50 %; a warning at 90 to 10 makes it 90 %; a day later 0.9 x 0.8 + 0.1 x 0.1 = 0.73."""
    world = Machine(50, 10, 20, 90, 10, (True, False))
    assert world.posterior(()) == pytest.approx(0.5 * 0.8 + 0.5 * 0.1)
    assert world.posterior((0,)) == pytest.approx(0.73)
    assert world.posterior((0, 1)) == pytest.approx(0.073 / (0.073 + 0.27 * 0.9))


def test_an_election_night_by_hand() -> None:
    """Three districts at 50 %: after one is won, three in four; with a swing, a won district tells of the swing."""
    night = CountNight((50, 50, 50), ((0, 100),), (True, False))
    assert [night.posterior(range(n)) for n in range(3)] == pytest.approx([0.5, 0.75, 0.5])
    assert night.at_least(3, (0,)) == pytest.approx(0.25)
    swinging = CountNight((50, 50, 50), ((-50, 50), (50, 50)), (True,))
    assert swinging.posterior(()) == pytest.approx(0.5)
    assert swinging.posterior((0,)) == pytest.approx(1.0)


def test_polls_by_hand() -> None:
    """Prior N(50, 3^2), a poll of 52 with error 3: N(51, 4.5), so that 50 is 0.4714 standard deviations below."""
    polls = Polls(50, 3, 0, 10, (House(0, 0),), (Poll(1, 0, 3, 52),))
    assert polls.support((0,)) == pytest.approx((51.0, 4.5))
    assert polls.posterior(()) == pytest.approx(0.5)
    assert polls.posterior((0,)) == pytest.approx(0.5 * erfc(-1 / sqrt(2 * 4.5)))
    biased = evolve(polls, houses=(House(2, 0),))
    assert biased.posterior((0,)) == pytest.approx(0.5), "52 from a house that leans by 2 is 50"


def test_an_urn_by_hand() -> None:
    """Laplace's rule of succession: all compositions of many balls equally likely, 3 of 3 red, 4/5 for the next."""
    urn = Urn(4, tuple((red, 1) for red in range(5)), False, (True, True, True))
    assert urn.posterior(range(3)) == pytest.approx(0.8)
    assert urn.compositions(range(3)) == pytest.approx((0, 0, 0, 1 / 5, 4 / 5))
    two = Urn(10, ((2, 50), (8, 50)), True, (True,))
    assert two.posterior((0,)) == pytest.approx(0.2 * 0.2 + 0.8 * 0.8)


def test_a_finish_by_hand() -> None:
    """A before B in 3 orders of 6; given A before C in 2 of 3; that B is first explains it away."""
    finish = Finish(3, Statement("before", 0, 1), (Statement("before", 0, 2), Statement("within", 1, 1)))
    assert [finish.posterior(range(n)) for n in range(3)] == pytest.approx([1 / 2, 2 / 3, 0])
    assert finish.places(0, (0,)) == pytest.approx((2 / 3, 1 / 3, 0))
    assert Finish(3, Statement("just before", 0, 1), ()).posterior(()) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "world",
    [
        Witnesses(50, (Source(80, 20, 0), Source(60, 40, 1, copies=0, copying=100))),
        Machine(0, 0, 0, 90, 0, (True,)),
        CountNight((0, 50, 50), ((0, 100),), (True,)),
        Urn(4, ((4, 1),), True, (False,)),
        Finish(3, Statement("before", 0, 1), (Statement("before", 1, 2), Statement("before", 2, 1))),
    ],
    ids=lambda world: type(world).__name__,
)
def test_nothing_follows_from_impossible_evidence(world: World) -> None:
    with pytest.raises(ValueError, match="the evidence is impossible"):
        world.posterior(range(world.pieces))


# The second method


def joint_of_witnesses(world: Witnesses, seen: Sequence[int]) -> float:
    """Enumerates the claim, what each source would see itself, and whether each copier copies."""
    mass = [0.0, 0.0]
    copiers = [at for at, source in enumerate(world.sources) if source.copies >= 0]
    for true in (0, 1):
        for looks in product(*(range(source.runs + 1) for source in world.sources)):
            for coins in product((False, True), repeat=len(copiers)):
                chance = world.base_rate / 100 if true else 1 - world.base_rate / 100
                for source, look in zip(world.sources, looks, strict=True):
                    yes = (source.hit if true else source.false_alarm) / 100
                    chance *= comb(source.runs, look) * yes**look * (1 - yes) ** (source.runs - look)
                said = list(looks)
                for at, coin in zip(copiers, coins, strict=True):
                    copying = world.sources[at].copying / 100
                    chance *= copying if coin else 1 - copying
                    said[at] = looks[world.sources[at].copies] if coin else looks[at]
                if all(said[at] == world.sources[at].yes for at in seen):
                    mass[true] += chance
    return mass[1] / sum(mass)


def paths_of_a_machine(world: Machine, seen: Sequence[int]) -> float:
    """Enumerates the states of all days."""
    mass = [0.0, 0.0]
    for states in product((0, 1), repeat=world.pieces):
        chance = (1 - world.faulty / 100, world.faulty / 100)[states[0]]
        for before, after in pairwise(states):
            change = (world.breaks, world.repairs)[before] / 100
            chance *= change if before != after else 1 - change
        for day in seen:
            warning = (world.false_alarm, world.hit)[states[day]] / 100
            chance *= warning if world.warns[day] else 1 - warning
        mass[states[-1]] += chance
    return mass[1] / sum(mass)


def results_of_a_night(world: CountNight, seen: Sequence[int]) -> float:
    """Enumerates the results of all districts, for each swing."""
    results = np.array(list(product((0, 1), repeat=len(world.chances))))
    mass = np.zeros(len(results))
    for points, weight in world.swings:
        chances = (np.array(world.chances) + points) / 100
        mass += weight * np.where(results, chances, 1 - chances).prod(axis=1)
    for at in seen:
        mass[results[:, at] != world.called[at]] = 0.0
    return float(mass[results.sum(axis=1) * 2 > len(world.chances)].sum() / mass.sum())


_erf = np.vectorize(erf)


def joint_normal_of_polls(world: Polls, seen: Sequence[int]) -> float:
    """Conditions the joint normal distribution of vote and polls at once; integrates and enumerates seats."""
    polls = [world.polls[at] for at in seen]

    def covariance(a: Poll, b: Poll) -> float:
        moved = world.start_sd**2 + world.drift_sd**2 * min(a.day, b.day)
        same_house = world.houses[a.house].bias_sd ** 2 if a.house == b.house else 0.0
        return moved + same_house + (a.sd**2 if a is b else 0.0)

    mean, variance = world.start, world.start_sd**2 + world.drift_sd**2 * world.days
    if polls:
        matrix = np.array([[covariance(a, b) for b in polls] for a in polls])
        with_vote = np.array([world.start_sd**2 + world.drift_sd**2 * poll.day for poll in polls])
        surprise = np.array([poll.share - world.start - world.houses[poll.house].bias for poll in polls])
        mean += float(with_vote @ np.linalg.solve(matrix, surprise))
        variance -= float(with_vote @ np.linalg.solve(matrix, with_vote))
    if not world.leans:
        return 0.5 * erfc((50 - mean) / sqrt(2 * variance))
    votes = np.linspace(mean - 9 * sqrt(variance), mean + 9 * sqrt(variance), 1801)
    density = np.exp(-((votes - mean) ** 2) / (2 * variance))
    wins = [0.5 + 0.5 * _erf((votes + lean - 50) / (sqrt(2) * world.seat_sd)) for lean in world.leans]
    majority = sum(
        np.prod([win if won else 1 - win for win, won in zip(wins, won_seats, strict=True)], axis=0)
        for won_seats in product((0, 1), repeat=len(wins))
        if 2 * sum(won_seats) > len(wins)
    )
    return float((density * majority).sum() / density.sum())


def fractions_of_an_urn(world: Urn, seen: Sequence[int]) -> float:
    """Draws ball by ball, in fractions."""

    def chance(of_red: int, colours: Sequence[bool]) -> Fraction:
        left, found = [world.balls - of_red, of_red], Fraction(1)
        for red in colours:
            found *= Fraction(left[red], sum(left))
            if not world.returned and left[red]:
                left[red] -= 1
        return found

    drawn = [world.draws[at] for at in seen]
    before = sum(weight * chance(of_red, drawn) for of_red, weight in world.kinds)
    after = sum(weight * chance(of_red, [*drawn, *[True] * world.next_red]) for of_red, weight in world.kinds)
    return float(after / before)


@cache
def orders(runners: int) -> list[tuple[int, ...]]:
    return list(permutations(range(runners)))


def orders_of_a_finish(world: Finish, seen: Sequence[int]) -> float:
    """Goes through the orders, each a sequence of runners, one by one."""

    def fits(order: tuple[int, ...], said: Statement) -> bool:
        place = order.index(said.runner)
        if said.relation == "within":
            return place < said.other
        behind = order.index(said.other) - place
        return behind == 1 if said.relation == "just before" else behind > 0

    answers = [world.answers[at] for at in seen]
    left = [order for order in orders(world.runners) if all(fits(order, each) == each.true for each in answers)]
    return sum(fits(order, world.claim) for order in left) / len(left)


SECOND: dict[type, Callable[[Any, Sequence[int]], float]] = {
    Witnesses: joint_of_witnesses,
    Machine: paths_of_a_machine,
    CountNight: results_of_a_night,
    Polls: joint_normal_of_polls,
    Urn: fractions_of_an_urn,
    Finish: orders_of_a_finish,
}


def worlds(family: str, count: int, *, seed: int = 0) -> Iterator[tuple[int, World, bool]]:
    rng = random.Random(f"{family} {seed}")
    for number in range(count):
        level = 1 + number % LEVELS
        yield level, *draw_world(family, level, rng)


def check_posteriors(family: str, count: int, *, seed: int = 0) -> None:
    for _, world, _ in worlds(family, count, seed=seed):
        for pieces in {0, world.pieces // 2, world.pieces - 1, world.pieces}:
            expected = SECOND[type(world)](world, range(pieces))
            assert world.posterior(range(pieces)) == pytest.approx(expected, rel=0, abs=1e-9), world


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_posterior_is_that_of_a_second_method(family: str) -> None:
    check_posteriors(family, 100)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_thousand_posteriors_are_those_of_a_second_method(family: str) -> None:
    """The posterior that a question states, of each of 10,000 worlds."""
    for _, world, _ in worlds(family, 10_000, seed=1):
        shown = range(world.pieces - 1)
        expected = SECOND[type(world)](world, shown)
        assert world.posterior(shown) == pytest.approx(expected, rel=0, abs=1e-9), world


def test_a_wrong_posterior_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: a copier that is taken for a source of its own is noticed."""
    monkeypatch.setattr(Source, "repeating", lambda self, true, _original: self.likelihood(true))
    with pytest.raises(AssertionError):
        check_posteriors("sources", 50)


# Properties

percents = st.integers(1, 99)


@st.composite
def witnesses(draw: st.DrawFn) -> Witnesses:
    sources = [
        Source(draw(percents), draw(percents), draw(st.integers(0, runs)), runs)
        for runs in draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    ]
    single = [at for at, source in enumerate(sources) if source.runs == 1]
    for _ in range(draw(st.integers(0, 2)) if single else 0):
        original = draw(st.sampled_from(single))
        reliability = draw(percents)
        copying = draw(st.integers(0, 99))
        sources.append(Source(reliability, 100 - reliability, draw(st.integers(0, 1)), 1, original, copying))
    return Witnesses(draw(percents), tuple(sources))


def reordered(world: Witnesses, order: Sequence[int]) -> Witnesses:
    moved = {old: new for new, old in enumerate(order)}
    sources = [world.sources[old] for old in order]
    return Witnesses(
        world.base_rate,
        tuple(evolve(each, copies=moved[each.copies]) if each.copies >= 0 else each for each in sources),
    )


@given(witnesses(), st.randoms(use_true_random=False))
def test_the_order_of_sources_does_not_matter(world: Witnesses, rng: random.Random) -> None:
    other = reordered(world, rng.sample(range(world.pieces), world.pieces))
    assert other.posterior(range(other.pieces)) == pytest.approx(world.posterior(range(world.pieces)), abs=1e-12)
    assert other.canonical == world.canonical


@given(witnesses())
def test_claim_and_opposite_add_up_to_one(world: Witnesses) -> None:
    """The opposite is true where the claim is not, so that hits and false alarms are swapped."""
    opposite = Witnesses(
        100 - world.base_rate,
        tuple(evolve(each, hit=each.false_alarm, false_alarm=each.hit) for each in world.sources),
    )
    every = range(world.pieces)
    assert world.posterior(every) + opposite.posterior(every) == pytest.approx(1.0, abs=1e-9)
    assert world.canonical == opposite.canonical


@given(witnesses())
def test_the_mean_of_posteriors_over_a_report_is_the_belief_before(world: Witnesses) -> None:
    """Exactly, for one more independent source: conservation of expected evidence."""
    every = range(world.pieces)
    before = world.posterior(every)
    for hit, false_alarm in ((80, 30), (50, 50), (10, 90)):
        says_yes = (before * hit + (1 - before) * false_alarm) / 100
        yes, no = (
            Witnesses(world.base_rate, (*world.sources, Source(hit, false_alarm, said))).posterior(
                range(world.pieces + 1)
            )
            for said in (1, 0)
        )
        assert says_yes * yes + (1 - says_yes) * no == pytest.approx(before, abs=1e-9)


@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, LEVELS), st.integers(0, 2**32))
@settings(max_examples=60)
def test_a_question_holds_its_posteriors(family: str, level: int, seed: int) -> None:
    question = draw_question(family, level, random.Random(seed))
    world = question.world
    assert world is not None and world.pieces == len(question.evidence) + 1 and question.evidence
    assert question.prior == world.posterior(()) and question.posterior == question.path[-1] == question.target
    assert question.path == tuple(world.posterior(range(n)) for n in range(1, world.pieces))
    assert question.posterior_with_withheld == world.posterior(range(world.pieces))
    assert all(0 <= belief <= 1 for belief in question.path)
    assert question == draw_question(family, level, random.Random(seed))
    earlier = after_pieces(question, 1)
    assert (earlier.posterior, earlier.evidence, earlier.path) == (
        question.path[0],
        question.evidence[:1],
        question.path[:1],
    )
    assert after_pieces(question, 0).posterior == question.prior
    assert after_pieces(question, len(question.evidence)) == question
    for related in question.related:
        assert len(related.claims) == len(related.posteriors) == len(set(related.claims))
        if related.kind == "partition":
            assert sum(related.posteriors) == pytest.approx(1.0, abs=1e-9)
        else:
            assert all(a <= b + 1e-12 for a, b in pairwise(related.posteriors))
            assert min(abs(question.path[-1] - each) for each in related.posteriors) < 1e-9


@given(st.floats(0, 1), st.floats(-20, 20))
def test_log_odds_and_back(probability: float, by: float) -> None:
    assert from_log_odds(log_odds(probability)) == pytest.approx(probability, abs=1e-14)
    assert 0 <= shifted(probability, by) <= 1
    assert shifted(probability, 0.0) == pytest.approx(probability, abs=1e-14)


def test_certainty_stays_certain() -> None:
    assert [shifted(0.0, 5.0), shifted(1.0, -5.0), from_log_odds(-1e9), from_log_odds(1e9)] == [0, 1, 0, 1]


# Calibration and martingales


def studentized(values: Any) -> float:
    return float(values.mean() / (values.std(ddof=1) / sqrt(len(values))))


def check_calibration(family: str, count: int, *, seed: int) -> None:
    """Outcomes, and beliefs after more evidence, have the beliefs before as their means; so has each, times the prior.

    Each of these is a t-test; 4.5 standard errors are left for all of them together.
    """
    rng = random.Random(f"calibration {family} {seed}")
    questions = [draw_question(family, 1 + number % LEVELS, rng) for number in range(count)]
    prior = np.array([question.prior for question in questions], float)
    first = np.array([question.path[0] for question in questions])
    last = np.array([question.posterior for question in questions], float)
    further = np.array([question.posterior_with_withheld for question in questions], float)
    outcome = np.array([question.outcome for question in questions], float)
    centred = prior - prior.mean()
    for before, after in ((prior, first), (first, last), (prior, last), (last, further), (last, outcome)):
        assert abs(studentized(after - before)) < 4.5
        assert abs(studentized((after - before) * centred)) < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_beliefs_are_calibrated_and_a_martingale(family: str) -> None:
    check_calibration(family, 2_000, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(1, 4))
def test_ten_thousand_paths_are_a_martingale(family: str, seed: int) -> None:
    check_calibration(family, 10_000, seed=seed)


def test_calibration_that_is_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test can fail: with the base rate neglected, beliefs are no martingale."""
    honest = Witnesses.posterior
    monkeypatch.setattr(
        Witnesses, "posterior", lambda self, seen: honest(evolve(self, base_rate=50) if seen else self, seen)
    )
    with pytest.raises(AssertionError):
        check_calibration("sources", 2_000, seed=0)


# Speed


@pytest.mark.slow
@pytest.mark.parametrize(("family", "seconds"), [("sources", 5), ("elections", 30), ("counting", 5)])
def test_ten_thousand_questions_are_drawn_in_time(family: str, seconds: float) -> None:
    rng, began = random.Random(0), time.process_time()
    drawn: list[BeliefQuestion] = [draw_question(family, 1 + number % LEVELS, rng) for number in range(10_000)]
    assert time.process_time() - began < seconds
    assert len({question.posterior for question in drawn}) > 100
