"""What else could explain a run's result: its controls, as far as they are finished."""

from __future__ import annotations

from gce.app.reports.section import Section
from gce.app.shown import Part
from gce.app.studies.controls.conclusions import (
    IN_WORDS,
    Controls,
    conclusions,
    control_table,
    pass_table,
)
from gce.domain.figures import Effects, Lines

__all__ = ["control_parts", "control_sections"]


def control_parts(controls: Controls) -> list[Part]:
    """The tables and the conclusions, for a terminal."""
    parts: list[Part] = [control_table(controls), ""]
    parts += [pass_table(row) for row in controls.rows.values() if row.curves]
    return [*parts, "", *_sentences(controls), IN_WORDS]


def _sentences(controls: Controls) -> list[str]:
    said = [f"{name}: {words}" for name, words in conclusions(controls).items()]
    said += [f"{name}: left out, {why}." for name, why in controls.left_out.items()]
    if controls.missing:
        said.append(f"Not finished: {', '.join(controls.missing)}.")
    return said


def control_sections(controls: Controls) -> list[Section]:
    """The controls beside the run, and pass@k of the base and the trained model."""
    effects = {
        f"run - {name}": (row.gain.mean.value, row.gain.mean.low, row.gain.mean.high)
        for name, row in controls.rows.items()
        if row.gain is not None
    }
    drawn = (Effects("controls", "Accuracy of the run minus that of each control, points", effects),) if effects else ()
    words = (IN_WORDS, *_sentences(controls))
    sections = [Section("Controls", words, (control_table(controls),), drawn)]
    for row in controls.rows.values():
        if row.curves:
            curves = {name: [(float(k), found) for k, found in curve] for name, curve in row.curves.items()}
            panel = f"over {row.n:,} problems of all tiers"
            lines = Lines(
                "pass-at-k",
                "Problems solved by one of k samples, %",
                {},
                across="k",
                doubles=True,
                shares=(panel,),
                intervals={panel: curves},
            )
            said = (
                "Where the curves meet, so many samples of the base solve as many problems as those of the trained "
                "model, which need not be the same ones. All points are over the same problems, those of which all "
                "samples of both models were judged."
            )
            sections.append(Section("pass@k of the base and the trained model", (said,), (pass_table(row),), (lines,)))
    return sections
