"""From names on the command line to tasks, models and solvers: NAME, PATH or module:ATTR."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from gce.app.config import RunConfig
from gce.domain.tasks import TASKS, Task, problem_of_key
from gce.domain.types import Problem
from gce.errors import BadInput, MissingExtra, ModelError

__all__ = [
    "SHIPPED_MODEL",
    "find_model",
    "find_preset",
    "find_task",
    "find_tiers",
    "shipped_model_path",
    "stored_problem",
]

SHIPPED_MODEL = "gce-tiny"


def find_task(name: str) -> Task:
    """A task by its name or as module:ATTR.

    Raises:
        BadInput: nothing of that name, or it is no task.
    """
    if name in TASKS:
        return TASKS[name]
    if ":" not in name:
        raise BadInput(f"no task {name!r}: choose one of {', '.join(TASKS)}, or give your own as module:ATTR")
    task = _attribute(name, "task")
    if not isinstance(task, Task):
        raise BadInput(f"{name} is {type(task).__name__}, expected a gce.Task")
    return task


def find_preset(task: Task, preset: str) -> str:
    """The preset's name, the task's first where none is given."""
    if not preset:
        return next(iter(task.presets))
    if preset not in task.presets:
        raise BadInput(f"task {task.name} has no preset {preset!r}: choose one of {', '.join(task.presets)}")
    return preset


def find_tiers(task: Task, preset: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Names of the wanted tiers in the preset's order, all of them where none is named."""
    names = tuple(tier.name for tier in task.tiers(preset))
    for name in wanted:
        if name not in names:
            raise BadInput(f"preset {preset} has no tier {name!r}: choose from {', '.join(names)}")
    return tuple(name for name in names if name in wanted) if wanted else names


def stored_problem(task: Task, key: str) -> Problem:
    """The problem of a run's record, drawn again.

    Raises:
        BadInput: the task has no such problem.
    """
    try:
        return problem_of_key(task, key)
    except ValueError as error:
        raise BadInput(f"the run was made with another version of task {task.name}: {error}") from error


def find_model(config: RunConfig, task: Task) -> Any:
    """The model that `config` names, its adapter not yet placed.

    A factory `module:FACTORY` is called with the run's configuration and the task. Everything else is loaded with mlx.
    """
    if ":" in config.model and not Path(config.model).exists():
        factory = _attribute(config.model, "model")
        if not callable(factory):
            raise BadInput(f"{config.model} is {type(factory).__name__}, expected a function of settings and task")
        return factory(config, task)
    path = shipped_model_path() if config.model == SHIPPED_MODEL else config.model
    try:
        from gce.adapters.mlx_model import LoraSettings, OptimizerSettings, load_mlx_model
    except ImportError as error:
        raise MissingExtra(error.name or "mlx", "train") from error
    return load_mlx_model(
        path,
        device="cpu" if config.device == "cpu" else None,
        lora=LoraSettings(rank=config.rank, scale=config.scale, dropout=config.dropout),
        optimizer=OptimizerSettings(
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            max_gradient_norm=config.max_gradient_norm,
        ),
        seed=config.seed,
        threads=config.threads,
    )


def shipped_model_path() -> Path:
    """Where `gce-tiny` lies in the installed package."""
    path = Path(str(resources.files("gce") / "data" / SHIPPED_MODEL))
    if not (path / "model.safetensors").is_file():
        raise ModelError(f"the shipped model is missing from {path}: install the package again")
    return path


def _attribute(name: str, what: str) -> Any:
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # Importing runs code that is not ours.
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise BadInput(f"cannot import {module_name!r} for the {what} {name!r}: {said}") from error
    finally:
        sys.path.remove("")
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise BadInput(f"module {module_name} has no {attribute!r} (given as the {what} {name!r})") from None
