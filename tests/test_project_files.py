"""Files of projects: the PSPLIB and Patterson formats, there and back, what is refused, and the command line."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processor_time import within

from gce.app.cli import main
from gce.app.wiring.tasks import find_task, problems_digest
from gce.domain.tasks import draw_problem
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.canonical import canonical_digest
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.project_files import (
    MOST_JOBS,
    PROJECT_FORMATS,
    as_read,
    parse_rcp,
    parse_sm,
    project_of,
    write_rcp,
    write_sm,
)
from gce.domain.tasks.scheduling.psplib_like import PSPLIB_LIKE, draw_project
from gce.domain.tasks.scheduling.verify import verify
from gce.errors import BadInput

SM = """\
************************************************************************
file with basedata            : HAND.BAS
initial value random generator: 28123
************************************************************************
projects                      :  1
jobs (incl. supersource/sink ):  6
horizon                       :  12
RESOURCES
  - renewable                 :  2   R
  - nonrenewable              :  0   N
  - doubly constrained        :  0   D
************************************************************************
PROJECT INFORMATION:
pronr.  #jobs rel.date duedate tardcost  MPM-Time
    1      4      0        6       26        6
************************************************************************
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          3           2   3   4
   2        1          1           5
   3        1          1           6
   4        1          1           6
   5        1          1           6
   6        1          0
************************************************************************
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  R 2
------------------------------------------------------------------------
  1      1     0       0    0
  2      1     4       2    0
  3      1     3       2    0
  4      1     3       1    2
  5      1     2       1    1
  6      1     0       0    0
************************************************************************
RESOURCEAVAILABILITIES:
  R 1  R 2
    3    2
************************************************************************
"""
RCP = """\
6 2
3 2

0 0 0 3 2 3 4
4 2 0 1 5
3 2 0 1 6
3 1 2 1 6
2 1 1
1 6
0 0 0 0
"""
HAND = Instance(
    [Job("J2", 4, [2, 0]), Job("J3", 3, [2, 0]), Job("J4", 3, [1, 2]), Job("J5", 2, [1, 1])],
    [("J2", "J5")],
    [Resource("R1", 3), Resource("R2", 2)],
)
"""J2 and J3 hold 2 of 3 units of R1, so one follows the other: at least 7 hours. J2 from 0, J3 from 4, J4 from 0, and
J5 from 4 beside J3 take 7, so 7 is the least."""


@st.composite
def projects(draw: Any) -> Instance:
    """An instance that the formats hold, with any labels."""
    count, kinds = draw(st.integers(1, 8)), draw(st.integers(0, 3))
    capacities = [draw(st.integers(0, 20)) for _ in range(kinds)]
    jobs = [
        Job(f"x{j}", draw(st.integers(0, 10)), [draw(st.integers(0, capacity)) for capacity in capacities])
        for j in range(count)
    ]
    order = draw(st.permutations(range(count)))
    pairs = [(f"x{order[i]}", f"x{order[k]}") for i in range(count) for k in range(i + 1, count)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    resources = [Resource(f"r{kind}", capacity) for kind, capacity in enumerate(capacities)]
    horizon = draw(st.none() | st.integers(0, 100))
    return Instance(jobs, edges, resources, horizon)


@pytest.mark.slow
@given(instance=projects())
def test_what_is_written_is_read_as_the_same_instance(instance: Instance) -> None:
    assert parse_sm(write_sm(instance)) == as_read(instance)
    assert parse_rcp(write_rcp(instance)) == as_read(instance, horizon=False)
    read = parse_sm(write_sm(instance))
    assert as_read(read) == read and write_sm(read) == write_sm(as_read(instance))
    if instance.horizon is not None and instance.horizon < sum(job.duration for job in instance.jobs):
        assert canonical_digest(read) == canonical_digest(instance), "only names differ"


@pytest.mark.slow
@given(instance=projects(), data=st.data())
@settings(max_examples=200)
def test_a_damaged_file_is_read_or_refused_in_one_line(instance: Instance, data: st.DataObject) -> None:
    for _, (parse, write) in PROJECT_FORMATS.items():
        text = write(instance)
        at = data.draw(st.integers(0, len(text)))
        until = data.draw(st.integers(at, min(at + 30, len(text))))
        damaged = text[:at] + data.draw(st.text(max_size=10)) + text[until:]
        try:
            parse(damaged)
        except ValueError as error:
            assert str(error).startswith(("line ", "in the ")) and "\n" not in str(error)


def test_a_file_in_the_official_layout_is_read_with_its_optimum() -> None:
    assert parse_sm(SM) == HAND
    assert parse_rcp(RCP) == HAND, "a job may be broken into lines"
    assert solve(parse_sm(SM)).makespan == 7
    assert parse_sm(SM.replace("\n", "\r\n")) == HAND


def test_a_horizon_below_the_sum_of_durations_is_a_deadline() -> None:
    assert parse_sm(SM).horizon is None, "12 is the sum of durations"
    assert parse_sm(SM.replace(":  12", ":  11")).horizon == 11


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "nonrenewable              :  0",
            "nonrenewable              :  2",
            "line 10: expected 0 nonrenewable, got 2",
        ),
        ("constrained        :  0", "constrained        :  1", "line 11: expected 0 doubly constrained, got 1"),
        (
            "projects                      :  1",
            "projects                      :  2",
            "line 5: expected 1 projects",
        ),
        ("):  6", "):  7", "line 15: expected 5 jobs, as the header says, got 4"),
        ("):  6", "):  1000000", f"line 6: expected 3 to {MOST_JOBS} jobs"),
        ("):  6", "):  " + "9" * 5000, "line 6: expected jobs as a whole number of at most 9 digits"),
        ("):  6", "):  \u0666", "line 6: expected jobs as a whole number"),
        (
            "renewable                 :  2   R",
            "renewable                 :  3   R",
            "line 29: expected 3 demands of job 1",
        ),
        (
            "   2        1          1           5",
            "   2        2          1           5",
            "line 20: expected 1 mode of job 2",
        ),
        (
            "   2        1          1           5",
            "   2        1          2           5",
            "line 20: expected 2 successors",
        ),
        (
            "   2        1          1           5",
            "   2        1          1           9",
            "line 20: expected successors from",
        ),
        (
            "   2        1          1           5",
            "   2        1          2         5 5",
            "line 20: a successor of job 2",
        ),
        (
            "   5        1          1           6",
            "   5        1          1           2",
            "line 19: in the successors .* a cycle",
        ),
        (
            "   6        1          0",
            "   6        1          1      2",
            "line 24: expected no successors of the supersink",
        ),
        ("   3        1          1           6\n", "", "line 21: expected job 3, got 4|expected 6 lines"),
        (
            "  3      1     3       2    0",
            "  3      2     3       2    0",
            "line 31: expected mode 1 of job 3, got 2",
        ),
        (
            "  3      1     3       2    0",
            "  3      1     3       2   -1",
            "line 31: expected numbers as a whole number",
        ),
        ("  3      1     3       2    0", "  3      1     3.5     2    0", "got '3.5'"),
        (
            "  3      1     3       2    0",
            "  3      1     3       4    0",
            "line 31: job 3 demands 4 of R1, .* of 3",
        ),
        (
            "  1      1     0       0    0",
            "  1      1     1       0    0",
            "line 29: expected job 1 to be the supersource",
        ),
        (
            "  6      1     0       0    0",
            "  6      1     0       1    0",
            "line 34: expected job 6 to be the supersink",
        ),
        ("    3    2\n", "    3    2    1\n", "line 38: expected 2 capacities, got 3"),
        ("RESOURCEAVAILABILITIES:", "AVAILABILITIES:", "expected a section RESOURCEAVAILABILITIES"),
        ("PRECEDENCE RELATIONS:", "PROJECT INFORMATION:", "line 17: a second section"),
        ("horizon                       :  12", "", "expected a line of horizon"),
        (
            "    1      4      0        6",
            "    1      4      2        6",
            "line 15: expected a release date of 0, got 2",
        ),
    ],
)
def test_an_sm_file_that_does_not_hold_is_refused_with_the_line(old: str, new: str, says: str) -> None:
    assert SM.count(old) == 1
    with pytest.raises(ValueError, match=says):
        parse_sm(SM.replace(old, new))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: expected the number of jobs, got the end of the file"),
        (RCP + "0", "line 11: expected the end of the file after 6 jobs, got '0'"),
        (RCP.replace("0 0 0 0\n", "0 0 0\n"), "line 10: expected the number of successors of job 6, got the end"),
        (RCP.replace("6 2\n", "1000000 2\n"), f"line 1: expected 3 to {MOST_JOBS} jobs"),
        (RCP.replace("6 2\n", "6 900000000\n"), "line 1: expected at most 64 resources"),
        (RCP.replace("0 0 0 3 2 3 4", "0 0 0 999999999 2"), "line 4: expected fewer than 6 successors of job 1"),
        (RCP.replace("1 6\n0", "1 2\n0"), "a cycle among J2, J5"),
        (RCP.replace("3 2\n", "3 1e3\n", 1), "line 2: expected the capacity of R2 as a whole number"),
    ],
)
def test_an_rcp_file_that_does_not_hold_is_refused_with_the_line(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_rcp(text)


@pytest.mark.parametrize("text", ["-" * 200_000 + "x", "1 " * 100_000, "a:" * 100_000, " \t" * 100_000 + ":"])
def test_hostile_files_are_refused_in_bounded_time(text: str) -> None:
    for parse in (parse_sm, parse_rcp):
        with within(1.0), pytest.raises(ValueError, match=r"^line "):
            parse(text)


@pytest.mark.slow
def test_the_densest_file_is_read_in_bounded_time() -> None:
    labels = [f"x{j}" for j in range(MOST_JOBS - 2)]
    edges = [(labels[i], labels[k]) for i in range(len(labels)) for k in range(i + 1, len(labels))]
    text = write_rcp(Instance([Job(label, 1) for label in labels], edges))
    with within(5.0):
        assert len(parse_rcp(text).precedence) == len(edges)


@pytest.mark.parametrize("write", [write_sm, write_rcp])
def test_what_the_formats_cannot_hold_is_refused(write: Callable[[Instance], str]) -> None:
    with pytest.raises(ValueError, match="deadlines"):
        write(Instance([Job("A", 1, deadline=3)]))
    with pytest.raises(ValueError, match="9 digits"):
        write(Instance([Job("A", 10**9)]))
    with pytest.raises(ValueError, match="at most"):
        write(Instance([Job(f"A{j}", 1) for j in range(MOST_JOBS)]))


def test_records_that_are_no_projects_are_refused() -> None:
    for record in ({"prompt": "?"}, 3, {"name": "a.mm", "text": SM}):
        with pytest.raises(ValueError, match=r"expected .*\.sm or \.rcp"):
            project_of(record)
    with pytest.raises(ValueError, match=r"^j1\.sm, line 1: "):
        project_of({"name": "j1.sm", "text": ""})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "small"
    place.mkdir()
    (place / "p10.sm").write_text(SM)
    (place / "p9.rcp").write_text(RCP.replace("4 2 0 1 5", "5 2 0 1 5"))
    (place / "notes.txt").write_text("not a project")
    return place


def test_a_folder_is_a_task_with_its_files_in_the_order_of_their_numbers(folder: Path) -> None:
    task = find_task(f"scheduling@{folder}")
    problems = [draw_problem(task, "small", "J4", "test", index) for index in (0, 1)]
    assert [problem.instance.job("J2").duration for problem in problems] == [5, 4]
    assert [problem.instance.horizon for problem in problems] == [8, 7], "5 % of 8 and of 7, rounded down, is nothing"
    assert verify(problems[1].instance, "Answer: J2 0, J3 4, J4 0, J5 4").right
    assert not verify(problems[1].instance, "Answer: J2 0, J3 4, J4 0, J5 6").right
    before = problems_digest(f"scheduling@{folder}", task)
    (folder / "p9.rcp").write_text(RCP)
    assert problems_digest(f"scheduling@{folder}", task) != before


def test_a_large_project_has_more_tokens_and_a_right_demonstration(tmp_path: Path) -> None:
    path = tmp_path / "large.sm"
    path.write_text(write_sm(draw_project(PSPLIB_LIKE[0], random.Random(3))))
    task = find_task(f"scheduling@{path}")
    problem = draw_problem(task, "large", "J30", "test", 0)
    assert task.token_budget(problem) == 2400
    assert verify(problem.instance, task.teaching.demonstration(problem, None) or "").right


def test_bad_files_are_refused_by_name(tmp_path: Path) -> None:
    for name, data, says in (
        ("a.sm", b"x", "a.sm.*line 1: expected a section"),
        ("b.sm", b"\xff", "not UTF-8"),
        ("c.rcp", b"1 " * 200_000, "expected at most"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput, match=says):
            find_task(f"scheduling@{tmp_path / name}")
        (tmp_path / name).unlink()
    with pytest.raises(BadInput, match="expected 1 to 5,000 files"):
        find_task(f"scheduling@{tmp_path}")


def test_drawn_problems_are_written_and_read_by_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["generate", "--tiers", "T2", "--n", "2", "--to", "rcp", "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["grounded-train-T2-0-0.rcp", "grounded-train-T2-0-1.rcp"]
    capsys.readouterr()
    assert main(["generate", "--task", f"scheduling@{out}", "--split", "test", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["instance"]["jobs"][0]["label"] == "J2" and read["tier"] == "J6"
    for arguments, says in (
        (["--tiers", "T3", "--to", "sm", "--out", str(tmp_path / "no")], "its jobs have deadlines"),
        (["--to", "sm"], "--out"),
        (["--task", "beliefs", "--to", "sm", "--out", str(tmp_path / "no")], "expected a task of scheduling problems"),
    ):
        assert main(["generate", *arguments]) == 2
        assert says in capsys.readouterr().err and not (tmp_path / "no").exists()


def test_the_optimum_of_a_file_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ortools")
    (tmp_path / "hand.sm").write_text(SM)
    given = ["generate", "--task", f"scheduling@{tmp_path / 'hand.sm'}", "--split", "test", "--bounds"]
    assert main(given) == 0
    assert "CP-SAT: the optimal makespan is 7\n" in capsys.readouterr().out
    assert main([*given, "--json"]) == 0
    bounds = json.loads(capsys.readouterr().out)["bounds"]
    assert bounds == {"status": "optimal", "makespan": 7, "lower_bound": 7, "gap": 0.0}
