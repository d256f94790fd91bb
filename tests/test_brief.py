"""Brief reasoning: answers spelled out by hand, every kind of false line found, and nothing true called false."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from processor_time import within

from gce.domain.randomness import python_generator
from gce.domain.tasks import TASKS, draw_problem, judge
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.brief_reasoning import brief_response, check_brief_steps
from gce.domain.tasks.scheduling.dispatch import dispatch, predecessors_first
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.reasoning import LONGEST_CHECKED
from gce.domain.tasks.scheduling.verify import verify
from gce.testing.scheduling.generators import hostile_responses, instances

HOUSE = Instance(
    jobs=(Job("K", 3, (2, 1), 9), Job("B", 2, (1, 1)), Job("T", 4, (2, 2), 12), Job("M", 1, (1, 1), 5)),
    precedence=(("B", "T"), ("K", "T")),
    resources=(Resource("workers", 3), Resource("machines", 2)),
    horizon=14,
)
"""By deadline: M, K, T; B has none, and T waits for it. One after another they take 10 hours."""
BRIEF = """\
Due: K 9:K T 12:T M 5:M
Hours: 1 2 3 4 5:M 6 7 8 9:K 10 11 12:T 13 14
Job M: 0+1=1
Job K: 1+3=4
Job T after B ?, K 4
Job B: 4+2=6
Job T after B 6, K 4: 6+4=10
Answer: M 0, K 1, B 4, T 6"""
TIED = Instance((Job("K", 3, (), 7), Job("B", 2, (), 4), Job("T", 4, (), 7), Job("M", 1, (), 7)))
TIED_BRIEF = """\
Due: K 7:K B 4:B T 7:K,T M 7:K,T,M
Hours: 1 2 3 4:B 5 6 7:K,T,M
Job B: 0+2=2
Job K: 0+3=3
Job T: 0+4=4
Job M: 0+1=1
Answer: B 0, K 0, T 0, M 0"""
OPEN = Instance(jobs=(Job("X", 2), Job("Y", 3, deadline=9), Job("Z", 1)), precedence=(("X", "Z"), ("Y", "Z")))
"""What has no deadline comes after what has one, so Y is first."""
OPEN_BRIEF = """\
Due: Y 9:Y
Hours: 1 2 3 4 5 6 7 8 9:Y
Job Y: 0+3=3
Job X: 0+2=2
Job Z after X 2, Y 3: 3+1=4
Answer: Y 0, X 0, Z 3"""


def reasons(instance: Instance, text: str) -> list[str]:
    return [step.reason for step in check_brief_steps(instance, text) if step.status != "true"]


def test_jobs_that_share_resources_come_one_after_another_by_deadline() -> None:
    assert brief_response(HOUSE) == BRIEF
    assert verify(HOUSE, BRIEF).right


def test_jobs_that_are_due_together_are_listed_together() -> None:
    assert brief_response(TIED) == TIED_BRIEF
    assert verify(TIED, TIED_BRIEF).right and not reasons(TIED, TIED_BRIEF)


def test_where_that_takes_too_long_there_is_no_right_answer_of_this_kind() -> None:
    """Eight hours would do for K beside M, B when M is out, and T, but not one after another."""
    tight = evolve(HOUSE, horizon=8)
    assert brief_response(tight) == BRIEF.replace("9:K 10 11 12:T 13 14", "9:K 12:T")
    assert not verify(tight, BRIEF).right


def test_jobs_that_share_nothing_start_when_they_may() -> None:
    assert brief_response(OPEN) == OPEN_BRIEF
    assert verify(OPEN, OPEN_BRIEF).right


def test_given_starts_are_written_out_as_they_are() -> None:
    text = brief_response(HOUSE, {"K": 0, "B": 1, "T": 3, "M": 0})
    assert text.endswith("Answer: K 0, M 0, B 1, T 3") and not reasons(HOUSE, text)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Job M", "Job Q", "there is no job 'Q'"),
        ("K 9:K T 12:T M 5:M", "T 12:T K 9:K M 5:M", ""),
        ("K 9:K T 12:T M 5:M", "K 9:K T 12:T", "not each job that has a deadline is listed once"),
        ("K 9:K T 12:T M 5:M", "K 8:K T 12:T M 5:M", "8 is not the deadline of K"),
        ("K 9:K T 12:T M 5:M", "K 9 T 12:T M 5:M", "no form of the brief step grammar"),
        ("K 9:K T 12:T M 5:M", "K 9:K T 12:T M", "no form of the brief step grammar"),
        ("K 9:K T 12:T M 5:M", "9:K T 12:T M 5:M", "no form of the brief step grammar"),
        ("K 9:K T 12:T M 5:M", "K 9:K T 12:T M 5:M M 5:M", "not each job that has a deadline is listed once"),
        ("K 9:K T 12:T M 5:M", "K 9:K,K T 12:T M 5:M", "the jobs behind K are not those so far that are due with it"),
        ("Due: K 9:K T 12:T M 5:M\n", "", ""),
        ("8 9:K", "8:K 9", "8 is not the deadline of K"),
        ("7 8", "7:B 8", "7 is not the deadline of B"),
        ("5:M 6 7 8 9:K", "9:K 5:M 6 7 8", "the hours are not in order"),
        ("5:M 6", "5:M 5", "the hours are not in order"),
        ("8 9:K", "8 9", "not each job that has a deadline is listed once"),
        ("8 9:K", "8 9:K,K", "not each job that has a deadline is listed once"),
        ("8 9:K", "8 9:K,Q", "9 is not the deadline of Q"),
        ("13 14", "13 15", "15 is behind the horizon and all deadlines"),
        ("B ?, K 4", "B ?, B ?", "a job is named twice"),
        ("Hours: 1", "Hours:\t99 1", "no form of the brief step grammar"),
        ("Due: K", "Due:\xa0x K", "no form of the brief step grammar"),
        ("8 9:K", "8 K", "no form of the brief step grammar"),
        ("8 9:K", "8 9:", "no form of the brief step grammar"),
        ("1 2 3 4 5:M 6 7 8 9:K 10 11 12:T 13 14", "5:M 9:K 12:T", ""),
        ("1 2 3 4 5:M 6 7 8 9:K 10 11 12:T 13 14", "", "no form of the brief step grammar"),
        ("Job M", "Due: M 5:M K 9:K T 12:T\nJob M", "the deadlines are listed already"),
        ("Job M", "Hours: 5:M 9:K 12:T\nJob M", "the deadlines are listed already"),
        ("T after B ?", "Q after B ?", "there is no job 'Q'"),
        ("T after B ?", "M after B ?", "job M was planned before"),
        ("B ?, K 4", "B ?, K ?", "job T need not wait for K"),
        ("B ?, K 4", "B ?, M ?", "job T does not come after 'M'"),
        ("B ?, K 4", "B ?, K 5", "no line says that K ends at 5"),
        ("B ?, K 4", "B ?", ""),
        ("B ?, K 4", "B 6, K 4", "no form of the brief step grammar"),
        ("B ?, K 4", "B ?, K", "no form of the brief step grammar"),
        ("B ?, K 4", "B ? K 3", "no form of the brief step grammar"),
        ("Job B", "Job T after B ?\nJob B", "job T waits already"),
        ("after B 6, K 4", "after B 6, B 6", "a job is named twice"),
        ("K 9:K T 12:T M 5:M", "K! 9:K T 12:T M 5:M", "no form of the brief step grammar"),
        ("Job T after B ?, K 4\n", "", ""),
        ("1+3=4", "1+2=3", "job K does not take 2"),
        ("1+3=4", "1+3=5", "1 and 3 do not make 5"),
        ("6+4=10", "5+4=9", "job T starts before B has ended"),
        ("\nAnswer", "\nJob M: 10+1=11\nAnswer", "job M was planned before"),
        ("\nAnswer", "\nJob T after B ?\nAnswer", "job T was planned before"),
        ("B: 4+2=6\nJob T after B 6, K 4", "B: 2+2=4\nJob T after K 4", ""),
        ("Job B: 4+2=6\n", "", "no line says that B ends at 6"),
        ("after B 6, K 4", "after K 4", ""),
        ("1+3=4", "1 + 3 = 4", "no form of the brief step grammar"),
        ("1+3=4", "1+3=0000004", "no form of the brief step grammar"),
    ],
)
def test_a_false_line_is_found_with_its_reason(old: str, new: str, reason: str) -> None:
    """With B at 2 nothing is said that is not so: K and it take three workers and two machines."""
    assert BRIEF.count(old) == 1
    assert reasons(HOUSE, BRIEF.replace(old, new))[:1] == ([reason] if reason else [])
    assert not reasons(HOUSE, BRIEF)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("T 7:K,T M", "T 7:T M", "the jobs behind T are not those so far that are due with it"),
        ("M 7:K,T,M", "M 7:T,K,M", "the jobs behind M are not those so far that are due with it"),
        ("6 7:K,T,M", "6 7:T,M,K", ""),
        ("6 7:K,T,M", "6 7:K 7:T,M", "the hours are not in order"),
    ],
)
def test_false_lines_of_ties_are_found(old: str, new: str, reason: str) -> None:
    assert TIED_BRIEF.count(old) == 1
    assert reasons(TIED, TIED_BRIEF.replace(old, new))[:1] == ([reason] if reason else [])


def test_what_is_not_free_cannot_be_used() -> None:
    assert reasons(HOUSE, "Job K: 0+3=3\nJob M: 0+1=1\nJob B: 0+2=2") == ["what B needs is not free at 0"]


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ("after X 2, Y 4", "no line says that Y ends at 4"),
        ("after X 2, Q 3", "job Z does not come after 'Q'"),
        ("after X 99, X 2, Y 3", "a job is named twice"),
        ("after X 99, Y 3", "no line says that X ends at 99"),
        ("after X 2", ""),
        ("after X 2, Y", "no form of the brief step grammar"),
    ],
)
def test_what_a_job_comes_after_is_checked(new: str, reason: str) -> None:
    found = reasons(OPEN, OPEN_BRIEF.replace("after X 2, Y 3", new))
    assert found == ([reason] if reason else []), "what is left out is no falsehood"


def test_one_slip_counts_once() -> None:
    """X is said to end at 3, so Z may say so too; a second line for a job changes nothing for others."""
    slip = OPEN_BRIEF.replace("0+2=2", "0+2=3").replace("X 2,", "X 3,")
    assert reasons(OPEN, slip) == ["0 and 2 do not make 3"]
    assert reasons(OPEN, "Job X: 0+2=2\n" + OPEN_BRIEF.replace("X: 0+2=2", "X: 5+2=7")) == ["job X was planned before"]


def test_a_wrong_wait_does_not_stand_in_the_way_of_the_right_one() -> None:
    assert reasons(HOUSE, BRIEF.replace("Job T after B ?", "Job T after M ?\nJob T after B ?")) == [
        "job T does not come after 'M'"
    ]


def test_without_deadlines_there_is_nothing_to_list() -> None:
    free = Instance((Job("A", 4),))
    assert reasons(free, "Hours: 1 2 3") == ["no job has a deadline"]
    assert brief_response(free) == "Job A: 0+4=4\nAnswer: A 0"


def test_where_hours_are_many_those_alone_are_listed_at_which_something_is_due() -> None:
    far = evolve(HOUSE, horizon=1000)
    assert brief_response(far).startswith("Due: K 9:K T 12:T M 5:M\nHours: 5:M 9:K 12:T\nJob M") and not reasons(
        far, brief_response(far)
    )


def test_a_job_that_takes_no_time_holds_nothing() -> None:
    one = Instance((Job("A", 4, (1,)), Job("B", 0, (1,))), resources=(Resource("crew", 1),))
    text = "Job A: 0+4=4\nJob B: 2+0=2\nAnswer: A 0, B 2"
    assert verify(one, text).right and not reasons(one, text)


def test_no_digit_changes_unnoticed() -> None:
    """Of the hours, those alone count at which something is due."""
    lines = "Due: K 9:K T 12:T M 5:M\nHours: 5:M 9:K 12:T\n" + BRIEF[BRIEF.index("Job") : BRIEF.index("Answer")]
    for place, sign in enumerate(lines):
        for digit in "0123456789" if sign.isdigit() else "":
            changed = lines[:place] + digit + lines[place + 1 :]
            assert bool(reasons(HOUSE, changed)) == (digit != sign), changed


@given(instances())
def test_every_line_is_true_on_any_instance(instance: Instance) -> None:
    text = brief_response(instance)
    assert not reasons(instance, text), text
    waits = sum("?" in line for line in text.split("\n"))
    lists = 2 * any(job.deadline is not None for job in instance.jobs)
    assert len(check_brief_steps(instance, text)) == len(instance.jobs) + waits + lists
    kinds = {violation.kind for violation in verify(instance, text).violations}
    assert kinds <= {"deadline", "horizon"}, "sequence and resources are kept"


@pytest.mark.parametrize("preset", ["paper", "grounded"])
def test_optimal_schedules_are_written_truly(preset: str) -> None:
    task = TASKS["scheduling-brief"]
    for tier in task.training_tiers(preset):
        problem = draw_problem(task, preset, tier, "train", python_generator("brief", tier).randrange(99))
        text = task.teaching.demonstration(problem, solve)
        assert text is not None and judge(problem, text).right
        assert {step.status for step in task.teaching.check_steps(problem, text)} == {"true"}


@pytest.mark.parametrize("preset", ["paper", "grounded"])
def test_prompts_and_problems_are_those_of_scheduling(preset: str) -> None:
    brief, full = TASKS["scheduling-brief"], TASKS["scheduling"]
    for tier in full.tiers(preset):
        one, other = (draw_problem(task, preset, tier.name, "test", 3) for task in (brief, full))
        assert (one.prompt, one.digest) == (other.prompt, other.digest)


@pytest.mark.slow
@given(instances(), st.data())
def test_lines_are_true_where_the_verifier_finds_neither_sequence_nor_resources_broken(
    instance: Instance, data: st.DataObject
) -> None:
    starts = dispatch(instance, predecessors_first(instance, instance.labels))
    for label in data.draw(st.lists(st.sampled_from(instance.labels), max_size=2)):
        starts[label] = data.draw(st.integers(0, starts[label] + 9))
    text = brief_response(instance, starts)
    kinds = {violation.kind for violation in verify(instance, text).violations} - {"deadline", "horizon"}
    assert bool(reasons(instance, text)) == bool(kinds), text


@pytest.mark.slow
@given(
    st.one_of(
        hostile_responses(HOUSE.labels),
        st.text(alphabet="JobDue: KBTM after+=,?0123456789\n", max_size=200),
    )
)
def test_hostile_text_never_raises(text: str) -> None:
    lines = ("", "Due: ", "Hours: ", "Job T after B ?, ", "Job K after ")
    for step in check_brief_steps(HOUSE, "\n".join(line + text for line in lines)):
        assert step.status in ("true", "false", "unreadable")


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        *(("Job K after ", piece) for piece in ("Job K after ", "A 1, ", "Job K: 1+3=4\n", "Job ", "1+", "\n")),
        *(("Due: ", piece) for piece in ("K 9:K ", "K 9:K,")),
        *(("Hours: ", piece) for piece in ("9:K ", "9 ", "9:K,", "K,", "Due: 5:M\n")),
        *(("Job T after ", piece) for piece in ("B ?, ", "B ?\nJob T after ", "? ", "B ")),
    ],
)
def test_a_megabyte_is_judged_at_once(start: str, piece: str) -> None:
    text = start + piece * (1_000_000 // len(piece))
    with within(2.0):
        steps = check_brief_steps(HOUSE, text)
    assert steps[-1].reason == f"text after {LONGEST_CHECKED} characters is not checked"
