"""A task for verifiers: a package with a taskset, whose one reward is the task's verdict.

Format: https://docs.primeintellect.ai/verifiers, tasksets of verifiers 0.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, json_lines, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """A README, `pyproject.toml`, and the package with a file for each split."""
    files = templates("verifiers", {**exported.values, "ADMIT_AT": str(exported.task.admit_at)})
    package = exported.identifier
    files[f"{package}/__init__.py"] = files.pop("taskset.py")
    for split in exported.problems:
        kept = ("messages", "answer", "problem", "id", "tier")
        files[f"{package}/{split}.jsonl"] = json_lines(
            [{name: row[name] for name in kept} for row in exported.rows(split)]
        )
    return files
