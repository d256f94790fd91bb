"""What programs try instead of being faster, in a sandbox: refused, or worth nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import frozen

from gce.adapters.sandboxes.pool import RunnerPool
from gce.app.wiring import sandboxes as runners
from gce.domain.executions import Execution
from gce.domain.plain_values import to_text
from gce.domain.randomness import python_generator
from gce.domain.tasks.faster.verify import graded, speedup

SLOW = """
def f(xs):
    out = []
    for x in xs:
        if x not in out:
            out.append(x)
    return out
"""
FAST = "def f(xs):\n    return list(dict.fromkeys(xs))\n"
CALLS: tuple[list[int], ...] = ([], [3, 3, 1], [2, 1, 2])
SIZE = 3_000
"""The slow form takes 15 to 40 ms."""

HOLDS = [name for name in runners.SANDBOXES if not runners.why_not(name)]


@pytest.fixture(scope="module")
def runner() -> Iterator[RunnerPool]:
    if not HOLDS:
        pytest.skip("no sandbox here")
    with RunnerPool(runners.SANDBOXES[HOLDS[0]], workers=1) as found:
        yield found


@frozen
class Judged:
    """What came of a program."""

    refused: str
    """Status of the first outcome that is no returned value, or `differs`; empty if the program is equal."""
    score: float


def judged(runner: RunnerPool, source: str) -> Judged:
    rng = python_generator("hostile", source)
    timed = [[rng.randint(-99_999, 99_999) for _ in range(SIZE)] for _ in range(3)]
    (evidence,) = runner.run(
        [
            Execution(
                source,
                "f",
                tuple(to_text([values]) for values in CALLS),
                unchanged=True,
                rivals=(SLOW, FAST),
                timed=tuple(to_text([values]) for values in timed),
            )
        ]
    )
    for outcome in evidence.outcomes:
        if outcome.status != "returned":
            return Judged(outcome.status, 0.0)
    slow, fast = evidence.rivals
    if [outcome.text for outcome in evidence.outcomes] != [outcome.text for outcome in slow]:
        return Judged("differs", 0.0)
    return Judged("", graded(speedup(evidence.outcomes, slow), speedup(fast, slow)))


def test_a_fast_program_gains_and_a_slow_one_does_not(runner: RunnerPool) -> None:
    """Otherwise the tests below would show nothing."""
    assert judged(runner, FAST).score > 0.8
    assert judged(runner, SLOW) == Judged("", 0.0)


RENAMED = SLOW.replace("def f", "def slow")
WORTH_NOTHING = {
    "results kept by identity": RENAMED
    + "kept = {}\ndef f(xs):\n    if id(xs) not in kept: kept[id(xs)] = slow(xs)\n    return kept[id(xs)]\n",
    "results kept by value": RENAMED
    + "from functools import cache\n@cache\ndef g(xs): return slow(xs)\ndef f(xs): return list(g(tuple(xs)))\n",
    "clocks patched": RENAMED + "import os, resource, time\n"
    "for name in ('time', 'monotonic', 'perf_counter', 'process_time', 'clock_gettime', 'thread_time'):\n"
    "    setattr(time, name, lambda *_: 0.0)\n"
    "resource.getrusage = lambda _: (0.0,) * 16\nos.times = lambda: (0.0,) * 5\n"
    "os.wait4 = lambda pid, _: (pid, 0, resource.getrusage(0))\ndef f(xs): return slow(xs)\n",
    "harness found on the stack and changed": RENAMED + "import sys\nframe = sys._getframe()\nwhile frame:\n"
    "    frame.f_globals['_timed'] = lambda *_: b'V000000000001'\n"
    "    if 'job' in frame.f_locals: frame.f_locals['job'].update(role='candidate', unchanged=False)\n"
    "    frame = frame.f_back\ndef f(xs): return slow(xs)\n",
    "work done while loading": "total = 0\nfor number in range(1_500_000): total += number\n" + FAST,
    "traced and monitored": RENAMED
    + "import gc, sys\nsys.settrace(None)\nsys.setprofile(None)\ngc.disable()\ndef f(xs): return slow(xs)\n",
    "priority, timers and signals": RENAMED
    + "import os, signal\nfor number in (signal.SIGXCPU, signal.SIGPROF, signal.SIGTERM):\n"
    "    signal.signal(number, signal.SIG_IGN)\nsignal.setitimer(signal.ITIMER_PROF, 0.001)\n"
    "os.nice(5)\ndef f(xs): return slow(xs)\n",
    "prints a result with a time": RENAMED
    + "import os\ndef f(xs):\n    for fd in (0, 1, 2): os.write(fd, b'V000000000001[]')\n    return slow(xs)\n",
    "sleeps": RENAMED + "import time\ndef f(xs):\n    time.sleep(0.05)\n    return slow(xs)\n",
}

REFUSED = {
    "ends its process": ("import os\ndef f(xs): os._exit(0)\n", {"ended"}),
    "forks in a timed call": (
        RENAMED + "import os\ndef f(xs):\n    if len(xs) < 100: return slow(xs)\n    if os.fork() == 0: os._exit(0)\n"
        "    return slow(xs)\n",
        {"raised"},
    ),
    "has a child do the work": (
        RENAMED + "import json, os\ndef f(xs):\n    if len(xs) < 100: return slow(xs)\n    read, write = os.pipe()\n"
        "    if os.fork() == 0:\n        os.write(write, json.dumps(slow(xs)).encode())\n        os._exit(0)\n"
        "    os.close(write)\n    return json.loads(os.fdopen(read).read())\n",
        {"raised"},
    ),
    "starts threads": (
        FAST.replace("def f", "def g")
        + "import threading\ndef f(xs):\n    if len(xs) < 100: return g(xs)\n    out = []\n"
        "    thread = threading.Thread(target=lambda: out.extend(g(xs)))\n    thread.start()\n    thread.join()\n"
        "    return out\n",
        {"raised"},
    ),
    "starts another program": (
        FAST.replace("def f", "def g") + "import subprocess, sys\ndef f(xs):\n    if len(xs) < 100: return g(xs)\n"
        "    subprocess.run([sys.executable, '-c', 'pass'])\n    return g(xs)\n",
        {"raised"},
    ),
    "returns a lazy list": (
        "class Lazy(list):\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n"
        "def f(xs): return Lazy()\n",
        {"unplain"},
    ),
    "returns a generator": ("def f(xs): return (x for x in dict.fromkeys(xs))\n", {"unplain"}),
    "changes its argument": (
        "def f(xs):\n    out = list(dict.fromkeys(xs))\n    xs[:] = out\n    return xs[:]\n",
        {"changed"},
    ),
    "skips the work on long lists": (FAST.replace("return", "return xs if len(xs) > 100 else"), {"differs"}),
    "recognises a timed process": (
        FAST.replace("def f", "def g") + "import resource\ndef f(xs):\n"
        "    return [] if resource.getrlimit(resource.RLIMIT_NPROC)[0] == 1 else g(xs)\n",
        {"differs"},
    ),
    "leaves a file for the next process": (
        FAST.replace("def f", "def g")
        + "import os\ndef f(xs):\n    if len(xs) > 100: os.mkdir('/tmp/kept')\n    return g(xs)\n",
        {"babbled"},
    ),
    "kills its keeper": (
        FAST.replace("def f", "def g")
        + "import os, signal\ndef f(xs):\n    if len(xs) > 100:\n        os.kill(os.getppid(), signal.SIGKILL)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n    return g(xs)\n",
        {"ended"},
    ),
    "never ends": ("def f(xs):\n    while len(xs) > 100: pass\n    return list(dict.fromkeys(xs))\n", {"cpu", "time"}),
    "raises in a timed call": (FAST.replace("return", "return 1 // 0 if len(xs) > 100 else"), {"raised"}),
}


@pytest.mark.parametrize("name", WORTH_NOTHING)
def test_what_is_no_faster_gains_nothing(name: str, runner: RunnerPool) -> None:
    assert judged(runner, WORTH_NOTHING[name]).score == 0.0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_answer_is_refused(name: str, runner: RunnerPool) -> None:
    source, statuses = REFUSED[name]
    assert judged(runner, source).refused in statuses


def test_a_kept_result_does_not_outlive_its_process(runner: RunnerPool) -> None:
    """Each timed call is the first call of its process, whatever the calls before have left."""
    counting = (
        "n = 0\ndef f(xs):\n    global n\n    n += 1\n    return n if len(xs) > 100 else list(dict.fromkeys(xs))\n"
    )
    one = to_text([[1] * 200])
    execution = Execution(counting, "f", (to_text([[]]),), rivals=(counting,), timed=(one, one))
    (evidence,) = runner.run([execution])
    assert [outcome.text for outcome in evidence.outcomes] == ["[]", "1", "1"]
