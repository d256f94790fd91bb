"""The table of endpoints, and the document that is made from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from starlette.routing import Route

from gce.app.web.api import jobs, problems, simulations, stored
from gce.app.web.api.endpoints import Endpoint, Given, document, route
from gce.app.web.api.problems import offered_of
from gce.app.web.api.schemas import train_settings_schema
from gce.app.web.asks import Offered

__all__ = ["ENDPOINTS", "ROUTES"]


async def _document(given: Given) -> Any:
    return _whole(offered_of(given.request))


ENDPOINTS: Sequence[Endpoint] = (
    *problems.ENDPOINTS,
    *stored.ENDPOINTS,
    *jobs.ENDPOINTS,
    *simulations.ENDPOINTS,
    Endpoint(path="/api/v1/openapi.json", handle=_document, help="This document"),
)
ROUTES: Sequence[Route] = tuple(map(route, ENDPOINTS))


@cache
def _whole(offered: Offered) -> dict[str, Any]:
    models = ("", *offered.models)
    return document(ENDPOINTS, {"task": offered.tasks, "model": models}, train_settings_schema(offered))
