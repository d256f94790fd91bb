"""Reports of runs and studies, validity cards and judging again, through the command line."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from toy_task import ADDITION

from gce.adapters.runs.reader import DirectoryReader
from gce.app import cli
from gce.app.evaluation.validity import judge_steps
from gce.domain.problems import Message
from gce.domain.tasks import TASKS, Teaching, draw_problem
from gce.domain.verdicts import Step
from gce.errors import BadInput

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SIZES = ("--problems", "5", "--rollouts", "2", "--iterations", "2", "--updates", "2", "--dev", "3", "--test", "4")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended; tests that change it take a copy."""
    path = tmp_path_factory.mktemp("runs") / "a <b> & c"
    assert cli.main(["train", *TOY, *SIZES, "--run-dir", str(path)]) == 0
    return path


@pytest.fixture
def titles(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """What a report says, by section."""

    def report(*paths: Path) -> dict[str, Any]:
        capsys.readouterr()
        assert cli.main(["report", *map(str, paths), "--json"]) == 0
        return {section["title"]: section for section in json.loads(capsys.readouterr().out)}

    return report


class Page(HTMLParser):
    """Which tags are open, and what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br", "link", "img", "input"):
            self.open.append(tag)
        self.fetched += [v or "" for name, v in attributes if name in ("src", "href", "xlink:href") and v]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.fetched += [v or "" for name, v in attributes if name in ("src", "href", "xlink:href") and v]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


@pytest.mark.slow
def test_a_page_needs_no_other_file_and_every_figure_has_its_data(ended: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "page.html"
    assert cli.main(["report", str(ended), "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.open == []
    inside = [where for where in page.fetched if not where.startswith(("#", "data:"))]
    assert inside == [] and page.tags.count("script") == 1 and "url(http" not in text
    figures = page.tags.count("figure")
    assert figures >= 6 and page.tags.count("svg") == figures
    assert text.count("<summary>data</summary>") == figures
    assert "<h1>a &lt;b&gt; &amp; c</h1>" in text
    assert "currentColor" in text and "#010203" not in text
    assert len(text) < 1_000_000
    assert re.search(r"prefers-color-scheme: dark", text)


@pytest.mark.slow
def test_pictures_and_markdown(ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(ended), "--format", "md"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# a <b> & c\n") and "| before |" in text and "## Curriculum" in text
    pytest.importorskip("matplotlib")
    assert cli.main(["report", str(ended), "--format", "png", "--out", str(tmp_path)]) == 0
    pictures = {path.stem: path.read_bytes()[:8] for path in tmp_path.glob("*.png")}
    assert {"result", "training", "dev", "curriculum", "buffer", "cost"} <= set(pictures)
    assert set(pictures.values()) == {b"\x89PNG\r\n\x1a\n"}


def test_what_a_report_says_is_what_the_run_found(ended: Path, titles: Any) -> None:
    found = titles(ended)
    summary = json.loads((ended / "summary.json").read_text())
    table = found["Result"]["tables"][0]
    assert [row[0] for row in table["rows"]] == ["before", "after", "best prompt-blind", "heuristic adds"]
    share = summary["after"]["T0"]
    assert table["rows"][1][1].startswith(f"{100 * share['correct'] / share['n']:.0f} (")
    assert ["policy", summary["policy"]] in found["Settings and hashes"]["tables"][1]["rows"]
    curriculum = found["Curriculum"]["figures"]["When each tier began to be solved"]["rows"]
    assert [row[:2] for row in curriculum] == [["T0", "1"], ["T0", "2"], ["T1", "1"], ["T1", "2"]]


def test_a_run_that_goes_on_is_reported_while_it_is_written(
    tmp_path: Path, titles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its first iteration, from inside the run: two of its sections know of one iteration."""
    from gce.app.training import loop
    from gce.app.training.records import commit

    seen = []

    def reporting(*arguments: Any) -> None:
        commit(*arguments)
        seen.append(titles(tmp_path / "run"))

    monkeypatch.setattr(loop, "commit", reporting)
    assert cli.main(["train", *TOY, *SIZES, "--run-dir", str(tmp_path / "run")]) == 0
    first, second = seen
    assert "1 of 2 iterations" in first["Result"]["words"][1]
    assert first["Result"]["tables"][0]["rows"][0][0] == "before"
    assert len(second["Curriculum"]["figures"]["When each tier began to be solved"]["rows"]) == 4


def test_several_runs_are_compared(ended: Path, tmp_path: Path, titles: Any) -> None:
    assert cli.main(["train", *TOY, *SIZES, "--seed", "1", "--run-dir", str(tmp_path / "other")]) == 0
    found = titles(ended, tmp_path / "other")
    rows = found["Runs compared on addition/small"]["tables"][0]["rows"]
    assert [row[0] for row in rows] == [f"a <b> & c, {when}" for when in ("before", "after")] + [
        "other, before",
        "other, after",
    ]
    assert "other: Cost" in found


@pytest.mark.slow
def test_runs_of_one_name_are_told_apart_and_other_problems_are_not_compared(
    ended: Path, tmp_path: Path, titles: Any
) -> None:
    from gce.app.reports.contents import labels_of

    assert labels_of([Path("/a/seed-0"), Path("/b/seed-0"), Path("/b/seed-1")]) == ["a/seed-0", "b/seed-0", "b/seed-1"]
    for name, options in (("one/seed-0", ()), ("two/seed-0", ("--task", "toy_task:ONE_TIER"))):
        assert cli.main(["train", *TOY, *SIZES, *options, "--run-dir", str(tmp_path / name)]) == 0
    found = titles(tmp_path / "one/seed-0", tmp_path / "two/seed-0")
    assert {"one/seed-0: Result", "two/seed-0: Result"} <= set(found)
    compared = [title for title in found if title.startswith("Runs compared")]
    assert compared == ["Runs compared on addition/small"], "one name, so one kind, whatever its tiers"
    pytest.importorskip("matplotlib")
    arguments = ["report", str(tmp_path / "one/seed-0"), str(ended), "--format", "png", "--out", str(tmp_path / "png")]
    assert cli.main(arguments) == 0
    assert {path.name.rpartition("-")[0] for path in (tmp_path / "png").glob("*-cost.png")} == {"seed-0", "a-b-c"}


def test_a_run_that_goes_on_after_its_end_is_not_reported_as_ended(
    tmp_path: Path, titles: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gce.app.training import run as training

    run = ["train", "--run-dir", str(tmp_path / "run")]
    assert cli.main([*run, *TOY, *SIZES]) == 0
    assert cli.main(["validity", str(tmp_path / "run"), "--n", "2"]) == 0
    assert len(titles(tmp_path / "run")["Validity card"]["tables"]) == 1

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "moved_arrays", killed)
    assert cli.main([*run, "--resume", "--iterations", "3"]) == 130
    found = titles(tmp_path / "run")
    assert (
        "3 of 2 iterations" not in found["Result"]["words"][1]
        and "in progress, or was interrupted" in found["Result"]["words"][1]
    )
    assert "before the run was continued" in found["Validity card"]["words"][0]
    capsys.readouterr()
    assert cli.main(["validity", str(tmp_path / "run")]) == 2
    assert "has not finished" in capsys.readouterr().err


def test_wrong_answers_without_a_violation_are_counted(tmp_path: Path, titles: Any) -> None:
    assert cli.main(["train", *TOY, *SIZES, "--task", "toy_task:SILENT", "--run-dir", str(tmp_path / "run")]) == 0
    (table,) = titles(tmp_path / "run")["Sample answers"]["tables"]
    assert table["rows"] and {row[0] for row in table["rows"]} == {"none named"}


def test_rollouts_with_and_without_worked_examples_are_told_apart(
    tmp_path: Path, titles: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right after examples alone: three of four are shown some, all that is right was shown some."""
    start = ("--bootstrap", "few-shot", "--shots", "1", "--task", "toy_task:WORKED", "--model", "toy_task:shy")
    run = tmp_path / "run"
    assert cli.main(["train", *TOY, *SIZES, "--rollouts", "4", *start, "--run-dir", str(run)]) == 0
    section = titles(run)["Demonstrations"]
    assert "come from a heuristic, without a solver" in " ".join(section["words"])
    (table,) = section["tables"]
    for _, _, shown, alone in table["rows"]:
        right, of = map(int, shown.split("/"))
        assert right == of > 0 and alone == f"0/{of // 3}"
    assert cli.main(["traces", str(run), "--to", "hf"]) == 0
    assert "few-shot examples made by a heuristic" in (run / "export" / "hf" / "README.md").read_text()


def test_a_warm_up_is_told(tmp_path: Path, titles: Any, capsys: pytest.CaptureFixture[str]) -> None:
    start = ("--warm-up", "2", "--warm-up-also", "other", "--shots", "1", "--task", "toy_task:TWO_PRESETS")
    run = tmp_path / "run"
    assert cli.main(["train", *TOY, *SIZES, *start, "--run-dir", str(run)]) == 0
    assert re.search(r"^ *iter +T0 +T1 +buffer", capsys.readouterr().err, re.MULTILINE), "named once there are rollouts"
    section = titles(run)["Demonstrations"]
    (words,) = section["words"]
    assert words == (
        "Demonstrations come from a heuristic, without a solver. The SFT warm-up, before the first rollouts, takes 2 "
        "steps on at most 2 demonstrations per tier, and as many of each tier of other. They never enter the buffer, "
        "and their problems are not trained on otherwise."
    )
    assert "Curriculum" in titles(run)
    assert cli.main(["traces", str(run), "--to", "hf"]) == 0
    assert (
        "2 steps on up to 2 demonstrations per tier, and as many of each tier of other, made by a heuristic"
        in (run / "export" / "hf" / "README.md").read_text()
    )


def test_a_report_before_the_first_rollouts_has_no_empty_tables(
    tmp_path: Path, titles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gce.app.training import sampling, updates

    monkeypatch.setattr(updates, "WARM_UP_PART", 1)
    monkeypatch.setattr(sampling, "_problems", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    start = ("--warm-up", "2", "--shots", "1", "--task", "toy_task:WORKED")
    assert cli.main(["train", *TOY, *SIZES, *start, "--run-dir", str(tmp_path / "run")]) == 130
    found = titles(tmp_path / "run")
    training, curriculum = found["Training"], found["Curriculum"]
    assert training["words"] == ["The SFT warm-up on demonstrations has begun; there are no rollouts yet."]
    assert not training["tables"] and not curriculum["figures"]
    rows = training["figures"]["Training rollouts and updates"]["rows"]
    assert [[*row[:2], float(row[2])] for row in rows] == [["loss, nats per token", "loss", n] for n in (1, 2)]


def test_metrics_of_a_run_of_an_algorithm_with_ratios_are_drawn(tmp_path: Path, titles: Any) -> None:
    """All of them, for a model that reports log-probabilities."""
    more = ("--algorithm", "gspo", "--clip-high", "0.1", "--importance-cap", "2", "--kl", "0.1", "--iterations", "1")
    assert cli.main(["train", *TOY, *SIZES, *more, "--run-dir", str(tmp_path / "run")]) == 0
    found = titles(tmp_path / "run")
    rows = found["Training"]["figures"]["Training metrics"]["rows"]
    assert {(panel, line) for panel, line, *_ in rows} >= {
        ("reward", "mean"),
        ("reward", "standard deviation"),
        ("learning rate", "last step"),
        ("KL divergence, nats per token", "from the sampler"),
        ("KL divergence, nats per token", "from the base"),
        ("ratios clipped, %", "from below"),
        ("ratios clipped, %", "from above"),
        ("learner - sampler log-prob, nats", "maximum"),
        ("longest completion, tokens", "maximum"),
    }
    assert found["Replay buffer"]["figures"] == {} and "does not use the buffer" in found["Replay buffer"]["words"][0]


@pytest.mark.slow
def test_studies_are_reported_as_effects(tmp_path: Path, titles: Any) -> None:
    study = ["ablate", *TOY, *SIZES, "--dir", str(tmp_path), "--seeds", "0,1", "--conditions", "full,shuffled"]
    assert cli.main(study) == 0
    found = titles(tmp_path)["Study: ablations"]
    assert [row[0] for row in found["tables"][0]["rows"]] == ["full", "shuffled"]
    figure, over_time = found["figures"].values()
    assert figure["rows"][0][0] == "shuffled vs full"
    assert over_time["head"][:3] == ["panel", "line", "iteration"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--model", "toy_task:hopeless"),
        ("--iterations", "1"),
        ("--dev", "0", "--test", "0"),
        ("--task", "toy_task:PLAIN"),
        ("--task", "toy_task:ONE_TIER"),
    ],
    ids=" ".join,
)
def test_every_command_works_for_runs_with_little_in_them(
    options: tuple[str, ...], tmp_path: Path, titles: Any
) -> None:
    """No right trace, one iteration, no evaluation, no blind answers, one tier."""
    assert cli.main(["train", *TOY, *SIZES, *options, "--run-dir", str(tmp_path / "run")]) == 0
    assert len(titles(tmp_path / "run")) == 10
    assert cli.main(["validity", str(tmp_path / "run"), "--n", "2"]) == 0
    assert len(titles(tmp_path / "run")) == 11
    assert cli.main(["rescore", str(tmp_path / "run")]) == 0
    pytest.importorskip("matplotlib")
    assert cli.main(["report", str(tmp_path / "run")]) == 0


def test_the_validity_card_of_a_toy_run(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Addition has no steps, so no process can be judged; the rest is measured and kept."""
    capsys.readouterr()
    assert cli.main(["validity", str(ended), "--n", "6", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card == json.loads((ended / "validity.json").read_text())
    lines = {line["what"]: line for line in card["lines"]}
    fresh, sampled = lines["fresh problems of trained tiers"], lines["problems that training sampled"]
    assert (fresh["n"], sampled["n"], lines["held out: T2"]["n"]) == (12, 10, 6)
    apart = lines["the second minus the first, points"]
    assert apart["value"] == pytest.approx(sampled["value"] - fresh["value"])
    assert 2 <= lines["those of them that are in the buffer"]["n"] <= 10
    assert lines["scope: right at the third at latest"]["value"] >= lines["scope: right at the first attempt"]["value"]
    assert lines["process: right answers with only true steps"]["n"] == 0
    assert lines["process: right answers that cannot be judged"]["value"] == 1.0
    assert {f"shortcut margin, points: T{n}" for n in (0, 1, 2)} <= set(lines)
    assert card["words"][0].startswith("Temporal: ") and "First iteration with a significant gain" in card["words"][1]
    assert card["words"][2].startswith("Shortcuts: accuracy is significantly above the best prompt-blind baseline in ")
    (ended / "validity.json").unlink()


@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        (["true", "true"], ("true", None)),
        (["true", "false", "false", "true"], ("false", 0.5)),
        (["unreadable", "false"], ("false", 1.0)),
        (["true", "unreadable"], ("not judged", None)),
        ([], ("not judged", None)),
    ],
)
def test_steps_are_summed_up(statuses: list[Any], found: tuple[str, float | None]) -> None:
    from attrs import evolve

    task = evolve(ADDITION, teaching=Teaching(check_steps=lambda *_: tuple(Step("x", status) for status in statuses)))
    assert judge_steps(task, draw_problem(ADDITION, "small", "T0", "test", 0), "") == found


def test_a_wrong_step_in_scheduling_is_found_where_it_stands() -> None:
    task = TASKS["scheduling"]
    problem = draw_problem(task, "grounded", "T2", "test", 0)
    text = task.teaching.demonstration(problem, None)
    assert text is not None
    assert judge_steps(task, problem, text) == ("true", None)
    lines = text.split("\n")
    broken = re.sub(r"end (\w) (\d+)", lambda m: f"end {m[1]} {int(m[2]) + 1}", lines[2])
    wrong = "\n".join([*lines[:2], broken, *lines[3:]])
    assert judge_steps(task, problem, wrong) == ("false", 3 / (len(lines) - 1))
    thought = f"<think>{wrong}</think>{text}"
    assert judge_steps(task, problem, thought) == ("true", None), "what was only thought is not judged"


def test_a_newer_verifier_judges_stored_answers_again(
    ended: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes nothing for right changes exactly the right verdicts, and says so; the run stays as it was."""
    import toy_task
    from attrs import evolve

    capsys.readouterr()
    before = (ended / "run.sqlite").read_bytes()
    assert cli.main(["rescore", str(ended)]) == 0
    assert "0 verdicts changed" in capsys.readouterr().out
    strict = evolve(ADDITION, reward=lambda _: 0.0)
    monkeypatch.setattr(toy_task, "ADDITION", strict)
    assert cli.main(["rescore", str(ended), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    with DirectoryReader(ended) as reader:
        rollouts = list(reader.read("rollouts"))
        answers = reader.answers("test-before") + reader.answers("test-after")
    assert found["judged"] == len(rollouts) + len(answers) == 20 + 24
    assert len(found["changes"]) == sum(each["right"] for each in rollouts + answers)
    assert all((change["was"], change["now"]) == ("right", "right: not admitted") for change in found["changes"])
    monkeypatch.setattr(toy_task, "ADDITION", toy_task.UNSURE)
    assert cli.main(["rescore", str(ended), "--json"]) == 3, "a verifier that cannot judge has changed no verdict"
    assert json.loads(capsys.readouterr().out) == {"judged": 0, "changes": [], "verified": True}
    reworded = evolve(ADDITION, prompt=lambda instance, rng: (Message("user", "other words"),))
    monkeypatch.setattr(toy_task, "ADDITION", reworded)
    assert cli.main(["rescore", str(ended)]) == 2
    assert "draws another problem" in capsys.readouterr().err
    assert (ended / "run.sqlite").read_bytes() == before


@pytest.mark.parametrize("command", ["report", "validity", "rescore"])
def test_what_is_no_run_is_refused_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        assert cli.main([command, str(path)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and "expected a run" in err


def test_a_damaged_database_is_refused(ended: Path, tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(Exception, match=r"run\.sqlite"), DirectoryReader(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "other.sqlite") as db:
        db.execute("CREATE TABLE t (x)")
    (tmp_path / "other.sqlite").rename(tmp_path / "run.sqlite")
    with (
        pytest.raises(Exception, match="expected a run of layout 4 or older, got application 0"),
        DirectoryReader(tmp_path),
    ):
        pass
    with pytest.raises(BadInput, match=r"found no run\.sqlite"), DirectoryReader(tmp_path / "none"):
        pass


def test_a_reader_changes_nothing_and_takes_no_lock(ended: Path) -> None:
    names = sorted(path.name for path in ended.iterdir())
    with DirectoryReader(ended) as one, DirectoryReader(ended) as other:
        assert list(one.read("iterations")) == list(other.read("iterations"))
        assert list(one.read("nothing")) == [] and one.answers("nothing") == []
    assert sorted(path.name for path in ended.iterdir()) == names
