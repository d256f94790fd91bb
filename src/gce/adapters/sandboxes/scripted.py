"""The fake of the Runner port: runs nothing and returns what a function gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gce.domain.executions import Evidence, Execution

__all__ = ["ScriptedRunner"]


class ScriptedRunner:
    """A `Runner` for tests; `asked` holds the requested executions, in order."""

    def __init__(self, answer: Callable[[Execution], Evidence]) -> None:
        self._answer = answer
        self.asked: list[Execution] = []

    def run(self, executions: Iterable[Execution]) -> Iterator[Evidence]:
        """Yield the function's evidence for each execution."""
        for execution in executions:
            self.asked.append(execution)
            yield self._answer(execution)
