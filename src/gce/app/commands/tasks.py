"""`gce tasks`: which tasks there are, how large they are, and what is known of their verifiers."""

from __future__ import annotations

import argparse
import textwrap

import gce
from gce.app.evaluation.checking import check
from gce.app.evaluation.task_facts import (
    DRAWS_COMPARED,
    Facts,
    TierFacts,
    after_audit,
    after_check,
    known_facts,
    repeated_draws,
)
from gce.app.options import NAMES, PROBLEMS, Count
from gce.app.tables.cells import interval_cell
from gce.app.tables.layout import table
from gce.app.terminal import put, put_json
from gce.app.wiring.environments import is_environment
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import find_task, say_if_many
from gce.domain.evaluators.judges import JUDGE
from gce.domain.evaluators.scores import VERIFIER, scores_of
from gce.domain.serialization import to_plain
from gce.domain.tasks import TASKS, Listed, Task
from gce.domain.text import counted

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
List the tasks: presets, tiers, test problems, maximum tokens of a response, the best prompt-blind baseline (an answer
that ignores the problem: what guessing scores) and whether a verifier battery ran (gce check). With names of tasks,
print one row per tier.

Measurements of the shipped tasks are recorded with them. --audit and --check measure now, also for your own task. A
dash means not measured. 500+ test problems: 500 were drawn, and all of them differ.
"""
EXAMPLES = """\
examples:
  gce tasks                                   the shipped tasks, one row per preset
  gce tasks scheduling                        its presets, one row per tier
  gce tasks my_task:TASK --audit 100          your own, its prompt-blind baselines measured on 100 problems per tier
  gce tasks my_task:TASK --check 2000         your own, its verifier attacked with 2,000 responses
"""
RESPONSES = Count(1, 10_000_000)
MOST_OF_A_NAME = 28
"""Characters of a baseline's name, so that a row fits 80 columns."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce tasks`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "tasks",
        type=NAMES,
        nargs="?",
        default=(),
        metavar="TASK,...",
        help="tasks to list tier by tier: names, your own as module:ATTR, or programs@FILE (default: all shipped "
        "tasks)",
    )
    parser.add_argument(
        "--audit", type=PROBLEMS, metavar="N", help="measure prompt-blind baselines on N test problems per tier"
    )
    parser.add_argument(
        "--check", type=RESPONSES, metavar="N", help="attack the verifiers with N generated responses per preset"
    )
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print every tier of every task as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    say_if_many({"test": arguments.audit})
    tasks = {name: find_task(name) for name in arguments.tasks or tuple(TASKS)}
    found = {name: [_facts(task, preset, arguments) for preset in task.presets] for name, task in tasks.items()}
    every = [facts for of_task in found.values() for facts in of_task]
    if arguments.json:
        put_json({"gce": gce.__version__, "tasks": to_plain(every)}, indent=1)
    elif arguments.tasks:
        for name, of_task in found.items():
            for facts in of_task:
                _print_tiers(name, tasks[name], facts)
            named = f"evaluators: {', '.join((VERIFIER, *scores_of(tasks[name]), f'{JUDGE}MODEL'))}"
            put(*textwrap.wrap(named, 80), "")
    else:
        put(*_overview(every).split("\n"))
        put(
            "",
            "tokens: maximum of a response, in the largest tier",
            "blind %: best prompt-blind baseline by tier; near 100, guessing is enough",
        )
        put("", "rows per tier: gce tasks TASK    a problem as the model sees it: gce show TASK")
    return 0


def _facts(task: Task, preset: str, arguments: argparse.Namespace) -> Facts:
    facts = known_facts(task, preset)
    if arguments.audit is not None:
        facts = after_audit(
            facts,
            task,
            find_evaluator(task, arguments.runner),
            arguments.audit,
            on_tier=lambda tier: put(f"auditing {task.name}/{preset} {tier} ...", error=True),
        )
    if arguments.check is not None:
        put(f"attacking the verifier of {task.name}/{preset} ...", error=True)
        report = check(task, preset=preset, responses=arguments.check, runner=arguments.runner)
        facts = after_check(facts, report)
    return facts


def _overview(found: list[Facts]) -> str:
    rows = [[facts.task, facts.preset, *_summary(facts)] for facts in found]
    head = ("task", "preset", "tiers", "test", "tokens", "blind %", "check")
    return table(head, rows, words=True)


def _summary(facts: Facts) -> tuple[str, ...]:
    tiers = [tier for tier in facts.tiers if not tier.ladder]
    names = [tier.tier for tier in tiers]
    rates = [tier.baseline_rate.share for tier in tiers if tier.baseline_rate is not None]
    return (
        " ".join(names) if len(names) < 4 else f"{names[0]}-{names[-1]}",
        "-".join(dict.fromkeys(map(_size, _extremes(tiers)))),
        f"{max(tier.max_tokens for tier in tiers)}",
        "-".join(dict.fromkeys((f"{100 * min(rates):.0f}", f"{100 * max(rates):.0f}"))) if rates else "-",
        _battery_word(facts),
    )


def _extremes(tiers: list[TierFacts]) -> list[TierFacts]:
    """The smallest tier and the largest one."""
    by_size = sorted(tiers, key=lambda tier: tier.test_problems or 0)
    return [by_size[0], by_size[-1]]


def _size(tier: TierFacts) -> str:
    if tier.test_problems is None:
        return "-"
    return f"{tier.test_problems:,}{'' if tier.complete else '+'}"


def _battery_word(facts: Facts) -> str:
    if facts.battery is None:
        return "-"
    return f"{facts.battery.findings} found" if facts.battery.findings else "held"


def _print_tiers(name: str, task: Task, facts: Facts) -> None:
    put(f"{facts.task}/{facts.preset}")
    rows = []
    for tier in facts.tiers:
        note = ", ladder" if tier.ladder else ", held out" if tier.held_out else ""
        rate = "-" if tier.baseline_rate is None else interval_cell(tier.baseline_rate, digits=0)
        limit = "-" if tier.limit is None else f"{100 * tier.limit:g}"
        baseline = textwrap.shorten(tier.baseline, MOST_OF_A_NAME, placeholder=" ...") or "-"
        rows.append((tier.tier + note, _size(tier), f"{tier.max_tokens}", rate, limit, baseline))
    put(*table(("tier", "test", "tokens", "blind % (95 %)", "limit", "best baseline"), rows, words=True).split("\n"))
    if is_environment(name) and not isinstance(task.draw, Listed):
        first = facts.tiers[0].tier
        repeated = repeated_draws(task, facts.preset, first)
        put(f"of {DRAWS_COMPARED} training draws of {first}, {repeated} repeat an earlier one (equal digests)")
    battery = facts.battery
    if battery is None:
        put(f"verifier battery: no result is recorded (gce check --task {name} --preset {facts.preset})")
    else:
        findings = f"{counted(battery.findings, 'finding')}"
        put(
            f"verifier battery: {battery.verdicts:,} verdicts, {findings}; wrong responses judged "
            f"right: at most {100 * battery.exploit_rate_high:.3f} % of {battery.responses:,} (95 %)"
        )
    put("")
