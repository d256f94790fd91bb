"""The strategy `episode`, and tasks whose problems are played turn by turn, without a framework."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.environments.episodes import MOST_TEXT, actions_of, as_answer, episodes_task, observed
from gce.adapters.environments.foreign import Given, text_digest
from gce.adapters.environments.scorers import ScorerFailed
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.conversations import check_needs, converse
from gce.app.wiring.names import find_strategy
from gce.domain.completions import Completion, SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.problems import Message, Problem
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.requests import STEP, Act, Failed, Observation, Settings, episodes_of
from gce.domain.tasks import TASKS, Task, draw_problems
from gce.domain.tasks.extraction import extraction_of
from gce.domain.traces import turns_of
from gce.errors import BadInput
from gce.testing.contracts.environment import check_environment
from gce.testing.contracts.foreign_task import check_foreign_task
from gce.testing.contracts.strategy import Script, check_strategy

EPISODE = STRATEGIES["episode"]


class Countdown:
    """A `Scoring`: take 1 to 3 from a heap until it is empty; each action costs 1, emptying it exactly earns 10."""

    def __init__(self, heaps: int = 10_000, *, broken_from: int | None = None) -> None:
        self.heaps = heaps
        self.broken_from = broken_from
        """Number of actions from which on nothing is served."""

    def call(self, name: str, *arguments: Any) -> Any:
        functions: dict[str, Callable[..., Any]] = {"draw": self.draw, "play": self.play, "score": self.score}
        return functions[name](*arguments)

    def each(self, calls: Iterable[Sequence[Any]]) -> Iterator[Any]:
        for call in calls:
            try:
                yield self.call(*call)
            except ScorerFailed as error:
                yield error

    def heap(self, seed: int) -> int:
        return 4 + seed % self.heaps

    def draw(self, _tier: str, seed: int) -> dict[str, Any]:
        text = f"There are {self.heap(seed)} stones."
        return {"prompt": text, "seed": seed, "digest": text_digest(text)}

    def play(self, row: Any, actions: Sequence[str]) -> dict[str, Any]:
        if self.broken_from is not None and len(actions) >= self.broken_from:
            raise ScorerFailed("time", "the table fell over")
        left, reward = self.heap(row["seed"]), None
        for action in actions:
            if action not in ("1", "2", "3"):
                return {"illegal": "Take 1, 2 or 3."}
            left, reward = left - int(action), 9.0 if left == int(action) else -1.0
        return {"text": f"There are {left} stones.", "reward": reward, "done": left <= 0}

    def score(self, answer: str, row: Any) -> Any:
        actions = actions_of(answer) or []
        played = [self.play(row, actions[: number + 1]) for number in range(len(actions))]
        if not actions or "illegal" in played[-1]:
            return {"unreadable": "no actions"}
        return sum(each["reward"] for each in played) if played[-1]["done"] else -20.0


def countdown(scoring: Any = None) -> Task:
    options = {"low": -20, "high": 10, "admit_at": 5}
    given_ = Given("countdown", "heap", options, "countdown:heap")
    read = extraction_of(("tag", "action")).answer
    return episodes_task(
        given_,
        scoring or Countdown(),
        "countdown",
        read=read,
        write=as_answer,
        seconds=5.0,
        extract="text",
        unread=("prompt",),
        **given_.rewards(),
    )


def problems(task: Task, count: int = 1) -> Sequence[Problem]:
    preset = next(iter(task.presets))
    return draw_problems(task, preset, task.tiers(preset)[0].name, "test", count)


def stones(request: SampleRequest) -> int:
    return int(request.messages[-1].content.split()[2])


def takes(request: SampleRequest) -> str:
    return f"I take <action>{min(3, stones(request))}</action>"


def held(task: Task, said: Callable[[SampleRequest], str], strategy: str = "episode@400") -> Conversation:
    model = ScriptedModel(said)
    (found,) = converse(find_strategy(strategy), model, task, TaskVerifier(task), problems(task), Settings())
    return found


def test_a_task_of_episodes_keeps_the_contract_of_foreign_tasks_and_its_environment_that_of_environments() -> None:
    task = countdown()
    check_foreign_task(task)
    (problem,) = problems(task)
    act = Act(STEP, {"action": "1"})
    check_environment(lambda: episodes_of(task).open(problem), [act, act, act])


@pytest.mark.parametrize("text", ["<action>1</action>", "<action>9</action>", "no idea", "", "<think>"])
def test_the_strategy_keeps_the_contract(text: str) -> None:
    task = countdown()
    (problem,) = problems(task)
    environment = episodes_of(task).open(problem)

    def act(request: Act) -> Observation | Failed:
        found: Observation | Failed
        found = environment.step(request) if request.name == STEP else environment.reset(seconds=1.0)
        return found

    check_strategy(EPISODE, task, problem, Script(lambda _ask: text, act=act))


def test_each_turn_is_trained_on_and_the_verdict_is_that_of_the_actions_played_again() -> None:
    """Nine stones by threes: -1 -1 +9 = 7, that is 27/30 of the range."""
    task = countdown(Countdown(6))  # Heaps of 4 to 9 stones: six problems, all for testing.
    nine = next(each for each in problems(task, 6) if each.prompt[0].content == "There are 9 stones.")
    model = ScriptedModel(takes)
    (found,) = converse(EPISODE, model, task, TaskVerifier(task), [nine], Settings())
    assert found.last.completion.text == as_answer(["3", "3", "3"])
    assert found.last.reward == pytest.approx(27 / 30) and found.last.right and found.replies == 3
    assert found.last.notes == {"turns": 3.0, "illegal actions": 0.0}
    turns = turns_of(found)
    assert [turn.trained for turn in turns] == [False, True, False, True, False, True]
    assert [turn.message.content for turn in turns[2::2]] == ["There are 6 stones.", "There are 3 stones."]
    assert "at most 20 turns" in turns[0].message.content
    again = task.judge(nine, Completion("again", found.last.completion.text, "stop", policy=""))
    assert again == found.last.verdicts


def test_what_is_unreadable_or_illegal_changes_nothing_is_said_and_counted() -> None:
    said = iter(["no idea", "<action>7</action>", "<action>1</action><action>2</action>"])
    task = countdown(Countdown(6))
    found = held(task, lambda request: next(said, "") or takes(evolve(request, messages=_last_heap(request))))
    told = [message.content for message in found.said[-1][0] if message.role == "user"]
    assert (
        told[1]
        == "The response has no answer between <action> and </action>. Nothing has changed, and the turn is over."
    )
    assert told[2] == "Take 1, 2 or 3. Nothing has changed, and the turn is over."
    assert told[3].startswith("The response has 2 different answers")
    assert found.last.notes["illegal actions"] == 3.0
    assert set(json.loads(found.last.completion.text[9:-10])) <= {"1", "2", "3"} and found.last.reward is not None
    assert found.last.notes["turns"] == 3.0 + len(actions_of(found.last.completion.text) or ())


def _last_heap(request: SampleRequest) -> tuple[Message, ...]:
    return tuple(each for each in request.messages if each.content.startswith("There are"))[-1:]


def test_a_bound_ends_the_episode_with_the_lowest_reward_and_no_action_at_all_is_unreadable() -> None:
    task = countdown()
    short = held(task, lambda _request: "<action>1</action>", "episode@2")
    assert (short.replies, short.last.outcome, short.last.reward) == (2, "wrong", 0.0)
    silent = held(task, lambda _request: "hm", "episode@3")
    assert (silent.replies, silent.last.outcome, silent.last.notes["illegal actions"]) == (3, "unreadable", 3.0)
    for wrong in ("episode@0", "episode@1001", "episode@x"):
        with pytest.raises(BadInput, match="expected a whole number from 1 to 1000"):
            find_strategy(wrong)


@pytest.mark.parametrize("broken_from", [0, 1, 2])
def test_an_environment_that_fails_fails_the_answer_with_what_it_said(broken_from: int) -> None:
    scoring = Countdown()
    task = countdown(scoring)
    scoring.broken_from = broken_from
    found = held(task, takes)
    assert found.last.failed and found.last.reward is None
    assert "the table fell over" in found.last.reason


def test_a_thought_is_no_action_and_a_full_context_ends_the_episode() -> None:
    task = countdown()

    def said(request: SampleRequest) -> str:
        return "<think><action>1</action></think><action>2</action>"

    found = held(task, said, "episode@1")
    assert actions_of(found.last.completion.text) == ["2"]

    class Full(ScriptedModel):
        def sample(self, requests: Any) -> Any:
            for each in super().sample(requests):
                yield evolve(each, text="", finish_reason="context", error="no room")

    (ended,) = converse(EPISODE, Full(said), task, TaskVerifier(task), problems(task), Settings())
    assert ended.replies == 1 and ended.last.outcome == "unreadable"


def test_few_first_observations_are_listed_for_testing() -> None:
    task = countdown(Countdown(3))
    shown = {each.prompt[0].content for each in problems(task, 10)}
    assert shown == {f"There are {count} stones." for count in (4, 5, 6)} and "3 test" in repr(task)
    assert "drawn" not in countdown().presets and len(problems(countdown(), 10)) == 10


def test_a_task_without_episodes_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="the problems of task scheduling are not played turn by turn"):
        check_needs(EPISODE, TASKS["scheduling"], Settings(), ScriptedModel(takes))
    with pytest.raises(ValueError, match="no episodes"):
        episodes_of(TASKS["scheduling"])
    said = tmp_path / "said.jsonl"
    said.write_text('{"text": "hm"}\n', encoding="utf-8")
    assert cli.main(["evaluate", "--strategies", "episode", "--n", "2", "--model", f"scripted:{said}"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert "leave out the strategy episode" in line


@given(st.lists(st.text(st.characters(exclude_categories=[]), max_size=20), max_size=5))
def test_actions_that_are_written_are_read_again(actions: list[str]) -> None:
    assert actions_of(as_answer(actions)) == actions
    assert actions_of(f" {as_answer(actions)}\n") == actions


@given(st.text() | st.text().map(lambda text: f"<episode>{text}</episode>"))
def test_any_text_is_a_list_of_actions_or_none(text: str) -> None:
    found = actions_of(text)
    assert found is None or all(isinstance(each, str) for each in found)


@pytest.mark.parametrize(
    "text", ["", "<episode>", '<episode>["1"]', '["1"]', "<episode>[1]</episode>", '<episode>{"1": 2}</episode>']
)
def test_other_texts_are_none(text: str) -> None:
    assert actions_of(text) is None
    assert actions_of(f"<episode>{'[' * 100_000}</episode>") is None


def test_long_observations_are_cut() -> None:
    assert observed("x" * MOST_TEXT, -1.0) == "x" * MOST_TEXT + "\nReward: -1"
    assert len(observed("x" * 10**6)) < MOST_TEXT + 50
