"""`gce audit`: what answers score that ignore the problem. A tier that they pass measures nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from gce.app.evaluation.baselines import AuditReport, audit, check_references
from gce.app.evaluation.scoring import COVERAGE_HELP, MIN_COVERAGE
from gce.app.options import FITTED, NAME, NAMES, PROBLEMS, SHARE
from gce.app.tables import count_words, coverage_cell, interval_cell, table
from gce.app.terminal import note, put, put_json, put_result
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import TASK_HELP, find_preset, find_task, find_tiers, say_if_many
from gce.domain.baselines import PolicyScore, best_by_group, limit_of, resolution
from gce.domain.measurements import Interval
from gce.domain.outcomes import coverage
from gce.domain.serialization import to_plain
from gce.domain.statistics import wilson
from gce.domain.tasks import Task

__all__ = ["add_arguments", "run"]

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
    """Run the command: 0 where every prompt-blind baseline stays below its limit, or no limit is declared."""
    say_if_many({"--n": arguments.n, "--fit": arguments.fit})
    task = find_task(arguments.task)
    preset = find_preset(task, arguments.preset or "")
    found = audit(
        task,
        find_evaluator(task, arguments.runner),
        preset,
        find_tiers(task, preset, arguments.tiers),
        problems=arguments.n,
        fitted_to=arguments.fit,
        on_tier=lambda tier: note(f"auditing {tier} ..."),
    )
    if arguments.json:
        rows = {"blind": found.prompt_blind, "heuristics": found.heuristics, "above_limit": found.above_limit}
        put_json({"task": task.name, "preset": preset, **to_plain(rows)}, indent=1)
    else:
        _print(task, preset, arguments.n, found)
    check_references(found.tier_shares, arguments.min_coverage)
    return 1 if found.above_limit else 0


def _print(task: Task, preset: str, asked: int, found: AuditReport) -> None:
    groups = list(dict.fromkeys(score.group for score in found.prompt_blind))
    put(f"{task.name}/{preset}: share right on test problems, % (95 % interval), {count_words(found.problems, asked)}")
    for title, scores in (("blind answers", found.prompt_blind), ("heuristics", found.heuristics)):
        columns = groups if title == "blind answers" else [group for group in groups if " " not in group]
        by_policy: dict[str, dict[str, Interval]] = {}
        for score in scores:
            by_policy.setdefault(score.policy, {})[score.group] = score.share
        rows = [
            [
                name,
                *(interval_cell(shares[group]) if group in shares else "-" for group in columns),
                coverage_cell(coverage(shares.values())),
            ]
            for name, shares in by_policy.items()
        ]
        put_result("", *table([title, *columns, "coverage"], rows).split("\n"))
    best = best_by_group(found.prompt_blind)
    if not best:
        return
    put("", "best blind answer of each group:")
    for group, score in best.items():
        put(f"  {group:<28} {interval_cell(score.share):>20}  {score.policy}")
    tiers = [score for group, score in best.items() if " " not in group]
    put(f"  {'mean of tiers':<28} {100 * sum(score.share.share for score in tiers) / len(tiers):>6.1f}")
    put("", *_power_lines(task, preset, found.problems))
    above: dict[str, list[PolicyScore]] = {}
    for score in sorted(found.above_limit, key=lambda score: -score.share.high):
        above.setdefault(score.group, []).append(score)
    for group, (first, *others) in above.items():
        put(
            f"above the limit of {100 * limit_of(task, preset, first.tier):.0f} %: {first.policy} on {group}, upper "
            f"bound {100 * first.share.high:.1f} %" + (f"; and {len(others)} others" if others else "")
        )


def _power_lines(task: Task, preset: str, sizes: Mapping[str, int]) -> Iterator[str]:
    """What so many problems can tell, beside the limits that the preset declares: a line for tiers that are alike."""
    alike: dict[tuple[int, float], list[str]] = {}
    for tier, n in sizes.items():
        if n:
            alike.setdefault((n, limit_of(task, preset, tier)), []).append(tier)
    for (n, limit), tiers in alike.items():
        names, half = ", ".join(tiers), 100 * wilson(n // 2, n).high - 50
        if limit >= 1.0:
            yield f"{names}: no limit is declared; a share on {n} problems is known to {half:.1f} points at worst"
            continue
        found = resolution(n, limit)
        if found.most_right < 0:
            bound = 100 * wilson(0, n).high
            yield (
                f"{names}: {n} problems cannot tell: even none right has an upper bound of {bound:.1f} %, above the "
                f"limit of {100 * limit:.0f} %: take --n {found.needed} at least"
            )
        else:
            yield (
                f"{names}: a blind answer is below the limit of {100 * limit:.0f} % with at most {found.most_right} of "
                f"{n} right; one that truly scores {100 * found.passes:.1f} % passes four audits of five"
            )
