"""What a report says about runs and studies: its sections, for any page or file.

Reads committed records alone, so a run that still goes on is reported as far as it has come. Knows what is to be
shown, not how a page looks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attrs import evolve

from gce.app.reports.evaluation import compared_sections, dev_section, result_section, validity_sections
from gce.app.reports.rollouts import answers_section
from gce.app.reports.run import ReportedRun, read_run
from gce.app.reports.section import Section
from gce.app.reports.studies import study_sections
from gce.app.reports.training import (
    buffer_section,
    costs_section,
    curriculum_section,
    demonstrations_sections,
    settings_section,
    training_section,
)
from gce.app.reports.transcripts import transcripts_section
from gce.app.wiring.runs import UNVERIFIED
from gce.ports.runs import Runs

__all__ = ["labels_of", "sections_of"]


def sections_of(names: Sequence[str], runs_of: Callable[[str], Runs], *, verify: bool = True) -> list[Section]:
    """Each name is a run's or a study's; runs are verified first, or the report begins by saying that not.

    Raises:
        BadInput: one is neither.
    """
    runs: dict[str, ReportedRun] = {}
    for name, label in zip(names, labels_of([Path(name) for name in names]), strict=True):
        if name in runs_of(name).find(name):
            with runs_of(name).read(name, verify=verify) as run:
                runs[name] = read_run(run, label)
    found = [] if verify else [Section("Records", (UNVERIFIED,))]
    found += compared_sections(list(runs.values()))
    for name in names:
        if name in runs:
            found += _sections_of_run(runs[name], len(names) > 1)
        else:
            found += study_sections(runs_of(name), name, verify=verify)
    return found


def labels_of(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, and as many before it as are needed to tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names


def _sections_of_run(run: ReportedRun, several: bool) -> Iterator[Section]:
    before, slug = (f"{run.label}: ", re.sub("[^0-9A-Za-z]+", "-", run.label) + "-") if several else ("", "")
    for section in (
        result_section(run),
        *validity_sections(run),
        training_section(run),
        dev_section(run),
        curriculum_section(run),
        *demonstrations_sections(run),
        buffer_section(run),
        answers_section(run),
        transcripts_section(run),
        costs_section(run),
        settings_section(run),
    ):
        renamed = tuple(evolve(figure, name=slug + figure.name) for figure in section.figures)
        yield evolve(section, title=before + section.title, figures=renamed)
