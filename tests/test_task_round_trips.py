"""A task that is exported to a framework and taken in again judges every answer as before."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import graded_sums
import pytest
from attrs import frozen

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app import cli
from gce.app.wiring.environments import find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
from gce.domain.problems import Problem, Split
from gce.domain.tasks import Task, draw_problems

pytestmark = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")

NAME = "graded_sums:SUMS"
HOSTILE = (
    "",
    " ",
    "\0",
    "no idea",
    "\\boxed{",
    "\\boxed{}",
    "\\boxed{1}\\boxed{2}",
    "\\boxed{١٢}",
    "\\boxed{" + "9" * 5_000 + "}",
    "\\boxed{__import__('os')._exit(0)}",
    "{" * 2_000,
    '{"right": 1.0}',
    "C",
    "ANSWER: C",
    "</answer>",
    "<think>\\boxed{7}",
    f"\\boxed{{{graded_sums.BREAKS}}}",
)


@frozen
class Framework:
    """How a task that was exported goes by in gce, and what of its verdicts the framework keeps."""

    name: str
    package: str
    """That has to be installed; empty for none."""
    keeps_unreadable: bool


FRAMEWORKS = {
    "inspect": Framework("inspect:task.py@gce_graded_sums_sums", "inspect_ai", True),
    "lm-eval": Framework("lm-eval:gce_graded_sums_sums.yaml", "lm_eval", False),
    "reasoning-gym": Framework(
        "reasoning-gym:gce_graded_sums_sums?module=gce_graded_sums_sums&split=test&files=graded_sums.py",
        "reasoning_gym",
        False,
    ),
    "trl": Framework("trl:rewards:reward@test.jsonl?files=graded_sums.py", "", False),
}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def again(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Framework, Task]]:
    """The task out and in again, through each framework."""
    framework = FRAMEWORKS[request.param]
    if framework.package:
        pytest.importorskip(framework.package)
    out = tmp_path_factory.mktemp(request.param) / "out"
    assert cli.main(["export-task", NAME, "--to", request.param, "--n", "40", "--out", str(out), "--quiet"]) == 0
    shutil.copy(graded_sums.__file__, out)  # The task is no installed one.
    before = Path.cwd()
    os.chdir(out)
    yield framework, find_task(framework.name)
    os.chdir(before)
    find_environment.cache_clear()


def originals() -> dict[str, Problem]:
    """The exported test problems by what their prompts begin with."""
    found = draw_problems(graded_sums.SUMS, "questions", "all", "test", 40)
    return {problem.prompt[-1].content: problem for problem in found}


def responses(problem: Problem, count: int) -> list[str]:
    """Right, nearly right, wrong, unreadable and hostile ones."""
    right = int(problem.instance.row["answer"])
    fair = [f"\\boxed{{{right + off}}}" for off in (0, 1, -1, 2, 10)]
    fair += [f"Let me think.\nIt is \\boxed{{ {right} }}, surely.", str(right), f"{right}}}"]
    return list(islice(cycle([*fair, *HOSTILE]), count))


def judged(task: Task, answers: list[tuple[Problem, Completion]]) -> list[Answer]:
    found = TaskVerifier(task).judge(answers)
    return [answered_by(task, problem, completion, verdicts) for problem, completion, verdicts in found]


def check_round_trip(framework: Framework, task: Task, count: int) -> None:
    ours = originals()
    preset = next(iter(task.presets))
    tiers = [tier.name for tier in task.tiers(preset)]
    splits: tuple[Split, ...] = ("train", "dev", "test")
    theirs = {
        problem.prompt[-1].content: problem
        for split in splits
        for problem in draw_problems(task, preset, tiers[0], split, 40)
    }
    pairs = [
        (problem, other)
        for prompt, problem in ours.items()
        for shown, other in theirs.items()
        if shown.startswith(prompt)
    ]
    assert len(pairs) >= 10
    per_problem = -(-count // len(pairs))
    before, after = [], []
    for place, (problem, other) in enumerate(pairs):
        for text in responses(problem, per_problem + place)[-per_problem:]:
            sent = task.audit.write(text)
            if sent != text and (not text.strip() or "</answer>" in text):
                continue  # What stands between the tags of reasoning-gym is not this text.
            before.append((problem, Completion("answer", text, "stop", policy="")))
            after.append((other, Completion("answer", sent, "stop", policy="")))
    assert len(before) >= 0.8 * count
    expected, found = judged(graded_sums.SUMS, before), judged(task, after)
    kinds = Counter(each.outcome for each in expected)
    assert all(kinds[each] for each in ("right", "wrong", "unreadable", "failed")), kinds
    for was, now in zip(expected, found, strict=True):
        said = (was.completion.text[:60], was.outcome, was.reward, now.outcome, now.reward, now.reason)
        assert (was.right, was.failed, was.reward) == (now.right, now.failed, now.reward), said
        if framework.keeps_unreadable:
            assert was.outcome == now.outcome, said


@pytest.mark.slow
def test_verdicts_are_the_same_after_a_round_trip(again: tuple[Framework, Task]) -> None:
    check_round_trip(*again, 60)


@pytest.mark.slow
def test_a_thousand_verdicts_are_the_same_after_a_round_trip(again: tuple[Framework, Task]) -> None:
    check_round_trip(*again, 1_200)
