"""`gce evaluate`: what a model gets right, by mode and tier with intervals, and what each mode costs and gains."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from attrs import evolve

from gce.adapters.checkpoint_files import state_of_files
from gce.adapters.checkpoint_reader import read_committed, run_of
from gce.adapters.clocks import SystemClock
from gce.adapters.exact_solver import ExactSolver
from gce.adapters.input_files import read_input
from gce.adapters.output_files import check_appended
from gce.app.answer_file import AnswerFile
from gce.app.audit import best_of, check_references, reference_rows
from gce.app.config import with_recipe
from gce.app.evaluation import (
    COVERAGE_HELP,
    MIN_COVERAGE,
    OPTION,
    accuracy,
    check_answers,
    mean_accuracy,
    pass_at,
    stored_shares,
)
from gce.app.examples import worked_examples
from gce.app.mode_tables import (
    Measured,
    against,
    attempts,
    attempts_table,
    costs_table,
    gains_table,
    notes_on,
)
from gce.app.models import MODEL_HELP, find_model
from gce.app.modes import MODES, Answered, Settings, converse
from gce.app.options import (
    MOST_ANSWERS,
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
    Listed,
)
from gce.app.resolve import TASK_HELP, file_digest, find_preset, find_task, find_tiers, say_if_many
from gce.app.runners import add_runner
from gce.app.terminal import Terminal, accuracy_rows, count_words, put, put_json, share_cell, table
from gce.domain.outcomes import coverage
from gce.domain.serialization import to_plain
from gce.domain.tasks import Task, draw_problems
from gce.domain.text import printable
from gce.domain.types import ModelState, Problem
from gce.errors import BadInput, GceError
from gce.ports.model import Learner, Sampler

__all__ = ["add_arguments", "arrays_digest", "learned_from", "restore", "run", "shape_of"]

DESCRIPTION = """\
Measure a model on problems of every tier: 95 % Wilson intervals, beside the best blind answer and plain heuristics on
the same problems; and with several modes, what each costs and gains against zero-shot, problem by problem.

modes:
  zero-shot    the prompt as it is
  few-shot     after solved examples from the training key space, worked out by a plain rule (--examples)
  multi-turn   up to three attempts; after a wrong one the model is told what is wrong, never what is right
  simulate     three calls: list the constraints, draft and check, answer; only the last is judged
  trained      zero-shot with --adapter; trained-few-shot and so on are the others with it
"""
EXAMPLES = """\
examples:
  gce evaluate                                       the shipped model as it comes
  gce evaluate --adapter runs/1/checkpoints/last     after training
  gce evaluate --modes zero-shot,few-shot,multi-turn,simulate,trained --adapter runs/1/checkpoints/last
  gce evaluate --model ./my-model --preset paper --n 100 --json
  gce evaluate --model http://127.0.0.1:8080/v1#qwen --modes zero-shot,few-shot,multi-turn
  gce evaluate --samples 64 --temperature 0.8        pass@1, pass@8 and pass@64: what there is to be found
"""
TRAINED = "trained"
MOST_OF_A_CHECKPOINT = 16 * 2**30
"""Bytes of each of its files."""
MODE_NAMES = (*MODES, TRAINED, *(f"{TRAINED}-{name}" for name in MODES if name != "zero-shot"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce evaluate`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--model", type=NAME, default="gce-tiny", help=MODEL_HELP)
    parser.add_argument("--adapter", type=PATH, help="a run's checkpoints/last, what it learned")
    parser.add_argument(
        "--modes",
        type=Listed(Choice(MODE_NAMES)),
        default=(),
        metavar="MODE,...",
        help="as above (default: zero-shot, or with --adapter trained)",
    )
    parser.add_argument("--shots", type=SHOTS, default=3, help="solved examples that few-shot shows (default 3)")
    parser.add_argument(
        "--examples",
        type=Choice(("heuristic", "solver")),
        choices=("heuristic", "solver"),
        default="heuristic",
        help="who worked them out; a solver is an oracle, and the table says so",
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
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    modes = _checked(arguments)
    task = find_task(arguments.task, arguments.runner)
    preset = find_preset(task, arguments.preset or "")
    tiers = find_tiers(task, preset, arguments.tiers)
    settings = Settings(arguments.seed, arguments.temperature, arguments.samples, arguments.max_tokens)
    if any(mode.endswith("few-shot") for mode in modes):
        solve = ExactSolver(SystemClock()).solve if arguments.examples == "solver" else None
        settings = evolve(settings, examples=worked_examples(task, preset, tiers, arguments.shots, solve=solve))
    learned = None if arguments.adapter is None else learned_from(arguments.adapter)
    model = _model(arguments, task, preset, learned)
    problems = [
        problem
        for tier in tiers
        for problem in draw_problems(task, preset, tier, arguments.split, arguments.n, seed=arguments.problem_seed)
    ]
    if not problems:
        raise BadInput(f"task {task.name} has no {arguments.split} problems in preset {preset}")
    asked = _asked(arguments, preset, model, problems, learned)
    with nullcontext() if arguments.answers is None else AnswerFile(arguments.answers, asked, problems) as kept:
        found = _measured(arguments, modes, model, task, problems, settings, learned, kept)
    result, shown = _report(arguments, task, preset, problems, found)
    if arguments.json:
        put_json(result, indent=1)
    else:
        where = f"{arguments.model} on {task.name}/{preset}, {arguments.split} problems"
        counts = count_words(Counter(problem.tier for problem in problems), arguments.n)
        put(f"{where}, % right (95 % interval), {counts}", *shown.split("\n"))
    for mode, measured in found.items():
        check_answers(mode, measured.judged, arguments.min_coverage, or_else=OPTION)
    rows = [*result.get("floors", {}).values(), *result.get("heuristics", {}).values()]
    check_references([share for row in rows for share in stored_shares(row).values()], arguments.min_coverage)
    return 0


def _measured(
    arguments: argparse.Namespace,
    modes: Sequence[str],
    model: Any,
    task: Task,
    problems: Sequence[Problem],
    settings: Settings,
    learned: ModelState | None,
    kept: AnswerFile | None,
) -> dict[str, Measured]:
    """What each mode gives; what is kept already is not asked again."""
    found: dict[str, Measured] = {}
    terminal = Terminal()
    if getattr(model, "note", ""):
        terminal.say(f"{arguments.model}: {model.note}")
    # What needs no adapter comes first: there is one model, and it takes the adapter once.
    for mode in sorted(modes, key=lambda name: name.startswith(TRAINED)):
        if mode.startswith(TRAINED) and learned is not None:
            restore(model, learned, arguments.adapter, arguments.model)
            learned = None
        how = MODES[mode.removeprefix(TRAINED).removeprefix("-") or "zero-shot"]
        done = {} if kept is None else kept.done(mode)
        advance = terminal.stage(mode, len(problems) * arguments.samples - len(done))
        before, began = 0.0 if kept is None else kept.seconds(mode), time.perf_counter()
        last = began

        def answered(name: str, what: Answered, mode: str = mode, advance: Callable[[], None] = advance) -> None:
            nonlocal last
            now = time.perf_counter()
            if kept is not None:
                kept.add(mode, name, what, now - last)
            last = now
            advance()

        answers = converse(how, model, task, problems, settings, done=done, on_answer=answered)
        found[mode] = Measured(tuple(answers), before + time.perf_counter() - began)
        right = sum(each.last.right for each in answers)
        failed = sum(each.last.failed for each in answers)
        said = f"{right} of {len(answers) - failed} right" + (f", {failed} failed" if failed else "")
        terminal.say(f"{mode}: {said}, {found[mode].seconds:.0f} s")
    return {mode: found[mode] for mode in modes}


def _asked(
    arguments: argparse.Namespace, preset: str, model: Any, problems: Sequence[Problem], learned: ModelState | None
) -> dict[str, Any]:
    """What the answers follow from: an evaluation that differs in any of it is another one."""
    names = ("task", "model", "split", "n", "samples", "temperature", "max_tokens", "seed", "shots", "examples")
    shown = json.dumps(to_plain(tuple(problem.prompt for problem in problems)))
    records = file_digest(arguments.task)
    return {name: getattr(arguments, name) for name in names} | {
        **({"records": records} if records else {}),  # What is hidden in them stands in no prompt.
        **({"problem_seed": arguments.problem_seed} if arguments.problem_seed else {}),
        "preset": preset,
        "tiers": list(dict.fromkeys(problem.tier for problem in problems)),
        "problems": hashlib.sha256(shown.encode()).hexdigest(),
        "policy": getattr(model, "policy", ""),
        "adapter": "" if learned is None else arrays_digest(learned),
    }


def _checked(arguments: argparse.Namespace) -> list[str]:
    """The modes that are asked for."""
    if arguments.n * arguments.samples > MOST_ANSWERS:
        asked = f"{arguments.n:,} times {arguments.samples:,}"
        raise BadInput(f"expected --n times --samples of at most {MOST_ANSWERS:,} answers a tier, got {asked}")
    if arguments.samples > 1 and arguments.temperature == 0.0:
        raise BadInput("--samples above 1 needs --temperature above 0: greedy answers to one problem are all the same")
    if arguments.answers is not None:
        if not arguments.answers.parent.is_dir():
            raise BadInput(f"cannot write {arguments.answers}: {arguments.answers.parent} is no directory")
        check_appended(arguments.answers, instead="give another --answers")
    default = "zero-shot" if arguments.adapter is None else TRAINED
    modes = list(arguments.modes or (default,))
    for mode in modes:
        if mode.startswith(TRAINED) and arguments.adapter is None:
            raise BadInput(f"the mode {mode} needs --adapter: give a run's checkpoints/last")
    if arguments.samples > 1 and len(modes) > 1:
        raise BadInput("--samples above 1 goes with one mode alone")
    if arguments.adapter is not None and not any(mode.startswith(TRAINED) for mode in modes):
        raise BadInput("--adapter is used by the modes trained, trained-few-shot and so on alone: add one of them")
    say_if_many({"--n": arguments.n})
    return modes


def _report(
    arguments: argparse.Namespace, task: Task, preset: str, problems: Sequence[Problem], found: Mapping[str, Measured]
) -> tuple[dict[str, Any], str]:
    """The result for programs and for people: modes beside reference rows, or pass@k where samples are several."""
    tiers = list(dict.fromkeys(problem.tier for problem in problems))
    if arguments.samples > 1:
        (measured,) = found.values()
        passed = pass_at(measured.judged)
        cells = [
            [
                name,
                *(share_cell(row[tier].value, row[tier].low, row[tier].high) if tier in row else "-" for tier in tiers),
            ]
            for name, row in passed.items()
        ]
        result = {"pass_at": to_plain(passed), "samples": arguments.samples, "temperature": arguments.temperature}
        rates = accuracy(measured.judged)
        result |= {"n": arguments.n, "tiers": to_plain(rates), "coverage": coverage(rates.values())}
        return result, "\n".join([table(["", *tiers], cells), *_failures(found)])
    floors, heuristics = reference_rows(task, preset, problems, fitted_to=100)
    held_out = [tier.name for tier in task.tiers(preset) if tier.held_out]
    notes = notes_on(arguments.model, found, arguments.examples)
    names = {mode: f"{mode} *" if mode in notes else mode for mode in found}
    shares = {mode: accuracy(measured.judged) for mode, measured in found.items()}
    rows = {names[mode]: row for mode, row in shares.items()}
    shown = [table(*accuracy_rows({**rows, "best blind answer": best_of(floors), **heuristics}, tiers, held_out))]
    shown += [printable(f"* {mode}: {note}") for mode, note in notes.items()]
    gains = against(found)
    if len(found) > 1:
        shown += ["", costs_table(found)]
        shown += ["", gains_table(gains)] if gains else []
    shown += _failures(found)
    shown += ["", attempts_table(found)] if any(mode.endswith("multi-turn") for mode in found) else []
    result = {
        "modes": {
            mode: {
                "tiers": to_plain(shares[mode]),
                "mean": to_plain(mean_accuracy(shares[mode].values())),
                "coverage": coverage(shares[mode].values()),
                "note": notes.get(mode, ""),
                **measured.costs,
                "against": to_plain(gains[mode]) if mode in gains else None,
                "attempts": to_plain(attempts(measured)) if mode.endswith("multi-turn") else None,
            }
            for mode, measured in found.items()
        },
        "floors": to_plain(floors),
        "heuristics": to_plain(heuristics),
        "n": arguments.n,
    }
    return result, "\n".join(shown)


def _failures(found: Mapping[str, Measured]) -> list[str]:
    """A line for each mode in which prompts did not fit the model's context, and one where something failed."""
    lines = []
    for mode, measured in found.items():
        for counted, answers in (
            ("did not fit the model's context, which counts against it", measured.no_room),
            ("failed, and count for nothing", [each for each in measured.judged if each.failed]),
        ):
            if answers:
                first = f"{answers[0].problem.tier}: {answers[0].reason or answers[0].completion.error}"
                lines.append(printable(f"{mode}: {len(answers)} of {len(measured.judged)} {counted}; {first}"))
    return lines


def _model(arguments: argparse.Namespace, task: Task, preset: str, learned: ModelState | None) -> Sampler:
    """The model, without what it learned."""
    names = ("model", "device", "threads", "temperature", "max_tokens", "seed", "concurrency", "timeout")
    given = {name: getattr(arguments, name) for name in names}
    given |= shape_of(learned)
    model = find_model(with_recipe("gce", {"task": arguments.task, "preset": preset, **given}), task)
    if not isinstance(model, Sampler):
        raise BadInput(f"model {arguments.model} cannot be evaluated: it has no sample method")
    if learned is not None and not isinstance(model, Learner):
        raise BadInput(f"model {arguments.model} takes no adapter: leave out --adapter")
    return model


def restore(model: Any, learned: ModelState, where: Path, name: str) -> None:
    """Put what was learned on the model of this name; BadInput where it was made for another."""
    try:
        model.restore(learned)
    except (ValueError, GceError) as error:
        raise BadInput(f"{where} was made for another model than {name}: {error}") from error


def shape_of(learned: ModelState | None) -> dict[str, Any]:
    """The settings `rank` and `scale` of an adapter, where it says them."""
    found = {} if learned is None else learned.settings.get("adapter_config", {}).get("lora_parameters", {})
    return {name: found[name] for name in ("rank", "scale") if name in found}


def arrays_digest(state: ModelState) -> str:
    """SHA-256 over what was learned: names and arrays."""
    found = hashlib.sha256()
    for name, array in sorted(state.arrays.items()):
        found.update(name.encode())
        found.update(array.tobytes())
    return found.hexdigest()


def learned_from(directory: Path) -> ModelState:
    """What a checkpoint holds; where it lies in a run, as the run committed it."""
    try:
        if (found := run_of(directory)) is not None:
            return state_of_files(read_committed(*found)[1])
        names = ("adapters.safetensors", "optimizer.safetensors", "state.json")
        return state_of_files({name: read_input(directory / name, MOST_OF_A_CHECKPOINT) for name in names})
    except BadInput as error:
        raise BadInput(f"{error}: give a run's checkpoints/last") from error
    except GceError:
        raise
    except Exception as error:  # safetensors has errors of its own.
        raise BadInput(f"the checkpoint {directory} is damaged: {error}") from error
