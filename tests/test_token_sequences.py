"""Which tokens of a conversation are trained, by hand: those that its policy wrote in trained turns, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from gce.adapters.models.local.token_sequences import Example, batch_arrays, examples_of, template_messages
from gce.domain.completions import Completion, FinishReason
from gce.domain.learning import Trace, Turn, trained_turn
from gce.domain.problems import Message, ToolCall

END = "."


class Letters:
    """A token is a letter: `u:` and `a:` before a message, a full stop behind it; tools first, then what is said.

    With `forgetful`, what an assistant thought, all up to `!`, is not shown again.
    """

    def __init__(self, *, forgetful: bool = False) -> None:
        self.forgetful = forgetful

    def text(self, messages: Any, tools: Any = ()) -> str:
        said = "".join(f"[{tool['name']}]" for tool in tools)
        for message in messages:
            content = message.content.rpartition("!")[2] if self.forgetful else message.content
            calls = "".join(f"<{call.name}>" for call in message.tool_calls)
            said += f"{message.role[0]}:{content}{calls}{END}"
        return said

    def prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        return ids(self.text(messages, tools) + "a:")

    def turn_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        return ids(self.text(messages, tools))[len(self.prompt_tokens(messages[:-1], tools)) :]

    def text_tokens(self, text: str, *, end: bool) -> tuple[int, ...]:
        return ids(text + END * end)


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def letters(tokens: Any) -> str:
    return "".join(map(chr, tokens))


def user(text: str) -> Turn:
    return Turn("user", Message("user", text))


def wrote(
    text: str, *, prompt: str | None = None, tokens: str | None = None, finish: FinishReason = "stop", logs: Any = None
) -> Turn:
    """What the policy wrote: with `tokens`, as it was sampled."""
    return trained_turn(
        Completion(
            "k",
            text,
            finish,
            policy="p",
            prompt_token_ids=None if prompt is None else ids(prompt),
            token_ids=None if tokens is None else ids(tokens),
            log_probabilities=logs,
        )
    )


def trace(*turns: Turn, tools: Any = ()) -> Trace:
    return Trace("k", "p", "T0", 0, turns, (), "d", tools=tools)


def examples(*turns: Turn, weight: float = 1.0, clip: bool = False, tools: Any = (), **tokenizer: Any) -> list[Example]:
    return examples_of(trace(*turns, tools=tools), weight, Letters(**tokenizer), clip=clip)


def marked(example: Example) -> str:
    """The sequence with its trained tokens in capitals or, of a full stop, as `|`."""
    places = set((example.start + example.offsets).tolist())
    shown = [chr(token) for token in example.tokens]
    return "".join((c.upper() if c != END else "|") if place in places else c for place, c in enumerate(shown))


def test_one_turn_is_trained_from_its_first_token_to_its_end() -> None:
    (found,) = examples(user("hi"), wrote("yes"), weight=0.5)
    assert marked(found) == "u:hi.a:YES|"
    assert (found.start, found.trained, found.factors) == (8 - 1, 4, ())
    assert found.weights.tolist() == [0.5] * 4


def test_turns_that_go_on_from_each_other_share_a_sequence() -> None:
    """User, feedback and template tokens, and those of another model, are read and never trained."""
    other = Turn("model", Message("assistant", "me too"))
    (found,) = examples(user("hi"), wrote("yes"), user("why"), other, user("and"), wrote("so"))
    assert marked(found) == "u:hi.a:YES|u:why.a:me too.u:and.a:SO|"
    assert found.trained == 4 + 3


def test_recorded_ids_win_over_the_text() -> None:
    """The prompt that was read, and tokens whose text would be written otherwise."""
    (found,) = examples(user("hi"), wrote("yes", prompt="<<", tokens="yEs."))
    assert letters(found.tokens) == "<<yEs."
    assert found.trained == 4


def test_a_text_goes_on_where_the_prompt_opened_a_thought() -> None:
    """A demonstration without a thought ends it first, so that no answer is learned as a thought."""

    class Opens(Letters):
        def opening_of(self, _messages: Any, _tools: Any = ()) -> str:
            return "<think>"

    for text, written in (("<think>so</think>5", "so</think>5"), ("5", "\n</think>\n\n5")):
        (found,) = examples_of(trace(user("hi"), wrote(text)), 1.0, Opens(), clip=False)
        assert letters(found.tokens[found.start :]) == written + END


def test_a_turn_that_was_cut_off_has_no_end_to_train() -> None:
    """The template closes it for the next turn to be read; that full stop nobody wrote."""
    (found,) = examples(user("hi"), wrote("ye", tokens="ye", finish="length"), user("go"), wrote("s"))
    assert marked(found) == "u:hi.a:YE.u:go.a:S|"


def test_a_template_that_drops_earlier_reasoning_makes_a_sequence_of_each_turn() -> None:
    """Each is learned after what its policy read: the second without the reasoning of the first."""
    turns = (user("hi"), wrote("hmm!yes"), user("why"), wrote("let!so"))
    assert [marked(each) for each in examples(*turns, forgetful=True)] == [
        "u:hi.a:HMM!YES|",
        "u:hi.a:yes.u:why.a:LET!SO|",
    ]
    assert [marked(each) for each in examples(*turns)] == ["u:hi.a:HMM!YES|u:why.a:LET!SO|"]


def test_only_turns_that_do_not_go_on_begin_anew() -> None:
    """The third goes on from the second, whose reasoning is shown as long as no user speaks."""
    first, second, third = "u:hi.a:", "u:hi.a:yes.u:why.a:", "u:hi.a:yes.u:why.a:let!so.t:ok.a:"
    found = examples(
        user("hi"),
        wrote("hmm!yes", prompt=first, tokens="hmm!yes."),
        user("why"),
        wrote("let!so", prompt=second, tokens="let!so."),
        Turn("tool", Message("tool", "ok")),
        wrote("end", prompt=third, tokens="end."),
    )
    assert [marked(each) for each in found] == ["u:hi.a:HMM!YES|", "u:hi.a:yes.u:why.a:LET!SO|t:ok.a:END|"]


def test_tokens_that_are_not_those_of_their_text_begin_a_sequence_anew() -> None:
    """Sampled as `y`, `e`, `S`: the second turn read what the template made of the text."""
    found = examples(user("hi"), wrote("yes", prompt="u:hi.a:", tokens="yeS."), user("why"), wrote("so"))
    assert [letters(each.tokens) for each in found] == ["u:hi.a:yeS.", "u:hi.a:yes.u:why.a:so."]
    assert [each.trained for each in found] == [4, 3]


def test_a_turn_of_ones_own_that_is_not_trained_is_read() -> None:
    kept = evolve(wrote("yes", tokens="yes."), trained=False)
    assert [marked(each) for each in examples(user("hi"), kept, user("why"), wrote("so"))] == ["u:hi.a:yes.u:why.a:SO|"]


def test_weights_of_tokens_multiply_the_traces_and_zero_masks() -> None:
    first = evolve(wrote("abc", prompt="u:hi.a:", tokens="abc."), weights=(1.0, 0.0, 0.5, 2.0))
    (found,) = examples(user("hi"), first, user("why"), wrote("so"), weight=-2.0)
    assert marked(found) == "u:hi.a:AbC|u:why.a:SO|"
    assert found.weights.tolist() == [-2.0, -1.0, -4.0, -2.0, -2.0, -2.0]
    (alone,) = examples(user("hi"), first, weight=-2.0)
    assert alone.weights.tolist() == [-2.0, -1.0, -4.0]


def test_what_was_sampled_lines_up_with_the_trained_tokens() -> None:
    turns = (
        user("hi"),
        wrote("ab", prompt="u:hi.a:", tokens="ab.", logs=(-1.0, -2.0, -3.0)),
        user("x"),
        wrote("c", prompt="u:hi.a:ab.u:x.a:", tokens="c.", logs=(-4.0, -5.0)),
    )
    (found,) = examples(*turns, clip=True)
    assert found.at_trained(found.sampled).tolist() == [-1.0, -2.0, -3.0, -4.0, -5.0]
    assert examples(*turns) == [found], "they are kept without clipping, too"
    (found,) = examples(*turns[:-1], wrote("c", prompt="u:hi.a:ab.u:x.a:", tokens="c."))
    np.testing.assert_equal(found.at_trained(found.sampled), [-1.0, -2.0, -3.0, np.nan, np.nan])


def test_what_was_sampled_of_tokens_that_are_not_recorded_is_not_used() -> None:
    """The text may have other tokens."""
    (found,) = examples(user("hi"), wrote("ab", prompt="u:hi.a:", logs=(-1.0,)))
    assert found.trained == 3 and np.isnan(found.at_trained(found.sampled)).all()


def test_clipping_needs_all_that_was_sampled_of_every_trained_turn() -> None:
    with pytest.raises(ValueError, match="clip needs log-probabilities of sampled tokens, and k has none"):
        examples(user("hi"), wrote("ab", prompt="u:hi.a:", tokens="ab."), clip=True)


def test_a_call_whose_tokens_are_not_recorded_is_written_by_the_template() -> None:
    call = Turn(
        "policy", Message("assistant", "", (ToolCall("1", "add", "{}"),)), Completion("k", "", "stop", ""), trained=True
    )
    result = Turn("tool", Message("tool", "42", tool_call_id="1"))
    tools = ({"name": "add"},)
    (found,) = examples(user("hi"), call, result, wrote("so"), tools=tools)
    assert marked(found) == "[add]u:hi.a:<ADD>|t:42.a:SO|"


def test_templates_get_arguments_as_objects_and_results_with_their_functions_name() -> None:
    messages = (
        Message("user", "hi"),
        Message("assistant", "", (ToolCall("1", "add", '{"x": 1}'), ToolCall("2", "run", "not JSON"))),
        Message("tool", "42", tool_call_id="1"),
        Message("tool", "43", tool_call_id="elsewhere"),
    )
    assert template_messages(messages) == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"type": "function", "id": "1", "function": {"name": "add", "arguments": {"x": 1}}},
                {"type": "function", "id": "2", "function": {"name": "run", "arguments": "not JSON"}},
            ],
        },
        {"role": "tool", "content": "42", "tool_call_id": "1", "name": "add"},
        {"role": "tool", "content": "43", "tool_call_id": "elsewhere"},
    ]
    deep = "[" * 10**5
    assert template_messages([Message("assistant", "", (ToolCall("1", "f", deep),))])[0]["tool_calls"]


def test_arrays_of_a_batch_hold_the_trained_tokens_alone() -> None:
    """Two sequences, the first with a token in the middle that is not trained."""
    chunk = [
        Example((5, 6, 7, 8, 9), 2, 2.0, sampled=(-1.0, 9.9, -3.0), factors=(1.0, 0.0, 0.5)),
        Example((1, 2), 1, 3.0),
    ]
    inputs, places, targets, weights, sampled, base, scales, members = batch_arrays(chunk)
    assert inputs.shape == (2, 32)
    assert places.tolist() == [1, 3, 32]
    assert targets.tolist() == [7, 9, 2]
    assert weights.tolist() == [2.0, 1.0, 3.0]
    np.testing.assert_equal(sampled, np.array([-1.0, -3.0, np.nan], np.float32))
    assert np.isnan(base).all()
    assert scales.tolist() == [1.0, 1.0, 1.0]
    assert members.tolist() == [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
