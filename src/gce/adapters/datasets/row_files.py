"""Rows with named, typed columns as files of other programs: CSV, JSON lines and Parquet, written as the rows come."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO

from gce.errors import MissingExtra

__all__ = ["ROW_FORMATS", "check_format", "write_rows"]

Rows = Iterable[Mapping[str, Any]]
ROWS_AT_ONCE = 1_000
"""Of Parquet, which are in memory together."""


def check_format(form: str) -> None:
    """MissingExtra where the format needs a package that is not installed; asked before what takes long."""
    if form == "parquet":
        _pyarrow()


def write_rows(form: str, columns: Mapping[str, type], rows: Rows, file: BinaryIO) -> int:
    """Write rows in one of `ROW_FORMATS`; returns how many. Columns are str, int, float or bool, values may be None.

    CSV and Parquet hold UTF-8, so that a lone surrogate becomes a question mark there.
    """
    count = 0

    def counted() -> Iterator[Mapping[str, Any]]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    ROW_FORMATS[form](columns, counted(), file)
    return count


def _csv(columns: Mapping[str, type], rows: Rows, file: BinaryIO) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="", write_through=True)
    writer = csv.DictWriter(text, fieldnames=list(columns), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    text.detach()


def _jsonl(columns: Mapping[str, type], rows: Rows, file: BinaryIO) -> None:
    for row in rows:
        file.write((json.dumps({name: row[name] for name in columns}) + "\n").encode())


def _parquet(columns: Mapping[str, type], rows: Rows, file: BinaryIO) -> None:
    pa, parquet = _pyarrow()
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    coming = iter(rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while some := list(islice(coming, ROWS_AT_ONCE)):
            values = {name: [_whole_text(row[name]) for row in some] for name in columns}
            writer.write_table(pa.table(values, schema=schema))


def _whole_text(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet") from error
    return pyarrow, parquet


ROW_FORMATS: Mapping[str, Callable[[Mapping[str, type], Rows, BinaryIO], None]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
