"""Estimates of what is left: worked by hand, none before enough is known, and steady where the pace is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.app.progress import Forecast, Work, duration

WORK = Work(2, before={"test before": 10}, each={"sample": 20, "train": 4, "evaluate": 5}, after={"test after": 10})


class Played:
    """A forecast whose stages take what they are told, and the estimates on the way."""

    def __init__(self, work: Work | None, iteration: int | None = 0) -> None:
        self.forecast, self.now, self.said = Forecast(work, iteration), 0.0, list[tuple[float, float | None]]()

    def stage(self, name: str, steps: int, seconds: float, done: int | None = None) -> None:
        self.forecast.begin(name, steps, self.now)
        for _ in range(steps if done is None else done):
            self.now += seconds
            self.forecast.advance(self.now)
            self.said.append((self.now, self.forecast.left(self.now)))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.6, "60 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (5400, "1 h 30 min"),
        (7800, "2 h 10 min"),
    ],
)
def test_durations_are_no_finer_than_can_be_of_interest(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_what_is_left_counts_every_stage_of_every_iteration() -> None:
    assert WORK.left(0) == {"sample": 40, "train": 8, "answer": 20}
    assert WORK.left(1) == {"sample": 20, "train": 4, "answer": 15}
    assert WORK.left(2) == {"sample": 0, "train": 0, "answer": 10}
    warm = Work(5, each={"sample": 2}, warm_ups=2, warm_up={"train": 60})
    assert warm.left(0) == {"train": 120, "sample": 6} and warm.left(1) == {"train": 60, "sample": 6}
    assert warm.left(3) == {"train": 0, "sample": 4}
    assert (warm.iteration(2), warm.iteration(3)) == ({"train": 60}, {"sample": 2})


def test_nothing_is_estimated_before_every_kind_of_work_was_timed_and_then_it_is_right() -> None:
    """Answers 1 s, rollouts 0.5 s, steps 2 s: a run of 66 s; steps are known after 24 s."""
    played = Played(WORK)
    played.stage("test before", 10, 1.0)
    played.stage("sample", 20, 0.5)
    assert {left for _, left in played.said} == {None}
    played.stage("train", 4, 2.0)
    told = [(now, left) for now, left in played.said if left is not None]
    assert told == [(24.0, 42.0), (26.0, 40.0), (28.0, 38.0)], "not from the first step, which took less than 3 s"
    played.stage("evaluate", 5, 1.0)
    played.forecast.finish(1)
    for stage, steps, seconds in (("sample", 20, 0.5), ("train", 4, 2.0), ("evaluate", 5, 1.0)):
        played.stage(stage, steps, seconds)
    played.forecast.finish(2)
    played.stage("test after", 10, 1.0)
    assert all(left == pytest.approx(66.0 - now) for now, left in played.said[32:])
    assert played.now == 66.0


@given(st.lists(st.floats(0.5, 1.5), min_size=40, max_size=40))
def test_the_estimate_is_steady_after_the_first_wave(noise: list[float]) -> None:
    """With steps that take half to one and a half times what is usual, no estimate jumps by more than a tenth."""
    played = Played(Work(100, each={"sample": 20}))
    for number in range(2):
        played.forecast.begin("sample", 20, played.now)
        for each in noise[20 * number : 20 * number + 20]:
            played.now += each
            played.forecast.advance(played.now)
            played.said.append((played.now, played.forecast.left(played.now)))
        played.forecast.finish(number + 1)
    ends = [now + left for now, left in played.said[19:] if left is not None]
    assert len(ends) == 21
    assert all(abs(after - before) < 0.1 * before for before, after in pairwise(ends))


def test_a_resumed_run_has_an_estimate_once_it_is_known_how_far_it_is() -> None:
    played = Played(WORK, None)
    played.stage("sample", 20, 0.5)
    played.stage("train", 4, 2.0)
    played.stage("evaluate", 5, 1.0)
    assert {left for _, left in played.said} == {None}
    played.forecast.finish(1)
    played.stage("sample", 20, 0.5, done=10)
    assert played.said[-1][1] == pytest.approx(5 + 8 + 5 + 10)


def test_a_stage_alone_has_a_pace_once_it_has_gone_on_for_a_while() -> None:
    played = Played(None)
    played.stage("sample", 100, 0.2, done=14)
    assert played.forecast.pace(played.now) is None and played.forecast.left(played.now) is None
    played.forecast.advance(played.now + 0.2)
    assert played.forecast.stage_left(played.now + 0.2) == pytest.approx(17.0)
