"""`gce train` in forks of one process, each killed by SIGKILL at a step of its store, or some time after it was opened.

What a short run takes most time for is imported once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["TESTS", "ForkedTrainers", "differences"]

TESTS = Path(__file__).parents[1]

_SERVER = """
import json, os, signal, sys, threading
from importlib import import_module
from gce.app.cli import main

store, *modules = sys.argv[1:]
module, _, name = store.partition(":")
runs = getattr(import_module(module), name)
for module in modules:
    import_module(module)

def run(step, count, seconds, arguments):
    os.dup2(2, 1)  # The parent reads statuses from the output.
    die = lambda: os.kill(os.getpid(), signal.SIGKILL)

    def on_step(name):
        nonlocal count
        count -= name == step
        if name == step and not count:
            die()

    def armed(method):
        def call(*given, **named):
            if seconds:
                threading.Timer(seconds, die).start()
            return method(*given, **named, on_step=on_step)
        return call

    runs.create, runs.open = armed(runs.create), armed(runs.open)
    code = main(arguments)
    sys.stderr.flush()
    os._exit(code)  # Not waiting for the timer.

for line in sys.stdin:
    child = os.fork()
    if not child:
        run(*json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class ForkedTrainers:
    """The process; one run at a time."""

    def __init__(self, store: type, *modules: str) -> None:
        """Start it: `store` has the methods `create` and `open` by which runs are kept."""
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, f"{store.__module__}:{store.__name__}", *modules],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._place = 0

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)
        self._errors.close()

    def begin(self, arguments: Sequence[str], *, step: str = "", count: int = 0, seconds: float = 0.0) -> None:
        """Begin `gce train` with these arguments, killed at the `count`-th time of `step`, or after `seconds`."""
        assert self._process.stdin is not None
        self._place = self._errors.seek(0, os.SEEK_END)
        print(json.dumps([step, count, seconds, ["train", *arguments]]), file=self._process.stdin, flush=True)

    def end(self) -> tuple[int, str]:
        """Wait until it has ended; return its exit status, negative for a signal, and what it said."""
        assert self._process.stdout is not None
        status = int(self._process.stdout.readline())
        self._errors.seek(self._place)
        return status, self._errors.read()


def differences(run: str, left: Mapping[str, Any], whole: Mapping[str, Any]) -> list[str]:
    """What a run left that is other than what one left to which nothing happened, a line each."""
    return [
        f"{run}: {name}{_first_of(left.get(name), expected)}"
        for name, expected in whole.items()
        if left.get(name) != expected
    ]


def _first_of(found: Any, expected: Any) -> str:
    """The values that differ; of records or fields, the first that do."""
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        place = next(place for place, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
        return f"[{place}]{_first_of(found[place], expected[place])}"
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        name = next(name for name in expected if found[name] != expected[name])
        return f".{name}{_first_of(found[name], expected[name])}"
    return f": {found!r:.300} for {expected!r:.300}"
