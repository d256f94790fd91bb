"""Questions of belief from a file: forecasts, opinions, plain questions and daily weather.

- Forecasting: id, source, title, description, category, endTime, outcomes (two names), resolution, marketType.
- ChangeMyView: id, op-title, op-text-body; no truth is known, so that beliefs are recorded and none is scored.
- Plain: question, and optionally options (two names), background, evidence (texts), prior, posterior, path (posterior
  after each piece), resolution, tier and split.
- Weather: date, precipitation, temp_max, temp_min, one day a record, in order, as in seattle-weather.csv: rain on the
  next day, given the last three; the base rate is that of the month in the training days.

A resolution is the name of an option, or its index, 0 or 1; with none, the question has no known outcome.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, Literal, get_args

from attrs import frozen

from gce.domain.problems import Split
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.questions import cut

__all__ = ["SHARES", "ListedQuestion", "questions_of"]

SHARES = (60, 15, 25)
"""Of train, dev and test, where the records do not name a split."""
ALL = "all"
"""The tier of records that do not name one."""
WINDOW = 3
"""Days of weather that are shown."""
_SPLITS: tuple[Split, ...] = get_args(Split)
_DATE = re.compile(r"(\d{4})[-/](\d{2})[-/](\d{2})")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@frozen
class ListedQuestion:
    """One question of a file, with its tier and split."""

    question: BeliefQuestion
    tier: str
    split: Split


def questions_of(records: Sequence[Any]) -> tuple[ListedQuestion, ...]:
    """Return the questions that these records describe; a question that comes twice is taken once.

    Raises:
        ValueError: a field is missing or wrong; the message says which, and in which record.
    """
    if records and isinstance(records[0], Mapping) and "precipitation" in records[0]:
        return _weather(records)
    found: dict[tuple[str, str], tuple[BeliefQuestion, Split | None]] = {}
    for number, record in enumerate(records, 1):
        try:
            question, tier, split = _question(record)
        except ValueError as error:
            raise ValueError(f"record {number}: {error}") from error
        found.setdefault((tier, question.digest), (question, split))
    splits = [split for _, split in found.values()]
    if None in splits and any(splits):
        raise ValueError("expected 'split' in all records or in none")
    listed: list[ListedQuestion] = []
    for tier in dict.fromkeys(tier for tier, _ in found):
        of_tier = [each for (its, _), each in found.items() if its == tier]
        if None not in splits:
            listed += [ListedQuestion(question, tier, split) for question, split in of_tier if split]
            continue
        questions = [question for question, _ in of_tier]
        parts = cut(questions, [question.digest for question in questions], SHARES)
        listed += [ListedQuestion(question, tier, split) for split, those in parts.items() for question in those]
    return tuple(listed)


def _question(record: Any) -> tuple[BeliefQuestion, str, Split | None]:
    if not isinstance(record, Mapping):
        raise ValueError(f"expected an object, got {type(record).__name__}")
    if "op-title" in record:
        return _opinion(record), ALL, None
    if "outcomes" in record:
        return _forecast(record), ALL, None
    if "question" not in record:
        raise ValueError(
            "expected a field 'question', 'outcomes' (forecasting), 'op-title' (ChangeMyView) or 'precipitation' "
            f"(weather), got {', '.join(map(str, record))[:100] or 'none'}"
        )
    split, tier = record.get("split"), record.get("tier", ALL)
    if split is not None and split not in _SPLITS:
        raise ValueError(f"expected 'split' to be one of {', '.join(_SPLITS)}, got {split!r:.60}")
    if not isinstance(tier, str) or not tier or "/" in tier:
        raise ValueError(f"expected 'tier' to be a name without /, got {tier!r:.60}")
    return _plain(record), tier, split


def _forecast(record: Mapping[str, Any]) -> BeliefQuestion:
    options = _options(record["outcomes"], "outcomes")
    ends, category = record.get("endTime"), record.get("category")
    background = [_text(record, "description", "")]
    if isinstance(category, str) and category:
        background.append(f"Category: {category}.")
    if isinstance(ends, str) and ends:
        background.append(f"It is decided by {ends}.")
    return _made("forecasting", _text(record, "title"), options, "\n".join(filter(None, background)), record)


def _opinion(record: Mapping[str, Any]) -> BeliefQuestion:
    title, body = _text(record, "op-title"), _text(record, "op-text-body", "")
    view = title.removeprefix("CMV:").strip()
    background = f"Somebody holds this view: {view}" + (f"\nTheir reasons: {body.strip()}" if body.strip() else "")
    return _made("changemyview", "Is this view right?", ("Yes", "No"), background, {})


def _plain(record: Mapping[str, Any]) -> BeliefQuestion:
    options = _options(record.get("options", ["Yes", "No"]), "options")
    return _made("questions", _text(record, "question"), options, _text(record, "background", ""), record)


def _made(
    family: str, claim: str, options: tuple[str, str], background: str, record: Mapping[str, Any]
) -> BeliefQuestion:
    evidence = record.get("evidence") or []
    if isinstance(evidence, str) or not isinstance(evidence, (list, tuple)):
        raise ValueError(f"expected 'evidence' to be a list of texts, got {type(evidence).__name__}")
    if not all(isinstance(each, str) and each.strip() for each in evidence):
        raise ValueError("expected 'evidence' to be a list of texts that are not empty")
    path = record.get("path") or []
    if not isinstance(path, (list, tuple)) or (path and len(path) != len(evidence)):
        raise ValueError(f"expected 'path' to be a probability for each of {len(evidence)} pieces of evidence")
    along = tuple(_probability(each, "path") for each in path)
    posterior = None if record.get("posterior") is None else _probability(record["posterior"], "posterior")
    if along and posterior not in (None, along[-1]):
        raise ValueError(f"expected 'posterior' to be the last of 'path', {along[-1]}, got {posterior}")
    prior = None if record.get("prior") is None else _probability(record["prior"], "prior")
    resolved = _resolution(record.get("resolution"), options)
    words = "\0".join(" ".join(each.split()) for each in (claim, *options, background, *evidence))
    return BeliefQuestion(
        family=family,
        claim=claim.strip(),
        options=options,
        background=background.strip(),
        evidence=tuple(evidence),
        prior=prior,
        path=along,
        posterior=along[-1] if along else posterior,
        outcome=resolved,
        digest=_digest(words),
        subtype=family,
    )


def _digest(words: str) -> str:
    return blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _text(record: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = record.get(name)
    value = default if value is None else value
    if not isinstance(value, str) or (default is None and not value.strip()):
        got = "nothing" if value is None else "an empty one" if value == "" else type(value).__name__
        raise ValueError(f"expected a text for {name!r}, got {got}")
    return value


def _options(value: Any, name: str) -> tuple[str, str]:
    names = (
        [each.strip() if isinstance(each, str) else "" for each in value] if isinstance(value, (list, tuple)) else []
    )
    if len(names) != 2 or not all(names) or names[0].casefold() == names[1].casefold():
        raise ValueError(f"expected {name!r} to be a list of two different names, got {value!r:.60}")
    return names[0], names[1]


def _probability(value: Any, name: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or not 0 <= value <= 1:
        raise ValueError(f"expected {name!r} to be a probability from 0 to 1, got {value!r:.60}")
    return float(value)


def _resolution(value: Any, options: tuple[str, str]) -> Literal[0, 1, None]:
    """1 if the first option turned out right, 0 if the second did, None if nothing is known."""
    if value is None:
        return None
    names = [option.casefold() for option in options]
    index = (
        names.index(value.strip().casefold()) if isinstance(value, str) and value.strip().casefold() in names else -1
    )
    if isinstance(value, int) and not isinstance(value, bool) and value in (0, 1):
        index = value
    if index < 0:
        raise ValueError(
            f"expected 'resolution' to be {options[0]!r:.40}, {options[1]!r:.40}, or the index 0 or 1 of one of them, "
            f"got {value!r:.60}"
        )
    return 1 if index == 0 else 0


@frozen
class _Day:
    month: int
    date: str
    rain: float
    """In millimetres."""
    low: float
    high: float
    """In degrees Celsius."""

    @property
    def said(self) -> str:
        weather = f"{self.rain:g} mm of rain" if self.rain > 0 else "no rain"
        return f"{self.date}: {weather}, {self.low:g} to {self.high:g} degrees Celsius."


def _day(record: Any) -> _Day:
    date = _DATE.match(str(record.get("date"))) if isinstance(record, Mapping) else None
    if date is None or not 1 <= int(date[2]) <= 12:
        raise ValueError("expected 'date' as YEAR-MONTH-DAY")
    numbers = []
    for name in ("precipitation", "temp_min", "temp_max"):
        try:
            numbers.append(float(record[name]))
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"expected a number for {name!r}, got {record.get(name)!r:.40}") from None
        if not isfinite(numbers[-1]):
            raise ValueError(f"expected a number for {name!r}, got {record[name]!r:.40}")
    return _Day(int(date[2]), f"{int(date[3])} {_MONTHS[int(date[2]) - 1]}", *numbers)


def _weather(records: Sequence[Any]) -> tuple[ListedQuestion, ...]:
    """Questions in the order of days: the first are for training, the last for test, and no day is in two splits."""
    days = []
    for number, record in enumerate(records, 1):
        try:
            days.append(_day(record))
        except ValueError as error:
            raise ValueError(f"record {number}: {error}") from error
    train, dev = (len(days) * share // 100 for share in (SHARES[0], SHARES[0] + SHARES[1]))
    bounds: dict[Split, tuple[int, int]] = {"train": (0, train), "dev": (train, dev), "test": (dev, len(days))}
    if min(last - first for first, last in bounds.values()) <= WINDOW:
        raise ValueError(f"expected at least {7 * (WINDOW + 1)} days, got {len(days)}")
    rained: dict[int, list[bool]] = defaultdict(list)
    for day in days[:train]:
        rained[day.month].append(day.rain > 0)
    overall = sum(day.rain > 0 for day in days[:train]) / train
    listed: list[ListedQuestion] = []
    for split, (first, last) in bounds.items():
        for at in range(first + WINDOW, last):
            month = days[at].month
            # As if two more days of the month had been as the year.
            rate = round((sum(rained[month]) + 2 * overall) / (len(rained[month]) + 2), 2)
            listed.append(ListedQuestion(_tomorrow(days[at - WINDOW : at], days[at], rate, at), ALL, split))
    return tuple(listed)


def _tomorrow(before: Sequence[_Day], day: _Day, rate: float, number: int) -> BeliefQuestion:
    evidence = tuple(each.said for each in before)
    return BeliefQuestion(
        family="weather",
        claim=f"Does it rain on {day.date}?",
        options=("Yes", "No"),
        background=f"In this place it rains on {100 * rate:.0f} % of the days in {_MONTHS[day.month - 1]}.",
        evidence=evidence,
        prior=rate,
        outcome=1 if day.rain > 0 else 0,
        signals=tuple(1 if each.rain > 0 else -1 for each in before),
        digest=_digest(f"{number} {' '.join(evidence)}"),
        subtype="weather",
    )
