"""What a person with questions and a graded score is shown by the commands, one after the other."""

from __future__ import annotations

import csv
import html
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.commands.evaluate import _to_train
from gce.app.evaluation.one_outcome import _extraction, is_extracting
from gce.app.evaluation.shown_answers import shortened
from gce.app.tables.cells import closing_line
from gce.domain.paired import Gain
from gce.domain.statistics import Estimate

ROWS = [{"prompt": f"Double {n}", "answer": 2 * n} for n in range(10, 90)]


@gce.task(ROWS, extract=r"(?<![\d.,])(-?\d{1,6})\D*$")
def doubles(answer: str, problem: Any) -> float:
    error = abs(int(answer) - problem["answer"]) / problem["answer"]
    return 1.0 if not error else 0.5 if error < 0.2 else 0.0


@gce.task(ROWS)
def leaky(answer: str, problem: Any) -> bool:
    return str(problem["answer"]) in answer


def writing(answer: Callable[[int], str]) -> Callable[..., ScriptedModel]:
    def model(_settings: Any = None, _task: Any = None) -> ScriptedModel:
        return ScriptedModel(lambda request: answer(int(request.messages[-1].content.split()[-1])))

    return model


several = writing(lambda n: ["[red]it is[/red]\x1b[m {}", "{} or so", "no idea", "{}."][n % 4].format(2 * n + n % 2))
rambling = writing(lambda n: f"{'well ' * 30}{2 * n}")
nearly = writing(lambda n: f"{2 * n + 1}")
evasive = writing(lambda n: f"It is {2 * n}, as {'everybody ' * 9}says: 2 times 1234567")
wrong = writing(lambda n: f"{9 * n}")
constant = writing(lambda n: "I say 100." if n % 4 else f"{2 * n}")
GIVEN = ("--task", "test_own_task_walk:doubles")


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[list[str], list[str]]:
    capsys.readouterr()
    assert cli.main([*arguments]) == status
    out, err = capsys.readouterr()
    return out.splitlines(), err.splitlines()


def evaluated(capsys: pytest.CaptureFixture[str], model: str, *more: str) -> tuple[list[str], list[str]]:
    return said(capsys, "evaluate", *GIVEN, "--model", f"test_own_task_walk:{model}", *more)


def test_an_evaluation_shows_three_answers_as_text_and_what_shows_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = evaluated(capsys, "several")
    at = next(place for place, line in enumerate(out) if line.startswith("sample answers "))
    rows = out[at + 2 : at + 5]
    assert [row.split()[-2:] for row in rows] == [["1", "right"], ["partly", "right"], ["0", "unreadable"]]
    assert all("\x1b" not in row and len(row) <= 80 for row in rows)
    assert rows[0].startswith("[red]it is[/red]") and "\\x1b" in rows[0], "markup and escapes are shown as they are"
    assert out[at + 5].startswith("all answers: repeat with --answers FILE.jsonl, then gce transcript FILE.jsonl")
    assert any(line.startswith("zero-shot: ") and " are unreadable" in line for line in out)
    assert err[-1] == "next: gce check --task test_own_task_walk:doubles", "as this model cannot learn"
    file = str(tmp_path / "my answers.jsonl")
    (listed,) = [
        line for line in evaluated(capsys, "several", "--answers", file)[0] if line.startswith("all answers: ")
    ]
    shown, _ = said(capsys, *shlex.split(listed.partition(": ")[2])[1:])
    assert any("no idea" in line for line in shown), "the list has a column with the text"


def test_a_graded_score_is_trained_with_grpo_a_short_run_and_more_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    result = gce.evaluate(doubles, several(), progress=False)
    sizes = " --folds 2 --iterations 2 --problems 8 --dev 0"
    assert _to_train(result) == f" --algorithm grpo{sizes}"
    none_right = gce.evaluate(doubles, nearly(), progress=False)
    assert _to_train(none_right) == f" --algorithm grpo --warm-up 30{sizes}"
    assert _to_train(gce.evaluate(doubles, rambling(), max_tokens=9, progress=False)) == f"{sizes} --max-tokens 18"
    assert _to_train(gce.evaluate(doubles, wrong(), max_tokens=9, progress=False)) == (
        f" --warm-up 100{sizes} --max-tokens 9"
    )


def test_two_folds_are_proposed_for_a_list_that_is_short_alone() -> None:
    def proposed(n: int) -> str:
        rows = [{"prompt": f"Double {a}", "answer": 2 * a} for a in range(10, 10 + n)]
        task = gce.task(rows, lambda answer, row: answer == str(row["answer"]), name="doubled")
        return _to_train(gce.evaluate(task, several(), n=3, progress=False))

    assert " --folds 2 " in proposed(60) and " --test " not in proposed(60)
    assert " --test 50 " in proposed(130) and " --folds " not in proposed(130)


@pytest.mark.slow
def test_that_most_answers_are_the_same_is_said_of_a_run_its_folds_and_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes: dict[str, Any] = {"iterations": 1, "problems": 1, "samples": 1, "dev": 0, "shifts": 0, "progress": False}
    words = r"1\d of 20 test answers after training are '100': the model may not read the questions"
    result = gce.train(task=doubles, model=constant(), run=tmp_path / "run", **sizes)
    (line,) = [line for line in str(result).splitlines() if "may not read" in line]
    assert re.fullmatch(f"warning: {words}", line)
    assert f"warning: {result.summary['same_answer']}" == line
    page = tmp_path / "report.html"
    said(capsys, "report", str(tmp_path / "run"), "--out", str(page))
    assert re.search(f"Warning: {words}\\.", html.unescape(page.read_text(encoding="utf-8")))
    reading = gce.train(task=doubles, model=several(), run=tmp_path / "reading", **sizes)
    assert "same_answer" not in reading.summary and "may not read" not in str(reading)
    folds = tmp_path / "folds"
    given = ["--iterations", "1", "--problems", "1", "--rollouts", "1", "--dev", "0", "--run-dir", str(folds)]
    out, err = said(capsys, "train", *GIVEN, "--model", "test_own_task_walk:constant", "--folds", "2", *given)
    (line,) = [line for line in out if "may not read" in line]
    assert re.fullmatch(r"warning: [56]\d of 80 test answers after training are '100': .*", line)
    assert any(line.startswith("Result: ") and "best prompt-blind baseline" in line for line in out)
    assert err[-1] == f"next: gce report {folds}/fold-1 {folds}/fold-2"


def test_a_warm_up_says_early_how_long_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("safetensors")
    sizes = ["--iterations", "1", "--problems", "1", "--rollouts", "1", "--dev", "0", "--test", "1"]
    for least, lines in ((1e-12, 1), (1e9, 0)):
        monkeypatch.setattr("gce.app.training.updates.WORTH_SAYING", least)
        given = [*GIVEN, "--model", "test_own_task_walk:constant", "--warm-up", "6", *sizes]
        _, err = said(capsys, "train", *given, "--run-dir", str(tmp_path / f"{lines}"))
        assert sum(line.startswith("warm-up: about ") and line.endswith(" left") for line in err) == lines


def test_that_answers_were_cut_off_is_said_once_with_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = evaluated(capsys, "rambling", "--max-tokens", "9")
    (line,) = [line for line in (*out, *err) if "cut off at the maximum tokens" in line]
    assert line.endswith(": try --max-tokens 18") and not any("alarm" in each for each in (*out, *err))


@pytest.mark.parametrize(
    ("model", "n", "words"),
    [
        (
            "several",
            "5",
            r"0\.[4-7]\d\d; best prompt-blind 0\.\d{3}: not shown to be better than guessing, p = [01]\.\d{3}",
        ),
        ("nearly", "20", r"0\.500; best prompt-blind 0\.\d{3}: better than guessing, p (< 0\.001|= 0\.0[0-4]\d)"),
        ("wrong", "20", r"0\.000; best prompt-blind 0\.\d{3}: not better than guessing"),
    ],
)
def test_an_evaluation_says_in_a_line_whether_the_mean_reward_is_better_than_guessing(
    capsys: pytest.CaptureFixture[str], model: str, n: str, words: str
) -> None:
    out, _ = evaluated(capsys, model, "--n", n)
    (line,) = [line for line in out if "better than guessing" in line]
    assert re.fullmatch(f"mean reward {words}", line)
    assert not any(line.startswith("gain in mean reward") for line in out)


@pytest.mark.parametrize(("model", "lines"), [("constant", 1), ("several", 0), ("rambling", 0), ("wrong", 0)])
def test_that_most_answers_are_the_same_is_said(capsys: pytest.CaptureFixture[str], model: str, lines: int) -> None:
    out, _ = evaluated(capsys, model)
    same = [line for line in out if "the model may not read the questions" in line]
    assert len(same) == lines
    assert all(
        re.fullmatch(r"warning: 1\d of 20 answers are '100': the model may not read the questions", line)
        for line in same
    )


def test_gains_over_each_reference_are_a_table_with_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    verbose, _ = evaluated(capsys, "several", "--n", "5", "--verbose")
    heads = [line for line in verbose if line.startswith("gain in mean reward")]
    assert any("difference" in head for head in heads) and "mean of tiers" not in "".join(verbose)


def test_many_answers_without_a_match_are_said_with_how_many_hold_the_right_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, _ = evaluated(capsys, "evasive")
    (line,) = [line for line in out if " are unreadable" in line]
    assert line == (
        "zero-shot: 100% of answers (20 of 20) are unreadable; extract= found no answer in 20 of them, 20 contain the "
        "right answer"
    )
    assert any(line.startswith("...") and "says: 2 times 1234567 " in line for line in out), "the end, whole"


def test_only_a_score_without_extract_is_told_to_look_into_sentences() -> None:
    assert is_extracting(doubles) and not is_extracting(leaky)
    assert not is_extracting(gce.task(ROWS, lambda _answer, _problem: 0.0, name="whole", extract="text"))
    exact = gce.task(ROWS, lambda answer, problem: answer == str(problem["answer"]), name="exact")
    for task, there in ((doubles, False), (exact, True)):
        answers = gce.evaluate(task, evasive(), progress=False).measured["zero-shot"].judged
        (tried,) = _extraction(task, answers)
        assert "look at what extract= gives the score" in tried and ("split(' is ')" in tried) is there


@pytest.mark.slow
def test_a_gap_alone_is_said_with_its_limit_what_mends_it_and_the_same_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = gce.check(doubles, responses=10)
    assert report.floor is not None
    paying = evolve(report, floor=evolve(report.floor, gameability_gap=0.27))
    monkeypatch.setattr("gce.app.commands.check.check", lambda *_given, **_options: paying)
    out, err = said(capsys, "check", *GIVEN, "--verbose")
    assert out[1] == "no check found anything, but the gameability gap is 0.27 (below), and the limit is 0.25"
    assert out[2] == (
        "    to mend it: pay partial credit only above what the best prompt-blind baseline earns, as "
        "max(0, (score - 0.27) / 0.73)"
    )
    assert err[-1] == "next: gce check --task test_own_task_walk:doubles"
    assert not any("says why" in line for line in out) and any(line.startswith("not checked: ") for line in out)
    assert "to mend it" not in str(evolve(paying, admit_at=None)), "where no reward is partial"


def test_answers_are_exported_with_what_was_read_and_what_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = str(tmp_path / "a.jsonl"), str(tmp_path / "a.csv")
    evaluated(capsys, "several", "--answers", file)
    said(capsys, "answers", file, "--out", out)
    with open(out, encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert list(rows[0])[:6] == ["prompt", "text", "answer", "extracted", "reward", "outcome"]
    for row in rows:
        n = int(row["prompt"].split()[-1])
        assert row["answer"] == str(2 * n)
        assert row["extracted"] == ("" if "no idea" in row["text"] else str(2 * n + n % 2))


@pytest.mark.slow
def test_the_next_command_of_a_check_repeats_it_or_measures_a_small_model(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said(capsys, "check", *GIVEN, "--responses", "10")
    assert err[-1] == "next: gce evaluate --task test_own_task_walk:doubles --model smollm2 --n 50 --max-tokens 64"
    _, err = said(capsys, "check", "--task", "test_own_task_walk:leaky", "--unique", status=1)
    assert err[-1] == "next: gce check --task test_own_task_walk:leaky --unique"


def test_short_help_of_evaluate_does_not_list_strategies(capsys: pytest.CaptureFixture[str]) -> None:
    for option, there in (("--help", False), ("--help-all", True)):
        with pytest.raises(SystemExit):
            cli.main(["evaluate", option])
        text = capsys.readouterr().out
        assert ("self-debate" in text) is there and text.index("--task") < text.find("self-debate") % len(text)


@pytest.mark.parametrize(
    ("right", "reward", "words"),
    [
        (Gain(Estimate(0.2, 0.1, 0.3), 6, 0, 0.031), None, "accuracy rose (p = 0.031)."),
        (Gain(Estimate(-0.2, -0.3, -0.1), 0, 20, 0.0001), None, "accuracy fell (p < 0.001)."),
        (Gain(Estimate(0.1, -0.1, 0.3), 3, 1, 0.625), None, "a change in accuracy is not shown at n = 30 (p = 0.625)."),
        (
            Gain(Estimate(0.167, 0.005, 0.309), 5, 0, 0.062),
            Gain(Estimate(0.18, 0.031, 0.323), 9, 2, 0.024),
            "mean reward rose (p = 0.024); a change in right answers is not shown at n = 30 (p = 0.062); "
            "its interval is approximate, the exact test counts.",
        ),
    ],
)
def test_the_closing_sentence_says_which_test_counts(right: Gain, reward: Gain | None, words: str) -> None:
    assert closing_line(right, reward, 30) == f"Result: {words}"


def test_the_closing_sentence_says_where_the_reward_stands_beside_guessing() -> None:
    right, reward = Gain(Estimate(0.0, -0.1, 0.1), 0, 0, 1.0), Gain(Estimate(0.1, 0.05, 0.2), 9, 0, 0.004)
    said = "Result: mean reward rose (p = 0.004); {} the best prompt-blind baseline, 0.126{}; a change in right answers"
    assert closing_line(right, reward, 30, (0.151, 0.126)).startswith(said.format("0.151 is above", " (not tested)"))
    assert closing_line(right, reward, 30, (0.078, 0.126)).startswith(said.format("0.078 is not above", ""))


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    assert shortened("a  short\none", 20) == "a short one"
    long = shortened("begin " + "x" * 100 + " end", 20)
    assert shortened("begin " + "x" * 100 + " end", 9, end=True) == "...xx end"
    assert len(long) == 20 and long.startswith("begin") and long.endswith(" end")
