"""Test problems measure: what chooses settings, prompts, weights or demonstrations never draws them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gce

ROOT = Path(__file__).parents[1]
FOLDERS = {"src/gce": Path(gce.__file__).parent} | {
    name: ROOT / name for name in ("pretraining", "benchmarks", "attacks", "examples")
}
DRAWING = {"draw_problems", "draw_problem", "first", "_problems"}
"""Functions and methods that return the problems of a split."""

READERS = {
    "attacks/program_tests.py": "wrong programs against the tests of problems",
    "benchmarks/adversarial_students.py": "final measurement of trained models",
    "benchmarks/faster.py": "equivalence of functions",
    "benchmarks/returns.py": "returns of scripted policies",
    "examples/run_simulation.py": "one conversation, printed",
    "src/gce/app/evaluation/baselines.py": "scores of prompt-blind baselines, fitted to training problems",
    "src/gce/app/evaluation/environment_audit.py": "answers sent to foreign scorers",
    "src/gce/app/evaluation/task_facts.py": "counts them",
    "src/gce/app/evaluation/validity.py": "measures a finished run",
    "src/gce/app/own_tasks.py": "judges the known answers of a few questions, to warn of a score that refuses them",
    "src/gce/app/training/final_tests.py": "final measurement, and shifts",
    "src/gce/app/training/run.py": "accuracy before and after training",
    "src/gce/testing/verifiers/bench.py": "attacks on verifiers",
}
"""What draws test problems, and why nothing is chosen by them."""


def _reads_tests(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = [*node.args, *(each.value for each in node.keywords if each.arg == "split")]
            if name in DRAWING and any(isinstance(each, ast.Constant) and each.value == "test" for each in given):
                yield node.lineno


def test_only_measurements_draw_test_problems() -> None:
    found = {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in FOLDERS.items()
        for path in folder.rglob("*.py")
        if any(_reads_tests(ast.parse(path.read_text())))
    }
    assert found == set(READERS)


def test_the_pretraining_names_no_split_but_that_of_training() -> None:
    for path in sorted((ROOT / "pretraining").glob("*.py")):
        names = {each.value for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Constant)}
        assert not names & {"test", "dev"}, path.name


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("draw_problems(task, preset, tier, 'test', 5)", [1]),
        ("x = 1\nsource.first(preset, tier, split='test')", [2]),
        ("draw_problems(task, preset, tier, 'dev', 5)", []),
        ("measure(task, 'test')", []),
    ],
)
def test_a_reader_is_recognized(code: str, lines: list[int]) -> None:
    assert list(_reads_tests(ast.parse(code))) == lines
