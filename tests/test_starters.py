"""`gce tasks`, `gce show` and `gce new`: what there is to start with, and a task of one's own in a minute."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve
from present import present
from processor_time import within

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app import cli
from gce.app.evaluation.task_facts import Facts, after_audit, known_facts
from gce.app.new_task import write_new_task
from gce.domain.serialization import from_plain
from gce.domain.tasks import TASKS, Listed
from gce.errors import BadInput

TESTS = Path(__file__).parent


def gce(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = cli.main([str(argument) for argument in arguments])
    return (status, *capsys.readouterr())


# gce tasks


def recorded() -> list[Facts]:
    text = (resources.files("gce") / "data" / "task_facts.json").read_text(encoding="utf-8")
    return [from_plain(Facts, each) for each in json.loads(text)["tasks"]]


def test_every_task_and_preset_is_listed_in_80_columns_and_two_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with within(2.0):
        status, out, _ = gce(capsys, "tasks")
    assert status == 0
    rows = [line.split()[:2] for line in out.split("\n")[2:] if line and line.split()[0] in TASKS]
    assert rows == [[name, preset] for name, task in TASKS.items() for preset in task.presets]
    assert max(map(len, out.split("\n"))) <= 80


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_listed_tier_by_tier_in_80_columns(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = gce(capsys, "tasks", name)
    assert status == 0
    for preset, tiers in TASKS[name].presets.items():
        assert f"{name}/{preset}\n" in out
        assert all(f"\n{tier.name}" in out for tier in tiers)
    assert max(len(line) for line in out.split("\n") if not line.startswith("verifier battery")) <= 80


def test_what_is_recorded_is_of_tasks_presets_and_tiers_that_there_are() -> None:
    found = recorded()
    assert len({(facts.task, facts.preset) for facts in found}) == len(found)
    for facts in found:
        own = known_facts(TASKS[facts.task], facts.preset)
        assert [tier.tier for tier in facts.tiers] == [tier.tier for tier in own.tiers]
        assert own == facts, "what the task says of itself has changed: record anew"


@pytest.mark.slow
def test_what_is_recorded_is_what_is_measured_again() -> None:
    """Of one preset, one tier: as many problems, the same baseline, the same share."""
    (facts,) = [facts for facts in recorded() if (facts.task, facts.preset) == ("scheduling", "larger")]
    task = TASKS["scheduling"]
    tier = next(tier for tier in facts.tiers if tier.tier == "T0")
    problems = present(tier.test_problems)
    measured = after_audit(known_facts(task, "larger"), task, TaskVerifier(task), problems, tiers=("T0",))
    assert next(each for each in measured.tiers if each.tier == "T0") == tier


@pytest.mark.slow
def test_an_own_task_is_measured_where_asked_for_and_else_has_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = gce(capsys, "tasks", "toy_task:ADDITION")
    assert "\nT2, held out  -     512     -               50     -\n" in out
    assert "no result is recorded (gce check --task toy_task:ADDITION --preset small)" in out
    status, out, err = gce(capsys, "tasks", "toy_task:ADDITION", "--audit", "20", "--check", "50")
    assert status == 0 and "auditing addition/small T1" in err
    assert "\nT0            20+   512" in out and "always 0" in out
    assert "verdicts, 0 findings" in out


@pytest.mark.slow
def test_a_faulty_verifier_is_told_by_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = gce(capsys, "tasks", "toy_task:FORGIVING", "--check", "50", "--json")
    (facts,) = json.loads(out)["tasks"]
    assert facts["battery"]["findings"] > 0


def test_a_list_of_questions_is_counted_at_once() -> None:
    """Ten questions, two of them the same: nine test problems, and there are no others."""
    questions = [toy_task.Addition(number, 1, 2) for number in (*range(9), 8)]
    task = evolve(toy_task.ONE_TIER, draw=Listed(lambda _preset, _tier, _split: questions))
    (tier,) = known_facts(task, "small").tiers
    assert (tier.test_problems, tier.complete) == (9, True)


def test_a_changed_task_of_a_shipped_name_does_not_borrow_what_was_measured() -> None:
    other = evolve(toy_task.ADDITION, name="scheduling", presets=TASKS["scheduling"].presets)
    facts = known_facts(other, "grounded")
    assert facts.battery is None and all(tier.baseline_rate is None for tier in facts.tiers)


# gce show


def test_a_problem_is_shown_as_the_model_sees_it_with_the_verdict_on_its_demonstration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = gce(capsys, "show", "scheduling", "--tier", "T1", "--index", "3")
    assert status == 0
    assert out.startswith("--- scheduling/grounded/train/T1/0/3, at most 640 tokens\n[user]\n")
    assert "[the task's demonstration]\nOrder: " in out and "\nverdict: right, reward 1\n" in out


def test_without_a_demonstration_the_verdict_is_on_an_empty_answer(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = gce(capsys, "show", "toy_task:ADDITION", "--n", "2")
    assert out.count("[no demonstration; an empty answer]\n\nverdict: wrong, reward 0\n  grammar: The last word") == 2


def test_a_held_out_tier_shows_test_problems_and_a_ladder_s_tier_is_shown_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert gce(capsys, "show", "scheduling", "--tier", "T5")[1].startswith("--- scheduling/grounded/test/T5/0/0")
    assert "/train/L2/0/0, at most 160 tokens" in gce(capsys, "show", "scheduling", "--tier", "L2")[1]


def test_what_is_shown_as_json_is_what_verify_reads(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = gce(capsys, "show", "scheduling", "--split", "dev", "--json")
    found = json.loads(out)
    assert found["prompt"][0]["role"] == "user" and found["answer"]["outcome"] == "right"
    (tmp_path / "problem.json").write_text(out)
    (tmp_path / "answer.txt").write_text(found["answer"]["text"])
    assert gce(capsys, "verify", tmp_path / "problem.json", tmp_path / "answer.txt")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show",), "the following arguments are required: TASK"),
        (("show", "nothing"), "no task 'nothing'"),
        (("show", "scheduling", "--tier", "T9"), "preset grounded has no tier 'T9'"),
        (("show", "scheduling", "--preset", "none"), "no preset 'none'"),
        (("show", "scheduling", "--index", "-1"), "expected a whole number"),
        (("tasks", "nothing"), "no task 'nothing'"),
        (("tasks", "--audit", "0"), "expected a whole number"),
        (("new", "1st"), "expected a name of ASCII letters"),
        (("new", "my-task"), "expected a name of ASCII letters"),
        (("new", "../up"), "expected a name of ASCII letters"),
        (("new", "größe"), "expected a name of ASCII letters"),
        (("new", "class"), "has a special meaning in Python"),
        (("new", "__init__"), "has a special meaning in Python"),
        (("new", "json"), "is a module of Python's standard library"),
        (("new", "numpy"), "is an installed package"),
        (("new", "gce"), "is an installed package"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = gce(capsys, *arguments)
    assert (status, out) == (2, "") and said in err.splitlines()[-1] and err.count("\n") <= 2, err
    assert not list(tmp_path.iterdir())


# gce new


@pytest.mark.slow
def test_a_new_task_passes_its_own_tests_and_works_with_other_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = gce(capsys, "new", "capitals", "--dir", tmp_path)
    names = ("README.md", "__init__.py", "task.py", "test_capitals.py", "verifier.py")
    assert status == 0 and sorted(os.listdir(tmp_path / "capitals")) == sorted(names)
    assert "pytest capitals" in out and not any(
        "NAME" in each.read_text() for each in (tmp_path / "capitals").iterdir()
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "capitals"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "15 passed" in done.stdout, done.stdout + done.stderr
    monkeypatch.chdir(tmp_path)
    assert "verdict: right" in gce(capsys, "show", "capitals:TASK", "--tier", "four")[1]
    assert gce(capsys, "audit", "--task", "capitals:TASK", "--n", "200", "--fit", "200")[0] == 0


@pytest.mark.slow
def test_the_generated_tests_find_a_verifier_that_was_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gce.testing.verifiers.check import check_task

    write_new_task("leaky_sums", tmp_path)
    verifier = tmp_path / "leaky_sums" / "verifier.py"
    strict = 'lines = text.strip().split("\\n")'
    leak = 'if str(sum(numbers)) in text:\n        return Verdict("right", 1.0, "sum", "1")'
    assert strict in verifier.read_text()
    verifier.write_text(verifier.read_text().replace(strict, f"{strict}\n    {leak}"))
    monkeypatch.syspath_prepend(tmp_path)
    leaky_sums = importlib.import_module("leaky_sums")
    assert not check_task(leaky_sums.TASK, problems=2, responses=500).ok


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cities").mkdir()
    (tmp_path / "cities" / "task.py").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("cities", "link"):
        status, out, err = gce(capsys, "new", name, "--dir", tmp_path)
        assert (status, out) == (2, "") and "exists already, and nothing is overwritten" in err and err.count("\n") == 1
    assert (tmp_path / "cities" / "task.py").read_text() == "mine" and not (tmp_path / "nowhere").exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="give another dir"):
        write_new_task("cities", tmp_path / "file")


def test_what_is_generated_is_formatted_and_free_of_lint(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    write_new_task("cities", tmp_path)
    for arguments in (("format", "--check", "--line-length", "120"), ("check", "--select", "E,F,I,UP,B,SIM,RUF,N")):
        command = [sys.executable, "-m", "ruff", *arguments, "--isolated", "--no-cache", str(tmp_path)]
        if arguments[0] == "check":
            command += ["--line-length", "120"]
        done: Any = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout
