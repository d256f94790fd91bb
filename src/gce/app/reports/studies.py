"""What the conditions of a study do to test accuracy."""

from __future__ import annotations

from gce.app.reports.section import Section
from gce.app.studies.conditions import STUDIES
from gce.app.studies.study import (
    INTERVALS_IN_WORDS,
    effect_rows,
    effects,
    finished,
    graded,
    mastered_over_time,
    unclear,
)
from gce.domain.diagnosis import MASTERED
from gce.domain.figures import Effects, Figure, Lines, Points, Table
from gce.errors import BadInput
from gce.ports.runs import Runs

__all__ = ["study_sections"]


def study_sections(runs: Runs, study: str, *, verify: bool) -> list[Section]:
    """The effects of a study's conditions, a section for each kind of study that has finished runs.

    Raises:
        BadInput: none has.
    """
    sections = []
    for name, conditions in STUDIES.items():
        done = finished(runs, study, conditions, verify=verify)
        if not done:
            continue
        found = effects(done, conditions)
        head, rows = effect_rows(found, done)
        what = Table(("condition", "what"), tuple((each.condition, conditions[each.condition].what) for each in found))
        drawn = {
            f"{effect.condition} vs {effect.against}": (
                effect.difference.value,
                effect.difference.low,
                effect.difference.high,
            )
            for effect in found
            if effect.difference is not None
        }
        words = [
            f"Test accuracy, paired by seed and problem: {INTERVALS_IN_WORDS}. A condition whose interval lies below 0 "
            "is worse than its reference."
        ]
        if names := ", ".join(unclear(found)):
            words.append(
                f"Not statistically significant (this needs p < 0.05 and the same sign for all seeds): {names}."
            )
        pictures: tuple[Figure, ...] = (
            (Effects(f"study-{name}", f"Effect of each condition of {name}", drawn),) if drawn else ()
        )
        mastered = mastered_over_time(done)
        if any(len(points) > 1 for points in mastered.values()):
            pictures = (*pictures, _mastered(name, mastered))
            words.append(
                f"A tier is mastered from {100 * MASTERED:.0f} % on: accuracy on dev or, in runs without dev, solve "
                "rate of training rollouts; mean over seeds. Curves that rise in steps show a curriculum."
            )
        tables = [Table(head, tuple(rows)), what]
        if rewarded := graded(done):
            head, rows = effect_rows(effects(rewarded, conditions), done)
            tables.append(Table(("mean reward", *head[1:]), tuple(rows)))
        sections.append(Section(f"Study: {name}", tuple(words), tuple(tables), pictures))
    if sections:
        return sections
    raise BadInput(f"expected a run or a study with finished runs in {study}, found neither")


def _mastered(study: str, found: Points) -> Lines:
    panel = "tiers mastered, %"
    return Lines(f"study-{study}-mastered", "Share of tiers mastered over time", {panel: found}, shares=(panel,))
