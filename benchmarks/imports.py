"""Seconds from the start of a fresh interpreter to its end, with `import gce` and without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from benchmarks.contest import Turn, measured

STARTS = 10


def interpreter(code: str) -> Callable[[], Turn]:
    """`python -c CODE`; its units are interpreters started."""

    def work() -> float:
        for _ in range(STARTS):
            subprocess.run([sys.executable, "-c", code], check=True)
        return STARTS

    return lambda: measured(work)
