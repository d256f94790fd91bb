"""The interface of ISOPro: its health check, and its simulation of reasoning, in its envelope."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import UTC, datetime
from typing import Any, ClassVar

from attrs import NOTHING, asdict, frozen
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gce.app.options import Choice
from gce.app.settings.fields import setting
from gce.app.web.api.endpoints import Endpoint, Given, plain_response
from gce.app.web.api.jobs import jobs_of, launcher_of
from gce.app.web.asks import Reason
from gce.app.web.desk import Busy

__all__ = ["ENDPOINTS"]

SECONDS = 120.0
"""That a client waits for a reply; the job is cancelled then."""


@frozen(kw_only=True)
class Simulate(Reason):
    """The same, with the type of simulation."""

    section: ClassVar = ""
    type: str = setting(NOTHING, Choice(("reason",)), "type of simulation")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


async def _health(_: Given) -> Any:
    return {"status": "ok", "timestamp": _now()}


async def _reason(given: Given) -> Any:
    asked = Reason(**{name: value for name, value in asdict(given.asked).items() if name != "type"})
    jobs = jobs_of(given.request)
    job = await asyncio.to_thread(launcher_of(given.request).reason, asked)
    try:
        async with asyncio.timeout(SECONDS):
            while not jobs.status(job).is_over:
                if await given.request.is_disconnected():
                    raise Busy
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise Busy from error
    finally:
        jobs.cancel(job.id)
    if jobs.status(job).state != "done":
        raise HTTPException(500)
    said = {"model": asked.model, "prompt": asked.prompt, "context": asked.context}
    metadata = {"simulation_type": "reason", "timestamp": _now(), **said}
    return {"run_id": str(uuid.uuid4()), "output": json.loads(jobs.output(job))["text"], "metadata": metadata}


def _refused(status: int, detail: str, fields: Any) -> Response:
    """ISOPro's errors: one field, and 400 for all that the client can mend."""
    words = "; ".join(f"{name}: expected {expected}" for name, expected in fields.items())
    text = words or detail or {500: "The model gave no reply."}.get(status, "It cannot be done.")
    return plain_response({"error": text}, 400 if status in (415, 422) else status)


_ENVELOPE = {
    "type": "object",
    "required": ["run_id", "output", "metadata"],
    "properties": {
        "run_id": {"type": "string", "format": "uuid"},
        "output": {"type": "string"},
        "metadata": {"type": "object", "required": ["simulation_type", "timestamp"]},
    },
}
_SIMULATE: dict[str, Any] = {
    **{"method": "POST", "handle": _reason, "gives": _ENVELOPE, "errors": (500, 503), "refuses": _refused},
}
ENDPOINTS = (
    Endpoint(path="/healthcheck", handle=_health, help="Whether the server is there"),
    Endpoint(path="/simulate", help="Simulate, by type", body=Simulate, **_SIMULATE),
    Endpoint(path="/simulate/reason", help="Let a model reason about a prompt", body=Reason, **_SIMULATE),
)
