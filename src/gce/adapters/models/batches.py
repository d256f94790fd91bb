"""A model whose answers come through files of OpenAI's batch format: requests go out in one, answers come in another.

In a directory, `requests-N.jsonl` are written here; every other `*.jsonl` is read as answers, which a batch API, or
whoever computed them, has put there. Nothing is sent. The format: https://platform.openai.com/docs/guides/batch

In a ledger, requests without an answer count at the most that they can use, before any of them is written; answers
count at what the file says that they used.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gce.adapters.models.ledger import Ledger
from gce.adapters.models.request_hash import request_hash
from gce.adapters.models.requests import all_different
from gce.adapters.models.servers.chat_requests import (
    body_of_request,
    completion_of,
    most_used,
    parameters_of,
    temperature_note,
)
from gce.adapters.models.servers.dialect import NotAReplyError
from gce.adapters.models.servers.faults import fault_of, what_is_told
from gce.adapters.models.servers.openai_format import OPENAI
from gce.adapters.models.servers.providers import SERVER, Provider, split_name
from gce.adapters.models.servers.redaction import Redaction
from gce.adapters.system.input_files import open_input
from gce.adapters.system.output_files import write_output
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.spending import Price, Used, cost_of
from gce.domain.text import counted
from gce.errors import BadInput, ModelError, Unfinished

__all__ = ["FORM", "BatchModel"]

FORM = "batch:DIR#MODEL"
_URL = "/v1/chat/completions"
_MOST_REQUESTS = 50_000
"""In one file: OpenAI's own limit."""
_MOST_BYTES = 1 << 30
"""Of one file of answers."""
_WRITTEN = re.compile(r"requests-([0-9]+)\.jsonl")
_BROKEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class BatchModel:
    """A model that is asked through files. Has `Sampler` of `gce.ports.model`.

    What has an answer is answered; for the rest a file of requests is written, unless one without any answer yet has
    them, and `Unfinished` says what to do. Requests are named by their hash, so answers are found by any later command
    that asks the same. A request whose answer is an error is not asked again: delete the line of the answer for that.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        keys: Sequence[str] = (),
        ledger: Ledger | None = None,
        price: Price | None = None,
    ) -> None:
        """`name` is a model's as the server knows it, or PROVIDER:MODEL; `keys` are removed from what is read.

        Raises:
            ModelError: a provider of another dialect, or no name.
        """
        provider, model = split_name(name) or (SERVER, name)
        if not model or provider.dialect is not OPENAI:
            raise ModelError(f"expected {FORM} with a model of a provider that speaks OpenAI's format, got {name!r}")
        self._folder = folder
        self._provider: Provider = provider
        self._model = model
        self._ledger = ledger or Ledger()
        self._price = price
        self._counted = set[str]()
        """Answers that are in the ledger."""
        self._redactions = [Redaction(key) for key in keys]
        identity = hashlib.sha256(f"batch {name}".encode()).hexdigest()
        note = temperature_note(provider, model)
        self._info = ModelInfo(identity, frozenset({"sample"}), note=note, greedy=not note)

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity is the model's name."""
        return self._info

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`.

        Raises:
            Unfinished: some have no answer yet, or could exceed a limit of the ledger and were not written; all others
                were yielded before.
            BadInput: the directory cannot be used, or a file of answers is none.
        """
        requests = all_different(requests)
        answers, waiting = self._answers(), dict[str, SampleRequest]()
        for request in requests:
            name = request_hash(self._info, request)
            if name in answers:
                if name not in self._counted:
                    self._counted.add(name)
                    self._ledger.settle(Used(), self._used(request, answers[name]))
                yield self._completion(request, answers[name])
            else:
                waiting.setdefault(name, request)
        if waiting:
            raise self._ask(waiting, answers)

    def _used(self, request: SampleRequest, answer: Mapping[str, Any]) -> Used:
        """Return what an answer used; without a count, or with an error that may have been billed, the most."""
        most = most_used([request], self._price)
        response = answer.get("response") or {}
        status = response.get("status_code")
        if isinstance(status, int) and 400 <= status < 500:
            return Used(1)
        try:
            reply = self._provider.dialect.read(response.get("body"))
        except NotAReplyError:
            return most
        read = most.prompt_tokens if reply.prompt_tokens is None else reply.prompt_tokens
        return cost_of(self._price, read, most.tokens if reply.tokens is None else reply.tokens)

    def _completion(self, request: SampleRequest, answer: Mapping[str, Any]) -> Completion:
        """Return what a line of answers says."""
        response = answer.get("response") or {}
        status, body = response.get("status_code"), response.get("body")
        if status == 200 and not answer.get("error"):
            try:
                reply = self._provider.dialect.read(body)
                return completion_of(request, reply.choices[0], reply, self._info.identity)
            except NotAReplyError as error:
                return Completion(request.key, "", "error", self._info.identity, error=str(error))
        told = what_is_told(answer.get("error") or body)[:300]
        if isinstance(status, int) and fault_of(status, body) == "no room":
            no_room = f"no room in the context: {told}"
            return Completion(request.key, "", "context", self._info.identity, error=no_room)
        return Completion(request.key, "", "error", self._info.identity, error=f"the batch has an error: {told}")

    def _answers(self) -> dict[str, Mapping[str, Any]]:
        """Return the lines of all files of answers, by request; of several, the last in the order of file names."""
        found: dict[str, Mapping[str, Any]] = {}
        for path in sorted(self._folder.glob("*.jsonl")) if self._folder.is_dir() else ():
            if not _WRITTEN.fullmatch(path.name):
                with open_input(path, _MOST_BYTES) as lines:
                    found |= (self._answer(path, number, line) for number, line in enumerate(lines, 1))
        return found

    def _answer(self, path: Path, number: int, line: bytes) -> tuple[str, Mapping[str, Any]]:
        """Return the request's name and the answer of a line."""
        try:
            record = self._redacted(json.loads(line))
            (record.get("response") or {}).get("body")
            return str(record["custom_id"]), {name: record.get(name) for name in ("response", "error")}
        except _BROKEN as error:
            raise BadInput(f"line {number} of {path} is no answer in OpenAI's batch format") from error

    def _ask(self, waiting: Mapping[str, SampleRequest], answers: Mapping[str, Any]) -> Unfinished:
        """Write what nobody was asked yet, and return what to do next."""
        asked, number = set[str](), 0
        for path in self._folder.glob("requests-*.jsonl") if self._folder.is_dir() else ():
            if named := _WRITTEN.fullmatch(path.name):
                number = max(number, int(named[1]))
                names = self._names(path)
                asked |= set() if names & answers.keys() else names
        new = [name for name in waiting if name not in asked]
        if new:
            most = sum((most_used([each], self._price) for each in waiting.values()), Used())
            if not self._ledger.reserve(most):
                return Unfinished(f"{counted(len(new), 'request')} not written: others that are under way come first")
        written = []
        for start in range(0, len(new), _MOST_REQUESTS):
            number += 1
            lines = [json.dumps(self._line(name, waiting[name])) for name in new[start : start + _MOST_REQUESTS]]
            path = self._folder / f"requests-{number}.jsonl"
            write_output(path, ("\n".join(lines) + "\n").encode(), instead="give another directory")
            written.append(str(path))
        wrote = f"{len(new):,} of them written to {', '.join(written)}" if written else "all of them written before"
        return Unfinished(
            f"no answer yet to {counted(len(waiting), 'request')}, {wrote}",
            hint=f"have them answered as a batch, put the file of answers into {self._folder}, and run the same "
            "command again",
        )

    def _names(self, path: Path) -> set[str]:
        try:
            with open_input(path, _MOST_BYTES) as lines:
                return {str(json.loads(line)["custom_id"]) for line in lines}
        except _BROKEN as error:
            raise BadInput(f"{path} is no file of requests in OpenAI's batch format") from error

    def _line(self, name: str, request: SampleRequest) -> dict[str, Any]:
        refused = self._provider.of(self._model).refused
        parameters = {name: value for name, value in parameters_of([request]).items() if name not in refused}
        body = body_of_request(self._provider, self._model, request, parameters)
        return {"custom_id": name, "method": "POST", "url": _URL, "body": body}

    def _redacted(self, value: Any) -> Any:
        for redaction in self._redactions:
            value = redaction.value(value)
        return value
