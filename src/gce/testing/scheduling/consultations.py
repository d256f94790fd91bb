"""Consultations from the other side: a second judge, and a scripted consultant that shows what asking is worth.

The judge shares no code with the verifier. The consultant reads nothing but the messages that a model would be shown.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gce.domain.problems import Problem
from gce.domain.tasks.consultation.case import ConsultationCase
from gce.domain.tasks.consultation.personas import SHIPPED
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.heuristics import HEURISTICS
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.prompt_reading import PromptReading, read_prompt
from gce.testing.scheduling.checkers import accepts_schedule

__all__ = ["accepts", "consultant"]

TOPICS = ("duration", "resources", "sequence", "deadline", "end")
FACTS = re.compile(
    r"(?P<d>\w+) takes (?P<hours>\d+) hours\.|(?P<s>\w+) starts only after (?P<before>[\w ]+)\."
    r"|(?P<r>\w+) needs (?P<units>\d+ [\w ]+)\.|All jobs must have ended by hour (?P<end>\d+)\."
    r"|(?P<l>\w+) must have ended by hour (?P<latest>\d+)\."
)
WISHES = {each.wish for each in SHIPPED if each.wish}
REQUESTS = {each.request for each in SHIPPED if each.request}


def accepts(problem: Problem, text: str) -> bool:
    """True if the schedule is right under what the prompt states and the user knows, and the right thing is refused."""
    case: ConsultationCase = problem.instance
    if case.persona is not None:
        declined = [line for line in text.split("\n") if line[:7] == "Refuse:" and line[7:].strip() != ""]
        if (case.persona.request != "") != (declined != []):
            return False
    return accepts_schedule(_everything(case), text)


def _everything(case: ConsultationCase) -> Instance:
    """The project with the user's facts, put in one by one."""
    jobs = {job.label: [job.duration, job.demands, job.deadline] for job in case.project.jobs}
    places = {"duration": 0, "resources": 1, "deadline": 2}
    edges, end = set(case.project.precedence), case.project.horizon
    for fact in case.secrets:
        if fact.topic == "sequence":
            edges |= {(before, fact.job) for before in fact.jobs}
        elif fact.topic == "end":
            (end,) = fact.numbers
        else:
            jobs[fact.job][places[fact.topic]] = fact.numbers if fact.topic == "resources" else fact.numbers[0]
    return Instance(
        [Job(label, *values) for label, values in jobs.items()],  # type: ignore[arg-type]  # as in the table above
        sorted(edges),
        case.project.resources,
        end,
    )


def consultant(messages: Sequence[Mapping[str, Any]]) -> str:
    """Ask about each topic until nothing more comes, then plan by latest finish times: a model as a function.

    Knows the wishes and requests of the shipped personas by heart.
    """
    prompt = messages[0]["content"].split("\n")
    labels = prompt[1].removeprefix("The jobs are ").rstrip(".").split(", ")
    ends = next(at for at, line in enumerate(prompt) if line.startswith("You can ask"))
    stated = read_prompt("\n".join(line for line in prompt[2:ends] if line not in WISHES | REQUESTS)) or PromptReading()
    said = [each["content"] for each in messages[1:]]
    exchanges = [*zip([each.removeprefix("Ask: ") for each in said[::2]], said[1::2], strict=True)]
    topic = _next_topic(stated, labels, exchanges)
    if topic is not None:
        return f"Ask: {topic}"
    instance = _project(stated, labels, " ".join(reply for _, reply in exchanges))
    starts = HEURISTICS["latest-finish-time"](instance, random.Random(0))
    refuses = "Refuse: that is no plan.\n" if REQUESTS.intersection(prompt) else ""
    return refuses + render(starts)


def _next_topic(stated: PromptReading, labels: Sequence[str], exchanges: Sequence[tuple[str, str]]) -> str | None:
    """The first topic about which something may be left to ask; None if the user has had enough."""
    if exchanges and exchanges[-1][1].endswith("Send the plan."):
        return None
    full = {"duration": stated.durations, "resources": stated.demands if stated.capacities else labels}
    for topic in TOPICS:
        replies = [reply for asked, reply in exchanges if asked == topic]
        asks_again = bool(replies) and (replies[-1].endswith("?") or len(FACTS.findall(replies[-1])) == 1)
        if not set(labels) <= set(full.get(topic, ())) and (not replies or asks_again):
            return topic
    return None


def _project(stated: PromptReading, labels: Sequence[str], told: str) -> Instance:
    """The project as far as it is known; the first fact about something counts."""
    durations, deadlines, demands = dict(stated.durations), dict(stated.deadlines), dict(stated.demands)
    before, horizon = dict(stated.predecessors), stated.horizon
    for found in FACTS.finditer(told):
        if found["d"]:
            durations[found["d"]] = int(found["hours"])
        elif found["s"]:
            before[found["s"]] = frozenset(found["before"].split(" and "))
        elif found["r"]:
            pairs = (part.split(" ") for part in found["units"].split(" and "))
            demands[found["r"]] = {name: int(units) for units, name in pairs}
        elif found["end"]:
            horizon = int(found["end"])
        else:
            deadlines[found["l"]] = int(found["latest"])
    names = list(stated.capacities)
    jobs = [
        Job(
            label,
            durations.get(label, 1),
            [demands.get(label, {}).get(name, 0) for name in names],
            deadlines.get(label),
        )
        for label in labels
    ]
    edges = [(each, label) for label in labels for each in sorted(before.get(label, ()))]
    return Instance(jobs, edges, [Resource(*each) for each in stated.capacities.items()], horizon)
