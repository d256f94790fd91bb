"""A fixed system prompt before every conversation: the wrapped model keeps to the port."""

from __future__ import annotations

from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.models.wrappers.system_prompt import WithSystemPrompt
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import Trace, TrainingBatch, single_turn
from gce.domain.problems import Message
from gce.testing.contracts.model import check_model

USER = (Message("user", "one"),)
SYSTEM = (Message("system", "be brief"), Message("user", "two and three"))


def answer(request: SampleRequest) -> str:
    turn = request.seed % 3 if request.temperature else 0
    return f"{request.messages[-1].content} {turn}"


def test_the_wrapped_model_keeps_to_the_port() -> None:
    check_model(
        lambda: WithSystemPrompt(ScriptedModel(answer, context=200), "you plan"),
        prompts=[USER, SYSTEM],
        too_long=(Message("user", "x" * 300),),
    )


def test_the_model_inside_reads_the_prompt_first_and_one_system_message_at_most() -> None:
    read: list[tuple[Message, ...]] = []

    def note(request: SampleRequest) -> str:
        read.append(request.messages)
        return "x"

    model = WithSystemPrompt(ScriptedModel(note), "you plan")
    list(model.sample([SampleRequest("a", USER, seed=0), SampleRequest("b", SYSTEM, seed=0)]))
    assert read == [
        (Message("system", "you plan"), *USER),
        (Message("system", "you plan\n\nbe brief"), SYSTEM[1]),
    ]


def test_its_identity_follows_from_the_prompt_and_the_weights_inside() -> None:
    inner = ScriptedModel(answer)
    model, other = WithSystemPrompt(inner, "you plan"), WithSystemPrompt(inner, "you guess")
    identities = {inner.info().identity, model.info().identity, other.info().identity}
    assert len(identities) == 3
    completion = Completion("k", "a", "stop", "by hand")
    inner.update(TrainingBatch((Trace("k", "p", "T0", 0, single_turn(USER, completion), (), "a"),), (1.0,)))
    assert model.info().identity not in identities
