"""What servers really say when they do not answer, and what is made of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processor_time import within

from gce.adapters.models.servers.faults import fault_of, what_is_told
from gce.adapters.models.servers.json_bodies import body_of
from gce.adapters.models.servers.redaction import Redaction

NOTHING = Redaction("")

NO_ROOM = {
    "OpenAI": (
        400,
        "This model's maximum context length is 4097 tokens. However, your messages resulted in 5210 tokens. "
        "Please reduce the length of the messages.",
    ),
    "OpenAI, with what is to be written": (
        400,
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the messages, "
        "8000 in the completion). Please reduce the length of the messages or completion.",
    ),
    "OpenAI, responses": (
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    "OpenAI, the limit of the answer": (
        400,
        "max_tokens is too large: 5000. This model's maximum context length is 4096 tokens",
    ),
    "vLLM": (
        400,
        "This model's maximum context length is 2048 tokens. However, you requested 2600 tokens in the messages, "
        "Please reduce the length of the messages.",
    ),
    "vLLM, decoder": (
        400,
        "The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
    ),
    "vLLM, max_tokens": (
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 2048 "
        "tokens and your request has 100 input tokens (5000 > 2048 - 100).",
    ),
    "llama.cpp": (400, "the request exceeds the available context size, try increasing it"),
    "llama.cpp, counted": (
        400,
        "request (9210 tokens) exceeds the available context size (4096 tokens), try increasing it",
    ),
    "llama.cpp, as it writes": (500, "Context size has been exceeded."),
    "llama-cpp-python": (500, "Requested tokens (5210) exceed context window of 4096"),
    "Ollama": (400, "the input length exceeds the context length"),
    "Ollama, newer": (400, "input length exceeds maximum context length"),
    "TGI": (
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and "
        "100 `max_new_tokens`",
    ),
    "TGI, the prompt alone": (
        422,
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 2048",
    ),
    "LM Studio": (
        400,
        "Trying to keep the first 5210 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or "
        "provide a shorter input",
    ),
    "SGLang": (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
    "SGLang, requested": (
        400,
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
        "5000.",
    ),
    "SGLang, allowed": (
        400,
        "Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
    ),
    "Together": (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193."),
    "Groq": (400, "Please reduce the length of the messages or completion."),
    "Anthropic": (400, "prompt is too long: 207310 tokens > 200000 maximum"),
    "Anthropic, with what is to be written": (
        400,
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or "
        "`max_tokens` and try again",
    ),
    "Gemini": (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    "Mistral": (
        400,
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    ),
    "Bedrock": (400, "Input is too long for requested model."),
    "xAI": (
        400,
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
    ),
    "OpenRouter": (
        400,
        "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens.",
    ),
    "a plain one": (413, "prompt is too long"),
    "yours": (400, "Your prompt is far too long"),
}
FAILED = {
    "OpenAI, rate": (
        429,
        "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 10000, Used 9800, Requested "
        "500. Please try again in 1.8s.",
    ),
    "OpenAI, a request above the rate": (
        429,
        "Request too large for gpt-4 in organization org-x on tokens per min (TPM): Limit 30000, Requested 50000. The "
        "input or output tokens must be reduced in order to run successfully.",
    ),
    "OpenAI, quota": (429, "You exceeded your current quota, please check your plan and billing details."),
    "OpenAI, overloaded": (503, "That model is currently overloaded with other requests."),
    "Azure, rate": (
        429,
        "Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current OpenAI S0 "
        "pricing tier. Please retry after 20 seconds.",
    ),
    "Azure, quota": (403, "Out of call volume quota. Quota will be replenished in 2 days."),
    "Groq, a request above the rate": (
        413,
        "Request too large for model `llama` in organization `org` on tokens per minute (TPM): Limit 6000, Requested "
        "8000, please reduce your message size and try again.",
    ),
    "Together, rate": (400, "You have reached the rate limit specific to this model"),
    "Together, credits": (402, "Credit limit exceeded, please navigate to billing"),
    "OpenRouter, credits": (
        402,
        "This request requires more credits, or fewer max_tokens. You requested up to 8000 tokens, but can only afford "
        "600: insufficient credits",
    ),
    "Anthropic, rate": (
        400,
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute",
    ),
    "Anthropic, balance": (400, "Your credit balance is too low to access the API"),
    "Anthropic, overloaded": (529, "Overloaded"),
    "Gemini, quota": (403, "Quota exceeded for quota metric 'Generate Content API requests per minute'"),
    "TGI": (429, "Model is overloaded"),
    "Ollama, queue": (503, "server busy, please try again.  maximum pending requests exceeded"),
    "llama.cpp, loading": (503, "Loading model"),
    "llama.cpp, slots": (400, "no slots are available"),
    "LM Studio, loading": (400, "The model is still loading"),
    "SGLang, queue": (400, "The request queue is full."),
    "a proxy's capacity": (409, "no capacity left on this node"),
    "too large for a quota": (400, "request too large for your quota"),
    "a long queue": (400, "input queue too long"),
    "a long queue of prompts": (413, "prompt queue is too long: 900 waiting"),
    "a message that repeats the context": (
        400,
        "Rate limit: prompts of this context length exceed your quota of the maximum context length per day",
    ),
    "later": (400, "Please try again later"),
    "memory": (500, "CUDA out of memory"),
    "at capacity": (403, "The engine is currently at capacity"),
    "nothing but a status": (502, ""),
    "too many": (429, ""),
}
REFUSED = {
    "a key": (401, "Incorrect API key provided. You exceeded nothing; try again."),
    "a model": (404, "The model `x` does not exist"),
    "a field": (400, "Unrecognized request argument supplied: logprobs"),
    "another field": (422, "n must be 1"),
    "the size of a body": (413, "Request Entity Too Large"),
    "the size of a message of a proxy": (413, "Payload too large"),
    "a context that is no matter of length": (400, "The context of this conversation is not supported"),
    "a length that is no matter of context": (400, "Expected a string with maximum length 64 for user"),
    "an unknown field of the context": (400, "unknown field context_length"),
    "a ban": (403, "Access denied"),
    "a stop string": (400, "stop is too long: at most 4 entries"),
}
BLOCKED = {
    "azure": (
        400,
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please "
        "modify your prompt and retry. To learn more about our content filtering policies please read on",
    ),
    "openrouter": (403, "openai/gpt-5 requires moderation on OpenAI. Your input was flagged for violence"),
    "anthropic": (400, "Output blocked by content filtering policy"),
    "openai": (
        400,
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again",
    ),
    "openai's images": (400, "Your request was rejected as a result of our safety system"),
    "xai": (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"),
}
KNOWN = [
    (expected, server, *said)
    for expected, table in (("no room", NO_ROOM), ("blocked", BLOCKED), ("failed", FAILED), ("refused", REFUSED))
    for server, said in table.items()
]


@pytest.mark.parametrize(("expected", "server", "status", "message"), KNOWN, ids=[f"{e}: {s}" for e, s, *_ in KNOWN])
def test_what_a_server_says_is_understood_in_every_shape_of_an_error(
    expected: str, server: str, status: int, message: str
) -> None:
    shapes = [
        {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}},
        {"object": "error", "message": message, "code": status},
        {"error": message},
        {"detail": message},
        {
            "detail": [
                {"loc": ["body"], "msg": message, "input": {"messages": "the queue is full, the prompt is too long"}}
            ]
        },
    ]
    contents = [json.dumps(shape).encode() for shape in shapes]
    for content in [*contents, message.encode()]:
        body = body_of(content, NOTHING)
        assert fault_of(status, body) == expected, what_is_told(body)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"code": "context_length_exceeded", "message": "no"}, "no room"),
        (400, {"type": "exceed_context_size_error", "message": "no"}, "no room"),
        (413, {"code": "rate_limit_exceeded", "message": "Request too large, prompt is too long"}, "failed"),
        (400, {"type": "rate_limit_error", "message": "no"}, "failed"),
        (402, {"code": "insufficient_quota", "message": "no"}, "failed"),
        (400, {"type": "overloaded_error", "message": "no"}, "failed"),
        (400, {"type": "invalid_request_error", "code": "invalid_api_key", "message": "no"}, "refused"),
        (400, {"code": "content_filter", "message": "no"}, "blocked"),
        (400, {"code": "invalid_prompt", "message": "no"}, "blocked"),
        (429, {"code": "content_filter", "message": "no"}, "failed"),
        (400, {"code": 17, "type": None, "message": "no"}, "refused"),
    ],
)
def test_the_code_of_an_error_counts_as_its_words_do(status: int, error: dict[str, Any], expected: str) -> None:
    assert fault_of(status, {"error": error}) == expected


@pytest.mark.parametrize("status", [403, 404, 409, 429, 503])
def test_only_statuses_that_refuse_a_request_are_about_its_length(status: int) -> None:
    assert fault_of(status, {"error": "This model's maximum context length is 4 tokens"}) != "no room"


@pytest.mark.slow
@given(st.integers(300, 599), st.recursive(st.none() | st.text() | st.floats() | st.booleans(), st.lists) | st.binary())
def test_any_answer_means_one_of_the_four(status: int, said: Any) -> None:
    content = said if isinstance(said, bytes) else json.dumps({"error": said}).encode()
    body = body_of(content, NOTHING)
    assert fault_of(status, body) in ("no room", "blocked", "failed", "refused")
    assert what_is_told(body).isprintable()


@pytest.mark.parametrize(
    "unit",
    [
        "content ",
        "prompt is ",
        "blocked a ",
        "request violates ",
        "context ",
        "exceed ",
        "prompt ",
        "inputs exceeds ",
        "capacity a b ",
        "try ",
        "a",
        "slots ",
    ],
)
def test_a_long_message_takes_no_longer_than_a_short_one(unit: str) -> None:
    body = {"error": (unit * 200_000)[:1_000_000]}
    with within(2.0):
        fault_of(400, body)
