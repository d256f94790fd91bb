"""What programs try instead of being faster, in a sandbox: refused, or worth nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from gce.adapters.sandboxes.pool import RunnerPool
from gce.app.wiring import sandboxes as runners
from gce.domain.completions import Completion
from gce.domain.executions import Execution
from gce.domain.plain_values import to_text
from gce.domain.randomness import key
from gce.domain.tasks import TASKS, draw_problem
from gce.domain.tasks.faster.inputs import CALLS
from gce.domain.tasks.faster.slow_function import SlowFunction
from gce.domain.tasks.faster.verify import ADMIT_AT, request, verify
from gce.domain.tasks.programs.answer import fenced
from gce.domain.verdicts import Verdict

SLOW = """
def f(xs):
    out = []
    for x in xs:
        if x not in out:
            out.append(x)
    return out
"""
FAST = "def f(xs):\n    return list(dict.fromkeys(xs))\n"
SIZE = 3_000
"""The slow form takes 15 to 40 ms."""

HOLDS = [name for name in runners.SANDBOXES if not runners.why_not(name)]


@pytest.fixture(scope="module")
def runner() -> Iterator[RunnerPool]:
    if not HOLDS:
        pytest.skip("no sandbox here")
    # So patient that the processor time decides, and never how busy the machine is.
    with RunnerPool(runners.SANDBOXES[HOLDS[0]], workers=1, patience=100.0) as found:
        yield found


def judged(runner: RunnerPool, source: str) -> Verdict:
    """The task's own verdict on a response with this program."""
    function = SlowFunction(SLOW, FAST, "f", SIZE, seed=key("hostile", source), behaviour="")
    problem = evolve(draw_problem(TASKS["faster"], "functions", "F1", "train", 0), instance=function)
    completion = Completion("a", fenced(source), "stop", policy="")
    execution = request(problem, completion)
    assert execution is not None
    (evidence,) = runner.run([execution])
    (verdict,) = verify(problem, completion, evidence)
    return verdict


@pytest.mark.slow
def test_a_fast_program_gains_and_a_slow_one_does_not(runner: RunnerPool) -> None:
    """Otherwise the tests below would show nothing."""
    fast = judged(runner, FAST)
    assert (fast.status, fast.violations) == ("right", ()) and fast.score is not None and fast.score > ADMIT_AT
    assert refusal(judged(runner, SLOW)) == "no-gain"


def refusal(verdict: Verdict) -> str:
    """The kind of the one violation of an answer that is wrong and worth nothing."""
    assert (verdict.status, verdict.score, len(verdict.violations)) == ("wrong", 0.0, 1)
    return verdict.violations[0].kind


RENAMED = SLOW.replace("def f", "def slow")
WORTH_NOTHING = {
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
    "try: os.nice(5)\nexcept PermissionError: pass\ndef f(xs): return slow(xs)\n",
    "prints a result with a time": RENAMED
    + "import os\ndef f(xs):\n    for fd in (0, 1, 2): os.write(fd, b'V000000000001[]')\n    return slow(xs)\n",
    "sleeps": RENAMED + "import time\ndef f(xs):\n    if len(xs) > 100: time.sleep(0.05)\n    return slow(xs)\n",
}

REFUSED = {
    "results kept by identity": (  # A later list has the address of one that is gone.
        RENAMED
        + "kept = {}\ndef f(xs):\n    if id(xs) not in kept: kept[id(xs)] = slow(xs)\n    return kept[id(xs)]\n",
        "wrong-value",
    ),
    "ends its process": ("import os\ndef f(xs): os._exit(0)\n", "ended"),
    "forks in a timed call": (
        RENAMED + "import os\ndef f(xs):\n    if len(xs) < 100: return slow(xs)\n    if os.fork() == 0: os._exit(0)\n"
        "    return slow(xs)\n",
        "raised",
    ),
    "has a child do the work": (
        RENAMED + "import json, os\ndef f(xs):\n    if len(xs) < 100: return slow(xs)\n    read, write = os.pipe()\n"
        "    if os.fork() == 0:\n        os.write(write, json.dumps(slow(xs)).encode())\n        os._exit(0)\n"
        "    os.close(write)\n    return json.loads(os.fdopen(read).read())\n",
        "raised",
    ),
    "starts threads": (
        FAST.replace("def f", "def g")
        + "import threading\ndef f(xs):\n    if len(xs) < 100: return g(xs)\n    out = []\n"
        "    thread = threading.Thread(target=lambda: out.extend(g(xs)))\n    thread.start()\n    thread.join()\n"
        "    return out\n",
        "raised",
    ),
    "starts another program": (
        FAST.replace("def f", "def g") + "import subprocess, sys\ndef f(xs):\n    if len(xs) < 100: return g(xs)\n"
        "    subprocess.run([sys.executable, '-c', 'pass'])\n    return g(xs)\n",
        "raised",
    ),
    "returns a lazy list": (
        "class Lazy(list):\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n"
        "def f(xs): return Lazy()\n",
        "unplain",
    ),
    "returns a generator": ("def f(xs): return (x for x in dict.fromkeys(xs))\n", "unplain"),
    "changes its argument": (
        "def f(xs):\n    out = list(dict.fromkeys(xs))\n    xs[:] = out\n    return xs[:]\n",
        "changed",
    ),
    "skips the work on long lists": (FAST.replace("return", "return xs if len(xs) > 100 else"), "wrong-value"),
    "recognises a timed process": (
        FAST.replace("def f", "def g") + "import resource\ndef f(xs):\n"
        "    return [] if resource.getrlimit(resource.RLIMIT_NPROC)[0] == 1 else g(xs)\n",
        "wrong-value",
    ),
    "leaves a file for the next process": (
        FAST.replace("def f", "def g")
        + "import os\ndef f(xs):\n    if len(xs) > 100: os.mkdir('/tmp/kept')\n    return g(xs)\n",
        "babbled",
    ),
    "kills its keeper": (
        FAST.replace("def f", "def g")
        + "import os, signal\ndef f(xs):\n    if len(xs) > 100:\n        os.kill(os.getppid(), signal.SIGKILL)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n    return g(xs)\n",
        "ended",
    ),
    "never ends": ("def f(xs):\n    while len(xs) > 100: pass\n    return list(dict.fromkeys(xs))\n", "cpu"),
    "raises in a timed call": (FAST.replace("return", "return 1 // 0 if len(xs) > 100 else"), "raised"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORTH_NOTHING)
def test_what_is_no_faster_is_equal_and_gains_nothing(name: str, runner: RunnerPool) -> None:
    verdict = judged(runner, WORTH_NOTHING[name])
    assert refusal(verdict) == "no-gain"
    assert verdict.measures["calls_equal"] == CALLS
    # Not the median: on a busy machine it may exceed the margin by luck, which is why all rounds but one have to.
    assert verdict.score == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_answer_is_refused(name: str, runner: RunnerPool) -> None:
    source, kind = REFUSED[name]
    verdict = judged(runner, source)
    assert refusal(verdict) == kind and "speedup" not in verdict.measures


@pytest.mark.slow
def test_the_check_for_changed_arguments_runs_in_the_program_s_process_and_can_be_patched(runner: RunnerPool) -> None:
    """A known limit: only that process has the argument. What is won is a copy, as the next program may show."""
    changing = FAST.replace("return ", "xs[:] = ") + "    return xs[:]\n"
    patched = (
        "import sys\nframe = sys._getframe()\nwhile frame:\n"
        "    if 'job' in frame.f_locals: frame.f_locals['job'].update(unchanged=False)\n    frame = frame.f_back\n"
    )
    assert refusal(judged(runner, changing)) == "changed"
    assert judged(runner, patched + changing).status == "right"


def test_a_kept_result_does_not_outlive_its_process(runner: RunnerPool) -> None:
    """Each timed call is the first call of its process, whatever the calls before have left."""
    counting = (
        "n = 0\ndef f(xs):\n    global n\n    n += 1\n    return n if len(xs) > 100 else list(dict.fromkeys(xs))\n"
    )
    one = to_text([[1] * 200])
    execution = Execution(counting, "f", (to_text([[]]),), rivals=(counting,), timed=(one, one))
    (evidence,) = runner.run([execution])
    assert [outcome.text for outcome in evidence.outcomes] == ["[]", "1", "1"]
