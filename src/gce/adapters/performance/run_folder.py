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
Contents are plain data: what they mean is not known here.
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
from typing import Any

from gce.adapters.system.atomic_folder import whole_folder
from gce.adapters.system.durable_files import write_file
from gce.adapters.system.input_files import parse_json, read_input
from gce.errors import BadInput, RunInUse

__all__ = ["KeptAccuracies", "RunFolder"]

_MOST = 1 << 30
"""Bytes of a file that is read."""


class RunFolder:
    """A performance run on disk."""

    def __init__(self, path: Path) -> None:
        """Open the folder of a run; nothing is read yet."""
        self.path = path

    @classmethod
    def create(cls, path: Path, plan: Any) -> RunFolder:
        """Make the folder of a new run.

        Raises:
            BadInput: there is something already, or nothing can be written.
        """
        with whole_folder(path) as folder:
            (folder / "plan.json").write_text(_json(plan), encoding="utf-8")
        return cls(path)

    def plan(self) -> Any:
        """Return the plan; BadInput where this is no run."""
        if not (self.path / "plan.json").is_file():
            raise BadInput(f"{self.path} is no performance run", hint="make one with gce performance plan")
        return self._read(self.path / "plan.json")

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

    def is_prepared(self, name: str) -> bool:
        """Whether the folder of a task is there, whole."""
        return (self.task(name) / "prepared.json").is_file()

    def prepared(self, name: str) -> Any:
        """Return what `prepare` has written of a task."""
        return self._read(self.task(name) / "prepared.json")

    @contextlib.contextmanager
    def preparing(self, name: str) -> Iterator[Path]:
        """A folder to write a task in; it takes its place when the block ends."""
        with whole_folder(self.task(name)) as folder:
            yield folder

    def attempt(self, item: str) -> Any | None:
        """Return the record of an attempt; None before it is made."""
        return self._found(self.path / "items" / item / "attempt.json")

    def patch(self, item: str) -> Any:
        """Return the patch of an attempt."""
        return self._read(self.path / "items" / item / "patch.json")

    def keep_attempt(self, item: str, attempt: Any, patch: Any, texts: Mapping[str, str]) -> None:
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

    def found(self, kind: str, name: str) -> Any | None:
        """Return what was kept under this name, such as `measured` of an attempt; None before that."""
        return self._found(self._file(kind, name))

    def keep(self, kind: str, name: str, found: Any) -> None:
        """Write what was found, in place of what was kept under this name."""
        path = self._file(kind, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, _json(found).encode())

    def _file(self, kind: str, name: str) -> Path:
        return self.path / kind / f"{name}.json"

    def _found(self, path: Path) -> Any | None:
        return self._read(path) if path.is_file() else None

    def _read(self, path: Path) -> Any:
        return parse_json(read_input(path, _MOST), str(path))


class KeptAccuracies:
    """Accuracies that a run keeps; see `Accuracies`."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def get(self, digest: str) -> float | None:
        """See `Accuracies`."""
        found = self._folder.found("accuracy", digest)
        return None if found is None else float(found)

    def __setitem__(self, digest: str, accuracy: float) -> None:
        """See `Accuracies`."""
        self._folder.keep("accuracy", digest, accuracy)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"
