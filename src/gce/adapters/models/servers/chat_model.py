"""A model behind a server that speaks OpenAI's chat format: Ollama, llama.cpp, vLLM, LM Studio, mlx_lm.server.

Requests that differ in key and seed alone are asked as choices of one answer, where the server gives several. What a
server refuses it is not asked for again. Answers are bounded in time and size, and what is no answer is asked for
again. What a server says is read without the key. Knows no tokens and no weights, and learns nothing. The format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from threading import Lock
from typing import Any

from attrs import frozen

from gce.adapters.models.requests import all_different, cut_before
from gce.adapters.models.servers.chat_format import (
    ENDS,
    Choice,
    NotAReplyError,
    Reply,
    fault_of,
    one_line,
    read_reply,
    what_is_told,
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
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.errors import ModelError

__all__ = ["HttpModel", "Usage", "load_http_model"]

_OPTIONAL = ("n", "logprobs", "seed", "stop")
"""What is asked only of a server that takes it, in the order in which it is left out."""
_SEED_BITS = 31
_MOST_CHOICES = 128
"""Of one answer; OpenAI's own limit."""
_MOST_TOKENS = 1 << 16
"""Of all choices of one answer together: about 10 MB with their log-probabilities."""


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
    base, name = split_url(url)
    key = (os.environ if environment is None else environment).get(key_variable, "").strip()
    if not name:
        raise ModelError(f"expected a model's name after the server, {FORM}, got {base!r}{_offered(base, key)}")
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

    Text of the server never holds the key: see `gce.adapters.models.servers.redaction`. A key of fewer than 8
    characters is taken for a placeholder and left alone.

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
        self._policy = hashlib.sha256(f"{url} {name}".encode()).hexdigest()
        self._connection = Connection(url, key, timeout=timeout)
        self._concurrency = concurrency
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

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity names server and model, for the weights are not ours to hash.

        A server may change them under the same name.
        """
        return ModelInfo(identity=self._policy, capabilities=frozenset({"sample"}))

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Nothing is asked before the first is taken; closing the iterator ends all.

        Raises ModelError once a request has been refused, or has failed too often; what was yielded before is whole.
        """
        different = all_different(requests)
        return from_thread(lambda put: self._answer(different, put))

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
            async with self._connection.client() as client, asyncio.TaskGroup() as tasks:
                for group in _groups(requests):
                    tasks.create_task(answer(group))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures.exceptions[0].__cause__

    async def _ask(self, client: Client, group: Sequence[SampleRequest]) -> list[Completion]:
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
                raise FailedError(_ended_by_the_server(reply.choices[0]))
            except _NoRoomError as error:
                return [Completion(request.key, "", "context", self._policy, error=str(error)) for request in group]
            except _RefusedError as error:
                others = next(subsets, None) if error.may_be_a_field else None
                if others is None:
                    raise ModelError(f"{self.url} refuses a request of {self.name!r}: {error}") from error
                left_out = others
            except FailedError as error:
                failures += 1
                if failures == self._attempts:
                    raise ModelError(
                        f"{self.url} gave no answer in {failures} {'try' if failures == 1 else 'tries'}, at last "
                        f"{error}: does the server run?"
                    ) from error
                self._count(Usage(retries=1))
                await self._sleep(pause_before(error.pause, group[0].seed, failures))

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

    async def _try(self, client: Client, body: Mapping[str, Any]) -> Reply:
        answer = await self._connection.exchange(client, "POST", "/chat/completions", body)
        if answer.status == 200:
            try:
                return read_reply(answer.body)
            except NotAReplyError as exc:
                raise FailedError(str(exc)) from exc
        told = what_is_told(answer.body)[:MOST_WORDS]
        words = f"status {answer.status}{told and ': '}{told}"
        match fault_of(answer.status, answer.body):
            case "no room":
                raise _NoRoomError(f"no room in the context: {told}")
            case "failed":
                raise FailedError(words, pause=answer.pause)
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
            policy=self._policy,
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


class _NoRoomError(Exception):
    """The prompt does not fit, in the server's words."""


class _RefusedError(Exception):
    """An answer that asking again does not change."""

    def __init__(self, words: str, *, may_be_a_field: bool) -> None:
        super().__init__(words)
        self.may_be_a_field = may_be_a_field


def _ended_by_the_server(choice: Choice) -> str:
    return f"the server ended it for the reason {str(choice.finish_reason)[:40]!r}"


def _offered(base: str, key: str) -> str:
    """Which models the server has, as the end of a sentence; empty where it does not say."""
    connection = Connection(base, key, timeout=CONNECT_SECONDS)

    async def ask(put: Callable[[Any], None]) -> None:
        async with connection.client() as client:
            put((await connection.exchange(client, "GET", "/models")).body)

    try:
        (body,) = from_thread(ask)
        names = [model["id"] for model in body["data"]]
    except (FailedError, ValueError, LookupError, TypeError):
        return ""
    return one_line(f"; it offers {', '.join(map(str, names))}")[:MOST_WORDS] if names else ""


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
