"""Written reasoning: a trace spelled out, every kind of false step found, and nothing true called false."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from processor_time import seconds_of, within

from gce.domain.randomness import python_generator
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.dispatch import by_deadline, dispatch, predecessors_first
from gce.domain.tasks.scheduling.generate import draw_instance
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.presets import PRESETS
from gce.domain.tasks.scheduling.reasoning import LONGEST_CHECKED, check_steps, order_text, worked_response
from gce.domain.tasks.scheduling.verify import verify
from gce.testing.scheduling.generators import hostile_responses, instances

HOUSE = Instance(
    jobs=(Job("K", 3, (2, 1), 9), Job("B", 2, (1, 1)), Job("T", 4, (2, 2), 12), Job("M", 1, (1, 1), 5)),
    precedence=(("B", "T"), ("K", "T")),
    resources=(Resource("workers", 3), Resource("machines", 2)),
    horizon=14,
)
"""T waits for B and K. By deadline: 5 M, 9 K, 12 T; B has none and is pulled forward by T."""

WORKED = """\
Order: 5 M, 9 K, 12 T
Free 3 2
Job M after -; takes M 1 needs M 1 1 from 0 left 2 1 start M 0 end M 1 running 1 M
Job K after -; takes K 3 needs K 2 1 from 0 left 0 0 start K 0 end K 3 running 1 M, 3 K
Job T after B, K; B before T
Job B for T after -; takes B 2 needs B 1 1 from 0 wait 1 M 1 1 left 0 0 start B 1 end B 3 running 3 K B
Job T after B, K; B 3, K 3; takes T 4 needs T 2 2 from 3 out 3 K 2 1 out 3 B 3 2 left 1 0 start T 3 end T 7 running 7 T
Rest
Job K planned
Job B planned
Job T planned
Job M planned
Answer: K 0, B 1, T 3, M 0"""


def statuses(instance: Instance, text: str) -> list[str]:
    return [step.status for step in check_steps(instance, text)]


def only_fault(old: str, new: str) -> tuple[str, str]:
    """Status and reason of the one step that is no longer true once `old` was replaced in WORKED."""
    assert WORKED.count(old) == 1, old
    (wrong,) = [step for step in check_steps(HOUSE, WORKED.replace(old, new)) if step.status != "true"]
    assert wrong.text in WORKED.replace(old, new).split("\n")
    return wrong.status, wrong.reason


# What is written


def test_a_trace_worked_by_hand() -> None:
    """M leaves at 1 so that B fits; K, then B, at 3 so that T has two workers and both machines."""
    assert worked_response(HOUSE, "MKT", deadlines=True) == WORKED
    assert verify(HOUSE, WORKED).right


def test_without_resources_only_the_sequence_is_reasoned_about() -> None:
    assert worked_response(HOUSE.without("resources"), "KBTM") == (
        "Order: K, B, T, M\n"
        "Job K after -; takes K 3 start K 0 end K 3\n"
        "Job B after -; takes B 2 start B 0 end B 2\n"
        "Job T after B, K; B 2, K 3; takes T 4 start T 3 end T 7\n"
        "Job M after -; takes M 1 start M 0 end M 1\n"
        "Answer: K 0, B 0, T 3, M 0"
    )


def test_a_chain_is_visited_from_its_end() -> None:
    """C asks for B, B for A; each is visited again once its predecessor is planned."""
    chain = Instance([Job("C", 1), Job("B", 2), Job("A", 3)], [("A", "B"), ("B", "C")])
    assert worked_response(chain, "CBA") == (
        "Order: C, B, A\n"
        "Job C after B; B before C\n"
        "Job B for C after A; A before B\n"
        "Job A for B after -; takes A 3 start A 0 end A 3\n"
        "Job B for C after A; A 3; takes B 2 start B 3 end B 5\n"
        "Job C after B; B 5; takes C 1 start C 5 end C 6\n"
        "Job B planned\n"
        "Job A planned\n"
        "Answer: C 5, B 3, A 0"
    )


def test_the_order_line_has_deadlines_of_jobs_that_have_one() -> None:
    instance = Instance([Job("A", 1, (), 3), Job("B", 1), Job("C", 0, (), 0)])
    assert order_text(instance, "CAB") == "Order: C, A, B"
    assert order_text(instance, "CAB", deadlines=True) == "Order: 0 C, 3 A"
    assert order_text(instance, "B", deadlines=True) == "Order: B"


def test_jobs_due_at_the_same_hour_share_an_item_of_the_order_line() -> None:
    """An hour is never repeated, so that the next item always has a later one."""
    instance = Instance([Job("A", 1, (), 3), Job("B", 1, (), 4), Job("C", 1, (), 3)])
    text = worked_response(instance, "ACB", deadlines=True)
    assert text.startswith("Order: 3 A C, 4 B\n")
    assert set(statuses(instance, text)) == {"true"}
    assert statuses(instance, "Order: 3 A, 3 C, 4 B") == ["true"]
    assert statuses(instance, "Order: 3 A C B") == ["false"]


def test_jobs_put_off_follow_in_their_own_order() -> None:
    """C asks for A, which so is not put off; D and B wait until the order is gone through."""
    instance = Instance([Job("A", 1), Job("B", 2), Job("C", 3), Job("D", 4)], [("A", "C")])
    text = worked_response(instance, "DCBA", later=lambda label: label in "ABD")
    assert text == (
        "Order: D, C, B, A\n"
        "Job D later\n"
        "Job C after A; A before C\n"
        "Job A for C after -; takes A 1 start A 0 end A 1\n"
        "Job C after A; A 1; takes C 3 start C 1 end C 4\n"
        "Job B later\n"
        "Job A planned\n"
        "Rest\n"
        "Job A planned\n"
        "Job B after -; takes B 2 start B 0 end B 2\n"
        "Job C planned\n"
        "Job D after -; takes D 4 start D 0 end D 4\n"
        "Answer: A 0, B 0, C 1, D 0"
    )
    assert statuses(instance, text) == ["true"] * 12


def test_what_the_order_leaves_out_is_planned_all_the_same() -> None:
    assert worked_response(HOUSE.without("resources"), "M").split("\n")[2:6] == [
        "Rest",
        "Job K after -; takes K 3 start K 0 end K 3",
        "Job B after -; takes B 2 start B 0 end B 2",
        "Job T after B, K; B 2, K 3; takes T 4 start T 3 end T 7",
    ]


def test_care_left_out_is_left_out_of_the_lines() -> None:
    """T overlooks the sequence, K what it needs; the capacity is not said."""
    text = worked_response(
        HOUSE,
        "MKBT",
        minds_sequence=lambda label: label != "T",
        minds_resources=lambda label: label != "K",
        free_line=False,
    )
    assert text == (
        "Order: M, K, B, T\n"
        "Job M after -; takes M 1 needs M 1 1 from 0 left 2 1 start M 0 end M 1 running 1 M\n"
        "Job K after -; takes K 3 start K 0 end K 3\n"
        "Job B after -; takes B 2 needs B 1 1 from 0 left 1 0 start B 0 end B 2 running 1 M, 2 B\n"
        "Job T takes T 4 needs T 2 2 from 0 wait 1 M 2 1 wait 2 B 3 2 left 1 0 start T 2 end T 6 running 6 T\n"
        "Answer: K 0, B 0, T 2, M 0"
    )
    assert [(step.status, step.reason) for step in check_steps(HOUSE, text)] == [
        ("true", ""),
        ("true", ""),
        ("false", "what K needs is overlooked"),
        ("true", ""),
        ("false", "job T comes after B, which is overlooked"),
    ]


@settings(max_examples=50)
@given(instance=instances(), data=st.data())
def test_careless_options_say_whose_line_is_cut(instance: Instance, data: st.DataObject) -> None:
    """A visit has `after`, and a plan `needs` and `left`, exactly where its job minds them."""
    labels = st.sets(st.sampled_from(instance.labels))
    no_sequence, no_resources = data.draw(labels), data.draw(labels)
    order = data.draw(st.permutations(instance.labels))
    lines = worked_response(
        instance,
        order,
        minds_sequence=lambda label: label not in no_sequence,
        minds_resources=lambda label: label not in no_resources,
        free_line=False,
    ).split("\n")
    planned = []
    for line in lines[1:-1]:
        label = line.split()[1]
        if line == f"Job {label} planned":
            assert label in planned
            continue
        assert (" after " in line) == (bool(instance.precedence) and label not in no_sequence)
        assert (" after -;" in line) <= (not instance.predecessors(label))
        assert (" before " in line) != (" takes " in line)
        if " takes " in line:
            minded = bool(instance.resources) and label not in no_resources
            assert line.count(" needs ") == line.count(" from ") == line.count(" left ") == minded
            assert line.count(" out ") + line.count(" wait ") <= minded * len(instance.jobs)
            planned.append(label)
    assert sorted(planned) == sorted(instance.labels)
    assert re.findall(r"(\w+) \d+", lines[-1]) == list(instance.labels)


# True steps


def test_every_step_of_the_worked_trace_is_true_and_told_apart() -> None:
    """Twelve steps, word for word; the answer is none of them."""
    steps = check_steps(HOUSE, WORKED)
    assert [step.text for step in steps] == WORKED.split("\n")[:-1]
    assert {(step.status, step.reason) for step in steps} == {("true", "")}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_every_step_is_true_on_drawn_problems(preset: str) -> None:
    """Sixty instances of each tier: in order of deadlines with them, and in any order without."""
    for tier in PRESETS[preset]:
        for index in range(15):
            rng = python_generator("steps", preset, tier.name, index)
            instance = draw_instance(tier, preset, rng, solve)
            for order, deadlines in (
                (rng.sample(instance.labels, tier.jobs), False),
                (by_deadline(instance, instance.labels), True),
            ):
                text = worked_response(instance, order, deadlines=deadlines)
                assert statuses(instance, text) == ["true"] * text.count("\n")


@pytest.mark.slow
@given(instance=instances(max_jobs=8), data=st.data())
def test_every_step_is_true_on_any_instance(instance: Instance, data: st.DataObject) -> None:
    """Zero durations, unused resources, jobs without demand: nothing true is called false."""
    order = data.draw(st.permutations(instance.labels))
    put_off = data.draw(st.sets(st.sampled_from(instance.labels)))
    text = worked_response(instance, order, later=lambda label: label in put_off)
    assert set(statuses(instance, text)) == {"true"}
    urgent = worked_response(instance, by_deadline(instance, instance.labels), deadlines=True)
    assert set(statuses(instance, urgent)) == {"true"}


def test_spacing_and_empty_lines_do_not_matter() -> None:
    text = WORKED.replace("\n", "\r\n\n \t\n").replace(" takes ", "   takes\t")
    assert statuses(HOUSE, text) == ["true"] * 12


def test_a_job_without_demand_may_leave_out_what_it_needs() -> None:
    """It holds nothing, so nothing is overlooked."""
    instance = Instance([Job("A", 2, [1]), Job("Z", 3, [0])], [], [Resource("crew", 1)])
    lines = "Job A takes A 2 needs A 1 from 0 left 0 start A 0 end A 2\nJob Z takes Z 3 start Z 0 end Z 3\n"
    assert statuses(instance, lines) == ["true", "true"]


def test_waiting_longer_than_needed_is_no_falsehood() -> None:
    """M could start at 0 and starts at 2."""
    assert statuses(HOUSE, "Job M takes M 1 needs M 1 1 from 0 left 2 1 start M 2 end M 3") == ["true"]


# False steps


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Free 3 2", "Free 2 3", "2 3 is not what is free"),
        ("takes K 3", "takes K 4", "job K does not take 4"),
        ("takes K 3", "takes K 0", "job K does not take 0"),
        ("needs K 2 1", "needs K 1 1", "1 1 is not what K needs"),
        ("B 3, K 3; takes", "B 3, K 2; takes", "no line says that K ends at 2"),
        ("B 3, K 3; takes", "B 4, K 3; takes", "no line says that B ends at 4"),
        ("B 3, K 3; takes", "B 3; takes", "when K ends is left out"),
        ("after B, K; B 3, K 3; takes", "after B; B 3; takes", "job T comes after K, which is overlooked"),
        ("after B, K; B 3, K 3; takes", "takes", "job T comes after B, which is overlooked"),
        ("after B, K; B 3,", "after B, K, M; B 3, M 1,", "job T does not come after 'M'"),
        ("after B, K; B 3,", "after B, K, Z; B 3, Z 1,", "job T does not come after 'Z'"),
        ("B 3, K 3; takes", "B 3, K 3, M 1; takes", "'M' is not among what T comes after"),
        ("after B, K; B before T", "after B; B before T", "job T comes after K, which is overlooked"),
        ("after B, K; B 3, K 3; takes", "after -; takes", "job T comes after B, which is overlooked"),
        ("B before T\nJob B for T", "K before T\nJob B", "job K is planned already"),
        ("B before T\nJob B for T", "M before T\nJob B", "'M' is not among what T comes after"),
        ("after B, K; B before T", "after B, K; K 2, B before T", "no line says that K ends at 2"),
        ("\nAnswer", "\nJob Z planned\nAnswer", "no line has planned 'Z'"),
        ("\nAnswer", "\nJob Z later\nAnswer", "there is no job 'Z'"),
        ("\nJob T planned", "\nJob T later", "job T is planned already"),
        ("Job B for T", "Job B for K", "no line says that 'K' waits for B"),
        ("Job B for T", "Job B for Z", "no line says that 'Z' waits for B"),
        ("needs B 1 1 from 0 wait", "needs B 1 1 from 1 out", "1 is not the first hour to look at"),
        ("wait 1 M 1 1", "out 1 M 1 1", "1 is after 0"),
        ("out 3 K 2 1 out 3 B 3 2", "wait 3 K 2 1 wait 3 B 3 2", "3 is not after 3"),
        ("running 3 K B", "running 3 K", "that is not what is running"),
        ("running 3 K B", "running 3 K, 2 B", "that is not what is running"),
        ("running 1 M, 3 K", "running 3 K, 1 M", "that is not what is running"),
        ("running 7 T", "running 7 K", "that is not what is running"),
        ("needs T 2 2 from 3", "needs T 2 2 from 1", "1 is not the first hour to look at"),
        ("\nJob K after", "\nJob T planned\nJob K after", "no line has planned 'T'"),
        ("\nAnswer", "\nJob T after B, K; B before T\nAnswer", "job B is planned already"),
        ("wait 1 M 1 1", "wait 2 M 1 1", "job M does not end at 2"),
        ("wait 1 M 1 1", "wait 1 M 1 2", "1 2 is not what is free when M is out"),
        ("wait 1 M 1 1", "wait 1 M 1 1 wait 1 M 1 1", "job 'M' is not running"),
        ("start B 1 end B 3", "start B 0 end B 3", "B cannot start at 0"),
        ("start T 3 end T 7", "start T 2 end T 7", "T cannot start at 2"),
        ("start T 3 end T 7 running 7", "start T 2 end T 6 running 6", "T cannot start at 2"),
        ("start T 3 end T 7 running 7", "start T 3 end T 8 running 8", "3 and 4 do not make 8"),
        ("left 1 0 start T", "left 1 1 start T", "1 1 is not what is left free"),
        ("left 1 0 start T", "left 3 2 start T", "3 2 is not what is left free"),
        ("\nJob B for", "\nJob Z takes Z 1 start Z 0 end Z 1\nJob B for", "there is no job 'Z'"),
        (
            "\nAnswer",
            "\nJob M takes M 1 needs M 1 1 from 3 wait 7 T 3 2 left 2 1 start M 7 end M 8\nAnswer",
            "job M was planned before",
        ),
        ("5 M, 9 K", "4 M, 9 K", "4 is not the deadline of M"),
        ("12 T", "9 B, 12 T", "9 is not the deadline of B"),
        ("5 M, 9 K", "9 K, 5 M", "job M, due by 5, is listed after one due by 9"),
        ("5 M, 9 K", "5 M, 5 M, 9 K", "job M is listed twice"),
        ("12 T\n", "12 T\nOrder: B\n", "the order is written already"),
        ("12 T\n", "12 T, B\n", "job B has no deadline and is listed beside those that have"),
        ("5 M, 9 K", "M, 9 K", "job M has a deadline, which is not listed"),
        ("5 M, 9 K", "9 K", "job M has a deadline, which is not listed"),
        ("\nJob B planned", "\nRest\nJob B planned", "the rest has begun already"),
        ("5 M, 9 K", "5 M, Z, 9 K", "there is no job 'Z'"),
        ("5 M, 9 K, 12 T", "", "there is no job ''"),
    ],
)
def test_each_kind_of_false_step_is_found_with_its_reason(old: str, new: str, reason: str) -> None:
    """One thing changed: that line is false, all others stay true."""
    assert only_fault(old, new) == ("false", reason)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("wait 1 M 1 1", "wait 3 K 2 1", "another job ends before K"),
        ("wait 1 M 1 1", "wait 1 T 1 1", "job 'T' is not running"),
        ("wait 1 M 1 1", "wait 1 Z 1 1", "job 'Z' is not running"),
        (" wait 1 M 1 1", "", "B does not fit into what is free"),
    ],
)
def test_a_job_taken_out_wrongly_is_found_where_it_happens(old: str, new: str, reason: str) -> None:
    """Who is still running is then another question, so later lines may be false too; none before is."""
    steps = check_steps(HOUSE, WORKED.replace(old, new))
    assert [step.status for step in steps[:6]] == ["true"] * 5 + ["false"]
    assert steps[5].reason == reason


def test_what_a_job_needs_cannot_be_left_out() -> None:
    """And what it did not take is not expected to come back."""
    text = "Job M takes M 1 start M 0 end M 1\nJob K takes K 3 needs K 2 1 from 0 left 1 1 start K 0 end K 3"
    steps = check_steps(HOUSE, text)
    assert [(step.status, step.reason) for step in steps] == [("false", "what M needs is overlooked"), ("true", "")]


def test_a_job_cannot_start_before_the_job_planned_before_it() -> None:
    """Free units are counted for what runs from the last start on, so an earlier start proves nothing."""
    later = "Job M takes M 1 needs M 1 1 from 0 left 2 1 start M 2 end M 3\n"
    text = later + "Job B takes B 2 needs B 1 1 from 2 left 1 0 start B 1 end B 3"
    assert check_steps(HOUSE, text)[1].reason == "B cannot start at 1"


def test_a_job_that_needs_nothing_holds_up_no_other() -> None:
    """A starts at 4 and says nothing of needs; B looks from 0 on."""
    instance = Instance([Job("A", 2, [0]), Job("B", 1, [1])], [], [Resource("crew", 1)])
    text = "Job A takes A 2 start A 4 end A 6\nJob B takes B 1 needs B 1 from 0 left 0 start B 0 end B 1"
    assert statuses(instance, text) == ["true", "true"]


def test_after_the_rest_nothing_is_put_off() -> None:
    """Once it has begun, a job can only be planned."""
    steps = check_steps(HOUSE, "Job M later\nRest\nJob M later")
    assert [step.reason for step in steps] == ["", "", "nothing comes after the rest"]


def test_a_predecessor_that_no_line_planned_has_no_end() -> None:
    text = "Job T after B, K; B 3, K 3; takes T 4 needs T 2 2 from 3 left 1 0 start T 3 end T 7"
    assert check_steps(HOUSE, text)[0].reason == "no line says that B ends at 3"


def test_a_deadline_for_a_job_without_one_is_false() -> None:
    assert check_steps(Instance([Job("A", 1)]), "Order: 5 A")[0].reason == "5 is not the deadline of A"


def test_one_slip_counts_once() -> None:
    """K is said to end at 4, wrongly; lines that go on from what was written are true."""
    slip = WORKED.replace("start K 0 end K 3 running 1 M, 3 K", "start K 0 end K 4 running 1 M, 4 K")
    slip = slip.replace("B 3, K 3; takes", "B 3, K 4; takes")
    slip = slip.replace("from 3 out 3 K 2 1 out 3 B 3 2", "from 4 out 3 B 1 1 out 4 K 3 2")
    slip = slip.replace("running 3 K B", "running 3 B, 4 K")
    slip = slip.replace("start T 3 end T 7 running 7 T", "start T 4 end T 8 running 8 T")
    assert [step.reason for step in check_steps(HOUSE, slip) if step.status != "true"] == ["0 and 3 do not make 4"]


@pytest.mark.slow
@settings(max_examples=150)
@given(data=st.data())
def test_no_number_or_name_changes_unnoticed(data: st.DataObject) -> None:
    """Any one number or label of a worked trace replaced by another: some step is no longer true."""
    seed = data.draw(st.integers(0, 40))
    rng = python_generator("changes", seed)
    preset = rng.choice(sorted(PRESETS))
    instance = draw_instance(rng.choice(PRESETS[preset]), preset, rng, solve)
    text = worked_response(instance, by_deadline(instance, instance.labels), deadlines=True).rpartition("\n")[0]
    # "Job B planned" says so of B: of another job it may be as true.
    spots = list(re.finditer(r"\b([A-Z]|\d+)\b(?! planned)", text))
    spot = data.draw(st.sampled_from(spots))
    others = st.integers(0, 30).map(str) if spot[0].isdigit() else st.sampled_from(instance.labels)
    other = data.draw(others)
    assume(other != spot[0])
    changed = text[: spot.start()] + other + text[spot.end() :]
    assert set(statuses(instance, changed)) != {"true"}, changed


# Unreadable lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("First I plan M.", "no form of the step grammar begins like this"),
        ("job M takes 1", "no form of the step grammar begins like this"),
        ("Job", "the line ends too early"),
        ("Job M", "expected 'takes', got the end of the line"),
        ("Job M lasts 1", "expected 'takes', got 'lasts'"),
        ("Job M planned 1", "expected the end of the line, got '1'"),
        ("Job M takes", "expected 'M', got the end of the line"),
        ("Job M takes K 1", "expected 'M', got 'K'"),
        ("Job M takes M", "the line ends too early"),
        ("Job M takes M one", "expected a number, got 'one'"),
        ("Job M takes M -1", "expected a number, got '-1'"),
        ("Job M takes M 1.5", "expected a number, got '1.5'"),
        ("Job M takes M ١", "expected a number, got '١'"),
        ("Job M takes M ²", "expected a number, got '²'"),
        ("Job M takes M 1234567", "expected a number, got '1234567'"),
        ("Job M takes M " + "9" * 5_000, f"expected a number, got '{'9' * 20}'"),
        ("Job M takes M 1 needs M 1 from 0 left 2 1 start M 0 end M 1", "expected a number, got 'from'"),
        ("Job M takes M 1 needs M 1 1 1 from 0 left 2 1 start M 0 end M 1", "expected 'from', got '1'"),
        ("Job M takes M 1 needs K 1 1 from 0 left 2 1 start M 0 end M 1", "expected 'M', got 'K'"),
        ("Job M takes M 1 needs M 1 1 from 0 start M 0 end M 1", "expected 'left', got 'start'"),
        ("Job M takes M 1 left 2 1 start M 0 end M 1", "expected 'start', got 'left'"),
        ("Job M takes M 1 out 3 K 2 1 start M 0 end M 1", "expected 'start', got 'out'"),
        ("Job M takes M 1 needs M 1 1 from 0 out 3 K left 2 1 start M 0 end M 1", "expected a number, got 'left'"),
        (
            "Job M takes M 1 needs M 1 1 from 0 out K 3 free 2 1 left 1 1 start M 0 end M 1",
            "expected a number, got 'K'",
        ),
        ("Job M takes M 1 needs M 1 1 left 2 1 start M 0 end M 1", "expected 'from', got 'left'"),
        ("Job M takes M 1 start K 0 end M 1", "expected 'M', got 'K'"),
        ("Job M later on", "expected the end of the line, got 'on'"),
        ("Job M for", "the line ends too early"),
        ("Rest of the jobs", "expected the end of the line, got 'of'"),
        ("Job M takes M 1 start M 0 end K 1", "expected 'M', got 'K'"),
        ("Job M takes M 1 start M 0 end M 1.", "expected a number, got '1.'"),
        ("Job M takes M 1 start M 0 end M 1 done", "expected the end of the line, got 'done'"),
        ("Job M takes M 1 start M 0 end", "expected 'M', got the end of the line"),
        ("Job T after", "the line ends too early"),
        ("Job T after B", "expected ',' or ';' after 'B'"),
        ("Job T after B K;", "expected ',' or ';' after 'B'"),
        ("Job T after B, K;", "the line ends too early"),
        ("Job T after -", "expected ',' or ';' after '-'"),
        ("Job T after B, K; B", "the line ends too early"),
        ("Job T after B, K; B before", "expected 'T', got the end of the line"),
        ("Job T after B, K; B before K", "expected 'T', got 'K'"),
        ("Job T after B, K; B before T takes T 4", "expected the end of the line, got 'takes'"),
        ("Job T after B, K; B 3 K 3; takes T 4", "expected ',' or ';' after '3'"),
        ("Job T after B, K; B three, K 3; takes T 4", "expected a number, got 'three'"),
        ("Free 3", "the line ends too early"),
        ("Free 3 2 1", "expected the end of the line, got '1'"),
        ("Order: five M, K, B, T", "expected a number, got 'five'"),
        ("Job M takes M 1 needs M 1 1 from 0 wait 3 K 2 1 out 4 T 1 1", "expected 'left', got 'out'"),
    ],
)
def test_unreadable_lines_say_what_was_expected(line: str, reason: str) -> None:
    (step,) = check_steps(HOUSE, line)
    assert (step.text, step.status, step.reason) == (line, "unreadable", reason)


def test_unreadable_lines_establish_nothing() -> None:
    """M goes out in a line that breaks off; the next line may still take it out."""
    line = "\nJob B for T after -; takes B 2 needs B 1 1 from 0 wait 1 M 1 1 left"
    broken = WORKED.replace("\nJob B for", f"{line}\nJob B for")
    assert statuses(HOUSE, broken) == ["true"] * 5 + ["unreadable"] + ["true"] * 7


def test_a_resource_is_not_needed_where_there_is_none() -> None:
    line = "Job K takes K 3 needs K 2 1 from 0 left 0 0 start K 0 end K 3"
    assert statuses(HOUSE.without("resources"), line) == ["unreadable"]


# Total, and quick


@given(text=hostile_responses("KBTM"))
def test_hostile_responses_are_judged_line_by_line(text: str) -> None:
    """One step at most for each line, with a reason exactly where it is not true."""
    steps = check_steps(HOUSE, text)
    assert len(steps) <= text.count("\n") + 1
    assert all((step.status == "true") == (not step.reason) for step in steps)


@given(
    words=st.lists(
        st.sampled_from(["\n", "Answer:", "Free", "later", "Z", "0", "5,", ",", *re.findall(r"\S+", WORKED)])
        | st.text(max_size=3),
        max_size=60,
    ),
    instance=st.sampled_from([HOUSE, HOUSE.without("resources"), HOUSE.without("sequencing")]),
)
def test_words_of_the_grammar_in_any_order_never_raise(words: list[str], instance: Instance) -> None:
    found = check_steps(instance, " ".join(words))
    assert {step.status for step in found} <= {"true", "false", "unreadable"}


@given(words=st.lists(st.sampled_from(re.findall(r"\S+|\n", WORKED)), min_size=1, max_size=8), at=st.integers(0, 400))
def test_words_put_into_a_trace_never_raise(words: list[str], at: int) -> None:
    text = WORKED[:at] + " " + " ".join(words) + " " + WORKED[at:]
    found = check_steps(HOUSE, text)
    assert {step.status for step in found} <= {"true", "false", "unreadable"}
    steps = [line for line in text.split("\n") if line.split() and line.split()[0] != "Answer:"]
    assert [step.text for step in found] == steps


def test_a_job_called_like_the_grammar_does_not_confuse_other_lines() -> None:
    """Only its own place as a predecessor cannot be read."""
    labels = ("out", "for", "later", "from", "Rest", "Job", "end")
    instance = Instance([Job(label, 1) for label in labels], [("Job", "end"), ("for", "Rest"), ("later", "from")])
    assert set(statuses(instance, worked_response(instance, labels[::-1]))) == {"true"}


@pytest.mark.parametrize(
    "piece",
    [
        "A",
        "\n",
        "Order: ",
        "Order: M, K\n",
        "5 M, ",
        "Job M takes M 1 needs M 1 1 from 0 left 2 1 start M 0 end M 1\n",
        "Job T after B, K; B before T\n",
        "Job B for T after B, K; B before B\n",
        "Job M later\n",
        "Rest\n",
        "Job T after" + 30_000 * " B," + "\n",
        "Job T after B;" + 30_000 * " B 3,",
        "Job Z",
        "Free 3 2\n",
        " out 1 M 2 1",
        "Job M takes M 1 needs M 1 1 from 0" + 50 * " out 1 M 2 1" + "\n",
        "\ud800\x00\u202e",
    ],
)
def test_a_megabyte_is_judged_at_once(piece: str) -> None:
    """At most a second of processor time, whatever is repeated; all but the beginning is one unreadable step."""
    text = "Job M takes M 1 needs M 1 1 from 0" + piece * (1_000_000 // len(piece))
    with within(1.0):
        steps = check_steps(HOUSE, text)
    assert steps[-1].reason == f"text after {LONGEST_CHECKED} characters is not checked"
    assert len(steps) <= LONGEST_CHECKED + 1


def test_time_is_linear_where_a_job_is_planned_again_and_again() -> None:
    """Ten times the lines take about ten times as long, with all jobs of a large project running."""
    labels = [f"J{index}" for index in range(50)]
    instance = Instance([Job(label, 1, [1]) for label in labels], [], [Resource("crew", 50)])
    rng = random.Random(0)

    def seconds(lines: int) -> float:
        drawn = [rng.choice(labels) for _ in range(lines)]
        text = "\n".join(f"Job {x} takes {x} 1 needs {x} 1 from 0 left 0 start {x} 0 end {x} 1" for x in drawn)
        return seconds_of(lambda: check_steps(instance, text))

    seconds(100)
    assert seconds(2_000) < 40 * min(seconds(200) for _ in range(5))


def test_the_answer_follows_from_the_lines() -> None:
    """The last line says the starts of the lines before it."""
    for index in range(20):
        rng = python_generator("answers", index)
        instance = draw_instance(PRESETS["grounded"][-1], "grounded", rng, solve)
        order = predecessors_first(instance, rng.sample(instance.labels, 10))
        answer = worked_response(instance, order).rpartition("\n")[2]
        starts = dispatch(instance, order)
        assert answer == "Answer: " + ", ".join(f"{label} {starts[label]}" for label in instance.labels)
