"""Plain data without what differs from run to run, its digest, and where two values first differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LEFT_OUT = frozenset({"seconds", "peak_bytes", "versions"})
"""Fields that tell of time, memory and the installed versions."""
DIGITS = 9
"""Significant digits of a float in a digest: processors differ in the last ones of a logarithm."""
ABSENT = "(absent)"
_MOST_SHOWN = 200


def repeatable(value: Any) -> Any:
    """`value` as plain data without the fields that differ from run to run."""
    if isinstance(value, Mapping):
        return {str(name): repeatable(each) for name, each in value.items() if name not in LEFT_OUT}
    if isinstance(value, (list, tuple)):
        return [repeatable(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted((repeatable(each) for each in value), key=canonical)
    if value is None or isinstance(value, (str, int, float)):
        return value
    return repr(value)


def canonical(value: Any) -> str:
    """The one text of plain data."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """16 hexadecimal digits of the SHA-256 of plain data, floats rounded to `DIGITS` significant digits."""
    return hashlib.sha256(canonical(_rounded(value)).encode()).hexdigest()[:16]


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def first_difference(one: Any, other: Any) -> str | None:
    """The first field in which two values differ, with both values; None where they are equal."""
    return next((_told(*found) for found in _differences(one, other, "")), None)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS - 1}e}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _differences(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}):
            yield from _differences(one.get(name, ABSENT), other.get(name, ABSENT), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            mine, theirs = (each[index] if index < len(each) else ABSENT for each in (one, other))
            yield from _differences(mine, theirs, f"{path}[{index}]")
    elif canonical(one) != canonical(other):
        yield path.lstrip("."), one, other


def _told(path: str, one: Any, other: Any) -> str:
    if isinstance(one, str) and isinstance(other, str):
        same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        if same > _MOST_SHOWN // 2:
            start = same - _MOST_SHOWN // 4
            one, other = f"...{one[start:]}", f"...{other[start:]}"
    shown = [text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..." for text in map(repr, (one, other))]
    return f"{path or 'the value'}: {shown[0]} against {shown[1]}"
