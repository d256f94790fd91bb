"""What must hold whatever a response says: judged on fixed problems, and compared with an independent judge.

Knows neither where texts come from nor who mutates them: `attacks.fuzz` tries texts of its own, the tests replay the
kept ones.
"""

from __future__ import annotations

import math
import re
import time

from gce.domain.completions import Completion
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.task import SCHEDULING
from gce.domain.tasks.scheduling.verify import EVALUATOR, KINDS, MAX_VIOLATIONS, VERSION
from gce.domain.tasks.task import Task
from gce.domain.verdicts import Verdict
from gce.testing.scheduling.checkers import faults, read

__all__ = ["PROBLEMS", "check"]

SECONDS = 0.5
"""For one verdict; a fuzzer's texts have a few thousand characters, which take some milliseconds."""


def _problem(tier: str, instance: Instance) -> Problem:
    prompt = (Message("user", "Fixed, so that a kept text means the same for ever."),)
    return Problem(ProblemId("scheduling", "fixed", "train", tier, 0, 0), instance, prompt, tier)


PROBLEMS = (
    _problem(
        "tight",
        Instance(
            (Job("A", 2, (1,)), Job("B", 3, (2,), 5), Job("C", 1, (1,))), (("A", "B"),), (Resource("crew", 2),), 5
        ),
    ),
    _problem(
        "digits",
        Instance((Job("0", 1, ()), Job("7", 0, (), 3), Job("12", 2, ())), (("0", "7"), ("7", "12")), (), 1_000_000),
    ),
    _problem(
        "words",
        Instance(
            (Job("Answer", 2, (1, 0)), Job("answer", 1, (1, 1), 4), Job("a", 0, (0, 1)), Job("x" * 41, 1, (0, 2))),
            (("answer", "a"),),
            (Resource("crew", 1), Resource("crane", 2)),
        ),
    ),
    _problem("one", Instance((Job("A", 1, (1,)),), (), (Resource("crew", 1),))),
)
"""Every family of constraints, tight bounds, no duration, and labels that are numbers, words or the marker itself."""


def check(text: str, task: Task = SCHEDULING) -> tuple[Verdict, ...]:
    """Judge a response on every problem and return the verdicts.

    Raises:
        AssertionError: a verdict is malformed, slow, not the same twice, or not what the independent judge says.
    """
    entries = read(_said(text))
    return tuple(_check(problem, text, entries, task) for problem in PROBLEMS)


def _check(problem: Problem, text: str, entries: list[tuple[str, int]] | None, task: Task) -> Verdict:
    completion = Completion("key", text, "stop", "policy")
    began = time.process_time()
    verdicts = task.judge(problem, completion)
    seconds = time.process_time() - began
    assert seconds < SECONDS, f"slow: {seconds:.2f} s for {len(text)} characters"
    assert verdicts == task.judge(problem, completion), "not the same twice"
    assert len(verdicts) == 1, f"expected one verdict, got {verdicts!r}"
    (verdict,) = verdicts
    if _is_unfinished(text):
        assert verdict.status == "unreadable", f"malformed: a thought without end is {verdict.status}"
    else:
        _check_form(verdict)
    assert task.teaching.feedback(verdict).replace("\n", "").isprintable(), "unprintable feedback"
    right = (
        entries is not None
        and sorted(label for label, _ in entries) == sorted(problem.instance.labels)
        and not faults(problem.instance, dict(entries))
    )
    assert verdict.right == right, f"false {'accept' if verdict.right else 'reject'} on problem {problem.tier!r}"
    return verdict


def _check_form(verdict: Verdict) -> None:
    said = "; ".join(violation.message for violation in verdict.violations)
    assert verdict.status in ("right", "wrong"), f"malformed: status {verdict.status!r}: {said}"
    assert verdict.score == (1.0 if verdict.right else 0.0), f"malformed: score {verdict.score!r}"
    assert (verdict.evaluator, verdict.version) == (EVALUATOR, VERSION), "malformed: another evaluator"
    assert verdict.right == (not verdict.violations), "malformed: violations and status disagree"
    assert len(verdict.violations) <= MAX_VIOLATIONS, "malformed: too many violations"
    for violation in verdict.violations:
        assert violation.kind in KINDS, f"malformed: kind {violation.kind!r}"
        assert violation.message.isprintable() and len(violation.message) < 400, f"malformed: {violation.message!r}"
    for name, value in verdict.measures.items():
        assert isinstance(value, float) and math.isfinite(value), f"malformed: {name} is {value!r}"


def _said(text: str) -> str:
    """The response without what was thought before it, read apart from the code under test."""
    if "</think>" in text:
        return text.split("</think>")[-1]
    return "" if _is_unfinished(text) else text


def _is_unfinished(text: str) -> bool:
    """Whether a thought that the response begins with does not end."""
    return bool(re.match(r"\s*<think>", text)) and "</think>" not in text
