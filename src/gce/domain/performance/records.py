"""Records of other benchmarks: how their fields are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import AttrsInstance, fields

__all__ = ["read_fields", "texts_in"]

_Form = TypeVar("_Form", bound=AttrsInstance)


def read_fields(form: type[_Form], data: Any, *, benchmark: str) -> _Form:
    """Return the record in plain data. Missing fields have their default; a text that is null is empty.

    Raises:
        ValueError: no object, an unknown field, no `repo` or `instance_id`, or a text that is none.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"expected an object, got {data!r:.60}")
    known = {each.name: each for each in fields(form)}
    unknown = sorted(set(map(str, data)) - set(known))
    if unknown:
        raise ValueError(f"expected the fields of {benchmark}, got {unknown[0]!r:.60}")
    for name in ("repo", "instance_id"):
        if not isinstance(data.get(name), str) or not data[name]:
            raise ValueError(f"expected a text in {name}, got {data.get(name)!r:.60}")
    given = {}
    for name, value in data.items():
        texts = known[name].type in ("str", str)
        if texts and value is not None and not isinstance(value, str):
            raise ValueError(f"expected a text in {name}, got {value!r:.60}")
        given[name] = "" if texts and value is None else value
    return form(**given)


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the texts that a value of unknown type has: itself, or those of a list; empty ones are left out."""
    several = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(each for each in several if isinstance(each, str) and each)
