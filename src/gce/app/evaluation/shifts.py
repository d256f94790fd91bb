"""Distribution shifts of a task: on which problems they are measured, and their table beside the task as asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from gce.app.evaluation.baselines import best_of, reference_scores, solve_rates
from gce.app.tables.cells import count_words, coverage_cell, interval_cell, share_cell
from gce.app.wiring.tasks import find_task
from gce.domain.figures import Table
from gce.domain.measurements import Interval
from gce.domain.outcomes import coverage
from gce.domain.problems import Problem
from gce.domain.serialization import to_plain
from gce.domain.statistics import mean_over_tiers
from gce.domain.tasks import Task

if TYPE_CHECKING:
    from gce.app.evaluation.run import Evaluation

__all__ = ["AS_ASKED", "answers_of_shift", "shift_parts", "shifts_of"]

AS_ASKED = "as asked"
"""The row of the task and preset that were asked for."""
FITTED_TO = 100
"""Training problems a tier to which prompt-blind baselines are fitted: those of the shift itself."""
CONCLUSION = (
    "A mean far below that of the first row says that what was learned does not carry over to that shift; only the "
    "part above its best prompt-blind baseline is more than guessing."
)


def shifts_of(task: Task, preset: str, *, without: Collection[tuple[str, str]] = ()) -> dict[str, tuple[Task, str]]:
    """Return the task and preset of each distribution shift that a task declares, by what differs.

    Args:
        task: the task as asked.
        preset: its preset, which shifts that name none of their own keep.
        without: distributions that are no shift, by name of the task and preset, besides the one as asked.
    """
    found = {what: (find_task(name), other or preset) for what, (name, other) in task.audit.shifts.items()}
    known = {(task.name, preset), *without}
    return {what: (shifted, other) for what, (shifted, other) in found.items() if (shifted.name, other) not in known}


def answers_of_shift(path: Path, what: str) -> Path:
    """Return the file that keeps the answers to a shift: answers.jsonl becomes answers.eleven-jobs.jsonl."""
    return path.with_name(f"{path.stem}.{re.sub('[^0-9a-z]+', '-', what.lower())}{path.suffix}")


@frozen
class _Distribution:
    """What was measured on the problems of one distribution."""

    task: Task
    preset: str
    shares: Mapping[str, Interval]
    """By tier."""
    blind: Mapping[str, Interval]
    """The best prompt-blind baseline of each tier, on the same problems."""
    problems: Mapping[str, int]
    """Distinct problems by tier: the true n."""
    asked: int
    """Problems a tier that were asked for."""


def shift_parts(result: Evaluation) -> tuple[dict[str, Any], list[str | Table]]:
    """Plain data by shift, and the table with a row for each distribution, what to conclude and the true n.

    Of graded tasks it has the shares that are right alone.
    """
    found = {AS_ASKED: _distribution(result), **{what: _distribution(each) for what, each in result.shifts.items()}}
    plain = {what: _plain(each) for what, each in found.items() if what != AS_ASKED}
    return plain, [_table(found), CONCLUSION, *_counts(found)]


def _plain(found: _Distribution) -> dict[str, Any]:
    """The plain data of one distribution."""
    return {
        "task": found.task.name,
        "preset": found.preset,
        "problems": dict(found.problems),
        "tiers": to_plain(dict(found.shares)),
        "mean": to_plain(mean_over_tiers(found.shares.values())),
        "coverage": coverage(found.shares.values()),
        "best_prompt_blind": to_plain(dict(found.blind)),
    }


def _distribution(result: Evaluation) -> _Distribution:
    (shares,) = result.estimates().values()
    return _Distribution(
        result.task,
        result.preset,
        shares,  # type: ignore[arg-type]  # Accuracy is a share.
        _best_blind(result),
        Counter(problem.tier for problem in result.problems),
        result.settings.n,
    )


def _best_blind(result: Evaluation) -> dict[str, Interval]:
    problems: Sequence[Problem] = result.problems
    method = result.settings.interval
    blind, _ = reference_scores(
        result.task, result.evaluator, result.preset, problems, fitted_to=FITTED_TO, method=method
    )
    return best_of(solve_rates(blind))


def _table(found: Mapping[str, _Distribution]) -> Table:
    """Tiers are columns; means, also of the best prompt-blind baselines, are over the tiers of the distribution."""
    tiers = list(dict.fromkeys(tier for each in found.values() for tier in each.shares))
    held_out = {tier.name for each in found.values() for tier in each.task.tiers(each.preset) if tier.held_out}
    heads = (f"{tier}, held out" if tier in held_out else tier for tier in tiers)
    rows = tuple(
        (
            what,
            *(_tier_cell(each.shares.get(tier)) for tier in tiers),
            _mean_cell(each.shares),
            _mean_cell(each.blind) if each.blind else "-",
            coverage_cell(coverage(each.shares.values())),
        )
        for what, each in found.items()
    )
    return Table(("distribution", *heads, "mean", "best prompt-blind", "coverage"), rows)


def _tier_cell(share: Interval | None) -> str:
    return interval_cell(share, digits=0) if share is not None and share.n else "-"


def _mean_cell(shares: Mapping[str, Interval]) -> str:
    mean = mean_over_tiers(shares.values())
    return "-" if mean is None else share_cell(mean.value, mean.low, mean.high)


def _counts(found: Mapping[str, _Distribution]) -> list[str]:
    """How many problems there were; a line for each different answer."""
    by_words: dict[str, list[str]] = {}
    for what, each in found.items():
        by_words.setdefault(count_words(each.problems, each.asked), []).append(what)
    if len(by_words) == 1:
        return list(by_words)
    return [f"{', '.join(names)}: {words}" for words, names in by_words.items()]
