"""The verdicts on a consultation: the schedule, by the verifier of `scheduling`, and whether a request was refused."""

from __future__ import annotations

from gce.domain.completions import Completion
from gce.domain.executions import Evidence
from gce.domain.problems import Problem
from gce.domain.tasks.consultation.case import ConsultationCase
from gce.domain.tasks.consultation.user import REFUSE, refusals
from gce.domain.tasks.scheduling.verify import feedback as schedule_feedback
from gce.domain.tasks.scheduling.verify import verify as verify_schedule
from gce.domain.verdicts import Verdict, Violation

__all__ = ["feedback", "verify"]

EVALUATOR, VERSION = "refusal", "1"


def verify(problem: Problem, completion: Completion, _evidence: Evidence | None = None) -> tuple[Verdict, ...]:
    """Judge the final message: its schedule under all facts, told or not; with a user, also what it refuses."""
    case: ConsultationCase = problem.instance
    schedule = verify_schedule(case.full, completion.text)
    return (schedule,) if case.persona is None else (schedule, _refusal(case.persona.request, completion.text))


def _refusal(request: str, text: str) -> Verdict:
    """Return whether a line `Refuse:` is there exactly if something has to be refused."""
    refused = refusals(text) > 0
    measures = {"refused": float(refused)}
    if refused == bool(request):
        return Verdict("right", 1.0, EVALUATOR, VERSION, measures)
    if refused:
        violation = Violation("refusal", f'There was nothing to refuse, and a line starts with "{REFUSE}".')
    else:
        violation = Violation("no-refusal", f'A request had to be refused, and no line starts with "{REFUSE}".')
    return Verdict("wrong", 0.0, EVALUATOR, VERSION, measures, (violation,))


def feedback(verdict: Verdict) -> str:
    """Say what is wrong, and never what would be right."""
    if verdict.evaluator != EVALUATOR:
        return schedule_feedback(verdict)
    return "\n".join(violation.message for violation in verdict.violations) or "What was refused is right."
