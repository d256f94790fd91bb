"""Generators of reasoning-gym as tasks: through the worker where it matters, and all of them by their functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gce.adapters.environments.reasoning_gym import digest_of, load
from gce.adapters.environments.scorers import Scorers
from gce.app.cli import main
from gce.app.wiring import environments
from gce.app.wiring.environments import find_environment
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.app.wiring.tasks import find_task
from gce.domain.tasks import ProblemSource, Task, draw_problems
from gce.errors import BadInput
from gce.testing.contracts.foreign_task import check_foreign_task

pytest.importorskip("reasoning_gym")
pytestmark = pytest.mark.skipif(all(map(why_not, SANDBOXES)), reason="no sandbox works here")

WITHOUT_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Generators whose entries have no answer: there is nothing to try their scorer on."""
NOT_IN = {"composite": "Must specify at least one dataset"}
"""Generators that cannot be made by their name alone, with what they say."""


@pytest.fixture(scope="module")
def legs() -> Iterator[Task]:
    yield find_task("reasoning-gym:leg_counting?max_animals=3")
    find_environment.cache_clear()


def test_a_generator_keeps_the_contract(legs: Task) -> None:
    check_foreign_task(legs, problems=2)


def test_options_reach_the_configuration(legs: Task) -> None:
    (problem,) = draw_problems(legs, "default", "default", "test", 1)
    assert problem.prompt[-1].content.count(",") <= 6
    assert legs.name == "reasoning-gym:leg_counting?max_animals=3"


def test_splits_follow_from_question_and_answer(legs: Task) -> None:
    (problem,) = draw_problems(legs, "default", "default", "dev", 1)
    question = problem.prompt[-1].content.partition("\n\nGive the final")[0]
    assert problem.digest == digest_of(question, problem.instance.row["answer"])
    assert ProblemSource(legs).redraw(problem.key) == problem


def test_the_curriculum_is_a_preset(legs: Task) -> None:
    names = [tier.name for tier in legs.tiers("curriculum")]
    assert len(names) > 1
    assert names == [f"level-{level}" for level in range(len(names))]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("reasoning-gym:no_such_generator", "no generator 'no_such_generator'; there are"),
        ("reasoning-gym:leg_counting?legs=9", "unexpected keyword argument 'legs'"),
        ("reasoning-gym:leg_counting?seed=9", "leave out seed"),
        ("reasoning-gym:composite", NOT_IN["composite"]),
    ],
)
def test_bad_names_say_what_is_wrong(name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        find_task(name)
    assert "\n" not in str(caught.value)


def test_an_evaluation_runs_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"text": "<answer>7</answer>"}) + "\n")
    name = "reasoning-gym:leg_counting?max_animals=3"
    assert main(["evaluate", "--task", name, "--model", f"scripted:{answers}", "--n", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["modes"].values()
    assert row["coverage"] == 1.0


def test_a_run_is_trained_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors")  # Checkpoints.
    script, run = tmp_path / "script.jsonl", str(tmp_path / "run")
    script.write_text(json.dumps({"text": ["<answer>Yes</answer>", "<answer>No</answer>"]}) + "\n")
    named = ["--task", "reasoning-gym:syllogism", "--model", f"scripted:{script}"]
    sizes = ["--problems", "4", "--rollouts", "4", "--iterations", "1", "--test", "4", "--dev", "0"]
    assert main(["train", *named, *sizes, "--run-dir", run, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["config"]["task"] == named[1]
    assert summary["failed_rollouts"] == 0 and summary["correct_traces"] > 0
    assert main(["train", "--run-dir", run, "--resume", "--iterations", "2", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["rescore", run]) == 0
    assert "0 verdicts changed" in capsys.readouterr().out


def test_a_script_of_reasoning_gym_alone_gives_the_score_and_one_worker_does_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that runs scripts says how problems are drawn, too: importing the package takes longer than most."""
    started: list[str] = []

    class Counted(Scorers):
        def __init__(self, start: Any, module: str, arguments: Any, **options: Any) -> None:
            started.append(module)
            super().__init__(start, module, arguments, **options)

    monkeypatch.setattr(environments, "Scorers", Counted)
    (problem,) = draw_problems(find_task("reasoning-gym:gcd?curriculum=false"), "default", "default", "test", 1)
    started.clear()
    row, reproduced = problem.instance.row, environments.reproducer("reasoning-gym", "gcd")
    right, wrong = reproduced(row, row["answer"]), reproduced(row, row["answer"] + "1")
    assert right is not None and wrong is not None and right.is_same and wrong.is_same
    assert (float(right.printed), right.raised) == (1.0, "") and float(wrong.printed) < 1.0
    assert len(right.script.splitlines()) == 5 and "gce" not in right.script
    assert started == ["gce.adapters.environments.reproductions"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Of its generators, which leave files open.
def test_every_generator_comes_in_or_is_listed() -> None:
    from reasoning_gym.factory import DATASETS

    refused, without = {}, set()
    for name in sorted(DATASETS):
        try:
            functions = load({"name": name, "config": {}})
        except AssertionError as error:
            refused[name] = str(error)
            continue
        row = functions["draw"]("default", 17)
        assert row == functions["draw"]("default", 17), name
        if "answer" not in row:
            without.add(name)
            continue
        assert functions["score"](row["answer"], row) == 1.0, name
    assert refused == NOT_IN
    assert without == WITHOUT_ANSWER
