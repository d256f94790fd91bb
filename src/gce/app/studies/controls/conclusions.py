"""What the controls of a run rule out: sentences and tables, computed from their figures. Measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from gce.app.studies.controls.decontamination import contamination_words
from gce.app.studies.controls.records import Control, Row
from gce.app.studies.controls.table import CONTROLS
from gce.app.tables.cells import coverage_cell, difference_cell, p_cell, share_cell
from gce.domain.figures import Table
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import holm
from gce.errors import BadInput

__all__ = ["IN_WORDS", "Controls", "adjusted", "conclusion", "conclusions", "control_table", "pass_table", "stored"]

LEVEL = 0.05
IN_WORDS = (
    "Each control is compared with the run on the same test problems: mean of tiers with a 95 % interval, McNemar's "
    "exact test, and Holm's correction over all controls that are compared, finished or not. best-of-k counts a "
    "problem as solved if one of k samples of the base is right, and pass-at-k does so for both models, over problems "
    "of which all samples of both were judged: they use the verifier on test problems."
)


@frozen
class Controls:
    """The controls of a run, as far as they are finished."""

    rows: Mapping[str, Row] = field(factory=dict)
    left_out: Mapping[str, str] = field(factory=dict)
    """Those that the run cannot have, and why."""

    @property
    def missing(self) -> list[str]:
        """Those that are neither finished nor left out."""
        return [name for name in CONTROLS if name not in self.rows and name not in self.left_out]

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data for a program and the run's card, with the conclusions."""
        p_values, said = adjusted(self), conclusions(self)
        rows = {
            name: {**to_plain(row), "p_holm": p_values.get(name), "words": said[name]}
            for name, row in self.rows.items()
        }
        return {"rows": rows, "left_out": dict(self.left_out), "missing": self.missing}


def stored(card: Mapping[str, Any], name: str) -> Controls:
    """Read the controls from the card of the run of this name; what this version does not know is ignored.

    Raises:
        BadInput: the card is damaged.
    """
    found = card.get("controls", {})
    try:
        derived = ("p_holm", "words")
        rows = {
            control: from_plain(Row, {key: value for key, value in row.items() if key not in derived})
            for control, row in found.get("rows", {}).items()
            if control in CONTROLS
        }
        controls = Controls(
            rows, {each: str(why) for each, why in found.get("left_out", {}).items() if each in CONTROLS}
        )
        conclusions(controls)  # Where they can be drawn, all figures are there.
        return controls
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise BadInput(f"{name}/validity.json has no controls as gce validity writes them: delete it") from error


def adjusted(controls: Controls) -> dict[str, float]:
    """Return Holm-adjusted p values of the finished controls; those that are not finished count with p = 1."""
    names = [name for name, each in CONTROLS.items() if each.is_compared and name not in controls.left_out]
    gains = {name: row.gain for name, row in controls.rows.items() if row.gain is not None and name in names}
    found = holm([gains[name].p if name in gains else 1.0 for name in names])
    return {name: p for name, p in zip(names, found, strict=True) if name in gains}


def conclusion(control: Control, row: Row, p: float | None) -> str:
    """Say what a control rules out, or that it does not; `p` is adjusted, None where nothing could be compared."""
    if not control.is_compared:
        return contamination_words(row.figures)
    gain, claim = row.gain, control.claim.format_map(row.figures)
    if gain is None or p is None:
        return f"Does not rule out that {claim}: no test problem was judged for both."
    found = f"{difference_cell(gain.mean)} points (p {'' if p < 0.001 else '= '}{p_cell(p)})"
    if p >= LEVEL:
        words = f"Does not rule out that {claim}: run - control is {found}, which is not statistically significant."
    elif gain.mean.value > 0 and gain.gained > gain.lost:
        words = f"Rules out that {claim}: run - control is {found}."
    else:
        words = f"Does not rule out that {claim}, or more: run - control is {found}."
    if row.over_base is not None and row.over_base.low > 0:
        words += f" The control itself is {difference_cell(row.over_base)} points above the base."
    return words


def conclusions(controls: Controls) -> dict[str, str]:
    """Return the conclusion of each finished control, in the order of the table."""
    p_values = adjusted(controls)
    return {
        name: conclusion(CONTROLS[name], controls.rows[name], p_values.get(name))
        for name in CONTROLS
        if name in controls.rows
    }


def control_table(controls: Controls) -> Table:
    """Return a row for each control that is compared, whether it is finished or not."""
    head = (
        "control",
        "mean of tiers, %",
        "run - control, points",
        "p (Holm)",
        "control - base, points",
        "n",
        "coverage",
    )
    p_values, rows = adjusted(controls), list[tuple[str, ...]]()
    for name, control in CONTROLS.items():
        row = controls.rows.get(name)
        if not control.is_compared:
            continue
        if row is None:
            rows.append((name, "left out" if name in controls.left_out else "not finished", *["-"] * 5))
            continue
        mean, gain, over = row.mean, row.gain, row.over_base
        rows.append(
            (
                name,
                "-" if mean is None else share_cell(mean.value, mean.low, mean.high),
                "-" if gain is None else difference_cell(gain.mean),
                p_cell(p_values.get(name)),
                "-" if over is None else difference_cell(over),
                str(row.n),
                coverage_cell(row.n / (row.n + row.failed) if row.n + row.failed else 1.0),
            )
        )
    return Table(head, tuple(rows))


def pass_table(row: Row) -> Table:
    """Return pass@k of the base and of the trained model over the same problems, in percent."""
    ks = [k for k, _ in next(iter(row.curves.values()), ())]
    rows = tuple(
        (name, str(row.n), *(share_cell(found.value, found.low, found.high) for _, found in curve))
        for name, curve in row.curves.items()
    )
    return Table(("pass@k over problems, %", "n", *(f"k = {k}" for k in ks)), rows)
