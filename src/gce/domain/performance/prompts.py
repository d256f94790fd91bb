"""What an agent is told about a performance task. Nothing of it is taken from the human's changes."""

from __future__ import annotations

from gce.domain.performance.task import PerformanceTask

__all__ = ["IN_FILES", "task_prompt"]

_TASK = """\
Make this Python code faster for the workload below, without changing what it returns.

The workload draws an input with `setup(seed)` and calls `run(input)`, which imports the code; `equal(a, b)` decides
whether two results are the same.

How it is judged: the processor time of one call of `run` in a new process, imports included, on inputs that you have
not seen, compared with the code as it is now. Results must be equal on all inputs, and the tests must pass. Processes,
threads, files and results kept between calls are not possible there. Only files that match {allowed} may be changed or
added; other changes are dropped.
"""
IN_FILES = """
The code is in the working directory. Files workload.py and tests.py lie beside it; changes to them have no effect.
"""
"""What an agent that works with files is told, too."""


def task_prompt(task: PerformanceTask) -> str:
    """Return the task's instruction, or a text made from its workload; then the workload and the tests."""
    said = task.instruction.strip() or _TASK.format(allowed=" or ".join(task.allowed)).strip()
    return f"{said}\n\nworkload.py:\n\n{task.workload.strip()}\n\ntests.py:\n\n{task.tests.strip()}\n"
