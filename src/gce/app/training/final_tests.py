"""The tests at the end of a run: which distribution shifts are measured, and each test once, whatever interrupts it.

What a test found is held by the store as soon as it is complete, so that a run that was killed, or that ended, goes on
with what is left. A test of another number of problems is another test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import frozen

from gce.app.evaluation.scoring import RESUME, accuracy, answer_record, ask, check_answers
from gce.app.evaluation.shifts import (
    Distribution,
    best_blind,
    distribution_plain,
    held_out_tiers,
    shift_slug,
    shifts_of,
)
from gce.app.settings.records import TrainSettings
from gce.app.training.state import Run
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.executors import executor_of
from gce.app.wiring.tasks import find_preset
from gce.domain.problems import Problem
from gce.domain.tasks import Task, draw_problems
from gce.ports.evaluator import Evaluator

__all__ = ["FinalTests", "Shift", "answers_to_shift", "planned_shifts", "shifts_to_measure"]


@frozen(eq=False)
class Shift:
    """A distribution shift that is measured after training."""

    task: Task
    preset: str
    evaluator: Evaluator
    n: int
    """Problems a tier that are asked for."""

    @property
    def most(self) -> int:
        """Problems over all tiers, at most."""
        return self.n * len(self.task.tiers(self.preset))

    def problems(self) -> tuple[Problem, ...]:
        """Draw its test problems: the same for every run."""
        task, preset = self.task, self.preset
        drawn = (draw_problems(task, preset, tier.name, "test", self.n) for tier in task.tiers(preset))
        return tuple(problem for of_tier in drawn for problem in of_tier)


def shifts_to_measure(settings: TrainSettings, task: Task) -> dict[str, tuple[Task, str]]:
    """Return task and preset of the shifts that a run measures, by what differs; what the warm-up taught is none.

    Raises:
        BadInput: the task declares a shift whose task or preset cannot be found.
    """
    if not settings.evaluation.shift_problems:
        return {}
    taught = {(task.name, each) for each in settings.demonstrations.warm_up_also}
    found = shifts_of(task, settings.preset, without=taught)
    return {what: (shifted, find_preset(shifted, preset)) for what, (shifted, preset) in found.items()}


def planned_shifts(settings: TrainSettings, task: Task, evaluator: str | Evaluator) -> dict[str, Shift]:
    """Return the same with what judges their answers; nothing is drawn yet, which may take long."""
    where, n = settings.executor, settings.evaluation.shift_problems
    found = {}
    for what, (shifted, preset) in shifts_to_measure(settings, task).items():
        named, _ = task.audit.shifts[what]
        judges = find_evaluator(shifted, where.runner, evaluator, named=named, executor=executor_of(where))
        found[what] = Shift(shifted, preset, judges, n)
    return found


class FinalTests:
    """The tests after the last iteration; those of an earlier part of the run are not taken again."""

    def __init__(self, run: Run, iteration: int) -> None:
        self._run, self._iteration = run, iteration
        self._held = {
            (record["final"], record["n"]): record
            for record in run.store.held()
            if "final" in record and record["iteration"] == iteration
        }
        self.seconds: float = sum(record["seconds"] for record in self._held.values())
        """What those of earlier parts took."""

    def holds(self, name: str, n: int) -> bool:
        """Return whether an earlier part of the run took the test of this name."""
        return (name, n) in self._held

    def result(self, name: str, n: int, take: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what the test of this name found, as plain data whose `tiers` are intervals: held, or taken now.

        It is held, by name and number of problems a tier, unless answers failed: they are asked again when the run is
        resumed.
        """
        if (name, n) in self._held:
            found: dict[str, Any] = self._held[name, n]["found"]
            return found
        began = self._run.clock.now()
        found = take()
        if found["tiers"] and not any(share["failed"] for share in found["tiers"].values()):
            seconds = self._run.clock.now() - began
            record = {"final": name, "n": n, "iteration": self._iteration, "found": found, "seconds": seconds}
            self._run.store.hold(record)
            self._held[name, n] = record
        return found

    def shifts(self, shifts: Mapping[str, Shift]) -> dict[str, dict[str, Any]]:
        """Return the plain data of each distribution shift that has test problems, by what differs.

        Raises:
            LowCoverage: too many answers to one of them failed.
        """
        drawn = {what: each.problems() for what, each in shifts.items() if (_name(what), each.n) not in self._held}
        left = sum(map(len, drawn.values()))
        advance = self._run.watcher.stage("shifts", left) if left else lambda: None
        return {
            what: self.result(
                _name(what), each.n, partial(_measured, self._run, what, each, drawn.get(what, ()), advance)
            )
            for what, each in shifts.items()
            if what not in drawn or drawn[what]
        }


def answers_to_shift(what: str) -> str:
    """Return the name of a run's answers to a shift: "eleven jobs" has shift-eleven-jobs."""
    return f"shift-{shift_slug(what)}"


def _name(what: str) -> str:
    return f"shift: {what}"


def _measured(
    run: Run, what: str, shift: Shift, problems: Sequence[Problem], advance: Callable[[], None]
) -> dict[str, Any]:
    """Plain data of greedy accuracy on a shift, its answers kept."""
    settings, task = run.settings, shift.task
    seed, max_tokens = settings.seed, settings.rollouts.max_tokens
    answers = ask(run.model, task, shift.evaluator, problems, seed=seed, max_tokens=max_tokens, on_answer=advance)
    run.store.write_answers(answers_to_shift(what), map(answer_record, answers))
    check_answers(f"test problems of the shift {what!r}", answers, settings.stopping.min_coverage, hint=RESUME)
    found = Distribution(
        task.name,
        shift.preset,
        accuracy(answers),
        best_blind(task, shift.evaluator, shift.preset, problems),
        dict(Counter(problem.tier for problem in problems)),
        shift.n,
        held_out_tiers(task, shift.preset),
    )
    return distribution_plain(found)
