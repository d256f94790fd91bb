"""The verdict on a stated belief: its quadratic distance from the exact posterior, or from the outcome.

With the posterior p known, E (b - y)^2 = p (1 - p) + (b - p)^2: the excess (b - p)^2 rewards the same belief as the
Brier score (Brier, 1950) without the noise of the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from gce.domain.completions import Completion
from gce.domain.executions import Evidence
from gce.domain.problems import Problem
from gce.domain.tasks.beliefs.answer import parse
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.verdicts import Verdict, Violation

__all__ = ["ADMIT_AT", "TOLERANCE", "VERSION", "brier_by_outcome", "verify", "verify_by_outcome"]

VERSION = "1"
TOLERANCE = 0.02
"""A belief this close to the target counts as right; whole percents are always close enough."""
ADMIT_AT = 1.0 - TOLERANCE**2 - 1e-12
"""The reward of such a belief."""


def verify(problem: Problem, completion: Completion, _evidence: Evidence | None = None) -> tuple[Verdict, ...]:
    """Judge a belief b by the target t, the exact posterior (or the outcome if that is unknown): score 1 - (b - t)^2.

    Right: b is within `TOLERANCE` of t. Unreadable, with score 0: the response states no probability by the grammar.
    Failed: no target is known. Measures: `belief` if it can be read, and whatever is answered, where known, `target`,
    `posterior` (an opinion included), `prior`, `outcome`, and a user's `opinion`, 1 for the claim and 0 against it,
    with its `reliability`.
    """
    return (_verdict("beliefs", problem.instance, completion.text, problem.instance.target),)


def verify_by_outcome(
    problem: Problem, completion: Completion, _evidence: Evidence | None = None
) -> tuple[Verdict, ...]:
    """Judge a belief as `verify` does, but by the outcome alone: the score is 1 minus the Brier score."""
    outcome = problem.instance.outcome
    return (_verdict("beliefs-by-outcome", problem.instance, completion.text, None if outcome is None else outcome),)


def brier_by_outcome(problem: Problem, _completion: Completion, verdicts: Sequence[Verdict]) -> float | None:
    """Return 1 minus the Brier score against the drawn outcome, 0 for an unreadable belief; None without an outcome."""
    if problem.instance.outcome is None:
        return None
    belief = verdicts[0].measures.get("belief")
    return 0.0 if belief is None else float(1.0 - (belief - problem.instance.outcome) ** 2)


def _verdict(evaluator: str, question: BeliefQuestion, text: str, target: float | None) -> Verdict:
    belief = parse(text)
    known = {name: float(value) for name, value in _known(question, target).items() if value is not None}
    if isinstance(belief, Violation):
        return Verdict("unreadable", 0.0, evaluator, VERSION, known, (belief,))
    measures = {"belief": belief, **known}
    if target is None:
        violation = Violation("no-truth", "neither the posterior nor the outcome of this question is known")
        return Verdict("failed", None, evaluator, VERSION, measures, (violation,))
    score = 1.0 - (belief - target) ** 2
    if score >= ADMIT_AT:
        return Verdict("right", score, evaluator, VERSION, measures)
    violation = Violation("belief", "The stated probability is not the one that follows from what is known.")
    return Verdict("wrong", score, evaluator, VERSION, measures, (violation,))


def _known(question: BeliefQuestion, target: float | None) -> dict[str, float | None]:
    """What is known of a question whatever is answered, by the name of the measure; None for what is unknown."""
    posterior = question.target if question.posterior is not None else None
    known = {"target": target, "posterior": posterior, "prior": question.prior, "outcome": question.outcome}
    opinion = question.opinion
    if opinion is None or opinion.option is None:
        return known
    return {**known, "opinion": 1.0 - opinion.option, "reliability": opinion.reliability}
