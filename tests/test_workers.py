"""Rollouts computed elsewhere, share by share: the same completions, by the weights of the moment or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Event
from typing import Any, cast

import pytest
from attrs import evolve
from toy_task import ADDITION

import gce
from gce.adapters.executors.in_process import InProcess
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.models.wrappers.other_sampler import WithSampler
from gce.adapters.models.wrappers.workers import OnWorkers, in_a_thread
from gce.app.settings.records import ExecutorSettings, TrainSettings
from gce.app.wiring.models import find_learning_model
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState, TrainingBatch
from gce.domain.problems import Message
from gce.errors import MissingExtra, ModelError, SettingError
from gce.testing.contracts.model import check_model

PROMPTS = [(Message("user", "w1 w2 w3"),), (Message("user", "w4 w5 w6"),)]


class Backwards:
    """Finishes the last specification first, and counts what it was given."""

    def __init__(self) -> None:
        self.work: list[object] = []
        self.shares = 0

    def map(self, work: Callable[[Any], Iterable[Any]], specs: Iterable[Any]) -> Iterator[Any]:
        self.work.append(work)
        for spec in reversed(list(specs)):
            self.shares += 1
            yield from work(spec)


def own() -> ScriptedModel:
    return ScriptedModel(lambda request: f"{request.messages[0].content} {request.seed * bool(request.temperature)}")


FAR = own()
"""The model of a worker."""


def far_away(identity: str, state: ModelState | None, share: Sequence[SampleRequest]) -> Iterator[Completion]:
    if state is not None:
        FAR.restore(state)
    return FAR.sample_share(share)


def outdated(identity: str, state: ModelState | None, share: Sequence[SampleRequest]) -> Iterator[Completion]:
    return own().sample_share(share)


def spread(executor: Any = None, work: Any = far_away) -> WithSampler:
    model = own()
    return WithSampler(model, OnWorkers(model, executor or Backwards(), work, learns=True), same=True)


def requests(count: int) -> list[SampleRequest]:
    return [SampleRequest(f"{place}", PROMPTS[place % 2], place, 0.8, 9) for place in range(count)]


def by_key(found: Iterable[Completion]) -> dict[str, Completion]:
    return {each.key: each for each in found}


def test_a_model_whose_rollouts_are_computed_elsewhere_keeps_the_contract() -> None:
    check_model(spread, prompts=PROMPTS)


def test_its_completions_and_its_identity_are_those_of_the_model() -> None:
    model, executor = own(), Backwards()
    assert spread().info() == model.info()
    assert by_key(spread(executor).sample(requests(21))) == by_key(model.sample(requests(21)))
    assert executor.shares == 3, "8 requests each"


def learn(model: Any) -> None:
    (completion,) = model.sample(requests(1))
    turns = gce.domain.learning.single_turn(PROMPTS[0], completion)
    trace = gce.domain.learning.Trace("0", "p", "T0", 1, turns, (), "d")
    model.update(TrainingBatch(traces=(trace,), weights=(1.0,)))


def test_workers_get_the_adapter_once_for_each_update() -> None:
    executor = Backwards()
    one, other = spread(executor), own()
    for _ in range(2):
        assert by_key(one.sample(requests(9))) == by_key(other.sample(requests(9)))
        assert by_key(one.sample(requests(4))) == by_key(other.sample(requests(4)))
        learn(one)
        learn(other)
    assert by_key(one.sample(requests(9))) == by_key(other.sample(requests(9)))
    assert len({id(work) for work in executor.work}) == 3


def test_a_frozen_sampler_keeps_the_weights_of_its_moment() -> None:
    """Which workers are told, also after they had newer ones."""
    model, before = spread(), own().info().identity
    frozen = model.frozen()
    first = by_key(frozen.sample(requests(9)))
    learn(model)
    newer = by_key(model.sample(requests(9)))
    assert {each.policy for each in newer.values()} == {model.info().identity} != {before}
    again = spread(work=lambda identity, state, share: own().sample_share(share))
    still = again.frozen()
    learn(again)
    assert by_key(still.sample(requests(9))) == first and still.info().identity == before
    with pytest.raises(ModelError, match="expected an answer by the weights"):
        list(again.frozen().sample(requests(9)))


def test_a_sampler_that_cannot_be_frozen_is_said_so() -> None:
    with pytest.raises(TypeError, match="ScriptedModel samples with the weights of the moment alone"):
        WithSampler(ScriptedModel(lambda _: "a"), own()).frozen()


def test_an_answer_by_other_weights_is_an_error() -> None:
    model = spread(work=outdated)
    assert len(list(model.sample(requests(2)))) == 2
    learn(model)
    with pytest.raises(ModelError, match="expected an answer by the weights"):
        list(model.sample(requests(2)))


def test_a_sampler_of_another_engine_takes_the_adapter_here_and_there() -> None:
    learner, sampler = ScriptedModel(lambda _: "a"), own()
    model = WithSampler(learner, OnWorkers(sampler, InProcess(), far_away))
    learn(model)
    (found,) = model.sample(requests(1))
    assert sampler.info().identity == learner.info().identity, "both are called scripted, and have the same counts"
    assert found.policy == model.info().identity != learner.info().identity


def test_the_scripted_model_deals_whole_shares() -> None:
    model = own()
    assert [len(share) for share in model.deal(requests(17))] == [8, 8, 1]
    with pytest.raises(ValueError, match="key"):
        model.deal([evolve(each, key="same") for each in requests(2)])


def test_ray_is_for_models_and_tasks_with_names() -> None:
    with pytest.raises(SettingError, match="workers find the model and the task by name"):
        find_learning_model(TrainSettings(executor=ExecutorSettings(kind="ray")), ADDITION, own())


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    monkeypatch.delitem(__import__("sys").modules, "gce.adapters.executors.ray_workers", raising=False)
    with pytest.raises(MissingExtra, match=r"grounded-eval\[ray\]"):
        gce.train(
            task="toy_task:ADDITION", model="toy_task:careless", executor={"kind": "ray", "workers": 3}, problems=4
        )


def test_results_are_taken_as_they_come_until_they_are_closed() -> None:
    given, ended = list[int](), Event()

    def results() -> Iterator[int]:
        try:
            for number in range(3):
                given.append(number)
                yield number
            ended.wait(10.0)
            given.append(3)
            yield 3
            given.append(4)
        finally:
            given.append(-1)

    found = in_a_thread(results())
    assert next(found) == 0
    until = time.monotonic() + 10.0
    while given != [0, 1, 2] and time.monotonic() < until:
        time.sleep(0.01)
    assert given == [0, 1, 2], "nobody asked for the second"
    cast(Any, found).close()
    ended.set()
    while given != [0, 1, 2, 3, -1] and time.monotonic() < until:
        time.sleep(0.01)
    assert given == [0, 1, 2, 3, -1], "nothing more is begun"


def test_what_fails_while_results_are_taken_is_raised_after_them() -> None:
    def results() -> Iterator[int]:
        yield 1
        raise ModelError("gone")

    found = in_a_thread(results())
    assert next(found) == 1
    with pytest.raises(ModelError, match="gone"):
        next(found)
    assert list(in_a_thread(iter([1, 2]))) == [1, 2]
