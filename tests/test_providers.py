"""Providers by name: what is sent to each, how its answers are read, and that no key leaves the header."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2")

from chat_server import ChatServer
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.models.ledger import Ledger
from gce.adapters.models.servers.anthropic_format import read_message
from gce.adapters.models.servers.dialect import NotAReplyError, Parameters, Reply
from gce.adapters.models.servers.http_model import HttpModel, load_provider_model
from gce.adapters.models.servers.openai_format import read_reply
from gce.adapters.models.servers.providers import PROVIDERS, provider_rows, split_name
from gce.domain.completions import SampleRequest
from gce.domain.problems import Message
from gce.errors import ModelError
from gce.testing.contracts.model import check_model

PROMPTS = [(Message("user", "order the jobs"),), (Message("system", "be brief"), Message("user", "order them"))]
TOO_LONG = (Message("user", "w " * 1001),)
KEY = "sk-secret-0123456789"

MODELS = {
    "openai": "gpt-4.1-mini",
    "anthropic": "claude-haiku-4-5",
    "google": "gemini-2.5-flash",
    "openrouter": "meta-llama/llama-3.3-70b-instruct",
    "together": "meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "fireworks": "gpt-oss-20b",
    "groq": "openai/gpt-oss-20b",
    "mistral": "mistral-small-latest",
    "deepseek": "deepseek-chat",
    "xai": "grok-4-0709",
}


async def no_pause(_seconds: float) -> None:
    """Wait for nothing."""


def model_of(server: ChatServer, name: str, **options: Any) -> HttpModel:
    provider = PROVIDERS[name.partition(":")[0]]
    environment = {provider.key_variable: KEY, provider.url_variable: server.url}
    return load_provider_model(name, environment=environment, **options)


def requests_of(count: int = 1, **options: Any) -> list[SampleRequest]:
    given = {"temperature": 1.0, "max_tokens": 40, **options}
    return [SampleRequest(f"{i}", PROMPTS[i % 2], 50 + i, **given) for i in range(count)]


def test_each_provider_has_a_model_here() -> None:
    assert list(MODELS) == list(PROVIDERS)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_provider_keeps_to_the_port(provider: str) -> None:
    """With models that take a temperature: others have no greedy answers."""
    with ChatServer(key=KEY) as server:
        name = f"{provider}:{MODELS[provider]}"
        check_model(lambda: model_of(server, name), prompts=PROMPTS, too_long=TOO_LONG, max_tokens=12)
        parameters = PROVIDERS[provider].of(MODELS[provider])
        for body in server.bodies:
            assert body["model"] == MODELS[provider]
            assert not body.keys() & parameters.refused
            assert not body.keys() & parameters.renamed.keys()


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("openai:gpt-4.1", {"temperature": 0.5, "max_completion_tokens": 40, "seed": 50, "stop": ["!"]}),
        ("openai:gpt-5", {"max_completion_tokens": 40, "seed": 50}),
        ("openai:gpt-5-chat-latest", {"temperature": 0.5, "max_completion_tokens": 40, "seed": 50, "stop": ["!"]}),
        ("openai:o3-2025-04-16", {"max_completion_tokens": 40, "seed": 50}),
        ("anthropic:claude-sonnet-4-5", {"temperature": 0.5, "max_tokens": 40, "stop_sequences": ["!"]}),
        ("anthropic:claude-sonnet-4-20250514", {"temperature": 0.5, "max_tokens": 40, "stop_sequences": ["!"]}),
        ("anthropic:claude-3-7-sonnet-latest", {"temperature": 0.5, "max_tokens": 40, "stop_sequences": ["!"]}),
        ("anthropic:claude-opus-4-7", {"max_tokens": 40, "stop_sequences": ["!"]}),
        ("anthropic:claude-sonnet-5", {"max_tokens": 40, "stop_sequences": ["!"]}),
        ("mistral:mistral-small", {"temperature": 0.5, "max_tokens": 40, "random_seed": 50, "stop": ["!"]}),
        ("openrouter:anthropic/claude-opus-4.7", {"max_tokens": 40, "seed": 50, "stop": ["!"]}),
        ("openrouter:meta-llama/llama-3-8b", {"temperature": 0.5, "max_tokens": 40, "seed": 50, "stop": ["!"]}),
        ("xai:grok-4-fast-non-reasoning", {"temperature": 0.5, "max_tokens": 40, "seed": 50, "stop": ["!"]}),
        ("xai:grok-4-0709", {"temperature": 0.5, "max_tokens": 40, "seed": 50}),
        ("deepseek:deepseek-chat", {"temperature": 0.5, "max_tokens": 40, "seed": 50, "stop": ["!"]}),
        ("deepseek:deepseek-v4-pro", {"max_tokens": 40, "seed": 50, "stop": ["!"]}),
    ],
)
def test_what_is_sent_of_a_request(name: str, sent: dict[str, Any]) -> None:
    with ChatServer() as server:
        (completion,) = model_of(server, name).sample(requests_of(temperature=0.5, stop=("!",)))
    assert completion.finish_reason in ("stop", "length")
    body = server.bodies[0]
    assert {field: body[field] for field in body if field not in ("model", "messages", "system")} == sent


def test_a_model_that_takes_no_temperature_says_so() -> None:
    with ChatServer() as server:
        info = model_of(server, "openai:gpt-5").info()
        assert "not greedily" in info.note and not info.greedy
        info = model_of(server, "openai:gpt-4o").info()
        assert info.note == "" and info.greedy


def test_a_temperature_that_is_refused_unexpectedly_is_left_out_only_where_it_is_the_default() -> None:
    """An answer at another temperature than the one asked for would be something else."""
    with ChatServer(refuses=["temperature"]) as server:
        model = model_of(server, "openai:gpt-4o")
        assert len(list(model.sample(requests_of(2)))) == 2
        with pytest.raises(ModelError, match="refuses a request of 'gpt-4o': status 400: unknown fields"):
            list(model_of(server, "openai:gpt-4o").sample(requests_of(temperature=0.0)))


def test_system_prompts_stand_apart_in_anthropics_format() -> None:
    messages = (Message("system", "a"), Message("system", "b"), Message("user", "c"), Message("tool", "d"))
    with ChatServer() as server:
        list(model_of(server, "anthropic:claude-haiku-4-5").sample([SampleRequest("k", messages, 0, max_tokens=9)]))
    assert server.bodies[0]["system"] == "a\n\nb"
    assert server.bodies[0]["messages"] == [{"role": "user", "content": "c"}, {"role": "user", "content": "d"}]


def test_an_empty_turn_has_a_placeholder_in_anthropics_format() -> None:
    """It is refused, and a model that said nothing would end every conversation."""
    said = [("system", ""), ("user", "a"), ("assistant", " \n"), ("user", ""), ("assistant", "b"), ("user", "c")]
    messages = tuple(Message(role, content) for role, content in said)  # type: ignore[arg-type]
    with ChatServer() as server:
        list(model_of(server, "anthropic:claude-haiku-4-5").sample([SampleRequest("k", messages, 0, max_tokens=9)]))
    assert [message["content"] for message in server.bodies[0]["messages"]] == ["a", "(no answer)", "(empty)", "b", "c"]
    assert "system" not in server.bodies[0]


def test_thinking_blocks_are_reasoning() -> None:
    with ChatServer(message={"reasoning": "first a", "content": "a, b"}) as server:
        (completion,) = model_of(server, "anthropic:claude-haiku-4-5").sample(requests_of())
    assert (completion.text, completion.reasoning) == ("a, b", "first a")


def reply(**changes: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": None, "output_tokens": 3}
    blocks = [
        {"type": "thinking", "thinking": "hm ", "signature": "x"},
        {"type": "redacted_thinking", "data": "zz"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    return {"type": "message", "content": blocks, "stop_reason": "end_turn", "usage": usage, **changes}


def test_a_message_is_read() -> None:
    found = read_message(reply())
    assert (found.prompt_tokens, found.tokens) == (12, 3)
    assert [(each.text, each.reasoning, each.finish_reason) for each in found.choices] == [("ab", "hm ", "end_turn")]


@pytest.mark.parametrize(
    "usage", [None, 3, {"input_tokens": -1}, {"input_tokens": "5"}, {"cache_read_input_tokens": 5}]
)
def test_a_usage_that_cannot_be_is_none(usage: Any) -> None:
    found = read_message(reply(usage=usage))
    assert found.prompt_tokens is found.tokens is None


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}, 103),
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 41}, 9),
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 3}, 9),
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": "135"}, 9),
        ({"completion_tokens": 9, "total_tokens": 135}, 9),
    ],
)
def test_reasoning_that_only_the_total_counts_is_billed(usage: dict[str, Any], tokens: int) -> None:
    """As xAI and Gemini report it; log-probabilities of the nine visible tokens are not those of all."""
    entries = {"content": [{"token": "a", "logprob": -0.5}] * 9}
    with ChatServer(usage=usage, choice={"logprobs": entries}) as server:
        ledger = Ledger()
        (completion,) = model_of(server, "xai:grok-4-0709", ledger=ledger).sample(requests_of())
    assert (completion.tokens, ledger.used.tokens) == (tokens, tokens)
    assert (completion.log_probabilities is None) == (tokens != 9)


@pytest.mark.parametrize(
    "changes",
    [
        {"content": "a"},
        {"content": ["a"]},
        {"content": [{"type": 3}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 3}]},
        {"content": [{"type": "thinking", "thinking": None}]},
        {"stop_reason": 3},
    ],
)
def test_what_is_no_message_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(NotAReplyError):
        read_message(reply(**changes))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ("content", "stop_reason", "usage", "choices", "message", "type", "text", "thinking", "input_tokens")
REPLIES = VALUES | st.dictionaries(
    st.sampled_from(FIELDS), VALUES | st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES)), max_size=6
)


@pytest.mark.slow
@given(REPLIES)
def test_whatever_a_server_sends_is_a_reply_or_refused(body: Any) -> None:
    for read in (read_message, read_reply):
        with contextlib.suppress(NotAReplyError):
            assert isinstance(read(body), Reply)


@pytest.mark.parametrize("reason", ["refusal", "pause_turn", "tool_use"])
def test_a_message_that_the_provider_ended_is_an_error(reason: str) -> None:
    with ChatServer(choice={"finish_reason": reason}) as server:
        model = model_of(server, "anthropic:claude-haiku-4-5", attempts=1)
        (completion,) = model.sample(requests_of())
    assert (completion.finish_reason, completion.text) == ("error", "")
    assert completion.error == f"the server ended it for the reason {reason!r}"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_key_is_in_its_header_and_nowhere_else(provider: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ChatServer(key="another-key-9876543210") as server:
        model = model_of(server, f"{provider}:{MODELS[provider]}")
        with pytest.raises(ModelError) as caught:
            list(model.sample(requests_of()))
    assert re.search(r"status 401: .*\[key\]", str(caught.value))
    connection = vars(model)["_connection"]
    shown = [*traceback.format_exception(caught.value), repr(vars(model)), repr(vars(connection)), caplog.text]
    assert not [text for text in shown if KEY in text or KEY[:10] in text]
    assert KEY not in json.dumps(server.bodies)


def test_a_provider_without_a_key_is_refused_before_anything_is_asked() -> None:
    said = "model anthropic:claude-sonnet-4 needs an API key: set the environment variable ANTHROPIC_API_KEY"
    with pytest.raises(ModelError, match=f"^{said}$"):
        load_provider_model("anthropic:claude-sonnet-4", environment={"OPENAI_API_KEY": KEY})


def test_a_provider_without_a_model_lists_those_that_it_offers() -> None:
    with ChatServer() as server, pytest.raises(ModelError) as caught:
        model_of(server, "groq:")
    assert str(caught.value) == "expected a model's name after groq:; it offers toy, other"


def test_an_address_of_another_form_is_refused() -> None:
    environment = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": "ftp://a"}
    with pytest.raises(ModelError, match="expected a URL of the form"):
        load_provider_model("groq:x", environment=environment)


@pytest.mark.parametrize("name", ["gpt-5", "nobody:gpt-5", "OpenAI:gpt-5", "openai"])
def test_a_name_without_a_provider_is_none(name: str) -> None:
    assert split_name(name) is None
    with pytest.raises(ModelError, match="expected PROVIDER:MODEL"):
        load_provider_model(name, environment={})


def test_parameters_add_up() -> None:
    one, two = Parameters({"n"}, {"stop": "a", "seed": "b"}), Parameters({"seed"}, {"stop": "c"})
    assert one | two == Parameters({"n", "seed"}, {"stop": "c", "seed": "b"})
    assert one | Parameters() == one == Parameters() | one


def test_the_reference_has_the_table_of_providers() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "backends.md").read_text("utf-8")
    for row in provider_rows():
        assert f"| {' | '.join(row)} |" in page


@pytest.mark.network
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_answers(provider: str) -> None:
    """Costs a fraction of a cent with each key that is set."""
    if not os.environ.get(PROVIDERS[provider].key_variable):
        pytest.skip(f"{PROVIDERS[provider].key_variable} is not set")
    model = load_provider_model(f"{provider}:{MODELS[provider]}")
    (completion,) = model.sample([SampleRequest("k", (Message("user", "What is 2 + 2?"),), 0, 1.0, 2000)])
    assert completion.finish_reason == "stop" and "4" in completion.text
    assert completion.tokens
