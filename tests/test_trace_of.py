"""From a judged answer to the buffer, through the public functions alone."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from present import present

import gce
from gce.app.training.sampling import Rollout
from gce.app.training.updates import trace_of_rollout
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import FinishReason
from gce.domain.learning import Trace, Turn, single_turn, trained_turn
from gce.domain.problems import Message, ToolCall
from gce.domain.traces import trace_digest, trace_of_conversation, trace_of_record, trace_record

TASK = gce.TASKS["scheduling"]
PROBLEM = gce.draw_problem(TASK, "grounded", "T0", "train", 0)
RIGHT = present(TASK.teaching.demonstration(PROBLEM, None))


def test_a_right_answer_goes_from_its_verdict_into_the_buffer() -> None:
    verdict = gce.judge(PROBLEM, RIGHT)
    assert verdict.right
    trace = gce.trace_of(PROBLEM, RIGHT, verdict)
    assert (trace.problem, trace.tier, trace.iteration) == (PROBLEM.key, "T0", 0)
    assert trace.messages == PROBLEM.prompt
    assert (trace.completion.text, trace.completion.key, trace.verdicts) == (RIGHT, trace.key, (verdict,))
    buffer = gce.admit(gce.empty(), [trace, gce.trace_of(PROBLEM, f" {RIGHT}\n\n", verdict)])
    assert list(buffer) == [trace], "the same up to whitespace teaches the same"


def test_it_is_what_the_loop_makes_of_an_answer() -> None:
    completion = gce.Completion("3/key/1", RIGHT, "stop", policy="p", token_ids=(1, 2))
    verdicts = TASK.judge(PROBLEM, completion)
    trace = gce.trace_of(PROBLEM, completion, verdicts, iteration=3)
    assert trace == trace_of_rollout(Rollout(answered_by(TASK, PROBLEM, completion, verdicts), 1.0, shown=False), 3)
    assert (trace.key, trace.iteration, trace.completion) == ("3/key/1", 3, completion)
    assert gce.trace_of(PROBLEM, completion, verdicts, key="mine").key == "mine"
    assert gce.trace_of(PROBLEM, completion, verdicts, key="mine").completion.key == "3/key/1"


@pytest.mark.parametrize(
    ("digest", "text", "found"),
    [
        ("00ff", "Answer: A 0", "f4002ca964aa496d57a5e3e3f44fb3a7"),
        ("00ff", "\tAnswer:\nA  0 ", "f4002ca964aa496d57a5e3e3f44fb3a7"),
        ("00fe", "Answer: A 0", "a59d00744eca07b7b1b7867eb860e344"),
        ("00ff", "", "ac3add06771f7ac0c070ec31a8ebc9ea"),
        ("00ff", "\ud800", "9fc80a51739816e520e2dd198015a2e3"),
    ],
)
def test_digests_are_those_of_stored_runs(digest: str, text: str, found: str) -> None:
    assert trace_digest(evolve(PROBLEM, digest=digest), text) == found


@given(st.text(st.characters(codec=None)))
def test_any_text_has_a_trace_and_only_its_words_count(text: str) -> None:
    words = " ".join(text.split())
    expected = blake2b(f"{PROBLEM.digest}\n{words}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    trace = gce.trace_of(PROBLEM, text, gce.judge(PROBLEM, text))
    assert trace.content_digest == expected
    assert trace.key == f"{PROBLEM.key}/{expected}"


# Conversations


def completion(
    key: str, text: str, *, prompt: Any = None, tokens: Any = None, finish: FinishReason = "stop"
) -> gce.Completion:
    return gce.Completion(key, text, finish, policy="p", prompt_token_ids=prompt, token_ids=tokens)


DRAFT = completion("r/0", "A after B?", prompt=(1, 2), tokens=(3, 4))
WRONG = completion("r/1", "Answer: A 9", prompt=(1, 2, 3, 4, 5), tokens=(6,))
LAST = completion("r/2", RIGHT, prompt=(1, 2, 3, 4, 5, 6, 7, 8), tokens=(9, 10))
FEEDBACK = Message("user", "A is late.")


def answer(said: gce.Completion) -> Answer:
    return answered_by(TASK, PROBLEM, said, TASK.judge(PROBLEM, said))


CONVERSATION: tuple[Message | gce.Completion | Answer, ...] = (
    *PROBLEM.prompt,
    DRAFT,
    Message("user", "Go on."),
    answer(WRONG),
    FEEDBACK,
    answer(LAST),
)


def test_all_that_the_model_wrote_in_a_conversation_is_trained_on_and_nothing_else() -> None:
    trace = trace_of_conversation(CONVERSATION, iteration=2, reward=0.5)
    assert [turn.message.content for turn in trace.turns if turn.trained] == [DRAFT.text, WRONG.text, LAST.text]
    assert [turn.author for turn in trace.turns] == ["task", "policy", "task", "policy", "task", "policy"]
    assert [turn.completion for turn in trace.turns if turn.trained] == [DRAFT, WRONG, LAST]
    assert (trace.key, trace.problem, trace.tier, trace.iteration) == ("r/2", PROBLEM.key, "T0", 2)
    assert (trace.verdicts, trace.reward, trace.completion) == (answer(LAST).verdicts, 0.5, LAST)
    assert trace.messages == tuple(turn.message for turn in trace.turns[:-1])


def test_a_conversation_of_one_answer_is_the_trace_of_that_answer() -> None:
    found = trace_of_conversation((*PROBLEM.prompt, answer(LAST)))
    assert found == gce.trace_of(PROBLEM, LAST, answer(LAST).verdicts, reward=1.0)


def test_authors_are_told_from_roles_unless_a_turn_says() -> None:
    said: tuple[Message | Answer | Turn, ...] = (
        *PROBLEM.prompt,
        Message("assistant", "I am another model."),
        Turn("user", Message("user", "I am simulated.")),
        Message("tool", "42", tool_call_id="c"),
        answer(LAST),
    )
    trace = trace_of_conversation(said)
    assert [turn.author for turn in trace.turns] == ["task", "model", "user", "tool", "policy"]
    assert [turn.trained for turn in trace.turns] == [False] * 4 + [True]


def test_what_could_not_be_written_is_no_turn() -> None:
    full = completion("r/3", "", finish="context")
    trace = trace_of_conversation((*PROBLEM.prompt, answer(WRONG), FEEDBACK, answer(full)))
    assert [turn.completion for turn in trace.turns if turn.trained] == [WRONG]
    with pytest.raises(ValueError, match="expected a conversation with a judged answer, got none"):
        trace_of_conversation((*PROBLEM.prompt, DRAFT))
    with pytest.raises(ValueError, match="expected a turn to train on, got none"):
        trace_of_conversation((*PROBLEM.prompt, answer(full)))


def test_trace_of_takes_the_turns_of_a_conversation() -> None:
    turns = (*single_turn(PROBLEM.prompt, WRONG), Turn("task", FEEDBACK), trained_turn(LAST))
    trace = gce.trace_of(PROBLEM, turns, answer(LAST).verdicts, reward=1.0)
    assert trace == trace_of_conversation((*PROBLEM.prompt, answer(WRONG), FEEDBACK, answer(LAST)))


def test_the_digest_of_a_conversation_is_of_all_its_trained_turns() -> None:
    def digest(*texts: str) -> str:
        said = [each for text in texts for each in (FEEDBACK, answer(completion("k", text)))]
        return trace_of_conversation((*PROBLEM.prompt, *said)).content_digest

    assert digest("a b", "c") == digest(" a\n b", "c ") == trace_digest(PROBLEM, "a b", "c")
    assert len({digest("a", "b c"), digest("a b", "c"), digest("a b c"), digest("b", "c"), digest("c", "b")}) == 5


def test_calls_of_tools_are_part_of_what_is_learned() -> None:
    calls = [Message("assistant", "", (ToolCall("1", "run", text),)) for text in ('{"x": 1}', '{"x": 2}')]
    traces = [gce.trace_of(PROBLEM, [Turn("policy", call, DRAFT, trained=True)], ()) for call in calls]
    assert traces[0].content_digest != traces[1].content_digest


def test_a_stored_conversation_holds_each_token_once_and_reads_back() -> None:
    trace = trace_of_conversation(CONVERSATION, tools=[{"type": "function", "function": {"name": "run"}}])
    record = trace_record(trace)
    written = [turn for turn in record["turns"] if "completion" in turn]
    assert [turn["completion"]["prompt_token_ids"] for turn in written] == [[1, 2], [5], [7, 8]]
    assert not any("message" in turn for turn in written), "the completion's text says it"
    assert trace_of_record(record) == trace


def test_a_prompt_that_was_rewritten_is_stored_whole() -> None:
    other = evolve(LAST, prompt_token_ids=(1, 2, 7, 8))
    trace = trace_of_conversation((*PROBLEM.prompt, answer(WRONG), FEEDBACK, answer(other)))
    assert trace_record(trace)["turns"][-1]["completion"]["prompt_token_ids"] == [1, 2, 7, 8]
    assert trace_of_record(trace_record(trace)) == trace


IDS = st.lists(st.integers(0, 2), max_size=3).map(tuple)
TURNS = st.one_of(
    st.builds(
        trained_turn, st.builds(completion, st.just("k"), st.text(), prompt=st.none() | IDS, tokens=st.none() | IDS)
    ),
    st.builds(Turn, st.sampled_from(["user", "model"]), st.just(FEEDBACK) | st.just(Message("assistant", "x"))),
    st.builds(lambda said: Turn("policy", Message("assistant", "other words"), said, trained=True), st.just(LAST)),
)


@given(st.lists(TURNS, max_size=6))
def test_any_conversation_reads_back_from_its_record(turns: list[Any]) -> None:
    trace = Trace("k", "p", "T0", 0, (*turns, trained_turn(WRONG)), (), "d")
    assert trace_of_record(trace_record(trace)) == trace


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Turn("policy", FEEDBACK, DRAFT, trained=True), "expected an assistant's turn with a completion"),
        (lambda: Turn("policy", Message("assistant", "x"), trained=True), "expected an assistant's turn with a comple"),
        (
            lambda: Turn("policy", Message("assistant", "x"), DRAFT, weights=(1.0,)),
            "weight for each of 2 tokens, got 1",
        ),
        (lambda: Turn("policy", Message("assistant", "x"), DRAFT, weights=(1.0, float("nan"))), "a finite weight"),
        (lambda: Turn("nobody", FEEDBACK), "'author' must be in"),  # type: ignore[arg-type]  # refused
        (lambda: Message("user", "x", (ToolCall("1", "f", "{}"),)), "tool calls of the assistant alone"),
        (lambda: Message("user", "x", tool_call_id="1"), "tool_call_id of a tool alone"),
        (lambda: Trace("k", "p", "T0", 0, (Turn("task", FEEDBACK),), (), "d"), "expected a turn to train on, got none"),
        (lambda: Trace("k", "p", "T0", 0, (trained_turn(DRAFT),), (), "d", reward=1.5), "'reward' must be <= 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
