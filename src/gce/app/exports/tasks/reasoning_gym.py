"""A task for reasoning-gym: a package that registers a data set when it is imported.

Format: https://github.com/open-thought/reasoning-gym, 0.1.25: `ProceduralDataset`, `register_dataset`. An answer that
could not be judged raises.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """A package with a file for each split, and a README beside it."""
    files = templates("reasoning_gym", exported.values)
    files = {name if name == "README.md" else f"{exported.identifier}/{name}": text for name, text in files.items()}
    return files | exported.split_files(f"{exported.identifier}/")
