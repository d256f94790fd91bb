"""Scorers of other frameworks are untrusted: whatever they do is contained, and no verdict is forged."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hostile_scorers
import pytest

from gce.adapters.environments.foreign import accepted_form, way_to_write
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app.cli import main
from gce.app.wiring.environments import find_environment
from gce.app.wiring.runs import open_run
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
from gce.domain.outcomes import rate
from gce.domain.problems import Problem
from gce.domain.tasks import Task, draw_problems
from gce.errors import BadInput
from gce.testing.contracts.evaluator import check_evaluator
from gce.testing.contracts.foreign_task import check_foreign_task

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a data set, the module of the scorers, and a run's database."""
    directory = tmp_path_factory.mktemp("foreign")
    rows = [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(40)]
    (directory / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    many = [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(1_000)]
    (directory / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in many))
    # Half of what it says is right.
    script = [{"when": row["prompt"], "text": [row["answer"], "-1"]} for row in many]
    (directory / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in script))
    (directory / "hostile_scorers.py").write_text((HERE / "hostile_scorers.py").read_text())
    (directory / "run.sqlite").write_text("secret")
    directory.chmod(0o755)
    before = Path.cwd()
    os.chdir(directory)
    yield directory
    os.chdir(before)
    find_environment.cache_clear()


def task_of(function: str, **options: object) -> Task:
    said = "&".join(f"{name}={value}" for name, value in options.items())
    return find_task(f"trl:hostile_scorers:{function}@sums.jsonl" + (f"?{said}" if said else ""))


def answered(task: Task, texts: list[str]) -> list[Answer]:
    """Each text as an answer to the first test problem, judged in one list."""
    problem = problem_of(task)
    asked = [(problem, Completion(f"answer {place}", text, "stop", policy="")) for place, text in enumerate(texts)]
    return [answered_by(task, *each) for each in TaskVerifier(task).judge(asked)]


def problem_of(task: Task) -> Problem:
    return draw_problems(task, "questions", "all", "test", 1)[0]


@pytest.fixture(scope="module")
def hostile(place: Path) -> Task:
    return task_of("hostile", seconds=1, wait=20, memory=2048)


def test_an_honest_scorer_keeps_the_contracts(place: Path) -> None:
    task = task_of("honest")
    check_foreign_task(task)
    problems = draw_problems(task, "questions", "all", "test", 3)
    answers = [
        (problem, Completion(f"a{place}", text, "stop", policy=""))
        for place, problem in enumerate(problems)
        for text in (str(problem.instance.row["answer"]), "7")
    ]
    check_evaluator(TaskVerifier(task), answers)


@pytest.mark.parametrize(
    "attack",
    ["write", "print", "fork", "thread", "connect", "read run.sqlite", "list .", "read beside", "run", "allocate"],
)
def test_no_attack_makes_a_verdict_right(hostile: Task, place: Path, attack: str) -> None:
    """The attack's own verdict is wrong or failed, and so are those of the answers around it."""
    if attack.startswith(("read", "list")):
        attack = attack.replace("run.sqlite", str(place / "run.sqlite")).replace(" .", f" {place}")
        attack = attack.replace("beside", str(HERE / "conftest.py"))  # The module's own folder.
    right = str(problem_of(hostile).instance.row["answer"])
    before, found, after, own = answered(hostile, ["wrong", attack, "wrong too", right])
    assert before.outcome == "wrong"
    assert found.outcome in ("wrong", "failed")
    assert after.outcome == "wrong"
    assert own.outcome == "right"


def test_with_a_new_process_for_each_answer_none_finds_what_another_left(place: Path) -> None:
    """A scorer that changes itself is believed until its process is renewed: nobody else says what is right."""
    found = answered(task_of("hostile", renew=1), ["wrong", "write", "wrong", "patch", "wrong"])
    assert all(each.outcome in ("wrong", "failed") for each in found)
    assert [found[place].outcome for place in (0, 2, 4)] == ["wrong"] * 3
    assert json.dumps(0.0) == "0.0"


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["exit", "quit", "crash", "compute", "raise"])
def test_a_scorer_that_ends_fails_its_own_answer_alone(hostile: Task, attack: str) -> None:
    right = str(problem_of(hostile).instance.row["answer"])
    found = answered(hostile, [right, "wrong", attack, right, "wrong"])
    assert [each.outcome for each in found] == ["right", "wrong", "failed", "right", "wrong"]
    assert found[2].reason


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["kill-parent", "kill-all"])
def test_a_scorer_that_ends_other_processes_forges_nothing(hostile: Task, attack: str) -> None:
    """It is ended with the process that forked it, at once or a little later, so that the next answer may fail, too."""
    right = str(problem_of(hostile).instance.row["answer"])
    found = [each.outcome for each in answered(hostile, [right, "wrong", attack, right, "wrong"])]
    for outcome, allowed in zip(found, ["right", "wrong", "wrong", "right", "wrong"], strict=True):
        assert outcome in (allowed, "failed")
    assert found[:2] == ["right", "wrong"]


@pytest.mark.parametrize("attack", ["nan", "infinity", "high", "text", "list-of", "deep"])
def test_nonsense_is_failed_with_its_text(hostile: Task, attack: str) -> None:
    (found,) = answered(hostile, [attack])
    assert found.outcome == "failed"
    assert found.reward is None
    assert found.reason


def test_all_attacks_are_tried() -> None:
    tried = {"write", "print", "fork", "thread", "connect", "read", "list", "patch", "run", "allocate", "hang"}
    tried |= {"exit", "quit", "crash", "kill-parent", "kill-all", "compute", "raise"}
    assert tried | {"nan", "infinity", "high", "text", "list-of", "deep"} == {*hostile_scorers.ATTACKS}


@pytest.mark.slow
def test_scorers_that_hang_are_skipped_after_a_few(place: Path) -> None:
    task = task_of("hostile", wait=2)
    found = answered(task, ["hang"] * 10 + ["wrong"])
    assert [each.outcome for each in found] == ["failed"] * 11
    said = Counter(each.reason.partition("scorer failed: ")[2] for each in found)
    assert said == {"it did not end within 2 s": 3, "too many calls before it did not end": 8}


@pytest.mark.slow
def test_a_scorer_that_fails_on_some_answers_changes_no_verdict_on_the_others(place: Path) -> None:
    """Of 200 answers, half of them right; about one in twenty fails, whether it is right or wrong."""
    honest, unreliable = (find_task(f"trl:hostile_scorers:{name}@many.jsonl") for name in ("honest", "unreliable"))
    asked = [
        (problem, Completion(f"{problem.key} {text}", text, "stop", policy=""))
        for problem in draw_problems(honest, "questions", "all", "test", 100)
        for text in (str(problem.instance.row["answer"]), "-1")
    ]
    expected, found = (
        [answered_by(task, *each) for each in TaskVerifier(task).judge(asked)] for task in (honest, unreliable)
    )
    failed = [each for each in found if each.failed]
    assert 2 <= len(failed) <= 20
    assert all(each.reward is None and "the database is away" in each.reason for each in failed)
    pairs = [(one, other) for one, other in zip(expected, found, strict=True) if not other.failed]
    assert all(one.outcome == other.outcome for one, other in pairs)
    assert abs(sum(other.right for _, other in pairs) / len(pairs) - 0.5) < 0.05


@pytest.mark.slow
def test_failures_of_the_infrastructure_change_no_rate(place: Path) -> None:
    """Of 500 answers, half of them right, 5 % raise, 2 % hang and 1 % kill the worker: coverage falls, the rate stays.

    The figures in docs/howto/environments.md are those that this test prints.
    """
    honest = find_task("trl:hostile_scorers:honest@many.jsonl")
    failing = find_task("trl:hostile_scorers:failing_infrastructure@many.jsonl?wait=1&seconds=1")
    asked = [
        (problem, Completion(f"{problem.key} {text}", text, "stop", policy=""))
        for problem in draw_problems(honest, "questions", "all", "test", 250)
        for text in (str(problem.instance.row["answer"]), "-1")
    ]
    expected, found = (
        [answered_by(task, *each) for each in TaskVerifier(task).judge(asked)] for task in (honest, failing)
    )
    without = rate([each.outcome for each in expected])
    share = rate([each.outcome for each in found])
    reasons = Counter(each.reason.rpartition(": ")[2] for each in found if each.failed)
    print(f"{share.correct} of {share.n} right ({share.low:.3f}-{share.high:.3f}), coverage {share.n / len(found):.3f}")
    print(f"without failures {without.correct} of {without.n}; {reasons}")
    assert without.value == 0.5 and share.low < 0.5 < share.high
    assert 0.85 < share.n / len(found) < 0.97 and share.n + reasons.total() == len(found)
    assert reasons["the database is away"] >= 10
    assert sum("did not end" in each for each in reasons.elements()) >= 3
    assert sum("process" in each and "ended" in each for each in reasons.elements()) >= 1
    assert all(each.reward is None for each in found if each.failed)
    assert all(one.outcome == other.outcome for one, other in zip(expected, found, strict=True) if not other.failed)


@pytest.mark.parametrize("scorer", ["unreliable", pytest.param("failing_infrastructure", marks=pytest.mark.slow)])
def test_answers_that_could_not_be_scored_lower_the_coverage_and_teach_nothing(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], scorer: str
) -> None:
    pytest.importorskip("safetensors")  # Checkpoints.
    run = str(tmp_path / "run")
    named = ["--task", f"trl:hostile_scorers:{scorer}@many.jsonl?wait=1&seconds=1", "--model", "scripted:script.jsonl"]
    sizes = ["--problems", "40", "--rollouts", "2", "--iterations", "1", "--test", "60", "--dev", "0"]
    assert main(["train", *named, *sizes, "--min-coverage", "0.8", "--run-dir", run, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    (before,) = summary["before"].values()
    assert before["failed"] > 0 and before["n"] + before["failed"] == 60
    assert abs(before["correct"] / before["n"] - 0.5) < 0.25
    with open_run(run) as stored:
        rollouts, traces = list(stored.read("rollouts")), list(stored.read("traces"))
    failed = {each["key"] for each in rollouts if each["outcome"] == "failed"}
    assert len(failed) == summary["failed_rollouts"] > 0
    assert traces and not failed & {each["key"] for each in traces}
    assert not any(each["admitted"] or each["right"] for each in rollouts if each["key"] in failed)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("trl:hostile_scorers:honest", "expected trl:MODULE:FUNCTION@DATA"),
        ("trl:hostile_scorers:nothing@sums.jsonl", "has no attribute 'nothing'"),
        ("trl:no_such_module:f@sums.jsonl", "no module 'no_such_module'"),
        ("trl:hostile_scorers:honest@none.jsonl", "none.jsonl"),
        ("trl:hostile_scorers:honest@sums.jsonl?colour=red", "no option 'colour'"),
        ("trl:hostile_scorers:honest@sums.jsonl?renew=0", "renew"),
        ("trl:hostile_scorers:honest@sums.jsonl?renew", "expected options as"),
        ("trl:", "expected trl:NAME"),
    ],
)
def test_bad_names_say_what_is_wrong(place: Path, name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says.replace(":", ".")) as caught:
        find_task(name)
    assert "\n" not in str(caught.value)


def test_a_scorer_that_raises_for_one_form_may_accept_another() -> None:
    def accepted(way: str) -> bool:
        return float(way.format("7").split("<answer>")[1].split("<")[0]) == 7

    assert accepted_form(accepted) == "<answer>{}</answer>"
    assert accepted_form(lambda _way: False) is None
    assert way_to_write(lambda way, _place: accepted(way), 5) == "<answer>{}</answer>"


def test_a_reward_function_gets_the_columns_of_its_file_whatever_form_its_known_answers_need(place: Path) -> None:
    rows = [{"prompt": f"What is {n} + {n}?", "solution": 2 * n} for n in range(3)]
    (place / "solutions.json").write_text(json.dumps(rows))
    task = find_task("trl:hostile_scorers:boxed@solutions.json?answer=solution")
    for problem in draw_problems(task, "questions", "all", "test", 3):
        known = task.teaching.demonstration(problem, None)
        assert known is not None and known.startswith("\\boxed{")
        said = Completion("a", known, "stop", policy="")
        assert answered_by(task, problem, said, task.judge(problem, said)).right


def test_known_answers_are_tried_in_the_tags_that_the_prompt_names() -> None:
    def accepted(way: str) -> bool:
        return way.format("7") == "<reversed_text>7</reversed_text>"

    assert accepted_form(accepted) is None
    assert accepted_form(accepted, "Put it in <b>bold</b> <reversed_text> tags.") == "<reversed_text>{}</reversed_text>"
    assert accepted_form(accepted, " ".join(f"<tag{n}>" for n in range(99)) + "<reversed_text>") is None
