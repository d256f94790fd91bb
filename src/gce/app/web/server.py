"""The application on a socket."""

from __future__ import annotations

import socket

import uvicorn

from gce.app.terminal import put
from gce.app.web.application import application
from gce.app.web.settings import WebSettings
from gce.errors import BadInput

__all__ = ["serve"]


def serve(settings: WebSettings) -> None:
    """Serve until it is interrupted. BadInput where the address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=128)
    except OSError as error:
        where = f"{settings.host} port {settings.port}"
        raise BadInput(f"cannot listen on {where}: {error.strerror or error}", hint="give another {port}") from error
    settings.folder.mkdir(exist_ok=True)
    # asyncio leaves it to sockets that name their protocol: without it, answers on a kept connection wait 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    app = application(settings)
    app.state.launcher.jobs.hold()
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=3,
        limit_concurrency=512,
        proxy_headers=False,
        h11_max_incomplete_event_size=32_768,
    )
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    put(f"serving {settings.folder} at http://{host}:{listening.getsockname()[1]} (Ctrl-C ends it)")
    uvicorn.Server(config).run(sockets=[listening])
