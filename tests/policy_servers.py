"""Servers whose adapter can be exchanged, on this machine: gce's own in a thread or a process, and imitations."""

from __future__ import annotations

import base64
import io
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from attrs import evolve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gce.adapters.models.scripted import ScriptedModel
from gce.app.web.address import Address
from gce.app.web.policy.adapters import Policy
from gce.app.web.policy.application import policy_application
from gce.app.wiring.runs import files_of_state
from gce.domain.completions import SampleRequest
from gce.domain.learning import ModelState

__all__ = ["Imitation", "PolicyProcess", "Served", "Shifted", "files_of", "own", "policy_app", "post"]


class Served:
    """An application on a port of this machine, between `with` and its end."""

    def __init__(self, app: ASGIApp, port: int = 0) -> None:
        self._socket = socket.create_server(("127.0.0.1", port))
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Served:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def own(context: int = 1 << 20) -> ScriptedModel:
    """A model that repeats what it is asked, and its seed."""

    def answer(request: SampleRequest) -> str:
        return f"{request.messages[-1].content} {request.seed % 1000 * bool(request.temperature)}"

    return ScriptedModel(answer, context=context)


class Shifted(ScriptedModel):
    """A model whose log-probabilities are off by half a nat."""

    def sample(self, requests: Any) -> Any:
        for each in super().sample(requests):
            shifted = tuple(value - 0.5 for value in each.log_probabilities or ())
            yield evolve(each, log_probabilities=shifted)


def policy_app(
    model: Any = None, *, address: Address | None = None, adapters: Path | None = None, **more: Any
) -> Starlette:
    """The application of gce serve-policy with a scripted model."""
    return policy_application(lambda: Policy(model or own(), "tiny"), address or Address(), adapters=adapters, **more)


def files_of(state: ModelState) -> dict[str, str]:
    """A state's adapter as a request brings it."""
    arrays = {name: array for name, array in state.arrays.items() if name.startswith("adapter.")}
    files = files_of_state(0, ModelState(arrays, state.settings))
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def post(url: str, body: Any, *, token: str = "") -> tuple[int, Any]:
    """The status and the body of a reply."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, content, headers), timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(io.BytesIO(error.read()))


class PolicyProcess:
    """`gce serve-policy` in a process of its own, which can be killed and started again on its port."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        command = [sys.executable, "-m", "gce", "serve-policy", "--port", str(self.port), *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("serving "), line
        self.port = int(line.split("127.0.0.1:")[1].split()[0])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Imitation:
    """A server that takes adapters as vLLM or SGLang does, and writes down what it was asked."""

    def __init__(
        self, kind: str, *, ids: bool = True, log_probabilities: bool = True, refuses: str = "", answers_as: str = ""
    ) -> None:
        """`refuses`: what it says instead of loading. `answers_as`: whose answers these are, if not who was asked."""
        self.kind = kind
        self.ids, self.log_probabilities, self.refuses, self.answers_as = ids, log_probabilities, refuses, answers_as
        self.loaded: dict[str, Mapping[str, Any]] = {}
        """The configs of the adapters, as they are in the folder."""
        self.unloaded: list[str] = []
        self.asked: list[Mapping[str, Any]] = []
        root = "" if kind == "sglang" else "/v1"
        routes: list[tuple[str, Callable[[Request], Any], str]] = [
            ("/v1/models", self._models, "GET"),
            ("/v1/chat/completions", self._chat, "POST"),
            (f"{root}/load_lora_adapter", self._load, "POST"),
            (f"{root}/unload_lora_adapter", self._unload, "POST"),
        ]
        self.app = Starlette(routes=[Route(path, work, methods=[method]) for path, work, method in routes])

    async def _models(self, _request: Request) -> Response:
        data = [{"id": "base", "owned_by": self.kind, "parent": None}]
        data += [{"id": name, "owned_by": self.kind, "parent": "base"} for name in self.loaded]
        return JSONResponse({"object": "list", "data": data[::-1]})

    async def _load(self, request: Request) -> Response:
        body = await request.json()
        if self.refuses:
            return _error(400, self.refuses)
        if body["lora_name"] in self.loaded:
            return _error(400, f"The lora adapter '{body['lora_name']}' has already been loaded.")
        folder = Path(body["lora_path"])
        assert (folder / "adapter_model.safetensors").is_file()
        self.loaded[body["lora_name"]] = json.loads((folder / "adapter_config.json").read_text())
        if self.kind == "sglang":
            return JSONResponse({"success": True, "loaded_adapters": {body["lora_name"]: body["lora_path"]}})
        return PlainTextResponse(f"Success: LoRA adapter '{body['lora_name']}' added successfully.")

    async def _unload(self, request: Request) -> Response:
        name = (await request.json())["lora_name"]
        self.unloaded.append(name)
        return PlainTextResponse("") if self.loaded.pop(name, None) else _error(404, "no such adapter")

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        name = body["model"].removeprefix("base:") if self.kind == "sglang" else body["model"]
        if name not in ("base", *self.loaded):
            said = f"Got LoRA adapter that has never been loaded: {name}, it is not loaded"
            return _error(400, said) if self.kind == "sglang" else _error(404, f"The model `{name}` does not exist.")
        choices: list[dict[str, Any]] = []
        for place in range(body.get("n", 1)):
            text = f"w{(body['seed'] + place) % 97}"
            entries = [{"token": letter, "logprob": -1.5} for letter in [*text, ""]]
            choices.append(
                {
                    "index": place,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                    **({"logprobs": {"content": entries}} if body.get("logprobs") and self.log_probabilities else {}),
                    **({"token_ids": [*map(ord, text), 0x110000]} if self.ids else {}),
                }
            )
        tokens = sum(len(choice["message"]["content"]) + 1 for choice in choices)
        usage = {"prompt_tokens": 3, "completion_tokens": tokens}
        prompt = {"prompt_token_ids": [1, 2, 3]} if self.ids else {}
        return JSONResponse({"model": self.answers_as or body["model"], "choices": choices, "usage": usage, **prompt})


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "code": status}}, status)
