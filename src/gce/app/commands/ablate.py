"""`gce ablate`: runs that differ in one setting, over several seeds, and a table of what the difference does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from gce.app.options import NAMES, RUN, SEEDS, THREADS, Choice
from gce.app.parser import Parser
from gce.app.settings.command_line import add_settings, given_settings
from gce.app.settings.records import ExecutorSettings
from gce.app.studies.conditions import STUDIES, Condition
from gce.app.studies.running import plan_runs, run_all
from gce.app.studies.study import (
    INTERVALS_IN_WORDS,
    Effect,
    Finished,
    effect_rows,
    effects,
    finished,
    graded,
    moved_blocks,
    unclear,
)
from gce.app.tables.layout import table
from gce.app.terminal import note, put, put_json
from gce.app.wiring.executors import RAY, executor_of, find_executor
from gce.app.wiring.runs import runs_of
from gce.domain.serialization import to_plain

__all__ = ["add_arguments", "run", "study_table"]

DESCRIPTION = """\
Run an ablation study: train each condition with every seed, and compare test accuracy with that of the reference
condition, paired by seed and problem. Each condition differs from its reference in one setting. Finished runs are kept
in DIR/CONDITION/seed-K and never repeated, so the same command continues an interrupted study; several processes may
work on one study at once. Settings of gce train apply to all runs; the defaults here are --test 100 and --dev 0.
With --executor ray, each worker of a cluster trains one run at a time, in a directory that all machines share.
"""
EXAMPLES = """\
examples:
  gce ablate --seeds 42,123,456                      thirteen conditions, each without one part of the loop
  gce ablate --study algorithms --seeds 0,1,2        raft, raft++, grpo, reinforce-rej, weighted
  gce ablate --seeds 0 --conditions full,shuffled    only these two
  gce ablate --seeds 42,123,456 --table              the table of the finished runs; runs nothing
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
        help="study to run (default ablations)",
    )
    parser.add_argument("--dir", type=RUN, help="directory of the study (default: studies/STUDY)")
    parser.add_argument(
        "--seeds", type=SEEDS, default=(42, 123, 456), metavar="K,...", help="seeds of the runs (default 42,123,456)"
    )
    parser.add_argument(
        "--conditions", type=NAMES, default=(), metavar="NAME,...", help="conditions to run (default: all)"
    )
    parser.add_argument(
        "--processes", type=THREADS, default=1, help="runs trained in parallel, each in its own process (default 1)"
    )
    parser.add_argument("--table", action="store_true", help="print the table of the finished runs, and run nothing")
    parser.add_argument("--json", action="store_true", help="print the effects as JSON")
    add_settings(parser, without=("recipe", "seed"))
    parser.common += ["--study", "--dir", "--seeds", "--conditions", "--processes", "--table", "--json"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 when all conditions have all seeds, 1 where some are left."""
    study = STUDIES[arguments.study]
    name = arguments.dir or f"studies/{arguments.study}"
    given = given_settings(arguments)
    common = {**DEFAULTS, **given}
    where = _taken(common) if common.get("executor.kind") == RAY else None
    check = bool(given) or not arguments.table
    wanted = plan_runs(arguments.study, name, arguments.seeds, arguments.conditions, common, check=check)
    if not arguments.table:
        executor = executor_of(where, say=note, show_output=True) if where else find_executor(arguments.processes)
        assert executor is not None
        run_all(wanted, executor)
        if where:  # A run may have been skipped because its dying worker still held it.
            run_all(wanted, executor)
    runs = finished(runs_of(name), name, study)
    found, rewarded = effects(runs, study), effects(graded(runs), study)
    missing = [(run.condition, run.seed) for run in wanted if not run.done]
    if arguments.json:
        rewards = {"reward_effects": to_plain(rewarded)} if rewarded else {}
        put_json({"effects": to_plain(found), **rewards, "missing": missing}, indent=1)
    else:
        put(*(study_table(found, runs, study).split("\n") if found else ["no run has finished yet"]))
        if rewarded:
            put("", "mean rewards in place of accuracy:", *table(*effect_rows(rewarded, runs)).split("\n"))
            put(*_not_significant(rewarded))
        if missing:
            put(f"not finished: {', '.join(f'{name} seed {seed}' for name, seed in missing)}")
    return 1 if missing else 0


def _taken(common: dict[str, Any]) -> ExecutorSettings:
    """Take where the runs are trained out of the settings of the runs."""
    names = [name for name in common if name.startswith("executor.") and name != "executor.runner"]
    return ExecutorSettings(**{name.partition(".")[2]: common.pop(name) for name in names})


def study_table(found: Sequence[Effect], runs: Sequence[Finished], study: Mapping[str, Condition]) -> str:
    """A row a condition, and in words which differences are not significant."""
    head, rows = effect_rows(found, runs)
    seeds = sorted({seed for effect in found for seed in effect.seeds})
    lines = [table(head, rows), "", f"seeds {', '.join(map(str, seeds))}; {INTERVALS_IN_WORDS}"]
    lines += _not_significant(found)
    blocks = {name: moved_blocks(runs, name) for name in study if "layers" in name}
    counts = {each.summary["updates"] for each in runs}
    if len(counts) > 1:
        lines.append(
            f"updates differ between runs, from {min(counts)} to {max(counts)}: runs with fewer traces take fewer steps"
        )
    lines += [f"{name}: the trained arrays are in blocks {where}" for name, where in blocks.items() if where]
    return "\n".join(lines)


def _not_significant(found: Sequence[Effect]) -> list[str]:
    names = ", ".join(unclear(found))
    needed = "this needs p < 0.05 and the same sign for all seeds"
    return [f"not statistically significant ({needed}): {names}"] if names else []
