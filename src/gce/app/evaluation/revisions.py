"""What revisions change: the first answers, the last revisions, and those that a critic prefers, together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gce.app.shown import Part
from gce.app.tables.cells import difference_cell, interval_cell, p_cell
from gce.domain.conversations import Conversation
from gce.domain.figures import Table
from gce.domain.metrics import MetricSettings, by_unit, overall
from gce.domain.metrics.rates import KEPT
from gce.domain.paired import paired_gains
from gce.domain.serialization import to_plain

__all__ = ["revision_parts"]

HEAD = "Revisions: whichever answer counts, no verifier was asked before the conversation had ended."


def revision_parts(
    conversations: Mapping[str, Sequence[Conversation]], interval: str
) -> tuple[dict[str, Any], list[Part]]:
    """Plain data and tables, by strategy; those without a revision are left out."""
    plain: dict[str, Any] = {}
    parts: list[Part] = [HEAD]
    for name, held in conversations.items():
        revised = sum(any(each.reading == "revised" for each in one.attempts) for one in held)
        if revised:
            plain[name], table = _kept(name, held, revised, MetricSettings(interval=interval))
            parts.append(table)
    return plain, parts


def _kept(
    name: str, held: Sequence[Conversation], revised: int, settings: MetricSettings
) -> tuple[dict[str, Any], Table]:
    values = {
        metric.name: {
            unit: share
            for unit, found in by_unit(metric, held).items()
            if metric.paired is not None and (share := metric.paired(found)) is not None
        }
        for metric in KEPT
    }
    first, *others = values
    gains = paired_gains(
        {
            each: [
                (unit[0], values[first][unit], share) for unit, share in values[each].items() if unit in values[first]
            ]
            for each in others
        }
    )
    shares = {metric.name: overall(metric, held, settings) for metric in KEPT}
    rows = []
    for each, right in shares.items():
        gain = gains.get(each)
        compared = ("-", "-") if gain is None else (difference_cell(gain.mean), p_cell(gain.adjusted))
        rows.append((each, "-" if right is None else interval_cell(right), *compared))
    head = (f"{name}: {revised} of {len(held)} revised", "right, %", f"against {first}, points", "p (Holm)")
    plain = {"revised": revised, "n": len(held), "shares": to_plain(shares), "gains": to_plain(gains)}
    return plain, Table(head, tuple(rows))
