"""Rollouts that a strategy holds as conversations: what is trained on, what a resume repeats, what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve
from setting_fields import with_fields
from stores import reopened
from test_loop import SMALL, Interrupted, Listening, a_run, assert_same_end, dies_in, finish
from toy_task import ADDITION, ONE_TIER, bare, careless, on

from gce.adapters.runs.memory_store import MemoryRun
from gce.app.training.sampling import Rollout
from gce.app.training.updates import trace_of_rollout
from gce.domain.answers import Answer
from gce.domain.completions import Completion, SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.learning import Trace
from gce.domain.problems import Message
from gce.domain.strategies import STRATEGIES
from gce.domain.tasks import draw_problem
from gce.domain.traces import turns_of
from gce.errors import ModelError

MULTI_TURN = STRATEGIES["multi-turn"]
PROBLEM = draw_problem(ADDITION, "small", "T0", "train", 0)
user, assistant = partial(Message, "user"), partial(Message, "assistant")


def right_in_reply(number: int, request: SampleRequest) -> str:
    """The sum in this reply, of 0 to 2, and before it something without a number."""
    reply = len(request.messages) // 2
    if reply < number:
        return "no idea" if reply else "hm"
    a, b, _ = (int(word[1:]) for word in request.messages[0].content.split())
    return f"w{a + b}"


def by_sample(request: SampleRequest) -> str:
    """Sample 0 is right at once, 1 in the second reply, 2 in the third, 3 never."""
    return right_in_reply(int(request.key.split("/")[-1]), request)


def conversations(config: Any, model: Any, **more: Any) -> Any:
    return evolve(a_run(config, model, **more), strategy=MULTI_TURN)


def trained(trace: Trace) -> list[tuple[str, str]]:
    """What is said turn by turn; what is trained on is the policy's."""
    assert all(turn.trained == (turn.author == "policy") for turn in trace.turns)
    return [(turn.author, turn.message.content) for turn in trace.turns]


def test_all_turns_that_the_model_wrote_are_trained_on() -> None:
    """One problem, four conversations: right in the first, second and third reply, and never."""
    config = with_fields(SMALL, iterations=1, problems=1, samples=4, per_problem=None, updates=1, batch=8, reuse=8.0)
    model = Listening(by_sample)
    done = finish(on(conversations(config, model), ONE_TIER))
    rollouts, traces = list(done.store.read("rollouts")), [*done.state.buffer]
    prompt = traces[0].turns[0].message.content
    a, b, _ = (int(word[1:]) for word in prompt.split())
    said, told = f"w{a + b}", "The last word is no number.\nTry again."
    first, again = [("task", prompt), ("policy", "hm"), ("task", told)], [("policy", "no idea"), ("task", told)]
    assert [trained(trace) for trace in traces] == [
        [("task", prompt), ("policy", said)],
        [*first, ("policy", said)],
        [*first, *again, ("policy", said)],
    ]
    assert [rollout["replies"] for rollout in rollouts] == [1, 2, 3, 3]
    end = len(said) + 1  # Tokens of the scripted model: code points, and the end.
    assert [rollout["tokens"] for rollout in rollouts] == [end, 3 + end, 3 + 8 + end, 3 + 8 + 8]
    assert [rollout["right"] for rollout in rollouts] == [rollout["admitted"] for rollout in rollouts]
    assert [rollout["right"] for rollout in rollouts] == [True, True, True, False]
    assert [trace.reward for trace in traces] == [1.0, 1.0, 1.0]
    (count,) = done.records[0].tiers.values()
    assert (count.rollouts, count.correct, count.problems) == (4, 3, 1)
    assert count.mean_tokens == (end + 3 + end + 3 + 8 + end + 3 + 8 + 8) / 4, "over all replies"
    assert all(trace in traces for batch in model.taught for trace in batch)


def test_the_entropy_is_that_of_all_replies() -> None:
    """Three tokens of `hm`, its end included, at 1 nat each, and three of `w1` at 2."""

    class Unsure(Listening):
        def sample(self, requests: Any) -> Any:
            for each in super().sample(requests):
                nats = 1.0 if each.text == "hm" else 2.0
                yield evolve(each, log_probabilities=(-nats,) * len(each.token_ids or ()))

    model = Unsure(lambda request: "w1" if len(request.messages) > 1 else "hm")
    config = with_fields(SMALL, iterations=1, problems=1, samples=1, max_tokens=8)
    assert finish(on(conversations(config, model), ONE_TIER)).records[0].entropy == 1.5


def test_replies_of_a_conversation_have_seeds_of_their_own() -> None:
    model = Listening(lambda request: right_in_reply(2, request))
    finish(conversations(with_fields(SMALL, iterations=1), model))
    assert len({request.seed for request in model.asked}) == len(model.asked) == 3 * 4 * 6
    alone = Listening(lambda request: right_in_reply(0, request))
    finish(a_run(with_fields(SMALL, iterations=1), alone))
    assert {request.seed for request in alone.asked} < {request.seed for request in model.asked}


def test_group_relative_weights_go_to_whole_conversations() -> None:
    """Of four rewards 1, 1, 1, 0 the mean is 0.75: positive weights for three traces, a negative one for the fourth."""
    config = with_fields(SMALL, iterations=1, problems=1, samples=4, updates=1, batch=4, algorithm="grpo")
    model = Listening(by_sample)
    finish(on(conversations(config, model), ONE_TIER))
    ((batch,), (weights,)) = model.taught, model.weights
    found = {int(trace.key[-1]): (len(trace.turns), weight) for trace, weight in zip(batch, weights, strict=True)}
    assert {sample: turns for sample, (turns, _) in found.items()} == {0: 2, 1: 4, 2: 6, 3: 6}
    assert {sample for sample, (_, weight) in found.items() if weight < 0} == {3}
    assert all(
        turn.completion and turn.completion.log_probabilities for trace in batch for turn in trace.turns if turn.trained
    )
    with pytest.raises(ModelError, match="algorithm grpo needs log-probabilities"):
        finish(on(conversations(config, bare(None, None)), ONE_TIER))


@pytest.mark.parametrize("killed_in", [1, 3])
@pytest.mark.parametrize(
    "change", [{}, {"second_wave": 5}, {"algorithm": "raft++"}], ids=["default", "waves", "raft++"]
)
def test_a_killed_run_of_conversations_ends_as_one_that_was_not(killed_in: int, change: dict[str, Any]) -> None:
    config = with_fields(SMALL, iterations=3, **change)
    whole = finish(conversations(config, careless(None, None)))
    assert {rollout["replies"] for rollout in whole.store.read("rollouts")} == {1, 2, 3}
    store = MemoryRun()
    with pytest.raises(Interrupted):
        finish(conversations(config, dies_in(killed_in, careless(None, None), after=25), store=store))
    assert_same_end(whole, finish(conversations(config, careless(None, None), store=reopened(store))))


def test_a_held_wave_of_conversations_is_not_asked_again() -> None:
    class Fatal(Listening):
        def update(self, batch: Any) -> Any:
            raise Interrupted

    config, store = with_fields(SMALL, iterations=1, algorithm="raft++"), MemoryRun()
    with pytest.raises(Interrupted):
        finish(conversations(config, Fatal(careless(None, None)._answer), store=store))
    model = Listening(careless(None, None)._answer)
    assert_same_end(
        finish(conversations(config, careless(None, None))), finish(conversations(config, model, store=reopened(store)))
    )
    assert model.asked == []


def said(*pairs: tuple[tuple[Message, ...], str], counts: int = -1, reason: Any = "stop") -> Conversation:
    """A conversation with these replies; the attempt that counts is one of them."""
    replies = [
        (read, Completion("k", text, reason if place == len(pairs) - 1 else "stop", policy="p"))
        for place, (read, text) in enumerate(pairs)
    ]
    attempt = Answer(PROBLEM, replies[counts][1], (), 0.0, False)
    return Conversation((attempt,), len(replies), said=tuple(replies))


def test_only_what_the_model_wrote_itself_and_was_shown_again_is_trained_on() -> None:
    asked = (user("2 + 2"),)
    drafted = said((asked, "w5"), ((*asked, assistant("w5"), user("check")), "w4"))
    assert [(turn.message.content, turn.trained) for turn in turns_of(drafted)] == [
        *(("2 + 2", False), ("w5", True), ("check", False), ("w4", True)),
    ]
    rewritten = said((asked, "w5"), ((*asked, assistant("five"), user("check")), "w4"))
    assert [turn.author for turn in turns_of(rewritten)] == ["task", "model", "task", "policy"]
    voted = said((asked, "w5"), (asked, "w4"), (asked, "w3"), counts=1)
    assert [(turn.message.content, turn.trained) for turn in turns_of(voted)] == [("2 + 2", False), ("w4", True)]
    cut_off = said((asked, "w5"), ((*asked, assistant("w5"), user("check")), ""), reason="context")
    assert [(turn.message.content, turn.trained) for turn in turns_of(cut_off)] == [("2 + 2", False), ("w5", True)]
    nothing = said((asked, ""), reason="context")
    assert turns_of(nothing) == ()
    assert not Rollout(nothing.last, 0.0, shown=False, turns=()).learnable


def test_the_trace_of_a_rollout_has_its_key_and_reward() -> None:
    asked = (user("2 + 2"),)
    conversation = said((asked, "w5"), ((*asked, assistant("w5"), user("check")), "w4"))
    answer = evolve(conversation.last, completion=evolve(conversation.last.completion, key="1/x/0"), reward=0.5)
    trace = trace_of_rollout(Rollout(answer, 0.5, shown=False, turns=turns_of(conversation)), 1)
    assert (trace.key, trace.reward, trace.iteration, len(trace.turns)) == ("1/x/0", 0.5, 1, 4)
