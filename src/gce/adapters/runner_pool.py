"""Programs in sandboxes, several at a time, each in one that nobody had before: a Runner over a way to start them.

Each thread keeps a sandbox that was started ahead, since most of a short program's time is its interpreter's start.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from gce.adapters.process import usable_cores
from gce.adapters.sandbox_process import SandboxProcess, Silent
from gce.domain.types import Evidence, Execution, Outcome, OutcomeStatus

__all__ = ["PATIENCE", "RunnerPool"]

PATIENCE = 10.0
"""Wall-clock seconds for each second of processor time that a program may take."""
_OF_CANDIDATE: Mapping[str, OutcomeStatus] = {
    "V": "returned",
    "R": "raised",
    "N": "unplain",
    "L": "unloadable",
    "U": "undefined",
}
_OF_TESTS: Mapping[str, OutcomeStatus] = {"P": "passed", "X": "failed", "B": "broken"}
"""What the letters mean that come from inside, by who says them; see `sandbox_inside`."""
_GOES_ON = frozenset({"returned", "raised", "unplain"})
"""After these the program can be called again."""


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
        try:
            for execution in executions:
                ahead.append(self._threads.submit(self._one, execution))
                while ahead and (ahead[0].done() or len(ahead) > 2 * self._workers):
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for left in ahead:
                left.cancel()

    def close(self) -> None:
        """End all that waits."""
        self._threads.shutdown(cancel_futures=True)
        while self._spares:
            self._spares.pop().close()

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
        try:
            self._own.spare = self._start()
        except OSError:
            found.close()
            raise
        self._spares.add(self._own.spare)
        return found

    def _called(self, execution: Execution) -> Iterator[Outcome]:
        deadline = time.monotonic() + self._patience * execution.seconds
        with closing(self._take()) as candidate:
            loaded = _begun(candidate, execution, deadline)
            if loaded.status != "returned":
                yield loaded
                return
            for call in execution.calls:
                outcome = _heard(candidate, call)
                yield outcome
                if outcome.status not in _GOES_ON:
                    return

    def _tested(self, execution: Execution) -> Iterator[Outcome]:
        """The tests in one sandbox, the candidate in another, and plain values between them."""
        deadline = time.monotonic() + self._patience * execution.seconds
        with closing(self._take()) as candidate, closing(self._take()) as tests:
            outcome, text = _begun(candidate, execution, deadline), ""
            if outcome.status != "returned":
                yield outcome
                return
            try:
                tests.begin(execution, "tests", deadline)
                while outcome.status == "returned":
                    letter, said = tests.say(text)
                    if letter != "C":
                        yield Outcome(_OF_TESTS.get(letter, "broken"), said)
                        return
                    outcome = _heard(candidate, said)
                    text = outcome.text
            except Silent as silent:
                # Over time because of what they were given, or because of themselves: nobody can tell.
                outcome = Outcome("broken", f"the tests: {silent.status} {silent.text}".strip())
            yield outcome


def _begun(candidate: SandboxProcess, execution: Execution, deadline: float) -> Outcome:
    """The program is handed over and loaded."""
    try:
        candidate.begin(execution, "candidate", deadline)
    except Silent as silent:
        return Outcome("no-sandbox", silent.text)
    return _heard(candidate, "")


def _heard(candidate: SandboxProcess, text: str) -> Outcome:
    """What the candidate says, as an outcome."""
    try:
        letter, said = candidate.say(text)
    except Silent as silent:
        return Outcome(silent.status, silent.text)
    return Outcome(_OF_CANDIDATE[letter], said) if letter in _OF_CANDIDATE else Outcome("babbled")
