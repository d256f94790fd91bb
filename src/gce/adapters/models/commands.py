"""A command as a model: it gets the prompt in a file, and what it prints is the answer.

It runs as this user, in this directory and with this environment: not a sandbox. Time, output and memory are bounded,
and all in its process group ends with it. API keys of the environment are removed from what it prints.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from string import Formatter
from tempfile import TemporaryDirectory
from threading import Event

from gce.adapters.models.requests import all_different, cut_before
from gce.adapters.models.servers.redaction import Redaction, redacted
from gce.adapters.system.bounded_commands import run_bounded
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.serialization import to_plain
from gce.errors import ModelError, one_line

__all__ = ["CommandModel"]

FIELDS = ("prompt_file", "messages_file", "seed", "max_tokens", "temperature")
_FILES = FIELDS[:2]
_MOST_BYTES = 1 << 20
"""Of standard output."""
_MEMORY = 1 << 32
"""Bytes of data that each process of the command may allocate."""


class CommandModel:
    """Runs a command for every completion, several at a time."""

    def __init__(
        self,
        command: str,
        *,
        concurrency: int = 1,
        timeout: float = 300.0,
        memory: int = _MEMORY,
        keys: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Does not run anything yet.

        Args:
            command: words as a shell would split them, though none runs; {prompt_file} stands for a file with the
                prompt, {messages_file} for one with the messages as JSON, {seed}, {max_tokens} and {temperature} for
                those of the request.
            concurrency: commands at a time.
            timeout: seconds that one may take.
            memory: bytes of data of each process, where the system can hold it to that.
            keys: API keys that are removed from what it prints.
            environment: of the command; None for that of this process.

        Raises:
            ModelError: no command, one that does not say where the prompt goes, or one that cannot be found.
        """
        try:
            self._words = shlex.split(command)
            parts = [part for word in self._words for part in Formatter().parse(word) if part[1] is not None]
        except ValueError as error:
            raise ModelError(f"cannot read the command {command!r}: {error}") from error
        named, formatted = {name for _, name, _, _ in parts}, any(spec or how for _, _, spec, how in parts)
        if not self._words or not named & set(_FILES) or named - set(FIELDS) or formatted:
            raise ModelError(
                f"expected a command with {{prompt_file}} or {{messages_file}}, and none but "
                f"{', '.join(f'{{{field}}}' for field in FIELDS)} in braces, got {command!r}"
            )
        first = self._words[0].format(**dict.fromkeys(FIELDS, ""))
        if shutil.which(first, path=(os.environ if environment is None else environment).get("PATH")) is None:
            raise ModelError(f"cannot run the command {first!r}: it is not found, or no program")
        self._concurrency = concurrency
        self._timeout = timeout
        self._memory = memory
        self._redactions = [Redaction(key) for key in keys]
        self._environment = environment
        self._info = ModelInfo(hashlib.sha256(f"command {command}".encode()).hexdigest(), frozenset({"sample"}))

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity is that of the command line; what it does cannot be told."""
        return self._info

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. A command that fails, or exceeds a bound, is an `error`.

        Closing the iterator ends all commands.
        """
        requests = all_different(requests)
        stop = Event()
        with ThreadPoolExecutor(self._concurrency) as pool:
            try:
                running = [pool.submit(self._completion, request, stop) for request in requests]
                for each in as_completed(running):
                    yield each.result()
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)

    def _completion(self, request: SampleRequest, stop: Event) -> Completion:
        with TemporaryDirectory(prefix="gce-command-") as folder:
            output, error = self._run(self._arguments(request, Path(folder)), stop)
        if error:
            return Completion(request.key, "", "error", self._info.identity, error=error)
        text = redacted(output.decode(errors="replace"), self._redactions).rstrip("\n")
        return Completion(request.key, cut_before(text, request.stop), "stop", self._info.identity)

    def _arguments(self, request: SampleRequest, folder: Path) -> list[str]:
        """Write the files of a request and return the command's words."""
        prompt, messages = folder / "prompt.txt", folder / "messages.json"
        said = [
            each.content if len(request.messages) == 1 else f"[{each.role}]\n{each.content}"
            for each in request.messages
        ]
        prompt.write_text("\n\n".join(said), encoding="utf-8", errors="replace")
        messages.write_text(json.dumps(to_plain(request.messages)), encoding="utf-8")
        values = (prompt, messages, request.seed, request.max_tokens, request.temperature)
        return [word.format(**dict(zip(FIELDS, values, strict=True))) for word in self._words]

    def _run(self, words: Sequence[str], stop: Event) -> tuple[bytes, str]:
        """Return what the command prints, and what went wrong."""
        ended = run_bounded(
            words,
            seconds=self._timeout,
            memory=self._memory,
            most_output=_MOST_BYTES,
            environment=self._environment,
            stop=stop,
        )
        match ended.exceeded:
            case "output":
                return b"", f"the command printed more than {_MOST_BYTES:,} bytes"
            case "time":
                return b"", f"the command gave no answer within {self._timeout:g} seconds"
        if ended.status:
            last = redacted(ended.complaint.decode(errors="replace"), self._redactions).strip().rpartition("\n")[2]
            return b"", one_line(f"the command ended with exit status {ended.status}{last and ': '}{last}")
        return ended.output, ""
