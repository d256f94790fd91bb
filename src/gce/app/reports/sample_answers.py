"""What a run's model wrote: sample answers, drawn where the task can draw, and what is wrong with the wrong ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gce.app.evaluation.scoring import stored_outcome
from gce.app.reports.run import ReportedRun
from gce.app.reports.section import Section
from gce.app.wiring.tasks import stored_problem
from gce.domain.figures import Table, Timeline
from gce.domain.tasks import ProblemSource
from gce.domain.text import counted
from gce.errors import BadInput

__all__ = ["answers_section"]

ANSWERS = 4
"""Sample answers that are drawn."""


def answers_section(run: ReportedRun) -> Section:
    """A right and a wrong answer of the last tiers that have them, drawn where the task can draw."""
    answers = run.answers
    if not answers:
        return Section("Sample answers", ("There are no answers yet.",))
    failed = sum(stored_outcome(each) == "failed" for each in answers)
    answers = [each for each in answers if stored_outcome(each) != "failed"]
    chosen: list[Mapping[str, Any]] = []
    for tier in reversed(run.tiers):
        for right in (False, True):
            chosen += [each for each in answers if each["tier"] == tier and each["right"] is right][:1]
    drawn, faults = _charts(run, chosen[:ANSWERS])
    kinds = Counter(
        next((violation["kind"] for verdict in each["verdicts"] for violation in verdict["violations"]), "none named")
        for each in answers
        if not each["right"]
    )
    rows = tuple((kind, str(count)) for kind, count in kinds.most_common())
    if failed:
        faults.append(f"{counted(failed, 'answer')} failed, not given or not judged, and excluded from all rates.")
    words = (*faults, "Wrong answers by their first violation:" if rows else "No answer was wrong.")
    return Section("Sample answers", words, (Table(("violation", "answers"), rows),) if rows else (), tuple(drawn))


def _charts(run: ReportedRun, answers: Sequence[Mapping[str, Any]]) -> tuple[list[Timeline], list[str]]:
    """Answers that the task can draw, and what is wrong with them, or why none is drawn."""
    if run.task is None:
        return [], [f"No charts and judged steps: {run.no_task}."]
    drawn, faults, source = [], [], ProblemSource(run.task)
    for number, answer in enumerate(answers):
        try:
            problem = stored_problem(source, answer)
        except BadInput as error:
            faults.append(f"No chart: {error}.")
            break
        found = run.task.teaching.chart(problem, answer["text"])
        if found is not None and found.bars:
            title = f"{problem.id.within_task}: {'right' if answer['right'] else 'wrong'}"
            drawn.append(Timeline(f"answer-{number + 1}", title, found))
            faults += [f"{title}. {' '.join(found.faults)}"] if found.faults else []
    return drawn, faults
