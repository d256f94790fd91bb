"""A task for verifiers: a package with a taskset, whose one reward is the task's verdict.

Format: https://docs.primeintellect.ai/verifiers, tasksets of verifiers 0.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """A README, `pyproject.toml`, and the package with a file for each split."""
    files = templates("verifiers", exported.values)
    package = exported.identifier
    files[f"{package}/__init__.py"] = files.pop("taskset.py")
    return files | exported.split_files(f"{package}/", messages=True)
