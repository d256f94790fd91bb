"""Entries of one's own: found by module:ATTR or given from Python, and refused in one line where they are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import toy_task

import gce
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.runs.memory_store import MemoryRuns
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.names import called, entry
from gce.domain.algorithms import Algorithm, rejection
from gce.errors import BadInput, SettingError

HERE = "test_own_entries"
SMALL: dict[str, Any] = {
    "task": toy_task.ADDITION,
    "stopping": {"iterations": 1},
    "evaluation": {"test": 2, "dev": 0},
    "rollouts": {"problems": 2, "samples": 2},
    "measure_before": False,
}
OWN = Algorithm("own", rejection)


class Judge(TaskVerifier):
    """The task's verifier, by another name."""


def nobody(_task: object, _runner: object) -> int:
    return 3


def model() -> ScriptedModel:
    return ScriptedModel(lambda request: "w1")


def test_a_name_stands_for_an_entry_of_the_table_or_for_one_s_own() -> None:
    table = {"raft": gce.ALGORITHMS["raft"]}
    assert entry("raft", table, Algorithm, "algorithm") is table["raft"]
    assert entry(f"{HERE}:OWN", table, Algorithm, "algorithm").name == "own"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ppo", "no algorithm 'ppo': choose one of raft, or give your own as module:ATTR"),
        ("given:own", "the algorithm 'own' was given from Python, not by a name: give it again"),
        (f"{HERE}:NONE", f"module {HERE} has no 'NONE' (given as the algorithm '{HERE}:NONE')"),
        (f"{HERE}:HERE", f"{HERE}:HERE is str, expected a gce.Algorithm"),
        ("nowhere:OWN", "cannot import 'nowhere' for the algorithm 'nowhere:OWN'"),
    ],
)
def test_what_a_name_does_not_stand_for_is_said_in_one_line(name: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        entry(name, {"raft": gce.ALGORITHMS["raft"]}, Algorithm, "algorithm")
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_a_function_that_does_not_fit_is_refused_before_it_is_called() -> None:
    with pytest.raises(BadInput, match=r"^x:y is int, expected a function of task and runner$"):
        called("x:y", 3, task=1, runner=2)
    with pytest.raises(BadInput, match=r"^cannot call x:y with task and runner: too many positional arguments$"):
        called("x:y", lambda task: task, task=1, runner=2)
    assert called("x:y", lambda task, runner: (task, runner), task=1, runner=2) == (1, 2)


def test_an_evaluator_is_given_itself_or_by_name_and_has_to_be_one() -> None:
    own = Judge(toy_task.ADDITION)
    assert find_evaluator(toy_task.ADDITION, evaluator=own) is own
    with pytest.raises(BadInput, match=rf"^{HERE}:nobody is int, expected an evaluator"):
        find_evaluator(toy_task.ADDITION, evaluator=f"{HERE}:nobody")
    with pytest.raises(BadInput, match=r"^evaluator=3 is int, expected an evaluator"):
        find_evaluator(toy_task.ADDITION, evaluator=3)  # type: ignore[arg-type]


def test_a_run_keeps_the_names_of_what_was_given_and_resumes_with_it() -> None:
    """Without it, the resumed run is refused before anything is done."""
    runs = MemoryRuns()
    given: dict[str, Any] = {"algorithm": OWN, "evaluator": Judge(toy_task.ADDITION), "runs": runs}
    result = gce.train(model=model(), run="one", **given, **SMALL)
    assert (result.settings.objective.algorithm, result.settings.evaluator) == ("given:own", "given:Judge")
    assert result.runs is runs and runs.find("one") == {"one": True}
    more = {"stopping.iterations": 2}
    assert gce.resume("one", more, task=SMALL["task"], model=model(), **given).summary["iterations"] == 2
    with pytest.raises(BadInput, match=r"^the evaluator 'Judge' was given from Python"):
        gce.resume("one", {"stopping.iterations": 3}, task=SMALL["task"], model=model(), algorithm=OWN, runs=runs)
    del given["algorithm"]
    with pytest.raises(BadInput, match=r"^the algorithm 'own' was given from Python"):
        gce.resume("one", {"stopping.iterations": 3}, task=SMALL["task"], model=model(), **given)


def test_a_run_with_the_task_s_verifier_says_nothing_of_it() -> None:
    """Its stored settings are those of runs from before there was the setting."""
    result = gce.train(model=model(), **SMALL)
    with result.run() as run:
        assert "evaluator" not in run.config["settings"]


def test_an_algorithm_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^objective.algorithm must be one of raft, .* or your own as module:ATTR"):
        gce.train(model=model(), algorithm="ppo", **SMALL)
    with pytest.raises(BadInput, match=r"^cannot import 'nowhere' for the algorithm"):
        gce.train(model=model(), algorithm="nowhere:OWN", **SMALL)


def test_an_algorithm_of_one_s_own_learns_as_the_one_that_it_copies() -> None:
    states = [
        gce.train(model=model(), algorithm=each, **SMALL).model.info().identity for each in ("raft++", OWN, "raft")
    ]
    assert states[0] == states[1]


def test_metrics_are_asked_for_by_name_or_given(tmp_path: Path) -> None:
    own = gce.Metric(
        name="own",
        help="one",
        over="run",
        contribution=len,
        estimate=lambda found, _settings: gce.wilson(sum(found), sum(found)),
        unit="share",
        higher_is_better=None,
    )
    found = gce.evaluate(task=toy_task.ADDITION, model=model(), n=3, metrics=("coverage", own))
    assert list(found.metrics) == ["coverage", "own"]
    assert found.estimates("own") == found.estimates(own)
    with pytest.raises(BadInput, match=r"^no metric 'speed': choose one of 52 names, .* lists all.* as module:ATTR"):
        gce.evaluate(task=toy_task.ADDITION, model=model(), n=3, metrics=("speed",))


def test_answers_that_another_evaluator_judged_are_not_taken(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"task": toy_task.ADDITION, "n": 3, "answers": tmp_path / "answers.jsonl"}
    gce.evaluate(model=model(), **asked)
    with pytest.raises(BadInput, match="evaluator"):
        gce.evaluate(model=model(), evaluator=Judge(toy_task.ADDITION), **asked)
