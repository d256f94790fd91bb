"""What the models of a command share: one ledger of what they use, known prices, and a cache of answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import field, frozen

from gce.adapters.models.ledger import Ledger, Rates
from gce.app.options import DOLLARS, LENGTH_OF_RUN, PATH, RATE, TOKENS_IN_ALL
from gce.app.wiring.files import parse_json, read_input
from gce.domain.spending import Limits, Price, Used, find_price
from gce.errors import BadInput, SettingError

__all__ = ["Access", "access_of", "add_limits", "known_prices"]

_MOST_BYTES = 1 << 20


@frozen
class Access:
    """How models are reached."""

    ledger: Ledger = field(factory=Ledger)
    prices: Mapping[str, Price] = field(factory=dict)
    """By model, as `--model` names it."""
    unknown_cost: bool = True
    """Whether models without a known price may be asked although the cost is limited."""
    cache: Path | None = None
    """Directory that keeps answers of models that sample only."""

    def price(self, model: str) -> Price | None:
        """Return the price of a model that may be paid for; None if it is not known.

        Raises:
            SettingError: it is not known, and the cost is limited.
        """
        price = find_price(model, self.prices)
        if price is None and not self.unknown_cost:
            message = (
                f"the price of {model} is not known, so {{max_cost}} cannot be kept: give it in a file with "
                "{prices}, or ask all the same with {allow_unknown_cost}"
            )
            raise SettingError("max_cost", "a model whose price is known", self.ledger.limits.cost, message)
        return price

    def count(self, prompt_tokens: int | None, tokens: int | None) -> None:
        """Count what a model used that the ledger did not see, and that costs nothing."""
        self.ledger.settle(Used(), Used(prompt_tokens=prompt_tokens or 0, tokens=tokens or 0))


def access_of(given: Any) -> Access:
    """Return the access that the settings of an evaluation describe; its ledger's time begins now.

    Raises:
        BadInput: the file of prices cannot be used.
    """
    return Access(
        Ledger(
            Limits(given.max_tokens_total, given.max_cost, given.max_minutes),
            Rates(given.requests_per_minute, given.tokens_per_minute),
        ),
        {**known_prices()[1], **({} if given.prices is None else _prices_in(given.prices))},
        unknown_cost=given.max_cost is None or given.allow_unknown_cost,
        cache=given.cache,
    )


def add_limits(parser: argparse._ActionsContainer) -> None:
    """Add the options that `access_of` reads."""
    parser.add_argument("--requests-per-minute", type=RATE, help="maximum requests to each provider in any minute")
    parser.add_argument(
        "--tokens-per-minute", type=RATE, help="maximum tokens of prompts and answers for each provider in any minute"
    )
    parser.add_argument(
        "--max-tokens-total",
        type=TOKENS_IN_ALL,
        help="maximum tokens of all prompts and answers together: no request is sent that could exceed it",
    )
    parser.add_argument(
        "--max-cost",
        type=DOLLARS,
        help="maximum cost of all requests in US dollars, by the known prices: no request is sent that could exceed it",
    )
    parser.add_argument("--max-minutes", type=LENGTH_OF_RUN, help="minutes after which no further request is sent")
    parser.add_argument(
        "--prices",
        type=PATH,
        help='JSON file of prices that come before the known ones: {"prices": {"openai:gpt-5": [1.25, 10]}}, US '
        "dollars for a million tokens of prompts and of answers",
    )
    parser.add_argument(
        "--allow-unknown-cost",
        action="store_true",
        help="ask models whose price is not known despite --max-cost, which then does not hold for them",
    )
    parser.add_argument(
        "--cache",
        type=PATH,
        metavar="DIR",
        help="keep answers of models behind servers, commands and people in this directory, and ask nothing twice",
    )


@cache
def known_prices() -> tuple[str, Mapping[str, Price]]:
    """Return the date of the shipped table of prices, and the prices by model."""
    text = (resources.files("gce") / "data" / "prices.json").read_text(encoding="utf-8")
    found = json.loads(text)
    return found["as of"], {model: Price(*pair) for model, pair in found["prices"].items()}


def _prices_in(path: Path) -> dict[str, Price]:
    """Return the prices in a user's file, which has the form of the shipped one."""
    try:
        found = parse_json(read_input(path, _MOST_BYTES), str(path))["prices"]
        return {model: Price(*map(_number, pair)) for model, pair in found.items()}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f'expected {path} to be like {{"prices": {{"openai:gpt-5": [1.25, 10]}}}}, US dollars for a million tokens '
            "of prompts and of answers"
        ) from error


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"expected a number, got {value!r:.60}")
    return float(value)
