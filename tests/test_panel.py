"""The panel: shrinking, formats, severities, new processes, the adversarial floor, and its error rates on two sets."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import gce
from attacks.panel.__main__ import Row, error_rate, run
from attacks.panel.tuning import questions
from gce.app import cli
from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.tasks import ProblemSource, Task
from gce.domain.tasks.task import Batched
from gce.domain.verdicts import Verdict, Violation
from gce.testing.verifiers.bench import Bench
from gce.testing.verifiers.check import TaskReport, check_task
from gce.testing.verifiers.forms import FORMS, as_code, other_meanings, ruled_out
from gce.testing.verifiers.responses import near_misses
from gce.testing.verifiers.severity import CURES, DEFECTS, SEVERITIES, cure_of, defect_of
from gce.testing.verifiers.shrinking import MOST_SECONDS, MOST_TRIED, shrunk

ANIMALS = "ant bee cat dog eel fox gnu hen ibis jay koala lynx mole newt owl pig"
WORDS = [{"prompt": f"Which animal is number {'xvi' * (n + 1)}?", "answer": word}
         for n, word in enumerate(ANIMALS.split())]  # fmt: skip


def checked(task: Task, **options: Any) -> TaskReport:
    return check_task(task, **{"responses": 100, "problems": 3} | options)


def numbered(answer: str, problem: Mapping[str, Any]) -> bool:
    return answer == str(problem["answer"])


@pytest.mark.slow
def test_a_verifier_that_judges_several_at_once_gets_the_same_report() -> None:
    """Fixed answers and those of the floor go to it together; what is found, tried and counted stays."""
    task = gce.task(questions.SUMS, lambda answer, _row: answer == "nan", name="sums")
    together: list[int] = []

    def several(asked: Sequence[tuple[Problem, Completion]]) -> list[tuple[Verdict, ...]]:
        together.append(len(asked))
        return [task.verify(problem, completion, None) for problem, completion in asked]

    def one_by_one(report: TaskReport) -> TaskReport:
        return evolve(report, seconds=0.0)

    batched = evolve(task, verify=Batched(task.verify, several))
    assert one_by_one(checked(batched)) == one_by_one(checked(task))
    assert max(together) > 1_000


@pytest.mark.parametrize(("failed", "varies", "judged"), [(False, False, 1), (True, False, 2), (False, True, 2)])
def test_what_was_judged_together_is_not_judged_again_unless_it_failed_or_varies(
    failed: bool, varies: bool, judged: int
) -> None:
    """The floor asks most of what the fixed answers asked; whether verdicts repeat is for another check to see."""
    task = gce.task(questions.SUMS, numbered, name="sums", deterministic=not varies)
    verdict = Verdict("failed" if failed else "wrong", 0.0, "sums", "1", violations=(Violation("out", "it is away"),))
    together: list[int] = []

    def several(asked: Sequence[tuple[Problem, Completion]]) -> list[tuple[Verdict, ...]]:
        together.append(len(asked))
        return [(verdict,) for _ in asked]

    task = evolve(task, verify=Batched(task.verify, several))
    bench = Bench(task, "questions", 0, None, None, 0, 5.0, lambda: 0.0, lambda _seconds: None)
    (problem,) = ProblemSource(task).first("questions", "all", "test", 1)
    for _ in range(2):
        bench.expect([(problem, "nan"), (problem, "nan")])
        assert bench.verdicts(problem, "nan") == (verdict,)
    assert together == [1, judged - 1]


# Shrinking


def test_a_text_shrinks_to_what_shows_the_finding() -> None:
    assert shrunk("well, it is 28 or 44, I think", lambda text: "28" in text and "44" in text) == "2844"
    assert shrunk("x" * 1000, lambda text: len(text) > 2) == "xxx"


@given(st.text(max_size=40), st.characters())
def test_what_is_left_shows_the_finding_and_no_character_can_go(text: str, wanted: str) -> None:
    tried: list[str] = []

    def still(shorter: str) -> bool:
        tried.append(shorter)
        return shorter.count(wanted) >= 1

    small = shrunk(text + wanted, still)
    assert small == wanted and len(tried) <= MOST_TRIED


def test_shrinking_ends_in_time_where_each_verdict_takes_seconds() -> None:
    clock = iter(range(0, 10_000, 5))
    tried: list[str] = []

    def still(text: str) -> bool:
        tried.append(text)
        return False

    assert len(shrunk("x" * 1000, still, now=lambda: next(clock))) == 1000
    assert len(tried) <= MOST_SECONDS / 5


@pytest.mark.slow
def test_an_exception_is_shown_with_the_smallest_text_that_raises_it() -> None:
    def reads_superscripts(answer: str, problem: Mapping[str, Any]) -> bool:
        return answer.isdigit() and int(answer) == problem["answer"]

    report = checked(gce.task(questions.SUMS, reads_superscripts, name="sums"))
    (first, *_) = [each for each in report.findings if each.kind == "exception"]
    assert len(first.response) == 1 and not first.response.isascii() and first.response.isdigit()
    assert (first.defect, first.severity) == ("breaks", "medium")


# Forms and changes


@pytest.mark.parametrize(
    ("form", "answer", "written"),
    [
        ("in upper case", "Paris", "PARIS"),
        ("a list in the opposite order", "1, 2, 4", "4, 2, 1"),
        ("a list in the opposite order", "Paris", None),
        ("a list in the opposite order", "It takes 1 bolt of white fiber, so it takes 2 + 1 = 3\n#### 3", None),
        ("without its unit", "120 km", "120"),
        ("with thousands separators", "1234", "1,234"),
        ("with decimals", "28", "28.0"),
        ("with decimals", "2.8", None),
        ("in full width", "28", "\uff12\uff18"),
    ],
)
def test_a_form_means_the_same(form: str, answer: str, written: str | None) -> None:
    assert FORMS[form].make(answer) == written


def test_a_change_means_something_else() -> None:
    assert other_meanings("28") == {
        "digits exchanged": "82",
        "one unit more": "29",
        "one unit less": "27",
        "decimals in front": "7.28",
        "decimals behind": "28.4",
        "more decimals behind": "28.9",
        "a zero behind": "280",
        "as a power": "2\u2078",
    }
    assert other_meanings("3.14") == {"one unit more": "3.17", "one unit less": "3.11", "more decimals behind": "3.149"}
    assert other_meanings("AB12") == {"one letter of a code changed": "BB12"}
    assert other_meanings("Paris") == {"inner letters exchanged": "Prais", "first and last letter changed": "Qarit"}
    assert other_meanings("Oslo") == other_meanings("") == {}


@pytest.mark.slow
@given(st.one_of(st.integers(), st.decimals(allow_nan=False, allow_infinity=False), st.text(max_size=20)))
def test_changes_and_code_never_repeat_the_answer(answer: Any) -> None:
    text = str(answer)
    assert text not in other_meanings(text).values()
    assert as_code(text) is None or text not in as_code(text)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("answer", "prompt", "change", "other"),
    [
        ("05/12/2024", "", "parts of the same length exchanged", "12/05/2024"),
        ("2024-12-05", "", "parts of the same length exchanged", "2024-05-12"),
        ("x=3, y=5", "", "values of two names exchanged", "x=5, y=3"),
        ("x < 5", "", "signs exchanged", "x > 5"),
        ("(3, 5)", "Write the point as (x, y).", "coordinates exchanged", "(5, 3)"),
        ("4, 7, 9", "", "two numbers changed, their sum kept", "4, 6, 10"),
        ("c, a, b", "Write them in this order.", "two items exchanged", "c, b, a"),
        ("1 2 / 2 1", "", "two numbers of a grid exchanged throughout", "2 1 / 1 2"),
        ("0b11", "Write 3 so.", "the first number of the prompt", "3"),
    ],
)
def test_parts_in_other_places_mean_something_else(answer: str, prompt: str, change: str, other: str) -> None:
    assert other_meanings(answer, prompt)[change] == other


SQUARE = "1 2 3 / 2 3 1 / 3 1 2"
IN_LINES = "Each row and each column has each number once."


@pytest.mark.parametrize(
    ("answer", "prompt", "broken"),
    [
        ("28, 3", "Use each number at most once.", {"the first item once more": "28, 3, 28"}),
        ("3 * 5 + 2", "Each is used once.", {"the first item once more": "3 * 5 + 2 + 3 - 3"}),
        ("28, 3", "Each may be used more than once.", {}),
        ("28, 3", "Write it once.", {}),
        (
            "7, 9, 21",
            "Write different whole numbers.",
            {
                "the first item in place of the last": "7, 9, 7",
                "two numbers made equal, their sum kept": "14, 9, 14",
            },
        ),
        ("3, 5, 8", "In ascending order.", {"two numbers of a sorted list exchanged": "3, 8, 5"}),
        ("3, 5, 4", "In ascending order.", {}),
        ("0b1101", "Write 13 in binary.", {"in the decimal system": "13"}),
        ("1101", "How much is 5 times 220.2?", {}),
        ("[3, 5)", "", {"another bracket": "(3, 5)"}),
        ("[3, 5]", "Write a list.", {}),
        ("[3, 5]", "As an interval.", {"another bracket": "(3, 5]"}),
    ],
)
def test_what_breaks_a_rule_of_the_prompt(answer: str, prompt: str, broken: dict[str, str]) -> None:
    assert ruled_out(answer, prompt) == broken


def test_a_broken_grid_keeps_what_else_may_be_checked() -> None:
    made = ruled_out(SQUARE, IN_LINES)
    assert len(made) == 3
    grids = {name: [[*map(int, row.split())] for row in text.split(" / ")] for name, text in made.items()}
    for rows in grids.values():
        lines = [*rows, *zip(*rows, strict=True)]
        assert any(sorted(line) != [1, 2, 3] for line in lines) and all(map({1, 2, 3}.issuperset, rows))
    assert all(sorted(row) == [1, 2, 3] for row in grids["two numbers of a row exchanged"])
    assert all(sorted(line) == [1, 2, 3] for line in zip(*grids["two numbers of a column exchanged"], strict=True))
    kept = grids["numbers of a grid changed, all sums kept"]
    assert {sum(line) for line in (*kept, *zip(*kept, strict=True))} == {6}


@pytest.mark.slow
def test_a_rule_of_the_prompt_needs_no_second_judge_and_yields_to_one() -> None:
    rows = [{"prompt": f"Name {n} and its double, each once.", "answer": f"{n}, {2 * n}"} for n in range(11, 40)]
    task = gce.task(rows, lambda a, p: {*a.split(", ")} == {*p["answer"].split(", ")}, name="sets")
    assert "the first item once more" in {each.kind for each in checked(task).findings}
    assert "changes" not in checked(task, accepts=lambda _row, _text: True).found


@pytest.mark.slow
def test_a_fixed_answer_that_is_truly_right_is_doubtful() -> None:
    """Any number from n to n + 60 is right, so that one fixed answer is right to most of the questions."""
    rows = [{"prompt": f"Name a number from {n} to {n + 60}.", "answer": n + 20, "n": n} for n in range(30, 70)]

    def is_right(row: Mapping[str, Any], text: str) -> bool:
        line = text.rstrip().split("\n")[-1].strip()
        return line in map(str, range(row["n"], row["n"] + 61))

    sound = gce.task(rows, lambda a, p: is_right(p, a), name="range")
    report = checked(sound, accepts=is_right)
    assert "blind" not in report.found
    assert ("blind", "passes", "doubtful") in {(each.check, each.kind, each.severity) for each in report.notes}
    lax = gce.task(rows, lambda a, _p: a.isascii() and a.isdecimal() and len(a) < 4, name="lax")
    assert checked(lax, accepts=is_right).found["blind"] and checked(lax, unique=True).found["blind"]


@pytest.mark.slow
def test_a_format_that_a_second_judge_alone_takes_is_a_note() -> None:
    def is_right(row: Mapping[str, Any], text: str) -> bool:
        try:
            return bool(float(text.rstrip().split("\n")[-1]) == row["answer"])
        except ValueError:
            return False

    report = checked(gce.task(questions.SUMS, numbered, name="strict"), accepts=is_right, responses=1000)
    assert report.ok, report
    assert "other signs" in {note.kind for note in report.notes}


def test_code_evaluates_to_the_answer() -> None:
    for answer in ("28", "-28", "Paris"):
        assert str(eval(as_code(answer) or "")) == answer


def test_lists_units_and_objects_have_near_misses_of_their_own() -> None:
    assert near_misses("2, 2, 3")["repeated items dropped"] == "2, 3"
    assert near_misses("1, 2, 4")["an item in place of another"] == "1, 2, 1"
    assert near_misses("120 km")["another unit"] == "120 mm"
    changed = near_misses('{"name": "Ann", "age": 9}')
    assert json.loads(changed["value 2 changed"]) == {"name": "Ann", "age": 70}
    assert json.loads(changed["the first entry dropped"]) == {"age": 9}


# Findings, doubts and notes


@pytest.mark.slow
def test_a_change_that_passes_is_doubtful_until_the_answer_is_unique_or_a_second_judge_refuses_it() -> None:
    task = gce.task(questions.SUMS, lambda a, p: a.isdecimal() and abs(int(a) - p["answer"]) <= 1, name="near")
    report = checked(task)
    assert "changes" not in report.found
    assert {"one unit more", "one unit less"} <= {note.kind for note in report.notes if note.severity == "doubtful"}
    assert "doubtful: changes, one unit more: '" in report.table()
    assert checked(task, unique=True).found["changes"]
    assert checked(task, accepts=lambda row, text: text.strip() == str(row["answer"])).found["changes"]
    assert "changes" not in checked(task, accepts=lambda _row, text: len(text) < 5).found


def test_a_format_that_the_prompt_does_not_ask_for_may_be_refused() -> None:
    report = checked(gce.task(WORDS, numbered, name="exact"))
    assert report.ok and {"in upper case", "with a final period"} <= {note.kind for note in report.notes}
    said = str(report).split("\n")
    note = (
        "note: right answers in other formats are refused, which is fine if the prompt names one: in a sentence, with"
    )
    place = next(at for at, line in enumerate(said) if line.startswith(note))
    assert "models often answer in a sentence" in said[place + 1]


@pytest.mark.slow
def test_a_format_that_the_extraction_takes_off_is_not_refused() -> None:
    """The expression finds "Paris" in "Paris.", whatever response is written to name "Paris." itself."""
    ends = r"(?:.* is )?(.+?)\.?$"
    report = checked(gce.task(WORDS, lambda answer, row: answer == row["answer"], name="ends", extract=ends))
    kinds = {note.kind for note in report.notes}
    assert not {"in a sentence", "with a final period"} & kinds and "in bold type" in kinds
    assert "models often" not in str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ("Case matters.", "ruled out"),
        ("In upper or lower case.", ""),
        ("The year?", ""),
        ("In lower case.", ""),
        ("Upper and lower case do not matter.", ""),
    ],
)
def test_case_is_held_to_what_the_prompt_says(says: str, kind: str) -> None:
    rows = [{**row, "prompt": f"{row['prompt']} {says}"} for row in WORDS]
    report = checked(gce.task(rows, lambda a, p: a.lower() == p["answer"], name="folds"))
    assert {each.kind for each in report.findings} == ({kind} if kind else set())
    refused = checked(gce.task(rows, numbered, name="exact"))
    assert ("formats" in refused.found) == ("upper" in says.lower())


def test_a_withdrawn_answer_is_no_answer() -> None:
    first = gce.task(WORDS, lambda a, p: a.split(".")[0] == p["answer"], name="first")
    assert {"withdrawn"} == {each.kind for each in checked(first).findings if each.check == "hedging"}


@pytest.mark.slow
def test_a_prompt_without_numbers_is_no_second_answer() -> None:
    """The last number of "28 Say it." is 28 wherever the prompt stands."""
    rows = [{"prompt": f"Say {word}.", "answer": n} for n, word in enumerate(questions.WORDS, 11)]
    assert checked(gce.task(rows, numbered, name="last", extract=r"(-?\d+)\D*$")).ok


def test_all_known_answers_at_once_are_a_prompt_blind_baseline() -> None:
    """No test answer is one of training; the list has 25 words, the numbers leave no gap."""
    within = gce.task(WORDS, lambda a, p: p["answer"] in a, name="within")
    found = [each for each in checked(within).findings if each.check == "blind"]
    assert any(each.message.startswith("all answers at once: ") for each in found)
    assert found[0].severity == "critical"
    sums = gce.task(questions.SUMS, numbered, name="sums")
    policies = sums.references.prompt_blind([])
    assert "all answers at once" not in policies
    training = gce.draw_problems(sums, "questions", "all", "train", 3)
    text = sums.references.prompt_blind(training)["all answers at once"](training[0], None)  # type: ignore[arg-type]
    assert text == ", ".join(map(str, range(12 + 13, 31 + 58 + 1)))


# The report


def test_each_check_has_a_class_and_a_severity() -> None:
    report = checked(gce.task(WORDS, numbered, name="exact"))
    assert {check for check, _ in DEFECTS} == {*report.tried, "meaning"} - {"floor"}, "no prompt of an own task is read"
    assert defect_of("exploits", "false reject").name == "false reject"
    assert {defect.severity for defect in DEFECTS.values()} == {"critical", "high", "medium"}
    assert SEVERITIES[0] == "critical"
    assert all(cure_of(check, kind) for check, kind in DEFECTS), "each kind has a line that says what mends it"
    assert cure_of("near misses", "the opposite sign") == CURES["near misses", "the opposite sign"]
    assert cure_of("blind", "passes", "all answers at once: 30 of 30") == cure_of("hedging", "any place")


@pytest.mark.slow
def test_a_check_says_whether_the_score_saw_the_last_line_alone() -> None:
    said = "; your function saw only the last line of each"
    assert str(checked(gce.task(WORDS, numbered, name="exact"))).split("\n")[0].endswith(said)
    assert said not in str(checked(gce.task(WORDS, numbered, name="whole", extract="text")))


def test_the_first_lines_say_what_was_found_and_rates_say_what_they_leave_out() -> None:
    leaky = str(checked(gce.task(WORDS, lambda a, p: p["answer"] in a, name="leaky"))).split("\n")
    assert re.match(r"5 holes \(\d+ findings\)\. ", leaky[1])
    kinds = [n for n, line in enumerate(leaky) if line.startswith(("critical: ", "high: "))]
    cures = [n for n, line in enumerate(leaky) if line.startswith(("    to mend it: ", "    to mend these "))]
    assert len(kinds) == 5 and cures and kinds[0] < cures[0] and kinds[-1] < cures[-1]
    at = next(n for n, line in enumerate(leaky) if line.startswith("adversarial floor: "))
    assert max(n for n, line in enumerate(leaky) if line.startswith(("critical: ", "high: "))) < at
    order = [line.split(":")[0] for line in leaky if line.startswith(("critical: ", "high: "))]
    assert order == sorted(order)
    assert str(checked(gce.task(WORDS, numbered, name="exact"))).split("\n")[1] == "nothing was found"


# The adversarial floor


def test_the_floor_of_a_coin_is_its_more_frequent_side_and_none_of_it_is_unearned() -> None:
    rows = [{"prompt": f"Coin {n}?", "answer": "tails" if n % 4 == 0 else "heads"} for n in range(120)]
    floor = checked(gce.task(rows, numbered, name="coin")).floor
    assert floor is not None and floor.tiers[0].attack in ("most common answer", "always 'heads'")
    heads = [p for p in gce.draw_problems(gce.task(rows, numbered, name="coin"), "questions", "all", "test", 24)]
    measured = sum(problem.instance.row["answer"] == "heads" for problem in heads) / len(heads)
    assert floor.adversarial_floor == pytest.approx(measured)
    assert floor.gameability_gap == 0.0 and floor.empty_floor == 0.0


def test_what_a_constant_earns_by_a_hole_is_the_gap() -> None:
    """`nan` is right on every problem, and the answer to none."""
    task = gce.task(questions.SUMS, lambda a, p: a == "nan" or numbered(a, p), name="nan")
    floor = checked(task).floor
    assert floor is not None
    assert (floor.adversarial_floor, floor.gameability_gap) == (1.0, 1.0)
    assert floor.tiers[0].attack == floor.tiers[0].unearned_attack == "always 'nan'"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Town", "Street", "Isle"])
def test_the_floor_is_what_the_best_fixed_answer_earns(kind: str) -> None:
    """One letter pays on most problems, four on fewer: on twelve, one of those often leads."""

    def leaks(answer: str, problem: Mapping[str, Any]) -> bool:
        share = {"A": 0.6, "B": 0.3, "C": 0.3, "D": 0.3, "E": 0.3}.get(answer, 0.0)
        return numbered(answer, problem) or random.Random(f"{answer}, {problem['answer']}").random() < share

    rows = [{"prompt": f"{kind} {n}?", "answer": f"{kind.lower()}{n}"} for n in range(160)]
    floor = checked(gce.task(rows, leaks, name="leaks"), problems=5).floor
    assert floor is not None and floor.tiers[0].attack == floor.tiers[0].unearned_attack == "always 'A'"
    assert floor.adversarial_floor == floor.gameability_gap == pytest.approx(0.6, abs=0.15)


def test_without_known_answers_and_second_judge_the_gap_is_unknown() -> None:
    report = checked(gce.task([{"prompt": f"Above {n}?", "n": n} for n in range(30)], lambda *_: False, name="above"))
    assert report.floor is not None and report.floor.gameability_gap is None
    assert "gameability gap: unknown without right answers" in str(report)


# New processes


@pytest.mark.slow
def test_what_differs_in_a_new_process_is_found() -> None:
    task = gce.task(WORDS, numbered, name="exact")
    report = checked(task, elsewhere=lambda asked, _seed: [[("right", 1.0)] for _ in asked])
    assert {each.kind for each in report.findings} == {"new process"}
    failed = checked(task, elsewhere=lambda _asked, _seed: "it ended")
    assert failed.ok and "determinism: in a new process: it ended" in failed.not_checked


@pytest.mark.slow
def test_the_command_asks_a_new_process(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"hashed_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "import gce\n"
        "ROWS = [{'prompt': f'List {n}.', 'answer': f'a{n}, b{n}, c{n}, d{n}'} for n in range(20)]\n"
        "def first(text):\n"
        "    return next(iter(set(text.split(', '))))\n"
        "TASK = gce.task(ROWS, lambda a, p: first(a) == first(p['answer']), name='hashed')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert cli.main(("check", "--task", f"{name}:TASK", "--responses", "20", "--problems", "3", "--json")) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["found"]["determinism"], report["not_checked"]
    assert report["floor"]["adversarial_floor"] >= 0.0 and report["severities"]["high"]


# Error rates on the tuning set


FEW = ("substring", "sign lost", "order lost", "NaN")


@pytest.mark.slow
def test_some_planted_bugs_are_found() -> None:
    rows = list(run("tuning", "bugs", only=frozenset(FEW), fresh=False))
    assert [row.name for row in rows if row.is_error] == [] and len(rows) == len(FEW)


@pytest.mark.slow
def test_some_sound_verifiers_are_not_accused() -> None:
    rows = list(run("tuning", "sound", only=frozenset({"whole number", "text in any case", "roots"}), fresh=False))
    assert [str(row) for row in rows if row.is_error] == [] and len(rows) == 3


def test_errors_are_missed_bugs_and_accused_verifiers() -> None:
    """2 of 30: Clopper and Pearson's interval is 0.82 to 22.07 %."""
    clean = checked(gce.task(WORDS, numbered, name="exact"))
    assert Row("bugs", "one", clean).is_error and not Row("sound", "one", clean).is_error
    rate = error_rate([Row("bugs", "one", clean)] * 2 + [Row("sound", "one", clean)] * 28)
    assert (rate.correct, rate.n) == (2, 30)
    assert (round(100 * rate.low, 2), round(100 * rate.high, 2)) == (0.82, 22.07)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["tuning", "held_out"])
def test_the_error_rates(chosen: str) -> None:
    missed = [row.name for row in run(chosen, "bugs") if row.is_error]
    accused = [row.name for row in run(chosen, "sound") if row.is_error]
    assert len(missed) <= 2 and len(accused) <= 1, (missed, accused)
