"""What a report says about runs and studies: its sections, for any page or file.

Reads committed records alone, so a run that still goes on is reported as far as it has come. Knows what is to be
shown, not how a page looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import evolve, frozen

from gce.app.evaluation.stored_runs import stored_settings
from gce.app.reports.answer_files import answer_file_sections
from gce.app.reports.beliefs import belief_sections
from gce.app.reports.evaluation import (
    compared_sections,
    dev_section,
    evaluator_sections,
    forgetting_sections,
    geometry_sections,
    result_section,
    shift_sections,
    validity_sections,
)
from gce.app.reports.run import ReportedRun, read_run
from gce.app.reports.sample_answers import answers_section
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
from gce.app.wiring.names import name_of
from gce.app.wiring.runs import UNVERIFIED
from gce.domain.tasks import Task
from gce.errors import BadInput
from gce.ports.runs import RunReader, Runs

__all__ = ["Reported", "labels_of", "sections_of", "sections_of_run"]


@frozen(eq=False)
class Reported:
    """A run or a study to report."""

    name: str
    runs: Runs
    """Where it is kept."""
    title: str = ""
    """Empty where its name says enough."""
    task: Task | None = None
    """What the run was made with, where that was given from Python and is at hand."""


def sections_of(reported: Sequence[Reported], *, task: Task | None = None, verify: bool = True) -> list[Section]:
    """Sections of runs and studies; runs are verified first, or the report begins by saying that not.

    Args:
        reported: what to report.
        task: what those runs were made with that were given a task of this name from Python.
        verify: whether to verify runs.

    Raises:
        BadInput: one is neither a run nor a study, or no run was made with the task.
    """
    runs: dict[str, ReportedRun] = {}
    labels = labels_of([Path(each.name) for each in reported])
    for each, label in zip(reported, labels, strict=True):
        if not Path(each.name).is_file() and each.name in each.runs.find(each.name):
            with each.runs.read(each.name, verify=verify) as run:
                runs[each.name] = read_run(run, each.title or label, each.task or _fitting(run, task))
    if task is not None and not any(run.task is task for run in runs.values()):
        raise BadInput(f"no run to report was made with the task {task.name!r} given from Python: leave out task")
    found = [] if verify else [Section("Records", (UNVERIFIED,))]
    found += compared_sections(list(runs.values()))
    for each, label in zip(reported, labels, strict=True):
        if Path(each.name).is_file():
            found += answer_file_sections(Path(each.name), f"{label}: " if len(reported) > 1 else "")
        elif each.name in runs:
            found += sections_of_run(runs[each.name], several=len(reported) > 1)
        else:
            found += study_sections(each.runs, each.name, verify=verify)
    return found


def _fitting(run: RunReader, task: Task | None) -> Task | None:
    """The task, where the run was given one of its name from Python."""
    return task if task is not None and stored_settings(run).task == name_of(task, task.name) else None


def labels_of(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, and as many before it as are needed to tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names


def sections_of_run(run: ReportedRun, *, several: bool = False, answers: bool = True) -> Iterator[Section]:
    """The sections of a run, named after it where there are several; without `answers`, none that shows some."""
    # No command finds a run that is kept in memory.
    others = {} if Path(run.name).exists() else {"others": "result.answers() has every test answer"}
    before, slug = (f"{run.label}: ", re.sub("[^0-9A-Za-z]+", "-", run.label) + "-") if several else ("", "")
    for section in (
        result_section(run),
        *evaluator_sections(run),
        *geometry_sections(run),
        *belief_sections(run.beliefs),
        *shift_sections(run),
        *forgetting_sections(run),
        *validity_sections(run),
        training_section(run),
        dev_section(run),
        curriculum_section(run),
        *demonstrations_sections(run),
        buffer_section(run),
        *((answers_section(run), transcripts_section(run.sample, run.transcripts, run.tiers, **others)) * answers),
        costs_section(run),
        settings_section(run),
    ):
        renamed = tuple(evolve(figure, name=slug + figure.name) for figure in section.figures)
        yield evolve(section, title=before + section.title, figures=renamed)
