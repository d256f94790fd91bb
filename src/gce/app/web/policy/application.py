"""A model behind OpenAI's chat format, whose adapter clients exchange while it runs.

    GET  /health
    GET  /v1/models
    POST /v1/chat/completions
    POST /v1/load_lora_adapter
    POST /v1/unload_lora_adapter

The reply's `model` and `system_fingerprint` tell whose weights wrote it. Knows nothing of sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from attrs import evolve
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gce.app.terminal import put
from gce.app.web.address import Address
from gce.app.web.policy.adapters import OtherWeights, Policy, UnknownModel
from gce.app.web.policy.batches import Batches, IncompleteBatch
from gce.app.web.policy.formats import adapter_of, asked_of, name_of, reply_of
from gce.app.web.safety import LIMITS, Keys, Safety
from gce.errors import BadInput, GceError
from gce.ports.model import Continuing

__all__ = ["ADAPTER_BYTES", "policy_application"]

ADAPTER_BYTES = 1 << 28
"""Maximum size of a body that brings an adapter."""


def policy_application(
    make: Callable[[], Policy], address: Address, *, adapters: Path | None = None, most: int = ADAPTER_BYTES
) -> Starlette:
    """The application. `make` loads the model; `adapters` holds those that clients may name by their path."""
    batches = Batches(make)
    limits = evolve(LIMITS, body=most, seconds_of_a_body=60.0, rate=2000.0, burst=4000.0)
    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/v1/models", _models),
            Route("/v1/chat/completions", _chat, methods=["POST"]),
            Route("/v1/load_lora_adapter", _load, methods=["POST"]),
            Route("/v1/unload_lora_adapter", _unload, methods=["POST"]),
        ],
        middleware=[Middleware(Safety, address=address, keys=Keys(address.token), refuse=_refused, limits=limits)],
        lifespan=_sampling,
        exception_handlers={
            HTTPException: _http_error,
            BadInput: _bad_input,
            UnknownModel: _unknown,
            IncompleteBatch: _incomplete,
            GceError: _failed,
            Exception: _failed,
        },
    )
    app.state.batches, app.state.adapters = batches, adapters
    return app


@asynccontextmanager
async def _sampling(app: Starlette) -> AsyncIterator[None]:
    batches: Batches = app.state.batches
    running = asyncio.create_task(batches.run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        batches.close()


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _models(request: Request) -> Response:
    policy: Policy = request.app.state.batches.policy
    context = policy.model.info().context
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "gce", "fingerprint": identity}
        | {"root": policy.name, "parent": None if name == policy.name else policy.name, "max_model_len": context}
        for name, identity in policy.models().items()
    ]
    return JSONResponse({"object": "list", "data": data})


async def _chat(request: Request) -> Response:
    batches: Batches = request.app.state.batches
    content = await request.body()
    if len(content) > LIMITS.body:
        return _error(413)
    asked, body = asked_of(content, batches.policy.name)
    found = await batches.ask(asked)
    for each in found:
        if each.finish_reason == "context":  # The words by which clients know it.
            return _error(400, f"maximum context length exceeded: {each.error}")
        if each.finish_reason == "error":
            return _error(500, each.error)
    model: Any = batches.policy.model
    text_of = model.text_of if isinstance(model, Continuing) else lambda _tokens: ""
    return JSONResponse(await asyncio.to_thread(reply_of, asked, body, found, text_of))


async def _load(request: Request) -> Response:
    batches: Batches = request.app.state.batches
    name, body = name_of(await request.body())
    state = await asyncio.to_thread(adapter_of, body, request.app.state.adapters)
    try:
        identity = await batches.call(partial(batches.policy.load, name, state))
    except OtherWeights:
        return _error(409, f"other weights are loaded as {name}: unload them, or give another lora_name")
    put(f"loaded adapter {name}: {identity[:12]}")
    base = batches.policy.models()[batches.policy.name]
    return JSONResponse({"id": name, "object": "model", "fingerprint": identity, "base": base})


async def _unload(request: Request) -> Response:
    batches: Batches = request.app.state.batches
    name, _ = name_of(await request.body())
    await batches.call(partial(batches.policy.unload, name))
    return JSONResponse({"id": name, "object": "model", "deleted": True})


def _error(status: int, message: str = "") -> Response:
    phrase = HTTPStatus(status).phrase
    return JSONResponse({"error": {"message": message or phrase, "type": phrase, "code": status}}, status)


def _refused(_request: Request, status: int) -> Response:
    return _error(status)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code)


async def _bad_input(_request: Request, error: Exception) -> Response:
    return _error(400, str(error))


async def _unknown(_request: Request, error: Exception) -> Response:
    return _error(404, f"the model {str(error)[:128]!r} does not exist")


async def _incomplete(_request: Request, _raised: Exception) -> Response:
    return _error(503, "other requests of the batch did not come: ask for the whole batch again")


async def _failed(request: Request, error: Exception) -> Response:
    put(f"{request.method} {request.url.path}: {type(error).__name__}: {str(error)[:300]}", error=True)
    return _error(500)
