"""`gce ablate`: runs that differ in one setting, over several seeds, and a table of what the difference does."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gce.app import train
from gce.app.config import with_recipe
from gce.app.study import STUDIES, Condition, Effect, Finished, effects, finished, settings_of
from gce.app.terminal import share_cell, table
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
  gce ablate --study algorithms --seeds 0,1,2        raft, raft++, grpo, reinforce-rej, weighted, at equal updates
  gce ablate --seeds 0 --conditions full,shuffled    some of them
  gce ablate --seeds 42,123,456 --table              what there is so far; runs nothing
"""
OWN = {"study", "dir", "seeds", "conditions", "table", "json", "command"}
DEFAULTS: Mapping[str, Any] = {"test": 100, "dev": 0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce ablate`."""
    listed = "\n".join(
        f"  {name:<17} {condition.what}" for study in STUDIES.values() for name, condition in study.items()
    )
    parser.description, parser.epilog = f"{DESCRIPTION}\nconditions:\n{listed}", EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--study", choices=tuple(STUDIES), default="ablations", help="which (default ablations)")
    parser.add_argument("--dir", type=Path, help="where the study is kept (default: studies/STUDY)")
    parser.add_argument("--seeds", default="42,123,456", metavar="K,...", help="default 42,123,456")
    parser.add_argument("--conditions", default="", metavar="NAME,...", help="only these (default: all)")
    parser.add_argument("--table", action="store_true", help="print what there is, and run nothing")
    parser.add_argument("--json", action="store_true", help="print the effects as JSON")
    train.add_settings(parser.add_argument_group("settings of every run (--test 100 and --dev 0 where not given)"))


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 when all conditions have all seeds, 1 where some are left."""
    study = STUDIES[arguments.study]
    chosen = [name for name in arguments.conditions.split(",") if name] or list(study)
    for name in chosen:
        if name not in study:
            raise BadInput(f"study {arguments.study} has no condition {name!r}: choose from {', '.join(study)}")
    try:
        seeds = [int(seed) for seed in arguments.seeds.split(",")]
    except ValueError:
        raise BadInput(f"expected --seeds like 42,123,456, got {arguments.seeds!r}") from None
    common = {**DEFAULTS, **{name: value for name, value in vars(arguments).items() if name not in OWN}}
    directory = arguments.dir or Path("studies") / arguments.study
    wanted = [(name, seed) for seed in seeds for name in chosen]
    if not arguments.table:
        _run_all(directory, study, wanted, common)
    runs = finished(directory, study)
    found = effects(runs, study)
    missing = [(name, seed) for name, seed in wanted if not (directory / name / f"seed-{seed}/summary.json").is_file()]
    if arguments.json:
        json.dump({"effects": to_plain(found), "missing": missing}, sys.stdout, indent=1)
        print()
    else:
        print(study_table(found, runs, study) if found else "no run is done yet")
        if missing:
            print(f"still to come: {', '.join(f'{name} seed {seed}' for name, seed in missing)}")
    return 1 if missing else 0


def _run_all(
    directory: Path, study: Mapping[str, Condition], wanted: Sequence[tuple[str, int]], common: Mapping[str, Any]
) -> None:
    for number, (name, seed) in enumerate(wanted, 1):
        place = directory / name / f"seed-{seed}"
        settings = settings_of(study[name], common, seed)
        if (place / "summary.json").is_file() or settings is None:
            continue
        print(f"[{number}/{len(wanted)}] {name}, seed {seed}: {study[name].what}", file=sys.stderr, flush=True)
        try:
            if (place / "run.sqlite").is_file():
                train.go_on(place, {}, before=False)
            else:
                train.start(place, with_recipe("gce", settings), before=False)
        except RunInUse as error:
            print(f"left to another process: {error}", file=sys.stderr)


def study_table(found: Sequence[Effect], runs: Sequence[Finished], study: Mapping[str, Condition]) -> str:
    """A row a condition, and in words which differences are told from nothing."""
    head = ["condition", "mean of tiers, %", "difference, points", "by seed", "p (Holm)", "updates", "right traces"]
    rows = []
    for effect in found:
        own = [each.summary for each in runs if each.condition == effect.condition]
        rows.append(
            [
                effect.condition,
                share_cell(effect.mean.value, effect.mean.low, effect.mean.high),
                _difference(effect),
                " ".join(f"{100 * value:+.1f}" for value in effect.by_seed) or "-",
                "-" if effect.adjusted is None else "< 0.001" if effect.adjusted < 0.001 else f"{effect.adjusted:.3f}",
                ", ".join(str(summary["updates"]) for summary in own),
                ", ".join(str(summary["correct_traces"]) for summary in own),
            ]
        )
    seeds = sorted({seed for effect in found for seed in effect.seeds})
    lines = [table(head, rows), "", f"seeds {', '.join(map(str, seeds))}; 95 % bootstrap intervals over test problems"]
    compared = [effect for effect in found if effect.difference is not None]
    unclear = [effect.condition for effect in compared if not effect.clear]
    if unclear:
        lines.append(f"not told from nothing: {', '.join(unclear)}")
    blocks = {name: _blocks(runs, name) for name in study if "layers" in name}
    lines += [f"{name}: arrays that moved lie in blocks {where}" for name, where in blocks.items() if where]
    return "\n".join(lines)


def _difference(effect: Effect) -> str:
    if effect.difference is None:
        return "-"
    found = effect.difference
    return f"{share_cell(found.value, found.low, found.high)} vs {effect.against}"


def _blocks(runs: Sequence[Finished], condition: str) -> str:
    """Which blocks moved, by seed."""
    found = []
    for each in runs:
        if each.condition == condition:
            blocks = {int(part) for name in each.summary["moved"] for part in name.split(".") if part.isdigit()}
            found.append(" ".join(map(str, sorted(blocks))))
    return "; ".join(found)
