"""The examples run as they stand."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gce.app.performance.plans import read_agents
from gce.domain.completions import Completion
from gce.domain.problems import Problem, ProblemId
from gce.domain.tasks import TASKS, draw_problem, judge

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_quickstart_prints_a_problem_three_answers_and_three_verdicts(tmp_path: Path) -> None:
    """One right, one that violates a constraint, one that is plausible and too long."""
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "quickstart_gce.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("\nAnswer: ") == 3
    assert re.findall(r"^-> (\w+), score", ran.stdout, re.M) == ["right", "wrong", "wrong"]
    names = ("right:", "violating:", "plausible but wrong:")
    assert [line for line in ran.stdout.splitlines() if line in names] == list(names)
    violations = ran.stdout.partition("violating:")[2]
    assert re.search(r"^   (precedence|capacity|deadline): ", violations, re.M)


@pytest.mark.slow
def test_a_problem_in_three_calls_ends_with_a_verdict(tmp_path: Path) -> None:
    pytest.importorskip("mlx_lm")
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "run_simulation.py"), "T0"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert (ran.stdout.count("--- asked"), ran.stdout.count("--- said")) == (3, 3)
    # The calls one after the other: list, draft, answer; then what the task itself says of the last reply alone.
    asked = re.findall(r"^--- asked\n(.*?)\n--- said\n", ran.stdout, re.M | re.S)
    task = TASKS["scheduling"]
    problem = draw_problem(task, "grounded", "T0", "test", 0)
    assert asked[0].startswith(problem.prompt[0].content)
    assert [turn.rpartition("\n")[2] for turn in asked] == list(task.teaching.calls)
    reply, _, said = ran.stdout.rpartition("--- said\n")[2].removesuffix("\n").partition("\n\n")
    verdict = judge(problem, reply)
    assert said == ("right" if verdict.right else task.teaching.feedback(verdict))


def test_the_agent_without_a_model_edits_what_it_knows_and_nothing_else(tmp_path: Path) -> None:
    folder = EXAMPLES / "performance"
    agent = read_agents(folder / "agents.toml")["scripted"]
    assert agent.visible == (str(folder),)
    (tmp_path / "more_itertools").mkdir()
    recipes, other = tmp_path / "more_itertools" / "recipes.py", tmp_path / "more_itertools" / "more.py"
    old = "    return len(list(islice(groupby(iterable, key), 2))) <= 1\n"
    for path in (recipes, other):
        path.write_text(f"from itertools import groupby, islice\n\n\ndef all_equal(iterable, key=None):\n{old}")
    before = other.read_text()
    ran = subprocess.run([folder / "scripted_agent.py", tmp_path], capture_output=True, text=True, timeout=30)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "edits: 1")
    found: dict[str, Any] = {}
    exec(recipes.read_text(), found)
    assert [found["all_equal"](each) for each in ("", "a", "aaa", "aab")] == [True, True, True, False]
    assert other.read_text() == before and "list(" not in recipes.read_text()


@pytest.mark.slow
def test_a_task_of_one_s_own_is_learned_by_the_same_command(tmp_path: Path) -> None:
    """One small iteration with the shipped model: rollouts are judged and the run is complete."""
    pytest.importorskip("mlx_lm")
    sizes = ["--iterations", "1", "--problems", "3", "--rollouts", "4", "--test", "2", "--dev", "0", "--updates", "1"]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "gce.app.train",
            "--task",
            "custom_task:SORTING",
            *("--model", "gce-tiny"),
            *sizes,
            "--run-dir",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["rollouts"], summary["heuristics"]["sorts"]["twelve"]["correct"]) == (12, 2)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Order: 1 C, 3 K", "right"),
        (" Order: 1 C, 3 K\n", "right"),
        ("Order: 1 C, 3 K, 3 K", "wrong"),
        ("Order: 3 K, 1 C", "wrong"),
        ("Order: 1 C", "wrong"),
        ("Order: 1 C, 4 K", "wrong"),
        ("Order: 1 C; 3 K", "wrong"),
        ("", "wrong"),
        ("9" * 10_000, "wrong"),
    ],
)
def test_the_verdicts_of_the_task_of_one_s_own(text: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """K 3 and C 1: C comes first."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    task = importlib.import_module("custom_task")
    instance = task.Pairs((("K", 3), ("C", 1)))
    problem = Problem(
        ProblemId("sorting", "letters", "train", "nine", 0, 0), instance, task.SORTING.prompt(instance, None), "d"
    )
    (verdict,) = task.SORTING.verify(problem, Completion("k", text, "stop", policy=""), None)
    assert verdict.status == status


def own_everything(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What python prints with these arguments, started beside the examples."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=120,
    )


OWN = [
    *("--task", "own_everything:LARGER", "--model", "own_everything:Habits"),
    *("--evaluator", "own_everything:LastNumber"),
]


@pytest.mark.slow
def test_one_of_everything_of_one_s_own_learns_and_is_measured() -> None:
    """From Python: each is given itself. At most 120 lines, all in all."""
    assert len((EXAMPLES / "own_everything.py").read_text().splitlines()) <= 120
    ran = own_everything("own_everything.py")
    assert (ran.returncode, ran.stderr) == (0, "")
    told, *learned, untrained, swapped = ran.stdout.splitlines()
    assert told == "run larger: given:centred, given:LastNumber"
    after = [re.fullmatch(r"\w+ digits: (\d+)% right before, (\d+)% after", line) for line in learned]
    assert len(after) == 2 and all(found and int(found[1]) < 80 < int(found[2]) for found in after)
    assert untrained.startswith("untrained, zero-shot: names") and swapped.startswith("untrained, swapped: names")


@pytest.mark.slow
def test_one_of_everything_of_one_s_own_is_named_on_the_command_line(tmp_path: Path) -> None:
    """And stored under these names, by which the run is judged again."""
    pytest.importorskip("safetensors")  # Checkpoints of runs in directories.
    run = str(tmp_path / "run")
    sizes = ["--algorithm", "own_everything:CENTRED", "--iterations", "2", "--test", "20", "--run-dir", run]
    trained = own_everything("-m", "gce.app.train", *OWN, *sizes)
    assert trained.returncode == 0, trained.stderr
    config = json.loads((tmp_path / "run" / "summary.json").read_text())["config"]
    assert (config["evaluator"], config["objective"]["algorithm"]) == (OWN[-1], sizes[1])
    rescored = own_everything("-m", "gce.app.cli", "rescore", run)
    assert rescored.returncode == 0 and rescored.stdout.endswith(" answers judged again, 0 verdicts changed\n")
    asked = ["--strategies", "zero-shot,own_everything:SWAPPED", "--metrics", "own_everything:FIRST", "--n", "10"]
    measured = own_everything("-m", "gce.app.cli", "evaluate", *OWN, *asked, "--json")
    assert measured.returncode == 0, measured.stderr
    found = json.loads(measured.stdout)["metrics"]["own_everything:FIRST"]
    assert list(found) == ["zero-shot", "own_everything:SWAPPED"]
    assert all(list(row) == ["two", "three"] for row in found.values())


@pytest.mark.slow
def test_a_list_of_questions_is_attacked_and_measured(tmp_path: Path) -> None:
    """At most 40 lines; a model that always says Paris has one answer of the list right."""
    assert len((EXAMPLES / "own_questions.py").read_text().splitlines()) <= 40
    script = tmp_path / "answers.jsonl"
    script.write_text('{"text": "paris."}\n')
    checked = own_everything("-m", "gce.app.cli", "check", "--task", "own_questions:CAPITALS", "--responses", "100")
    assert checked.returncode == 0, checked.stdout
    asked = (
        "evaluate",
        "--task",
        "own_questions:CAPITALS",
        "--model",
        f"scripted:{script}",
        "--split",
        "test",
        "--json",
    )
    measured = own_everything("-m", "gce.app.cli", *asked)
    assert measured.returncode == 0, measured.stderr
    assert measured.stderr.startswith(
        "7 test questions: 95 % interval about +-30 points; --split all asks all questions"
    )
    assert json.loads(measured.stdout)["modes"]["zero-shot"]["tiers"]["all"]["n"] == 7


EVALUATORS = {
    "loop": r"gap: those that teach rose by [+-]\d\.\d{3} more \([+-]\d\.\d{3} to [+-]\d\.\d{3}\)",
    "learned_critic": r"right: \d+ %; R\^2 -?\d\.\d\d, AUROC [01]\.\d\d",
    "learned_critic_v1": r"72 answers; beyond the length: [+-]0\.\d{3} of R\^2",
    "governor": r"adaptive: \d+ rollouts, [\d,]+ tokens, \d+ % fewer",
    "revision": r"mended \d+, spoiled 0",
    "geometry": r"schema 1\.1, 3 time steps, in \S+geometry\.json",
    "onnx_loop": r"right of 10: MLX (\d+), ONNX Runtime \1; 10 answers are the same text",
}
"""The last line of what each example of several evaluators prints."""


def test_each_demonstration_has_its_example() -> None:
    """Of at most 40 lines."""
    files = {file.stem: file.read_text() for file in (EXAMPLES / "evaluators").glob("*.py")}
    assert {*files} == {*EVALUATORS} and all(len(text.splitlines()) <= 40 for text in files.values())


QUICK = ("learned_critic_v1", "revision")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in EVALUATORS]
)
def test_examples_of_several_evaluators_end_with_a_result(name: str, tmp_path: Path) -> None:
    pytest.importorskip("mlx_lm")
    if name == "onnx_loop":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "evaluators" / f"{name}.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(EVALUATORS[name], ran.stdout.splitlines()[-1]), ran.stdout
