"""What every store accepts: plain data as JSON text, stream names, rising iterations, arrays by name.

The stores share these checks, so that what the fake lets through the real one takes too. Knows no files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gce.domain.learning import ModelState

__all__ = [
    "ADAPTER",
    "ARRAY_TYPES",
    "OPTIMIZER",
    "check_iteration",
    "check_state",
    "check_stream",
    "copied",
    "encode",
    "summary_at_end",
]

ADAPTER = "adapter."
OPTIMIZER = "optimizer."
ARRAY_TYPES = (
    "bool",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
"""Names of the array types that can be kept: those that safetensors and numpy share."""

_ATOMS = frozenset({str, int, bool, type(None)})


def encode(record: Mapping[str, Any], what: str = "record", *, indent: int | None = None) -> str:
    """JSON text of a mapping, ASCII only; tuples become lists.

    TypeError names the first part that is not plain data: a key that is not a string, a number that JSON lacks
    (NaN, infinity), another type, or nesting too deep to read back.
    """
    if not isinstance(record, Mapping):
        raise TypeError(f"{what}: expected a mapping, got {record!r}")
    try:
        _check_plain(record, what)
        separators = (",", ":") if indent is None else (",", ": ")
        return json.dumps(record, default=dict, allow_nan=False, indent=indent, separators=separators)
    except RecursionError:
        raise TypeError(f"{what}: expected plain data, got some nested too deeply or within itself") from None
    except ValueError as exc:
        raise TypeError(f"{what}: expected plain data, got some that JSON cannot hold: {exc}") from exc


def check_stream(stream: str) -> None:
    """TypeError or ValueError for a name that cannot be one of a stream: it is text, not empty, without NUL."""
    if not isinstance(stream, str):
        raise TypeError(f"expected the name of a stream, got {stream!r}")
    if not stream or "\0" in stream or not stream.isprintable():
        raise ValueError(f"expected a printable name of a stream, got {stream!r}")


def check_iteration(iteration: int, last: int | None) -> None:
    """ValueError unless `iteration` is a whole number from 0 that exceeds `last`."""
    if not isinstance(iteration, int) or not 0 <= iteration < 2**63:
        raise ValueError(f"expected an iteration >= 0, got {iteration!r}")
    if last is not None and iteration <= last:
        raise ValueError(f"expected an iteration after {last}, the last one committed, got {iteration!r}")


def check_state(state: ModelState) -> None:
    """ValueError for an array whose name or type cannot be kept, TypeError for settings that are not plain data."""
    for name, array in state.arrays.items():
        bare = name.removeprefix(ADAPTER).removeprefix(OPTIMIZER)
        if not name.startswith((ADAPTER, OPTIMIZER)) or bare in ("", "__metadata__") or not bare.isprintable():
            raise ValueError(f"expected an array's name to be adapter.NAME or optimizer.NAME, got {name!r}")
        if array.dtype.name not in ARRAY_TYPES:
            raise ValueError(f"{name}: expected one of {' '.join(ARRAY_TYPES)}, got {array.dtype.name!r}")
    encode(state.settings, "settings")
    encode(state.settings.get("adapter_config", {}), "settings.adapter_config")


def copied(array: np.ndarray) -> np.ndarray:
    """A writable copy in C order and the machine's byte order; scalars keep their empty shape."""
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def summary_at_end(summary: Any, iterations: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The summary, given what the stream "iterations" holds; None where the run went on after it was written."""
    if not isinstance(summary, dict):
        return None
    done = max((record["iteration"] for record in iterations), default=0)
    return summary if summary.get("iterations") == done else None


def _check_plain(value: object, where: str) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where}: expected keys that are strings, got {key!r}")
            if type(item) not in _ATOMS:
                _check_plain(item, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            if type(item) not in _ATOMS and not (type(item) is float and math.isfinite(item)):
                _check_plain(item, f"{where}[{position}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{where}: expected a finite number, got {value!r}, which JSON has not")
    elif not isinstance(value, (str, int)) and value is not None:
        raise TypeError(f"{where}: expected plain data (what JSON holds), got {value!r}")
