"""A task for inspect_ai: a file with an `@task` function, and JSON lines of its samples.

Format: https://inspect.aisi.org.uk, 0.3.285. An answer that could not be judged ends its sample with an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, json_lines, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """`task.py`, a README, and a file for each split."""
    files = templates("inspect", exported.values)
    kept = ("id", "messages", "answer", "problem", "tier")
    for split in exported.problems:
        files[f"{split}.jsonl"] = json_lines([{name: row[name] for name in kept} for row in exported.rows(split)])
    return files
