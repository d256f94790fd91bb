"""A server of OpenAI's chat format on this machine that answers by rule, and can be told to misbehave.

    with ChatServer(faults=[500, "drop"]) as server:
        model = load_http_model(f"{server.url}#toy")

What it says follows from prompt, seed and place of the choice alone. `faults` are what the first answers are instead:

    a number             an error of this status
    (number, headers)    the same with headers
    bytes                these, with status 200
    a bytearray          these and nothing else, in place of status line, headers and body
    (number, bytes)      these, with this status
    a word               one of `FAULTS`
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["FAULTS", "ChatServer"]

FAULTS = ("cut", "drip", "drop", "endless", "garbage", "half", "stall")
"""A body that ends before its length; one without end, byte by byte; no answer; one without end, at full speed; no
JSON; half of a JSON; silence."""

WORDS = ("so", "then", "job", "ends", "starts", "after", "before", "now")


class ChatServer:
    """Listens between `with` and its end."""

    def __init__(
        self,
        *,
        faults: Iterable[Any] = (),
        always: Any = None,
        choices: int | None = None,
        refuses: Iterable[str] = (),
        stops: bool = True,
        key: str | None = None,
        context: int = 1000,
        at_once: int = 1,
        message: Mapping[str, Any] | None = None,
        choice: Mapping[str, Any] | None = None,
        usage: Mapping[str, Any] | None = None,
        models: Iterable[str] = ("toy", "other"),
    ) -> None:
        """A server in good order, but for what is said here.

        Args:
            faults: what the first answers are instead, one after another.
            always: what every answer after them is instead.
            choices: how many it gives at most.
            refuses: fields that it answers with status 400.
            stops: whether it looks for stop strings.
            key: without it in the header, status 401, which repeats what was sent.
            context: words of the longest prompt.
            at_once: answers wait until so many are asked for at a time; after ten seconds they are errors.
            message: what a choice's message has besides.
            choice: what a choice has besides.
            usage: instead of the true one.
            models: those it says it has.
        """
        self.bodies: list[dict[str, Any]] = []
        """What was asked, in the order in which it came."""
        self.most_at_once = 0
        self.errors: list[BaseException] = []
        self._faults, self._always = list(faults), always
        self._choices, self._refuses, self._stops = choices, frozenset(refuses), stops
        self._key, self._context = key, context
        self._message, self._choice, self._usage = message or {}, choice or {}, usage
        self._models = tuple(models)
        self._now = 0
        self._lock = threading.Lock()
        self._gate = threading.Barrier(at_once, timeout=10)
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._server.errors = self.errors
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        assert not self.errors, self.errors

    def answer(self, http: BaseHTTPRequestHandler, body: dict[str, Any], *, anthropic: bool = False) -> None:
        with self._lock:
            self.bodies.append(body)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            fault = self._faults.pop(0) if self._faults else self._always
        try:
            self._gate.wait()
            if fault is not None:
                self._misbehave(http, fault)
            elif anthropic:
                _send(http, *self._in_anthropics_format(http.headers, body))
            else:
                _send(http, *self._chat(http.headers.get("Authorization", ""), body))
        finally:
            with self._lock:
                self._now -= 1

    def models(self) -> bytes:
        return json.dumps({"object": "list", "data": [{"id": name} for name in self._models]}).encode()

    def _chat(self, authorization: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        if self._key is not None and authorization != f"Bearer {self._key}":
            return 401, _error(f"incorrect key: {authorization}")
        if refused := self._refuses & body.keys():
            return 400, _error(f"unknown fields: {sorted(refused)}")
        prompt = json.dumps(body["messages"])
        count = len(prompt.split())
        if count > self._context:
            return 400, _error(f"the request exceeds the available context size ({self._context} tokens)")
        written = [self._write(prompt, body, place) for place in range(min(body.get("n", 1), self._choices or 999))]
        usage = {"prompt_tokens": count, "completion_tokens": sum(len(choice.pop("words")) for choice in written)}
        # Clients may not count on the order, so it is the wrong one.
        return 200, json.dumps({"choices": written[::-1], "usage": self._usage or usage}).encode()

    def _in_anthropics_format(self, headers: Any, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """As `_chat`, in Anthropic's format."""
        if headers.get("anthropic-version") is None or "max_tokens" not in body:
            return 400, _error("expected a version and max_tokens")
        if self._key is not None and headers.get("x-api-key") != self._key:
            return 401, _error(f"invalid x-api-key: {headers.get('x-api-key')}")
        if any(message["role"] == "system" for message in body["messages"]):
            return 400, _error("messages: unexpected role system")
        spoken = {**body, "messages": [body.get("system", ""), *body["messages"]], "stop": body.get("stop_sequences")}
        status, content = self._chat(
            f"Bearer {self._key}", {name: value for name, value in spoken.items() if value is not None}
        )
        if status != 200:
            return status, content
        found = json.loads(content)
        (choice,), usage = found["choices"], found["usage"]
        thought = [{"type": "thinking", "thinking": each} for each in [choice["message"].get("reasoning")] if each]
        reason = {"stop": "end_turn", "length": "max_tokens"}.get(choice["finish_reason"], choice["finish_reason"])
        blocks = [*thought, {"type": "text", "text": choice["message"]["content"]}]
        counts = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
        plain = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": reason, "usage": counts}
        return 200, json.dumps(plain).encode()

    def _write(self, prompt: str, body: Mapping[str, Any], place: int) -> dict[str, Any]:
        most = body.get("max_tokens") or body["max_completion_tokens"]
        seed = body.get("seed", 0) + place if body.get("temperature", 1) else 0
        drawn = hashlib.sha256(f"{prompt} {seed}".encode()).digest()
        words = [WORDS[byte % len(WORDS)] for byte in drawn[: 4 + drawn[0] % 12]]
        cut = len(words) > most
        words = words[:most]
        text = " ".join(words)
        if self._stops:
            text = text[: min((text.index(end) for end in body.get("stop", ()) if end in text), default=None)]
        choice: dict[str, Any] = {
            "index": place,
            "words": words,
            "message": {"role": "assistant", "content": text, **self._message},
            "finish_reason": "length" if cut else "stop",
        }
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": word, "logprob": -len(word) / 8} for word in words]}
        return {**choice, **self._choice}

    def _misbehave(self, http: BaseHTTPRequestHandler, fault: Any) -> None:
        whole = json.dumps({"choices": [{"message": {"content": "never"}, "finish_reason": "stop"}]}).encode()
        match fault:
            case int(status):
                _send(http, status, _error("not now"))
            case (status, bytes(content)):
                _send(http, status, content)
            case (status, headers):
                _send(http, status, _error("not now"), headers)
            case bytearray():
                http.close_connection = True
                http.wfile.write(fault)
            case bytes(content):
                _send(http, 200, content)
            case "drop":
                http.close_connection = True
                http.connection.shutdown(socket.SHUT_RDWR)
            case "stall":
                http.close_connection = True
                self._closing.wait(30)
            case "garbage":
                _send(http, 200, b"\xff\x00<html>\x1b[31m")
            case "half":
                _send(http, 200, whole[: len(whole) // 2])
            case "cut":
                http.close_connection = True
                _send(http, 200, whole[:-9], {"Content-Length": str(len(whole))})
            case "endless" | "drip":
                http.close_connection = True
                _send(http, 200, b'{"choices": [', {"Content-Length": str(1 << 40)})
                part, pause = (b" " * (1 << 16), 0.0) if fault == "endless" else (b" ", 0.02)
                while not self._closing.wait(pause):
                    http.wfile.write(part)
            case _:
                raise ValueError(f"expected a fault, got {fault!r}")


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64
    errors: list[BaseException]

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):  # Clients may leave when they like.
            self.errors.append(error)


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            found = self.path == "/v1/models"
            _send(self, 200 if found else 404, server.models() if found else _error("no such path"))

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                raise ConnectionResetError("the client left before it had asked")
            if self.path in ("/v1/chat/completions", "/v1/messages"):
                server.answer(self, json.loads(body), anthropic=self.path == "/v1/messages")
            else:
                _send(self, 404, _error("no such path"))

        def log_message(self, *_args: object) -> None:
            pass

    return Handler


def _send(http: BaseHTTPRequestHandler, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
    http.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
        http.send_header(name, value)
    http.end_headers()
    http.wfile.write(content)


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message}}).encode()
