"""A package for a task of one's own, written from the templates in `gce/data/new_task`."""

from __future__ import annotations

import importlib.util
import keyword
import sys
from importlib import resources
from pathlib import Path

from gce.app.wiring.files import whole_folder
from gce.errors import BadInput

__all__ = ["write_new_task"]

PLACEHOLDER = "NAME"
"""Stands for the package's name in the templates, in their file names too."""


def write_new_task(name: str, folder: Path) -> list[Path]:
    """Write the package `folder`/`name`, whole or not at all, and return its files.

    Raises:
        BadInput: the name cannot be that of a package, or something of that name is there already.
    """
    _check_identifier(name)
    place = folder / name
    if place.exists() or place.is_symlink():
        raise BadInput(
            f"{place} exists already, and nothing is overwritten", hint="choose another name, or another {dir}"
        )
    if _installed(name):
        raise BadInput(f"{name!r} is an installed package, which it would hide: choose another name")
    with whole_folder(place, argument="dir") as half:
        for template in sorted((resources.files("gce") / "data" / "new_task").iterdir(), key=lambda each: each.name):
            if template.name.endswith(".txt"):
                text = template.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
                file_name = template.name.removesuffix(".txt").replace(PLACEHOLDER, name)
                (half / file_name).write_text(text, encoding="utf-8")
    return sorted(place.iterdir())


def _check_identifier(name: str) -> None:
    if not (name.isascii() and name.isidentifier()):
        raise BadInput(f"expected a name of ASCII letters, digits and _ that begins with a letter, got {name[:60]!r}")
    if keyword.iskeyword(name) or name in keyword.softkwlist or name.startswith("_"):
        raise BadInput(f"{name!r} has a special meaning in Python: choose another name")
    if name in sys.stdlib_module_names:
        raise BadInput(f"{name!r} is a module of Python's standard library, which it would hide: choose another name")


def _installed(name: str) -> bool:
    """Whether a package of that name can be imported; a mere folder of the name is none."""
    found = importlib.util.find_spec(name)
    return found is not None and found.origin is not None
