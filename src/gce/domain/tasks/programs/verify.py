"""The verdict on a program, from what came of running it.

Right where the answer holds one program and every hidden call returned the expected value, told by its text, type and
all; or where the hidden tests passed. Each test was seen to return by a process that is out of the program's reach:
what the program prints, and how it ends, counts for nothing.
"""

from __future__ import annotations

import builtins

from attrs import evolve

from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Execution, Outcome
from gce.domain.problems import Problem
from gce.domain.tasks.programs.answer import read_program
from gce.domain.tasks.programs.exercise import Exercise
from gce.domain.verdicts import Verdict, Violation

__all__ = ["EVALUATOR", "VERSION", "feedback", "request", "verify"]

EVALUATOR = "programs"
VERSION = "2"

_SAID = {
    "raised": "the function raised {text}",
    "unplain": "the function returned something else than plain data: {text}",
    "undefined": "the program defines no such function",
    "unloadable": "the program cannot be loaded: {text}",
    "cpu": "the program took more processor time than it may",
    "time": "the program did not end in time",
    "ended": "the program ended its process: {text}",
    "babbled": "the program spoiled the channel for its results",
    "failed": "a hidden test failed: {text}",
}


_OF_ANSWERS = frozenset({"grammar", "missing-answer", "several-answers", "wrong-value"})
"""Violations whose messages are of this package, with counts and the function's name."""
_KNOWN = frozenset(
    name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, BaseException)
)


def feedback(verdict: Verdict) -> str:
    """What is wrong, in words of this module alone: what was said inside may be filled with hidden arguments.

    Of an exception the name is told, where Python has it built in.
    """
    return "\n".join([*map(_told, verdict.violations), "Try again."])


def _told(violation: Violation) -> str:
    if violation.kind in _OF_ANSWERS:
        return violation.message
    words = _SAID.get(violation.kind, "the program could not be judged")
    if violation.kind not in ("raised", "unloadable"):
        return words.partition(": {text}")[0]
    name = violation.message.removeprefix(words.format(text="")).partition(": ")[0]
    return words.format(text=name if name in _KNOWN else "an exception")


def request(problem: Problem, completion: Completion) -> Execution | None:
    """What has to be run; None where the response holds no program."""
    exercise: Exercise = problem.instance
    program = read_program(completion.text, exercise.entry_point)
    if isinstance(program, Violation):
        return None
    return Execution(
        f"{program}\n",
        exercise.entry_point,
        exercise.calls,
        exercise.tests,
        preamble=exercise.preamble,
        seconds=exercise.seconds,
    )


def verify(problem: Problem, completion: Completion, evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Right with score 1, wrong or unreadable with score 0 and a violation, failed without a score.

    Unreadable is a response that does not hold one program; failed is one that nothing ran, or whose tests are broken.
    Measures: `calls`, hidden calls in all, and `calls_right`.
    """
    exercise: Exercise = problem.instance
    program = read_program(completion.text, exercise.entry_point)
    if isinstance(program, Violation):
        return (evolve(_verdict(exercise, program), status="unreadable"),)
    if evidence is None or not evidence.outcomes:
        return (_failed("no-evidence", "nothing ran the program: a Runner has to be asked"),)
    last = evidence.outcomes[-1]
    if last.status in ("broken", "no-sandbox"):
        return (_failed(last.status, last.text or "the program was not run"),)
    if exercise.tests:
        return (_verdict(exercise, None if last.status == "passed" else _violation(last)),)
    found = zip(exercise.expected, evidence.outcomes, strict=False)
    right = sum(each.status == "returned" and each.text == expected for expected, each in found)
    if right == len(exercise.calls) == len(evidence.outcomes):
        return (_verdict(exercise, None, right),)
    bad = next((each for each in evidence.outcomes if each.status != "returned"), None)
    violation = _violation(bad) if bad else Violation("wrong-value", _wrong_values(exercise, right))
    return (_verdict(exercise, violation, right),)


def _wrong_values(exercise: Exercise, right: int) -> str:
    return f"{len(exercise.calls) - right} of {len(exercise.calls)} hidden calls returned a wrong value"


def _violation(outcome: Outcome) -> Violation:
    return Violation(outcome.status, _SAID.get(outcome.status, outcome.status).format(text=outcome.text or "nothing"))


def _verdict(exercise: Exercise, violation: Violation | None, calls_right: int = 0) -> Verdict:
    measures = {"calls": float(len(exercise.calls)), "calls_right": float(calls_right)} if exercise.calls else {}
    if violation is None:
        return Verdict("right", 1.0, EVALUATOR, VERSION, measures)
    return Verdict("wrong", 0.0, EVALUATOR, VERSION, measures, (violation,))


def _failed(kind: str, message: str) -> Verdict:
    return Verdict("failed", None, EVALUATOR, VERSION, {}, (Violation(kind, message),))
