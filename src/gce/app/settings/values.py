"""Settings by dotted name: with a recipe's in place of the defaults, and given ones in place of the recipe's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from gce.app.options import Choice, nearest, refusal
from gce.app.settings.fields import sections_in, unknown
from gce.app.settings.records import TrainSettings, all_settings
from gce.errors import BadInput, SettingError

__all__ = ["RECIPES", "changed", "flat_values", "full_names", "merged", "settings_from", "with_recipe"]

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
"""Settings by name; `isopro` is that of ISOPro 0.3: 84 rollouts an iteration, the whole buffer, the last 8 blocks."""
_IN_PLACE_OF = {"rollouts.problems": "rollouts.problems_by_tier", "optimizer.updates": "optimizer.epochs"}
"""Settings that replace another one: a value for the first drops the recipe's value of the second."""


def with_recipe(recipe: str, given: Mapping[str, Any]) -> TrainSettings:
    """The recipe's settings, with those that were given, by dotted name, in their place.

    Raises:
        BadInput: no such recipe.
        SettingError: no such setting, or a value out of range.
    """
    if not isinstance(recipe, str):
        raise SettingError("recipe", "a name", recipe, f"{{recipe}} must be {refusal(Choice(tuple(RECIPES)), recipe)}")
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

    A single one may be called by its own name, without its section: `learning_rate` is `optimizer.learning_rate`.

    Raises:
        BadInput: no such recipe.
        SettingError: as in `with_recipe`, or a setting is given twice.
    """
    sections = sections_in(TrainSettings)
    whole: dict[str, Any] = {name: value for name, value in given.items() if isinstance(value, sections.get(name, ()))}
    values = full_names({name: value for name, value in given.items() if name not in whole})
    for name in values:
        if (section := name.partition(".")[0]) in whole:
            raise SettingError(
                name, "one value", values[name], f"{{{name}}} is given twice: by itself and in {section}"
            )
    return evolve(with_recipe(values.pop("recipe", "gce"), values), **whole)


def full_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name: those in sections, and those that have their own name alone, as `iterations`.

    Raises:
        SettingError: no such setting, one that several sections have, one that is given twice, or a section that is no
            mapping.
    """
    known = all_settings()
    by_own_name: dict[str, list[str]] = defaultdict(list)
    for name in known:
        by_own_name[name.rpartition(".")[2]].append(name)
    del by_own_name["name"]  # The model's: its keyword is `model`.
    sections = sections_in(TrainSettings)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name in sections:
            found = {f"{name}.{field}": each for field, each in _members(name, value).items()}
        else:
            meant = by_own_name.get(name, [name])
            if len(meant) > 1:
                message = f"{name} is a setting of several sections: give one of {', '.join(meant)}"
                raise SettingError(name, "one setting", value, message)
            found = {meant[0]: value}
        for each in found:
            if each in values:
                raise SettingError(each, "one value", found[each], f"{{{each}}} is given twice: leave out one")
            if each not in known:
                raise SettingError(each, "the name of a setting", found[each], unknown(each, [*by_own_name, *known]))
        values |= found
    return values


def _members(section: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    named = next((each.name for each in all_settings().values() if each.flag == f"--{section}"), "")
    own = f"; one setting in it is {{{named}}}" if named else ""
    words = f"a {sections_in(TrainSettings)[section].__name__} or a mapping of its settings"
    raise SettingError(section, words, value, f"{{{section}}} must be {words}, got {value!r:.60}{own}")


def changed(settings: TrainSettings, values: Mapping[str, Any]) -> TrainSettings:
    """`settings` with these values, by dotted name; SettingError as in `with_recipe`."""
    known = all_settings()
    top: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in values.items():
        if name not in known:
            raise SettingError(name, "the name of a setting", value, unknown(name, known))
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
