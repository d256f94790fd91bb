"""The SQL views of a run: plain columns that say what the records say, for new runs and for those that go on."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

from gce.adapters.runs.run_directory import RunDirectory
from gce.adapters.runs.sqlite_views import VIEWS
from gce.app import cli
from gce.app.exports.answer_rows import answer_rows
from gce.app.wiring.runs import open_run
from gce.errors import DamagedStore

OLD = Path(__file__).parent / "runs" / "layout-1"
TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SIZES = ("--problems", "5", "--rollouts", "2", "--iterations", "2", "--updates", "2", "--dev", "3", "--test", "4")

QUERIES = {
    "solve rate by moment and tier, of answers that were judged": (
        "SELECT moment, tier, avg(correct) AS solve_rate, count(correct) AS n FROM answers GROUP BY moment, tier"
    ),
    "what is wrong with wrong rollouts": (
        "SELECT violation, count(*) AS n FROM rollouts WHERE correct = 0 GROUP BY violation ORDER BY n DESC"
    ),
    "what became right": (
        "SELECT problem FROM answers GROUP BY problem "
        "HAVING max(CASE WHEN moment = 'before' THEN correct END) = 0 AND max(correct) = 1"
    ),
    "training over iterations": (
        "SELECT iteration, 1.0 * correct / rollouts AS solve_rate, admitted, loss, seconds FROM iterations"
    ),
    "problems that no rollout solved": "SELECT problem, answers, failed FROM problems WHERE correct = 0",
}
"""Those that the documentation shows."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    assert cli.main(["train", *TOY, *SIZES, "--run-dir", str(path)]) == 0
    return path


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run, tmp_path / "run", symlinks=True)


def rows(run: Path, query: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(f"{(run / 'run.sqlite').as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(query)]


def alter(run: Path, *statements: str) -> None:
    with closing(sqlite3.connect(run / "run.sqlite")) as database, database:
        for statement in statements:
            database.execute(statement)


def test_answers_and_rollouts_are_rows_as_gce_answers_writes_them(run: Path) -> None:
    shared = (
        "problem",
        "tier",
        "outcome",
        "correct",
        "reward",
        "finish_reason",
        "violation",
        "message",
        "text",
        "policy",
        "tokens",
        "digest",
        "prompt",
    )
    with open_run(run) as reader:
        expected = {moment: list(answer_rows(reader, (moment,))) for moment in ("after", "before", "rollouts")}
    for moment, view in (("after", "answers"), ("before", "answers"), ("rollouts", "rollouts")):
        where = "" if view == "rollouts" else f" WHERE moment = '{moment}'"
        found = rows(run, f"SELECT * FROM {view}{where}")
        assert [[row[name] for name in shared] for row in found] == [
            [row[name] for name in shared] for row in expected[moment]
        ]
        assert len(found) == (12 if view == "answers" else 20)
        assert all(json.loads(row["body"])["problem"] == row["problem"] for row in found)


def test_views_count_what_the_records_count(run: Path) -> None:
    with open_run(run) as reader:
        iterations, traces = list(reader.read("iterations")), list(reader.read("traces"))
    for row, record in zip(rows(run, "SELECT * FROM iterations"), iterations, strict=True):
        assert row["rollouts"] == sum(tier["rollouts"] for tier in record["tiers"].values())
        assert (row["iteration"], row["loss"], row["failed"]) == (record["iteration"], record["loss"], 0)
        assert row["seconds"] == pytest.approx(sum(record["seconds"].values()))
        assert row["buffer"] == sum(record["buffer"].values())
    found = rows(run, "SELECT * FROM traces")
    assert [(row["key"], row["turns"]) for row in found] == [(each["key"], 2) for each in traces]
    assert all(row["text"].split()[-1].startswith("w") for row in found)
    verdicts = rows(run, "SELECT moment, count(*) AS n, sum(status = 'right') AS correct FROM verdicts GROUP BY moment")
    assert {row["moment"]: row["n"] for row in verdicts} == {"after": 12, "before": 12, "rollouts": 20}
    (total,) = rows(run, "SELECT sum(answers) AS answers, sum(correct) AS correct FROM problems")
    assert total == {"answers": 44, "correct": sum(row["correct"] for row in verdicts)}


@pytest.mark.parametrize("what", QUERIES)
def test_the_queries_of_the_documentation_run(what: str, run: Path) -> None:
    found = rows(run, QUERIES[what])
    assert found or what == "what became right"


def test_an_answer_that_failed_is_in_no_rate(tmp_path: Path) -> None:
    """Nor is one of version 0.1.0, whose records did not name the outcome."""
    record = {"problem": "t/p/train/T0/0/0", "tier": "T0", "finish_reason": "stop", "right": False, "verdicts": []}
    failed = {"status": "no_verdict", "evaluator": "e", "violations": []}
    with RunDirectory.create(tmp_path / "run", {}) as run:
        run.append("rollouts", {**record, "right": True, "outcome": "right", "reward": 0.75})
        run.append("rollouts", {**record, "outcome": "failed"})
        run.append("rollouts", {**record, "verdicts": [failed]})
        run.append("rollouts", {**record, "finish_reason": "error"})
        run.append("rollouts", record)
        run.commit(1, None, {})
    found = rows(tmp_path / "run", "SELECT outcome, correct, reward FROM rollouts")
    assert [row["outcome"] for row in found] == ["right", "failed", "failed", "failed", "wrong"]
    assert [row["correct"] for row in found] == [1, None, None, None, 0]
    assert [row["reward"] for row in found] == [0.75, None, None, None, 0]
    assert rows(tmp_path / "run", "SELECT avg(correct) AS rate FROM rollouts") == [{"rate": 0.5}]
    assert rows(tmp_path / "run", "SELECT failed FROM problems") == [{"failed": 3}]


def test_answers_are_replaced_and_dropped_with_their_file(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", {}) as run:
        run.write_answers("test-before", [{"text": "a"}, {"text": "b"}])
        run.write_answers("test-before", [{"text": "\u2028 c"}])
        for iteration in (1, 2):
            run.commit(iteration, None, {})
        run.write_answers("test-after", [{"text": "d"}])
    assert [row["text"] for row in rows(tmp_path / "run", "SELECT text FROM answers")] == ["\u2028 c", "d"]
    with RunDirectory.open(tmp_path / "run", discard_after=1):
        pass
    assert [row["text"] for row in rows(tmp_path / "run", "SELECT text FROM answers")] == ["\u2028 c"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE kept_answers SET body = replace(body, 'w', 'v') WHERE sequence = 0",
        "DELETE FROM kept_answers WHERE sequence = 3",
        "INSERT INTO kept_answers VALUES ('test-other', 0, '{}')",
        "DROP VIEW problems",
        "DROP TABLE kept_answers",
    ],
)
def test_what_was_changed_of_answers_and_views_is_found_before_a_run_goes_on(statement: str, copy: Path) -> None:
    alter(copy, statement)
    with pytest.raises(DamagedStore, match=r"run\.sqlite"):
        RunDirectory.open(copy)


def before_views(run: Path) -> Iterator[str]:
    """Statements that make a run of layout 2 of one of layout 3."""
    yield from (f"DROP VIEW {name}" for name in VIEWS)
    yield "DROP TABLE kept_answers"
    for stream in ("rollouts", "iterations", "traces"):
        query = f"SELECT iteration, sequence, body FROM records WHERE stream = '{stream}' ORDER BY sequence"
        yield f'CREATE VIEW "{stream}" AS {query}'
    yield "PRAGMA user_version = 2"


def test_a_run_of_layout_2_is_read_as_it_is_and_gets_the_views_when_it_goes_on(copy: Path) -> None:
    expected = {name: rows(copy, f"SELECT * FROM {name}") for name in VIEWS}
    alter(copy, *before_views(copy))
    with open_run(copy) as reader:
        assert len(list(reader.each_answer("test-after"))) == 12
    assert set(rows(copy, "SELECT * FROM rollouts")[0]) == {"iteration", "sequence", "body"}
    with RunDirectory.open(copy):
        pass
    assert {name: rows(copy, f"SELECT * FROM {name}") for name in VIEWS} == expected


def test_answers_that_were_edited_before_the_views_came_are_not_in_them(copy: Path) -> None:
    alter(copy, *before_views(copy))
    (copy / "test-after.jsonl").write_text("{}\n", encoding="utf-8")
    with RunDirectory.open(copy):
        pass
    assert {row["moment"] for row in rows(copy, "SELECT moment FROM answers")} == {"before"}


def test_a_run_of_layout_1_gets_them_too(tmp_path: Path) -> None:
    run = shutil.copytree(OLD, tmp_path / "run", symlinks=True)
    with RunDirectory.open(run):
        pass
    assert len(rows(run, "SELECT * FROM answers WHERE moment = 'after'")) == 12
    assert {row["outcome"] for row in rows(run, "SELECT outcome FROM rollouts")} == {"right", "wrong"}
