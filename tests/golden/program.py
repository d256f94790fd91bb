"""The command line of `gce`, wherever its modules lie."""

from __future__ import annotations

import importlib
import io
import json
import tomllib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from .canonical import repeatable

ROOT = Path(__file__).parents[2]
"""The checkout that this file lies in."""


def entry_point(tree: Path = ROOT) -> str:
    """What `gce` stands for in a checkout, as MODULE:FUNCTION."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["scripts"]["gce"])


class Program:
    """Runs commands of `gce` in this process and in the present folder."""

    run: Path | None = None
    """A finished run of the scripted model, for whoever needs one: it takes seconds to train."""

    def __init__(self, entry: str) -> None:
        module, _, function = entry.partition(":")
        self._main: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)

    def __call__(self, *arguments: str) -> dict[str, Any]:
        """Exit status and standard output, as JSON where it is JSON; standard error where the command failed."""
        written = io.BytesIO(), io.BytesIO()
        out, error = (io.TextIOWrapper(each, encoding="utf-8", newline="") for each in written)
        with redirect_stdout(out), redirect_stderr(error):
            try:
                status = self._main(list(arguments))
            except SystemExit as stopped:
                status = stopped.code if isinstance(stopped.code, int) else 1
        out.flush()
        error.flush()
        said, complained = (each.getvalue().decode() for each in written)
        result: dict[str, Any] = {"status": status, "out": repeatable(_parsed(said))}
        return result | ({"error": complained} if status > 1 else {})

    def must(self, *arguments: str) -> dict[str, Any]:
        """The same; RuntimeError where the exit status is not 0."""
        result = self(*arguments)
        if result["status"] != 0:
            raise RuntimeError(f"gce {' '.join(arguments)}: exit status {result['status']}: {result.get('error', '')}")
        return result


def _parsed(text: str) -> Any:
    """One JSON value, a JSON value a line, or lines of text."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text.split("\n")
