"""Performance runs through the command line: agents, controls, stages that go on, what is kept, and the report."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from gce.adapters.performance import agent_commands, trees
from gce.adapters.performance.measuring import Measuring
from gce.adapters.performance.run_folder import RunFolder
from gce.adapters.performance.task_files import read_tasks
from gce.adapters.performance.trees import read_tree, read_working_copy, write_files, write_working_copy
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.app import cli
from gce.app.commands.performance import STEPS
from gce.app.performance import plans, stages
from gce.app.performance.attempts import Subject, by_model
from gce.app.performance.plans import Plan, PlannedTask, read_agents
from gce.app.performance.stage_actions import STEPS_OF
from gce.domain.completions import Completion
from gce.domain.performance.agents import PRESETS, AgentCommand, AgentUsage, usage_in
from gce.domain.performance.decision import Comparison, Round, Timing, Verdict
from gce.domain.performance.overlap import GAINS
from gce.domain.performance.prompts import task_prompt
from gce.domain.performance.task import PerformanceTask, Source
from gce.domain.statistics import Estimate
from gce.errors import BadInput
from gce.testing.performance import HOSTILE_TASK

SLOW = """\
def unique(values):
    seen = []
    for value in values:
        if value not in seen:
            seen.append(value)
    return seen
"""
FAST = "def unique(values):\n    return list(dict.fromkeys(values))\n"
WORKLOAD = HOSTILE_TASK.workload
TESTS = "def test_order():\n    import slowlib\n    assert slowlib.unique([2, 1, 2]) == [2, 1]\n"
FIXER = """\
import json, os, subprocess, sys
open("slowlib.py", "w").write(open("/agent/fast.txt").read())
open("notes.txt", "w").write("noise")
log = subprocess.run(["git", "log", "--format=%s"], capture_output=True, text=True)
print(json.dumps([sorted(os.listdir("/gce-agent")), os.getcwd(), os.getuid(), log.stdout, os.environ["AGENT_KEY"]]))
print("to standard error", os.environ["AGENT_KEY"], file=sys.stderr)
print(json.dumps({"cost": 0.25, "usage": {"in": 10, "out": 5}}))
"""
CHEAT = """\
import os
open("/gce-agent/workload.py", "w").write("def setup(seed): return []")
open("random.py", "w").write("x")
os.symlink("/etc/passwd", "link.py")
os.mkfifo("pipe.py")
raise SystemExit(3)
"""
SCRIPT = [
    {"when": "Replies left: 2", "text": f"FILE slowlib.py\n<<<<<<< SEARCH\n{SLOW}=======\n{FAST}>>>>>>> REPLACE"},
    {"when": "times as fast", "text": "DONE"},
    {"when": "Make this", "text": "SHOW slowlib.py"},
]


Gce: TypeAlias = Callable[..., tuple[int, str, str]]


class FakeMeasures(Measuring):
    """Knows the fast form when it sees it; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(start_unsafe_local)
        self.asked: list[dict[str, bytes]] = []
        self.fail = False
        self.vanishing = False

    def compare(self, task: PerformanceTask, base: Path, candidate: Path, **more: Any) -> Comparison:
        if self.fail:
            raise BadInput("no sandbox starts")
        if self.vanishing:
            for _ in range(2):
                more["on_retry"]("a sandbox ended (base)")
            return Comparison(
                task.name, "infrastructure failure", fault="a sandbox ended (base), in the last of 3 tries"
            )
        tree = read_tree(candidate)
        self.asked.append(tree)
        fast = b"fromkeys" in tree["slowlib.py"]
        seconds = 0.1 if fast else 0.4
        rounds = tuple(Round(seed, Timing(0.4), Timing(seconds), Timing(0.1)) for seed in range(10))
        gain = Estimate(0.4 / seconds, 0.4 / seconds, 0.4 / seconds)
        verdict: Verdict = "matches the human" if fast else "no gain"
        return Comparison(task.name, verdict, rounds, gain, gain, Estimate(4.0, 3.9, 4.1), equal=20)


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> FakeMeasures:
    fake = FakeMeasures()
    monkeypatch.setattr(stages, "find_measuring", lambda *_: fake)
    return fake


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    place = tmp_path / "tasks" / "dedupe"
    write_files({"slowlib.py": SLOW.encode(), "README.txt": b"old"}, place / "base")
    write_files({"slowlib.py": FAST.encode(), "README.txt": b"new"}, place / "human")
    (place / "workload.py").write_text(WORKLOAD)
    (place / "tests.py").write_text(TESTS)
    (place / "task.toml").write_text(
        '[metadata]\nname = "dedupe"\n[performance]\nseconds = 10\n[performance.base]\ndirectory = "base"\n'
        '[performance.human]\ndirectory = "human"\n'
    )
    return place.parent


@pytest.fixture
def gce(capsys: pytest.CaptureFixture[str]) -> Gce:
    def run(*words: object) -> tuple[int, str, str]:
        status = cli.main(["performance", *map(str, words)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def sandboxed() -> None:
    reason = agent_commands.why_no_sandbox()
    if reason:
        pytest.skip(reason)


def agents_file(folder: Path) -> Path:
    """Two agents: one does the work and chatters, one attacks the harness and fails."""
    programs = folder / "agent"
    programs.mkdir()
    (programs / "fast.txt").write_text(FAST)
    (programs / "fixer.py").write_text(FIXER.replace("/agent", str(programs)))
    (programs / "cheat.py").write_text(CHEAT)
    path = folder / "agents.toml"
    path.write_text(
        f'[agents.fixer]\ncommand = "python {programs}/fixer.py {{prompt_file}}"\nvisible = ["{programs}"]\n'
        'environment = ["AGENT_KEY"]\ncost = "cost"\nprompt_tokens = "usage.in"\ntokens = "usage.out"\nseconds = 300\n'
        f'[agents.cheat]\ncommand = "python {programs}/cheat.py"\nstdin = true\nvisible = ["{programs}"]\n'
    )
    return path


@pytest.mark.slow
def test_all_stages_from_the_command_line(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controls, two commands and a loop over a model: patches, texts, costs, quadrants, journal and page."""
    sandboxed()
    monkeypatch.setenv("AGENT_KEY", "secret-key-of-the-agent")
    script = tmp_path / "script.jsonl"
    script.write_text("".join(f"{json.dumps(line)}\n" for line in SCRIPT))
    run, file = tmp_path / "run", agents_file(tmp_path)
    status, out, err = gce(
        *("plan", tasks, "--out", run, "--agents-file", file, "--model", f"scripted:{script}", "--turns", 3),
        "--all-stages",
    )
    assert status == 0, err
    assert "No control that changes nothing was judged faster." in out
    if find_spec("matplotlib"):
        assert (run / "report.html").read_text().count("<svg") >= 2
    _, rows = stages.rows_of(run)
    verdicts = {row.item.agent: (row.comparison.verdict, row.quadrant, row.attempt.ending) for row in rows}
    (loop,) = (agent for agent in verdicts if agent.startswith("loop-scripted"))
    assert verdicts == {
        "nothing": ("no gain", "neither", "ended"),
        "human": ("matches the human", "true success", "ended"),
        "revert": ("no gain", "neither", "ended"),
        "fixer": ("matches the human", "true success", "ended"),
        "cheat": ("no gain", "neither", "exit status"),
        loop: ("matches the human", "true success", "ended"),
    }
    attempts = {row.item.agent: row.attempt for row in rows}
    assert attempts["fixer"].usage == AgentUsage(10, 5, 0.25)
    assert attempts["fixer"].refused == ("notes.txt",)
    assert attempts["cheat"].refused == ("link.py", "pipe.py", "random.py")
    assert attempts["human"].paths == ("slowlib.py",), "README.txt is not allowed"
    assert attempts[loop].turns == 3

    kept = run / "items" / "dedupe" / "fixer" / "0"
    names, place, uid, log, key = json.loads((kept / "stdout.txt").read_text().splitlines()[0])
    assert names == ["code", "home", "prompt.md", "scratch", "tests.py", "workload.py"]
    assert (place, uid, log) == ("/gce-agent/code", 1000, "base\n")
    assert key == "[key]"
    assert all(b"secret-key" not in file.read_bytes() for file in run.rglob("*") if file.is_file())
    assert "+    return list(dict.fromkeys(values))" in (kept / "patch.diff").read_text()
    trajectory = json.loads((run / "items" / "dedupe" / loop / "0" / "trajectory.json").read_text())
    assert trajectory["schema_version"] == "ATIF-v1.7"
    assert [step["source"] for step in trajectory["steps"]].count("agent") == 3
    events = [json.loads(line)["event"] for line in (run / "journal.jsonl").read_text().splitlines()]
    assert events == ["planned", "prepared", *["attempted", "measured"] * 6]

    asked = len(measures.asked)
    assert gce("run", run)[:2] == (0, "0 attempts measured now\n")
    assert len(measures.asked) == asked, "nothing is done twice"
    exported = tmp_path / "records.jsonl"
    assert gce("export", run, "--out", exported)[0] == 0
    (record,) = map(json.loads, exported.read_text().splitlines())
    assert record["human_performance"] == pytest.approx(4.0)
    assert record["patch_functions"] == ["slowlib.py:unique"]
    assert gce("import", exported, "--out", tmp_path / "drafts")[0] == 0
    assert (tmp_path / "drafts" / "dedupe" / "workload.py").read_text() == WORKLOAD


def test_export_takes_the_imported_record_as_prepare_found_it(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path
) -> None:
    """Fields that a task does not keep come back; what is changed after `prepare` does not count."""
    run, exported = tmp_path / "run", tmp_path / "records.jsonl"
    (place,) = [path.parent for path in tasks.rglob("task.toml")]
    record = {"repo": "a/b", "instance_id": "x-1", "version": "1.2", "test_functions": ["t"]}
    (place / "iso-bench.json").write_text(json.dumps(record))
    assert gce("plan", tasks, "--out", run)[0] == gce("run", run)[0] == 0
    (place / "iso-bench.json").write_text("changed")
    assert gce("export", run, "--out", exported)[0] == 0
    found = json.loads(exported.read_text())
    assert {name: found[name] for name in record} == record
    assert found["human_performance"] == pytest.approx(4.0) and measures.asked


@pytest.mark.slow
@pytest.mark.parametrize("counted", [None, 50])
def test_report_has_instructions_or_says_that_there_are_none(
    gce: Gce,
    tasks: Path,
    measures: FakeMeasures,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    counted: int | None,
) -> None:
    """The base needs 100, the candidate 50 where something is counted; a prepared tree is counted once."""
    asked = []

    def count(_: PerformanceTask, tree: Path, __: int) -> int | None:
        asked.append(tree.name)
        return 100 if counted and tree.name == "base" else counted

    monkeypatch.setattr("gce.app.performance.stages.counting", lambda wanted: count if wanted else None)
    run = tmp_path / "run"
    assert gce("plan", tasks, "--out", run, "--instructions")[0] == gce("run", run)[0] == 0
    assert sorted(asked) == ["base", "code", "code", "code", "human"] and measures.asked
    said = gce("report", run)[1]
    assert ("Instructions: those of the base over" in said) is (counted is not None)
    assert ("Instructions were not counted" in said) is (counted is None)


def test_a_model_is_shown_the_tests_and_told_of_no_files(tasks: Path) -> None:
    ((_, task),) = read_tasks(tasks)
    said = task_prompt(task)
    assert task.tests.strip() in said and task.workload.strip() in said
    assert "beside" not in said and "working directory" not in said


def test_stopped_run_goes_on(gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path) -> None:
    """What failed for our fault is done again, what was measured is not, and an attempt is kept before measuring."""
    run = tmp_path / "run"
    assert gce("plan", tasks, "--out", run)[0] == 0
    measures.fail = True
    status, _, err = gce("run", run)
    assert status == 3
    assert "3 of 3 attempts failed" in err
    assert (run / "items/dedupe/human/0/attempt.json").is_file()
    measures.fail = False
    shutil.rmtree(run / "items" / "dedupe" / "nothing")
    assert gce("run", run)[:2] == (0, "3 attempts measured now\n")
    (run / "measured" / "dedupe" / "human" / "0.json").unlink()
    assert gce("run", run)[:2] == (0, "1 attempt measured now\n")
    assert len(measures.asked) == 4


@pytest.mark.slow
def test_what_vanished_is_measured_again_and_in_no_rate(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path
) -> None:
    """The verdict says so, the journal has each further try, and the report leaves the attempts out of its figures."""
    run = tmp_path / "run"
    assert gce("plan", tasks, "--out", run)[0] == 0
    measures.vanishing = True
    status, _, err = gce("run", run)
    assert status == 3 and "3 of 3 attempts failed, the first because a sandbox ended (base)" in err
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    retried = [each for each in events if each["event"] == "retried"]
    assert [each["item"] for each in retried] == [
        f"dedupe/{name}/0" for name in ("nothing", "human", "revert") for _ in "ab"
    ]
    assert {each["reason"] for each in retried} == {"a sandbox ended (base)"}
    assert {row.comparison.verdict for row in stages.rows_of(run)[1]} == {"infrastructure failure"}
    out = gce("report", run)[1]
    assert "0 of 3 attempts measured, 3 failed for reasons of the infrastructure" in out
    measures.vanishing = False
    (run / "measured/dedupe/human/0.json").unlink()
    assert gce("run", run)[:2] == (0, "3 attempts measured now\n")
    assert "3 of 3 attempts measured. " in gce("report", run)[1]


def test_prepared_sources_are_those_that_are_measured(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path
) -> None:
    """Later changes of the task's directory do not count, and a change of what was put aside is found."""
    run = tmp_path / "run"
    gce("plan", tasks, "--out", run)
    assert gce("prepare", run)[:2] == (0, "1 task prepared now\n")
    assert gce("prepare", run)[:2] == (0, "0 tasks prepared now\n")
    (tasks / "dedupe" / "base" / "slowlib.py").write_text(FAST)
    assert stages.prepared_subject(run, "dedupe").base["slowlib.py"] == SLOW.encode()
    (run / "tasks" / "dedupe" / "base" / "slowlib.py").write_text(FAST)
    status, _, err = gce("run", run)
    assert status == 2
    assert "is not as it was prepared" in err


@pytest.mark.slow
def test_limit_on_the_cost_ends_a_run(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandboxed()
    monkeypatch.setenv("AGENT_KEY", "secret-key-of-the-agent")
    run = tmp_path / "run"
    words = ("--agents-file", agents_file(tmp_path), "--agents", "fixer", "--repeats", 2, "--max-cost", 0.2)
    gce("plan", tasks, "--out", run, *words)
    measures.fail = True
    assert "7 of 8 attempts failed" in gce("run", run)[2]
    measures.fail = False
    status, _, err = gce("run", run)
    assert status == 3
    assert "attempts have cost 0.25 US dollars" in err
    assert len(stages.rows_of(run)[1]) == 7, "what is made already is measured, and controls go on"


@pytest.mark.parametrize(("most", "made"), [("max_cost = 0.2\n", 1), ("", 2)])
def test_attempt_without_a_reported_cost_counts_what_it_may_cost(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path, most: str, made: int
) -> None:
    """The first attempt of at most 0.2 dollars reaches the limit; an agent without such a bound is named once."""
    sandboxed()
    file, run = tmp_path / "agents.toml", tmp_path / "run"
    file.write_text(f'[agents.mute]\ncommand = "python -V {{prompt_file}}"\nnetwork = true\ncost = "cost"\n{most}')
    gce("plan", tasks, "--out", run, "--agents-file", file, "--repeats", 2, "--max-cost", 0.2)
    status, _, err = gce("run", run)
    assert (status, err.count("agent mute reported no cost")) == ((0, 1) if made == 2 else (3, 0)), err
    assert ("attempts have cost 0.20 US dollars" in err) is (made == 1)
    assert RunFolder(run).spent() == 0.2 * bool(most) and measures.asked
    assert len(list(run.glob("items/dedupe/mute/*"))) == made


def test_agent_without_its_program_fails_and_the_others_go_on(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path
) -> None:
    """`plan` refuses it; a program that is gone later fails the attempts of its agent alone, and costs nothing."""
    sandboxed()
    program, file, run = tmp_path / "agent", tmp_path / "agents.toml", tmp_path / "run"
    file.write_text(
        f'[agents.gone]\ncommand = "{program} {{prompt}}"\nmax_cost = 1.0\n'
        '[agents.there]\ncommand = "python -V {prompt_file}"\n'
    )
    words = ("plan", tasks, "--out", run, "--agents-file", file)
    status, _, err = gce(*words)
    assert status == 2 and f"cannot run agent gone: '{program}' is not found" in err and not run.exists()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert gce(*words)[0] == 0
    program.unlink()
    status, _, err = gce("run", run)
    assert status == 3 and "1 of 5 attempts failed, the first because cannot run agent gone" in err
    assert [row.item.agent for row in stages.rows_of(run)[1]] == ["nothing", "human", "revert", "there"]
    assert RunFolder(run).spent() == 0.0 and len(measures.asked) == 4


def test_without_a_sandbox_every_agent_may_cost_something(gce: Gce, tasks: Path, tmp_path: Path) -> None:
    file = agents_file(tmp_path)
    words = ("plan", tasks, "--out", tmp_path / "run", "--agents-file", file, "--agents", "cheat", "--max-cost", 1)
    assert "what agent cheat costs is not known" in gce(*words, "--runner", "unsafe-local")[2]
    assert gce(*words)[0] == 0


def test_costs_of_failed_attempts_count_and_half_a_line_does_no_harm(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    folder.note("attempted", cost=0.5)
    with open(tmp_path / "run" / "journal.jsonl", "a") as journal:
        journal.write('{"cost": 0.1')
    folder.note("attempted", cost=0.25)
    folder.note("attempted", cost=None)
    assert folder.spent() == 0.75


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    left = [tmp_path / "run" / name for name in ("tasks/.a.x1", "items/task/agent/.0.x2")]
    kept = tmp_path / "run" / "items" / "task" / "agent" / "1"
    for each in (*left, kept):
        each.mkdir(parents=True)
    with folder.locked():
        assert not any(each.exists() for each in left)
    assert kept.exists()


def test_task_that_cannot_be_measured_is_refused_before_agents_run(gce: Gce, tasks: Path, tmp_path: Path) -> None:
    (tasks / "dedupe" / "workload.py").write_text("def setup(seed): return 1\n")
    gce("plan", tasks, "--out", tmp_path / "run")
    status, _, err = gce("run", tmp_path / "run")
    assert status == 2
    assert "does not define equal, run" in err
    assert not (tmp_path / "run" / "items").exists()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[]", "{}", '{"base": 1, "human": 2, "task": 3}'])
def test_damaged_record_of_a_task_is_one_line(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path, text: str
) -> None:
    gce("plan", tasks, "--out", tmp_path / "run", "--all-stages")
    (tmp_path / "run" / "tasks" / "dedupe" / "prepared.json").write_text(text)
    status, _, err = gce("export", tmp_path / "run", "--out", tmp_path / "records.jsonl")
    assert status == 2
    assert "is not as it was" in err and "Traceback" not in err


def test_names_of_loops_are_different_for_different_models() -> None:
    names = [plans.model_name(f"scripted:/a/long/path/of/scripts/of/models/{each}.jsonl", "loop") for each in "ab"]
    assert len(set(names)) == 2
    assert all(len(name) == 40 for name in names)
    assert plans.model_name("openai:gpt-5", "loop") == "loop-openai-gpt-5"


def worked(program: str, folder: Path, tree: dict[str, bytes], **more: Any) -> agent_commands.Worked:
    """What an agent without a sandbox leaves, which may then do what it could do in one."""
    (folder / "agent.py").write_text(program)
    agent = AgentCommand(name="x", command=f"{sys.executable} {folder}/agent.py {{prompt}}", **more)
    return agent_commands.run_agent(agent, "p", tree, {}, keys=["secret-key-at-hand"], isolated=False)


def test_links_in_place_of_the_copy_are_not_followed(tmp_path: Path) -> None:
    """Else the human's tree, or any file of the user, would become the patch or the trajectory."""
    write_files({"a.py": b"fix", "trajectory.json": b"secret"}, tmp_path / "human")
    found = worked(
        f"""
import os
os.chdir("..")
for name in ("code", "scratch"):
    os.rename(name, name + ".old")
    os.symlink({str(tmp_path / "human")!r}, name)
""",
        tmp_path,
        {"a.py": b"slow"},
    )
    assert found.tree == {"a.py": b"slow"}
    assert found.trajectory == ""
    assert (found.attempt.ending, found.attempt.reason) == ("output", "it left no working directory, or too much in it")


@pytest.mark.slow
def test_what_cannot_be_read_does_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = worked("import os; os.mkdir('../scratch/trajectory.json')", tmp_path, {"a.py": b"slow"})
    assert (found.attempt.ending, found.trajectory, found.tree) == ("ended", "", {"a.py": b"slow"})
    deep = "import os\nfor _ in range(1100): os.mkdir('d'); os.chdir('d')\nopen('x.py', 'w')"
    assert worked(deep, tmp_path, {"a.py": b"slow"}).attempt.ending == "ended"
    monkeypatch.setattr(trees, "MOST_FILES", 3)
    many = worked("for number in range(9): open(f'{number}.py', 'w')", tmp_path, {"a.py": b"slow"})
    assert (many.attempt.ending, many.tree) == ("output", {"a.py": b"slow"})


def test_keys_are_taken_out_of_names_and_of_what_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the agent did not change stays as it is."""
    monkeypatch.setenv("AGENT_KEY", "another-key-of-the-agent\n")
    tree = {"a.py": b"# secret-key-at-hand"}
    program = """
import os
key = os.environ["AGENT_KEY"].strip()
open("b.bin", "wb").write(b"\\xff" + key.encode())
open("c.py", "w").write("# é secret-key-at-hand é")
open(f"{key}.py", "w")
"""
    found = worked(program, tmp_path, tree, environment=("AGENT_KEY",))
    assert found.tree == {**tree, "b.bin": b"\xff[key]", "c.py": "# é [key] é".encode()}
    assert all("another" not in path for path in found.odd)
    assert len(found.odd) == 1


def test_sandbox_that_does_not_start_in_time_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_commands, "bubblewrap_path", lambda: "/bin/sleep")
    monkeypatch.setattr(agent_commands, "sandbox_of", lambda *_, **__: ["sh", "-c", "sleep 9"])
    monkeypatch.setattr(agent_commands, "_START_SECONDS", 0.1)
    assert agent_commands.why_no_sandbox() == "bubblewrap did not start within 0.1 s"


def test_prompt_too_long_for_a_command_line_is_one_line(tmp_path: Path) -> None:
    agent = AgentCommand(name="x", command=f"{sys.executable} -c pass {{prompt}}")
    with pytest.raises(BadInput, match="cannot run agent x: Argument list too long"):
        agent_commands.run_agent(agent, "p" * 200_000, {}, {}, keys=[], isolated=False)


class FailingModel:
    """Replies once, then its server fails."""

    name = "openai:gpt-5"

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, *_: object, **__: object) -> list[Completion]:
        self.asked += 1
        if self.asked > 1:
            return [Completion("0", "", "error", "", error="status 503")]
        return [Completion("0", "SHOW slowlib.py", "stop", "", prompt_tokens=100, tokens=10)]


def test_loop_whose_server_fails_is_made_again_and_its_cost_is_known() -> None:
    source = Source(directory="x")
    task = PerformanceTask(name="t", base=source, human=source, workload="w", tests="t")
    subject = Subject(task, {"slowlib.py": b"1"}, {"slowlib.py": b"2"})
    model: Any = FailingModel()
    nothing: Any = None
    limits: dict[str, Any] = {"turns": 3, "max_tokens": 9, "temperature": 0.0, "seed": 0, "clock": float}
    made = by_model(model, subject, "t/x/0", nothing, **limits)
    assert (made.attempt.ending, made.attempt.reason, made.attempt.turns) == ("failed", "status 503", 1)
    assert made.attempt.usage == AgentUsage(100, 10, (100 * 1.25 + 10 * 10) / 1e6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "{tmp}"), "is no performance run"),
        (("plan", "{tmp}", "--out", "{tmp}/run"), "no task.toml"),
        (("plan", "{tasks}"), "give --out"),
        (("plan", "{tasks}", "--out", "{tmp}/run", "--agents", "claud"), "did you mean claude?"),
        (("plan", "{tasks}", "--out", "{tmp}"), "is no empty folder"),
        (("export", "{tmp}", "--out", "{tmp}/x"), "is no performance run"),
        (("report", "{tmp}", "{tmp}"), "takes one path"),
        (("wait", "{tmp}"), "expected one of validate"),
        (("fetch", "{tasks}", "--repeats", "5"), "does not take options of other steps: --repeats (plan)"),
        (("judge", "{tmp}", "--temperature", "1", "--out", "x"), "--temperature (plan), --out (plan, report, collect"),
        (("plan", "{tasks}", "--out", "{tmp}/run", "--max-minutes", "10", "--all-stages"), "--max-minutes (judge)"),
        (("plan", "{tasks}", "--out", "{tmp}/run", "--prices", "p.json", "--max-cost", "5"), "--prices (judge)"),
        (("collect", "--releases", "a==1,2", "--match", "x", "--out", "{tmp}/run"), "or a repository and --match"),
        (("plan", "{tasks}", "--out", "{tmp}/run", "--agents", "codex", "--max-cost", "1"), "what agent codex costs"),
        (
            ("plan", "{tasks}", "--out", "{tmp}/run", "--model", "openai:none", "--max-cost", "1"),
            "leave out --max-cost",
        ),
    ],
)
def test_bad_input_is_one_line(gce: Gce, tasks: Path, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    status, _, err = gce(*(word.format(tmp=tmp_path, tasks=tasks) for word in words))
    assert status == 2
    assert said in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_every_option_says_which_steps_take_it() -> None:
    """But for the form of the output, which all steps know."""
    known = {action.dest for action in cli.command_parser("performance")._actions if action.option_strings}
    assert known - set(STEPS_OF) == {"help", "json", "quiet", "verbose", "no_color"}
    assert {step for steps in STEPS_OF.values() for step in steps} <= set(STEPS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents = 1", "tables [agents.NAME]"),
        ("[agents.x]\n", "command: expected this field"),
        ('[agents.x]\ncommand = "sh {nothing}"\n', "with none but {prompt_file}"),
        ('[agents.x]\ncommand = "sh"\n', "expected {prompt}, {prompt_file} or stdin"),
        ('[agents.x]\ncommand = "sh {prompt!r}"\n', "with none but"),
        ('[agents.x]\ncommand = "sh {prompt}"\nseconds = 0\n', "seconds"),
        ('[agents.x]\ncommand = "sh {prompt}"\ntime = 1\n', "expected no other fields"),
        ('[agents.x]\npreset = "gpt"\n', "expected a preset from claude"),
        ('[agents.x]\ncommand = "sh {prompt}"\nvisible = ["/no/such"]\n', "no such path: '/no/such'"),
        ('[agents.human]\ncommand = "sh {prompt}"\n', "is a control"),
        ("[agents", "is not TOML"),
    ],
)
def test_file_of_agents_is_read_strictly(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "agents.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_agents(path)
    assert said in str(caught.value)


def test_preset_with_other_fields(tmp_path: Path) -> None:
    path = tmp_path / "agents.toml"
    path.write_text('[agents.mine]\npreset = "claude"\nmax_cost = 2.5\n')
    mine = read_agents(path)["mine"]
    assert (mine.max_cost, mine.command, mine.stdin) == (2.5, PRESETS["claude"].command, True)
    assert set(PRESETS) == {"claude", "codex", "trae", "openhands"}


def test_visible_paths_are_relative_to_the_file_of_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project" / "bin").mkdir(parents=True)
    (tmp_path / "project" / "agents.toml").write_text(
        '[agents.x]\ncommand = "x {prompt}"\nvisible = ["bin", "~", "/tmp"]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/")
    assert read_agents(Path("project/agents.toml"))["x"].visible == (f"{tmp_path}/project/bin", "/", "/tmp")


def test_usage_is_read_from_the_last_object() -> None:
    agent = AgentCommand(name="x", command="x {prompt}", cost="total.usd", tokens="n")
    assert usage_in('{"total": {"usd": 1}}\n{"total": {"usd": 2.5}, "n": 7}\nend\n', agent) == AgentUsage(None, 7, 2.5)
    assert usage_in('{"total": {"usd": -1}, "n": true}', agent) == AgentUsage()
    assert usage_in("{" * 100_000, agent) == AgentUsage()


def test_working_copy_is_read_without_following_links(tmp_path: Path) -> None:
    write_working_copy({"a.py": b"1", "pkg/b.py": b"2"}, tmp_path / "code")
    (tmp_path / "code" / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "code" / "folder").symlink_to("/etc")
    (tmp_path / "code" / "__pycache__").mkdir()
    (tmp_path / "code" / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert read_working_copy(tmp_path / "code") == ({"a.py": b"1", "pkg/b.py": b"2"}, ("folder", "link.py"))


def test_every_agent_tries_every_task_before_any_tries_again() -> None:
    plan = Plan(tasks=(PlannedTask("a", "/a"), PlannedTask("b", "/b")), repeats=2, runner="auto")
    assert [item.key for item in plan.items][:4] == ["a/nothing/0", "a/human/0", "a/revert/0", "b/nothing/0"]
    assert len(plan.items) == 12
    assert plan.items[6].repeat == 1


@pytest.mark.parametrize("name", ["plan", "accuracy/1", "items/dedupe/human/0/patch", "measured/dedupe/human/0"])
@pytest.mark.parametrize("text", ["{", '{"path": 1}', "null"])
def test_damaged_file_of_a_run_is_one_line(
    gce: Gce, tasks: Path, measures: FakeMeasures, tmp_path: Path, name: str, text: str
) -> None:
    run = tmp_path / "run"
    assert gce("plan", tasks, "--out", run)[0] == gce("run", run)[0] == 0
    (run / "accuracy").mkdir()
    (run / f"{name}.json").write_text(text)
    (run / "measured/dedupe/nothing/0.json").unlink()  # There is something to do.
    if "items" in name:
        (run / "measured/dedupe/human/0.json").unlink()
    status, _, err = gce("run", run)
    assert status == 2 and f"{name}.json is not as it was written" in err and "Traceback" not in err and measures.asked


def test_two_processes_cannot_work_on_one_run(gce: Gce, tasks: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    gce("plan", tasks, "--out", run)
    with RunFolder(run).locked():
        status, _, err = gce("prepare", run)
    assert status == 2
    assert "another process works on" in err


@pytest.mark.slow
def test_real_measurement_of_a_tiny_task(gce: Gce, tasks: Path, tmp_path: Path) -> None:
    """With the sandbox that measures: the human's form is faster, nothing and revert are not."""
    sandboxed()
    run = tmp_path / "run"
    status, _, err = gce("plan", tasks, "--out", run, "--all-stages")
    assert status == 0, err
    found = {row.item.agent: row.comparison for row in stages.rows_of(run)[1]}
    assert found["human"].verdict in GAINS
    assert found["human"].reward > 0.9
    assert {found[name].reward for name in ("nothing", "revert")} == {0.0}
