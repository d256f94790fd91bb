"""A runner that runs nothing and says what a function tells it to: the fake of the Runner port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gce.domain.executions import Evidence, Execution

__all__ = ["ScriptedRunner"]


class ScriptedRunner:
    """A `Runner`; `asked` holds what it was asked to run, in order."""

    def __init__(self, answer: Callable[[Execution], Evidence]) -> None:
        self._answer = answer
        self.asked: list[Execution] = []

    def run(self, executions: Iterable[Execution]) -> Iterator[Evidence]:
        """What the function makes of each."""
        for execution in executions:
            self.asked.append(execution)
            yield self._answer(execution)
