"""Run the panel on a set of verifiers and print its error rates: `python -m attacks.panel tuning`.

See `attacks.panel` for what a set is. Exit status 0 where at least 26 of 30 bugs are found and at most 2 of 50 sound
verifiers accused, in these proportions; 1 otherwise.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import frozen

from gce.app.own_tasks import task as own_task
from gce.app.wiring.elsewhere import judged
from gce.domain.measurements import Interval
from gce.domain.statistics import interval
from gce.domain.tasks import Task
from gce.errors import GceError
from gce.testing.verifiers.bench import clipped
from gce.testing.verifiers.check import TaskReport, check_task

__all__ = ["Row", "error_rate", "run", "task_of"]

MODULES = ("bugs", "sound")
FOUND = 26 / 30
ACCUSED = 2 / 50


@frozen
class Row:
    """What the panel said of one verifier."""

    module: str
    name: str
    report: TaskReport | str
    """The report, or why `gce.task` refuses the verifier at once, which counts as a finding."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return isinstance(self.report, TaskReport) and self.report.ok

    @property
    def is_error(self) -> bool:
        """A bug that was missed, or a sound verifier that was accused."""
        return self.is_clean == (self.module == "bugs")

    def __str__(self) -> str:
        said = self.report if isinstance(self.report, str) else "nothing was found"
        if isinstance(self.report, TaskReport) and self.report.findings:
            found = self.report.findings[0]
            checks = ", ".join(self.report.found)
            said = f"{checks}; {found.severity}: {found.check}, {found.kind}: {clipped(found.response)}"
        verdict = {
            ("bugs", False): "found",
            ("bugs", True): "MISSED",
            ("sound", True): "clean",
            ("sound", False): "ACCUSED",
        }
        return f"{verdict[self.module, self.is_clean]:<8} {self.name:<28} {said}"


def task_of(chosen: str, module: str, name: str) -> Task:
    """One verifier of a set as a task."""
    given = importlib.import_module(f"attacks.panel.{chosen}.{module}").VERIFIERS[name]
    return given if isinstance(given, Task) else own_task(*given, name="".join(c for c in name if c not in "/@:"))


def run(chosen: str, module: str, *, only: frozenset[str] = frozenset(), fresh: bool = True) -> Iterator[Row]:
    """Attack the verifiers of a module of a set; without `fresh`, in this process alone."""
    table = importlib.import_module(f"attacks.panel.{chosen}.{module}")
    judges: Mapping[str, Any] = getattr(table, "ACCEPTS", {})
    keepers: dict[int, subprocess.Popen[str]] = {}
    for name in table.VERIFIERS:
        if only and name not in only:
            continue
        try:
            task = task_of(chosen, module, name)
        except GceError as error:
            yield Row(module, name, str(error))
            continue
        report = check_task(
            task,
            responses=500,
            accepts=judges.get(name),
            unique=name in getattr(table, "UNIQUE", ()),
            elsewhere=partial(_elsewhere, keepers, chosen, module, name) if fresh else None,
        )
        yield Row(module, name, report)
    for keeper in keepers.values():
        keeper.communicate()


def _elsewhere(
    keepers: dict[int, subprocess.Popen[str]],
    chosen: str,
    module: str,
    name: str,
    asked: Sequence[tuple[str, str]],
    hash_seed: int,
) -> Sequence[Sequence[tuple[str, float | None]]] | str:
    """See `Elsewhere`: a keeper with this hash seed, started once, forks a process for each verifier."""
    if hash_seed not in keepers:
        keepers[hash_seed] = subprocess.Popen(
            [sys.executable, "-m", "attacks.panel", chosen, "--keep"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        )
    keeper = keepers[hash_seed]
    assert keeper.stdin is not None and keeper.stdout is not None
    print(json.dumps([module, name, asked]), file=keeper.stdin, flush=True)
    line = keeper.stdout.readline()
    return [[(status, score) for status, score in each] for each in json.loads(line)] if line.strip() else "it ended"


def keep(chosen: str) -> None:
    """Judge each verifier that a line of standard input names in a process of its own; a line of JSON for each."""
    for module in MODULES:
        importlib.import_module(f"attacks.panel.{chosen}.{module}")
    for line in sys.stdin:
        module, name, asked = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            with os.fdopen(writing, "w") as pipe:
                json.dump(judged(task_of(chosen, module, name), asked), pipe)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            found = pipe.read()
        os.waitpid(child, 0)
        print(found, flush=True)


def error_rate(rows: list[Row]) -> Interval:
    """The share of errors, with its interval of Clopper and Pearson."""
    return interval(sum(row.is_error for row in rows), len(rows), method="clopper-pearson")


def main() -> int:
    """Run both modules of a set, or be a keeper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", help="name of a package in attacks/panel, as tuning")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these verifiers alone")
    parser.add_argument("--full", action="store_true", help="print the whole report of each verifier")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.keep:
        keep(arguments.set)
        return 0
    rates: dict[str, Interval] = {}
    shown = []
    for module in MODULES:
        rows = []
        for row in run(arguments.set, module, only=frozenset(arguments.only)):
            rows.append(row)
            shown.append(
                {
                    "module": module,
                    "name": row.name,
                    "error": row.is_error,
                    "found": row.report if isinstance(row.report, str) else dict(row.report.found),
                }
            )
            if not arguments.json:
                print(row, *([str(row.report)] if arguments.full else []), sep="\n", flush=True)
        rates[module] = error_rate(rows)
    bugs, sound = rates["bugs"], rates["sound"]
    if arguments.json:
        print(json.dumps({"missed": [bugs.correct, bugs.n], "accused": [sound.correct, sound.n], "rows": shown}))
    else:
        print(
            f"found {bugs.n - bugs.correct} of {bugs.n} bugs: {_percent(1 - bugs.high)}-{_percent(1 - bugs.low)} %; "
            f"accused {sound.correct} of {sound.n} sound verifiers: "
            f"{_percent(sound.low)}-{_percent(sound.high)} % (95 %)"
        )
    return int(bugs.correct > (1 - FOUND) * bugs.n + 1e-9 or sound.correct > ACCUSED * sound.n + 1e-9)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


if __name__ == "__main__":
    sys.exit(main())
