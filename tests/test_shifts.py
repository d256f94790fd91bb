"""`gce.evaluate(shifts=True)` and `gce evaluate --shifts`: a row for each distribution that the task declares."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from toy_task import ADDITION

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.shifts import answers_of_shift, shift_parts, shifts_of
from gce.domain.completions import Completion, SampleRequest
from gce.domain.figures import Table
from gce.domain.metrics import point
from gce.domain.tasks import TASKS, Audit, draw_problems
from gce.errors import LowCoverage, SettingError

SCHEDULING = TASKS["scheduling"]


def solving(*names: str) -> ScriptedModel:
    """A model that solves scheduling problems whose key begins with one of the names, by the demonstrated rule."""
    tasks = [*TASKS.values()]

    def answer(request: SampleRequest) -> str:
        problem_key = request.key.rpartition("/")[0]
        if not problem_key.startswith(names):
            return "no idea"
        task = next(task for task in tasks if problem_key.startswith(f"{task.name}/"))
        problem = gce.ProblemSource(task).redraw(problem_key)
        return task.teaching.demonstration(problem, None) or ""

    return ScriptedModel(answer)


def test_shifts_are_those_declared_but_for_what_is_asked_and_what_was_taught() -> None:
    """A shift without a preset keeps the one as asked; those that are no shift are left out."""
    found = shifts_of(SCHEDULING, "grounded")
    assert {what: (task.name, preset) for what, (task, preset) in found.items()} == {
        "eleven jobs": ("scheduling", "larger"),
        "sixteen jobs": ("scheduling", "sixteen"),
        "other sentences": ("scheduling-reworded", "grounded"),
        "small letters": ("scheduling-relabelled", "grounded"),
        "code words": ("scheduling-code-words", "grounded"),
        "the tiers of paper": ("scheduling", "paper"),
    }
    assert "the tiers of paper" not in shifts_of(SCHEDULING, "paper")
    assert shifts_of(SCHEDULING, "paper")["code words"][1] == "paper"
    assert "eleven jobs" not in shifts_of(SCHEDULING, "grounded", without=[("scheduling", "larger")])
    assert shifts_of(TASKS["scheduling-code-words"], "grounded") == {}


@pytest.mark.parametrize(
    ("given", "what", "expected"),
    [
        ("answers.jsonl", "eleven jobs", "answers.eleven-jobs.jsonl"),
        ("a/b.c.jsonl", "Small letters (a-z)", "a/b.c.small-letters-a-z-.jsonl"),
        ("answers", "code words", "answers.code-words"),
    ],
)
def test_each_shift_has_a_file_of_answers_of_its_own(given: str, what: str, expected: str) -> None:
    assert answers_of_shift(Path(given), what) == Path(expected)


@pytest.mark.slow
def test_a_model_that_fails_on_some_shifts_is_told_by_its_rows() -> None:
    """Right on two distributions alone: their shares are 1, those of all others 0."""
    model = solving("scheduling/grounded/", "scheduling-code-words/grounded/")
    result = gce.evaluate(model=model, shifts=True, tiers=["T0", "T1"], n=3, progress=False)
    found = {what: each.estimates()["zero-shot"] for what, each in result.shifts.items()}
    assert set(found) == set(SCHEDULING.audit.shifts)
    assert [point(share) for share in result.estimates()["zero-shot"].values()] == [1.0, 1.0]
    for what, shares in found.items():
        assert list(shares) == ["T0", "T1"]
        assert [point(share) for share in shares.values()] == [float(what == "code words")] * 2
    (table,) = [part for part in shift_parts(result)[1] if isinstance(part, Table)]
    assert table.head == ("distribution", "T0", "T1", "mean", "best prompt-blind", "coverage")
    rows = {what: cells for what, *cells in table.rows}
    assert list(rows) == ["as asked", *found]
    assert rows["as asked"][:2] == rows["code words"][:2] == ["100 (44-100)", "100 (44-100)"]
    assert rows["sixteen jobs"][:2] == ["0 (0-56)", "0 (0-56)"], "Wilson, 0 of 3"
    assert all(f"<td>{what}</td>" in result._repr_html_() and f"\n{what}  " in str(result) for what in rows)


@pytest.mark.slow
def test_n_is_that_of_distinct_problems_and_it_is_said() -> None:
    """`paper` T0 has 12 test problems in all: of 15 that are asked for these 12 are taken, and the table says so."""
    result = gce.evaluate(model=solving("none"), shifts=True, tiers=["T0"], n=15, progress=False)
    paper = result.shifts["the tiers of paper"]
    assert len(paper.problems) == len(draw_problems(SCHEDULING, "paper", "T0", "test", 15)) == 12
    assert len(result.problems) == 15
    assert "the tiers of paper: n = 12 (all there are)" in str(result)
    others = ", ".join(["as asked", *list(SCHEDULING.audit.shifts)[:-1]])
    assert f"{others}: n = 15" in str(result)


@pytest.mark.slow
def test_the_best_prompt_blind_baseline_is_that_of_the_shift_itself() -> None:
    """Measured with the shift's own task on its own problems, as `gce evaluate` does of that task alone."""
    given: dict[str, Any] = {"model": solving("none"), "tiers": ["T0"], "n": 40, "progress": False}
    whole = _plain(gce.evaluate(shifts=True, **given))["shifts"]["small letters"]
    alone = _plain(gce.evaluate("scheduling-relabelled", **given))
    best = max(row["T0"]["correct"] for row in alone["floors"].values())
    assert whole["best_prompt_blind"]["T0"]["correct"] == best
    assert whole["tiers"] == alone["modes"]["zero-shot"]["tiers"]
    assert (whole["task"], whole["preset"], whole["problems"]) == ("scheduling-relabelled", "grounded", {"T0": 40})


def _plain(result: gce.Evaluation) -> Any:
    from gce.app.evaluation.results import summary

    return json.loads(json.dumps(summary(result)[0]))


@pytest.mark.slow
def test_tiers_that_only_some_distributions_have_are_dashes_elsewhere() -> None:
    """T0 to T2 beside a shift with T0 to T5: three dashes, and the mean over the tiers that a row has."""
    task = evolve(ADDITION, audit=Audit(shifts={"another task": ("scheduling", "paper")}))
    result = gce.evaluate(task, ScriptedModel(lambda _request: "w0"), shifts=True, n=4, progress=False)
    (table,) = [part for part in shift_parts(result)[1] if isinstance(part, Table)]
    asked, shifted = table.rows
    assert table.head[1:7] == ("T0", "T1", "T2, held out", "T3", "T4", "T5, held out")
    assert asked[4:7] == ("-", "-", "-") and "-" not in (*asked[1:4], *shifted[1:9])
    assert asked[7] != "-" and shifted[7] != "-"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task": "scheduling-reworded"}, "task scheduling-reworded declares no distribution shifts: leave out shifts"),
        ({"strategies": ["zero-shot", "multi-turn"]}, "shifts needs a single strategy, got zero-shot, multi-turn"),
        ({"samples": 2, "temperature": 1.0}, "shifts needs samples of 1"),
        ({"metrics": ["tokens"]}, "shifts compares accuracy alone: leave out metrics"),
        ({"shifts": "yes"}, "shifts must be true or false, got 'yes'"),
    ],
)
def test_what_does_not_go_with_shifts_is_refused_before_anything_is_asked(settings: dict[str, Any], said: str) -> None:
    asked = []

    def model(messages: Any) -> str:
        asked.append(messages)
        return ""

    with pytest.raises(SettingError) as caught:
        gce.evaluate(**{"task": "scheduling", "model": model, "shifts": True, "n": 1, "progress": False, **settings})
    assert str(caught.value).startswith(said)
    assert not asked


@pytest.mark.slow
def test_too_low_a_coverage_on_a_shift_names_it() -> None:
    from gce.app.evaluation.results import check_result, summary

    class Failing(ScriptedModel):
        """Gives no answer to problems with code words."""

        def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
            for found in super().sample(requests):
                failed = found.key.startswith("scheduling-code-words/")
                yield evolve(found, finish_reason="error", error="the server is down") if failed else found

    model = Failing(lambda _request: "no idea")
    result = gce.evaluate(model=model, shifts=True, tiers=["T0"], n=2, progress=False)
    with pytest.raises(LowCoverage, match="zero-shot, code words: 2 of 2 answers"):
        check_result(result, summary(result)[0], 0.98)


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.main(["evaluate", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.mark.slow
def test_the_command_prints_a_table_and_goes_on_from_its_files(command: Command, tmp_path: Path) -> None:
    """A file for each distribution; the same command asks nothing again, and JSON has the shifts beside the modes."""
    pytest.importorskip("mlx_lm")
    answers = tmp_path / "answers.jsonl"
    given = ("--shifts", "--n", 2, "--tiers", "T0", "--max-tokens", 20, "--answers", answers)
    status, out, _ = command(*given)
    assert status == 0 and "\ndistribution" in out
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "answers.jsonl",
        *(f"answers.{name}.jsonl" for name in ("eleven-jobs", "sixteen-jobs", "other-sentences", "small-letters")),
        *(f"answers.{name}.jsonl" for name in ("code-words", "the-tiers-of-paper")),
    }
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    status, out, err = command(*given, "--json")
    assert status == 0 and err.count("2 answers reused") == 7
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    found = json.loads(out)
    assert set(found) == {"modes", "floors", "split", "heuristics", "n", "shifts", "warnings"}
    assert {each["problems"]["T0"] for each in found["shifts"].values()} == {2}
    assert list(found["shifts"]) == list(SCHEDULING.audit.shifts)


@pytest.mark.slow
def test_a_dry_run_counts_the_answers_to_shifts(command: Command) -> None:
    pytest.importorskip("mlx_lm")
    status, out, _ = command("--shifts", "--n", 10, "--tiers", "T0,T1", "--dry-run")
    assert status == 0
    assert "140 answers (zero-shot 20, eleven jobs 20, sixteen jobs 20," in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--task", "scheduling-brief"), "task scheduling-brief declares no distribution shifts: leave out --shifts"),
        (("--strategies", "zero-shot,multi-turn"), "--shifts needs a single strategy"),
        (("--samples", "2", "--temperature", "1"), "--shifts needs --samples of 1"),
        (("--metrics", "tokens"), "leave out --metrics"),
    ],
)
def test_the_command_refuses_in_one_line(arguments: tuple[str, ...], said: str, command: Command) -> None:
    status, out, err = command("--shifts", "--n", 1, *arguments)
    assert (status, out) == (2, "")
    assert said in err and len(err.strip().split("\n")) == 1
