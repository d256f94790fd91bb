"""The warning where many answers end at the maximum tokens: in progress, at the end, in reports, of evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.app.evaluation.one_outcome import cut_off_words
from gce.domain.measurements import Interval, MeanReward
from gce.domain.outcomes import mean_reward, pooled_rate, pooled_reward, rate

ROWS = [{"prompt": f"Repeat {n}", "answer": str(n)} for n in range(40)]
SMALL: dict[str, Any] = {"iterations": 3, "problems": 4, "samples": 2, "test": 4, "dev": 0, "shifts": 0}


class Listening:
    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, _name: str, _total: int) -> Any:
        return lambda: None

    def iteration(self, record: Any) -> None:
        pass

    def say(self, *lines: str) -> None:
        self.said += lines


def same(answer: str, row: Any) -> bool:
    return bool(answer == row["answer"])


def rambling(_settings: Any = None, _task: Any = None) -> ScriptedModel:
    return repeating(0.5)


def repeating(long: float) -> ScriptedModel:
    """Right answers; of so many of ten questions longer than 9 tokens."""

    def answer(request: Any) -> str:
        n = request.messages[-1].content.removeprefix("Repeat ")
        return f"{'well ' * 20 * (int(n) % 10 < 10 * long)}\n{n}"

    return ScriptedModel(answer)


TASK = gce.task(ROWS, same, name="repeats")


@pytest.mark.parametrize(
    ("cut", "n", "words"),
    [
        (0, 0, ""),
        (3, 40, ""),
        (4, 40, "10% of rollouts (4 of 40) were cut off at the maximum tokens: raise max_tokens"),
        (11, 32, "34% of rollouts (11 of 32) were cut off at the maximum tokens: raise max_tokens"),
    ],
)
def test_from_a_tenth_on_it_is_said(cut: int, n: int, words: str) -> None:
    assert cut_off_words("rollouts", cut, n) == words


def trained(long: float) -> tuple[gce.Result, list[str]]:
    listening = Listening()
    result = gce.train(task=TASK, model=repeating(long), max_tokens=9, watch=lambda _last: listening, **SMALL)
    return result, [line for line in listening.said if "cut off at the maximum tokens" in line]


def test_a_run_says_it_once_in_progress_and_again_in_its_table_and_report() -> None:
    result, said = trained(0.5)
    assert len(said) == 1 and said[0].endswith("were cut off at the maximum tokens: try max_tokens=18")
    counts = result.summary["truncated"]
    assert 0 < counts["rollouts"]["cut_off"] <= counts["rollouts"]["n"] == 24 and counts["after"]["n"] == 4
    (line,) = [line for line in str(result).splitlines() if "cut off at the maximum tokens" in line]
    cut = counts["rollouts"]["cut_off"]
    after = counts["after"]["cut_off"]
    assert line.startswith("warning: ") and f"({cut} of 24) and " in line and line.endswith("try max_tokens=18")
    assert f"% of test answers after training ({after} of 4) were cut off" in line
    assert f"<p>{line}</p>" in result._repr_html_()
    words = gce.report(result).sections[0].words
    assert f"W{line[1:]}." in words


def test_a_run_whose_answers_end_says_nothing() -> None:
    result, said = trained(0.0)
    assert not said and result.summary["truncated"]["rollouts"] == {"cut_off": 0, "n": 24}
    assert "cut off" not in str(result)


def test_an_evaluation_says_it_below_its_table(tmp_path: Path) -> None:
    found = gce.evaluate(TASK, repeating(0.5), max_tokens=9, answers=str(tmp_path / "answers.jsonl"), progress=False)
    (line,) = [line for line in str(found).splitlines() if line.startswith("warning: ")]
    assert line.startswith("warning: zero-shot: ") and line.endswith("try max_tokens=18")
    assert (
        f"W{line[1:].partition(': try')[0]}: raise max_tokens."
        in gce.report(str(tmp_path / "answers.jsonl")).sections[0].words
    )


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("The factors are 3, 3, 3, 3, 3, 3,", True),
        ("The factors are 3" + "." * 20, True),
        ("0 = 1 x 17 = 1 x 17 = 1 x 17 = 1 x 17 = 1", True),
        ("A long text that goes on and on and has 1111 in it, and a rule of ------", False),
    ],
)
def test_answers_that_repeat_themselves_are_no_lack_of_tokens(text: str, loops: bool) -> None:
    task = gce.task(ROWS, same, name="repeat")
    model = ScriptedModel(lambda _: f"{text}{text}")
    result = gce.evaluate(task=task, model=model, n=10, max_tokens=len(text), progress=False)
    (line,) = [line for line in str(result).splitlines() if "cut off at the maximum tokens" in line]
    assert ("repeat themselves" in line, "try max_tokens" in line) == (loops, not loops)


def test_folds_show_prompt_blind_rows_and_answers_that_were_cut_off(tmp_path: Path) -> None:
    """All questions have different answers, so that no fixed answer is right for more than one."""
    pytest.importorskip("safetensors")
    settings = {name: value for name, value in SMALL.items() if name != "test"} | {"iterations": 1}
    task = gce.task(ROWS, lambda answer, row: 1.0 if same(answer, row) else 0.25, name="repeats", admit_at=1.0)
    found = gce.cross_fit(
        task=task, model="test_cut_off:rambling", max_tokens=9, folds=2, run=tmp_path / "folds", **settings
    )
    assert {share.n for row in found.floors.values() for share in row.values()} == {40}
    assert found.floors["empty answer"]["all"].correct == 0
    assert found.cut_off == 20
    text = str(found)
    assert text.count("best prompt-blind  ") == 1 and "Only accuracy, or mean reward, above the best one" in text
    assert "warning: 50% of test answers after training (20 of 40) were cut off" in text
    assert found.mean_reward["after"]["all"].total == 20 + 0.25 * 20
    html = found._repr_html_()
    assert html.count("<table>") == 1 and "<td>best prompt-blind</td>" in html


def test_folds_need_the_name_of_a_model(tmp_path: Path) -> None:
    with pytest.raises(gce.GceError, match="expected the name of a model, which is loaded anew for each fold, got <"):
        gce.cross_fit(task=TASK, model=rambling(), run=tmp_path / "folds")


def test_parts_are_pooled_as_if_they_had_been_counted_together() -> None:
    parts: list[list[Any]] = [["right", "wrong", "failed"], ["right", "right", "unreadable"], []]
    assert pooled_rate(map(rate, parts)) == rate([each for part in parts for each in part])
    rewards: list[list[float | None]] = [[1.0, None, 0.25], [0.0, 1.0, 0.5], []]
    assert pooled_reward(map(mean_reward, rewards)) == mean_reward([each for part in rewards for each in part])
    assert pooled_reward([]) == MeanReward(0, 0.0, 0.0, 1.0) and pooled_rate([]) == Interval(0, 0, 0.0, 1.0)
