"""Pages from templates. Whatever a value holds is text on the page: all of it is escaped."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gce import __version__
from gce.app.progress import duration
from gce.app.web.safety import form_token
from gce.domain.text import printable

__all__ = ["NAVIGATION", "error_page", "fragment", "lines", "page"]

NAVIGATION = {
    "/": "Runs",
    "/new": "New run",
    "/jobs": "Jobs",
    "/play": "Playground",
    "/studies": "Studies and beliefs",
}
"""Links at the top of each page: by path, what is there."""
MEANINGS = {
    401: "This server asks for its token.",
    403: "The form is no longer valid, or another site sent it. Go back, reload the page and try again.",
    404: "There is no such page, run or answer.",
    413: "What was sent is too large.",
    421: "The address in the browser is not one of this server's names.",
    409: "That is not possible now: another process works on the run, or something else is in its place.",
    422: "What is stored cannot be read. The terminal of the server says why.",
    429: "Too many requests. Wait a moment and try again.",
    503: "That took too long, or too many are waiting. Try again, or run gce report in a terminal.",
    500: "Something went wrong here. The terminal of the server says what.",
}


def one_line(value: object) -> str:
    """Any value as one line that hides nothing."""
    return printable(str(value))


def lines(value: str) -> str:
    """A text of any origin with its line ends; what is not seen as itself is escaped."""
    return "\n".join(map(printable, value.split("\n")))


_TEMPLATES = Environment(
    loader=PackageLoader("gce.app.web"),
    autoescape=True,
    auto_reload=False,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {"line": one_line, "lines": lines, "duration": duration}


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A page from one of the templates."""
    values |= {
        "csrf": form_token(request),
        "navigation": NAVIGATION,
        "path": request.url.path,
        "version": __version__,
    }
    return HTMLResponse(_TEMPLATES.get_template(template).render(values), status)


def fragment(template: str, **values: Any) -> Markup:
    """A part of a page that can be kept: it depends on nothing but these values."""
    return Markup(_TEMPLATES.get_template(template).render(values))


def error_page(request: Request, status: int) -> Response:
    """What went wrong, by its number alone: no text of an exception reaches a client."""
    meaning = MEANINGS.get(status, HTTPStatus(status).phrase)
    return page(request, "error.html", status, number=status, meaning=meaning)
