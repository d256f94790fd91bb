"""Conversations about problems: what is shown, what counts, what it costs and gains, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from toy_task import ADDITION

from gce.adapters.clocks import FakeClock
from gce.adapters.exact_solver import ExactSolver
from gce.adapters.scripted_model import ScriptedModel
from gce.app.examples import worked_examples
from gce.app.mode_tables import Measured, against, attempts, costs_table
from gce.app.modes import ATTEMPTS, MODES, Settings, converse
from gce.domain.tasks import TASKS, TaskTier, draw_problems
from gce.domain.types import Message, Problem, SampleRequest
from gce.errors import BadInput

SCHEDULING = TASKS["scheduling"]


class Remembering(ScriptedModel):
    """Keeps what it was asked."""

    def __init__(self, answer: Any, **options: Any) -> None:
        super().__init__(answer, **options)
        self.asked: list[list[SampleRequest]] = []

    def sample(self, requests: Any) -> Any:
        self.asked.append(list(requests))
        return super().sample(requests)


def problems(count: int = 2) -> list[Problem]:
    return [p for tier in ("T0", "T1") for p in draw_problems(ADDITION, "small", tier, "test", count)]


def total(request: SampleRequest) -> int:
    a, b, _ = (int(word[1:]) for word in request.messages[0].content.split("\n")[0].split())
    return a + b


def talk(mode: str, model: ScriptedModel, settings: Settings | None = None, task: Any = ADDITION) -> Measured:
    answers = converse(MODES[mode], model, task, problems(), settings or Settings())
    return Measured(tuple(answers), 1.0)


def test_zero_shot_shows_the_prompt_alone_in_one_call() -> None:
    model = Remembering(lambda request: f"w{total(request)}")
    found = talk("zero-shot", model)
    assert [request.messages for request in model.asked[0]] == [problem.prompt for problem in problems()]
    assert len(model.asked) == 1
    assert all(answer.last.right and answer.replies == 1 for answer in found.answers)
    assert [answer.last.problem.key for answer in found.answers] == [problem.key for problem in problems()]


def test_after_a_wrong_answer_the_model_hears_what_is_wrong_and_tries_again() -> None:
    """T0 problems are right at once, T1 problems at the third attempt."""

    def answer(request: SampleRequest) -> str:
        tried = sum(message.role == "assistant" for message in request.messages)
        return f"w{total(request)}" if "/T0/" in request.key or tried == 2 else f"w{total(request) + 1}"

    model = Remembering(answer)
    found = talk("multi-turn", model)
    assert [len(asked) for asked in model.asked] == [4, 2, 2]
    last = model.asked[2][0].messages
    assert [message.role for message in last] == ["user", "assistant", "user", "assistant", "user"]
    wrong = f"w{total(model.asked[2][0]) + 1}"
    assert last[1:3] == (Message("assistant", wrong), Message("user", f"{wrong[1:]} is off by 1.\nTry again."))
    assert [len(each.attempts) for each in found.answers] == [1, 1, 3, 3]
    tally = attempts(found)
    assert (tally.first.correct, tally.trajectory.correct, tally.first.n) == (2, 4, 4)
    assert (tally.recovered.correct, tally.recovered.n, tally.used) == (2, 2, 2.0)


def test_attempts_end_after_the_last() -> None:
    found = talk("multi-turn", ScriptedModel(lambda request: "no idea"))
    assert all(len(each.attempts) == ATTEMPTS == each.replies and not each.last.right for each in found.answers)


def test_feedback_never_shows_what_would_be_right() -> None:
    """Whatever the model wrote, the optimal starts are in no feedback."""
    solve = ExactSolver(FakeClock()).solve
    for tier in ("T2", "T4"):
        for problem in draw_problems(SCHEDULING, "grounded", tier, "test", 5):
            starts = solve(problem.instance).starts
            assert starts is not None
            right = ", ".join(f"{label} {starts[label]}" for label in problem.instance.labels)
            for text in ("no idea", "Answer: A 0", f"Answer: {right}, {right}"):
                model = Remembering(lambda _, text=text: text)
                converse(MODES["multi-turn"], model, SCHEDULING, [problem], Settings())
                told = [m.content for asked in model.asked for r in asked for m in r.messages[2::2]]
                assert told and all(right not in words and words.endswith("Try again.") for words in told)


def test_only_the_last_of_three_calls_is_judged() -> None:
    def answer(request: SampleRequest) -> str:
        said = sum(message.role == "assistant" for message in request.messages)
        return ["a list", f"w{total(request)} is a draft", f"w{total(request)}"][said]

    model = Remembering(answer)
    found = talk("simulate", model)
    assert [len(asked) for asked in model.asked] == [4, 4, 4]
    first, second, third = ADDITION.calls
    messages = model.asked[2][0].messages
    assert messages[0].content == f"{problems()[0].prompt[0].content}\n{first}"
    assert [message.content for message in messages[2::2]] == [second, third]
    assert all(each.last.right and each.replies == 3 and len(each.attempts) == 1 for each in found.answers)


def test_examples_are_right_and_from_the_training_key_space() -> None:
    tiers = [tier.name for tier in SCHEDULING.tiers("grounded")]
    shown = worked_examples(SCHEDULING, "grounded", tiers, 2)
    assert set(shown) == {"T0", "T1", "T2", "T3", "T4", "T5"}
    assert shown["T5"] == shown["T4"], "a held-out tier is never shown"
    for turns in shown.values():
        assert [turn.role for turn in turns] == ["user", "assistant"] * 2
    test = {p.prompt[0].content for p in draw_problems(SCHEDULING, "grounded", "T2", "test", 50)}
    assert not test & {turn.content for turn in shown["T2"]}
    solved = worked_examples(SCHEDULING, "grounded", tiers, 2, solve=ExactSolver(FakeClock()).solve)
    assert solved.keys() == shown.keys() and solved != shown
    alone = worked_examples(TASKS["scheduling-answer-only"], "grounded", ["T2"], 1)
    assert set(alone) == {"T2"}
    assert alone["T2"][1].content.startswith("Answer: ")


def test_examples_come_before_the_prompt() -> None:
    shown = (Message("user", "w1 w1 w2"), Message("assistant", "w2"))
    model = Remembering(lambda request: "w0")
    talk("few-shot", model, Settings(examples={"T0": shown, "T1": shown}))
    assert [request.messages for request in model.asked[0]] == [shown + problem.prompt for problem in problems()]


def test_a_task_without_worked_answers_has_no_examples() -> None:
    with pytest.raises(BadInput, match="task addition has 0 worked examples of T0, expected 1"):
        worked_examples(ADDITION, "small", ["T0"], 1)
    held = evolve(ADDITION, presets={"small": (TaskTier("T2", held_out=True),)})
    with pytest.raises(BadInput, match="has no tier to take examples from"):
        worked_examples(held, "small", ["T2"], 1)
    with pytest.raises(BadInput, match="leave out the mode simulate"):
        talk("simulate", ScriptedModel(lambda request: "no"), task=evolve(ADDITION, calls=()))


def test_tokens_are_counted_over_all_replies() -> None:
    """Characters of every message and of the role before it, and an end token after each."""
    model = Remembering(lambda request: "no idea")
    found = talk("multi-turn", model)
    read = sum(len(model.prompt_tokens(request.messages)) for asked in model.asked for request in asked)
    assert sum(answer.prompt_tokens or 0 for answer in found.answers) == read
    assert found.costs["tokens"] == 3 * 8
    assert found.costs["replies"] == 3
    assert "3.00" in costs_table({"multi-turn": found})


def test_a_prompt_that_leaves_no_room_ends_the_conversation() -> None:
    model = ScriptedModel(lambda request: "no idea", context=60)
    found = talk("multi-turn", model)
    assert all(answer.attempts[-1].completion.finish_reason == "context" for answer in found.answers)
    assert found.costs["no_room"] == 1.0


def test_modes_are_compared_problem_by_problem() -> None:
    """Of four problems zero-shot solves the T0 ones, simulate the T1 ones: two gained, two lost."""
    zero = talk("zero-shot", ScriptedModel(lambda r: f"w{total(r)}" if "/T0/" in r.key else "no"))
    other = talk("simulate", ScriptedModel(lambda r: f"w{total(r)}" if "/T1/" in r.key else "no"))
    (gain,) = against({"zero-shot": zero, "simulate": other}).values()
    assert (gain.gained, gain.lost, gain.p, gain.mean.value) == (2, 2, 1.0, 0.0)
    assert against({"simulate": other}) == {}


def test_the_first_reply_of_each_mode_has_the_seed_of_a_plain_answer() -> None:
    """So that a mode of one call is the same as asking without modes."""
    model = Remembering(lambda request: "no idea")
    for mode in ("zero-shot", "multi-turn"):
        talk(mode, model)
    assert [r.seed for r in model.asked[0]] == [r.seed for r in model.asked[1]]
    assert len({r.seed for asked in model.asked[1:] for r in asked}) == 12


def test_several_verdicts_are_all_told() -> None:
    twice = evolve(ADDITION, verify=lambda *arguments: ADDITION.verify(*arguments) * 2)
    model = Remembering(lambda request: "w1000")
    talk("multi-turn", model, task=twice)
    assert model.asked[1][0].messages[2].content.count("Try again.") == 2
