"""Distribution shifts of a task: on which problems they are measured, and their table beside the task as asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from gce.app.evaluation.baselines import best_of, reference_scores, solve_rates
from gce.app.evaluation.scoring import stored_shares
from gce.app.tables.cells import count_words, coverage_cell, interval_cell, share_cell
from gce.app.tables.summary import BEST_BLIND
from gce.app.wiring.tasks import find_task
from gce.domain.figures import Table
from gce.domain.measurements import Interval
from gce.domain.outcomes import coverage
from gce.domain.problems import Problem
from gce.domain.serialization import to_plain
from gce.domain.statistics import DEFAULT_INTERVAL, Estimate, mean_over_tiers
from gce.domain.tasks import Task
from gce.ports.evaluator import Evaluator

if TYPE_CHECKING:
    from gce.app.evaluation.run import Evaluation

__all__ = [
    "AS_ASKED",
    "Distribution",
    "answers_of_shift",
    "best_blind",
    "distribution_parts",
    "distribution_plain",
    "held_out_tiers",
    "shift_parts",
    "shift_slug",
    "shifts_of",
    "stored_distribution",
]

AS_ASKED = "as asked"
"""The row of the task and preset that were asked for."""
FITTED_TO = 100
"""Training problems a tier to which prompt-blind baselines are fitted: those of the shift itself."""
CONCLUSION = (
    "A mean far below that of the first row says that what was learned does not carry over to that shift; only the "
    "part above its best prompt-blind baseline is more than guessing."
)
CONCLUSION_ALONE = "Only the part of a mean above its best prompt-blind baseline is more than guessing."
"""Where the table lacks the row of the task as asked."""


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


def shift_slug(what: str) -> str:
    """Return the name of a shift as file names have it: "eleven jobs" becomes eleven-jobs."""
    return re.sub("[^0-9a-z]+", "-", what.lower())


def answers_of_shift(path: Path, what: str) -> Path:
    """Return the file that keeps the answers to a shift: answers.jsonl becomes answers.eleven-jobs.jsonl."""
    return path.with_name(f"{path.stem}.{shift_slug(what)}{path.suffix}")


@frozen
class Distribution:
    """Accuracy on the problems of one distribution: a task and a preset."""

    task: str
    preset: str
    shares: Mapping[str, Interval]
    """By tier."""
    blind: Mapping[str, Interval]
    """The best prompt-blind baseline of each tier, on the same problems."""
    problems: Mapping[str, int]
    """Distinct problems by tier: the true n."""
    asked: int
    """Problems a tier that were asked for."""
    held_out: tuple[str, ...] = ()
    """Names of its tiers that training does not sample."""

    @property
    def mean(self) -> Estimate | None:
        """The mean over tiers in [0, 1]; None where a tier has no judged answer."""
        return mean_over_tiers(self.shares.values())


def distribution_plain(found: Distribution) -> dict[str, Any]:
    """Return the plain data of one distribution, as `stored_distribution` reads them."""
    return {
        "task": found.task,
        "preset": found.preset,
        "problems": dict(found.problems),
        "asked": found.asked,
        "held_out": list(found.held_out),
        "tiers": to_plain(dict(found.shares)),
        "mean": to_plain(found.mean),
        "coverage": coverage(found.shares.values()),
        "best_prompt_blind": to_plain(dict(found.blind)),
    }


def stored_distribution(plain: Mapping[str, Any]) -> Distribution:
    """Return the distribution of which these are the plain data."""
    return Distribution(
        plain["task"],
        plain["preset"],
        stored_shares(plain["tiers"]),
        stored_shares(plain["best_prompt_blind"]),
        plain["problems"],
        plain["asked"],
        tuple(plain["held_out"]),
    )


def shift_parts(result: Evaluation) -> tuple[dict[str, Any], list[str | Table]]:
    """Plain data by shift, and the table with a row for each distribution, what to conclude and the true n.

    Of graded tasks it has the shares that are right alone.
    """
    found = {AS_ASKED: _distribution(result), **{what: _distribution(each) for what, each in result.shifts.items()}}
    plain = {what: distribution_plain(each) for what, each in found.items() if what != AS_ASKED}
    return plain, distribution_parts(found)


def distribution_parts(found: Mapping[str, Distribution]) -> list[str | Table]:
    """Return the table with a row for each distribution, what to conclude and the true n; `AS_ASKED` is named first."""
    return [_table(found), CONCLUSION if AS_ASKED in found else CONCLUSION_ALONE, *_counts(found)]


def _distribution(result: Evaluation) -> Distribution:
    (shares,) = result.estimates().values()
    return Distribution(
        result.task.name,
        result.preset,
        shares,  # type: ignore[arg-type]  # Accuracy is a share.
        best_blind(result.task, result.evaluator, result.preset, result.problems, method=result.settings.interval),
        Counter(problem.tier for problem in result.problems),
        result.settings.n,
        held_out_tiers(result.task, result.preset),
    )


def held_out_tiers(task: Task, preset: str) -> tuple[str, ...]:
    """Return the names of a preset's tiers that training does not sample."""
    return tuple(tier.name for tier in task.tiers(preset) if tier.held_out)


def best_blind(
    task: Task, evaluator: Evaluator, preset: str, problems: Sequence[Problem], *, method: str = DEFAULT_INTERVAL
) -> dict[str, Interval]:
    """Return the solve rate of the best prompt-blind baseline by tier, fitted to training problems of the same task."""
    blind, _ = reference_scores(task, evaluator, preset, problems, fitted_to=FITTED_TO, method=method)
    return best_of(solve_rates(blind))


def _table(found: Mapping[str, Distribution]) -> Table:
    """Tiers are columns; means, also of the best prompt-blind baselines, are over the tiers of the distribution."""
    tiers = list(dict.fromkeys(tier for each in found.values() for tier in each.shares))
    held_out = {tier for each in found.values() for tier in each.held_out}
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
    return Table(("distribution", *heads, "mean", BEST_BLIND, "coverage"), rows)


def _tier_cell(share: Interval | None) -> str:
    return interval_cell(share, digits=0) if share is not None and share.n else "-"


def _mean_cell(shares: Mapping[str, Interval]) -> str:
    mean = mean_over_tiers(shares.values())
    return "-" if mean is None else share_cell(mean.value, mean.low, mean.high)


def _counts(found: Mapping[str, Distribution]) -> list[str]:
    """How many problems there were; a line for each different answer."""
    by_words: dict[str, list[str]] = {}
    for what, each in found.items():
        by_words.setdefault(count_words(each.problems, each.asked), []).append(what)
    if len(by_words) == 1:
        return list(by_words)
    return [f"{', '.join(names)}: {words}" for words, names in by_words.items()]
