"""What a response's program is, and what the runner's outcomes make of it, at the borders."""

from __future__ import annotations

import pytest
from present import present

from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Outcome, OutcomeStatus
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.tasks.programs.answer import MOST_CHARACTERS, fenced, read_program
from gce.domain.tasks.programs.exercise import Exercise
from gce.domain.tasks.programs.verify import EVALUATOR, VERSION, feedback, request, verify
from gce.domain.verdicts import Verdict, Violation

PROGRAM = "def f(x):\n    return x + 1"
CALLED = Exercise("Add one.", "f", calls=("[1]", "[2]", "[3]"), expected=("2", "3", "4"))
TESTED = Exercise("Add one.", "f", tests="assert f(1) == 2")


def judged(exercise: Exercise, *outcomes: Outcome, text: str = fenced(PROGRAM)) -> Verdict:
    problem = Problem(
        ProblemId("programs", "by hand", "test", "P1", 0, 0), exercise, (Message("user", "Add one."),), "0" * 32
    )
    (verdict,) = verify(problem, Completion("k", text, "stop", policy="test"), Evidence(outcomes))
    return verdict


def returned(*values: str) -> list[Outcome]:
    return [Outcome("returned", value) for value in values]


def test_a_response_may_have_as_many_characters_as_are_read_and_no_more() -> None:
    text = fenced(PROGRAM)
    longest = "x" * (MOST_CHARACTERS - len(text) - 1) + "\n" + text
    assert MOST_CHARACTERS == 20_000
    assert read_program(longest, "f") == PROGRAM
    assert read_program("x" + longest, "f") == Violation(
        "grammar", "the response has 20001 characters, more than 20000"
    )


@pytest.mark.parametrize("language", ["", "py", "python", "python3", "Python", " python "])
def test_a_block_of_python_is_marked_so_or_not_at_all(language: str) -> None:
    assert read_program(f"```{language}\n{PROGRAM}\n```", "f") == PROGRAM


def test_the_program_is_the_block_alone_and_the_last_one() -> None:
    assert read_program(f"```\nf(1)\n```\nso\n{fenced(PROGRAM)}\nIt adds one.", "f") == PROGRAM
    assert read_program(f"\n{PROGRAM}\n\n", "f") == PROGRAM
    assert fenced(f"{PROGRAM}\n\n") == f"```python\n{PROGRAM}\n```"


def test_a_block_ends_with_a_bare_fence_alone() -> None:
    """A fence with a language behind it would end one block and begin another at once."""
    assert read_program(f"```python\n{PROGRAM}\n```python", "f") == Violation(
        "grammar", "a fence with text behind it stands inside a block"
    )


def test_a_violation_counts_the_definitions() -> None:
    assert read_program("\n".join([PROGRAM] * 3), "f") == Violation("several-answers", "the program defines f 3 times")
    assert read_program("\n".join([fenced(PROGRAM)] * 3), "f") == Violation(
        "several-answers", "several blocks define f"
    )


def test_all_right_says_how_many_calls_were() -> None:
    assert judged(CALLED, *returned("2", "3", "4")) == Verdict(
        "right", 1.0, EVALUATOR, VERSION, {"calls": 3.0, "calls_right": 3.0}
    )


def test_a_wrong_value_says_how_many_and_not_which() -> None:
    found = judged(CALLED, *returned("2", "0", "4"))
    assert (found.status, found.score, found.measures) == ("wrong", 0.0, {"calls": 3.0, "calls_right": 2.0})
    assert found.violations == (Violation("wrong-value", "1 of 3 hidden calls returned a wrong value"),)


@pytest.mark.parametrize("status", ["raised", "unplain", "undefined", "time"])
def test_the_expected_text_counts_only_where_it_was_returned(status: OutcomeStatus) -> None:
    """A program chooses what it raises, and what its odd value looks like."""
    found = judged(CALLED, *returned("2", "3"), Outcome(status, "4"))
    assert (found.status, found.violations[0].kind) == ("wrong", status)
    assert found.measures == {"calls": 3.0, "calls_right": 2.0}


def test_hundreds_of_calls_can_be_right() -> None:
    texts = [str(number) for number in range(300)]
    many = Exercise("The same.", "f", calls=tuple(f"[{text}]" for text in texts), expected=tuple(texts))
    assert judged(many, *returned(*map(str, range(300)))).right


@pytest.mark.parametrize("values", [("2", "3"), ("2", "3", "4", "5")])
def test_fewer_or_more_values_than_calls_are_wrong(values: tuple[str, str] | tuple[str, str, str, str]) -> None:
    found = judged(CALLED, *returned(*values))
    assert (found.status, found.violations[0].kind) == ("wrong", "wrong-value")


def test_the_first_call_that_returns_nothing_is_named() -> None:
    found = judged(CALLED, *returned("9"), Outcome("raised", "KeyError: 1"), Outcome("raised", "ValueError: 2"))
    assert found.violations == (Violation("raised", "the function raised KeyError: 1"),)
    assert found.measures == {"calls": 3.0, "calls_right": 0.0}
    assert judged(CALLED, Outcome("ended")).violations == (
        Violation("ended", "the program ended its process: nothing"),
    )


def test_what_is_no_program_has_no_call_right() -> None:
    found = judged(CALLED, text="I do not know.")
    assert (found.status, found.score, found.measures) == ("unreadable", 0.0, {"calls": 3.0, "calls_right": 0.0})
    assert [violation.kind for violation in found.violations] == ["missing-answer"]


def test_tests_have_no_calls_to_count() -> None:
    assert judged(TESTED, Outcome("passed", "1")) == Verdict("right", 1.0, EVALUATOR, VERSION, {})
    assert judged(TESTED, Outcome("failed", "assert")) == Verdict(
        "wrong", 0.0, EVALUATOR, VERSION, {}, (Violation("failed", "a hidden test failed: assert"),)
    )


@pytest.mark.parametrize("exercise", [CALLED, TESTED])
def test_where_the_last_outcome_is_none_of_the_programs_judging_fails(exercise: Exercise) -> None:
    for outcome, message in (
        (Outcome("broken", "SyntaxError"), "SyntaxError"),
        (Outcome("no-sandbox"), "the program was not run"),
    ):
        found = judged(exercise, *returned("2", "3"), outcome)
        assert (found.status, found.score, found.measures) == ("failed", None, {})
        assert found.violations == (Violation(outcome.status, message),)
    assert judged(exercise).violations[0].kind == "no-evidence"


def test_only_a_program_is_asked_for_with_all_that_it_needs() -> None:
    exercise = Exercise("Add one.", "f", tests="assert f(1) == 2", preamble="import math", seconds=7)
    problem = Problem(
        ProblemId("programs", "by hand", "test", "P1", 0, 0), exercise, (Message("user", "Add one."),), "0" * 32
    )
    asked = present(request(problem, Completion("k", fenced(PROGRAM), "stop", policy="test")))
    assert (asked.source, asked.entry_point, asked.calls, asked.tests) == (f"{PROGRAM}\n", "f", (), exercise.tests)
    assert (asked.preamble, asked.seconds) == ("import math", 7)
    assert request(problem, Completion("k", "nothing", "stop", policy="test")) is None


def test_feedback_tells_the_kind_of_exception_and_nothing_that_the_program_said() -> None:
    told = feedback(judged(CALLED, Outcome("raised", "KeyError: [3]")))
    assert told == "the function raised KeyError\nTry again."
    assert feedback(judged(CALLED, Outcome("raised", "Odd: [3]"))) == "the function raised an exception\nTry again."
    assert feedback(judged(CALLED, Outcome("ended", "[3]"))) == "the program ended its process\nTry again."
    assert feedback(judged(CALLED, Outcome("unloadable", "SyntaxError: a: b"))) == (
        "the program cannot be loaded: SyntaxError\nTry again."
    )
