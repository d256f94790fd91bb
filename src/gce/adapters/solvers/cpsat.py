"""Exact schedules from OR-tools' CP-SAT, for instances of any size. Independent of prompts and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gce.domain.tasks.scheduling.heuristics import critical_path_length
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.resource_profile import energy
from gce.domain.tasks.scheduling.solution import Solution
from gce.errors import MissingExtra

__all__ = ["CpSatSolver", "build_model", "check_starts"]

_SEED = 0


class CpSatSolver:
    """A `Solver`. With one worker and a fixed seed, equal instances give equal schedules unless time runs out.

    Also where it runs out, with `deterministic` in place of a limit in seconds.

    Raises:
        MissingExtra: ortools is not installed.
    """

    def __init__(self) -> None:
        self._cp_model = _import_cp_model()

    def solve(self, instance: Instance, limit: float = 60.0, *, deterministic: float | None = None) -> Solution:
        """Return the minimum-makespan schedule found in at most `limit` seconds.

        With `deterministic`, the limit is instead so many units of CP-SAT's deterministic time, each a few seconds: the
        same work, and result, on every machine with the same version of OR-tools.
        """
        cp_model = self._cp_model
        model, starts, makespan = build_model(cp_model, instance, latest=sum(job.duration for job in instance.jobs))
        model.minimize(makespan)
        solver = _new_solver(cp_model)
        if deterministic is None:
            solver.parameters.max_time_in_seconds = max(limit, 0.0)
        else:
            solver.parameters.max_deterministic_time = deterministic
        status = solver.solve(model)
        seconds = float(solver.wall_time)
        known = critical_path_length(instance)
        if status == cp_model.INFEASIBLE:
            return Solution("infeasible", None, None, known, seconds)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Solution("unknown", None, None, known, seconds)
        found = {label: int(solver.value(start)) for label, start in starts.items()}
        length = instance.makespan(found)
        if status == cp_model.OPTIMAL:
            return Solution("optimal", found, length, length, seconds)
        return Solution("feasible", found, length, max(known, round(solver.best_objective_bound)), seconds)


def check_starts(instance: Instance, starts: Mapping[str, int]) -> bool:
    """True if CP-SAT accepts these starts of all jobs: precedence, resources, deadlines and horizon are satisfied.

    Raises:
        MissingExtra: ortools is not installed.
        ValueError: a job without a start, or a start of an unknown job.
    """
    if set(starts) != set(instance.labels):
        raise ValueError(f"expected a start for each of {', '.join(instance.labels)}, got {', '.join(starts)}")
    cp_model = _import_cp_model()
    model, variables, _ = build_model(cp_model, instance, latest=max(0, instance.makespan(dict(starts))))
    for label, start in starts.items():
        model.add(variables[label] == start)
    return bool(_new_solver(cp_model).solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE))


def _import_cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as exc:
        raise MissingExtra("ortools", "solver") from exc
    return cp_model


def _new_solver(cp_model: Any) -> Any:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = _SEED
    # The fastest of six settings on 80 instances of 10 to 12 jobs, in half the time of the defaults.
    solver.parameters.linearization_level = 0
    solver.parameters.search_branching = cp_model.PORTFOLIO_SEARCH
    return solver


def build_model(cp_model: Any, instance: Instance, *, latest: int) -> tuple[Any, dict[str, Any], Any]:
    """Return the model of schedules that end by `latest`, each job's start variable, and the makespan variable.

    A job of duration 0 holds nothing, so it is left out of the resource constraints.
    """
    model = cp_model.CpModel()
    makespan = model.new_int_var(0, latest, "makespan")
    if instance.horizon is not None:
        model.add(makespan <= instance.horizon)
    starts = {label: model.new_int_var(0, latest, label) for label in instance.labels}
    for job in instance.jobs:
        end = starts[job.label] + job.duration
        model.add(end <= makespan)
        if job.deadline is not None:
            model.add(end <= job.deadline)
    for before, after in instance.precedence:
        model.add(starts[before] + instance.job(before).duration <= starts[after])
    held = [
        (model.new_fixed_size_interval_var(starts[job.label], length, f"{job.label} runs"), units)
        for job in instance.jobs
        for length, units in job.holds
        if length
    ]
    for r, resource in enumerate(instance.resources):
        users = [(interval, units[r]) for interval, units in held if units[r]]
        if users:
            intervals, demands = zip(*users, strict=True)
            model.add_cumulative(intervals, demands, resource.capacity)
            # Redundant, but a single worker may take minutes to derive it.
            model.add(resource.capacity * makespan >= energy(instance, r))
    return model, starts, makespan
