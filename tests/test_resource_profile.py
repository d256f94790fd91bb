"""The resource profile: hand-worked numbers, and every answer against a count of each time unit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.resource_profile import Frontier, Profile, energy, fits, overloads, usage
from gce.testing.contracts.solver import random_instance

SITE = Instance(
    [Job("A", 3, [2, 0]), Job("B", 2, [1, 1]), Job("C", 4, [2, 1]), Job("Z", 0, [3, 1])],
    resources=[Resource("workers", 3), Resource("cranes", 1)],
)
"""Of 3 workers and 1 crane: A holds 2 and 0 for three hours, B 1 and 1 for two, C 2 and 1 for four, Z all for none."""


CAMP = Instance(
    [
        *(Job("P", 3, [2, 1]), Job("Q", 5, [1, 0]), Job("R", 2, [1, 1])),
        *(Job("S", 4, [2, 0]), Job("W", 1, [2, 2]), Job("X", 2, [1, 1])),
    ],
    resources=[Resource("crew", 4), Resource("lifts", 2)],
)
CAMP_STARTS = {"P": 1, "Q": 3, "R": 5}


def counted(instance: Any, starts: Any, moment: Any) -> Any:
    """Units of each resource that the started jobs hold in one hour, added job by job."""
    started = [job for job in instance.jobs if job.label in starts]
    running = [job for job in started if 0 <= moment - starts[job.label] < job.duration]
    return tuple(sum(job.demands[index] for job in running) for index in range(len(instance.resources)))


@st.composite
def schedules(draw: Any) -> Any:
    """An instance with a start of every job, precedence and capacities kept or not."""
    instance = draw(st.randoms(use_true_random=False).map(lambda rng: random_instance(rng, max_jobs=7)))
    return instance, {label: draw(st.integers(0, 12)) for label in instance.labels}


def hours(instance: Any, starts: Any) -> Any:
    """From the first start until the last end."""
    return range(instance.makespan(starts) + 1)


def test_usage_adds_the_jobs_that_run() -> None:
    """A and B run beside each other from 1 to 3."""
    found = [usage(SITE, {"A": 0, "B": 1}, moment) for moment in range(4)]
    assert found == [(2, 0), (3, 1), (3, 1), (0, 0)]


def test_a_job_that_takes_no_time_holds_nothing() -> None:
    """Z holds all that there is, at 1, for no time."""
    assert usage(SITE, {"A": 0, "Z": 1}, 1) == (2, 0)
    assert overloads(SITE, {"A": 0, "Z": 1}) == []
    assert fits(SITE, SITE.job("Z"), 1, {"A": 0})


def test_energy_is_units_times_hours() -> None:
    """Workers 6 + 2 + 8, cranes 0 + 2 + 4."""
    assert [energy(SITE, index) for index in (0, 1)] == [16, 6]


def test_overloads_name_the_first_moment_of_the_worst_excess_of_each_resource() -> None:
    """Workers: 4 at 0 with A and C, 5 from 1 with B; cranes: 2 from 1."""
    assert overloads(SITE, {"A": 0, "B": 1, "C": 0}) == [
        (0, 1, 5, ("A", "B", "C")),
        (1, 1, 2, ("B", "C")),
    ]


def test_what_is_given_back_at_a_moment_can_be_taken_at_it() -> None:
    """C takes the crane at 2, when B gives it back; A starts when C ends."""
    starts = {"B": 0, "C": 2, "A": 6}
    assert overloads(SITE, starts) == []
    assert fits(SITE, SITE.job("C"), 2, {"B": 0}) and not fits(SITE, SITE.job("C"), 1, {"B": 0})


def test_a_job_that_was_not_started_and_a_label_of_no_job_hold_nothing() -> None:
    """C has no start; there is no job X."""
    assert overloads(SITE, {"A": 0, "X": 0}) == []


def test_a_job_fits_only_if_it_fits_until_it_ends() -> None:
    """C runs from 3 to 7, so that A, of three hours, fits at 0 but not at 1."""
    assert [fits(SITE, SITE.job("A"), time, {"C": 3}) for time in (0, 1, 6, 7)] == [True, False, False, True]


@pytest.mark.parametrize(("earliest", "first"), [(0, 0), (1, 7), (8, 8)])
def test_first_fit_tries_the_earliest_moment_and_every_release_after_it(earliest: Any, first: Any) -> None:
    """Beside C, which runs from 3 to 7, A fits at 0, or from 7 on."""
    assert Profile(SITE, {"C": 3}).first_fit(SITE.job("A"), earliest) == first


def test_a_job_fits_at_every_hour_at_which_counting_finds_room() -> None:
    """Beside P from 1 to 4, Q from 3 to 8 and R from 5 to 7, of a crew of 4 and two lifts."""
    assert [usage(CAMP, CAMP_STARTS, hour) for hour in range(10)] == [
        *((0, 0), (2, 1), (2, 1), (3, 1), (1, 0), (2, 1), (2, 1), (1, 0), (0, 0), (0, 0))
    ]
    fitting = {label: [hour for hour in range(10) if fits(CAMP, CAMP.job(label), hour, CAMP_STARTS)] for label in "SWX"}
    assert fitting == {"S": [4, 5, 6, 7, 8, 9], "W": [0, 4, 7, 8, 9], "X": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}


def test_first_fit_finds_the_first_of_them() -> None:
    """S where P ends, W before P, where P ends, and where R does."""
    assert [Profile(CAMP, CAMP_STARTS).first_fit(CAMP.job("S"), hour) for hour in (0, 4, 5)] == [4, 4, 5]
    assert [Profile(CAMP, CAMP_STARTS).first_fit(CAMP.job("W"), hour) for hour in (0, 1, 5, 9)] == [0, 4, 7, 9]


def test_a_job_that_takes_no_time_fits_even_where_too_much_is_held() -> None:
    """A and C hold 4 workers of 3 at 1."""
    assert fits(SITE, SITE.job("Z"), 1, {"A": 0, "C": 0})
    assert not fits(SITE, SITE.job("B"), 1, {"A": 0, "C": 0})


def test_jobs_that_follow_each_other_are_not_added_up() -> None:
    """F runs beside D, then E, then G, each of which takes the other half of the crew."""
    jobs = [Job("D", 2, [1]), Job("E", 2, [1]), Job("G", 1, [1]), Job("F", 6, [1])]
    instance = Instance(jobs, resources=[Resource("crew", 2)])
    assert fits(instance, instance.job("F"), 0, {"D": 0, "E": 2, "G": 5})


@pytest.mark.parametrize("hour", [2, 4])
def test_too_much_held_later_does_not_matter(hour: Any) -> None:
    """B, from 0 to 2, is out when A and C hold 4 workers of 3."""
    assert fits(SITE, SITE.job("B"), 0, {"A": hour, "C": hour})


def test_the_frontier_names_the_releases_that_a_start_took() -> None:
    """Of a crew of 4, with each start: its job, its duration, its demand, when it is ready; then what comes of it."""
    story = [
        (("J", 3, 2, 0), [], 0, 2),
        (("K", 5, 1, 0), [], 0, 1),
        (("L", 1, 1, 0), [], 0, 0),
        (("M", 2, 1, 0), [("L", 1, 1)], 1, 0),
        (("N", 5, 1, 3), [("J", 3, 2), ("M", 3, 3)], 3, 2),  # M is out at 3 as well, though not needed.
        (("O", 1, 0, 2), [], 3, 2),
        (("P", 2, 4, 0), [("O", 4, 2), ("K", 5, 3), ("N", 8, 4)], 8, 0),
        (("Q", 1, 1, 9), [("P", 10, 4)], 10, 3),
        (("R", 4, 1, 12), [("Q", 11, 4)], 12, 3),
        (("S", 9, 1, 13), [], 13, 2),
        (("T", 1, 2, 13), [], 13, 0),
        (("U", 1, 1, 14), [("T", 14, 2)], 14, 1),
        (("V", 1, 1, 15), [("U", 15, 2)], 15, 1),
        (("W", 7, 0, 20), [("R", 16, 2), ("V", 16, 3)], 20, 3),
        (("X", 1, 4, 21), [("S", 22, 4)], 22, 0),
    ]
    jobs = [Job(label, duration, [demand]) for (label, duration, demand, _), *_ in story]
    frontier = Frontier(Instance(jobs, resources=[Resource("crew", 4)]))
    assert (frontier.now, frontier.free) == (0, (4,))
    for job, ((*_, ready), releases, now, free) in zip(jobs, story, strict=True):
        assert frontier.start(job, ready) == [(label, until, (units,)) for label, until, units in releases], job
        assert (frontier.now, frontier.free) == (now, (free,)), job


def test_the_frontier_counts_each_resource() -> None:
    """A and B at 0, one worker and then none left; C waits for B at 2 and for A at 3, and leaves one worker."""
    frontier = Frontier(SITE)
    starts = [(frontier.start(SITE.job(label), 0), frontier.now, frontier.free) for label in "ABC"]
    assert starts == [([], 0, (1, 1)), ([], 0, (0, 0)), ([("B", 2, (1, 1)), ("A", 3, (3, 1))], 3, (1, 0))]


def test_releases_of_one_moment_come_in_the_order_of_the_starts() -> None:
    """T before S, though S sorts before T."""
    jobs = [Job("T", 2, [1]), Job("S", 2, [1]), Job("U", 1, [2])]
    frontier = Frontier(Instance(jobs, resources=[Resource("crew", 2)]))
    starts = [frontier.start(job, 0) for job in jobs]
    assert starts == [[], [], [("T", 2, (1,)), ("S", 2, (2,))]]


@given(case=schedules())
def test_usage_is_what_counting_hour_by_hour_finds(case: Any) -> None:
    """At every hour of the schedule, and after it."""
    instance, starts = case
    for moment in hours(instance, starts):
        assert usage(instance, starts, moment) == counted(instance, starts, moment)


@given(case=schedules())
def test_energy_is_the_sum_of_usage_over_time(case: Any) -> None:
    """Whatever the schedule."""
    instance, starts = case
    total = [counted(instance, starts, moment) for moment in hours(instance, starts)]
    for index in range(len(instance.resources)):
        assert energy(instance, index) == sum(held[index] for held in total)


@given(case=schedules())
def test_overloads_are_what_counting_hour_by_hour_finds(case: Any) -> None:
    """The first hour of the most units held, for each resource of which more is held than there is."""
    instance, starts = case
    expected = []
    for index, resource in enumerate(instance.resources):
        held = [counted(instance, starts, moment)[index] for moment in hours(instance, starts)]
        if max(held) > resource.capacity:
            moment = held.index(max(held))
            running = [job for job in instance.jobs if 0 <= moment - starts[job.label] < job.duration]
            holding = tuple(job.label for job in running if job.demands[index])
            expected.append((index, moment, max(held), holding))
    assert overloads(instance, starts) == expected


@pytest.mark.slow
@given(case=schedules(), data=st.data())
def test_a_job_fits_first_where_counting_hour_by_hour_finds_room(case: Any, data: st.DataObject) -> None:
    """Beside jobs that keep the capacities."""
    instance, wanted = case
    job = instance.job(data.draw(st.sampled_from(instance.labels)))
    starts: dict[str, int] = {}
    for other in instance.jobs:
        if other != job:
            starts[other.label] = Profile(instance, starts).first_fit(other, wanted[other.label])

    def has_room(time: Any) -> Any:
        return all(
            held + demand <= resource.capacity
            for moment in range(time, time + job.duration)
            for held, demand, resource in zip(
                counted(instance, starts, moment), job.demands, instance.resources, strict=True
            )
        )

    earliest = data.draw(st.integers(0, 12))
    first = Profile(instance, starts).first_fit(job, earliest)
    assert [fits(instance, job, time, starts) for time in range(first + 2)] == list(map(has_room, range(first + 2)))
    assert first == next(time for time in range(earliest, first + 1) if has_room(time))


@given(case=schedules())
def test_what_the_frontier_starts_never_overloads_a_resource(case: Any) -> None:
    """Starts never decrease, come when ready, and leave free what counting at the last start finds at least."""
    instance, ready = case
    frontier = Frontier(instance)
    starts: dict[str, int] = {}
    for job in instance.jobs:
        last = frontier.now
        frontier.start(job, ready[job.label])
        assert frontier.now >= max(last, ready[job.label])
        assert all(units >= 0 for units in frontier.free)
        starts[job.label] = frontier.now
    assert overloads(instance, starts) == []
