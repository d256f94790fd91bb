"""What is known of a task before any model is asked: its tiers and sizes, prompt-blind baselines, verifier batteries.

Tiers, token budgets and limits are the task's own. What has to be measured (how many problems differ, what a
prompt-blind baseline scores, whether `gce check` found something) is measured by the code of `gce audit` and
`gce check`. For the shipped tasks it is recorded in `gce/data/task_facts.json`, the output of
`gce tasks TASK --audit 200 --check 2000 --json`, of programs `--audit 100` alone; a test measures some of it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources

from attrs import evolve, frozen

from gce.app.evaluation.baselines import audit
from gce.app.options import PROBLEMS
from gce.domain.baselines import best_by_group
from gce.domain.measurements import Interval
from gce.domain.serialization import from_plain
from gce.domain.tasks import TASKS, Listed, ProblemSource, Task, draw_problems
from gce.ports.evaluator import Evaluator
from gce.testing.verifiers.check import TaskReport

__all__ = [
    "DRAWS_COMPARED",
    "Battery",
    "Facts",
    "TierFacts",
    "after_audit",
    "after_check",
    "known_facts",
    "repeated_draws",
]

DRAWS_COMPARED = 200
"""Training draws of which it is counted how many repeat another one."""
MOST_COUNTED = PROBLEMS.high
"""Test problems of a list that are counted."""


@frozen
class TierFacts:
    """One tier of a preset."""

    tier: str
    held_out: bool
    """Whether it is never sampled for training."""
    ladder: bool
    """Whether only a run with a ladder samples it; it is never evaluated."""
    max_tokens: int
    """Maximum tokens of a response by default."""
    limit: float | None
    """The solve rate that no prompt-blind baseline may exceed, as the task declares it; None where it does not."""
    test_problems: int | None = None
    """Distinct test problems that were found; None where nobody counted."""
    complete: bool = False
    """Whether there are no others."""
    baseline: str = ""
    """The best prompt-blind baseline; empty where it was not measured, or the task has none."""
    baseline_rate: Interval | None = None
    """What it solves of these test problems, with its 95 % interval."""


@frozen
class Battery:
    """What attacking the verifier found (`gce check`)."""

    responses: int
    """Generated and judged responses that the exploit rate is of."""
    exploit_rate_high: float
    """The upper bound of that rate (95 %)."""
    findings: int
    verdicts: int
    """All that were given, over all checks."""


@frozen
class Facts:
    """What is known of one preset of a task."""

    task: str
    preset: str
    tiers: tuple[TierFacts, ...]
    battery: Battery | None = None
    """None where none is known to have run."""


def known_facts(task: Task, preset: str) -> Facts:
    """What the task says of itself, what can be counted at once, and what is recorded of it."""
    limits = task.references.limits if preset == next(iter(task.presets)) else {}
    facts = Facts(
        task.name,
        preset,
        tuple(
            TierFacts(
                tier.name,
                tier.held_out,
                tier.curriculum_level,
                tier.max_tokens or task.max_tokens,
                None if tier.curriculum_level else limits.get(tier.name, limits.get("*")),
            )
            for tier in task.presets[preset]
        ),
    )
    if isinstance(task.draw, Listed):
        counted = {
            tier.name: len(draw_problems(task, preset, tier.name, "test", MOST_COUNTED)) for tier in task.tiers(preset)
        }
        facts = _counted(facts, counted, MOST_COUNTED)
    measured = _recorded().get((task.name, preset)) if TASKS.get(task.name) is task else None
    return facts if measured is None else _with_measured(facts, measured)


def _with_measured(facts: Facts, measured: Facts) -> Facts:
    by_tier = {tier.tier: tier for tier in measured.tiers}
    tiers = []
    for tier in facts.tiers:
        found = by_tier.get(tier.tier, tier)
        tiers.append(
            evolve(
                tier,
                test_problems=found.test_problems,
                complete=found.complete,
                baseline=found.baseline,
                baseline_rate=found.baseline_rate,
            )
        )
    return evolve(facts, tiers=tuple(tiers), battery=measured.battery)


def _counted(facts: Facts, counts: Mapping[str, int], asked: int) -> Facts:
    """With how many test problems of each tier were found when so many were asked for."""
    tiers = [
        evolve(tier, test_problems=counts[tier.tier], complete=counts[tier.tier] < asked)
        if tier.tier in counts
        else tier
        for tier in facts.tiers
    ]
    return evolve(facts, tiers=tuple(tiers))


def after_audit(
    facts: Facts,
    task: Task,
    evaluator: Evaluator,
    problems: int,
    *,
    tiers: Sequence[str] = (),
    on_tier: Callable[[str], None] = lambda _tier: None,
) -> Facts:
    """The facts with prompt-blind baselines measured on `problems` test problems a tier, and problems counted.

    `tiers` are those to measure, all of them where none is named.
    """
    tiers = tiers or [tier.name for tier in task.tiers(facts.preset)]
    found = audit(task, evaluator, facts.preset, tiers, problems=problems, fitted_to=problems, on_tier=on_tier)
    best = best_by_group([score for score in found.prompt_blind if score.group == score.tier])
    facts = _counted(facts, found.problems, problems)
    return evolve(
        facts,
        tiers=tuple(
            evolve(tier, baseline=best[tier.tier].policy, baseline_rate=best[tier.tier].share)
            if tier.tier in best
            else tier
            for tier in facts.tiers
        ),
    )


def repeated_draws(task: Task, preset: str, tier: str, *, draws: int = DRAWS_COMPARED) -> int:
    """How many of a tier's first training draws have the digest of an earlier one."""
    source = ProblemSource(task)
    return draws - len({source.draw(preset, tier, "train", index).digest for index in range(draws)})


def after_check(facts: Facts, report: TaskReport) -> Facts:
    """The facts with what attacking the verifier found."""
    battery = Battery(report.exploits.n, report.exploits.high, sum(report.found.values()), report.verdicts)
    return evolve(facts, battery=battery)


@cache
def _recorded() -> Mapping[tuple[str, str], Facts]:
    """What was measured of the shipped tasks, by task and preset."""
    text = (resources.files("gce") / "data" / "task_facts.json").read_text(encoding="utf-8")
    found: Sequence[Facts] = [from_plain(Facts, each) for each in json.loads(text)["tasks"]]
    return {(facts.task, facts.preset): facts for facts in found}
