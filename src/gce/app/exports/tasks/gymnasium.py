"""A task for Gymnasium: a module that registers an environment of one step, and its problems.

Format: https://gymnasium.farama.org/api/env, 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """A README, and a package with a file for each split."""
    files = templates("gymnasium", exported.values)
    package = exported.identifier
    files[f"{package}/__init__.py"] = files.pop("environment.py")
    return files | exported.split_files(f"{package}/")
