"""Records of GSO, as those of ISO-Bench under other names.

Source: the fields of the data set gso-bench/gso (Shetty et al., 2025, GSO: Challenging Software Optimization Tasks for
Evaluating SWE-Agents).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["NAMES", "OWN", "is_gso", "iso_of"]

_SAME = ("instance_id", "repo", "base_commit", "api", "setup_commands", "install_commands", "created_at")
NAMES: Mapping[str, str] = {
    **dict(zip(_SAME, _SAME, strict=True)),
    "gt_commit_message": "gt_commit_message",
    "opt_commit": "head_commit",
    "prob_script": "efficiency_test",
    "gt_diff": "patch",
}
"""Fields of GSO, with their names in `IsoRecord`."""
OWN = ("tests", "hints_text", "arch", "instance_image_tag")
"""Fields that ISO-Bench does not have: scripts that judge, the message of the human's commit, and an image."""


def is_gso(data: Mapping[str, Any]) -> bool:
    """Whether a record is one of GSO, by a field that every record of GSO has, and no other."""
    return "opt_commit" in data


def iso_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of GSO with the names of `IsoRecord`.

    Raises:
        ValueError: a field that GSO does not have.
    """
    unknown = [name for name in data if name not in (*NAMES, *OWN)]
    if unknown:
        raise ValueError(f"expected the fields of GSO, got {unknown[0]!r:.60}")
    found = {NAMES[name]: value for name, value in data.items() if name in NAMES}
    return {**found, "gt_commit_message": found.get("gt_commit_message") or data.get("hints_text")}
