"""Reports of runs and studies for pages, with their figures as pictures and as data."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from attrs import frozen
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gce.app.reports.contents import sections_of_run
from gce.app.reports.run import ReportedRun, read_run
from gce.app.reports.section import Section
from gce.app.web.served import Served, served_of, stamp_of
from gce.app.wiring.figures import svg
from gce.app.wiring.runs import open_run
from gce.domain.figures import Figure

__all__ = ["RunReport", "figure_key", "figure_response", "report_of", "reported_of"]

PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Of a picture, which holds its own style and nothing that runs."""
INK = "<style>svg{color:#1a1a1a}@media(prefers-color-scheme:dark){svg{color:#e8e8e8}}</style>"
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9.,]+( .*)?")
_DRAWING = threading.Lock()
"""matplotlib's settings are the same for all threads."""


@frozen
class RunReport:
    """A run as reports have it, without its answers."""

    run: ReportedRun
    sections: Sequence[Section]


def report_of(served: Served, path: Path) -> RunReport:
    """The report of a run, made anew only where something was written."""

    def make() -> RunReport:
        with open_run(path, verify=False) as run:
            found = read_run(run, served.name_of(path), sampled=False)
        return RunReport(found, list(sections_of_run(found, answers=False)))

    return served.kept(("report", path), stamp_of(path), make)


def reported_of(served: Served, path: Path) -> ReportedRun:
    """What a report needs of a run."""
    return report_of(served, path).run


def figure_key(figure: Figure) -> str:
    """What a figure is called in addresses: whatever its name holds, plain letters."""
    return sha256(figure.name.encode("utf-8", "replace")).hexdigest()[:12]


def figure_response(request: Request, sections: Iterable[Section]) -> Response:
    """The figure that the address names, as SVG or its data as CSV; 404 where there is none."""
    name, _, kind = request.path_params["figure"].partition(".")
    figures = {figure_key(figure): figure for section in sections for figure in section.figures}
    if name not in figures or kind not in ("svg", "csv"):
        raise HTTPException(404)
    return picture(request, figures[name]) if kind == "svg" else data(figures[name])


def picture(request: Request, figure: Figure) -> Response:
    """A figure as an SVG file, in the colours that the reader prefers."""

    def draw() -> str:
        with _DRAWING:
            return svg(figure).replace(">", f">{INK}", 1)

    digest = sha256(repr(figure).encode("utf-8", "replace")).hexdigest()
    drawn = served_of(request).kept(("picture", digest), None, draw)
    return Response(drawn, media_type="image/svg+xml", headers={"content-security-policy": PICTURE_POLICY})


def data(figure: Figure) -> Response:
    """The data of a figure as CSV, in which no cell is a formula."""
    out = io.StringIO()
    rows = csv.writer(out)
    for row in (figure.table.head, *figure.table.rows):
        rows.writerow([_plain(cell) for cell in row])
    headers = {"content-disposition": f'attachment; filename="{figure_key(figure)}.csv"'}
    return Response(out.getvalue(), media_type="text/csv", headers=headers)


def _plain(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell
