"""`gce export-task`: a task as a directory that runs in another framework."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from gce.app.exports.tasks.exported import TaskExport
from gce.app.exports.tasks.table import EXPORTS
from gce.app.options import NAME, PATH, PROBLEMS_FROM_0, SEED, Choice
from gce.app.terminal import put, put_json
from gce.app.wiring.files import whole_folder
from gce.app.wiring.tasks import TASK_HELP, find_preset, find_task
from gce.domain.problems import Problem, Split
from gce.domain.tasks import ProblemSource
from gce.domain.tasks.task import Task
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Export a task as a directory that runs in another framework, with the same verdicts: problems of each split, and a
scorer that calls the task's own verifier. Using it requires gce without extras. The README in the directory says how
to run it. The directory must be new or empty; it is written completely or not at all.
"""
EXAMPLES = """\
examples:
  gce export-task scheduling --to trl --out scheduling-trl
  gce export-task sums:TASK --to trl --n 500 --out sums-trl
"""
FRAMEWORKS = Choice(tuple(EXPORTS))
N = 100
MOST_FOLDERS = 3
"""Folders whose files are named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce export-task`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("task", type=NAME, metavar="TASK", help=TASK_HELP)
    parser.add_argument("--to", type=FRAMEWORKS, choices=FRAMEWORKS.names, required=True, help="the framework")
    parser.add_argument("--out", type=PATH, required=True, metavar="DIR", help="directory to create")
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument(
        "--n", type=PROBLEMS_FROM_0, default=N, help=f"maximum problems per tier in each split (default {N})"
    )
    parser.add_argument("--seed", type=SEED, default=0, help="seed of the problems (default 0)")
    parser.add_argument("--json", action="store_true", help="print the files as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = find_task(arguments.task)
    preset = find_preset(task, arguments.preset or "")
    problems = _problems(task, preset, arguments.n, arguments.seed)
    exported = TaskExport(task, arguments.task, preset, arguments.seed, problems)
    files = EXPORTS[arguments.to](exported)
    with whole_folder(arguments.out) as folder:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    sizes = {split: len(each) for split, each in problems.items()}
    if arguments.json:
        put_json({"path": str(arguments.out), "framework": arguments.to, "problems": sizes, "files": sorted(files)})
        return 0
    put(f"{arguments.out}: {', '.join(f'{size:,} {split}' for split, size in sizes.items())} problems")
    put(*_named(files), f"how to run it: {arguments.out / 'README.md'}")
    return 0


def _named(files: Iterable[str]) -> list[str]:
    """The files, a line each; of many folders, as where each problem has one, only how many."""
    folders = sorted({name.partition("/")[0] for name in files if "/" in name})
    if len(folders) <= MOST_FOLDERS:
        return [f"  {name}" for name in sorted(files)]
    top = [f"  {name}" for name in sorted(files) if "/" not in name]
    return [*top, f"  {len(folders):,} folders, {folders[0]} to {folders[-1]}"]


def _problems(task: Task, preset: str, count: int, seed: int) -> dict[Split, tuple[Problem, ...]]:
    """Up to `count` problems of each tier by split; tiers that are held out have none for training."""
    source = ProblemSource(task)
    splits: tuple[Split, ...] = ("train", "dev", "test")
    found = {
        split: tuple(
            problem
            for tier in task.tiers(preset)
            if not (split == "train" and tier.held_out)
            for problem in source.first(preset, tier.name, split, count, seed=seed)
        )
        for split in splits
    }
    kept = {split: each for split, each in found.items() if each}
    if not kept:
        raise BadInput(
            f"task {task.name} has no problems in preset {preset} to export", hint="give {n} a number above 0"
        )
    return kept
