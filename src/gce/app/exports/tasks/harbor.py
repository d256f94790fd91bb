"""A task for Harbor: a directory for each problem, whose answer is the file `/app/answer.txt`.

Format: https://www.harborframework.com/docs/tasks, version 1.0 of `task.toml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gce.app.exports.tasks.exported import TaskExport, templates

__all__ = ["export"]


def export(exported: TaskExport) -> Mapping[str, str]:
    """A README, and `SPLIT-NUMBER/` with all that Harbor expects for each problem."""
    values = exported.values
    files = {"README.md": templates("harbor", {**values, **_words("", "", {})})["README.md"]}
    for split in exported.problems:
        for number, row in enumerate(exported.rows(split)):
            files |= _directory(values, f"{split}-{number:04}", split, row)
    return files


def _directory(values: Mapping[str, str], name: str, split: str, row: Mapping[str, Any]) -> dict[str, str]:
    found = templates("harbor", {**values, **_words(name, split, row)})
    files = {
        "instruction.md": found["instruction.md"],
        "task.toml": found["task.toml"],
        "environment/Dockerfile": found["Dockerfile"],
        "tests/test.sh": found["test.sh"],
        "tests/verify.py": found["verify.py"],
        "tests/problem.json": row["problem"] + "\n",
    }
    if row["answer"]:
        files |= {"solution/answer.txt": row["answer"], "solution/solve.sh": found["solve.sh"]}
    return {f"{name}/{path}": text for path, text in files.items()}


def _words(name: str, split: str, row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "NAME": json.dumps(f"gce/{re.sub(r'[^a-z0-9-]+', '-', name)}"),
        "PROMPT": row.get("prompt", ""),
        "KEY": json.dumps(row.get("id", "")),
        "TIER": json.dumps(row.get("tier", "")),
        "SPLIT": json.dumps(split),
    }
