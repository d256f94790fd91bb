"""Runs short scripts that show a defect of another framework, in a worker: with that framework, and nothing of a task.

A script draws one problem as `entry` and prints one score. `run` returns what it printed, or what it raised, with the
digest of the problem.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from typing import Any

from gce.adapters.environments.foreign import text_digest

__all__ = ["load"]

MOST_PRINTED = 1_000
"""Characters of what a script printed, or raised."""


def load(arguments: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
    """The function that runs a script, in the worker; the framework's module is imported once, before all scripts."""
    importlib.import_module(arguments["module"])

    def run(script: str) -> dict[str, str]:
        names: dict[str, Any] = {"__name__": "__main__"}
        printed, raised = io.StringIO(), ""
        with redirect_stdout(printed):
            try:
                exec(compile(script, "reproduction", "exec"), names)
            except Exception as error:
                raised = f"{type(error).__name__}: {error}"[:MOST_PRINTED]
        digest = ""
        with suppress(Exception):  # It did not come so far.
            digest = text_digest(f"{names['entry']['question']}\0{names['entry']['answer']}")
        return {"printed": printed.getvalue()[:MOST_PRINTED].strip(), "raised": raised, "digest": digest}

    return {"run": run}
