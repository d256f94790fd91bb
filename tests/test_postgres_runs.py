"""Runs on a PostgreSQL server keep to the port, hold against faults and hostile rows, and never say a password."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("safetensors", reason="checkpoints are safetensors")

import psycopg
from crash.postgres_faults import KINDS, break_and_compare
from postgres_server import PASSWORD, Server, running, why_none
from tcp_proxy import Proxy

from gce.adapters.runs.postgres.store import PostgresRun, PostgresRuns
from gce.adapters.runs.run_directory import RunDirectory
from gce.app import cli
from gce.app.wiring.runs import open_run
from gce.domain.serialization import to_plain
from gce.errors import BadInput, DamagedStore, GceError, RunInUse
from gce.testing.contracts.runs import assert_same_state, check_runs, example_state

pytestmark = [pytest.mark.postgres, pytest.mark.skipif(bool(why_none()), reason=why_none())]

TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SIZES = ("--problems", "5", "--rollouts", "2", "--iterations", "2", "--updates", "2", "--dev", "3", "--test", "4")
RUNS = PostgresRuns()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as found:
        yield found


@pytest.fixture
def run(server: Server, request: pytest.FixtureRequest) -> str:
    """The name of a run of two commits, one held record, a summary and answers."""
    name = f"{server.database}#{request.node.name.partition('[')[0]}"
    ask(server, "DELETE FROM gce.runs WHERE name = %s", name.partition("#")[2])
    with RUNS.create(name, {"a": 1, "b": [2]}) as writer:
        for iteration in (1, 2):
            writer.append("iterations", {"iteration": iteration})
            writer.commit(iteration, example_state(iteration), {"n": iteration})
        writer.hold({"held": 1})
        writer.write_answers("test", [{"x": 1}, {"x": 2}])
        writer.write_summary({"iterations": 2})
    return name


def ask(server: Server, statement: str, *values: object) -> Any:
    with psycopg.connect(server.database, autocommit=True) as db:
        if db.execute("SELECT to_regclass('gce.runs')").fetchone() != (None,):
            found = db.execute(statement.encode(), values)
            return found.fetchall() if found.description else None


def test_runs_on_a_server_keep_to_the_port(server: Server) -> None:
    check_runs(RUNS, within=f"{server.database}#contract")


def test_the_chain_is_that_of_a_run_directory(run: str, tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", {"a": 1, "b": [2]}) as writer:
        for iteration in (1, 2):
            writer.append("iterations", {"iteration": iteration})
            writer.commit(iteration, example_state(iteration), {"n": iteration})
    head = json.loads((tmp_path / "run" / "head.json").read_text())
    assert RUNS.verify(run).digest == head["digest"]


def test_faults_change_nothing() -> None:
    """Each kind once: 0 lost, 0 duplicated, the same bytes."""
    report = break_and_compare(len(KINDS), seed=0)
    assert report.resumes and {each.kind for each in report.faults} == {*KINDS}
    assert not report.differences, report


@pytest.mark.slow
def test_a_hundred_faults_change_nothing() -> None:
    report = break_and_compare(100, seed=1)
    assert len(report.faults) == 100
    assert not report.differences, report


def test_every_command_works_on_a_run_on_a_server(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name, again = f"{server.database}#commands/a", ("train", "--run-dir", f"{server.database}#commands/a", "--resume")
    for arguments in (
        ("train", *TOY, *SIZES, "--run-dir", name),
        (*again, "--iterations", "3"),
        (*again, "--discard-after", "2", "--iterations", "2"),
        ("validity", name, "--n", "2"),
        ("rescore", name),
        ("transcript", name),
        ("analyze", name),
        ("answers", name),
        ("evaluate", *TOY, "--n", "2", "--adapter", name),
        ("traces", name, "--out", "traces.jsonl"),
        ("report", name, "--json"),
        ("verify-run", name),
    ):
        assert cli.main([*arguments]) == 0, (arguments, capsys.readouterr().err)
    assert RUNS.find(name) == {name: True} == RUNS.find(f"{server.database}#commands")
    assert cli.main(["train", *TOY, *SIZES, "--run-dir", name]) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"export", "traces.jsonl"}


def test_a_run_on_a_server_is_the_same_as_in_a_directory(server: Server, tmp_path: Path) -> None:
    found = []
    for name in (f"{server.database}#same", str(tmp_path / "run")):
        assert cli.main(["train", *TOY, *SIZES, "--run-dir", name]) == 0
        with open_run(name) as reader:
            streams = {stream: list(reader.read(stream)) for stream in ("rollouts", "traces")}
            state = reader.checkpoint()[1]
            arrays = {array: values.tolist() for array, values in state.arrays.items()}
            found.append((reader.config, streams, reader.answers("test-after"), arrays, to_plain(dict(state.settings))))
    assert found[0] == found[1]


def test_several_processes_write_different_runs_at_once(server: Server) -> None:
    """Threads stand for processes: each has a connection of its own. All begin with tables that are not there yet."""
    ask(server, "DROP SCHEMA gce CASCADE")
    names, errors = [f"{server.database}#many/{n}" for n in range(6)], list[BaseException]()
    together = threading.Barrier(len(names))

    def write(name: str) -> None:
        try:
            together.wait(30)
            with RUNS.create(name, {"name": name}) as writer:
                for iteration in range(1, 6):
                    writer.append("iterations", {"iteration": iteration})
                    writer.commit(iteration, example_state(iteration), {})
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert [RUNS.verify(name).iteration for name in names] == [5] * 6


def test_a_process_that_was_killed_loses_its_lock_and_a_live_one_is_named(server: Server, run: str) -> None:
    script = (
        "import sys, time; from gce.adapters.runs.postgres.store import PostgresRuns\n"
        "with PostgresRuns().open(sys.argv[1]): print('open', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, run], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(RunInUse, match=f"is in use by gce {holder.pid} on "):
            RUNS.open(run)
        with RUNS.read(run) as reader:
            assert reader.config == {"a": 1, "b": [2]}, "to read needs no lock"
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with RUNS.open(run) as writer:
        assert list(writer.held()) == [{"held": 1}]


def test_a_writer_whose_connection_is_lost_writes_nothing_any_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    proxy = Proxy(server.port)
    name = f"{server.by_tcp(proxy.port)}#cut"
    with RUNS.create(name, {}) as first:
        first.append("a", {"x": 1})
        first.commit(1, example_state(1), {})
        proxy.cut()
        with RUNS.open(name) as second:
            for write in writes(first):
                with pytest.raises(GceError, match="what was committed is intact") as caught:
                    write()
                assert "\n" not in str(caught.value) and PASSWORD not in str(caught.value)
            second.append("a", {"x": 2})
            second.commit(2, None, {})
            assert list(second.read("a")) == [{"x": 1}, {"x": 2}]
    proxy.close()


def test_a_writer_that_lost_its_lock_unnoticed_is_refused(server: Server, run: str) -> None:
    """As behind a pool of connections that hands sessions around: `head` tells."""
    with RUNS.open(run) as first:
        first._tables.db.execute("SELECT pg_advisory_unlock_all()")
        with RUNS.open(run) as second:
            second.commit(3, None, {})
        for write in writes(first):
            with pytest.raises(RunInUse, match="was continued by another process"):
                write()
    assert RUNS.verify(run).iteration == 3 and not RUNS.verify(run).problems


HOSTILE = [
    ("UPDATE gce.records SET body = '{\"iteration\": 7}' WHERE run = %s AND sequence = 1", "iteration 2 committed"),
    ("UPDATE gce.records SET body = repeat('[', 100000) WHERE run = %s AND sequence = 0", "iteration 1 committed"),
    ("UPDATE gce.records SET sequence = 5 WHERE run = %s AND sequence = 1", "iteration 2 committed"),
    ("UPDATE gce.commits SET files = '[' WHERE run = %s AND iteration = 2", "iteration 2 committed"),
    ("UPDATE gce.commits SET loop = '{}' WHERE run = %s AND iteration = 1", "iteration 1 committed"),
    ("UPDATE gce.config SET value = '{\"a\": 2}' WHERE run = %s AND sequence = 0", "iteration 1 committed"),
    ("DELETE FROM gce.config WHERE run = %s", "iteration 1 committed"),
    ("WITH gone AS (DELETE FROM gce.records WHERE run = %s AND iteration = 2 RETURNING run)"
     " DELETE FROM gce.commits WHERE run IN (SELECT run FROM gone) AND iteration = 2", "commits are missing"),
    ("UPDATE gce.runs SET head = 'x' WHERE id = %s", "commits are missing"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "expected"), HOSTILE)
def test_rows_that_others_changed_are_refused(
    server: Server, run: str, statement: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(server, run, statement)
    for use in (RUNS.read, RUNS.open):
        with pytest.raises(DamagedStore, match=expected) as caught:
            use(run)
        assert "\n" not in str(caught.value)
    assert cli.main(["verify-run", run]) == 1
    assert expected in capsys.readouterr().out
    assert cli.main(["report", run, "--json"]) == 2


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "UPDATE gce.files SET content = '' WHERE run = %s AND name = 'state.json'",
            "state.json does not match",
        ),
        ("DELETE FROM gce.files WHERE run = %s AND name = 'adapters.safetensors'", "adapters.safetensors is missing"),
        ("UPDATE gce.lines SET body = '{}' WHERE run = %s AND sequence = 1", "test.jsonl is not as it was written"),
        ("DELETE FROM gce.lines WHERE run = %s AND sequence = 0", "rows of 'test.jsonl' are missing"),
        ("UPDATE gce.written SET iteration = 0 WHERE run = %s", "summary.json is not as it was written"),
        ("UPDATE gce.held SET body = '{}' WHERE run = %s", "what is held since the last commit does not match"),
    ],
)
def test_other_parts_that_others_changed_are_found(
    server: Server, run: str, statement: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(server, run, statement)
    assert cli.main(["verify-run", run]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(expected in line for line in lines) and all(line.startswith(f"{run}: ") for line in lines)


@pytest.mark.parametrize("body", ["[" * 100_000, "9" * 5000, "[]", "", "\u2028", '{"x": '])
def test_a_body_that_is_no_object_is_one_line_even_unverified(server: Server, run: str, body: str) -> None:
    ask(server, "UPDATE gce.records SET body = %s WHERE run = (SELECT id FROM gce.runs WHERE name = %s)",
        body, run.partition("#")[2])  # fmt: skip
    with RUNS.read(run, verify=False) as reader, pytest.raises(DamagedStore, match="is damaged") as caught:
        list(reader.read("iterations"))
    assert len(str(caught.value)) < 500


def test_a_damaged_run_goes_back_to_an_iteration_that_is_intact(server: Server, run: str) -> None:
    spoil(server, run, "UPDATE gce.commits SET loop = '{}' WHERE run = %s AND iteration = 2")
    with pytest.raises(DamagedStore, match=r"discard_after 1, the last iteration that is intact"):
        RUNS.open(run)
    with RUNS.open(run, discard_after=1) as writer:
        last = writer.last()
        assert last is not None and last[0] == 1
        assert_same_state(last[1], example_state(1))
    assert RUNS.verify(run).problems == ()


def test_a_file_of_several_parts_comes_back(server: Server, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.adapters.runs.postgres.tables._PART", 100)
    with RUNS.open(run) as writer:
        writer.commit(3, example_state(3), {})
    assert ask(server, "SELECT max(part) > 2 FROM gce.files") == [(True,)]
    with RUNS.read(run) as reader:
        assert_same_state(reader.checkpoint()[1], example_state(3))


def test_a_name_is_a_parameter_and_never_sql(server: Server) -> None:
    with pytest.raises(BadInput, match="expected a run postgresql://"):
        RUNS.create(f"{server.database}#x'; DROP SCHEMA gce CASCADE; --", {})
    with RUNS.create(f"{server.database}#quoted", {}) as writer:
        writer.append("'; DROP SCHEMA gce CASCADE; --", {"x": "'; DROP SCHEMA gce; --"})
        writer.commit(1, None, {})
        writer.write_answers("'; DROP SCHEMA gce CASCADE; --", [{}])
        assert list(writer.read("'; DROP SCHEMA gce CASCADE; --")) == [{"x": "'; DROP SCHEMA gce; --"}]
    assert RUNS.verify(f"{server.database}#quoted").problems == ()


@pytest.mark.parametrize(
    "name",
    [
        "postgresql://u:{}@127.0.0.1:1/db#run",
        "postgresql://u:{}#x@127.0.0.1:1/db#run",
        "postgres://u:{}@127.0.0.1:1/db#run",
        "postgresql://127.0.0.1:1/db?user=u&password={}#run",
        "postgresql://127.0.0.1:1/db?passwort={}#run",
        "postgresql://u:%{}@127.0.0.1:1/db#run",
        "postgresql://u:{}@127.0.0.1:1/db",
    ],
)
def test_a_password_in_a_name_is_refused_and_not_repeated(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = name.format(PASSWORD)
    for arguments in (
        ("train", *TOY, *SIZES, "--run-dir", name),
        ("train", "--run-dir", name, "--resume"),
        ("train", *TOY, *SIZES, "--folds", "2", "--run-dir", name),
        ("ablate", *TOY, *SIZES, "--seeds", "0", "--conditions", "full", "--dir", name),
        *((command, name) for command in ("report", "transcript", "answers", "analyze", "validity", "verify-run")),
        ("rescore", name),
        ("replay", name, "key"),
        ("export", name, "--to", "mlx"),
        ("-v", "report", name)[1:],
        ("report", name, "--verbose"),
        ("evaluate", *TOY, "--n", "2", "--adapter", name),
    ):
        assert cli.main([*arguments]) == 2, arguments
        said = capsys.readouterr()
        assert PASSWORD not in said.out + said.err, arguments


def test_a_password_of_the_environment_is_nowhere(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    name = f"{server.by_tcp()}#secret"
    assert cli.main(["train", *TOY, *SIZES, "--run-dir", name]) == 0
    said = capsys.readouterr()
    kept = [str(ask(server, f"SELECT * FROM gce.{table}")) for table in ("config", "records", "commits", "lines")]
    assert not [text for text in (*kept, said.out, said.err) if PASSWORD in text]
    monkeypatch.setenv("PGPASSWORD", f"{PASSWORD}-wrong")
    assert cli.main(["report", name]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "password authentication failed" in said.err and PASSWORD not in said.err


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "postgresql://u@127.0.0.1:1/db#run"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_who_may_not_write_reads_all_the_same(server: Server, run: str) -> None:
    for statement in (
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA gce TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA gce TO reader",
    ):
        ask(server, statement)
    name = run.replace("gce@", "reader@")
    with RUNS.read(name) as reader:
        assert reader.answers("test") == [{"x": 1}, {"x": 2}]
    with pytest.raises(BadInput, match="permission denied"):
        RUNS.write_card(name, {})
    with pytest.raises(BadInput, match="permission denied"):
        RUNS.create(f"{name}-new", {})
    with RUNS.open(name) as writer, pytest.raises(BadInput, match="permission denied"):
        writer.hold({})
    ask(server, "DROP OWNED BY reader")


def writes(run: PostgresRun) -> list[Callable[[], None]]:
    return [lambda: run.hold({}), lambda: run.commit(9, None, {}), lambda: run.write_summary({})]


def spoil(server: Server, run: str, statement: str) -> None:
    ((number,),) = ask(server, "SELECT id FROM gce.runs WHERE name = %s", run.partition("#")[2])
    ask(server, statement, number)


def test_closing_gives_the_run_back(run: str) -> None:
    with RUNS.open(run) as writer:
        assert isinstance(writer, PostgresRun)
    with RUNS.open(run):
        pass
