"""What the program writes and prints is what the committed digests say, in whatever modules it lies."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from golden import committed, items
from golden.canonical import ABSENT, digest, first_difference, repeatable
from golden.items import ITEMS, NOT_IMPORTED, PROBLEMS, hostile_answers
from golden.making import Skipped, make
from golden.program import Program, entry_point

PORTABLE = [name for name, item in ITEMS.items() if item.portable]
MOST_BYTES = 300_000
# fmt: off
KINDS = {
    "capacity", "deadline", "duplicate", "grammar", "horizon", "missing", "missing-answer", "precedence",
    "several-answers", "unknown",
}
# fmt: on


def complaint(name: str, differing: list[str]) -> str:
    """What differs, and how to see why."""
    shown = ", ".join(differing[:5]) + (f" and {len(differing) - 5} more" if len(differing) > 5 else "")
    return (
        f"{name}: {len(differing)} outputs are not as committed: {shown}. To see why: python -m tests.golden compare "
        f"COMMIT --only {name}; where the change is meant: python -m tests.golden write --only {name}"
    )


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(entry_point())


@pytest.mark.slow
@pytest.mark.parametrize("name", PORTABLE)
def test_outputs_are_as_committed(name: str, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ITEMS[name].needs:
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    try:
        outputs = make(name, program)
    except Skipped as reason:
        pytest.skip(str(reason))
    differing = committed.changed(outputs, committed.read_digests()[name])
    assert not differing, complaint(name, differing)


def test_every_portable_item_is_committed_and_the_files_are_small() -> None:
    assert set(committed.read_digests()) == set(PORTABLE)
    files = [path for path in committed.HERE.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert set(committed.PINNED) == set(committed.read_constraints())


def test_there_are_two_hundred_hostile_answers_and_every_task_has_some() -> None:
    answers = hostile_answers()
    assert len({(answer["task"], answer["tier"], answer["text"]) for answer in answers}) == len(answers) == 200
    assert {answer["task"] for answer in answers} == set(PROBLEMS)


@pytest.mark.slow
def test_hostile_answers_have_every_kind_of_defect() -> None:
    kinds = Counter(
        violation.kind
        for answer in hostile_answers()
        if answer["task"] != "programs"
        for violation in judge_of(answer).violations
    )
    assert set(kinds) == KINDS
    assert min(kinds.values()) >= 5


# What differs is found


@pytest.fixture
def made(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return lambda name: make(name, program)


@pytest.mark.slow
def test_a_changed_verdict_is_found(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import gce

    judge = gce.judge

    def lenient(problem: Any, text: str) -> Any:
        """Takes one of the 160 answers for right."""
        verdict = judge(problem, text)
        return gce.Verdict("right", 1.0, verdict.evaluator, verdict.version) if text == target["text"] else verdict

    target = next(each for each in hostile_answers() if judge_of(each).status == "wrong")
    place = hostile_answers().index(target)
    monkeypatch.setattr(gce, "judge", lenient)
    differing = committed.changed(made("verdicts"), committed.read_digests()["verdicts"])
    assert differing == [f"{target['task']}/{place}"]
    assert "python -m tests.golden compare" in complaint("verdicts", differing)


def judge_of(answer: dict[str, Any]) -> Any:
    import gce

    problem = gce.draw_problem(
        gce.TASKS[answer["task"]], answer["preset"], answer["tier"], answer["split"], answer["index"]
    )
    return gce.judge(problem, answer["text"])


def test_a_changed_prompt_is_found(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import attrs

    import gce

    draw = gce.draw_problem

    def wordy(task: Any, preset: str, tier: str, split: Any, index: int) -> Any:
        """One of a thousand problems has a space more in its prompt."""
        problem = draw(task, preset, tier, split, index)
        if (task.name, preset, tier, index) != ("scheduling-brief", "paper", "T4", 7):
            return problem
        (message,) = problem.prompt
        return attrs.evolve(problem, prompt=(gce.Message(message.role, message.content + " "),))

    monkeypatch.setattr(gce, "draw_problem", wordy)
    monkeypatch.setattr(items, "PROBLEMS", {"scheduling-brief": [("paper", tier, "train") for tier in ("T2", "T4")]})
    known = committed.read_digests()["problems"]
    found = made("problems")
    differing = committed.changed(found, {name: known[name] for name in found})
    assert differing == ["scheduling-brief/paper/T4/train/0-9"]


def test_a_changed_record_is_found(made: Any, tmp_path: Path) -> None:
    """One verdict of one rollout, in the database of a run."""
    pytest.importorskip("safetensors")
    made("scripted")
    known = committed.read_digests()["scripted"]
    shutil.copytree("run", "copy", symlinks=True)
    assert committed.changed(items.run_outputs(Path("copy")), known) == []
    with closing(sqlite3.connect("copy/run.sqlite")) as database, database:
        found = database.execute(
            "UPDATE records SET body = replace(body, '\"right\":true', '\"right\":false') "
            "WHERE stream = 'rollouts' AND sequence = 3 AND body LIKE '%\"right\":true%'"
        )
        assert found.rowcount == 1
    assert committed.changed(items.run_outputs(Path("copy")), known) == ["rollouts/3"]


def test_a_changed_missing_or_further_output_is_found() -> None:
    outputs = {"rollouts/0": {"right": True, "seconds": 1.0}, "rollouts/1": {"right": False}}
    known = committed.digests_of(repeatable(outputs))
    assert committed.changed(repeatable(outputs), known) == []
    assert committed.changed(repeatable({**outputs, "rollouts/0": {"right": True, "seconds": 2.0}}), known) == []
    assert committed.changed(repeatable({**outputs, "rollouts/1": {"right": True}}), known) == ["rollouts/1"]
    assert committed.changed(repeatable({**outputs, "rollouts/2": {}}), known) == ["rollouts/2"]
    assert committed.changed(repeatable({"rollouts/0": {"right": True}}), known) == ["rollouts/1"]


def test_a_renamed_field_is_found_also_where_an_extra_is_missing() -> None:
    known = committed.digests_of({"gce.a.Verdict": ["status", "score"], "gce.lora.Lora": ["rank"]})
    some = {"gce.a.Verdict": ["status", "score"], f"{NOT_IMPORTED}gce.lora": True}
    assert committed.changed(some, known) == []
    assert committed.not_made(some, known) == {"gce.lora.Lora"}
    assert committed.changed({**some, "gce.a.Verdict": ["state", "score"]}, known) == ["gce.a.Verdict"]
    assert committed.changed({**some, "gce.a.Other": []}, known) == ["gce.a.Other"]
    gone = {"gce.a.Verdict": ["status", "score"]}
    assert committed.changed(gone, known) == ["gce.lora.Lora"], "nothing is missing, so it is gone"


def test_the_first_difference_is_named_with_its_path_and_both_values() -> None:
    record = {"key": "a", "verdicts": [{"score": 1.0, "status": "right"}]}
    assert first_difference(record, json.loads(json.dumps(record))) is None
    other = {"key": "a", "verdicts": [{"score": 0.0, "status": "wrong"}]}
    assert first_difference(record, other) == "verdicts[0].score: 1.0 against 0.0"
    assert first_difference({"a": {"b": 1}}, {"a": {}}) == f"a.b: 1 against {ABSENT!r}"
    assert first_difference([1], [1, 2]) == f"[1]: {ABSENT!r} against 2"
    assert first_difference(1, 1.0) == "the value: 1 against 1.0"
    assert first_difference(1, True) == "the value: 1 against True"
    far = first_difference("x" * 10_000 + "a", "x" * 10_000 + "b")
    assert far is not None and "xa'" in far and "xb'" in far and len(far) < 500


def test_digests_forgive_the_last_digits_of_a_float_and_nothing_else() -> None:
    assert digest({"loss": 0.1 + 0.2}) == digest({"loss": 0.3})
    assert digest({"loss": 0.3000001}) != digest({"loss": 0.3})
    assert digest({"loss": 1}) != digest({"loss": 1.0}) != digest({"losses": 1.0})
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})
