"""Runners: the contract over all of them, what no program gets away with, and what is said where no sandbox holds."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.sandboxes import view as sandbox_view
from gce.adapters.sandboxes.bubblewrap import start_bubblewrap
from gce.adapters.sandboxes.inside import MOST_SAID
from gce.adapters.sandboxes.namespaces import start_namespaces
from gce.adapters.sandboxes.pool import STARTS, RunnerPool
from gce.adapters.sandboxes.process import Program, SandboxProcess, Silent, source_of
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.app.wiring import sandboxes as runners
from gce.domain.executions import Execution, Outcome
from gce.domain.plain_values import to_text
from gce.errors import BadInput
from gce.testing.contracts.runner import attack_runner, check_runner
from gce.testing.sandboxes.hostile_programs import ATTACKS

ONE = (to_text([1]),)
PATIENCE = 4.0
"""Seconds of waiting for a second of work: what sleeps for ever is ended soon."""
WORKERS = 8
"""Many attacks wait until they are ended."""


@pytest.fixture(scope="module", params=runners.SANDBOXES)
def start(request: pytest.FixtureRequest) -> Callable[[], SandboxProcess]:
    reason = runners.why_not(request.param)
    if reason:
        pytest.skip(f"no sandbox by {request.param} here: {reason}")
    return runners.SANDBOXES[request.param]


@pytest.mark.slow
def test_a_sandbox_keeps_to_the_port_and_no_attack_escapes(start: Callable[[], SandboxProcess], tmp_path: Path) -> None:
    with RunnerPool(start, workers=WORKERS, patience=PATIENCE) as runner:
        tried = check_runner(runner, tmp_path)
    assert tried.tried == len(ATTACKS) >= 80


@pytest.mark.slow
def test_without_a_sandbox_limits_and_judging_hold_all_the_same(tmp_path: Path) -> None:
    with RunnerPool(start_unsafe_local, workers=WORKERS, patience=PATIENCE) as runner:
        tried = check_runner(runner, tmp_path, isolated=False)
    assert tried.tried >= 50


@pytest.mark.parametrize("program", get_args(Program))
def test_sources_that_run_inside_together_define_no_name_twice(program: Program) -> None:
    """They are one module there: a second definition would replace the first where that is called."""
    defined = Counter(
        name
        for node in ast.parse(source_of(program)).body
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
            if isinstance(node, ast.Assign | ast.AnnAssign)
            else []
        )
        if name != "__all__"
    )
    assert defined and {name: count for name, count in defined.items() if count > 1} == {}


def test_the_attacks_can_succeed(tmp_path: Path) -> None:
    """A check that can't fail is none: without a sandbox, those that only reach for something get it."""
    harmless = (
        "a secret's file",
        "a secret through a link",
        "a server here",
        "installed packages",
        "an abstract socket",
    )
    attacks = [attack for attack in ATTACKS if attack.name.removeprefix("reach: ") in harmless]
    with RunnerPool(start_unsafe_local) as runner, pytest.MonkeyPatch.context() as patched:
        patched.setattr("gce.testing.contracts.runner.ATTACKS", attacks)
        tried = attack_runner(runner, tmp_path)
    escaped = {line.partition(":")[2].partition(":")[0].strip() for line in tried.escaped}
    assert escaped >= {"a secret's file", "a server here"}


@pytest.mark.slow
@pytest.mark.parametrize("niceness", [-5, -20])
def test_a_program_has_no_higher_priority_than_usual_where_gce_has_one(
    niceness: int, start: Callable[[], SandboxProcess]
) -> None:
    """Neither handed on nor taken; at -20, the highest, raising it further succeeds without an effect."""
    name = "bubblewrap" if start is start_bubblewrap else "namespaces"
    source = "import os\ndef f(x): return os.nice(0)"
    code = (
        f"import os\nos.setpriority(os.PRIO_PROCESS, 0, {niceness})\n"
        "from gce.adapters.sandboxes.pool import RunnerPool\n"
        f"from gce.adapters.sandboxes.{name} import start_{name}\nfrom gce.domain.executions import Execution\n"
        f"with RunnerPool(start_{name}, workers=1) as runner:\n"
        f"    (found,) = runner.run([Execution({source!r}, 'f', ('[1]',), seconds=5)])\n"
        "print(os.nice(0), found.outcomes[0].status, found.outcomes[0].text)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    if "PermissionError" in ran.stderr:
        pytest.skip("this user cannot raise the priority of gce")
    assert ran.stdout.split()[1:] == ["returned", "0"] and int(ran.stdout.split()[0]) < 0, ran.stderr


@pytest.mark.slow
def test_no_process_is_left(start: Callable[[], SandboxProcess]) -> None:
    sleeping = "import os, time\ndef f(x):\n    os.fork()\n    time.sleep(1000)"
    before = descendants(os.getpid())
    with RunnerPool(start, workers=1, patience=0.5) as runner:
        (evidence,) = runner.run([Execution(sleeping, "f", ONE, seconds=1)])
        assert evidence.outcomes[0].status == "time"
    assert descendants(os.getpid()) == before


def descendants(ancestor: int) -> set[int]:
    """Processes below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, more = set[int](), {ancestor}
    while more:
        more = {child for child, parent in parents.items() if parent in more}
        found |= more
    return found


@pytest.mark.slow
def test_a_sandbox_ends_with_the_process_that_made_it(start: Callable[[], SandboxProcess], tmp_path: Path) -> None:
    """SIGKILL leaves no time to tidy up."""
    name = "bubblewrap" if start is start_bubblewrap else "namespaces"
    code = (
        "import threading, time\nfrom gce.adapters.sandboxes.pool import RunnerPool\n"
        f"from gce.adapters.sandboxes.{name} import start_{name}\nfrom gce.domain.executions import Execution\n"
        f"runner = RunnerPool(start_{name}, workers=1)\n"
        "source = 'import time, os\\ndef f(x): os.fork(); time.sleep(543.21)'\n"
        "threading.Thread(target=lambda: list(runner.run([Execution(source, \"f\", ('[1]',), seconds=60)]))).start()\n"
        "time.sleep(1.5)\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        inside = descendants(process.pid)
        assert len(inside) >= 5, "two sandboxes, and what the program forked"
        process.kill()
    deadline = time.monotonic() + 5
    while any(is_alive(pid) for pid in inside) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in inside if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_sandbox_starts_in_time(start: Callable[[], SandboxProcess]) -> None:
    """The best of ten, so that a busy machine accuses nobody; `python -m benchmarks.candidates` measures."""
    execution = Execution("def f(x): return x", "f", ONE)

    def seconds() -> float:
        began = time.perf_counter()
        process = start()
        process.begin(execution, "candidate", time.monotonic() + 10)
        assert process.say() == ("V", "")
        taken = time.perf_counter() - began
        process.close()
        return taken

    assert min(seconds() for _ in range(10)) < 0.25


def test_what_is_shown_elsewhere_has_parents_there_and_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "python3" / "site-packages").mkdir(parents=True)
    shown, plain = sandbox_view.view(((str(tmp_path), "/seen/here"),)), sandbox_view.view()
    assert {*shown.read_only} - {*plain.read_only} == {(str(tmp_path), "/seen/here")}
    assert {*shown.directories} - {*plain.directories} == {"/seen"}
    assert shown.hidden == plain.hidden


def test_installed_packages_and_homes_are_out_of_view() -> None:
    shown = sandbox_view.view()
    assert not any(path.rstrip("/") in ("/", "/home", "/root", "/usr", "/etc", "/tmp") for path, _ in shown.read_only)
    assert all(path.endswith(("site-packages", "dist-packages")) for path in shown.hidden)


def test_where_no_sandbox_holds_the_reasons_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(
        BadInput, match=r"bubblewrap .*; namespaces .*pip install 'grounded-eval\[programs\]'.*unsafe-local"
    ):
        runners.find_runner("auto")


def test_a_sandbox_that_does_not_hold_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "SANDBOXES", {"leaky": start_unsafe_local})
    with pytest.raises(BadInput, match="leaky does not hold: a program in it saw"):
        runners.find_runner("auto")


def test_unsafe_local_shouts(capsys: pytest.CaptureFixture[str]) -> None:
    runners.find_runner("unsafe-local").close()
    assert "WITHOUT A SANDBOX" in capsys.readouterr().err


def test_a_sandbox_that_cannot_be_started_is_no_verdict() -> None:
    def broken() -> SandboxProcess:
        raise FileNotFoundError(2, "No such file")

    with RunnerPool(broken, workers=1) as runner:
        (evidence,) = runner.run([Execution("def f(x): return x", "f", ONE)])
    assert [outcome.status for outcome in evidence.outcomes] == ["no-sandbox"]


READY = "import sys, os, time\nos.write(1, (5).to_bytes(4, 'big') + b'ready')\nos.read(0, 10**6)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("os.write(1, (20).to_bytes(4, 'big') + b'x' * 16 + b'V1  '); time.sleep(60)", "babbled"),
        ("os.write(1, (2**31).to_bytes(4, 'big')); time.sleep(60)", "babbled"),
        ("os.write(1, (3).to_bytes(4, 'big') + b'V10'); time.sleep(60)", "babbled"),
        ("", "ended"),
        ("time.sleep(60)", "time"),
    ],
)
def test_a_process_that_says_nothing_of_ours_is_not_listened_to(code: str, status: str) -> None:
    with closing(SandboxProcess([sys.executable, "-c", READY + code], environment=dict(os.environ))) as process:
        process.begin(Execution("", "f", ONE), "candidate", time.monotonic() + (1 if status == "time" else 20))
        with pytest.raises(Silent) as found:
            process.say()
    assert found.value.status == status


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", ["", "import sys; sys.exit('no user namespaces')", "print('what?')", "import time; time.sleep(0.3)"]
)
def test_a_sandbox_that_does_not_come_up_is_no_verdict_about_the_program(code: str) -> None:
    def start() -> SandboxProcess:
        return SandboxProcess([sys.executable, "-c", code], environment=dict(os.environ))

    with RunnerPool(start, workers=1) as runner, pytest.MonkeyPatch.context() as patched:
        (evidence,) = runner.run([Execution("def f(x): return x", "f", ONE)])
        assert [outcome.status for outcome in evidence.outcomes] == ["no-sandbox"]
        assert ("no user namespaces" in evidence.outcomes[0].text) == ("namespaces" in code)
        patched.setattr(runners, "SANDBOXES", {"faulty": start})
        assert runners.why_not("faulty").startswith("the sandbox did not start")


def test_namespaces_want_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="setpriv"):
        start_namespaces()


@pytest.mark.slow
def test_a_machine_that_is_short_of_something_for_a_moment_costs_no_verdict() -> None:
    """Starts that fail are tried again, also those made ahead; a machine that fails on is said to."""
    for failing in ([1], [2], [1, 2], [2, 3], [5], [3, 4], [2, 4, 6, 8]):
        started = 0

        def start(failing: list[int] = failing) -> SandboxProcess:
            nonlocal started
            started += 1
            if started in failing:
                raise BlockingIOError(11, "Resource temporarily unavailable")
            return start_unsafe_local()

        with RunnerPool(start, workers=1) as runner:
            found = list(runner.run([Execution("def f(x): return x", "f", ONE)] * 3))
            found += runner.run([Execution("def f(x): return x", "f", tests="assert f(1) == 1")])
        assert [[outcome.status for outcome in evidence.outcomes] for evidence in found] == [["returned"]] * 3 + [
            ["passed"]
        ], failing


@pytest.mark.parametrize("code", ["", "import sys; sys.exit('out of memory')", "print('what?')"])
def test_an_interpreter_that_dies_before_it_is_ready_is_started_again(code: str) -> None:
    started = 0

    def start() -> SandboxProcess:
        nonlocal started
        started += 1
        if started in (1, 2):
            return SandboxProcess([sys.executable, "-c", code], environment=dict(os.environ))
        return start_unsafe_local()

    with RunnerPool(start, workers=1) as runner:
        (evidence,) = runner.run([Execution("def f(x): return x", "f", ONE)])
    assert [outcome.status for outcome in evidence.outcomes] == ["returned"]


def test_starting_is_tried_a_few_times_and_no_longer() -> None:
    started = 0

    def start() -> SandboxProcess:
        nonlocal started
        started += 1
        raise FileNotFoundError(2, "No such file")

    with RunnerPool(start, workers=1) as runner:
        (evidence,) = runner.run([Execution("def f(x): return x", "f", ONE)])
    assert (evidence.outcomes[0].status, started) == ("no-sandbox", STARTS)


class Liar:
    """A candidate's process that says what it is told to, one frame after the other."""

    def __init__(self, frames: list[tuple[str, str]]) -> None:
        self._frames = iter(frames)

    def begin(self, *_job: object, **_options: object) -> None:
        pass

    def say(self, _text: str = "") -> tuple[str, str]:
        return next(self._frames, ("W", ""))

    def kill(self) -> None:
        pass

    close = kill


frames = st.tuples(
    st.sampled_from("VRNLUCPXBEW?\n"),
    st.text(max_size=300)
    | st.sampled_from(["", "1", "2", '["E","m",["builtins.Exception"],{"tuple":[]}]'])
    | st.builds(to_text, st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=6))
    | st.integers(8000, 300_000).map(lambda size: '"' + "x" * size + '"')
    | st.builds(
        lambda *fields: to_text(list(fields)),
        st.text(),
        st.text(),
        st.lists(st.sampled_from(["builtins.Exception", "builtins.ValueError", "builtins.StopIteration", ""])),
        st.just(()) | st.tuples(st.text()),
    ),
)


@given(st.lists(frames, max_size=5), st.booleans())
def test_frames_are_taken_in_the_order_and_the_number_that_is_expected(
    said: list[tuple[str, str]], tested: bool
) -> None:
    """Whatever a candidate says, it is not passed, and what is kept of its words is short and visible."""
    calls = () if tested else (to_text([1]), to_text([2]))
    execution = Execution("", "f", calls, "assert f(1) == 1" if tested else "")
    processes = iter([Liar(said), Liar([("C", to_text([1])), ("P", "2")]), Liar([])])
    with RunnerPool(lambda: next(processes), workers=1) as runner:  # type: ignore[arg-type,return-value]
        # The second is started ahead: it is that of the tests.
        (evidence,) = runner.run([execution])
    statuses = [outcome.status for outcome in evidence.outcomes]
    assert not {"passed", "failed", "no-sandbox"} & set(statuses)
    assert 1 <= len(statuses) <= max(1, len(calls))
    loaded = said[:1] == [("V", "")]
    assert loaded or statuses in (["unloadable"], ["undefined"], ["babbled"])
    assert not loaded or not {"unloadable", "undefined"} & set(statuses)
    for outcome in evidence.outcomes:
        assert outcome.status == "returned" or (len(outcome.text) <= MOST_SAID and outcome.text.isprintable())
        assert outcome.status != "babbled" or not outcome.text


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        ("nonce + b'V1'", "V1"),
        ("nonce[::-1] + b'V1'", "babbled"),
        ("bytes(16) + b'V1'", "babbled"),
        ("nonce", "babbled"),
        ("nonce + b'V\\xff'", "babbled"),
        ("nonce + 'V\u0661'.encode()", "babbled"),
        ("b'V1'", "babbled"),
        ("nonce + b'V' + b'1' * 2**19", "babbled"),
        ("nonce + b'Ecpu'", "cpu"),
    ],
)
def test_a_frame_bears_the_nonce_that_was_sent(frame: str, status: str) -> None:
    code = (
        "import os, time\nos.write(1, (5).to_bytes(4, 'big') + b'ready')\n"
        "job, nonce = (os.read(0, int.from_bytes(os.read(0, 4), 'big'))[:16] for _ in range(2))\n"
        f"frame = {frame}\nos.write(1, len(frame).to_bytes(4, 'big') + frame)\n"
        # What comes unasked stands before the next answer.
        "os.write(1, (18).to_bytes(4, 'big') + nonce + b'V2')\ntime.sleep(60)"
    )
    with closing(SandboxProcess([sys.executable, "-c", code], environment=dict(os.environ))) as process:
        process.begin(Execution("", "f", ONE), "candidate", time.monotonic() + 20)
        try:
            found = "".join(process.say())
        except Silent as silent:
            found = silent.status
        assert found == status
        if status == "V1":
            with pytest.raises(Silent, match="babbled"):
                process.say()


@pytest.mark.parametrize(
    ("classes", "told", "status"),
    [
        (["builtins.ValueError", "builtins.Exception"], "1", "passed"),
        (["builtins.ValueError", "builtins.Exception"], "2", "broken"),
        (["builtins.StopIteration", "builtins.Exception"], "1", "raised"),
        (["", "builtins.StopAsyncIteration", "builtins.Exception"], "1", "raised"),
        (["", "builtins.ValueError", "builtins.Exception", "builtins.GeneratorExit"], "1", "raised"),
        (["builtins.SystemExit"], "1", "raised"),
        (["builtins.ValueError"], "1", "raised"),
        ([], "1", "raised"),
    ],
)
def test_tests_are_run_on_behind_exceptions_that_they_may_expect(classes: list[str], told: str, status: str) -> None:
    """And count the calls as the runner does."""
    raised = to_text(["E", "no", classes, ()])
    processes = iter([Liar([("V", ""), ("R", raised)]), Liar([("C", to_text([1])), ("P", told)]), Liar([])])
    with RunnerPool(lambda: next(processes), workers=1) as runner:  # type: ignore[arg-type,return-value]
        (evidence,) = runner.run([Execution("", "f", tests="assert f(1)")])
    assert [outcome.status for outcome in evidence.outcomes] == [status]


def test_hostile_frames_reach_the_channel_and_spoil_it() -> None:
    """An attack that never gets to its frame would try nothing: each of these is heard, and refused."""
    attacks = [attack for attack in ATTACKS if "'say_fd' not in" in attack.source]
    assert len(attacks) >= 14
    calls = tuple(to_text([each]) for each in (3, 7, 12))
    with RunnerPool(start_unsafe_local, patience=PATIENCE) as runner:
        found = list(runner.run(Execution(attack.source, "f", calls) for attack in attacks))
    for attack, evidence in zip(attacks, found, strict=True):
        assert evidence.outcomes[-1] == Outcome("babbled"), attack.name
        assert len(evidence.outcomes) <= 2, attack.name
