"""Server-sent events: what has changed, as long as a page is open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

__all__ = ["stream"]

SECONDS = 1.0
MOST_SECONDS = 3600.0
"""A browser asks again where a stream ends before its time."""


def stream(request: Request, look: Callable[[], tuple[Mapping[str, Any], bool]]) -> StreamingResponse:
    """A stream of what `look` finds, each part as an event as soon as it changes; it ends when `look` says so.

    `look` runs in a thread, about once a second, and returns plain data by the event's name.
    """

    async def events() -> AsyncIterator[str]:
        sent: dict[str, str] = {}
        for _ in range(int(MOST_SECONDS / SECONDS)):
            found, over = await asyncio.to_thread(look)
            written = {name: json.dumps(data) for name, data in found.items()}
            new = [f"event: {name}\ndata: {text}\n\n" for name, text in written.items() if sent.get(name) != text]
            sent = written
            yield "".join(new) or ": \n\n"
            if over:
                yield "event: over\ndata: {}\n\n"
                return
            if await request.is_disconnected():
                return
            await asyncio.sleep(SECONDS)

    return StreamingResponse(events(), media_type="text/event-stream")
