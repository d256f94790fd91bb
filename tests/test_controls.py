"""`gce validity --deep`: the controls of a run, measured, cut off, resumed, kept and put into sentences."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from imitator import SUMS

from gce.app import cli
from gce.app.evaluation.scoring import answer_record
from gce.app.reports.controls import control_sections
from gce.app.settings.values import changed, settings_from
from gce.app.studies.conditions import check_stored
from gce.app.studies.controls import asking, deep, training
from gce.app.studies.controls.conclusions import (
    Controls,
    adjusted,
    conclusion,
    conclusions,
    control_table,
    pass_table,
    stored,
)
from gce.app.studies.controls.decontamination import Digests, contamination_words, read_digests
from gce.app.studies.controls.records import Context, ControlOptions, Row, RunFacts, first_of_each_tier
from gce.app.studies.controls.table import CONTROLS
from gce.app.terminal import Terminal
from gce.app.wiring.runs import open_run
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.figures import Lines
from gce.domain.paired import Gain, paired_gain
from gce.domain.serialization import to_plain
from gce.domain.statistics import Estimate
from gce.domain.tasks import draw_problem
from gce.domain.verdicts import Verdict
from gce.errors import BadInput

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

TOY = ("--task", "imitator:SUMS", "--model", "imitator:imitator")
SIZES = ("--problems", "8", "--rollouts", "4", "--iterations", "2", "--updates", "2", "--dev", "3", "--test", "40")
SMALL = ("--n", "40", "--pass-problems", "10", "--pass-samples", "8", "--tune", "3")
Deep = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended, without controls."""
    path = tmp_path_factory.mktemp("runs") / "run"
    assert cli.main(["train", *TOY, *SIZES, "--run-dir", str(path), "--quiet"]) == 0
    return path


@pytest.fixture(scope="module")
def measured(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with all its controls; tests that change it take a copy."""
    path = shutil.copytree(trained, tmp_path_factory.mktemp("runs") / "run", symlinks=True)
    assert cli.main(["validity", "--deep", str(path), *SMALL, "--quiet"]) == 0
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run", symlinks=True)


@pytest.fixture
def controls(measured: Path, tmp_path: Path) -> Path:
    return shutil.copytree(measured, tmp_path / "run", symlinks=True)


@pytest.fixture
def measure(capsys: pytest.CaptureFixture[str]) -> Deep:
    """What `gce validity --deep` says as JSON."""

    def call(path: Path, *options: str, status: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert cli.main(["validity", "--deep", str(path), *SMALL, *options, "--json"]) == status
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return call


def rows_of(run: Path) -> dict[str, Any]:
    """The rows in a run's card, without their times and without p values, which depend on what else is finished."""
    rows: dict[str, Any] = json.loads((run / "validity.json").read_text())["controls"]["rows"]
    return {name: {**row, "seconds": 0, "p_holm": 0, "words": ""} for name, row in rows.items()}


@pytest.mark.slow
def test_every_control_ends_in_what_it_rules_out(controls: Path, measure: Deep) -> None:
    """The model imitates the majority of its traces: verdicts and a rule's traces teach it, all rollouts do not."""
    found = measure(controls)
    assert list(found["rows"]) == list(CONTROLS) and found["left_out"] == {} and found["missing"] == []
    ruled_out = {name for name, row in found["rows"].items() if row["words"].startswith("Rules out that ")}
    assert all(
        row["words"].startswith(("Rules out that ", "Does not rule out that ")) for row in found["rows"].values()
    )
    assert {"decontamination", "tuned-base", "best-of-k", "accept-all", "format-only"} == ruled_out - {"shuffled"}
    assert not {"sft", "longer", "pass-at-k"} & ruled_out
    assert "imitating 40 correct traces written by a rule" in found["rows"]["sft"]["words"]
    curves = found["rows"]["pass-at-k"]["curves"]
    assert [k for k, _ in curves["base"]] == [1, 2, 4, 8]
    values = [each["total"] / each["n"] for _, each in curves["base"]]
    assert values == sorted(values), "pass@k grows with k"


def test_rows_are_paired_with_the_run_on_its_own_test_problems(measured: Path) -> None:
    with open_run(measured) as reader:
        after = reader.answers("test-after")
    with open_run(measured / "validity/iteration-2/accept-all") as reader:
        control = reader.answers("test-after")
    pairs = [
        (mine["tier"], float(other["right"]), float(mine["right"])) for mine, other in zip(after, control, strict=True)
    ]
    assert [each["problem"] for each in after] == [each["problem"] for each in control]
    gain = rows_of(measured)["accept-all"]["gain"]
    assert gain == to_plain(paired_gain(pairs))


def test_controls_have_the_run_s_budget(measured: Path) -> None:
    """As many iterations, rollouts and steps at most; SFT has as many traces a tier, and samples nothing."""
    summaries = {
        path.parent.name: json.loads(path.read_text()) for path in measured.glob("validity/iteration-2/*/summary.json")
    }
    own = json.loads((measured / "summary.json").read_text())
    assert set(summaries) == {"shuffled", "accept-all", "format-only", "random-reward", "sft", "longer"}
    for name in ("shuffled", "accept-all", "format-only", "random-reward"):
        assert summaries[name]["rollouts"] == own["rollouts"] and summaries[name]["iterations"] == own["iterations"]
    assert summaries["sft"]["updates"] == own["updates"] and summaries["sft"]["rollouts"] == 0
    assert summaries["longer"]["rollouts"] == own["rollouts"] / 2 and summaries["longer"]["iterations"] == 1
    assert rows_of(measured)["longer"]["figures"]["budget"] == own["updates"]


def test_a_control_is_a_run_like_any_other(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(measured / "validity/iteration-2/shuffled"), "--format", "md"]) == 0
    assert "## Result" in capsys.readouterr().out


def test_what_is_finished_is_not_measured_again(controls: Path, measure: Deep, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(controls)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("measured again")

    for module, name in ((asking, "evaluate"), (training, "run_all"), (deep, "_check_model")):
        monkeypatch.setattr(module, name, refused)
    assert set(measure(controls)["rows"]) == set(CONTROLS)
    assert rows_of(controls) == before


@pytest.mark.slow
def test_other_sizes_measure_what_depends_on_them_alone(controls: Path, measure: Deep) -> None:
    before = rows_of(controls)
    measure(controls, "--pass-samples", "4")
    after = rows_of(controls)
    assert {name for name in before if before[name] != after[name]} == {"pass-at-k"}
    assert after["pass-at-k"]["asked"] == {"pass_problems": 10, "pass_samples": 4}
    trained = (controls / "validity/iteration-2/shuffled/run.sqlite").read_bytes()
    assert measure(controls, "--rows", "shuffled", "--n", "10")["rows"]["shuffled"]["n"] == 30
    assert (controls / "validity/iteration-2/shuffled/run.sqlite").read_bytes() == trained, "only compared anew"


@pytest.mark.slow
def test_a_larger_n_compares_anew_what_is_trained(run: Path, measured: Path, measure: Deep) -> None:
    rows = ("--rows", "shuffled,sft")
    few = measure(run, *rows, "--n", "5")["rows"]
    trained = [(run / f"validity/iteration-2/{name}/run.sqlite").read_bytes() for name in few]
    assert {name: row["n"] for name, row in few.items()} == {"shuffled": 15, "sft": 15}
    measure(run, *rows)
    assert rows_of(run) == {name: rows_of(measured)[name] for name in few}
    assert trained == [(run / f"validity/iteration-2/{name}/run.sqlite").read_bytes() for name in few]


def test_a_control_of_an_earlier_version_that_was_tested_on_fewer_problems_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["validity", "--deep", str(run), "--rows", "shuffled", "--quiet"]
    budget = training._same_budget
    with monkeypatch.context() as patch:
        patch.setattr(training, "_same_budget", lambda *given: changed(budget(*given), {"evaluation.test": 5}))
        assert cli.main([*arguments, "--n", "5"]) == 0
    capsys.readouterr()
    assert cli.main([*arguments, "--n", "6"]) == 2
    assert "tested on 5 problems per tier only: delete it, so that it is trained again" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_measured_other_tasks_has_all_controls(
    tmp_path: Path, measure: Deep, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are measured on dev problems, of which controls have none."""
    path, also = tmp_path / "run", ("--also-measure", "test_forgetting:OTHER")
    assert cli.main(["train", *TOY, *SIZES, *also, "--run-dir", str(path), "--quiet"]) == 0
    capsys.readouterr()
    assert cli.main(["validity", "--deep", str(path), *SMALL, "--dry-run"]) == 0
    cells = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert cells["shuffled"][1:3] == [str(2 * 8 * 4 + 120), "4"]
    training_controls = {"shuffled", "accept-all", "format-only", "random-reward", "sft", "longer"}
    found = measure(path, "--rows", ",".join(training_controls))
    assert set(found["rows"]) == training_controls and not found["left_out"]


def test_runs_of_a_study_may_differ_in_the_other_tasks_that_they_measure() -> None:
    made = settings_from({"also_measure": ("test_forgetting:OTHER",)})
    check_stored(to_plain(made), changed(made, {"evaluation.also_measure": ()}), "here")


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param("tuned-base", marks=SLOW), "accept-all", pytest.param("pass-at-k", marks=SLOW)]
)
def test_a_command_that_was_cut_off_goes_on(
    name: str, run: Path, measured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the middle of a control: the page shows what was finished, and the same command ends the same."""
    kept, left = list(CONTROLS)[: list(CONTROLS).index(name)], 50

    def interrupted(add: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt
            return add(*given, **named)

        return call

    from gce.app.evaluation.answer_file import AnswerFile
    from gce.app.training import run as training_run

    row = CONTROLS[name]

    def measured_half(context: Any) -> Row:
        with monkeypatch.context() as patch:
            patch.setattr(AnswerFile, "add", interrupted(AnswerFile.add))
            patch.setattr(training_run, "answer_record", interrupted(answer_record))
            return row.measure(context)

    with monkeypatch.context() as patch:
        patch.setitem(CONTROLS, name, evolve(row, measure=measured_half))
        assert cli.main(["validity", "--deep", str(run), *SMALL]) == 130
    command = f"gce validity --deep {run} {' '.join(SMALL)}"
    assert capsys.readouterr().err.rstrip().endswith(command)
    assert list(rows_of(run)) == kept
    assert all(f"<p>{each}: " in (run / "validity/controls.html").read_text() for each in kept)
    assert f"<p>{name}: " not in (run / "validity/controls.html").read_text()

    assert cli.main(["validity", "--deep", str(run), *SMALL]) == 0
    err = capsys.readouterr().err
    assert err.count("kept from an earlier call") == len(kept)
    assert name == "accept-all" or "answers reused from" in err
    assert rows_of(run) == rows_of(measured)


KILLED = """
import os, signal, sys
from gce.app.cli import main
from gce.app.evaluation.answer_file import AnswerFile

add, left = AnswerFile.add, 250

def killed(*given):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return add(*given)

AnswerFile.add = killed
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_command_that_was_killed_goes_on(run: Path, measured: Path, measure: Deep) -> None:
    """SIGKILL, which nothing can catch, in the middle of the third control."""
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    arguments = [sys.executable, "-c", KILLED, "validity", "--deep", str(run), *SMALL]
    killed = subprocess.run(arguments, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert list(rows_of(run)) == ["decontamination", "tuned-base"]
    measure(run)
    assert rows_of(run) == rows_of(measured)


def test_rows_are_chosen_by_name_and_the_rest_is_said_to_be_missing(run: Path, measure: Deep) -> None:
    found = measure(run, "--rows", "shuffled,decontamination")
    assert set(found["rows"]) == {"shuffled", "decontamination"} and len(found["missing"]) == len(CONTROLS) - 2
    assert json.loads((run / "validity.json").read_text())["controls"]["rows"] == found["rows"]


@pytest.mark.slow
def test_the_card_keeps_both_parts(controls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows_of(controls)
    assert cli.main(["validity", str(controls), "--n", "2"]) == 0
    card = json.loads((controls / "validity.json").read_text())
    assert card["lines"] and rows_of(controls) == before
    assert cli.main(["validity", "--deep", str(controls), *SMALL, "--pass-samples", "4"]) == 0
    assert json.loads((controls / "validity.json").read_text())["lines"] == card["lines"]
    capsys.readouterr()
    assert cli.main(["report", str(controls), "--json"]) == 0
    titles = [section["title"] for section in json.loads(capsys.readouterr().out)]
    assert {"Validity card", "Controls", "pass@k of the base and the trained model"} <= set(titles)


def test_a_run_that_goes_on_gets_new_controls(controls: Path, measure: Deep) -> None:
    assert cli.main(["train", "--run-dir", str(controls), "--resume", "--iterations", "3", "--quiet"]) == 0
    found = measure(controls, "--rows", "shuffled")
    assert set(found["rows"]) == {"shuffled"}, "the others are of another model"
    assert (controls / "validity/iteration-3/shuffled/run.sqlite").is_file()


def test_a_dry_run_says_what_is_left_and_writes_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["validity", "--deep", str(run), *SMALL, "--dry-run"]
    before = sorted(run.rglob("*"))
    capsys.readouterr()
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    cells = {line.split("  ")[0]: line.split() for line in out}
    assert cells["best-of-k"][1:3] == ["480", "0"], "40 problems in each of 3 tiers, 4 samples each"
    assert cells["tuned-base"][1] == str(4 * 3 * 3 * 3 + 120)
    assert cells["pass-at-k"][1] == str(2 * 30 * 8)
    assert cells["shuffled"][1:3] == [str(2 * 8 * 4 + 120), "4"]
    assert out[-1] == "dry run: nothing was written" and sorted(run.rglob("*")) == before
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["controls"][0]["control"] == "decontamination"


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        (
            ("--task", "toy_task:ADDITION", "--model", "toy_task:careless"),
            {"sft": "task addition has no demonstrations"},
        ),
        (("--admission", "shuffled"), {"shuffled": "the run itself was trained with admission shuffled"}),
        (("--drop-solved",), {"accept-all": "not with the run's settings: "}),
        (
            ("--iterations", "0", "--warm-up", "2", "--shots", "2"),
            dict.fromkeys(("shuffled", "accept-all", "format-only", "random-reward"), "the run has no rollouts"),
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_control_that_a_run_cannot_have_is_left_out(
    options: tuple[str, ...], left_out: dict[str, str], tmp_path: Path, measure: Deep
) -> None:
    path = tmp_path / "run"
    assert cli.main(["train", *TOY, *SIZES, *options, "--run-dir", str(path), "--quiet"]) == 0
    found = measure(path, "--rows", ",".join([*left_out, "decontamination"]))
    assert set(found["left_out"]) == set(left_out)
    assert all(found["left_out"][name].startswith(why) for name, why in left_out.items())


@pytest.mark.slow
def test_a_run_with_a_warm_up_is_trained_longer_on_its_demonstrations(tmp_path: Path, measure: Deep) -> None:
    path = tmp_path / "run"
    assert cli.main(["train", *TOY, *SIZES, "--warm-up", "3", "--shots", "2", "--run-dir", str(path), "--quiet"]) == 0
    found = measure(path, "--rows", "longer,sft,shuffled")
    summary = json.loads((path / "validity/iteration-3/longer/summary.json").read_text())
    assert summary["rollouts"] == 0 and summary["updates"] == found["rows"]["longer"]["figures"]["updates"]
    figures = found["rows"]["sft"]["figures"]
    assert figures["traces"] >= figures["admitted"], "its own demonstrations come on top"


def test_a_run_from_a_checkpoint_is_compared_with_that_base(run: Path, tmp_path: Path, measure: Deep) -> None:
    path, base = tmp_path / "second", run / "checkpoints/last"
    assert cli.main(["train", *TOY, *SIZES, "--adapter", str(base), "--run-dir", str(path), "--quiet"]) == 0
    rows = measure(path, "--rows", "best-of-k,decontamination")["rows"]
    assert rows["best-of-k"]["mean"]["value"] > 0.9, "the base is the checkpoint"
    words = rows["decontamination"]["words"]
    assert words.startswith("Rules out that test problems were trained on in this run: none of 120 ")
    assert "what the adapter that it began from was trained on was not checked" in words


def write_digests(path: Path, *digests: str, task: str = "addition") -> Path:
    path.write_text("\n".join([json.dumps({"digests": task, "source": "a text"}), *digests]) + "\n")
    return path


def test_the_certificate_reads_the_digests_of_a_text(run: Path, tmp_path: Path, measure: Deep) -> None:
    problem = draw_problem(SUMS, "small", "T1", "test", 3)
    for name, digests, said in (
        (
            "clean",
            ("0" * 16,),
            "Rules out that test problems were seen before, in training or in that text: none of 120",
        ),
        ("dirty", (problem.digest, "0" * 16), "Does not rule out that test problems were seen before: none of 120"),
    ):
        file = write_digests(tmp_path / name, *digests)
        row = measure(run, "--rows", "decontamination", "--decontaminate", str(file))["rows"]["decontamination"]
        assert row["words"].startswith(said) and f"{len(digests)} problems of a text" in row["words"]
    assert row["figures"]["in_text"] == 1 and problem.key in row["words"]
    again = measure(run, "--rows", "decontamination")["rows"]["decontamination"]
    assert again["words"] == row["words"], "without a file, what was found with one stays"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rows", "nothing"), "'nothing'"),
        (("--pass-problems", "1001", "--pass-samples", "1000"), "--pass-problems times --pass-samples must be at most"),
        (("--rows", "decontamination", "--decontaminate", "absent"), "cannot read absent"),
        (("--rows", "decontamination", "--decontaminate", "text"), "text is no file of digests"),
        (("--rows", "decontamination", "--decontaminate", "other"), "has digests of task beliefs, and the run is on"),
        (("--rows", "decontamination", "--decontaminate", "none"), "none has no digests after its first line"),
        (
            ("--rows", "decontamination", "--decontaminate", "short"),
            "short, line 4: '0123' is no digest as task addition",
        ),
        (("--rows", "decontamination", "--decontaminate", "capital"), "line 2: 'ABCDEFABCDEFABCD' is no digest"),
        (
            ("--rows", "decontamination", "--decontaminate", "prose"),
            "line 2: 'Once upon a time, there was a model that'",
        ),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...],
    said: str,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("no header\n")
    write_digests(Path("other"), task="beliefs")
    write_digests(Path("none"), "", " ")
    write_digests(Path("short"), "0" * 16, "", "0123")
    write_digests(Path("capital"), "ABCDEFABCDEFABCD")
    write_digests(Path("prose"), "Once upon a time, there was a model that learned.")
    capsys.readouterr()
    assert cli.main(["validity", "--deep", str(run), "--quiet", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err and not (run / "validity.json").exists()


@pytest.mark.slow
def test_a_run_is_named_as_its_own_folder(run: Path, monkeypatch: pytest.MonkeyPatch, measure: Deep) -> None:
    monkeypatch.chdir(run)
    found = measure(Path(), "--rows", "shuffled,best-of-k", "--n", "500")
    assert set(found["rows"]) == {"shuffled", "best-of-k"} and found["rows"]["shuffled"]["n"] == 120
    assert Path("validity/iteration-2/shuffled/summary.json").is_file()


@pytest.mark.parametrize("option", [("--rows", "sft"), ("--pass-samples", "2"), ("--dry-run",)])
def test_options_of_the_controls_need_deep(
    option: tuple[str, ...], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["validity", str(run), *option]) == 2
    assert f"{option[0]} needs --deep" in capsys.readouterr().err


def test_a_run_without_a_test_or_without_an_end_has_no_controls(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "untested"
    assert cli.main(["train", *TOY, *SIZES, "--test", "0", "--run-dir", str(path), "--quiet"]) == 0
    (run / "summary.json").unlink()
    capsys.readouterr()
    for each, said in ((path, "has no answers to test problems"), (run, "has not finished")):
        assert cli.main(["validity", "--deep", str(each)]) == 2
        assert said in capsys.readouterr().err


def test_a_page_is_written_without_matplotlib(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "gce.adapters.matplotlib_figures", raising=False)
    assert cli.main(["validity", "--deep", str(run), *SMALL, "--rows", "shuffled", "--quiet"]) == 0
    page = (run / "validity/controls.html").read_text()
    assert "shuffled: " in page and "<svg" not in page


@pytest.mark.slow
def test_controls_of_a_local_model(tmp_path: Path, measure: Deep) -> None:
    """A tiny random Llama, sampled and trained as any model is."""
    pytest.importorskip("mlx_lm")
    from tiny_llama import write_tiny_llama

    model, path = write_tiny_llama(tmp_path / "tiny"), tmp_path / "run"
    sizes = ("--problems", "4", "--rollouts", "2", "--iterations", "1", "--updates", "1", "--dev", "0", "--test", "3")
    options = ("--max-tokens", "12", "--layers", "2", "--threads", "1", "--model", str(model))
    task = ("--task", "imitator:SUMS")
    assert cli.main(["train", *task, *sizes, *options, "--run-dir", str(path), "--quiet"]) == 0
    few = ("--n", "3", "--pass-problems", "2", "--pass-samples", "2", "--tune", "1")
    found = measure(path, *few, "--rows", "accept-all,sft,pass-at-k,tuned-base")
    assert all(row["words"] for row in found["rows"].values()) and len(found["rows"]) == 4


# What the sentences and the tables say, from figures.


def gain(value: float, gained: int, lost: int, p: float) -> Gain:
    return Gain(Estimate(value, value - 0.05, value + 0.05), gained, lost, p, p)


@pytest.mark.parametrize(
    ("found", "p", "words"),
    [
        (
            gain(0.3, 40, 10, 1e-6),
            1e-5,
            "Rules out that X: run - control is +30.0 (+25.0 to +35.0) points (p < 0.001).",
        ),
        (
            gain(0.02, 12, 10, 0.8),
            1.0,
            "Does not rule out that X: run - control is +2.0 (-3.0 to +7.0) points (p = 1.000), which is not "
            "statistically significant.",
        ),
        (
            gain(-0.3, 10, 40, 1e-3),
            0.01,
            "Does not rule out that X, or more: run - control is -30.0 (-35.0 to -25.0) points (p = 0.010).",
        ),
        (None, None, "Does not rule out that X: no test problem was judged for both."),
    ],
)
def test_a_sentence_says_the_opposite_where_the_figures_do(found: Gain | None, p: float | None, words: str) -> None:
    control = evolve(CONTROLS["shuffled"], claim="X")
    assert conclusion(control, Row(gain=found), p) == words
    above = conclusion(control, Row(gain=found, over_base=Estimate(0.1, 0.02, 0.2)), p)
    assert found is None or above == f"{words} The control itself is +10.0 (+2.0 to +20.0) points above the base."
    assert conclusion(control, Row(gain=found, over_base=Estimate(0.1, -0.02, 0.2)), p) == words


@pytest.mark.parametrize(
    ("figures", "begins", "holds"),
    [
        ({"in_training": 0}, "Rules out that test problems were trained on: none of 100 ", "was not checked"),
        ({"in_training": 2}, "Does not rule out", "2 of 100 test problems among 1,000 training problems (a, b)"),
        (
            {"in_training": 0, "adapter": True},
            "Rules out that test problems were trained on in this run: ",
            "adapter that",
        ),
        (
            {"in_training": 0, "adapter": True, "source": "S", "text": 5000, "in_text": 0},
            "Rules out that test problems were seen before, in training in this run or in that text: ",
            "what the adapter that it began from was trained on was not checked.",
        ),
        (
            {"in_training": 0, "source": "S", "text": 5000, "in_text": 0},
            "Rules out",
            "none among the 5,000 problems of S",
        ),
        ({"in_training": 0, "source": "S", "text": 5000, "in_text": 3}, "Does not rule out", "and 3 among the 5,000"),
    ],
)
def test_a_certificate_says_what_was_checked(figures: dict[str, Any], begins: str, holds: str) -> None:
    words = contamination_words({"tested": 100, "trained": 1000, "examples": "a, b", **figures})
    assert words.startswith(begins) and holds in words


def samples(*right: str) -> tuple[Conversation, ...]:
    """Samples of the first test problems by their outcomes: + right, - wrong, ! failed."""
    found = []
    for index, outcomes in enumerate(right):
        problem = draw_problem(SUMS, "small", "T0", "test", index)
        for each in outcomes:
            verdict = {"+": Verdict("right", 1.0, "e", "1"), "-": Verdict("wrong", 0.0, "e", "1")}.get(each)
            verdicts = (verdict or Verdict("failed", None, "e", "1"),)
            completion = Completion("key", "w1", "stop", "policy")
            found.append(Conversation((Answer(problem, completion, verdicts, verdicts[0].score, each == "+"),)))
    return tuple(found)


def test_pass_at_k_is_over_problems_that_were_judged_whole(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: of three problems the third failed once. pass@2 of one right in four is 1 - C(3, 2) / C(4, 2) = 1/2."""
    found = {False: samples("+---", "----", "+++!"), True: samples("++++", "+-+-", "++++")}

    def evaluated(*_: Any, trained: bool, **__: Any) -> Any:
        return SimpleNamespace(conversations={"any": found[trained]})

    monkeypatch.setattr(asking, "_evaluated", evaluated)
    with open_run(run) as reader:
        context = Context(RunFacts.read(reader), ControlOptions(pass_problems=3, pass_samples=4), Terminal())
    control = CONTROLS["pass-at-k"]
    row = control.measure(context)
    for name, values in (("base", (1 / 8, 1 / 4, 1 / 2)), ("trained", (3 / 4, 11 / 12, 1.0))):
        assert [(k, each.n) for k, each in row.curves[name]] == [(1, 2), (2, 2), (4, 2)]
        assert [each.value for _, each in row.curves[name]] == pytest.approx(values)
    assert (row.n, row.failed, dict(row.figures)) == (2, 1, {"k": 4, "new": 1, "lost": 0})
    assert row.gain is not None and (row.gain.gained, row.gain.lost) == (1, 0)
    assert conclusion(control, row, row.gain.p).startswith(
        "Does not rule out that 4 samples of the base solve as many problems as 4 of the trained model (1 are solved "
        "by samples of the trained model alone, 0 by those of the base alone): run - control is "
    )
    table = pass_table(row)
    assert table.head[:2] == ("pass@k over problems, %", "n") and [each[1] for each in table.rows] == ["2", "2"]
    (figure,) = control_sections(Controls({"pass-at-k": row}))[-1].figures
    assert isinstance(figure, Lines) and figure.names == ["over 2 problems of all tiers"]

    found[False] = samples("+--!", "!---", "+++!")
    row = control.measure(context)
    assert (row.n, row.failed, row.gain, dict(row.curves)) == (0, 3, None, {})
    assert len(control_sections(Controls({"pass-at-k": row}))) == 1


COMPARED = [name for name, control in CONTROLS.items() if control.is_compared]


def test_pending_controls_count_in_holm_s_correction() -> None:
    """Of nine controls one is finished: its p is multiplied by nine; one that is left out does not count."""
    row = Row(gain=gain(0.3, 40, 10, 0.002))
    assert adjusted(Controls({"sft": row})) == {"sft": pytest.approx(9 * 0.002)}
    assert adjusted(Controls({"sft": row}, {"longer": "why"})) == {"sft": pytest.approx(8 * 0.002)}


@given(st.lists(st.floats(0, 1), min_size=len(COMPARED), max_size=len(COMPARED)), st.integers(1, len(COMPARED)))
def test_what_is_significant_stays_so_when_more_controls_finish(p_values: list[float], count: int) -> None:
    rows = {name: Row(gain=gain(0.1, 3, 2, p)) for name, p in zip(COMPARED, p_values, strict=True)}
    early = adjusted(Controls(dict(list(rows.items())[:count])))
    late = adjusted(Controls(rows))
    assert all(late[name] <= p + 1e-12 for name, p in early.items())


@given(st.lists(st.sampled_from(["T0", "T1", "T2"])), st.integers(0, 5))
def test_the_first_answers_of_each_tier_are_kept_in_order(tiers: list[str], n: int) -> None:
    answers = [{"tier": tier, "number": number} for number, tier in enumerate(tiers)]
    found = first_of_each_tier(answers, n)
    for tier in set(tiers):
        own = [each for each in answers if each["tier"] == tier]
        assert [each for each in found if each["tier"] == tier] == own[:n]


def test_a_table_has_every_control_from_the_beginning() -> None:
    rows = control_table(Controls({"sft": Row(gain=gain(0.3, 4, 1, 0.1))}, {"longer": "why"})).rows
    assert [row[0] for row in rows] == COMPARED
    said = {row[0]: row[1] for row in rows}
    assert (said["longer"], said["shuffled"], said["sft"]) == ("left out", "not finished", "-")


def test_controls_are_read_back_as_they_were_kept(measured: Path) -> None:
    card = json.loads((measured / "validity.json").read_text())
    found = stored(card, "run")
    assert json.loads(json.dumps(found.plain)) == card["controls"]
    assert stored({"controls": {"rows": {"of the future": {}}}}, "run") == Controls()


@pytest.mark.parametrize(
    "rows", [{"sft": {"gain": 1}}, {"sft": 1}, [], {"decontamination": {"figures": {}}}, {"pass-at-k": {"n": "x"}}]
)
def test_a_card_with_other_controls_is_refused(rows: Any) -> None:
    with pytest.raises(BadInput, match="has no controls as gce validity writes them"):
        stored({"controls": {"rows": rows}}, "run")


def test_a_file_of_digests_is_read_whole(tmp_path: Path) -> None:
    file = write_digests(tmp_path / "digests", "a", "b", "", "a")
    assert read_digests(file, SUMS, ["0", "f"]) == Digests("a text", frozenset({"a", "b"}))


def test_digests_of_other_shapes_are_those_of_a_list_that_has_its_own(tmp_path: Path) -> None:
    file = write_digests(tmp_path / "digests", "row 1", "a")
    assert read_digests(file, SUMS, ["row 7", "0"]).found == {"row 1", "a"}
    with pytest.raises(BadInput, match="line 2: 'row 1' is no digest as task addition gives them, such as 0"):
        read_digests(file, SUMS, ["0", "f"])


def test_random_rewards_are_as_frequent_as_right_rollouts_of_the_whole_run(measured: Path) -> None:
    with open_run(measured) as reader:
        facts = RunFacts.read(reader)
        rollouts = list(reader.read("rollouts"))
    of_t1 = [each["right"] for each in rollouts if each["tier"] == "T1"]
    assert facts.pass_rates()["T1"] == sum(of_t1) / len(of_t1)
    settings = json.loads((measured / "validity/iteration-2/random-reward/summary.json").read_text())
    assert settings["iterations"] == 2 and conclusions(Controls()) == {} and ControlOptions().pass_samples == 64
