"""Rows of a file that a user names: JSONL (plain or gzip), a JSON list, CSV, TSV or Parquet, told by the name's end."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gce.adapters.datasets.record_files import MOST_BYTES, read_records
from gce.adapters.system.input_files import parse_json, read_input
from gce.errors import BadInput, MissingExtra, one_line

__all__ = ["read_problem_records", "read_rows"]


def read_rows(path: Path) -> list[Any]:
    """The file's rows, in order.

    Raises:
        BadInput: there is no such file, its name does not say its format, or it is not as that format wants it.
        MissingExtra: it is Parquet, and pyarrow is not installed.
    """
    name = path.name.lower()
    for end, read in _READERS.items():
        if name.endswith(end):
            return read(path)
    raise BadInput(f"{path}: expected a file that ends in {', '.join(_READERS)}")


def read_problem_records(path: Path) -> list[Any]:
    """The records of a file of problems, in order: a list or an object of them in one JSON text, CSV, or JSON lines.

    Records of an object, {id: record}, are given their key as `id` where they have none.

    Raises:
        BadInput: there is no such file, it is as none of these formats wants it, or it holds no records.
    """
    name = path.name.lower()
    if name.endswith((".csv", ".tsv")):
        return read_rows(path)
    if not name.endswith(".json"):
        return read_records(path)
    try:
        found = parse_json(read_input(path, MOST_BYTES), str(path))
    except BadInput as error:
        try:
            return read_records(path)  # A JSON object a line, under another name.
        except BadInput:
            raise error from None
    if isinstance(found, dict) and found and all(isinstance(each, dict) for each in found.values()):
        found = [{"id": key, **record} for key, record in found.items()]
    elif isinstance(found, dict):
        found = [found]
    if not isinstance(found, list) or not found:
        raise BadInput(f"{path}: expected a list of records, or an object {{id: record}}, got {found!r:.60}")
    return found


def _json(path: Path) -> list[Any]:
    found = parse_json(read_input(path, MOST_BYTES), str(path))
    if not isinstance(found, list):
        raise BadInput(f"{path}: expected a list of objects, got {type(found).__name__}; one object a line is .jsonl")
    return found


def _separated(path: Path, separator: str) -> list[dict[str, str]]:
    try:
        text = read_input(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8: {error}") from error
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[dict[str, str]] = []
    try:
        head = next(lines, [])
        if len(set(head)) < len(head):
            raise BadInput(f"{path}: expected columns with different names, got {', '.join(head)}")
        for row in lines:
            if row and len(row) != len(head):
                raise BadInput(f"{path}, line {lines.line_num}: expected {len(head)} cells, got {len(row)}")
            if row:
                rows.append(dict(zip(head, row, strict=True)))
    except csv.Error as error:
        raise BadInput(f"{path}, line {lines.line_num}: {one_line(error)}") from error
    return rows


def _parquet(path: Path) -> list[Any]:
    data = read_input(path, MOST_BYTES)
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "parquet") from None
    try:
        rows: list[Any] = pyarrow.parquet.read_table(pyarrow.BufferReader(data)).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} is not Parquet that can be read: {one_line(error)}") from error
    return rows


_READERS: Mapping[str, Callable[[Path], list[Any]]] = {
    ".jsonl": read_records,
    ".ndjson": read_records,
    ".jsonl.gz": read_records,
    ".json": _json,
    ".csv": lambda path: _separated(path, ","),
    ".tsv": lambda path: _separated(path, "\t"),
    ".parquet": _parquet,
}
