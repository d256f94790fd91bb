"""Agents of performance runs: how they are run, what is kept of a run, and which secrets are taken out of it."""

from __future__ import annotations

import os

from gce.adapters.datasets.atif import atif_of_trace
from gce.adapters.datasets.record_files import read_records
from gce.adapters.models.servers.providers import key_variables
from gce.adapters.models.servers.redaction import Redaction, redacted
from gce.adapters.performance.agent_commands import Worked, run_agent, why_no_program, why_no_sandbox
from gce.adapters.performance.history import History, open_history
from gce.adapters.performance.run_folder import RunFolder
from gce.adapters.performance.trees import read_tree, write_files

__all__ = [
    "History",
    "RunFolder",
    "Worked",
    "atif_of_trace",
    "keys_at_hand",
    "open_history",
    "read_records",
    "read_tree",
    "run_agent",
    "why_no_program",
    "why_no_sandbox",
    "without_keys",
    "write_files",
]


def keys_at_hand() -> tuple[str, ...]:
    """Return the API keys in the environment."""
    return tuple(filter(None, (os.environ.get(name, "").strip() for name in key_variables())))


def without_keys(text: str) -> str:
    """Return a text without the API keys in the environment."""
    return redacted(text, [Redaction(key) for key in keys_at_hand()])
