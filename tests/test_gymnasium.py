"""Environments of Gymnasium: its own ones as plans, and exported tasks as one step."""

from __future__ import annotations

import importlib
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from round_trips import NAMES, check_round_trip, exported

from gce.adapters.environments.gymnasium import RANDOM, RETURNS, SCRIPTED, _plan, load
from gce.adapters.environments.players import SENTENCES, best_actions
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app.cli import main
from gce.app.evaluation.conversations import converse
from gce.app.wiring.environments import find_environment, names_in, reproducer
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.domain.completions import Completion, SampleRequest
from gce.domain.problems import Problem
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.requests import STEP, Act, Settings, episodes_of
from gce.domain.tasks import Task, draw_problems
from gce.errors import BadInput
from gce.testing.contracts.environment import check_environment
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


@pytest.fixture(scope="module")
def blackjack() -> Iterator[Task]:
    """Cards are drawn (1) until the sum is above 21, or the player sticks (0)."""
    yield find_task("gymnasium:Blackjack-v1?low=-1&high=1")
    find_environment.cache_clear()


def test_an_environment_is_played_turn_by_turn_with_the_verdict_of_the_plan(blackjack: Task) -> None:
    def draws_to_17(request: SampleRequest) -> str:
        held = re.findall(r"Observation: \((\d+), ", request.messages[-1].content)
        return f"<action>{int(int(held[-1]) < 17)}</action>"

    problems = draw_problems(blackjack, "default", "default", "test", 12)
    model = ScriptedModel(draws_to_17)
    found = converse(STRATEGIES["episode"], model, blackjack, TaskVerifier(blackjack), problems, Settings())
    assert {each.last.outcome for each in found} == {"right", "wrong"} and max(each.replies for each in found) > 1
    for each in found:
        plan = each.last.completion.text
        assert re.fullmatch(r"<answer>(1 )*[01]</answer>", plan) and each.last.notes["illegal actions"] == 0.0
        assert blackjack.judge(each.last.problem, each.last.completion) == each.last.verdicts
        assert each.last.notes["turns"] == each.replies == len(plan[8:-9].split())
    shown = found[0].said[0][0][0].content
    assert "Give one action in each turn, between <action> and </action>." in shown and "from 0 to 1" in shown


def test_an_action_that_there_is_not_is_told_and_counted(blackjack: Task) -> None:
    (problem,) = draw_problems(blackjack, "default", "default", "test", 1)
    said = iter(["<action>2</action>", "stick", "<action>0</action>"])
    model = ScriptedModel(lambda _request: next(said))
    (found,) = converse(STRATEGIES["episode"], model, blackjack, TaskVerifier(blackjack), [problem], Settings())
    told = [each.content for each in found.said[-1][0] if each.role == "user"]
    assert told[1].startswith("Expected one whole number from 0 to 1 as the action. Nothing has changed")
    assert found.last.notes == {"turns": 3.0, "illegal actions": 2.0} and not found.last.failed


def test_a_script_of_gymnasium_alone_gives_the_return_of_the_verdict() -> None:
    """Of all environments that `gce audit-environments gymnasium` lists, with plans that end the episode and others."""
    listed = names_in("gymnasium")
    assert {"Blackjack-v1", "CartPole-v1", "FrozenLake-v1", "Taxi-v4"} <= {*listed} and "Pendulum-v1" not in listed
    for name, plan in (
        ("Blackjack-v1", "1 1 1 0"),
        ("Taxi-v4", "0 " * 200),
        ("Taxi-v4", "0"),
        ("CartPole-v1", "0 " * 99),
    ):
        low, high, actions = RETURNS[name.partition("-")[0]]
        functions = load({"id": name, "actions": actions, "low": low, "options": {}})
        row = functions["draw"]("default", 5)
        found = reproducer("gymnasium", name)(row, plan)
        assert found is not None and found.is_same and not found.raised
        assert float(found.printed) == functions["score"](plan, row) and low <= float(found.printed) <= high
        other = reproducer("gymnasium", name)({**row, "seed": row["seed"] + 1}, plan)
        assert other is not None and not other.is_same
    broken = reproducer("gymnasium", "Taxi-v4")(row, "no plan")
    assert broken is not None and broken.raised.startswith("ValueError")


LANE = "gymnasium:gce.adapters.environments.car_on_lane:CarOnLane-v0?low=0&high=100&actions=100"
LAKE = "gymnasium:FrozenLake-v1?observations=sentences&problems=seeds"


def returns_of(task: Task, player: str, problems: list[Problem]) -> list[float]:
    players = {**task.references.prompt_blind(problems), **task.references.heuristics(problems)}
    answers = [players[player](problem, random.Random(0)) or "" for problem in problems]
    found = [
        task.judge(problem, Completion("", text, "stop", policy=""))
        for problem, text in zip(problems, answers, strict=True)
    ]
    return [0.0 if verdict.score is None else verdict.score for (verdict,) in found]


def test_random_actions_are_prompt_blind_and_a_scripted_player_is_better() -> None:
    """The car: a random walk leaves the lane, who steers against the offset stays on it to the end."""
    task = find_task(LANE)
    problems = list(draw_problems(task, "default", "default", "test", 12))
    blind, scripted = returns_of(task, RANDOM, problems), returns_of(task, SCRIPTED, problems)
    assert all(one < other for one, other in zip(blind, scripted, strict=True)) and min(scripted) > 0.6
    assert returns_of(task, RANDOM, problems) == blind
    assert RANDOM not in task.references.heuristics(problems) and SCRIPTED not in task.references.prompt_blind(problems)


def test_the_car_keeps_the_interface_and_the_seed_decides() -> None:
    module = importlib.import_module("gymnasium")
    importlib.import_module("gce.adapters.environments.car_on_lane")
    importlib.import_module("gymnasium.utils.env_checker").check_env(module.make("CarOnLane-v0").unwrapped)
    several = module.make_vec("CarOnLane-v0", num_envs=3)
    first, again = several.reset(seed=5)[0], several.reset(seed=5)[0]
    assert (first == again).all() and len({tuple(each) for each in first}) == 3


def test_sentences_say_what_is_seen_and_seeds_are_problems() -> None:
    task = find_task(LAKE)
    problems = draw_problems(task, "default", "default", "test", 5)
    prompts = {problem.prompt[-1].content for problem in problems}
    assert len({problem.digest for problem in problems}) == 5 and len(prompts) == 1
    (prompt,) = prompts
    assert "You stand in row 1 column 1 of a frozen lake of 4 rows and 4 columns" in prompt
    assert "Holes: row 2 column 2, row 2 column 4, row 3 column 4, row 4 column 1." in prompt
    assert "- 0: Move left" in prompt and "Arguments" not in prompt


@pytest.mark.parametrize(
    ("name", "seen", "said"),
    [
        (
            "CartPole",
            (0.5, -0.25, -0.1, 0.0),
            "0.50 to the right of the middle and moves left at 0.25. The pole leans 0.100 radians to the left",
        ),
        ("MountainCar", (-0.6, 0.0), "at -0.600 in a valley whose lowest point is at -0.5, and stands still"),
        ("CarOnLane", (-1.25, 3.0), "1.25 m to the left of the middle of the lane and points 3.0 degrees to the right"),
    ],
)
def test_a_sentence(name: str, seen: tuple[float, ...], said: str) -> None:
    assert said in SENTENCES[name](seen, None)


def test_value_iteration_finds_the_way_through_a_corridor() -> None:
    """Three states in a row, the goal on the right: 1 moves right, 0 left, and each step costs 1."""
    step = {0: {0: [(1.0, 0, -1.0, False)], 1: [(1.0, 1, -1.0, False)]}}
    corridor = {**step, 1: {0: [(1.0, 0, -1.0, False)], 1: [(0.5, 1, -1.0, False), (0.5, 2, 10.0, True)]}}
    goal = {2: {0: [(1.0, 2, 0.0, True)], 1: [(1.0, 2, 0.0, True)]}}
    best = best_actions({**corridor, **goal})
    assert (best[0], best[1]) == (1, 1)


def test_an_environment_with_one_first_observation_has_one_problem() -> None:
    task = find_task("gymnasium:FrozenLake-v1?is_slippery=false")
    (preset,) = task.presets
    (problem,) = draw_problems(task, preset, task.tiers(preset)[0].name, "test", 5)
    check_environment(lambda: episodes_of(task).open(problem), [Act(STEP, {"action": "2"})] * 2)
    plan = Completion("answer", "<answer>2 2 1 1 1 2</answer>", "stop", policy="")
    assert [each.status for each in task.judge(problem, plan)] == ["right"]


WORDS = """
import os
import gymnasium

class Words(gymnasium.Env):  # Say the words in turn; `fault` says what goes wrong at the second.
    observation_space = action_space = gymnasium.spaces.Text(100)

    def __init__(self, fault="", **_):
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        self.left = [str(seed % 1000), "two"]
        return f"Say {self.left[0]}.", {}

    def step(self, action):
        if len(self.left) == 1:
            while self.fault == "hang":
                pass
            if self.fault == "exit":
                os._exit(0)
            if self.fault == "raise":
                1 / 0
        reward = float("nan") if self.fault == "nan" else (action == self.left.pop(0)) / 2
        if self.fault == "nan":
            self.left.pop(0)
        return (f"Say {self.left[0]}." if self.left else ""), reward, not self.left, False, {}

gymnasium.register("Words-v0", entry_point=Words)
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "words_env.py").write_text(WORDS)
    monkeypatch.chdir(tmp_path)
    yield
    find_environment.cache_clear()


def says(request: SampleRequest) -> str:
    return request.messages[-1].content.partition("Say ")[2].partition(".")[0]


def test_text_actions_of_several_turns_are_played(words: None) -> None:
    """In one response the first action alone is said, so that it is no whole episode."""
    task = find_task("gymnasium:words_env:Words-v0?admit_at=0.5")
    check_foreign_task(task, problems=1)
    problems = draw_problems(task, "default", "default", "test", 2)
    found = converse(STRATEGIES["episode"], ScriptedModel(says), task, TaskVerifier(task), problems, Settings())
    assert [(each.last.reward, each.replies) for each in found] == [(1.0, 2)] * 2
    one = task.judge(problems[0], Completion("answer", "17", "stop", policy=""))
    assert one[0].status == "unreadable" and "strategy episode" in one[0].violations[0].message
    short = Completion("answer", episodes_of(task).write(["17"]), "stop", policy="")
    assert [(each.status, each.score) for each in task.judge(problems[0], short)] == [("wrong", 0.0)]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("hang", "did not end|process ended"), ("exit", "ended"), ("raise", "ZeroDivision"), ("nan", "finite number")],
)
def test_an_environment_that_misbehaves_fails_the_answer_with_what_it_did(fault: str, reason: str, words: None) -> None:
    task = find_task(f"gymnasium:words_env:Words-v0?seconds=1&wait=3&fault={fault}")
    problems = draw_problems(task, "default", "default", "test", 1)
    (found,) = converse(STRATEGIES["episode"], ScriptedModel(says), task, TaskVerifier(task), problems, Settings())
    assert found.last.failed and found.last.reward is None and re.search(reason, found.last.reason)


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
        ("gymnasium:Taxi-v4?observations=sentences", "no sentences for Taxi: expected one of CarOnLane, CartPole"),
        ("gymnasium:Taxi-v4?problems=all", "expected problems to be observations or seeds, got 'all'"),
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
