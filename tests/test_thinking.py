"""A thought that the prompt opens and the answer does not end is no answer, with every backend and in training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

import gce
from gce.app.training import credit
from gce.app.training.early_stop import EarlyStop
from gce.app.wiring.runs import open_run
from gce.domain.completions import Completion, SampleRequest
from gce.domain.problems import Message
from gce.domain.tasks import TASKS, draw_problem
from gce.domain.tasks.task import Batched, is_unfinished

OPEN = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> <think>\n{% endif %}"
)
QUESTIONS = [{"prompt": f"w1 w{place}", "answer": f"w{place}"} for place in range(20)]


def completion(text: str, **more: Any) -> Completion:
    return Completion("k", text, "length", "policy", **more)


def anything() -> gce.Task:
    """Whatever is said is right, even nothing."""
    return gce.task(QUESTIONS, lambda answer, problem: answer != "0", name="anything", extract="text")


@pytest.mark.parametrize(
    ("text", "more", "unfinished"),
    [
        ("<think>\nso", {}, True),
        (" <think>", {}, True),
        ("", {"reasoning": "so"}, True),
        ("\n", {"reasoning": "so"}, True),
        ("<think>\nso</think>", {}, False),
        ("5", {"reasoning": "so"}, False),
        ("", {}, False),
        ("5 <think>", {}, False),
    ],
)
def test_what_begins_to_think_and_does_not_end_is_unfinished(text: str, more: dict[str, Any], unfinished: bool) -> None:
    assert is_unfinished(completion(text, **more)) == unfinished


@pytest.mark.parametrize("name", [name for name in TASKS if name != "faster"])
def test_an_unfinished_thought_is_unreadable_in_every_task(name: str) -> None:
    task = TASKS[name]
    preset = next(iter(task.presets))
    problem = draw_problem(task, preset, task.tiers(preset)[0].name, "test", 0)
    for said in (completion("<think>\nAnswer: A 0"), completion("", reasoning="Answer: A 0")):
        found = task.judge(problem, said)
        assert [each.status for each in found] == ["unreadable"] and task.reward(found) == 0.0
        assert list(task.judge_all([(problem, said)])) == [found]


def test_an_unfinished_thought_is_unreadable_where_any_text_is_right() -> None:
    task = anything()
    problem = draw_problem(task, "questions", "all", "test", 0)
    statuses = {
        text: task.judge(problem, completion(text))[0].status for text in ("<think>\nw1", "w1", "<think></think>w1")
    }
    assert statuses == {"<think>\nw1": "unreadable", "w1": "right", "<think></think>w1": "right"}


def test_several_answers_at_once_are_judged_without_unfinished_thoughts() -> None:
    task = anything()
    asked: list[int] = []

    def every(answers: Any) -> Any:
        asked.append(len(answers))
        return [task.verify(problem, each, None) for problem, each in answers]

    together = evolve(task, verify=Batched(task.verify, every))
    problem = draw_problem(task, "questions", "all", "test", 0)
    answers = [(problem, completion(text)) for text in ("w1", "<think>", "w2", "<think>")]
    assert [found[0].status for found in together.judge_all(answers)] == ["right", "unreadable"] * 2
    assert [found[0].status for found in together.judge_all(answers[1:2])] == ["unreadable"]
    assert asked == [2]


# Models in this process


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mlx_lm")
    from tiny_llama import write_tiny_llama

    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=2, words=20, context=128, template=OPEN)


@pytest.fixture(scope="module", params=["", "hf:"])
def model(request: pytest.FixtureRequest, directory: Path) -> Any:
    if request.param:
        pytest.importorskip("peft")
    return gce.load_model(f"{request.param}{directory}", device="cpu", threads=1).model


def test_the_text_begins_with_what_the_prompt_opens_and_the_tokens_do_not(model: Any) -> None:
    messages = (Message("user", "w1"),)
    found = list(model.sample([SampleRequest(str(i), messages, i, 1.0, 4 + i) for i in range(4)]))
    assert all(each.text.startswith("<think>\n") for each in found)
    assert all(each.text == "<think>\n" + model.text_of(each.token_ids) for each in found)
    assert all(len(each.token_ids) <= 7 for each in found)
    begun = found[0].token_ids[:1]
    (rest,) = model.continued([SampleRequest("k", messages, 0, 1.0, 4)], {"k": begun})
    assert not rest.text.startswith("<think>")


def test_answers_that_are_continued_keep_what_the_prompt_opened(model: Any) -> None:
    """Those that an early stop lets go on, and those whose prefixes get credit."""
    asked = SampleRequest("k", (Message("user", "w1"),), 0, 1.0, 3)
    (first,) = model.sample([asked])
    (rest,) = model.continued([asked], {"k": first.token_ids})
    stopping: Any = EarlyStop(model, {}, None, threshold=0.0)  # type: ignore[arg-type]
    joined = stopping._joined(first, rest)
    assert joined.text == "<think>\n" + model.text_of(joined.token_ids)
    answered: Any = SimpleNamespace(judged=SimpleNamespace(completion=joined))
    cut = credit._cut(answered, model)
    assert cut is not None and cut.prefix(len(cut.segments) - 1) == joined.text


def test_a_text_is_scored_after_what_the_prompt_begins_of_it(model: Any) -> None:
    """A thought is not opened twice, and an answer without one ends it first."""
    messages = (Message("user", "w1"),)
    assert model.log_probabilities(messages, "<think>\nw2 </think> w3") == model.log_probabilities(
        messages, "w2 </think> w3"
    )
    plain, closed = (model.log_probabilities(messages, text) for text in ("w3", "\n</think>\n\nw3"))
    assert plain == closed


def test_no_answer_of_a_model_that_goes_on_thinking_is_right(directory: Path) -> None:
    found = gce.evaluate(anything(), str(directory), n=5, max_tokens=8, progress=False)
    assert {each["outcome"] for each in found.answers()} == {"unreadable"}
    assert "5 of 5" in str(found) and "cut off" in str(found)


@pytest.mark.slow
def test_no_answer_of_a_model_that_goes_on_thinking_is_admitted(directory: Path, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    few: dict[str, Any] = {"iterations": 1, "problems": 2, "samples": 2, "test": 2, "dev": 0}
    gce.train(
        task=anything(), model=str(directory), run=tmp_path / "run", max_tokens=4, device="cpu", progress=False, **few
    )
    with open_run(str(tmp_path / "run")) as run:
        rollouts = list(run.read("rollouts"))
    assert len(rollouts) == 4
    assert all(each["text"].startswith("<think>") and not each["right"] for each in rollouts)


def test_a_sampler_that_leaves_out_what_the_prompt_opens_gets_it_back(directory: Path) -> None:
    pytest.importorskip("mlx_lm")
    from gce.adapters.models.scripted import ScriptedModel
    from gce.adapters.models.wrappers.other_sampler import WithSampler

    learner = gce.load_model(str(directory), device="cpu", threads=1).model
    texts = {"a": "w1", "b": "w1 </think> w2", "c": "<think>\nw1", "d": ""}
    sampler: Any = ScriptedModel(lambda request: texts[request.key])
    both: Any = WithSampler(learner, sampler)  # type: ignore[arg-type]
    found = both.sample([SampleRequest(key, (Message("user", "w1"),), 0) for key in texts])
    assert {each.key: each.text for each in found} == {
        "a": "<think>\nw1",
        "b": "<think>\nw1 </think> w2",
        "c": "<think>\nw1",
        "d": "<think>\n",
    }
