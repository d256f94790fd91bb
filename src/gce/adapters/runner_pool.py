"""Programs in sandboxes, several at a time, each in one that nobody had before: a Runner over a way to start them.

Each thread keeps a sandbox that was started ahead, since most of a short program's time is its interpreter's start.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from gce.adapters.process import usable_cores
from gce.adapters.sandbox_process import STATUS, SandboxProcess, Silent
from gce.domain.types import Evidence, Execution, Outcome

__all__ = ["PATIENCE", "RunnerPool"]

PATIENCE = 10.0
"""Wall-clock seconds for each second of processor time that a program may take."""
_OF_CANDIDATE = frozenset({"returned", "raised", "unplain", "undefined", "unloadable"})
_OF_TESTS = frozenset({"passed", "failed", "broken"})


class RunnerPool:
    """A `Runner`: `start` makes a sandbox. Close it when it is no longer needed; a `with` block does."""

    def __init__(
        self, start: Callable[[], SandboxProcess], *, workers: int | None = None, patience: float = PATIENCE
    ) -> None:
        self._start = start
        self._patience = patience
        self._workers = workers or usable_cores()
        self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix="runner")
        self._own = threading.local()
        self._spares: set[SandboxProcess] = set()

    def run(self, executions: Iterable[Execution]) -> Iterator[Evidence]:
        """What came of each, in order; as many run at a time as there are workers."""
        ahead: deque[Future[Evidence]] = deque()
        for execution in executions:
            ahead.append(self._threads.submit(self._one, execution))
            while ahead and (ahead[0].done() or len(ahead) > 2 * self._workers):
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    def close(self) -> None:
        """End all that waits."""
        self._threads.shutdown(cancel_futures=True)
        while self._spares:
            self._spares.pop().end()

    def __enter__(self) -> RunnerPool:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _one(self, execution: Execution) -> Evidence:
        try:
            return Evidence(tuple(self._tested(execution) if execution.tests else self._called(execution)))
        except OSError as error:
            return Evidence((Outcome("no-sandbox", f"{type(error).__name__}: {error.strerror or error}"),))

    def _take(self) -> SandboxProcess:
        """A sandbox that was started ahead, and another one started for the next."""
        ready: SandboxProcess | None = getattr(self._own, "spare", None)
        self._own.spare = None
        found = ready or self._start()
        self._spares.discard(found)
        self._own.spare = spare = self._start()
        self._spares.add(spare)
        return found

    def _called(self, execution: Execution) -> Iterator[Outcome]:
        deadline = time.monotonic() + self._patience * execution.seconds
        candidate = self._take()
        try:
            candidate.begin(execution, "candidate", deadline)
            loaded = _heard(candidate, "", _OF_CANDIDATE)
            if loaded.status != "returned":
                yield loaded
                return
            for call in execution.calls:
                outcome = _heard(candidate, call, _OF_CANDIDATE)
                yield outcome
                if outcome.status not in _OF_CANDIDATE:
                    return
        finally:
            candidate.end()

    def _tested(self, execution: Execution) -> Iterator[Outcome]:
        """The tests in one sandbox, the candidate in another, and plain values between them."""
        deadline = time.monotonic() + self._patience * execution.seconds
        candidate, tests = self._take(), self._take()
        try:
            candidate.begin(execution, "candidate", deadline)
            tests.begin(execution, "tests", deadline)
            outcome = _heard(candidate, "", _OF_CANDIDATE)
            text = ""
            while outcome.status == "returned":
                try:
                    letter, said = tests.say(text)
                except Silent as silent:
                    # Over time because of what it was given, or because of itself: nobody can tell.
                    yield Outcome("broken", f"the tests: {silent.status} {silent.text}".strip())
                    return
                if letter != "C":
                    status = STATUS.get(letter, "broken")
                    yield Outcome(status if status in _OF_TESTS else "broken", said)
                    return
                outcome = _heard(candidate, said, _OF_CANDIDATE)
                text = outcome.text
            yield outcome
        finally:
            candidate.end()
            tests.end()


def _heard(process: SandboxProcess, text: str, expected: frozenset[Literal[str]]) -> Outcome:  # type: ignore[valid-type]
    """What comes back, as an outcome."""
    try:
        letter, said = process.say(text)
    except Silent as silent:
        return Outcome(silent.status, silent.text)
    status = STATUS.get(letter)
    return Outcome("babbled") if status is None or status not in expected else Outcome(status, said)
