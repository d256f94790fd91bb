"""A Runner that runs several programs in parallel, each in a fresh sandbox.

Each thread starts its next sandbox in advance, because starting the interpreter takes most of a short program's time.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from math import inf

from attrs import evolve

from gce.adapters.sandboxes.inside import MOST_EXCEPTION, MOST_SAID, RAISED, TIMES
from gce.adapters.sandboxes.process import Role, SandboxProcess, Silent
from gce.adapters.system.process import drawn_processor, usable_cores
from gce.domain.executions import Evidence, Execution, Outcome, OutcomeStatus
from gce.domain.plain_values import NotPlain, from_text, to_text
from gce.errors import one_line

__all__ = ["PATIENCE", "RunnerPool"]

PATIENCE = 10.0
"""Wall-clock seconds allowed for each second of a program's processor time."""
STARTS = 3
"""Maximum attempts to start a sandbox; starts may fail if the machine is short of resources."""
PAUSE = 0.05
"""Seconds before the first retry; doubles each time."""

Letters = Mapping[str, OutcomeStatus]
"""Letters allowed at one point of the protocol, with their meaning; see `inside`. Any other breaks the protocol."""
_LOADING: Letters = {"V": "returned", "L": "unloadable", "U": "undefined"}
_CALLED: Letters = {"V": "returned", "R": "raised", "N": "unplain", "A": "changed"}
_TIMED: Letters = {**_LOADING, **_CALLED}
_OF_TESTS: Letters = {"P": "passed", "X": "failed", "B": "broken"}
_GOES_ON = frozenset(_CALLED.values())
"""Outcomes after which the program can be called again."""
_STEERS = frozenset({"builtins.StopIteration", "builtins.StopAsyncIteration", "builtins.GeneratorExit"})
"""Exceptions that Python interprets as the end of a loop; tests do not continue after one."""


class RunnerPool:
    """A `Runner` over sandboxes made by `start`. Close it after use; a `with` block does so."""

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
        """Yield the evidence of each execution, in order, with as many in parallel as there are workers."""
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
        """End all running and waiting sandboxes."""
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
                if execution.rivals:
                    return self._beside_rivals(execution, patience)
                run = self._tested if execution.tests else self._called
                return Evidence(tuple(run(execution, time.monotonic() + patience)))
            except OSError as error:
                # A start that fails slowly would do so again, and evidence must arrive in time.
                if tried == STARTS or self._closed or time.monotonic() - began >= patience / 4:
                    return Evidence((Outcome("no-sandbox", one_line(error)),))
                time.sleep(PAUSE * 2 ** (tried - 1))
        raise AssertionError("the last try returns")

    @contextmanager
    def _sandbox(
        self, execution: Execution, role: Role, deadline: float, processor: int | None = None
    ) -> Iterator[SandboxProcess]:
        """Yield a sandbox that has its job, end it afterwards, and start the thread's next sandbox in advance."""
        if self._closed:
            raise OSError("the runner is closed")
        ready: SandboxProcess | None = getattr(self._own, "spare", None)
        self._own.spare = None
        found = ready or self._started()
        try:
            with suppress(OSError):  # The next start will report it.
                self._own.spare = self._started()
            found.begin(execution, role, deadline, processor=processor)
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

    def _beside_rivals(self, execution: Execution, patience: float) -> Evidence:
        found = [list(self._called(execution, time.monotonic() + patience))]
        if len(found[0]) < len(execution.calls) or found[0][-1].status not in _GOES_ON:
            return Evidence(tuple(found[0]))
        programs = [execution, *(evolve(execution, source=rival) for rival in execution.rivals)]
        found += [list(self._called(rival, time.monotonic() + patience)) for rival in programs[1:]]
        if all(each == found[0] for each in found) and all(each.status == "returned" for each in found[0]):
            for outcomes, timed in zip(found, self._timed(programs, patience), strict=True):
                outcomes += timed
        return Evidence(tuple(found[0]), tuple(map(tuple, found[1:])))

    def _timed(self, programs: Sequence[Execution], patience: float) -> list[list[Outcome]]:
        """Return the outcomes of each program's timed calls, up to the first call that did not return.

        All programs make a call at the same time on one processor: a slow moment of the machine hits each alike. Each
        has its share of the time, and `patience` seconds for it, so that none can use up the time of another. The first
        program's time includes what it waited longer than any rival: a processor that has slept is faster for a while.
        """
        outcomes: list[list[Outcome]] = [[] for _ in programs]
        waited: list[list[float]] = [[] for _ in programs]
        left = [patience * len(programs) for _ in programs]
        processor = drawn_processor(random.Random("".join(programs[0].timed)))

        def heard(number: int, call: str) -> tuple[Outcome, float]:
            began = time.monotonic()
            sandboxes[number].allow(began + left[number])
            found = _heard_timed(sandboxes[number], call)
            left[number] -= time.monotonic() - began
            return found

        with ExitStack() as stack, ThreadPoolExecutor(len(programs)) as threads:
            deadline = time.monotonic() + left[0]
            sandboxes = [stack.enter_context(self._sandbox(each, "timed", deadline, processor)) for each in programs]
            for call in programs[0].timed:
                for number, found in enumerate(threads.map(heard, range(len(programs)), [call] * len(programs))):
                    outcome, waiting = found
                    outcomes[number].append(outcome)
                    waited[number].append(waiting)
                if any(each[-1].status != "returned" for each in outcomes):
                    break
        usual = max((max(each) for each in waited[1:]), default=inf)
        outcomes[0] = [
            outcome if outcome.seconds is None else evolve(outcome, seconds=outcome.seconds + max(0.0, waiting - usual))
            for outcome, waiting in zip(outcomes[0], waited[0], strict=True)
        ]
        return outcomes

    def _tested(self, execution: Execution, deadline: float) -> Iterator[Outcome]:
        """Run the tests in one sandbox and the candidate in another, with plain values passed between them."""
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
                    # Before the first call, only the tests themselves can be at fault.
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
    """Return the candidate's message as an outcome, and what the tests receive; None if the tests do not continue.

    The candidate is hostile: only the letters that are allowed at this point are accepted.
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


def _heard_timed(candidate: SandboxProcess, call: str) -> tuple[Outcome, float]:
    """Return the outcome of a timed call, with its processor time, and the seconds that it waited.

    The letter and the text behind the times are hostile.
    """
    try:
        letter, said = candidate.say(call)
    except Silent as silent:
        return Outcome(silent.status, silent.text), 0.0
    status, times, text = _TIMED.get(letter), said[:TIMES], said[TIMES:]
    if status is None or len(times) < TIMES or not times.isdecimal():
        return Outcome("babbled"), 0.0
    processor, wall, _ = (int(times[place : place + TIMES // 3]) / 1e6 for place in range(0, TIMES, TIMES // 3))
    return Outcome(status, text if status == "returned" else _shown(text), processor), wall - processor


def _raised(said: str) -> tuple[Outcome, str | None]:
    """Return an exception, which the tests receive only if they may expect its type."""
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
    """Return text from inside the sandbox, shortened, with unprintable characters replaced."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:MOST_SAID])
