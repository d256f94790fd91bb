"""`gce train`: a small language model learns from its own verified answers."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

from gce.app.options import ITERATION_NUMBER, PATH
from gce.app.settings.command_line import add_settings, given_settings
from gce.app.settings.values import settings_from
from gce.app.terminal import Terminal, put_json
from gce.app.training.run import resume, train
from gce.app.wiring.trackers import TRACK_HELP, TRACKER
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

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
  gce train --track wandb                       send every iteration's numbers to a tracker as well
  gce train --algorithm grpo --kl 0.01          group-relative weights, clipped ratios, held near the base

A run directory holds run.sqlite (every rollout, verdict and iteration: open it with any SQL tool, also while the run
goes on), checkpoints/last (for mlx_lm.load(base, adapter_path=...)) and, at the end, summary.json.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--track", type=TRACKER, metavar="NAME", help=TRACK_HELP)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output")
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 0 when the run is complete."""
    given = given_settings(arguments)
    if arguments.resume:
        if arguments.run_dir is None:
            raise BadInput("--resume needs --run-dir: which run is to go on?")
        result = resume(
            arguments.run_dir,
            given,
            discard_after=arguments.discard_after,
            watch=Terminal,
            track=arguments.track,
        )
    else:
        if arguments.discard_after is not None:
            raise BadInput("--discard-after needs --resume: which run is to go back?")
        directory = arguments.run_dir or Path("runs") / datetime.now().strftime("%Y%m%d-%H%M%S")
        result = train(settings_from(given), run=directory, watch=Terminal, track=arguments.track)
    if arguments.json:
        put_json(result.summary, indent=1)
    return 0
