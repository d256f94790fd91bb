"""Fifty verifiers without a bug: strict about what their prompts ask for, and about nothing else.

Questions are drawn once, with fixed seeds, and the column `answer` is computed. Where a question has several right
answers, or grants a tolerance, a second judge in `ACCEPTS` decides in another way.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import gce

__all__ = ["ACCEPTS", "UNIQUE", "VERIFIERS"]

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]

COUNT = 40
"""Questions of a verifier."""
ALONE = "Write it alone on the last line"
PLAIN = f"{ALONE}, as a whole number in the digits 0 to 9, without leading zeros, signs, commas or units."
SIGNED = f"{PLAIN[:-1].replace(', signs', ', plus signs')}; a negative number starts with -."
_WORDS = (
    "almond beacon candle desert effort fabric garden hollow island jungle knight lagoon marble needle oyster pepper "
    "quiver ribbon saddle timber urchin velvet walnut yellow zipper anchor bridge carpet dragon engine falcon ginger "
    "hammer insect jacket kettle lizard magnet nectar orchid"
)
WORDS = _WORDS.split()


def _different(make: Callable[[random.Random], dict[str, Any] | None], seed: str, count: int = COUNT) -> Rows:
    """`count` rows with different prompts; where `make` gives none, it is asked again."""
    rng = random.Random(seed)
    rows: dict[str, dict[str, Any]] = {}
    while len(rows) < count:
        if row := make(rng):
            rows.setdefault(row["prompt"], row)
    return list(rows.values())


def _exact(answer: str, problem: Row) -> bool:
    """The prompt allows one way to write the answer."""
    return answer == str(problem["answer"])


def _whole(text: str) -> int | None:
    """A whole number as the prompts ask for it, of at most 12 digits."""
    return int(text) if re.fullmatch("0|[1-9][0-9]{0,11}", text) else None


def _wholes(text: str, separator: str) -> list[int] | None:
    """Whole numbers with exactly this separator between two."""
    found = [_whole(part) for part in text.split(separator)]
    return None if None in found else [number for number in found if number is not None]


def _line(response: str) -> str:
    """The last line, for second judges."""
    return response.rstrip().split("\n")[-1].strip()


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


# Numbers


def _product(rng: random.Random) -> dict[str, Any]:
    a, b = rng.randrange(12, 99), rng.randrange(12, 99)
    return {"prompt": f"What is {a} times {b}? {PLAIN}", "answer": a * b}


def _remainder(rng: random.Random) -> dict[str, Any]:
    a, b = rng.randrange(1000, 9999), rng.randrange(23, 97)
    return {"prompt": f"What is the remainder of {a} divided by {b}? {PLAIN}", "answer": a % b, "a": a, "b": b}


def _remainder_reward(answer: str, problem: Row) -> bool:
    found = _whole(answer)
    return found is not None and found < problem["b"] and (problem["a"] - found) % problem["b"] == 0


def _difference(rng: random.Random) -> dict[str, Any]:
    a, b = rng.randrange(10, 900), rng.randrange(10, 900)
    return {"prompt": f"What is {a} minus {b}? {SIGNED}", "answer": a - b}


def _gcd(rng: random.Random) -> dict[str, Any]:
    common = rng.randrange(2, 40)
    a, b = common * rng.randrange(2, 30), common * rng.randrange(2, 30)
    return {
        "prompt": f"What is the greatest common divisor of {a} and {b}? Write it once in \\boxed{{}}, as a whole "
        "number in the digits 0 to 9, and nothing else in the box.",
        "answer": math.gcd(a, b),
    }


def _hypotenuse(rng: random.Random) -> dict[str, Any] | None:
    a, b = rng.randrange(2, 60), rng.randrange(2, 60)
    square = a * a + b * b
    if math.isqrt(square) ** 2 == square:
        return None
    hundredths = (math.isqrt(40000 * square) + 1) // 2
    return {
        "prompt": f"The legs of a right triangle are {a} and {b} long. How long is its hypotenuse, rounded to two "
        f"decimals? {ALONE}, with exactly two digits after the point and without a unit.",
        "answer": f"{hundredths // 100}.{hundredths % 100:02}",
    }


def _fractions(rng: random.Random) -> dict[str, Any]:
    a, b = (Fraction(rng.randrange(1, 12), rng.randrange(3, 13)) for _ in range(2))
    total = a + b
    return {
        "prompt": f"What is {a.numerator}/{a.denominator} + {b.numerator}/{b.denominator}? {ALONE}, as a fraction "
        "p/q in lowest terms (an improper one where it is above 1, and q = 1 where it is whole), without spaces.",
        "answer": f"{total.numerator}/{total.denominator}",
    }


def _percentage(rng: random.Random) -> dict[str, Any]:
    share, whole = rng.randrange(1, 99), rng.randrange(20, 900)
    return {
        "prompt": f"What is {share} % of {whole}? {ALONE}, exactly, as a decimal number such as 12, 12.3 or 12.34: "
        "digits, with a point where needed. Zeros at the end do no harm; six digits after the point are the most.",
        "answer": f"{Decimal(share * whole) / 100}",
        "share": share,
        "whole": whole,
    }


_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,6})?")


def _percentage_reward(answer: str, problem: Row) -> bool:
    return bool(_DECIMAL.fullmatch(answer)) and Decimal(answer) * 100 == problem["share"] * problem["whole"]


def _percentage_judge(row: Row, response: str) -> bool:
    line = _line(response)
    return bool(_DECIMAL.fullmatch(line)) and Fraction(line) == Fraction(row["share"] * row["whole"], 100)


def _square_root(rng: random.Random) -> dict[str, Any] | None:
    number = rng.randrange(200, 9000)
    if math.isqrt(number) ** 2 == number:
        return None
    return {
        "prompt": f"What is the square root of {number}? {ALONE}, as a decimal number such as 12.3456, with at most "
        "six digits after the point. Every number within 0.001 of the root is right.",
        "answer": f"{math.sqrt(number):.4f}",
        "number": number,
    }


def _square_root_reward(answer: str, problem: Row) -> bool:
    if not _DECIMAL.fullmatch(answer):
        return False
    found, off = Fraction(answer), Fraction(1, 1000)
    return bool(max(found - off, Fraction(0)) ** 2 <= problem["number"] <= (found + off) ** 2)


def _square_root_judge(row: Row, response: str) -> bool:
    """In millionths: between the root less a thousandth and the root plus one."""
    line = _line(response)
    if not _DECIMAL.fullmatch(line):
        return False
    millionths, root = int(Decimal(line) * 10**6), math.isqrt(row["number"] * 10**12)
    return root - 1000 < millionths <= root + 1000


def _binary(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(20, 900)
    return {
        "prompt": f"Write the decimal number {number} in binary, alone on the last line, in the digits 0 and 1 without "
        "a prefix, leading zeros or spaces.",
        "answer": f"{number:b}",
    }


def _hexadecimal(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(1000, 60000)
    return {
        "prompt": f"Write the decimal number {number} in hexadecimal, alone on the last line, in the digits 0 to 9 and "
        "the lower-case letters a to f, without a prefix, leading zeros or spaces.",
        "answer": f"{number:x}",
    }


def _area(rng: random.Random) -> dict[str, Any]:
    a, b = rng.randrange(11, 99), rng.randrange(11, 99)
    return {
        "prompt": f"A rectangle is {a / 10} m long and {b / 10} m wide. What is its area in square centimetres? "
        f"{ALONE}: the number without commas, one space, and the unit cm^2, as 500 cm^2.",
        "answer": f"{a * b * 100} cm^2",
    }


def _price(rng: random.Random) -> dict[str, Any]:
    prices = [rng.randrange(105, 4000) for _ in range(3)]
    total = sum(prices)
    listed = ", ".join(f"{price // 100}.{price % 100:02}" for price in prices)
    return {
        "prompt": f"Three items cost {listed} euros. What do they cost together? {ALONE}, in euros with exactly two "
        "digits after the point, without a currency sign.",
        "answer": f"{total // 100}.{total % 100:02}",
    }


def _digit_sum(rng: random.Random) -> dict[str, Any]:
    base, power = rng.randrange(2, 10), rng.randrange(5, 40)
    return {
        "prompt": f"What is the sum of the decimal digits of {base} to the power of {power}? {PLAIN}",
        "answer": sum(map(int, str(base**power))),
    }


def _choose(rng: random.Random, tier: str) -> dict[str, Any]:
    n = rng.randrange(5, 12) if tier == "small" else rng.randrange(12, 40)
    k = rng.randrange(2, n - 1)
    things = rng.choice(("books", "cards", "coins", "flags", "hats", "keys", "maps", "photos", "songs", "stamps"))
    return {
        "prompt": f"In how many ways can {k} of {n} different {things} be chosen, without regard to order? {PLAIN}",
        "answer": math.comb(n, k),
    }


def _equation(rng: random.Random) -> dict[str, Any]:
    a, x, b = rng.randrange(2, 12), rng.choice((-1, 1)) * rng.randrange(1, 60), rng.randrange(1, 90)
    return {
        "prompt": f"Solve {a}x + {b} = {a * x + b} for x. Reply with one line and nothing else, x = and a whole number "
        "in digits without leading zeros (a negative one starts with -), as x = 7 or x = -7.",
        "answer": x,
    }


# Text and choice

_SYMBOLS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr"
)
_ELEMENTS: Rows = [
    {
        "prompt": f"What is the symbol of the chemical element with atomic number {number}? {ALONE}, with upper and "
        "lower case as usual.",
        "answer": symbol,
    }
    for number, symbol in enumerate(_SYMBOLS.split(), 1)
]


def _letter(rng: random.Random) -> dict[str, Any] | None:
    numbers = rng.sample(range(100, 1000), 4)
    if sum(map(_is_prime, numbers)) != 1:
        return None
    choices = ", ".join(f"{letter}) {number}" for letter, number in zip("ABCD", numbers, strict=True))
    return {
        "prompt": f"Exactly one of these is prime: {choices}. Which one? Write its letter, A, B, C or D, alone on the "
        "last line, upper case and without a parenthesis.",
        "answer": "ABCD"[[*map(_is_prime, numbers)].index(True)],
    }


def _divides(rng: random.Random) -> dict[str, Any]:
    divisor = rng.randrange(3, 13)
    number = divisor * rng.randrange(20, 90) + rng.choice((0, rng.randrange(1, divisor)))
    return {
        "prompt": f"Is {number} divisible by {divisor}? Write yes or no, in lower case, alone on the last line.",
        "answer": "no" if number % divisor else "yes",
    }


def _mirror(rng: random.Random) -> dict[str, Any]:
    word = rng.choice(WORDS) + rng.choice(WORDS)
    return {
        "prompt": f"Write the letters of {word!r} in reverse order, alone on the last line, in lower case and without "
        "spaces or quotation marks.",
        "answer": word[::-1],
    }


def _shifted(word: str, by: int) -> str:
    return "".join(chr((ord(letter) - 97 + by) % 26 + 97) for letter in word)


def _caesar(rng: random.Random) -> dict[str, Any]:
    word, by = rng.choice(WORDS), rng.randrange(1, 26)
    return {
        "prompt": f"Replace each letter of {word!r} by the letter {by} places later in the alphabet; after z comes a "
        "again. Write the result alone on the last line, in lower case and without quotation marks.",
        "answer": _shifted(word, by),
    }


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _weekday(rng: random.Random) -> dict[str, Any]:
    day = datetime.date(1900, 1, 1) + datetime.timedelta(rng.randrange(60000))
    return {
        "prompt": f"Which weekday is {day.isoformat()} in the Gregorian calendar? Write its English name in full, "
        "alone on the last line. Upper and lower case do not matter.",
        "answer": DAYS[day.weekday()],
    }


def _weekday_reward(answer: str, problem: Row) -> bool:
    return answer.isascii() and answer.lower() == problem["answer"].lower()


_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
ONES = _ONES.split()
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def _in_words(number: int) -> str:
    if number >= 100:
        return f"{ONES[number // 100]} hundred" + (f" {_in_words(number % 100)}" if number % 100 else "")
    if number < 20:
        return ONES[number]
    return TENS[number // 10 - 2] + (f"-{ONES[number % 10]}" if number % 10 else "")


def _spelled(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(1, 1000)
    return {
        "prompt": f"Write {number} in English words, alone on the last line, in lower case, with a hyphen in numbers "
        "such as forty-two, single spaces, and without 'and', as in six hundred forty-two.",
        "answer": _in_words(number),
    }


def _longest(rng: random.Random) -> dict[str, Any]:
    words = [word[: rng.randrange(3, 6)] for word in rng.sample(WORDS, 4)] + [rng.choice(WORDS) + rng.choice("aeiou")]
    rng.shuffle(words)
    return {
        "prompt": f"Which of these strings is the longest: {', '.join(words)}? Write it alone on the last line, as it "
        "stands here, without punctuation.",
        "answer": max(words, key=len),
    }


def _comparison(rng: random.Random) -> dict[str, Any]:
    sign = rng.choice("<=>")
    a, b, c = rng.randrange(11, 60), rng.randrange(11, 60), rng.randrange(11, 60)
    d = a * b - c + {"<": rng.randrange(1, 9), "=": 0, ">": -rng.randrange(1, 9)}[sign]
    return {
        "prompt": f"Which sign belongs between {a} * {b} and {c} + {d}: <, = or >? Write the sign alone on the last "
        "line.",
        "answer": sign,
    }


def _roman(number: int) -> str:
    signs = {100: "C", 90: "XC", 50: "L", 40: "XL", 10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
    written = ""
    for value, sign in signs.items():
        written += sign * (number // value)
        number %= value
    return written


def _roman_number(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(4, 390)
    return {
        "prompt": f"Write {number} in Roman numerals, alone on the last line, in upper-case letters and the usual "
        "subtractive form, as XIV for 14.",
        "answer": _roman(number),
    }


# Structure


def _read_json(text: str) -> Any:
    """A JSON text of at most 500 characters; None where it is none, or names a field twice."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("a field twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=fields) if len(text) <= 500 else None
    except (ValueError, RecursionError):
        return None


def _same(found: Any, expected: Any) -> bool:
    """Equal in types, too: neither True nor 1.0 is 1."""
    if type(found) is not type(expected):
        return False
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_same(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    return bool(found == expected)


def _json_reward(answer: str, problem: Row) -> bool:
    return _same(_read_json(answer), json.loads(problem["answer"]))


def _letters(rng: random.Random) -> dict[str, Any]:
    text = "".join(rng.choice("abcd") for _ in range(rng.randrange(8, 14)))
    return {
        "prompt": f"How often is each letter in {text!r}? Reply with JSON and nothing else: an object with the letters "
        'that occur, each with its count as a whole number, as {"x": 2, "y": 1}.',
        "answer": json.dumps(dict(sorted(Counter(text).items()))),
    }


def _total_field(rng: random.Random) -> dict[str, Any]:
    numbers = [rng.randrange(10, 500) for _ in range(4)]
    return {
        "prompt": f"Add {', '.join(map(str, numbers))}. Reply with JSON and nothing else: an object with the field "
        'total, a whole number in digits (as a number or as text), as {"total": 7}.',
        "answer": sum(numbers),
    }


def _ascending(rng: random.Random) -> dict[str, Any]:
    numbers = [rng.randrange(10, 60) for _ in range(8)]
    return {
        "prompt": f"Sort {', '.join(map(str, numbers))}, the smallest first; keep numbers that occur twice. Write all "
        "eight on the last line, separated by a comma and one space.",
        "answer": ", ".join(map(str, sorted(numbers))),
    }


def _divisors(rng: random.Random) -> dict[str, Any]:
    number = rng.choice([each for each in range(12, 200) if sum(each % d == 0 for d in range(1, each)) > 4])
    return {
        "prompt": f"Write all positive divisors of {number}, 1 and {number} included, each once and in any order, on "
        "the last line, separated by a comma and one space, in digits without leading zeros.",
        "answer": ", ".join(str(divisor) for divisor in range(1, number + 1) if number % divisor == 0),
        "number": number,
    }


def _divisors_reward(answer: str, problem: Row) -> bool:
    found, number = _wholes(answer, ", "), problem["number"]
    return found is not None and sorted(found) == [each for each in range(1, number + 1) if number % each == 0]


def _divisors_judge(row: Row, response: str) -> bool:
    """Against both of each pair of divisors, as sorted texts."""
    number = row["number"]
    pairs = [{each, number // each} for each in range(1, math.isqrt(number) + 1) if not number % each]
    return sorted(_line(response).split(", ")) == sorted(map(str, itertools.chain.from_iterable(pairs)))


def _intersection(rng: random.Random) -> dict[str, Any]:
    a, b, c, d = sorted(rng.sample(range(80), 4))
    first, second = rng.choice((((a, c), (b, d)), ((b, d), (a, c)), ((a, d), (b, c)), ((b, c), (a, d))))
    return {
        "prompt": f"What is the intersection of the closed intervals [{first[0]}, {first[1]}] and [{second[0]}, "
        f"{second[1]}]? {ALONE}, in the same form: square brackets, a comma and one space.",
        "answer": f"[{b}, {c}]",
    }


def _date(rng: random.Random) -> dict[str, Any]:
    start, days = datetime.date(2023, 1, 1) + datetime.timedelta(rng.randrange(900)), rng.randrange(20, 400)
    return {
        "prompt": f"Which date is {days} days after {start.isoformat()}? {ALONE}, as YYYY-MM-DD.",
        "answer": (start + datetime.timedelta(days)).isoformat(),
    }


def _later(rng: random.Random) -> dict[str, Any]:
    now, later = rng.randrange(1440), rng.randrange(100, 1300)
    at = (now + later) % 1440
    return {
        "prompt": f"It is {now // 60:02}:{now % 60:02}. What time is it {later} minutes later? {ALONE}, as HH:MM on a "
        "24-hour clock from 00:00 to 23:59, with two digits for the hour and two for the minute.",
        "answer": f"{at // 60:02}:{at % 60:02}",
    }


def _matrices(rng: random.Random) -> dict[str, Any]:
    a, b = ([[rng.randrange(1, 9) for _ in range(2)] for _ in range(2)] for _ in range(2))
    product = [[sum(a[i][k] * b[k][j] for k in range(2)) for j in range(2)] for i in range(2)]
    return {
        "prompt": f"What is the matrix product of {a} and {b}, in this order? Reply with JSON and nothing else: a list "
        "of two rows, each a list of two whole numbers.",
        "answer": json.dumps(product),
    }


def _version(rng: random.Random) -> dict[str, Any]:
    versions = rng.sample([f"{major}.{minor}.{rng.randrange(20)}" for major in (1, 2) for minor in range(4, 16)], 5)
    return {
        "prompt": f"Versions are compared part by part as numbers, so that 1.10.0 is newer than 1.9.5. Which of "
        f"{', '.join(versions)} is the newest? {ALONE}, as it stands here.",
        "answer": max(versions, key=lambda each: [int(part) for part in each.split(".")]),
    }


def _table_row(rng: random.Random) -> dict[str, Any]:
    numbers = [rng.randrange(10, 300) for _ in range(5)]
    name = rng.choice(WORDS)
    return {
        "prompt": f"The sales of {name} were {', '.join(map(str, numbers))}. Write one line of CSV with the columns "
        "name, smallest, largest and total, separated by commas without spaces or quotation marks, between <row> and "
        "</row>. Write the tags once.",
        "answer": f"{name},{min(numbers)},{max(numbers)},{sum(numbers)}",
    }


# Several right answers, decided by constraints


def _composite(rng: random.Random) -> dict[str, Any]:
    a, b = rng.randrange(3, 60), rng.randrange(3, 60)
    return {
        "prompt": f"Write {a * b} as a product of two whole numbers that are both greater than 1. Write it alone on "
        "the last line, as 3 x 5: digits without leading zeros, and a space on both sides of the x.",
        "answer": f"{a} x {b}",
        "number": a * b,
    }


def _composite_reward(answer: str, problem: Row) -> bool:
    found = _wholes(answer, " x ")
    return found is not None and len(found) == 2 and min(found) > 1 and found[0] * found[1] == problem["number"]


def _composite_judge(row: Row, response: str) -> bool:
    number = row["number"]
    return _line(response) in {f"{each} x {number // each}" for each in range(2, number) if number % each == 0}


def _subset(rng: random.Random) -> dict[str, Any]:
    numbers = [rng.randrange(11, 99) for _ in range(8)]
    chosen = rng.sample(numbers, 4)
    return {
        "prompt": f"Choose some of {', '.join(map(str, numbers))} that sum to {sum(chosen)}. A number may be chosen as "
        "often as it stands in the list. Write your choice on the last line, in any order, separated by single spaces.",
        "answer": " ".join(map(str, chosen)),
        "numbers": numbers,
        "target": sum(chosen),
    }


def _subset_reward(answer: str, problem: Row) -> bool:
    found = _wholes(answer, " ")
    return found is not None and sum(found) == problem["target"] and Counter(found) <= Counter(problem["numbers"])


def _subset_judge(row: Row, response: str) -> bool:
    """Against all subsets, as sorted texts."""
    numbers = row["numbers"]
    sets = itertools.chain.from_iterable(itertools.combinations(numbers, size) for size in range(1, len(numbers) + 1))
    right = {tuple(sorted(map(str, each))) for each in sets if sum(each) == row["target"]}
    return tuple(sorted(_line(response).split(" "))) in right


def _path(rng: random.Random) -> dict[str, Any] | None:
    places = rng.sample("ABCDEFGHJK", 8)
    route = rng.sample(places, 5)
    roads = {*itertools.pairwise(route), *rng.sample([*itertools.permutations(places, 2)], 9)}
    if (route[0], route[-1]) in roads:
        return None
    listed = [f"{a}{b}" for a, b in sorted(roads)]
    return {
        "prompt": f"One-way roads lead from the first to the second of these places: {', '.join(listed)}. Find a route "
        f"from {route[0]} to {route[-1]} that visits no place twice. Write it on the last line, as A > B > C.",
        "answer": " > ".join(route),
        "roads": listed,
        "start": route[0],
        "goal": route[-1],
    }


def _path_reward(answer: str, problem: Row) -> bool:
    route = answer.split(" > ")
    if route[0] != problem["start"] or route[-1] != problem["goal"] or len({*route}) < len(route):
        return False
    roads = {(road[0], road[1]) for road in problem["roads"]}
    return all(pair in roads for pair in itertools.pairwise(route))


def _path_judge(row: Row, response: str) -> bool:
    """Against all routes."""
    routes, right = [row["start"]], set()
    while routes:
        route = routes.pop()
        if route[-1] == row["goal"]:
            right.add(" > ".join(route))
            continue
        routes += [route + road[1] for road in row["roads"] if road[0] == route[-1] and road[1] not in route]
    return _line(response) in right


COLOURS = ("red", "green", "blue")


def _map(rng: random.Random) -> dict[str, Any]:
    colours = {place: rng.choice(COLOURS) for place in "ABCDEF"}
    apart = [(a, b) for a, b in itertools.combinations("ABCDEF", 2) if colours[a] != colours[b]]
    borders = sorted(rng.sample(apart, len(apart) * 5 // 6))
    return {
        "prompt": "Colour the places A, B, C, D, E and F red, green or blue so that neighbours differ. Neighbours are "
        f"{', '.join(f'{a}-{b}' for a, b in borders)}. Write all six on the last line in alphabetical order, as A=red, "
        "B=blue, C=red, D=green, E=red, F=blue.",
        "answer": ", ".join(f"{place}={colour}" for place, colour in colours.items()),
        "borders": [list(border) for border in borders],
    }


def _map_reward(answer: str, problem: Row) -> bool:
    pairs = [part.split("=") for part in answer.split(", ")]
    if any(len(pair) != 2 or pair[1] not in COLOURS for pair in pairs) or [pair[0] for pair in pairs] != [*"ABCDEF"]:
        return False
    colours = {place: colour for place, colour in pairs}
    return all(colours[a] != colours[b] for a, b in problem["borders"])


_COLOURINGS = {
    ", ".join(map("=".join, zip("ABCDEF", colours, strict=True))): colours
    for colours in itertools.product(COLOURS, repeat=6)
}


def _map_judge(row: Row, response: str) -> bool:
    """Looks it up among all 729 ways to colour six places."""
    colours = _COLOURINGS.get(_line(response))
    return colours is not None and all(colours[ord(a) - 65] != colours[ord(b) - 65] for a, b in row["borders"])


def _order(rng: random.Random) -> dict[str, Any]:
    order = rng.sample("ABCDEF", 6)
    rules = sorted(rng.sample([*itertools.combinations(order, 2)], 8))
    return {
        "prompt": "Put the tasks A, B, C, D, E and F in an order that keeps these rules: "
        f"{', '.join(f'{a} before {b}' for a, b in rules)}. Write all six, each once, on the last line, separated by "
        "single spaces.",
        "answer": " ".join(order),
        "rules": [list(rule) for rule in rules],
    }


def _order_reward(answer: str, problem: Row) -> bool:
    order = answer.split(" ")
    return sorted(order) == [*"ABCDEF"] and all(order.index(a) < order.index(b) for a, b in problem["rules"])


_ORDERS = {" ".join(order) for order in itertools.permutations("ABCDEF")}


def _order_judge(row: Row, response: str) -> bool:
    """Looks it up among all 720 orders, and finds each rule by an expression."""
    line = _line(response)
    return line in _ORDERS and all(re.search(f"{a}.*{b}", line) for a, b in row["rules"])


def _boards(size: int, first: int) -> list[tuple[int, ...]]:
    """All ways to place queens, columns by row, the first in column `first`."""
    boards: list[tuple[int, ...]] = [(first,)]
    for row in range(1, size):
        boards = [
            (*board, column)
            for board in boards
            for column in range(1, size + 1)
            if all(column != other and abs(column - other) != row - above for above, other in enumerate(board))
        ]
    return boards


_BOARDS = {(size, first): _boards(size, first) for size in range(4, 9) for first in range(1, size + 1)}
_QUEENS: Rows = [
    {
        "prompt": f"Place {size} queens on a board of {size} x {size} so that none attacks another. The queen of row 1 "
        f"stands in column {first}. Write the columns of the queens of rows 1 to {size} on the last line, separated by "
        "single spaces.",
        "answer": " ".join(map(str, random.Random(size * first).choice(boards))),
        "size": size,
        "first": first,
    }
    for (size, first), boards in _BOARDS.items()
    if boards
]


def _queens_reward(answer: str, problem: Row) -> bool:
    columns, size = _wholes(answer, " "), problem["size"]
    if columns is None or len(columns) != size or columns[0] != problem["first"]:
        return False
    rising = {column + row for row, column in enumerate(columns)}
    falling = {column - row for row, column in enumerate(columns)}
    return {*columns} == {*range(1, size + 1)} and len(rising) == len(falling) == size


def _queens_judge(row: Row, response: str) -> bool:
    return _line(response) in {" ".join(map(str, board)) for board in _BOARDS[row["size"], row["first"]]}


def _residue(rng: random.Random) -> dict[str, Any]:
    low, modulus = rng.randrange(100, 900), rng.randrange(11, 40)
    remainder, high = rng.randrange(modulus), low + 3 * modulus
    numbers = [each for each in range(low, high + 1) if each % modulus == remainder]
    return {
        "prompt": f"Find a whole number from {low} to {high} (both included) that leaves the remainder {remainder} "
        f"when divided by {modulus}. {PLAIN}",
        "answer": rng.choice(numbers),
        "low": low,
        "high": high,
        "modulus": modulus,
        "remainder": remainder,
    }


def _residue_reward(answer: str, problem: Row) -> bool:
    found = _whole(answer)
    if found is None or not problem["low"] <= found <= problem["high"]:
        return False
    return bool(found % problem["modulus"] == problem["remainder"])


def _residue_judge(row: Row, response: str) -> bool:
    right = range(row["remainder"], row["high"] + 1, row["modulus"])
    return _line(response) in {str(each) for each in right if each >= row["low"]}


_SQUARES = [column + row for column in "abcdefgh" for row in "12345678"]
_BISHOPS: Rows = [
    {
        "prompt": f"A bishop stands on {square} of an empty chessboard. Name a square that it reaches in one move. "
        "Write it alone on the last line, as e4: a lower-case letter and a digit.",
        "answer": random.Random(square).choice(
            [
                other
                for other in _SQUARES
                if other != square and abs(ord(other[0]) - ord(square[0])) == abs(int(other[1]) - int(square[1]))
            ]
        ),
        "square": square,
    }
    for square in _SQUARES
]


def _bishop_reward(answer: str, problem: Row) -> bool:
    square = problem["square"]
    if answer not in _SQUARES or answer == square:
        return False
    return abs(ord(answer[0]) - ord(square[0])) == abs(ord(answer[1]) - ord(square[1]))


def _bishop_judge(row: Row, response: str) -> bool:
    """Walks along the four diagonals until the edge."""
    reached = set()
    for x, y in itertools.product((-1, 1), repeat=2):
        column, line = ord(row["square"][0]) - 96 + x, int(row["square"][1]) + y
        while 1 <= column <= 8 and 1 <= line <= 8:
            reached.add(f"{chr(column + 96)}{line}")
            column, line = column + x, line + y
    return _line(response) in reached


def _meeting(rng: random.Random) -> dict[str, Any] | None:
    begins = sorted(rng.sample(range(540, 960, 15), 4))
    busy = [(begin, begin + rng.choice((30, 45, 60, 75))) for begin in begins]
    free = [at for at in range(540, 961) if all(at + 60 <= begin or end <= at for begin, end in busy)]
    if any(a[1] > b[0] for a, b in itertools.pairwise(busy)) or not 0 < len(free) < 120:
        return None
    listed = ", ".join(f"{_clock(begin)} to {_clock(end)}" for begin, end in busy)
    return {
        "prompt": f"You are busy {listed}. When can a meeting of 60 minutes start that lies between 09:00 and 17:00 "
        "and does not overlap with these times? It may begin when another ends, and end when another begins. "
        f"{ALONE}, as HH:MM on a 24-hour clock, as 09:05.",
        "answer": _clock(rng.choice(free)),
        "busy": [list(span) for span in busy],
    }


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _meeting_reward(answer: str, problem: Row) -> bool:
    found = re.fullmatch("([0-9]{2}):([0-5][0-9])", answer)
    if found is None:
        return False
    start = 60 * int(found[1]) + int(found[2])
    inside = start >= 9 * 60 and start + 60 <= 17 * 60
    return inside and all(start + 60 <= begin or end <= start for begin, end in problem["busy"])


def _meeting_judge(row: Row, response: str) -> bool:
    """Minute by minute."""
    taken = {minute for begin, end in row["busy"] for minute in range(begin, end)}
    starts = [start for start in range(540, 961) if taken.isdisjoint(range(start, start + 60))]
    return _line(response) in [*map(_clock, starts)]


COINS = (1, 2, 5, 10, 20, 50)


def _change(rng: random.Random) -> dict[str, Any]:
    coins = sorted(rng.choices(COINS, k=rng.randrange(4, 7)), reverse=True)
    return {
        "prompt": f"Pay exactly {sum(coins)} cents with exactly {len(coins)} coins of 1, 2, 5, 10, 20 or 50 cents. "
        "Write the values of the coins on the last line, in any order, separated by single spaces.",
        "answer": " ".join(map(str, coins)),
        "amount": sum(coins),
        "count": len(coins),
    }


def _change_reward(answer: str, problem: Row) -> bool:
    coins = _wholes(answer, " ")
    if coins is None or len(coins) != problem["count"]:
        return False
    return {*coins} <= {*COINS} and sum(coins) == problem["amount"]


def _change_judge(row: Row, response: str) -> bool:
    """Against all ways to take so many coins."""
    ways = itertools.combinations_with_replacement(COINS, row["count"])
    right = {tuple(sorted(map(str, way))) for way in ways if sum(way) == row["amount"]}
    return tuple(sorted(_line(response).split(" "))) in right


# Graded


def _terms(rng: random.Random) -> dict[str, Any]:
    start, step = rng.randrange(2, 60), rng.randrange(3, 20)
    terms = [start + step * place for place in range(8)]
    return {
        "prompt": f"A sequence starts {', '.join(map(str, terms[:3]))}, with a constant step. Write exactly the next "
        "five terms on the last line, separated by a comma and one space. Each term in its place is worth a fifth.",
        "answer": ", ".join(map(str, terms[3:])),
    }


def _terms_reward(answer: str, problem: Row) -> float:
    found, right = _wholes(answer, ", "), _wholes(problem["answer"], ", ")
    if found is None or right is None or len(found) != len(right):
        return 0.0
    return sum(a == b for a, b in zip(found, right, strict=True)) / len(right)


def _primes(rng: random.Random) -> dict[str, Any]:
    low = rng.randrange(10, 900)
    high = low + rng.randrange(20, 40)
    while sum(map(_is_prime, range(low, high + 1))) < 3:
        high += 1
    return {
        "prompt": f"Write all prime numbers from {low} to {high}, each once and in any order, on the last line, "
        "separated by a comma and one space. The score is F1 of your numbers and the primes; a number written twice "
        "makes it 0.",
        "answer": ", ".join(map(str, filter(_is_prime, range(low, high + 1)))),
        "low": low,
        "high": high,
    }


def _primes_reward(answer: str, problem: Row) -> float:
    found = _wholes(answer, ", ")
    if found is None or len({*found}) < len(found):
        return 0.0
    right = {*filter(_is_prime, range(problem["low"], problem["high"] + 1))}
    return 2 * len({*found} & right) / (len(found) + len(right))


def _primes_judge(row: Row, response: str) -> bool:
    """Whether it is all of them: what a sieve leaves, as sorted texts."""
    numbers = {*range(max(row["low"], 2), row["high"] + 1)}
    left = numbers.difference(*(range(2 * each, row["high"] + 1, each) for each in range(2, 40)))
    return sorted(_line(response).split(", ")) == sorted(map(str, left))


def _estimate(rng: random.Random) -> dict[str, Any]:
    a, b = rng.randrange(112, 989), rng.randrange(112, 989)
    return {
        "prompt": f"What is {a} times {b}? The exact number is worth 1, any other within 1 % a half. {PLAIN}",
        "answer": a * b,
    }


def _estimate_reward(answer: str, problem: Row) -> float:
    found, right = _whole(answer), problem["answer"]
    if found is None:
        return 0.0
    return 1.0 if found == right else 0.5 if 100 * abs(found - right) <= right else 0.0


def _three(rng: random.Random) -> dict[str, Any]:
    a, b = rng.randrange(40, 90), rng.randrange(11, 39)
    return {
        "prompt": f"What are the sum of {a} and {b}, {a} less {b}, and {a} times {b}? Write the three numbers in this "
        "order on the last line, separated by a comma and one space. Each is worth a third.",
        "answer": f"{a + b}, {a - b}, {a * b}",
    }


def _decoded(rng: random.Random) -> dict[str, Any]:
    word, by = rng.choice(WORDS) + rng.choice(WORDS), rng.randrange(1, 26)
    return {
        "prompt": f"Each letter of a word was replaced by the letter {by} places later in the alphabet, with a after "
        f"z: {_shifted(word, by)}. Write the original, {len(word)} lower-case letters, alone on the last line. The "
        "score is the share of letters that are right, and 0 where the length is wrong.",
        "answer": word,
    }


def _decoded_reward(answer: str, problem: Row) -> float:
    right = problem["answer"]
    if len(answer) != len(right):
        return 0.0
    return sum(map(str.__eq__, answer, right)) / len(right)


def _own(make: Callable[[random.Random], dict[str, Any] | None], seed: str, reward: Any, **options: Any) -> Any:
    return gce.task(_different(make, seed), reward, name=seed, **options)


VERIFIERS = {
    # Numbers
    "product": (_different(_product, "product"), _exact),
    "remainder": (_different(_remainder, "remainder"), _remainder_reward),
    "difference": (_different(_difference, "difference"), _exact),
    "greatest common divisor": _own(_gcd, "greatest common divisor", _exact, extract="boxed"),
    "hypotenuse to two decimals": (_different(_hypotenuse, "hypotenuse"), _exact),
    "sum of fractions": (_different(_fractions, "fractions"), _exact),
    "percentage": (_different(_percentage, "percentage"), _percentage_reward),
    "square root with a tolerance": (_different(_square_root, "root"), _square_root_reward),
    "binary": (_different(_binary, "binary"), _exact),
    "hexadecimal": (_different(_hexadecimal, "hexadecimal"), _exact),
    "area with its unit": (_different(_area, "area"), _exact),
    "price": (_different(_price, "price"), _exact),
    "digit sum of a power": (_different(_digit_sum, "digits"), _exact),
    "ways to choose": gce.task(_choose, _exact, name="ways to choose", tiers=("small", "large")),
    "linear equation": _own(_equation, "linear equation", _exact, extract="^x = (.+)$"),
    # Text and choice
    "chemical symbol": (_ELEMENTS, _exact),
    "letter of the prime": (_different(_letter, "letter"), _exact),
    "yes or no": (_different(_divides, "divides"), _exact),
    "mirrored word": (_different(_mirror, "mirror"), _exact),
    "shifted word": (_different(_caesar, "caesar"), _exact),
    "weekday": (_different(_weekday, "weekday"), _weekday_reward),
    "number in words": (_different(_spelled, "words"), _exact),
    "longest string": (_different(_longest, "longest"), _exact),
    "comparison": (_different(_comparison, "comparison"), _exact),
    "roman numeral": (_different(_roman_number, "roman"), _exact),
    # Structure
    "letter counts as JSON": _own(_letters, "letter counts as JSON", _json_reward, extract="text"),
    "total in a field of JSON": _own(_total_field, "total in a field of JSON", _exact, extract=("json", "total")),
    "sorted list": (_different(_ascending, "ascending"), _exact),
    "set of divisors": (_different(_divisors, "divisors"), _divisors_reward),
    "intersection of intervals": (_different(_intersection, "intersection"), _exact),
    "date after days": (_different(_date, "date"), _exact),
    "time after minutes": (_different(_later, "later"), _exact),
    "matrix product as JSON": _own(_matrices, "matrix product as JSON", _json_reward, extract="text"),
    "newest version": (_different(_version, "version"), _exact),
    "row of a table": _own(_table_row, "row of a table", _exact, extract=("tag", "row")),
    # Several right answers
    "two factors": (_different(_composite, "composite"), _composite_reward),
    "subset of a sum": (_different(_subset, "subset"), _subset_reward),
    "route": (_different(_path, "path"), _path_reward),
    "three colours": (_different(_map, "map"), _map_reward),
    "order of tasks": (_different(_order, "order"), _order_reward),
    "queens": (_QUEENS, _queens_reward),
    "number with a remainder": (_different(_residue, "residue"), _residue_reward),
    "bishop move": (_BISHOPS, _bishop_reward),
    "free hour": (_different(_meeting, "meeting"), _meeting_reward),
    "change with a number of coins": (_different(_change, "change"), _change_reward),
    # Graded
    "share of terms": (_different(_terms, "terms"), _terms_reward),
    "F1 of primes": (_different(_primes, "primes"), _primes_reward),
    "exact or close product": (_different(_estimate, "estimate"), _estimate_reward),
    "three results": (_different(_three, "three"), _terms_reward),
    "share of decoded letters": (_different(_decoded, "decoded"), _decoded_reward),
}

ACCEPTS = {
    "percentage": _percentage_judge,
    "square root with a tolerance": _square_root_judge,
    "set of divisors": _divisors_judge,
    "two factors": _composite_judge,
    "subset of a sum": _subset_judge,
    "route": _path_judge,
    "three colours": _map_judge,
    "order of tasks": _order_judge,
    "queens": _queens_judge,
    "number with a remainder": _residue_judge,
    "bishop move": _bishop_judge,
    "free hour": _meeting_judge,
    "change with a number of coins": _change_judge,
    "F1 of primes": _primes_judge,
}

_GRADED = {"share of terms", "exact or close product", "three results", "share of decoded letters"}
UNIQUE = VERIFIERS.keys() - (ACCEPTS.keys() - {"percentage"}) - _GRADED
