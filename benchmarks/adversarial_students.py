"""Adversarial students against combinations of evaluators: `python -m benchmarks.adversarial_students [--n N]`.

Prints a table in Markdown: for each student, how often it is right, its exploit rate (high reward, wrong answer) by
gate and rule, its exploit rate by the evaluators that are held out, and whether the gap between those that teach and
those held out gives it away. The last row is a student that was trained on each rule. Exit status 1 if a wrong answer
got a high reward through the exact gate.
"""

from __future__ import annotations

import argparse

from gce.domain.evaluators.combination import RULES
from gce.domain.evaluators.scores import scores_of
from gce.domain.tasks import TASKS, draw_problems
from gce.testing.scheduling.students import GATES, exploits, trained_share

TEACH = ("steps", "length", "format", "precedence")
HOLD_OUT = ("deadlines", "capacity")


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--n", type=int, default=40, help="problems per tier (default 40)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    task = TASKS["scheduling"]
    tiers = [tier.name for tier in task.tiers("grounded")]
    drawn = [draw_problems(task, "grounded", tier, "test", arguments.n, seed=arguments.seed) for tier in tiers]
    problems = [problem for group in zip(*drawn, strict=False) for problem in group]
    scores = scores_of(task)
    found = exploits(
        task,
        problems,
        {name: scores[name] for name in TEACH},
        {name: scores[name] for name in HOLD_OUT},
        seed=arguments.seed,
    )
    rules = [f"{gate}, {rule}" for gate in GATES for rule in RULES]
    print(f"| student | right | {' | '.join(rules)} | held out | gap over honest | given away |")
    print("|---|" + "---|" * (len(rules) + 4))
    for name, each in found.items():
        cells = [each.right, *(each.rates[rule] for rule in rules), each.held_out]
        gap = f"{each.gap.value:+.2f} ({each.gap.low:+.2f} to {each.gap.high:+.2f})"
        print(f"| {name} | {' | '.join(map(_percent, cells))} | {gap} | {'yes' if each.detected else 'no'} |")
    shares = [trained_share(found, rule) for rule in rules]
    print(f"| trained on the rule | - | {' | '.join(map(_percent, shares))} | - | - | - |")
    print(f"{len(problems)} problems")
    return int(any(each.rates[f"exact, {rule}"] for each in found.values() for rule in RULES))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


if __name__ == "__main__":
    raise SystemExit(main())
