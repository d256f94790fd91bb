"""A task for inspect_ai: a file with an `@task` function, and JSON lines of its samples.

Format: https://inspect.aisi.org.uk, 0.3.285. An answer that could not be judged ends its sample with an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """`task.py`, a README, and a file for each split."""
    return templates("inspect", exported.values) | exported.split_files(messages=True)
