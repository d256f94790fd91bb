"""The verifier: hand-worked verdicts, independent checkers, metamorphic relations, hostile responses, linear time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from present import present
from processor_time import within

from gce.domain.problems import Problem, ProblemId
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.verify import EVALUATOR, KINDS, MAX_VIOLATIONS, VERSION, feedback, judge, verify
from gce.domain.verdicts import Verdict, Violation
from gce.testing.scheduling import checkers as scheduling_checkers
from gce.testing.scheduling.checkers import accepts, cp_sat_accepts, faults, read
from gce.testing.scheduling.generators import (
    flawed_schedules,
    hostile_responses,
    loose_renderings,
    random_schedules,
    renderings,
    scheduled_instances,
)

# A and C together hold the crew of 2, B needs all of it and follows A; every bound is tight for A 0, C 0, B 2.
HOUSE = Instance(
    (Job("A", 2, (1,)), Job("B", 3, (2,), 5), Job("C", 1, (1,))), (("A", "B"),), (Resource("crew", 2),), horizon=5
)
RIGHT = {"A": 0, "B": 2, "C": 0}
LINE = "Answer: A 0, B 2, C 0"


def kinds(found: Any) -> Any:
    return Counter(violation.kind for violation in found)


@st.composite
def cases(draw: Any) -> tuple[Any, Any]:
    """An instance with any schedule: right, one violation away, or random."""
    case = draw(scheduled_instances() | flawed_schedules())
    starts = draw(st.just(case.starts) | random_schedules(case.instance))
    return case.instance, starts


# What one line says of a schedule


def test_a_right_answer_scores_one_and_reports_its_makespan() -> None:
    assert verify(HOUSE, "A first, then B.\n" + LINE) == Verdict("right", 1.0, EVALUATOR, VERSION, {"makespan": 5.0})


@pytest.mark.parametrize(
    ("starts", "violation"),
    [
        (
            {"A": 0, "B": 1, "C": 0},
            Violation("precedence", "Job B starts at 1, but job A, which it must follow, ends at 2.", ("A", "B"), 1, 2),
        ),
        (
            {"A": 0, "B": 2, "C": 2},
            Violation(
                "capacity", "At time 2 jobs B and C together hold 3 units of crew, which has 2.", ("B", "C"), 3, 2
            ),
        ),
        ({"A": 0, "B": 3, "C": 0}, Violation("deadline", "Job B ends at 6, after its deadline of 5.", ("B",), 6, 5)),
        (
            {"A": 0, "B": 2, "C": 6},
            Violation("horizon", "The project ends at 7 with C, after its deadline of 5.", ("C",), 7, 5),
        ),
        ({"A": 0, "B": 2}, Violation("missing", "Job C has no start.", ("C",), 0, 1)),
        ({"A": 0, "B": 2, "C": 0, "Z": 0}, Violation("unknown", "There is no job Z.", ("Z",))),
    ],
)
def test_each_violation_carries_the_numbers_that_prove_it(starts: dict[str, int], violation: Violation) -> None:
    found = judge(HOUSE, starts)
    assert violation in found
    assert verify(HOUSE, render(starts)).violations == found
    assert verify(HOUSE, render(starts)).score == 0.0


def test_a_job_given_twice_is_a_duplicate_even_with_one_value() -> None:
    verdict = verify(HOUSE, "Answer: A 0, B 2, C 0, A 0")
    assert verdict.violations == (
        Violation("duplicate", "Job A has 2 starts; each job has exactly one.", ("A",), 2, 1),
    )
    assert verdict.measures == {"violations_duplicate": 1.0}


def test_all_violations_are_reported_in_the_documented_order() -> None:
    verdict = verify(HOUSE, "Answer: B 1, C 3, B 1, Z 0, Z 1, Y 9")
    assert [violation.kind for violation in verdict.violations] == ["duplicate", "missing", "unknown", "unknown"]
    every = evolve(HOUSE, horizon=3)
    found = judge(every, {"A": 0, "B": 1, "Q": 0, "C": -1})
    assert [violation.kind for violation in found] == [
        "grammar",
        "precedence",
        "capacity",
        "horizon",
        "unknown",
    ]
    assert [KINDS.index(violation.kind) for violation in found] == sorted(KINDS.index(v.kind) for v in found)


def test_capacity_is_checked_in_units_not_jobs() -> None:
    crew = (Resource("crew", 3),)
    heavy = Instance((Job("A", 2, (2,)), Job("B", 2, (2,))), resources=crew)
    light = Instance((Job("A", 2, (1,)), Job("B", 2, (1,)), Job("C", 2, (1,))), resources=crew)
    assert kinds(judge(heavy, {"A": 0, "B": 1})) == {"capacity": 1}
    assert judge(light, {"A": 0, "B": 0, "C": 0}) == ()


def test_capacity_reports_the_first_moment_of_the_worst_overload_of_each_resource() -> None:
    jobs = [Job(label, 2, (1, units)) for label, units in zip("ABCDE", (0, 2, 2, 0, 0), strict=True)]
    instance = Instance(jobs, resources=(Resource("crew", 1), Resource("crane", 3)))
    found = judge(instance, {"A": 0, "B": 1, "C": 2, "D": 2, "E": 9})
    assert [(v.about, v.found, v.bound) for v in found] == [(("B", "C", "D"), 3, 1), (("B", "C"), 4, 3)]
    assert found[0].message == "At time 2 jobs B, C and D together hold 3 units of crew, which has 1."


def test_who_holds_a_resource_is_who_runs_at_that_moment_and_needs_it() -> None:
    """At time 3 A has ended, C begins later and D needs none; E and F run."""
    jobs = [Job(label, 2, (units,)) for label, units in zip("ABCDEF", (2, 2, 2, 0, 1, 2), strict=True)]
    instance = Instance(jobs, resources=(Resource("crew", 2),))
    found = judge(instance, {"A": 0, "B": 8, "C": 6, "D": 3, "E": 3, "F": 3})
    assert [(v.about, v.found) for v in found] == [(("E", "F"), 3)]


@pytest.mark.parametrize(
    ("count", "listed"),
    [
        (2, "J0 and J1"),
        (12, "J0, J1, J2, J3, J4, J5, J6, J7, J8, J9, J10 and J11"),
        (13, "J0, J1, J2, J3, J4, J5, J6, J7, J8, J9, J10, J11 and 1 more"),
        (27, "J0, J1, J2, J3, J4, J5, J6, J7, J8, J9, J10, J11 and 15 more"),
    ],
)
def test_a_message_lists_twelve_jobs_at_most(count: int, listed: str) -> None:
    instance = Instance([Job(f"J{index}", 1, (1,)) for index in range(count)], resources=(Resource("crew", 1),))
    (violation,) = judge(instance, dict.fromkeys(instance.labels, 0))
    assert violation.message == f"At time 0 jobs {listed} together hold {count} units of crew, which has 1."


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 37 + "...")])
def test_a_long_name_of_an_unknown_job_is_cut(length: int, shown: str) -> None:
    assert judge(HOUSE, {**RIGHT, "x" * length: 0}) == (Violation("unknown", f"There is no job {shown}.", (shown,)),)


def test_bounds_are_as_tight_for_large_numbers() -> None:
    """Beyond 256 equal numbers are no longer one object."""
    crew = (Resource("crew", 2_000),)
    jobs = (Job("A", 2_000, (1_000,)), Job("B", 3_000, (2_000,), 5_000), Job("C", 4_000, (0,)))
    instance = Instance(jobs, (("A", "B"),), crew, horizon=5_000)
    assert judge(instance, {"A": 0, "B": 2_000, "C": 1_000}) == ()
    late = evolve(instance, jobs=[evolve(job, deadline=None) for job in jobs], horizon=4_999)
    assert judge(late, {"A": 0, "B": 2_000, "C": 1_000}) == (
        Violation(
            "horizon", "The project ends at 5000 with B and C, after its deadline of 4999.", ("B", "C"), 5_000, 4_999
        ),
    )
    assert judge(Instance((Job("A", 0),)), {"A": 999_999}) == ()


def test_a_project_in_which_nothing_was_started_ends_in_time() -> None:
    instance = Instance((Job("A", 0),), horizon=0)
    assert kinds(judge(instance, {})) == {"missing": 1}


def test_touching_intervals_do_not_overlap() -> None:
    instance = Instance((Job("A", 2, (1,)), Job("B", 2, (1,))), resources=(Resource("crew", 1),))
    assert judge(instance, {"A": 0, "B": 2}) == ()
    assert judge(instance, {"A": 2, "B": 0}) == ()
    assert kinds(judge(instance, {"A": 0, "B": 1})) == {"capacity": 1}


def test_a_job_without_duration_holds_nothing_and_still_has_its_place() -> None:
    instance = Instance(
        (Job("A", 3, (1,)), Job("B", 0, (1,), 3)), (("A", "B"),), resources=(Resource("crew", 1),), horizon=3
    )
    assert judge(instance, {"A": 0, "B": 3}) == ()
    assert kinds(judge(instance, {"A": 0, "B": 1})) == {"precedence": 1}
    assert kinds(judge(instance, {"A": 0, "B": 4})) == {"deadline": 1, "horizon": 1}
    assert judge(instance.without("sequencing"), {"A": 0, "B": 1}) == ()


@pytest.mark.parametrize("start", [-1, 1_000_000, pytest.param(10**5_000, id="huge"), 3.0, True, None, "0"])
def test_a_start_that_the_grammar_could_not_write_is_a_grammar_violation(start: Any) -> None:
    found = judge(HOUSE, {**RIGHT, "A": start})
    assert found == (Violation("grammar", "The start of A is not a whole number from 0 to 999999.", ("A",)),)


# What was meant where the grammar refused


@pytest.mark.parametrize("text", ["A 0, B 2, C 0", "Answer: A -> 0, B -> 2, C -> 0", "**Answer:** A=0, B=2, C=0."])
def test_a_right_schedule_in_another_form_is_wrong_and_counted_as_meant(text: str) -> None:
    verdict = verify(HOUSE, text)
    assert verdict.status == "wrong"
    assert verdict.measures["meant"] == 1.0


@pytest.mark.parametrize("text", ["Answer: A -> 0, B -> 1, C -> 0", "Answer: A -> 0, B -> 2", "no idea", ""])
def test_a_wrong_schedule_in_another_form_is_not_meant(text: str) -> None:
    assert verify(HOUSE, text).measures["meant"] == 0.0


def test_only_what_the_grammar_refused_has_a_meaning_to_guess() -> None:
    assert "meant" not in verify(HOUSE, LINE).measures
    assert "meant" not in verify(HOUSE, "Answer: A 0, B 1, C 0").measures


@pytest.mark.slow
@given(st.data())
def test_a_right_schedule_is_meant_in_every_loose_form_and_never_rewarded(data: st.DataObject) -> None:
    case = data.draw(scheduled_instances(min_jobs=2))
    verdict = verify(case.instance, data.draw(loose_renderings(case.starts)))
    assert (verdict.status, verdict.measures["meant"]) == ("wrong", 1.0)


# Independent checkers


@pytest.mark.slow
@given(cases())
def test_the_event_sweep_agrees_with_a_walk_over_every_time_step(case: Any) -> None:
    instance, starts = case
    found = judge(instance, starts)
    assert {(v.kind, v.about, v.found, v.bound) for v in found} == faults(instance, starts)


@pytest.mark.slow
@given(cases(), st.data())
def test_a_part_of_a_schedule_is_judged_as_far_as_it_goes(case: Any, data: st.DataObject) -> None:
    instance, starts = case
    part = {label: start for label, start in starts.items() if data.draw(st.booleans())}
    found = judge(instance, part)
    assert {(v.kind, v.about, v.found, v.bound) for v in found} == faults(instance, part)


@pytest.mark.slow
@given(cases())
def test_cp_sat_with_fixed_starts_agrees(case: Any) -> None:
    pytest.importorskip("ortools")
    instance, starts = case
    assert (judge(instance, starts) == ()) == cp_sat_accepts(instance, starts)


@pytest.mark.slow
@given(scheduled_instances(), st.data())
def test_schedules_right_by_construction_are_right(case: Any, data: st.DataObject) -> None:
    verdict = verify(case.instance, data.draw(renderings(case.starts)))
    assert verdict.right
    assert verdict.measures == {"makespan": case.instance.makespan(case.starts)}


@pytest.mark.slow
@given(flawed_schedules(), st.data())
def test_schedules_one_violation_away_show_exactly_that_violation(case: Any, data: st.DataObject) -> None:
    verdict = verify(case.instance, data.draw(renderings(case.starts)))
    assert kinds(verdict.violations) == {case.kind: 1}
    assert verdict.measures[f"violations_{case.kind}"] == 1.0


@st.composite
def almost_right(draw: Any) -> tuple[Any, Any]:
    """A right response after one edit at any place, or with something hostile before or behind it."""
    case = draw(scheduled_instances(max_jobs=3))
    text = draw(renderings(case.starts))
    hostile = draw(st.sampled_from(("", " ", "0", "1", "A", ",", "\n", "-", ".", "\u200b", "\u0661", "\ud800", "\x00")))
    place = draw(st.integers(0, len(text)))
    match draw(st.sampled_from(("insert", "replace", "before", "behind"))):
        case "insert":
            text = text[:place] + hostile + text[place:]
        case "replace":
            text = text[:place] + hostile + text[place + 1 :]
        case "before":
            text = draw(hostile_responses(case.instance.labels)) + "\n" + text
        case "behind":
            text = text + draw(hostile_responses(case.instance.labels))
    return case.instance, text


@pytest.mark.slow
@settings(max_examples=200)
@given(almost_right())
def test_a_response_is_right_when_an_independent_reader_and_checker_accept_it_and_only_then(case: Any) -> None:
    instance, text = case
    verdict = verify(instance, text)
    entries = read(text)
    accepted = (
        entries is not None
        and sorted(label for label, _ in entries) == sorted(instance.labels)
        and not faults(instance, dict(entries))
    )
    assert verdict.right == accepted


def test_the_second_judge_says_where_its_checkers_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    house = evolve(HOUSE, horizon=6)
    monkeypatch.setattr(scheduling_checkers, "sweep_accepts", lambda *_: False)
    with pytest.raises(AssertionError, match="the walk and the sweep disagree"):
        accepts(Problem(ProblemId("scheduling", "by hand", "test", "T5", 0, 0), house, (), ""), "Answer: A 0, B 2, C 1")


# Metamorphic relations

fewer = settings(max_examples=50)


@fewer
@given(cases(), st.permutations("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
def test_relabelling_leaves_the_verdict_unchanged(case: Any, names: Any) -> None:
    instance, starts = case
    name = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", names, strict=True))
    renamed = Instance(
        [evolve(job, label=name[job.label]) for job in instance.jobs],
        [(name[before], name[after]) for before, after in instance.precedence],
        instance.resources,
        instance.horizon,
    )
    found = judge(renamed, {name[label]: start for label, start in starts.items()})
    assert [(v.kind, v.found, v.bound) for v in found] == [(v.kind, v.found, v.bound) for v in judge(instance, starts)]


@fewer
@given(cases(), st.data())
def test_the_order_of_jobs_edges_resources_and_entries_does_not_matter(case: Any, data: st.DataObject) -> None:
    instance, starts = case
    order = data.draw(st.permutations(range(len(instance.resources))))
    jobs = data.draw(st.permutations([evolve(job, demands=[job.demands[i] for i in order]) for job in instance.jobs]))
    edges = data.draw(st.permutations(instance.precedence))
    shuffled = Instance(jobs, edges, [instance.resources[i] for i in order], instance.horizon)
    text = render({label: starts[label] for label in data.draw(st.permutations(sorted(starts)))})
    before, after = judge(instance, starts), verify(shuffled, text).violations
    assert Counter((v.kind, frozenset(v.about), v.found) for v in before) == Counter(
        (v.kind, frozenset(v.about), v.found) for v in after
    )


@fewer
@given(cases(), st.integers(2, 1_000))
def test_scaling_time_scales_the_proof_and_keeps_the_verdict(case: Any, factor: int) -> None:
    instance, starts = case
    scaled = evolve(
        instance,
        jobs=[
            evolve(
                job, duration=job.duration * factor, deadline=None if job.deadline is None else job.deadline * factor
            )
            for job in instance.jobs
        ],
        horizon=None if instance.horizon is None else instance.horizon * factor,
    )
    found = judge(scaled, {label: start * factor for label, start in starts.items()})
    assert [(v.kind, v.about, v.found) for v in found] == [
        (v.kind, v.about, v.found if v.kind == "capacity" else present(v.found) * factor)
        for v in judge(instance, starts)
    ]


@fewer
@given(cases())
def test_a_redundant_edge_leaves_the_verdict_unchanged(case: Any) -> None:
    instance, starts = case
    extra = {
        (before, last)
        for before, middle in instance.precedence
        for last in instance.successors(middle)
        if last not in instance.successors(before)
    }
    longer = evolve(instance, precedence=(*instance.precedence, *sorted(extra)))
    assert (judge(longer, starts) == ()) == (judge(instance, starts) == ())


@fewer
@given(cases(), st.data())
def test_shrinking_a_capacity_never_makes_a_wrong_schedule_right(case: Any, data: st.DataObject) -> None:
    instance, starts = case
    least = [max(job.demands[index] for job in instance.jobs) for index in range(len(instance.resources))]
    resources = [
        evolve(resource, capacity=data.draw(st.integers(low, resource.capacity)))
        for low, resource in zip(least, instance.resources, strict=True)
    ]
    before, after = judge(instance, starts), judge(evolve(instance, resources=resources), starts)
    assert kinds(before) <= kinds(after)


@pytest.mark.parametrize(
    ("job", "start", "kind", "instance"),
    [
        ("B", 1, "precedence", evolve(HOUSE, resources=(Resource("crew", 4),))),
        ("B", 1, "capacity", evolve(HOUSE, precedence=())),
        ("B", 3, "deadline", evolve(HOUSE, horizon=None)),
        ("B", 3, "horizon", HOUSE.without("deadlines")),
    ],
)
def test_moving_one_start_across_a_tight_constraint_flips_the_verdict(
    job: str, start: int, kind: str, instance: Instance
) -> None:
    assert judge(instance, RIGHT) == ()
    assert kinds(judge(instance, {**RIGHT, job: start})) == {kind: 1}


# Totality, bounds, time

any_str = st.text(st.characters(exclude_categories=()), max_size=200)


@pytest.mark.slow
@given(any_str | hostile_responses(HOUSE.labels))
def test_any_text_gets_a_verdict_and_a_feedback(text: Any) -> None:
    verdict = verify(HOUSE, text)
    assert verdict.status in ("right", "wrong")
    assert verdict.score == (1.0 if verdict.right else 0.0)
    assert verdict.right == (not verdict.violations)
    assert len(verdict.violations) <= MAX_VIOLATIONS
    assert all(violation.kind in KINDS for violation in verdict.violations)
    assert all(isinstance(value, float) for value in verdict.measures.values())
    assert feedback(verdict).replace("\n", "").isprintable()


def test_violations_listed_are_bounded_and_counted_all() -> None:
    verdict = verify(HOUSE, LINE + "".join(f", {'x' * 90}{index} 0" for index in range(1_000)))
    assert len(verdict.violations) == MAX_VIOLATIONS
    assert verdict.measures == {"makespan": 5.0, "violations_unknown": 1_000.0}
    assert max(len(violation.message) for violation in verdict.violations) < 80
    assert feedback(verdict).endswith("\n- There are 950 more faults.")


def test_time_does_not_grow_with_the_times() -> None:
    instance = Instance(
        (Job("A", 10**12, (1,)), Job("B", 10**12, (1,))), (("A", "B"),), (Resource("crew", 1),), horizon=10**13
    )
    with within(0.1):
        assert kinds(judge(instance, {"A": 0, "B": 999_999})) == {"precedence": 1, "capacity": 1}


MEGABYTE = 1_000_000
LONG = {
    "digits": "Answer: A " + "9" * MEGABYTE,
    "a label": "Answer: " + "A" * MEGABYTE,
    "entries": "Answer: " + ", ".join(["A 1"] * (MEGABYTE // 5)),
    "unknown jobs": "Answer: " + ", ".join(f"x{index} 1" for index in range(MEGABYTE // 10)),
    "fitting entries before one that does not fit": "Answer: " + "A 1, " * (MEGABYTE // 5) + "A" * 1_000,
    "commas": "Answer: " + ", " * (MEGABYTE // 2),
    "words without colons": "answer " * (MEGABYTE // 7),
    "words with colons": "answer:" * (MEGABYTE // 7),
    "one word and spaces": "answer" + " " * MEGABYTE,
    "words and runs of spaces": ("answer" + " " * 1_000) * (MEGABYTE // 1_000),
    "newlines": "\n" * MEGABYTE,
    "spaces after the answer": LINE + " \n" * (MEGABYTE // 2),
    "combining marks out of order": "a" + "\u0345\u0316" * (MEGABYTE // 2),
    "full-width words": "\uff21\uff4e\uff53\uff57\uff45\uff52\uff1a" * (MEGABYTE // 7),
    "surrogates": "\ud800" * MEGABYTE,
    "NULs": "\x00" * MEGABYTE,
    "pairs": "A 1 " * (MEGABYTE // 4),
    "an arrow without end": "Answer: A " + "-" * MEGABYTE + " 1",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_megabyte_of_anything_is_judged_in_linear_time(text: str) -> None:
    """A quadratic step would take hours; the bound leaves room for a slow machine."""
    with within(10.0):
        verdict = verify(HOUSE, text)
    assert verdict.right == text.startswith(LINE)


def test_many_jobs_take_little_more_than_linear_time() -> None:
    count = 5_000
    instance = Instance(
        [Job(f"J{index}", 1, (1,)) for index in range(count)],
        [(f"J{index}", f"J{index + 1}") for index in range(count - 1)],
        (Resource("crew", 1),),
    )
    text = render({f"J{index}": index for index in range(count)})
    with within(2.0):
        assert verify(instance, text) == Verdict("right", 1.0, EVALUATOR, VERSION, {"makespan": float(count)})
    crowded = verify(instance, render({f"J{index}": 0 for index in range(count)}))
    assert crowded.measures["violations_precedence"] == count - 1
    assert all(len(violation.message) < 200 for violation in crowded.violations)


# Feedback


def test_feedback_says_what_is_wrong() -> None:
    assert feedback(verify(HOUSE, "Answer: A 0, B 1, C 2")) == (
        "The answer is wrong:\n"
        "- Job B starts at 1, but job A, which it must follow, ends at 2.\n"
        "- At time 1 jobs A and B together hold 3 units of crew, which has 2."
    )
    assert feedback(verify(HOUSE, LINE)) == "The answer is right: it keeps every constraint."
    assert feedback(Verdict("failed", None, EVALUATOR, VERSION)) == "The answer could not be judged."


def test_feedback_on_a_verdict_without_counts_says_what_it_lists() -> None:
    verdict = Verdict("wrong", 0.0, EVALUATOR, VERSION, {}, (Violation("missing", "Job C has no start.", ("C",)),))
    assert feedback(verdict) == "The answer is wrong:\n- Job C has no start."
