"""Plain data as text: what crosses the wall around code that is not trusted, and is compared there.

Equal text means equal values of equal types: 1, 1.0 and True differ. A set is written in order; a dict keeps its own,
which may matter to who gets it. Only these exact types are plain; an object of any other, a subclass too, is refused.
The text is JSON; what JSON lacks is an object with one key that names the type.

Stands alone: this file's source also runs inside the sandbox, without the package around it.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict

if __name__ != "__main__":  # Inside, where nobody reads types, this would be a tenth of the start.
    from collections.abc import Callable
    from typing import Any

__all__ = ["MOST_CHARACTERS", "NotPlain", "from_text", "to_text"]

MOST_CHARACTERS = 2**18
"""Of one value as text."""
MOST_DEPTH = 40

_DICTS = frozenset({dict, Counter, OrderedDict, defaultdict})
_AS_THEY_ARE = frozenset({type(None), bool, int, str})


class NotPlain(ValueError):
    """A value that has no such text, or a text that is none of a value."""


def to_text(value: Any) -> str:
    """The value as ASCII text; `NotPlain` for other types, and for what is nested too deep or too long."""
    try:
        text = _dumps(_tagged(value, MOST_DEPTH))
    except (ValueError, RecursionError) as error:  # An int of many thousand digits has no text.
        raise NotPlain(str(error)) from None
    if len(text) > MOST_CHARACTERS:
        raise NotPlain(f"a value of {len(text)} characters, expected at most {MOST_CHARACTERS}")
    return text


def from_text(text: str) -> Any:
    """The value that has this text, or `NotPlain`."""
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
        # Neither infinity nor "not a number" is JSON.
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
