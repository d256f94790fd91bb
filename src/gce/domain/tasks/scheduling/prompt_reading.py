"""Read a prompt back into the facts that it states: also one whose words were disturbed, lines moved or lines added.

Each line belongs to the section whose wording it resembles most; its numbers and labels are then read by the
punctuation alone. A line that resembles none is skipped if it holds no digit. What cannot be told is not guessed: the
reading is None. Bounded time for any `str`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from attrs import field, frozen

from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.wording import ANSWER_ONLY, TAUGHT, UNSEEN

__all__ = ["PromptReading", "read_prompt", "reading_of", "restates"]

LONGEST = 20_000
"""Characters of a prompt that is read."""
ALIKE = 0.35
"""Share of a wording's trigrams that a line has at least, in order to count as it."""
ANSWER = "Answer: JOB HOUR, JOB HOUR"

_TOKEN = re.compile("[0-9A-Za-z]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_CAPACITY = re.compile(r"(?<!\w)(\d{1,15})\s+([0-9A-Za-z]+)")


@frozen
class PromptReading:
    """What a prompt states, by job label."""

    durations: Mapping[str, int] = field(factory=dict)
    predecessors: Mapping[str, frozenset[str]] = field(factory=dict)
    capacities: Mapping[str, int] = field(factory=dict)
    """By resource name."""
    demands: Mapping[str, Mapping[str, int]] = field(factory=dict)
    """By job, then by resource name."""
    deadlines: Mapping[str, int] = field(factory=dict)
    horizon: int | None = None


def reading_of(instance: Instance) -> PromptReading:
    """Return what the prompt of an instance states."""
    names = [resource.name for resource in instance.resources]
    return PromptReading(
        {job.label: job.duration for job in instance.jobs},
        {label: frozenset(before) for label in instance.labels if (before := instance.predecessors(label))},
        {resource.name: resource.capacity for resource in instance.resources},
        {job.label: dict(zip(names, job.demands, strict=True)) for job in instance.jobs} if names else {},
        {job.label: job.deadline for job in instance.jobs if job.deadline is not None},
        instance.horizon,
    )


def restates(instance: Instance, text: str) -> bool:
    """True if the text is a prompt that states exactly this instance and asks for the answer line."""
    return ANSWER in text and read_prompt(text) == reading_of(instance)


def read_prompt(text: str) -> PromptReading | None:
    """Return what a prompt states; None if it cannot be told."""
    if len(text) > LONGEST:
        return None
    sections: dict[str, str] = {}
    for line in text.split("\n"):
        section = _section(line)
        if section in sections or (not section and any(map(str.isdigit, line))):
            return None
        if section:
            sections[section] = line
    try:
        return _reading(sections)
    except ValueError:
        return None


def _reading(sections: Mapping[str, str]) -> PromptReading:
    """Read the lines; ValueError if one is not as its section wants it."""
    durations = _hours(sections.get("durations", ""))
    waits = dict(_sequence(sections.get("sequence", "")))
    capacities, demands = _resources(sections["resources"]) if "resources" in sections else ({}, {})
    deadlines = _hours(sections.get("deadlines", ""))
    horizon = None
    if "horizon" in sections:
        (horizon,) = map(int, re.findall(r"\d{1,15}", sections["horizon"]))
    labels = {*durations, *waits, *demands, *deadlines}
    # Predecessors that are only named as such are known by their form: nothing else in a sequence is a label.
    labels |= {each for before in waits.values() for each in before if len(each) == 1 and each.isupper()}
    predecessors = {job: frozenset(each for each in before if each in labels) for job, before in waits.items()}
    if not all(predecessors.values()):
        raise ValueError("a job waits for nothing")
    return PromptReading(durations, predecessors, capacities, demands, deadlines, horizon)


def _region(line: str) -> str:
    """Return what stands between the first colon and the next full stop."""
    return line.partition(":")[2].partition(".")[0]


def _items(region: str, separator: str) -> Iterator[list[str]]:
    """Yield the tokens of each item."""
    for item in re.split(separator, region):
        if tokens := _TOKEN.findall(item):
            yield tokens


def _once(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for label, value in pairs:
        if label in found:
            raise ValueError(f"{label} occurs twice")
        found[label] = value
    return found


def _hours(line: str) -> dict[str, int]:
    return _once((tokens[0], int(tokens[-1])) for tokens in _items(_region(line), ","))


def _sequence(line: str) -> Iterator[tuple[str, list[str]]]:
    region, separator = (_region(line), ";") if ":" in line else (line, r"\.")
    seen = set()
    for job, *others in _items(region, separator):
        if job in seen:
            raise ValueError(f"{job} occurs twice")
        seen.add(job)
        yield job, others


def _resources(line: str) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    before, opened, rest = line.partition("(")
    inside, _, uses = rest.partition(")")
    capacities = _once((name, int(units)) for units, name in _CAPACITY.findall(before))
    names = [token for token in _TOKEN.findall(inside) if token in capacities]
    if not opened or sorted(names) != sorted(capacities):
        raise ValueError("the resources are not named once each")
    demands: dict[str, dict[str, int]] = {}
    for job, *units in _items(uses.partition(":")[2].partition(".")[0], ","):
        if job in demands:
            raise ValueError(f"{job} occurs twice")
        demands[job] = dict(zip(names, map(int, units), strict=True))
    return capacities, demands


@cache
def _wordings() -> Mapping[str, Sequence[frozenset[str]]]:
    """Return the trigrams of each wording, by section."""
    texts: dict[str, list[str]] = defaultdict(list, answer=[ANSWER_ONLY])
    for phrases in (TAUGHT, UNSEEN):
        texts["intro"] += phrases.intro
        texts["durations"] += [phrase([]) for phrase in phrases.durations]
        texts["sequence"] += [phrase([("", "")]) for phrase in phrases.sequence]
        texts["resources"] += [phrase("", "", "") for phrase in phrases.resources]
        texts["deadlines"] += [phrase([]) for phrase in phrases.deadlines]
        texts["horizon"] += [phrase(0) for phrase in phrases.horizon]
        texts["answer"] += phrases.answer
    return {section: [_trigrams(each) for each in wordings] for section, wordings in texts.items()}


def _trigrams(text: str) -> frozenset[str]:
    words = f" {' '.join(_LETTERS.findall(text.lower()))} "
    return frozenset(words[at : at + 3] for at in range(len(words) - 2))


def _section(line: str) -> str:
    """Return the section that a line belongs to; empty if it resembles none."""
    own = _trigrams(line)
    alike = {
        section: max(len(own & each) / len(each) for each in wordings) for section, wordings in _wordings().items()
    }
    best = max(alike, key=alike.__getitem__)
    return best if alike[best] >= ALIKE else ""
