"""Every backend writes the prompt that transformers writes, and a template that cannot be used is refused by name."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("jinja2")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from gce.adapters.models.local.chat_format import chat_format  # noqa: E402
from gce.adapters.models.local.chat_template import ChatTemplate, TemplateSettings  # noqa: E402
from gce.adapters.models.requests import reply_after  # noqa: E402
from gce.domain.problems import Message, ToolCall  # noqa: E402
from gce.errors import ModelError  # noqa: E402

FOLDER = Path(__file__).parent / "chat_templates"
SOURCES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.jinja"))}
NO_SYSTEM = {"gemma", "mistral"}
"""Templates that raise for a system message."""
ENDS = {
    **dict.fromkeys(("llama3", "llama3_1", "llama3_2"), "<|eot_id|>"),
    **dict.fromkeys(("qwen2_5", "qwen3", "qwen3_5_think", "lfm2", "smollm2"), "<|im_end|>"),
    **dict.fromkeys(("gemma", "gemma3"), "<end_of_turn>"),
    **dict.fromkeys(("cohere", "cohere2"), "<|END_OF_TURN_TOKEN|>"),
    **dict.fromkeys(("deepseek_r1_distill", "deepseekv3"), "<｜end▁of▁sentence｜>"),
    **{"phi3": "<|end|>", "gptoss": "<|return|>", "zephyr": "</s>", "mistral": "</s>"},
}
"""The token with which a model ends its turns."""
SPECIAL = sorted(
    {*ENDS.values(), "<s>", "<|im_start|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "<|user|>"}
    | {"<|assistant|>", "<|start|>", "<|message|>", "<|channel|>", "<|endoftext|>", "<think>", "</think>"}
)
EOS = {"deepseek_r1_distill": "<｜end▁of▁sentence｜>", "deepseekv3": "<｜end▁of▁sentence｜>"}
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "crane_is_free",
            "description": 'Whether a crane is <free> & "ready" at a time.',
            "parameters": {
                "type": "object",
                "properties": {"time": {"type": "integer", "description": "Minutes, ≥ 0"}},
                "required": ["time"],
            },
        },
    },
)
QUESTION = (Message("user", "Which cranes are free?"),)
TURNS = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}</s>{% endfor %}"
PROMPT = "{% if add_generation_prompt %}<|assistant|>{% endif %}"


def tokenizer_of(name: str = "", source: str | dict[str, str] | None = None) -> Any:
    """A tokenizer of bytes with special tokens of several models."""
    letters = {text: i for i, text in enumerate(tokenizers.pre_tokenizers.ByteLevel.alphabet())}
    base = tokenizers.Tokenizer(tokenizers.models.BPE(letters, []))
    base.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    base.decoder = tokenizers.decoders.ByteLevel()
    base.add_special_tokens(SPECIAL)
    found = transformers.PreTrainedTokenizerFast(
        tokenizer_object=base, bos_token="<s>", eos_token=EOS.get(name, "</s>"), clean_up_tokenization_spaces=False
    )
    found.chat_template = SOURCES.get(name, source)
    return found


@pytest.fixture(scope="module")
def by_name() -> dict[str, Any]:
    return {name: tokenizer_of(name) for name in SOURCES}


def template_of(tokenizer: Any, **more: Any) -> ChatTemplate:
    return chat_format("tiny", tokenizer, TemplateSettings(**more), ends=(), rows=None).template


def plain(messages: Any, *, parts: bool = False) -> list[dict[str, Any]]:
    return [
        {"role": each.role, "content": [{"type": "text", "text": each.content}] if parts else each.content}
        for each in messages
    ]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "<think>\nno\n</think>\n\nyes",
        "{{ bos_token }} {% if %}",
        "<|im_end|>",
        " a\n",
        "<tool_response>1</tool_response>",
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    roles = ["user", "assistant"] * draw(st.integers(0, 2)) + ["user"]
    return [Message(role, draw(texts)) for role in [*["system"] * draw(st.booleans()), *roles]]  # type: ignore[arg-type]


def test_there_are_at_least_fifteen_templates() -> None:
    assert len(SOURCES) >= 15


@pytest.mark.filterwarnings("ignore:the chat template of:RuntimeWarning")
@pytest.mark.parametrize("name", SOURCES)
def test_prompts_are_those_of_transformers_byte_for_byte(by_name: dict[str, Any], name: str) -> None:
    tokenizer = by_name[name]

    @settings(max_examples=25, deadline=None)
    @given(conversations(), st.booleans(), st.sampled_from([{}, {"enable_thinking": True}, {"enable_thinking": False}]))
    def check(messages: list[Message], tools: bool, arguments: dict[str, Any]) -> None:
        template = template_of(tokenizer, arguments=arguments)
        asked = list(messages)
        if name in NO_SYSTEM and asked[0].role == "system":
            asked[:2] = [Message("user", f"{asked[0].content}\n\n{asked[1].content}")]
        theirs = plain(asked, parts=name == "smolvlm")
        for prompt in (True, False):
            expected = tokenizer.apply_chat_template(
                theirs, tools=list(TOOLS) if tools else None, tokenize=False, add_generation_prompt=prompt, **arguments
            )
            assert template.render(messages, TOOLS if tools else (), add_generation_prompt=prompt) == expected

    check()


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "llama3_1", "llama3_2", "cohere2", "glm4moe", "qwen3_5_think"])
def test_calls_of_tools_are_written_as_transformers_writes_them(by_name: dict[str, Any], name: str) -> None:
    call = ToolCall("abcdefgh1", "crane_is_free", '{"time": 3, "name": "<é>"}')
    messages = [*QUESTION, Message("assistant", "", (call,)), Message("tool", '{"free": true}', tool_call_id=call.id)]
    function = {"name": call.name, "arguments": json.loads(call.arguments)}
    theirs = [
        *plain(QUESTION),
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": call.id, "function": function}]},
        {"role": "tool", "content": '{"free": true}', "tool_call_id": call.id, "name": call.name},
    ]
    expected = by_name[name].apply_chat_template(theirs, tools=list(TOOLS), tokenize=False, add_generation_prompt=True)
    assert template_of(by_name[name]).render(messages, TOOLS, add_generation_prompt=True) == expected


@pytest.mark.filterwarnings("ignore:the chat template of:RuntimeWarning")
@pytest.mark.parametrize("name", ENDS)
def test_a_turn_ends_with_the_token_of_the_template_and_with_the_eos(by_name: dict[str, Any], name: str) -> None:
    tokenizer = by_name[name]
    chat = chat_format("tiny", tokenizer, None, ends=[], rows=None)
    assert tokenizer.convert_ids_to_tokens(chat.end) == ENDS[name]
    assert {chat.end, tokenizer.eos_token_id} <= chat.stop


def test_a_message_of_reasoning_in_the_harmony_format_does_not_end_the_turn(by_name: dict[str, Any]) -> None:
    tokenizer = by_name["gptoss"]
    chat = chat_format("tiny", tokenizer, None, ends=[], rows=None)
    assert tokenizer.convert_tokens_to_ids("<|end|>") not in chat.stop


def test_a_token_that_begins_the_next_turn_is_no_end_of_turn() -> None:
    tokenizer = tokenizer_of(source="{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}<|user|>")
    chat = chat_format("tiny", tokenizer, None, ends=[], rows=None)
    assert chat.end == tokenizer.eos_token_id


# Templates that cannot be used as they are


def refused(source: Any, **more: Any) -> str:
    with pytest.raises(ModelError) as caught:
        template_of(tokenizer_of(source=source), **more)
    assert "\n" not in str(caught.value) and "'tiny'" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% for m in messages %}{{ m.content ", "has an error in line 1: unexpected end of template"),
        ("\n{{ messages | nonsense }}", "has an error in line 2: No filter named 'nonsense'"),
        ("{{ raise_exception('no users\nhere') }}", "raises 'no users here' for a user's message"),
        ("{{ nothing.attribute }}", "raises \"'nothing' is undefined\" for a user's message"),
        ("{{ messages[0]['role'] }}", "loses a user's message"),
        (
            "{% for m in messages %}{% for p in m['content'] %}{{ p['words'] }}{% endfor %}{% endfor %}",
            "loses a user's",
        ),
        ("{{ ''.__class__.__mro__ }}", "raises"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "loops more than 1,000,000"),
        (None, "expected a model with a chat template, 'tiny' has none"),
        ({"rag": "{{ messages }}"}, "has only some named rag"),
    ],
)
def test_a_template_that_cannot_be_used_is_one_line_with_model_and_reason(source: Any, said: str) -> None:
    assert said in refused(source)


def test_a_refused_system_message_is_put_into_the_first_user_turn_with_one_warning(by_name: dict[str, Any]) -> None:
    template, messages = template_of(by_name["gemma"]), [Message("system", "Be brief."), *QUESTION]
    with pytest.warns(RuntimeWarning, match="'tiny' takes no system message") as caught:
        found = [template.render(messages, add_generation_prompt=True) for _ in range(2)]
    assert len(caught) == 1
    assert found == 2 * [
        "<s><start_of_turn>user\nBe brief.\n\nWhich cranes are free?<end_of_turn>\n<start_of_turn>model\n"
    ]


def test_a_system_message_that_a_template_drops_is_put_into_the_first_user_turn() -> None:
    source = "{% for m in messages if m['role'] != 'system' %}{{ m['content'] }}{% endfor %}"
    with pytest.warns(RuntimeWarning, match="takes no system message"):
        found = template_of(tokenizer_of(source=source)).render(
            [Message("system", "Be brief."), Message("system", "Please."), Message("assistant", "Yes?")],
            add_generation_prompt=True,
        )
    assert found == "Be brief.\n\nPlease.Yes?"


def test_a_conversation_that_a_template_refuses_is_one_line(by_name: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="'tiny' refuses a conversation: Conversation roles must alternate"):
        template_of(by_name["mistral"]).render([*QUESTION, *QUESTION], add_generation_prompt=True)
    with pytest.raises(ModelError, match="surrogates not allowed"):
        template_of(by_name["llama3"]).render([Message("user", "\ud800")], add_generation_prompt=True)


def test_content_that_is_lost_as_text_is_given_as_a_list_of_parts() -> None:
    source = "{% for m in messages %}{% for p in m['content'] %}{{ p['text'] }}{% endfor %}{% endfor %}"
    found = template_of(tokenizer_of(source=source)).render(QUESTION, add_generation_prompt=True)
    assert found == "Which cranes are free?"


def test_a_template_without_a_generation_prompt_is_one_warning() -> None:
    with pytest.warns(RuntimeWarning, match="'tiny' has no generation prompt") as caught:
        template_of(tokenizer_of(source=TURNS))
    assert len(caught) == 1


@pytest.mark.parametrize("source", [TURNS + PROMPT, TURNS + "<|assistant|>", SOURCES["mistral"]])
def test_a_generation_prompt_that_is_always_there_or_not_needed_is_no_warning(source: str) -> None:
    template_of(tokenizer_of(source=source))


# What a user decides


def test_a_clock_stands_still_at_the_day_that_is_given() -> None:
    source = "{{ strftime_now('%d %b %Y %H:%M') }}" + TURNS + PROMPT
    template = template_of(tokenizer_of(source=source), day=date(2024, 7, 26))
    assert template.render(QUESTION, add_generation_prompt=True).startswith("26 Jul 2024 00:00<|user|>")
    assert template.day == "2024-07-26"
    assert template_of(tokenizer_of("llama3")).day == ""


def test_arguments_and_a_file_replace_what_the_model_has(by_name: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text(TURNS + "{{ more }}")
    given = template_of(by_name["llama3"], template=str(file), arguments={"more": "<|assistant|>"})
    assert given.render(QUESTION, add_generation_prompt=True) == "<|user|>Which cranes are free?</s><|assistant|>"
    assert (
        given.digest
        and given.digest != template_of(by_name["llama3"], template=str(file), arguments={"more": "?"}).digest
    )
    assert template_of(by_name["llama3"]).digest == ""


def test_plain_is_messages_and_blank_lines_after_what_begins_a_text() -> None:
    tokenizer = tokenizer_of()
    messages = [Message("system", "Be brief."), *QUESTION]
    assert template_of(tokenizer, template="plain").render(messages, add_generation_prompt=True) == (
        "Be brief.\n\nWhich cranes are free?"
    )
    tokenizer.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    assert template_of(tokenizer, template="plain").render(messages, add_generation_prompt=True).startswith("<s>Be")


def test_of_several_templates_that_for_tools_is_taken_with_tools() -> None:
    template = template_of(tokenizer_of(source={"default": "d" + TURNS + PROMPT, "tool_use": "t" + TURNS + PROMPT}))
    assert template.render(QUESTION, add_generation_prompt=True).startswith("d")
    assert template.render(QUESTION, TOOLS, add_generation_prompt=True).startswith("t")


# Thoughts that a prompt opens


@pytest.mark.parametrize(
    ("name", "arguments", "opening"),
    [
        ("deepseek_r1_distill", {}, "<think>\n"),
        ("qwen3_5_think", {}, "<think>\n"),
        ("qwen3_5_think", {"enable_thinking": False}, ""),
        ("qwen3", {}, ""),
        ("qwen3", {"enable_thinking": False}, ""),
        ("llama3", {}, ""),
    ],
)
def test_the_opening_is_what_the_prompt_begins_of_a_thought(
    by_name: dict[str, Any], name: str, arguments: dict[str, Any], opening: str
) -> None:
    template = template_of(by_name[name], arguments=arguments)
    for text in ("Which?", "n", "", "What does <think> mean?", "<think>"):
        assert template.opening([Message("user", text)]) == opening


@pytest.mark.parametrize(
    ("opening", "text", "written"),
    [
        ("", "<think>\na</think>b", "<think>\na</think>b"),
        ("<think>\n", "<think>\na</think>b", "a</think>b"),
        ("<think>\n", " <think>a</think>b", "a</think>b"),
        ("<think>\n", "a</think>b", "a</think>b"),
        ("<think>\n", "b", "\n</think>\n\nb"),
    ],
)
def test_a_reply_goes_on_where_the_prompt_ends(opening: str, text: str, written: str) -> None:
    assert reply_after(opening, text) == written


# Tokens


def test_a_token_without_an_embedding_is_named() -> None:
    tokenizer = tokenizer_of("llama3")
    rows = len(tokenizer)
    chat_format("tiny", tokenizer, None, ends=[], rows=rows)
    tokenizer.add_tokens(["<tool>"])
    with pytest.raises(ModelError, match=f"the token '<tool>' \\({rows}\\) of 'tiny' has no embedding"):
        chat_format("tiny", tokenizer, None, ends=[], rows=rows)


def test_an_end_token_that_does_not_exist_is_named() -> None:
    with pytest.raises(ModelError, match="the end token 99999 of 'tiny' is not among the"):
        chat_format("tiny", tokenizer_of("llama3"), None, ends=[99999], rows=None)


@pytest.fixture
def gguf_tokenizer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function from one of transformers' tokenizers to that of llama.cpp, whose library does what it does."""
    import ctypes
    from types import ModuleType, SimpleNamespace

    if "llama_cpp" in sys.modules:
        pytest.skip("llama.cpp itself is tested")
    library: Any = ModuleType("llama_cpp")
    library.__getattr__ = lambda _name: lambda *_given: lambda *_more: None
    library.llama_token = ctypes.c_int32

    def tokenizer_in_a_file(theirs: Any) -> Any:
        def tokenize(
            _vocabulary: Any, data: bytes, _size: int, room: Any, _most: int, begins: bool, _parse: bool
        ) -> int:
            found = theirs.encode(data.decode(), add_special_tokens=begins)
            room[: len(found)] = found
            return len(found)

        def detokenize(_vocabulary: Any, given: Any, _count: int, space: Any, *_more: Any) -> int:
            text = theirs.decode(list(given)).encode()
            if len(text) > len(space.raw):
                return -len(text)
            space.raw = text + bytes(len(space.raw) - len(text))
            return len(text)

        special = set(theirs.all_special_ids) | set(theirs.added_tokens_decoder)
        library.llama_tokenize, library.llama_detokenize = tokenize, detokenize
        library.llama_vocab_bos, library.llama_vocab_eos = lambda _: theirs.bos_token_id, lambda _: theirs.eos_token_id
        library.llama_vocab_pad = lambda _: -1
        library.llama_vocab_is_eog = lambda _, i: i == theirs.eos_token_id
        library.llama_vocab_is_control = lambda _, i: i in special
        library.llama_vocab_n_tokens = lambda _: len(theirs)
        library.llama_vocab_get_text = lambda _, i: theirs.convert_ids_to_tokens(i).encode()
        library.llama_model_chat_template = lambda _, name: None if name else theirs.chat_template.encode()
        from gce.adapters.models.backends.llama_cpp.tokenizer import GgufTokenizer

        return GgufTokenizer(SimpleNamespace(vocabulary=None, tokens=len(theirs), pointer=None))  # type: ignore[arg-type]

    monkeypatch.setitem(sys.modules, "llama_cpp", library)
    yield tokenizer_in_a_file
    for name in [each for each in sys.modules if each.startswith("gce.adapters.models.backends.llama_cpp")]:
        del sys.modules[name]


@pytest.mark.filterwarnings("ignore:the chat template of:RuntimeWarning")
def test_prompts_and_ends_are_the_same_with_the_tokenizer_of_llama_cpp(
    gguf_tokenizer: Any, by_name: dict[str, Any]
) -> None:
    for tokenizer in by_name.values():
        one = chat_format("tiny", tokenizer, None, ends=[], rows=None)
        other = chat_format("tiny", gguf_tokenizer(tokenizer), None, ends=[], rows=None)
        assert (other.end, other.stop) == (one.end, one.stop)
        for tools in ((), TOOLS):
            prompts = [each.template.render(QUESTION, tools, add_generation_prompt=True) for each in (one, other)]
            assert prompts[0] == prompts[1]
            tokens = [each.tokenizer.encode(prompts[0], add_special_tokens=False) for each in (one, other)]
            assert tokens[0] == tokens[1]


@pytest.mark.parametrize("written", ["{{ '<' ~ 'think>' }}", "{% set tag = '<thi' + 'nk>' %}{{ tag }}"])
def test_a_thought_that_a_template_writes_in_pieces_is_opened(written: str) -> None:
    assert template_of(tokenizer_of(source=TURNS + "<|assistant|>" + written)).opening(QUESTION) == "<think>"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% for m in messages %}{{ m.content[:200] }}{% endfor %}", "loses a user's message"),
        (TURNS + "{{ [1, 2] | random }}", "random"),
        (TURNS + "{{ lipsum(1) }}", "lipsum"),
    ],
)
def test_a_template_that_cuts_messages_or_draws_at_random_is_refused(source: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        template_of(tokenizer_of(source=source))
