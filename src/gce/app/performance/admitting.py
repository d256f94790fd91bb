"""Whether performance tasks can be used: their sources fetched, then the rule of admission measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import evolve

from gce.app.terminal import note
from gce.app.wiring.performance import Measuring, instructions_of, why_no_counts
from gce.domain.performance.admission import Admission, admission
from gce.domain.performance.decision import (
    LEAST_HUMAN,
    Comparison,
    Decision,
    Instructions,
    Round,
    decide,
    decide_same,
)
from gce.domain.performance.task import PerformanceTask, Pin, Source
from gce.domain.randomness import key

__all__ = ["Counts", "WritesTree", "admit", "counting", "pins_of", "with_instructions"]


WritesTree = Callable[[Source, Path], None]
"""Writes the tree of a source to a new directory."""


Counts = Callable[[PerformanceTask, Path, int], int | None]
"""Counts the instructions of one call of a task's workload on a tree, with the input of a seed; None if it cannot."""


def pins_of(task: PerformanceTask) -> tuple[Pin, ...]:
    """Return the pins of base and human's form, each once."""
    return tuple(dict.fromkeys((*task.base.pins, *task.human.pins)))


def admit(
    task: PerformanceTask,
    write_tree: WritesTree,
    measuring: Measuring,
    *,
    seed: int,
    on_round: Callable[[str, int], None] = lambda *_: None,
    count: Counts | None = None,
) -> Admission:
    """Measure the human's form and an empty patch against the base, and apply the rule of admission.

    `on_round` is told "human" or "nothing" with the number of rounds; `count` counts instructions of both.

    Raises:
        BadInput: a source was not fetched, or workload, tests or base do not run.
    """
    with TemporaryDirectory(prefix="gce-") as home:
        base, human = Path(home, "base"), Path(home, "human")
        write_tree(task.base, base)
        write_tree(task.human, human)
        found = {}
        for name, tree, rule in (("human", human, _human_rule), ("nothing", base, decide_same)):
            drawn = key(seed, task.name, name)
            found[name] = measuring.compare(
                task,
                base,
                tree,
                seed=drawn,
                rule=rule,
                on_round=partial(on_round, name),
                on_retry=lambda reason: note(f"{task.name}: {reason}; measured again"),
            )
        if count is not None:
            found["human"] = with_instructions(found["human"], task, base, human, count=count, seed=seed)
    return admission(found["human"], found["nothing"])


def counting(wanted: bool) -> Counts | None:
    """Return what counts instructions, if it is wanted and can be done here; note why it cannot."""
    reason = why_no_counts() if wanted else ""
    if reason:
        note(f"instructions are not counted: {reason}")
    return instructions_of if wanted and not reason else None


def with_instructions(
    comparison: Comparison,
    task: PerformanceTask,
    base: Path,
    candidate: Path,
    *,
    human: Path | None = None,
    count: Counts,
    seed: int,
) -> Comparison:
    """Return a comparison with counts of instructions, where the candidate is correct and all could be counted."""
    if comparison.failed or comparison.verdict == "incorrect":
        return comparison
    drawn = key(seed, task.name, "instructions")
    counts = [None if tree is None else count(task, tree, drawn) for tree in (base, candidate, human)]
    if counts[0] is None or counts[1] is None:
        return comparison
    return evolve(comparison, instructions=Instructions(counts[0], counts[1], counts[2]))


def _human_rule(rounds: Sequence[Round]) -> Decision:
    return decide(rounds, least=LEAST_HUMAN)
