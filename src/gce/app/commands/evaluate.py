"""`gce evaluate`: what a model gets right, by strategy and tier, and what each strategy costs and gains."""

from __future__ import annotations

import argparse
from pathlib import Path

from attrs import fields_dict

from gce.app.evaluation.results import check_result, summary
from gce.app.evaluation.run import EvaluateSettings, evaluate
from gce.app.evaluation.scoring import COVERAGE_HELP, MIN_COVERAGE
from gce.app.options import (
    NAME,
    NAMES,
    PATH,
    PROBLEMS,
    REQUESTS,
    SAMPLES,
    SECONDS,
    SEED,
    SHARE,
    SHOTS,
    TEMPERATURE,
    THREADS,
    TOKENS,
    Choice,
    ChoiceOrOwn,
    Listed,
)
from gce.app.parser import Parser
from gce.app.settings.records import ExecutorSettings, ModelSettings, RolloutSettings, TrainSettings
from gce.app.terminal import Terminal, put, put_json, put_result
from gce.app.training.dry_run import evaluation_lines
from gce.app.wiring.evaluators import EVALUATORS, VERIFIER
from gce.app.wiring.models import MODEL_HELP, default_model
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.strategy_names import STRATEGY
from gce.app.wiring.tasks import TASK_HELP, find_preset, find_task, find_tiers
from gce.domain.metrics import METRICS
from gce.domain.statistics import DEFAULT_INTERVAL, INTERVALS
from gce.domain.strategies import STRATEGIES
from gce.domain.tasks import Listed as ListedProblems
from gce.domain.tasks import draw_problems

__all__ = ["add_arguments", "run"]

_STRATEGIES = "\n".join(f"  {name:<12} {strategy.help}" for name, strategy in STRATEGIES.items())
DESCRIPTION = f"""\
Measure a model on problems of every tier: 95 % intervals, beside the best blind answer and plain heuristics on the
same problems; and with several strategies, what each costs and gains against zero-shot, problem by problem.

strategies:
{_STRATEGIES}
  trained      zero-shot with --adapter; trained-few-shot and so on are the others with it
  module:ATTR  your own gce.Strategy
"""
EXAMPLES = """\
examples:
  gce evaluate                                       the shipped model as it comes
  gce evaluate --adapter runs/1/checkpoints/last     after training
  gce evaluate --strategies zero-shot,few-shot,multi-turn,simulate,trained --adapter runs/1/checkpoints/last
  gce evaluate --model ./my-model --preset paper --n 100 --json
  gce evaluate --model http://127.0.0.1:8080/v1#qwen --strategies zero-shot,few-shot,multi-turn
  gce evaluate --samples 64 --temperature 0.8        pass@1, pass@8 and pass@64: what there is to be found
"""


def add_arguments(parser: Parser) -> None:
    """The command line of `gce evaluate`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--model", type=NAME, help=MODEL_HELP)
    parser.add_argument("--adapter", type=PATH, help="a run's checkpoints/last, what it learned")
    parser.add_argument(
        "--strategies",
        type=Listed(STRATEGY),
        default=(),
        metavar="NAME,...",
        help="as above (default: zero-shot, or with --adapter trained)",
    )
    parser.add_argument(
        "--modes",
        dest="strategies",
        type=Listed(STRATEGY),
        default=argparse.SUPPRESS,
        metavar="NAME,...",
        help="another name of --strategies",
    )
    parser.add_argument("--shots", type=SHOTS, default=3, help="solved examples that few-shot shows (default 3)")
    parser.add_argument(
        "--examples",
        type=Choice(("heuristic", "solver")),
        choices=("heuristic", "solver"),
        default="heuristic",
        help="who worked them out; a solver is an oracle, and the table says so",
    )
    parser.add_argument(
        "--metrics",
        type=Listed(ChoiceOrOwn(tuple(METRICS))),
        default=(),
        metavar="NAME,...",
        help=f"shown beside accuracy: {', '.join(METRICS)}, or your own gce.Metric as module:ATTR",
    )
    parser.add_argument(
        "--evaluator",
        type=ChoiceOrOwn(tuple(EVALUATORS)),
        default=VERIFIER,
        metavar="NAME",
        help=f"who judges answers: {', '.join(EVALUATORS)}, or your own as module:ATTR (default {VERIFIER})",
    )
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="only these (default: all)")
    parser.add_argument(
        "--split",
        type=Choice(("test", "dev")),
        choices=("test", "dev"),
        default="test",
        help="tune on dev, report on test",
    )
    parser.add_argument("--n", type=PROBLEMS, default=200, help="problems a tier (default 200)")
    parser.add_argument(
        "--samples", type=SAMPLES, default=1, help="answers to each problem: shows pass@k (with --temperature)"
    )
    parser.add_argument("--temperature", type=TEMPERATURE, default=0.0, help="0 is greedy (default)")
    parser.add_argument("--max-tokens", type=TOKENS, help="generated tokens of a reply at most (default: the task's)")
    parser.add_argument("--seed", type=SEED, default=0, help="of sampling, where the temperature is not 0")
    parser.add_argument("--problem-seed", type=SEED, default=0, help="draws other problems of the tiers (default 0)")
    parser.add_argument(
        "--interval",
        type=Choice(tuple(INTERVALS)),
        choices=tuple(INTERVALS),
        default=DEFAULT_INTERVAL,
        help=f"confidence intervals of shares, not of means of tiers (default {DEFAULT_INTERVAL})",
    )
    parser.add_argument(
        "--min-coverage", type=SHARE, default=MIN_COVERAGE, help=f"{COVERAGE_HELP} (default {MIN_COVERAGE})"
    )
    parser.add_argument("--device", type=Choice(("cpu",)), choices=("cpu",), help="force the CPU")
    parser.add_argument("--threads", type=THREADS, help="of CPU work (default: one for each core)")
    parser.add_argument("--concurrency", type=REQUESTS, default=8, help="requests to a server at a time (default 8)")
    parser.add_argument("--timeout", type=SECONDS, default=300.0, help="seconds for a server's answer (default 300)")
    parser.add_argument(
        "--answers",
        type=PATH,
        help="keep answers and verdicts in this file, a JSON object a line; what it has is not asked again",
    )
    add_runner(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be asked and how long it takes, after a short try"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.common += [*("--task", "--preset", "--model", "--adapter", "--strategies", "--tiers", "--n", "--samples")]
    parser.common += [*("--temperature", "--answers", "--dry-run", "--json")]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = {name: value for name, value in vars(arguments).items() if name in fields_dict(EvaluateSettings)}
    if arguments.dry_run:
        return _dry_run(EvaluateSettings(**given), arguments)
    result = evaluate(watcher=Terminal(), **given)
    arguments.model = result.settings.model_name
    if given.get("adapter") or arguments.model.startswith(("http", "scripted:")):
        arguments.following = "gce check --task {task}"
    plain, lines = summary(result)
    if arguments.json:
        put_json(plain, indent=1)
    else:
        put_result(*lines)
    check_result(result, plain, arguments.min_coverage)
    return 0


def _dry_run(given: EvaluateSettings, arguments: argparse.Namespace) -> int:
    task = find_task(given.task_name)
    preset = find_preset(task, given.preset or "")
    tiers = find_tiers(task, preset, given.tiers)
    chosen = ("device", "threads", "concurrency", "timeout")
    settings = TrainSettings(
        task=given.task_name,
        preset=preset,
        evaluator=arguments.evaluator,
        model=ModelSettings(
            name=given.model_name if given.model else default_model(task),
            **{name: getattr(given, name) for name in chosen},
        ),
        rollouts=RolloutSettings(max_tokens=given.max_tokens),
        executor=ExecutorSettings(runner=given.runner),
    )
    names = given.strategies or (("trained",) if given.adapter else ("zero-shot",))
    problems = given.n * len(tiers)
    if isinstance(task.draw, ListedProblems):
        problems = sum(len(draw_problems(task, preset, tier, given.split, given.n)) for tier in tiers)
    answers = {str(name): problems * given.samples for name in names}
    differing = {
        name: str(value) if isinstance(value, Path) else value
        for name, field in fields_dict(EvaluateSettings).items()
        if name in vars(arguments) and (value := getattr(given, name)) != field.default
    }
    lines = evaluation_lines(settings, task, tiers, given.split, answers)
    if arguments.json:
        put_json({"settings": differing, "estimate": lines}, indent=1)
    else:
        put(*(f"{name} = {value}" for name, value in differing.items()), *lines, "dry run: nothing was written")
    arguments.following = None
    return 0
