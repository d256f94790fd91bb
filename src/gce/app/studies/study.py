"""Effects of a study's conditions on test accuracy, from differences paired by seed and problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from gce.app.evaluation.scoring import stored_reward, stored_shares
from gce.app.evaluation.stored_runs import iteration_records
from gce.app.studies.conditions import Condition
from gce.app.tables.cells import coverage_cell, difference_cell, p_cell, share_cell
from gce.domain.diagnosis import share_mastered
from gce.domain.outcomes import coverage
from gce.domain.paired import hierarchical_bootstrap
from gce.domain.problems import ProblemId
from gce.domain.randomness import generator
from gce.domain.statistics import Estimate, holm, sign_flip_test, stratified_bootstrap
from gce.ports.runs import Runs

__all__ = [
    "INTERVALS_IN_WORDS",
    "Effect",
    "Finished",
    "effect_rows",
    "effects",
    "finished",
    "graded",
    "mastered_over_time",
    "moved_blocks",
    "unclear",
]

INTERVALS_IN_WORDS = (
    "differences have 95 % bootstrap intervals over test problems, for these seeds only; those "
    'in the column "with other seeds" also draw the seeds anew (hierarchical bootstrap), and need more than a few seeds'
)


@frozen
class Finished:
    """A finished run."""

    condition: str
    seed: int
    right: Mapping[tuple[str, str], float]
    """1 or 0 by (tier, digest of the test problem), for all answers that did not fail."""
    summary: Mapping[str, Any]
    rewards: Mapping[tuple[str, str], float] = field(factory=dict)
    """The rewards of the same answers, in [0, 1]."""
    mastered: Sequence[tuple[int, float]] = ()
    """Share of tiers mastered after each iteration; see `share_mastered`."""


def finished(runs: Runs, study: str, conditions: Mapping[str, Condition], *, verify: bool = True) -> list[Finished]:
    """Return all finished runs of a study, by condition and seed."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for name, ended in runs.find(study).items():
        condition, _, seed = name.removeprefix(f"{study}/").partition("/seed-")
        if ended and seed:
            found[condition][int(seed)] = name
    read = (
        _finished(runs, name, condition, seed, verify)
        for condition in conditions
        for seed, name in sorted(found[condition].items())
    )
    return [each for each in read if each is not None]


def _finished(runs: Runs, name: str, condition: str, seed: int, verify: bool) -> Finished | None:
    with runs.read(name, verify=verify) as run:
        summary, answers, records = run.summary(), run.answers("test-after"), iteration_records(run)
    if summary is None or not answers:
        return None
    right, rewards = {}, {}
    for each in answers:
        if (reward := stored_reward(each)) is not None:
            problem = each["tier"], _identity(each)
            right[problem], rewards[problem] = float(each["right"]), reward
    return Finished(condition, seed, right, summary, rewards, share_mastered(records))


def graded(runs: Sequence[Finished]) -> list[Finished]:
    """Return the runs with rewards in place of right and wrong; empty where no reward is partial."""
    partial = any(reward not in (0.0, 1.0) for run in runs for reward in run.rewards.values())
    return [evolve(run, right=run.rewards) for run in runs] if partial else []


def _identity(answer: Mapping[str, Any]) -> str:
    """Return the key by which test problems are paired: the digest.

    Answers of earlier versions have no digest and pair only with each other, because their indices now name other
    problems.
    """
    return str(answer.get("digest") or ProblemId.parse(answer["problem"]).index)


@frozen
class Effect:
    """A condition's test accuracy, and its difference from the condition it is compared with."""

    condition: str
    seeds: tuple[int, ...]
    mean: Estimate | None
    """Mean of tiers over seeds; the interval is over problems, for these seeds. None if the seeds have no judged
    problem in common."""
    against: str
    shared: tuple[int, ...]
    """Seeds that both conditions have."""
    difference: Estimate | None
    """Difference paired by seed and problem, with an interval over problems, for these seeds only; None if there is
    nothing to compare with."""
    by_seed: tuple[float, ...]
    """Difference for each shared seed."""
    p: float | None
    adjusted: float | None = None
    """Holm-adjusted p value over all differences of the study, pending ones included."""
    across: Estimate | None = None
    """The same difference with an interval over seeds and problems, which also speaks about other seeds; see
    `hierarchical_bootstrap`. None for fewer than two shared seeds."""

    @property
    def clear(self) -> bool:
        """True if adjusted p is below 0.05 (statistically significant) and every seed has the same sign."""
        same = all(value > 0 for value in self.by_seed) or all(value < 0 for value in self.by_seed)
        return self.adjusted is not None and self.adjusted < 0.05 and same


def effects(runs: Sequence[Finished], conditions: Mapping[str, Condition]) -> list[Effect]:
    """Return one effect for each condition that has a run.

    All seeds share the same test problems, so a problem's differences are averaged over seeds before problems are
    resampled. Intervals and p values generalise to other problems, not to other seeds; `across` has the interval that
    does, and `by_seed` shows the variation between seeds.
    """
    by_condition: dict[str, dict[int, Finished]] = defaultdict(dict)
    for run in runs:
        by_condition[run.condition][run.seed] = run
    found = [
        _effect(name, by_condition[name], condition.against, by_condition.get(condition.against, {}))
        for name, condition in conditions.items()
        if by_condition.get(name)
    ]
    p_values = {effect.condition: effect.p for effect in found if effect.p is not None}
    # Pending comparisons count too, so that an interim result stays valid once they are added.
    compared = [name for name, condition in conditions.items() if condition.against]
    adjusted = dict(zip(compared, holm([p_values.get(name, 1.0) for name in compared]), strict=True))
    return [evolve(effect, adjusted=adjusted[effect.condition]) if effect.p is not None else effect for effect in found]


def unclear(found: Sequence[Effect]) -> list[str]:
    """Return the conditions whose difference is not statistically significant."""
    return [effect.condition for effect in found if effect.difference is not None and not effect.clear]


def effect_rows(found: Sequence[Effect], runs: Sequence[Finished]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and rows of the table of effects, one row per condition."""
    head = (
        "condition",
        "mean of tiers, %",
        "difference, points",
        "with other seeds",
        "by seed",
        "p (Holm)",
        "updates",
        "right rollouts",
        "coverage",
    )
    rows: list[tuple[str, ...]] = []
    for effect in found:
        own = [each.summary for each in runs if each.condition == effect.condition]
        change = effect.difference
        rows.append(
            (
                effect.condition,
                "-" if effect.mean is None else share_cell(effect.mean.value, effect.mean.low, effect.mean.high),
                "-" if change is None else f"{difference_cell(change)} vs {effect.against}",
                "-" if effect.across is None else f"{100 * effect.across.low:+.1f} to {100 * effect.across.high:+.1f}",
                " ".join(f"{100 * value:+.1f}" for value in effect.by_seed) or "-",
                p_cell(effect.adjusted),
                ", ".join(str(summary["updates"]) for summary in own),
                ", ".join(str(summary["correct_traces"]) for summary in own),
                coverage_cell(coverage(share for summary in own for share in stored_shares(summary["after"]).values())),
            )
        )
    return head, rows


def mastered_over_time(runs: Sequence[Finished]) -> dict[str, list[tuple[float, float]]]:
    """Return by condition the share of mastered tiers after each iteration, mean over the seeds that reached it."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for iteration, share in run.mastered:
            found[run.condition][iteration].append(share)
    return {
        condition: [(float(number), sum(shares) / len(shares)) for number, shares in sorted(each.items())]
        for condition, each in found.items()
    }


def moved_blocks(runs: Sequence[Finished], condition: str) -> str:
    """Return the blocks that a condition's runs changed, run by run."""
    found = []
    for each in runs:
        if each.condition == condition:
            blocks = {int(part) for name in each.summary.get("moved", ()) for part in name.split(".") if part.isdigit()}
            found.append(" ".join(map(str, sorted(blocks))) or "none")
    return "; ".join(found)


def _effect(name: str, own: Mapping[int, Finished], against: str, other: Mapping[int, Finished]) -> Effect:
    seeds = tuple(sorted(own))
    every = _strata([run.right for run in own.values()])
    mean = stratified_bootstrap(every, generator(0, "bootstrap", name)) if every else None
    changes = {
        seed: {
            key: right - other[seed].right[key] for key, right in own[seed].right.items() if key in other[seed].right
        }
        for seed in seeds
        if seed in other
    }
    changes = {seed: change for seed, change in changes.items() if change}
    strata = _strata(list(changes.values())) if changes else []
    if not strata:
        return Effect(name, seeds, mean, against, (), None, (), None)
    by_seed = tuple(_mean_of_tiers(_strata([change])) for change in changes.values())
    difference = stratified_bootstrap(strata, generator(0, "bootstrap", name, against))
    _, p = sign_flip_test(strata, generator(0, "signs", name, against))
    over = generator(0, "hierarchical", name, against)
    across = hierarchical_bootstrap(_by_tier(list(changes.values())), over) if len(changes) > 1 else None
    return Effect(name, seeds, mean, against, tuple(changes), difference, by_seed, p, across=across)


def _strata(values: Sequence[Mapping[tuple[str, str], float]]) -> list[list[float]]:
    """Return by tier the mean over runs, for each problem that all runs have."""
    return [[sum(each) / len(values) for each in zip(*runs, strict=True)] for runs in _by_tier(values)]


def _by_tier(values: Sequence[Mapping[tuple[str, str], float]]) -> list[list[list[float]]]:
    """Return by tier and run the values of the problems that all runs have, in the same order."""
    tiers: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in values[0]:
        if all(key in each for each in values):
            tiers[key[0]].append(key)
    return [[[each[key] for key in keys] for each in values] for keys in tiers.values()]


def _mean_of_tiers(strata: Sequence[Sequence[float]]) -> float:
    return sum(sum(values) / len(values) for values in strata) / len(strata)
