"""Whether performance tasks can be used: their sources fetched, then the rule of admission measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from gce.domain.performance.admission import Admission, admission
from gce.domain.performance.decision import LEAST_HUMAN, Comparison, Decision, Round, Rule, decide, decide_same
from gce.domain.performance.task import PerformanceTask, Pin, Source
from gce.domain.randomness import key

__all__ = ["Compares", "WritesTree", "admit", "pins_of"]


class Compares(Protocol):
    """Compares versions of code; `gce.app.wiring.performance.find_measuring` returns one."""

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
        """Return the comparison of a candidate with the base; BadInput if the task itself does not run."""
        ...


WritesTree = Callable[[Source, Path], None]
"""Writes the tree of a source to a new directory."""


def pins_of(task: PerformanceTask) -> tuple[Pin, ...]:
    """Return the pins of base and human's form, each once."""
    return tuple(dict.fromkeys((*task.base.pins, *task.human.pins)))


def admit(
    task: PerformanceTask,
    write_tree: WritesTree,
    measuring: Compares,
    *,
    seed: int,
    on_round: Callable[[str, Round], None] | None = None,
) -> Admission:
    """Measure the human's form and an empty patch against the base, and apply the rule of admission.

    `on_round` is told "human" or "nothing" with each round.

    Raises:
        BadInput: a source was not fetched, or workload, tests or base do not run.
    """
    with TemporaryDirectory(prefix="gce-") as home:
        base, human = Path(home, "base"), Path(home, "human")
        write_tree(task.base, base)
        write_tree(task.human, human)
        found = {}
        for name, tree, rule in (("human", human, _human_rule), ("nothing", base, decide_same)):
            told = None if on_round is None else partial(on_round, name)
            drawn = key(seed, task.name, name)
            found[name] = measuring.compare(task, base, tree, seed=drawn, rule=rule, on_round=told)
    return admission(found["human"], found["nothing"])


def _human_rule(rounds: Sequence[Round]) -> Decision:
    return decide(rounds, least=LEAST_HUMAN)
