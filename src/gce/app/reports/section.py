"""A part of a report: sentences, tables and figures under one heading. Knows not how a page looks."""

from __future__ import annotations

from attrs import frozen

from gce.domain.figures import Figure, Table

__all__ = ["Section"]


@frozen
class Section:
    """A part of a report under one heading."""

    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
