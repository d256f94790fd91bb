"""Providers of models by name: where each is, how it is spoken to, and what its models take.

A provider of a known dialect is one entry of `PROVIDERS`; a new dialect is one file beside `openai_format`. Nothing
here connects. What a provider accepts was read in its documentation in November 2026, and changes: a field that a
model refuses although the table does not say so is left out after the first refusal, the temperature excepted.
"""

from __future__ import annotations

import re
from typing import Literal

from attrs import field, frozen

from gce.adapters.models.servers.anthropic_format import ANTHROPIC
from gce.adapters.models.servers.dialect import Dialect, Parameters
from gce.adapters.models.servers.openai_format import OPENAI

__all__ = ["PROVIDERS", "SERVER", "Provider", "Reasoning", "Rule", "key_variables", "provider_rows", "split_name"]

Reasoning = Literal["message field", "thinking blocks", "counted only", "depends on the model"]
"""How a provider reports reasoning: in a field of the message, in blocks of its own, only in the number of tokens."""


@frozen
class Rule:
    """Parameters of some of a provider's models."""

    models: str
    """A regular expression for the beginning of their names."""
    parameters: Parameters


@frozen
class Provider:
    """A service that serves models by name."""

    name: str
    """What stands before the colon of a model's name."""
    url: str
    """Base address, without the dialect's path."""
    key_variable: str
    """Environment variable of the API key."""
    dialect: Dialect = OPENAI
    reasoning: Reasoning = "message field"
    parameters: Parameters = field(factory=Parameters)
    """What all of its models have in common."""
    rules: tuple[Rule, ...] = ()
    """For some of its models; the first that fits is added."""

    @property
    def url_variable(self) -> str:
        """Environment variable of another base address, such as a gateway's."""
        return f"{self.name.upper()}_BASE_URL"

    def of(self, model: str) -> Parameters:
        """Return what a model takes."""
        rule = next((each for each in self.rules if re.match(each.models, model)), None)
        own = Parameters() if rule is None else rule.parameters
        return self.dialect.parameters | self.parameters | own


_NO_TEMPERATURE = Parameters(refused={"temperature"})
_REASONS = Parameters(refused={"temperature", "logprobs"})
_OPENAI_REASONS = r"o[1-9]|gpt-[5-9](?!.*-chat)"
_CLAUDE_ADAPTIVE = r"claude-(?:(?:opus-)?4[.-][7-9]|(?:opus|sonnet|haiku|fable)-(?:[5-9]|\d\d(?!\d)))"
"""Claude models that take no temperature: those after Opus 4.6."""

SERVER = Provider("", "", "OPENAI_API_KEY", reasoning="depends on the model")
"""A server that is given by its URL."""

PROVIDERS: dict[str, Provider] = {
    each.name: each
    for each in (
        Provider(
            "openai",
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            reasoning="counted only",
            parameters=Parameters(renamed={"max_tokens": "max_completion_tokens"}),
            rules=(Rule(_OPENAI_REASONS, Parameters(refused={"temperature", "logprobs", "stop"})),),
        ),
        Provider(
            "anthropic",
            "https://api.anthropic.com/v1",
            "ANTHROPIC_API_KEY",
            ANTHROPIC,
            "thinking blocks",
            rules=(Rule(_CLAUDE_ADAPTIVE, _NO_TEMPERATURE),),
        ),
        Provider(
            "google",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            reasoning="counted only",
            parameters=Parameters(refused={"logprobs"}),
        ),
        Provider(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            rules=(
                Rule(rf"openai/(?:{_OPENAI_REASONS})", _REASONS),
                Rule(rf"anthropic/{_CLAUDE_ADAPTIVE}", _REASONS),
            ),
        ),
        Provider(
            "together",
            "https://api.together.xyz/v1",
            "TOGETHER_API_KEY",
            reasoning="depends on the model",
            parameters=Parameters(refused={"logprobs"}),
        ),
        Provider(
            "fireworks",
            "https://api.fireworks.ai/inference/v1",
            "FIREWORKS_API_KEY",
            reasoning="depends on the model",
        ),
        Provider(
            "groq",
            "https://api.groq.com/openai/v1",
            "GROQ_API_KEY",
            reasoning="depends on the model",
            parameters=Parameters(refused={"n", "logprobs"}, renamed={"max_tokens": "max_completion_tokens"}),
        ),
        Provider(
            "mistral",
            "https://api.mistral.ai/v1",
            "MISTRAL_API_KEY",
            reasoning="depends on the model",
            parameters=Parameters(refused={"logprobs"}, renamed={"seed": "random_seed"}),
        ),
        Provider(
            "deepseek",
            "https://api.deepseek.com",
            "DEEPSEEK_API_KEY",
            parameters=Parameters(refused={"n"}),
            rules=(Rule(r"deepseek-(?!chat)", _REASONS),),
        ),
        Provider(
            "xai",
            "https://api.x.ai/v1",
            "XAI_API_KEY",
            rules=(Rule(r"grok-(?!.*non-reasoning)(?:3-mini|[4-9]|code|build)", Parameters(refused={"stop"})),),
        ),
    )
}


def split_name(name: str) -> tuple[Provider, str] | None:
    """Return the provider and its model that `PROVIDER:MODEL` names; None if no provider has this name."""
    provider, colon, model = name.partition(":")
    return (PROVIDERS[provider], model) if colon and provider in PROVIDERS else None


def key_variables() -> tuple[str, ...]:
    """Return the environment variables that hold API keys."""
    return tuple(dict.fromkeys(each.key_variable for each in PROVIDERS.values()))


def provider_rows() -> list[tuple[str, ...]]:
    """Return the table of providers: its head, then a row for each."""
    head = ("--model", "address", "key", "dialect", "reasoning", "not sent")
    rows = [
        (
            f"{each.name}:NAME",
            each.url,
            each.key_variable,
            each.dialect.name,
            each.reasoning,
            "; ".join(filter(None, (_words(each.dialect.parameters | each.parameters), *map(_of_rule, each.rules))))
            or "-",
        )
        for each in PROVIDERS.values()
    ]
    return [head, *rows]


def _words(parameters: Parameters) -> str:
    renamed = [f"{name} is {other}" for name, other in sorted(parameters.renamed.items())]
    return ", ".join([*sorted(parameters.refused), *renamed])


def _of_rule(rule: Rule) -> str:
    return f"of some models {_words(rule.parameters)}"
