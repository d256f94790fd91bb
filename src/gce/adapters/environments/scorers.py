"""Calls functions of another framework in a worker process: its code is untrusted, and never runs in this one.

A function of a module under `gce.adapters.environments`, `load`, is called inside with plain arguments and returns the
functions that can be called, by name. What a call raises, a call that does not end, and a process that ends are
`ScorerFailed`; they say nothing of the answer. See `gce.adapters.sandboxes.scorers_inside` for what happens inside.
"""

from __future__ import annotations

import atexit
import json
import os
import site
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import Attribute, field, frozen

from gce.adapters.sandboxes.process import SandboxProcess, Silent, Start
from gce.adapters.sandboxes.scorers_inside import MOST_VALUE, put_together, taken_apart
from gce.errors import one_line

__all__ = ["BATCH", "Limits", "ScorerFailed", "Scorers", "installed_places", "whole"]

BATCH = 64
"""Calls that are sent together."""
BATCH_BYTES = 2**22
"""Size of calls, in bytes, from which on no more are sent with them."""
SLACK = 60.0
"""Seconds for starting a worker, and for what a busy machine adds to a list of calls."""

_PACKAGE = Path(__file__).parents[2]
"""The directory of `gce`."""

Call = Sequence[Any]
"""[function, argument ...], plain data as JSON has it."""


class ScorerFailed(Exception):
    """A call without a result. Nothing follows for the answer that was to be scored."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{text}" if kind == "raised" else f"the scorer failed: {text}")
        self.kind = kind
        """raised, time, ended, protocol, skipped, or nonsense."""


def whole(least: int) -> Callable[[Any, Attribute[Any], Any], None]:
    """What refuses other values than whole numbers from `least` on: the system takes no other limits."""

    def check(_record: Any, limit: Attribute[Any], value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"expected {limit.name} to be a whole number from {least:,} on, got {value!r:.40}")

    return check


@frozen
class Limits:
    """What scorers may use."""

    seconds: int = field(default=5, validator=whole(1))
    """Of processor time, for one call."""
    wait: int = field(default=30, validator=whole(1))
    """Seconds of waiting for one call, however busy the machine is."""
    loading: int = field(default=300, validator=whole(1))
    """Of waiting for the framework to be imported."""
    memory: int = field(default=4 * 2**30, validator=whole(2**26))
    """Address space of one process, in bytes."""
    renew: int = field(default=64, validator=whole(1))
    """Calls after which a new process is forked, so that no call finds what an earlier one left in memory; with 1, no
    call does."""


class Scorers:
    """A worker process, started at the first call and again where it ended. Thread-safe.

    `files` are files and directories that it sees besides installed packages, `path` where it finds modules among them.
    """

    def __init__(
        self,
        start: Start,
        module: str,
        arguments: Mapping[str, Any],
        *,
        files: Sequence[Path] = (),
        path: Sequence[Path] = (),
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._start = start
        # Of the directories in `path`, only what `files` names is shown.
        shown = dict.fromkeys(map(os.path.realpath, [*installed_places(), *map(str, files)]))
        self._shown = tuple((path, path) for path in shown)
        self._job = {
            "module": module,
            "arguments": dict(arguments),
            "path": [*map(os.path.realpath, path), *_search_path()],
            "seconds": self.limits.seconds,
            "wait": self.limits.wait,
            "loading": self.limits.loading,
            "memory": self.limits.memory,
            "renew": self.limits.renew,
        }
        self._process: SandboxProcess | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def call(self, *call: Any) -> Any:
        """What one call returns; ScorerFailed where nothing does."""
        (found,) = self.each([call])
        if isinstance(found, ScorerFailed):
            raise found
        return found

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """What each call returns, or its `ScorerFailed`, in order; at most `BATCH` calls are taken in advance."""
        coming = iter(calls)
        while some := list(islice(coming, BATCH)):
            bodies = [json.dumps(each).encode("ascii") for each in some]
            start = 0
            while start < len(bodies):
                end, size = start + 1, len(bodies[start])
                while end < len(bodies) and size < BATCH_BYTES:
                    size += len(bodies[end])
                    end += 1
                with self._lock:
                    found = self._answers(bodies[start:end])
                yield from map(_value, found)
                start = end

    def close(self) -> None:
        """End the worker."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _answers(self, bodies: list[bytes]) -> list[bytes]:
        """The worker's answers; where it ends, its calls are halved, so that the one that ends it fails alone."""
        try:
            process = self._process or self._started()
        except OSError as error:
            return [f"Fended {one_line(error)}".encode()] * len(bodies)
        self._process = None
        limits = self.limits
        process.allow(time.monotonic() + limits.loading + limits.wait * (len(bodies) + 1) + SLACK)
        try:
            text = process.exchange(put_together(bodies), len(bodies) * (MOST_VALUE + 8))
            answers = taken_apart(text)
            if len(answers) != len(bodies):
                raise Silent("babbled")
        except (Silent, ValueError):
            process.close()
            if len(bodies) == 1:
                return [b"Fended the worker process ended"]
            half = len(bodies) // 2
            return [*self._answers(bodies[:half]), *self._answers(bodies[half:])]
        except BaseException:
            process.close()
            raise
        self._process = process
        return answers

    def _started(self) -> SandboxProcess:
        process = self._start(self._shown, "scorers_inside")
        try:
            process.give(self._job, time.monotonic() + SLACK)
        except OSError:
            process.close()
            raise
        return process


def _value(answer: bytes) -> Any:
    """A value that was returned, or why there is none."""
    if answer.startswith(b"V"):
        try:
            return json.loads(answer[1:])
        except (ValueError, RecursionError):
            return ScorerFailed("nonsense", "it returned what is no plain data")
    kind, _, text = answer[1:].decode("ascii", "replace").partition(" ")
    return ScorerFailed(kind, one_line(text))


def installed_places() -> list[str]:
    """Directories of installed packages, and this package."""
    places = [*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return [*filter(os.path.isdir, places), str(_PACKAGE)]


def _search_path() -> list[str]:
    """Where modules are found inside: the standard library, installed packages, and this package."""
    standard = [path for path in sys.path if path.startswith(sys.base_prefix) or path.endswith(".zip")]
    return list(dict.fromkeys([*standard, *filter(os.path.isdir, installed_places()[:-1]), str(_PACKAGE.parent)]))
