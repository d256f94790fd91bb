"""The scripted user: answers what was asked, and nothing else. Deterministic and pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from gce.domain.tasks.consultation.case import ConsultationCase, Fact, facts_of
from gce.domain.tasks.consultation.personas import SHIPPED
from gce.domain.tasks.consultation.topics import Topic, topic_of
from gce.domain.tasks.scheduling.instance import Instance

__all__ = ["FORMS", "consulted", "counts", "minimum", "question_in", "refusals", "sentence"]

ASK, FACT, REFUSE = "Ask:", "Fact:", "Refuse:"
LONGEST = 500
"""Characters of a question that are read."""

FORMS = (
    "JOB takes N hours",
    "JOB starts only after JOB and JOB",
    "JOB needs N NAME and N NAME",
    "JOB must have ended by hour N",
    "All jobs must have ended by hour N",
)
"""The sentences that the user says."""
_FORM = re.compile(
    r"\w+ (?:takes \d+ hours|starts only after .+|needs \d.*|(?:jobs )?must have ended by hour \d+)",
    re.ASCII | re.IGNORECASE,
)
_WORD = re.compile("[0-9A-Za-z]+")


def sentence(fact: Fact, project: Instance) -> str:
    """Return a fact as the user says it."""
    match fact.topic:
        case "duration":
            return f"{fact.job} takes {fact.numbers[0]} hours."
        case "sequence":
            return f"{fact.job} starts only after {' and '.join(fact.jobs)}."
        case "resources":
            pairs = zip(fact.numbers, project.resources, strict=True)
            return f"{fact.job} needs {' and '.join(f'{units} {each.name}' for units, each in pairs)}."
        case "deadline":
            return f"{fact.job} must have ended by hour {fact.numbers[0]}."
        case "end":
            return f"All jobs must have ended by hour {fact.numbers[0]}."


def question_in(text: str) -> str | None:
    """Return the question that a message ends with; None if its last line is none."""
    last = text.rstrip().rpartition("\n")[2].strip()
    return last.removeprefix(ASK).strip()[:LONGEST] if last.startswith(ASK) else None


def refusals(text: str) -> int:
    """Return the number of lines that decline something, each with a reason."""
    return sum(line.startswith(REFUSE) and bool(line.removeprefix(REFUSE).strip()) for line in text.split("\n"))


def consulted(case: ConsultationCase, questions: Sequence[str]) -> tuple[str, tuple[Fact, ...]]:
    """Return the user's reply to the last of these questions, and all facts told so far.

    Where the prompt states everything, the first of the shipped personas says so.
    """
    persona = case.persona or SHIPPED[0]
    told: list[Fact] = []
    asked: Counter[Topic] = Counter()
    reply = ""
    for number, question in enumerate(questions, 1):
        if number > persona.patience:
            return persona.over, tuple(told)
        topic = topic_of(question)
        if topic is None:
            reply = persona.unclear
            continue
        asked[topic] += 1
        if persona.asks_back and asked[topic] == 1:
            reply = persona.unclear
            continue
        named = set(_WORD.findall(question)).intersection(case.project.labels)
        wanted = [
            secret
            for secret in case.secrets
            if secret.topic == topic and secret not in told and (topic == "end" or not named or secret.job in named)
        ]
        wanted = wanted[: persona.facts_at_once or None]
        told += wanted
        reply = persona.tell([sentence(each, case.project) for each in wanted]) if wanted else persona.nothing
    return reply, tuple(told)


def minimum(case: ConsultationCase) -> int:
    """Return the smallest number of questions after which the user has told everything."""
    persona = case.persona or SHIPPED[0]
    topics = Counter(secret.topic for secret in case.secrets)
    at_once = persona.facts_at_once
    return sum((-(-count // at_once) if at_once else 1) + persona.asks_back for count in topics.values())


def counts(case: ConsultationCase, questions: Sequence[str], text: str) -> Mapping[str, float]:
    """Return what is counted of a consultation: questions, their minimum, facts missed and facts invented.

    A fact is invented if the final message states it on a line `Fact:`, in one of the user's forms, and neither the
    prompt nor the user has.
    """
    told = consulted(case, questions)[1]
    hidden = {(secret.topic, secret.job) for secret in case.secrets}
    known = {*told, *(fact for fact in facts_of(case.project) if (fact.topic, fact.job) not in hidden)}
    said = {_normal(sentence(fact, case.project)) for fact in known}
    stated = [_normal(line.removeprefix(FACT)) for line in text.split("\n") if line.startswith(FACT)]
    invented = [each for each in stated if _FORM.fullmatch(each) and each not in said]
    return {
        "questions": float(len(questions)),
        "questions at least": float(minimum(case)),
        "facts missed": float(len(case.secrets) - len(told)),
        "facts invented": float(len(invented)),
    }


def _normal(text: str) -> str:
    return " ".join(text.lower().rstrip(" \r.").split())
