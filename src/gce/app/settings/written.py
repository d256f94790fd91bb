"""A run's settings as the command line or the Python call that makes such a run."""

from __future__ import annotations

import argparse
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from gce.app.settings.fields import Setting
from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import flat_values, with_recipe
from gce.app.wiring.names import is_given

__all__ = ["call_of", "command_of", "differing"]


def differing(settings: TrainSettings) -> dict[str, Any]:
    """Settings that are not those of their recipe, by dotted name; the recipe itself where it is not the default."""
    usual = {**flat_values(with_recipe(settings.recipe, {})), "recipe": TrainSettings().recipe}
    return {name: value for name, value in flat_values(settings).items() if value != usual[name]}


def command_of(settings: TrainSettings) -> str | None:
    """The command line; None where no text says a value, as of an object that was given from Python."""
    words = ["gce", "train"]
    for name, value in differing(settings).items():
        setting = all_settings()[name]
        text = next(filter(lambda text: _reads(setting, text, value), _texts(value)), None)
        if text is None or (isinstance(value, str) and is_given(value)):
            return None
        if setting.is_switch and setting.flag:
            words.append(setting.flag if value else setting.flag.replace("--", "--no-", 1))
        elif setting.flag and value is not None and not text.startswith("-"):
            words += [setting.flag, text]
        else:
            words += ["--set", f"{name}={text}"]
    return shlex.join(words)


def call_of(settings: TrainSettings) -> str | None:
    """The Python call; None as `command_of`."""
    top: list[str] = []
    sections: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in differing(settings).items():
        if isinstance(value, str) and is_given(value):
            return None
        section, dot, field = name.rpartition(".")
        if dot:
            sections[section][field] = dict(value) if isinstance(value, Mapping) else value
        else:
            top.append(f"{field}={value!r}")
    return f"gce.train({', '.join([*top, *(f'{name}={own!r}' for name, own in sections.items())])})"


def _texts(value: Any) -> Iterator[str]:
    """What may be read as the value."""
    if value is None:
        yield "none"
    elif isinstance(value, bool):
        yield "true" if value else "false"
    elif isinstance(value, Mapping):
        yield from (",".join(f"{name}{sign}{each}" for name, each in value.items()) for sign in "=:")
    elif isinstance(value, tuple):
        yield ",".join(map(str, value))
    else:
        yield from (str(value), repr(value))


def _reads(setting: Setting, text: str, value: Any) -> bool:
    if value is None:
        return setting.may_be_none
    if setting.is_switch and setting.flag:
        return True
    try:
        return bool(setting.kind(text) == value)
    except argparse.ArgumentTypeError:
        return False
