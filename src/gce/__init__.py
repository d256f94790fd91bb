"""Grounded Continuous Evaluation: improve and measure language models where a program can tell right from wrong.

    import gce
    problem = gce.draw_problem(gce.TASKS["scheduling"], "grounded", "T2", "train", 0)
    verdict = gce.judge(problem, "Answer: ...")
    buffer = gce.admit(gce.empty(), [gce.trace_of(problem, "Answer: ...", verdict)])

    result = gce.train(task="scheduling", model="gce-tiny", iterations=1)
    print(result)

Everything is loaded when it is first used: importing this package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # Type checkers take it for true; `typing` itself takes ten times as long to import as the rest.
if TYPE_CHECKING:
    from typing import Any

    from gce.adapters.datasets.atif import atif_of_trace, read_atif, trace_of_atif
    from gce.adapters.datasets.inspect_logs import inspect_log_of_traces, read_inspect_log, traces_of_inspect_log
    from gce.app.evaluation.auditing import audit
    from gce.app.evaluation.checking import check
    from gce.app.evaluation.critic import critic
    from gce.app.evaluation.power import power
    from gce.app.evaluation.run import evaluate
    from gce.app.evaluation.settings import EvaluateSettings
    from gce.app.evaluation.verifying import verify
    from gce.app.loaded_model import load_model
    from gce.app.own_tasks import task
    from gce.app.recording import trace
    from gce.app.reports.report import report
    from gce.app.settings.records import TrainSettings
    from gce.app.studies.folds import CrossFit, cross_fit
    from gce.app.training.run import resume, train
    from gce.domain.algorithms import ALGORITHMS, Algorithm
    from gce.domain.buffer import Buffer, BufferSettings, admit, composition, draw, empty
    from gce.domain.completions import Completion, SampleRequest
    from gce.domain.executions import Evidence
    from gce.domain.learning import Trace, TrainingBatch, Turn
    from gce.domain.measurements import Interval
    from gce.domain.metrics import METRICS, Metric
    from gce.domain.problems import Message, Problem, ProblemId, ToolCall
    from gce.domain.statistics import wilson
    from gce.domain.strategies import STRATEGIES, Strategy
    from gce.domain.tasks import (
        TASKS,
        Audit,
        ProblemSource,
        References,
        Task,
        TaskTier,
        Teaching,
        draw_problem,
        draw_problems,
        judge,
    )
    from gce.domain.traces import trace_of, trace_of_conversation
    from gce.domain.verdicts import Verdict, Violation
    from gce.errors import BadInput, DamagedStore, GceError, MissingExtra, ModelError

__version__ = "0.2.0"

_HOMES = {
    "gce.adapters.datasets.atif": ("atif_of_trace", "read_atif", "trace_of_atif"),
    "gce.adapters.datasets.inspect_logs": ("inspect_log_of_traces", "read_inspect_log", "traces_of_inspect_log"),
    "gce.app.evaluation.auditing": ("audit",),
    "gce.app.evaluation.checking": ("check",),
    "gce.app.evaluation.critic": ("critic",),
    "gce.app.evaluation.power": ("power",),
    "gce.app.evaluation.run": ("evaluate",),
    "gce.app.evaluation.settings": ("EvaluateSettings",),
    "gce.app.evaluation.verifying": ("verify",),
    "gce.app.loaded_model": ("load_model",),
    "gce.app.own_tasks": ("task",),
    "gce.app.recording": ("trace",),
    "gce.app.reports.report": ("report",),
    "gce.app.settings.records": ("TrainSettings",),
    "gce.app.studies.folds": ("CrossFit", "cross_fit"),
    "gce.app.training.run": ("resume", "train"),
    "gce.domain.algorithms": ("ALGORITHMS", "Algorithm"),
    "gce.domain.buffer": ("Buffer", "BufferSettings", "admit", "composition", "draw", "empty"),
    "gce.domain.statistics": ("wilson",),
    "gce.domain.tasks": (
        "TASKS",
        "Audit",
        "ProblemSource",
        "References",
        "Task",
        "TaskTier",
        "Teaching",
        "draw_problem",
        "draw_problems",
        "judge",
    ),
    "gce.domain.traces": ("trace_of", "trace_of_conversation"),
    "gce.domain.completions": ("Completion", "SampleRequest"),
    "gce.domain.executions": ("Evidence",),
    "gce.domain.learning": ("Trace", "TrainingBatch", "Turn"),
    "gce.domain.measurements": ("Interval",),
    "gce.domain.problems": ("Message", "Problem", "ProblemId", "ToolCall"),
    "gce.domain.metrics": ("METRICS", "Metric"),
    "gce.domain.strategies": ("STRATEGIES", "Strategy"),
    "gce.domain.verdicts": ("Verdict", "Violation"),
    "gce.errors": ("BadInput", "DamagedStore", "GceError", "MissingExtra", "ModelError"),
}

__all__ = [
    "ALGORITHMS",
    "METRICS",
    "STRATEGIES",
    "TASKS",
    "Algorithm",
    "Audit",
    "BadInput",
    "Buffer",
    "BufferSettings",
    "Completion",
    "CrossFit",
    "DamagedStore",
    "EvaluateSettings",
    "Evidence",
    "GceError",
    "Interval",
    "Message",
    "Metric",
    "MissingExtra",
    "ModelError",
    "Problem",
    "ProblemId",
    "ProblemSource",
    "References",
    "SampleRequest",
    "Strategy",
    "Task",
    "TaskTier",
    "Teaching",
    "ToolCall",
    "Trace",
    "TrainSettings",
    "TrainingBatch",
    "Turn",
    "Verdict",
    "Violation",
    "admit",
    "atif_of_trace",
    "audit",
    "check",
    "composition",
    "critic",
    "cross_fit",
    "draw",
    "draw_problem",
    "draw_problems",
    "empty",
    "evaluate",
    "inspect_log_of_traces",
    "judge",
    "load_model",
    "power",
    "read_atif",
    "read_inspect_log",
    "report",
    "resume",
    "task",
    "trace",
    "trace_of",
    "trace_of_atif",
    "trace_of_conversation",
    "traces_of_inspect_log",
    "train",
    "verify",
    "wilson",
]


def __getattr__(name: str) -> Any:
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'gce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
