"""Slow functions: draws, equal forms, hidden inputs, and the verdict on a program, with evidence by hand."""

from __future__ import annotations

import builtins
import io
import keyword
import re
import signal
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import sqrt
from typing import Any

import pytest

from attacks.program_tests import mutants
from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Outcome
from gce.domain.plain_values import from_text, to_text
from gce.domain.problems import Problem
from gce.domain.randomness import python_generator
from gce.domain.tasks import TASKS, draw_problem, draw_problems, judge
from gce.domain.tasks.faster import generate
from gce.domain.tasks.faster.flaws import ALGORITHMS, LOCAL, REPEATED, Flaw
from gce.domain.tasks.faster.generate import LEVELS, draw_slow_function, pieced_together
from gce.domain.tasks.faster.inputs import CALLS, DRAWN, EDGES, ROUNDS, draw_list, hidden_calls, timed_calls
from gce.domain.tasks.faster.slow_function import SlowFunction
from gce.domain.tasks.faster.verify import MARGIN, feedback, graded, request, verify
from gce.domain.tasks.programs.answer import fenced

FASTER = TASKS["faster"]
FLAWS = (*LOCAL, *REPEATED, *ALGORITHMS)
TIERS = [tier.name for tier in FASTER.tiers("functions")]


def called(source: str, name: str) -> Callable[[list[int]], Any]:
    """The function of a trusted source."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    function: Callable[[list[int]], Any] = namespace[name]
    return function


def differing(function: SlowFunction, program: str, values: list[list[int]]) -> int:
    """For how many lists another form gives another value, or changes its argument."""
    slow, other = called(function.slow, function.entry_point), called(program, function.entry_point)
    found = 0
    for value in values:
        argument = list(value)
        found += to_text(slow(list(value))) != to_text(other(argument)) or argument != value
    return found


def arguments(function: SlowFunction) -> list[list[int]]:
    return [from_text(call)[0] for call in hidden_calls(function)]


# Draws


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_both_forms_return_the_same_and_change_nothing(flaw: Flaw) -> None:
    function = pieced_together([flaw], python_generator("test", flaw.name), filtered=flaw in ALGORITHMS)
    lists = [*EDGES, *(draw_list(python_generator("test", flaw.name, number)) for number in range(40))]
    assert differing(function, function.fast, lists) == 0
    assert function.slow != function.fast


@pytest.mark.parametrize("level", range(1, LEVELS + 1))
def test_so_do_functions_of_each_level_and_those_with_one_flaw_mended(level: int) -> None:
    for number in range(4):
        function = draw_slow_function(level, python_generator("test", level, number))
        lists = arguments(function)[:60]
        assert [differing(function, form, lists) for form in (function.fast, *function.partly)] == [0] * (
            1 + len(function.partly)
        )
        assert len(function.partly) == (2 if level in (3, 5) else 0)


@pytest.mark.slow
def test_slow_and_fast_forms_agree_on_100_000_inputs() -> None:
    """500 functions, 100 of each level, with 200 drawn lists each."""
    tried = 0
    for level in range(1, LEVELS + 1):
        for number in range(100):
            rng = python_generator("equivalence", level, number)
            function = draw_slow_function(level, rng)
            lists = [draw_list(rng) for _ in range(200)]
            assert differing(function, function.fast, lists) == 0, function.slow
            tried += len(lists)
    assert tried == 100_000


def test_draws_are_distinct_and_splits_disjoint() -> None:
    for tier in TIERS:
        by_split = {
            split: {problem.digest for problem in draw_problems(FASTER, "functions", tier, split, 40)}
            for split in ("train", "dev", "test")
        }
        assert [len(digests) for digests in by_split.values()] == [40, 40, 40]
        assert len(set().union(*by_split.values())) == 120
    again = [draw_problem(FASTER, "functions", "F5", "test", 3) for _ in range(2)]
    assert again[0] == again[1]


def test_no_value_is_right_for_nearly_all_lists() -> None:
    """Not for the lists that the draw tries, nor for the others that an answer is judged by."""
    for number in range(100):
        function = draw_slow_function(1 + number % LEVELS, python_generator("test", "varies", number))
        form = called(function.fast, function.entry_point)
        values = [repr(form(each)) for each in arguments(function)]
        assert max(Counter(values).values()) < 0.9 * CALLS, function.slow


def test_a_distance_is_in_units_of_what_values_were_multiplied_by() -> None:
    """Else no two values have it: multiples of 8 that differ by 15."""
    by_8 = next(flaw for flaw in LOCAL if flaw.scale == "a")
    at_a_distance = next(flaw for flaw in ALGORITHMS if flaw.distance)
    for number in range(20):
        function = pieced_together([by_8, at_a_distance], python_generator("test", "distance", number))
        step, factor = (int(found) for found in re.findall(r" \* (\d+)", function.fast)[:2])
        distance = int(re.search(r"\[\w+ - (\d+)\]", function.fast)[1])  # type: ignore[index]
        assert distance % (step * factor) == 0 and distance // (step * factor) <= 9


def test_functions_that_differ_in_names_only_have_one_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    some = draw_slow_function(5, python_generator("test", "digest"))
    monkeypatch.setattr(generate, "_NAMES", {name: choices[::-1] for name, choices in generate._NAMES.items()})
    others = draw_slow_function(5, python_generator("test", "digest"))
    assert some.slow != others.slow and FASTER.digest(some) == FASTER.digest(others)


def test_no_name_is_a_keyword_or_used_twice() -> None:
    names = [name for choices in generate._NAMES.values() for name in choices]
    assert len(set(names)) == len(names)
    assert not [name for name in names if keyword.iskeyword(name) or hasattr(builtins, name)]


@pytest.mark.slow
def test_the_elementwise_step_reaches_every_residue() -> None:
    """Few different numbers would leave the slow form little to do."""
    blocks = range(-10 * 1024, 10 * 1024)  # An exclusive or with at most 999 maps these numbers to themselves.
    for number in range(400):
        function = draw_slow_function(1 + number % LEVELS, python_generator("test", "step", number))
        head, _, rest = function.slow.partition("\n    ")
        step = rest.partition("\n")[0].partition(" = ")[2]
        modulus = int(re.search(r"% (\d+) for", step)[1])  # type: ignore[index]
        values = called(f"{head}\n    return {step}", function.entry_point)(list(blocks))
        assert set(values) == set(range(modulus)), step


def test_every_placeholder_is_filled_in() -> None:
    for number in range(30):
        function = draw_slow_function(1 + number % LEVELS, python_generator("test", "names", number))
        tokens = [token.string for token in tokenize.generate_tokens(io.StringIO(function.slow).readline)]
        assert tokens.count("def") == 1 and "{" not in function.slow + function.fast


def test_the_prompt_shows_the_slow_form_and_nothing_hidden() -> None:
    problem = draw_problem(FASTER, "functions", "F3", "train", 0)
    text = problem.prompt[-1].content
    assert fenced(problem.instance.slow) in text and f"lists of {problem.instance.size} numbers" in text
    assert not any(each in text for each in (problem.instance.fast, str(problem.instance.seed)))


def test_hidden_inputs_follow_from_the_seed_and_differ_between_problems() -> None:
    one, other = (draw_problem(FASTER, "functions", "F1", "train", number).instance for number in (0, 1))
    assert hidden_calls(one) == hidden_calls(one) != hidden_calls(other)
    assert len(hidden_calls(one)) == CALLS == len(EDGES) + DRAWN + 1
    timed = [from_text(call)[0] for call in timed_calls(one)]
    assert [len(each) for each in timed] == [one.size] * ROUNDS and len(set(timed_calls(one))) == ROUNDS


# The verdict


@pytest.fixture
def problem() -> Problem:
    return draw_problem(FASTER, "functions", "F1", "train", 0)


def outcomes(seconds: float, text: str = "1", *, rounds: int = ROUNDS) -> tuple[Outcome, ...]:
    return (*[Outcome("returned", text)] * CALLS, *[Outcome("returned", text, seconds)] * rounds)


def judged(problem: Problem, evidence: Evidence | None, text: str | None = None) -> Any:
    response = fenced(problem.instance.fast) if text is None else text
    (verdict,) = verify(problem, Completion("a", response, "stop", policy=""), evidence)
    return verdict


def evidence(own: float, slow: float = 0.09, fast: float = 0.01) -> Evidence:
    return Evidence(outcomes(own), (outcomes(slow), outcomes(fast)))


def test_the_score_is_the_share_of_the_known_speedup_in_logarithms() -> None:
    assert graded(1.0, 9.0) == graded(MARGIN - 0.01, 9.0) == graded(0.2, 9.0) == 0.0
    assert graded(9.0, 9.0) == graded(50.0, 9.0) == graded(9.0 / MARGIN, 9.0) == 1.0
    assert graded(3.0, 9.0 * MARGIN) == pytest.approx(0.5)
    assert graded(sqrt(3.0), 9.0 * MARGIN) == pytest.approx(0.25)


def test_as_fast_as_the_known_form_is_right_and_as_slow_as_the_slow_one_is_wrong(problem: Problem) -> None:
    right = judged(problem, evidence(0.01))
    assert (right.status, right.score) == ("right", 1.0)
    assert right.measures == pytest.approx(
        {"calls": CALLS, "calls_equal": CALLS, "rounds": ROUNDS, "speedup": 9.0, "speedup_known": 9.0}
    )
    slow = judged(problem, evidence(0.09))
    assert (slow.status, slow.score, slow.violations[0].kind) == ("wrong", 0.0, "no-gain")
    between = judged(problem, evidence(0.03))
    assert (between.status, between.violations[0].kind) == ("wrong", "slower")
    assert between.score == pytest.approx(0.534, abs=1e-3)  # ln 3 / ln(9 / 1.15)
    assert FASTER.reward([between]) == between.score
    assert "3.0 times as fast" in feedback(between)


def test_the_median_over_the_rounds_decides_if_all_but_one_show_a_gain(problem: Problem) -> None:
    def with_own(*seconds: float) -> Any:
        own = [*outcomes(0.01)[:CALLS], *(Outcome("returned", "1", each) for each in seconds)]
        return judged(problem, Evidence(tuple(own), (outcomes(0.09), outcomes(0.01))))

    assert with_own(0.01, 0.03, 0.01, 0.01, 9.0).score == 1.0
    by_chance = with_own(0.01, 0.09, 0.01, 0.01, 9.0)
    assert (by_chance.score, by_chance.violations[0].kind) == (0.0, "no-gain")


def test_speed_counts_for_equal_programs_only(problem: Problem) -> None:
    known = (outcomes(0.09), outcomes(0.01))
    other = Evidence((Outcome("returned", "2"), *outcomes(0.001)[1:CALLS]), tuple(each[:CALLS] for each in known))
    verdict = judged(problem, other)
    assert (verdict.status, verdict.score, verdict.violations[0].kind) == ("wrong", 0.0, "wrong-value")
    assert verdict.measures["calls_equal"] == CALLS - 1
    assert f"1 of {CALLS} hidden calls" in feedback(verdict)
    long = Evidence((*outcomes(0.001)[:-1], Outcome("returned", "2", 0.001)), known)
    assert judged(problem, long).violations[0].message.startswith("a long list")


@pytest.mark.parametrize("status", ["raised", "unplain", "changed", "cpu", "time", "ended", "babbled"])
def test_what_ends_otherwise_is_wrong_in_a_call_and_in_a_timed_call(status: Any, problem: Problem) -> None:
    early = judged(problem, Evidence((Outcome(status, "x"),)))
    assert (early.status, early.score, early.violations[0].kind) == ("wrong", 0.0, status)
    late = Evidence(
        (*outcomes(1.0, rounds=0), Outcome(status, "x")), (outcomes(0.09, rounds=1), outcomes(0.01, rounds=1))
    )
    assert judged(problem, late).violations[0].kind == status


def test_a_fault_of_the_known_forms_or_of_the_runner_fails(problem: Problem) -> None:
    known = (outcomes(0.09), outcomes(0.01))
    cases = {
        "nothing ran": None,
        "empty": Evidence(()),
        "no sandbox": Evidence((Outcome("no-sandbox", "none"),)),
        "the slow form is too slow": Evidence(outcomes(0.01), ((*known[0][:-1], Outcome("cpu")), known[1])),
        "the forms differ": Evidence(outcomes(0.01), (known[0], outcomes(0.01, "2"))),
        "too few rounds": Evidence(outcomes(0.01, rounds=2), (outcomes(0.09, rounds=2), outcomes(0.01, rounds=2))),
    }
    for name, found in cases.items():
        verdict = judged(problem, found)
        assert (verdict.status, verdict.score) == ("failed", None), name


def test_without_one_program_an_answer_is_unreadable_and_nothing_runs(problem: Problem) -> None:
    assert judged(problem, None, "I do not know.").status == "unreadable"
    assert request(problem, Completion("a", "I do not know.", "stop", policy="")) is None
    assert judge(problem, "def g(x): return x").status == "unreadable"


def test_the_request_holds_both_known_forms_and_nothing_of_them_reaches_the_program(problem: Problem) -> None:
    asked = request(problem, Completion("a", fenced(problem.instance.fast), "stop", policy=""))
    assert asked is not None and asked.rivals == (problem.instance.slow, problem.instance.fast)
    assert len(asked.calls) == CALLS and len(asked.timed) == ROUNDS and asked.unchanged


# Mutants


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    def ended(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ended)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def notices(function: SlowFunction, program: str, lists: list[list[int]]) -> bool:
    """Whether one of these lists shows that the program is another one."""
    try:
        with at_most(10.0):
            slow, other = called(function.slow, function.entry_point), called(program, function.entry_point)
            for values in lists:
                argument = list(values)
                if to_text(other(argument)) != to_text(slow(list(values))) or argument != values:
                    return True
    except Exception:
        return True
    return False


@pytest.mark.slow
def test_hidden_calls_notice_wrong_changes_of_the_fast_form() -> None:
    """Of one-token changes that 600 fresh lists show to be wrong, at most 0.3 % pass all calls, the timed included."""
    wrong = survived = 0
    for number in range(100):
        rng = python_generator("mutants", number)
        function = draw_slow_function(1 + number % LEVELS, rng)
        long = [from_text(call)[0] for call in timed_calls(function)]
        for program, _ in mutants(function.fast):
            if notices(function, program, [*arguments(function), *long]):
                wrong += 1
            elif notices(function, program, [draw_list(rng) for _ in range(600)]):
                wrong += 1
                survived += 1
    print(f"{survived} of {wrong} wrong programs pass")
    assert wrong >= 1_500 and survived <= 0.003 * wrong
