"""What a run is given from Python, beside its settings or as a part of them: task, model, algorithm, evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from gce.app.loaded_model import LoadedModel, model_of
from gce.app.settings.records import ModelSettings, TrainSettings
from gce.app.settings.values import changed
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.executors import executor_of
from gce.app.wiring.names import entry, name_of
from gce.domain.algorithms import ALGORITHMS, Algorithm
from gce.domain.tasks import Task
from gce.ports.evaluator import Evaluator

__all__ = ["Given", "algorithm_of", "evaluator_of", "with_model", "with_names"]


@frozen(eq=False)
class Given:
    """What was given to `train` or `resume`; None where the settings name it."""

    task: Task | None
    model: Any
    algorithm: str | Algorithm | None
    evaluator: str | Evaluator | None


def with_model(settings: TrainSettings, model: Any) -> tuple[TrainSettings, Any]:
    """Settings that name the model, and the model where it was given itself."""
    if model is None:
        return settings, None
    if isinstance(model, ModelSettings):
        return evolve(settings, model=model), None
    name = type(model).__qualname__
    if isinstance(model, LoadedModel):
        name, model = model.name, model.origin or model.model
    if isinstance(model, (str, Mapping)):
        values = {"name": model} if isinstance(model, str) else model
        return changed(settings, {f"model.{name}": value for name, value in values.items()}), None
    model = model_of(model)
    return changed(settings, {"model.name": name_of(model, name)}), model


def with_names(
    settings: TrainSettings, algorithm: str | Algorithm | None, evaluator: str | Evaluator | None
) -> TrainSettings:
    """Settings that name the algorithm and the evaluator that were given."""
    names = {}
    if algorithm is not None:
        names["objective.algorithm"] = name_of(algorithm, algorithm if isinstance(algorithm, str) else algorithm.name)
    if evaluator is not None:
        names["evaluator"] = name_of(evaluator, type(evaluator).__qualname__)
    return changed(settings, names)


def algorithm_of(settings: TrainSettings, given: Given) -> Algorithm:
    """The algorithm that was given, else the one that the settings name."""
    if isinstance(given.algorithm, Algorithm):
        return given.algorithm
    return entry(settings.objective.algorithm, ALGORITHMS, Algorithm, "algorithm")


def evaluator_of(settings: TrainSettings, task: Task, given: Given) -> Evaluator:
    """The evaluator likewise, of this task."""
    where, named = settings.executor, None if given.task else settings.task
    chosen = given.evaluator or settings.evaluator
    return find_evaluator(task, where.runner, chosen, named=named, executor=executor_of(where))
