"""Minimum-makespan schedules for small instances, by branch and bound in plain Python.

Jobs start in order of time, each as early as the jobs already placed allow. A node is a set of placed jobs with their
ends (the precedence tree of Patterson et al., 1989). These rules prune the tree:

- Jobs that can never be part of an overload follow their predecessors and are not branched on.
- Of two jobs that differ only in their successors and due dates, the more constraining one goes first.
- A job that could start only after another could have started and ended is not next (active schedules).
- A set of jobs is not searched again if it was placed before with no end later (cutset rule of Demeulemeester and
  Herroelen, 1992).
- The work due by each latest finish time must fit into the resources left until then.

Reads no clock: the caller may pass `stop`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.solution import Solution

__all__ = ["MAX_JOBS", "solve"]

MAX_JOBS = 16
"""Above this size few instances are solved within the node limit; from 13 jobs on, hard ones are not."""

_NODES_BETWEEN_STOPS = 64


def solve(instance: Instance, *, node_limit: int = 2_000_000, stop: Callable[[], bool] | None = None) -> Solution:
    """Return a minimum-makespan schedule that satisfies every constraint, deadlines and horizon included.

    Deterministic. If `node_limit` nodes were searched, or `stop` (called from time to time) returns true, the status is
    `feasible` with the best schedule so far, or `unknown`. `seconds` is 0.

    Raises:
        ValueError: more than `MAX_JOBS` jobs.
    """
    if len(instance.jobs) > MAX_JOBS:
        raise ValueError(
            f"expected at most {MAX_JOBS} jobs, got {len(instance.jobs)}: use CP-SAT "
            "(gce.adapters.solvers.cpsat.CpSatSolver)"
        )
    project = _Project(instance)
    if project.infeasible:
        return Solution("infeasible", None, None, project.lower_bound)
    search = _Search(project, node_limit, stop)
    finished = search.run()
    if search.best is None:
        return Solution("infeasible" if finished else "unknown", None, None, project.lower_bound)
    starts = project.starts(search.best)
    makespan = instance.makespan(starts)
    if finished:
        return Solution("optimal", starts, makespan, makespan)
    return Solution("feasible", starts, makespan, project.lower_bound)


class _Project:
    """An instance as integers: jobs in topological order, sets of jobs as bit masks, demands packed into one number.

    A packed number has one field per resource and a guard bit above each field. If all guards are set before a
    subtraction, a guard that is cleared shows that its field fell below 0.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.labels = instance.topological_order
        index = {label: j for j, label in enumerate(self.labels)}
        self.jobs = range(len(self.labels))
        self.duration = [instance.job(label).duration for label in self.labels]
        self.predecessors = [[index[before] for before in instance.predecessors(label)] for label in self.labels]
        self.total = sum(self.duration)
        self.latest_end = self.total if instance.horizon is None else min(self.total, instance.horizon)
        """Latest end worth considering."""
        self._relate()
        self._bound_times()
        self._pack_demands()
        self._find_core()
        self._find_order()
        self._bound_makespan()

    def _relate(self) -> None:
        self.before = [0] * len(self.jobs)
        self.after = [0] * len(self.jobs)
        for j in self.jobs:
            for p in self.predecessors[j]:
                self.before[j] |= self.before[p] | 1 << p
        for j in self.jobs:
            for i in self.jobs:
                if self.before[j] >> i & 1:
                    self.after[i] |= 1 << j
        self.related = [self.before[j] | self.after[j] for j in self.jobs]

    def _bound_times(self) -> None:
        """Compute heads, tails, and the latest finish times under deadlines and horizon."""
        duration = self.duration
        self.head = [0] * len(self.jobs)
        self.tail = [0] * len(self.jobs)
        self.due = [self.latest_end] * len(self.jobs)
        for j in self.jobs:
            deadline = self.instance.job(self.labels[j]).deadline
            if deadline is not None:
                self.due[j] = min(deadline, self.latest_end)
            self.head[j] = max((self.head[p] + duration[p] for p in self.predecessors[j]), default=0)
        for j in reversed(self.jobs):
            for p in self.predecessors[j]:
                self.tail[p] = max(self.tail[p], self.tail[j] + duration[j])
                self.due[p] = min(self.due[p], self.due[j] - duration[j])
        self.critical_path = max(self.head[j] + duration[j] + self.tail[j] for j in self.jobs)

    def _pack_demands(self) -> None:
        """Pack the demands that can be part of an overload; others, and those of jobs of duration 0, become 0."""
        rows: list[tuple[int, list[int]]] = []
        for r, resource in enumerate(self.instance.resources):
            load = [self.instance.job(self.labels[j]).demands[r] if self.duration[j] else 0 for j in self.jobs]
            beside = [sum(load[i] for i in self.jobs if not self.related[j] >> i & 1) for j in self.jobs]
            load = [load[j] if beside[j] > resource.capacity else 0 for j in self.jobs]
            if any(load):
                rows.append((resource.capacity, load))
        rows.extend(self._cliques(rows))
        largest = max((capacity for capacity, _ in rows), default=0)
        width = (largest * max(self.total, 1)).bit_length() + 1
        self.capacity = sum(capacity << width * r for r, (capacity, _) in enumerate(rows))
        self.guards = sum(1 << width * (r + 1) - 1 for r in range(len(rows)))
        self.demand = [sum(load[j] << width * r for r, (_, load) in enumerate(rows)) for j in self.jobs]
        self.rows = rows

    def _cliques(self, rows: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
        """Return sets of pairwise incompatible jobs as unary resources: redundant constraints that sharpen bounds."""
        users = [j for j in self.jobs if any(load[j] for _, load in rows)]
        apart = [0] * len(self.jobs)
        for i in users:
            for j in users:
                if self.related[i] >> j & 1 or any(load[i] + load[j] > capacity for capacity, load in rows):
                    apart[i] |= 1 << j
        found: set[int] = set()
        for seed in users:
            clique = 1 << seed
            for j in sorted(users, key=lambda j: -self.duration[j]):
                if not clique & ~apart[j]:
                    clique |= 1 << j
            found.add(clique)
        return [(1, [clique >> j & 1 for j in self.jobs]) for clique in sorted(found) if clique & (clique - 1)]

    def _find_core(self) -> None:
        """Find the jobs to branch on, and the time lags that the other jobs induce between them.

        Core jobs are numbered by their place in `core`. `arcs[k]` holds (core job, minimum time from its end to the
        start of k). `release[k]` is the earliest start of k that jobs outside the core impose. `reach_out[k]` is the
        longest time after the end of k for which k still delays a core job or, through jobs outside the core, the end
        of the project.
        """
        self.core = [j for j in self.jobs if self.demand[j]]
        self.place = {j: k for k, j in enumerate(self.core)}
        lags: list[dict[int, int]] = []
        releases: list[int] = []
        self.reach_out = [0] * len(self.core)
        for j in self.jobs:
            lag: dict[int, int] = {}
            release = 0
            for p in self.predecessors[j]:
                if p in self.place:
                    lag.setdefault(self.place[p], 0)
                    continue
                release = max(release, releases[p] + self.duration[p])
                for k, time in lags[p].items():
                    lag[k] = max(lag.get(k, 0), time + self.duration[p])
            lags.append(lag)
            releases.append(release)
            own = 0 if j in self.place else self.duration[j]
            for k, time in lag.items():
                self.reach_out[k] = max(self.reach_out[k], time + own)
        self.arcs = [tuple(lags[j].items()) for j in self.core]
        self.release = [releases[j] for j in self.core]

    def _find_order(self) -> None:
        """Find, for each core job, the core jobs that must be placed before it: predecessors and dominating jobs.

        Exchanging two jobs of equal duration and demand keeps a schedule feasible if the job that moves up needs no
        predecessors that the other does not, has all the other's successors, and is due no later.
        """
        self.required = [sum(1 << k for k, _ in arcs) for arcs in self.arcs]
        rank = [(self.duration[j], self.demand[j]) for j in self.core]
        for k, a in enumerate(self.core):
            for other, b in enumerate(self.core):
                if k == other or rank[k] != rank[other] or self.related[a] >> b & 1:
                    continue
                if self.before[a] & ~self.before[b] or self.after[b] & ~self.after[a] or self.due[a] > self.due[b]:
                    continue
                alike = (self.before[a], self.after[a], self.due[a]) == (self.before[b], self.after[b], self.due[b])
                if k < other or not alike:
                    self.required[other] |= 1 << k

    def _bound_makespan(self) -> None:
        """Bound by the critical path and, for each resource, by its work between the smallest head and tail."""
        self.lower_bound = self.critical_path
        for capacity, load in self.rows:
            users = [j for j in self.jobs if load[j]]
            work = sum(load[j] * self.duration[j] for j in users)
            busy = -(-work // capacity)
            least = min(self.head[j] for j in users) + busy + min(self.tail[j] for j in users)
            self.lower_bound = max(self.lower_bound, least)
        late = any(self.head[j] + self.duration[j] > self.due[j] for j in self.jobs)
        self.infeasible = late or self.lower_bound > self.latest_end

    def starts(self, ends: list[int]) -> dict[str, int]:
        """Return the starts by label, in prompt order, given the ends of the core jobs."""
        start = [0] * len(self.jobs)
        for j in self.jobs:
            if j in self.place:
                start[j] = ends[self.place[j]] - self.duration[j]
            else:
                start[j] = max((start[p] + self.duration[p] for p in self.predecessors[j]), default=0)
        by_label = dict(zip(self.labels, start, strict=True))
        return {label: by_label[label] for label in self.instance.labels}


class _Search:
    """Depth-first search over the core jobs of a project; `best` holds their ends in the best schedule so far."""

    def __init__(self, project: _Project, node_limit: int, stop: Callable[[], bool] | None) -> None:
        self.project = project
        self.node_limit = node_limit
        self.stop = stop
        self.nodes = 0
        self.interrupted = False
        self.best: list[int] | None = None
        self.jobs = range(len(project.core))
        self.duration = [project.duration[j] for j in project.core]
        self.demand = [project.demand[j] for j in project.core]
        self.work = [project.demand[j] * project.duration[j] for j in project.core]
        self.all_placed = (1 << len(project.core)) - 1
        self.end = [0] * len(project.core)
        """Ends of the placed jobs on the path to the current node."""
        self.width = (2 * project.total + 1).bit_length() + 1
        self.ones = sum(1 << self.width * k for k in self.jobs)
        self.seen: dict[int, list[int]] = {}
        self.limit_makespan(project.latest_end)

    def limit_makespan(self, makespan: int) -> None:
        """Restrict the search to schedules that end no later than `makespan`."""
        project = self.project
        self.latest_end = [min(project.due[j], makespan - project.tail[j]) for j in project.core]
        self.latest_start = [end - duration for end, duration in zip(self.latest_end, self.duration, strict=True)]
        self.by_latest_end = sorted(self.jobs, key=self.latest_end.__getitem__)

    def run(self) -> bool:
        """Search; return True if the search completed, so that `best` is optimal, or None if nothing is feasible."""
        if not self.jobs:
            self.best = []
            return True
        self.branch(0, 0, [])
        return not self.interrupted

    def branch(self, placed: int, now: int, running: list[tuple[int, int]]) -> bool:
        """Search below a node; return True to end the whole search.

        `placed` is the set of placed jobs and `now` the latest start among them. `running` holds (end, demand) of the
        placed jobs that end later, sorted by end.
        """
        if self.out_of_time():
            return True
        eligible = self.eligible(placed, now, running)
        if not eligible:
            return False
        first = min(start for _, start, _ in eligible)
        if self.is_dominated(placed, first) or self.is_overfull(placed, first, running):
            return False
        first_end = min(start + self.duration[k] for _, start, k in eligible)
        eligible.sort()
        for _, start, k in eligible:
            if start > self.latest_start[k]:
                return False
            if start >= first_end:
                continue
            end = self.end[k] = start + self.duration[k]
            if placed | 1 << k == self.all_placed:
                return self.keep()
            still_running = [job for job in running if job[0] > start]
            insort(still_running, (end, self.demand[k]))
            if self.branch(placed | 1 << k, start, still_running):
                return True
        return False

    def out_of_time(self) -> bool:
        self.nodes += 1
        if self.nodes > self.node_limit:
            self.interrupted = True
        elif self.stop is not None and self.nodes % _NODES_BETWEEN_STOPS == 1:
            self.interrupted = self.stop()
        return self.interrupted

    def eligible(self, placed: int, now: int, running: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Return (latest start, earliest start, job) of the jobs that may be next; empty if one of them is too late."""
        project, end, demand, latest_start = self.project, self.end, self.demand, self.latest_start
        required, release, arcs, guards = project.required, project.release, project.arcs, project.guards
        free_now = project.capacity | guards
        for _, held in running:
            free_now -= held
        found: list[tuple[int, int, int]] = []
        for k in self.jobs:
            if placed >> k & 1 or required[k] & ~placed:
                continue
            start = release[k]
            if start < now:
                start = now
            for p, lag in arcs[k]:
                if end[p] + lag > start:
                    start = end[p] + lag
            left = free_now - demand[k]
            for freed_at, held in running:
                if freed_at > start:
                    if left & guards == guards:
                        break
                    start = freed_at
                left += held
            if start > latest_start[k]:
                return []
            found.append((latest_start[k], start, k))
        return found

    def is_dominated(self, placed: int, first: int) -> bool:
        """True if these jobs were placed before with no relevant end later, from `first` on."""
        width, end, reach_out = self.width, self.end, self.project.reach_out
        times = first * self.ones
        for k in self.jobs:
            if placed >> k & 1 and end[k] + reach_out[k] > first:
                times += (end[k] + reach_out[k] - first) << width * k
        guards = self.ones << width - 1
        seen = self.seen.setdefault(placed, [])
        guarded = times | guards
        for earlier in seen:
            if (guarded - earlier) & guards == guards:
                return True
        seen[:] = [earlier for earlier in seen if ((earlier | guards) - times) & guards != guards]
        seen.append(times)
        return False

    def is_overfull(self, placed: int, first: int, running: list[tuple[int, int]]) -> bool:
        """True if, for some latest finish time, the work due by then exceeds the capacity left from `first` on."""
        capacity, guards = self.project.capacity, self.project.guards
        work, latest_end = self.work, self.latest_end
        held = [(end, demand) for end, demand in running if end > first]
        last = held[-1][0] if held else 0
        due = sum((end - first) * demand for end, demand in held)
        for k in self.by_latest_end:
            if placed >> k & 1:
                continue
            due += work[k]
            limit = latest_end[k]
            need = due
            if limit < last:
                need -= sum((end - limit) * demand for end, demand in held if end > limit)
            if (((limit - first) * capacity | guards) - need) & guards != guards:
                return True
        return False

    def keep(self) -> bool:
        """Record a better schedule and tighten the bound; return True if no better one can exist."""
        project = self.project
        self.best = self.end[:]
        reached = max(self.end[k] + project.tail[j] for k, j in enumerate(project.core))
        makespan = max(reached, project.critical_path)
        self.limit_makespan(makespan - 1)
        return makespan <= project.lower_bound
