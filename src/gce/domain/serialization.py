"""Records to and from plain data: what `json.dumps` takes, with nothing lost on the way back.

Works for any frozen attrs record, those of a task included; fields that are not arguments of the class (`init=False`)
are left out. Knows nothing of files or databases. A field typed `Any` comes back as plain data: only its owner knows
its type, so a task reads its instance with `from_plain(Instance, problem.instance)`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import attrs

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["OMIT_DEFAULT", "RENAMED", "from_plain", "to_plain"]

Record = TypeVar("Record")
Hook = Callable[[Any, Any], Any]

RENAMED: Mapping[str, str] = {"no_verdict": "failed"}
"""What a choice was called in records of earlier versions, to what it is called now."""

OMIT_DEFAULT: Mapping[str, bool] = {"omit_default": True}
"""Metadata of a field that is not written where it has its default."""


def to_plain(record: Any) -> Any:
    """`record` as dicts, lists, text, numbers, booleans and None: equal to what JSON makes of it and gives back.

    Every field is written in the order of the class, those at their default too unless marked `OMIT_DEFAULT`. What is
    neither a record, a mapping nor a sequence stays as it is, so JSON refuses what it does not know.
    """
    return _converter().unstructure(record)


def from_plain(cls: type[Record], data: Any) -> Record:
    """The record of class `cls` that `to_plain` wrote; its validators run again.

    Nothing is guessed: no text read as a number, no number cut to a whole one, no unknown field dropped. A whole number
    is taken where a float is due, as JSON writers do.

    Raises:
        ValueError: data of another shape; one line says where, what was expected and what was found.
    """
    from cattrs import BaseValidationError, transform_error

    try:
        return _converter().structure(data, cls)
    except (BaseValidationError, ValueError) as exc:
        found = transform_error(exc, getattr(cls, "__name__", str(cls)), _describe)
        message, _, where = found[0].rpartition(" @ ")
        others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ValueError(f"{where}: {message}{others}") from exc


@cache
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.cols import is_mapping, mapping_structure_factory
    from cattrs.gen import make_dict_unstructure_fn, override

    converter = Converter(forbid_extra_keys=True, unstruct_collection_overrides={tuple: list})
    scalars: tuple[tuple[type, str], ...] = ((str, "text"), (bool, "true or false"), (int, "a whole number"))
    for scalar, name in scalars:
        converter.register_structure_hook(scalar, _exactly(scalar, name))
    converter.register_structure_hook(float, _number)

    def record_hook(cls: Any) -> Hook:
        return _of_mapping(converter.gen_structure_attrs_fromdict(cls), f"an object with the fields of {cls.__name__}")

    def mapping_hook(cls: Any) -> Hook:
        return _of_mapping(mapping_structure_factory(cls, converter), "an object with text keys")

    def tuple_hook(cls: Any) -> Hook:
        return _tuple_of(cls, converter)

    def plain_hook(cls: Any) -> Callable[[Any], Any]:
        attrs.resolve_types(cls)
        omitted: dict[str, Any] = {name: override(omit_if_default=True) for name in _omitted(cls)}
        return make_dict_unstructure_fn(cls, converter, **omitted)

    converter.register_structure_hook_factory(is_mapping, mapping_hook)
    converter.register_structure_hook_factory(attrs.has, record_hook)
    converter.register_structure_hook_factory(_made_from(tuple), tuple_hook)
    converter.register_structure_hook_factory(_made_from(Literal), _one_of)
    converter.register_unstructure_hook_factory(lambda cls: attrs.has(cls) and bool(_omitted(cls)), plain_hook)
    return converter


def _omitted(cls: Any) -> list[str]:
    return [field.name for field in attrs.fields(cls) if field.metadata.get("omit_default")]


def _made_from(origin: Any) -> Callable[[Any], bool]:
    return lambda cls: get_origin(cls) is origin


def _exactly(kind: type, called: str) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not kind:  # a bool is no number here
            raise ValueError(f"expected {called}, got {reprlib.repr(value)}")
        return value

    return structure


def _number(value: Any, _: Any) -> float:
    if type(value) not in (float, int):
        raise ValueError(f"expected a number, got {reprlib.repr(value)}")
    return float(value)


def _one_of(cls: Any) -> Hook:
    allowed = get_args(cls)

    def structure(value: Any, _: Any) -> Any:
        if type(value) is str and value not in allowed and (now := RENAMED.get(value)) in allowed:
            return now
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise ValueError(f"expected one of {', '.join(map(repr, allowed))}, got {reprlib.repr(value)}")
        return value

    return structure


def _of_mapping(inner: Hook, called: str) -> Hook:
    def structure(value: Any, cls: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError(f"expected {called}, got {reprlib.repr(value)}")
        return inner(value, cls)

    return structure


def _tuple_of(cls: Any, converter: Converter) -> Hook:
    kinds = get_args(cls)
    repeated = len(kinds) == 2 and kinds[1] is Ellipsis

    def structure(value: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):  # text would fall apart into characters
            raise ValueError(f"expected a list, got {reprlib.repr(value)}")
        if not repeated and len(value) != len(kinds):
            raise ValueError(f"expected a list of {len(kinds)}, got {reprlib.repr(value)}")
        if repeated and kinds[0] in (int, float, str) and set(map(type, value)) <= {kinds[0]}:
            return tuple(value)  # token ids and log-probabilities are long: one look at the types is enough
        pairs = zip(value, repeat(kinds[0]) if repeated else kinds, strict=False)
        return tuple(_item(converter, index, item, kind) for index, (item, kind) in enumerate(pairs))

    return structure


def _item(converter: Converter, index: int, value: Any, kind: Any) -> Any:
    from cattrs import IterableValidationError, IterableValidationNote

    try:
        return converter.structure(value, kind)
    except Exception as exc:
        exc.add_note(IterableValidationNote(f"item {index}", index, kind))  # from this transform_error knows where
        raise IterableValidationError(f"item {index}", [exc], tuple) from exc


def _describe(exc: BaseException, _: type | None) -> str:
    from cattrs import ForbiddenExtraKeysError

    if isinstance(exc, KeyError):
        return "expected this field, got none"
    if isinstance(exc, ForbiddenExtraKeysError):
        return f"expected no other fields, got {', '.join(sorted(map(repr, exc.extra_fields)))}"
    # attrs's validators raise with the attribute and the value as further arguments.
    return str(exc.args[0]) if exc.args else repr(exc)
