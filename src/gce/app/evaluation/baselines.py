"""Prompt-blind baselines and heuristics for comparison with a model, and the audit of a task with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from attrs import frozen

from gce.app.evaluation.scoring import OPTION, check_coverage
from gce.app.tables.summary import BEST_BLIND
from gce.domain.answers import Answer
from gce.domain.baselines import PolicyScore, answers_of_policies, is_above, score_policies, scores_of_answers
from gce.domain.measurements import Interval, MeanReward
from gce.domain.metrics import point
from gce.domain.paired import Gain, Pair, paired_gains
from gce.domain.problems import Problem
from gce.domain.randomness import key
from gce.domain.statistics import DEFAULT_INTERVAL, Estimate, difference, mean_over_tiers
from gce.domain.tasks import Task, draw_problems
from gce.ports.evaluator import Evaluator

__all__ = [
    "AuditReport",
    "audit",
    "best_of",
    "check_references",
    "conclusion",
    "heuristics_line",
    "reference_answers",
    "reference_rows",
    "reference_scores",
    "reward_gains_over",
    "shortcut_margins",
    "solve_rates",
]

Rows = dict[str, dict[str, Interval]]
"""Solve rates by policy and tier."""
Answers = Mapping[str, Sequence[Answer]]
"""Judged answers by policy."""

Measured = TypeVar("Measured", Interval, MeanReward)


def conclusion(floors: Mapping[str, Mapping[str, Measured]], *, graded: bool, below: str = "") -> str:
    """What to conclude from a table with the model and its prompt-blind baselines; `graded` if it has mean rewards.

    `floors` are the mean rewards of the baselines by tier, or else their solve rates; where one is the best in all
    tiers, it is named. `below` names the row whose accuracy is not above the best baseline's; empty for none.
    """
    what = "accuracy, or mean reward," if graded else "accuracy"
    best = best_of(floors)
    earns = any(point(found) for found in best.values())
    names = [name for name, row in floors.items() if all(row.get(tier) is found for tier, found in best.items())]
    named = f", here {names[0]!r}," if earns and names else ""
    said = (
        f"A prompt-blind baseline ignores the problem, or copies from it. Only {what} above the best one{named} "
        "is more than guessing"
    )
    return f"{said}; {below} is not above it in accuracy." if below else f"{said}."


def reference_rows(
    floors: Mapping[str, Mapping[str, Measured]], heuristics: Mapping[str, Mapping[str, Measured]]
) -> dict[str, Mapping[str, Measured]]:
    """Return the rows beside a model's: the best prompt-blind baseline of each tier, and the best heuristic.

    The best heuristic is the one with the largest mean over tiers.
    """
    rows: dict[str, Mapping[str, Measured]] = {BEST_BLIND: best_of(floors)} if floors else {}
    means = {name: mean_over_tiers(row.values()) for name, row in heuristics.items()}
    known = {name: mean.value for name, mean in means.items() if mean is not None}
    return rows | ({best: heuristics[best]} if (best := max(known, key=known.__getitem__, default=None)) else {})


def heuristics_line(heuristics: Mapping[str, Mapping[str, Measured]]) -> list[str]:
    """Say which heuristic `reference_rows` has, where there are several."""
    if len(heuristics) < 2:
        return []
    shown = set(reference_rows({}, heuristics))
    return [f"{name}: the best of {len(heuristics)} heuristics that read the whole problem." for name in shown]


@frozen
class AuditReport:
    """Solve rates of prompt-blind baselines and heuristics on fresh test problems."""

    problems: Mapping[str, int]
    """Number of problems by tier."""
    prompt_blind: tuple[PolicyScore, ...]
    heuristics: tuple[PolicyScore, ...]
    above_limit: tuple[PolicyScore, ...]
    """Prompt-blind baselines whose solve rate or mean reward exceeds the task's limit; see `is_above`."""

    @property
    def tier_shares(self) -> tuple[Interval, ...]:
        """The solve rates of whole tiers."""
        return tuple(score.share for score in (*self.prompt_blind, *self.heuristics) if score.group == score.tier)


def audit(
    task: Task,
    evaluator: Evaluator,
    preset: str,
    tiers: Sequence[str],
    *,
    problems: int,
    fitted_to: int,
    on_tier: Callable[[str], None] = lambda _tier: None,
) -> AuditReport:
    """Score all reference policies on `problems` test problems per tier, fitted to `fitted_to` training problems.

    `on_tier` is called with each tier before its problems are drawn.
    """
    prompt_blind: list[PolicyScore] = []
    heuristics: list[PolicyScore] = []
    sizes: dict[str, int] = {}
    for tier in tiers:
        on_tier(tier)
        drawn = draw_problems(task, preset, tier, "test", problems)
        sizes[tier] = len(drawn)
        training = _training(task, preset, tier, fitted_to)
        subtypes = len({task.audit.group(problem.instance) for problem in drawn}) > 1
        baselines = task.references.prompt_blind(training)
        prompt_blind += score_policies(task, evaluator.judge, baselines, drawn, subtypes=subtypes)
        heuristics += score_policies(task, evaluator.judge, task.references.heuristics(training), drawn)
    above = [score for score in prompt_blind if is_above(task, preset, score)]
    return AuditReport(sizes, tuple(prompt_blind), tuple(heuristics), tuple(above))


def reference_scores(
    task: Task,
    evaluator: Evaluator,
    preset: str,
    problems: Sequence[Problem],
    *,
    fitted_to: int,
    method: str = DEFAULT_INTERVAL,
) -> tuple[tuple[PolicyScore, ...], tuple[PolicyScore, ...]]:
    """Return the scores of prompt-blind baselines and of heuristics on these problems, fitted to training problems."""
    blind, heuristics = reference_answers(task, evaluator, preset, problems, fitted_to=fitted_to)
    return scores_of_answers(task, blind, method=method), scores_of_answers(task, heuristics, method=method)


def reference_answers(
    task: Task, evaluator: Evaluator, preset: str, problems: Sequence[Problem], *, fitted_to: int
) -> tuple[Answers, Answers]:
    """Return the judged answers of prompt-blind baselines and of heuristics, by name; see `reference_scores`."""
    tiers = dict.fromkeys(problem.tier for problem in problems)
    training = [problem for tier in tiers for problem in _training(task, preset, tier, fitted_to)]
    blind, heuristics = task.references.prompt_blind(training), task.references.heuristics(training)
    return (
        answers_of_policies(task, evaluator.judge, blind, problems),
        answers_of_policies(task, evaluator.judge, heuristics, problems),
    )


def reward_gains_over(references: Answers, answers: Sequence[Answer]) -> dict[str, Gain]:
    """Return the gain in reward of these answers over those of each reference, on the problems that both answered."""
    found = {(each.problem.tier, each.problem.key): each.reward for each in answers}
    pairs: dict[str, list[Pair]] = {}
    for name, given in references.items():
        for each in given:
            own = found.get((each.problem.tier, each.problem.key))
            if own is not None and each.reward is not None:
                pairs.setdefault(name, []).append((each.problem.tier, each.reward, own))
    return paired_gains(pairs)


def solve_rates(scores: Iterable[PolicyScore]) -> Rows:
    """Return the solve rates by policy and tier."""
    rows: Rows = {}
    for score in scores:
        rows.setdefault(score.policy, {})[score.tier] = score.share
    return rows


def _training(task: Task, preset: str, tier: str, count: int) -> tuple[Problem, ...]:
    return draw_problems(task, preset, tier, "train", count, seed=key("audit"))


def check_references(shares: Iterable[Interval], least: float) -> None:
    """Raise LowCoverage if too many answers of one policy to one tier failed; the worst case counts."""
    worst = min(shares, key=lambda share: share.coverage, default=None)
    if worst is not None:
        check_coverage("reference answers", worst.failed, worst.n + worst.failed, least, hint=OPTION)


def shortcut_margins(after: Mapping[str, Interval], baseline: Mapping[str, Interval]) -> dict[str, Estimate]:
    """Return by tier the accuracy minus that of the best prompt-blind baseline on the same problems."""
    return {
        tier: difference(found, baseline[tier])
        for tier, found in after.items()
        if tier in baseline and found.n and baseline[tier].n
    }


def best_of(rows: Mapping[str, Mapping[str, Measured]]) -> dict[str, Measured]:
    """Return the largest share, or mean reward, of each tier over all rows."""
    best: dict[str, Measured] = {}
    for row in rows.values():
        for tier, found in row.items():
            if found.n and (tier not in best or point(found) > point(best[tier])):
                best[tier] = found
    return best
