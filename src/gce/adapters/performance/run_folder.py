"""The directory of a performance run.

    plan.json                what is run: tasks, agents, repeats, seed, limits
    lock                     held (flock) by the process that works on it
    journal.jsonl            one line an event, with its time in UTC
    tasks/NAME/              base/, human/, prompt.md, prepared.json
    items/TASK/AGENT/N/      attempt.json, patch.json, patch.diff, stdout.txt, stderr.txt, trajectory.json
    measured/TASK/AGENT/N.json
    judged/JUDGE/TASK/AGENT/N.json
    accuracy/DIGEST.json     what accuracy_command printed, by digest of code and command

A folder or a file appears whole or not at all, so that a process that is killed loses the item in work at most.
What records mean is not known here.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from gce.adapters.system.atomic_folder import whole_folder
from gce.adapters.system.durable_files import write_file
from gce.adapters.system.input_files import parse_json, read_input
from gce.domain.serialization import from_plain, to_plain
from gce.errors import BadInput, DamagedStore, RunInUse, one_line

__all__ = ["RunFolder"]

Kept = TypeVar("Kept")

_MOST = 1 << 30
"""Bytes of a file that is read."""


class RunFolder:
    """A performance run on disk."""

    def __init__(self, path: Path) -> None:
        """Open the folder of a run; nothing is read yet."""
        self.path = path

    @classmethod
    def create(cls, path: Path, plan: object) -> RunFolder:
        """Make the folder of a new run.

        Raises:
            BadInput: there is something already, or nothing can be written.
        """
        with whole_folder(path) as folder:
            (folder / "plan.json").write_text(_json(plan), encoding="utf-8")
        return cls(path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run, and remove what a killed process has left; RunInUse where another process holds it."""
        with open(self.path / "lock", "a", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunInUse(f"another process works on {self.path}") from error
            for half in (*self.path.glob("tasks/.*"), *self.path.glob("items/*/*/.*")):
                shutil.rmtree(half, ignore_errors=True)
            yield

    def note(self, event: str, **about: Any) -> None:
        """Write a line of the journal."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, **about})
        with open(self.path / "journal.jsonl", "a+b") as file:
            half = file.tell() > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
            file.write(f"{half * chr(10)}{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())

    def spent(self) -> float:
        """Return what all attempts have cost by the journal, also those that failed and are made again."""
        path = self.path / "journal.jsonl"
        total = 0.0
        for line in read_input(path, _MOST).split(b"\n") if path.is_file() else ():
            with contextlib.suppress(BadInput):  # Of a process that was killed, a line may be half written.
                event = parse_json(line, str(path))
                cost = event.get("cost") if isinstance(event, dict) else None
                total += cost if isinstance(cost, (int, float)) else 0.0
        return total

    def task(self, name: str) -> Path:
        """Return the folder of a task."""
        return self.path / "tasks" / name

    def keep_attempt(self, item: str, attempt: object, patch: object, texts: Mapping[str, str]) -> None:
        """Write an attempt with its patch and what else is kept of it: texts by name, empty ones left out."""
        with whole_folder(self.path / "items" / item) as folder:
            for name, text in texts.items():
                if text:
                    (folder / name).write_text(text, encoding="utf-8", errors="replace")
            (folder / "patch.json").write_text(_json(patch), encoding="utf-8")
            (folder / "attempt.json").write_text(_json(attempt), encoding="utf-8")

    def judges(self) -> list[str]:
        """Return the names of judges that have judged something, sorted."""
        return sorted(each.name for each in self.path.glob("judged/*") if each.is_dir())

    def read(self, kind: type[Kept], name: str) -> Kept | None:
        """Return the record that was written under this name, as "plan"; None if none was.

        Raises:
            DamagedStore: it is not as it was written.
        """
        path = self.path / f"{name}.json"
        if not path.is_file():
            return None
        try:
            return from_plain(kind, parse_json(read_input(path, _MOST), str(path)))
        except (ValueError, BadInput) as error:
            raise DamagedStore(f"{path} is not as it was written: {one_line(error)}") from error

    def write(self, name: str, record: object) -> None:
        """Write a record, in place of the one of this name."""
        path = self.path / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, _json(record).encode())


def _json(record: object) -> str:
    return json.dumps(to_plain(record), indent=1) + "\n"
