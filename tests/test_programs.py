"""Programs as a task: answers read strictly, functions that differ, and verdicts that follow from the evidence."""

from __future__ import annotations

import builtins
import copy
import random
import re
from hashlib import blake2b
from typing import Any, get_args

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from present import present

from attacks.program_tests import mutants
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.sandboxes.scripted import ScriptedRunner
from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Outcome, OutcomeStatus
from gce.domain.plain_values import from_text, to_text
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import TASKS, Drawn, NoProblem, ProblemSource, Task, TaskTier, draw_problem, draw_problems
from gce.domain.tasks.programs.answer import MOST_CHARACTERS, fenced, read_program
from gce.domain.tasks.programs.exercise import Exercise
from gce.domain.tasks.programs.generate import draw_exercise, probes
from gce.domain.tasks.programs.primitives import FAMILIES, draw_edge, draw_value
from gce.domain.tasks.programs.records import exercise_of
from gce.domain.verdicts import Violation

PROGRAMS = TASKS["programs"]
TIERS = ("P1", "P2", "P3", "P4", "P5")
PROGRAM = "def f(x):\n    return x + 1"


def completion(text: str) -> Completion:
    return Completion("k", text, "stop", policy="test")


def kind_of(text: str) -> str:
    found = read_program(text, "f")
    return found.kind if isinstance(found, Violation) else "program"


@pytest.mark.parametrize(
    "text",
    [
        PROGRAM,
        f"\n\n{PROGRAM}\n",
        fenced(PROGRAM),
        f"Here it is:\n```py\n{PROGRAM}\n```\nIt adds one.",
        f"```\n{PROGRAM}\n```",
        f"```text\nadd one\n```\n{fenced(PROGRAM)}",
        f"import math\n{PROGRAM}",
        f"# adds one\n{PROGRAM}",
        f"{PROGRAM}\n\ndef g(x):\n    return f(x)",
        f"  ```python\n{PROGRAM}\n  ```",
        fenced(f"{PROGRAM}\n\n# caf\u00e9 \u200b\ndef ff(x):\n    def f(y): return y\n    return f(x)"),
    ],
)
def test_one_program_is_read(text: str) -> None:
    found = read_program(text, "f")
    assert isinstance(found, str)
    assert PROGRAM in found


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "missing-answer"),
        ("I do not know.", "missing-answer"),
        (f"Sure: {PROGRAM}", "missing-answer"),
        (f"The function is\n{PROGRAM}", "missing-answer"),
        (fenced("def g(x):\n    return 1"), "missing-answer"),
        (fenced("class f:\n    pass"), "missing-answer"),
        (fenced("f = lambda x: x + 1"), "missing-answer"),
        (fenced("if True:\n    def f(x): return 1"), "missing-answer"),
        (fenced("async def f(x):\n    return 1"), "missing-answer"),
        (f"{fenced(PROGRAM)}\n```\nf(1) is 2\n```", "missing-answer"),
        (f"```json\n{PROGRAM}\n```", "missing-answer"),
        (f"{fenced(PROGRAM)}\nOr:\n{fenced(PROGRAM)}", "several-answers"),
        (fenced(f"{PROGRAM}\n{PROGRAM}"), "several-answers"),
        (f"{PROGRAM}\n{PROGRAM}", "several-answers"),
        (f"\u200b```python\n{PROGRAM}\n\x00```\n{fenced(PROGRAM)}", "several-answers"),
        (f"`\u00ad``\n{PROGRAM}\n\uff40\uff40\uff40\n{fenced(PROGRAM)}", "several-answers"),
        (f"{fenced(PROGRAM)}\n\ufeff```py\n{PROGRAM}\n```", "several-answers"),
        (f"```\n\u200b{PROGRAM}\n```\n{fenced(PROGRAM)}", "several-answers"),
        (f"```\n{PROGRAM.replace('f(', chr(0xFF46) + '(', 1)}\n```\n{fenced(PROGRAM)}", "several-answers"),
        (f"```\n{PROGRAM.replace(' ', chr(0x3000), 1)}\n```\n{fenced(PROGRAM)}", "several-answers"),
        (fenced(f"{PROGRAM}\r{PROGRAM}"), "several-answers"),
        (fenced(f"{PROGRAM}\n\x0c{PROGRAM}"), "several-answers"),
        (fenced(f"{PROGRAM}\ndef  f (x): return 2"), "several-answers"),
        (fenced(f"{PROGRAM}\nasync def f(x): return 2"), "several-answers"),
        (fenced(f"{PROGRAM}\nde\u200bf f(x): return 2"), "several-answers"),
        (f"```python\n{PROGRAM}", "grammar"),
        (f"{fenced(PROGRAM)}\n\u200b```", "grammar"),
        (f"{fenced(PROGRAM)}\n```", "grammar"),
        (f"```python\n{PROGRAM}\n```python\n```", "grammar"),
        ("x" * (MOST_CHARACTERS + 1), "grammar"),
    ],
)
def test_anything_else_has_a_violation_of_its_own(text: str, kind: str) -> None:
    assert kind_of(text) == kind


PIECES = ("```", "python", "\n", "def f(x):", " return x", "x", "#", "\r", "\t")


@given(
    st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | st.text(alphabet="`\n def(x):pyton#1", max_size=80)
)
def test_any_text_is_a_program_or_a_violation(text: Any) -> None:
    found = read_program(text, "f")
    if isinstance(found, Violation):
        assert found.kind and found.message
    else:
        assert found in text and len(re.findall(r"^def f[ \t]*\(", found, re.M)) == 1


def call(source: str, value: object) -> object:
    """What a function that a test wrote, or the generator, returns; here programs are trusted."""
    namespace: dict[str, object] = {}
    exec(source, namespace)
    return namespace["f"](value)  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
def test_the_code_of_a_step_does_what_the_generator_does(kind: Any) -> None:
    for number, family in enumerate(FAMILIES[kind]):
        for seed in range(8):
            step = family(random.Random(1000 * number + seed))
            for value in probes(kind):
                found = eval(step.code, {"v": value})
                assert to_text(found) == to_text(step.apply(value)), (step.words, value)
                assert type(found).__name__ == step.gives


@settings(max_examples=60)
@given(depth=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_a_drawn_function_is_what_its_solution_does(depth: int, seed: int) -> None:
    exercise = draw_exercise(depth, random.Random(seed))
    assert len(exercise.steps) == depth
    for argument, value in exercise.examples:
        assert repr(call(exercise.solution, from_argument(argument))) == value
    for arguments, expected in zip(exercise.calls, exercise.expected, strict=True):
        assert to_text(call(exercise.solution, *from_text(arguments))) == expected
    # The last call is one of the others made again; what is shown is not asked.
    assert exercise.calls.count(exercise.calls[-1]) == 2
    assert len(set(exercise.calls)) == len(exercise.calls) - 1
    assert not {to_text([from_argument(argument)]) for argument, _ in exercise.examples} & set(exercise.calls)
    assert from_plain(Exercise, to_plain(exercise)) == exercise


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_step_with_another_number_is_total_too(kind: Any) -> None:
    """What is chosen by it is chosen from any value, and there is something to choose by."""
    rng, others = random.Random(3), 0
    values = [*probes(kind), *(draw_edge(kind, rng) for _ in range(200))]
    for number, family in enumerate(FAMILIES[kind]):
        for seed in range(8):
            step = family(random.Random(1000 * number + seed))
            for near in step.near:
                kinds = {type(near(value)).__name__ for value in values}
                assert kinds == {step.gives}, step.words
                others += any(near(value) != step.apply(value) for value in values)
    assert others >= 50


@pytest.mark.slow
def test_one_token_changed_is_noticed_where_it_matters() -> None:
    """All changes of a number, sign or name in sixty solutions; random calls alone let some of them pass."""
    passed, passed_before = [], 0
    for seed in range(60):
        exercise = draw_exercise(1 + seed % 5, random.Random(f"changed {seed}"))
        calls = [from_text(arguments)[0] for arguments in exercise.calls]
        rng = random.Random(seed)
        fresh = [draw(exercise.kinds[0], rng) for draw in (draw_value, draw_edge) for _ in range(100)]

        def alike(program: str, values: list[object], solution: str = exercise.solution) -> bool:
            return all(outcome(program, value) == outcome(solution, value) for value in values)

        for program, changed in mutants(exercise.solution):
            if alike(program, calls[:12]) and not alike(program, calls + fresh):
                passed_before += 1
                passed += [(changed, exercise.steps)] * alike(program, calls)
    assert not passed
    assert passed_before >= 5


def outcome(source: str, value: object) -> str:
    """What a program that a test wrote returns, or that it does not."""
    try:
        return to_text(call(source, copy.deepcopy(value)))
    except Exception as error:
        return type(error).__name__


def from_argument(text: str) -> object:
    return eval(text)


def outputs(exercise: Exercise, source: str) -> list[str]:
    """What the program returns for the hidden calls; nothing where steps that are left out make it raise."""
    try:
        return [to_text(call(source, *from_text(arguments))) for arguments in exercise.calls]
    except (TypeError, AttributeError, ValueError):
        return []


@pytest.mark.parametrize("tier", TIERS)
def test_no_answer_that_ignores_the_problem_passes_and_no_step_can_be_left_out(tier: str) -> None:
    problems = draw_problems(PROGRAMS, "pipelines", tier, "dev", 12)
    training = draw_problems(PROGRAMS, "pipelines", tier, "train", 12)
    policies = {**PROGRAMS.references.prompt_blind(training), **PROGRAMS.references.heuristics(training)}
    assert len(policies) == 12
    for name, policy in policies.items():
        right = 0
        for problem in problems:
            text = policy(problem, random.Random(0))
            if text is not None:
                program = read_program(text, "f")
                assert isinstance(program, str)
                right += outputs(problem.instance, program) == list(problem.instance.expected)
        # A step that matters on the probes may not on the calls; it does nearly always.
        assert right == len(problems) if name == "the solution" else right <= 1, name


def drawn(task: Task) -> Drawn:
    assert isinstance(task.draw, Drawn)
    return task.draw


def test_problems_differ_by_behaviour_within_and_between_splits() -> None:
    digests: list[str] = []
    for split in ("train", "dev", "test"):
        found = [problem.digest for problem in draw_problems(PROGRAMS, "pipelines", "P1", split, 40)]
        assert len(set(found)) == 40
        digests += found
    assert len(set(digests)) == 120


def test_a_problem_is_the_same_drawn_alone_or_behind_others() -> None:
    behind = draw_problems(PROGRAMS, "pipelines", "P2", "test", 8, seed=77)
    alone = draw_problem(
        evolve(PROGRAMS, draw=evolve(drawn(PROGRAMS), stream="programs")), "pipelines", "P2", "test", 7, seed=77
    )
    assert alone == behind[7]


def test_where_there_are_no_more_problems_those_that_there_are_come_again() -> None:
    few = COUNTED
    all_of_them = draw_problems(few, "fair", "one", "train", 50)
    assert len({problem.instance for problem in all_of_them}) == len(all_of_them) < 12
    n = len(all_of_them)
    # Asked for alone, far behind the last, in another process's order.
    other = evolve(few, name="other", draw=evolve(drawn(few), stream="counted"))
    assert draw_problem(other, "fair", "one", "train", 3 * n + 2).instance == all_of_them[2].instance
    again = draw_problem(few, "fair", "one", "train", n)
    assert again == all_of_them[0]
    assert ProblemSource(few).redraw(again.key) == ProblemSource(few).redraw(f"counted/fair/train/one/0/{n}") == again
    with pytest.raises(NoProblem, match="2,000 draws gave no problem for the test split"):
        draw_problem(evolve(few, digest=lambda _instance: "0" * 32), "fair", "one", "test", 0)


COUNTED = Task(
    name="counted",
    presets={"fair": (TaskTier("one"),)},
    draw=Drawn(lambda _preset, _tier, rng, _solve: rng.randrange(12), distinct=True),
    prompt=lambda instance, _rng: (Message("user", str(instance)),),
    digest=lambda instance: blake2b(str(instance).encode(), digest_size=16).hexdigest(),
    verify=lambda _problem, _completion, _evidence: (),
    instance_type=int,
)


def test_the_top_tier_is_held_out() -> None:
    assert PROGRAMS.training_tiers("pipelines") == ("P1", "P2", "P3", "P4")
    assert [tier.name for tier in PROGRAMS.tiers("pipelines")] == list(TIERS)


PROBLEM = Problem(
    ProblemId("programs", "pipelines", "test", "P1", 0, 0),
    Exercise("Add one.", "f", calls=("[1]", "[2]"), expected=("2", "3")),
    PROGRAMS.prompt(Exercise("Add one.", "f", calls=("[1]",), expected=("2",)), random.Random(0)),
    "0" * 32,
)
TESTED = evolve(PROBLEM, instance=Exercise("Add one.", "f", tests="assert f(1) == 2", preamble="import math"))


def verdict(problem: Problem, *outcomes: Outcome, text: str = fenced(PROGRAM)) -> Any:
    (found,) = PROGRAMS.judge(problem, completion(text), Evidence(outcomes))
    return found


def test_every_value_has_to_be_the_expected_one() -> None:
    right = verdict(PROBLEM, Outcome("returned", "2"), Outcome("returned", "3"))
    assert (right.status, right.score, right.measures) == ("right", 1.0, {"calls": 2.0, "calls_right": 2.0})
    for outcomes in (
        [Outcome("returned", "2"), Outcome("returned", "4")],
        [Outcome("returned", "2"), Outcome("returned", "3.0")],
        [Outcome("returned", "2")],
        [Outcome("returned", "2"), Outcome("returned", "3"), Outcome("returned", "3")],
        [Outcome("returned", "2"), Outcome("raised", "3")],
        [Outcome("passed", "2")],
    ):
        wrong = verdict(PROBLEM, *outcomes)
        assert (wrong.status, wrong.score) == ("wrong", 0.0)
        assert len(wrong.violations) == 1


def test_a_violation_says_what_happened_and_not_what_is_right() -> None:
    assert verdict(PROBLEM, Outcome("raised", "KeyError: 1"), Outcome("returned", "3")).violations == (
        Violation("raised", "the function raised KeyError: 1"),
    )
    assert verdict(PROBLEM, Outcome("returned", "7"), Outcome("returned", "3")).violations == (
        Violation("wrong-value", "1 of 2 hidden calls returned a wrong value"),
    )
    for status in ("undefined", "unloadable", "cpu", "time", "ended", "babbled", "unplain", "raised"):
        (violation,) = verdict(PROBLEM, Outcome(status, "{odd}")).violations
        assert violation.kind == status


def test_tests_that_pass_are_right_and_values_alone_are_not() -> None:
    assert verdict(TESTED, Outcome("passed", "1")).right
    for status in ("failed", "returned", "raised", "ended", "time"):
        assert verdict(TESTED, Outcome(status, "2")).status == "wrong"


def test_without_evidence_judging_fails() -> None:
    (unasked,) = PROGRAMS.judge(PROBLEM, completion(fenced(PROGRAM)))
    assert (unasked.status, unasked.score, unasked.violations[0].kind) == ("failed", None, "no-evidence")
    for outcome in (Outcome("no-sandbox"), Outcome("broken", "SyntaxError")):
        assert verdict(TESTED, outcome).status == "failed"


def test_what_is_no_program_is_unreadable_and_never_run() -> None:
    runner = ScriptedRunner(lambda _execution: Evidence((Outcome("returned", "2"), Outcome("returned", "3"))))
    answers = [(PROBLEM, completion(text)) for text in ("nothing", fenced(PROGRAM), "", PROGRAM, "no")]
    found = [verdict.status for _, _, (verdict,) in TaskVerifier(PROGRAMS, runner).judge(answers)]
    assert found == ["unreadable", "right", "unreadable", "right", "unreadable"]
    assert [execution.source for execution in runner.asked] == [f"{PROGRAM}\n"] * 2


def test_a_runner_that_ends_early_is_an_error_and_no_verdict() -> None:
    class Hasty:
        def run(self, executions: Any) -> Any:
            return iter([Evidence((Outcome("returned", "2"),)) for _ in [*executions][:1]])

    with pytest.raises(ValueError, match="the runner ended before it had run"):
        list(TaskVerifier(PROGRAMS, Hasty()).judge([(PROBLEM, completion(fenced(PROGRAM)))] * 2))


def test_what_was_thought_is_not_run() -> None:
    runner = ScriptedRunner(lambda _execution: Evidence((Outcome("returned", "2"), Outcome("returned", "3"))))
    answer = completion(f"<think>{fenced('def f(x): 0')}</think>{fenced(PROGRAM)}")
    ((_, _, (found,)),) = TaskVerifier(PROGRAMS, runner).judge([(PROBLEM, answer)])
    assert found.right
    assert runner.asked[0].source == f"{PROGRAM}\n"


def test_helpers_of_the_prompt_stand_before_the_answer_and_the_tests() -> None:
    runner = ScriptedRunner(lambda _execution: Evidence((Outcome("passed", "1"),)))
    ((_, _, (found,)),) = TaskVerifier(PROGRAMS, runner).judge([(TESTED, completion(fenced(PROGRAM)))])
    assert found.right
    assert runner.asked[0].preamble == "import math"
    assert (runner.asked[0].source, runner.asked[0].tests) == (f"{PROGRAM}\n", "assert f(1) == 2")


def test_feedback_holds_nothing_that_a_program_may_have_seen() -> None:
    """What it raises it can fill with the arguments of hidden calls."""
    secret = "[31415]"
    for outcome in (
        Outcome("raised", f"ValueError: {secret}"),
        Outcome("raised", f"{secret}: x"),
        Outcome("unplain", f"NotPlain: '{secret}' is no plain data"),
        Outcome("failed", f"AssertionError: expected {secret}"),
        Outcome("ended", secret),
    ):
        told = PROGRAMS.teaching.feedback(verdict(PROBLEM, outcome))
        assert secret not in told
        assert told.endswith("Try again.")
    assert "raised ValueError" in PROGRAMS.teaching.feedback(
        verdict(PROBLEM, Outcome("raised", f"ValueError: {secret}"))
    )
    told = PROGRAMS.teaching.feedback(verdict(PROBLEM, Outcome("unloadable", f"SyntaxError: {secret}")))
    assert told == "the program cannot be loaded: SyntaxError\nTry again."


@given(
    status=st.sampled_from(get_args(OutcomeStatus)),
    text=st.text() | st.builds("{}: {}".format, st.sampled_from(["ValueError", "Mine", "{text}", ""]), st.text()),
    tested=st.booleans(),
)
def test_feedback_is_one_of_few_sentences_whatever_a_program_says(status: Any, text: Any, tested: bool) -> None:
    """All that it may be is written in this repository, but for names of Python's own exceptions."""
    names = ["an exception", *(name for name, kind in vars(builtins).items() if is_exception(kind))]
    sentences = {
        "the function returned something else than plain data",
        "the program defines no such function",
        "the program took more processor time than it may",
        "the program did not end in time",
        "the program ended its process",
        "the program spoiled the channel for its results",
        "the function changed its arguments",
        "a hidden test failed",
        "the program could not be judged",
        "2 of 2 hidden calls returned a wrong value",
        *(f"the function raised {name}" for name in names),
        *(f"the program cannot be loaded: {name}" for name in names),
    }
    found = verdict(TESTED if tested else PROBLEM, Outcome(status, text))
    *told, last = PROGRAMS.teaching.feedback(found).split("\n")
    assert last == "Try again."
    assert found.right or (len(told) == 1 and told[0] in sentences | {"1 of 2 hidden calls returned a wrong value"})


def is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def test_an_exercise_has_calls_or_tests() -> None:
    with pytest.raises(ValueError, match="hidden calls or hidden tests"):
        Exercise("x", "f")
    with pytest.raises(ValueError, match="a value for each of 1 calls, got 0"):
        Exercise("x", "f", calls=("[1]",))
    with pytest.raises(ValueError, match="entry_point"):
        Exercise("x", "f(", tests="pass")


HUMAN_EVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'import math\n\n\ndef poly(x):\n    return x\n\n\ndef root(x: int) -> int:\n    """Its root."""\n',
    "entry_point": "root",
    "canonical_solution": "    return math.isqrt(x)\n",
    "test": "def check(candidate):\n    assert candidate(poly(4)) == 2\n",
}
MBPP: dict[str, Any] = {
    "task_id": 600,
    "prompt": "Write a function to add one.",
    "code": "def helper(x):\r\n  return x\r\ndef add_one(x):\r\n  return helper(x) + 1",
    "test_imports": ["import math"],
    "test_list": ["assert add_one(1) == 2", "assert math.isclose(add_one(1.5), 2.5)"],
}
PLAIN = {"prompt": "Add one.", "entry_point": "f", "tests": ["assert f(1) == 2"], "tier": "easy", "split": "train"}


def test_records_of_each_schema_are_read() -> None:
    found = exercise_of(HUMAN_EVAL)
    assert (found.tier, found.split, found.exercise.entry_point) == ("all", "test", "root")
    assert found.exercise.preamble.endswith("def poly(x):\n    return x\n\n\n")
    assert found.exercise.solution.startswith("def root(x: int) -> int:")
    assert found.exercise.solution.endswith("return math.isqrt(x)\n")
    found = exercise_of(MBPP)
    assert (found.split, found.exercise.entry_point) == ("dev", "add_one")
    assert found.exercise.statement.endswith("The function begins with: def add_one(x):")
    assert "assert" not in found.exercise.statement
    assert found.exercise.tests.splitlines() == ["import math", *MBPP["test_list"]]
    assert [exercise_of(MBPP | {"task_id": n}).split for n in (2, 11, 510, 511, 601)] == [
        *("train", "test", "test", "dev", "train"),
    ]
    found = exercise_of(PLAIN)
    assert (found.tier, found.split, found.exercise.seconds) == ("easy", "train", 5)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "expected an object, got list"),
        ({}, "expected 'tests'"),
        (PLAIN | {"tests": "  "}, "expected 'tests'"),
        (PLAIN | {"entry_point": 3}, "expected a text for 'entry_point', got int"),
        (PLAIN | {"entry_point": "f(x)"}, "entry_point"),
        (PLAIN | {"split": "exam"}, "expected 'split' to be one of train, dev, test"),
        (PLAIN | {"tier": "a/b"}, "expected 'tier' to be a name without /"),
        (PLAIN | {"seconds": 1000}, "seconds"),
        (PLAIN | {"seconds": 0.5}, "expected 'seconds' to be a whole number"),
        (MBPP | {"test_list": ["assert other(1)"]}, "expected tests that call a function of the code"),
        (MBPP | {"test_list": "assert add_one(1)"}, "expected test_list and test_imports to be lists"),
        (HUMAN_EVAL | {"entry_point": "other"}, "expected a prompt that begins the function other"),
        ({**HUMAN_EVAL, "test": None}, "expected a text for 'test', got nothing"),
    ],
)
def test_a_record_that_is_wrong_says_what_was_expected(record: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", "\\(")):
        exercise_of(record)


def test_problems_of_a_file_are_a_fixed_set() -> None:
    other = PLAIN | {"prompt": "Add two.", "split": "test"}
    task = present(drawn(PROGRAMS).of_records)(
        evolve(PROGRAMS, name="programs@mine"), "mine", [PLAIN, other, other | {"tier": "hard"}]
    )
    assert task.presets["mine"][0].name == "easy"
    assert [tier.held_out for tier in task.presets["mine"]] == [False, True]
    assert [len(draw_problems(task, "mine", "easy", split, 5)) for split in ("train", "test", "dev")] == [1, 1, 0]
    first, again = (draw_problem(task, "mine", "easy", "train", index) for index in (0, 1))
    assert again == first, "gone through in turn, and the same problem again"
    with pytest.raises(ValueError, match="there are no dev problems"):
        draw_problem(task, "mine", "easy", "dev", 0)
    with pytest.raises(ValueError, match="record 2: expected 'tests'"):
        present(drawn(PROGRAMS).of_records)(PROGRAMS, "mine", [PLAIN, {}])
