"""A list of questions and a function that scores an answer, as a task: attack it, measure a model, train it.

    cd examples
    gce check --task own_questions:CAPITALS
    gce evaluate --task own_questions:CAPITALS
    gce train --task own_questions:CAPITALS --warm-up 20 --iterations 2

The rows might as well be a file: `gce.task("questions.jsonl", score, ...)` takes .jsonl, .json, .csv and .parquet.
"""

from __future__ import annotations

from collections.abc import Mapping

import gce

ROWS = """
Austria: Vienna; Belgium: Brussels; Bulgaria: Sofia; Croatia: Zagreb; Cuba: Havana; Denmark: Copenhagen; Egypt: Cairo
Finland: Helsinki; France: Paris; Germany: Berlin; Greece: Athens; Hungary: Budapest; Iceland: Reykjavik; Iran: Tehran
Iraq: Baghdad; Ireland: Dublin; Italy: Rome; Japan: Tokyo; Kenya: Nairobi; Latvia: Riga; Libya: Tripoli; Norway: Oslo
Peru: Lima; Poland: Warsaw; Portugal: Lisbon; Romania: Bucharest; Russia: Moscow; Spain: Madrid; Sweden: Stockholm
"""
QUESTIONS = [
    {"prompt": f"What is the capital of {country}? Answer with the city's name alone.", "answer": city}
    for country, city in (pair.split(": ") for line in ROWS.split("\n") if line for pair in line.split("; "))
]


def score(answer: str, problem: Mapping[str, str]) -> bool:
    """Right where the last line is the city's name, with or without a full stop."""
    return answer.removesuffix(".").casefold() == problem["answer"].casefold()


CAPITALS = gce.task(QUESTIONS, score, name="capitals", max_tokens=20)
