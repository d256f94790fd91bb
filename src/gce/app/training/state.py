"""The state of a run: what is constant, what one iteration passes to the next, and how to resume.

The whole state is one value, `RunState`, plus the model's own. Both are committed after every iteration and read back
on resume. Every random key depends on them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import Factory, evolve, field, frozen

from gce.app.evaluation.demonstrations import Demonstration
from gce.app.settings.records import TrainSettings
from gce.domain.algorithms import Algorithm
from gce.domain.buffer import Buffer, BufferSettings, admit, empty
from gce.domain.curriculum import TierHistory, TierRewards, remember
from gce.domain.learning import ModelState
from gce.domain.measurements import IterationRecord
from gce.domain.problems import Problem
from gce.domain.serialization import from_plain, to_plain
from gce.domain.strategies.requests import Strategy
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.domain.tasks import ProblemSource, Task
from gce.domain.traces import trace_of_record
from gce.ports.clock import Clock
from gce.ports.evaluator import Evaluator
from gce.ports.model import LearningModel
from gce.ports.runs import RunWriter

__all__ = ["Run", "RunState", "Watcher", "begin", "next_state", "resume", "stored_state"]


class Watcher(Protocol):
    """Displays progress; the loop never reads anything from it."""

    def stage(self, name: str, total: int) -> Callable[[], None]:
        """Begin a stage of `total` steps; return a function to call after each step."""
        ...

    def iteration(self, record: IterationRecord) -> None:
        """Report a finished iteration."""
        ...

    def say(self, *lines: str) -> None:
        """Show one or several lines to the user."""
        ...


@frozen
class Run:
    """The constant part of a run: settings and adapters."""

    settings: TrainSettings
    task: Task
    evaluator: Evaluator
    algorithm: Algorithm
    model: LearningModel
    store: RunWriter
    clock: Clock
    watcher: Watcher
    dev: tuple[Problem, ...]
    start: ModelState | None = None
    """The model's state before training; required if every iteration restarts from it."""
    deadline: float | None = None
    """When, on `clock`, iterations end, complete or not (seconds); None for no limit. See `time_limit`."""
    demonstrations: Mapping[str, tuple[Demonstration, ...]] = field(factory=dict)
    """Demonstrations by tier, to show or to learn in the SFT warm-up."""
    strategy: Strategy = ZERO_SHOT
    """The prompting strategy of rollouts."""
    source: ProblemSource = field(default=Factory(lambda run: ProblemSource(run.task), takes_self=True))

    @property
    def admit_at(self) -> float:
        """The reward, as learning takes it, from which on a rollout is a positive."""
        combination = self.settings.evaluators.combination
        return self.task.admit_at if combination is None else combination.admit_at

    @property
    def tiers(self) -> tuple[str, ...]:
        """The tiers that training samples."""
        return self.task.training_tiers(self.settings.preset, ladder=self.settings.curriculum.ladder)


@frozen
class RunState:
    """What one iteration passes to the next."""

    iteration: int
    """Number of finished iterations."""
    drawn: Mapping[str, int]
    """Number of training problems drawn so far by tier, which is the next problem's index."""
    history: TierHistory
    buffer: Buffer
    first_correct: Mapping[str, int]
    """Iteration (from 1) of each tier's first correct trace."""
    rollouts: int = 0
    """Number of rollouts; like all counts here, without failed ones."""
    correct: int = 0
    failed: int = 0
    updates: int = 0
    warm_ups: int = 0
    """Number of finished iterations that belonged to the SFT warm-up."""
    best: tuple[int, float] | None = None
    """Iteration with the best mean accuracy on dev so far, with that mean; the earlier one wins a tie."""
    looks_since_best: int = 0
    tokens: int = 0
    """Number of tokens of prompts and completions of all rollouts."""


def begin(settings: TrainSettings) -> RunState:
    """Return the state before the first iteration."""
    bounds = BufferSettings(per_problem=settings.buffer.per_problem, deduplicate=settings.buffer.deduplicate)
    if settings.buffer.admission == "all":
        # Keep every rollout: dropping duplicates would overweight rare answers.
        bounds = BufferSettings(per_problem=None, deduplicate=False)
    return RunState(0, {}, TierHistory(), empty(bounds), {})


def resume(run: Run) -> RunState:
    """Restore the model and return the state of the last commit; the initial state if there is none."""
    state = begin(run.settings)
    last = run.store.last()
    if last is None:
        return state
    iteration, model_state, loop = last
    if model_state is not None:
        run.model.restore(model_state)
    traces = (
        trace_of_record(record)
        for record in run.store.read("traces")
        if run.settings.buffer.accumulate or record["iteration"] == iteration
    )
    return evolve(
        state,
        iteration=iteration,
        drawn=loop["drawn"],
        history=from_plain(TierHistory, loop["history"]),
        buffer=admit(state.buffer, traces),
        first_correct=loop["first_correct"],
        rollouts=loop["rollouts"],
        correct=loop["correct"],
        failed=loop["failed"],
        updates=loop["updates"],
        warm_ups=loop["warm_ups"],
        best=None if loop["best"] is None else (loop["best"][0], loop["best"][1]),
        looks_since_best=loop["looks_since_best"],
        tokens=loop.get("tokens", 0),
    )


def next_state(
    state: RunState,
    record: IterationRecord,
    showed: Mapping[str, TierRewards],
    drawn: Mapping[str, int],
    buffer: Buffer,
    updates: int,
    *,
    warming_up: bool,
) -> RunState:
    """The state after the iteration of this record; `showed` has the rewards as learning took them."""
    first = {tier: record.iteration for tier, count in record.tiers.items() if count.correct}
    best, looks_since_best = _best(state, record)
    return RunState(
        iteration=record.iteration,
        drawn=drawn,
        history=remember(state.history, showed),
        buffer=buffer,
        first_correct={**first, **state.first_correct},
        rollouts=state.rollouts + sum(count.rollouts for count in record.tiers.values()),
        correct=state.correct + sum(count.correct for count in record.tiers.values()),
        failed=state.failed + sum(record.failed.values()),
        updates=updates,
        warm_ups=state.warm_ups + warming_up,
        best=best,
        looks_since_best=looks_since_best,
        tokens=state.tokens if record.metrics is None else record.metrics.tokens,
    )


def _best(state: RunState, record: IterationRecord) -> tuple[tuple[int, float] | None, int]:
    """Return the best iteration by mean accuracy on dev, and the number of evaluations since.

    If a tier has no judged answer on dev, there is no mean, and the evaluation is ignored.
    """
    shares = [found.share for found in record.dev.values() if found.n]
    if not shares or len(shares) < len(record.dev):
        return state.best, state.looks_since_best
    mean = sum(shares) / len(shares)
    if state.best is None or mean > state.best[1]:
        return (record.iteration, mean), 0
    return state.best, state.looks_since_best + 1


def stored_state(state: RunState) -> dict[str, Any]:
    """Return the state as plain data to commit, without the buffer, which is the stream of traces."""
    return {
        "drawn": dict(state.drawn),
        "history": to_plain(state.history),
        "first_correct": dict(state.first_correct),
        "rollouts": state.rollouts,
        "correct": state.correct,
        "failed": state.failed,
        "updates": state.updates,
        "best": None if state.best is None else list(state.best),
        "warm_ups": state.warm_ups,
        "looks_since_best": state.looks_since_best,
        "tokens": state.tokens,
    }
