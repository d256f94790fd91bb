"""Questions of the tuning set, one list a kind of answer."""

from __future__ import annotations

import json
from typing import Any

Rows = list[dict[str, Any]]

_CITIES = (
    "France:Paris Spain:Madrid Italy:Rome Austria:Vienna Poland:Warsaw Greece:Athens Sweden:Stockholm Norway:Oslo "
    "Finland:Helsinki Ireland:Dublin Hungary:Budapest Bulgaria:Sofia Serbia:Belgrade Germany:Berlin Peru:Lima "
    "Cuba:Havana Kenya:Nairobi Egypt:Cairo Japan:Tokyo Nepal:Kathmandu Latvia:Riga Chile:Santiago Iran:Tehran "
    "Qatar:Doha Ghana:Accra"
)
CITIES = dict(pair.split(":") for pair in _CITIES.split())
CAPITALS: Rows = [{"prompt": f"What is the capital of {land}?", "answer": city} for land, city in CITIES.items()]
SUMS: Rows = [{"prompt": f"What is {a} + {b}?", "answer": a + b} for a in range(12, 32) for b in (13, 58)]
DIFFERENCES: Rows = [{"prompt": f"What is {a} - {b}?", "answer": a - b} for a in range(10, 20) for b in (3, 17, 44, 61)]
PRODUCTS: Rows = [{"prompt": f"What is {a} times {b}?", "answer": a * b} for a in range(31, 51) for b in (17, 29)]
THIRDS: Rows = [
    {"prompt": f"What is {n} divided by 7, rounded to two decimals?", "answer": f"{n / 7:.2f}"} for n in range(100, 140)
]
FRACTIONS: Rows = [
    {"prompt": f"Write {n} hundredths as a fraction in lowest terms.", "answer": answer}
    for n, answer in ((4, "1/25"), (6, "3/50"), (8, "2/25"), (12, "3/25"), (14, "7/50"), (15, "3/20"), (16, "4/25"),
                      (18, "9/50"), (22, "11/50"), (24, "6/25"), (26, "13/50"), (28, "7/25"), (32, "8/25"),
                      (34, "17/50"), (35, "7/20"), (36, "9/25"), (38, "19/50"), (42, "21/50"), (44, "11/25"))
]  # fmt: skip
ODD: Rows = [{"prompt": f"Is {n} odd? Answer yes or no.", "answer": "yes" if n % 2 else "no"} for n in range(40, 80)]
CHOICES: Rows = [
    {"prompt": f"Which is the remainder of {n} by 4? A) 0 B) 1 C) 2 D) 3", "answer": "ABCD"[n % 4]}
    for n in range(50, 90)
]
DIVISORS: Rows = [
    {"prompt": f"List the divisors of {n} in ascending order, separated by commas.", "answer": answer}
    for n in range(20, 60)
    if len(answer := ", ".join(str(d) for d in range(1, n + 1) if n % d == 0)) > 8
]
FACTORS: Rows = [
    {"prompt": f"List the prime factors of {n} with repetition, in any order.", "n": n, "answer": answer}
    for n, answer in ((12, "2, 2, 3"), (18, "2, 3, 3"), (20, "2, 2, 5"), (24, "2, 2, 2, 3"), (27, "3, 3, 3"),
                      (28, "2, 2, 7"), (36, "2, 2, 3, 3"), (40, "2, 2, 2, 5"), (44, "2, 2, 11"), (45, "3, 3, 5"),
                      (48, "2, 2, 2, 2, 3"), (50, "2, 5, 5"), (52, "2, 2, 13"), (54, "2, 3, 3, 3"), (63, "3, 3, 7"),
                      (68, "2, 2, 17"), (75, "3, 5, 5"), (76, "2, 2, 19"), (98, "2, 7, 7"), (99, "3, 3, 11"))
]  # fmt: skip
_WORDS = (
    "lemon river candle orange planet silver garden window bottle hammer puzzle marble rocket basket velvet copper "
    "thunder meadow lantern compass harbor pepper saddle tunnel"
)
WORDS = _WORDS.split()
REVERSED: Rows = [{"prompt": f"Write the word {word} backwards.", "answer": word[::-1]} for word in WORDS]
SORTED: Rows = [
    {
        "prompt": f"Sort these words alphabetically, separated by commas: {', '.join(words)}",
        "answer": ", ".join(sorted(words)),
    }
    for words in (WORDS[n : n + 4] for n in range(20))
]
UPPER: Rows = [
    {"prompt": f"Write {word} with every other letter in upper case, the first one too (case matters).", "answer": said}
    for word in WORDS
    for said in ["".join(c.upper() if n % 2 == 0 else c for n, c in enumerate(word))]
]
CODES: Rows = [
    {"prompt": f"What is the code of part {n}?", "answer": f"{'KLMNP'[n % 5]}{n * 37 % 1000:03}{'xyz'[n % 3]}"}
    for n in range(11, 51)
]
LENGTHS: Rows = [
    {"prompt": f"A train goes {v} km/h for {t} hours. How far? Give a number and a unit.", "answer": f"{v * t} km"}
    for v in range(60, 70)
    for t in (2, 3, 5)
]
TIMES: Rows = [
    {
        "prompt": f"It is {h:02}:{m:02}. What time is it 90 minutes later? (HH:MM)",
        "answer": f"{(h + 1 + (m + 30) // 60) % 24:02}:{(m + 30) % 60:02}",
    }
    for h in range(6, 22)
    for m in (10, 45)
]
DATES: Rows = [
    {"prompt": f"Which date is {n} days after 2024-03-01? (YYYY-MM-DD)", "answer": f"2024-03-{n + 1:02}"}
    for n in range(2, 30)
]
OBJECTS: Rows = [
    {
        "prompt": f'Give the name and the age as JSON with the keys "name" and "age": {name.title()} is {n} years old.',
        "answer": json.dumps({"name": name.title(), "age": n}),
    }
    for n, name in enumerate(WORDS, 20)
]
TARGETS: Rows = [
    {"prompt": f"Give three different whole numbers from 1 to 60 that add up to {n}, separated by spaces.", "n": n,
     "answer": f"1 2 {n - 3}"}
    for n in range(20, 60)
]  # fmt: skip
ABOVE: Rows = [{"prompt": f"Give a multiple of {n} between {10 * n} and {20 * n}.", "n": n} for n in range(11, 51)]
TOPICS: Rows = [
    {"prompt": f"Write one sentence with the words {one}, {two} and {three}.", "words": [one, two, three]}
    for one, two, three in (WORDS[n : n + 3] for n in range(20))
]
BITS: Rows = [{"prompt": f"Write {n} in binary.", "answer": f"{n:b}"} for n in range(33, 73)]
SIGNS: Rows = [{"prompt": f"How many of {a}, {b} are even?", "answer": (a % 2 == 0) + (b % 2 == 0)}
               for a in range(20, 30) for b in (31, 44, 53, 62)]  # fmt: skip
EQUATIONS: Rows = [
    {
        "prompt": f"Solve x^2 - {p + q}x + {p * q} = 0. Give both solutions in any order, separated by a comma.",
        "answer": f"{p}, {q}",
    }
    for p in range(2, 8)
    for q in range(p + 1, p + 5)
]
