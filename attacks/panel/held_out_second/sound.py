"""50 verifiers without a bug: strict about the format that the prompt asks for, right about the rest."""

import ast
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

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
Reward = Callable[[str, Row], bool | float]

NUMBER = "Answer with the number alone, in digits, without leading zeros, separators or a unit."
WORDS: list[str] = re.findall(
    "[a-z]+",
    "anchor basket candle dragon engine forest garden hammer island jacket kettle ladder magnet needle orange pepper "
    "quartz ribbon saddle tunnel velvet walnut yellow zipper blanket chimney diamond feather gravity harvest journey "
    "lantern mustard network pyramid scarlet thunder unicorn village whisper absolute birthday creature elephant",
)
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
LOWER_NAMES = [
    "ada",
    "bo",
    "cy",
    "dee",
    "eli",
    "fay",
    "gus",
    "hal",
    "ivy",
    "jo",
    "kit",
    "leo",
    "mia",
    "ned",
    "oz",
    "pam",
]


def whole(text: str) -> int | None:
    """The integer that a text is in plain digits, or None."""
    text = text.strip(" ")
    return int(text) if INTEGER.fullmatch(text) else None


def wholes(text: str, separator: str = ",") -> list[int] | None:
    """The integers of a separated list, or None where a part is not one."""
    numbers = [whole(part) for part in text.split(separator)]
    return None if None in numbers else [number for number in numbers if number is not None]


def last_line(response: str) -> str:
    """The last line that is not blank, or nothing."""
    lines = [line.strip() for line in response.split("\n") if line.strip()]
    return lines[-1] if lines else ""


def whole_number(answer: str, problem: Row) -> bool:
    """One integer, equal to the answer."""
    return bool(whole(answer) == problem["answer"])


def exact(answer: str, problem: Row) -> bool:
    """The text itself, but for blanks around it."""
    return bool(answer.strip(" ") == problem["answer"])


def distinct(make: Callable[[random.Random], dict[str, Any] | None], seed: str, count: int = 36) -> Rows:
    """As many rows as asked for, no prompt twice and no answer more than twice."""
    rng = random.Random(seed)
    rows: dict[str, dict[str, Any]] = {}
    answers: Counter[str] = Counter()
    while len(rows) < count:
        row = make(rng)
        if row is None or row["prompt"] in rows or answers[str(row["answer"])] == 2:
            continue
        answers[str(row["answer"])] += 1
        rows[row["prompt"]] = row
    return list(rows.values())


# Numbers


def _product(rng: random.Random) -> dict[str, Any]:
    a, b = rng.randint(12, 99), rng.randint(101, 999)
    return {"prompt": f"What is {a} times {b}? {NUMBER}", "answer": a * b}


def _days(rng: random.Random) -> dict[str, Any]:
    first = datetime.date(2001, 1, 1) + datetime.timedelta(rng.randrange(8000))
    days = rng.randint(40, 900)
    return {
        "prompt": f"How many days after {first} is {first + datetime.timedelta(days)}? {NUMBER}",
        "answer": days,
    }


def _digit_sum(rng: random.Random) -> dict[str, Any]:
    base, power = rng.choice([n for n in range(3, 30) if n % 10]), rng.randint(6, 30)
    return {
        "prompt": f"What is the sum of the decimal digits of {base} to the power of {power}? {NUMBER}",
        "answer": sum(map(int, str(base**power))),
    }


def _fraction(rng: random.Random) -> dict[str, Any] | None:
    a, c = rng.randint(1, 9), rng.randint(1, 9)
    b, d = rng.randint(3, 14), rng.randint(3, 14)
    total = Fraction(a, b) + Fraction(c, d)
    if total.denominator == 1:
        return None
    prompt = (
        f"What is {a}/{b} + {c}/{d}? Answer with one fraction in lowest terms in the form p/q, in digits and without "
        "spaces; a value above one stays an improper fraction."
    )
    return {"prompt": prompt, "answer": f"{total.numerator}/{total.denominator}"}


def lowest_terms(answer: str, problem: Row) -> bool:
    """Numerator, slash, denominator, with no common divisor, of the right value."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", answer.strip(" "))
    if match is None:
        return False
    p, q = int(match[1]), int(match[2])
    return math.gcd(p, q) == 1 and Fraction(p, q) == Fraction(problem["answer"])


def _price(rng: random.Random) -> dict[str, Any]:
    count, cents, extra = rng.randint(2, 19), rng.randint(101, 999), rng.randint(101, 4999)
    total = Decimal(count * cents + extra) / 100
    prompt = (
        f"{count} pens at {cents / 100:.2f} euros each and a bag at {extra / 100:.2f} euros: what is the total in "
        "euros? Answer with the amount alone, with a point and exactly two decimals, without a currency sign."
    )
    return {"prompt": prompt, "answer": f"{total:.2f}"}


def amount(answer: str, problem: Row) -> bool:
    """A decimal number with two places, equal to the amount."""
    text = answer.strip(" ")
    return bool(re.fullmatch(r"[1-9][0-9]{0,5}\.[0-9]{2}", text)) and Decimal(text) == Decimal(problem["answer"])


def _binary(rng: random.Random) -> dict[str, Any]:
    n = rng.randint(64, 2047)
    return {
        "prompt": f"Write {n} in binary. Answer with the binary digits alone, without a prefix or leading zeros.",
        "answer": f"{n:b}",
        "number": n,
    }


def binary(answer: str, problem: Row) -> bool:
    """Binary digits that begin with 1, of the right value."""
    text = answer.strip(" ")
    return bool(re.fullmatch(r"1[01]{0,31}", text)) and int(text, 2) == problem["number"]


def _modular(rng: random.Random) -> dict[str, Any]:
    base, power, modulus = rng.randint(3, 30), rng.randint(11, 60), rng.randint(500, 1999)
    return {
        "prompt": f"What is the remainder of {base} to the power of {power} on division by {modulus}? {NUMBER}",
        "answer": pow(base, power, modulus),
    }


def _gcd(rng: random.Random) -> dict[str, Any]:
    common = rng.randint(6, 120)
    a, b = common * rng.randint(3, 20), common * rng.randint(3, 20)
    return {
        "prompt": f"What is the greatest common divisor of {a} and {b}? {NUMBER}",
        "answer": math.gcd(a, b),
        "a": a,
        "b": b,
    }


def greatest_divisor(answer: str, problem: Row) -> bool:
    """A positive integer that divides both numbers and leaves coprime quotients."""
    number = whole(answer)
    if number is None or number <= 0 or problem["a"] % number or problem["b"] % number:
        return False
    return math.gcd(problem["a"] // number, problem["b"] // number) == 1


def _polynomial(rng: random.Random) -> dict[str, Any]:
    a, b, c, x = rng.randint(2, 9), rng.randint(2, 20), rng.randint(1, 99), rng.randint(-12, 12)
    return {
        "prompt": f"What is {a}x^2 - {b}x - {c} for x = {x}? {NUMBER} A negative number begins with a hyphen.",
        "answer": a * x * x - b * x - c,
    }


def _roman(rng: random.Random) -> dict[str, Any]:
    n = rng.randint(40, 3999)
    rest, text = n, ""
    signs = {1000: "M", 900: "CM", 500: "D", 400: "CD", 100: "C", 90: "XC", 50: "L", 40: "XL"}
    signs |= {10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
    for value, sign in signs.items():
        text += sign * (rest // value)
        rest %= value
    return {"prompt": f"Which number is the Roman numeral {text}? {NUMBER}", "answer": n}


def _minutes(rng: random.Random) -> dict[str, Any]:
    start, length = rng.randint(300, 700), rng.randint(65, 700)
    end = start + length
    return {
        "prompt": f"How many minutes pass from {start // 60}:{start % 60:02} to {end // 60}:{end % 60:02} on the same "
        f"day, on a 24-hour clock? {NUMBER}",
        "answer": length,
    }


def _fahrenheit(rng: random.Random) -> dict[str, Any]:
    celsius = rng.randint(-60, 180)
    tenths = celsius * 18 + 320
    sign = "-" if tenths < 0 else ""
    return {
        "prompt": f"What is {celsius} degrees Celsius in degrees Fahrenheit? Answer with the number alone, in digits, "
        "with exactly one decimal after a point, and a hyphen before a negative number.",
        "answer": f"{sign}{abs(tenths) // 10}.{abs(tenths) % 10}",
    }


def one_decimal(answer: str, problem: Row) -> bool:
    """A decimal number with one place, equal to the answer."""
    text = answer.strip(" ")
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,4})\.[0-9]", text):
        return False
    return Decimal(text) == Decimal(problem["answer"])


def _root(rng: random.Random) -> dict[str, Any] | None:
    n = rng.randint(50, 5000)
    if math.isqrt(n) ** 2 == n:
        return None
    return {
        "prompt": f"What is the square root of {n}? Answer with the number alone, in digits, with three to six "
        "decimals after a point. It may be off by 0.001 at most.",
        "answer": f"{math.sqrt(n):.4f}",
        "square": n,
    }


def near_root(answer: str, problem: Row) -> bool:
    """A decimal number at most 0.001 from the root, decided in exact arithmetic."""
    text = answer.strip(" ")
    if not re.fullmatch(r"[1-9][0-9]{0,4}\.[0-9]{3,6}", text):
        return False
    value, slack = Fraction(text), Fraction(1, 1000)
    return bool((value - slack) ** 2 <= problem["square"] <= (value + slack) ** 2)


def _hexadecimal(rng: random.Random) -> dict[str, Any]:
    n = rng.randint(300, 65000)
    return {
        "prompt": f"Write {n} in hexadecimal. Answer with the digits alone, letters in lower case, without a prefix "
        "or leading zeros.",
        "answer": format(n, "x"),
    }


def _multiples(rng: random.Random) -> dict[str, Any]:
    top, (a, b) = rng.randint(200, 999), rng.sample(range(3, 16), 2)
    return {
        "prompt": f"How many integers from 1 to {top}, both included, are divisible by {a} or by {b} or by both? "
        f"{NUMBER}",
        "answer": sum(n % a == 0 or n % b == 0 for n in range(1, top + 1)),
    }


# Text and choices


def _largest(rng: random.Random) -> dict[str, Any] | None:
    labels = rng.sample([a + b for a in "ABCDEFGH" for b in "123456789"], 9)
    sums = [(rng.randint(100, 900), rng.randint(100, 900)) for _ in labels]
    totals = [a + b for a, b in sums]
    if totals.count(max(totals)) > 1:
        return None
    options = "; ".join(f"{label}: {a} + {b}" for label, (a, b) in zip(labels, sums, strict=True))
    return {
        "prompt": f"Which of these sums is the largest? {options}. Answer with its label alone, a capital letter and a "
        "digit.",
        "answer": labels[totals.index(max(totals))],
        "sums": [[label, a, b] for label, (a, b) in zip(labels, sums, strict=True)],
    }


def largest_sum(answer: str, problem: Row) -> bool:
    """The label of the largest sum."""
    return bool(answer.strip(" ") == max(problem["sums"], key=lambda entry: entry[1] + entry[2])[0])


def _reversed(rng: random.Random) -> dict[str, Any]:
    word = rng.choice(WORDS) + rng.choice(WORDS)
    return {
        "prompt": f'Write the letters of "{word}" in reverse order. Answer with the letters alone, in lower case, '
        "without quotation marks or spaces.",
        "answer": word[::-1],
    }


def _caesar(rng: random.Random) -> dict[str, Any]:
    word, shift = rng.choice(WORDS), rng.randint(2, 24)
    secret = "".join(chr((ord(letter) - 97 + shift) % 26 + 97) for letter in word)
    return {
        "prompt": f"Each letter of a word was moved forward by {shift} places in the alphabet, from z on to a. The "
        f"result is {secret}. Which word was it? Answer with the word alone, in lower case.",
        "answer": word,
        "secret": secret,
        "shift": shift,
    }


def deciphered(answer: str, problem: Row) -> bool:
    """A word in lower case that the cipher turns into the secret."""
    text = answer.strip(" ")
    if not re.fullmatch(r"[a-z]{1,40}", text):
        return False
    return bool("".join(chr((ord(c) - 97 + problem["shift"]) % 26 + 97) for c in text) == problem["secret"])


def _longest(rng: random.Random) -> dict[str, Any] | None:
    words = rng.sample(WORDS, 7)
    lengths = sorted(map(len, words))
    if lengths[-1] == lengths[-2]:
        return None
    return {
        "prompt": f"Which of these words has the most letters: {', '.join(words)}? Answer with the word alone, in "
        "lower case.",
        "answer": max(words, key=len),
    }


SYMBOLS: dict[str, str] = dict(
    re.findall(
        "([a-z]+)=([A-Za-z]+)",
        "hydrogen=H helium=He lithium=Li beryllium=Be boron=B carbon=C nitrogen=N oxygen=O fluorine=F neon=Ne "
        "sodium=Na magnesium=Mg silicon=Si phosphorus=P chlorine=Cl argon=Ar potassium=K calcium=Ca titanium=Ti "
        "chromium=Cr manganese=Mn iron=Fe cobalt=Co nickel=Ni copper=Cu zinc=Zn bromine=Br krypton=Kr silver=Ag "
        "tin=Sn iodine=I xenon=Xe tungsten=W platinum=Pt gold=Au mercury=Hg lead=Pb uranium=U",
    )
)
ELEMENTS: Rows = [
    {
        "prompt": f"What is the chemical symbol of the element {name}? Answer with the symbol alone, first letter in "
        "upper case and any second letter in lower case.",
        "answer": symbol,
    }
    for name, symbol in SYMBOLS.items()
]


def _acronym(rng: random.Random) -> dict[str, Any]:
    words = rng.sample(WORDS, rng.randint(4, 6))
    return {
        "prompt": f"Write the first letters of these words, in order: {' '.join(words)}. Answer with the letters "
        "alone, in upper case, without points or spaces.",
        "answer": "".join(word[0] for word in words).upper(),
    }


def _nth_word(rng: random.Random) -> dict[str, Any]:
    words, place = rng.sample(WORDS, 12), rng.randint(3, 12)
    return {
        "prompt": f"Which word stands at place {place}, counted from 1, in this list: {' '.join(words)}? Answer with "
        "the word alone, in lower case.",
        "answer": words[place - 1],
    }


def _alphabetical(rng: random.Random) -> dict[str, Any]:
    word = rng.choice(WORDS)
    return {
        "prompt": f'Write the letters of "{word}" in alphabetical order, each as often as it occurs. Answer with the '
        "letters alone, in lower case, without spaces.",
        "answer": "".join(sorted(word)),
        "word": word,
    }


def letters_in_order(answer: str, problem: Row) -> bool:
    """The same letters as often as in the word, none before an earlier one."""
    text = answer.strip(" ")
    return Counter(text) == Counter(problem["word"]) and all(a <= b for a, b in itertools.pairwise(text))


def _without_vowels(rng: random.Random) -> dict[str, Any]:
    first, second = rng.sample(WORDS, 2)
    return {
        "prompt": f'Delete every a, e, i, o and u from "{first} {second}". Answer with what is left alone, in lower '
        "case, with one space between the two words.",
        "answer": re.sub("[aeiou]", "", f"{first} {second}"),
    }


_CODE = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
MORSE = dict(zip("abcdefghijklmnopqrstuvwxyz", _CODE.split(), strict=True))


def _morse(rng: random.Random) -> dict[str, Any]:
    word = rng.choice(WORDS)
    return {
        "prompt": f'Write "{word}" in international Morse code. Answer with the code alone: points and hyphens, one '
        "space between letters.",
        "answer": " ".join(MORSE[letter] for letter in word),
    }


# Structured answers


def _person(rng: random.Random) -> dict[str, Any]:
    name, age, height = rng.choice(WORDS).capitalize(), rng.randint(18, 90), rng.randint(120, 210)
    return {
        "prompt": f"{name} turned {age} this year and is {height} centimetres tall. Answer with one JSON object on one "
        'line, with exactly the keys "name" (text), "age" (integer) and "height" (integer, in centimetres).',
        "answer": json.dumps({"name": name, "age": age, "height": height}),
    }


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def parsed(text: str) -> Any:
    """The value of a JSON text without repeated keys, or None."""
    try:
        return json.loads(text.strip(" "), object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError):
        return None


def person(answer: str, problem: Row) -> bool:
    """A JSON object with the three fields, each of its type."""
    record, right = parsed(answer), json.loads(problem["answer"])
    if not isinstance(record, dict) or set(record) != set(right):
        return False
    return all(type(record[key]) is type(right[key]) and record[key] == right[key] for key in right)


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def _primes(rng: random.Random) -> dict[str, Any] | None:
    low = rng.randint(30, 900)
    high = low + rng.randint(20, 45)
    primes = [n for n in range(low, high + 1) if _is_prime(n)]
    if len(primes) < 3:
        return None
    return {
        "prompt": f"Which primes lie from {low} to {high}, both included? Answer with a JSON list of integers in "
        "ascending order, on one line.",
        "answer": json.dumps(primes),
        "low": low,
        "high": high,
    }


def primes_between(answer: str, problem: Row) -> bool:
    """A JSON list of integers, the primes of the range in order."""
    numbers = parsed(answer)
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        return False
    return numbers == [n for n in range(problem["low"], problem["high"] + 1) if _is_prime(n)]


def _divisors(rng: random.Random) -> dict[str, Any] | None:
    n = rng.randint(24, 400)
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    if len(divisors) < 5:
        return None
    return {
        "prompt": f"What are the positive divisors of {n}, 1 and {n} included? Answer with all of them in ascending "
        "order, separated by commas.",
        "answer": ", ".join(map(str, divisors)),
        "number": n,
    }


def all_divisors(answer: str, problem: Row) -> bool:
    """Every divisor once, ascending."""
    return wholes(answer) == [d for d in range(1, problem["number"] + 1) if problem["number"] % d == 0]


def _merge(intervals: list[list[int]]) -> list[list[int]]:
    merged: list[list[int]] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    return merged


def _intervals(rng: random.Random) -> dict[str, Any]:
    given = []
    for _ in range(5):
        low = rng.randint(0, 60)
        given.append([low, low + rng.randint(3, 14)])
    return {
        "prompt": f"Write the union of these closed intervals of real numbers as the fewest disjoint ones: {given}. "
        "Answer with a JSON list of pairs [low, high] of integers in ascending order, on one line.",
        "answer": json.dumps(_merge(given)),
        "given": given,
    }


def union(answer: str, problem: Row) -> bool:
    """The merged intervals, as pairs of integers."""
    pairs = parsed(answer)
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return False
    return all(type(end) is int for pair in pairs for end in pair) and pairs == _merge(problem["given"])


def _letter_counts(rng: random.Random) -> dict[str, Any]:
    word = rng.choice(WORDS) + rng.choice(WORDS)
    counts = Counter(word)
    return {
        "prompt": f'How often does each letter occur in "{word}"? Answer with entries letter=count for the letters '
        "that occur, in alphabetical order, separated by semicolons, without spaces.",
        "answer": ";".join(f"{letter}={counts[letter]}" for letter in sorted(counts)),
    }


def _later_date(rng: random.Random) -> dict[str, Any]:
    first = datetime.date(1990, 1, 1) + datetime.timedelta(rng.randrange(14000))
    days = rng.randint(15, 400)
    return {
        "prompt": f"Which date is {days} days after {first}? Answer with the date alone in the form YYYY-MM-DD.",
        "answer": str(first + datetime.timedelta(days)),
        "first": str(first),
        "days": days,
    }


def later_date(answer: str, problem: Row) -> bool:
    """An ISO date, as many days later."""
    text = answer.strip(" ")
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        date = datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return bool((date - datetime.date.fromisoformat(problem["first"])).days == problem["days"])


def _common(rng: random.Random) -> dict[str, Any]:
    shared = rng.sample(range(10, 99), rng.randint(3, 5))
    left, right = (shared + rng.sample(range(low, high), 4) for low, high in ((100, 150), (150, 199)))
    rng.shuffle(left)
    rng.shuffle(right)
    return {
        "prompt": f"Which numbers are in both lists: {left} and {right}? Answer with these numbers, each once, in any "
        "order, separated by commas.",
        "answer": ", ".join(map(str, shared)),
        "left": left,
        "right": right,
    }


def common_members(answer: str, problem: Row) -> bool:
    """The intersection, each member once, in any order."""
    numbers = wholes(answer)
    if numbers is None or len(numbers) != len(set(numbers)):
        return False
    return set(numbers) == set(problem["left"]) & set(problem["right"])


def _matrix(rng: random.Random) -> dict[str, Any]:
    matrix = [[rng.randint(-20, 60) for _ in range(3)] for _ in range(2)]
    return {
        "prompt": f"Transpose the matrix {matrix}. Answer with a JSON list of rows, each a list of integers, on one "
        "line.",
        "answer": json.dumps([list(column) for column in zip(*matrix, strict=True)]),
        "matrix": matrix,
    }


def transposed(answer: str, problem: Row) -> bool:
    """Three rows of two integers, each cell where it belongs."""
    rows = parsed(answer)
    if not isinstance(rows, list) or len(rows) != 3:
        return False
    if not all(isinstance(row, list) and len(row) == 2 and all(type(cell) is int for cell in row) for row in rows):
        return False
    return all(rows[i][j] == problem["matrix"][j][i] for i in range(3) for j in range(2))


def _newest(rng: random.Random) -> dict[str, Any]:
    major = rng.randint(1, 12)
    versions = list({(major, rng.randint(0, 24), rng.randint(0, 24)) for _ in range(7)})
    newest = ".".join(map(str, max(versions)))
    listed = [".".join(map(str, version)) for version in sorted(versions, key=lambda v: (v[2], v[1]))]
    return {
        "prompt": f"Which of these versions is the newest by semantic versioning: {', '.join(listed)}? Answer with the "
        "version alone, as it is written here.",
        "answer": newest,
        "versions": listed,
    }


def newest_version(answer: str, problem: Row) -> bool:
    """The version of the list whose numbers are the greatest."""
    return bool(answer.strip(" ") == max(problem["versions"], key=lambda text: tuple(map(int, text.split(".")))))


def _clock(rng: random.Random) -> dict[str, Any]:
    start, length = rng.randrange(1440), rng.randint(61, 1300)
    end = (start + length) % 1440
    return {
        "prompt": f"A clock shows {start // 60:02}:{start % 60:02}. What does it show {length} minutes later, on the "
        "same day or the next? Answer with the time alone in the form HH:MM on a 24-hour clock, 00:00 to 23:59, with "
        "leading zeros.",
        "answer": f"{end // 60:02}:{end % 60:02}",
        "minutes": end,
    }


def clock(answer: str, problem: Row) -> bool:
    """A time of the day, at the right minute."""
    match = re.fullmatch(r"([01][0-9]|2[0-3]):([0-5][0-9])", answer.strip(" "))
    return match is not None and int(match[1]) * 60 + int(match[2]) == problem["minutes"]


# Puzzles with several right answers


def _subset(rng: random.Random) -> dict[str, Any]:
    numbers = rng.sample(range(20, 200), 9)
    chosen = rng.sample(numbers, rng.randint(3, 5))
    return {
        "prompt": f"Choose numbers from {numbers}, each at most once, that add up to {sum(chosen)}. Answer with the "
        "chosen numbers, separated by commas, in any order.",
        "answer": ", ".join(map(str, chosen)),
        "numbers": numbers,
        "total": sum(chosen),
    }


def subset_sum(answer: str, problem: Row) -> bool:
    """Different members of the list, with the total."""
    chosen = wholes(answer)
    if chosen is None or len(set(chosen)) != len(chosen):
        return False
    return set(chosen) <= set(problem["numbers"]) and sum(chosen) == problem["total"]


def judge_subset_sum(row: Row, response: str) -> bool:
    """Take each number out of the list and off the total."""
    left, total = list(row["numbers"]), row["total"]
    for part in last_line(response).split(","):
        number = whole(part)
        if number not in left:
            return False
        left.remove(number)
        total -= number
    return bool(total == 0)


def _factors(rng: random.Random) -> dict[str, Any]:
    a, b, c = (rng.randint(6, 30) for _ in range(3))
    return {
        "prompt": f"Find three integers, each from 2 to 60, whose product is {a * b * c}. Answer with the three "
        "numbers, separated by commas, in any order.",
        "answer": f"{a}, {b}, {c}",
        "product": a * b * c,
    }


def three_factors(answer: str, problem: Row) -> bool:
    """Three integers of the range with the product."""
    numbers = wholes(answer)
    if numbers is None or len(numbers) != 3:
        return False
    return all(2 <= number <= 60 for number in numbers) and math.prod(numbers) == problem["product"]


def judge_three_factors(row: Row, response: str) -> bool:
    """Divide the product by each number in turn."""
    parts = [whole(part) for part in last_line(response).split(",")]
    rest = row["product"]
    for part in parts:
        if part not in range(2, 61) or rest % part:
            return False
        rest //= part
    return len(parts) == 3 and rest == 1


def _graph(rng: random.Random) -> dict[str, Any]:
    nodes = rng.sample(LOWER_NAMES, 8)
    route = [nodes[0], *rng.sample(nodes[2:], rng.randint(2, 4)), nodes[1]]
    arcs = {pair for pair in itertools.pairwise(route)}
    while len(arcs) < 14:
        arc = rng.sample(nodes, 2)
        if arc != nodes[:2]:
            arcs.add((arc[0], arc[1]))
    streets = sorted(list(arc) for arc in arcs)
    return {
        "prompt": f"One-way streets lead {'; '.join(f'from {a} to {b}' for a, b in streets)}. Find a route from "
        f"{nodes[0]} to {nodes[1]} along these streets that visits no place twice. Answer with the places in order, "
        f"from {nodes[0]} to {nodes[1]}, separated by commas.",
        "answer": ", ".join(route),
        "streets": streets,
        "start": nodes[0],
        "goal": nodes[1],
    }


def one_way_route(answer: str, problem: Row) -> bool:
    """From start to goal along the streets, no place twice."""
    places = [part.strip(" ") for part in answer.split(",")]
    if places[0] != problem["start"] or places[-1] != problem["goal"] or len(set(places)) < len(places):
        return False
    return all([a, b] in problem["streets"] for a, b in itertools.pairwise(places))


def judge_route(row: Row, response: str) -> bool:
    """Walk the streets, and never back to a place that was left."""
    onward: dict[str, set[str]] = {}
    for a, b in row["streets"]:
        onward.setdefault(a, set()).add(b)
    places = [part.strip(" ") for part in last_line(response).split(",")]
    here, left = places[0], set[str]()
    for place in places[1:]:
        left.add(here)
        if place in left or place not in onward.get(here, set()):
            return False
        here = place
    return bool(places[0] == row["start"] and here == row["goal"])


def assignments(text: str) -> dict[str, str] | None:
    """Entries name=value separated by commas, or None where one is malformed or a name occurs twice."""
    pairs = [part.strip(" ").split("=") for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs) or len({pair[0] for pair in pairs}) < len(pairs):
        return None
    return {pair[0]: pair[1] for pair in pairs}


def _colouring(rng: random.Random) -> dict[str, Any]:
    nodes = rng.sample(LOWER_NAMES, 8)
    colours = {node: rng.choice(["red", "green", "blue"]) for node in nodes}
    borders = [list(pair) for pair in itertools.combinations(nodes, 2) if colours[pair[0]] != colours[pair[1]]]
    borders = sorted(rng.sample(borders, min(13, len(borders))))
    return {
        "prompt": f"Colour the countries {', '.join(sorted(nodes))} red, green or blue so that no two neighbours have "
        f"the same colour. Neighbours are {'; '.join(f'{a} and {b}' for a, b in borders)}. Answer with one entry "
        "country=colour for each country, separated by commas, in any order.",
        "answer": ", ".join(f"{node}={colours[node]}" for node in sorted(nodes)),
        "nodes": sorted(nodes),
        "borders": borders,
    }


def map_colouring(answer: str, problem: Row) -> bool:
    """Each country one of three colours, no border between equals."""
    colours = assignments(answer)
    if colours is None or set(colours) != set(problem["nodes"]):
        return False
    if not set(colours.values()) <= {"red", "green", "blue"}:
        return False
    return all(colours[a] != colours[b] for a, b in problem["borders"])


def judge_colouring(row: Row, response: str) -> bool:
    """Sort the countries by colour, and look for a border inside a group."""
    groups: dict[str, list[str]] = {"red": [], "green": [], "blue": []}
    for entry in last_line(response).split(","):
        match = re.fullmatch(r" *([a-z]+)=(red|green|blue) *", entry)
        if match is None:
            return False
        groups[match[2]].append(match[1])
    if sorted(itertools.chain(*groups.values())) != row["nodes"]:
        return False
    return not any(a in group and b in group for group in groups.values() for a, b in row["borders"])


def _order(rng: random.Random) -> dict[str, Any]:
    names = rng.sample(LOWER_NAMES, 7)
    pairs = [list(pair) for pair in itertools.combinations(names, 2)]
    before = sorted(rng.sample(pairs, 7))
    return {
        "prompt": f"Put {', '.join(sorted(names))} into a queue so that "
        f"{'; '.join(f'{a} stands before {b}' for a, b in before)}. Answer with all seven names from first to last, "
        "separated by commas.",
        "answer": ", ".join(names),
        "names": sorted(names),
        "before": before,
    }


def queue(answer: str, problem: Row) -> bool:
    """A permutation of the names that keeps every precedence."""
    names = [part.strip(" ") for part in answer.split(",")]
    if sorted(names) != problem["names"]:
        return False
    return all(names.index(a) < names.index(b) for a, b in problem["before"])


def judge_queue(row: Row, response: str) -> bool:
    """Let people in one by one, each only after those who must be first."""
    waiting = set(row["names"])
    for part in last_line(response).split(","):
        name = part.strip(" ")
        if name not in waiting or any(b == name and a in waiting for a, b in row["before"]):
            return False
        waiting.remove(name)
    return not waiting


def _jobs(rng: random.Random) -> dict[str, Any]:
    names, hour = rng.sample(LOWER_NAMES, 5), 0
    jobs: list[tuple[str, int, int]] = []
    starts: dict[str, int] = {}
    for name in names:
        hour += rng.randint(0, 1)
        length = rng.randint(2, 6)
        starts[name] = hour
        hour += length
        jobs.append((name, length, hour + rng.randint(0, 2)))
    jobs.sort()
    listed = "; ".join(f"{name} takes {length} hours and ends by hour {due}" for name, length, due in jobs)
    return {
        "prompt": f"One machine does these jobs one at a time, from hour 0 on: {listed}. Choose a start hour, an "
        "integer of 0 or more, for each. A job may start in the hour in which another ends. Answer with one entry "
        "job=start for each job, separated by commas, in any order.",
        "answer": ", ".join(f"{name}={starts[name]}" for name, _, _ in jobs),
        "jobs": [list(job) for job in jobs],
    }


def schedule(answer: str, problem: Row) -> bool:
    """A start for each job, in time, no two at once."""
    entries = assignments(answer)
    if entries is None or set(entries) != {name for name, _, _ in problem["jobs"]}:
        return False
    spans = []
    for name, length, due in problem["jobs"]:
        start = whole(entries[name])
        if start is None or start < 0 or start + length > due:
            return False
        spans.append((start, start + length))
    spans.sort()
    return all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def judge_schedule(row: Row, response: str) -> bool:
    """Mark the hours of each job on a calendar."""
    jobs = {name: (length, due) for name, length, due in row["jobs"]}
    taken: set[int] = set()
    for entry in last_line(response).split(","):
        name, _, hour = entry.strip(" ").partition("=")
        start = whole(hour)
        if name not in jobs or start is None or not 0 <= start < 1000:
            return False
        length, due = jobs.pop(name)
        hours = set(range(start, start + length))
        if hours & taken or max(hours) >= due:
            return False
        taken |= hours
    return not jobs


def _countdown(rng: random.Random) -> dict[str, Any] | None:
    a, b, c, d = rng.sample(range(2, 40), 4)
    text, target = rng.choice(
        (
            (f"{a} * {b} + {c} - {d}", a * b + c - d),
            (f"({a} + {b}) * {c} - {d}", (a + b) * c - d),
            (f"{a} * {b} - {c} * {d}", a * b - c * d),
        )
    )
    numbers = sorted([a, b, c, d])
    if target <= 40:
        return None
    return {
        "prompt": f"Use each of the numbers {numbers} exactly once, with +, - and * and parentheses, to make {target}. "
        "Each sign stands between two terms. Answer with the expression alone, without an equals sign.",
        "answer": text,
        "numbers": numbers,
        "target": target,
    }


def countdown(answer: str, problem: Row) -> bool:
    """An expression of the four numbers that has the value of the target."""
    text = answer.strip(" ")
    if not re.fullmatch(r"[-+*() 0-9]{1,60}", text) or "**" in text:
        return False
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    used: list[int] = []

    def value(node: ast.expr) -> int | None:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            used.append(node.value)
            return node.value
        if not isinstance(node, ast.BinOp):
            return None
        left, right = value(node.left), value(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add):
            return left + right
        return left - right if isinstance(node.op, ast.Sub) else left * right

    return bool(value(tree) == problem["target"] and sorted(used) == problem["numbers"])


def judge_countdown(row: Row, response: str) -> bool:
    """Evaluate by recursive descent over the signs of the text."""
    text = last_line(response)
    tokens = re.findall(r"[0-9]+|[-+*()]", text)
    if len(text) > 60 or re.sub(r"[-+*() 0-9]", "", text) or re.search(r"[0-9] +[0-9]|\b0[0-9]", text):
        return False
    if sorted(int(token) for token in tokens if token.isdigit()) != row["numbers"]:
        return False
    place = 0

    def factor() -> int:
        nonlocal place
        token = tokens[place]
        place += 1
        if token.isdigit():
            return int(token)
        if token != "(":
            raise ValueError(token)
        inner = total()
        if tokens[place] != ")":
            raise ValueError(tokens[place])
        place += 1
        return inner

    def product() -> int:
        nonlocal place
        result = factor()
        while place < len(tokens) and tokens[place] == "*":
            place += 1
            result *= factor()
        return result

    def total() -> int:
        nonlocal place
        result = product()
        while place < len(tokens) and tokens[place] in "+-":
            sign = 1 if tokens[place] == "+" else -1
            place += 1
            result += sign * product()
        return result

    try:
        reached = total()
    except (ValueError, IndexError):
        return False
    return bool(place == len(tokens) and reached == row["target"])


def _pattern(rng: random.Random) -> dict[str, Any]:
    first, last, twice = rng.sample("abcdefghijklmnop", 3)
    length = rng.randint(6, 10)
    right = first + twice * 2 + "z" * (length - 4) + last
    return {
        "prompt": f"Write a string of exactly {length} letters from a to z in lower case that begins with {first}, "
        f"ends with {last} and contains {twice} exactly twice. It need not be a word. Answer with the string alone.",
        "answer": right,
        "length": length,
        "first": first,
        "last": last,
        "twice": twice,
    }


def pattern(answer: str, problem: Row) -> bool:
    """Letters of the length, first, last and count that the prompt asks for."""
    text = answer.strip(" ")
    if not re.fullmatch("[a-z]+", text) or len(text) != problem["length"]:
        return False
    ends = text.startswith(problem["first"]) and text.endswith(problem["last"])
    return ends and text.count(problem["twice"]) == 2


def judge_pattern(row: Row, response: str) -> bool:
    """Go through the letters by place."""
    letters = list(last_line(response))
    places = [i for i, letter in enumerate(letters) if letter == row["twice"]]
    if len(letters) != row["length"] or any(not "a" <= letter <= "z" for letter in letters):
        return False
    return letters[0] == row["first"] and letters[-1] == row["last"] and len(places) == 2


def _coins(rng: random.Random) -> dict[str, Any]:
    coins = sorted(rng.sample(range(3, 30), 5))
    paid = [rng.choice(coins) for _ in range(rng.randint(5, 8))]
    return {
        "prompt": f"Coins have the values {', '.join(map(str, coins))}. Pay {sum(paid)} with exactly {len(paid)} "
        "coins; a value may be used more than once. Answer with the value of each coin paid, separated by commas, in "
        "any order.",
        "answer": ", ".join(map(str, paid)),
        "coins": coins,
        "count": len(paid),
        "total": sum(paid),
    }


def exact_change(answer: str, problem: Row) -> bool:
    """As many coins as asked for, all of a known value, with the total."""
    paid = wholes(answer)
    if paid is None or len(paid) != problem["count"]:
        return False
    return all(coin in problem["coins"] for coin in paid) and sum(paid) == problem["total"]


def judge_change(row: Row, response: str) -> bool:
    """Count the coins of each value."""
    counts = Counter(whole(part) for part in last_line(response).split(","))
    values = {coin: counts.pop(coin, 0) for coin in row["coins"]}
    total = sum(coin * count for coin, count in values.items())
    return bool(not counts and sum(values.values()) == row["count"] and total == row["total"])


def _knapsack(rng: random.Random) -> dict[str, Any]:
    names = sorted(rng.sample(LOWER_NAMES, 9))
    items = {name: [rng.randint(5, 40), rng.randint(5, 60)] for name in names}
    limit = sum(weight for weight, _ in items.values()) // 2
    fitting = [
        chosen
        for size in range(3, 7)
        for chosen in itertools.combinations(names, size)
        if sum(items[name][0] for name in chosen) <= limit
    ]
    ranked = sorted(fitting, key=lambda chosen: -sum(items[name][1] for name in chosen))
    floor = sum(items[name][1] for name in ranked[4])
    listed = "; ".join(f"{name} weighs {weight} and is worth {worth}" for name, (weight, worth) in items.items())
    return {
        "prompt": f"Pack a bag that holds a weight of {limit} at most with a worth of {floor} at least: {listed}. Each "
        "can be packed once. Answer with the names of what is packed, separated by commas, in any order.",
        "answer": ", ".join(ranked[rng.randrange(4)]),
        "items": items,
        "limit": limit,
        "floor": floor,
    }


def knapsack(answer: str, problem: Row) -> bool:
    """Different items, not too heavy and worth enough."""
    names = [part.strip(" ") for part in answer.split(",")]
    items = problem["items"]
    if len(set(names)) < len(names) or not set(names) <= set(items):
        return False
    weight, worth = (sum(items[name][i] for name in names) for i in (0, 1))
    return bool(weight <= problem["limit"] and worth >= problem["floor"])


def judge_knapsack(row: Row, response: str) -> bool:
    """Pack item by item, each out of what is left."""
    left = dict(row["items"])
    room, missing = row["limit"], row["floor"]
    for part in last_line(response).split(","):
        item = left.pop(part.strip(" "), None)
        if item is None:
            return False
        room, missing = room - item[0], missing - item[1]
    return bool(room >= 0 and missing <= 0)


# Graded rewards


def _collatz(rng: random.Random) -> dict[str, Any]:
    start = rng.randint(50, 5000)
    terms, n = [], start
    for _ in range(6):
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        terms.append(n)
    return {
        "prompt": f"A sequence begins with {start}. After an even number n comes n/2, after an odd one 3n+1. Write the "
        f"six numbers after {start}, separated by commas. The score is the share of the six that are right before the "
        "first mistake; any other format or count scores 0.",
        "answer": ", ".join(map(str, terms)),
        "terms": terms,
    }


def collatz(answer: str, problem: Row) -> float:
    """The share of the terms before the first wrong one."""
    terms = wholes(answer)
    if terms is None or len(terms) != len(problem["terms"]):
        return 0.0
    right = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(terms, problem["terms"], strict=True))
    return len(list(right)) / len(terms)


def _squares(rng: random.Random) -> dict[str, Any]:
    numbers = rng.sample(range(13, 99), 5)
    return {
        "prompt": f"Write the squares of {', '.join(map(str, numbers))} in this order, separated by commas. The score "
        "is the share of the five that are right; any other format or count scores 0.",
        "answer": ", ".join(str(n * n) for n in numbers),
        "numbers": numbers,
    }


def squares(answer: str, problem: Row) -> float:
    """The share of the squares that are right, place by place."""
    given, numbers = wholes(answer), problem["numbers"]
    if given is None or len(given) != len(numbers):
        return 0.0
    return float(sum(square == n**2 for square, n in zip(given, numbers, strict=True)) / len(numbers))


def _wide_primes(rng: random.Random) -> dict[str, Any] | None:
    low = rng.randint(200, 3000)
    high = low + rng.randint(25, 60)
    primes = [n for n in range(low, high + 1) if _is_prime(n)]
    if len(primes) < 3:
        return None
    return {
        "prompt": f"Which primes lie from {low} to {high}, both included? Answer with the numbers, each once, "
        "separated by commas. The score is the number of primes found less the number of wrong entries, over the "
        "number of primes, and 0 at least; a repeated number or any other format scores 0.",
        "answer": ", ".join(map(str, primes)),
        "primes": primes,
    }


def found_primes(answer: str, problem: Row) -> float:
    """Hits less mistakes, over the number of primes."""
    given = wholes(answer)
    if given is None or len(set(given)) < len(given):
        return 0.0
    hits = len(set(given) & set(problem["primes"]))
    return max(0.0, (hits - (len(given) - hits)) / len(problem["primes"]))


def _sorting(rng: random.Random) -> dict[str, Any] | None:
    words = rng.sample(WORDS, 6)
    if words[0] == min(words):
        return None
    return {
        "prompt": f"Sort these words alphabetically: {' '.join(words)}. Answer with the six words, separated by "
        "spaces. The score is the share of the six words that are right before the first mistake; an answer that is "
        "not made of these six words, each once, scores 0.",
        "answer": " ".join(sorted(words)),
        "words": words,
    }


def sorted_words(answer: str, problem: Row) -> float:
    """The share of words that are in place before the first that is not."""
    words, right = answer.split(), sorted(problem["words"])
    if sorted(words) != right:
        return 0.0
    place = next((i for i, (word, wanted) in enumerate(zip(words, right, strict=True)) if word != wanted), len(right))
    return place / len(right)


def _readings(rng: random.Random) -> dict[str, Any]:
    values = {key: rng.randint(1000, 9999) for key in ("pressure", "speed", "volume", "weight")}
    gains = {key: rng.randint(11, 99) for key in values}
    told = "; ".join(f"{key} {values[key]}, up by {gains[key]}" for key in values)
    return {
        "prompt": f"Four readings and their changes: {told}. Answer with one JSON object on one line, with exactly the "
        "keys pressure, speed, volume and weight and the changed readings as integers. The score is the share of the "
        "four that are right; an object with other keys scores 0.",
        "answer": json.dumps({key: values[key] + gains[key] for key in values}),
    }


def readings(answer: str, problem: Row) -> float:
    """The share of the four fields that hold the right integer."""
    record, right = parsed(answer), json.loads(problem["answer"])
    if not isinstance(record, dict) or set(record) != set(right):
        return 0.0
    return float(sum(type(record[key]) is int and record[key] == right[key] for key in right) / len(right))


_NUMBERS: dict[str, tuple[Rows, Reward]] = {
    "product": (distinct(_product, "product"), whole_number),
    "days between dates": (distinct(_days, "days"), whole_number),
    "digit sum of a power": (distinct(_digit_sum, "digit sum"), whole_number),
    "fraction in lowest terms": (distinct(_fraction, "fraction"), lowest_terms),
    "amount of money": (distinct(_price, "price"), amount),
    "binary digits": (distinct(_binary, "binary"), binary),
    "remainder of a power": (distinct(_modular, "modular"), whole_number),
    "greatest common divisor": (distinct(_gcd, "gcd"), greatest_divisor),
    "value of a polynomial": (distinct(_polynomial, "polynomial"), whole_number),
    "roman numeral": (distinct(_roman, "roman"), whole_number),
    "minutes between times": (distinct(_minutes, "minutes"), whole_number),
    "degrees fahrenheit": (distinct(_fahrenheit, "fahrenheit"), one_decimal),
    "square root within a tolerance": (distinct(_root, "root"), near_root),
    "hexadecimal digits": (distinct(_hexadecimal, "hexadecimal"), exact),
    "multiples of two numbers": (distinct(_multiples, "multiples"), whole_number),
}
_TEXTS: dict[str, tuple[Rows, Reward]] = {
    "label of the largest sum": (distinct(_largest, "largest"), largest_sum),
    "reversed letters": (distinct(_reversed, "reversed"), exact),
    "caesar cipher": (distinct(_caesar, "caesar"), deciphered),
    "longest word": (distinct(_longest, "longest"), exact),
    "chemical symbol": (ELEMENTS, exact),
    "acronym": (distinct(_acronym, "acronym"), exact),
    "word at a place": (distinct(_nth_word, "nth"), exact),
    "letters in alphabetical order": (distinct(_alphabetical, "alphabetical"), letters_in_order),
    "vowels deleted": (distinct(_without_vowels, "vowels"), exact),
    "morse code": (distinct(_morse, "morse"), exact),
}
_STRUCTURES: dict[str, tuple[Rows, Reward]] = {
    "json record": (distinct(_person, "person"), person),
    "json list of primes": (distinct(_primes, "primes"), primes_between),
    "all divisors": (distinct(_divisors, "divisors"), all_divisors),
    "union of intervals": (distinct(_intervals, "intervals"), union),
    "counts of letters": (distinct(_letter_counts, "counts"), exact),
    "date some days later": (distinct(_later_date, "date"), later_date),
    "members of both lists": (distinct(_common, "common"), common_members),
    "transposed matrix": (distinct(_matrix, "matrix"), transposed),
    "newest version": (distinct(_newest, "newest"), newest_version),
    "time on a clock": (distinct(_clock, "clock"), clock),
}
_PUZZLES: dict[str, tuple[Rows, Reward, Callable[[Row, str], bool]]] = {
    "numbers with a total": (distinct(_subset, "subset"), subset_sum, judge_subset_sum),
    "three factors": (distinct(_factors, "factors"), three_factors, judge_three_factors),
    "route on one-way streets": (distinct(_graph, "graph"), one_way_route, judge_route),
    "map colouring": (distinct(_colouring, "colouring"), map_colouring, judge_colouring),
    "queue with precedences": (distinct(_order, "order"), queue, judge_queue),
    "jobs on one machine": (distinct(_jobs, "jobs"), schedule, judge_schedule),
    "expression for a target": (distinct(_countdown, "countdown"), countdown, judge_countdown),
    "string of a pattern": (distinct(_pattern, "pattern"), pattern, judge_pattern),
    "exact change": (distinct(_coins, "coins"), exact_change, judge_change),
    "knapsack": (distinct(_knapsack, "knapsack"), knapsack, judge_knapsack),
}
_GRADED: dict[str, tuple[Rows, Reward]] = {
    "terms before the first mistake": (distinct(_collatz, "collatz"), collatz),
    "share of the squares": (distinct(_squares, "squares"), squares),
    "primes found less mistakes": (distinct(_wide_primes, "wide primes"), found_primes),
    "words in place": (distinct(_sorting, "sorting"), sorted_words),
    "share of the readings": (distinct(_readings, "readings"), readings),
}

VERIFIERS: dict[str, tuple[Rows, Reward]] = {
    **_NUMBERS,
    **_TEXTS,
    **_STRUCTURES,
    **{name: (rows, reward) for name, (rows, reward, _) in _PUZZLES.items()},
    **_GRADED,
}
UNIQUE = {*_NUMBERS, *_TEXTS, *_STRUCTURES, *_GRADED} - {"square root within a tolerance"}
ACCEPTS: dict[str, Callable[[Row, str], bool]] = {name: judge for name, (_, _, judge) in _PUZZLES.items()}
