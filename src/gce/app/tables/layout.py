"""Tables as text, at most as wide as the screen."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from gce.domain.text import printable

__all__ = ["screen_width", "table"]


def screen_width() -> int:
    """Columns of the terminal, or as the environment variable COLUMNS says; 80 where there is no terminal."""
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False, width: int | None = None) -> str:
    """Columns of even width, the first to the left and the others to the right, or to the left where they are words.

    A row is a line, whatever its cells hold. A table that is wider than `width`, by default the screen, continues
    below: further columns behind the first one again. A column alone may be wider.
    """
    head, *rows = ([printable(cell) for cell in row] for row in (head, *rows))
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    place = str.ljust if words else str.rjust

    def line(cells: Sequence[str], columns: Sequence[int]) -> str:
        rest = "  ".join(place(cells[column], widths[column]) for column in columns)
        return f"{cells[0]:<{widths[0]}}  {rest}".rstrip()

    rule = ["-" * width for width in widths]
    blocks = _side_by_side(widths, screen_width() if width is None else width)
    return "\n\n".join("\n".join(line(row, columns) for row in (head, rule, *rows)) for columns in blocks)


def _side_by_side(widths: Sequence[int], most: int) -> list[list[int]]:
    """Columns but the first, in as many groups as it takes for each to fit beside the first."""
    groups: list[list[int]] = [[]]
    taken = widths[0]
    for column, width in enumerate(widths[1:], start=1):
        if groups[-1] and taken + 2 + width > most:
            groups.append([])
            taken = widths[0]
        groups[-1].append(column)
        taken += 2 + width
    return groups
