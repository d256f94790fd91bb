"""Prompt-blind baselines, and reference programs: the known forms, and slow forms with one flaw mended."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

from gce.domain.problems import Problem
from gce.domain.tasks.faster.slow_function import SlowFunction
from gce.domain.tasks.parts import Policy
from gce.domain.tasks.programs.answer import fenced

__all__ = ["heuristic_policies", "prompt_blind_baselines"]

_RETURNED = {
    "constant 0": "0",
    "constant []": "[]",
    'constant ""': '""',
    "the argument itself": "xs",
    "the argument sorted": "sorted(xs)",
    "the length": "len(xs)",
}

_MEMOIZED = """
_slow, _kept = {name}, {{}}


def _remembering(xs):
    key = tuple(xs)
    if key not in _kept:
        _kept[key] = _slow(xs)
    return _kept[key]


{name} = _remembering
"""


def prompt_blind_baselines(training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Return functions that ignore what the slow form does, and the fast form of a training problem."""
    policies = {name: _program(_returning(value)) for name, value in _RETURNED.items()}
    if training:
        known: SlowFunction = training[0].instance
        policies["a training problem's fast form"] = _program(
            lambda function: re.sub(rf"\b{known.entry_point}\b", function.entry_point, known.fast)
        )
    return policies


def heuristic_policies(_training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Return the fast form, the slow one, the slow one with a memory, and the slow one with one flaw mended."""
    return {
        "the fast form": _program(lambda function: function.fast),
        "the slow form": _program(lambda function: function.slow),
        "the slow form, memoized": _program(
            lambda function: f"{function.slow}\n{_MEMOIZED.format(name=function.entry_point)}"
        ),
        "the first flaw mended": _program(lambda function: function.partly[0] if function.partly else None),
        "the last flaw mended": _program(lambda function: function.partly[-1] if function.partly else None),
    }


def _program(source: Callable[[SlowFunction], str | None]) -> Policy:
    def respond(problem: Problem, _rng: random.Random) -> str | None:
        found = source(problem.instance)
        return None if found is None else fenced(found)

    return respond


def _returning(value: str) -> Callable[[SlowFunction], str]:
    return lambda function: f"def {function.entry_point}(xs):\n    return {value}"
