"""`gce import`: runs of other programs as configurations of gce, with what their results can tell."""  # noqa: N999 - as the command is called.

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gce.app.options import PATH, Choice
from gce.app.settings.config_file import settings_toml
from gce.app.settings.values import settings_from
from gce.app.tables.cells import interval_cell
from gce.app.tables.layout import table
from gce.app.terminal import put, put_json
from gce.app.wiring.files import whole_folder
from gce.app.wiring.formats import IMPORTS, ImportedRun, write_rows
from gce.domain.serialization import to_plain
from gce.domain.statistics import wilson
from gce.errors import BadInput, SettingError

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Read the results of another program's training runs, print their accuracy by tier with the interval that their number of
test problems allows, and write for each run a TOML file with which gce train repeats it on fresh problems, and all
figures as iterations.csv. Results of isopro hold no answers, so that nothing can be judged again; the paired
statistics, prompt-blind baselines and controls of gce come with the repeated run.
"""
EXAMPLES = """\
examples:
  gce import isopro data/scheduling_experiment_qwen --out imported
  gce train --config imported/experiment.toml --run-dir runs/repeated
"""
FORMATS = Choice(tuple(IMPORTS))
ROUNDING = 0.002
"""Shares are stored with three or four decimals."""
COLUMNS = {"run": str, "moment": str, "tier": str, "accuracy": float, "buffer": int, "loss": float, "seconds": float}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce import`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("program", type=FORMATS, choices=FORMATS.names, help="the program that made them")
    parser.add_argument("results", type=PATH, metavar="DIR", help="directory of results, or one file")
    parser.add_argument("--out", type=PATH, required=True, metavar="DIR", help="directory to create")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    found = IMPORTS[arguments.program](arguments.results)
    configurations = {f"{each.name}.toml": _configuration(each) for each in found if each.task == "scheduling"}
    with whole_folder(arguments.out) as folder:
        for name, text in configurations.items():
            (folder / name).write_text(text, encoding="utf-8")
        with open(folder / "iterations.csv", "wb") as file:
            write_rows("csv", COLUMNS, (row for each in found for row in _rows(each)), file)
    arguments.following = _next(arguments.out, configurations)
    if arguments.json:
        put_json([to_plain(each) for each in found])
        return 0
    for each in found:
        put(*_lines(each), "")
    put(f"{arguments.out}: {', '.join([*configurations, 'iterations.csv'])}")
    return 0


def _next(out: Path, configurations: Mapping[str, str]) -> str | None:
    return f"gce train --config {out / next(iter(configurations))} --dry-run" if configurations else None


def _configuration(imported: ImportedRun) -> str:
    """The settings of a run as TOML; what could not be taken over as comments."""
    try:
        lines = settings_toml(settings_from(imported.settings))
    except SettingError as error:
        raise BadInput(f"{imported.name}: {error}") from error
    lost = [f"# not taken over: {_one_line(each)}" for each in imported.lost]
    return "\n".join([*lost, *lines]) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _rows(imported: ImportedRun) -> Iterator[dict[str, Any]]:
    blank = dict.fromkeys(COLUMNS)
    for moment, accuracy in (("before", imported.before), ("after", imported.after)):
        for tier, share in accuracy.items():
            yield {**blank, "run": imported.name, "moment": moment, "tier": tier, "accuracy": share}
    for each in imported.iterations:
        same = {"run": imported.name, "moment": f"iteration {each.number}", "loss": each.loss, "seconds": each.seconds}
        for tier in sorted({*each.accuracy, *each.buffer}) or [""]:
            yield {**blank, **same, "tier": tier, "accuracy": each.accuracy.get(tier), "buffer": each.buffer.get(tier)}


def _lines(imported: ImportedRun) -> Iterator[str]:
    model, seed = (imported.settings.get(name, "unknown") for name in ("model.name", "seed"))
    yield f"{imported.name}: {imported.task}, {model}, seed {seed}, {len(imported.iterations)} iterations"
    if imported.before and imported.after:
        tiers = list(imported.before)
        rows = [(name, *_cells(imported, shares, tiers)) for name, shares in _moments(imported)]
        yield from table(["accuracy, %", *tiers, "mean"], rows).split("\n")
        stored = "as stored" if imported.tested_is_stored else "by the default of its scripts: the file does not say"
        yield f"n = {imported.tested} per tier, {imported.problems_tested('T4')} in T4, {stored}; Wilson intervals"
    else:
        yield "no test before and after: shares of its iterations are in iterations.csv"
    yield from (f"not taken over: {_one_line(each)}" for each in imported.lost)
    if imported.task != "scheduling":
        yield f"no configuration: gce has no task with the problems of {_one_line(imported.task)}"


def _moments(imported: ImportedRun) -> tuple[tuple[str, Mapping[str, float]], ...]:
    return ("before", imported.before), ("after", imported.after)


def _cells(imported: ImportedRun, shares: Mapping[str, float], tiers: list[str]) -> Iterator[str]:
    for tier in tiers:
        yield _cell(shares[tier], imported.problems_tested(tier)) if tier in shares else ""
    yield f"{100 * sum(shares.values()) / len(shares):.1f}"


def _cell(share: float, n: int) -> str:
    """A share with its interval; without one where so many problems cannot have given it."""
    right = round(share * n)
    fits = abs(right - share * n) < ROUNDING * n
    return interval_cell(wilson(right, n), digits=0) if fits else f"{100 * share:.0f} (n is another)"
