"""Whether the workload and the tests of a performance task can be run: they are parsed, never run."""

from __future__ import annotations

import ast

from gce.domain.performance.overlap import parsed
from gce.domain.performance.task import PerformanceTask
from gce.domain.text import printable

__all__ = ["faults_of", "tests_of", "unfinished"]

_MOST_SAID = 400


def faults_of(task: PerformanceTask) -> tuple[str, ...]:
    """Return why workload and tests cannot be run, one line each; empty if they have all that a task needs."""
    trees = []
    for file, source in (("workload.py", task.workload), ("tests.py", task.tests)):
        try:
            trees.append(ast.parse(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return (f"{file} is not Python: {error}",)
    workload, tests = map(_functions, trees)
    missing = sorted({"setup", "run", "equal"} - set(workload))
    faults = [f"workload.py does not define {', '.join(missing)}"] if missing else []
    faults += [] if any(map(_is_test, tests)) else ["tests.py defines no function test_*"]
    return (*faults, *(f"to be written: {part}" for part in unfinished(task)))


def tests_of(task: PerformanceTask) -> list[str]:
    """Return the names of a task's tests, in order."""
    return [name for name in _functions(ast.parse(task.tests)) if _is_test(name)]


def _functions(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def _is_test(name: str) -> bool:
    return name.startswith("test_")


def unfinished(task: PerformanceTask) -> tuple[str, ...]:
    """Return what a person still has to write, one line each; empty if the task is no draft.

    Those are the functions of workload and tests that raise NotImplementedError. A source that is not Python has none.
    """
    found = []
    for file, source in (("workload.py", task.workload), ("tests.py", task.tests)):
        for function in parsed(source.encode("utf-8", "replace")) or []:
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Raise) and (said := _not_implemented(node.exc)) is not None:
                    found.append(f"{file}: {function.name}{said and ': '}{printable(said)[:_MOST_SAID]}")
    return tuple(found)


def _not_implemented(error: ast.expr | None) -> str | None:
    """Return the message of a NotImplementedError; None for anything else."""
    match error:
        case ast.Name("NotImplementedError"):
            return ""
        case ast.Call(ast.Name("NotImplementedError"), [ast.Constant(str(said)), *_]):
            return said
        case ast.Call(ast.Name("NotImplementedError")):
            return ""
    return None
