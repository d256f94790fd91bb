"""Settings as text: a TOML file whose sections are those of the settings, and single ones as section.key=value.

TOML has no null: where a setting may be None, the text "none" says so.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.app.options import NAME, PATH, Number, nearest
from gce.app.settings.command_line import about, given_settings
from gce.app.settings.fields import Setting, sections_in
from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import flat_values, merged, settings_from
from gce.app.wiring.files import parse_toml, read_input
from gce.errors import BadInput, SettingError, one_line

__all__ = [
    "ASSIGNMENT",
    "PRECEDENCE",
    "Assignment",
    "add_config",
    "parsed_config",
    "read_config",
    "settings_of",
    "settings_toml",
    "toml_value",
]

PRECEDENCE = "defaults < recipe < --config < --set < options"

NONE = "none"
MOST_BYTES = 2**20


@frozen
class Assignment:
    """A setting and its value, as section.key=value; the value is written as that of its option."""

    @property
    def expected(self) -> str:
        """See `gce.app.options.Kind`."""
        return "section.key=value, for example optimizer.learning_rate=3e-4"

    def __call__(self, text: str) -> tuple[str, Any]:
        """See `gce.app.options.Kind`."""
        name, equals, value = text.partition("=")
        if not equals or not NAME.takes(text):
            raise argparse.ArgumentTypeError(f"expected {self.expected}, got {text[:60]!r}")
        known = all_settings()
        if name not in known:
            shown = name[:60]
            raise argparse.ArgumentTypeError(f"expected a setting, got {shown!r}{_hint(shown)}")
        if value == NONE and known[name].may_be_none:
            return name, None
        if not value and known[name].default == "":
            return name, ""
        try:
            return name, known[name].kind(value)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{name}: {error}") from error

    def takes(self, value: object) -> bool:
        """See `gce.app.options.Kind`."""
        return isinstance(value, tuple) and len(value) == 2


ASSIGNMENT = Assignment()


def add_config(parser: argparse.ArgumentParser) -> None:
    """The options `--config` and `--set`."""
    parser.add_argument("--config", type=PATH, metavar="FILE", help=f"TOML file of settings; precedence: {PRECEDENCE}")
    parser.add_argument(
        "--set",
        type=ASSIGNMENT,
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="one setting by its name in docs/SETTINGS.md, for example lora.scale=4; may be repeated",
    )


def settings_of(arguments: argparse.Namespace) -> tuple[TrainSettings, dict[str, str]]:
    """The settings that parsed arguments come to, and where each that differs from its default comes from.

    Raises:
        BadInput: as `read_config`, or a value that a setting cannot have.
    """
    file = {} if arguments.config is None else read_config(arguments.config)
    layers: dict[str, Mapping[str, Any]] = {
        "--config": file,
        "--set": dict(arguments.set),
        "option": given_settings(arguments),
    }
    try:
        settings = settings_from(merged(*layers.values()))
    except SettingError as error:
        if error.setting not in file or error.setting in {**layers["--set"], **layers["option"]}:
            raise
        raise BadInput(f"{arguments.config}: {error}") from error
    return settings, _sources(settings, layers)


def _sources(settings: TrainSettings, layers: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    default = flat_values(TrainSettings())
    return {
        name: next((source for source in reversed([*layers]) if name in layers[source]), "recipe")
        for name, value in flat_values(settings).items()
        if value != default[name]
    }


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, by dotted name.

    Raises:
        BadInput: it cannot be read, is not TOML, or names a setting that there is not.
    """
    return parsed_config(read_input(path, MOST_BYTES), str(path))


def parsed_config(content: bytes, name: str) -> dict[str, Any]:
    """The same for the content of a file, which errors call by `name`."""
    data = parse_toml(content, name)
    known, sections = all_settings(), sections_in(TrainSettings)
    found: dict[str, Any] = {}
    for key, value in data.items():
        if key in sections and isinstance(value, Mapping):
            found |= {f"{key}.{own}": each for own, each in value.items()}
        elif key in sections:
            raise BadInput(f"{name}: expected a section [{key}], got {key} = {one_line(repr(value), 60)}")
        else:
            found[key] = value
    for each in found:
        if each not in known:
            raise BadInput(f"{name}: there is no setting {each[:60]!r}{_hint(each[:60])}")
    return {each: _read(known[each], value) for each, value in found.items()}


def settings_toml(settings: TrainSettings) -> list[str]:
    """All settings as lines of TOML, which `read_config` reads back to the same."""
    values = flat_values(settings)
    lines: list[str] = []
    for section, members in groupby(all_settings().values(), lambda each: each.name.rpartition(".")[0]):
        lines += ["", f"[{section}]  # {about(section)}"] if section else []
        for each in members:
            lines.append(f"{each.name.rpartition('.')[2]} = {toml_value(values[each.name])}")
    return lines


def _hint(name: str) -> str:
    """The setting that a name may have meant: by its whole name, or by its last part in another section."""
    known = all_settings()
    last = name.rpartition(".")[2]
    same = [each for each in known if each.rpartition(".")[2] == last]
    return f"; did you mean {same[0]}?" if same else nearest(name, known)


def _read(setting: Setting, value: Any) -> Any:
    """The value of a setting from that of TOML; what cannot be one is refused with the settings as a whole."""
    if value == NONE and setting.may_be_none:
        return None
    if isinstance(setting.kind, Number) and setting.kind.takes(value):
        return float(value)
    return tuple(value) if isinstance(value, list) else value


def toml_value(value: Any) -> str:
    """Return a value in TOML, whose strings, lists of strings and booleans are written as JSON's."""
    if value is None:
        return json.dumps(NONE)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return re.sub(r"[^\x20-\x7e]", _escaped, json.dumps(value, ensure_ascii=False))


def _escaped(character: re.Match[str]) -> str:
    code = ord(character[0])
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
