"""Programs in sandboxes, several at a time, each in one that nobody had before: a Runner over a way to start them.

Each thread keeps a sandbox that was started ahead, since most of a short program's time is its interpreter's start.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

from gce.adapters.sandboxes.inside import MOST_EXCEPTION, MOST_SAID, RAISED
from gce.adapters.sandboxes.process import Role, SandboxProcess, Silent
from gce.adapters.system.process import usable_cores
from gce.domain.executions import Evidence, Execution, Outcome, OutcomeStatus
from gce.domain.plain_values import NotPlain, from_text, to_text
from gce.errors import one_line

__all__ = ["PATIENCE", "RunnerPool"]

PATIENCE = 10.0
"""Wall-clock seconds for each second of processor time that a program may take."""
STARTS = 3
"""How often a program is given another sandbox where one does not come up: a machine may be short of something."""
PAUSE = 0.05
"""Seconds before it is tried again, twice as many each time."""

Letters = Mapping[str, OutcomeStatus]
"""What may be said at one point, and what it means; see `inside`. Anything else spoils the channel."""
_LOADING: Letters = {"V": "returned", "L": "unloadable", "U": "undefined"}
_CALLED: Letters = {"V": "returned", "R": "raised", "N": "unplain"}
_OF_TESTS: Letters = {"P": "passed", "X": "failed", "B": "broken"}
_GOES_ON = frozenset(_CALLED.values())
"""After these the program can be called again."""
_STEERS = frozenset({"builtins.StopIteration", "builtins.StopAsyncIteration", "builtins.GeneratorExit"})
"""Exceptions that Python itself takes for the end of a loop; tests are not run on behind one."""


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
        patience = self._patience * execution.seconds
        began = time.monotonic()
        for tried in range(1, STARTS + 1):
            try:
                run = self._tested if execution.tests else self._called
                return Evidence(tuple(run(execution, time.monotonic() + patience)))
            except OSError as error:
                # One that takes long to fail would do so again, and evidence has to come in time.
                if tried == STARTS or self._closed or time.monotonic() - began >= patience / 4:
                    return Evidence((Outcome("no-sandbox", one_line(error)),))
                time.sleep(PAUSE * 2 ** (tried - 1))
        raise AssertionError("the last try returns")

    @contextmanager
    def _sandbox(self, execution: Execution, role: Role, deadline: float) -> Iterator[SandboxProcess]:
        """A sandbox with its job, ended after it: the one that was started ahead, and another started for the next."""
        if self._closed:
            raise OSError("the runner is closed")
        ready: SandboxProcess | None = getattr(self._own, "spare", None)
        self._own.spare = None
        found = ready or self._started()
        try:
            with suppress(OSError):  # The next one will say so.
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
            loaded, _ = _heard(candidate, "", _LOADING)
            if loaded.status != "returned":
                yield loaded
                return
            for call in execution.calls:
                outcome, _ = _heard(candidate, call, _CALLED)
                yield outcome
                if outcome.status not in _GOES_ON:
                    return

    def _tested(self, execution: Execution, deadline: float) -> Iterator[Outcome]:
        """The tests in one sandbox, the candidate in another, and plain values between them."""
        with (
            self._sandbox(execution, "candidate", deadline) as candidate,
            self._sandbox(execution, "tests", deadline) as tests,
        ):
            outcome, answer = _heard(candidate, "", _LOADING)
            calls = 0
            while answer is not None:
                try:
                    letter, said = tests.say(answer)
                except Silent as silent:
                    # Before the first call it can only be their own fault.
                    reason = f"the tests ended: {silent.status} {silent.text}".strip()
                    outcome = Outcome("failed" if calls else "broken", reason)
                    break
                if letter != "C":
                    if letter != "X" or outcome.status != "raised":
                        outcome = _of_tests(letter, said, calls)
                    break
                calls += 1
                outcome, answer = _heard(candidate, said, _CALLED)
            yield outcome


def _heard(candidate: SandboxProcess, text: str, letters: Letters) -> tuple[Outcome, str | None]:
    """What the candidate says, as an outcome, and what tests hear of it; None where they are not run on.

    The candidate may say what it likes: only what one of the letters may bring is taken.
    """
    try:
        letter, said = candidate.say(text)
    except Silent as silent:
        return Outcome(silent.status, silent.text), None
    status = letters.get(letter)
    if status == "raised":
        return _raised(said)
    if status is None or (letters is _LOADING and status == "returned" and said):
        return Outcome("babbled"), None
    if status == "returned":
        return Outcome(status, said), said
    return Outcome(status, _shown(said)), None


def _raised(said: str) -> tuple[Outcome, str | None]:
    """An exception, which tests hear of where it is one that they may expect."""
    try:
        if len(said) > MOST_EXCEPTION:
            raise NotPlain(f"an exception of {len(said)} characters")
        name, message, classes, arguments = from_text(said)
        if type(arguments) is not tuple or any(type(word) is not str for word in (name, message, *classes)):
            raise NotPlain("an exception of other types")
    except (ValueError, TypeError):
        return Outcome("babbled"), None
    outcome = Outcome("raised", ascii(f"{name}: {message}" if message else name)[1:-1][:MOST_SAID])
    expectable = "builtins.Exception" in classes and _STEERS.isdisjoint(classes)
    return outcome, RAISED + to_text([message, [*classes], arguments]) if expectable else None


def _of_tests(letter: str, said: str, calls: int) -> Outcome:
    if letter not in _OF_TESTS or (letter == "P" and said != str(calls)):
        return Outcome("broken", "the tests spoiled the channel")
    return Outcome(_OF_TESTS[letter], _shown(said))


def _shown(text: str) -> str:
    """What came from inside, in short, without what would not show."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:MOST_SAID])
