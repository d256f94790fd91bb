"""Whether the server is there."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

__all__ = ["ROUTES"]


async def healthcheck(request: Request) -> Response:
    """It is."""
    return JSONResponse({"status": "ok"})


ROUTES = (Route("/healthcheck", healthcheck),)
