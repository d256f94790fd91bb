"""An application on a socket."""

from __future__ import annotations

import gc
import socket
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp

from gce.app.terminal import put
from gce.app.web.address import Address
from gce.app.web.application import application
from gce.app.web.protocol import MOST_OF_A_HEAD, LimitedProtocol
from gce.app.web.settings import WebSettings
from gce.app.wiring.installation import lacking
from gce.errors import BadInput

__all__ = ["listen", "run", "serve"]


def serve(settings: WebSettings) -> None:
    """Serve until it is interrupted. BadInput where the address cannot be had."""
    listening = listen(settings.address)
    settings.folder.mkdir(exist_ok=True)
    app = application(settings)
    app.state.launcher.jobs.hold()
    if lacks := lacking():
        put(lacks, error=True)
    run(app, listening, settings.address, f"serving {settings.folder}")


def listen(address: Address) -> socket.socket:
    """Return a socket that listens there; BadInput where the address cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family, backlog=128)
    except OSError as error:
        where = f"{address.host} port {address.port}"
        raise BadInput(f"cannot listen on {where}: {error.strerror or error}", hint="give another {port}") from error
    # asyncio leaves it to sockets that name their protocol: without it, answers on a kept connection wait 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def run(app: ASGIApp, listening: socket.socket, address: Address, what: str) -> None:
    """Serve an application until Ctrl-C or SIGTERM, the ways to end it; `what` is said of it."""
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=3,
        limit_concurrency=512,
        proxy_headers=False,
        http=LimitedProtocol,
        h11_max_incomplete_event_size=MOST_OF_A_HEAD,
    )
    host = f"[{address.host}]" if ":" in address.host else address.host
    put(f"{what} at http://{host}:{listening.getsockname()[1]} (Ctrl-C ends it)")
    # What is loaded by now stays: collections need not look at it. They are rare, as pages leave few cycles behind.
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    with suppress(KeyboardInterrupt):  # uvicorn sends the signal again after it has closed everything.
        uvicorn.Server(config).run(sockets=[listening])
