"""`gce train`: a small language model learns from its own verified answers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

from gce.app.options import FOLDS, ITERATION_NUMBER, PATH
from gce.app.parser import Parser
from gce.app.settings.command_line import add_settings, given_settings
from gce.app.settings.config_file import PRECEDENCE, add_config, settings_of, settings_toml
from gce.app.settings.records import TrainSettings
from gce.app.settings.values import flat_values, merged
from gce.app.studies.folds import cross_fit
from gce.app.tables import table
from gce.app.terminal import Terminal, is_verbose, note, put, put_json, put_result
from gce.app.training.dry_run import training_lines, work_of
from gce.app.training.run import Result, resume, train
from gce.app.wiring.runs import place_of
from gce.app.wiring.tasks import find_task
from gce.app.wiring.trackers import TRACK_HELP, TRACKER
from gce.domain.serialization import to_plain
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Train a model on its own answers that a verifier has found right (rejection sampling).

Each iteration draws fresh problems, samples K answers to each, judges them, keeps the right ones in a replay buffer
and takes optimizer steps on a LoRA adapter. Before and after, greedy accuracy is measured on test problems that were
never trained on, beside answers that ignore the problem and plain heuristics.
"""
EXAMPLES = f"""\
Where a setting is given in several places: {PRECEDENCE}.

examples:
  gce train                                     the default run: gce-tiny learns scheduling, 3 minutes on 2 cores
  gce train --dry-run                           what it would do, and about how long it would take
  gce train --print-config > run.toml           all settings as a file; gce train --config run.toml reads it
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
  gce train --track wandb                       send every iteration's numbers to a tracker as well
  gce train --algorithm grpo --kl 0.01          group-relative weights, clipped ratios, held near the base

A run directory holds run.sqlite (every rollout, verdict and iteration: open it with any SQL tool, also while the run
goes on), checkpoints/last (for mlx_lm.load(base, adapter_path=...)) and, at the end, summary.json.
"""


def add_arguments(parser: Parser) -> None:
    """The command line of `gce train`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--run-dir", type=PATH, help="where to keep the run (default: runs/TIME)")
    parser.add_argument("--resume", action="store_true", help="go on from the last wave of --run-dir")
    parser.add_argument(
        "--discard-after",
        type=ITERATION_NUMBER,
        metavar="N",
        help="with --resume: go back to iteration N, whose checkpoint must be kept, and lose what came after",
    )
    parser.add_argument(
        "--folds",
        type=FOLDS,
        metavar="K",
        help="train K times on a list of questions, each time without one fold that is then tested, and pool the "
        "results over all questions; the same command with --run-dir goes on after an interruption",
    )
    add_config(parser)
    parser.add_argument("--print-config", action="store_true", help="print all settings as TOML for --config, and end")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what the run would do and take, after a short try; write nothing"
    )
    parser.add_argument("--track", type=TRACKER, metavar="NAME", help=TRACK_HELP)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output")
    add_settings(parser)
    parser.common += ["--run-dir", "--resume", "--config", "--dry-run", "--json"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 0 when the run is complete."""
    if arguments.folds is not None:
        return _run_folds(arguments)
    if arguments.resume:
        result = _resumed(arguments)
    else:
        if arguments.discard_after is not None:
            raise BadInput("--discard-after needs --resume: which run is to go back?")
        settings, sources = settings_of(arguments)
        if arguments.print_config:
            put(*settings_toml(settings))
            arguments.following = None
            return 0
        if arguments.dry_run:
            return _dry_run(settings, sources, arguments)
        if is_verbose():
            note(*_differing(settings, sources))
        if arguments.run_dir is None:
            arguments.run_dir = _new_directory()
        watch = partial(Terminal, work=work_of(settings, find_task(settings.task)))
        kept = sources if arguments.config or arguments.set else None
        result = train(settings, run=arguments.run_dir, watch=watch, sources=kept, track=arguments.track)
    if arguments.json:
        put_json(result.summary, indent=1)
    else:
        put_result(*str(result).split("\n"))
    return 0


def _new_directory() -> Path:
    return Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")


def _run_folds(arguments: argparse.Namespace) -> int:
    """Run the command with `--folds`."""
    if arguments.resume or arguments.discard_after is not None:
        raise BadInput("--folds goes on by itself where --run-dir has some: leave out --resume and --discard-after")
    for name, given in (("--print-config", arguments.print_config), ("--dry-run", arguments.dry_run)):
        if given:
            raise BadInput(f"{name} is for one run: leave out --folds")
    settings, _sources = settings_of(arguments)
    found = cross_fit(settings, folds=arguments.folds, run=arguments.run_dir or _new_directory())
    arguments.following = None
    if arguments.json:
        put_json(to_plain(found), indent=1)
    else:
        put_result(*str(found).split("\n"))
    return 0


def _resumed(arguments: argparse.Namespace) -> Result:
    if arguments.run_dir is None:
        raise BadInput("--resume needs --run-dir: which run is to go on?")
    for name, given in (("--config", arguments.config), ("--print-config", arguments.print_config)):
        if given:
            raise BadInput(f"{name} is for a new run: a resumed run keeps its settings")
    if arguments.dry_run:
        raise BadInput("--dry-run is for a new run: leave out --resume")
    changes = merged(dict(arguments.set), given_settings(arguments))
    watch = partial(Terminal, resumed=True)
    how = {"discard_after": arguments.discard_after, "watch": watch, "track": arguments.track}
    return resume(arguments.run_dir, changes, **how)


def _dry_run(settings: TrainSettings, sources: Mapping[str, str], arguments: argparse.Namespace) -> int:
    if arguments.run_dir is not None:
        runs, name = place_of(arguments.run_dir)
        runs.check_free(name)
    lines = training_lines(settings)
    if arguments.json:
        differing = {name: flat_values(settings)[name] for name in sources}
        put_json({"settings": to_plain(differing), "sources": dict(sources), "estimate": lines}, indent=1)
    else:
        put(*_differing(settings, sources), *lines, "dry run: nothing was written")
    arguments.following = None
    return 0


def _differing(settings: TrainSettings, sources: Mapping[str, str]) -> list[str]:
    """The settings that are not the defaults', with where they come from."""
    values = flat_values(settings)
    if not sources:
        return ["settings: the defaults"]
    rows = [(name, str(values[name]), source) for name, source in sources.items()]
    return [*table(("setting", "value", "from"), rows, words=True).split("\n"), ""]
