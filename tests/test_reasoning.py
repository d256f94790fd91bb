"""Written reasoning: a trace spelled out, every kind of false step found, and nothing true called false."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gce.domain.randomness import python_generator
from gce.domain.tasks.scheduling.dispatch import dispatch, due_hours, predecessors_first
from gce.domain.tasks.scheduling.exact import solve
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.presets import PRESETS, draw_instance
from gce.domain.tasks.scheduling.reasoning import LONGEST_CHECKED, check_steps, order_text, worked_response
from gce.domain.tasks.scheduling.verify import verify
from gce.testing.scheduling import hostile_responses, instances

HOUSE = Instance(
    jobs=(Job("K", 3, (2, 1), 9), Job("B", 2, (1, 1)), Job("T", 4, (2, 2), 12), Job("M", 1, (1, 1), 5)),
    precedence=(("B", "T"), ("K", "T")),
    resources=(Resource("workers", 3), Resource("machines", 2)),
    horizon=14,
)
"""T waits for B and K. By due hours: 5 M, 9 K, then B and T 12, since T comes after B."""

WORKED = """\
Order: 5 M, 9 K, 12 B, 12 T
Free 3 2
Job M takes 1 needs 1 1 start 0 end 1 free 2 1
Job K takes 3 needs 2 1 start 0 end 3 free 0 0
Job B takes 2 needs 1 1 out 1 M free 1 1 start 1 end 3 free 0 0
Job T takes 4 needs 2 2 after B 3 K 3 out 3 K free 2 1 out 3 B free 3 2 start 3 end 7 free 1 0
Answer: K 0, B 1, T 3, M 0"""


def by_due_hour(instance: Instance) -> list[str]:
    """The most urgent first, those never due last, predecessors before all."""
    due = due_hours(instance)
    urgency = {label: (hour is None, hour or 0) for label, hour in due.items()}
    return predecessors_first(instance, sorted(instance.labels, key=urgency.__getitem__))


def statuses(instance: Instance, text: str) -> list[str]:
    return [step.status for step in check_steps(instance, text)]


def only_fault(old: str, new: str) -> tuple[str, str]:
    """Status and reason of the one step that is no longer true once `old` was replaced in WORKED."""
    assert WORKED.count(old) == 1, old
    (wrong,) = [step for step in check_steps(HOUSE, WORKED.replace(old, new)) if step.status != "true"]
    assert wrong.text in WORKED.replace(old, new).split("\n")
    return wrong.status, wrong.reason


# What is written


def test_a_trace_worked_by_hand():
    """M leaves at 1 so that B fits; K, then B, at 3 so that T has two workers and both machines."""
    assert worked_response(HOUSE, "MKBT", due=due_hours(HOUSE)) == WORKED
    assert verify(HOUSE, WORKED).right


def test_without_resources_only_the_sequence_is_reasoned_about():
    assert worked_response(HOUSE.without("resources"), "KBTM") == (
        "Order: K, B, T, M\n"
        "Job K takes 3 start 0 end 3\n"
        "Job B takes 2 start 0 end 2\n"
        "Job T takes 4 after B 2 K 3 start 3 end 7\n"
        "Job M takes 1 start 0 end 1\n"
        "Answer: K 0, B 0, T 3, M 0"
    )


def test_the_order_line_gives_hours_to_those_that_have_one():
    assert order_text("AB") == "Order: A, B"
    assert order_text("ABC", {"A": 3, "B": None, "C": 0}) == "Order: 3 A, B, 0 C"


def test_care_left_out_is_left_out_of_the_lines():
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
        "Job M takes 1 needs 1 1 start 0 end 1 free 2 1\n"
        "Job K takes 3 start 0 end 3\n"
        "Job B takes 2 needs 1 1 start 0 end 2 free 1 0\n"
        "Job T takes 4 needs 2 2 out 1 M free 2 1 out 2 B free 3 2 start 2 end 6 free 1 0\n"
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
def test_careless_options_say_whose_line_is_cut(instance: Instance, data: st.DataObject):
    """A line has `after`, `needs` and `free` exactly where its job minds them; the answer is in prompt order."""
    labels = st.sets(st.sampled_from(instance.labels))
    no_sequence, no_resources = data.draw(labels), data.draw(labels)
    order = predecessors_first(instance, data.draw(st.permutations(instance.labels)))
    lines = worked_response(
        instance,
        order,
        minds_sequence=lambda label: label not in no_sequence,
        minds_resources=lambda label: label not in no_resources,
        free_line=False,
    ).split("\n")
    assert len(lines) == len(order) + 2
    for label, line in zip(order, lines[1:], strict=False):
        minded = bool(instance.resources) and label not in no_resources
        assert line.startswith(f"Job {label} takes ")
        assert (" after " in line) == (bool(instance.predecessors(label)) and label not in no_sequence)
        assert (" needs " in line) == (line.count(" free ") == 1 + line.count(" out ")) == minded
    assert re.findall(r"(\w+) \d+", lines[-1]) == list(instance.labels)


# True steps


def test_every_step_of_the_worked_trace_is_true_and_told_apart():
    """Six steps, word for word; the answer is none of them."""
    steps = check_steps(HOUSE, WORKED)
    assert [step.text for step in steps] == WORKED.split("\n")[:-1]
    assert {(step.status, step.reason) for step in steps} == {("true", "")}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_step_is_true_on_drawn_problems(preset: str):
    """Sixty instances of each tier: in order of due hours with them, and in any order without."""
    for tier in PRESETS[preset]:
        for index in range(15):
            rng = python_generator("steps", preset, tier.name, index)
            instance = draw_instance(tier, preset, rng, solve)
            any_order = predecessors_first(instance, rng.sample(instance.labels, tier.jobs))
            count = 1 + bool(instance.resources) + tier.jobs
            due = due_hours(instance)
            assert statuses(instance, worked_response(instance, by_due_hour(instance), due=due)) == ["true"] * count
            assert statuses(instance, worked_response(instance, any_order)) == ["true"] * count


@given(instance=instances(max_jobs=8), data=st.data())
def test_every_step_is_true_on_any_instance(instance: Instance, data: st.DataObject):
    """Zero durations, unused resources, jobs without demand: nothing true is called false."""
    order = predecessors_first(instance, data.draw(st.permutations(instance.labels)))
    assert set(statuses(instance, worked_response(instance, order))) == {"true"}
    urgent = worked_response(instance, by_due_hour(instance), due=due_hours(instance))
    assert set(statuses(instance, urgent)) == {"true"}


def test_spacing_and_empty_lines_do_not_matter():
    text = WORKED.replace("\n", "\r\n\n \t\n").replace(" takes ", "   takes\t")
    assert statuses(HOUSE, text) == ["true"] * 6


def test_a_job_without_demand_may_leave_out_what_it_needs():
    """It holds nothing, so nothing is overlooked."""
    instance = Instance([Job("A", 2, [1]), Job("Z", 3, [0])], [], [Resource("crew", 1)])
    lines = "Job A takes 2 needs 1 start 0 end 2 free 0\nJob Z takes 3 start 0 end 3\n"
    assert statuses(instance, lines) == ["true", "true"]


def test_waiting_longer_than_needed_is_no_falsehood():
    """M could start at 0 and starts at 2."""
    assert statuses(HOUSE, "Job M takes 1 needs 1 1 start 2 end 3 free 2 1") == ["true"]


# False steps


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Free 3 2", "Free 2 3", "2 3 is not what is free"),
        ("Job K takes 3", "Job K takes 4", "job K does not take 4"),
        ("Job K takes 3", "Job K takes 0", "job K does not take 0"),
        ("K takes 3 needs 2 1", "K takes 3 needs 1 1", "1 1 is not what K needs"),
        ("B 3 K 3 out", "B 3 K 2 out", "no line says that K ends at 2"),
        ("B 3 K 3 out", "B 4 K 3 out", "no line says that B ends at 4"),
        ("after B 3 K 3 out", "after B 3 out", "job T comes after K, which is overlooked"),
        ("after B 3 K 3 out", "after out", "job T comes after B, which is overlooked"),
        (" after B 3 K 3 out", " out", "job T comes after B, which is overlooked"),
        ("after B 3 K 3 out", "after B 3 K 3 M 1 out", "job T does not come after 'M'"),
        ("after B 3 K 3 out", "after B 3 K 3 Z 1 out", "job T does not come after 'Z'"),
        ("out 1 M free 1 1", "out 2 M free 1 1", "job M does not end at 2"),
        ("out 1 M free 1 1", "out 1 M free 1 2", "1 2 is not what is free when M is out"),
        ("out 1 M free 1 1", "out 1 M free 1 1 out 1 M free 1 1", "job 'M' is not running"),
        ("start 1 end 3 free 0 0", "start 0 end 3 free 0 0", "B cannot start at 0"),
        ("start 3 end 7", "start 2 end 7", "T cannot start at 2"),
        ("start 3 end 7", "start 2 end 6", "T cannot start at 2"),
        ("start 3 end 7", "start 3 end 8", "3 and 4 do not make 8"),
        ("end 7 free 1 0", "end 7 free 1 1", "1 1 is not what is left free"),
        ("end 7 free 1 0", "end 7 free 3 2", "3 2 is not what is left free"),
        ("\nJob B", "\nJob Z takes 1 start 0 end 1\nJob B", "there is no job 'Z'"),
        (
            "\nAnswer",
            "\nJob M takes 1 needs 1 1 out 7 T free 3 2 start 7 end 8 free 2 1\nAnswer",
            "job M was planned before",
        ),
        ("5 M, 9 K", "4 M, 9 K", "job M is not due by 4"),
        ("12 B, 12 T", "B, 9 T", "job T is not due by 9"),
        ("5 M, 9 K", "9 K, 5 M", "job M, due by 5, is listed after one due by 9"),
        ("9 K, 12 B, 12 T", "K, T, B", "job T is listed before B, which must have ended"),
        ("5 M, 9 K", "5 M, 5 M, 9 K", "job M is listed twice"),
        ("5 M, 9 K, 12 B, 12 T", "9 K, 12 B, 12 T", "job M is not listed"),
        ("5 M, 9 K", "5 M, Z, 9 K", "there is no job 'Z'"),
        ("5 M, 9 K, 12 B, 12 T", "", "there is no job ''"),
    ],
)
def test_each_kind_of_false_step_is_found_with_its_reason(old: str, new: str, reason: str):
    """One thing changed: that line is false, all others stay true."""
    assert only_fault(old, new) == ("false", reason)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("out 1 M free 1 1", "out 3 K free 2 1", "another job ends before K"),
        ("out 1 M free 1 1", "out 1 T free 1 1", "job 'T' is not running"),
        ("out 1 M free 1 1", "out 1 Z free 1 1", "job 'Z' is not running"),
        (" out 1 M free 1 1", "", "B does not fit into what is free"),
    ],
)
def test_a_job_taken_out_wrongly_is_found_where_it_happens(old: str, new: str, reason: str):
    """Who is still running is then another question, so later lines may be false too; none before is."""
    steps = check_steps(HOUSE, WORKED.replace(old, new))
    assert [step.status for step in steps[:5]] == ["true"] * 4 + ["false"]
    assert steps[4].reason == reason


def test_what_a_job_needs_cannot_be_left_out():
    """And what it did not take is not expected to come back."""
    steps = check_steps(HOUSE, "Job M takes 1 start 0 end 1\nJob K takes 3 needs 2 1 start 0 end 3 free 1 1")
    assert [(step.status, step.reason) for step in steps] == [("false", "what M needs is overlooked"), ("true", "")]


def test_a_job_cannot_start_before_the_latest_start_among_the_running():
    """Free units are counted for what runs from the last start on, so an earlier start proves nothing."""
    text = "Job M takes 1 needs 1 1 start 2 end 3 free 2 1\nJob B takes 2 needs 1 1 start 1 end 3 free 1 0"
    assert check_steps(HOUSE, text)[1].reason == "B cannot start at 1"


def test_a_predecessor_that_no_line_planned_has_no_end():
    text = "Job T takes 4 needs 2 2 after B 3 K 3 start 3 end 7 free 1 0"
    assert check_steps(HOUSE, text)[0].reason == "no line says that B ends at 3"


def test_a_deadline_for_a_job_without_one_is_false():
    assert check_steps(Instance([Job("A", 1)]), "Order: 5 A")[0].reason == "job A is not due by 5"


def test_one_slip_counts_once():
    """K is said to end at 4, wrongly; lines that go on from what was written are true."""
    head, _, _ = WORKED.replace("start 0 end 3 free 0 0", "start 0 end 4 free 0 0").partition("Job T")
    slip = head + "Job T takes 4 needs 2 2 after B 3 K 4 out 3 B free 1 1 out 4 K free 3 2 start 4 end 8 free 1 0"
    assert [step.reason for step in check_steps(HOUSE, slip) if step.status != "true"] == ["0 and 3 do not make 4"]


@settings(max_examples=150)
@given(data=st.data())
def test_no_number_or_name_changes_unnoticed(data: st.DataObject):
    """Any one number or label of a worked trace replaced by another: some step is no longer true."""
    seed = data.draw(st.integers(0, 40))
    rng = python_generator("changes", seed)
    preset = rng.choice(sorted(PRESETS))
    instance = draw_instance(rng.choice(PRESETS[preset]), preset, rng, solve)
    text = worked_response(instance, by_due_hour(instance), due=due_hours(instance)).rpartition("\n")[0]
    spots = list(re.finditer(r"\b([A-Z]|\d+)\b", text))
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
        ("Job M takes", "the line ends too early"),
        ("Job M takes one", "expected a number, got 'one'"),
        ("Job M takes -1", "expected a number, got '-1'"),
        ("Job M takes 1.5", "expected a number, got '1.5'"),
        ("Job M takes ١", "expected a number, got '١'"),
        ("Job M takes ²", "expected a number, got '²'"),
        ("Job M takes 1234567", "expected a number, got '1234567'"),
        ("Job M takes " + "9" * 5_000, f"expected a number, got '{'9' * 20}'"),
        ("Job M takes 1 needs 1 start 0 end 1 free 2 1", "expected a number, got 'start'"),
        ("Job M takes 1 needs 1 1 1 start 0 end 1 free 2 1", "expected 'start', got '1'"),
        ("Job M takes 1 needs 1 1 start 0 end 1", "expected 'free', got the end of the line"),
        ("Job M takes 1 start 0 end 1 free 2 1", "expected the end of the line, got 'free'"),
        ("Job M takes 1 out 3 K free 2 1 start 0 end 1", "expected 'start', got 'out'"),
        ("Job M takes 1 needs 1 1 out 3 K start 0 end 1 free 2 1", "expected 'free', got 'start'"),
        ("Job M takes 1 needs 1 1 out K 3 free 2 1 start 0 end 1 free 2 1", "expected a number, got 'K'"),
        ("Job M takes 1 needs 1 1 after K", "the line ends too early"),
        ("Job M takes 1 needs 1 1 after K start 0 end 1 free 2 1", "expected a number, got 'start'"),
        ("Job M takes 1 needs 1 1 start 0 end 1 free 2 1.", "expected a number, got '1.'"),
        ("Job M takes 1 needs 1 1 start 0 end 1 free 2 1 done", "expected the end of the line, got 'done'"),
        ("Job M takes 1 needs 1 1 start 0 end", "the line ends too early"),
        ("Free 3", "the line ends too early"),
        ("Free 3 2 1", "expected the end of the line, got '1'"),
        ("Order: five M, K, B, T", "expected a number, got 'five'"),
        ("Order: 5 6 M, K, B, T", "expected a number, got '5 6'"),
    ],
)
def test_unreadable_lines_say_what_was_expected(line: str, reason: str):
    (step,) = check_steps(HOUSE, line)
    assert (step.text, step.status, step.reason) == (line, "unreadable", reason)


def test_unreadable_lines_establish_nothing():
    """M goes out in a line that breaks off; the next line may still take it out."""
    broken = WORKED.replace("\nJob B", "\nJob B takes 2 needs 1 1 out 1 M free 1 1 start\nJob B")
    assert statuses(HOUSE, broken) == ["true"] * 4 + ["unreadable"] + ["true"] * 2


def test_a_resource_is_not_needed_where_there_is_none():
    line = "Job K takes 3 needs 2 1 start 0 end 3 free 0 0"
    assert statuses(HOUSE.without("resources"), line) == ["unreadable"]


# Total, and quick


@given(text=hostile_responses("KBTM"))
def test_hostile_responses_are_judged_line_by_line(text: str):
    """One step at most for each line, with a reason exactly where it is not true."""
    steps = check_steps(HOUSE, text)
    assert len(steps) <= text.count("\n") + 1
    assert all((step.status == "true") == (not step.reason) for step in steps)


@given(
    words=st.lists(
        st.sampled_from(["\n", "Answer:", "Free", "Z", "0", "5,", ",", *re.findall(r"\S+", WORKED)])
        | st.text(max_size=3),
        max_size=60,
    ),
    instance=st.sampled_from([HOUSE, HOUSE.without("resources"), HOUSE.without("sequencing")]),
)
def test_words_of_the_grammar_in_any_order_never_raise(words: list[str], instance: Instance):
    check_steps(instance, " ".join(words))


@given(words=st.lists(st.sampled_from(re.findall(r"\S+|\n", WORKED)), min_size=1, max_size=8), at=st.integers(0, 400))
def test_words_put_into_a_trace_never_raise(words: list[str], at: int):
    check_steps(HOUSE, WORKED[:at] + " " + " ".join(words) + " " + WORKED[at:])


def test_a_job_called_like_the_grammar_does_not_confuse_other_lines():
    """Only its own place as a predecessor cannot be read."""
    instance = Instance([Job("out", 1), Job("Job", 2), Job("end", 3)], [("Job", "end")])
    assert set(statuses(instance, worked_response(instance, instance.labels))) == {"true"}


@pytest.mark.parametrize(
    "piece",
    [
        "A",
        "\n",
        "Order: ",
        "Order: M, K\n",
        "5 M, ",
        "Job M takes 1 needs 1 1 start 0 end 1 free 2 1\n",
        "Job Z",
        "Free 3 2\n",
        " out 1 M free 2 1",
        "Job M takes 1 needs 1 1" + 50 * " out 1 M free 2 1" + "\n",
        "\ud800\x00\u202e",
    ],
)
def test_a_megabyte_is_judged_at_once(piece: str):
    """At most a second of processor time, whatever is repeated; all but the beginning is one unreadable step."""
    text = "Job M takes 1 needs 1 1" + piece * (1_000_000 // len(piece))
    begun = time.process_time()
    steps = check_steps(HOUSE, text)
    assert time.process_time() - begun < 1.0
    assert steps[-1].reason == f"text after {LONGEST_CHECKED} characters is not checked"
    assert len(steps) <= LONGEST_CHECKED + 1


def test_time_is_linear_where_a_job_is_planned_again_and_again():
    """Ten times the lines take about ten times as long, with all jobs of a large project running."""
    labels = [f"J{index}" for index in range(50)]
    instance = Instance([Job(label, 1, [1]) for label in labels], [], [Resource("crew", 50)])
    rng = random.Random(0)

    def seconds(lines: int) -> float:
        text = "\n".join(f"Job {rng.choice(labels)} takes 1 needs 1 start 0 end 1 free 0" for _ in range(lines))
        begun = time.process_time()
        check_steps(instance, text)
        return time.process_time() - begun

    seconds(100)
    assert seconds(2_000) < 40 * min(seconds(200) for _ in range(5))


def test_the_answer_follows_from_the_lines():
    """The last line says the starts of the lines before it."""
    for index in range(20):
        rng = python_generator("answers", index)
        instance = draw_instance(PRESETS["grounded"][-1], "grounded", rng, solve)
        order = predecessors_first(instance, rng.sample(instance.labels, 10))
        answer = worked_response(instance, order).rpartition("\n")[2]
        starts = dispatch(instance, order)
        assert answer == "Answer: " + ", ".join(f"{label} {starts[label]}" for label in instance.labels)
