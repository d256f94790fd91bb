"""Runs short scripts that show a defect of another framework, in a worker: with that framework, and nothing of a task.

A script draws one problem as `entry` and prints one score. `run` returns what it printed, or what it raised, with the
digest of the problem. What an adapter's own worker says of itself is asked of the same process, since frameworks take
seconds to import.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from typing import Any

from gce.adapters.environments.foreign import Open, text_digest
from gce.adapters.environments.scorers import Scorers

__all__ = ["Script", "load", "scripts_worker"]

Script = Callable[[Mapping[str, Any], str], str]
"""What writes a row and an answer as a script that needs nothing but its framework and prints the score."""

MOST_PRINTED = 1_000
"""Characters of what a script printed, or raised."""


def scripts_worker(open_scorers: Open, module: str, **adapter: Any) -> Scorers:
    """A worker that runs scripts of a framework's module; `adapter` as `load` takes it."""
    return open_scorers(__name__, {"module": module, **adapter})


def load(arguments: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
    """The function that runs a script, in the worker; the framework's module is imported once, before all scripts.

    `adapter` names a module of this package whose own functions come along, loaded with the same arguments.
    """
    importlib.import_module(arguments["module"])
    others = importlib.import_module(arguments["adapter"]).load(arguments) if arguments.get("adapter") else {}

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

    return {**others, "run": run}
