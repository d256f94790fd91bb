"""Studies with the effects of their conditions, and runs about beliefs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gce.app.reports.section import Section
from gce.app.reports.studies import study_sections
from gce.app.web.overview import lately
from gce.app.web.reading import figure_key, figure_response
from gce.app.web.rendering import page
from gce.app.web.served import Served, served_of, stamp_of
from gce.app.wiring.figures import can_draw
from gce.app.wiring.runs import runs_of
from gce.errors import BadInput

__all__ = ["ROUTES"]


def studies(request: Request) -> Response:
    """All studies, and all runs about beliefs."""
    served = served_of(request)
    runs = served.runs().values()
    found = [
        (id_, served.name_of(path), sum(run.is_relative_to(path) for run in runs))
        for id_, path in served.studies().items()
    ]
    beliefs = [run for run in lately(served) if run.task.startswith("beliefs")]
    return page(request, "studies.html", studies=found, beliefs=beliefs)


def study(request: Request) -> Response:
    """The effects of a study's conditions."""
    path = _path(request)
    return page(
        request,
        "study.html",
        name=served_of(request).name_of(path),
        sections=_sections(served_of(request), path),
        figure_key=figure_key,
        can_draw=can_draw(),
    )


def figure(request: Request) -> Response:
    """A figure of a study."""
    return figure_response(request, _sections(served_of(request), _path(request)))


def _path(request: Request) -> Path:
    found = served_of(request).studies().get(request.path_params["study"])
    if found is None:
        raise HTTPException(404)
    return found


def _sections(served: Served, path: Path) -> Sequence[Section]:
    stamps = tuple(stamp_of(run) for run in served.runs().values() if run.is_relative_to(path))

    def make() -> list[Section]:
        try:
            return study_sections(runs_of(str(path)), str(path), verify=False)
        except BadInput:
            return [Section("Effects", ("No run of a known condition has finished yet.",))]

    return served.kept(("study", path), stamps, make)


ROUTES = (
    Route("/studies", studies),
    Route("/studies/{study}", study),
    Route("/studies/{study}/figures/{figure}", figure),
)
