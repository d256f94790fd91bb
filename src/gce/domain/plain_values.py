"""Plain data as text: the format in which values cross the sandbox boundary and are compared.

Equal text means equal values of equal types: 1, 1.0 and True differ. A set is written in sorted order; a dict keeps its
own order, which the receiver may depend on. Only the exact types below are plain; other types, subclasses included, are
refused. The text is JSON. A type that JSON lacks is an object with one key that names the type.

This file must stand alone: its source also runs inside the sandbox, without the package around it.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict

if __name__ != "__main__":  # Types are not needed inside the sandbox, and would take a tenth of its start-up.
    from collections.abc import Callable
    from typing import Any

__all__ = ["MOST_CHARACTERS", "NotPlain", "from_text", "to_text"]

MOST_CHARACTERS = 2**18
"""Maximum length of one value's text."""
MOST_DEPTH = 40

_DICTS = frozenset({dict, Counter, OrderedDict, defaultdict})
_AS_THEY_ARE = frozenset({type(None), bool, int, str})


class NotPlain(ValueError):
    """Raised for a value that is not plain data, and for text that does not encode a value."""


def to_text(value: Any) -> str:
    """Return the value as ASCII text; raise `NotPlain` for other types and for values that are too deep or too long."""
    try:
        text = _dumps(_tagged(value, MOST_DEPTH))
    except (ValueError, RecursionError) as error:  # An int of many thousand digits has no text.
        raise NotPlain(str(error)) from None
    if len(text) > MOST_CHARACTERS:
        raise NotPlain(f"a value of {len(text)} characters, expected at most {MOST_CHARACTERS}")
    return text


def from_text(text: str) -> Any:
    """Return the value that `to_text` wrote as this text; raise `NotPlain` if there is none."""
    try:
        return _untagged(json.loads(text))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise NotPlain(f"expected a plain value as text: {error}") from None


def _dumps(tagged: Any) -> str:
    return json.dumps(tagged, separators=(",", ":"), allow_nan=False)


def _tagged(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        # JSON has no infinity and no NaN.
        return value if value - value == 0.0 else {"float": repr(value)}
    if depth == 0:
        raise NotPlain(f"a value nested deeper than {MOST_DEPTH}")
    if kind is list:
        return [_tagged(each, depth - 1) for each in value]
    if kind is tuple:
        return {"tuple": [_tagged(each, depth - 1) for each in value]}
    if kind is set or kind is frozenset:
        return {kind.__name__: sorted((_tagged(each, depth - 1) for each in value), key=_dumps)}
    if kind in _DICTS:
        return {"dict": [[_tagged(key, depth - 1), _tagged(each, depth - 1)] for key, each in dict.items(value)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is complex:
        return {"complex": [_tagged(value.real, depth), _tagged(value.imag, depth)]}
    raise NotPlain(f"{kind.__name__!r} is no plain data")


def _untagged(tagged: Any) -> Any:
    if isinstance(tagged, list):
        return [_untagged(each) for each in tagged]
    if not isinstance(tagged, dict):
        return tagged
    ((kind, inner),) = tagged.items()
    return _KINDS[kind](inner)


_KINDS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": lambda inner: tuple(map(_untagged, inner)),
    "set": lambda inner: set(map(_untagged, inner)),
    "frozenset": lambda inner: frozenset(map(_untagged, inner)),
    "dict": lambda inner: {_untagged(key): _untagged(value) for key, value in inner},
    "bytes": bytes.fromhex,
    "complex": lambda inner: complex(*map(_untagged, inner)),
}
