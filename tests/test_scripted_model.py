"""The scripted model keeps to the port, and the contract check finds models that do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.models.local.lora import check_layers
from gce.adapters.models.scripted import ScriptedModel
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import Trace, TrainingBatch, single_turn
from gce.domain.problems import Message
from gce.ports.model import Learner, Probe, Sampler, Scorer
from gce.testing.contracts.model import check_model

PROMPTS = [(Message("user", "one"),), (Message("system", "be brief"), Message("user", "two and three"))]
TOO_LONG = (Message("user", "x" * 300),)


def answer(request: SampleRequest) -> str:
    turn = request.seed % 3 if request.temperature else 0
    return f"{request.messages[-1].content} {turn}"


def make() -> ScriptedModel:
    return ScriptedModel(answer, context=200)


def check(make_model: Any) -> None:
    check_model(make_model, prompts=PROMPTS, too_long=TOO_LONG)


def trace(text: str) -> Trace:
    completion = Completion("k", text, "stop", "by hand")
    return Trace("k", "p", "T0", 0, single_turn(PROMPTS[0], completion), (), text)


def test_it_has_all_four_capabilities_and_keeps_to_the_port() -> None:
    assert isinstance(make(), Sampler) and isinstance(make(), Scorer)
    assert isinstance(make(), Learner) and isinstance(make(), Probe)
    check(make)


def test_it_says_what_the_script_says() -> None:
    (completion,) = make().sample([SampleRequest("k", PROMPTS[0], seed=4)])
    assert (completion.key, completion.text, completion.finish_reason) == ("k", "one 1", "stop")


def test_a_text_over_the_limit_is_cut() -> None:
    (completion,) = make().sample([SampleRequest("k", PROMPTS[0], seed=4, max_tokens=5)])
    assert (completion.text, completion.finish_reason) == ("one 1", "length")


@given(st.text(max_size=10))
def test_any_text_comes_back_whole(text: str) -> None:
    (completion,) = ScriptedModel(lambda _: text).sample([SampleRequest("k", PROMPTS[0], seed=0)])
    assert completion.text == text and len(completion.token_ids or ()) == len(text) + 1


def test_learning_makes_what_was_learned_likelier() -> None:
    """One `a` and one end token on top of a uniform base of 257: each has (1 + 1) / (257 + 2)."""
    model = make()
    report = model.update(TrainingBatch((trace("a"),), (1.0,)))
    assert report.tokens == 2 and report.loss == pytest.approx(math.log(257))
    assert model.log_probabilities(PROMPTS[0], "a") == pytest.approx([math.log(2 / 259)] * 2)
    assert model.log_probabilities(PROMPTS[0], "a", adapter=False) == pytest.approx([math.log(1 / 257)] * 2)


def test_a_script_can_answer_better_once_the_model_has_learned() -> None:
    model = ScriptedModel(lambda _: "right" if model.steps else "wrong")
    assert next(model.sample([SampleRequest("k", PROMPTS[0], seed=0)])).text == "wrong"
    model.update(TrainingBatch((trace("right"),), (1.0,)))
    assert next(model.sample([SampleRequest("k", PROMPTS[0], seed=0)])).text == "right"


class Forgetful(ScriptedModel):
    def sample(self, requests: Any) -> Any:
        return (completion for completion in list(super().sample(requests))[:-1])


class Fickle(ScriptedModel):
    def sample(self, requests: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        return (evolve(c, text=f"{c.text}{self.calls}") for c in super().sample(requests))


class Careless(ScriptedModel):
    def sample(self, requests: Any) -> Any:
        return super().sample(list({request.key: request for request in requests}.values()))


class LearnsWhileSampling(ScriptedModel):
    def sample(self, requests: Any) -> Any:
        self._counts[0] += 1
        return super().sample(requests)


class NeverLearns(ScriptedModel):
    def update(self, batch: Any) -> Any:
        before = self.state()
        report = super().update(batch)
        self.restore(before)
        return report


class SharesItsState(ScriptedModel):
    def state(self) -> Any:
        return evolve(super().state(), arrays={"adapter.counts": self._counts, "optimizer.step": self._steps})


class RestoresHalf(ScriptedModel):
    def restore(self, state: Any) -> None:
        self._steps = state.arrays["optimizer.step"].copy()
        super().restore(state)


class TakesAnyShape(ScriptedModel):
    def restore(self, state: Any) -> None:
        counts = state.arrays.get("adapter.counts", self._counts)
        self._counts = np.resize(counts, self._counts.shape).copy()
        self._steps = state.arrays["optimizer.step"].copy()


class ForgetsTheOptimizer(ScriptedModel):
    def restore(self, state: Any) -> None:
        steps = self._steps
        super().restore(state)
        self._steps = steps


class TrainsThePrompt(ScriptedModel):
    def update(self, batch: Any) -> Any:
        return evolve(super().update(batch), tokens=1000)


class IgnoresWeights(ScriptedModel):
    def update(self, batch: Any) -> Any:
        return super().update(evolve(batch, weights=(1.0,) * len(batch.traces)))


class LeavesTheAdapterOn(ScriptedModel):
    def log_probabilities(self, messages: Any, continuation: Any, *, adapter: bool = True) -> Any:
        return super().log_probabilities(messages, continuation)


class ScoresSomethingElse(ScriptedModel):
    def log_probabilities(self, messages: Any, continuation: Any, *, adapter: bool = True) -> Any:
        return tuple(value - 0.1 for value in super().log_probabilities(messages, continuation, adapter=adapter))


class CutsLongTraces(ScriptedModel):
    def update(self, batch: Any) -> Any:
        short = [
            evolve(t, turns=single_turn(PROMPTS[0], t.completion)) if t.messages == TOO_LONG else t
            for t in batch.traces
        ]
        return super().update(evolve(batch, traces=tuple(short)))


class WritesWithoutRoom(ScriptedModel):
    def sample(self, requests: Any) -> Any:
        return (evolve(c, finish_reason="length") for c in super().sample(requests))


class SumsActivations(ScriptedModel):
    def activation_statistics(self, prompts: Any) -> Any:
        prompts = list(prompts)
        return tuple(
            evolve(r, mean_square=r.mean_square * len(prompts)) for r in super().activation_statistics(prompts)
        )


class KeepsItsName(ScriptedModel):
    def info(self) -> Any:
        return evolve(super().info(), identity="always the same")


class NamesEachInstance(ScriptedModel):
    def info(self) -> Any:
        return evolve(super().info(), identity=f"{id(self)} {super().info().identity}")


class NamesItsCalls(ScriptedModel):
    def sample(self, requests: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        return super().sample(requests)

    def info(self) -> Any:
        return evolve(super().info(), identity=f"{getattr(self, 'calls', 0)} {super().info().identity}")


class PromisesTooLittle(ScriptedModel):
    def info(self) -> Any:
        return evolve(super().info(), capabilities=frozenset({"sample", "learn", "probe"}))


class KeepsTheAdapter(ScriptedModel):
    def attach(self, layers: Sequence[int]) -> None:
        check_layers(layers, self.info().layers)
        self._layers = tuple(layers)


class AttachesAnything(ScriptedModel):
    def attach(self, layers: Sequence[int]) -> None:
        super().attach([layer for layer in layers if layer in range(4)][:1])


BROKEN = [
    Forgetful,
    Fickle,
    Careless,
    LearnsWhileSampling,
    NeverLearns,
    SharesItsState,
    RestoresHalf,
    TakesAnyShape,
    ForgetsTheOptimizer,
    TrainsThePrompt,
    IgnoresWeights,
    LeavesTheAdapterOn,
    ScoresSomethingElse,
    CutsLongTraces,
    WritesWithoutRoom,
    SumsActivations,
    KeepsItsName,
    NamesEachInstance,
    NamesItsCalls,
    PromisesTooLittle,
    KeepsTheAdapter,
    AttachesAnything,
]


@pytest.mark.parametrize("kind", BROKEN)
def test_the_contract_check_finds_a_model_that_breaks_it(kind: Any) -> None:
    with pytest.raises(AssertionError):
        check(lambda: kind(answer, context=200))


def test_a_capability_that_is_missing_is_not_checked() -> None:
    class OnlySamples:
        def __init__(self) -> None:
            inner = make()
            self.sample = inner.sample
            self.info = lambda: evolve(inner.info(), capabilities=frozenset({"sample"}))

    check(OnlySamples)


def test_what_has_no_capability_is_no_model() -> None:
    class OnlyNamed:
        info = make().info

    with pytest.raises(AssertionError, match="no capability"):
        check(OnlyNamed)
    with pytest.raises(AssertionError, match="does not say what it is"):
        check(object)
