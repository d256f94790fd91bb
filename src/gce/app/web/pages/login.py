"""The page that asks for the server's token."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gce.app.web.rendering import page
from gce.app.web.safety import SESSION, Keys

__all__ = ["ROUTES", "form"]


def form(request: Request, *, refused: bool = False) -> Response:
    """Ask for the token."""
    return page(request, "login.html", 401, refused=refused)


async def login(request: Request) -> Response:
    """Take the token, and give a cookie for it."""
    keys: Keys = request.state.keys
    if request.method == "GET":
        return form(request)
    given = request.state.form.get("token", "")
    if not isinstance(given, str) or not keys.opens(given):
        return form(request, refused=True)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(SESSION, keys.sign(SESSION), httponly=True, samesite="strict")
    return answer


ROUTES = (Route("/login", login, methods=["GET", "POST"]),)
