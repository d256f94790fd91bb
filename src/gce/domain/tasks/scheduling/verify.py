"""The scheduling verifier, which is also the reward. It fails closed, accepts any `str` and never raises.

A response is right only if it holds exactly one answer under the grammar of `answer`, with each job exactly once and no
other, and every constraint holds:

- A job starts when its predecessors have ended.
- At every moment the running jobs hold at most the capacity of each resource, in units.
- Each job with a deadline, and the project, ends in time.

A job runs over [start, start + duration), so touching intervals do not overlap, and a job of duration 0 holds nothing.
Time: linear in the response's length and O(n log n) in the jobs, for each resource. No loop runs over time steps. A
verdict proves what is wrong and never says what would be right; it does not depend on optimal schedules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from gce.domain.tasks.scheduling.answer import MAX_START, diagnose, parse
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.resource_profile import overloads
from gce.domain.verdicts import Verdict, Violation

__all__ = ["EVALUATOR", "KINDS", "MAX_VIOLATIONS", "VERSION", "feedback", "judge", "verify"]

EVALUATOR = "rcpsp"
VERSION = "2"
"""Incremented whenever some response would get a different verdict."""

KINDS = (
    "missing-answer",
    "several-answers",
    "grammar",
    "duplicate",
    "missing",
    "precedence",
    "capacity",
    "deadline",
    "horizon",
    "unknown",
)
"""Every kind of violation, in the order in which a verdict lists them."""

MAX_VIOLATIONS = 50
"""Maximum number of violations that a verdict lists; its measures count them all."""


def verify(instance: Instance, text: str) -> Verdict:
    """Judge a response: right with score 1.0, or wrong with score 0.0 and the violations that prove it.

    Measures: `makespan`, if each job has exactly one start; `violations_KIND` (hyphens as underscores), for each kind
    found; and `meant`, if the grammar rejects the response: 1.0 if the lenient parser finds a right schedule in it,
    otherwise 0.0. A job with several starts is left out when the constraints are judged.
    """
    answer = parse(text)
    if isinstance(answer, Violation):
        violations, counts = _tally((answer,))
        meant = diagnose(text, instance.labels)
        measures = {"meant": float(meant is not None and not judge(instance, meant))}
    else:
        starts = dict(answer.entries)
        repeated: dict[str, int] = {}
        if len(starts) < len(answer.entries):
            times = Counter(label for label, _ in answer.entries)
            repeated = {label: count for label, count in times.items() if count > 1}
            starts = {label: start for label, start in answer.entries if label not in repeated}
        ends = _ends(instance, starts)
        faults = _faults(instance, starts, ends, repeated)
        violations, counts = _tally(chain(_duplicate(instance, repeated), faults) if repeated else faults)
        measures = {"makespan": float(max(ends.values()))} if len(ends) == len(instance.jobs) else {}
        if not violations:
            return Verdict("right", 1.0, EVALUATOR, VERSION, measures)
    for kind, count in counts.items():
        measures[f"violations_{kind.replace('-', '_')}"] = float(count)
    return Verdict("wrong", 0.0, EVALUATOR, VERSION, measures, violations)


def judge(instance: Instance, starts: Mapping[str, int]) -> tuple[Violation, ...]:
    """Return the violations of a schedule, at most `MAX_VIOLATIONS`; empty if the schedule is right.

    A start that the grammar cannot express (negative, not an int, above 999999) is a `grammar` violation.
    """
    unwritable = {label: start for label, start in starts.items() if not _writable(start)}
    if unwritable:
        starts = {label: start for label, start in starts.items() if label not in unwritable}
    ends = _ends(instance, starts)
    violations, _ = _tally(chain(_ungrammatical(unwritable), _faults(instance, starts, ends, unwritable)))
    return violations


def feedback(verdict: Verdict) -> str:
    """Tell a person or a model in plain English what is wrong, and never what would be right."""
    if verdict.status == "failed":
        return "The answer could not be judged."
    if verdict.right:
        return "The answer is right: it keeps every constraint."
    lines = ["The answer is wrong:", *(f"- {violation.message}" for violation in verdict.violations)]
    found = sum(int(value) for name, value in verdict.measures.items() if name.startswith("violations_"))
    if found > len(verdict.violations):
        lines.append(f"- There are {found - len(verdict.violations)} more faults.")
    return "\n".join(lines)


def _tally(found: Iterable[Violation]) -> tuple[tuple[Violation, ...], dict[str, int]]:
    """Return the first violations, and the number of each kind; further violations are counted but not kept."""
    first: list[Violation] = []
    counts: dict[str, int] = {}
    for violation in found:
        counts[violation.kind] = counts.get(violation.kind, 0) + 1
        if len(first) < MAX_VIOLATIONS:
            first.append(violation)
    return tuple(first), counts


def _ends(instance: Instance, starts: Mapping[str, int]) -> dict[str, int]:
    """Return the ends of the instance's jobs that have a start, in prompt order."""
    return {job.label: starts[job.label] + job.duration for job in instance.jobs if job.label in starts}


def _faults(
    instance: Instance, starts: Mapping[str, int], ends: Mapping[str, int], unusable: Collection[str]
) -> Iterator[Violation]:
    """Yield the violations of the jobs that have one start; `unusable` labels had no usable start."""
    return chain(
        _missing(instance, ends, unusable),
        _precedence(instance, starts, ends),
        _capacity(instance, starts),
        _deadline(instance, ends),
        _horizon(instance, ends),
        _unknown(instance, starts, ends, unusable),
    )


def _writable(start: object) -> bool:
    return isinstance(start, int) and not isinstance(start, bool) and 0 <= start <= MAX_START


def _ungrammatical(labels: Iterable[str]) -> Iterator[Violation]:
    for label in map(_clip, labels):
        message = f"The start of {label} is not a whole number from 0 to {MAX_START}."
        yield Violation("grammar", message, (label,))


def _duplicate(instance: Instance, times: Mapping[str, int]) -> Iterator[Violation]:
    for label in instance.labels:
        if label in times:
            message = f"Job {label} has {times[label]} starts; each job has exactly one."
            yield Violation("duplicate", message, (label,), times[label], 1)


def _missing(instance: Instance, ends: Mapping[str, int], unusable: Collection[str]) -> Iterator[Violation]:
    if len(ends) < len(instance.jobs):
        for label in instance.labels:
            if label not in ends and label not in unusable:
                yield Violation("missing", f"Job {label} has no start.", (label,), 0, 1)


def _unknown(
    instance: Instance, starts: Mapping[str, int], ends: Mapping[str, int], unusable: Collection[str]
) -> Iterator[Violation]:
    if len(starts) > len(ends) or unusable:
        known = set(instance.labels)
        for label in chain(starts, unusable):
            if label not in known:
                yield Violation("unknown", f"There is no job {_clip(label)}.", (_clip(label),))


def _precedence(instance: Instance, starts: Mapping[str, int], ends: Mapping[str, int]) -> Iterator[Violation]:
    for before, after in instance.precedence:
        if before in ends and after in ends and starts[after] < ends[before]:
            start, end = starts[after], ends[before]
            message = f"Job {after} starts at {start}, but job {before}, which it must follow, ends at {end}."
            yield Violation("precedence", message, (before, after), start, end)


def _capacity(instance: Instance, starts: Mapping[str, int]) -> Iterator[Violation]:
    for index, moment, held, holding in overloads(instance, starts):
        resource = instance.resources[index]
        message = (
            f"At time {moment} jobs {_listed(holding)} together hold {held} units of {resource.name}, "
            f"which has {resource.capacity}."
        )
        yield Violation("capacity", message, holding, held, resource.capacity)


def _deadline(instance: Instance, ends: Mapping[str, int]) -> Iterator[Violation]:
    for job in instance.jobs:
        if job.deadline is not None and job.label in ends and ends[job.label] > job.deadline:
            end = ends[job.label]
            message = f"Job {job.label} ends at {end}, after its deadline of {job.deadline}."
            yield Violation("deadline", message, (job.label,), end, job.deadline)


def _horizon(instance: Instance, ends: Mapping[str, int]) -> Iterator[Violation]:
    last = max(ends.values(), default=0)
    if instance.horizon is not None and last > instance.horizon:
        latest = tuple(label for label, end in ends.items() if end == last)
        message = f"The project ends at {last} with {_listed(latest)}, after its deadline of {instance.horizon}."
        yield Violation("horizon", message, latest, last, instance.horizon)


def _listed(labels: tuple[str, ...]) -> str:
    if len(labels) > 12:
        return f"{', '.join(labels[:12])} and {len(labels) - 12} more"
    *others, last = labels
    return f"{', '.join(others)} and {last}" if others else last


def _clip(label: str) -> str:
    return label if len(label) <= 40 else label[:37] + "..."
