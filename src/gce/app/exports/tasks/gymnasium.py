"""A task for Gymnasium: a module that registers an environment of one step, and its problems.

Format: https://gymnasium.farama.org/api/env, 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, json_lines, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """A README, and a package with a file for each split."""
    files = templates("gymnasium", {**exported.values, "ADMIT_AT": str(exported.task.admit_at)})
    package = exported.identifier
    files[f"{package}/__init__.py"] = files.pop("environment.py")
    for split in exported.problems:
        kept = ("prompt", "answer", "problem", "id", "tier")
        files[f"{package}/{split}.jsonl"] = json_lines(
            [{name: row[name] for name in kept} for row in exported.rows(split)]
        )
    return files
