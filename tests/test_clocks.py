"""Clocks: neither runs backwards, and the fake moves only when told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.system.clocks import FakeClock, SystemClock
from gce.ports.clock import Clock


def test_the_system_clock_never_runs_backwards() -> None:
    clock: Clock = SystemClock()
    times = [clock.now() for _ in range(1000)]
    assert times == sorted(times)


def test_the_system_clock_does_not_follow_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("time.monotonic", lambda: 12.5)
    assert SystemClock().now() == 12.5


def test_the_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(10.0)
    assert [clock.now(), clock.now()] == [10.0, 10.0]
    clock.advance(2.5)
    assert clock.now() == 12.5


@given(st.lists(st.integers(0, 1000)))
def test_the_fake_clock_adds_up_its_steps(steps: list[int]) -> None:
    clock = FakeClock()
    for step in steps:
        clock.advance(step)
    assert clock.now() == sum(steps)


@pytest.mark.parametrize("seconds", [-1.0, -1e-9, float("nan"), float("inf"), float("-inf")])
def test_the_fake_clock_refuses_to_run_backwards(seconds: float) -> None:
    clock = FakeClock(1.0)
    with pytest.raises(ValueError, match="never runs backwards"):
        clock.advance(seconds)
    assert clock.now() == 1.0
