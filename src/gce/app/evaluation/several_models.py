"""Several models on the same problems: what may be combined, and each model's own evaluation."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from attrs import evolve

from gce.app.evaluation.settings import EvaluateSettings
from gce.app.evaluation.shifts import shift_slug
from gce.app.loaded_model import model_of
from gce.app.settings.records import ModelSettings, RolloutSettings, TrainSettings
from gce.app.wiring.access import Access, known_prices
from gce.app.wiring.models import TEMPLATE_SETTINGS, backend_of, check_cost, find_model, price_of
from gce.domain.spending import cost_of
from gce.domain.tasks import Task
from gce.errors import SettingError

__all__ = [
    "alone_of",
    "answers_of_model",
    "check_at_once",
    "check_several",
    "cost_lines",
    "is_metered",
    "settings_of",
    "used_lines",
]

_MOST_OF_A_NAME = 80
"""Characters of a model's name in the name of a file."""


def check_several(given: EvaluateSettings) -> None:
    """SettingError where a setting does not go with several models, whose table has one row for each."""
    names = given.model_names
    if len(names) < 2 or len(set(names)) < len(names):
        message = f"{{models}} needs two or more models of different names, got {', '.join(names)}"
        raise SettingError("models", "different models", names, message)
    if len(given.strategies) > 1:
        message = "{models} needs a single strategy: compare strategies model by model"
        raise SettingError("strategies", "a single strategy", given.strategies, message)
    for name, expected in (("model", None), ("adapter", None), ("shifts", False), ("samples", 1)):
        if (value := getattr(given, name)) != expected:
            message = f"{{models}} does not go with {{{name}}}: leave out one of them"
            raise SettingError(name, str(expected), value, message)


def alone_of(given: EvaluateSettings, model: Any) -> EvaluateSettings:
    """Return the settings for one of several models, with a file of answers of its own."""
    alone = evolve(given, models=(), model=model)
    return evolve(alone, answers=given.answers and answers_of_model(given.answers, alone.model_name))


def answers_of_model(path: Path, name: str) -> Path:
    """Return the file that keeps the answers of one of several models: answers.openai-gpt-5-1a2b3c4d.jsonl.

    The end is of the name's SHA-256, because long names are cut, and names may differ in signs alone.
    """
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return path.with_name(f"{path.stem}.{shift_slug(name)[:_MOST_OF_A_NAME]}-{digest}{path.suffix}")


def check_at_once(given: EvaluateSettings, task: Task, access: Access) -> None:
    """Raise what is wrong with a model behind a server (its name, its key, its price), before another is asked."""
    if isinstance(name := model_of(given.model), str):
        check_cost(name, access)
    if is_metered(given):
        find_model(settings_of(given, given.preset or ""), task, access)


def settings_of(given: EvaluateSettings, preset: str) -> TrainSettings:
    """Return the settings by which a model of this name is loaded."""
    chosen = ("precision", "device", "threads", "concurrency", "timeout")
    template: dict[str, Any] = {name: getattr(given, name) or "" for name in TEMPLATE_SETTINGS}
    return TrainSettings(
        task=given.task_name,
        preset=preset,
        seed=given.seed,
        model=ModelSettings(name=given.model, **{name: getattr(given, name) for name in chosen}, **template),
        rollouts=RolloutSettings(temperature=given.temperature, max_tokens=given.max_tokens),
    )


def is_metered(given: EvaluateSettings) -> bool:
    """Return whether the model accounts for each request itself, before it is sent.

    Raises:
        SettingError: the cost is limited, and the model was given itself, so that its price cannot be looked up.
    """
    named = isinstance(model_of(given.model), str)
    if not named and given.max_cost is not None:
        message = f"{{max_cost}} needs a model that is given by name, got {given.model_name}"
        raise SettingError("max_cost", "none", given.max_cost, message)
    return named and backend_of(given.model).metered


def cost_lines(model: str, access: Access, tokens: int) -> list[str]:
    """Return what so many generated tokens of a model cost at most, in words; empty if it has no price.

    Raises:
        SettingError: the cost is limited, and the price is not known.
    """
    check_cost(model, access)
    price = price_of(model, access) if backend_of(model).metered else None
    if price is None:
        return []
    cost = cost_of(price, 0, tokens).cost
    return [f"cost: at most ${cost:,.2f} for generated tokens, prompts excluded, at prices of {known_prices()[0]}"]


def used_lines(access: Access) -> list[str]:
    """Return what was asked of servers and what it cost, in words; empty if nothing was asked."""
    used = access.ledger.used
    if not used.requests:
        return []
    cost = f", ${used.cost:.4f} at prices of {known_prices()[0]} or the file's" if used.cost else ""
    unpriced = f", {used.unpriced:,} tokens at a price that is not known" if used.unpriced else ""
    return [
        f"used: {used.requests:,} requests, {used.prompt_tokens:,} prompt tokens, {used.tokens:,} generated tokens"
        f"{cost}{unpriced}"
    ]
