"""What of a user's files a worker is shown: a module, or a file with those beside it that it may read."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from gce.errors import BadInput, one_line

__all__ = ["beside", "named_files", "place_of"]

READ = frozenset(
    {".csv", ".gz", ".json", ".jsonl", ".md", ".ndjson", ".parquet", ".py", ".tsv", ".txt", ".yaml", ".yml", ".xml"}
)
"""Ends of names of code, data and templates."""


def beside(path: Path, named: str, what: str) -> tuple[Path, list[Path]]:
    """A file without symbolic links, and what is shown to a worker that loads it.

    That is each file of its directory whose name ends as those in `READ`, no directory, and what `named` names besides:
    paths from there, separated by commas.

    Raises:
        BadInput: there is no such file.
    """
    if not path.is_file():
        raise BadInput(f"{what}: no file {str(path)!r}")
    found = path.resolve()
    more = named_files(named, found.parent, what)
    read = [each for each in sorted(found.parent.iterdir()) if each.suffix in READ and each.is_file()]
    return found, [found, *read, *more]


def named_files(named: str, place: Path, what: str) -> list[Path]:
    """Files and directories that are named by paths from `place`, separated by commas.

    Raises:
        BadInput: there is none of one name.
    """
    found = [place / each for each in named.split(",") if each]
    if missing := [each for each in found if not each.exists()]:
        raise BadInput(f"{what}: no file or directory {str(missing[0])!r}")
    return found


def place_of(module: str, what: str) -> tuple[list[Path], list[Path]]:
    """The file or the package of a module, found without running it, and the directory to import it from.

    Nothing else of that directory is shown to the worker. Both are empty for what is installed.
    """
    top = module.partition(".")[0]
    sys.path.insert(0, "")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError) as error:
        raise BadInput(f"{what}: cannot find module {top!r}: {one_line(error)}") from error
    finally:
        sys.path.remove("")
    if spec is None or spec.origin is None:
        raise BadInput(f"{what}: no module {top!r} in this directory or among the installed packages")
    origin = Path(spec.origin).absolute()
    place = origin.parent if spec.submodule_search_locations else origin
    if {"site-packages", "dist-packages"} & {*place.parts} or origin.is_relative_to(sys.base_prefix + "/lib"):
        return [], []
    return [place], [place.parent]
