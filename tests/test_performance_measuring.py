"""Measuring performance tasks in a sandbox: verdicts on a small task, hostile candidates, and the command line."""

from __future__ import annotations

import json
import os
import re
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from attrs import evolve
from performance_tasks import FAST, SLOW, WORKLOAD, small_task, tree_of

from gce.adapters.performance import measuring as module
from gce.adapters.performance.measuring import Measuring
from gce.adapters.performance.run_folder import RunFolder
from gce.adapters.sandboxes.process import Program, Shown
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.app import cli
from gce.app.performance import admitting
from gce.app.performance.stages import _Accuracies
from gce.app.wiring import sandboxes as runners
from gce.domain.performance.decision import FIRST, Decision, Round, decide
from gce.domain.performance.task import PerformanceTask
from gce.errors import BadInput

HOLDS = [name for name in runners.SANDBOXES if not runners.why_not(name)]
HALF = "def total(n):\n    s = 0\n    for i in range(n // 2):\n        s += i\n    return n * (n - 1) // 2\n"


@pytest.fixture(scope="module")
def measuring() -> Measuring:
    if not HOLDS:
        pytest.skip("no sandbox works here")
    return Measuring(runners.SANDBOXES[HOLDS[0]])


@pytest.fixture(autouse=True)
def few_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKED", 2)
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    monkeypatch.setattr(module, "PATIENCE", 100.0)  # For machines that are busy.


@pytest.fixture
def task(tmp_path: Path) -> PerformanceTask:
    return small_task(tmp_path / "task")


def one_round(rounds: Any) -> Decision:
    """Settled at once: only for what is not about times."""
    return Decision("no gain", len(rounds) == 1)


def compare(measuring: Measuring, task: PerformanceTask, path: Path, source: str, **more: Any) -> Any:
    candidate = tree_of(path / "candidate", source)
    return measuring.compare(task, path / "task" / "base", candidate, **{"seed": 1, **more})


@pytest.mark.slow
def test_half_a_second_of_work_in_a_child_is_seen(measuring: Measuring) -> None:
    assert 0.45 <= measuring.check().seconds <= 1.0


@pytest.mark.slow
def test_a_sandbox_that_loses_the_time_of_children_is_refused(measuring: Measuring) -> None:
    def start(shown: Shown = (), program: Program = "inside") -> Any:
        found = measuring._start(shown, program)
        says = found.say

        def say(text: str = "") -> tuple[str, str]:
            letter, said = says(text)
            return letter, "0" * 9 + "4" + said[10:] if letter == "V" and len(said) > 36 else said

        found.say = say  # type: ignore[method-assign]
        return found

    with pytest.raises(BadInput, match=r"for 0\.5 s of work in a child"):
        Measuring(start).check()


@pytest.mark.slow
def test_the_humans_form_and_half_of_it_get_their_verdicts(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path
) -> None:
    seen: list[int] = []
    human = tmp_path / "task" / "human"
    found = compare(measuring, task, tmp_path, HALF, human=human, rule=decide, on_round=seen.append)
    assert found.verdict == "partial" and 1.5 < found.gain.value < 2.5 and found.human.low > 5
    assert found.equal == len(found.rounds) + 2 and seen == [*range(1, len(found.rounds) + 1)]
    assert len({each.seed for each in found.rounds}) == len(seen)
    assert all(each.base.wall > 0 and each.base.peak > 2**20 for each in found.rounds)


def test_versions_share_one_processor_equally_and_cannot_leave_it(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path
) -> None:
    """The candidate is right only if it is allowed one processor and no other, and the priority that it has."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    source = (
        "import os\ndef total(n):\n    if n > 100:\n"
        "        before, nice = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)\n        try:\n"
        "            os.sched_setaffinity(0, range(os.cpu_count()))\n"
        "        except PermissionError:\n            pass\n"
        "        try:\n            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
        "        except PermissionError:\n            pass\n"
        "        try:\n            os.nice(1)\n        except PermissionError:\n            pass\n"
        "        if len(before) != 1 or os.sched_getaffinity(0) != before:\n            return -1\n"
        "        if os.sched_getscheduler(0) != os.SCHED_OTHER or os.getpriority(os.PRIO_PROCESS, 0) != nice:\n"
        "            return -2\n"
        "    return n * (n - 1) // 2\n"
    )
    found = compare(measuring, task, tmp_path, source, rule=one_round, checked=0)
    assert (found.verdict, found.fault) == ("no gain", "")


HOSTILE = {
    "another value": "def total(n):\n    return n",
    "right on small numbers alone": "def total(n):\n    return n * (n - 1) // 2 if n < 100 else 7",
    "raises": "def total(n):\n    raise ValueError('x' * 10**6)",
    "does not load": "def total(n:",
    "exits": "import os\nos._exit(0)",
    "ends itself": "import os, signal\ndef total(n):\n    os.kill(os.getpid(), 9)",
    "an object that is equal to all": (
        "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def total(n):\n    return Any(3)"
    ),
    "replaces equal": (
        "import sys\ndef total(n):\n    sys._getframe(1).f_globals['equal'] = lambda a, b: True\n    return 1"
    ),
    "a file for the next": (
        "import os\ndef total(n):\n    open('/tmp/kept', 'w').write('x')\n    return n * (n - 1) // 2"
    ),
    "never ends": "def total(n):\n    while True: pass",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_candidate_is_incorrect(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path, name: str
) -> None:
    found = compare(measuring, evolve(task, seconds=1), tmp_path, HOSTILE[name], rule=one_round)
    assert found.verdict == "incorrect" and found.gain is None and found.reward == 0.0
    assert found.fault.isprintable() and len(found.fault) < 300


FASTER_BY_TRICKS = {
    "a thread": (
        "import threading\ndef total(n):\n    found = []\n"
        "    def work():\n        s = 0\n        for i in range(n): s += i\n        found.append(s)\n"
        "    thread = threading.Thread(target=work)\n    thread.start()\n    thread.join()\n    return found[0]"
    ),
    "a process": (
        "import os, signal\ndef total(n):\n    signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n    r, w = os.pipe()\n"
        "    if os.fork() == 0:\n        s = 0\n        for i in range(n): s += i\n"
        "        os.write(w, str(s).encode())\n        os._exit(0)\n    return int(os.read(r, 99))"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FASTER_BY_TRICKS)
def test_work_cannot_be_moved_to_another_thread_or_process(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path, name: str
) -> None:
    found = compare(measuring, task, tmp_path, FASTER_BY_TRICKS[name], rule=one_round)
    assert found.verdict == "incorrect", found


COUNTED = {
    "a cache on import": "s = 0\nfor i in range(10**6): s += 1\ndef total(n):\n    return n * (n - 1) // 2",
    "clocks replaced": (
        "import time\nfor name in ('process_time', 'perf_counter', 'monotonic', 'time', 'clock_gettime'):\n"
        "    setattr(time, name, lambda *_: 0.0)\n"
    )
    + SLOW,
    "a value made when it is read": ("def total(n):\n    return [*map(int, [0] * 10**6), n * (n - 1) // 2][-1]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTED)
def test_what_runs_anywhere_in_the_process_is_counted(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path, name: str
) -> None:
    found = compare(measuring, task, tmp_path, COUNTED[name], rule=one_round)
    (only,) = found.rounds
    assert only.candidate.seconds > 0.3 * only.base.seconds


@pytest.mark.slow
def test_a_candidate_sees_neither_the_base_nor_the_humans_form_nor_the_seed(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path
) -> None:
    looks = (
        "import os, small, sys\ndef total(n):\n"
        "    found = [p for p, _, files in os.walk('/') if 'small' in p.split('/') and '__init__.py' in files]\n"
        "    assert found == ['/code/small'], found\n"
        "    assert small.__file__ == '/code/small/__init__.py'\n"
        "    assert not os.access('/code/small', os.W_OK)\n    return n * (n - 1) // 2\n"
    )
    patient = evolve(task, seconds=20)  # All of the sandbox's files are walked through.
    found = compare(measuring, patient, tmp_path, looks, human=tmp_path / "task" / "human", rule=one_round)
    assert found.verdict == "no gain", found.fault


def test_a_linked_candidate_is_incorrect(measuring: Measuring, task: PerformanceTask, tmp_path: Path) -> None:
    candidate = tree_of(tmp_path / "candidate", FAST)
    (candidate / "small" / "x.py").symlink_to("/etc/passwd")
    found = measuring.compare(task, tmp_path / "task" / "base", candidate, seed=1)
    assert found.verdict == "incorrect"
    assert found.fault == "has no regular file of at most 20,971,520 bytes at 'small/x.py'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda task: evolve(task, tests="def test_a():\n    assert False\n"), "test_a raised: AssertionError"),
        (lambda task: evolve(task, workload="from small import total\n" + WORKLOAD), "without the code it measures"),
        (lambda task: evolve(task, workload="raise SystemExit\n" + WORKLOAD), "without the code it measures"),
        (
            lambda task: evolve(task, workload="import os\nos._exit(0)\n" + WORKLOAD),
            "measures, .* ended its process",
        ),
        (lambda task: evolve(task, workload=WORKLOAD.replace("a == b", "False")), "another value than the base"),
        (lambda task: evolve(task, workload=WORKLOAD.replace("[total(n), n]", "object()")), "no plain data"),
    ],
)
def test_mistakes_of_the_task_are_not_the_candidates(
    measuring: Measuring,
    task: PerformanceTask,
    tmp_path: Path,
    change: Callable[[PerformanceTask], PerformanceTask],
    said: str,
) -> None:
    with pytest.raises(BadInput, match=said):
        compare(measuring, change(task), tmp_path, FAST, rule=one_round)


@pytest.mark.slow
def test_an_output_on_which_equal_does_not_end_is_incorrect(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 0)  # The judge's own limit of processor time: that of `CHECKED` calls.
    endless = evolve(task, workload=WORKLOAD.replace("return a == b", "while a != b: pass\n    return True"), seconds=1)
    found = compare(measuring, endless, tmp_path, HOSTILE["right on small numbers alone"], rule=one_round)
    assert found.verdict == "incorrect" and "equal reached the limit" in found.fault


def test_outputs_of_every_version_and_round_are_compared_within_the_limit(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path
) -> None:
    """Three versions, each on 2 inputs and in 30 rounds: the judge has the time of 96 calls."""
    limits: list[int] = []

    def start(shown: Shown = (), program: Program = "inside") -> Any:
        found: Any = measuring._start(shown, program)
        begin = found.begin

        def noted(job: Any, *more: Any, **options: Any) -> None:
            if job.entry_point == "__gce_equal__":
                limits.append(job.seconds)
            begin(job, *more, **options)

        found.begin = noted
        return found

    found = compare(Measuring(start), task, tmp_path, FAST, human=tmp_path / "task" / "human", rule=one_round)
    assert found.verdict == "no gain" and limits == [task.seconds * 96]


ACCURACY = "import sys\nfrom small import total\nprint('noise')\nprint(0.8 if total(3) == 3 and total(4) else 0)\n"
"""What a check prints; the candidates below have one of their own."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "verdict", "said"),
    [
        (ACCURACY, "no gain", ""),
        (ACCURACY.replace("0.8", "0.79"), "no gain", ""),
        (
            ACCURACY.replace("0.8", "0.78"),
            "incorrect",
            "has the accuracy 0.78, the base 0.8: it may fall by at most 0.01",
        ),
        (ACCURACY.replace("0.8", "'nan'"), "incorrect", "got 'nan' with exit status 0"),
        (ACCURACY + "print('very accurate')", "incorrect", "got 'very accurate' with exit status 0"),
        (ACCURACY + "sys.exit(1)", "incorrect", "got '0.8' with exit status 1"),
        ("print('x' * 10**7)", "incorrect", "accuracy_command failed"),
        ("while True: pass", "incorrect", "accuracy_command"),
    ],
)
def test_the_accuracy_may_fall_by_its_tolerance_alone(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path, check: str, verdict: str, said: str
) -> None:
    (tmp_path / "task" / "base" / "check.py").write_text(ACCURACY)
    accurate = evolve(task, accuracy_command="python /code/check.py", accuracy_seconds=1)
    candidate = tree_of(tmp_path / "candidate", FAST)
    (candidate / "check.py").write_text(check)
    found = measuring.compare(accurate, tmp_path / "task" / "base", candidate, seed=1, rule=one_round)
    assert found.verdict == verdict and said in found.fault, found.fault
    assert (found.accuracy.get("base") == 0.8) == (verdict != "incorrect")


@pytest.mark.slow
def test_an_accuracy_command_that_fails_on_the_base_is_the_tasks_mistake(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="accuracy_command raised: FileNotFoundError"):
        compare(measuring, evolve(task, accuracy_command="no-such-program"), tmp_path, FAST)
    for command in ("'", "  "):
        with pytest.raises(ValueError, match="command"):
            evolve(task, accuracy_command=command)


class Killing:
    """Starts sandboxes, of which those of some numbers are killed or stopped when they are first asked something."""

    def __init__(self, start: Any, signals: Mapping[int, signal.Signals]) -> None:
        self.start = start
        self.signals = signals
        self.started = 0
        self._lock = Lock()  # Two are started at a time.

    def __call__(self, shown: Shown = (), program: Program = "inside") -> Any:
        found = self.start(shown, program)
        says = found.say
        with self._lock:
            sent = self.signals.get(self.started)
            self.started += 1

        def say(text: str = "") -> tuple[str, str]:
            if sent is not None:
                os.killpg(found._process.pid, sent)
                if sent == signal.SIGKILL:  # What runs inside ends a little later, and may answer until then.
                    found._process.wait(10)
                    hung_up = select.poll()
                    hung_up.register(found._out, 0)
                    assert hung_up.poll(10_000)
            said: tuple[str, str] = says(text)
            return said

        found.say = say
        return found


STARTED_BY = (1, 3, 3, 5, 5, 7, 7)
"""Sandboxes that a try has started when it first asks the judge, the tests of base and candidate, their workloads that
are not timed, and those of a round: two at a time."""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(STARTED_BY)))
def test_a_sandbox_that_is_killed_is_made_again_and_the_verdict_is_as_without(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path, number: int
) -> None:
    """Whichever it is, also twice; every try is told."""
    started = STARTED_BY[number]
    killing = Killing(measuring._start, {number: signal.SIGKILL, started + number: signal.SIGKILL})
    told: list[str] = []
    found = compare(Measuring(killing), task, tmp_path, FAST, rule=one_round, on_retry=told.append)
    assert (found.verdict, found.fault, len(found.rounds)) == ("no gain", "", 1)
    assert len(told) == 2 and killing.started == 2 * started + STARTED_BY[-1]
    assert all(each.startswith("a sandbox ended") for each in told)


@pytest.mark.slow
def test_each_round_has_new_sandboxes(measuring: Measuring, task: PerformanceTask, tmp_path: Path) -> None:
    killing = Killing(measuring._start, {})
    found = compare(
        Measuring(killing),
        task,
        tmp_path,
        FAST,
        rule=lambda rounds: evolve(one_round(rounds), settled=len(rounds) == 4),
    )
    assert len(found.rounds) == 4 and killing.started == STARTED_BY[-1] + 3 * 2


@pytest.mark.slow
@pytest.mark.parametrize("source", [FAST, "def total(n):\n    return n"])
def test_a_sandbox_that_always_vanishes_is_a_failure_of_the_infrastructure(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path, source: str
) -> None:
    """Neither incorrect nor without gain, whatever the candidate is; its tests have the third sandbox."""
    killing = Killing(measuring._start, dict.fromkeys(range(2, 99, STARTED_BY[2]), signal.SIGKILL))
    found = compare(Measuring(killing), task, tmp_path, source, rule=one_round)
    assert (found.verdict, found.gain, found.reward) == ("infrastructure failure", None, 0.0)
    assert found.fault == "a sandbox ended (candidate), in the last of 3 tries"


@pytest.mark.slow
def test_a_sandbox_that_does_not_answer_is_given_up(
    task: PerformanceTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper itself is stopped, which is the process that was started where nothing isolates it."""
    monkeypatch.setattr(module, "PATIENCE", 10.0)
    monkeypatch.setattr(module, "_GRACE", -8.0)  # Two seconds for each answer.
    told: list[str] = []
    killing = Killing(start_unsafe_local, dict.fromkeys(range(99), signal.SIGSTOP))
    found = compare(Measuring(killing), evolve(task, seconds=1), tmp_path, FAST, on_retry=told.append)
    assert found.verdict == "infrastructure failure" and "does not answer" in found.fault and len(told) == 2


ATTACKS = {
    "sleeps": "import time\n    time.sleep(10**6)",
    "kills its keeper": "import os\n    os.kill(os.getppid(), 9)\n    time.sleep(10**6)",
    "stops its keeper": "import os\n    os.kill(os.getppid(), 19)\n    time.sleep(10**6)",
    "interrupts its keeper": "import os\n    os.kill(os.getppid(), 2)\n    time.sleep(10**6)",
    "kills all": "import os\n    [os.kill(-1, number) for number in (2, 14, 15, 9)]",
}


@pytest.mark.slow
@pytest.mark.skipif("namespaces" not in HOLDS, reason="no such sandbox works here")
@pytest.mark.parametrize("name", ATTACKS)
def test_a_candidate_cannot_pass_for_a_failure_of_the_infrastructure(
    task: PerformanceTask, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where the keeper is process 1: bubblewrap as root is the exception."""
    monkeypatch.setattr(module, "PATIENCE", 5.0)
    source = f"import time\ndef total(n):\n    {ATTACKS[name]}\n    return 3\n"
    measuring = Measuring(runners.SANDBOXES["namespaces"])
    found = compare(measuring, evolve(task, seconds=1), tmp_path, source, rule=one_round)
    assert found.verdict == "incorrect", found.fault


@pytest.mark.slow
def test_accuracy_is_measured_once_for_each_tree(
    measuring: Measuring, task: PerformanceTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three candidates, two of them the same: one call each for base, human's form and the two."""
    called: list[Path] = []

    def counted(_self: Measuring, _task: PerformanceTask, tree: Path) -> float:
        called.append(tree)
        return 0.5

    monkeypatch.setattr(Measuring, "_accuracy", counted)
    accurate = evolve(task, accuracy_command="python /code/check.py")
    folder = RunFolder.create(tmp_path / "run", {})
    base, human = tmp_path / "task" / "base", tmp_path / "task" / "human"
    for number, source in enumerate((HALF, FAST + "x = 1\n", HALF)):
        candidate = tree_of(tmp_path / str(number), source)
        again = Measuring(measuring._start, _Accuracies(folder))  # As in a further call of the command.
        found = again.compare(accurate, base, candidate, human=human, seed=number, rule=one_round)
        assert found.accuracy == {"base": 0.5, "candidate": 0.5, "human": 0.5}
    assert [each.name for each in called] == ["base", "candidate", "human", "candidate"]
    Measuring(measuring._start, _Accuracies(folder)).compare(
        evolve(accurate, accuracy_command="python -m check"), base, candidate, seed=1, rule=one_round
    )
    assert [each.name for each in called[4:]] == ["base", "candidate"], "another command, another number"


@pytest.mark.slow
def test_where_no_sandbox_starts_it_is_said(task: PerformanceTask, tmp_path: Path) -> None:
    def start(shown: Shown = (), program: Program = "inside") -> Any:
        raise OSError("no such namespace")

    found = compare(Measuring(start), task, tmp_path, FAST)
    assert (found.verdict, found.fault) == (
        "infrastructure failure",
        "no sandbox started: no such namespace, in the last of 3 tries",
    )
    with pytest.raises(BadInput, match="no such namespace"):
        Measuring(start).check()


@pytest.mark.slow
def test_without_a_sandbox_trusted_code_is_measured_too(task: PerformanceTask, tmp_path: Path) -> None:
    found = compare(Measuring(start_unsafe_local), task, tmp_path, FAST)
    assert found.verdict == "partial" and found.gain.low > 5


@pytest.mark.slow
@pytest.mark.skipif(not HOLDS, reason="no sandbox works here")
def test_the_command_line_from_files_to_admission(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identical code has wide limits, few rounds and a given verdict: on a busy machine small times vary."""

    def no_gain(rounds: Sequence[Round]) -> Decision:
        return evolve(decide(rounds), settled=len(rounds) >= FIRST, verdict="no gain")

    monkeypatch.setattr(admitting, "decide_same", no_gain)
    monkeypatch.setattr("gce.domain.performance.admission.CLOSE", 0.1)
    monkeypatch.setattr("gce.domain.performance.admission.GAIN", 10.0)
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    small_task(tasks / "fine")
    small_task(tasks / "gainless", human=SLOW)
    small_task(tasks / "unequal", human="def total(n):\n    return 3")

    def said(*words: str) -> tuple[int, str, str]:
        status = cli.main(["performance", *words])
        found = capsys.readouterr()
        return status, found.out, found.err

    status, out, err = said("validate", str(tasks))
    assert status == 0 and out.splitlines() == ["fine: valid", "gainless: valid", "unequal: valid"]
    assert err.strip() == f"next: gce performance fetch {tasks}"
    assert said("fetch", str(tasks))[0] == 0
    status, out, err = said("admit", str(tasks))
    fine, gainless, because, unequal, why = out.splitlines()
    assert status == 1 and re.match(r"fine: admitted: human \d+\S* \(.*, n = 10\), nothing [01]", fine)
    assert gainless.startswith("gainless: refused") and "lower limit must be at least 1.2" in because
    assert unequal.startswith("unequal: refused: human incorrect") and "not equal to the base" in why
    assert "gainless: human, 10 of at most 30 rounds" in err
    status, out, _ = said("admit", str(tasks / "unequal"), "--json")
    (only,) = json.loads(out)
    assert (status, only["task"], len(only["reasons"])) == (1, "unequal", 1) and only["measured"]["same"]["rounds"]
    status, out, _ = said("doctor")
    assert status == 0 and out.startswith("ready")
