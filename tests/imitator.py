"""A model that imitates the majority of what it was trained on, and a task whose demonstrations it can learn from."""

from __future__ import annotations

import re
from typing import Any

from attrs import evolve
from toy_task import ADDITION

from gce.adapters.models.scripted import ScriptedModel
from gce.domain.completions import SampleRequest
from gce.domain.problems import Problem

RIGHT, WRONG = "r", "x"
"""A letter of right answers, and one of wrong ones."""


def _demonstration(problem: Problem, _solve: Any) -> str:
    return f"{RIGHT} w{problem.instance.a + problem.instance.b}"


SUMS = evolve(ADDITION, teaching=evolve(ADDITION.teaching, demonstration=_demonstration))


def imitator(_config: Any, _task: Any) -> ScriptedModel:
    """Right in a quarter of the samples at first, and as often as right traces are among those that it learned."""

    def answer(request: SampleRequest) -> str:
        counts = model.state().arrays["adapter.counts"]
        right, wrong = 1 + counts[ord(RIGHT)], 3 + counts[ord(WRONG)]
        share = right / (right + wrong)
        asked = next(each.content for each in reversed(request.messages) if re.match(r"w\d+ w\d+", each.content))
        a, b, modulus = map(int, re.findall(r"w(\d+)", asked)[:3])
        place = (7 * a + 3 * b) % 10 / 10 if request.temperature == 0.0 else request.seed % 97 / 97
        level = 0.9 if share > 0.5 else 0.2
        if place < (level if request.temperature == 0.0 else share):
            return f"{RIGHT} {'!' * (request.seed % 50)} w{a + b}"
        return f"{WRONG} {'!' * (request.seed % 50)} w{(a + b + 1) % modulus}" if request.seed % 5 else "no number"

    model = ScriptedModel(answer)
    return model
