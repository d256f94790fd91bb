"""A part of a report: sentences, tables and figures under one heading. Knows not how a page looks."""

from __future__ import annotations

from attrs import frozen

from gce.app.transcripts import Transcript
from gce.domain.figures import Figure, Table

__all__ = ["Picture", "Section"]


@frozen(repr=False)
class Picture:
    """A photograph, or a frame of a video."""

    title: str
    jpeg: bytes


@frozen
class Section:
    """A part of a report under one heading."""

    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    pictures: tuple[Picture, ...] = ()
    transcripts: tuple[Transcript, ...] = ()
    """The most telling first: a page that has no room for all leaves out the last ones."""
