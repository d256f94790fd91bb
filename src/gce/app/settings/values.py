"""Settings by dotted name: with a recipe's in place of the defaults, and given ones in place of the recipe's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from gce.app.options import nearest
from gce.app.settings.fields import sections_in
from gce.app.settings.records import TrainSettings, all_settings
from gce.errors import BadInput, SettingError

__all__ = ["RECIPES", "changed", "flat_values", "merged", "settings_from", "with_recipe"]

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "gce": {},
    "isopro": {
        "stopping.iterations": 6,
        "rollouts.problems_by_tier": {"T0": 3, "T1": 3, "T2": 3, "T3": 3, "T4": 9},
        "rollouts.samples": 4,
        "curriculum.sampling": "uniform",
        "buffer.per_problem": None,
        "buffer.deduplicate": False,
        "buffer.weighting": "equal",
        "optimizer.epochs": 1,
        "optimizer.batch": 1,
        "optimizer.learning_rate": 2e-4,
        "lora.rank": 16,
        "lora.layers": 8,
        "lora.targeting": "last",
    },
}
"""Settings by name; `isopro` is the reference's: 84 rollouts an iteration, the whole buffer, the last 8 blocks."""
_IN_PLACE_OF = {"rollouts.problems": "rollouts.problems_by_tier", "optimizer.updates": "optimizer.epochs"}
"""Who gives the one does not want the recipe's other."""


def with_recipe(recipe: str, given: Mapping[str, Any]) -> TrainSettings:
    """The recipe's settings, with those that were given, by dotted name, in their place.

    Raises:
        BadInput: no such recipe.
        SettingError: no such setting, or a value out of range.
    """
    if recipe not in RECIPES:
        raise BadInput(f"no recipe {recipe!r}: choose one of {', '.join(RECIPES)}{nearest(recipe, RECIPES)}")
    replaced = {_IN_PLACE_OF[name]: None for name in given if name in _IN_PLACE_OF}
    return changed(TrainSettings(recipe=recipe), {**RECIPES[recipe], **replaced, **given})


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted name from several places, of which a later one stands above those before it."""
    found: dict[str, Any] = {}
    for layer in layers:
        found |= {other: None for name, other in _IN_PLACE_OF.items() if name in layer and other in found}
        found |= layer
    return found


def settings_from(given: Mapping[str, Any]) -> TrainSettings:
    """Settings over those of a recipe: single ones by name, and sections as records or as mappings of what differs.

    Raises:
        BadInput: no such recipe.
        SettingError: as in `with_recipe`.
    """
    values: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    for name, value in given.items():
        if name not in sections_in(TrainSettings):
            values[name] = value
        elif isinstance(value, Mapping):
            values |= {f"{name}.{field}": each for field, each in value.items()}
        else:
            whole[name] = value
    return evolve(with_recipe(values.pop("recipe", "gce"), values), **whole)


def changed(settings: TrainSettings, values: Mapping[str, Any]) -> TrainSettings:
    """`settings` with these values, by dotted name; SettingError as in `with_recipe`."""
    known = all_settings()
    top: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in values.items():
        if name not in known:
            hint = nearest(name, known)
            raise SettingError(name, "the name of a setting", value, f"there is no setting {name}{hint}")
        section, dot, field = name.rpartition(".")
        (sections[section] if dot else top)[field] = value
    return evolve(settings, **top, **{name: evolve(getattr(settings, name), **own) for name, own in sections.items()})


def flat_values(settings: TrainSettings) -> dict[str, Any]:
    """Every value by its setting's dotted name."""
    found = {}
    for name in all_settings():
        section, _, field = name.rpartition(".")
        found[name] = getattr(getattr(settings, section) if section else settings, field)
    return found
