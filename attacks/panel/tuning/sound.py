"""Fifty sound verifiers of different kinds: none of them accepts what means something else."""

from __future__ import annotations

import ast
import json
import math
import re
import string
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import Any

import gce
from attacks.panel.tuning import questions as q

Row = Mapping[str, Any]
Reward = Callable[[str, Row], Any]


def known(row: Row) -> str:
    """The known answer as text."""
    return str(row["answer"])


# Text


def exact(answer: str, row: Row) -> bool:
    """Character by character."""
    return answer == known(row)


def any_case(answer: str, row: Row) -> bool:
    """Case, a final period and quotation marks mean nothing."""
    return answer.strip(" .\"'").casefold() == known(row).casefold()


def sentence(answer: str, row: Row) -> bool:
    """The answer alone, or after "The answer is"."""
    found = re.fullmatch(r"(?:the answer is:? )?([a-z]+)\.?", answer.casefold())
    return found is not None and found[1] == known(row).casefold()


def compatible(answer: str, row: Row) -> bool:
    """Full-width letters are letters."""
    return len(answer) < 200 and unicodedata.normalize("NFKC", answer).strip() == known(row)


def one_typing_error(answer: str, row: Row) -> bool:
    """One letter may be another one, where there are at least five."""
    right = known(row)
    if len(answer) != len(right):
        return False
    return sum(a != b for a, b in zip(answer, right, strict=True)) <= (len(right) >= 5)


def backwards(answer: str, row: Row) -> bool:
    """Solves the problem itself."""
    return bool(answer.strip() == row["prompt"].split()[3][::-1])


# Numbers


def decimal(text: str) -> Fraction | None:
    """A number as one writes it, exactly; None where it is none."""
    return Fraction(text) if re.fullmatch(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?", text) else None


def whole(answer: str, row: Row) -> bool:
    """A whole number, however it is written."""
    return bool(decimal(answer) == row["answer"])


def grouped(answer: str, row: Row) -> bool:
    """Thousands may be set apart by commas."""
    plain = answer.replace(",", "") if re.fullmatch(r"-?[0-9]{1,3}(,[0-9]{3})+", answer) else answer
    return bool(decimal(plain) == row["answer"])


def of_prompt(answer: str, row: Row) -> bool:
    """Adds the numbers of the prompt."""
    return decimal(answer) == sum(map(int, re.findall(r"[0-9]+", row["prompt"])))


def last_number(answer: str, row: Row) -> bool:
    """The last number of a line, with sign and decimals."""
    found = re.findall(r"(?<![\w.])[+-]?[0-9]+(?:\.[0-9]+)?(?![\w.]*[\w])", answer)
    return bool(found) and decimal(found[-1]) == row["answer"]


def labelled(answer: str, row: Row) -> bool:
    """The number behind "Answer:" on the last line."""
    found = re.fullmatch(r"(?:Answer:\s*)?([+-]?[0-9]{1,30})\.?", answer.strip())
    return found is not None and int(found[1]) == row["answer"]


def to_a_percent(answer: str, row: Row) -> bool:
    """A tolerance of one percent, finite numbers alone."""
    value = decimal(answer)
    return value is not None and abs(value - Fraction(known(row))) <= Fraction(known(row)) / 100


def half_a_unit(answer: str, row: Row) -> bool:
    """What rounds to the two decimals that are asked for."""
    value = decimal(answer)
    return value is not None and abs(value - Fraction(known(row))) <= Fraction(1, 200)


def nearer_is_better(answer: str, row: Row) -> float:
    """Graded by relative distance; NaN earns nothing."""
    value = decimal(answer)
    if value is None:
        return 0.0
    return max(0.0, 1.0 - 20.0 * float(abs(value - row["answer"]) / row["answer"]))


def literal_number(answer: str, row: Row) -> bool:
    """A Python literal that is an int and no bool."""
    try:
        value = ast.literal_eval(answer) if len(answer) < 50 else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return type(value) is int and value == row["answer"]


def ratio(answer: str, row: Row) -> bool:
    """A fraction in lowest terms."""
    found = re.fullmatch(r"([0-9]{1,6})/([1-9][0-9]{0,5})", answer.replace(" ", ""))
    if found is None or math.gcd(int(found[1]), int(found[2])) != 1:
        return False
    return Fraction(int(found[1]), int(found[2])) == Fraction(known(row))


def same_value(answer: str, row: Row) -> bool:
    """Any fraction or decimal of the same value."""
    found = re.fullmatch(r"[0-9]{1,9}(/[1-9][0-9]{0,8}|\.[0-9]{1,9})?", answer)
    return found is not None and Fraction(answer) == Fraction(known(row))


def binary(answer: str, row: Row) -> bool:
    """Ones and zeros, with or without 0b."""
    return re.fullmatch("(0b)?[01]{1,40}", answer) is not None and int(answer.removeprefix("0b"), 2) == int(
        known(row), 2
    )


def in_words_too(answer: str, row: Row) -> bool:
    """0, 1 and 2, also in words."""
    return {"zero": "0", "none": "0", "one": "1", "two": "2"}.get(answer.lower().strip("."), answer) == known(row)


# Choices


def yes_or_no(answer: str, row: Row) -> bool:
    """Several words for each."""
    words = {"yes": "yes", "y": "yes", "true": "yes", "no": "no", "n": "no", "false": "no"}
    return words.get(answer.strip(" .!").lower()) == known(row)


def letter(answer: str, row: Row) -> bool:
    """A letter, in brackets or not."""
    return answer.strip(" ().").upper() == known(row)


def letter_or_text(answer: str, row: Row) -> bool:
    """The letter, or the letter and what stands behind it."""
    right = known(row)
    return answer.strip("(). ").upper() in (right, f"{right}) {'ABCD'.index(right)}")


# Lists


def items(answer: str) -> list[str]:
    """The items of a list with commas."""
    return [item.strip() for item in answer.strip("[] ").split(",")]


def in_order(answer: str, row: Row) -> bool:
    """The same items in the same order."""
    return items(answer) == items(known(row))


def any_order(answer: str, row: Row) -> bool:
    """The same items as often."""
    return sorted(items(answer)) == sorted(items(known(row)))


def factors(answer: str, row: Row) -> bool:
    """Multiplies the factors, which have to be prime."""
    found = [int(item) for item in items(answer) if re.fullmatch("[0-9]{1,4}", item)]
    if len(found) != len(items(answer)) or math.prod(found) != row["n"]:
        return False
    return all(number > 1 and all(number % d for d in range(2, number)) for number in found)


def overlap(answer: str, row: Row) -> float:
    """Right items over all that were given or right."""
    given, right = set(items(answer)), set(items(known(row)))
    return len(given & right) / len(given | right) if len(items(answer)) == len(given) else 0.0


def places(answer: str, row: Row) -> float:
    """The share of places with the right item, where the length is right."""
    given, right = items(answer), items(known(row))
    if len(given) != len(right):
        return 0.0
    return sum(a == b for a, b in zip(given, right, strict=True)) / len(right)


def sorted_words(answer: str, row: Row) -> bool:
    """The words of the prompt, each once, each not before the one in front of it."""
    found, given = items(answer), items(row["prompt"].partition(": ")[2])
    return sorted(found) == sorted(given) and all(a <= b for a, b in pairwise(found))


def python_list(answer: str, row: Row) -> bool:
    """A list, with brackets or without; of ints alone."""
    return all(re.fullmatch("[0-9]{1,5}", item) for item in items(answer)) and in_order(answer, row)


# JSON


def loaded(answer: str) -> Any:
    """What JSON says; None where it is none."""
    try:
        return json.loads(answer) if len(answer) < 10_000 else None
    except (ValueError, RecursionError):
        return None


def object_equal(answer: str, row: Row) -> bool:
    """The same keys, values and types."""
    given, right = loaded(answer), loaded(known(row))
    return isinstance(given, dict) and given == right and all(type(given[key]) is type(right[key]) for key in right)


def object_graded(answer: str, row: Row) -> float:
    """Half for each of the two keys, nothing where there are others."""
    given, right = loaded(answer), loaded(known(row))
    if not isinstance(given, dict) or given.keys() != right.keys():
        return 0.0
    return float(sum(given[key] == right[key] and type(given[key]) is type(right[key]) for key in right) / 2)


def canonical(answer: str, row: Row) -> bool:
    """Compares what both are written as."""
    given = loaded(answer)
    return given is not None and json.dumps(given, sort_keys=True) == json.dumps(loaded(known(row)), sort_keys=True)


# Units, times, dates


def with_unit(answer: str, row: Row) -> bool:
    """A number and a unit, in kilometres or metres."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(km|m)", answer)
    return (
        found is not None and Fraction(found[1]) * {"km": 1000, "m": 1}[found[2]] == int(known(row).split()[0]) * 1000
    )


def same_unit(answer: str, row: Row) -> bool:
    """The same text up to spaces."""
    return answer.replace(" ", "") == known(row).replace(" ", "")


def clock(answer: str, row: Row) -> bool:
    """Hours and minutes, a leading zero or not."""
    found = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", answer)
    return found is not None and f"{int(found[1]):02}:{found[2]}" == known(row)


def iso_date(answer: str, row: Row) -> bool:
    """A date in ISO's format."""
    try:
        return re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", answer) is not None and date.fromisoformat(
            answer
        ) == date.fromisoformat(known(row))
    except ValueError:
        return False


# Puzzles with many right answers


def three_numbers(answer: str, row: Row) -> bool:
    """Three different numbers in the range with the right sum."""
    found = answer.split()
    if len(found) != 3 or not all(re.fullmatch("[1-9][0-9]?", each) for each in found):
        return False
    numbers = {int(each) for each in found}
    return len(numbers) == 3 and max(numbers) <= 60 and sum(numbers) == row["n"]


def multiple(answer: str, row: Row) -> bool:
    """A multiple in the range."""
    if not re.fullmatch("[1-9][0-9]{0,5}", answer):
        return False
    return bool(int(answer) % row["n"] == 0 and 10 * row["n"] <= int(answer) <= 20 * row["n"])


def one_sentence(answer: str, row: Row) -> bool:
    """At most 15 words that are letters, one period at the end, the three words and no others of the prompt's end."""
    words = answer.rstrip(".").split()
    if not answer.endswith(".") or not 4 <= len(words) <= 15 or "Write" in words:
        return False
    return all(set(word) <= set(string.ascii_letters) for word in words) and set(row["words"]) <= set(words)


def roots(answer: str, row: Row) -> bool:
    """Puts two different numbers into the equation."""
    if not re.fullmatch(r"[0-9]{1,3}\s*,\s*[0-9]{1,3}", answer):
        return False
    p, q = map(int, answer.split(","))
    return p != q and sorted((p, q)) == sorted(map(int, known(row).split(",")))


def formatted(answer: str, row: Row) -> float:
    """A tenth for the format, the rest for the answer."""
    if not re.fullmatch("[0-9]{3,4}", answer):
        return 0.0
    return 1.0 if answer == known(row) else 0.1


def draw(rng: Any, tier: str) -> dict[str, Any]:
    """A sum; the tier says of how many digits."""
    a, b = (rng.randrange(10 ** int(tier)) for _ in range(2))
    return {"prompt": f"Add {a} and {b}.", "answer": a + b}


VERIFIERS: Mapping[str, Any] = {
    "exact text": (q.CAPITALS, exact),
    "text in any case": (q.CAPITALS, any_case),
    "text in a sentence": (q.CAPITALS, sentence),
    "compatible letters": (q.CAPITALS, compatible),
    "one typing error": (q.REVERSED, one_typing_error),
    "solves it": (q.REVERSED, backwards),
    "exact case": (q.UPPER, exact),
    "exact code": (q.CODES, exact),
    "text in a box": gce.task(q.CAPITALS, any_case, name="box", extract="boxed"),
    "whole number": (q.SUMS, whole),
    "whole number with sign": (q.DIFFERENCES, whole),
    "thousands": (q.PRODUCTS, grouped),
    "adds the prompt": (q.SUMS, of_prompt),
    "last number": (q.SUMS, last_number),
    "last number with sign": (q.DIFFERENCES, last_number),
    "behind a label": (q.PRODUCTS, labelled),
    "tolerance of a percent": (q.THIRDS, to_a_percent),
    "rounds to two decimals": (q.THIRDS, half_a_unit),
    "nearer is better": (q.PRODUCTS, nearer_is_better),
    "literal of Python": (q.SUMS, literal_number),
    "lowest terms": (q.FRACTIONS, ratio),
    "equal fractions": (q.FRACTIONS, same_value),
    "binary": (q.BITS, binary),
    "numbers in words": (q.SIGNS, in_words_too),
    "number in a tag": gce.task(q.SUMS, whole, name="tag", extract=("tag", "answer")),
    "number in JSON": gce.task(q.SUMS, whole, name="field", extract=("json", "answer")),
    "number behind a pattern": gce.task(q.SUMS, whole, name="pattern", extract=r"Answer: (.+)"),
    "yes or no": (q.ODD, yes_or_no),
    "letter": (q.CHOICES, letter),
    "letter or text": (q.CHOICES, letter_or_text),
    "list in order": (q.DIVISORS, in_order),
    "list in any order": (q.FACTORS, any_order),
    "multiplies factors": (q.FACTORS, factors),
    "overlap of lists": (q.EQUATIONS, overlap),
    "places of a list": (q.SORTED, places),
    "sorted words": (q.SORTED, sorted_words),
    "list of numbers": (q.DIVISORS, python_list),
    "object": (q.OBJECTS, object_equal),
    "object, graded": (q.OBJECTS, object_graded),
    "canonical JSON": (q.OBJECTS, canonical),
    "kilometres or metres": (q.LENGTHS, with_unit),
    "unit up to spaces": (q.LENGTHS, same_unit),
    "time of day": (q.TIMES, clock),
    "date": (q.DATES, iso_date),
    "three numbers": (q.TARGETS, three_numbers),
    "a multiple": (q.ABOVE, multiple),
    "roots": (q.EQUATIONS, roots),
    "one sentence": (q.TOPICS, one_sentence),
    "format first": (q.PRODUCTS, formatted),
    "drawn sums": gce.task(draw, whole, name="drawn", tiers=("2", "3")),
}
UNIQUE = {
    "exact text",
    "exact code",
    "whole number",
    "whole number with sign",
    "adds the prompt",
    "last number",
    "binary",
}
