"""From requests to the bodies of a dialect, and from replies to completions. Independent of how they travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gce.adapters.models.requests import cut_before
from gce.adapters.models.servers.dialect import ENDS, Choice, Reply
from gce.adapters.models.servers.providers import Provider
from gce.domain.completions import Completion, SampleRequest
from gce.domain.spending import Price, Used, cost_of

__all__ = ["body_of_request", "completion_of", "ended_by_the_server", "most_used", "parameters_of", "temperature_note"]

_SEED_BITS = 31
_TOKENS_OF_A_ROLE = 16


def parameters_of(group: Sequence[SampleRequest]) -> dict[str, Any]:
    """Return the parameters of one request for a group that differs in key and seed alone; see `Parameters`."""
    first = group[0]
    found: dict[str, Any] = {
        "temperature": first.temperature,
        "max_tokens": first.max_tokens,
        "seed": first.seed & ((1 << _SEED_BITS) - 1),
    }
    if len(group) > 1:
        found["n"] = len(group)
    if len(group) > 1 or first.temperature == 1:  # They also tell the length of each choice.
        found["logprobs"] = True
    if first.stop:
        found["stop"] = list(first.stop)
    return found


def body_of_request(
    provider: Provider, model: str, request: SampleRequest, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a request with these parameters, by the names that the model has for them."""
    renamed = provider.of(model).renamed
    named = {renamed.get(name, name): value for name, value in parameters.items()}
    return {"model": model, **provider.dialect.conversation(request.messages), **named}


def completion_of(
    request: SampleRequest, choice: Choice, reply: Reply, policy: str, *, at_1: bool = False
) -> Completion:
    """Return the completion that one choice of a reply is.

    `at_1`: the server's log-probabilities are those at temperature 1, whatever the temperature.
    """
    ends = ENDS.get(choice.finish_reason)
    if ends is None:
        error = ended_by_the_server(choice)
        return Completion(request.key, "", "error", policy, prompt_tokens=reply.prompt_tokens, error=error)
    text = cut_before(choice.text, request.stop)
    cut = text != choice.text
    tells_all = not cut and (at_1 or request.temperature == 1) and reply.counted == reply.tokens
    ids, prompt, sampling = choice.token_ids, reply.prompt_token_ids, choice.sampling_log_probabilities
    tells_ids = not cut and ids and prompt and (not tells_all or len(ids) == choice.tokens)
    return Completion(
        key=request.key,
        text=text,
        finish_reason="stop" if cut else ends,
        policy=policy,
        prompt_token_ids=prompt if tells_ids else None,
        token_ids=ids if tells_ids else None,
        log_probabilities=choice.log_probabilities if tells_all else None,
        sampling_log_probabilities=sampling if tells_ids and len(sampling or ()) == len(ids or ()) else None,
        prompt_tokens=reply.prompt_tokens,
        tokens=reply.tokens if len(reply.choices) == 1 else choice.tokens,
        reasoning=choice.reasoning,
    )


def ended_by_the_server(choice: Choice) -> str:
    """Return why a choice has no text of the model's own."""
    return f"the server ended it for the reason {str(choice.finish_reason)[:40]!r}"


def temperature_note(provider: Provider, model: str) -> str:
    """Return what a user may not expect of a model's sampling; empty if there is nothing."""
    if "temperature" not in provider.of(model).refused:
        return ""
    return "takes no temperature: answers are sampled as the provider chooses, not greedily"


def most_used(group: Sequence[SampleRequest], price: Price | None) -> Used:
    """Return the most that one request for a group can use.

    A prompt has at most as many tokens as bytes, and some for each message's role.
    """
    messages = group[0].messages
    read = sum(len(message.content.encode(errors="replace")) + _TOKENS_OF_A_ROLE for message in messages)
    return cost_of(price, read + _TOKENS_OF_A_ROLE, len(group) * group[0].max_tokens)
