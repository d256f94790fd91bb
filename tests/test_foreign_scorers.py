"""Scorers of other frameworks are untrusted: whatever they do is contained, and no verdict is forged."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hostile_scorers
import pytest

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app.wiring.environments import find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
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


@pytest.mark.parametrize("attack", ["exit", "quit", "crash", "compute", "raise"])
def test_a_scorer_that_ends_fails_its_own_answer_alone(hostile: Task, attack: str) -> None:
    right = str(problem_of(hostile).instance.row["answer"])
    found = answered(hostile, [right, "wrong", attack, right, "wrong"])
    assert [each.outcome for each in found] == ["right", "wrong", "failed", "right", "wrong"]
    assert found[2].reason


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
