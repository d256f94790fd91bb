"""`gce.train`: a run as a function, in a directory or in memory, the same as on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import toy_task

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.runs.memory_store import MemoryRuns
from gce.adapters.system.clocks import FakeClock
from gce.app import cli
from gce.app.settings.records import ModelSettings, OptimizerSettings, RolloutSettings, TrainSettings
from gce.app.terminal import Terminal
from gce.app.training import run as training
from gce.domain.completions import Completion
from gce.domain.learning import TrainingBatch, UpdateReport
from gce.domain.problems import Problem
from gce.domain.verdicts import Verdict
from gce.errors import BadInput, SettingError, Unfinished

SMALL: dict[str, Any] = {
    "rollouts": {"problems": 4, "samples": 2},
    "optimizer": {"updates": 1},
    "stopping": {"iterations": 1},
    "evaluation": {"dev": 1, "test": 2},
}
TOY: dict[str, Any] = {"task": "toy_task:ADDITION", "model": "toy_task:careless"}
OPTIONS = ("--problems", "4", "--rollouts", "2", "--updates", "1", "--iterations", "1", "--dev", "1", "--test", "2")


def timeless(summary: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in summary.items() if name not in ("seconds", "peak_bytes")}


def test_a_run_in_memory_returns_what_it_came_to(capsys: pytest.CaptureFixture[str]) -> None:
    result = gce.train(**TOY, **SMALL, progress=False)
    assert capsys.readouterr() == ("", ""), "nothing is shown where nothing is wanted"
    assert set(result.before) == set(result.after) == {"T0", "T1", "T2"}
    assert all(found.n == 2 for found in result.after.values()) and result.seconds >= 0
    assert result.settings.preset == "small" and result.settings.rollouts == RolloutSettings(problems=4, samples=2)
    answers = list(result.answers())
    assert len(answers) == len(list(result.answers("before"))) == 6
    assert sum(each["right"] for each in answers) == sum(found.correct for found in result.after.values())
    with result.run() as run:
        assert len(list(run.read("rollouts"))) == 8 and run.summary() == json.loads(json.dumps(result.summary))
    left = result.model.model
    assert isinstance(left, ScriptedModel) and left.steps == 1, "the model as training left it"


def test_it_ends_as_the_command_does(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    path = tmp_path / "run"
    toy = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
    assert cli.main(["train", *toy, *OPTIONS, "--run-dir", str(path)]) == 0
    kept = json.loads((path / "summary.json").read_text())
    for result in (gce.train(**TOY, **SMALL), gce.train(**TOY, **SMALL, run=tmp_path / "other")):
        assert timeless(dict(result.summary)) == timeless(kept)
    rollouts = []
    for place in (path, tmp_path / "other"):
        with gce.train(**TOY, **SMALL, run=tmp_path / f"{place.name}-again").run() as run:
            rollouts.append(list(run.read("rollouts")))
    assert rollouts[0] == rollouts[1]


def test_task_and_model_may_be_given_themselves() -> None:
    model = toy_task.careless(None, None)
    result = gce.train(task=toy_task.ADDITION, model=model, **SMALL)
    assert result.model.model is model and result.settings.task == "given:addition"
    named = gce.train(**TOY, **SMALL)
    assert result.after == named.after and result.summary["correct_traces"] == named.summary["correct_traces"]


def test_settings_are_given_whole_or_one_by_one() -> None:
    whole = TrainSettings(
        task="toy_task:ADDITION",
        seed=3,
        model=ModelSettings(name="toy_task:careless"),
        rollouts=RolloutSettings(problems=4, samples=2),
        optimizer=OptimizerSettings(updates=1),
    )
    values = {**SMALL, "optimizer": OptimizerSettings(updates=1), "seed": 3}
    one = gce.train(**{**TOY, "model": {"name": "toy_task:careless"}}, **values)
    other = gce.train(whole_with(whole))
    assert one.settings == other.settings
    with pytest.raises(ValueError, match="as a whole or one by one, got both: seed"):
        gce.train(whole, seed=1)


def whole_with(settings: TrainSettings) -> TrainSettings:
    from gce.app.settings.values import changed

    return changed(settings, {"stopping.iterations": 1, "evaluation.dev": 1, "evaluation.test": 2, "preset": "small"})


def test_wrong_values_are_told_as_data() -> None:
    for given, name in (({"optimizer": {"learning_rate": -1}}, "optimizer.learning_rate"), ({"speed": 1}, "speed")):
        with pytest.raises(SettingError) as caught:
            gce.train(**TOY, **given)
        assert caught.value.setting == name and "--" not in str(caught.value)
    with pytest.raises(SettingError, match=r"needs objective\.algorithm raft"):
        gce.train(**TOY, buffer={"admission": "all"}, objective={"algorithm": "grpo"})


def test_a_run_is_resumed_with_what_it_was_begun_with(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    task = toy_task.ADDITION
    gce.train(task=task, model=toy_task.careless(None, None), **SMALL, run=tmp_path / "run")
    longer = {"stopping.iterations": 2}
    result = gce.resume(tmp_path / "run", longer, task=task, model=toy_task.careless(None, None))
    assert result.summary["iterations"] == 2
    whole = gce.train(**{**TOY, **SMALL, "stopping": {"iterations": 2}})
    assert result.after == whole.after and result.summary["correct_traces"] == whole.summary["correct_traces"]
    with pytest.raises(SettingError, match=r"keeps its settings: leave out lora\.rank"):
        gce.resume(tmp_path / "run", {"lora.rank": 4})
    with pytest.raises(BadInput, match="the task 'addition' was given from Python"):
        gce.resume(tmp_path / "run")


class Moody:
    """Changes its mind about everything, all the time."""

    deterministic, tolerance = False, 1.0

    def __init__(self) -> None:
        self.asked: list[str] = []

    def judge(self, answers: Iterable[tuple[Problem, Completion]]) -> Iterator[tuple[Problem, Completion, Any]]:
        for problem, completion in answers:
            self.asked.append(completion.key)
            grade = float(len(self.asked) % 2)
            yield problem, completion, (Verdict("right" if grade else "wrong", grade, "moody", "1"),)


def test_demonstrations_are_the_same_after_a_resume_whatever_the_evaluator_thinks_by_then(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    given: dict[str, Any] = {"task": toy_task.WORKED, "evaluator": (moody := Moody())}
    model = toy_task.careless(None, None)
    gce.train(**given, **SMALL, model=model, run=tmp_path / "run", demonstrations={"warm_up": 1})
    model = toy_task.careless(None, None)
    assert gce.resume(tmp_path / "run", {"stopping.iterations": 2}, **given, model=model).summary["iterations"] == 3
    assert moody.asked and "example" not in moody.asked, "the task's verifier is asked about them"


def test_the_test_before_tells_how_long_the_one_at_the_end_takes() -> None:
    """So it is taken where minutes are limited, asked for or not."""
    values = {**SMALL, "stopping": {"iterations": 1, "minutes": 60.0}}
    assert set(gce.train(**TOY, **values, measure_before=False).before) == {"T0", "T1", "T2"}
    assert not gce.train(**TOY, **SMALL, measure_before=False).before


class Slow(ScriptedModel):
    """Takes a second for an answer and a minute for an optimizer step."""

    clock: FakeClock

    def sample(self, requests: Any) -> Iterator[Completion]:
        for completion in super().sample(requests):
            self.clock.advance(1.0)
            yield completion

    def update(self, batch: TrainingBatch) -> UpdateReport:
        self.clock.advance(60.0)
        return super().update(batch)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Slow]:
    """Makes slow models; the clock of a run is theirs."""
    clock = FakeClock()
    monkeypatch.setattr(training, "SystemClock", lambda: clock)

    def made() -> Slow:
        model = Slow(toy_task.careless(None, None)._answer)
        model.clock = clock
        return model

    return made


LONG: dict[str, Any] = {**SMALL, "task": toy_task.WORKED, "demonstrations": {"warm_up": 5}, "progress": False}


def test_a_limit_of_minutes_holds_within_a_warm_up_and_more_minutes_go_on(slow: Callable[[], Slow]) -> None:
    """Six answers before, six at the end, and of 180 s 168 for steps of 60: the third one ends past the limit."""
    runs, model = MemoryRuns(), slow()
    whole = gce.train(**LONG, runs=MemoryRuns(), run="whole", model=slow())
    began = model.clock.now()
    cut = gce.train(**LONG, runs=runs, run="cut", model=model, minutes=3)
    assert model.clock.now() - began == 6 + 3 * 60 + 6
    reached = "the limit of 3 minutes was reached in iteration 1, of the warm-up, of which nothing was learned"
    assert cut.summary["stopped"] == reached
    assert cut.summary["iterations"] == 0 and model.steps == 0, "the model is as it was"
    assert cut.after == cut.before
    more = gce.resume("cut", task=toy_task.WORKED, model=slow(), runs=runs, minutes=60, progress=False)
    ends = [timeless({**result.summary, "config": {}}) for result in (more, whole)]
    assert ends[0] == ends[1]
    streams = []
    for result in (more, whole):
        with result.run() as run:
            streams.append([list(run.read(name)) for name in ("rollouts", "traces")])
    assert streams[0] == streams[1]


@pytest.mark.parametrize(("minutes", "answers"), [(0.1, 3), (0.2, 6)])
def test_tests_that_take_all_of_the_time_are_an_error(slow: Callable[[], Slow], minutes: float, answers: int) -> None:
    """Of six answers before training, and as many after it, 6 s are over in the first test and 12 s with it."""
    model, runs = slow(), MemoryRuns()
    with pytest.raises(Unfinished, match=r"take longer than the limit of 0\.[12] minutes: nothing was trained: resume"):
        gce.train(**LONG, runs=runs, run="short", model=model, minutes=minutes)
    assert (model.clock.now(), model.steps) == (answers, 0)
    assert (
        gce.resume("short", task=toy_task.WORKED, model=slow(), runs=runs, minutes=60, progress=False).summary[
            "iterations"
        ]
        == 2
    )


def test_progress_is_told_to_who_watches(capsys: pytest.CaptureFixture[str]) -> None:
    gce.train(**TOY, **SMALL, watch=Terminal)
    out, err = capsys.readouterr()
    assert out == "" and "toy_task:careless on addition/small, seed 0, run memory" in err


def test_importing_gce_loads_nothing_of_a_run() -> None:
    code = "import sys, gce; assert not [n for n in sys.modules if n.startswith(('gce.app', 'gce.adapters', 'numpy'))]"
    subprocess.run([sys.executable, "-c", code], check=True)
