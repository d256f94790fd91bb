"""Convert records to and from plain data that `json.dumps` accepts, without loss.

Works for any frozen attrs record, a task's own included; fields that are not arguments of the class (`init=False`) are
left out. A field typed `Any` is read back as plain data because only its owner knows its type: a task reads its
instance with `from_plain(Instance, problem.instance)`. This module does not depend on files or databases.
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
"""Values of choices in records of earlier versions, with their current names."""

OMIT_DEFAULT: Mapping[str, bool] = {"omit_default": True}
"""Metadata of a field that is not written if it has its default value."""


def to_plain(record: Any) -> Any:
    """Return `record` as dicts, lists, text, numbers, booleans and None, unchanged by a round trip through JSON.

    Fields are written in the order of the class, default values included unless the field is marked `OMIT_DEFAULT`.
    Values that are neither a record, a mapping nor a sequence stay as they are, so JSON rejects unknown types.
    """
    return _converter().unstructure(record)


def from_plain(cls: type[Record], data: Any) -> Record:
    """Return the record of class `cls` that `to_plain` wrote, validated again.

    Nothing is coerced: text is not parsed as a number, a float is not truncated to an integer, and unknown fields are
    rejected. An integer is accepted for a float, because JSON writers produce it.

    Raises:
        ValueError: data of another shape; the one-line message says where, what was expected and what was found.
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
        if type(value) is not kind:  # isinstance would accept a bool as an int.
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
        if not isinstance(value, (list, tuple)):  # A str is a sequence too, and would be split into characters.
            raise ValueError(f"expected a list, got {reprlib.repr(value)}")
        if not repeated and len(value) != len(kinds):
            raise ValueError(f"expected a list of {len(kinds)}, got {reprlib.repr(value)}")
        if repeated and kinds[0] in (int, float, str) and set(map(type, value)) <= {kinds[0]}:
            return tuple(value)  # Token ids and log-probabilities are long: check their types only once.
        pairs = zip(value, repeat(kinds[0]) if repeated else kinds, strict=False)
        return tuple(_item(converter, index, item, kind) for index, (item, kind) in enumerate(pairs))

    return structure


def _item(converter: Converter, index: int, value: Any, kind: Any) -> Any:
    from cattrs import IterableValidationError, IterableValidationNote

    try:
        return converter.structure(value, kind)
    except Exception as exc:
        exc.add_note(IterableValidationNote(f"item {index}", index, kind))  # transform_error takes the path from it.
        raise IterableValidationError(f"item {index}", [exc], tuple) from exc


def _describe(exc: BaseException, _: type | None) -> str:
    from cattrs import ForbiddenExtraKeysError

    if isinstance(exc, KeyError):
        return "expected this field, got none"
    if isinstance(exc, ForbiddenExtraKeysError):
        return f"expected no other fields, got {', '.join(sorted(map(repr, exc.extra_fields)))}"
    # attrs's validators raise with the attribute and the value as additional arguments.
    return str(exc.args[0]) if exc.args else repr(exc)
