"""Programs in sandboxes, several at a time, each in one that nobody had before: a Runner over a way to start them.

Each thread keeps a sandbox that was started ahead, since most of a short program's time is its interpreter's start.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from gce.adapters.process import usable_cores
from gce.adapters.sandbox_inside import RAISED
from gce.adapters.sandbox_process import Role, SandboxProcess, Silent
from gce.domain.types import Evidence, Execution, Outcome, OutcomeStatus
from gce.errors import one_line

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
        self._alive: set[SandboxProcess] = set()
        self._closed = False

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
        """End all that runs or waits."""
        self._closed = True
        for process in tuple(self._alive):
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        while self._alive:
            self._alive.pop().close()

    def __enter__(self) -> RunnerPool:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _one(self, execution: Execution) -> Evidence:
        deadline = time.monotonic() + self._patience * execution.seconds
        try:
            outcomes = (self._tested if execution.tests else self._called)(execution, deadline)
            return Evidence(tuple(outcomes))
        except OSError as error:
            return Evidence((Outcome("no-sandbox", one_line(error)),))

    @contextmanager
    def _sandbox(self, execution: Execution, role: Role, deadline: float) -> Iterator[SandboxProcess]:
        """A sandbox with its job, ended after it: the one that was started ahead, and another started for the next."""
        if self._closed:
            raise OSError("the runner is closed")
        ready: SandboxProcess | None = getattr(self._own, "spare", None)
        self._own.spare = None
        found = ready or self._started()
        try:
            self._own.spare = self._started()
            found.begin(execution, role, deadline)
            yield found
        finally:
            self._alive.discard(found)
            found.close()

    def _started(self) -> SandboxProcess:
        process = self._start()
        self._alive.add(process)
        return process

    def _called(self, execution: Execution, deadline: float) -> Iterator[Outcome]:
        with self._sandbox(execution, "candidate", deadline) as candidate:
            loaded = _heard(candidate, "")
            if loaded.status != "returned":
                yield loaded
                return
            for call in execution.calls:
                outcome = _heard(candidate, call)
                yield outcome
                if outcome.status not in _GOES_ON:
                    return

    def _tested(self, execution: Execution, deadline: float) -> Iterator[Outcome]:
        """The tests in one sandbox, the candidate in another, and plain values between them."""
        with (
            self._sandbox(execution, "candidate", deadline) as candidate,
            self._sandbox(execution, "tests", deadline) as tests,
        ):
            outcome, text, calls = _heard(candidate, ""), "", 0
            while outcome.status in ("returned", "raised"):
                try:
                    letter, said = tests.say(text)
                except Silent as silent:
                    # Before the first call it can only be their own fault.
                    reason = f"the tests ended: {silent.status} {silent.text}".strip()
                    outcome = Outcome("failed" if calls else "broken", reason)
                    break
                if letter != "C":
                    if letter != "X" or outcome.status != "raised":
                        outcome = Outcome(_OF_TESTS.get(letter, "broken"), said)
                    break
                outcome, calls = _heard(candidate, said), calls + 1
                text = outcome.text if outcome.status == "returned" else RAISED + outcome.text.partition(":")[0]
            yield outcome


def _heard(candidate: SandboxProcess, text: str) -> Outcome:
    """What the candidate says, as an outcome."""
    try:
        letter, said = candidate.say(text)
    except Silent as silent:
        return Outcome(silent.status, silent.text)
    return Outcome(_OF_CANDIDATE[letter], said) if letter in _OF_CANDIDATE else Outcome("babbled")
