"""A connection to a server that answers HTTP requests with JSON, and how asynchronous work is waited for.

Answers are bounded in time and size, and read without the key. Knows no model and no format of requests.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import json
import random
import re
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

from attrs import frozen

from gce.adapters.models.servers.chat_format import body_of, one_line
from gce.adapters.models.servers.redaction import Redaction
from gce.errors import MissingExtra, ModelError

try:
    import httpx2
except ImportError as exc:
    raise MissingExtra("httpx2", "http") from exc

__all__ = [
    "CONNECT_SECONDS",
    "FORM",
    "MOST_WORDS",
    "Client",
    "Connection",
    "FailedError",
    "HttpAnswer",
    "from_thread",
    "pause_before",
    "split_url",
]

Client = httpx2.AsyncClient
T = TypeVar("T")

FORM = "http://HOST:PORT/v1#MODEL"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_MOST_BYTES = 1 << 25
"""Of one answer's body."""
MOST_WORDS = 300
"""Characters of what a server said that a message repeats."""
CONNECT_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_ASKED_PAUSE = 0.5, 30.0, 60.0


@frozen
class HttpAnswer:
    """What a server answered, without the key."""

    status: int
    pause: float
    """Seconds that it asks to wait for."""
    body: Any
    """See `body_of`."""


class FailedError(Exception):
    """No answer, or none that can be read; another try may do better."""

    def __init__(self, words: str, *, pause: float = 0.0) -> None:
        super().__init__(words)
        self.pause = pause


class Connection:
    """A server at `url`, the key that it is sent, and how many seconds an answer may take."""

    def __init__(self, url: str, key: str, *, timeout: float) -> None:
        """Connects to nothing yet. Raises ModelError for a key that no header can carry."""
        self.url = url
        self._headers = _headers(key)
        self._redaction = Redaction(key)
        self._timeout = timeout

    def client(self) -> Client:
        """Follows no redirect, for the key is meant for one server. Proxies of the environment do not serve loopback.

        Raises:
            ModelError: what the environment says of proxies or certificates cannot be used.
        """
        server = urlsplit(self.url)
        try:
            return Client(
                headers=self._headers,
                timeout=httpx2.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS)),
                limits=httpx2.Limits(max_connections=None),
                verify=server.scheme == "https" and _tls(),  # Without TLS there is nothing to trust.
                trust_env=server.hostname not in _LOOPBACK,
            )
        except (ImportError, ValueError, OSError) as exc:
            raise ModelError(
                "cannot connect with the proxies and certificates of the environment (HTTPS_PROXY, SSL_CERT_FILE, "
                f"...): {one_line(str(exc))[:MOST_WORDS]}"
            ) from exc

    async def exchange(
        self, client: Client, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> HttpAnswer:
        """What the server answered. All that it says passes here, and is without the key from here on.

        Raises:
            FailedError: the connection was not made or broke, or the answer took too long or is too large.
        """
        sent = None if body is None else json.dumps(body).encode()
        received = bytearray()
        failure = ""
        try:
            async with asyncio.timeout(self._timeout), client.stream(method, self.url + path, content=sent) as response:
                async for part in response.aiter_bytes():
                    received += part
                    if len(received) > _MOST_BYTES:
                        failure = f"an answer of more than {_MOST_BYTES} bytes"
                        break
        except (TimeoutError, httpx2.TimeoutException):
            failure = f"no whole answer within {self._timeout:g} seconds"
        except httpx2.HTTPError as exc:
            failure = f"{type(exc).__name__}: {one_line(self._redaction.text(str(exc)))[:MOST_WORDS]}"
        if failure:  # Raised here and not there, for the errors of the library repeat lines as the server wrote them.
            raise FailedError(failure)
        asked = _seconds(response.headers.get("retry-after", ""))
        return HttpAnswer(response.status_code, asked, body_of(bytes(received), self._redaction))


def split_url(url: str) -> tuple[str, str]:
    """The server's part of a URL and the model's."""
    shown = "" if "@" in url or "?" in url else f", got {url!r}"  # What it is not to have may be a secret.
    wrong = ModelError(f"expected a URL of the form {FORM}, without user, password and query{shown}")
    try:
        parts = urlsplit(url)
        base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        sound = parts.scheme in ("http", "https") and parts.hostname and httpx2.URL(base).host and parts.port != 0
    except (ValueError, httpx2.InvalidURL) as exc:
        raise wrong from exc
    if not sound or "@" in parts.netloc or parts.query:
        raise wrong
    return base, parts.fragment


def _headers(key: str) -> httpx2.Headers:
    """What is sent with each request; its repr hides the key."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelError("expected a key of printable ASCII characters without spaces")
    plain = {"Accept-Encoding": "identity", "Content-Type": "application/json", "User-Agent": "gce"}
    return httpx2.Headers({**plain, "Authorization": f"Bearer {key}"} if key else plain)


@functools.cache
def _tls() -> ssl.SSLContext:
    """The certificates that are trusted; reading them takes a tenth of a second."""
    return httpx2.create_ssl_context()


def _seconds(retry_after: str) -> float:
    """What `Retry-After` asks for; 0 where it is a date or nothing."""
    return min(float(retry_after), _LONGEST_ASKED_PAUSE) if re.fullmatch(r"[0-9]{1,9}", retry_after) else 0.0


def pause_before(asked: float, seed: int, failures: int) -> float:
    """Seconds until the next try: twice as long each time, less up to a half that request and try decide."""
    longest = min(_FIRST_PAUSE * 2.0 ** (failures - 1), _LONGEST_PAUSE)
    return max(asked, longest * random.Random(f"{seed} {failures}").uniform(0.5, 1.0))


def from_thread(work: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]) -> Iterator[T]:
    """Yield what `work` puts, which runs in a thread of its own until it is done or the iterator is closed.

    At the interpreter's exit it is cancelled too: nobody waits for a server then.
    """
    found: SimpleQueue[Any] = SimpleQueue()
    end = object()
    loop = asyncio.new_event_loop()
    task = loop.create_task(work(found.put))

    def run() -> None:
        last: object = end
        try:
            loop.run_until_complete(task)
        except BaseException as error:
            last = error
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        found.put(last)

    def stop() -> None:
        with suppress(RuntimeError):  # The loop is closed, or this is its thread: there is nothing to wait for.
            loop.call_soon_threadsafe(task.cancel)
            thread.join()

    thread = Thread(target=run, name="gce-http", daemon=True)
    thread.start()
    atexit.register(stop)
    try:
        while (item := found.get()) is not end:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        atexit.unregister(stop)
        stop()
