"""The verdict on a program, from the results of running it.

An answer is right if it holds one program and every hidden call returned the expected value, compared as text, types
included; or if the hidden tests passed. A process outside the program's reach observes that each test returns: the
program's output and exit status do not count.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from attrs import evolve

from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Execution, Outcome
from gce.domain.problems import Problem
from gce.domain.tasks.programs.answer import read_program
from gce.domain.tasks.programs.exercise import Exercise
from gce.domain.verdicts import Verdict, Violation

__all__ = ["EVALUATOR", "VERSION", "feedback", "request", "share_of_calls", "verify", "violation_of"]

EVALUATOR = "programs"
VERSION = "2"

_SAID = {
    "raised": "the function raised {text}",
    "unplain": "the function returned something else than plain data: {text}",
    "changed": "the function changed its arguments",
    "undefined": "the program defines no such function",
    "unloadable": "the program cannot be loaded: {text}",
    "cpu": "the program took more processor time than it may",
    "time": "the program did not end in time",
    "ended": "the program ended its process: {text}",
    "babbled": "the program spoiled the channel for its results",
    "failed": "a hidden test failed: {text}",
}


_OF_ANSWERS = frozenset({"grammar", "missing-answer", "several-answers", "wrong-value"})
"""Kinds of violations whose messages come from this package, with counts and the function's name."""
_KNOWN = frozenset(
    name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, BaseException)
)


def feedback(verdict: Verdict) -> str:
    """Say what is wrong, in this module's own words: text from inside the sandbox may leak hidden arguments.

    An exception is named only if it is a Python built-in.
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
    """Return the program to run; None if the response holds no program."""
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
    """Judge an answer: right with score 1, wrong or unreadable with score 0 and a violation, or failed without a score.

    Unreadable: the response does not hold exactly one program. Failed: nothing was run, or the tests are broken.
    Measures: `calls`, the number of hidden calls, and `calls_right`.
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
        return (_verdict(exercise, None if last.status == "passed" else violation_of(last)),)
    found = zip(exercise.expected, evidence.outcomes, strict=False)
    right = sum(each.status == "returned" and each.text == expected for expected, each in found)
    if right == len(exercise.calls) == len(evidence.outcomes):
        return (_verdict(exercise, None, right),)
    bad = next((each for each in evidence.outcomes if each.status != "returned"), None)
    violation = violation_of(bad) if bad else Violation("wrong-value", _wrong_values(exercise, right))
    return (_verdict(exercise, violation, right),)


def _wrong_values(exercise: Exercise, right: int) -> str:
    return f"{len(exercise.calls) - right} of {len(exercise.calls)} hidden calls returned a wrong value"


def violation_of(outcome: Outcome) -> Violation:
    """Return the violation that an outcome other than a returned value or passed tests is."""
    return Violation(outcome.status, _SAID.get(outcome.status, outcome.status).format(text=outcome.text or "nothing"))


def _verdict(exercise: Exercise, violation: Violation | None, calls_right: int = 0) -> Verdict:
    measures = {"calls": float(len(exercise.calls)), "calls_right": float(calls_right)} if exercise.calls else {}
    if violation is None:
        return Verdict("right", 1.0, EVALUATOR, VERSION, measures)
    return Verdict("wrong", 0.0, EVALUATOR, VERSION, measures, (violation,))


def _failed(kind: str, message: str) -> Verdict:
    return Verdict("failed", None, EVALUATOR, VERSION, {}, (Violation(kind, message),))


def share_of_calls(_problem: Problem, _completion: Completion, verdicts: Sequence[Verdict]) -> float | None:
    """Return the share of hidden calls that returned the right value; None where the exercise has tests instead."""
    measures = verdicts[0].measures
    if "calls" not in measures:
        return None
    return measures["calls_right"] / measures["calls"]
