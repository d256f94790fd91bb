"""The verdict on a faster function: equal to the slow form, then graded by processor time.

An answer must return what the slow form returns, types included, for `inputs.CALLS` hidden inputs and for the timed
ones, and must not change its argument. Only then does its speed count. Each timed call of the program, the slow form
and the known fast form runs in a new process, at the same time on one processor, on a list that no process has seen
before; the time is user and system time of that process from its start, loading included, as its parent reads it from
the kernel when the process has ended, and what it waits longer than the known forms. Instructions or lines counted
inside the process were rejected: a program can switch the counter off, and it does not see the work of `in`, `sorted`
or `list.insert`, which are the inefficiencies here. Nothing that the program prints, raises or patches reaches the
clock, and its process can start no other one to work for it.

With the speed-up s of the program and s* of the fast form, medians over the rounds of slow time over own time, the
score is ln(s) / ln(s* / `MARGIN`), cut to [0, 1]. It is 0 unless all rounds but one show a speed-up of `MARGIN`, so
that noise is worth nothing.
docs/explanation/faster.md has the measured repeatability.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import median

from attrs import evolve

from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Execution, Outcome
from gce.domain.problems import Problem
from gce.domain.tasks.faster.inputs import CALLS, ROUNDS, hidden_calls, timed_calls
from gce.domain.tasks.faster.slow_function import SlowFunction
from gce.domain.tasks.programs.answer import read_program
from gce.domain.tasks.programs.verify import feedback as feedback_on_program
from gce.domain.tasks.programs.verify import violation_of
from gce.domain.verdicts import Status, Verdict, Violation

__all__ = ["ADMIT_AT", "EVALUATOR", "MARGIN", "VERSION", "feedback", "graded", "processor_time", "request", "verify"]

EVALUATOR = "faster"
VERSION = "2"
MARGIN = 1.15
"""Ratio of two times up to which they count as equal."""
ADMIT_AT = 0.8
"""The reward from which on a program counts as right."""
SECONDS = 3
"""Limit on the processor time of one process."""
_SLOW = frozenset({"no-gain", "slower"})


def request(problem: Problem, completion: Completion) -> Execution | None:
    """Return the program to run beside both known forms; None if the response holds no program."""
    function: SlowFunction = problem.instance
    program = read_program(completion.text, function.entry_point)
    if isinstance(program, Violation):
        return None
    return Execution(
        f"{program}\n",
        function.entry_point,
        hidden_calls(function),
        unchanged=True,
        rivals=(function.slow, function.fast),
        timed=timed_calls(function),
        seconds=SECONDS,
    )


def verify(problem: Problem, completion: Completion, evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Judge an answer: right from a score of `ADMIT_AT` on, otherwise wrong; its score is 0 if it is not equal.

    Unreadable: the response does not hold exactly one program. Failed: nothing was run, or a known form did not return.
    Measures: `calls`, `calls_equal`, and for an equal program `rounds`, `speedup` and `speedup_known`.
    """
    program = read_program(completion.text, problem.instance.entry_point)
    if isinstance(program, Violation):
        return (Verdict("unreadable", 0.0, EVALUATOR, VERSION, {}, (program,)),)
    if evidence is None or not evidence.outcomes:
        return (_failed("no-evidence", "nothing ran the program: a Runner has to be asked"),)
    own = evidence.outcomes
    if own[-1].status == "no-sandbox":
        return (_failed("no-sandbox", own[-1].text or "the program was not run"),)
    faulty = next((outcome for outcome in own if outcome.status != "returned"), None)
    if not evidence.rivals:
        return (_wrong(faulty or Outcome("ended"), 0),)
    slow, fast = evidence.rivals
    for outcome in (*slow, *fast):
        if outcome.status != "returned" and faulty is None:
            return (_failed("known-form", f"a known form did not return: {outcome.status} {outcome.text}"),)
    if _texts(slow[:CALLS]) != _texts(fast[:CALLS]):
        return (_failed("known-form", "the slow and the fast form differ"),)
    equal = sum(ours == theirs for ours, theirs in zip(_texts(own[:CALLS]), _texts(slow[:CALLS]), strict=False))
    if faulty is not None:
        return (_wrong(faulty, equal),)
    if equal < CALLS:
        message = f"{CALLS - equal} of {CALLS} hidden calls returned another value than the slow form"
        return (_verdict(0.0, equal, Violation("wrong-value", message)),)
    if _texts(own) != _texts(slow):
        return (_verdict(0.0, equal, Violation("wrong-value", "a long list gave another value than the slow form")),)
    if not ROUNDS == len(own) - CALLS == len(slow) - CALLS == len(fast) - CALLS:
        return (_failed("no-evidence", "the runner timed too few calls"),)
    return (_graded(_ratios(own, slow), speedup(fast, slow)),)


def speedup(outcomes: Sequence[Outcome], slow: Sequence[Outcome]) -> float:
    """Return the median over the timed calls of the slow form's time over the other's."""
    return median(_ratios(outcomes, slow))


def _ratios(outcomes: Sequence[Outcome], slow: Sequence[Outcome]) -> list[float]:
    """Return the ratios of the timed calls, the smallest first."""
    return sorted(
        max(theirs.seconds, 1e-6) / max(ours.seconds, 1e-6)
        for ours, theirs in zip(outcomes, slow, strict=True)
        if ours.seconds is not None and theirs.seconds is not None
    )


def graded(own: float, known: float) -> float:
    """Return the score of a speed-up, in [0, 1], where the known fast form has the speed-up `known`."""
    if own < MARGIN:
        return 0.0
    return min(1.0, log(own) / log(max(known / MARGIN, MARGIN)))


def _graded(ratios: Sequence[float], known: float) -> Verdict:
    own = median(ratios)
    score = graded(own, known) if ratios[1] >= MARGIN else 0.0
    if score >= ADMIT_AT:
        violation = None
    elif score == 0.0:
        how = "not faster" if own < MARGIN else f"faster in fewer than {ROUNDS - 1} of {ROUNDS} rounds"
        violation = Violation("no-gain", f"The program is equal to the slow form and {how}.")
    else:
        message = f"The program is equal to the slow form and {own:.1f} times as fast; it can be faster."
        violation = Violation("slower", message, found=own)
    verdict = _verdict(score, CALLS, violation)
    measures = {**verdict.measures, "rounds": float(ROUNDS), "speedup": own, "speedup_known": known}
    return evolve(verdict, measures=measures)


def processor_time(_problem: Problem, _completion: Completion, verdicts: Sequence[Verdict]) -> float:
    """Return the known fast form's processor time over the program's, at most 1; 0 for a program that is not equal."""
    measures = verdicts[0].measures
    return min(1.0, measures["speedup"] / measures["speedup_known"]) if "speedup" in measures else 0.0


def feedback(verdict: Verdict) -> str:
    """Say what is wrong, in the project's own words: text from inside the sandbox may leak hidden inputs."""
    slow = [violation.message for violation in verdict.violations if violation.kind in _SLOW]
    return "\n".join([*slow, "Try again."]) if slow else feedback_on_program(verdict)


def _texts(outcomes: Sequence[Outcome]) -> list[str | None]:
    return [outcome.text if outcome.status == "returned" else None for outcome in outcomes]


def _verdict(score: float, equal: int, violation: Violation | None) -> Verdict:
    measures = {"calls": float(CALLS), "calls_equal": float(equal)}
    status: Status = "right" if violation is None else "wrong"
    return Verdict(status, score, EVALUATOR, VERSION, measures, () if violation is None else (violation,))


def _wrong(outcome: Outcome, equal: int) -> Verdict:
    return _verdict(0.0, equal, violation_of(outcome))


def _failed(kind: str, message: str) -> Verdict:
    return Verdict("failed", None, EVALUATOR, VERSION, {}, (Violation(kind, message),))
