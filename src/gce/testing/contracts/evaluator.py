"""Contract check for evaluators, third-party ones included: `check_evaluator(evaluator, answers)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.verdicts import Verdict
from gce.ports.evaluator import Evaluator

__all__ = ["check_evaluator"]

STRANGE = ("", "\0", "\ud800", "<think>", "</think>" * 9, "9" * 5_000, "{[(" * 400)


def check_evaluator(evaluator: Evaluator, answers: Sequence[tuple[Problem, Completion]]) -> None:
    """Assert that an evaluator satisfies its port, on at least two answers to its task's problems.

    Raises:
        AssertionError: it does not.
    """
    assert len(answers) > 1, "expected at least two answers to try it on"
    assert 0.0 <= evaluator.tolerance <= 1.0, f"expected a tolerance in [0, 1], got {evaluator.tolerance!r}"
    assert not (evaluator.deterministic and evaluator.tolerance), "one that is deterministic has tolerance 0"
    assert list(evaluator.judge([])) == [], "no answers, no verdicts"
    first = _judged(evaluator, answers)
    _same(evaluator, first, _judged(evaluator, answers))
    _same(evaluator, first[::-1], _judged(evaluator, answers[::-1]))
    _same(evaluator, first, [_judged(evaluator, [answer])[0] for answer in answers])
    problem, completion = answers[0]
    _judged(evaluator, [(problem, evolve(completion, text=text)) for text in STRANGE])


def _judged(evaluator: Evaluator, answers: Sequence[tuple[Problem, Completion]]) -> list[tuple[Verdict, ...]]:
    """Return the verdicts, given answers one by one; check that they come in order, one tuple per answer."""

    def one_by_one() -> Iterator[tuple[Problem, Completion]]:
        yield from answers

    found = list(evaluator.judge(one_by_one()))
    given = [(problem, completion) for problem, completion, _ in found]
    assert given == list(answers), "expected the answers that were given, in their order"
    for _, completion, verdicts in found:
        assert isinstance(verdicts, tuple) and verdicts, f"expected verdicts on {completion.key}, got {verdicts!r}"
        for verdict in verdicts:
            assert isinstance(verdict, Verdict), f"expected verdicts on {completion.key}, got {verdict!r}"
            said = verdict.status != "failed" or any(violation.message for violation in verdict.violations)
            assert said, f"expected a reason why judging {completion.key} failed, got none"
    return [verdicts for _, _, verdicts in found]


def _same(evaluator: Evaluator, before: list[tuple[Verdict, ...]], after: list[tuple[Verdict, ...]]) -> None:
    for one, other in zip(before, after, strict=True):
        if evaluator.deterministic:
            # Measures may hold times.
            assert [evolve(each, measures={}) for each in one] == [evolve(each, measures={}) for each in other], (
                f"expected the same verdicts again, got {one!r}, then {other!r}"
            )
            continue
        for mine, theirs in zip(one, other, strict=True):
            if mine.score is not None and theirs.score is not None:
                apart = abs(mine.score - theirs.score)
                assert apart <= evaluator.tolerance, f"scores are {apart:g} apart, more than the stated tolerance"
