"""The audit of all environments of a framework: several processes side by side, with bounds, in one file.

Each record is written as soon as it is there. A second call with the same folder goes on where the first one ended. An
environment that exceeds its bound, or whose process ends, is a record, too, with the reason; one that the bound of all
ended is none, and is audited by the next call.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM
from threading import Event
from typing import Any

from attrs import evolve, frozen

from gce.app.evaluation.environment_audit import EnvironmentAudit, Request, judges_of
from gce.app.options import choices
from gce.app.wiring.environments import AUDITED, names_in
from gce.app.wiring.system import run_bounded, write_file
from gce.domain.serialization import from_plain, to_plain
from gce.errors import BadInput, one_line
from gce.testing.verifiers.severity import SEVERITIES

__all__ = ["AUDIT_FILE", "EnvironmentAudits", "audit_environments", "gravest", "read_audits"]

AUDIT_FILE = "audit.json"
FORMAT = 1
MODULE = "gce.app.evaluation.environment_audit"
MEMORY = 8 * 2**30
MOST_OUTPUT = 2**25
MOST_COMPLAINT = 2_000
CUT = "at the bound of all"
"""Why an environment has no record yet."""


@frozen
class EnvironmentAudits:
    """All records of a framework, by name."""

    framework: str
    version: str
    """Of the framework's package."""
    gce: str
    """Version."""
    seed: int
    named: tuple[str, ...]
    """All that were to be audited."""
    audits: tuple[EnvironmentAudit, ...] = ()
    minutes: float = 0.0
    """Wall-clock time, over all calls."""

    def left(self, judged: Collection[str] = (), seconds: float = 0.0) -> list[str]:
        """Those without a record, or of `judged` without a judge, or that exceeded a bound below `seconds`."""
        done = {
            each.name
            for each in self.audits
            if (each.judged or each.name not in judged or each.status != "audited")
            and not (each.status == "time" and each.seconds + 1.0 < seconds)
        }
        return [name for name in self.named if name not in done]

    @property
    def plain(self) -> dict[str, Any]:
        """Plain data, as the file holds it."""
        return {"audits_format": FORMAT, **to_plain(self)}


def gravest(audit: EnvironmentAudit) -> int:
    """The place of the gravest finding among `SEVERITIES`; behind all of them where there is none."""
    return min((SEVERITIES.index(each.severity) for each in audit.findings), default=len(SEVERITIES))


def read_audits(folder: Path) -> EnvironmentAudits | None:
    """What a folder holds; None where it holds nothing.

    Raises:
        BadInput: the file is none of these.
    """
    path = folder / AUDIT_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.pop("audits_format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        return from_plain(EnvironmentAudits, found)
    except FileNotFoundError:
        return None
    except Exception as error:
        raise BadInput(
            f"{path} is no file of gce audit-environments: {one_line(error)}", hint="choose another {out}"
        ) from error


def audit_environments(
    framework: str,
    folder: Path,
    *,
    only: Sequence[str] = (),
    minutes: float = 30.0,
    minutes_each: float = 3.0,
    judges: str = "",
    seed: int = 0,
    jobs: int = 2,
    say: Callable[[str], None] = lambda _said: None,
) -> EnvironmentAudits:
    """Audit the environments of a framework that the folder has no record of.

    Those that have got a second judge since, and those that exceeded a lower bound than this call's, are audited again.

    Args:
        framework: a name in `AUDITED`.
        folder: where the file is, or will be.
        only: names of environments; all where there is none.
        minutes: wall-clock time for all of this call.
        minutes_each: wall-clock time for one environment.
        judges: module:ATTR of a mapping from names to second judges, functions (row, response) -> bool.
        seed: of problems and responses.
        jobs: environments that are audited at a time.
        say: told of each that is done.

    Raises:
        BadInput: a name is unknown, or the folder holds an audit of something else.
        MissingExtra: the framework is not installed.
    """
    began, stop = time.monotonic(), Event()
    if framework not in AUDITED:
        raise BadInput(f"no framework {framework!r}: expected {choices([*AUDITED], framework)}")
    names = names_in(framework)
    if unknown := [name for name in only if name not in names]:
        raise BadInput(f"{framework} has no environment {unknown[0]!r}: expected {choices(names, unknown[0])}")
    before = read_audits(folder)
    versions = (importlib.metadata.version(AUDITED[framework].package), importlib.metadata.version("grounded-eval"))
    found = EnvironmentAudits(framework, *versions, seed, tuple(only or names))
    if before is not None:
        kept = evolve(found, named=before.named, audits=before.audits, minutes=before.minutes)
        if kept != before:
            raise BadInput(
                f"{folder / AUDIT_FILE} is an audit of {_identity(before)}, not {_identity(found)}",
                hint="choose another {out}",
            )
        found = evolve(kept, named=tuple(dict.fromkeys((*before.named, *found.named))))
    folder.mkdir(parents=True, exist_ok=True)
    asked = [name for name in found.left(judges_of(judges), 60 * minutes_each) if name in (only or names)]
    with ThreadPoolExecutor(jobs) as pool:
        one = partial(_audited, stop=stop, deadline=began + 60 * minutes, seconds=60 * minutes_each)
        futures = [pool.submit(one, Request(framework, name, judges, seed)) for name in asked]
        try:
            for future in as_completed(futures):
                audit = future.result()
                if audit.reason == CUT:
                    continue
                others = [each for each in found.audits if each.name != audit.name]
                audits = sorted([*others, audit], key=lambda each: each.name)
                spent = (before.minutes if before else 0.0) + (time.monotonic() - began) / 60
                found = evolve(found, audits=tuple(audits), minutes=round(spent, 2))
                write_file(folder / AUDIT_FILE, json.dumps(found.plain, indent=1).encode("ascii"))
                say(f"{len(found.audits)} of {len(found.named)}: {_said(audit)}")
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return found


def _identity(audits: EnvironmentAudits) -> str:
    return f"{audits.framework} {audits.version} with gce {audits.gce}, seed {audits.seed}"


def _said(audit: EnvironmentAudit) -> str:
    if audit.status != "audited":
        return f"{audit.name}: {audit.status}: {audit.reason}"
    levels = [each.severity for each in audit.findings]
    counts = ", ".join(f"{levels.count(level)} {level}" for level in SEVERITIES if level in levels)
    return f"{audit.name}: {counts or 'nothing found'} ({audit.seconds:.0f} s)"


def _audited(request: Request, *, stop: Event, deadline: float, seconds: float) -> EnvironmentAudit:
    """Audit one environment in a process of its own."""
    left = deadline - time.monotonic()
    if left <= 0 or stop.is_set():
        return EnvironmentAudit(request.name, "time", CUT)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ended = run_bounded(
        [sys.executable, "-m", MODULE],
        seconds=min(seconds, left),
        memory=MEMORY,
        most_output=MOST_OUTPUT,
        most_complaint=MOST_COMPLAINT,
        given=json.dumps(to_plain(request)).encode("ascii"),
        environment={**os.environ, "PYTHONPATH": path},
        stop=stop,
    )
    complaint = ended.complaint.decode("utf-8", "replace").strip().splitlines() or [""]
    stage = next((line[7:] for line in reversed(complaint) if line.startswith("stage: ")), "starting")
    made = EnvironmentAudit(request.name, "time", CUT, round(ended.seconds, 1))
    if ended.exceeded == "time":
        is_own = seconds <= left and not stop.is_set()
        return evolve(made, reason=f"it took more than {seconds:.0f} s, in: {stage}") if is_own else made
    if ended.status in (-SIGTERM, -SIGINT):  # Somebody ended it, and not the environment.
        return made
    if ended.exceeded or ended.status:
        how = f"more than {MOST_OUTPUT:,} bytes" if ended.exceeded else f"exit status {ended.status}, {complaint[-1]}"
        return evolve(made, status="ended", reason=one_line(f"in {stage}: {how}", 300))
    try:
        return from_plain(EnvironmentAudit, json.loads(ended.output.strip().rpartition(b"\n")[2]))
    except Exception as error:
        return evolve(made, status="ended", reason=f"it printed no record: {one_line(error)}")
