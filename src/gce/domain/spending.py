"""What paid models cost: prices, what was used, and the limits of an evaluation. Knows no provider and no clock."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen, validators

__all__ = ["Limits", "Price", "Used", "cost_of", "find_price", "over"]

_LATEST = "-latest"
"""What may follow a model's name without changing its price."""
_not_negative = validators.ge(0)


@frozen
class Price:
    """US dollars for a million tokens."""

    prompt: float = field(validator=_not_negative)
    answer: float = field(validator=_not_negative)
    """For generated tokens, reasoning included."""


@frozen
class Limits:
    """The most that may be used; None for no limit."""

    tokens: int | None = None
    """Of prompts and answers together."""
    cost: float | None = None
    """US dollars."""
    minutes: float | None = None
    """Wall-clock time in which requests may be sent."""


@frozen
class Used:
    """What requests used, or may use."""

    requests: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    """Generated tokens."""
    cost: float = 0.0
    """US dollars, where the price is known."""
    unpriced: int = 0
    """Tokens of models whose price is not known."""

    def __add__(self, more: Used) -> Used:
        return Used(
            self.requests + more.requests,
            self.prompt_tokens + more.prompt_tokens,
            self.tokens + more.tokens,
            self.cost + more.cost,
            self.unpriced + more.unpriced,
        )

    @property
    def all_tokens(self) -> int:
        """Tokens of prompts and answers."""
        return self.prompt_tokens + self.tokens


def cost_of(price: Price | None, prompt_tokens: int, tokens: int) -> Used:
    """Return what one request used that read and wrote so many tokens; without a price, its tokens are unpriced."""
    if price is None:
        return Used(1, prompt_tokens, tokens, unpriced=prompt_tokens + tokens)
    return Used(1, prompt_tokens, tokens, (price.prompt * prompt_tokens + price.answer * tokens) / 1e6)


def over(limits: Limits, used: Used) -> str:
    """Return which limit is exceeded if so much is used, as the field's name; empty if none is."""
    if limits.tokens is not None and used.all_tokens > limits.tokens:
        return "tokens"
    if limits.cost is not None and used.cost > limits.cost:
        return "cost"
    return ""


def find_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model as `--model` names it; None if the table does not have it.

    A dated snapshot has a price of its own: providers change prices from one snapshot to the next.
    """
    return prices.get(model, prices.get(model.removesuffix(_LATEST)))
