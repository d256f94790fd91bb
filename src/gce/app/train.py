"""`gce train`: a small language model learns from its own verified answers.

Also `python -m gce.app.train`. Reads the configuration, picks adapters, runs the loop, prints and writes the result.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from gce.adapters.clocks import SystemClock
from gce.adapters.exact_solver import ExactSolver
from gce.adapters.process import peak_bytes
from gce.adapters.run_directory import RunDirectory, check_free
from gce.adapters.run_reader import RunReader
from gce.app.audit import best_of, check_references, reference_rows
from gce.app.config import RECIPES, RunConfig, from_plain, kind_of, with_recipe
from gce.app.evaluate import arrays_digest, learned_from, restore, shape_of
from gce.app.evaluation import COVERAGE_HELP, RESUME, accuracy, answer_record, ask, check_answers, stored_shares
from gce.app.examples import EXAMPLES_DRAWN, Worked, digests_of, texts_digest, worked_beside_training
from gce.app.loop import Run, RunState, iterate, resume, why_stop
from gce.app.models import MODEL_HELP, find_model
from gce.app.options import ITERATION_NUMBER, NAME, PATH, SEED, Choice
from gce.app.resolve import TASK_HELP, file_digest, find_preset, find_task, same_file, say_if_many
from gce.app.runners import RUNNER_HELP
from gce.app.terminal import Terminal, accuracy_rows, count_words, put_json, rollout_rows, table
from gce.domain.advantages import ALGORITHMS
from gce.domain.diagnosis import falls
from gce.domain.randomness import key
from gce.domain.serialization import from_plain as record_from_plain
from gce.domain.serialization import to_plain
from gce.domain.targeting import choose_layers
from gce.domain.tasks import Task, draw_problem, draw_problems
from gce.domain.types import Interval, IterationRecord, ModelState, Problem, Split
from gce.errors import BadInput
from gce.ports.model import Learner, Probe, Sampler

__all__ = ["add_arguments", "add_settings", "go_on", "main", "run", "start"]

FITTED_TO = 100
"""Training problems a tier to which fixed blind answers are fitted in a run; `gce audit` takes 500."""
PROBE_PROMPTS = 4
"""Task prompts a tier on which activations are probed."""
STOP_RULES = frozenset({"iterations", "until", "minutes", "patience", "min_coverage"})
VERSIONED = (
    *("gce", "gguf", "mlx", "mlx-lm", "numpy", "ortools", "peft", "scipy-openblas32", "torch", "transformers"),
)

DESCRIPTION = """\
Train a model on its own answers that a verifier has found right (rejection sampling).

Each iteration draws fresh problems, samples K answers to each, judges them, keeps the right ones in a replay buffer
and takes optimizer steps on a LoRA adapter. Before and after, greedy accuracy is measured on test problems that were
never trained on, beside answers that ignore the problem and plain heuristics.
"""
EXAMPLES = """\
examples:
  gce train                                     the default run: gce-tiny learns scheduling, 3 minutes on 2 cores
  gce train --iterations 2 --test 20 --dev 0    a first look, about a minute
  gce train --preset paper --seed 42            the reference's problems
  gce train --recipe isopro                     the reference's settings
  gce train --model ./my-model --run-dir out    any model that mlx-lm loads
  gce train --task my_tasks:ARITHMETIC          a task of your own (see examples/)
  gce train --run-dir out --resume              go on after an interruption
  gce train --run-dir out --resume --discard-after 3
                                                go back to iteration 3, where what came after is damaged (the
                                                checkpoints of the last two and of the best iteration are kept)
  gce train --until 0.9 --minutes 20            stop when it is good, or when time is up
  gce train --admission reasoned                learn from right answers whose steps are all true
  gce train --admission shuffled                a control: which answers count as right is drawn by lot
  gce train --model smollm2 --bootstrap few-shot --shots 6 --temperature 0.4 --ladder
                                                a weak model's start: worked examples, and problems of two jobs
  gce train --model smollm2 --task scheduling-brief --preset paper --warm-up 200 --shots 64
                                                another one: it learns up to 128 worked examples a tier, then samples
  gce train --algorithm grpo --kl 0.01          group-relative weights, clipped ratios, held near the base

A run directory holds run.sqlite (every rollout, verdict and iteration: open it with any SQL tool, also while the run
goes on), checkpoints/last (for mlx_lm.load(base, adapter_path=...)) and, at the end, summary.json.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce train`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--recipe",
        type=NAME,
        default=argparse.SUPPRESS,
        help=f"settings by name: {', '.join(RECIPES)} (default gce)",
    )
    parser.add_argument(
        "--seed", type=SEED, default=argparse.SUPPRESS, help="of problems, rollouts, batches and adapter"
    )
    add_settings(parser)
    parser.add_argument("--run-dir", type=PATH, help="where to keep the run (default: runs/TIME)")
    parser.add_argument("--resume", action="store_true", help="go on from the last wave of --run-dir")
    parser.add_argument(
        "--discard-after",
        type=ITERATION_NUMBER,
        metavar="N",
        help="with --resume: go back to iteration N, whose checkpoint must be kept, and lose what came after",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output")


def add_settings(parser: Any) -> None:
    """An option for each setting of a run but its recipe and seed; its default is that of `RunConfig`."""
    default = RunConfig()

    def option(flag: str, text: str, **more: Any) -> None:
        name = flag.removeprefix("--").replace("-", "_")
        kind, shown = kind_of(name), getattr(default, name)
        if isinstance(kind, Choice):
            more["choices"] = kind.names
        suffix = "" if shown in (None, "", ()) else f" (default {shown})"
        parser.add_argument(flag, type=kind, default=argparse.SUPPRESS, help=text + suffix, **more)

    def switch(flag: str, text: str) -> None:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)

    option("--task", TASK_HELP, metavar="NAME")
    option("--preset", "set of tiers; of scheduling: grounded (default), paper, larger, paper-larger")
    option("--model", MODEL_HELP)
    option("--iterations", "rounds of sampling and learning, at most, after any warm-up")
    option("--until", "stop at this mean accuracy on dev problems, as 0.9")
    option("--minutes", "let the run, its final test included, take about this long at most")
    option("--patience", "stop after so many looks at dev problems without a gain")
    option("--min-coverage", COVERAGE_HELP)
    option("--problems", "problems an iteration")
    option("--rollouts", "samples of each problem")
    option("--temperature", "of sampling")
    option("--max-tokens", "generated tokens at most (default: the task's)")
    option("--pool", "revisit a fixed set of this many problems a tier (default: fresh ones each time)")
    option("--sampling", "who gets rollouts: adaptive or uniform")
    option("--second-wave", "further rollouts an iteration for undecided problems")
    option(
        "--admission",
        "who enters the buffer: verified answers, those of them whose written steps are all true (reasoned), or all or "
        "shuffled (controls)",
    )
    switch("--drop-solved", "refuse traces of problems whose rollouts were all right")
    option("--per-problem", "traces kept of one problem at most")
    option("--weighting", "how tiers share a batch")
    option("--updates", "optimizer steps an iteration")
    option("--reuse", "passes over the buffer that an iteration may make at most")
    option("--algorithm", "how rollouts become weights in the loss")
    option("--clip", "how far importance ratios may go from 1; not in raft and weighted")
    option("--kl", "weight of the divergence from the base, which needs no second model")
    option("--negative", "in weighted: minus this is the weight of a wrong rollout")
    switch("--restart", "learn from the base again in every iteration, with updates for each so far")
    option("--batch", "traces in one step")
    option("--learning-rate", "of AdamW")
    option("--rank", "of the adapter")
    option("--bootstrap", "few-shot: show worked examples until a tier gets on alone")
    option("--adapter", "begin with this checkpoint of an earlier run, its blocks and rank; to --resume, keep it")
    option("--warm-up", "optimizer steps on worked examples, before the first rollouts; each 60 are an iteration")
    option("--warm-up-also", "further presets whose worked examples it learns", metavar="PRESET,PRESET")
    option("--warm-up-rate", "learning rate at its beginning, on the way to --learning-rate (default: that)")
    option("--shots", "worked examples that are shown; up to twice as many a tier to draw from, or to warm up on")
    option("--examples", "who worked them out; a solver is an oracle")
    switch("--ladder", "start below the preset's tiers, and go to the next tier once a tenth is right")
    option("--layers", "blocks that are adapted")
    option("--targeting", "which blocks")
    option("--dev", "dev problems a tier, looked at during the run; 0 for none")
    option("--dev-every", "iterations between two looks")
    option("--test", "test problems a tier, before and after; 0 for none")
    option("--device", "force the CPU")
    option("--threads", "of CPU work (default: one for each core)")
    option("--runner", RUNNER_HELP)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 0 when the run is complete."""
    others = ("run_dir", "resume", "discard_after", "json", "command")
    given = {name: value for name, value in vars(arguments).items() if name not in others}
    if arguments.resume:
        if arguments.run_dir is None:
            raise BadInput("--resume needs --run-dir: which run is to go on?")
        summary = go_on(arguments.run_dir, given, discard_after=arguments.discard_after)
    else:
        if arguments.discard_after is not None:
            raise BadInput("--discard-after needs --resume: which run is to go back?")
        directory = arguments.run_dir or Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")
        summary = start(directory, with_recipe(given.pop("recipe", "gce"), given))
    if arguments.json:
        put_json(summary, indent=1)
    return 0


def start(directory: Path, config: RunConfig, *, before: bool = True) -> dict[str, Any]:
    """A new run from beginning to end; returns its summary. `before` says whether the base's test is taken too."""
    check_free(directory)
    task = find_task(config.task, config.runner)
    config = evolve(config, preset=find_preset(task, config.preset))
    _check_tiers(config, task)
    _check_variants(config)
    say_if_many({"--test": config.test, "--dev": config.dev, "--pool": config.pool})
    learned = learned_from(Path(config.adapter)) if config.adapter else None
    try:
        config = evolve(config, **shape_of(learned))
    except (TypeError, ValueError) as error:
        raise BadInput(f"the checkpoint {config.adapter} is damaged: {error}") from error
    worked = _worked(config, task)
    _check_pool(config, task, worked)
    model = _checked_model(config, task)
    if learned is None:
        layers = _place_adapter(config, task, model)
    else:
        restore(model, learned, Path(config.adapter), config.model)
        layers = tuple(getattr(model, "layers", ()))
    stored = {"settings": to_plain(config), "layers": list(layers), "versions": _versions(), "policy": _policy(model)}
    if learned is not None:
        stored["adapter"] = arrays_digest(learned)
    if digest := file_digest(config.task):
        stored["problems"] = digest
    if worked:
        stored["examples"] = texts_digest(worked)
    with RunDirectory.create(directory, stored) as store:
        return _finished(config, task, model, store, worked, before=before)


def go_on(
    directory: Path, given: Mapping[str, Any], *, before: bool = True, discard_after: int | None = None
) -> dict[str, Any]:
    """A run's rest, from its last commit on, or from an earlier iteration; `given` may say when to stop."""
    # Nothing is lost for a command that is refused. What is to be discarded may be damaged: `open` checks the rest.
    with RunReader(directory, verify=discard_after is None) as run:
        config, task, worked, model = _again(run, given)
    with RunDirectory.open(directory, discard_after=discard_after) as store:
        return _finished(config, task, model, store, worked, before=before)


def _again(run: RunReader, given: Mapping[str, Any]) -> tuple[RunConfig, Task, Examples, Any]:
    """What the run began with, its model too; BadInput where it is not the same any more."""
    config = _settings_again(run, given)
    task = find_task(config.task, config.runner)
    same_file(config.task, run.config.get("problems", ""))
    worked = _worked(config, task)
    # Runs of the versions before did not keep it.
    if "examples" in run.config and texts_digest(worked) != run.config["examples"]:
        raise BadInput("the task's worked examples are not those that the run began with: start a new run")
    learned = learned_from(Path(config.adapter)) if config.adapter else None
    if learned is not None and arrays_digest(learned) != run.config["adapter"]:
        raise BadInput(f"{config.adapter} is not the adapter that the run began with: put that one back")
    model = _checked_model(config, task)
    if learned is not None:
        restore(model, learned, Path(config.adapter), config.model)
    elif run.config["layers"]:
        model.attach(run.config["layers"])
    # Runs of the versions before did not keep it.
    if run.config.get("policy", _policy(model)) != _policy(model):
        raise BadInput(f"{config.model} is not the model that the run began with: its weights are others")
    return config, task, worked, model


def _policy(model: Any) -> str:
    """What names base and adapter by their contents, where the model has it."""
    return str(getattr(model, "policy", ""))


Examples = Mapping[str, tuple[Worked, ...]]


def _finished(
    config: RunConfig, task: Task, model: Any, store: RunDirectory, worked: Examples, *, before: bool
) -> dict[str, Any]:
    summary = _train(config, task, model, store, SystemClock(), worked, before=before)
    store.write_summary(summary)
    return summary


def _settings_again(store: RunReader, given: Mapping[str, Any]) -> RunConfig:
    """The settings that the run was started with; only when to stop may be another."""
    others = sorted(set(given) - STOP_RULES)
    if others:
        flags = ", ".join("--" + name.replace("_", "-") for name in others)
        raise BadInput(f"a resumed run keeps its settings: leave out {flags}")
    if not {"settings", "layers"} <= set(store.config):
        raise BadInput(f"expected a run that gce train made in {store.path}, got another program's")
    return from_plain({**store.config["settings"], **given})


def _checked_model(config: RunConfig, task: Task) -> Any:
    model = find_model(config, task)
    if not isinstance(model, Sampler):
        raise BadInput(f"model {config.model} cannot be trained: it does not sample")
    if not isinstance(model, Learner):
        raise BadInput(f"model {config.model} cannot be trained, only evaluated: it does not learn (see gce models)")
    return model


def _check_tiers(config: RunConfig, task: Task) -> None:
    if config.admission == "reasoned" and not task.has_steps:
        raise BadInput(f"task {task.name} cannot check written steps: --admission reasoned needs a task that can")
    training = task.training_tiers(config.preset, ladder=config.ladder)
    if not training:
        raise BadInput(f"task {task.name} has no training problems in preset {config.preset}: evaluate models on it")
    if config.ladder and training == task.training_tiers(config.preset):
        raise BadInput(f"preset {config.preset} of task {task.name} has no rungs below its tiers: leave out --ladder")
    unknown = sorted(set(config.problems_by_tier or ()) - set(training))
    if unknown:
        raise BadInput(f"recipe {config.recipe} samples tiers that {task.name} has not: {', '.join(unknown)}")
    if config.problems < len(training):
        raise BadInput(f"expected --problems from {len(training)}, one for each training tier, got {config.problems}")


def _check_variants(config: RunConfig) -> None:
    """Variants that would quietly do nothing, or something else."""
    if config.admission == "all" and (config.drop_solved or config.algorithm not in ("raft", "raft++")):
        raise BadInput("--admission all takes every answer for right: it needs --algorithm raft, without --drop-solved")
    if config.ladder and config.problems_by_tier:
        raise BadInput(f"recipe {config.recipe} says how many problems each tier gets: --ladder needs --problems")
    if config.bootstrap != "none" and config.admission not in ("verified", "reasoned"):
        raise BadInput("--bootstrap asks the verdicts when examples are no longer needed: leave out --admission")
    if config.bootstrap != "none" and config.rollouts < 2:
        raise BadInput("--bootstrap needs --rollouts from 2: one with examples, one without")
    if not config.warm_up and (config.warm_up_also or config.warm_up_rate):
        raise BadInput("--warm-up-also and --warm-up-rate say how to warm up: give --warm-up, the number of its steps")
    if config.adapter and config.restart:
        raise BadInput("--restart goes back to the base in every iteration, to before any --adapter: leave out one")
    if config.warm_up and config.restart:
        raise BadInput("--restart goes back to the base in every iteration, to before any --warm-up: leave out one")
    if ALGORITHMS[config.algorithm].weigh is not None:
        default = RunConfig()
        if config.bootstrap != "none":
            raise BadInput(
                f"{config.algorithm} needs to know how likely each rollout was, and those with worked examples were "
                "sampled from another prompt: use --algorithm raft"
            )
        for name in ("restart", "drop_solved", "per_problem", "deduplicate", "accumulate"):
            if getattr(config, name) != getattr(default, name):
                raise BadInput(
                    f"{name} is about the replay buffer, and {config.algorithm} learns from each iteration's own "
                    "rollouts: use --algorithm raft"
                )


def _place_adapter(config: RunConfig, task: Task, model: Any) -> tuple[int, ...]:
    """Choose the blocks by probing real task prompts, or as asked; a model without blocks keeps what it has."""
    if not isinstance(model, Probe) or not hasattr(model, "attach"):
        return ()
    prompts = [
        problem.prompt
        for tier in task.training_tiers(config.preset)
        for problem in draw_problems(task, config.preset, tier, "train", PROBE_PROMPTS, seed=key(config.seed, "probe"))
    ]
    activations = model.activation_statistics(prompts)
    count = min(config.layers, len(activations))
    try:
        layers = choose_layers(activations, count, strategy=config.targeting, key=key(config.seed, "layers"))
    except ValueError as error:
        raise BadInput(str(error)) from error
    model.attach(layers)
    return layers


def _problems(config: RunConfig, task: Task, split: Split, count: int) -> tuple[Problem, ...]:
    """Evaluation problems: of every tier, the same for every run, whatever its seed."""
    return tuple(
        problem
        for tier in task.tiers(config.preset)
        for problem in draw_problems(task, config.preset, tier.name, split, count)
    )


def _train(
    config: RunConfig,
    task: Task,
    model: Any,
    store: RunDirectory,
    clock: SystemClock,
    worked: Examples,
    *,
    before: bool,
) -> dict[str, Any]:
    began = clock.now()
    terminal = Terminal(config.last_iteration)
    tiers = [tier.name for tier in task.tiers(config.preset)]
    terminal.say(f"{config.model} on {task.name}/{config.preset}, seed {config.seed}, run {store.path}")
    if getattr(model, "note", ""):
        terminal.say(f"{config.model}: {model.note}")
    if hasattr(model, "trainable_parameters"):
        terminal.say(
            f"adapter on blocks {', '.join(map(str, model.layers))}: {model.trainable_parameters:,} parameters, "
            f"{100 * model.trainable_parameters / model.total_parameters:.1f}% of {model.total_parameters:,}"
        )
    test = _problems(config, task, "test", config.test)
    earlier = sum(sum(record["seconds"].values()) for record in store.read("iterations"))
    measured = next(store.read("evaluations"), None)
    if measured is None:
        measured = next((held["evaluation"] for held in store.held() if "evaluation" in held), None)
        if measured is None:
            shares = _measured(config, task, model, test if before else (), "before", terminal, store)
            measured = {"moment": "before", "tiers": to_plain(shares), "seconds": clock.now() - began}
            if not any(share.failed for share in shares.values()):
                store.hold({"evaluation": measured})
            earlier -= measured["seconds"]
        store.append("evaluations", measured)
    first, measuring = stored_shares(measured["tiers"]), measured["seconds"]
    earlier += measuring
    untrained = model.state()
    # The test at the end takes about as long as the one before.
    limit = None if config.minutes is None else 60 * config.minutes - 2 * measuring
    loop = Run(
        config,
        task,
        model,
        store,
        clock,
        terminal,
        _problems(config, task, "dev", config.dev),
        untrained,
        limit,
        worked,
    )
    try:
        state = resume(loop)
    except ValueError as error:
        raise BadInput(f"{config.model} is not the model that the run began with: {error}") from error
    _keep_best(store, state)
    for next_state, _ in iterate(loop, state):
        state = next_state
        _keep_best(store, state)
    stopped = why_stop(loop, state)
    after = _measured(config, task, model, test, "after", terminal, store)
    floors, heuristics = reference_rows(task, config.preset, test, fitted_to=FITTED_TO) if test else ({}, {})
    references = [share for rows in (floors, heuristics) for row in rows.values() for share in row.values()]
    check_references(references, config.min_coverage)
    records = [record_from_plain(IterationRecord, record) for record in store.read("iterations")]
    summary = _summary(config, task, model, state, first, after, floors, heuristics)
    summary |= {"stopped": stopped, "falls": to_plain(falls(records)), "moved": _moved(untrained, model.state())}
    summary |= {"updates": sum(record.updates for record in records)}
    summary["seconds"] = round(earlier + clock.now() - began, 1)
    rows = {**({"before": first} if first else {}), "after": after, "best blind answer": best_of(floors), **heuristics}
    terminal.say("", "Training rollouts; problems all wrong or all right teach nothing; distinct counts right traces.")
    terminal.say(*table(*rollout_rows(records)).split("\n"))
    _print_result(terminal, tiers, summary, rows)
    return summary


def _worked(config: RunConfig, task: Task) -> Examples:
    """The examples that the run starts with; none where it is to start without.

    By tier; those of further presets, which are there for the warm-up alone, by PRESET/TIER.
    """
    if config.bootstrap == "none" and not config.warm_up:
        return {}
    solve = ExactSolver(SystemClock()).solve if config.examples == "solver" else None
    count = EXAMPLES_DRAWN * config.shots
    tiers = task.training_tiers(config.preset, ladder=config.ladder)
    found = worked_beside_training(task, config.preset, tiers, count, solve=solve)
    for preset in (find_preset(task, name) for name in config.warm_up_also):
        if preset == config.preset:
            raise BadInput(f"--warm-up-also names further presets, and {preset} is the run's own: leave it out")
        others = worked_beside_training(task, preset, task.training_tiers(preset), count, solve=solve)
        found |= {f"{preset}/{tier}": examples for tier, examples in others.items()}
    return found


def _check_pool(config: RunConfig, task: Task, worked: Examples) -> None:
    """Before the first rollouts could find out that there is nothing to draw."""
    examples = digests_of(worked)
    for tier in task.training_tiers(config.preset, ladder=config.ladder) if config.pool else ():
        drawn = (draw_problem(task, config.preset, tier, "train", k, seed=config.seed) for k in range(config.pool or 0))
        if all(problem.digest in examples for problem in drawn):
            raise BadInput(f"all problems of {tier} are worked examples: take fewer --shots or more of --pool")


def _keep_best(store: RunDirectory, state: RunState) -> None:
    """Keep the checkpoint of the best iteration so far, and of no other one, beside the newest."""
    best = None if state.best is None else state.best[0]
    if best in store.checkpoints:
        for iteration in store.checkpoints:
            store.unpin(iteration)
        store.pin(best)


def _measured(
    config: RunConfig,
    task: Task,
    model: Any,
    problems: Sequence[Problem],
    moment: str,
    terminal: Terminal,
    store: RunDirectory,
) -> dict[str, Interval]:
    """Greedy accuracy on test problems by tier, its answers kept; LowCoverage where too many failed."""
    advance = terminal.stage(f"test {moment}", len(problems))
    answers = ask(model, task, problems, seed=config.seed, max_tokens=config.max_tokens, on_answer=advance)
    if problems:
        store.write_answers(f"test-{moment}", map(answer_record, answers))
    check_answers(f"test problems {moment} training", answers, config.min_coverage, or_else=RESUME)
    return accuracy(answers)


def _moved(start: ModelState, end: ModelState) -> list[str]:
    """The adapter's arrays that are not what they were."""
    return [
        name.removeprefix("adapter.")
        for name, array in end.arrays.items()
        if name.startswith("adapter.") and not np.array_equal(array, start.arrays[name])
    ]


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    for package in VERSIONED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _summary(
    config: RunConfig,
    task: Task,
    model: Any,
    state: RunState,
    before: Mapping[str, Interval],
    after: Mapping[str, Interval],
    floors: Mapping[str, Mapping[str, Interval]],
    heuristics: Mapping[str, Mapping[str, Interval]],
) -> dict[str, Any]:
    """What `summary.json` holds; its fields are documented in docs/summary.md."""
    trainable = getattr(model, "trainable_parameters", 0)
    training = task.training_tiers(config.preset, ladder=config.ladder)
    return {
        "format": 1,
        "seconds": 0.0,
        "before": to_plain(before),
        "after": to_plain(after),
        "floors": to_plain(floors),
        "heuristics": to_plain(heuristics),
        "first_correct": {tier: state.first_correct.get(tier) for tier in training},
        "iterations": state.iteration,
        "best": None if state.best is None else {"iteration": state.best[0], "dev": state.best[1]},
        "rollouts": state.rollouts,
        "failed_rollouts": state.failed,
        "correct_traces": state.correct,
        "buffer": len(state.buffer),
        "trainable_parameters": trainable,
        "trainable_share": trainable / model.total_parameters if trainable else 0.0,
        "adapted_modules": list(getattr(model, "adapted_modules", ())),
        "policy": _policy(model),
        "peak_bytes": peak_bytes(),
        "config": to_plain(config),
        "seeds": {"run": config.seed, "evaluation_problems": 0},
        "versions": _versions(),
    }


def _print_result(
    terminal: Terminal, tiers: Sequence[str], summary: Mapping[str, Any], rows: Mapping[str, Any]
) -> None:
    """The table at the end: before and after beside blind answers and heuristics, on the same test problems."""
    terminal.say("")
    if rows["after"]:
        n = count_words(
            {tier: found.n + found.failed for tier, found in rows["after"].items()}, summary["config"]["test"]
        )
        terminal.say(f"Greedy accuracy on test problems, % (95 % Wilson interval), {n}")
        held_out = [tier for tier in tiers if tier not in summary["first_correct"]]
        terminal.say(*table(*accuracy_rows(rows, tiers, held_out)).split("\n"))
    if summary["falls"]:
        fell = [
            f"{tier} {100 * (fall['best'] - fall['last']):.0f} points (iteration {fall['iteration']})"
            for tier, fall in summary["falls"].items()
        ]
        terminal.say(f"on dev problems the end is below the best of {', '.join(fell)}")
    best = summary["best"]
    if best:
        terminal.say(f"best on dev problems: iteration {best['iteration']}, mean {100 * best['dev']:.1f} %")
    terminal.say(f"stopped after iteration {summary['iterations']}: {summary['stopped']}")
    terminal.say(
        f"{summary['rollouts']:,} rollouts, {summary['correct_traces']:,} correct, {summary['buffer']:,} in the "
        f"buffer, {summary['updates']} updates; peak memory {summary['peak_bytes'] / 2**20:,.0f} MiB; "
        f"{summary['seconds']:,.0f} s"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m gce.app.train`: the same as `gce train`."""
    from gce.app.cli import main as cli

    return cli(["train", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
