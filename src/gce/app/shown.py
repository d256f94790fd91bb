"""What a result shows: lines and tables, as text for a terminal and as HTML for a notebook.

What models, files and servers wrote is text in both: nothing of it is read as markup or moves a cursor.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from gce.app.tables.layout import table
from gce.domain.figures import Table
from gce.domain.text import printable

__all__ = ["Part", "html_of", "lines_of"]

Part: TypeAlias = str | Table
"""A line, or a table."""


def lines_of(parts: Iterable[Part]) -> list[str]:
    """The parts as lines of text."""
    lines: list[str] = []
    for part in parts:
        lines += table(part.head, part.rows).split("\n") if isinstance(part, Table) else [printable(part)]
    return lines


def html_of(parts: Iterable[Part]) -> str:
    """The parts as paragraphs and tables, for `_repr_html_`."""
    return "".join(_table(part) if isinstance(part, Table) else f"<p>{_text(part)}</p>" for part in parts if part)


def _table(found: Table) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in found.head)
    rows = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in found.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _text(text: str) -> str:
    return escape(printable(text))
