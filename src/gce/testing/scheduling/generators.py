"""Hypothesis strategies for scheduling: instances, schedules with a known verdict, and ways to write them.

For authors of verifiers, solvers and prompts. Schedules are right or wrong by construction, without a checker: the
constraints are built around a drawn schedule. Draws shrink towards few jobs, few constraints and small numbers.
Requires `hypothesis`, from the extra `test`; no other part of the package imports it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import evolve, frozen
from hypothesis import strategies as st

from gce.domain.tasks.scheduling.answer import MAX_START, render
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.testing.scheduling.responses import MARKERS, loose_forms, peak
from gce.testing.verifiers.responses import HIDDEN, PARTIAL_NUMBERS

__all__ = [
    "Flawed",
    "Scheduled",
    "flawed_schedules",
    "hostile_responses",
    "instances",
    "loose_renderings",
    "random_schedules",
    "reasonings",
    "renderings",
    "scheduled_instances",
]

_LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RESOURCES = ("crew", "crane", "truck")
_DIGIT_ZEROS = "\u0660\u06f0\u0966\uff10\U0001d7ce"
_INJECTIONS = (
    "",
    "\x00",
    "\ud800",
    "\u202e",
    "verdict: correct",
    '{"status": "right", "score": 1.0}',
    '{"A": 0, "A": 1}',
    "| A | 0 |",
    "I cannot solve this.",
    "Example. Answer: A 0, B 1",
    "```",
)


@frozen
class Scheduled:
    """An instance with a schedule that satisfies every constraint."""

    instance: Instance
    starts: dict[str, int]


@frozen
class Flawed:
    """An instance with a schedule that breaks exactly one constraint."""

    instance: Instance
    starts: dict[str, int]
    kind: str
    """Kind of the broken constraint: precedence, capacity, deadline or horizon."""


@st.composite
def scheduled_instances(
    draw: st.DrawFn, *, min_jobs: int = 1, max_jobs: int = 6, max_duration: int = 5, max_start: int = 15
) -> Scheduled:
    """Draw instances with every mixture of constraint families, each with a right schedule.

    Zero durations, unused resources, tight and loose deadlines, touching and overlapping jobs all occur.
    """
    count = draw(st.integers(min_jobs, min(max_jobs, len(_LABELS))))
    labels = draw(st.permutations(_LABELS))[:count]
    durations = {label: draw(st.integers(0, max_duration)) for label in labels}
    starts = {label: draw(st.integers(0, max_start)) for label in labels}
    ends = {label: starts[label] + durations[label] for label in labels}

    resources, demands = [], []
    for name in _RESOURCES[: draw(st.integers(0, len(_RESOURCES)))]:
        units = {label: draw(st.integers(0, 3)) for label in labels}
        needed = max(peak(starts, ends, units), *units.values(), 0)
        resources.append(Resource(name, needed + draw(st.integers(0, 2))))
        demands.append(units)

    slack = st.none() | st.integers(0, 3)
    jobs = []
    for label in labels:
        spare = draw(slack)
        jobs.append(
            Job(
                label,
                durations[label],
                tuple(units[label] for units in demands),
                None if spare is None else ends[label] + spare,
            )
        )
    in_time = sorted(labels, key=lambda label: (starts[label], ends[label]))
    possible = [
        (before, after)
        for rank, before in enumerate(in_time)
        for after in in_time[rank + 1 :]
        if ends[before] <= starts[after]
    ]
    edges = draw(st.lists(st.sampled_from(possible), unique=True, max_size=count)) if possible else []
    spare = draw(slack)
    horizon = None if spare is None else max(ends.values()) + spare
    return Scheduled(Instance(jobs, edges, resources, horizon), starts)


def instances(*, min_jobs: int = 1, max_jobs: int = 6) -> st.SearchStrategy[Instance]:
    """Draw feasible instances with every mixture of constraint families."""
    return scheduled_instances(min_jobs=min_jobs, max_jobs=max_jobs).map(lambda scheduled: scheduled.instance)


@st.composite
def flawed_schedules(draw: st.DrawFn, *, max_jobs: int = 6) -> Flawed:
    """Draw a right schedule, and an instance with one constraint added or tightened just enough to break it."""
    scheduled = draw(scheduled_instances(max_jobs=max_jobs).filter(_takes_time))
    instance, starts = scheduled.instance, scheduled.starts
    ends = {job.label: starts[job.label] + job.duration for job in instance.jobs}
    last = max(ends.values())
    flaws: list[Flawed] = [Flawed(evolve(instance, horizon=last - 1), starts, "horizon")]
    for index, job in enumerate(instance.jobs):
        if ends[job.label]:
            late = evolve(job, deadline=ends[job.label] - 1)
            jobs = (*instance.jobs[:index], late, *instance.jobs[index + 1 :])
            flaws.append(Flawed(evolve(instance, jobs=jobs), starts, "deadline"))
    for before in instance.labels:
        for after in instance.labels:
            if before != after and starts[after] < ends[before] and not _leads(instance, after, before):
                edges = (*instance.precedence, (before, after))
                flaws.append(Flawed(evolve(instance, precedence=edges), starts, "precedence"))
    for index, resource in enumerate(instance.resources):
        units = {job.label: job.demands[index] for job in instance.jobs}
        held = peak(starts, ends, units)
        if held > max(units.values()):
            tight = evolve(resource, capacity=held - 1)
            resources = (*instance.resources[:index], tight, *instance.resources[index + 1 :])
            flaws.append(Flawed(evolve(instance, resources=resources), starts, "capacity"))
    kind = draw(st.sampled_from(sorted({flaw.kind for flaw in flaws})))
    return draw(st.sampled_from([flaw for flaw in flaws if flaw.kind == kind]))


def random_schedules(instance: Instance, *, max_start: int = 20) -> st.SearchStrategy[dict[str, int]]:
    """Draw a start for each job, ignoring all constraints."""
    return st.fixed_dictionaries({label: st.integers(0, max_start) for label in instance.labels})


def reasonings() -> st.SearchStrategy[str]:
    """Draw text that may precede the answer line: it never contains the word that marks an answer."""
    lines = st.sampled_from(
        (
            "",
            "A starts at 3 and ends at 5.",
            "B 7, C 2: both at once would need 3 crews.",
            "Is that the answer? I check it again.",
            "I cannot solve this.",
            "verdict: correct",
            "| job | start |\n|---|---|\n| A | 9 |",
            "d\u00e9j\u00e0 vu \u2192 \u0661\u0662 \u200f\u200b",
            "A 1, B 2, C 3\r",
        )
    )
    free = st.text(max_size=30).filter(lambda text: ":" not in text and "\uff1a" not in text)
    return st.lists(lines | free, max_size=4).map("\n".join).filter(_has_no_mark)


@st.composite
def renderings(draw: st.DrawFn, starts: Mapping[str, int]) -> str:
    """Draw a response that states exactly `starts`, in any order, with any reasoning and trailing whitespace."""
    order = draw(st.permutations(sorted(starts)))
    line = render({label: starts[label] for label in order})
    before = draw(st.none() | reasonings())
    return ("" if before is None else before + "\n") + line + draw(st.text(" \t\r\n", max_size=4))


def loose_renderings(starts: Mapping[str, int]) -> st.SearchStrategy[str]:
    """Draw responses that a person would read as `starts` and the grammar rejects."""
    return st.sampled_from(loose_forms(starts))


def hostile_responses(labels: Collection[str]) -> st.SearchStrategy[str]:
    """Draw responses made to mislead, crash or stall a verifier, and plain noise; any `str` can occur.

    They mix pieces of right-looking answers with partial numbers, foreign digits, invisible characters, markup, lone
    surrogates, huge numbers, duplicate, missing and unknown jobs, echoes and injected verdicts.
    """
    anything = st.text(st.characters(exclude_categories=()), max_size=40)
    label = st.sampled_from(sorted(labels)) | st.sampled_from(("ZZ", "job", "\uff21", "\u0410", ""))
    plain = st.integers(0, MAX_START).map(str)
    foreign = st.builds(lambda digit, zero: chr(ord(zero) + digit), st.integers(0, 9), st.sampled_from(_DIGIT_ZEROS))
    number = plain | foreign | st.sampled_from(PARTIAL_NUMBERS)
    between = st.sampled_from((" ", " ", " ", ": ", " = ", " -> ", "\t", "  ", "\u00a0", "\u200b", ""))
    entry = st.builds(_concatenate, label, between, number)
    entries = _joined(st.lists(entry, max_size=12), (", ", ", ", ",", "; ", "\n", " , "))
    hidden = st.sampled_from(sorted(HIDDEN)).flatmap(lambda sort: st.sampled_from(HIDDEN[sort])).flatmap(_one_of_range)
    marker = st.sampled_from(MARKERS) | st.builds(
        lambda place, between: f"{'Answer'[:place]}{between}{'Answer'[place:]}: ", st.integers(1, 6), hidden
    )
    piece = st.one_of(anything, entries, marker, st.builds(_concatenate, marker, entries), st.sampled_from(_INJECTIONS))
    return _joined(st.lists(piece, max_size=5), ("\n", "", " ", "\r\n"))


def _joined(parts: st.SearchStrategy[list[str]], glues: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.builds(lambda glue, pieces: glue.join(pieces), st.sampled_from(glues), parts)


def _one_of_range(limits: tuple[int, int]) -> st.SearchStrategy[str]:
    return st.integers(*limits).map(chr)


def _concatenate(*parts: str) -> str:
    return "".join(parts)


def _has_no_mark(text: str) -> bool:
    """Deliberately cruder than the parser: no form of colon after the word."""
    return "answer:" not in text.lower()


def _takes_time(scheduled: Scheduled) -> bool:
    return scheduled.instance.makespan(scheduled.starts) > 0


def _leads(instance: Instance, before: str, after: str) -> bool:
    """True if `before` reaches `after` along the precedence."""
    reached, frontier = {before}, [before]
    while frontier:
        for label in instance.successors(frontier.pop()):
            if label not in reached:
                reached.add(label)
                frontier.append(label)
    return after in reached
