"""Scorers of `gce.task` that pay for answers which ignore the question: check and audit hold them to a limit."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import gce
from gce.app import cli
from gce.domain.statistics import mean_of_problems
from gce.domain.tasks.extraction import final_part
from gce.errors import BadInput
from gce.testing.verifiers.bench import beyond_chance
from gce.testing.verifiers.check import check_task
from gce.testing.verifiers.responses import near_misses

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


# Scorers that people write


CITIES = "Paris Berlin Madrid Lisbon Vienna Warsaw Athens Stockholm Helsinki Copenhagen Dublin Budapest Sofia Belgrade"
CAPITALS = [{"prompt": f"Capital number {n}?", "answer": city} for n, city in enumerate(CITIES.split() * 3)]
TWO_DIGITS = [{"prompt": f"What is {a} + {b}?", "answer": a + b} for a in range(10, 30) for b in (11, 24)]
LETTERS = [{"prompt": f"Choice {n}?", "answer": "ABCD"[n * 7 % 4]} for n in range(60)]
CHOICES = [{"prompt": f"Choice {n}?", "answer": f"{'ABC'[n * 7 % 3]}) {n}"} for n in range(60)]
PRIMES = [{"prompt": f"Is {n} prime?", "answer": "yes" if n in (41, 43, 47, 53, 59) else "no"} for n in range(40, 80)]
ITEMS = [{"prompt": f"The digits of {n}?", "answer": ", ".join(str(n))} for n in range(1234, 1274)]
RATIOS = [{"prompt": f"{n} / 7, to two places?", "answer": round(n / 7, 2)} for n in range(100, 140)]
UNKNOWN = [{"prompt": f"Is {n} even?", "n": n} for n in range(40)]
YES = {"yes": "yes", "true": "yes", "1": "yes", "no": "no", "false": "no", "0": "no"}


def own(problem: Row) -> str:
    return str(problem["answer"])


def number(text: str) -> float:
    """NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def evaluated(text: str) -> bool | float:
    try:
        return eval(text)  # type: ignore[no-any-return]
    except Exception:
        return False


def nan_is_close(answer: str, problem: Row) -> bool:
    try:
        return not abs(float(answer) - problem["answer"]) > 0.01
    except ValueError:
        return False


def right_if_it_raises(answer: str, problem: Row) -> bool:
    try:
        return bool(int(answer) == problem["answer"])
    except ValueError:
        return True


def close(answer: str, problem: Row) -> bool:
    return math.isclose(number(answer), problem["answer"], rel_tol=0.05)


def similar(answer: str, problem: Row) -> float:
    return SequenceMatcher(None, answer.lower(), own(problem).lower()).ratio()


def plain(text: str) -> str:
    return re.sub(r"[\W_]", "", text).lower()


def shared_letters(answer: str, problem: Row) -> float:
    """Partial credit for a common beginning."""
    return 1.0 if answer == own(problem) else 0.3 * (answer[:2] == own(problem)[:2])


Score = Callable[[str, Row], Any]
LEAKY: dict[str, tuple[list[dict[str, Any]], Score, str]] = {
    "own answer in the text": (TWO_DIGITS, lambda a, p: own(p) in a, "hedging, any place"),
    "text in the own answer": (CAPITALS, lambda a, p: a.lower() in own(p).lower(), "blind, constant: always 'a' is"),
    "text in the own number": (TWO_DIGITS, lambda a, p: a in own(p), "near misses, a digit dropped"),
    "NaN is close": (TWO_DIGITS, nan_is_close, "blind, constant: always 'nan' is right on 32 of the 32 problems"),
    "lower case on one side": (CAPITALS, lambda a, p: a.lower() == own(p), "own answers, refused"),
    "unanchored match": (TWO_DIGITS, lambda a, p: re.match(own(p), a) is not None, "near misses, a digit appended"),
    "text as a pattern": (CAPITALS, lambda a, p: a in ("." * n + "*" for n in range(9)) or a == own(p), "always '.*'"),
    "any number": (TWO_DIGITS, lambda a, p: own(p) in re.findall(r"\d+", a), "hedging, any place"),
    "evaluates the text": (TWO_DIGITS, lambda a, p: evaluated(a) == p["answer"], "blind, passes: copies an expression"),
    "without punctuation": (TWO_DIGITS, lambda a, p: plain(a) == plain(own(p)), "near misses, a decimal point"),
    "exceptions are right": (TWO_DIGITS, right_if_it_raises, "blind, constant: always"),
    "first letter": (CAPITALS, lambda a, p: a[0] == own(p)[0], "near misses, letters reversed but the first"),
    "fuzzy": (CAPITALS, lambda a, p: similar(a, p) >= 0.5, "near misses, half of each word"),
    "beginning": (CAPITALS, lambda a, p: a.startswith(own(p)), "near misses, letters appended"),
    "end": (CAPITALS, lambda a, p: a.endswith(own(p)), "near misses, letters in front"),
    "same letters": (CAPITALS, lambda a, p: sorted(a) == sorted(own(p)), "near misses, letters reversed"),
    "size alone": (TWO_DIGITS, lambda a, p: abs(number(a)) == p["answer"], "near misses, the opposite sign"),
}
"""Questions, score, and what the check says."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAKY)
def test_a_leaky_scorer_is_found_with_what_it_accepts(name: str) -> None:
    rows, score, said = LEAKY[name]
    report = checked(gce.task(rows, score, name="leaky"))
    assert not report.ok
    assert any(f"{each.check}, {each.kind}: {each.message}".find(said) >= 0 for each in report.findings), report


SOUND: dict[str, tuple[list[dict[str, Any]], Score]] = {
    "text": (CAPITALS, lambda a, p: a.strip(" .").casefold() == own(p).casefold()),
    "whole number": (TWO_DIGITS, lambda a, p: number(a) == p["answer"]),
    "tolerance": (RATIOS, close),
    "letter of a choice": (LETTERS, lambda a, p: a.strip("(). ").upper() == own(p)),
    "letter or text of a choice": (CHOICES, lambda a, p: a == own(p) or a.strip("(). ").upper() == own(p)[0]),
    "words for yes and no": (PRIMES, lambda a, p: YES.get(a.strip(" .").lower()) == own(p)),
    "last number": (TWO_DIGITS, lambda a, p: (re.findall(r"-?\d+", a) or [""])[-1] == own(p)),
    "items in any order": (ITEMS, lambda a, p: sorted(plain(each) for each in a.split(",")) == sorted(own(p)[::3])),
    "typing errors": (CAPITALS, lambda a, p: similar(a, p) >= 0.9),
    "partial credit": (CAPITALS, shared_letters),
    "yes and no, answers unknown": (UNKNOWN, lambda a, p: a == ("no" if p["n"] % 2 else "yes")),
    "several are right": (TWO_DIGITS, lambda a, p: number(a) > 0 and number(a) % p["answer"] == 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_scorer_is_clean(name: str) -> None:
    report = checked(gce.task(*SOUND[name], name="sound"))
    assert report.ok, report


@pytest.mark.slow
@pytest.mark.parametrize("extract", ["boxed", ("json", "answer"), r"Answer: (.+)", "text"])
def test_answers_are_attacked_in_the_format_that_is_read(extract: Any) -> None:
    """An empty box beside an answer is no second answer."""
    assert checked(gce.task(TWO_DIGITS, exact, name="exact", extract=extract)).ok
    task = gce.task(TWO_DIGITS, nan_is_close, name="nan", extract=extract)
    assert f"always {task.audit.write('nan')!a} is right on" in str(checked(task))


def test_own_answers_that_the_score_refuses_are_shown_with_their_rows() -> None:
    """Three of eight rows have an upper-case letter; the first of them are shown."""
    rows = [{"prompt": f"{n}?", "answer": answer} for n, answer in enumerate(["a", "B", "c", "D", "e", "F", "g", "h"])]
    report = checked(gce.task(rows, lambda a, p: a == own(p).lower(), name="cased"))
    (finding,) = [each for each in report.findings if each.check == "own answers"]
    assert finding.message.startswith("the score refuses the row's own answer in 3 of 8 rows: row ")
    shown = re.findall(r"(row \d), '(.)': wrong \(reward 0\)", finding.message)
    assert sorted(shown) == [("row 2", "B"), ("row 4", "D"), ("row 6", "F")]
    typed = checked(gce.task(SUMS, lambda a, p: a == p["answer"], name="typed"))
    assert "in 40 of 40 rows" in str(typed) and "compare with str(problem['answer'])" in str(typed)


def test_a_second_judge_clears_near_misses_and_constants() -> None:
    """Any number above the one asked for is right, and the column `answer` holds one of them."""
    rows = [{"prompt": f"Above {n}?", "n": n, "answer": n + 1} for n in range(10, 60)]

    def above(answer: str, problem: Row) -> bool:
        return re.fullmatch("[0-9]{1,9}", answer) is not None and int(answer) > problem["n"]

    task = gce.task(rows, above, name="above")
    found = checked(task).found
    assert found["near misses"] and found["blind"]
    report = checked(task, accepts=lambda row, text: above(text.strip().rpartition("\n")[2].strip(), row))
    assert "near misses" not in report.found
    assert not any(each.kind == "constant" for each in report.findings)


def test_chance_is_the_binomial_one_divided_by_the_family() -> None:
    """Of 10, 4 right by chance of 5 %: P(X >= 4) = 0.00103, too rare for 40 constants (0.00125), not for 50 (0.001)."""
    tail = sum(math.comb(10, k) * 0.05**k * 0.95 ** (10 - k) for k in range(4, 11))
    assert tail == pytest.approx(0.001028, abs=1e-6)
    assert beyond_chance(4, 10, 0.05, 40) and not beyond_chance(4, 10, 0.05, 50)
    assert not beyond_chance(0, 0, 0.05, 1)


def test_near_misses_differ_from_the_answer() -> None:
    assert near_misses("28") == {
        "a digit appended": "287",
        "a digit in front": "728",
        "a digit dropped": "2",
        "the opposite sign": "-28",
        "a decimal point": "2.8",
        "letters reversed": "82",
    }
    assert near_misses("-0.5")["the opposite sign"] == "0.5" and near_misses("0")["a digit appended"] == "07"
    assert near_misses("New Delhi") == {"half of the first word": "De", "half of each word": "New De"}
    assert near_misses("Oslo")["letters reversed but the first"] == "Ools"
    assert near_misses("Oslo")["letters in front"] == "olsOOslo"
    assert near_misses("?") == near_misses("") == {}


def worked(n: int) -> dict[str, str]:
    boxes, pens, lost = 7 + n, 3 + n % 5, n % 4 + 1
    lines = (f"There are {boxes}*{pens} = <<{boxes}*{pens}={boxes * pens}>>{boxes * pens} pens.", f"{lost} are lost.")
    return {
        "prompt": f"{boxes} boxes of {pens} pens, {lost} lost?",
        "answer": "\n".join((*lines, f"#### {boxes * pens - lost}")),
    }


WORKED = [worked(n) for n in range(60)]


def final_number(text: str) -> str:
    found = re.search("#### (-?[0-9.,]+)", text)
    return found[1].replace(",", "") if found else ""


def final_numbers_agree(answer: str, problem: Row) -> bool:
    return final_number(answer) == final_number(problem["answer"])


def one_begins_the_other(answer: str, problem: Row) -> bool:
    return bool(final_number(answer)) and final_number(answer).startswith(final_number(problem["answer"]))


def test_another_working_of_the_same_final_answer_is_not_another_answer() -> None:
    """As GSM8K is scored: what stands before #### is for people."""
    report = checked(gce.task(WORKED, final_numbers_agree, extract="text", name="worked"), responses=20)
    assert report.ok and not any(each.severity == "doubtful" for each in report.notes), str(report)
    assert report.tried["near misses"] > 100 and report.tried["changes"] > 50
    report = checked(gce.task(WORKED, one_begins_the_other, extract="text", name="worked"), responses=20)
    (found,) = [each for each in report.findings if each.check == "near misses" and each.kind == "a digit appended"]
    assert found.message.startswith("right for 39 of 39 answers") and re.search(
        r"#### (\d+)7' for .*#### \1'", found.message
    )


@pytest.mark.parametrize(
    ("solution", "parts"),
    [
        ("3*4 = 12 pens.\n12 - 2 = 10\n#### 10", ("3*4 = 12 pens.\n12 - 2 = 10\n#### ", "10", "")),
        ("It is 3*4.\nThe final answer is: 12 \n", ("It is 3*4.\nThe final answer is: ", "12", " \n")),
        (r"So $x = 3$, that is $\boxed{\frac{1}{3}}$.", (r"So $x = 3$, that is $\boxed{", r"\frac{1}{3}", "}$.")),
        *(
            (text, ("", text, ""))
            for text in ("10", "#### 10", "Answer: 10", r"\boxed{10}", "", "A 3, B 4", r"\boxed{1")
        ),
        *((text, ("", text, "")) for text in ("It has no answer to that.\nAnd more.", "#### 10\n20")),
    ],
)
def test_the_final_part_of_a_worked_solution_is_what_it_marks(solution: str, parts: tuple[str, str, str]) -> None:
    assert final_part(solution) == parts and "".join(parts) == solution


def test_a_scorer_that_the_prompt_passes_is_found_without_a_column_answer() -> None:
    task = gce.task(WORDS, share_of_words, name="words")
    report, audited = checked(task), gce.audit(task, progress=False)
    assert not report.ok and not audited.ok
    assert "blind, passes: repeats the prompt: 10 of 10 right, the limit is 25 %" in str(report)
    assert "above the limit of 25 %: repeats the prompt on all, lower bound 72.2 %" in str(audited)
    assert "add a column `answer`" in str(report) and "`worked`" not in str(report)


def test_the_letter_that_a_leaky_scorer_takes_most_often_is_a_baseline_of_audits() -> None:
    rows = [{"prompt": f"City {n}?", "answer": city} for n, city in enumerate(CITIES.split() * 5)]
    leaky = gce.task(rows, lambda a, p: a.lower() in own(p).lower(), name="leaky")
    best = str(gce.audit(leaky, progress=False)).split("best prompt-blind baseline of each group:\n")[1]
    name, share = best.splitlines()[0].split("  ")[-1], float(best.split()[1])
    assert name == "best fixed answer" and share > 50
    for questions, score in ((CAPITALS, exact), (LETTERS, exact), (PRIMES, exact), (UNKNOWN, lambda a, p: a == "no")):
        assert "best fixed answer" not in str(gce.audit(gce.task(questions, score, name="sound"), progress=False))


def begins(answer: str, problem: Row) -> float:
    """Less for what begins with the right answer."""
    return 1.0 if exact(answer, problem) else 0.8 * answer.startswith(own(problem))


@pytest.mark.slow
def test_near_misses_that_earn_most_of_the_reward_are_doubtful() -> None:
    report = checked(gce.task(TWO_DIGITS, begins, name="begins"))
    assert report.ok
    said = {each.kind: each.message for each in report.notes if each.check == "near misses"}
    assert re.fullmatch(
        r"a digit appended: '(\d\d)\d' earns 0\.80, the own answer '\1' 1\.00, for (\d+) of \2 answers",
        said["a digit appended"],
    )
    assert all(each.severity == "doubtful" for each in report.notes if each.check == "near misses")
    little = gce.task(TWO_DIGITS, lambda a, p: 1.0 if exact(a, p) else 0.5 * begins(a, p), name="little")
    assert not any(each.check == "near misses" for each in checked(little).notes)


def test_partial_credit_of_a_fixed_text_is_found() -> None:
    """0.9 for whatever is long, on all ten test questions."""
    task = gce.task(SUMS, long_pays, name="long")
    report, audited = checked(task), gce.audit(task, progress=False)
    assert set(report.found) == {"blind"} and {each.kind for each in report.findings} == {"partial credit"}
    said = [each.message for each in report.findings]
    assert any(each.startswith("generic answer gets a mean reward of 0.90 on 10 problems without") for each in said)
    assert any(each.startswith("always ") for each in said), "a hostile text too"
    low = mean_of_problems([0.9] * 10).low
    lines = [each for each in str(audited).splitlines() if "above the limit" in each]
    line = f"mean reward above the limit of 0.25: generic answer on all, 0.90 by partial credit, lower bound {low:.3f}"
    assert not audited.ok and lines == [f"{line}; and 2 others"]
    assert audited.plain["above_limit"][0]["reward"]["total"] == pytest.approx(9.0)


ANAGRAMS = [
    {"prompt": f"Unscramble the letters {word[::-1]} and answer with one word.", "answer": word}
    for word in (
        CITIES + " Oslo Rome Prague Riga Tallinn Vilnius Zagreb Skopje Bern Minsk Paphos Porto Seville Nice"
    ).split()
]


def same_letters(answer: str, problem: Row) -> float:
    return 1.0 if exact(answer, problem) else 0.7 * (sorted(answer) == sorted(own(problem)))


def test_copying_a_part_of_the_prompt_is_found() -> None:
    """The letters stand in the middle of the prompt, and earn 0.7 on each of seven test questions."""
    task = gce.task(ANAGRAMS, same_letters, name="anagrams")
    report, audited = checked(task), gce.audit(task, progress=False)
    assert set(report.found) == {"blind"}, str(report)
    (finding,) = report.findings
    assert finding.message.startswith("best copied part of the prompt gets a mean reward of 0.70 on 7 problems without")
    assert finding.severity == "critical" and sorted(finding.response) == sorted(finding.known) != []
    assert report.floor is not None and report.floor.unearned == pytest.approx(0.7)
    assert "mean reward above the limit of 0.25: best copied part of the prompt on all, 0.70" in str(audited)


@pytest.mark.parametrize(("pays", "found"), [(0.5, True), (0.2, False)])
def test_equal_partial_rewards_on_few_problems_are_found(pays: float, found: bool) -> None:
    """Seven rewards of 0.5: the interval alone, 0.20 to 0.80, would not tell it from the limit of 0.25."""
    rows = [{"prompt": f"Capital number {n}?", "answer": city} for n, city in enumerate(CITIES.split() * 2)]
    report = checked(gce.task(rows, lambda a, p: 1.0 if exact(a, p) else pays * (len(a) > 20), name="long"))
    assert report.ok is not found
    said = report.table() if found else str(report)  # Beside findings, remarks are in the table.
    assert "note: an answer counts as right from a reward of" in said


def test_nothing_was_found_is_not_all_that_is_said_above_a_high_floor() -> None:
    report = checked(gce.task(SUMS[:28], exact, name="exact"))
    assert report.ok and "\nnothing was found" in str(report) and "rewards are partial" not in str(report)
    assert report.floor is not None
    high = evolve(report, floor=evolve(report.floor, gameability_gap=0.3))
    assert "\nno check found anything, but the gameability gap is 0.30 (below)" in str(high)


def test_characters_in_any_order_are_not_called_evaluated() -> None:
    def letters(answer: str, problem: Row) -> bool:
        return sorted(re.sub("[^a-z]", "", answer.lower())) == sorted(own(problem).lower())

    report = checked(gce.task(ANAGRAMS, letters, name="letters"))
    assert {each.kind for each in report.findings if each.check == "types"} == {"characters"}


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_row_is_judged_by_its_task() -> None:
    task = gce.task(SUMS, lambda a, row: 1.0 if exact(a, row) else 0.25, name="sums", extract="boxed")
    boxed = task.audit.write(own(SUMS[3]))
    assert [gce.judge(SUMS[3], text, task).score for text in (boxed, task.audit.write("no"))] == [1.0, 0.25]
    assert gce.judge(SUMS[3], "no box", task).status == "unreadable"
    for given in (None, gce.TASKS["scheduling"]):
        with pytest.raises(
            ValueError, match=r"a row is judged by its task, made with gce.task: judge\(row, text, task\)"
        ):
            gce.judge(SUMS[3], "3", given)
    with pytest.raises(ValueError, match="the row: no column 'prompt', got answer"):
        gce.judge({"answer": 3}, "3", task)


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


@pytest.mark.slow
@pytest.mark.parametrize(("glue", "known"), [(", ", True), (" ", False)])
def test_a_list_as_the_known_answer_is_taken_where_the_score_takes_it_as_text(glue: str, known: bool) -> None:
    rows = [{"prompt": f"Name {n} and the number after it.", "answer": [n, n + 1]} for n in range(30)]
    task = gce.task(rows, lambda answer, row: answer == glue.join(map(str, row["answer"])), name="listed")
    report = checked(task)
    said = "the score does not take the lists in the column `answer` as 'a, b': give them as text that it takes"
    assert report.ok and (said in str(report)) is not known
    problem = gce.draw_problem(task, "questions", "all", "test", 0)
    assert task.teaching.demonstration(problem, None) == (
        ", ".join(map(str, problem.instance.row["answer"])) if known else None
    )
