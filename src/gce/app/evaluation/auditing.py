"""The audit of a task by answers that ignore the problem, from its name: what `gce audit` and `gce.audit` do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from gce.app.evaluation import baselines
from gce.app.evaluation.baselines import AuditReport, best_of, conclusion
from gce.app.evaluation.checking import hold_to, the_task
from gce.app.evaluation.resolution import half_width
from gce.app.evaluation.rewards import Rewards, is_graded, reference_rewards
from gce.app.notebook import watch_of
from gce.app.options import FITTED, NAME, PROBLEMS
from gce.app.shown import Part, html_of, lines_of
from gce.app.tables.cells import and_others, count_words, coverage_cell, interval_cell
from gce.app.tables.summary import BEST_BLIND, reward_rows
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.sandboxes import AUTO
from gce.app.wiring.tasks import find_preset, find_tiers, say_if_many
from gce.domain.baselines import PolicyScore, best_by_group, bounds_held, least_difference, limit_of, resolution
from gce.domain.figures import Table
from gce.domain.measurements import Interval
from gce.domain.outcomes import coverage
from gce.domain.serialization import to_plain
from gce.domain.tasks import Task

__all__ = ["Audited", "audit"]


@frozen(repr=False)
class Audited:
    """What answers that ignore the problem score on a task. Printed, it is the table of `gce audit`."""

    task: Task
    preset: str
    asked: int
    """Problems a tier that were asked for."""
    report: AuditReport

    @property
    def ok(self) -> bool:
        """Whether no prompt-blind baseline is above its limit in solve rate or mean reward; see `is_above`."""
        return not self.report.above_limit

    @property
    def plain(self) -> dict[str, Any]:
        """Plain data; mean rewards where one of the rewards is neither 0 nor 1."""
        found = self.report
        rows = {"blind": found.prompt_blind, "heuristics": found.heuristics, "above_limit": found.above_limit}
        plain: dict[str, Any] = to_plain(rows)
        if not any(score.reward.graded for scores in rows.values() for score in scores):
            for score in (score for scores in plain.values() for score in scores):
                del score["reward"]
        return {"task": self.task.name, "preset": self.preset, **plain}

    def __str__(self) -> str:
        return "\n".join(lines_of(self._parts()))

    def __repr__(self) -> str:
        return f"<audit of {self.task.name}/{self.preset}: {'ok' if self.ok else 'above the limit'}>"

    def _repr_html_(self) -> str:
        return html_of(self._parts())

    def _parts(self) -> list[Part]:
        found = self.report
        counts = count_words(found.problems, self.asked)
        parts: list[Part] = [f"{self.task.name}/{self.preset}: accuracy on test problems, % (95 % interval), {counts}"]
        groups = list(dict.fromkeys(score.group for score in found.prompt_blind))
        tiers = [group for group in groups if " " not in group]
        parts += ["", _table("prompt-blind baselines", found.prompt_blind, groups)]
        if found.heuristics:
            parts += ["", _table("heuristics", found.heuristics, tiers)]
        rewards = _rewards(found, tiers)
        parts += rewards
        # Of baselines with the same accuracy, the one with the highest mean reward.
        by_reward = best_by_group(sorted(found.prompt_blind, key=lambda score: -score.reward.value))
        best = {group: by_reward[group] for group in groups if group in by_reward}
        if not best:
            return parts
        parts += ["", f"best prompt-blind baseline of each group{', by accuracy' * bool(rewards)}:"]
        parts += [f"  {group:<28} {interval_cell(score.share):>20}  {score.policy}" for group, score in best.items()]
        shares = [score.share.share for group, score in best.items() if " " not in group]
        if len(shares) > 1:
            parts.append(f"  {'mean of tiers':<28} {100 * sum(shares) / len(shares):>6.1f}")
        parts += ["", self._meaning(graded=bool(rewards))]
        parts += ["", *_power_lines(self.task, self.preset, found.problems)]
        return [*parts, *_above_limit(self.task, self.preset, found.above_limit)]

    def _meaning(self, *, graded: bool) -> str:
        """What the table means, and what to do next."""
        following = "measure a model (gce evaluate)"
        if not self.ok:
            following = (
                "give the answers named below less credit, or ask questions that they do not fit, and audit again"
            )
        return f"{conclusion({}, graded=graded)} Next: {following}."


def _rewards(found: AuditReport, tiers: Sequence[str]) -> list[Part]:
    """Mean rewards of whole tiers, and the best of prompt-blind baselines; nothing where all rewards are 0 or 1."""
    blind, heuristics = (
        reference_rewards(score for score in scores if score.group == score.tier)
        for scores in (found.prompt_blind, found.heuristics)
    )
    if not is_graded([*blind.values(), *heuristics.values()]):
        return []
    rows: dict[str, Rewards] = {**blind, **({BEST_BLIND: best_of(blind)} if blind else {}), **heuristics}
    return ["", Table(*reward_rows(rows, tiers))]


def _above_limit(task: Task, preset: str, scores: Sequence[PolicyScore]) -> Iterator[str]:
    """A line for each group with solve rates above its limit, then one for each with mean rewards above it."""
    side = "lower" if task.references.assumed else "upper"
    shares: dict[str, list[PolicyScore]] = {}
    rewards: dict[str, list[PolicyScore]] = {}
    for score in sorted(scores, key=lambda score: -score.share.high):
        if bounds_held(task, score)[0] > limit_of(task, preset, score.tier):
            shares.setdefault(score.group, []).append(score)
    for score in sorted(scores, key=lambda score: -score.reward.high):
        if bounds_held(task, score)[1] > limit_of(task, preset, score.tier):
            rewards.setdefault(score.group, []).append(score)
    for group, (first, *others) in shares.items():
        limit, bound = 100 * limit_of(task, preset, first.tier), 100 * bounds_held(task, first)[0]
        said = f"above the limit of {limit:.0f} %: {first.policy} on {group}, {side} bound {bound:.1f} %"
        yield f"{said}{and_others(len(others))}"
    for group, (first, *others) in rewards.items():
        limit, bound = limit_of(task, preset, first.tier), bounds_held(task, first)[1]
        said = f"{first.policy} on {group}, {first.reward.value:.2f} by partial credit, {side} bound {bound:.3f}"
        yield f"mean reward above the limit of {limit:.2f}: {said}{and_others(len(others))}"


def _power_lines(task: Task, preset: str, sizes: Mapping[str, int]) -> Iterator[str]:
    """What so many problems can tell: a sentence for tiers with as many problems and the same limit."""
    alike: dict[tuple[int, float], list[str]] = {}
    for tier, n in sizes.items():
        if n:
            alike.setdefault((n, limit_of(task, preset, tier)), []).append(tier)
    for (n, limit), tiers in alike.items():
        yield (
            f"{', '.join(tiers)}: with n = {n} the 95 % interval of an accuracy is at most "
            f"+-{100 * half_width(n):.1f} points, and {_detectable(n, limit, assumed=task.references.assumed)}"
        )


def _detectable(n: int, limit: float, *, assumed: bool) -> str:
    """What is detected with 80 % power, for the end of a sentence."""
    if limit >= 1.0:
        return f"two accuracies {100 * least_difference(n):.0f} points apart differ significantly with 80 % power"
    found = resolution(n, limit)
    declared = f"the {'default ' if assumed else ''}limit of {100 * limit:.0f} %"
    if assumed:
        if found.fails is None:
            return f"no baseline can be found above {declared}"
        above = f"an accuracy of {100 * found.fails:.0f} % or more"
        return f"a baseline with {above} is found above {declared} with 80 % power"
    if found.most_right < 0:
        return f"no baseline can be shown to be below {declared}: n must be at least {found.needed}"
    return f"a baseline with an accuracy of {100 * found.passes:.1f} % or less passes {declared} with 80 % power"


def _table(title: str, scores: Sequence[PolicyScore], columns: Sequence[str]) -> Table:
    by_policy: dict[str, dict[str, Interval]] = {}
    for score in scores:
        by_policy.setdefault(score.policy, {})[score.group] = score.share
    return Table((title, *columns, "coverage"), tuple(_row(name, row, columns) for name, row in by_policy.items()))


def _row(name: str, shares: Mapping[str, Interval], columns: Sequence[str]) -> tuple[str, ...]:
    cells = (interval_cell(shares[group]) if group in shares else "-" for group in columns)
    return (name, *cells, coverage_cell(coverage(shares.values())))


def audit(
    task: str | Task = "scheduling",
    *,
    preset: str | None = None,
    tiers: str | Sequence[str] = (),
    n: int = 500,
    fit: int = 500,
    runner: str = AUTO,
    progress: bool = True,
    on_tier: Callable[[str], None] | None = None,
) -> Audited:
    """Score answers that ignore the problem, and plain heuristics, on fresh test problems of a task.

    Args:
        task: a task, or its name.
        preset: set of tiers; None takes the task's first.
        tiers: only these; empty for all.
        n: test problems a tier.
        fit: training problems a tier that fixed answers are fitted to.
        runner: where programs are run that answers consist of.
        progress: as in `gce.train`.
        on_tier: told of each tier before it is drawn, in place of that.

    Raises:
        BadInput: a name or a value that cannot be used.
    """
    wanted = (tiers,) if isinstance(tiers, str) else tuple(tiers)
    hold_to({"n": (PROBLEMS, n), "fit": (FITTED, fit), **{f"tiers[{i}]": (NAME, t) for i, t in enumerate(wanted)}})
    say_if_many({"test": n, "training": fit})
    found = the_task(task)
    chosen = find_preset(found, preset or "")
    watcher = watch_of(progress)(0)
    report = baselines.audit(
        found,
        find_evaluator(found, runner),
        chosen,
        find_tiers(found, chosen, wanted),
        problems=n,
        fitted_to=fit,
        on_tier=on_tier or (lambda tier: watcher.say(f"auditing {tier} ...")),
    )
    return Audited(found, chosen, n, report)
