"""`gce show`: a problem as the model sees it, and what the verifier says of an answer."""

from __future__ import annotations

import argparse
import shlex

from gce.app.evaluation.shown_problem import Shown, plain_problem, shown
from gce.app.options import NAME, PROBLEMS_PRINTED, SEED, Choice, Count
from gce.app.terminal import put, put_json
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import TASK_HELP, find_preset, find_task, find_tiers
from gce.domain.problems import Split
from gce.domain.serialization import to_plain
from gce.domain.tasks import ProblemSource

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Print a problem as the model sees it: each message with its role. Below it, print the task's demonstration with its
verdict, or the verdict on an empty answer if the task has no demonstration. A demonstration shows the expected format
of an answer; an empty answer shows the verifier's feedback.
"""
EXAMPLES = """\
examples:
  gce show scheduling                            the first training problem of the first tier
  gce show scheduling --tier T3 --index 7        another one
  gce show my_task:TASK --n 3 --json             three of your own task, one JSON object per line
  gce show programs@human-eval --split test      programming problems from a file
"""
SPLIT = Choice(("train", "dev", "test"))
INDEX = Count(0, PROBLEMS_PRINTED.high)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce show`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("task", type=NAME, metavar="TASK", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--tier", type=NAME, help="difficulty level (default: the preset's first)")
    parser.add_argument(
        "--split",
        type=SPLIT,
        choices=SPLIT.names,
        help="split of the problem (default: train, or test for a held-out tier)",
    )
    parser.add_argument("--index", type=INDEX, default=0, help="index of the first problem (default 0)")
    parser.add_argument("--n", type=PROBLEMS_PRINTED, default=1, help="number of problems (default 1)")
    parser.add_argument("--seed", type=SEED, default=0, help="seed of the problems (default 0)")
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = find_task(arguments.task)
    preset = find_preset(task, arguments.preset or "")
    trained = task.training_tiers(preset, ladder=True)
    tier = arguments.tier
    if tier not in trained:
        tier = find_tiers(task, preset, (tier,) if tier else ())[0]
    split: Split = arguments.split or ("train" if tier in trained else "test")
    evaluator, source = find_evaluator(task, arguments.runner), ProblemSource(task)
    for index in range(arguments.index, arguments.index + arguments.n):
        found = shown(task, evaluator, source.draw(preset, tier, split, index, seed=arguments.seed))
        if arguments.json:
            put_json(_plain(found))
        else:
            _print(found)
    if not arguments.json:
        chosen = {name: vars(arguments)[name] for name in ("preset", "tier", "split", "index", "seed")}
        options = [word for name, value in chosen.items() if value for word in (f"--{name}", str(value))]
        same = shlex.join(["gce", "show", arguments.task, *options, "--json"])
        put(f"judge an answer of your own: {same} > problem.json")
        put(shlex.join(["gce", "verify", "problem.json", "answer.txt", "--task", arguments.task]))
    return 0


def _plain(found: Shown) -> dict[str, object]:
    """The problem as `gce verify` reads it, with the answer and its verdicts."""
    answer = found.answer
    return {
        **plain_problem(found.problem),
        "max_tokens": found.max_tokens,
        "answer": {
            **{"demonstration": found.demonstrated, "text": answer.completion.text, "outcome": answer.outcome},
            **{"reward": answer.reward, "verdicts": to_plain(answer.verdicts)},
        },
    }


def _print(found: Shown) -> None:
    answer = found.answer
    put(f"--- {found.problem.key}, at most {found.max_tokens} tokens")
    for message in found.problem.prompt:
        put(f"[{message.role}]", *message.content.split("\n"))
    if found.demonstrated:
        put("", "[the task's demonstration]", *answer.completion.text.split("\n"), "")
    else:
        put("", "[no demonstration; an empty answer]", "")
    reward = "" if answer.reward is None else f", reward {answer.reward:g}"
    put(f"verdict: {answer.outcome}{reward}")
    for verdict in answer.verdicts:
        for violation in verdict.violations:
            put(f"  {violation.kind}: {violation.message}")
    put("")
