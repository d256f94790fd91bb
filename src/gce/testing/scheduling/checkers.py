"""Schedule checkers that share no code with the verifier: a walk over time steps, an event sweep, and a parser.

`accepts` combines them: it is the independent judge of scheduling that `gce check` uses. Another checker uses CP-SAT,
which is imported only when it is called.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from gce.domain.problems import Problem
from gce.domain.tasks.scheduling.instance import Instance

__all__ = ["accepts", "accepts_schedule", "cp_sat_accepts", "faults", "read", "sweep_accepts"]

Fault = tuple[str, tuple[str, ...], float, float]

_LETTERS_AND_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BLANK_LETTERS = "\u115f\u1160\U00013441\U00013442"


def accepts(problem: Problem, text: str) -> bool:
    """True if a response is right: parsed by hand, with time steps walked and events swept.

    Raises:
        AssertionError: the two checkers disagree.
    """
    return accepts_schedule(problem.instance, text)


def accepts_schedule(instance: Instance, text: str) -> bool:
    """The same for an instance."""
    entries = read(text)
    if entries is None or sorted(label for label, _ in entries) != sorted(instance.labels):
        return False
    return _both_accept(instance, tuple(sorted(entries)))


@lru_cache(maxsize=20_000)
def _both_accept(instance: Instance, entries: tuple[tuple[str, int], ...]) -> bool:
    starts = dict(entries)
    walked = not faults(instance, starts)
    if sweep_accepts(instance, starts) != walked:
        raise AssertionError(f"the walk and the sweep disagree: {starts!r} on {instance!r}")
    return walked


def faults(instance: Instance, starts: dict[str, int]) -> set[Fault]:
    """Return (kind, jobs, found, bound) of all violations for starts of known jobs, found step by step in time."""
    wrong: set[Fault] = set()
    present = [job for job in instance.jobs if job.label in starts]
    for job in instance.jobs:
        if job not in present:
            wrong.add(("missing", (job.label,), 0, 1))
    end = {job.label: starts[job.label] + job.duration for job in present}
    runs = {job.label: set(range(starts[job.label], end[job.label])) for job in present}
    for before, after in instance.precedence:
        if before in starts and after in starts and end[before] > starts[after]:
            wrong.add(("precedence", (before, after), starts[after], end[before]))
    moments = sorted(set[int]().union(*runs.values()))
    for index, resource in enumerate(instance.resources):
        worst: tuple[int, tuple[str, ...]] = (resource.capacity, ())
        for moment in moments:
            holders = [job for job in present if moment in runs[job.label] and job.demands[index]]
            held = sum(job.demands[index] for job in holders)
            if held > worst[0]:
                worst = (held, tuple(job.label for job in holders))
        if worst[1]:
            wrong.add(("capacity", worst[1], worst[0], resource.capacity))
    for job in present:
        if job.deadline is not None and end[job.label] > job.deadline:
            wrong.add(("deadline", (job.label,), end[job.label], job.deadline))
    if instance.horizon is not None and any(when > instance.horizon for when in end.values()):
        last = max(end.values())
        late = tuple(job.label for job in present if end[job.label] == last)
        wrong.add(("horizon", late, last, instance.horizon))
    return wrong


def sweep_accepts(instance: Instance, starts: dict[str, int]) -> bool:
    """True if starts of all jobs satisfy every constraint: one sweep over the events in order of time.

    At each moment jobs end first, then jobs of duration 0 take place, then the others start.
    """
    jobs = {job.label: job for job in instance.jobs}
    if set(starts) != set(jobs):
        return False
    ends, moments, begins = 0, 1, 2
    events = [(starts[label], begins if job.duration else moments, job) for label, job in jobs.items()]
    events += [(starts[label] + job.duration, ends, job) for label, job in jobs.items() if job.duration]
    free = [resource.capacity for resource in instance.resources]
    over: set[str] = set()
    for now, what, job in sorted(events, key=lambda event: event[:2]):
        if what != ends:
            for before in instance.predecessors(job.label):
                if before not in over and (jobs[before].duration or starts[before] != now):
                    return False
        if what == begins:
            free = [units - demand for units, demand in zip(free, job.demands, strict=True)]
            if any(units < 0 for units in free):
                return False
            continue
        if what == ends:
            free = [units + demand for units, demand in zip(free, job.demands, strict=True)]
        over.add(job.label)
        if any(bound is not None and now > bound for bound in (job.deadline, instance.horizon)):
            return False
    return True


def cp_sat_accepts(instance: Instance, starts: dict[str, int]) -> bool:
    """True if CP-SAT finds the instance feasible with every start fixed. Requires ortools."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    start = {label: model.new_int_var(value, value, label) for label, value in starts.items()}
    interval = {
        job.label: model.new_fixed_size_interval_var(start[job.label], job.duration, f"run {job.label}")
        for job in instance.jobs
    }
    duration = {job.label: job.duration for job in instance.jobs}
    for before, after in instance.precedence:
        model.add(start[after] >= start[before] + duration[before])
    for index, resource in enumerate(instance.resources):
        running = [job for job in instance.jobs if job.duration]  # CP-SAT counts an empty interval inside another
        model.add_cumulative(
            [interval[job.label] for job in running], [job.demands[index] for job in running], resource.capacity
        )
    for job in instance.jobs:
        for bound in (job.deadline, instance.horizon):
            if bound is not None:
                model.add(start[job.label] + job.duration <= bound)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE), solver.status_name(status)
    return bool(status == cp_model.OPTIMAL)


def read(text: str) -> list[tuple[str, int]] | None:
    """Parse a response under the strict grammar, character by character; None if it is rejected."""
    squeezed = "".join(
        character
        for character in unicodedata.normalize("NFKD", text).lower()
        if character == ":" or (character.isalnum() and character not in _BLANK_LETTERS)
    )
    if squeezed.count("answer:") != 1:
        return None
    end = len(text)
    while end and text[end - 1] in " \t\r\n":
        end -= 1
    at = text.rfind("\n", 0, end) + 1
    if text[at : at + 8] != "Answer: ":
        return None
    at += 8
    entries: list[tuple[str, int]] = []
    while True:
        label, at = _take(text, at, end, _LETTERS_AND_DIGITS)
        if not label or text[at : at + 1] != " ":
            return None
        number, at = _take(text, at + 1, end, "0123456789")
        if number != "0" and (not number or number[0] == "0" or len(number) > 6):
            return None
        entries.append((label, int(number)))
        if at == end:
            return entries
        if text[at : at + 2] != ", ":
            return None
        at += 2


def _take(text: str, at: int, end: int, allowed: str) -> tuple[str, int]:
    begun = at
    while at < end and text[at] in allowed:
        at += 1
    return text[begun:at], at
