"""A small performance task of directories, for tests that need neither the network nor other people's code."""

from __future__ import annotations

from pathlib import Path

from gce.adapters.performance.task_files import read_task
from gce.domain.performance.task import PerformanceTask

__all__ = ["FAST", "SLOW", "small_task", "tree_of"]

SLOW = "def total(n):\n    s = 0\n    for i in range(n):\n        s += i\n    return s\n"
FAST = "def total(n):\n    return n * (n - 1) // 2\n"
WORKLOAD = """\
import random


def setup(seed):
    return random.Random(seed).randrange(10**6, 11 * 10**5)


def run(n):
    from small import total

    return [total(n), n]


def equal(a, b):
    return a == b
"""
TESTS = """\
from small import total


def test_small_numbers():
    assert total(3) == 3
    return [total(n) for n in range(9)]
"""


def tree_of(path: Path, source: str) -> Path:
    (path / "small").mkdir(parents=True)
    (path / "small" / "__init__.py").write_text(source, encoding="utf-8")
    return path


def small_task(
    path: Path, *, base: str = SLOW, human: str = FAST, workload: str = WORKLOAD, tests: str = TESTS
) -> PerformanceTask:
    """Write a task's directory, and read it."""
    path.mkdir(exist_ok=True)
    lines = ["[performance]", "seconds = 5", "base.directory = 'base'", "human.directory = 'human'", ""]
    for name, text in (("task.toml", "\n".join(lines)), ("workload.py", workload), ("tests.py", tests)):
        (path / name).write_text(text, encoding="utf-8")
    tree_of(path / "base", base)
    tree_of(path / "human", human)
    return read_task(path)
