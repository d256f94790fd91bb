"""`gce audit`: what answers score that ignore the problem. A tier that they pass measures nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gce.app.evaluation import COVERAGE_HELP, MIN_COVERAGE, OPTION, check_coverage
from gce.app.options import FITTED, NAME, NAMES, PROBLEMS, SHARE
from gce.app.resolve import TASK_HELP, find_preset, find_task, find_tiers, say_if_many
from gce.app.runners import add_runner
from gce.app.terminal import count_words, coverage_cell, interval_cell, put, put_json, table
from gce.domain.outcomes import coverage
from gce.domain.randomness import key
from gce.domain.serialization import to_plain
from gce.domain.shortcuts import PolicyScore, best_by_group, limit_of, score_policies
from gce.domain.statistics import Estimate, difference
from gce.domain.tasks import Task, draw_problems
from gce.domain.types import Interval, Problem

__all__ = ["add_arguments", "best_of", "check_references", "reference_rows", "run", "shortcut_margins"]

DESCRIPTION = """\
Score answers that ignore the problem, or one family of its constraints, on fresh test problems of every tier, with
95 % Wilson intervals; and plain heuristics as reference rows. Exits with status 1 where the upper bound of a blind
answer is above the limit that the task declares for the tier, and with status 3 where coverage is too low to tell.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce audit`."""
    parser.description = DESCRIPTION
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="only these (default: all)")
    parser.add_argument("--n", type=PROBLEMS, default=500, help="test problems a tier (default 500)")
    parser.add_argument(
        "--fit", type=FITTED, default=500, help="training problems that fixed answers are fitted to (default 500)"
    )
    parser.add_argument(
        "--min-coverage", type=SHARE, default=MIN_COVERAGE, help=f"{COVERAGE_HELP} (default {MIN_COVERAGE})"
    )
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print every row as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 where every blind answer stays below its limit, or no limit is declared."""
    say_if_many({"--n": arguments.n, "--fit": arguments.fit})
    task = find_task(arguments.task, arguments.runner)
    preset = find_preset(task, arguments.preset or "")
    blind: list[PolicyScore] = []
    heuristics: list[PolicyScore] = []
    problems_by_tier: dict[str, int] = {}
    for tier in find_tiers(task, preset, arguments.tiers):
        put(f"auditing {tier} ...", error=True)
        problems = draw_problems(task, preset, tier, "test", arguments.n)
        problems_by_tier[tier] = len(problems)
        training = draw_problems(task, preset, tier, "train", arguments.fit, seed=key("audit"))
        blind += score_policies(task, task.blind(training), problems, subtypes=_has_subtypes(task, problems))
        heuristics += score_policies(task, task.heuristics(training), problems)
    passed = [score for score in blind if score.share.n and score.share.high > limit_of(task, preset, score.tier)]
    if arguments.json:
        rows = {"blind": to_plain(blind), "heuristics": to_plain(heuristics), "above_limit": to_plain(passed)}
        put_json({"task": task.name, "preset": preset, **rows}, indent=1)
    else:
        _print(task, preset, problems_by_tier, arguments.n, blind, heuristics, passed)
    shares = [score.share for score in (*blind, *heuristics) if score.group == score.tier]
    check_references(shares, arguments.min_coverage)
    return 1 if passed else 0


def _has_subtypes(task: Task, problems: Sequence[Problem]) -> bool:
    return len({task.group(problem.instance) for problem in problems}) > 1


def _print(
    task: Task,
    preset: str,
    sizes: Mapping[str, int],
    asked: int,
    blind: Sequence[PolicyScore],
    heuristics: Sequence[PolicyScore],
    passed: Sequence[PolicyScore],
) -> None:
    groups = list(dict.fromkeys(score.group for score in blind))
    put(f"{task.name}/{preset}: share right on test problems, % (95 % interval), {count_words(sizes, asked)}")
    for title, scores in (("blind answers", blind), ("heuristics", heuristics)):
        columns = groups if title == "blind answers" else [group for group in groups if " " not in group]
        by_policy: dict[str, dict[str, Interval]] = {}
        for score in scores:
            by_policy.setdefault(score.policy, {})[score.group] = score.share
        rows = [
            [
                name,
                *(interval_cell(found[group]) if group in found else "-" for group in columns),
                coverage_cell(coverage(found.values())),
            ]
            for name, found in by_policy.items()
        ]
        put("", *table([title, *columns, "coverage"], rows).split("\n"))
    best = best_by_group(blind)
    if not best:
        return
    put("", "best blind answer of each group:")
    for group, score in best.items():
        put(f"  {group:<28} {interval_cell(score.share):>20}  {score.policy}")
    tiers = [score for group, score in best.items() if " " not in group]
    put(f"  {'mean of tiers':<28} {100 * sum(score.share.share for score in tiers) / len(tiers):>6.1f}")
    for score in passed:
        put(
            f"above the limit of {100 * limit_of(task, preset, score.tier):.0f} %: {score.policy} on {score.group}, "
            f"upper bound {100 * score.share.high:.1f} %"
        )


def reference_rows(
    task: Task, preset: str, problems: Sequence[Problem], *, fitted_to: int
) -> tuple[dict[str, dict[str, Interval]], dict[str, dict[str, Interval]]]:
    """Shares of blind answers and heuristics by tier on given problems, fixed answers fitted to training problems."""
    tiers = dict.fromkeys(problem.tier for problem in problems)
    training: list[Problem] = []
    for tier in tiers:
        training += draw_problems(task, preset, tier, "train", fitted_to, seed=key("audit"))

    def shares(policies: Any) -> dict[str, dict[str, Interval]]:
        rows: dict[str, dict[str, Interval]] = {}
        for score in score_policies(task, policies, problems):
            rows.setdefault(score.policy, {})[score.tier] = score.share
        return rows

    return shares(task.blind(training)), shares(task.heuristics(training))


def check_references(shares: Iterable[Interval], least: float) -> None:
    """LowCoverage where too many answers of one policy to one tier, the worst one, could not be judged."""
    worst = min(shares, key=lambda share: share.coverage, default=None)
    if worst is not None:
        check_coverage("reference answers", worst.failed, worst.n + worst.failed, least, or_else=OPTION)


def shortcut_margins(after: Mapping[str, Interval], blind: Mapping[str, Interval]) -> dict[str, Estimate]:
    """By tier, how far accuracy lies above the best blind answer on the same problems."""
    return {
        tier: difference(found, blind[tier])
        for tier, found in after.items()
        if tier in blind and found.n and blind[tier].n
    }


def best_of(rows: Mapping[str, Mapping[str, Interval]]) -> dict[str, Interval]:
    """The largest share in each tier over all rows."""
    best: dict[str, Interval] = {}
    for found in rows.values():
        for tier, share in found.items():
            if share.n and (tier not in best or share.share > best[tier].share):
                best[tier] = share
    return best
