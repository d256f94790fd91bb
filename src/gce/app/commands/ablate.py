"""`gce ablate`: runs that differ in one setting, over several seeds, and a table of what the difference does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gce.app.options import NAMES, PATH, SEEDS, THREADS, Choice
from gce.app.parser import Parser
from gce.app.settings.command_line import add_settings, given_settings
from gce.app.studies.conditions import STUDIES, Condition
from gce.app.studies.running import plan_runs, run_all
from gce.app.studies.study import Effect, Finished, effect_rows, effects, finished, moved_blocks, unclear
from gce.app.tables import table
from gce.app.terminal import put, put_json
from gce.app.wiring.executors import find_executor
from gce.app.wiring.runs import runs_of
from gce.domain.serialization import to_plain

__all__ = ["add_arguments", "run", "study_table"]

DESCRIPTION = """\
Run a study: conditions that differ from a reference in one setting, each with every seed, and a table of test accuracy
with differences paired by seed and problem. Every run is kept in DIR/CONDITION/seed-K and never run again, so a study
goes on where it stopped; several processes may work on one study at once. Settings of gce train apply to all runs, with
--test 100 and --dev 0 where these are not given.
"""
EXAMPLES = """\
examples:
  gce ablate --seeds 42,123,456                      eleven conditions: what each part of the loop is worth
  gce ablate --study algorithms --seeds 0,1,2        raft, raft++, grpo, reinforce-rej, weighted
  gce ablate --seeds 0 --conditions full,shuffled    some of them
  gce ablate --seeds 42,123,456 --table              what there is so far; runs nothing
"""
DEFAULTS: Mapping[str, Any] = {"evaluation.test": 100, "evaluation.dev": 0}


def add_arguments(parser: Parser) -> None:
    """The command line of `gce ablate`."""
    listed = "\n".join(
        f"  {name:<17} {condition.what}" for study in STUDIES.values() for name, condition in study.items()
    )
    parser.description, parser.epilog = f"{DESCRIPTION}\nconditions:\n{listed}", EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--study",
        type=Choice(tuple(STUDIES)),
        choices=tuple(STUDIES),
        default="ablations",
        help="which (default ablations)",
    )
    parser.add_argument("--dir", type=PATH, help="where the study is kept (default: studies/STUDY)")
    parser.add_argument("--seeds", type=SEEDS, default=(42, 123, 456), metavar="K,...", help="default 42,123,456")
    parser.add_argument("--conditions", type=NAMES, default=(), metavar="NAME,...", help="only these (default: all)")
    parser.add_argument("--processes", type=THREADS, default=1, help="runs at a time, each in a process (default 1)")
    parser.add_argument("--table", action="store_true", help="print what there is, and run nothing")
    parser.add_argument("--json", action="store_true", help="print the effects as JSON")
    add_settings(parser, without=("recipe", "seed"))
    parser.common += ["--study", "--dir", "--seeds", "--conditions", "--processes", "--table", "--json"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 when all conditions have all seeds, 1 where some are left."""
    study = STUDIES[arguments.study]
    directory = arguments.dir or Path("studies") / arguments.study
    wanted = plan_runs(
        arguments.study, directory, arguments.seeds, arguments.conditions, {**DEFAULTS, **given_settings(arguments)}
    )
    if not arguments.table:
        run_all(wanted, find_executor(arguments.processes))
    runs = finished(runs_of(directory), str(directory), study)
    found = effects(runs, study)
    missing = [(run.condition, run.seed) for run in wanted if not run.done]
    if arguments.json:
        put_json({"effects": to_plain(found), "missing": missing}, indent=1)
    else:
        put(*(study_table(found, runs, study).split("\n") if found else ["no run is done yet"]))
        if missing:
            put(f"still to come: {', '.join(f'{name} seed {seed}' for name, seed in missing)}")
    return 1 if missing else 0


def study_table(found: Sequence[Effect], runs: Sequence[Finished], study: Mapping[str, Condition]) -> str:
    """A row a condition, and in words which differences are told from nothing."""
    head, rows = effect_rows(found, runs)
    seeds = sorted({seed for effect in found for seed in effect.seeds})
    lines = [table(head, rows), "", f"seeds {', '.join(map(str, seeds))}; 95 % bootstrap intervals over test problems"]
    if names := unclear(found):
        lines.append(f"not told from nothing, by p below 0.05 and all seeds on one side: {', '.join(names)}")
    blocks = {name: moved_blocks(runs, name) for name in study if "layers" in name}
    counts = {each.summary["updates"] for each in runs}
    if len(counts) > 1:
        lines.append(
            f"updates differ, from {min(counts)} to {max(counts)}: where few traces were found, fewer were taken"
        )
    lines += [f"{name}: arrays that moved lie in blocks {where}" for name, where in blocks.items() if where]
    return "\n".join(lines)
