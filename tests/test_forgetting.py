"""What training costs elsewhere: loss on the fixed English text, and pass rates on tasks that are not trained on."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from toy_task import ADDITION

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.settings.values import settings_from
from gce.app.training import forgetting
from gce.app.training.dry_run import work_of
from gce.app.training.forgetting import english_passages, forgetting_parts, losses, other_tasks
from gce.app.wiring.tasks import find_task_and_preset
from gce.domain.completions import SampleRequest
from gce.domain.figures import Table
from gce.domain.forgetting import Forgetting, PassageLoss, TaskChange, loss_change
from gce.domain.learning import TrainingBatch, UpdateReport
from gce.domain.models import ModelInfo
from gce.domain.problems import Message
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import interval
from gce.domain.tasks import TaskTier
from gce.domain.tracking import forgetting_values
from gce.errors import BadInput, GceError, ModelError

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

OTHER = evolve(ADDITION, name="other", presets={"small": (TaskTier("T0"), TaskTier("T1")), "tiny": (TaskTier("T0"),)})
ASKED: list[str] = []
"""The keys of all requests, in their order."""


class Forgetful(ScriptedModel):
    """Adds right; on problems of the task `other` only until its first optimizer step."""

    def __init__(self) -> None:
        self.trained = False
        super().__init__(self._says)

    def _says(self, request: SampleRequest) -> str:
        ASKED.append(request.key)
        a, b, _ = (int(word[1:]) for word in request.messages[0].content.split())
        return "no idea" if self.trained and request.key.startswith("other/") else f"w{request.seed % 7} w{a + b}"

    def update(self, batch: TrainingBatch) -> UpdateReport:
        self.trained = True
        return super().update(batch)

    def restore(self, state: Any) -> None:
        self.trained = True
        super().restore(state)


class Silent(Forgetful):
    """The same without log-probabilities."""

    def info(self) -> ModelInfo:
        found = super().info()
        return evolve(found, capabilities=found.capabilities - {"score"})


def forgetful(_config: Any, _task: Any) -> ScriptedModel:
    return Forgetful()


COMMAND = (
    *("--task", "toy_task:ADDITION", "--model", "test_forgetting:forgetful", "--also-measure"),
    *("test_forgetting:OTHER,test_forgetting:OTHER@tiny", "--problems", "2", "--rollouts", "2", "--iterations", "1"),
    *("--updates", "1", "--dev", "1", "--test", "1"),
)
SHORT: dict[str, Any] = {"problems": 2, "samples": 1, "iterations": 1, "updates": 1, "dev": 1, "test": 1}


def train(*arguments: str | int | Path) -> int:
    return cli.main(["train", *map(str, arguments)])


def repeated(run: Path) -> dict[str, Any]:
    """What an interruption must not change: the summary but for times, and every file of answers."""
    summary = json.loads((run / "summary.json").read_text())
    files: dict[str, Any] = {path.name: path.read_bytes() for path in run.glob("*.jsonl")}
    return files | {name: each for name, each in summary.items() if name not in ("seconds", "peak_bytes")}


def test_the_change_of_a_loss_by_hand() -> None:
    """5 nats and 6 nats over 3 tokens; the passages' residuals are a third and minus a third: standard error 2 / 9."""
    before = [PassageLoss(2.0, 2), PassageLoss(3.0, 1)]
    after = [PassageLoss(3.0, 2), PassageLoss(3.0, 1)]
    found = loss_change("text", before, after)
    assert (found.passages, found.tokens) == (2, 3)
    assert [found.before, found.after] == pytest.approx([5 / 3, 2.0])
    assert found.difference.value == pytest.approx(1 / 3)
    assert found.difference.high - found.difference.value == pytest.approx(1.959964 * 2 / 9, rel=1e-6)


LOSSES = st.lists(
    st.builds(PassageLoss, st.floats(0.0, 1e3, allow_nan=False), st.integers(1, 50)), min_size=2, max_size=8
)


@given(LOSSES, st.floats(-5.0, 5.0))
def test_a_shift_of_every_token_is_the_difference_with_no_width(before: list[PassageLoss], shift: float) -> None:
    after = [evolve(each, nats=each.nats + shift * each.tokens) for each in before]
    found = loss_change("text", before, after).difference
    assert found.value == pytest.approx(shift, abs=1e-6) and found.high - found.low == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("after", [[], [PassageLoss(1.0, 2)], [PassageLoss(1.0, 1)] * 2])
def test_only_the_same_passages_are_compared(after: list[PassageLoss]) -> None:
    with pytest.raises(ValueError, match="same passages"):
        loss_change("text", [PassageLoss(1.0, 1)] if after else [], after)


def test_the_text_is_plain_prose_and_fixed_by_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = english_passages()
    assert len(passages) == 16 and all(50 <= len(each.split()) <= 110 for each in passages)
    assert all(each.isascii() and each.isprintable() for each in passages)
    monkeypatch.setattr(forgetting, "ENGLISH_TEXT", "another")
    with pytest.raises(BadInput, match="was changed: install gce again"):
        english_passages.__wrapped__()


def test_the_end_of_a_turn_does_not_count() -> None:
    """Each token has a probability of one half; the last of the scores is the end of the turn."""

    class Half(ScriptedModel):
        def log_probabilities(
            self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
        ) -> tuple[float, ...]:
            assert adapter and messages[-1].role == "user"
            return (*(-math.log(2.0) for _ in continuation.split()), -9.0)

    (found,) = losses(Half(lambda _: ""), ["one two three"])
    assert found.nats == pytest.approx(3 * math.log(2.0)) and found.tokens == 3


def test_a_log_probability_that_is_no_number_is_refused() -> None:
    class Overflowed(ScriptedModel):
        def log_probabilities(
            self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
        ) -> tuple[float, ...]:
            return (math.nan, 0.0)

    with pytest.raises(ModelError, match="no finite log-probabilities"):
        losses(Overflowed(lambda _: ""), ["text"])


def test_the_command_shows_what_training_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All right before, none right after, on 1 dev problem a tier: -100 points, and a loss with its interval."""
    monkeypatch.setenv("COLUMNS", "120")
    run = tmp_path / "run"
    assert train(*COMMAND, "--run-dir", run) == 0
    out = capsys.readouterr().out
    assert (
        out.index("after - before")
        < out.index("Forgetting: what training cost elsewhere")
        < out.index("in the buffer,")
    )
    (row,) = [line for line in out.split("\n") if line.startswith("test_forgetting:OTHER@tiny, %")]
    assert "100.0 (20.7-100.0)" in row and " 0.0 (0.0-79.3)" in row and "-100.0" in row
    assert re.search(r"English text: \d\.\d{3} nats per token before, \d\.\d{3} after, [+-].*; 16 fixed passages", out)
    assert "test_forgetting:OTHER: mean greedy accuracy on dev problems, n = 1 a tier" in out

    found = from_plain(Forgetting, json.loads((run / "summary.json").read_text())["forgetting"])
    assert found.text is not None and found.text.text == forgetting.ENGLISH_TEXT and found.text.tokens > 5000
    assert found.text.before != found.text.after
    tiny = found.tasks["test_forgetting:OTHER@tiny"]
    assert (tiny.task, tiny.preset, tiny.asked) == ("other", "tiny", 1)
    assert [tiny.before["T0"].correct, tiny.after["T0"].correct] == [1, 0]
    assert tiny.gain is not None and (tiny.gain.lost, tiny.gain.mean.value) == (1, -1.0)
    answers = [json.loads(line) for line in (run / "other-test-forgetting-other-after.jsonl").read_text().splitlines()]
    assert [(each["tier"], each["right"]) for each in answers] == [("T0", False), ("T1", False)]
    assert all("/dev/" in key for key in ASKED if key.startswith("other/"))

    (section,) = [each for each in gce.report(run).sections if each.title == "Forgetting"]
    assert [row[0] for row in section.tables[0].rows] == [
        *("test_forgetting:OTHER, %", "test_forgetting:OTHER@tiny, %"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_cut_off_during_the_other_tasks_goes_on_there(
    moment: Literal["before", "after"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was complete is not asked again, and the end is the same."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert train(*COMMAND, "--run-dir", whole) == 0
    measured = forgetting._pass_rates

    def cut_off(run: Any, other: Any, at: Literal["before", "after"], *others: Any) -> Any:
        if at == moment and other.preset == "tiny":
            raise KeyboardInterrupt
        return measured(run, other, at, *others)

    with monkeypatch.context() as patched:
        patched.setattr(forgetting, "_pass_rates", cut_off)
        assert train(*COMMAND, "--run-dir", cut) != 0
    ASKED.clear()
    assert train("--run-dir", cut, "--resume") == 0
    assert [key.split("/")[1] for key in ASKED if key.startswith("other/")] == (
        ["tiny"] if moment == "after" else ["tiny", "small", "small", "tiny"]
    )
    assert repeated(cut) == repeated(whole)

    ASKED.clear()
    assert train("--run-dir", cut, "--resume") == 0
    assert not ASKED and repeated(cut) == repeated(whole), "it had ended, with all of its tests"


def test_a_model_without_log_probabilities_has_no_row_and_the_table_says_so() -> None:
    result = gce.train(task=ADDITION, model=Silent(), progress=False, **SHORT)
    assert result.forgetting == Forgetting(None, "the model gives no log-probabilities", {})
    assert "Loss on English text was not measured: the model gives no log-probabilities." in str(result)
    assert "nats per token" not in str(result)


def test_a_run_goes_on_where_the_text_cannot_be_scored() -> None:
    class Short(Forgetful):
        def log_probabilities(
            self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
        ) -> tuple[float, ...]:
            raise GceError("longer than the context")

    result = gce.train(task=ADDITION, model=Short(), progress=False, **SHORT)
    assert result.forgetting is not None and result.forgetting.no_text == "longer than the context"


def test_a_run_that_measures_nothing_before_has_no_forgetting() -> None:
    result = gce.train(task=ADDITION, model=Forgetful(), progress=False, measure_before=False, **SHORT)
    assert result.forgetting is None and "orgetting" not in str(result)


@pytest.mark.parametrize(
    ("also", "changes", "refused"),
    [
        ("toy_task:ADDITION", {}, "toy_task:ADDITION is trained on"),
        ("test_forgetting:OTHER,test_forgetting:OTHER@small", {}, "names a task twice"),
        ("test_forgetting:OTHER", {"dev": 0}, "is 0: give their number per tier"),
        ("test_forgetting:OTHER@huge", {}, "no preset 'huge': choose one of small, tiny"),
        ("no-such-task", {}, "no task 'no-such-task'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_asked(
    also: str, changes: dict[str, int], refused: str
) -> None:
    ASKED.clear()
    with pytest.raises(GceError, match=refused):
        gce.train(
            task=ADDITION,
            model=Forgetful(),
            progress=False,
            also_measure=tuple(also.split(",")),
            **{**SHORT, **changes},
        )
    assert not ASKED


def test_a_task_its_file_and_its_preset() -> None:
    assert [find_task_and_preset(given)[1] for given in ("scheduling@paper", "scheduling")] == ["paper", "grounded"]
    with pytest.raises(BadInput, match="no-such-file"):
        find_task_and_preset("programs@no-such-file.jsonl")


def test_an_estimate_counts_other_tasks() -> None:
    """2 dev problems in each of 2 tiers, before and after."""
    settings = settings_from({"preset": "small", "test": 4, "dev": 2, "also_measure": ("test_forgetting:OTHER",)})
    work = work_of(settings, ADDITION)
    assert work.before == {"test before": 12, "other tasks before": 4}
    assert work.after == {"test after": 12, "other tasks after": 4}
    assert other_tasks(settings_from({}), ADDITION) == {}


def test_the_table_by_hand() -> None:
    half, none = interval(1, 2), interval(0, 2)
    change = loss_change("text", [PassageLoss(2.0, 1)] * 2, [PassageLoss(2.5, 1)] * 2)
    task = TaskChange("other", "small", 2, {"T0": half}, {"T0": none}, None)
    table, *words = forgetting_parts(Forgetting(change, "", {"other": task}))
    assert isinstance(table, Table)
    assert table.rows == (("other, %", "50.0 (9.5-90.5)", "0.0 (0.0-65.8)", "-"),)
    assert words == [
        "other: mean greedy accuracy on dev problems, n = 2; differences in points, paired by problem.",
        "English text: 2.000 nats per token before, 2.500 after, +0.500 (+0.500 to +0.500); 2 fixed passages; "
        "a loss that rises is forgetting.",
    ]
    assert (
        from_plain(Forgetting, json.loads(json.dumps(to_plain(Forgetting(change, "", {"other": task}))))).text == change
    )


def test_trackers_are_told_losses_and_pass_rates_by_name() -> None:
    half, none = interval(1, 2), interval(0, 2)
    change = loss_change("text", [PassageLoss(2.0, 1)] * 2, [PassageLoss(2.5, 1)] * 2)
    task = TaskChange("other", "small", 2, {"T0": half}, {"T0": none}, None)
    assert forgetting_values(Forgetting(change, "", {"other@small": task})) == {
        "forgetting/loss_before": 2.0,
        "forgetting/loss": 2.5,
        "forgetting/accuracy_before/other_small/T0": 0.5,
        "forgetting/accuracy_before/other_small": 0.5,
        "forgetting/accuracy/other_small/T0": 0.0,
        "forgetting/accuracy/other_small": 0.0,
    }
    assert forgetting_values(Forgetting(None, "no", {})) == {}
