"""JSON schemas of records of settings, from the same metadata as their options and forms."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from attrs import NOTHING

from gce.app.options import ByName, Choice, ChoiceOrOwn, Count, Kind, Listed, Number, Switch
from gce.app.settings.command_line import about
from gce.app.settings.fields import Setting, settings_in
from gce.app.settings.records import all_settings
from gce.app.web.asks import Offered, Text
from gce.app.wiring.sandboxes import UNSAFE

__all__ = ["parameters_of", "schema_of", "train_settings_schema"]

NAME_PATTERN = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
"""Of `gce.app.options.Name`."""


def schema_of(record: type) -> dict[str, Any]:
    """The schema of a record without sections."""
    return _object(list(settings_in(record)))


def train_settings_schema(offered: Offered) -> dict[str, Any]:
    """The schema of the settings of a training run, of which any may be left out."""
    properties: dict[str, Any] = {}
    for section, members in groupby(all_settings().values(), lambda each: each.name.rpartition(".")[0]):
        found = _object(list(members))
        properties |= {section: {**found, "description": about(section)}} if section else found["properties"]
    named = {"name": ("", *offered.models), "sampler": ("", *offered.models)}
    for name, choices in {**named, "adapter": ("",), "sampler_folder": ("",)}.items():
        properties["model"]["properties"][name]["enum"] = list(choices)
    properties["task"]["enum"] = list(offered.tasks)
    properties["executor"]["properties"]["runner"]["enum"].remove(UNSAFE)
    return {"type": "object", "properties": properties, "additionalProperties": False}


def parameters_of(record: type) -> list[dict[str, Any]]:
    """The fields of a record as parameters of a query."""
    return [
        {
            "name": each.name,
            "in": "query",
            "required": each.default is NOTHING,
            "description": each.help,
            "schema": _of_kind(each.kind),
        }
        for each in settings_in(record)
    ]


def _object(members: list[Setting]) -> dict[str, Any]:
    properties = {each.name.rpartition(".")[2]: _property(each) for each in members}
    required = [each.name for each in members if each.default is NOTHING]
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _property(each: Setting) -> dict[str, Any]:
    found = _of_kind(each.kind)
    if each.may_be_none:
        found = {"anyOf": [found, {"type": "null"}]}
    elif each.default == "" and not each.kind.takes(""):
        found = {"anyOf": [found, {"const": ""}]}
    elif each.default == () and found.get("minItems"):
        found = {**found, "minItems": 0}
    default = {} if each.default is NOTHING else {"default": each.default}
    return {**found, "description": each.help, **default}


def _of_kind(kind: Kind) -> dict[str, Any]:
    match kind:
        case Count():
            return {"type": "integer", "minimum": kind.low, "maximum": kind.high}
        case Number():
            low = "exclusiveMinimum" if kind.above else "minimum"
            high = "exclusiveMaximum" if kind.below else "maximum"
            found = {"type": "number", low: kind.low, high: kind.high}
            return {"anyOf": [{"const": 0}, found]} if kind.or_0 else found
        case Switch():
            return {"type": "boolean"}
        case Choice():
            return {"type": "string", "enum": list(kind.names)}
        case ChoiceOrOwn():
            names = "|".join(kind.names)
            return {"type": "string", "pattern": f"^({names}){'(@[A-Za-z0-9_.,=-]+)?' * kind.options}$"}
        case Text():
            pattern = {"pattern": f"^({kind.pattern})$"} if kind.pattern else {}
            return {"type": "string", "maxLength": kind.most, **pattern}
        case Listed():
            return {"type": "array", "items": _of_kind(kind.item), "minItems": 1, "uniqueItems": True}
        case ByName():
            return {"type": "object", "additionalProperties": _of_kind(kind.item), "minProperties": 1}
    return {"type": "string", "maxLength": 4095, "pattern": NAME_PATTERN}
