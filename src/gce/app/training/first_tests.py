"""What a run measures before its first iteration, each measurement once, whatever interrupts the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gce.app.training.state import Run

__all__ = ["taken", "taken_once"]


def taken(run: Run) -> dict[str, dict[str, Any]]:
    """Return the evaluations before the first iteration that the run has, by name."""
    held = [record["evaluation"] for record in run.store.held() if "evaluation" in record]
    return {record["moment"]: record for record in (*held, *run.store.read("evaluations"))}


def taken_once(run: Run, moment: str, take: Callable[[], dict[str, Any]], began: float) -> tuple[dict[str, Any], bool]:
    """Return the evaluation of this name, and whether it was taken just now.

    It is held as soon as it is complete, unless answers failed: they are asked again when the run is resumed.

    Args:
        run: what is measured.
        moment: the name of the evaluation in the run's stream `evaluations`.
        take: returns what was found as plain data; intervals by tier are its `tiers`.
        began: when its work began, on the run's clock (seconds).
    """
    if any(record["moment"] == moment for record in run.store.read("evaluations")):
        return taken(run)[moment], False
    measured = taken(run).get(moment)
    anew = measured is None
    if measured is None:
        found = take()
        measured = {"moment": moment, **found, "seconds": run.clock.now() - began}
        if not any(share["failed"] for share in found.get("tiers", {}).values()):
            run.store.hold({"evaluation": measured})
    run.store.append("evaluations", measured)
    return measured, anew
