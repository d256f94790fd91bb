"""What options and settings may be: a few kinds of values with their bounds.

A kind reads text, as what argparse calls a type, and says whether a Python value is one (`takes`, for settings), by
the same bounds. Every option that takes a value has a kind. Knows no command and no setting.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen

__all__ = [
    "ADAPTED_BLOCKS",
    "BATCH",
    "COMPARISONS",
    "DAY",
    "DECIMAL",
    "DECIMAL_FROM_0",
    "DOLLARS",
    "FITTED",
    "FOLDS",
    "ITERATIONS",
    "ITERATIONS_FROM_0",
    "ITERATION_NUMBER",
    "LEARNING_RATE",
    "LENGTH_OF_RUN",
    "MOST_ANSWERS",
    "MOST_LISTED",
    "NAME",
    "NAMES",
    "PATH",
    "PROBLEMS",
    "PROBLEMS_BY_TIER",
    "PROBLEMS_FROM_0",
    "PROBLEMS_PRINTED",
    "RANK",
    "RATE",
    "REQUESTS",
    "RESPONSES",
    "SAMPLES",
    "SAMPLES_FROM_0",
    "SECONDS",
    "SEED",
    "SEEDS",
    "SEED_COUNT",
    "SHARE",
    "SHARES_BY_TIER",
    "SHARE_ABOVE_0",
    "SHARE_BELOW_1",
    "SHARE_INSIDE",
    "SHOTS",
    "SWITCH",
    "TEMPERATURE",
    "TEMPLATE_ARGUMENTS",
    "TEMPLATE_ARGUMENTS_HELP",
    "TEMPLATE_DATE_HELP",
    "TEMPLATE_HELP",
    "THREADS",
    "TIERS",
    "TOKENS",
    "TOKENS_IN_ALL",
    "UPDATES",
    "WEIGHTS",
    "ByName",
    "Choice",
    "ChoiceOrOwn",
    "ChoiceOrShare",
    "Count",
    "Kind",
    "Listed",
    "ModelSize",
    "Name",
    "Number",
    "PathName",
    "Readable",
    "Switch",
    "Weighted",
    "choices",
    "json_text",
    "nearest",
    "refusal",
]

_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,4})?")
_MOST_BYTES = 4095
"""Of a name or path: what Linux takes (PATH_MAX, without the byte that ends it)."""
_MOST_MEMBERS = 1000
MOST_LISTED = 12
"""Of the names that an error lists in full."""
_MOST_SHOWN = 60


class Kind(Protocol):
    """A kind of values."""

    @property
    def expected(self) -> str:
        """What a value has to be, in words that stand after "expected"."""

    def __call__(self, text: str) -> Any:
        """The value that this text is; ArgumentTypeError where it is none."""

    def takes(self, value: object) -> bool:
        """Whether a value is one of this kind."""


def refusal(kind: Kind, value: object) -> str:
    """What was expected and what came, on one line, however long the value is."""
    expected = kind.near(value) if isinstance(kind, _OneOf) else kind.expected
    return f"{expected}, got {_shown(value)}"


def choices(names: Collection[str], given: object, listed_by: str = "") -> str:
    """Words that name all of a few names, or of many those most similar to what was given.

    Args:
        names: in an order in which the first stand for all where none is similar
        given: what a user gave for a name
        listed_by: a command that lists all
    """
    if len(names) <= MOST_LISTED:
        return f"one of {', '.join(names)}"
    text = given[:_MOST_SHOWN] if isinstance(given, str) else ""
    similar = difflib.get_close_matches(text, names, n=3, cutoff=0.4) or list(names)[:3]
    where = f" ({listed_by} lists all)" if listed_by else ""
    return f"one of {len(names)} names, such as {', '.join(similar)}{where}"


def nearest(name: str, names: Iterable[str]) -> str:
    """A question that names the most similar of `names`, to stand behind an error; empty where none is similar."""
    names = list(names)
    found = difflib.get_close_matches(name[:_MOST_SHOWN], names)
    found.sort(key=lambda each: sorted(each) != sorted(name))  # Two letters exchanged is the likeliest slip.
    found = found or [each for each in names if len(name) > 2 and each.startswith(name)]
    return f"; did you mean {found[0]}?" if found else ""


def _refused(kind: Kind, text: str) -> argparse.ArgumentTypeError:
    names = kind.names if isinstance(kind, _OneOf) else ()
    return argparse.ArgumentTypeError(f"expected {refusal(kind, text)}{nearest(text, names)}")


def _shown(value: object) -> str:
    if isinstance(value, str):
        value, more = value[:_MOST_SHOWN], len(value) - _MOST_SHOWN
        return repr(value) + (f" and {more:,} more characters" if more > 0 else "")
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # An int of more digits than Python writes.
        return f"a value of type {type(value).__name__} that is too large to print"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


@frozen
class Count:
    """A whole number, in plain ASCII digits."""

    low: int
    high: int

    @property
    def expected(self) -> str:
        """See `Kind`."""
        return f"a whole number from {self.low:,} to {self.high:,}"

    def __call__(self, text: str) -> int:
        """See `Kind`."""
        if _WHOLE.fullmatch(text) and self.takes(value := int(text)):
            return value
        raise _refused(self, text)

    def takes(self, value: object) -> bool:
        """See `Kind`. A bool is no number here."""
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high


@frozen
class Number:
    """A finite number."""

    low: float
    high: float
    above: bool = False
    """Whether `low` itself is refused."""
    below: bool = False
    """Whether `high` itself is refused."""
    or_0: bool = False
    """Whether 0 is taken too."""

    @property
    def expected(self) -> str:
        """See `Kind`."""
        start = f"above {self.low:g} and" if self.above else f"from {self.low:g}"
        end = "below" if self.below else "at most" if self.above else ""
        end = " ".join(filter(None, ("" if self.above else "to", end, f"{self.high:,.6g}")))
        return f"{'0, or ' if self.or_0 else ''}a finite number {start} {end}"

    def __call__(self, text: str) -> float:
        """See `Kind`."""
        if _DECIMAL.fullmatch(text) and self.takes(value := float(text) + 0.0):  # -0.0 + 0.0 is 0.0.
            return value
        raise _refused(self, text)

    def takes(self, value: object) -> bool:
        """See `Kind`. A bool is no number here."""
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return False
        from_low = self.low < value if self.above else self.low <= value
        to_high = value < self.high if self.below else value <= self.high
        return (from_low and to_high) or (self.or_0 and value == 0)


@frozen
class ModelSize(Number):
    """A number of parameters, as 135m or 7b."""

    low: float = 1e5
    high: float = 1e14

    @property
    def expected(self) -> str:
        """See `Kind`."""
        return "a number of parameters, such as 135m or 7b"

    def __call__(self, text: str) -> float:
        """See `Kind`."""
        number, scale = text[:-1], {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}.get(text[-1:].lower())
        if scale and _DECIMAL.fullmatch(number) and self.takes(value := scale * float(number)):
            return value
        raise _refused(self, text)


class _Text:
    """What kinds share whose values are texts, taken as they were written."""

    __slots__ = ()

    @property
    def expected(self) -> str:
        """See `Kind`."""
        raise NotImplementedError

    def __call__(self, text: str) -> str:
        """See `Kind`."""
        if self.takes(text):
            return text
        raise _refused(self, text)

    def takes(self, value: object) -> bool:
        """See `Kind`."""
        raise NotImplementedError


@frozen
class Name(_Text):
    """A name, which may be a path: text that is not blank."""

    @property
    def expected(self) -> str:
        """See `Kind`."""
        return f"a name or path of 1 to {_MOST_BYTES:,} bytes that is not blank and has no control characters"

    def takes(self, value: object) -> bool:
        """See `Kind`."""
        if not isinstance(value, str) or not value.strip() or any(c < " " or c == "\x7f" for c in value):
            return False
        try:
            return len(os.fsencode(value)) <= _MOST_BYTES
        except UnicodeEncodeError:  # A surrogate that stands for no byte.
            return False


@frozen
class Readable(_Text):
    """Text that a function reads without ValueError."""

    expected: str
    read: Callable[[str], Any]

    def takes(self, value: object) -> bool:
        """See `Kind`."""
        try:
            return isinstance(value, str) and self.read(value) is not None
        except (ValueError, RecursionError):
            return False


def json_text(value: Any) -> Any:
    """The text of a JSON object that is given as a mapping; anything else as it is, for a kind to refuse."""
    try:
        return json.dumps(dict(value), sort_keys=True) if isinstance(value, Mapping) else value
    except (TypeError, ValueError, RecursionError):
        return value


def _template_arguments(text: str) -> dict[str, Any] | None:
    found = json.loads(text)
    return found if isinstance(found, dict) and not found.keys() & {*_CONVERSATION} else None


@frozen
class RunName(Name):
    """The name of a run or a study: a directory, in its shortest form, or STORAGE://NAME."""

    def __call__(self, text: str) -> str:
        """See `Kind`."""
        name = super().__call__(text)
        return name if "://" in name else str(Path(name))


@frozen
class PathName(Name):
    """The same, read as a path."""

    def __call__(self, text: str) -> Path:  # type: ignore[override]  # a Path is what this kind is for
        """See `Kind`."""
        return Path(super().__call__(text))


@frozen
class _OneOf(_Text):
    """What kinds share whose values have names."""

    names: Sequence[str]
    listed_by: str = field(default="", kw_only=True)
    """A command that lists all, where they are many."""

    @property
    def beside(self) -> str:
        """What else a value may be, in words that stand behind the names."""
        return ""

    @property
    def expected(self) -> str:
        """See `Kind`."""
        return f"one of {', '.join(self.names)}{self.beside}"

    def near(self, value: object) -> str:
        """What is expected in place of a value; of many names, those that are similar to it."""
        return choices(self.names, value, self.listed_by) + self.beside


@frozen
class Choice(_OneOf):
    """One of a few names."""

    def takes(self, value: object) -> bool:
        """See `Kind`."""
        return isinstance(value, str) and value in self.names


@frozen
class ChoiceOrOwn(_OneOf):
    """One of a few names, or one's own as module:ATTR."""

    options: bool = False
    """Whether a name may be followed by options, as NAME@OPTIONS."""

    @property
    def beside(self) -> str:
        """See `_OneOf`."""
        return f"{' (some with options, as NAME@OPTIONS)' * self.options}, or your own as module:ATTR"

    def takes(self, value: object) -> bool:
        """See `Kind`."""
        if not isinstance(value, str):
            return False
        name = value.partition("@")[0] if self.options else value
        return (name in self.names or ":" in name) and NAME.takes(value)


@frozen
class ChoiceOrShare(_OneOf):
    """One of a few names, or a prefix and a share after it, as `top:0.25`."""

    prefix: str

    @property
    def beside(self) -> str:
        """See `_OneOf`."""
        return f", or {self.prefix}SHARE with {SHARE_ABOVE_0.expected}"

    def takes(self, value: object) -> bool:
        """See `Kind`."""
        return isinstance(value, str) and (value in self.names or self.share(value) is not None)

    def share(self, value: str) -> float | None:
        """The share that a value names; None where it names none."""
        try:
            return SHARE_ABOVE_0(value.removeprefix(self.prefix)) if value.startswith(self.prefix) else None
        except argparse.ArgumentTypeError:
            return None


@frozen
class Listed:
    """Values of a kind, separated by commas alone; none is empty, and no two are the same."""

    item: Kind

    @property
    def expected(self) -> str:
        """See `Kind`."""
        return f"1 to {_MOST_MEMBERS:,} different values separated by commas, each {self.item.expected}"

    def __call__(self, text: str) -> tuple[Any, ...]:
        """See `Kind`."""
        members = text.split(",")
        if not text or len(members) > _MOST_MEMBERS:
            raise _refused(self, text)
        if "" in members:
            raise argparse.ArgumentTypeError(f"expected a value before and after each comma, got {_shown(text)}")
        values = tuple(map(self.item, members))
        for place, value in enumerate(values):
            if value in values[:place]:
                raise argparse.ArgumentTypeError(f"expected different values, got {_shown(members[place])} twice")
        return values

    def takes(self, value: object) -> bool:
        """See `Kind`. A tuple."""
        if not isinstance(value, tuple) or not 1 <= len(value) <= _MOST_MEMBERS:
            return False
        return all(map(self.item.takes, value)) and len(set(value)) == len(value)


@frozen
class Switch:
    """True or false."""

    @property
    def expected(self) -> str:
        """See `Kind`."""
        return "true or false"

    def __call__(self, text: str) -> bool:
        """See `Kind`."""
        if text not in ("true", "false"):
            raise _refused(self, text)
        return text == "true"

    def takes(self, value: object) -> bool:
        """See `Kind`."""
        return isinstance(value, bool)


@frozen
class ByName:
    """Values of a kind by name, written as NAME=VALUE,NAME=VALUE."""

    item: Kind

    @property
    def expected(self) -> str:
        """See `Kind`."""
        return f"values by name, each {self.item.expected}"

    def __call__(self, text: str) -> dict[str, Any]:
        """See `Kind`."""
        pairs = [each.partition("=") for each in text.split(",")]
        values = {name: self.item(value) for name, _, value in pairs}
        if len(values) < len(pairs) or not self.takes(values):
            raise _refused(self, text)
        return values

    def takes(self, value: object) -> bool:
        """See `Kind`. A mapping that is not empty."""
        if not isinstance(value, Mapping) or not value:
            return False
        return all(NAME.takes(name) and self.item.takes(each) for name, each in value.items())


@frozen
class Weighted(ByName):
    """Numbers by name, written as NAME=VALUE,NAME; a name alone has the value 1."""

    @property
    def expected(self) -> str:
        """See `Kind`."""
        return f"names, each with or without =WEIGHT, {self.item.expected}"

    def __call__(self, text: str) -> dict[str, Any]:
        """See `Kind`."""
        return super().__call__(",".join(each if "=" in each else f"{each}=1" for each in text.split(",")))


# The bounds of all options and settings. They are generous: what lies beyond them cannot end, or means something else.

NAME = Name()
NAMES = Listed(NAME)
SWITCH = Switch()
PATH = PathName()
RUN = RunName()
DAY = Readable("a date as YYYY-MM-DD", lambda text: date.fromisoformat(text).isoformat() == text or None)
_CONVERSATION = ("messages", "tools", "add_generation_prompt")
TEMPLATE_ARGUMENTS = Readable(
    f"""a JSON object such as '{{"enable_thinking": false}}' without {", ".join(_CONVERSATION)}""", _template_arguments
)
TEMPLATE_HELP = (
    "chat template of a local model: the path of a Jinja file, or plain, which separates messages by blank lines, for "
    "base models (default: the model's own)"
)
TEMPLATE_ARGUMENTS_HELP = (
    """arguments of the chat template as a JSON object, such as '{"enable_thinking": false}' (default: none)"""
)
TEMPLATE_DATE_HELP = (
    "date that the chat template of a local model reads, as YYYY-MM-DD (default: today; where the template reads it, "
    "it is kept)"
)

SEED = Count(0, 2**63 - 1)
"""What SQLite and servers of models keep as a whole number."""
SEEDS = Listed(SEED)

PROBLEMS = Count(1, 10_000)
"""A tier, or an iteration. 10,000 already make a 95 % interval at most two points wide, and minutes to draw."""
PROBLEMS_FROM_0 = Count(0, PROBLEMS.high)
PROBLEMS_BY_TIER = ByName(PROBLEMS)
FITTED = PROBLEMS
"""Training problems that a prompt-blind baseline is fitted to."""
PROBLEMS_PRINTED = Count(1, 1_000_000)
"""Each is printed as soon as it is drawn."""
SAMPLES = Count(1, 10_000)
"""Of one problem."""
SAMPLES_FROM_0 = Count(0, SAMPLES.high)
MOST_ANSWERS = 1_000_000
"""Problems times samples of each: they are in memory together."""
RESPONSES = Count(0, 10_000_000)
"""Generated one after another, with a progress bar."""
FOLDS = Count(2, 1_000)
"""Each is a whole run."""
SHOTS = Count(1, 1_000)
"""Few-shot examples: of the shortest, that many are 100,000 tokens."""
TOKENS = Count(1, 1_000_000)
"""Beyond the longest context of the models that can be run here."""

ITERATIONS = Count(1, 1_000_000)
"""Each one prints its line; a run that goes on until it is stopped asks for as many."""
ITERATIONS_FROM_0 = Count(0, ITERATIONS.high)
ITERATION_NUMBER = Count(0, 10 * ITERATIONS.high)
"""Those of a warm-up are counted too."""
UPDATES = Count(0, 100_000)
"""Optimizer steps."""
BATCH = Count(1, 10_000)
"""Traces in one optimizer step."""
RANK = Count(1, 4_096)
"""A rank above the width of a model adds nothing."""
ADAPTED_BLOCKS = Count(1, 1_000)
"""More than any model has; those that it has not are not adapted."""

TIERS = SEED_COUNT = COMPARISONS = Count(1, 100)

THREADS = Count(1, 1_024)
REQUESTS = Count(1, 1_000)
LEARNERS = Count(1, 64)
"""Under way at a time: each needs an open file, and a process usually gets 1,024 of them."""

RATE = Count(1, 1_000_000_000)
"""A minute."""
TOKENS_IN_ALL = Count(1, 1_000_000_000_000)
DOLLARS = Number(0.0, 1e6, above=True)

SHARE = Number(0.0, 1.0)
SHARE_ABOVE_0 = Number(0.0, 1.0, above=True)
SHARE_BELOW_1 = Number(0.0, 1.0, below=True)
SHARE_INSIDE = Number(0.0, 1.0, above=True, below=True)
SHARES_BY_TIER = ByName(SHARE)
TEMPERATURE = Number(1e-6, 100.0, or_0=True)
"""0 is greedy. Logits divided by less than a millionth overflow float32; above 100, tokens are drawn at random."""
LEARNING_RATE = Number(1e-12, 1e6, above=True)
DECIMAL = Number(0.0, 1e9, above=True)
"""Factors and limits that must not be 0."""
DECIMAL_FROM_0 = Number(0.0, 1e9)
WEIGHTS = Weighted(DECIMAL)
SECONDS = Number(0.0, 86_400.0, above=True)
"""A day: sockets take no more than some ten thousand days."""
LENGTH_OF_RUN = Number(0.0, 527_040.0, above=True)
"""Minutes: a year."""
