"""How a setting is declared: a field of a section whose metadata say all that parser, documents and checks need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import Attribute, evolve, field, fields, fields_dict, frozen

from gce.app.options import Choice, Kind, Switch, nearest, refusal
from gce.domain.serialization import OMIT_DEFAULT
from gce.errors import SettingError

__all__ = ["Setting", "section_of", "sections_in", "setting", "settings_in", "unknown"]

_KEY = "gce"


@frozen
class Setting:
    """What is said of one setting."""

    kind: Kind
    """What values it may have."""
    help: str
    """What it decides, in words that stand alone."""
    flag: str = ""
    """The option of the command line; empty for none."""
    unit: str = ""
    metavar: str = ""
    or_none: bool = False
    """Whether None is taken where it is not the default."""
    common: bool = False
    """Whether `--help` shows its option; `--help-all` shows all."""
    name: str = ""
    """With the section before a dot, as `optimizer.learning_rate`."""
    default: Any = None

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The names that it may have, where it is one of a few."""
        return tuple(self.kind.names) if type(self.kind) is Choice else None

    @property
    def default_text(self) -> str:
        """The default as text; empty for none."""
        default = ",".join(self.default) if isinstance(self.default, tuple) else self.default
        return "" if default is None else str(default)

    @property
    def may_be_none(self) -> bool:
        """Whether None is a value of it, which text writes as `none`."""
        return self.or_none or self.default is None

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.kind, Switch)


def setting(
    default: Any, kind: Kind, help: str, *, converter: Any = None, omit_default: bool = False, **more: Any
) -> Any:
    """A field of a section; `more` are fields of `Setting`. With `omit_default` a run does not keep the default."""
    metadata = {_KEY: Setting(kind, help, **more), **(OMIT_DEFAULT if omit_default else {})}
    return field(default=default, validator=_check, converter=converter, metadata=metadata)


def section_of(kind: type, *, omit_default: bool = False) -> Any:
    """A field of `TrainSettings` that is a section: a record, made of a mapping of what differs from the defaults.

    With `omit_default` a run does not keep a section that is all defaults.
    """
    metadata = {_KEY: kind, **(OMIT_DEFAULT if omit_default else {})}
    return field(factory=kind, converter=_record_of(kind), validator=_check_section, metadata=metadata)


def _record_of(kind: Any) -> Callable[[Any], Any]:
    """From a mapping of what differs from the defaults to the section's record; anything else stays as it is."""

    def convert(given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        known = {f"{kind.section}.{name}" for name in fields_dict(kind)}
        for name, value in given.items():
            if (full := f"{kind.section}.{name}") not in known:
                raise SettingError(full, "the name of a setting", value, unknown(full, known))
        return kind(**given)

    return convert


def settings_in(record: type, prefix: str = "") -> Iterator[Setting]:
    """All settings of a record, its sections' too, in the order of the fields."""
    for attribute in fields(record):
        said = attribute.metadata[_KEY]
        if isinstance(said, Setting):
            yield evolve(said, name=f"{prefix}{attribute.name}", default=attribute.default)
        else:
            yield from settings_in(said, f"{attribute.name}.")


def sections_in(record: type) -> dict[str, type]:
    """The sections of a record by name."""
    said = {attribute.name: attribute.metadata[_KEY] for attribute in fields(record)}
    return {name: kind for name, kind in said.items() if isinstance(kind, type)}


def unknown(name: str, known: Iterable[str], what: str = "setting") -> str:
    """That there is no such setting, and which one may be meant."""
    return f"there is no {what} {name!r:.80}{nearest(str(name), known)}"


def _check(record: Any, attribute: Attribute[Any], value: Any) -> None:
    said: Setting = attribute.metadata[_KEY]
    is_default = type(value) is type(attribute.default) and value == attribute.default
    if not (is_default or said.kind.takes(value) or (said.or_none and value is None)):
        name = f"{record.section}.{attribute.name}" if record.section else attribute.name
        raise SettingError(name, said.kind.expected, value, f"{{{name}}} must be {refusal(said.kind, value)}")


def _check_section(_record: Any, attribute: Attribute[Any], value: Any) -> None:
    expected = attribute.metadata[_KEY]
    if not isinstance(value, expected):
        words = f"a {expected.__name__}"
        raise SettingError(attribute.name, words, value, f"{{{attribute.name}}} must be {words}, got {value!r}")
