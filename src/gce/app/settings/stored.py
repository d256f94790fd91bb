"""Read the settings of stored runs: nested plain data, and the flat form of gce 0.1.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import changed
from gce.errors import BadInput, SettingError

__all__ = ["from_stored", "is_flat"]

_FLAT = {
    "model": "model.name",
    "rollouts": "rollouts.samples",
    **{name: name for name in ("task", "preset", "recipe", "seed")},
    **{
        name: f"{section}.{name}"
        for section, names in {
            "model": ("adapter", "device", "threads", "concurrency", "timeout"),
            "lora": ("rank", "scale", "dropout", "layers", "targeting"),
            "optimizer": (
                *("learning_rate", "weight_decay", "max_gradient_norm", "batch", "updates", "reuse", "epochs"),
                "restart",
            ),
            "rollouts": ("problems", "problems_by_tier", "temperature", "max_tokens", "second_wave"),
            "curriculum": ("sampling", "floor", "pool", "ladder"),
            "buffer": ("admission", "drop_solved", "per_problem", "deduplicate", "accumulate", "weighting"),
            "objective": ("algorithm", "clip", "kl", "negative"),
            "demonstrations": ("bootstrap", "shots", "examples", "warm_up", "warm_up_also", "warm_up_rate"),
            "stopping": ("iterations", "until", "minutes", "patience", "min_coverage"),
            "evaluation": ("dev", "dev_every", "test"),
            "executor": ("runner",),
        }.items()
        for name in names
    },
}
"""Dotted names of settings by their names in 0.1.0."""


def from_stored(data: Mapping[str, Any]) -> TrainSettings:
    """Return the settings of a run, of this version or of 0.1.0; missing settings have their defaults.

    Raises:
        BadInput: a setting that this version does not know, or an invalid value.
    """
    values = _migrated(data) if is_flat(data) else _by_dotted_name(data)
    if "objective.clip_high" not in values and values.get("objective.clip") == 0.2:
        del values["objective.clip"]  # Of an earlier version, whose default it was; now the algorithm's range is.
    unknown = sorted(set(values) - set(all_settings()))
    if unknown:
        raise BadInput(f"the run was made by another version: unknown settings {', '.join(unknown)}")
    try:
        return changed(TrainSettings(), values)
    except SettingError as error:
        raise BadInput(f"the run's settings cannot be used: {error}") from error


def is_flat(data: Mapping[str, Any]) -> bool:
    """True if the settings are in the form of gce 0.1.0: one table without sections."""
    return not isinstance(data.get("stopping"), Mapping)


def _migrated(data: Mapping[str, Any]) -> dict[str, Any]:
    """Rename flat settings to their current names."""
    return {_FLAT.get(name, name): value for name, value in data.items()}


def _by_dotted_name(data: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{field}": each for field, each in value.items()}
        else:
            found[name] = value
    return found
