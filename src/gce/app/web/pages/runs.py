"""The list of runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gce.app.web.rendering import page

__all__ = ["ROUTES"]


async def runs(request: Request) -> Response:
    """All runs of the folder."""
    return page(request, "runs.html", runs=request.app.state.served.runs())


ROUTES = (Route("/", runs),)
