"""`gce evaluate`: greedy accuracy of a model, with or without an adapter, by tier with intervals."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gce.adapters.checkpoint_files import state_of_files
from gce.app.audit import best_of, reference_rows
from gce.app.config import with_recipe
from gce.app.evaluation import Judged, accuracy, answer_record, ask, pass_at
from gce.app.resolve import find_model, find_preset, find_task, find_tiers
from gce.app.terminal import Terminal, accuracy_table, share_cell, table
from gce.domain.serialization import to_plain
from gce.domain.statistics import mean_of_tiers
from gce.domain.tasks import Task, draw_problems
from gce.domain.types import ModelState, Problem
from gce.errors import BadInput, GceError
from gce.ports.model import Learner, Sampler

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Measure a model on problems of every tier: greedy decoding, 95 % Wilson intervals, beside the best blind answer and
plain heuristics on the same problems.
"""
EXAMPLES = """\
examples:
  gce evaluate                                       the shipped model as it comes
  gce evaluate --adapter runs/1/checkpoints/last     after training
  gce evaluate --model ./my-model --preset paper --n 100 --json
  gce evaluate --samples 64 --temperature 0.8        pass@1, pass@8 and pass@64: what there is to be found
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce evaluate`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--task", default="scheduling", help="a task's name, or module:ATTR")
    parser.add_argument("--preset", default="", help="set of tiers (default: the task's first)")
    parser.add_argument("--model", default="gce-tiny", help="gce-tiny, a directory, a hub name, or module:FACTORY")
    parser.add_argument("--adapter", type=Path, help="a run's checkpoints/last, what it learned")
    parser.add_argument("--tiers", nargs="*", default=[], metavar="TIER", help="only these (default: all)")
    parser.add_argument("--split", choices=("test", "dev"), default="test", help="tune on dev, report on test")
    parser.add_argument("--n", type=int, default=200, help="problems a tier (default 200)")
    parser.add_argument(
        "--samples", type=int, default=1, help="answers to each problem: shows pass@k (with --temperature)"
    )
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (default)")
    parser.add_argument("--max-tokens", type=int, help="generated tokens at most (default: the task's)")
    parser.add_argument("--seed", type=int, default=0, help="of sampling, where the temperature is not 0")
    parser.add_argument("--device", choices=("cpu",), help="force the CPU")
    parser.add_argument("--threads", type=int, help="of CPU work (default: one for each core)")
    parser.add_argument("--answers", type=Path, help="write answers and verdicts to this file, a JSON object a line")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.n < 1 or arguments.samples < 1:
        raise BadInput(f"--n and --samples must be at least 1, got {arguments.n} and {arguments.samples}")
    if arguments.samples > 1 and arguments.temperature == 0.0:
        raise BadInput("--samples above 1 needs --temperature above 0: greedy answers to one problem are all the same")
    task = find_task(arguments.task)
    preset = find_preset(task, arguments.preset)
    tiers = find_tiers(task, preset, arguments.tiers)
    if arguments.answers is not None and not arguments.answers.parent.is_dir():
        raise BadInput(f"cannot write {arguments.answers}: {arguments.answers.parent} is no directory")
    model = _model(arguments, task, preset)
    problems = [
        problem for tier in tiers for problem in draw_problems(task, preset, tier, arguments.split, arguments.n)
    ]
    advance = Terminal().stage("evaluate", len(problems) * arguments.samples)
    answers = ask(
        model,
        task,
        problems,
        seed=arguments.seed,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        samples=arguments.samples,
        on_answer=advance,
    )
    if arguments.answers is not None:
        _write_answers(arguments.answers, answers)
    result, shown = _shares(arguments, task, preset, problems, answers)
    if arguments.json:
        json.dump(result, sys.stdout, indent=1)
        print()
    else:
        print(f"{task.name}/{preset}, {arguments.split} problems, % right (95 % interval), n = {arguments.n} a tier")
        print(shown)
    return 0


def _shares(
    arguments: argparse.Namespace, task: Task, preset: str, problems: Sequence[Problem], answers: Sequence[Judged]
) -> tuple[dict[str, Any], str]:
    """The result for programs and for people: accuracy beside reference rows, or pass@k where samples are several."""
    tiers = list(dict.fromkeys(problem.tier for problem in problems))
    if arguments.samples > 1:
        passed = pass_at(answers)
        rows = [[name, *(share_cell(e.value, e.low, e.high) for e in row.values())] for name, row in passed.items()]
        result = {"pass_at": to_plain(passed), "samples": arguments.samples, "temperature": arguments.temperature}
        return result | {"n": arguments.n}, table(["", *tiers], rows)
    found = accuracy(answers)
    floors, heuristics = reference_rows(task, preset, problems, fitted_to=100)
    held_out = [tier.name for tier in task.tiers(preset) if tier.held_out]
    result = {"tiers": to_plain(found), "mean": to_plain(mean_of_tiers(found.values())), "floors": to_plain(floors)}
    shown = {arguments.model: found, "best blind answer": best_of(floors), **heuristics}
    return result | {"heuristics": to_plain(heuristics), "n": arguments.n}, accuracy_table(shown, tiers, held_out)


def _model(arguments: argparse.Namespace, task: Task, preset: str) -> Sampler:
    """The model, with what it learned where --adapter says."""
    names = ("model", "device", "threads", "temperature", "max_tokens", "seed")
    given = {name: getattr(arguments, name) for name in names}
    learned = None if arguments.adapter is None else _learned(arguments.adapter)
    shape = {} if learned is None else learned.settings.get("adapter_config", {}).get("lora_parameters", {})
    given |= {name: shape[name] for name in ("rank", "scale") if name in shape}
    model = find_model(with_recipe("gce", {"task": arguments.task, "preset": preset, **given}), task)
    if not isinstance(model, Sampler):
        raise BadInput(f"model {arguments.model} cannot be evaluated: it has no sample method")
    if learned is None:
        return model
    if not isinstance(model, Learner):
        raise BadInput(f"model {arguments.model} takes no adapter: leave out --adapter")
    try:
        model.restore(learned)
    except (ValueError, GceError) as error:
        raise BadInput(f"{arguments.adapter} was made for another model than {arguments.model}: {error}") from error
    return model


def _learned(directory: Path) -> ModelState:
    """What a checkpoint holds."""
    try:
        names = ("adapters.safetensors", "optimizer.safetensors", "state.json")
        return state_of_files({name: (directory / name).read_bytes() for name in names})
    except GceError:
        raise
    except OSError as error:
        raise BadInput(f"cannot read {error.filename}: {error.strerror}: give a run's checkpoints/last") from error
    except Exception as error:  # safetensors has errors of its own.
        raise BadInput(f"the checkpoint {directory} is damaged: {error}") from error


def _write_answers(path: Path, answers: Sequence[Judged]) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            for answer in answers:
                print(json.dumps(answer_record(answer)), file=file)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from error
