"""The folder that is served. Runs are known by ids; no text of a client ever becomes a path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request

__all__ = ["OWN", "Served", "run_id", "served_run"]

OWN = ".gce-serve"
"""Folder in the served one for what the server itself keeps."""
DATABASE = "run.sqlite"


class Served:
    """The runs in a folder, one and two levels below it. Links are not followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def runs(self) -> Mapping[str, Path]:
        """The directories of all runs by id."""
        return {run_id(path.relative_to(self.folder)): path for path in self._found()}

    def _found(self) -> Iterator[Path]:
        for outer in _folders(self.folder):
            if _is_run(outer):
                yield outer
            else:
                yield from filter(_is_run, _folders(outer))


def _folders(folder: Path) -> list[Path]:
    found = (each for each in folder.iterdir() if not each.name.startswith("."))
    return sorted(each for each in found if each.is_dir() and not each.is_symlink())


def _is_run(folder: Path) -> bool:
    """Whether it is a run none of whose files is a link."""
    if not (folder / DATABASE).is_file():
        return False
    return not any(each.is_symlink() for each in folder.iterdir())


def run_id(path: Path) -> str:
    """A run's id from its path within the folder: readable, without slashes, and always the same."""
    name = "-".join(path.parts).encode("utf-8", "replace")
    words = re.sub("[^a-z0-9]+", "-", name.decode().lower()).strip("-")[:40]
    return f"{words}-{sha256(name).hexdigest()[:8]}".lstrip("-")


def served_run(request: Request) -> Path:
    """The directory of the run that the path's `run` names; 404 where there is none."""
    served: Served = request.app.state.served
    found = served.runs().get(request.path_params["run"])
    if found is None:
        raise HTTPException(404)
    return found
