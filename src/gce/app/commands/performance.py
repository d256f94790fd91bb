"""`gce performance`: tasks of making real code faster, and the agents that try them."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from typing import Any

from gce.app.options import PATH, Choice
from gce.app.performance.admitting import admit, counting, pins_of
from gce.app.performance.stage_actions import STAGE_EXAMPLES, STAGE_HELP, STAGES, add_stage_options, check_options
from gce.app.terminal import literally, note, put, put_json
from gce.app.wiring.performance import (
    cache_of_wheels,
    check_sources,
    fetch_wheel,
    find_measuring,
    find_tasks,
    has_wheel,
    tree_writer,
)
from gce.domain.performance.decision import MOST, Comparison, ratio_words
from gce.domain.performance.sources import faults_of, unfinished
from gce.domain.serialization import to_plain
from gce.domain.text import counted
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Tasks of making real code faster: a base, the human's faster form, a workload and tests. A task pins wheels of the
package index, or holds directories of sources; docs/howto/performance.md has the format.

steps:
  validate   read the files, and say what is wrong with them, or what is still to be written of a draft
  fetch      download the pinned wheels once, checked by their hashes; nothing else needs the network
  admit      measure whether a task can tell nothing from the human's work, and print why not
  doctor     check that a sandbox here sees the processor time of a known half second of work
{stages}"""
EXAMPLES = """\
examples:
  gce performance fetch                  the shipped tasks
  gce performance admit                  exit status 1 if a task is refused
  gce performance validate my-tasks      your own: a task's directory, or a directory of tasks
{stages}"""
STEPS = ("validate", "fetch", "admit", "doctor", *STAGES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce performance`."""
    parser.description = DESCRIPTION.format(stages=STAGE_HELP)
    parser.epilog = EXAMPLES.format(stages=STAGE_EXAMPLES)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("step", type=Choice(STEPS), choices=STEPS, metavar="STEP", help=", ".join(STEPS))
    parser.add_argument(
        "paths",
        type=PATH,
        nargs="*",
        metavar="PATH",
        help="tasks, or directories of tasks (default: the shipped ones); a run, a repository, or a file of records",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_stage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_options(arguments)
    if arguments.step in STAGES:
        return STAGES[arguments.step](arguments)
    if len(arguments.paths) > 1:
        raise BadInput(f"gce performance {arguments.step} takes one directory, got {len(arguments.paths)}")
    arguments.dir = arguments.paths[0] if arguments.paths else None
    return {"validate": _validate, "fetch": _fetch, "admit": _admit, "doctor": _doctor}[arguments.step](arguments)


def _validate(arguments: argparse.Namespace) -> int:
    found = [(task, unfinished(task)) for _, task in find_tasks(arguments.dir)]
    for task, missing in found:
        if not missing:
            check_sources(task)
    if arguments.json:
        put_json([to_plain(task) | ({"unfinished": missing} if missing else {}) for task, missing in found], indent=1)
    else:
        for task, missing in found:
            put(f"{task.name}: {'a draft; to be written:' if missing else 'valid'}", *(f"  {part}" for part in missing))
    _then(arguments, "fetch")
    if any(missing for _, missing in found):
        arguments.following = None
        return 1
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    cache = cache_of_wheels()
    found: dict[str, int] = {"downloaded": 0, "kept": 0}
    for _, task in find_tasks(arguments.dir):
        for pin in pins_of(task):
            if not has_wheel(pin, cache):
                note(f"{task.name}: downloading {pin.name} {pin.version}")
            found["downloaded" if fetch_wheel(pin, cache) else "kept"] += 1
    if arguments.json:
        put_json(found | {"path": str(cache)})
    else:
        put(f"{cache}: {counted(found['downloaded'], 'wheel')} downloaded, {found['kept']} there already")
    _then(arguments, "admit")
    return 0


def _admit(arguments: argparse.Namespace) -> int:
    tasks = find_tasks(arguments.dir)
    measuring = find_measuring(arguments.runner, [task for _, task in tasks])
    count = counting(arguments.instructions)
    refused = 0
    said: list[Any] = []
    for directory, task in tasks:
        found, reasons = None, faults_of(task)
        if not reasons:
            try:
                found = admit(
                    task,
                    tree_writer(directory),
                    measuring,
                    seed=arguments.seed,
                    on_round=partial(_progress, task.name),
                    count=count,
                )
                reasons = found.reasons
            except BadInput as error:
                reasons = (error.said(str),)
        refused += bool(reasons)
        shown = "" if found is None else f": human {_ratio(found.human)}, nothing {_ratio(found.same)}"
        if arguments.json:
            said.append({"task": task.name, "reasons": reasons, "measured": None if found is None else to_plain(found)})
            continue
        put(f"{task.name}: {'refused' if reasons else 'admitted'}{shown}", *(f"  {reason}" for reason in reasons))
    if arguments.json:
        put_json(said, indent=1)
    arguments.following = None
    return 1 if refused else 0


def _progress(task: str, name: str, rounds: int) -> None:
    """Note each tenth round of a comparison."""
    if rounds % 10 == 0:
        note(f"{task}: {name}, {rounds} of at most {MOST} rounds")


def _doctor(arguments: argparse.Namespace) -> int:
    tasks = [task for _, task in find_tasks(arguments.dir)] if arguments.dir else []
    image = next((task.image for task in tasks if task.image), "")
    timing = find_measuring(arguments.runner, tasks).check(image)
    if arguments.json:
        put_json(to_plain(timing))
    else:
        put(f"ready: 0.5 s of work in a child process was seen as {timing.seconds:.3f} s of processor time")
    _then(arguments, "admit")
    return 0


def _ratio(found: Comparison) -> str:
    """The verdict, or the gain with its interval, number of rounds, and gain in instructions."""
    fewer = "" if found.instructions is None else f", {found.instructions.gain:.3g} in instructions"
    return f"{ratio_words(found)}{fewer}"


def _then(arguments: argparse.Namespace, step: str) -> None:
    """Set the next command."""
    where = "" if arguments.dir is None else f" {shlex.quote(str(arguments.dir))}"
    arguments.following = literally(f"gce performance {step}{where}")
