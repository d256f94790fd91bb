"""`gce evaluate`: what a model gets right, by strategy and tier, and what each strategy costs and gains."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from attrs import evolve, fields_dict

from gce.app.evaluation.one_outcome import ended_early, has_demonstration, is_cut_off, mostly_loops, texts_cut_off
from gce.app.evaluation.power import gain_found
from gce.app.evaluation.resolution import asked_for, listed
from gce.app.evaluation.results import check_result, summary
from gce.app.evaluation.run import EvaluateSettings, Evaluation, evaluate
from gce.app.evaluation.scoring import COVERAGE_HELP, MIN_COVERAGE
from gce.app.evaluation.several_models import check_several, cost_lines, settings_of
from gce.app.evaluation.shifts import shifts_of
from gce.app.evaluation.shown_answers import FEW, SHORT_FOLDS, SHORT_RUN, is_own
from gce.app.evaluation.splits import ALL, check_listed, splits_of
from gce.app.interruption import saying_if_slow
from gce.app.options import (
    DAY,
    NAME,
    NAMES,
    PATH,
    PROBLEMS,
    REQUESTS,
    RUN,
    SAMPLES,
    SECONDS,
    SEED,
    SHARE,
    SHOTS,
    TEMPERATURE,
    TEMPLATE_ARGUMENTS,
    TEMPLATE_ARGUMENTS_HELP,
    TEMPLATE_DATE_HELP,
    TEMPLATE_HELP,
    THREADS,
    TOKENS,
    Choice,
    ChoiceOrOwn,
    Listed,
)
from gce.app.parser import Parser
from gce.app.settings.records import ExecutorSettings
from gce.app.terminal import Terminal, literally, put, put_json, put_result
from gce.app.training.dry_run import evaluation_lines
from gce.app.wiring.access import access_of, add_limits
from gce.app.wiring.evaluators import EVALUATORS, VERIFIER
from gce.app.wiring.models import MODEL_HELP, TEMPLATE_SETTINGS, backend_of, default_model
from gce.app.wiring.names import LISTED_BY, STRATEGY
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import TASK_HELP, find_preset, find_task, find_tiers
from gce.domain.metrics import METRICS
from gce.domain.models import BFLOAT16, FLOAT32
from gce.domain.statistics import DEFAULT_INTERVAL, INTERVALS
from gce.domain.strategies import STRATEGIES
from gce.domain.tasks import Task

__all__ = ["add_arguments", "run"]

_STRATEGIES = "\n".join(f"  {name:<18} {strategy.help}" for name, strategy in STRATEGIES.items())
DESCRIPTION = """\
Evaluate a model on problems of every tier, with 95 % intervals, beside the best prompt-blind baseline and heuristics on
the same problems. With several prompting strategies, also print what each one costs, and its gain over zero-shot
(without it, over the first), paired by problem.
"""
PROMPTING = f"""\
strategies:
{_STRATEGIES}
  trained            zero-shot with --adapter; trained-few-shot, trained-multi-turn, ... likewise
  module:ATTR        your own gce.Strategy
"""
EXAMPLES = """\
examples:
  gce evaluate                                       the shipped model without training
  gce evaluate --adapter runs/1/checkpoints/last     the trained adapter of a run
  gce evaluate --strategies zero-shot,few-shot,multi-turn,simulate,trained --adapter runs/1/checkpoints/last
  gce evaluate --model ./my-model --preset paper --n 100 --json
  gce evaluate --model http://127.0.0.1:8080/v1#qwen --strategies zero-shot,few-shot,multi-turn
  gce evaluate --models openai:gpt-5,anthropic:claude-sonnet-4,hf:Qwen/Qwen3-8B --n 20 --max-cost 5 --cache answers
  gce evaluate --shifts --n 400 --adapter runs/1/checkpoints/last    the same on every distribution shift
  gce evaluate --task sums:sums --split all          every question of your list, not only the test questions
  gce evaluate --samples 64 --temperature 0.8        pass@1, pass@8 and pass@64
"""


def add_arguments(parser: Parser) -> None:
    """The command line of `gce evaluate`."""
    parser.description, parser.more, parser.epilog = DESCRIPTION, PROMPTING, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--model", type=NAME, help=MODEL_HELP)
    parser.add_argument(
        "--models",
        type=NAMES,
        default=(),
        metavar="NAME,...",
        help="several models on the same problems in place of --model: one row each, and the gain of each over the "
        "first, paired by problem; with --answers FILE.jsonl each keeps its answers in FILE.NAME.jsonl",
    )
    parser.add_argument("--adapter", type=RUN, help="adapter: RUN/checkpoints/last, or a PEFT directory")
    parser.add_argument(
        "--strategies",
        type=Listed(STRATEGY),
        default=(),
        metavar="NAME,...",
        help="prompting strategies, listed by --help-all (default: zero-shot; with --adapter: trained)",
    )
    parser.add_argument(
        "--modes",
        dest="strategies",
        type=Listed(STRATEGY),
        default=argparse.SUPPRESS,
        metavar="NAME,...",
        help="alias of --strategies",
    )
    parser.add_argument("--shots", type=SHOTS, default=3, help="demonstrations in the prompt of few-shot (default 3)")
    parser.add_argument(
        "--examples",
        type=Choice(("heuristic", "solver")),
        choices=("heuristic", "solver"),
        default="heuristic",
        help="source of the demonstrations; solver is an oracle, and the table says so (default heuristic)",
    )
    parser.add_argument(
        "--examples-from",
        type=RUN,
        metavar="RUN",
        help="run of gce train whose best admitted trajectories are the few-shot examples, in place of demonstrations",
    )
    parser.add_argument(
        "--metrics",
        type=Listed(ChoiceOrOwn(tuple(METRICS), listed_by=LISTED_BY["metric"])),
        default=(),
        metavar="NAME,...",
        help=f"metrics to print beside accuracy: {', '.join(METRICS)}, or your own gce.Metric as module:ATTR",
    )
    parser.add_argument(
        "--evaluator",
        type=ChoiceOrOwn(tuple(EVALUATORS)),
        default=VERIFIER,
        metavar="NAME",
        help=f"evaluator that judges answers: {', '.join(EVALUATORS)}, or your own as module:ATTR (default {VERIFIER})",
    )
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="tiers to evaluate (default: all)")
    parser.add_argument(
        "--shifts",
        action="store_true",
        help="also measure every distribution shift that the task declares, a row each; with --answers FILE.jsonl each "
        "keeps its answers in FILE.NAME.jsonl",
    )
    parser.add_argument(
        "--split",
        type=Choice(("test", "dev", ALL)),
        choices=("test", "dev", ALL),
        default="test",
        help="split to evaluate on: tune on dev, report on test; all takes every question of a list, for a model that "
        "was trained on none of them (default test)",
    )
    parser.add_argument("--n", type=PROBLEMS, default=200, help="problems per tier (default 200)")
    parser.add_argument(
        "--samples",
        type=SAMPLES,
        default=1,
        help="answers sampled per problem, for pass@k; needs --temperature (default 1)",
    )
    parser.add_argument(
        "--temperature", type=TEMPERATURE, default=0.0, help="sampling temperature; 0 is greedy (default 0)"
    )
    parser.add_argument("--max-tokens", type=TOKENS, help="maximum tokens of a reply (default: the task's)")
    parser.add_argument(
        "--seed", type=SEED, default=0, help="sampling seed, used if the temperature is not 0 (default 0)"
    )
    parser.add_argument("--problem-seed", type=SEED, default=0, help="seed of the problems (default 0)")
    parser.add_argument(
        "--interval",
        type=Choice(tuple(INTERVALS)),
        choices=tuple(INTERVALS),
        default=DEFAULT_INTERVAL,
        help=f"method for confidence intervals of proportions, not of means over tiers (default {DEFAULT_INTERVAL})",
    )
    parser.add_argument(
        "--min-coverage", type=SHARE, default=MIN_COVERAGE, help=f"{COVERAGE_HELP} (default {MIN_COVERAGE})"
    )
    parser.add_argument(
        "--precision",
        type=Choice((FLOAT32, BFLOAT16)),
        choices=(FLOAT32, BFLOAT16),
        default=FLOAT32,
        help=f"precision of a local model's matrix products on a CPU (default {FLOAT32})",
    )
    parser.add_argument("--chat-template", type=NAME, metavar="FILE", help=TEMPLATE_HELP)
    parser.add_argument("--chat-template-kwargs", type=TEMPLATE_ARGUMENTS, metavar="JSON", help=TEMPLATE_ARGUMENTS_HELP)
    parser.add_argument("--template-date", type=DAY, metavar="YYYY-MM-DD", help=TEMPLATE_DATE_HELP)
    parser.add_argument(
        "--device",
        type=Choice(("cpu",)),
        choices=("cpu",),
        help="device of a local model: cpu forces the CPU (default: the backend's)",
    )
    parser.add_argument("--threads", type=THREADS, help="CPU threads (default: one per core)")
    parser.add_argument("--concurrency", type=REQUESTS, default=8, help="concurrent requests to a server (default 8)")
    parser.add_argument(
        "--timeout",
        type=SECONDS,
        default=300.0,
        help="maximum seconds to wait for an answer of a server or a command (default 300)",
    )
    add_limits(parser)
    parser.add_argument(
        "--answers",
        type=PATH,
        help="keep answers and verdicts in this JSON Lines file, which gce transcript FILE shows; answers already in "
        "it are reused, and judged again",
    )
    add_runner(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="measure a small sample, and print how much work and time the evaluation would take",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.common += [
        *("--task", "--preset", "--model", "--models", "--adapter", "--strategies", "--tiers", "--shifts", "--split")
    ]
    parser.common += [*("--n", "--samples", "--temperature", "--answers", "--dry-run", "--json")]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = {name: value for name, value in vars(arguments).items() if name in fields_dict(EvaluateSettings)}
    if arguments.dry_run:
        return _dry_run(EvaluateSettings(**given), arguments)
    watcher = Terminal(counts="asked")
    result = evaluate(watcher=watcher, **given)
    arguments.model = result.settings.model_names[0] if arguments.models else result.settings.model_name
    trained = result.task.training_tiers(result.preset, ladder=False)
    if arguments.answers and not arguments.models and not is_own(result.task):
        arguments.following = "gce transcript {answers}"
    elif not trained or "learn" not in backend_of(arguments.model).capabilities:
        arguments.following = "gce check --task {task}{preset}"
    else:
        arguments.following = "gce train --task {task}{preset} --model {model}" + literally(_to_train(result))
    with saying_if_slow(watcher.say, "judging the answers of baselines and heuristics"):
        plain, lines = summary(result)
    if arguments.json:
        put_json(plain, indent=1)
    else:
        put_result(*lines, *_all_answers(result, arguments))
    check_result(result, plain, arguments.min_coverage)
    return 0


def _all_answers(result: Evaluation, arguments: argparse.Namespace) -> list[str]:
    """How all answers are shown, where some to questions are."""
    if arguments.models or not is_own(result.task):
        return []
    if arguments.answers is None:
        return ["all answers: repeat with --answers FILE.jsonl, then gce transcript FILE.jsonl"]
    return [f"all answers: {shlex.join(['gce', 'transcript', str(arguments.answers)])}"]


def _to_train(result: Evaluation) -> str:
    """The options that training needs to learn from answers like these, and of a list of questions a short run's."""
    given, task = result.settings, result.task
    answers = [held.last for each in result.conversations.values() for held in each if not held.last.failed]
    options, steps, (cut, n) = "", 100, ended_early(answers)
    if any(answer.reward not in (0.0, 1.0) for answer in answers):
        options, steps = " --algorithm grpo", 30
    if given.adapter is None and answers and not any(answer.right for answer in answers):
        options += f" --warm-up {steps}" if 2 * cut < n and has_demonstration(task, answers[0].problem) else ""
    if given.adapter is not None:
        options += f" --adapter {shlex.quote(str(given.adapter))}"
    for name in TEMPLATE_SETTINGS[:2]:
        if value := getattr(given, name):
            options += f" --{name.replace('_', '-')} {shlex.quote(value)}"
    if is_own(task):
        options += SHORT_FOLDS if given.adapter is None and _is_short(task, result.preset) else SHORT_RUN
    limit = given.max_tokens
    if is_cut_off(cut, n) and not mostly_loops(texts_cut_off(answers)):
        limit = 2 * (limit or task.max_tokens)
    return options if limit is None else f"{options} --max-tokens {limit}"


def _is_short(task: Task, preset: str) -> bool:
    """Whether a list of questions is so short that two folds of it are proposed."""
    sizes = [listed(task, preset, tier.name, "all") for tier in task.tiers(preset)]
    return min(sizes) >= 2 and sum(sizes) <= FEW


def _dry_run(given: EvaluateSettings, arguments: argparse.Namespace) -> int:
    task = find_task(given.task_name)
    preset = find_preset(task, given.preset or "")
    check_listed(task, given.split)
    tiers = find_tiers(task, preset, given.tiers)
    names = given.strategies or (("trained",) if given.adapter else ("zero-shot",))
    problems = asked_for(task, preset, tiers, given.split, given.n)
    answers = {str(name): problems * given.samples for name in names}
    for what, (shifted, other) in shifts_of(task, preset).items() if given.shifts else ():
        answers[what] = asked_for(shifted, other, find_tiers(shifted, other, given.tiers), given.split, given.n)
    differing = {
        name: str(value) if isinstance(value, Path) else value
        for name, field in fields_dict(EvaluateSettings).items()
        if name in vars(arguments) and (value := getattr(given, name)) != field.default
    }
    access, lines = access_of(given), list[str]()
    if given.models:
        check_several(given)
    for model in given.models or (given.model or default_model(task),):
        settings = evolve(
            settings_of(evolve(given, models=(), model=model), preset),
            evaluator=arguments.evaluator,
            executor=ExecutorSettings(runner=given.runner),
        )
        lines += [f"model {model}:"] if given.models else []
        cost = cost_lines(model, access, sum(answers.values()) * (given.max_tokens or task.max_tokens))
        lines += [*evaluation_lines(settings, task, tiers, splits_of(given.split)[0], answers), *cost]
    lines += gain_found(problems, max(1, len(names) - 1, len(given.models) - 1)) if given.samples == 1 else []
    if arguments.json:
        put_json({"settings": differing, "estimate": lines}, indent=1)
    else:
        put(*(f"{name} = {value}" for name, value in differing.items()), *lines, "dry run: nothing was written")
    arguments.following = None
    return 0
