"""Checkers that share no code with the verifier: one walks every time step, one asks CP-SAT, one reads by hand."""

from __future__ import annotations

import unicodedata

from gce.domain.tasks.scheduling.instance import Instance

Fault = tuple[str, tuple[str, ...], float, float]


def faults(instance: Instance, starts: dict[str, int]) -> set[Fault]:
    """(kind, jobs, found, bound) of all that is wrong, for starts of known jobs only, one time step after another."""
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
    for index, resource in enumerate(instance.resources):
        worst = (resource.capacity, ())
        for moment in range(max(end.values(), default=0)):
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


def cp_sat_accepts(instance: Instance, starts: dict[str, int]) -> bool:
    """Whether CP-SAT finds the instance feasible with every start fixed. Needs ortools."""
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
        running = [job for job in instance.jobs if job.duration]  # CP-SAT counts an empty interval inside another one
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
    return status == cp_model.OPTIMAL


def read(text: str) -> list[tuple[str, int]] | None:
    """The entries of a response under the strict grammar, character by character; None where it is refused."""
    if unicodedata.normalize("NFKC", text).casefold().count("answer:") != 1:
        return None
    while text and text[-1] in " \t\r\n":
        text = text[:-1]
    line = text.split("\n")[-1]
    entries: list[tuple[str, int]] = []
    rest = list(line)
    if rest[:8] != list("Answer: "):
        return None
    del rest[:8]
    while True:
        label = _take(rest, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
        if not label or rest[:1] != [" "]:
            return None
        del rest[0]
        number = _take(rest, "0123456789")
        if number != "0" and (not number or number[0] == "0" or len(number) > 6):
            return None
        entries.append((label, int(number)))
        if not rest:
            return entries
        if rest[:2] != [",", " "]:
            return None
        del rest[:2]


def _take(rest: list[str], allowed: str) -> str:
    taken = ""
    while rest and rest[0] in allowed:
        taken += rest.pop(0)
    return taken
