"""Performance tasks as directories: `task.toml`, and beside it `workload.py`, `tests.py` and `instruction.md`.

A file beside `task.toml` may also stand in it, as text in the table `performance` under the file's name without its
suffix. Of the format of Harbor's tasks, `version`, `[metadata]`, `[agent]`, `[verifier]`, `[environment]` and
`instruction.md` keep their meaning. `gce/data/performance/task.schema.json` is the JSON Schema of `task.toml`.
"""

from __future__ import annotations

from pathlib import Path

from gce.adapters.performance.trees import read_tree, write_files
from gce.adapters.performance.wheels import unpack_wheels
from gce.adapters.system.input_files import parse_toml, read_input
from gce.domain.performance.task import PerformanceTask, Source
from gce.domain.serialization import from_plain
from gce.errors import BadInput, one_line

__all__ = ["TABLES", "read_task", "read_tasks", "write_tree"]

TABLES = ("version", "metadata", "agent", "verifier", "environment", "solution", "performance")
"""What `task.toml` may hold; only `metadata.name` and `performance` are read here."""
_MOST = 2**20
_BESIDE = {"workload": "workload.py", "tests": "tests.py", "instruction": "instruction.md"}


def read_task(directory: Path) -> PerformanceTask:
    """Return the task in a directory.

    Raises:
        BadInput: a file is missing, is too large, or is not as the format says.
    """
    path = directory / "task.toml"
    found = parse_toml(read_input(path, _MOST), str(path))
    unknown = sorted(set(found) - set(TABLES))
    if unknown:
        raise BadInput(f"{path}: unknown {one_line(unknown[0])!r}, expected {', '.join(TABLES)}")
    metadata, own = found.get("metadata", {}), found.get("performance")
    if not isinstance(metadata, dict) or not isinstance(own, dict):
        raise BadInput(f"{path}: expected a table [performance]")
    for name, file in _BESIDE.items():
        beside = directory / file
        if beside.exists() and name in own:
            raise BadInput(f"{path}: {name} is given there and in {file}")
        if beside.exists():
            own[name] = _text(beside)
    try:
        return from_plain(PerformanceTask, {"name": metadata.get("name", directory.resolve().name), **own})
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path}: {one_line(error)}") from error


def read_tasks(directory: Path) -> list[tuple[Path, PerformanceTask]]:
    """Return the task in a directory, or all tasks of the directories directly in it, sorted by directory.

    Raises:
        BadInput: there is none, one is not as the format says, or two have the same name.
    """
    if not directory.is_dir():
        raise BadInput(f"there is no directory {directory}")
    places = [directory] if (directory / "task.toml").exists() else sorted(directory.iterdir())
    found = [(place, read_task(place)) for place in places if (place / "task.toml").exists()]
    if not found:
        raise BadInput(f"{directory} holds no task.toml, and no directory in it does")
    names = [task.name for _, task in found]
    if len(set(names)) < len(names):
        raise BadInput(f"{directory} holds two tasks of the same name")
    return found


def write_tree(directory: Path, cache: Path, source: Source, target: Path) -> None:
    """Write the tree of a source of the task in a directory to `target`, which must not exist.

    Wheels come from the cache folder, and their hashes are checked again.

    Raises:
        BadInput: a wheel was not fetched or was changed, or the sources are not regular files.
    """
    if source.pins:
        unpack_wheels(source.pins, cache, target)
        return
    write_files(read_tree(directory / source.directory), target)


def _text(path: Path) -> str:
    try:
        return read_input(path, _MOST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8: {error}") from error
