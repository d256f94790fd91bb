"""Studies: runs that differ in one setting, over several seeds, and what the difference does to test accuracy.

A study is a directory with a run directory for each condition and seed. What is there is never run again, so a study
goes on across sittings, and several processes may work on one. Knows what is compared with what; it knows neither
models nor how a run is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from gce.adapters.run_reader import RunReader
from gce.app.config import RunConfig
from gce.app.evaluation import stored_outcome, stored_shares
from gce.app.terminal import coverage_cell, difference_cell, p_cell, share_cell
from gce.domain.outcomes import coverage
from gce.domain.randomness import generator
from gce.domain.serialization import to_plain
from gce.domain.statistics import Estimate, holm, sign_flip_p, stratified_bootstrap
from gce.domain.tasks import TASKS
from gce.errors import BadInput

__all__ = [
    "STUDIES",
    "Condition",
    "Effect",
    "Finished",
    "check_common",
    "check_stored",
    "effect_rows",
    "effects",
    "finished",
    "moved_blocks",
    "settings_of",
    "unclear",
]


@frozen
class Condition:
    """One way to run."""

    what: str
    settings: Mapping[str, Any] = field(factory=dict)
    """In place of the study's own."""
    against: str = ""
    """The condition that it is compared with; empty for none."""
    variant: str = ""
    """Takes the task of the study's name with this suffix."""


_HALF = {"layers": 2}
_ENOUGH = {"reuse": 4.0}
"""Passes over few traces, so that every algorithm can take as many updates."""

STUDIES: Mapping[str, Mapping[str, Condition]] = {
    "ablations": {
        "full": Condition("all as in gce train"),
        "accept-all": Condition("every rollout counts as right", {"admission": "all"}, "full"),
        "shuffled": Condition("verdicts change places within each tier", {"admission": "shuffled"}, "full"),
        "no-reasoning": Condition("the answer line alone is asked for", {}, "full", variant="answer-only"),
        "no-accumulation": Condition("only the iteration's own traces are kept", {"accumulate": False}, "full"),
        "no-deduplication": Condition("equal traces are kept", {"deduplicate": False}, "full"),
        "as-it-comes": Condition("every trace weighs the same, whatever its tier", {"weighting": "equal"}, "full"),
        "uniform-sampling": Condition("as many problems of each tier", {"sampling": "uniform"}, "full"),
        "probed-layers": Condition("two blocks, chosen by probing", {**_HALF, "targeting": "probe"}, "full"),
        "last-layers": Condition("the last two blocks", {**_HALF, "targeting": "last"}, "probed-layers"),
        "random-layers": Condition("two blocks drawn by lot", {**_HALF, "targeting": "random"}, "probed-layers"),
    },
    "algorithms": {
        "raft": Condition("right traces of all iterations", {**_ENOUGH}),
        "raft++": Condition(
            "right traces of this iteration, all of them, clipped ratios", {**_ENOUGH, "algorithm": "raft++"}, "raft"
        ),
        "grpo": Condition("group-relative weights, clipped ratios", {**_ENOUGH, "algorithm": "grpo"}, "raft"),
        "reinforce-rej": Condition(
            "1 and -1 where a problem is undecided, clipped ratios", {**_ENOUGH, "algorithm": "reinforce-rej"}, "raft"
        ),
        "weighted": Condition(
            "raft, and in each batch as many wrong ones at -0.1",
            {**_ENOUGH, "algorithm": "weighted", "negative": 0.1},
            "raft",
        ),
    },
}
"""By name; `gce ablate --study` runs one."""


def settings_of(condition: Condition, common: Mapping[str, Any], seed: int) -> dict[str, Any] | None:
    """The settings of one run; None where the task has no such variant."""
    settings = {**common, **condition.settings, "seed": seed}
    if condition.variant:
        settings["task"] = f"{common.get('task', 'scheduling')}-{condition.variant}"
        if settings["task"] not in TASKS:
            return None
    return settings


FREE = frozenset({"test", "dev", "dev_every", "threads", "device", "min_coverage"})
"""Settings in which runs of one study may differ: none changes what is learned."""


def check_common(common: Mapping[str, Any], conditions: Mapping[str, Condition]) -> None:
    """Settings for all runs must not be those that conditions differ in.

    Raises:
        BadInput: one is.
    """
    varied = {name for condition in conditions.values() for name in condition.settings}
    for name in sorted(varied & set(common)):
        flag = "--" + name.replace("_", "-")
        raise BadInput(f"the study's conditions differ in {name}: leave out {flag}")
    if common.get("test", 2) < 2:
        raise BadInput(f"a study needs --test from 2, got {common['test']}")


def check_stored(stored: Mapping[str, Any], wanted: Mapping[str, Any], where: Path) -> None:
    """A run that is there must be the one that is wanted. One made before a setting existed has its default.

    Raises:
        BadInput: it was made with other settings.
    """
    made = {**to_plain(RunConfig()), **stored}
    for name, value in wanted.items():
        if name not in FREE and made[name] != value:
            raise BadInput(
                f"{where} was made with {name} {made[name]!r}, expected {value!r}: give another --dir, or the "
                "settings that the study was begun with"
            )


@frozen
class Finished:
    """A run that is done."""

    condition: str
    seed: int
    right: Mapping[tuple[str, str], float]
    """1 or 0 by (tier, digest of the test problem), for all that did not fail."""
    summary: Mapping[str, Any]


def finished(directory: Path, conditions: Mapping[str, Condition], *, verify: bool = True) -> list[Finished]:
    """All runs of a study that are done, by condition and seed."""
    return [each for name in conditions for each in sorted(_runs(directory, name, verify), key=lambda run: run.seed)]


def _runs(directory: Path, condition: str, verify: bool) -> Iterator[Finished]:
    for place in directory.glob(f"{condition}/seed-*"):
        if not (place / "summary.json").is_file():
            continue
        with RunReader(place, verify=verify) as reader:
            summary, answers = reader.summary(), reader.answers("test-after")
        if summary is not None and answers:
            judged = [each for each in answers if stored_outcome(each) != "failed"]
            right = {(each["tier"], _identity(each)): float(each["right"]) for each in judged}
            yield Finished(condition, int(place.name.removeprefix("seed-")), right, summary)


def _identity(answer: Mapping[str, Any]) -> str:
    """What a test problem is paired by: its digest.

    Answers of earlier versions have none, and pair with their like alone: their numbers name other problems now.
    """
    return str(answer.get("digest") or answer["problem"].rpartition("/")[2])


@frozen
class Effect:
    """A condition's test accuracy, and how it differs from the one it is compared with."""

    condition: str
    seeds: tuple[int, ...]
    mean: Estimate | None
    """Mean of tiers over seeds; the interval is over problems, for these seeds. None where the seeds have no problem in
    common that was judged."""
    against: str
    shared: tuple[int, ...]
    """Seeds that both have."""
    difference: Estimate | None
    """Paired by seed and problem; None where there is nothing to compare with."""
    by_seed: tuple[float, ...]
    """The difference for each of them."""
    p: float | None
    adjusted: float | None = None
    """By Holm over all differences of the study, those still to come included."""

    @property
    def clear(self) -> bool:
        """Whether it is told from nothing: adjusted p below 0.05, and every seed on the same side."""
        same = all(value > 0 for value in self.by_seed) or all(value < 0 for value in self.by_seed)
        return self.adjusted is not None and self.adjusted < 0.05 and same


def effects(runs: Sequence[Finished], conditions: Mapping[str, Condition]) -> list[Effect]:
    """One for each condition that has a run.

    The same test problems serve all seeds, so a problem's differences are averaged over seeds before problems are drawn
    anew: intervals and p speak of other problems, not of other seeds. How far seeds lie apart is in `by_seed`.
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
    # Those still to come count too: what is told from nothing midway stays so.
    compared = [name for name, condition in conditions.items() if condition.against]
    adjusted = dict(zip(compared, holm([p_values.get(name, 1.0) for name in compared]), strict=True))
    return [evolve(effect, adjusted=adjusted[effect.condition]) if effect.p is not None else effect for effect in found]


def unclear(found: Sequence[Effect]) -> list[str]:
    """Conditions whose difference is not told from nothing."""
    return [effect.condition for effect in found if effect.difference is not None and not effect.clear]


def effect_rows(found: Sequence[Effect], runs: Sequence[Finished]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows of the table of effects, a row a condition."""
    head = (
        "condition",
        "mean of tiers, %",
        "difference, points",
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
                " ".join(f"{100 * value:+.1f}" for value in effect.by_seed) or "-",
                p_cell(effect.adjusted),
                ", ".join(str(summary["updates"]) for summary in own),
                ", ".join(str(summary["correct_traces"]) for summary in own),
                coverage_cell(coverage(share for summary in own for share in stored_shares(summary["after"]).values())),
            )
        )
    return head, rows


def moved_blocks(runs: Sequence[Finished], condition: str) -> str:
    """Which blocks of the model a condition's runs moved, run by run."""
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
    p = sign_flip_p(strata, generator(0, "signs", name, against))
    return Effect(name, seeds, mean, against, tuple(changes), difference, by_seed, p)


def _strata(values: Sequence[Mapping[tuple[str, str], float]]) -> list[list[float]]:
    """By tier, for each problem that all have, the mean over them."""
    shared = [key for key in values[0] if all(key in each for each in values)]
    strata: dict[str, list[float]] = defaultdict(list)
    for tier, number in shared:
        strata[tier].append(sum(each[tier, number] for each in values) / len(values))
    return list(strata.values())


def _mean_of_tiers(strata: Sequence[Sequence[float]]) -> float:
    return sum(sum(values) / len(values) for values in strata) / len(strata)
