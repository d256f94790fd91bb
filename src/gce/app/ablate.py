"""`gce ablate`: runs that differ in one setting, over several seeds, and a table of what the difference does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from gce.adapters.output_files import check_apart
from gce.adapters.run_reader import RunReader
from gce.app import train
from gce.app.config import RunConfig, with_recipe
from gce.app.options import NAMES, PATH, SEEDS, Choice
from gce.app.resolve import find_preset, find_task
from gce.app.study import (
    STUDIES,
    Condition,
    Effect,
    Finished,
    check_common,
    check_stored,
    effect_rows,
    effects,
    finished,
    moved_blocks,
    settings_of,
    unclear,
)
from gce.app.terminal import put, put_json, table
from gce.domain.serialization import to_plain
from gce.errors import BadInput, RunInUse

__all__ = ["add_arguments", "run", "study_table"]

DESCRIPTION = """\
Run a study: conditions that differ from a reference in one setting, each with every seed, and a table of test accuracy
with differences paired by seed and problem. Every run is kept in DIR/CONDITION/seed-K and never run again, so a study
goes on where it stopped; several processes may work on one study at once. Options of gce train apply to all runs.
"""
EXAMPLES = """\
examples:
  gce ablate --seeds 42,123,456                      eleven conditions: what each part of the loop is worth
  gce ablate --study algorithms --seeds 0,1,2        raft, raft++, grpo, reinforce-rej, weighted
  gce ablate --seeds 0 --conditions full,shuffled    some of them
  gce ablate --seeds 42,123,456 --table              what there is so far; runs nothing
"""
OWN = {"study", "dir", "seeds", "conditions", "table", "json", "command"}
DATABASE, SUMMARY = "run.sqlite", "summary.json"
DEFAULTS: Mapping[str, Any] = {"test": 100, "dev": 0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--table", action="store_true", help="print what there is, and run nothing")
    parser.add_argument("--json", action="store_true", help="print the effects as JSON")
    train.add_settings(parser.add_argument_group("settings of every run (--test 100 and --dev 0 where not given)"))


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 when all conditions have all seeds, 1 where some are left."""
    study = STUDIES[arguments.study]
    chosen = arguments.conditions or tuple(study)
    for name in chosen:
        if name not in study:
            raise BadInput(f"study {arguments.study} has no condition {name!r}: choose from {', '.join(study)}")
    given = {name: value for name, value in vars(arguments).items() if name not in OWN}
    common = {**DEFAULTS, **given}
    check_common(common, study)
    directory = arguments.dir or Path("studies") / arguments.study
    check_apart(directory)
    wanted = []
    for name, seed in [(name, seed) for seed in arguments.seeds for name in chosen]:
        settings = settings_of(study[name], common, seed)
        if settings is None:
            put(f"left out: task {common.get('task')} has no variant for {name}", error=True)
        else:
            wanted.append((name, seed, _config(settings)))
    for name, seed, config in wanted:
        _check(directory / name / f"seed-{seed}", config)
    if not arguments.table:
        _run_all(directory, study, wanted)
    runs = finished(directory, study)
    found = effects(runs, study)
    missing = [(name, seed) for name, seed, _ in wanted if not (directory / name / f"seed-{seed}" / SUMMARY).is_file()]
    if arguments.json:
        put_json({"effects": to_plain(found), "missing": missing}, indent=1)
    else:
        put(*(study_table(found, runs, study).split("\n") if found else ["no run is done yet"]))
        if missing:
            put(f"still to come: {', '.join(f'{name} seed {seed}' for name, seed in missing)}")
    return 1 if missing else 0


def _config(settings: Mapping[str, Any]) -> RunConfig:
    config = with_recipe("gce", settings)
    if config.adapter:
        raise BadInput("the runs of a study begin with the base: leave out --adapter")
    return evolve(config, preset=find_preset(find_task(config.task), config.preset))


def _check(place: Path, config: RunConfig) -> None:
    if (place / DATABASE).is_file():
        with RunReader(place) as reader:
            check_stored(reader.config.get("settings", {}), to_plain(config), place)


def _run_all(directory: Path, study: Mapping[str, Condition], wanted: Sequence[tuple[str, int, RunConfig]]) -> None:
    for number, (name, seed, config) in enumerate(wanted, 1):
        place = directory / name / f"seed-{seed}"
        if (place / SUMMARY).is_file():
            continue
        put(f"[{number}/{len(wanted)}] {name}, seed {seed}: {study[name].what}", error=True)
        # Where minutes are limited, the test before tells how long the one at the end will take.
        before, begun = config.minutes is not None, (place / DATABASE).is_file()
        try:
            if begun:
                train.go_on(place, {"min_coverage": config.min_coverage}, before=before)
            else:
                train.start(place, config, before=before)
        except BadInput as error:
            if not isinstance(error, RunInUse) and (begun or not (place / DATABASE).is_file()):
                raise
            # Another process has it, or began it while this one was loading the model.
            put(f"left to another process: {error}", error=True)


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
