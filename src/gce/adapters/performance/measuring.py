"""Times versions of code against each other in sandboxes, and compares their outputs.

Each version has a sandbox that sees its code alone, always at the same path, and a new one for each round. A timing
is one call of the workload's `run` in a new process of that sandbox, which has drawn its input before the clock starts
and imports the code after; it may start no process and no thread and leave no file. Its processor time is taken by its
parent. The versions run at the same time on one processor, which the system divides among them in slices of
milliseconds: what makes it slow for a moment (other programs, its clock, other tenants of the machine) makes it slow
for all of them. Outputs cross as plain data and are compared by the workload's `equal` in a sandbox that sees no
version. Knows no rule of decision.
"""

from __future__ import annotations

import math
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from attrs import evolve, frozen

from gce.adapters.performance.trees import BadTree, prepare_tree, read_tree
from gce.adapters.sandboxes.container import Container
from gce.adapters.sandboxes.inside import TIMES
from gce.adapters.sandboxes.pool import PATIENCE
from gce.adapters.sandboxes.process import Lost, Role, SandboxProcess, Silent, Start
from gce.adapters.system.process import drawn_processor
from gce.domain.executions import Execution
from gce.domain.performance.decision import FAILED, MOST, Comparison, Round, Rule, Timing, decide
from gce.domain.performance.patches import tree_digest
from gce.domain.performance.sources import faults_of, tests_of
from gce.domain.performance.task import PerformanceTask, Source
from gce.domain.plain_values import NotPlain, from_text, to_text
from gce.domain.randomness import key, python_generator
from gce.domain.text import printable
from gce.errors import BadInput

__all__ = ["CHECKED", "TRIES", "Measuring", "check_sources"]

_Found = TypeVar("_Found")

CHECKED = 10
"""Inputs on which outputs are compared before anything is timed."""
CODE = "/code"
"""Where a sandbox shows the code that it measures."""
TRIES = 3
"""Tries of a comparison whose sandboxes do not start, vanish or do not answer."""
_PAUSE = 1.0
"""Seconds before the second try; doubled for the third."""
_GRACE = 30.0
"""Seconds after which a sandbox that should have ended its program by the limit of wall-clock time is given up."""
_MOST_SAID = 200
_MOST_SHOWN = 60

_RUN = """

def __gce_run__(step, value):
    global __gce_input__
    if step == "setup":
        __gce_input__ = setup(value)
        return None
    import sys
    sys.path.insert(0, __gce_code__)
    return run(__gce_input__)
"""
_TEST = """

def __gce_test__(name):
    return globals()[name]()
"""
_EQUAL = """

def __gce_equal__(a, b):
    return equal(a, b) is True
"""
_MOST_PRINTED = 2**20
"""Bytes of what `accuracy_command` prints."""
_ACCURACY = f"""

def __gce_accuracy__(words):
    import os, subprocess, sys
    words = [sys.executable if word in ("python", "python3") else word for word in words]
    own = os.environ | {{"PYTHONPATH": __gce_code__}}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(words, stdin=null, stdout=pipe, stderr=null, cwd="/tmp", env=own) as process:
        said = process.stdout.read({_MOST_PRINTED})
        process.stdout.close()
    return [process.returncode, said[-200:].decode("utf-8", "replace")]
"""
_FAULTS: Mapping[str, str] = {
    "L": "was not loaded",
    "U": "was not loaded",
    "R": "raised",
    "N": "returned what is no plain data, or more than 262,144 characters of it",
    "W": "broke the protocol, or left a file behind",
}
_SILENCES: Mapping[str, str] = {
    "cpu": "reached the limit of processor time",
    "time": "reached the limit of wall-clock time",
    "ended": "ended its process",
    "babbled": "broke the protocol, or left a file behind",
}
_SELF_TEST = PerformanceTask(
    name="self-test",
    base=Source(directory="base"),
    human=Source(directory="base"),
    workload="""\
def setup(seed):
    return 0.5

def run(seconds):
    import os, time
    try:
        child = os.fork()
    except OSError:
        child = None
    if not child:
        while time.process_time() < seconds:
            pass
    if child == 0:
        os._exit(0)
    if child:
        os.waitpid(child, 0)
    return True

def equal(a, b):
    return a == b
""",
    tests="def test_nothing():\n    pass\n",
)


class _Faulty(Exception):
    """A version did not do what it should; the text says what it did."""


class _Vanished(Exception):
    """A sandbox did not start, ended, or does not answer, which is no version's fault."""


@frozen
class _Sandbox:
    """A sandbox with its job, and the wall-clock seconds in which it ends a program that gives no answer."""

    process: SandboxProcess
    wall: float
    times: int
    """Digits before what is returned: `TIMES` of timed calls, else 0."""

    def ask(self, text: str, what: str) -> tuple[str, str]:
        """Return the times of a call and what it returned, as text; both are hostile.

        Raises:
            _Faulty: it did not return; `what` stands in front of the reason.
            _Vanished: the sandbox ended, or does not answer.
        """
        self.process.allow(time.monotonic() + self.wall + _GRACE)
        try:
            letter, said = self.process.say(text)
        except Lost as lost:
            raise _Vanished(f"a sandbox {'ended' if lost.status == 'ended' else 'does not answer'}") from lost
        except Silent as silent:
            raise _Faulty(f"{what} {_SILENCES.get(silent.status, silent.status)}") from silent
        times, value = said[: self.times], said[self.times :]
        if letter != "V":
            shown = _as_said(letter, value)
            raise _Faulty(f"{what} {_FAULTS.get(letter, 'broke the protocol')}{': ' if shown else ''}{shown}")
        return times, value


class Measuring:
    """Compares versions of code in sandboxes that `start` makes."""

    def __init__(self, start: Start, accuracies: MutableMapping[str, float] | None = None) -> None:
        """`accuracies`, by digest of code and command, are not measured again; those measured are added."""
        self._start = start
        self._accuracies = {} if accuracies is None else accuracies

    def check(self, image: str = "") -> Timing:
        """Run half a second of work in a child process in a sandbox, and return its timing as seen from outside.

        `image` is a task's, empty for none.

        Raises:
            BadInput: the sandbox does not start, or does not see that time.
        """
        try:
            timing = _tried(lambda: self._self_test(image), lambda _: None)
        except _Faulty as fault:
            raise BadInput(f"the sandbox's self-test {fault}") from fault
        except _Vanished as vanished:
            raise BadInput(str(vanished)) from vanished
        if not 0.45 <= timing.seconds <= 1.0:
            raise BadInput(
                f"this sandbox reports {timing.seconds:.3f} s of processor time for 0.5 s of work in a child process, "
                "so nothing can be measured in it",
                hint="try another {runner}",
            )
        return timing

    def _self_test(self, image: str) -> Timing:
        with tempfile.TemporaryDirectory(prefix="gce-") as home, ExitStack() as stack:
            tree = Path(home, "code")
            tree.mkdir(mode=0o755)
            return _timed(self._workload(evolve(_SELF_TEST, image=image), tree, stack), 0)[1]

    def compare(
        self,
        task: PerformanceTask,
        base: Path,
        candidate: Path,
        *,
        human: Path | None = None,
        seed: int,
        rule: Rule = decide,
        checked: int | None = None,
        on_round: Callable[[int], None] = lambda _: None,
        on_retry: Callable[[str], None] = lambda _: None,
    ) -> Comparison:
        """Compare two trees of sources, with the human's beside them.

        First the tests, and outputs on inputs that are not timed; then rounds until `rule` settles, whose outputs must
        be equal, too. No input is used twice. All begins anew where a sandbox vanishes, in at most `TRIES` tries.

        Args:
            task: says how the trees are run.
            base: what the others are compared with.
            candidate: the tree that is judged.
            human: the human's form; None for none.
            seed: from which inputs and orders are drawn.
            rule: decides.
            checked: number of inputs that are not timed; by default `CHECKED`.
            on_round: is told the number of rounds with each round.
            on_retry: is told before each further try why the one before failed.

        Raises:
            BadInput: workload, tests, base or human do not run.
        """
        check_sources(task)
        trees = {"base": base, "candidate": candidate} | ({} if human is None else {"human": human})
        try:
            number = CHECKED if checked is None else checked
            return _tried(lambda: self._compared(task, trees, seed, rule, number, on_round), on_retry)
        except _Faulty as fault:
            return Comparison(task.name, "incorrect", fault=str(fault))
        except _Vanished as vanished:
            return Comparison(task.name, FAILED, fault=f"{vanished}, in the last of {TRIES} tries")

    def _compared(
        self,
        task: PerformanceTask,
        trees: Mapping[str, Path],
        seed: int,
        rule: Rule,
        checked: int,
        on_round: Callable[[int], None],
    ) -> Comparison:
        """Compare the trees once; _Faulty for an incorrect candidate."""
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gce-")))
            for name, tree in trees.items():
                with _blamed(name, task):
                    prepare_tree(tree, home / name, CODE)
            prepared = {name: home / name for name in trees}
            calls = (MOST + checked) * len(trees)
            judge = self._judge(task, calls, stack)
            self._check(task, prepared, judge, seed, checked)
            accuracy = self._all_accuracies(task, prepared)
            found = self._measured(task, prepared, judge, seed, rule, on_round)
            return evolve(found, equal=checked + len(found.rounds), accuracy=accuracy)

    def _workload(
        self, task: PerformanceTask, tree: Path, stack: ExitStack, *, processor: int | None = None, beside: int = 0
    ) -> _Sandbox:
        source = task.workload + _RUN
        return self._sandbox(tree, "timed", task, source, "__gce_run__", stack, processor=processor, beside=beside)

    def _workloads(
        self, task: PerformanceTask, trees: Mapping[str, Path], stack: ExitStack, processor: int | None = None
    ) -> dict[str, _Sandbox]:
        """A new sandbox for each version, all on one processor if it is given."""
        found, beside = {}, len(trees) - 1
        for name, tree in trees.items():
            with _blamed(name, task):
                found[name] = self._workload(task, tree, stack, processor=processor, beside=beside)
        return found

    def _judge(self, task: PerformanceTask, calls: int, stack: ExitStack) -> _Sandbox:
        """Start what compares outputs, in one process for so many calls of `equal`."""
        source, cpu = task.workload + _EQUAL, task.seconds * calls
        judge = self._sandbox(None, "candidate", task, source, "__gce_equal__", stack, cpu=cpu)
        try:
            judge.ask("", f"the workload of {task.name}")
        except _Faulty as fault:
            raise BadInput(f"without the code it measures, {fault}") from fault
        return judge

    def _sandbox(
        self,
        tree: Path | None,
        role: Role,
        task: PerformanceTask,
        source: str,
        entry_point: str,
        stack: ExitStack,
        *,
        on_path: bool = False,
        cpu: int | None = None,
        processor: int | None = None,
        beside: int = 0,
    ) -> _Sandbox:
        """Start a sandbox and give it its job; ended with `stack`. `cpu` is a limit other than the task's.

        It may share its processor with the sandboxes `beside` it, and then has more wall-clock time.
        """
        start = self._start
        if isinstance(start, Container):
            start = start.of(task.image, task.memory_mb)
        elif task.image:
            raise BadInput(f"{task.name} runs in the image {task.image}", hint="give {runner} docker or podman")
        wall = PATIENCE * task.seconds * (1 + beside)
        try:
            process = start(((str(tree), CODE),) if tree else ())
            stack.callback(process.close)
            preamble = f"__gce_code__ = {process.path_of(CODE)!r}\n"
            preamble += "import sys\nsys.path.insert(0, __gce_code__)\n" if on_path else ""
            seconds, memory = cpu or task.seconds, task.memory_mb * 2**20
            job = Execution(source, entry_point, preamble=preamble, seconds=seconds, memory=memory)
            process.begin(job, role, time.monotonic() + wall, wall=wall, processor=processor)
        except OSError as error:
            raise _Vanished(f"no sandbox started: {error.strerror or error}") from error
        return _Sandbox(process, wall, TIMES if role == "timed" else 0)

    def _check(self, task: PerformanceTask, trees: Mapping[str, Path], judge: _Sandbox, seed: int, inputs: int) -> None:
        """Run tests, and compare outputs on inputs that are not timed; _Faulty where the candidate fails."""
        with ExitStack() as stack:
            source, tests = task.tests + _TEST, {}
            for name, tree in trees.items():
                with _blamed(name, task):
                    tests[name] = self._sandbox(tree, "timed", task, source, "__gce_test__", stack, on_path=True)
            for test in tests_of(task):
                call = to_text([test])
                texts = {}
                for name, sandbox in tests.items():
                    with _blamed(name, task):
                        texts[name], _ = _called(sandbox, call, test)
                for name in texts:
                    if texts[name] != texts["base"]:
                        with _blamed(name, task):
                            raise _Faulty(f"{test} returned another value than on the base")
            workloads = self._workloads(task, trees, stack)
            for number in range(inputs):
                self._round(task, workloads, judge, key(seed, "equal", number), list(trees))

    def _all_accuracies(self, task: PerformanceTask, trees: Mapping[str, Path]) -> dict[str, float]:
        """Return what the task's `accuracy_command` prints for each version; _Faulty where one falls too far."""
        found: dict[str, float] = {}
        for name, tree in trees.items() if task.accuracy_command else ():
            with _blamed(name, task):
                digest = _digest(task, tree)
                known = self._accuracies.get(digest)
                if known is None:
                    known = self._accuracies[digest] = self._accuracy(task, tree)
                found[name] = known
                if found["base"] - found[name] > task.accuracy_tolerance * (1 + 1e-9):
                    raise _Faulty(
                        f"has the accuracy {found[name]:g}, the base {found['base']:g}: it may fall by at most "
                        f"{task.accuracy_tolerance:g}"
                    )
        return found

    def _accuracy(self, task: PerformanceTask, tree: Path) -> float:
        longer = evolve(task, seconds=task.accuracy_seconds)
        with ExitStack() as stack:
            sandbox = self._sandbox(tree, "candidate", longer, _ACCURACY, "__gce_accuracy__", stack)
            sandbox.ask("", "accuracy_command")
            _, said = sandbox.ask(to_text([shlex.split(task.accuracy_command)]), "accuracy_command")
        status, last, number = "unknown", "", math.nan
        with suppress(NotPlain, ValueError, TypeError, LookupError, AttributeError):
            found, printed = from_text(said)
            status, last = str(found), printed.strip().rpartition("\n")[2]
            number = float(last)
        if status != "0" or not math.isfinite(number):
            shown = printable(f"{last[-_MOST_SHOWN:]!r} with exit status {status[:_MOST_SHOWN]}")
            raise _Faulty(f"accuracy_command failed: expected a number and exit status 0, got {shown}")
        return number

    def _measured(
        self,
        task: PerformanceTask,
        trees: Mapping[str, Path],
        judge: _Sandbox,
        seed: int,
        rule: Rule,
        on_round: Callable[[int], None],
    ) -> Comparison:
        """Return the comparison of correct versions, from rounds on a random processor, each with new sandboxes.

        Processes of one sandbox have its layout of memory and its hash seed, which make identical code some percent
        faster or slower in all of them: rounds would not be independent.
        """
        rounds: list[Round] = []
        rng = python_generator(seed, "order")
        while not (decision := rule(rounds)).settled:
            order = rng.sample(list(trees), len(trees))
            drawn = key(seed, "timed", len(rounds))
            with ExitStack() as stack:
                workloads = self._workloads(task, trees, stack, drawn_processor(rng))
                timings = self._round(task, workloads, judge, drawn, order)
            rounds.append(Round(drawn, timings["base"], timings["candidate"], timings.get("human")))
            on_round(len(rounds))
        return Comparison(
            task.name,
            decision.verdict,
            tuple(rounds),
            decision.gain,
            decision.against,
            decision.human,
        )

    def _round(
        self,
        task: PerformanceTask,
        workloads: Mapping[str, _Sandbox],
        judge: _Sandbox,
        drawn: int,
        order: Sequence[str],
    ) -> dict[str, Timing]:
        """Time one call of each version on the same input at once, and compare their outputs with the base's."""
        texts: dict[str, str] = {}
        timings: dict[str, Timing] = {}
        with ThreadPoolExecutor(len(order)) as threads:
            calls = {name: threads.submit(_timed, workloads[name], drawn) for name in order}
            try:
                wait(calls.values())
            except BaseException:  # Ctrl-C: the threads end with what they wait for.
                for each in workloads.values():
                    each.process.kill()
                raise
        for name, call in calls.items():
            with _blamed(name, task):
                texts[name], timings[name] = call.result()
        for name, text in texts.items():
            if text != texts["base"] or name == "base":
                with _blamed(name, task):
                    _judged(judge, texts["base"], text)
        return timings


def _tried(work: Callable[[], _Found], on_retry: Callable[[str], None]) -> _Found:
    """Return what work returns, in at most `TRIES` tries; _Vanished if a sandbox vanishes in all of them."""
    for tried in range(1, TRIES):
        try:
            return work()
        except _Vanished as vanished:
            on_retry(str(vanished))
            time.sleep(_PAUSE * 2 ** (tried - 1))
    return work()


@contextmanager
def _blamed(name: str, task: PerformanceTask) -> Iterator[None]:
    """Only a candidate may be faulty; a base or a human's form that does not run is the task's mistake."""
    try:
        yield
    except (BadTree, _Faulty) as fault:
        what = fault.what if isinstance(fault, BadTree) else str(fault)
        if name != "candidate":
            raise BadInput(f"the {name} of {task.name} {what}") from fault
        raise _Faulty(what) from fault
    except _Vanished as vanished:
        raise _Vanished(f"{vanished} ({name})") from vanished


def _digest(task: PerformanceTask, tree: Path) -> str:
    """Return a digest of what decides the accuracy of a version."""
    how = (task.accuracy_command, task.accuracy_seconds, task.memory_mb, task.image)
    return sha256(f"{how} {tree_digest(read_tree(tree))}".encode()).hexdigest()


def _timed(workload: _Sandbox, drawn: int) -> tuple[str, Timing]:
    """Return the output of `run`, as text, and its timing."""
    calls = f"{to_text(['setup', drawn])}\n{to_text(['run', None])}"
    return _called(workload, calls, "run")


def _called(sandbox: _Sandbox, text: str, what: str) -> tuple[str, Timing]:
    """Return what a call in a new process returned, as text that is sound, and its timing."""
    times, value = sandbox.ask(text, what)
    try:
        if len(times) != TIMES or not times.isdecimal():
            raise NotPlain("no times")
        value = to_text(from_text(value))
    except NotPlain:
        raise _Faulty(f"{what} {_FAULTS['W']}") from None
    processor, wall, peak = (int(times[place : place + TIMES // 3]) for place in range(0, TIMES, TIMES // 3))
    return value, Timing(max(processor, 1) / 1e6, wall / 1e6, peak * 1024)


def _judged(judge: _Sandbox, base: str, text: str) -> None:
    """Raise _Faulty unless the workload's `equal` says that an output is equal to the base's, both as text."""
    try:
        _, found = judge.ask(f"[{base},{text}]", "the workload's equal")
    except _Faulty as fault:
        raise _Faulty(f"returned a value at which {fault}") from fault
    if found != "true":
        raise _Faulty("returned another value than the base")


def _as_said(letter: str, text: str) -> str:
    """Return what a program raised, as it can be shown; `inside` sends an exception taken apart."""
    try:
        parts = from_text(text) if letter == "R" else None
        said = f"{parts[0]}: {parts[1]}" if parts else text
    except (NotPlain, TypeError, LookupError):
        said = ""
    return "".join(sign if sign.isprintable() else "?" for sign in said[:_MOST_SAID])


def check_sources(task: PerformanceTask) -> None:
    """Raise BadInput unless workload and tests can be run."""
    faults = faults_of(task)
    if faults:
        raise BadInput(f"{task.name}: {'; '.join(faults)}")
