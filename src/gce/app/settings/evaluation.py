"""The settings of what a training run measures: on dev problems, on test problems, on distribution shifts."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from gce.app.options import ITERATIONS, NAMES, PROBLEMS_FROM_0
from gce.app.settings.fields import setting

__all__ = ["SHIFT_PROBLEMS", "EvaluationSettings"]

SHIFT_PROBLEMS = 40
"""Test problems a tier of each distribution shift by default, in runs whose test has at least as many."""


@frozen(kw_only=True)
class EvaluationSettings:
    """Greedy accuracy during the run, and before and after it."""

    section: ClassVar = "evaluation"
    dev: int = setting(
        40,
        PROBLEMS_FROM_0,
        "dev problems per tier, evaluated during the run; 0 for none",
        flag="--dev",
        unit="problems",
    )
    dev_every: int = setting(
        1, ITERATIONS, "iterations between evaluations on dev", flag="--dev-every", unit="iterations"
    )
    test: int = setting(
        200,
        PROBLEMS_FROM_0,
        "test problems per tier, evaluated before and after training; 0 for none",
        flag="--test",
        common=True,
        unit="problems",
    )
    shifts: int | None = setting(
        None,
        PROBLEMS_FROM_0,
        "test problems per tier of each distribution shift of the task, evaluated after training; 0 for none "
        f"(default: {SHIFT_PROBLEMS} with --test of at least {SHIFT_PROBLEMS}, else none)",
        flag="--shifts",
        unit="problems",
        omit_default=True,
    )
    also_measure: tuple[str, ...] = setting(
        (),
        NAMES,
        "other tasks, each TASK or TASK@PRESET, evaluated on dev problems before and after training: what training on "
        "this one makes the model forget",
        flag="--also-measure",
        metavar="TASK,TASK",
        omit_default=True,
        converter=lambda value: tuple(value) if isinstance(value, list) else value,
    )

    keep_every: int | None = setting(
        None,
        ITERATIONS,
        "iterations between checkpoints that the run keeps, besides the newest two and the best on dev: the path that "
        "gce geometry --hidden follows (default: no others)",
        flag="--keep-every",
        unit="iterations",
        omit_default=True,
    )

    @property
    def shift_problems(self) -> int:
        """Test problems per tier of each distribution shift; by default a run with a short test measures none."""
        if self.shifts is None:
            return SHIFT_PROBLEMS if self.test >= SHIFT_PROBLEMS else 0
        return self.shifts
