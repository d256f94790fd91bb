"""A model behind a server that speaks OpenAI's chat format: Ollama, llama.cpp, vLLM, LM Studio, mlx_lm.server.

Requests that differ in key and seed alone are asked as choices of one answer, where the server gives several. What a
server refuses it is not asked for again. Answers are bounded in time and size, and what is no answer is asked for
again. What a server says is read without the key. Knows no tokens and no weights, and learns nothing. The format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import hashlib
import json
import os
import random
import re
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, combinations
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

from attrs import frozen

from gce.adapters.chat_format import (
    ENDS,
    Choice,
    NotAReplyError,
    Reply,
    body_of,
    fault_of,
    one_line,
    read_reply,
    what_is_told,
)
from gce.adapters.redaction import Redaction
from gce.adapters.requests import all_different, cut_before
from gce.domain.types import Completion, SampleRequest
from gce.errors import MissingExtra, ModelError

try:
    import httpx2
except ImportError as exc:
    raise MissingExtra("httpx2", "http") from exc

__all__ = ["HttpModel", "Usage", "load_http_model"]

T = TypeVar("T")

_FORM = "http://HOST:PORT/v1#MODEL"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_OPTIONAL = ("n", "logprobs", "seed", "stop")
"""What is asked only of a server that takes it, in the order in which it is left out."""
_SEED_BITS = 31
_MOST_CHOICES = 128
"""Of one answer; OpenAI's own limit."""
_MOST_TOKENS = 1 << 16
"""Of all choices of one answer together: about 10 MB with their log-probabilities."""

_MOST_BYTES = 1 << 25
"""Of one answer's body."""
_MOST_WORDS = 300
"""Characters of what a server said that a message repeats."""
_CONNECT_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_ASKED_PAUSE = 0.5, 30.0, 60.0


@frozen
class Usage:
    """What a model was asked and what it wrote, as far as its server says."""

    requests: int = 0
    """Sent, in whatever way they ended."""
    retries: int = 0
    """Of these, sent because the one before had failed."""
    prompt_tokens: int = 0
    """Read once for all choices of an answer."""
    tokens: int = 0


def load_http_model(
    url: str,
    *,
    concurrency: int = 8,
    timeout: float = 120.0,
    attempts: int = 5,
    key_variable: str = "OPENAI_API_KEY",
    environment: Mapping[str, str] | None = None,
) -> HttpModel:
    """The model that `url` names: `http://HOST:PORT/v1#MODEL`, or https.

    Args:
        url: where the server is, up to and without `/chat/completions`, then `#` and what the server calls the model.
        concurrency: HTTP requests under way at a time.
        timeout: seconds that an answer may take with all its choices.
        attempts: how often a request is sent that fails, at most.
        key_variable: names the variable with the key; without it, or if it is empty, none is sent.
        environment: where the variable is looked up; None for the process's own.

    Does not ask the server anything, unless no model is named.
    Raises ModelError for a URL of another form or a key that no header can carry; where no model is named it lists
    those that the server offers.
    """
    base, name = _split(url)
    key = (os.environ if environment is None else environment).get(key_variable, "").strip()
    if not name:
        raise ModelError(f"expected a model's name after the server, {_FORM}, got {base!r}{_offered(base, key)}")
    return HttpModel(base, name, key=key, concurrency=concurrency, timeout=timeout, attempts=attempts)


class HttpModel:
    """A model that a server calls `name`. Has `Sampler` of `gce.ports.model`.

    The same call repeats only as far as the server keeps to seeds. It is sent the lowest 31 bits of each, because
    some take no more; choices of one answer share the seed of the first. Greedy requests are asked one by one, for
    some servers refuse several choices of them. A prompt fits where the server says so: some count `max_tokens` in.
    Where a server tells reasoning apart, the text has it first, in <think> and </think>. The text is cut at a stop
    string where the server has not done so. One that a server takes out and writes on after, as mlx_lm.server 0.32 does
    with those that are not tokenized alike, is not noticed.

    A completion with the finish reason `error` says why in its `error`. Where that begins with "no room", the server
    stated that the prompt does not fit the model's context. Otherwise the server ended the text for a reason of its own
    (`content_filter`, `tool_calls`, `null` ...), each of `attempts` times that it was asked: nothing is known of what
    the model would have written. A content filter judges prompt and text by rules of its own, mostly the same ones each
    time, so problems that it stops stay without an answer; what they say of the model is not "wrong".

    Text of the server never holds the key: see `gce.adapters.redaction`. A key of fewer than 8 characters is taken for
    a placeholder and left alone.

    Servers differ in whether log-probabilities are those before or after the temperature, so a completion has them
    only at temperature 1, and only where the server tells one for each token it counts.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        key: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        attempts: int = 5,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """See `load_http_model`; `url` has no fragment, and `sleep` waits before a request is sent again."""
        for option, value in (("concurrency", concurrency), ("attempts", attempts)):
            if value < 1:
                raise ValueError(f"expected {option} of at least 1, got {value!r}")
        if not timeout > 0:
            raise ValueError(f"expected a timeout above 0 seconds, got {timeout!r}")
        self.url = url
        self.name = name
        self.policy = hashlib.sha256(f"{url} {name}".encode()).hexdigest()
        """Names server and model. The weights are not ours to hash: a server may change them under the same name."""
        self._headers = _headers(key)
        self._redaction = Redaction(key)
        self._concurrency = concurrency
        self._timeout = timeout
        self._attempts = attempts
        self._sleep = sleep
        self._refused: frozenset[str] = frozenset()
        self._usage = Usage()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"HttpModel({self.url!r}, {self.name!r})"

    @property
    def usage(self) -> Usage:
        """All that was asked so far."""
        return self._usage

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Nothing is asked before the first is taken; closing the iterator ends all.

        Raises ModelError once a request has been refused, or has failed too often; what was yielded before is whole.
        """
        different = all_different(requests)
        return _from_thread(lambda put: self._answer(different, put))

    async def _answer(self, requests: Sequence[SampleRequest], put: Callable[[Completion], None]) -> None:
        """Put a completion for each request, each as it comes."""
        slots = asyncio.Semaphore(self._concurrency)

        async def answer(group: Sequence[SampleRequest]) -> None:
            await slots.acquire()  # Kept by a failure, so that nothing more is asked while all is cancelled.
            found = await self._ask(client, group[:1] if "n" in self._refused else group)
            slots.release()
            for completion in found:
                put(completion)
            answered = {completion.key for completion in found}
            for request in group:
                if request.key not in answered:
                    tasks.create_task(answer([request]))

        try:
            async with _client(self.url, self._headers, self._timeout) as client, asyncio.TaskGroup() as tasks:
                for group in _groups(requests):
                    tasks.create_task(answer(group))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures.exceptions[0].__cause__

    async def _ask(self, client: httpx2.AsyncClient, group: Sequence[SampleRequest]) -> list[Completion]:
        """Completions of some requests of the group, of one that is alone always; the others are to be asked alone."""
        body, failures = self._body(group), 0
        # A refusal costs the server nothing, so what it refuses is found out exactly: the fewest fields first.
        fields = [name for name in _OPTIONAL if name in body]
        subsets = chain.from_iterable(combinations(fields, count) for count in range(len(fields) + 1))
        left_out = next(subsets)
        while True:
            self._count(Usage(requests=1))
            try:
                reply = await self._try(client, {name: body[name] for name in body if name not in left_out})
                self._count(Usage(prompt_tokens=reply.prompt_tokens or 0, tokens=reply.tokens or 0))
                short = len(reply.choices) < len(group)
                self._refuse({*left_out, "n"} if short else {*left_out})
                # The first choice is what its request would get alone. Others of too few are not, and are asked again.
                pairs = list(zip(group[:1] if short else group, reply.choices, strict=False))
                ended = [pair for pair in pairs if pair[1].finish_reason in ENDS]
                if len(group) > 1:
                    self._count(Usage(retries=len(pairs) - len(ended)))
                    return [self._completion(request, choice, reply) for request, choice in ended]
                if ended or failures + 1 == self._attempts:
                    return [self._completion(*pairs[0], reply)]
                raise _FailedError(_ended_by_the_server(reply.choices[0]))
            except _NoRoomError as error:
                return [Completion(request.key, "", "context", self.policy, error=str(error)) for request in group]
            except _RefusedError as error:
                others = next(subsets, None) if error.may_be_a_field else None
                if others is None:
                    raise ModelError(f"{self.url} refuses a request of {self.name!r}: {error}") from error
                left_out = others
            except _FailedError as error:
                failures += 1
                if failures == self._attempts:
                    raise ModelError(
                        f"{self.url} gave no answer in {failures} {'try' if failures == 1 else 'tries'}, at last "
                        f"{error}: does the server run?"
                    ) from error
                self._count(Usage(retries=1))
                await self._sleep(_pause(error.pause, group[0].seed, failures))

    def _body(self, group: Sequence[SampleRequest]) -> dict[str, Any]:
        first = group[0]
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": message.role, "content": message.content} for message in first.messages],
            "temperature": first.temperature,
            "max_tokens": first.max_tokens,
            "seed": first.seed & ((1 << _SEED_BITS) - 1),
        }
        if len(group) > 1:
            body["n"] = len(group)
        if len(group) > 1 or first.temperature == 1:  # Of several choices they also tell how long each is.
            body["logprobs"] = True
        if first.stop:
            body["stop"] = list(first.stop)
        return {name: value for name, value in body.items() if name not in self._refused}

    async def _try(self, client: httpx2.AsyncClient, body: Mapping[str, Any]) -> Reply:
        url = f"{self.url}/chat/completions"
        answer = await _exchange(client, "POST", url, body, timeout=self._timeout, redaction=self._redaction)
        if answer.status == 200:
            try:
                return read_reply(answer.body)
            except NotAReplyError as exc:
                raise _FailedError(str(exc)) from exc
        told = what_is_told(answer.body)[:_MOST_WORDS]
        words = f"status {answer.status}{told and ': '}{told}"
        match fault_of(answer.status, answer.body):
            case "no room":
                raise _NoRoomError(f"no room in the context: {told}")
            case "failed":
                raise _FailedError(words, pause=answer.pause)
        raise _RefusedError(words, may_be_a_field=answer.status in (400, 422))

    def _completion(self, request: SampleRequest, choice: Choice, reply: Reply) -> Completion:
        alone = len(reply.choices) == 1
        text = cut_before(choice.text, request.stop)
        cut = text != choice.text
        ends = ENDS.get(choice.finish_reason)
        reason = "error" if ends is None else "stop" if cut else ends
        tells_all = not cut and request.temperature == 1 and reply.counted == reply.tokens
        return Completion(
            key=request.key,
            text="" if ends is None else text,
            finish_reason=reason,
            policy=self.policy,
            log_probabilities=choice.log_probabilities if tells_all else None,
            prompt_tokens=reply.prompt_tokens,
            tokens=reply.tokens if alone else choice.tokens,
            error=_ended_by_the_server(choice) if ends is None else "",
        )

    def _count(self, more: Usage) -> None:
        with self._lock:
            had = self._usage
            self._usage = Usage(
                requests=had.requests + more.requests,
                retries=had.retries + more.retries,
                prompt_tokens=had.prompt_tokens + more.prompt_tokens,
                tokens=had.tokens + more.tokens,
            )

    def _refuse(self, names: set[str]) -> None:
        with self._lock:
            self._refused |= names


@frozen
class _Answer:
    """What a server answered, without the key."""

    status: int
    pause: float
    """Seconds that it asks to wait for."""
    body: Any
    """See `body_of`."""


class _NoRoomError(Exception):
    """The prompt does not fit, in the server's words."""


class _RefusedError(Exception):
    """An answer that asking again does not change."""

    def __init__(self, words: str, *, may_be_a_field: bool) -> None:
        super().__init__(words)
        self.may_be_a_field = may_be_a_field


class _FailedError(Exception):
    """No answer, or none that can be read; another try may do better."""

    def __init__(self, words: str, *, pause: float = 0.0) -> None:
        super().__init__(words)
        self.pause = pause


def _split(url: str) -> tuple[str, str]:
    """The server's part of a URL and the model's."""
    shown = "" if "@" in url or "?" in url else f", got {url!r}"  # What it is not to have may be a secret.
    wrong = ModelError(f"expected a URL of the form {_FORM}, without user, password and query{shown}")
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


def _ended_by_the_server(choice: Choice) -> str:
    return f"the server ended it for the reason {str(choice.finish_reason)[:40]!r}"


def _offered(base: str, key: str) -> str:
    """Which models the server has, as the end of a sentence; empty where it does not say."""
    headers = _headers(key)

    async def ask(put: Callable[[Any], None]) -> None:
        async with _client(base, headers, _CONNECT_SECONDS) as client:
            url = f"{base}/models"
            put((await _exchange(client, "GET", url, timeout=_CONNECT_SECONDS, redaction=Redaction(key))).body)

    try:
        (body,) = _from_thread(ask)
        names = [model["id"] for model in body["data"]]
    except (_FailedError, ValueError, LookupError, TypeError):
        return ""
    return one_line(f"; it offers {', '.join(map(str, names))}")[:_MOST_WORDS] if names else ""


def _groups(requests: Sequence[SampleRequest]) -> list[list[SampleRequest]]:
    """Requests that may be choices of one answer, in the order in which the first of each comes."""
    alike: dict[Any, list[SampleRequest]] = defaultdict(list)
    for request in requests:
        key = request.key if request.temperature == 0 else ""
        alike[request.messages, request.temperature, request.max_tokens, request.stop, key].append(request)
    groups = []
    for group in alike.values():
        most = max(1, min(_MOST_CHOICES, _MOST_TOKENS // group[0].max_tokens))
        groups += [group[start : start + most] for start in range(0, len(group), most)]
    return groups


@functools.cache
def _tls() -> ssl.SSLContext:
    """The certificates that are trusted; reading them takes a tenth of a second."""
    return httpx2.create_ssl_context()


def _client(url: str, headers: httpx2.Headers, timeout: float) -> httpx2.AsyncClient:
    """Follows no redirect, for the key is meant for one server. Proxies of the environment do not serve loopback.

    Raises:
        ModelError: what the environment says of proxies or certificates cannot be used.
    """
    server = urlsplit(url)
    try:
        return httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
            limits=httpx2.Limits(max_connections=None),
            verify=server.scheme == "https" and _tls(),  # Without TLS there is nothing to trust.
            trust_env=server.hostname not in _LOOPBACK,
        )
    except (ImportError, ValueError, OSError) as exc:
        raise ModelError(
            f"cannot connect with the proxies and certificates of the environment (HTTPS_PROXY, SSL_CERT_FILE, ...): "
            f"{one_line(str(exc))[:_MOST_WORDS]}"
        ) from exc


async def _exchange(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    body: Mapping[str, Any] | None = None,
    *,
    timeout: float,
    redaction: Redaction,
) -> _Answer:
    """What the server answered. All that it says passes here, and is without the key from here on.

    Raises:
        _FailedError: the connection was not made or broke, or the answer took too long or is too large.
    """
    sent = None if body is None else json.dumps(body).encode()
    received = bytearray()
    failure = ""
    try:
        async with asyncio.timeout(timeout), client.stream(method, url, content=sent) as response:
            async for part in response.aiter_bytes():
                received += part
                if len(received) > _MOST_BYTES:
                    failure = f"an answer of more than {_MOST_BYTES} bytes"
                    break
    except (TimeoutError, httpx2.TimeoutException):
        failure = f"no whole answer within {timeout:g} seconds"
    except httpx2.HTTPError as exc:
        failure = f"{type(exc).__name__}: {one_line(redaction.text(str(exc)))[:_MOST_WORDS]}"
    if failure:  # Raised here and not there, for the errors of the library repeat lines as the server wrote them.
        raise _FailedError(failure)
    asked = _seconds(response.headers.get("retry-after", ""))
    return _Answer(response.status_code, asked, body_of(bytes(received), redaction))


def _seconds(retry_after: str) -> float:
    """What `Retry-After` asks for; 0 where it is a date or nothing."""
    return min(float(retry_after), _LONGEST_ASKED_PAUSE) if re.fullmatch(r"[0-9]{1,9}", retry_after) else 0.0


def _pause(asked: float, seed: int, failures: int) -> float:
    """Seconds until the next try: twice as long each time, less up to a half that request and try decide."""
    longest = min(_FIRST_PAUSE * 2.0 ** (failures - 1), _LONGEST_PAUSE)
    return max(asked, longest * random.Random(f"{seed} {failures}").uniform(0.5, 1.0))


def _from_thread(work: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]) -> Iterator[T]:
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
