"""A task for OpenEnv: a server whose episodes have one step, and its problems.

Format: https://meta-pytorch.org/OpenEnv, openenv 0.10: `openenv.yaml`, `Environment` and `create_app`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """A README, `openenv.yaml`, `pyproject.toml`, the package `server`, and a file for each split."""
    last = list(exported.problems)[-1]
    files = templates("openenv", {**exported.values, "LAST_SPLIT": last})
    files = {f"server/{name}" if name in ("app.py", "Dockerfile") else name: text for name, text in files.items()}
    return files | {"server/__init__.py": ""} | exported.split_files()
