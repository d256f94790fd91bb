"""Grounded Continuous Evaluation: improve and measure language models where a program can tell right from wrong.

    import gce
    problem = gce.draw_problem(gce.TASKS["scheduling"], "grounded", "T2", "train", 0)
    verdict = gce.judge(problem, "Answer: ...")
    buffer = gce.admit(gce.empty(), [gce.trace_of(problem, "Answer: ...", verdict)])

Everything is loaded when it is first used: importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gce.domain.buffer import Buffer, BufferSettings, admit, composition, draw, empty
    from gce.domain.statistics import wilson
    from gce.domain.tasks import TASKS, Task, TaskTier, draw_problem, draw_problems, judge
    from gce.domain.traces import trace_of
    from gce.domain.types import (
        Completion,
        Evidence,
        Interval,
        Message,
        Problem,
        SampleRequest,
        Trace,
        TrainingBatch,
        Verdict,
        Violation,
    )
    from gce.errors import BadInput, DamagedStore, GceError, MissingExtra, ModelError

__version__ = "0.1.0"

_HOMES = {
    "gce.domain.buffer": ("Buffer", "BufferSettings", "admit", "composition", "draw", "empty"),
    "gce.domain.statistics": ("wilson",),
    "gce.domain.tasks": ("TASKS", "Task", "TaskTier", "draw_problem", "draw_problems", "judge"),
    "gce.domain.traces": ("trace_of",),
    "gce.domain.types": (
        "Completion",
        "Evidence",
        "Interval",
        "Message",
        "Problem",
        "SampleRequest",
        "Trace",
        "TrainingBatch",
        "Verdict",
        "Violation",
    ),
    "gce.errors": ("BadInput", "DamagedStore", "GceError", "MissingExtra", "ModelError"),
}

__all__ = [
    "TASKS",
    "BadInput",
    "Buffer",
    "BufferSettings",
    "Completion",
    "DamagedStore",
    "Evidence",
    "GceError",
    "Interval",
    "Message",
    "MissingExtra",
    "ModelError",
    "Problem",
    "SampleRequest",
    "Task",
    "TaskTier",
    "Trace",
    "TrainingBatch",
    "Verdict",
    "Violation",
    "admit",
    "composition",
    "draw",
    "draw_problem",
    "draw_problems",
    "empty",
    "judge",
    "trace_of",
    "wilson",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'gce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
