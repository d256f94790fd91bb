"""A connection to a JSON-over-HTTP server, and a bridge from asynchronous work to a synchronous iterator.

Responses are bounded in time and size, and the API key is removed from them. Independent of models and request formats.
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

from gce.adapters.models.servers.json_bodies import body_of
from gce.adapters.models.servers.redaction import Redaction
from gce.adapters.models.taking import taken
from gce.errors import MissingExtra, ModelError, one_line

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
"""Maximum size of one response's body."""
MOST_WORDS = 300
"""Maximum characters of a server's message that an error repeats."""
CONNECT_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_ASKED_PAUSE = 0.5, 30.0, 60.0
_FIRST_LIMITED_PAUSE = 30.0
"""Rates count by the minute: sooner retries would only be refused again."""


@frozen
class HttpAnswer:
    """A server's response, without the API key."""

    status: int
    pause: float
    """Seconds that the server asks to wait."""
    body: Any
    """See `body_of`."""


class FailedError(Exception):
    """No response, or none that can be read; a retry may succeed."""

    def __init__(self, words: str, *, pause: float = 0.0, sent: bool = True, limited: bool = False) -> None:
        super().__init__(words)
        self.pause = pause
        self.limited = limited
        """Whether the server, or what it grants this account, is exhausted for now."""
        self.sent = sent
        """False if the request certainly did not reach a server."""


class Connection:
    """A server at `url`, with its API key, and the maximum seconds that a response may take."""

    def __init__(self, url: str, key: str, *, headers: Callable[[str], dict[str, str]], timeout: float) -> None:
        """`headers` are those that carry the key. Does not connect yet; ModelError if no header can carry the key."""
        self.url = url
        self._headers = _all_headers(key, headers)
        self._redaction = Redaction(key)
        self._timeout = timeout

    def client(self) -> Client:
        """Return an HTTP client that follows no redirects, because the key is meant for one server.

        Proxies from the environment are not used for loopback addresses.

        Raises:
            ModelError: the environment's settings of proxies or certificates cannot be used.
        """
        server = urlsplit(self.url)
        try:
            return Client(
                headers=self._headers,
                timeout=httpx2.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS)),
                limits=httpx2.Limits(max_connections=None),
                verify=server.scheme == "https" and _tls(),  # Without TLS there is nothing to verify.
                trust_env=server.hostname not in _LOOPBACK,
            )
        except (ImportError, ValueError, OSError) as exc:
            raise ModelError(
                "cannot connect with the proxies and certificates of the environment (HTTPS_PROXY, SSL_CERT_FILE, "
                f"...): {one_line(exc, MOST_WORDS)}"
            ) from exc

    async def exchange(
        self, client: Client, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> HttpAnswer:
        """Send a request and return the response. All of a server's text passes here, and the key is removed from it.

        Raises:
            FailedError: the connection failed, or the response took too long or is too large.
        """
        sent = None if body is None else json.dumps(body).encode()
        received = bytearray()
        failure, reached = "", True
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
            reached = not isinstance(exc, httpx2.ConnectError)
            failure = f"{type(exc).__name__}: {one_line(self._redaction.text(str(exc)), MOST_WORDS)}"
        if failure:  # Raised here, because a chained error of the library may repeat text as the server wrote it.
            raise FailedError(failure, sent=reached)
        asked = _seconds(response.headers.get("retry-after", ""))
        return HttpAnswer(response.status_code, asked, body_of(bytes(received), self._redaction))


def split_url(url: str) -> tuple[str, str]:
    """Split a URL into the server's part and the model's name."""
    shown = "" if "@" in url or "?" in url else f", got {url!r}"  # The unwanted parts may hold a secret.
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


class _Hidden(httpx2.Headers):
    """Headers whose repr hides them, as the key may be in any."""

    def __repr__(self) -> str:
        return "Headers(...)"


def _all_headers(key: str, headers: Callable[[str], dict[str, str]]) -> httpx2.Headers:
    """Return the headers of each request."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelError("expected a key of printable ASCII characters without spaces")
    plain = {"Accept-Encoding": "identity", "Content-Type": "application/json", "User-Agent": "gce"}
    return _Hidden({**plain, **headers(key)})


@functools.cache
def _tls() -> ssl.SSLContext:
    """Return the trusted certificates; reading them takes a tenth of a second."""
    return httpx2.create_ssl_context()


def _seconds(retry_after: str) -> float:
    """Return the seconds that `Retry-After` asks for; 0 if it is a date or empty."""
    return (
        min(float(retry_after), _LONGEST_ASKED_PAUSE)
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", retry_after)
        else 0.0
    )


def pause_before(error: FailedError, seed: int, failures: int) -> float:
    """Return the seconds before a retry: those asked for, and at least an exponential backoff.

    It has a jitter of up to half, seeded by both numbers. After a limit, it is from 15 to 60 seconds if the server does
    not say how long.
    """
    if error.limited and not error.pause:
        first, most = _FIRST_LIMITED_PAUSE, _LONGEST_ASKED_PAUSE
    else:
        first, most = _FIRST_PAUSE, _LONGEST_PAUSE
    longest = min(first * 2.0 ** (failures - 1), most)
    return max(error.pause, longest * random.Random(f"{seed} {failures}").uniform(0.5, 1.0))


def from_thread(work: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]) -> Iterator[T]:
    """Yield what `work` puts. It runs in its own thread until it is done or the iterator is closed.

    The interpreter's exit also cancels it, so that it does not wait for a server.
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
        with suppress(RuntimeError):  # The loop is closed, or this is its thread: nothing to wait for.
            loop.call_soon_threadsafe(task.cancel)
            thread.join()

    thread = Thread(target=run, name="gce-http", daemon=True)
    thread.start()
    atexit.register(stop)
    try:
        yield from taken(found, end)
    finally:
        atexit.unregister(stop)
        stop()
