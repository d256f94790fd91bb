"""A task for TRL: a reward function, and JSON lines whose columns it takes.

Format: https://huggingface.co/docs/trl/grpo_trainer, "Using a custom reward function", TRL 1.16. A reward of None, for
an answer that could not be judged, is left out of the advantages.
"""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks.exported import TaskExport, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """`rewards.py`, `train.py`, a README, and a file for each split."""
    return templates("trl", exported.values) | exported.split_files(messages=True)
