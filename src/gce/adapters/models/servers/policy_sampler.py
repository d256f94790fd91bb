"""A sampler behind a server that takes LoRA adapters while it runs: gce serve-policy, vLLM or SGLang.

An adapter is called by the digest of its weights, and each request asks for that name, so a reply that names another
model, or other weights, is by other weights: an error. A server that lost the adapter, because it was started again, is
given it once more. What a server tells of tokens and log-probabilities is used.

Sources: https://docs.vllm.ai/en/latest/features/lora/ ; https://docs.sglang.io/docs/advanced_features/lora
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.adapters.models.formats.adapter_files import peft_files, read_adapter
from gce.adapters.models.requests import all_different
from gce.adapters.models.servers.chat_requests import completion_of, parameters_of
from gce.adapters.models.servers.connection import (
    CONNECT_SECONDS,
    MOST_WORDS,
    Client,
    Connection,
    FailedError,
    HttpAnswer,
    from_thread,
    pause_before,
    split_url,
)
from gce.adapters.models.servers.dialect import Choice, Reply
from gce.adapters.models.servers.faults import fault_of, what_is_told
from gce.adapters.models.servers.http_model import HttpModel, NoAnswerInTries, RefusedError, groups_of
from gce.adapters.models.servers.openai_format import OPENAI
from gce.adapters.models.servers.providers import SERVER
from gce.adapters.runs.checkpoint_files import files_of_state
from gce.adapters.system.atomic_folder import whole_folder
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState
from gce.domain.models import ModelInfo
from gce.domain.spending import Used
from gce.errors import ModelError

__all__ = ["PolicySampler", "load_policy_sampler"]

_GROUPS = 128
"""Maximum requests of a batch of gce serve-policy, which all wait for an answer at the same time."""
_ATTEMPTS = 8
"""With the pauses between them, about 45 seconds: a server that died may start again."""
_FIRST_ATTEMPTS = 3
"""Of the first question, whose URL may be wrong."""
_LOST = re.compile(r"(lora|adapter|model)\b.*\bnot\b.*\b(exist|found|loaded)", re.IGNORECASE)
"""Matches a statement that an adapter is not loaded."""
_LOADED = re.compile(r"already (been )?loaded", re.IGNORECASE)


@frozen
class _Way:
    """How a kind of server takes adapters, by the name in `owned_by` of its models."""

    program: str
    at_root: bool = False
    """Whether adapters are loaded beside /v1, not in it."""
    by_path: bool = True
    """Whether it reads them from a folder; else they travel in the request."""
    suffixed: bool = False
    """Whether an adapter is asked for as BASE:NAME, and names its linears by their ends."""


_WAYS = {
    "gce": _Way("gce serve-policy", by_path=False),
    "vllm": _Way("vLLM"),
    "sglang": _Way("SGLang", at_root=True, suffixed=True),
}


@frozen
class _Server:
    """What a server says of itself."""

    way: _Way
    base: str
    """Its name for the base model."""
    fingerprint: str
    """Of the base's weights; empty if it does not tell."""


@frozen(eq=False)
class _Adapter:
    """An adapter as the files of a checkpoint, called by their digest."""

    name: str
    files: Mapping[str, bytes]


def load_policy_sampler(
    url: str,
    *,
    concurrency: int = 8,
    timeout: float = 120.0,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> PolicySampler:
    """Return the sampler behind a server: `http://HOST:PORT/v1`, if need be with `#` and the base model's name.

    Args:
        url: the server's URL without `/chat/completions`.
        concurrency: maximum concurrent requests; gce serve-policy gets all of a batch at once.
        timeout: maximum seconds for a response.
        folder: where adapters are written for a server that reads them from a folder; it must have the same path there.
        environment: where the API key is looked up, as in `load_http_model`.

    Raises:
        ModelError: a URL of another form, or a key that cannot be put in a header.
    """
    base, name = split_url(url)
    key = (os.environ if environment is None else environment).get(SERVER.key_variable, "").strip()
    return PolicySampler(base, name, key=key, concurrency=concurrency, timeout=timeout, folder=folder)


class PolicySampler:
    """A model behind a server, with the adapter that it was last given. Has `Sampler` and `Adaptable`.

    The server is first contacted when it is asked who it is, and gets an adapter before the first request that needs
    it. A request that fails in all attempts yields a completion with finish reason `error`; all later requests of the
    same call fail at once. If it is asked for again, gce serve-policy computes all of its batch again: a part of one
    may have other last digits.
    """

    def __init__(
        self,
        url: str,
        base: str = "",
        *,
        key: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        attempts: int = _ATTEMPTS,
        folder: Path | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """See `load_policy_sampler`; `sleep` waits before a retry."""
        self.url = url
        self.key = key
        self.concurrency = concurrency
        self.timeout = timeout
        self.attempts = attempts
        self.sleep = sleep
        self.loaded: set[str] = set()
        """Adapters that the server has, as far as is known."""
        self.fingerprints: dict[str, str] = {}
        """Of the weights with each adapter, as the server told when it was loaded first."""
        self.refused: frozenset[str] = frozenset()
        """Fields that it refuses."""
        self.given_up = ""
        """Why nothing more is asked; empty if it is."""
        self._base = base
        self._folder = folder
        self._unfinished: list[list[SampleRequest]] = []
        """Batches of the last call of gce serve-policy of which answers are missing."""
        self._known: _Server | None = None
        self._adapter: _Adapter | None = None

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity is of the base, as far as the server tells, and the adapter."""
        server = self.server()
        words = f"{server.fingerprint or server.base} {self._adapter.name if self._adapter else ''}"
        identity = hashlib.sha256(words.encode()).hexdigest()
        return ModelInfo(identity=identity, capabilities=frozenset({"sample"}))

    def restore(self, state: ModelState) -> None:
        """See `gce.ports.model.Adaptable`. The server checks the shapes once it is asked."""
        arrays = {name: array for name, array in state.arrays.items() if name.startswith("adapter.")}
        files = files_of_state(0, ModelState(arrays, state.settings))
        digest = hashlib.sha256(b"".join(name.encode() + content for name, content in sorted(files.items())))
        self._adapter = _Adapter(f"gce-{digest.hexdigest()[:32]}", files)

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Requests are sent once iteration begins.

        Raises:
            ModelError: other weights answered, the server takes no adapter, or it refuses a request.
        """
        return self._sampled(all_different(requests), self._adapter, self.info().identity)

    def _sampled(
        self, requests: Sequence[SampleRequest], adapter: _Adapter | None, identity: str
    ) -> Iterator[Completion]:
        server = self.server()
        ours, wanted = server.way is _WAYS["gce"], {request.key for request in requests}
        again = _within(requests, [each for batch in self._unfinished for each in batch])
        batches = self._unfinished if again else _batches(requests, _GROUPS if ours else max(1, len(requests)))
        self.given_up, self._unfinished = "", []
        for batch in batches:
            finished = True
            for completion in _Call(self, server, adapter, batch, identity).sample(batch):
                if completion.key in wanted:
                    finished &= completion.finish_reason != "error"
                    yield completion
            if ours and not finished:
                self._unfinished.append(batch)

    def server(self) -> _Server:
        """Return what the server says of itself. ModelError if it cannot be asked, or takes no adapters."""
        if self._known is None:
            self._known = self._ask()
        return self._known

    def _ask(self) -> _Server:
        connection = Connection(self.url, self.key, headers=OPENAI.headers, timeout=CONNECT_SECONDS)

        async def ask(put: Callable[[HttpAnswer], None]) -> None:
            for failures in range(1, _FIRST_ATTEMPTS + 1):
                try:
                    async with connection.client() as client:
                        put(await connection.exchange(client, "GET", "/models"))
                    return
                except FailedError as error:
                    if failures == _FIRST_ATTEMPTS or not error.sent:
                        raise
                    await self.sleep(pause_before(error, 0, failures))

        try:
            (answer,) = from_thread(ask)
        except FailedError as error:
            raise ModelError(f"{self.url} does not answer, {error}: does the server run?") from error
        if answer.status == 401:
            raise ModelError(f"{self.url} wants a key: set the environment variable {SERVER.key_variable} to its token")
        try:
            first = next(each for each in answer.body["data"] if not each.get("parent"))
            way, base = _WAYS[first["owned_by"]], self._base or str(first["id"])
        except (LookupError, TypeError, AttributeError, StopIteration) as error:
            programs = ", ".join(way.program for way in _WAYS.values())
            raise ModelError(
                f"{self.url} is no server whose adapter can be exchanged: give one of {programs}"
            ) from error
        return _Server(way, base, str(first.get("fingerprint", "")))

    def path_of(self, adapter: _Adapter, server: _Server) -> Path:
        """Write an adapter in PEFT's format for a server that reads it; return its folder."""
        if self._folder is None:
            raise ModelError(
                f"{server.way.program} reads adapters from a folder",
                hint="give {model.sampler_folder} DIR, shared with it",
            )
        folder = self._folder.resolve() / adapter.name
        if not folder.exists():
            files = peft_files(read_adapter(adapter.files, "the adapter"), server.base)
            if server.way.suffixed:
                files["adapter_config.json"] = _by_suffix(files["adapter_config.json"])
            with whole_folder(folder, argument="model.sampler_folder") as written:
                for name, content in files.items():
                    (written / name).write_bytes(content)
        return folder

    def forget(self, name: str) -> None:
        """Delete the folder of an adapter that the server has no longer."""
        self.loaded.discard(name)
        if self._folder is not None:
            shutil.rmtree(self._folder.resolve() / name, ignore_errors=True)


class _Call(HttpModel):
    """The requests of one call, asked of the model with one adapter."""

    def __init__(
        self,
        owner: PolicySampler,
        server: _Server,
        adapter: _Adapter | None,
        requests: Sequence[SampleRequest],
        identity: str,
    ) -> None:
        ours, turns = server.way is _WAYS["gce"], ceil(len(groups_of(requests)) / owner.concurrency)
        name = server.base if adapter is None else adapter.name
        super().__init__(
            owner.url,
            f"{server.base}:{name}" if adapter is not None and server.way.suffixed else name,
            key=owner.key,
            concurrency=_GROUPS if ours else owner.concurrency,
            timeout=owner.timeout * (max(1, turns) if ours else 1),  # All of a batch wait for it from the beginning.
            attempts=1 if ours else owner.attempts,  # A batch is asked for again as a whole: see `_answer`.
            sleep=owner.sleep,
        )
        self._owner, self._server, self._adapter, self._ours = owner, server, adapter, ours
        self._refused |= owner.refused
        self._policy = identity
        root = owner.url.removesuffix("/v1") if server.way.at_root else owner.url
        self._adapters = Connection(root, owner.key, headers=OPENAI.headers, timeout=owner.timeout)
        self._loading = asyncio.Lock()
        self._places = {request.key: place for place, request in enumerate(requests)}
        self._batch, self._tries = "", 0
        self._failure: FailedError | None = None

    def _parameters(self, group: Sequence[SampleRequest]) -> dict[str, Any]:
        found = {**parameters_of(group), "return_token_ids": True}
        if not self._ours:
            return found
        places = [self._places[request.key] for request in group]
        batch = {"id": self._batch, "size": len(self._places), "places": places}
        return {**found, "logprobs": True, "seeds": [request.seed for request in group], "batch": batch}

    def _completion(self, request: SampleRequest, choice: Choice, reply: Reply) -> Completion:
        return completion_of(request, choice, reply, self._policy, at_1=self._ours)

    async def _answer(self, requests: Sequence[SampleRequest], put: Callable[[Completion], None]) -> None:
        """See `HttpModel`. Where an answer of gce serve-policy is missing, the whole batch is asked for again.

        A part of a batch would be computed in other shapes, which may change the last bits of log-probabilities.
        """
        if not self._ours:
            await super()._answer(requests, put)
            return
        left = {request.key for request in requests}

        def put_once(completion: Completion) -> None:
            last = self._failure is None or self._tries == self._owner.attempts
            if completion.key in left and (last or completion.finish_reason != "error"):
                left.remove(completion.key)
                put(completion)

        while True:
            self._tries += 1
            self._batch = secrets.token_hex(16)  # The server may still hold requests of the try before.
            await super()._answer(requests, put_once)
            if not left or self._failure is None:
                return
            await self._sleep(pause_before(self._failure, requests[0].seed, self._tries))
            self._owner.given_up, self._failure = "", None

    async def _ask(self, client: Client, group: Sequence[SampleRequest]) -> list[Completion]:
        try:
            if not self._owner.given_up:
                return await super()._ask(client, group)
        except NoAnswerInTries as error:
            self._failure = error.failure
            self._owner.given_up = str(NoAnswerInTries(self.url, self._tries, error.failure) if self._ours else error)
        said = self._owner.given_up
        return [Completion(each.key, "", "error", self._policy, error=said) for each in group]

    async def _try(self, client: Client, body: Mapping[str, Any], most: Used) -> Reply:
        if self._adapter is not None:
            async with self._loading:
                await self._load(client, self._adapter)
        try:
            reply = await super()._try(client, body, most)
        except RefusedError as error:
            if self._adapter is None or not (error.status in (400, 404) and _LOST.search(str(error))):
                raise
            self._owner.loaded.discard(self._adapter.name)
            raise FailedError(str(error)) from error
        known = self._owner.fingerprints
        expected = known.get(self._adapter.name, "") if self._adapter else self._server.fingerprint
        if reply.model != self.name or (expected and reply.fingerprint != expected):
            raise ModelError(
                f"expected an answer by the weights {expected[:12]} of {self.name}, got one by those "
                f"{reply.fingerprint[:12]} of {reply.model!r:.140}: does another program change {self.url}?"
            )
        return reply

    async def _load(self, client: Client, adapter: _Adapter) -> None:
        """Give the server the adapter, unless it has it, and take from it those before."""
        if adapter.name in self._owner.loaded:
            return
        way, body = self._server.way, {"lora_name": adapter.name}
        if way.by_path:
            path = await asyncio.to_thread(self._owner.path_of, adapter, self._server)
            given: dict[str, Any] = {**body, "lora_path": str(path)}
        else:
            given = {**body, "lora_files": {n: base64.b64encode(c).decode() for n, c in adapter.files.items()}}
        answer = await self._adapters.exchange(client, "POST", "/load_lora_adapter", given)
        told = what_is_told(answer.body)[:MOST_WORDS]
        said = answer.body if isinstance(answer.body, dict) else {}
        if answer.status != 200 and not (way.by_path and _LOADED.search(told)):
            words = f"status {answer.status}: {told}"
            if fault_of(answer.status, answer.body) == "failed":
                raise FailedError(words, pause=answer.pause)
            hint = " (VLLM_ALLOW_RUNTIME_LORA_UPDATING=True lets it)" if way is _WAYS["vllm"] else ""
            raise ModelError(f"{way.program} at {self.url} does not load the adapter{hint}: {words}")
        if self._server.fingerprint and said.get("base") != self._server.fingerprint:
            raise ModelError(f"{self.url} serves another base model than at first: start the run again")
        self._owner.loaded.add(adapter.name)
        self._owner.fingerprints.setdefault(adapter.name, str(said.get("fingerprint", "")))
        for old in [name for name in self._owner.loaded if name != adapter.name]:
            await self._adapters.exchange(client, "POST", "/unload_lora_adapter", {"lora_name": old})
            self._owner.forget(old)

    def _refuse(self, names: set[str]) -> None:
        super()._refuse(names)
        self._owner.refused = self._refused


def _batches(requests: Sequence[SampleRequest], most: int) -> list[list[SampleRequest]]:
    """Return the requests in batches of at most so many groups."""
    groups, found = groups_of(requests), []
    for first in range(0, len(groups), most):
        keys = {request.key for group in groups[first : first + most] for request in group}
        found.append([request for request in requests if request.key in keys])
    return found


def _within(requests: Sequence[SampleRequest], others: Sequence[SampleRequest]) -> bool:
    known = {other.key: other for other in others}
    return all(known.get(request.key) == request for request in requests)


def _by_suffix(content: bytes) -> bytes:
    """Return PEFT's config with linears named by their ends, and blocks by number: SGLang takes no full paths."""
    config = json.loads(content)
    paths = config["target_modules"]
    blocks = sorted({int(found[1]) for path in paths if (found := re.search(r"\.(\d+)\.", path))})
    config |= {"target_modules": sorted({path.rpartition(".")[2] for path in paths}), "layers_to_transform": blocks}
    return (json.dumps(config, indent=2) + "\n").encode()
