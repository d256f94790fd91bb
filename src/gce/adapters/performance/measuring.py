"""Times versions of code against each other in sandboxes, and compares their outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gce.adapters.sandboxes.process import SandboxProcess
from gce.domain.performance.decision import Comparison, Round, Rule, decide
from gce.domain.performance.task import PerformanceTask

__all__ = ["Measuring"]


class Measuring:
    """Compares versions of code in sandboxes that `start` makes, given the directory of code to show."""

    def __init__(self, start: Callable[[Path], SandboxProcess]) -> None:
        self._start = start

    def check(self) -> None:
        """Measure a known half second of work in a sandbox; BadInput where it is not seen."""
        raise NotImplementedError

    def compare(
        self,
        task: PerformanceTask,
        base: Path,
        candidate: Path,
        *,
        human: Path | None = None,
        seed: int,
        rule: Rule = decide,
        on_round: Callable[[Round], None] | None = None,
    ) -> Comparison:
        """Compare two trees of sources, with the human's beside them.

        Correctness first: tests and outputs on inputs that are not timed. Then rounds until `rule` settles.

        Raises:
            BadInput: the workload, the tests or the base do not run, or no sandbox starts.
        """
        raise NotImplementedError
