"""`gce train --shifts`: after training a row for each distribution shift, measured once whatever interrupts the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from toy_task import ADDITION, MODULI, Addition

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.trackers.memory import MemoryTracker
from gce.app import cli
from gce.app.evaluation.shifts import Distribution, distribution_parts, distribution_plain, stored_distribution
from gce.app.progress import Forecast, Work
from gce.app.settings.evaluation import EvaluationSettings
from gce.app.settings.values import settings_from
from gce.app.studies.running import resolved
from gce.app.training import final_tests
from gce.app.training.dry_run import work_of
from gce.app.training.final_tests import shifts_to_measure
from gce.domain.completions import SampleRequest
from gce.domain.figures import Table
from gce.domain.measurements import Interval
from gce.domain.statistics import interval
from gce.domain.tasks import TASKS, Audit, TaskTier, draw_problems
from gce.errors import BadInput

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

FAR = evolve(
    ADDITION,
    name="far",
    draw=lambda _preset, tier, rng, _solve: Addition(rng.randrange(40, 80), rng.randrange(40, 80), MODULI[tier]),
)
MINUS = evolve(ADDITION, name="minus", presets={"small": (TaskTier("T0"), TaskTier("T1"))})
SHIFTED = evolve(
    ADDITION,
    audit=Audit(
        shifts={"larger numbers": ("test_train_shifts:FAR", ""), "Minus!": ("test_train_shifts:MINUS", "small")}
    ),
)
LOST = evolve(ADDITION, audit=Audit(shifts={"nowhere": ("no-such-task", "")}))
ASKED: list[str] = []
"""The keys of all requests, in their order."""


def adder(_config: Any, _task: Any) -> ScriptedModel:
    """A model that adds right, but for problems of the task `minus`."""

    def answer(request: SampleRequest) -> str:
        ASKED.append(request.key)
        a, b, _ = (int(word[1:]) for word in request.messages[0].content.split())
        return "no idea" if request.key.startswith("minus/") else f"w{request.seed % 7} w{a + b}"

    return ScriptedModel(answer)


COMMAND = (
    *("--task", "test_train_shifts:SHIFTED", "--model", "test_train_shifts:adder"),
    *("--problems", "2", "--rollouts", "2", "--iterations", "1", "--updates", "1", "--dev", "0", "--test", "1"),
)


def train(*arguments: str | int | Path) -> int:
    return cli.main(["train", *map(str, arguments)])


def repeated(run: Path) -> dict[str, Any]:
    """What an interruption must not change: the summary but for times, and every file of answers."""
    summary = json.loads((run / "summary.json").read_text())
    files: dict[str, Any] = {path.name: path.read_bytes() for path in run.glob("*.jsonl")}
    return files | {name: each for name, each in summary.items() if name not in ("seconds", "peak_bytes")}


def test_the_command_measures_each_shift_after_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right on larger numbers, 2 of 2 a tier, and wrong on all others: Wilson intervals 34 to 100 % and 0 to 66 %."""
    monkeypatch.setenv("COLUMNS", "200")
    run = tmp_path / "run"
    assert train(*COMMAND, "--shifts", 2, "--run-dir", run) == 0
    out = capsys.readouterr().out
    lines = {line.partition("  ")[0]: line for line in out.split("\n")}
    assert lines["distribution"].split("  ")[-1].strip() == "coverage"
    assert out.index("after - before") < out.index("Distribution shifts: ") < out.index("in the buffer,")
    assert lines["as asked"].count("100 (21-100)") == 3, "1 of 1"
    assert lines["larger numbers"].count("100 (34-100)") == 3
    assert lines["Minus!"].count("0 (0-66)") == 2 and " -  " in lines["Minus!"], "it has no tier T2"
    assert "as asked: n = 1 a tier" in out and "larger numbers, Minus!: n = 2 a tier" in out

    found = json.loads((run / "summary.json").read_text())["shifts"]
    assert list(found) == ["larger numbers", "Minus!"]
    assert (found["Minus!"]["task"], found["Minus!"]["preset"], found["Minus!"]["asked"]) == ("minus", "small", 2)
    assert found["larger numbers"]["mean"]["value"] == 1.0 and found["Minus!"]["mean"]["value"] == 0.0
    zero = [p.instance for p in draw_problems(FAR, "small", "T1", "test", 2) if not (p.instance.a + p.instance.b) % 3]
    assert found["larger numbers"]["best_prompt_blind"]["T1"]["correct"] == len(zero)
    answers = [json.loads(line) for line in (run / "shift-minus-.jsonl").read_text().splitlines()]
    assert [(each["tier"], each["right"]) for each in answers] == [(tier, False) for tier in ("T0", "T0", "T1", "T1")]

    (section,) = [each for each in gce.report(run).sections if each.title == "Distribution shifts"]
    assert [row[0] for row in section.tables[0].rows] == ["as asked", "larger numbers", "Minus!"]


def test_a_run_cut_off_during_the_shifts_goes_on_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the test nor the first shift is asked again, and the end is the same."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert train(*COMMAND, "--shifts", 1, "--run-dir", whole) == 0
    measured = final_tests._measured

    def cut_off(run: Any, what: str, *others: Any) -> Any:
        if what == "Minus!":
            raise KeyboardInterrupt
        return measured(run, what, *others)

    with monkeypatch.context() as patched:
        patched.setattr(final_tests, "_measured", cut_off)
        assert train(*COMMAND, "--shifts", 1, "--run-dir", cut) != 0
    assert not (cut / "summary.json").exists() and not (cut / "shift-minus-.jsonl").exists()
    ASKED.clear()
    assert train("--run-dir", cut, "--resume") == 0
    assert len(ASKED) == 2 and all(key.startswith("minus/") for key in ASKED)
    assert repeated(cut) == repeated(whole)

    ASKED.clear()
    assert train("--run-dir", cut, "--resume") == 0
    assert not ASKED, "it had ended, with all of its tests"
    assert repeated(cut) == repeated(whole)


def test_further_iterations_measure_the_shifts_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(*COMMAND, "--shifts", 1, "--run-dir", run) == 0
    ASKED.clear()
    assert train("--run-dir", run, "--resume", "--iterations", 2) == 0
    assert sum(key.startswith("far/") for key in ASKED) == 3 and sum(key.startswith("minus/") for key in ASKED) == 2


@pytest.mark.parametrize("task", [SHIFTED, ADDITION])
def test_shifts_are_left_out_where_the_test_is_short_or_none_are_declared(task: gce.Task) -> None:
    """A test of 1 a tier measures none by default; a task that declares none measures none, and nothing is said."""
    shifts = {} if task is SHIFTED else {"shifts": 2}
    short = {"problems": 2, "samples": 1, "iterations": 1, "updates": 1, "dev": 0, "test": 1}
    result = gce.train(task=task, model=adder(None, None), progress=False, **short, **shifts)  # type: ignore[arg-type]
    assert result.shifts == {} and "shifts" not in result.summary and "istribution" not in str(result)


def test_a_result_has_the_shifts_also_without_a_test() -> None:
    """Without the row of the task as asked, nothing is said of a first row."""
    short = {"problems": 2, "samples": 1, "iterations": 1, "updates": 1, "dev": 0, "test": 0, "shifts": 1}
    result = gce.train(task=SHIFTED, model=adder(None, None), progress=False, **short)  # type: ignore[arg-type]
    assert {what: each.shares["T0"].correct for what, each in result.shifts.items()} == {
        "larger numbers": 1,
        "Minus!": 0,
    }
    assert "as asked" not in str(result) and "first row" not in str(result)
    assert "Only the part of a mean above its best prompt-blind baseline" in str(result)


def test_a_tracker_is_told_the_shifts() -> None:
    """Right on all larger numbers, wrong on the other: by tier, and their mean."""
    kept = MemoryTracker()
    short = {"problems": 2, "samples": 1, "iterations": 1, "updates": 1, "dev": 0, "test": 0, "shifts": 1}
    gce.train(task=SHIFTED, model=adder(None, None), progress=False, track=kept, **short)  # type: ignore[arg-type]
    told = {name: each[1] for name, each in kept.values.items() if name.startswith("shift/")}
    assert told == {
        **{f"shift/larger-numbers{tier}": 1.0 for tier in ("", "/T0", "/T1", "/T2")},
        **{f"shift/minus-{tier}": 0.0 for tier in ("", "/T0", "/T1")},
    }


def test_a_shift_that_cannot_be_found_is_refused_before_anything_is_asked() -> None:
    ASKED.clear()
    with pytest.raises(BadInput, match="no-such-task"):
        gce.train(task=LOST, model=adder(None, None), progress=False, shifts=1)
    assert not ASKED


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, 40), ({"test": 40}, 40), ({"test": 39}, 0), ({"test": 0, "shifts": 3}, 3), ({"shifts": 0}, 0)],
)
def test_by_default_shifts_come_with_a_test_that_is_long_enough(settings: dict[str, Any], expected: int) -> None:
    assert EvaluationSettings(**settings).shift_problems == expected


def test_what_the_warm_up_taught_is_no_shift() -> None:
    settings = settings_from({"task": "scheduling", "preset": "grounded", "warm_up_also": ("larger",), "warm_up": 1})
    found = shifts_to_measure(settings, TASKS["scheduling"])
    assert "eleven jobs" not in found and "code words" in found


def test_runs_of_a_study_measure_shifts_only_where_that_is_asked_for() -> None:
    settings = settings_from({"task": "scheduling"})
    assert resolved(settings, TASKS["scheduling"]).evaluation.shifts == 0
    asked = settings_from({"task": "scheduling", "shifts": 2})
    assert resolved(asked, TASKS["scheduling"]).evaluation.shifts == 2


def test_an_estimate_counts_shifts() -> None:
    """2 problems in each of 3 and 2 tiers: 10 answers, still left while the test after training is taken."""
    settings = settings_from({"preset": "small", "test": 4, "shifts": 2})
    work = work_of(settings, SHIFTED)
    assert work.after == {"test after": 12, "shifts": 10}
    assert "shifts" not in work_of(settings, ADDITION).after
    forecast = Forecast(Work(1, after={"test after": 4, "shifts": 6}), iteration=1)
    forecast.begin("test after", 4, 0.0)
    for second in range(1, 5):
        forecast.advance(float(second))
    assert forecast.left(4.0) == pytest.approx(6.0), "6 answers of a second"
    forecast.begin("shifts", 6, 4.0)
    assert forecast.left(4.0) == pytest.approx(6.0)


def test_the_table_by_hand() -> None:
    """Shares 1/2 and 0 beside a baseline of 1/2: means 25 and 50; a tier that a row lacks is a dash."""
    half, none = interval(1, 2), interval(0, 2)
    asked = Distribution("t", "p", {"T0": half}, {"T0": none}, {"T0": 2}, 2)
    shift = Distribution("u", "p", {"T0": half, "T1": none}, {"T0": half, "T1": half}, {"T0": 2, "T1": 2}, 4, ("T1",))
    table, said, *counts = distribution_parts({"as asked": asked, "other": shift})
    assert isinstance(table, Table)
    assert table.head == ("distribution", "T0", "T1, held out", "mean", "best prompt-blind", "coverage")
    first, second = table.rows
    assert first[:3] == ("as asked", "50 (9-91)", "-") and second[:3] == ("other", "50 (9-91)", "0 (0-66)")
    means = [cell.partition(" ")[0] for cell in (first[3], second[3], first[4], second[4])]
    assert means == ["50.0", "25.0", "0.0", "50.0"]
    assert first[5] == second[5] == "100 %"
    assert "A mean far below that of the first row" in str(said)
    assert counts == ["as asked: n = 2", "other: n = 2 a tier (all there are)"]


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    n = draw(st.integers(1, 50))
    return evolve(interval(draw(st.integers(0, n)), n), failed=draw(st.integers(0, 3)))


TIERS = st.dictionaries(st.sampled_from(["T0", "T1", "T2"]), intervals(), min_size=1)


@given(TIERS, TIERS, st.integers(1, 99), st.lists(st.sampled_from(["T0", "T1"]), unique=True))
def test_plain_data_are_read_back_as_the_same(
    shares: dict[str, Interval], blind: dict[str, Interval], asked: int, held_out: list[str]
) -> None:
    problems = {tier: found.n + found.failed for tier, found in shares.items()}
    found = Distribution("task", "preset", shares, blind, problems, asked, tuple(held_out))
    assert stored_distribution(json.loads(json.dumps(distribution_plain(found)))) == found
