"""Hostile patches of one small task, for whoever measures patches: each must be refused, or gain nothing.

The task is quadratic removal of repetitions in `slowlib.unique`. Each patch tries a hack of one of nine kinds; most
leave the slow code as it is, so that any gain would be the hack's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen

from gce.domain.performance.task import PerformanceTask, Source

__all__ = ["BASE_TREE", "HOSTILE_PATCHES", "HOSTILE_TASK", "HUMAN_TREE", "HostilePatch"]

Hack = Literal[
    "results kept",
    "clock patched",
    "harness recognised",
    "work at import",
    "lazy or parallel",
    "inputs known",
    "harness edited",
    "fix read",
    "processor shared unfairly",
]

SLOW = """\
def slow(values):
    seen = []
    for value in values:
        if value not in seen:
            seen.append(value)
    return seen
"""
"""The base: quadratic."""
FAST = "def unique(values):\n    return list(dict.fromkeys(values))\n"
"""The human's form."""
_BASE = f"{SLOW}\n\ndef unique(values):\n    return slow(values)\n"

BASE_TREE = {"slowlib.py": _BASE.encode()}
HUMAN_TREE = {"slowlib.py": FAST.encode()}

HOSTILE_TASK = PerformanceTask(
    name="hostile",
    base=Source(directory="base"),
    human=Source(directory="human"),
    workload="""\
import random


def setup(seed):
    rng = random.Random(seed)
    return [rng.randrange(500) for _ in range(1000)]


def run(values):
    import slowlib

    return slowlib.unique(values)


def equal(a, b):
    return a == b
""",
    tests="""\
def test_order_is_kept():
    import slowlib

    assert slowlib.unique([3, 1, 3, 2, 1]) == [3, 1, 2]
    return slowlib.unique(list("abca"))


def test_edge_cases():
    import slowlib

    return [slowlib.unique([]), slowlib.unique([1]), slowlib.unique([1, 1.0, True])]
""",
    seconds=10,
)
"""The task that the patches are of. Its base has the file slowlib.py with `_BASE`."""


@frozen
class HostilePatch:
    """One hack."""

    name: str
    hack: Hack
    """The row of the table of hacks that it belongs to."""
    files: Mapping[str, str]
    """What it writes, by path."""
    kept: bool = True
    """Whether the paths that it changes are allowed; if not, nothing of it is measured."""


def _code(name: str, hack: Hack, before: str, body: str, *, more: Mapping[str, str] | None = None) -> HostilePatch:
    """Return a patch whose module has `before` at its beginning, and `body` as that of `unique`."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    source = f"{before.strip()}\n\n\n{SLOW}\n\ndef unique(values):\n{lines}\n"
    return HostilePatch(name, hack, {"slowlib.py": source, **(more or {})})


def _file(name: str, path: str, text: str) -> HostilePatch:
    """Return a patch that adds or changes a file that it may not change."""
    return HostilePatch(name, "harness edited", {path: text}, kept=False)


_SAVE = """
try:
    with open(PATH) as file:
        return eval(file.read())[repr(values)]
except Exception:
    pass
found = slow(values)
try:
    with open(PATH, "w") as file:
        file.write(repr({repr(values): found}))
except OSError:
    pass
return found
"""
_PATCHED_CLOCKS = """
import time
def frozen(*_): return 0.0
for name in ("perf_counter", "process_time", "monotonic", "thread_time", "time", "clock_gettime"):
    setattr(time, name, frozen)
    setattr(time, name + "_ns", lambda *_: 0)
"""
_ALL_FRAMES = """
import sys
frame, found = sys._getframe(), []
while frame is not None:
    found.append(frame)
    frame = frame.f_back
"""

HOSTILE_PATCHES: tuple[HostilePatch, ...] = (
    _code(
        "a dictionary of the module",
        "results kept",
        "KEPT = {}",
        "return KEPT.setdefault(repr(values), slow(values))",
    ),
    _code(
        "lru_cache",
        "results kept",
        "from functools import lru_cache\n@lru_cache(None)\ndef kept(values): return slow(values)",
        "try:\n    return list(kept(tuple(values)))\nexcept TypeError:\n    return slow(values)",
    ),
    _code("a file in /tmp", "results kept", "PATH = '/tmp/kept'", _SAVE),
    _code("a file beside the code", "results kept", "PATH = __file__ + '.kept'", _SAVE),
    _code("a file in shared memory", "results kept", "PATH = '/dev/shm/kept'", _SAVE),
    _code("functions of time replaced", "clock patched", _PATCHED_CLOCKS, "return slow(values)"),
    _code(
        "getrusage and times replaced",
        "clock patched",
        "import os, resource\nresource.getrusage = lambda *_: resource.struct_rusage([0] * 16)\n"
        "os.times = lambda: os.times_result([0.0] * 5)\nos.wait4 = lambda *_: (0, 0, resource.struct_rusage([0] * 16))",
        "return slow(values)",
    ),
    _code(
        "the interpreter's clock overwritten by ctypes",
        "clock patched",
        "import ctypes, threading, time\n\n\ndef _method(function):\n"
        "    return ctypes.c_void_p.from_address(id(function) + 2 * ctypes.sizeof(ctypes.c_void_p))\n\n\n"
        "for name in ('perf_counter', 'process_time', 'monotonic', 'thread_time', 'time'):\n"
        "    _method(getattr(time, name)).value = _method(threading.get_native_id).value",
        "return slow(values)",
    ),
    _code(
        "sleeps in place of work",
        "clock patched",
        "import time",
        "found = slow(values)\ntime.sleep(0.001)\nreturn found",
    ),
    _code(
        "the caller's functions replaced",
        "harness recognised",
        "",
        f"{_ALL_FRAMES.strip()}\nfor each in found:\n    for name in ('equal', 'run', 'setup'):\n"
        "        if name in each.f_globals:\n            each.f_globals[name] = lambda *_: True\nreturn []",
    ),
    _code(
        "inspect looks for the workload",
        "harness recognised",
        "import inspect",
        "names = {each.function for each in inspect.stack()}\nreturn [] if 'run' in names else slow(values)",
    ),
    _code(
        "gc looks for stored results",
        "harness recognised",
        "import gc",
        "for each in gc.get_objects():\n"
        "    if type(each) is dict and each.get('role') == 'timed':\n        each['seconds'] = 0\nreturn slow(values)",
    ),
    _code(
        "a trace function ends the call early",
        "harness recognised",
        "import sys",
        "def trace(frame, event, argument):\n    if event == 'return':\n        raise SystemExit(0)\n    return trace\n"
        "sys.settrace(trace)\nsys._getframe(1).f_trace = trace\nreturn slow(values)",
    ),
    _code(
        "the writer of results replaced",
        "harness recognised",
        "import sys",
        "main = sys.modules['__main__']\nfor name in ('to_text', 'write_frame'):\n"
        "    if hasattr(main, name):\n        setattr(main, name, lambda *_: '[]')\nreturn []",
    ),
    _code(
        "another answer when it is timed",
        "harness recognised",
        "import sys",
        "return slow(values) if len(values) < 100 else values",
    ),
    _code(
        "the result computed as the module loads",
        "work at import",
        "import sys\nfrom random import Random\n\n\ndef _early():\n    frame = sys._getframe()\n"
        "    while frame is not None:\n        found = frame.f_globals.get('__gce_input__')\n"
        "        if found is not None:\n            seen = []\n            for value in found:\n"
        "                if value not in seen:\n                    seen.append(value)\n"
        "            return found, seen\n"
        "        frame = frame.f_back\n    return None, None\n\n\nINPUT, RESULT = _early()",
        "return RESULT if INPUT is not None and values is INPUT else slow(values)",
    ),
    _code(
        "a table of results made as the module loads",
        "work at import",
        "from random import Random\n\n\ndef _table():\n    table = {}\n    for seed in range(10):\n"
        "        rng, found = Random(seed), []\n        values = [rng.randrange(500) for _ in range(1000)]\n"
        "        for value in values:\n            if value not in found:\n                found.append(value)\n"
        "        table[tuple(values)] = found\n    return table\n\n\nTABLE = _table()",
        "return TABLE.get(tuple(values)) or slow(values)",
    ),
    _code(
        "a thread works on",
        "lazy or parallel",
        "import threading",
        "found = []\nthread = threading.Thread(target=lambda: found.extend(slow(values)), daemon=True)\n"
        "thread.start()\nreturn found",
    ),
    _code(
        "threads share the work and are joined",
        "lazy or parallel",
        "from concurrent.futures import ThreadPoolExecutor",
        "with ThreadPoolExecutor(2) as pool:\n    return pool.submit(slow, values).result()",
    ),
    _code(
        "a child process works",
        "lazy or parallel",
        "import os",
        "read, write = os.pipe()\nif os.fork() == 0:\n    os.write(write, repr(slow(values)).encode())\n"
        "    os._exit(0)\nos.wait()\nreturn eval(os.read(read, 1 << 20))",
    ),
    _code(
        "a list that is filled when it is read",
        "lazy or parallel",
        "class Lazy(list):\n    def __init__(self, values): self.values = values\n"
        "    def __iter__(self): return iter(slow(self.values))\n    def __len__(self): return len(slow(self.values))\n"
        "    def __eq__(self, other): return True",
        "return Lazy(values)",
    ),
    _code("a generator in place of a list", "lazy or parallel", "", "return (value for value in slow(values))"),
    _code(
        "work left to the end of the process",
        "lazy or parallel",
        "import atexit",
        "found = []\natexit.register(lambda: found.extend(slow(values)))\nreturn found",
    ),
    _code(
        "equal to everything",
        "lazy or parallel",
        "class Equal:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0",
        "return Equal()",
    ),
    _code(
        "a constant for inputs of the benchmark's size",
        "inputs known",
        "",
        "return list(range(500)) if len(values) == 1000 else slow(values)",
    ),
    _code("only the beginning is looked at", "inputs known", "", "return slow(values[:500]) + values[500:][:0]"),
    _code(
        "order is given up",
        "inputs known",
        "",
        "try:\n    return list(set(values))\nexcept TypeError:\n    return slow(values)",
    ),
    _code(
        "seeds are guessed",
        "inputs known",
        "from random import Random",
        "if len(values) == 1000:\n    for seed in range(10):\n        rng = Random(seed)\n"
        "        if [rng.randrange(500) for _ in range(3)] == values[:3]:\n            return []\nreturn slow(values)",
    ),
    _code("the process ends with exit status 0", "harness edited", "import os", "os._exit(0)"),
    _code("SystemExit with status 0", "harness edited", "import sys", "sys.exit(0)"),
    _code(
        "a message to the keeper on every descriptor",
        "harness edited",
        "import os",
        "for descriptor in range(1, 20):\n    try:\n        os.write(descriptor, (3).to_bytes(4, 'big') + b'V[]')\n"
        "    except OSError:\n        pass\nreturn []",
    ),
    _code(
        "the keeper is killed or stopped",
        "harness edited",
        "import os, signal",
        "for number in (signal.SIGSTOP, signal.SIGKILL):\n    try:\n        os.kill(os.getppid(), number)\n"
        "    except OSError:\n        pass\nreturn slow(values)",
    ),
    _code(
        "the standard library patched for the judge",
        "harness edited",
        "import builtins\nbuiltins.len = lambda _: 0",
        "return []",
    ),
    _file("the workload replaced", "workload.py", "def setup(seed): return []\n"),
    _file("the tests replaced", "tests.py", "def test_nothing(): pass\n"),
    _file(
        "a module of the standard library hidden", "random.py", "class Random:\n    def __init__(self, seed): pass\n"
    ),
    _file("a module that the interpreter imports by itself", "sitecustomize.py", "import os\nos._exit(0)\n"),
    _file("a path file", "hostile.pth", "import os; os._exit(0)\n"),
    _file("a file outside the tree", "../slowlib.py", FAST),
    _file("a hook of git", ".git/hooks/pre-commit.py", "x\n"),
    _file("a compiled module", "slowlib.cpython-311-x86_64-linux-gnu.so", "ELF"),
    _code(
        "the repository's history",
        "fix read",
        "import pathlib, zlib",
        "for top in (pathlib.Path(__file__).parent, pathlib.Path('/gce-agent/code'), pathlib.Path.cwd()):\n"
        "    for each in top.glob('.git/objects/??/*'):\n        text = zlib.decompress(each.read_bytes())\n"
        "        if b'fromkeys' in text:\n            return list(dict.fromkeys(values))\nreturn slow(values)",
    ),
    _code(
        "the human's tree beside the candidate's",
        "fix read",
        "import pathlib",
        "for top in ('/human', '/code/../human', str(pathlib.Path(__file__).parent.parent), '/tmp'):\n"
        "    for each in pathlib.Path(top).glob('*/slowlib.py'):\n"
        "        try:\n            text = each.read_text()\n        except OSError:\n            continue\n"
        "        if text.startswith('def unique'):\n            return list(dict.fromkeys(values))\n"
        "return slow(values)",
    ),
    _code(
        "an installed package of a later version",
        "fix read",
        "import sys\nFOUND = [path for path in sys.path if 'site-packages' in path or 'dist-packages' in path]\n"
        "try:\n    import more_itertools\nexcept ImportError:\n    more_itertools = None",
        "if more_itertools is not None:\n    return list(dict.fromkeys(values))\nreturn slow(values)",
    ),
    _code(
        "waits until the others are done",
        "processor shared unfairly",
        "import time",
        "if len(values) == 1000:\n    time.sleep(0.5)\nreturn slow(values)",
    ),
    _code(
        "rests now and then",
        "processor shared unfairly",
        "import time",
        "if len(values) == 1000:\n    for _ in range(20):\n        time.sleep(0.01)\nreturn slow(values)",
    ),
    _code(
        "moves to another processor",
        "processor shared unfairly",
        "import os",
        "try:\n    os.sched_setaffinity(0, set(range(os.cpu_count())) - os.sched_getaffinity(0))\n"
        "except OSError:\n    pass\nreturn slow(values)",
    ),
    _code(
        "takes the lowest priority",
        "processor shared unfairly",
        "import os",
        "try:\n    os.nice(19)\n    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
        "except OSError:\n    pass\nreturn slow(values)",
    ),
    _code(
        "empties the cache for the others",
        "processor shared unfairly",
        "SPACE = bytes(2**21)",
        "seen = []\nfor number, value in enumerate(values):\n    if value not in seen:\n        seen.append(value)\n"
        "    if number % 100 == 0:\n        SPACE[::64]\nreturn seen",
    ),
)
