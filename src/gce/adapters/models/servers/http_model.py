"""A model behind a server: a provider's, or one given by its URL (Ollama, llama.cpp, vLLM, LM Studio, mlx_lm.server).

Requests that differ only in key and seed are sent as several choices of one response if the server supports it. Fields
that a server refuses are not sent again. Responses are bounded in time and size, and invalid ones are retried. The API
key is removed from everything that a server says. The model samples only; it has no tokens, no weights and no training.

What is particular to a format is in its `Dialect`, what is particular to a provider in `providers`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import chain, combinations
from threading import Lock
from typing import Any, Literal

from attrs import frozen

from gce.adapters.models.ledger import Ledger, Sent
from gce.adapters.models.requests import all_different
from gce.adapters.models.servers.chat_requests import (
    body_of_request,
    completion_of,
    ended_by_the_server,
    most_used,
    parameters_of,
    temperature_note,
)
from gce.adapters.models.servers.connection import (
    CONNECT_SECONDS,
    FORM,
    MOST_WORDS,
    Client,
    Connection,
    FailedError,
    from_thread,
    pause_before,
    split_url,
)
from gce.adapters.models.servers.dialect import ENDS, Choice, NotAReplyError, Reply
from gce.adapters.models.servers.faults import fault_of, status_of, what_is_told
from gce.adapters.models.servers.providers import SERVER, Provider, split_name
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.spending import Price, Used, cost_of
from gce.errors import ModelError, Unfinished, one_line

__all__ = [
    "HttpModel",
    "NoAnswerInTries",
    "RefusedError",
    "Usage",
    "groups_of",
    "load_http_model",
    "load_provider_model",
]

_OPTIONAL = ("n", "logprobs", "return_token_ids", "seed", "stop")
"""Optional fields, in the order in which they are left out if the server refuses them."""
_POLL = 0.05
"""Seconds between looks at whether a request is allowed yet."""
_MAY_BE_BILLED = frozenset({200, 502, 504, 524})
"""Statuses of errors after which a model may have answered nevertheless: those of a gateway that waited no longer."""
_MOST_CHOICES = 128
"""Maximum choices of one response: OpenAI's own limit."""
_MOST_TOKENS = 1 << 16
"""Maximum tokens of all choices of one response: about 10 MB with their log-probabilities."""


@frozen
class Usage:
    """Requests and tokens of a model, as far as its server reports them."""

    requests: int = 0
    """HTTP requests sent, whatever their result."""
    retries: int = 0
    """Number of these that were retries after a failure."""
    prompt_tokens: int = 0
    """Prompt tokens; a prompt is counted once for all choices of a response."""
    tokens: int = 0


def load_http_model(
    url: str,
    *,
    concurrency: int = 8,
    timeout: float = 120.0,
    attempts: int = 5,
    key_variable: str = "OPENAI_API_KEY",
    environment: Mapping[str, str] | None = None,
    ledger: Ledger | None = None,
    price: Price | None = None,
) -> HttpModel:
    """Return the model that `url` names: `http://HOST:PORT/v1#MODEL`, or https.

    Args:
        url: the server's URL without `/chat/completions`, followed by `#` and the server's name for the model.
        concurrency: maximum concurrent HTTP requests.
        timeout: maximum seconds for a response with all its choices.
        attempts: maximum attempts for a request that fails.
        key_variable: environment variable with the API key; if it is unset or empty, no key is sent.
        environment: where the variable is looked up; None for the process's own environment.
        ledger: what counts its use and holds it to limits; None for one without limits.
        price: of its tokens; None if it is not known.

    Does not contact the server unless no model is named.

    Raises:
        ModelError: a URL of another form, or a key that cannot be put in a header; if no model is named, the message
            lists the server's models.
    """
    base, name = split_url(url)
    key = (os.environ if environment is None else environment).get(key_variable, "").strip()
    if not name:
        offered = _offered(base, key, SERVER)
        raise ModelError(f"expected a model's name after the server, {FORM}, got {base!r}{offered}")
    options = {"concurrency": concurrency, "timeout": timeout, "attempts": attempts}
    return HttpModel(base, name, key=key, ledger=ledger, price=price, **options)  # type: ignore[arg-type]


def load_provider_model(
    name: str,
    *,
    concurrency: int = 8,
    timeout: float = 120.0,
    attempts: int = 5,
    environment: Mapping[str, str] | None = None,
    ledger: Ledger | None = None,
    price: Price | None = None,
) -> HttpModel:
    """Return the model that `name` names: `PROVIDER:MODEL`, with a provider of `PROVIDERS`.

    Its address is the provider's, or that in the environment variable PROVIDER_BASE_URL, such as a gateway's. The other
    arguments are as in `load_http_model`.

    Raises:
        ModelError: no such provider, no model named, no key in the environment, or an address that is none.
    """
    found = split_name(name)
    if found is None:
        raise ModelError(f"expected PROVIDER:MODEL, got {name!r}: gce models lists the providers")
    provider, model = found
    variables = os.environ if environment is None else environment
    key = variables.get(provider.key_variable, "").strip()
    url = provider.url
    if other := variables.get(provider.url_variable, "").strip():
        url, _ = split_url(other)
    if not key and not other:
        raise ModelError(f"model {name} needs an API key: set the environment variable {provider.key_variable}")
    if not model:
        raise ModelError(f"expected a model's name after {name}{_offered(url, key, provider)}")
    return HttpModel(
        url,
        model,
        key=key,
        provider=provider,
        concurrency=concurrency,
        timeout=timeout,
        attempts=attempts,
        ledger=ledger,
        price=price,
    )


class HttpModel:
    """A model that a server calls `name`. Has `Sampler` of `gce.ports.model`.

    Reproducible only as far as the server respects seeds. The server gets the lowest 31 bits of each seed, because some
    accept no more; choices of one response share the seed of the first. Greedy requests are sent one by one, because
    some servers refuse several choices for them. The server decides whether a prompt fits the context: some count
    `max_tokens` as part of it.

    Reasoning is kept apart from the text, whether a server returns it separately or as a <think> block at the text's
    beginning. The text is cut at a stop string if the server has not done so. It is not detected if a server removes a
    stop string and continues after it, as mlx_lm.server 0.32 does with strings that are tokenized differently.

    A completion with the finish reason `error` gives its reason in `error`. If that begins with "no room", the server
    stated that the prompt does not fit the model's context. If it begins with "the provider blocked it", a filter did
    not let the prompt or the answer pass; it is not tried again. Otherwise the server ended the text for its own reason
    (`content_filter`, `tool_calls`, `null` ...) in all `attempts`, and the model's answer is unknown. A content filter
    mostly blocks the same prompts each time, so those problems stay without an answer; that does not make the model's
    answer wrong.

    The server's text never contains the key: see `gce.adapters.models.servers.redaction`. A key of fewer than 8
    characters is treated as a placeholder and not redacted.

    Servers differ in whether log-probabilities apply before or after the temperature. A completion therefore has them
    only at temperature 1, and only if the server reports one for each token that it counts.
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
        provider: Provider = SERVER,
        ledger: Ledger | None = None,
        price: Price | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """See `load_http_model`; `url` has no fragment, and `sleep` waits before a retry."""
        for option, value in (("concurrency", concurrency), ("attempts", attempts)):
            if value < 1:
                raise ValueError(f"expected {option} of at least 1, got {value!r}")
        if not timeout > 0:
            raise ValueError(f"expected a timeout above 0 seconds, got {timeout!r}")
        self.url = url
        self.name = name
        self._policy = hashlib.sha256(f"{url} {name}".encode()).hexdigest()
        self._dialect = provider.dialect
        self._provider = provider
        self._ledger = ledger or Ledger()
        self._pace = self._ledger.pace(provider.name or url)
        self._price = price
        self._connection = Connection(url, key, headers=self._dialect.headers, timeout=timeout)
        self._concurrency = concurrency
        self._attempts = attempts
        self._sleep = sleep
        self._refused = provider.of(name).refused
        self._usage = Usage()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"HttpModel({self.url!r}, {self.name!r})"

    @property
    def usage(self) -> Usage:
        """Usage so far."""
        return self._usage

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity names server and model, because the weights cannot be hashed.

        A server may change the weights under the same name.
        """
        note = temperature_note(self._provider, self.name)
        return ModelInfo(identity=self._policy, capabilities=frozenset({"sample"}), note=note, greedy=not note)

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Requests are sent once iteration begins.

        Closing the iterator cancels the rest. Raises ModelError if a request is refused, or has failed too often, and
        Unfinished at a limit of the ledger, once what is under way has been answered; completions yielded before are
        valid.
        """
        different = all_different(requests)
        return from_thread(lambda put: self._answer(different, put))

    async def _answer(self, requests: Sequence[SampleRequest], put: Callable[[Completion], None]) -> None:
        """Put a completion for each request, as it arrives.

        A slot has an HTTP client of its own, because a request takes a pool of connections time in proportion to their
        number.
        """
        slots, idle = asyncio.Semaphore(self._concurrency), list[Client]()
        limits: list[Unfinished] = []

        async def answer(group: Sequence[SampleRequest]) -> None:
            await slots.acquire()  # A failure keeps its slot, so that nothing more is sent while the rest is cancelled.
            found: list[Completion] = []
            client = idle.pop() if idle else await clients.enter_async_context(self._connection.client())
            try:
                if not limits:
                    found = await self._ask(client, group[:1] if "n" in self._refused else group)
            except Unfinished as limit:
                if len(group) == 1:  # Several choices may be too much where one is not.
                    limits.append(limit)
            idle.append(client)
            slots.release()
            for completion in found:
                put(completion)
            if limits:
                return
            answered = {completion.key for completion in found}
            for request in group:
                if request.key not in answered:
                    tasks.create_task(answer([request]))

        try:
            async with AsyncExitStack() as clients, asyncio.TaskGroup() as tasks:
                for group in groups_of(requests):
                    tasks.create_task(answer(group))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        if limits:
            raise limits[0]

    async def _ask(self, client: Client, group: Sequence[SampleRequest]) -> list[Completion]:
        """Return completions of some requests of a group, always of a single one; the rest must be sent alone."""
        wanted = {name: value for name, value in self._parameters(group).items() if self._takes(name, value)}
        failures, most = 0, most_used(group, self._price)
        # Refusals are cheap for a server, so find the smallest set of fields that it refuses.
        fields = [name for name in _OPTIONAL if name in wanted]
        if self._provider is not SERVER and wanted.get("temperature") == 1:  # Which is the default.
            fields.append("temperature")
        subsets = chain.from_iterable(combinations(fields, count) for count in range(len(fields) + 1))
        left_out = next(subsets)
        while True:
            self._count(Usage(requests=1))
            try:
                sent = {name: value for name, value in wanted.items() if name not in left_out}
                reply = await self._try(client, body_of_request(self._provider, self.name, group[0], sent), most)
                self._count(Usage(prompt_tokens=reply.prompt_tokens or 0, tokens=reply.tokens or 0))
                short = len(reply.choices) < len(group)
                self._refuse({*left_out, "n"} if short else {*left_out})
                # The first choice is valid for its request. With too few choices, send the other requests again.
                pairs = list(zip(group[:1] if short else group, reply.choices, strict=False))
                ended = [pair for pair in pairs if pair[1].finish_reason in ENDS]
                if len(group) > 1:
                    self._count(Usage(retries=len(pairs) - len(ended)))
                    return [self._completion(request, choice, reply) for request, choice in ended]
                if ended or failures + 1 == self._attempts:
                    return [self._completion(*pairs[0], reply)]
                raise FailedError(ended_by_the_server(reply.choices[0]))
            except _NoAnswerError as error:
                return [Completion(each.key, "", error.reason, self._policy, error=str(error)) for each in group]
            except RefusedError as error:
                others = next(subsets, None) if error.may_be_a_field else None
                if others is None:
                    raise ModelError(f"{self.url} refuses a request of {self.name!r}: {error}") from error
                left_out = others
            except FailedError as error:
                failures += 1
                if failures == self._attempts:
                    raise NoAnswerInTries(self.url, failures, error) from error
                self._count(Usage(retries=1))
                await self._sleep(pause_before(error, group[0].seed, failures))

    def _parameters(self, group: Sequence[SampleRequest]) -> dict[str, Any]:
        """Return the parameters of a request for a group."""
        return parameters_of(group)

    def _completion(self, request: SampleRequest, choice: Choice, reply: Reply) -> Completion:
        return completion_of(request, choice, reply, self._policy)

    def _takes(self, name: str, value: object) -> bool:
        """Return whether a parameter is to be sent; a temperature that is not the default is left out only by table."""
        if name == "temperature" and value != 1:
            return name not in self._provider.of(self.name).refused
        return name not in self._refused

    async def _try(self, client: Client, body: Mapping[str, Any], most: Used) -> Reply:
        """Send a request once it is allowed to be, and count what it used, at most `most`."""
        request = Sent(most.all_tokens)
        while not self._may_send(request, most):
            await asyncio.sleep(_POLL)
        used = most  # What may have been billed, unless the server says otherwise.
        try:
            answer = await self._connection.exchange(client, "POST", self._dialect.path, body)
            status = status_of(answer.status, answer.body)
            if status == 200:
                reply = self._dialect.read(answer.body)
                read = most.prompt_tokens if reply.prompt_tokens is None else reply.prompt_tokens
                written = most.tokens if reply.tokens is None else reply.tokens
                used = cost_of(self._price, read, written)
                return reply
            used = most if answer.status in _MAY_BE_BILLED else Used(1)
        except NotAReplyError as exc:
            raise FailedError(str(exc)) from exc
        except FailedError as exc:
            used = most if exc.sent else Used(1)
            raise
        finally:
            self._ledger.settle(most, used)
            request.tokens = used.all_tokens
        told = what_is_told(answer.body)[:MOST_WORDS]
        words = f"status {answer.status}{told and ': '}{told}"
        match fault_of(status, answer.body):
            case "no room":
                raise _NoAnswerError("context", f"no room in the context: {told}")
            case "blocked":
                raise _NoAnswerError("error", f"the provider blocked it: {told}")
            case "failed":
                raise FailedError(words, pause=answer.pause, limited=status in (429, 529))
        raise RefusedError(words, status=status)

    def _may_send(self, request: Sent, most: Used) -> bool:
        """Reserve and note a request, if both limits and rates allow it now; Unfinished if limits never will."""
        if not self._ledger.reserve(most):
            return False
        if self._pace.admit(request):
            self._ledger.settle(most, Used())
            return False
        return True

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


class _NoAnswerError(Exception):
    """The prompt does not fit the context, or the provider blocks it; holds the server's message."""

    def __init__(self, reason: Literal["context", "error"], words: str) -> None:
        super().__init__(words)
        self.reason = reason


class RefusedError(Exception):
    """A refusal that a retry does not change."""

    def __init__(self, words: str, *, status: int) -> None:
        super().__init__(words)
        self.status = status
        self.may_be_a_field = status in (400, 422)


class NoAnswerInTries(ModelError):
    """A request has failed too often, at last by `failure`."""

    def __init__(self, url: str, tries: int, failure: FailedError) -> None:
        counted = "1 try" if tries == 1 else f"{tries} tries"
        super().__init__(f"{url} gave no answer in {counted}, at last {failure}: does the server run?")
        self.failure = failure


def _offered(base: str, key: str, provider: Provider) -> str:
    """Return the server's models as the end of a sentence; empty if it does not list them."""
    connection = Connection(base, key, headers=provider.dialect.headers, timeout=CONNECT_SECONDS)

    async def ask(put: Callable[[Any], None]) -> None:
        async with connection.client() as client:
            put((await connection.exchange(client, "GET", "/models")).body)

    try:
        (body,) = from_thread(ask)
        names = [model["id"] for model in body["data"]]
    except (FailedError, ValueError, LookupError, TypeError):
        return ""
    return one_line(f"; it offers {', '.join(map(str, names))}", MOST_WORDS) if names else ""


def groups_of(requests: Sequence[SampleRequest]) -> list[list[SampleRequest]]:
    """Group requests that may be choices of one response, in order of first appearance."""
    alike: dict[Any, list[SampleRequest]] = defaultdict(list)
    for request in requests:
        key = request.key if request.temperature == 0 else ""
        alike[request.messages, request.temperature, request.max_tokens, request.stop, key].append(request)
    groups = []
    for group in alike.values():
        most = max(1, min(_MOST_CHOICES, _MOST_TOKENS // group[0].max_tokens))
        groups += [group[start : start + most] for start in range(0, len(group), most)]
    return groups
