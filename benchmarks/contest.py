"""Contestants in processes of their own that take turns, so that the machine's moods meet all of them alike.

A contestant is named "module:function"; the function gets keyword arguments, makes everything ready, and returns a
function of no arguments, a turn, which does the work once and says how much it was. What it prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, asdict, frozen

from gce.adapters.system.process import peak_bytes

__all__ = ["Contestant", "Outcome", "Turn", "compete", "measured"]


@frozen
class Turn:
    """What one turn did, as its contestant says."""

    work: float
    """Units done: tokens, answers, problems."""
    seconds: float
    """Of the work alone; preparation and checks are left out."""
    measures: Mapping[str, float] = Factory(dict)
    """What else was measured, by name."""


@frozen
class Contestant:
    """Who takes part."""

    name: str
    function: str
    """ "module:function"."""
    arguments: Mapping[str, Any] = Factory(dict)
    checkout: Path | None = None
    """Whose `benchmarks` and `gce` it uses; None: this one."""


@frozen
class Outcome:
    """What one contestant did in all of its turns."""

    turns: tuple[Turn, ...]
    peak_bytes: int
    """Resident memory of its process at its highest, interpreter included, what it started left out."""

    @property
    def rates(self) -> tuple[float, ...]:
        """Units a second, turn by turn."""
        return tuple(turn.work / turn.seconds for turn in self.turns)

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates)

    def against(self, other: Outcome) -> tuple[float, float, float]:
        """How many times as fast as `other`: median, lowest and highest of the rounds, in each of which both ran."""
        ratios = sorted(mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True))
        return statistics.median(ratios), ratios[0], ratios[-1]


def compete(contestants: Sequence[Contestant], rounds: int, *, warm_up: bool = True) -> list[Outcome]:
    """Let each contestant warm up with one turn that does not count, then take `rounds` turns in rotation.

    Turns of minutes need no warming up.

    Raises:
        RuntimeError: a contestant failed; its own message stands on stderr.
    """
    players = [_Player(contestant) for contestant in contestants]
    try:
        for player in players if warm_up else ():
            player.turn()
        turns: list[list[Turn]] = [[] for _ in players]
        for number in range(rounds):
            # Whoever comes first in a round may find the caches colder.
            for place in range(len(players)):
                index = (place + number) % len(players)
                turns[index].append(players[index].turn())
            print(".", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return [Outcome(tuple(done), player.peak) for player, done in zip(players, turns, strict=True)]
    finally:
        for player in players:
            player.leave()


class _Player:
    """The process of one contestant; it idles while others take their turns."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self.peak = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contest", contestant.function, json.dumps(dict(contestant.arguments))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **_place(contestant.checkout),
        )

    def turn(self) -> Turn:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("turn\n")
            self._process.stdin.flush()
            said = self._process.stdout.readline()
        except BrokenPipeError:
            said = ""
        if not said:
            raise RuntimeError(f"{self.contestant.name} ({self.contestant.function}) has failed")
        found = json.loads(said)
        self.peak = found["peak_bytes"]
        return Turn(found["work"], found["seconds"], found["measures"])

    def leave(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has left already.
            self._process.stdin.close()
        self._process.wait()


def _place(checkout: Path | None) -> dict[str, Any]:
    if checkout is None:
        return {}
    return {
        "cwd": checkout,
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join((str(checkout / "src"), str(checkout)))},
    }


def measured(work: Callable[[], float]) -> Turn:
    """A turn of `work`, which returns the units it did."""
    begun = time.perf_counter()
    units = work()
    return Turn(units, time.perf_counter() - begun)


def _play(function: str, arguments: Mapping[str, Any]) -> None:
    """One turn for each line of stdin."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, _, name = function.partition(":")
    turn: Callable[[], Turn] = getattr(importlib.import_module(module), name)(**arguments)
    for _ in sys.stdin:
        done = turn()
        found = {**asdict(done), "peak_bytes": peak_bytes()}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    _play(sys.argv[1], json.loads(sys.argv[2]))
