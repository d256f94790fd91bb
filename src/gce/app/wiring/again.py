"""This program in processes of their own, each with its own hash seed; and digests of what a task is made of."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Collection, Sequence
from hashlib import sha256
from pathlib import Path

import gce
from gce.adapters.system.bounded_commands import run_bounded
from gce.app.wiring.environments import is_environment
from gce.domain.tasks import TASKS
from gce.errors import GceError, one_line

__all__ = ["OtherProcessFailed", "in_another_process", "source_digests"]

_MEMORY = 8 * 2**30
_MOST_OUTPUT = 256 * 2**20


class OtherProcessFailed(GceError):
    """The other process did not do its work: it was ended at a limit, or ended with an error."""

    status = 3


def in_another_process(
    words: Sequence[str],
    *,
    hash_seed: int,
    seconds: float,
    given: bytes = b"",
    most_output: int = _MOST_OUTPUT,
    statuses: Collection[int] = (0,),
) -> bytes:
    """Run `python -m WORDS` with this PYTHONHASHSEED and the modules that are found here; return its standard output.

    Args:
        words: module and arguments.
        hash_seed: from 0 to 4,294,967,295; 0 switches hash randomization off.
        seconds: wall-clock time after which it is ended.
        given: standard input.
        most_output: maximum bytes of standard output.
        statuses: exit statuses with which its output counts.

    Raises:
        OtherProcessFailed: it exceeded a limit, or ended with an error of its own.
    """
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ended = run_bounded(
        [sys.executable, "-m", *words],
        seconds=seconds,
        memory=_MEMORY,
        most_output=most_output,
        given=given,
        environment={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
    )
    if ended.exceeded or ended.status not in statuses or (ended.status and not ended.output):
        said = one_line(ended.complaint.decode("utf-8", "replace").strip().rpartition("\n")[2])[-300:]
        how = f"more than its limit of {ended.exceeded}" if ended.exceeded else f"exit status {ended.status}: {said}"
        raise OtherProcessFailed(f"another process with {' '.join(words[:2])}: {how}")
    return ended.output


def source_digests(task: str) -> dict[str, str]:
    """SHA-256 of the sources that a task of this name comes from, by what they are; `gce` itself is always among them.

    Of an installed framework it is that of its list of files with their hashes. What cannot be found is left out.
    """
    found = {"gce": _folder_digest(Path(gce.__file__).parent)}
    head, _, rest = task.partition(":")
    if is_environment(task):
        try:
            installed = importlib.metadata.distribution(head)
            record = installed.read_text("RECORD") or ""
            found[f"{head} {installed.version}, list of its files"] = sha256(record.encode()).hexdigest()
        except importlib.metadata.PackageNotFoundError:
            pass
        head = rest.partition(":")[0] if ":" in rest else ""
    module = head if ":" in task and task.partition("@")[0] not in TASKS else ""
    spec = importlib.util.find_spec(module) if module in sys.modules else None
    if spec is not None and spec.origin and Path(spec.origin).is_file():
        found[f"module {module}"] = sha256(Path(spec.origin).read_bytes()).hexdigest()
    return found


def _folder_digest(folder: Path) -> str:
    """Of the names and contents of all Python files in a folder."""
    found = sha256()
    for path in sorted(folder.rglob("*.py")):
        for part in (str(path.relative_to(folder)).encode(), path.read_bytes()):
            found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()
