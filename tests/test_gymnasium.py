"""Environments of Gymnasium: its own ones as plans, and exported tasks as one step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from round_trips import NAMES, check_round_trip, exported

from gce.adapters.environments.gymnasium import _plan, load
from gce.app.cli import main
from gce.app.wiring.environments import find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.domain.problems import Problem
from gce.domain.tasks import Task, draw_problems
from gce.errors import BadInput
from gce.testing.contracts.foreign_task import check_foreign_task

pytest.importorskip("gymnasium")
pytestmark = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")

TAXI = "gymnasium:Taxi-v4?low=-2000&high=20&admit_at=1&actions=100"


@pytest.fixture(scope="module")
def taxi() -> Iterator[Task]:
    yield find_task(TAXI)
    find_environment.cache_clear()


def test_an_environment_that_nobody_here_wrote_keeps_the_contract(taxi: Task) -> None:
    check_foreign_task(taxi, problems=2)


def test_a_plan_is_played_from_the_seed_and_the_return_counts() -> None:
    """In Taxi, each move costs 1, a wrong pick-up 10; here the third step ends the episode."""
    functions = load({"id": "Taxi-v4", "actions": 100, "low": -50.0, "options": {"max_episode_steps": 3}})
    row = functions["draw"]("default", 3)
    assert "Actions are whole numbers from 0 to 5." in row["prompt"] and "0: Move south" in row["prompt"]
    assert functions["score"]("0 0 1", row) == -3.0
    assert functions["score"]("0 0 5", row) == -12.0
    assert functions["score"]("0, 0, 1, 5", row) == functions["score"]("0 0 1", row)


def test_no_plan_spares_the_cost_of_the_episode() -> None:
    """In Taxi, who does nothing would have a higher return than who does something."""
    functions = load({"id": "Taxi-v4", "actions": 100, "low": -50.0, "options": {"max_episode_steps": 3}})
    row = functions["draw"]("default", 3)
    assert functions["score"]("0", row) == functions["score"]("0 0", row) == -50.0
    for nothing in ("", "6", "none"):
        assert "unreadable" in functions["score"](nothing, row)


@pytest.mark.parametrize(
    ("said", "plan"),
    [("0 1\n2", [0, 1, 2]), ("2,1", [2, 1]), ("3", []), ("-1", []), ("1.0", []), ("1 1 1 1 1", []), ("\u0661", [])],
)
def test_only_a_list_of_actions_is_a_plan(said: str, plan: list[int]) -> None:
    assert _plan(said, 0, 2, 4) == plan


def test_an_evaluation_runs_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"text": "<answer>0 1 2 3</answer>"}) + "\n")
    assert main(["evaluate", "--task", TAXI, "--model", f"scripted:{answers}", "--n", "4", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["modes"].values()
    assert row["coverage"] == 1.0


def round_trip(name: str, count: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = exported(name, "gymnasium", place)
    monkeypatch.chdir(place)
    admitted = sent.task.admit_at
    back = find_task(f"gymnasium:{sent.identifier}:{sent.identifier}-v0?split=test&admit_at={admitted}")
    preset = next(iter(back.presets))
    (first,) = draw_problems(back, preset, "default", "test", 1)

    def twin(number: int) -> Problem:
        """Its seed is the number of the row."""
        return evolve(first, instance=evolve(first.instance, row={"seed": number}))

    check_round_trip(sent, back, twin, count)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_that_goes_out_comes_in_with_the_same_verdicts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_trip(name, 50, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_verdicts_are_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    round_trip(name, 1000, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gymnasium:Pendulum-v1", "its actions are Box: expected text or whole numbers"),
        ("gymnasium:NoSuchThing-v0", "NoSuchThing"),
        ("gymnasium:no_such_module:Thing-v0", "no module 'no_such_module'"),
        ("gymnasium:Taxi-v4?actions=0", "expected actions to be a whole number from 1"),
        ("gymnasium:Taxi-v4?seconds=2.5", "expected seconds to be a whole number from 1"),
    ],
)
def test_bad_names_say_what_is_wrong(name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        find_task(name)
    assert "\n" not in str(caught.value)
