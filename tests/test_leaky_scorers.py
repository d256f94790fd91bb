"""Scorers of `gce.task` that pay for answers which ignore the question: check and audit hold them to a limit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import gce
from gce.app import cli
from gce.errors import BadInput
from gce.testing.verifiers.check import check_task

Row = Mapping[str, Any]
SUMS: list[dict[str, Any]] = [{"prompt": f"What is {a} + {b}?", "answer": a + b} for a in range(5) for b in range(8)]
WORDS: list[dict[str, Any]] = [
    {"prompt": f"Write a sentence with sun{n} and moon{n}.", "words": [f"sun{n}", f"moon{n}"]} for n in range(40)
]


def share_of_words(answer: str, problem: Row) -> float:
    return sum(word in answer for word in problem["words"]) / len(problem["words"])


def exact(answer: str, problem: Row) -> bool:
    return answer == str(problem["answer"])


def long_pays(answer: str, problem: Row) -> float:
    return 1.0 if exact(answer, problem) else 0.9 * (len(answer) > 20)


def checked(task: gce.Task, **options: Any) -> Any:
    return gce.check(task, progress=False, **{"responses": 100, "problems": 3} | options)


def test_a_scorer_that_the_prompt_passes_is_found_without_a_column_answer() -> None:
    task = gce.task(WORDS, share_of_words, name="words")
    report, audited = checked(task), gce.audit(task, progress=False)
    assert not report.ok and not audited.ok
    assert "blind, passes: repeats the prompt: 10 of 10 right on all, the limit is 25 %" in str(report)
    assert "above the limit of 25 %: repeats the prompt on all, lower bound 72.2 %" in str(audited)
    assert "add a column `answer`" in str(report) and "`worked`" not in str(report)


def test_partial_credit_of_a_fixed_text_is_found() -> None:
    """0.9 for whatever is long, on all ten test questions."""
    task = gce.task(SUMS, long_pays, name="long")
    report, audited = checked(task), gce.audit(task, progress=False)
    assert set(report.found) == {"blind"} and {each.kind for each in report.findings} == {"partial credit"}
    said = [each.message for each in report.findings]
    assert any(each.startswith("generic answer gets a mean reward of 0.90 on 10 problems of all") for each in said)
    assert any(each.startswith("always ") for each in said), "a hostile text too"
    assert not audited.ok and "a mean reward of 0.90 by partial credit" in str(audited)
    assert audited.plain["above_limit"][0]["reward"]["total"] == pytest.approx(9.0)


def test_the_command_line_exits_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"leaky_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "import gce\n"
        "TASK = gce.task([{'prompt': f'Say w{n}.', 'word': f'w{n}'} for n in range(40)],\n"
        "                lambda answer, problem: problem['word'] in answer, name='says')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert cli.main(("audit", "--task", f"{name}:TASK")) == 1
    assert cli.main(("check", "--task", f"{name}:TASK", "--responses", "50")) == 1


@pytest.mark.parametrize("problems", [SUMS, WORDS[:4], [{**row, "answer": n % 2} for n, row in enumerate(WORDS)]])
def test_sound_scorers_and_small_lists_are_not_refused(problems: list[dict[str, Any]]) -> None:
    """Where one of two answers is always right, so is half of what is fixed."""
    task = gce.task(problems, lambda answer, problem: answer == str(problem.get("answer")), name="sound")
    assert checked(task).ok and gce.audit(task, progress=False).ok


def test_the_limit_follows_the_most_common_answer_of_each_tier() -> None:
    """Half of the answers of a coin are heads: 50 + 10 %. A constant tier stops at 90 %, and no answers mean 25 %."""
    rows = [{"prompt": f"{tier} {n}", "tier": tier} for tier in ("coin", "same", "none") for n in range(20)]
    for row, n in zip(rows[:40], range(40), strict=True):
        row["answer"] = ("heads", "tails")[n % 2] if n < 20 else "yes"
    limits = gce.task(rows, lambda *_: False, name="tiers").references.limits
    assert limits == {"coin": 0.6, "same": 0.9, "none": 0.25}

    def draw(rng: random.Random, tier: str) -> dict[str, Any]:
        n = rng.randrange(10**6)
        return {"prompt": f"Is {n} even?", "answer": "yes" if n % 2 == 0 else "no"}

    drawn = gce.task(draw, exact, name="even")
    assert 0.55 < drawn.references.limits["all"] < 0.8
    assert checked(drawn).ok


def test_declared_limits_hold_for_the_upper_bound() -> None:
    """None right of 10 has an upper bound of 27.8 %."""
    task = gce.task(SUMS, exact, name="sums")
    strict = evolve(task, references=evolve(task.references, limits={"*": 0.25}, assumed=False))
    assert gce.audit(task, progress=False).ok and not gce.audit(strict, progress=False).ok


def test_partial_credit_beyond_chance_is_found_in_a_short_list_and_a_little_is_not() -> None:
    task = gce.task(SUMS, lambda answer, problem: 1.0 if exact(answer, problem) else 0.6, name="more")
    assert "partial credit" in str(checked(task)) and not gce.audit(task, progress=False).ok
    tenth = gce.task(SUMS, lambda answer, problem: 1.0 if exact(answer, problem) else 0.1, name="tenth")
    assert checked(tenth).ok and gce.audit(tenth, progress=False).ok


def test_the_second_judge_gets_the_row_as_the_reward_does() -> None:
    seen: list[Any] = []

    def accepts(row: Row, text: str) -> bool:
        seen.append(row)
        return text.rstrip().rpartition("\n")[2].strip() == str(row["answer"])

    task = gce.task(SUMS, exact, name="sums")
    assert check_task(task, accepts=accepts, problems=1, responses=20).ok
    report = checked(task, accepts=accepts)
    assert report.ok and report.exploits.n == 100 and report.false_rejects.n > 0
    assert all(set(row) == {"prompt", "answer"} for row in seen)
    with pytest.raises(TypeError):
        seen[0]["answer"] = 1


def test_a_second_judge_that_raises_is_one_line() -> None:
    with pytest.raises(BadInput) as caught:
        checked(gce.task(SUMS, exact, name="sums"), accepts=lambda row, _text: row["anwser"])
    assert str(caught.value).startswith("accepts raised KeyError: 'anwser' for the response ")
    assert "expected a function (row, text)" in str(caught.value) and "\n" not in str(caught.value)


def test_judging_takes_the_own_task() -> None:
    task = gce.task(SUMS, exact, name="sums")
    problem = gce.draw_problem(task, "questions", "all", "test", 0)
    assert gce.judge(problem, str(problem.instance.row["answer"]), task).right
    for name in ("sums", "scheduling"):
        problem = gce.draw_problem(gce.task(SUMS, exact, name=name), "questions", "all", "test", 0)
        with pytest.raises(ValueError, match=f"'{name}' is no shipped task: give the problem's task"):
            gce.judge(problem, "7")


@pytest.mark.parametrize(
    ("extract", "said"),
    [
        (r"\d+", r"extract='\\d+' is a regular expression with no group: expected one group, ( and )"),
        (r"(\d)(\d)", "is a regular expression with 2 groups: expected one group"),
        ("lastline", "unknown extraction 'lastline': expected 'last line', 'text'"),
    ],
)
def test_an_expression_needs_one_group(extract: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        gce.task(SUMS, exact, name="t", extract=extract)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_reward_is_tried_only_on_what_the_extraction_lets_through() -> None:
    rows = [{"prompt": row["prompt"]} for row in SUMS]
    for extract in (r"(\d+)", r"Answer: (\d+)"):
        gce.task(rows, lambda answer, _: int(answer) > 10**6, name="digits", extract=extract)
    with pytest.raises(BadInput, match=r"the reward raised ValueError: invalid literal .* for the answer 'no idea'"):
        gce.task(rows, lambda answer, _: int(answer) > 10**6, name="digits")
    with pytest.raises(BadInput, match="for the answer '0' the reward returned None"):
        gce.task(rows, lambda answer, _: None, name="digits", extract=r"(\d+)")
