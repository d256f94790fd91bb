#!/usr/bin/env python3
"""A coding agent without a model: it makes edits that are written down below, in the code of four of the shipped tasks.

`gce performance plan --out RUN --agents-file examples/performance/agents.toml` measures it like any other agent. It
gets the working copy as its only argument, and leaves code alone that it does not know.
"""

import sys
from pathlib import Path

ALL_EQUAL = """\
    groups = groupby(iterable, key)
    for _ in groups:
        for _ in groups:
            return False
    return True
"""

FACTOR = """\
    while n > 1 and not n % 2:
        yield 2
        n //= 2
    divisor = 3
    while divisor * divisor <= n:
        while not n % divisor:
            yield divisor
            n //= divisor
        divisor += 2
    if n > 1:
        yield n
"""

# file: [(old, new, what it does)]; an edit is made where `old` occurs exactly once
EDITS = {
    "more_itertools/recipes.py": [
        (
            "    return len(list(islice(groupby(iterable, key), 2))) <= 1\n",
            ALL_EQUAL,
            "all_equal makes no list",
        ),
        (
            "    for prime in sieve(math.isqrt(n) + 1):\n        while not n % prime:\n            yield prime\n"
            "            n //= prime\n            if n == 1:\n                return\n    if n > 1:\n        yield n\n",
            FACTOR,
            "factor divides by odd numbers instead of making a sieve",
        ),
    ],
    "packaging/specifiers.py": [
        ("import abc\n", "import abc\nimport functools\n", "import of functools"),
        (
            "        version = Version(version)\n    return version\n",
            "        version = _parsed(version)\n    return version\n\n\n"
            "@functools.lru_cache(maxsize=10_000)\n"
            "def _parsed(version: str) -> Version:\n    return Version(version)\n",
            "each version is parsed once",
        ),
    ],
    "sqlparse/keywords.py": [
        (r"'(''|\\\\|\\'|[^'])*'", r"'(''|\\'|[^'])*'", "one way to read a backslash in a literal instead of two"),
    ],
}

home = Path(sys.argv[1])
edited = 0
for name, edits in EDITS.items():
    path = home / name
    if not path.is_file():
        continue
    text = path.read_text(encoding="utf-8")
    for old, new, what in edits:
        if text.count(old) == 1:
            text = text.replace(old, new)
            edited += 1
            print(f"{name}: {what}")
    path.write_text(text, encoding="utf-8")
print(f"edits: {edited}")
