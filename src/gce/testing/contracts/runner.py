"""Contract check for runners, with attacks that no program may succeed with in an isolating runner.

An attack of `hostile_programs` has escaped if it returns `ESCAPED`, if calls or tests judge it right, or if it leaves a
trace on the machine outside.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve, frozen

from gce.domain.executions import Evidence, Execution, Outcome
from gce.domain.plain_values import to_text
from gce.ports.runner import Runner
from gce.testing.sandboxes.hostile_programs import ATTACKS, EQUAL_TO_ALL

__all__ = ["Tried", "attack_runner", "check_runner"]

ESCAPED = "ESCAPED"
SECRET = "a secret of this machine 5c1f"
ARGUMENTS = (3, 7, 12)
TESTS = f"""
cases = {[(each, repr(each * each + 1)) for each in ARGUMENTS]}
assert all(map(lambda case: repr(f(case[0])) == case[1], cases))
"""
"""Tests passed by a program that ends the loop over them."""


@frozen
class Tried:
    """Result of the attacks."""

    tried: int
    escaped: tuple[str, ...]
    """Name and evidence of each attack that escaped."""


def check_runner(runner: Runner, scratch: Path, *, isolated: bool = True) -> Tried:
    """Assert the docstring of `Runner` and, if it isolates, that no attack escapes.

    `scratch` is an empty directory that programs must not see.
    """
    _check_calls(runner)
    _check_tests(runner)
    _check_timed(runner)
    _check_limits(runner)
    _check_order(runner)
    tried = attack_runner(runner, scratch, isolated=isolated)
    assert not tried.escaped, "\n".join(tried.escaped)
    _check_calls(runner)  # The attacks must not have damaged the runner.
    return tried


def attack_runner(runner: Runner, scratch: Path, *, isolated: bool = True) -> Tried:
    """Try every attack and return those that escape."""
    attacks = [attack for attack in ATTACKS if isolated or not attack.only_isolated]
    with _scene(scratch) as fill:
        executions = [
            Execution(fill(attack.source), "f", tuple(to_text([each]) for each in ARGUMENTS), seconds=1)
            for attack in attacks
        ]
        found = list(runner.run(executions))
        claims = [(attack, each) for attack, each in zip(attacks, executions, strict=True) if "claim" in attack.name]
        tested = list(runner.run(evolve(each, calls=(), tests=TESTS) for _, each in claims))
        time.sleep(0.2)
        alive = _size(scratch / "alive")
        time.sleep(0.2)
        right = [to_text(each * each + 1) for each in ARGUMENTS]
        escaped = [
            f"{attack.name}: {evidence}"
            for attack, evidence in zip(attacks, found, strict=True)
            if not evidence.outcomes
            or [outcome.text for outcome in evidence.outcomes if outcome.status == "returned"] == right
            or any(outcome.status == "passed" or ESCAPED in outcome.text for outcome in evidence.outcomes)
        ]
        escaped += [
            f"{attack.name}, where tests judge: {evidence}"
            for (attack, _), evidence in zip(claims, tested, strict=True)
            if [outcome.status for outcome in evidence.outcomes] == ["passed"] or not evidence.outcomes
        ]
        left = sorted(path.name for path in scratch.iterdir() if path.name != "secret")
        if _size(scratch / "alive") != alive:
            escaped.append("take: a child that outlives it: it still writes")
        if left:
            escaped.append(f"files were written outside: {', '.join(left)}")
        if (scratch / "secret").read_text() != SECRET:
            escaped.append("a file outside was changed")
    return Tried(len(attacks), tuple(escaped))


@contextmanager
def _scene(scratch: Path) -> Iterator[Callable[[str], str]]:
    """Put a secret on disk and start servers; yield a function that fills in a program's placeholders."""
    (scratch / "secret").write_text(SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as other:
        if hasattr(socket, "SO_PASSCRED"):  # On Linux, names need no file.
            other.bind(f"\0{scratch}")
            other.listen()
        blanks = {"scratch": str(scratch), "port": str(server.getsockname()[1]), "pid": str(os.getpid())}

        def fill(source: str) -> str:
            for name, value in blanks.items():
                source = source.replace("{" + name + "}", value)
            return source

        yield fill


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _one(runner: Runner, source: str, *calls: object, tests: str = "") -> Evidence:
    execution = Execution(source, "f", tuple(to_text([call]) for call in calls), tests)
    (evidence,) = runner.run([execution])
    return evidence


def _check_calls(runner: Runner) -> None:
    def outcomes(source: str, *calls: object) -> list[tuple[str, str]]:
        return [(each.status, each.text) for each in _one(runner, source, *calls).outcomes]

    assert outcomes("def f(x): return x * x + 1", 3, 7) == [("returned", "10"), ("returned", "50")]
    assert outcomes("def f(x):\n    x.append(1)\n    return (x, {2, 1}, {'b': None}, 1.5)", [0]) == [
        ("returned", '{"tuple":[[0,1],{"set":[1,2]},{"dict":[["b",null]]},1.5]}')
    ]
    # The module that classes refer to, and the preamble.
    keeping = "import dataclasses, pickle\n@dataclasses.dataclass\nclass P:\n    x: 'int'\n"
    assert outcomes(f"{keeping}def f(x): return pickle.loads(pickle.dumps(P(x))).x", 4) == [("returned", "4")]
    before = Execution("from __future__ import annotations\ndef f(x: odd) -> odd: return g(x)", "f", (to_text([4]),))
    (found,) = runner.run([evolve(before, preamble="import math\ndef g(x): return math.isqrt(x)")])
    assert found.outcomes == (Outcome("returned", "2"),)
    # State lives from call to call of one program, and no longer.
    counting = "n = 0\ndef f(x):\n    global n\n    n += 1\n    return n"
    assert outcomes(counting, 0, 0) == outcomes(counting, 0, 0) == [("returned", "1"), ("returned", "2")]
    # An exception ends its own call only.
    assert outcomes("def f(x): return 1 // x", 0, 1) == [
        ("raised", "ZeroDivisionError: integer division or modulo by zero"),
        ("returned", "1"),
    ]
    assert [status for status, _ in outcomes("def f(x): return iter(x)", [])] == ["unplain"]
    assert outcomes("def g(x): return 1", 0) == [("undefined", "")]
    assert [status for status, _ in outcomes("def f(x:", 0)] == ["unloadable"]
    assert [status for status, _ in outcomes("1 // 0", 0)] == ["unloadable"]
    assert [status for status, _ in outcomes("import os\ndef f(x): os._exit(1)", 0, 0)] == ["ended"]
    assert outcomes("print('x' * 10**6, flush=True)\ndef f(x): return 1", 0) == [("returned", "1")]


def _check_timed(runner: Runner) -> None:
    """Check that a known amount of work is seen from outside, and that only equal programs are timed."""
    spinning = "import time\ndef f(x):\n    while time.process_time() < {}: pass\n    return x"
    calls = (to_text([1]), to_text([2]))
    execution = Execution(spinning.format(0.2), "f", calls, rivals=(spinning.format(0.0),), timed=(to_text([3]),))
    other = evolve(execution, source="def f(x): return 1")
    found, differs = runner.run([execution, other])
    for outcomes in (found.outcomes, *found.rivals):
        assert [(each.status, each.text) for each in outcomes] == [("returned", text) for text in "123"], outcomes
        assert [each.seconds is None for each in outcomes] == [True, True, False], outcomes
    own, rival = found.outcomes[-1].seconds, found.rivals[0][-1].seconds
    assert own is not None and rival is not None and own >= 0.19 > 0.1 > rival, (own, rival)
    assert [len(outcomes) for outcomes in (differs.outcomes, *differs.rivals)] == [2, 2], differs
    # A program whose calls do not all end is not compared at all.
    (found,) = runner.run([evolve(execution, source="import os\ndef f(x): os._exit(0)")])
    assert [each.status for each in found.outcomes] == ["ended"] and not found.rivals, found
    # A change of the arguments is reported, where it is not allowed.
    changing = Execution("def f(x): return x.append(1)", "f", (to_text([[]]),))
    for unchanged, status in ((False, "returned"), (True, "changed")):
        (found,) = runner.run([evolve(changing, unchanged=unchanged)])
        assert [each.status for each in found.outcomes] == [status], found


def _check_limits(runner: Runner) -> None:
    """Check that exceeding each limit is reported under the limit's own name."""

    def ending(source: str) -> str:
        (evidence,) = runner.run([Execution(source, "f", (to_text([0]),), seconds=1)])
        return f"{evidence.outcomes[-1].status} {evidence.outcomes[-1].text}".strip()

    # Which limit is reached first depends on how busy the machine is.
    assert ending("def f(x):\n    while True: pass") in ("cpu", "time")
    assert ending("import time\ndef f(x): time.sleep(10**6)") == "time"
    assert ending("def f(x): return len(bytearray(2**30))") == "raised MemoryError"
    assert ending("def f(x): return len(bytearray(2**27))") == f"returned {2**27}"
    assert ending("def f(x): return 'x' * 2**20").startswith("unplain")
    assert ending("def f(x): return f(x)").startswith("raised RecursionError")
    assert ending("import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGSEGV)") == "ended signal 11"


def _check_tests(runner: Runner) -> None:
    def outcome(source: str, tests: str) -> Outcome:
        (found,) = _one(runner, source, tests=tests).outcomes
        return found

    right = "def f(x): return [x, x]"
    assert outcome(right, "assert f(1) == [1, 1]\nassert candidate('a') == ['a', 'a']").status == "passed"
    assert outcome(right, "def check(candidate):\n    assert candidate(1) == [1, 1]").status == "passed"
    assert outcome(right, "assert f(1) == [1, 2], 'no'") == Outcome("failed", "AssertionError: no")
    assert outcome("def f(x): return None", "assert f(1) < 2").status == "failed"
    assert outcome("def f(x): return 1 // x", "assert f(0)").status == "raised"
    # Faults of the tests are not blamed on the program.
    for tests in ("assert", "import nothing_here", "pass", "f(object())", "while True: pass"):
        assert outcome(right, tests).status == "broken", tests
    # Keyword arguments, expected exceptions, a function of any name.
    named = "def f(x, y=0): return x - y"
    assert outcome(named, "assert f(1) == 1\nassert f(y=2, x=1) == -1").status == "passed"
    raising = "def f(x):\n    if x < 0: raise ValueError('no')\n    return x"
    expected = "try: f(-1)\nexcept ValueError: pass\nelse: assert False\nassert f(1) == 1"
    assert outcome(raising, expected).status == "passed"
    assert outcome("def f(x): return x", expected).status == "failed"
    assert outcome("def f(x): raise KeyError(x)", expected) == Outcome("raised", "KeyError: -1")
    # As `except` matches: by base classes too, the program's own and Python's.
    for raised in ("b'\\xff'.decode()", "type('Mine', (ValueError,), {})('no')", "json.loads('{')"):
        source = f"import json\ndef f(x):\n    if x < 0:\n        found = {raised}\n        raise found\n    return x"
        assert outcome(source, expected).status == "passed", raised
    # An exception that no clause of the tests caught was not expected.
    swallowing = "class Odd:\n    @property\n    def one(self): return f(1) == 1\nassert getattr(Odd(), 'one', True)"
    assert outcome("def f(x): return x", swallowing).status == "passed"
    for name in ("AttributeError", "StopIteration", "KeyError", "SystemExit"):
        assert outcome(f"def f(x): raise {name}", swallowing) == Outcome("raised", name)
    assert outcome("def f(x): raise StopIteration", "assert all(map(f, [1]))\nassert f(1)").status == "raised"
    assert outcome("def f(x): raise StopIteration", "try: f(1)\nexcept: pass").status == "raised"
    (found,) = runner.run([Execution("def check(n): return n", "check", tests="assert check(1) == 1")])
    assert found.outcomes == (Outcome("passed", "1"),)
    # Tests are told of values that are invalid or too expensive, and are not blamed for them.
    for spoiled in (
        "import sys\ndef f(x):\n    frame = sys._getframe().f_back\n    frame.f_locals['say']('V', '{}')",
        "def f(x):\n    v = x\n    for _ in range(39): v = [v]\n    return v",
    ):
        assert outcome(spoiled, "try: f(f(-1))\nexcept ValueError: pass").status != "broken", spoiled
    # Values cross unchanged; objects that only imitate them do not cross.
    assert outcome("def f(x): return {1: (2, {3})}", "assert f(0) == {1: (2, {3})}").status == "passed"
    assert outcome(EQUAL_TO_ALL.format(base=""), "assert f(0) == 10").status == "unplain"
    assert outcome("def f(x): return True", "f(0)\nassert f.__globals__['x']").status == "failed"


def _check_order(runner: Runner) -> None:
    """Check that evidence comes in order, whatever takes longer, and that requests may arrive while others run."""
    sleeping = "import time\ndef f(x):\n    time.sleep(x)\n    return x"
    waits = [0.3, 0.0, 0.1, 0.0, 0.2, 0.0]
    taken: list[float] = []

    def executions() -> Iterator[Execution]:
        for wait in waits:
            taken.append(wait)
            yield Execution(sleeping, "f", (to_text([wait]),))

    found = [evidence.outcomes[0].text for evidence in runner.run(executions())]
    assert found == [to_text(wait) for wait in waits]
    assert taken == waits
    assert not list(runner.run([]))
    # From several threads at once.
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(_one(runner, "def f(x): return x", 1).outcomes[0].text))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["1"] * 3
