"""A task for the LM Evaluation Harness: a YAML file, its functions, and JSON lines of its documents.

Format: https://github.com/EleutherAI/lm-evaluation-harness, 0.4.13, docs/task_guide.md. An answer that could not be
judged counts in no mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, templates

__all__ = ["export"]

SPLITS = {"train": "training_split", "dev": "validation_split", "test": "test_split"}


def export(exported: TaskExport) -> Mapping[str, str]:
    """The YAML file, `functions.py`, a README, and a file for each split."""
    splits = "\n".join(f"{SPLITS[split]}: {split}" for split in exported.problems)
    return templates("lm_eval", {**exported.values, "SPLIT_LINES": splits}) | exported.split_files()
