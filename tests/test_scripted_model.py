"""The scripted model keeps to the port, and the contract check finds models that do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.scripted_model import ScriptedModel
from gce.domain.types import Completion, Message, SampleRequest, Trace, TrainingBatch
from gce.ports.model import Learner, Probe, Sampler, Scorer
from gce.testing.model_contract import check_model

PROMPTS = [(Message("user", "one"),), (Message("system", "be brief"), Message("user", "two and three"))]
TOO_LONG = (Message("user", "x" * 300),)


def answer(request: SampleRequest) -> str:
    turn = request.seed % 3 if request.temperature else 0
    return f"{request.messages[-1].content} {turn}"


def make() -> ScriptedModel:
    return ScriptedModel(answer, context=200)


def check(make_model) -> None:
    check_model(make_model, prompts=PROMPTS, too_long=TOO_LONG)


def trace(text: str) -> Trace:
    completion = Completion("k", text, "stop", "by hand")
    return Trace("k", "p", "T0", 0, PROMPTS[0], completion, (), text)


def test_it_has_all_four_capabilities_and_keeps_to_the_port():
    assert isinstance(make(), Sampler) and isinstance(make(), Scorer)
    assert isinstance(make(), Learner) and isinstance(make(), Probe)
    check(make)


def test_it_says_what_the_script_says():
    (completion,) = make().sample([SampleRequest("k", PROMPTS[0], seed=4)])
    assert (completion.key, completion.text, completion.finish_reason) == ("k", "one 1", "stop")


def test_a_text_over_the_limit_is_cut():
    (completion,) = make().sample([SampleRequest("k", PROMPTS[0], seed=4, max_tokens=5)])
    assert (completion.text, completion.finish_reason) == ("one 1", "length")


@given(st.text(max_size=10))
def test_any_text_comes_back_whole(text):
    (completion,) = ScriptedModel(lambda _: text).sample([SampleRequest("k", PROMPTS[0], seed=0)])
    assert completion.text == text and len(completion.token_ids or ()) == len(text) + 1


def test_learning_makes_what_was_learned_likelier():
    """One `a` and one end token on top of a uniform base of 257: each has (1 + 1) / (257 + 2)."""
    model = make()
    report = model.update(TrainingBatch((trace("a"),), (1.0,)))
    assert report.tokens == 2 and report.loss == pytest.approx(math.log(257))
    assert model.log_probabilities(PROMPTS[0], "a") == pytest.approx([math.log(2 / 259)] * 2)
    assert model.log_probabilities(PROMPTS[0], "a", adapter=False) == pytest.approx([math.log(1 / 257)] * 2)


def test_a_script_can_answer_better_once_the_model_has_learned():
    model = ScriptedModel(lambda _: "right" if model.steps else "wrong")
    assert next(model.sample([SampleRequest("k", PROMPTS[0], seed=0)])).text == "wrong"
    model.update(TrainingBatch((trace("right"),), (1.0,)))
    assert next(model.sample([SampleRequest("k", PROMPTS[0], seed=0)])).text == "right"


class Forgetful(ScriptedModel):
    def sample(self, requests):
        return (completion for completion in list(super().sample(requests))[:-1])


class Fickle(ScriptedModel):
    def sample(self, requests):
        self.calls = getattr(self, "calls", 0) + 1
        return (evolve(c, text=f"{c.text}{self.calls}") for c in super().sample(requests))


class Careless(ScriptedModel):
    def sample(self, requests):
        return super().sample(list({request.key: request for request in requests}.values()))


class LearnsWhileSampling(ScriptedModel):
    def sample(self, requests):
        self._counts[0] += 1
        return super().sample(requests)


class NeverLearns(ScriptedModel):
    def update(self, batch):
        before = self.state()
        report = super().update(batch)
        self.restore(before)
        return report


class SharesItsState(ScriptedModel):
    def state(self):
        return evolve(super().state(), arrays={"adapter.counts": self._counts, "optimizer.step": self._steps})


class RestoresHalf(ScriptedModel):
    def restore(self, state):
        self._steps = state.arrays["optimizer.step"].copy()
        super().restore(state)


class TakesAnyShape(ScriptedModel):
    def restore(self, state):
        counts = state.arrays.get("adapter.counts", self._counts)
        self._counts = np.resize(counts, self._counts.shape).copy()
        self._steps = state.arrays["optimizer.step"].copy()


class ForgetsTheOptimizer(ScriptedModel):
    def restore(self, state):
        steps = self._steps
        super().restore(state)
        self._steps = steps


class TrainsThePrompt(ScriptedModel):
    def update(self, batch):
        return evolve(super().update(batch), tokens=1000)


class IgnoresWeights(ScriptedModel):
    def update(self, batch):
        return super().update(evolve(batch, weights=(1.0,) * len(batch.traces)))


class LeavesTheAdapterOn(ScriptedModel):
    def log_probabilities(self, messages, continuation, *, adapter=True):
        return super().log_probabilities(messages, continuation)


class ScoresSomethingElse(ScriptedModel):
    def log_probabilities(self, messages, continuation, *, adapter=True):
        return tuple(value - 0.1 for value in super().log_probabilities(messages, continuation, adapter=adapter))


class CutsLongTraces(ScriptedModel):
    def update(self, batch):
        short = [evolve(t, messages=PROMPTS[0]) if t.messages == TOO_LONG else t for t in batch.traces]
        return super().update(evolve(batch, traces=tuple(short)))


class WritesWithoutRoom(ScriptedModel):
    def sample(self, requests):
        return (evolve(c, finish_reason="length") for c in super().sample(requests))


class SumsActivations(ScriptedModel):
    def activation_statistics(self, prompts):
        prompts = list(prompts)
        return tuple(
            evolve(r, mean_square=r.mean_square * len(prompts)) for r in super().activation_statistics(prompts)
        )


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
]


@pytest.mark.parametrize("kind", BROKEN)
def test_the_contract_check_finds_a_model_that_breaks_it(kind):
    with pytest.raises(AssertionError):
        check(lambda: kind(answer, context=200))


def test_a_capability_that_is_missing_is_not_checked():
    class OnlySamples:
        def __init__(self) -> None:
            self.sample = make().sample

    check(OnlySamples)


def test_what_has_no_capability_is_no_model():
    with pytest.raises(AssertionError, match="no capability"):
        check(object)
