"""What came of asking a model one problem, and the rates over it: one rule for every table, record and decision.

An answer is `right` (its reward is at least the task's `admit_at`), `wrong`, `unreadable` (the model's fault, as
`wrong` is: in every denominator, with reward 0, counted apart) or `failed`: the sandbox, the server or the verifier
could not do its part. What failed is outside every rate, is tried again, and is never learned from; it lowers the
coverage, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from gce.domain.completions import Completion
from gce.domain.measurements import Interval
from gce.domain.statistics import DEFAULT_INTERVAL, interval
from gce.domain.verdicts import Status, Verdict

__all__ = ["coverage", "outcome", "rate"]


def outcome(completion: Completion, verdicts: Iterable[Verdict], *, right: bool) -> Status:
    """The outcome of an answer with these verdicts; `right` is whether its reward is high enough for the task."""
    statuses = {verdict.status for verdict in verdicts}
    if completion.finish_reason == "error" or "failed" in statuses:
        return "failed"
    if right:
        return "right"
    return "unreadable" if "unreadable" in statuses else "wrong"


def rate(outcomes: Iterable[Status], *, method: str = DEFAULT_INTERVAL, confidence: float = 0.95) -> Interval:
    """The share that is right of those that did not fail, with its interval."""
    found = list(outcomes)
    failed = found.count("failed")
    share = interval(found.count("right"), len(found) - failed, method=method, confidence=confidence)
    return evolve(share, unreadable=found.count("unreadable"), failed=failed)


def coverage(rates: Iterable[Interval]) -> float:
    """Over several rates, the share of what was asked that did not fail, in [0, 1]; 1 where nothing was asked."""
    found = list(rates)
    asked = sum(each.n + each.failed for each in found)
    return sum(each.n for each in found) / asked if asked else 1.0
