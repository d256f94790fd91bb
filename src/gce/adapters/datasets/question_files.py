"""Rows of a file that a user names: JSONL (plain or gzip), a JSON list, CSV, TSV or Parquet, told by the name's end.

Also TOML with an array of tables, and the files of scheduling projects, one a project, or a folder of them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gce.adapters.datasets.record_files import MOST_BYTES, read_records
from gce.adapters.system.input_files import parse_json, parse_toml, read_input
from gce.domain.tasks.scheduling.project_files import PROJECT_FORMATS
from gce.errors import BadInput, MissingExtra, one_line

__all__ = ["read_problem_records", "read_rows"]

MOST_FILES = 5_000
"""In a folder of projects."""
MOST_BYTES_A_PROJECT = 2**18


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
    """The records of a file of problems, in order: JSON (a list or an object of them), CSV, JSON lines or TOML.

    Of TOML they are the tables of its one array. Records of an object, {id: record}, are given their key as `id` where
    they have none. A file of a project, or each of those in a folder, in the order of their names with numbers as
    numbers, is a record {name, text}.

    Raises:
        BadInput: there is no such file, it is as none of these formats wants it, or it holds no records.
    """
    name = path.name.lower()
    if path.is_dir() or name.endswith(tuple(PROJECT_FORMATS)):
        return _projects(path)
    if name.endswith((".csv", ".tsv")):
        return read_rows(path)
    if name.endswith(".toml"):
        return _tables(path)
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


def _tables(path: Path) -> list[Any]:
    found = parse_toml(read_input(path, MOST_BYTES_A_PROJECT), str(path))
    arrays = [each for each in found.values() if isinstance(each, list)]
    if len(found) != 1 or not arrays or not arrays[0]:
        raise BadInput(f"{path}: expected one array of tables, such as [[persona]], got {', '.join(found) or 'none'}")
    return arrays[0]


def _projects(path: Path) -> list[dict[str, str]]:
    files = [path]
    if path.is_dir():
        try:
            files = sorted(
                (each for each in path.iterdir() if each.name.lower().endswith(tuple(PROJECT_FORMATS))), key=_by_number
            )
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror or error}") from error
        if not 0 < len(files) <= MOST_FILES:
            ends = " or ".join(PROJECT_FORMATS)
            raise BadInput(f"{path}: expected 1 to {MOST_FILES:,} files that end in {ends}, got {len(files):,}")
    records = []
    for each in files:
        try:
            records.append({"name": each.name, "text": read_input(each, MOST_BYTES_A_PROJECT).decode("utf-8-sig")})
        except UnicodeDecodeError as error:
            raise BadInput(f"{each} is not UTF-8: {error}") from error
    return records


def _by_number(path: Path) -> list[tuple[bool, int, str]]:
    """The name, cut into numbers and what stands between them."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", path.name)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


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
