"""The battery that attacks verifiers: planted bugs are found by the check meant for them, sound tasks are clean."""

from __future__ import annotations

import gc
import importlib
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve

import gce
from gce.domain.executions import Execution
from gce.domain.problems import Message
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import wilson
from gce.domain.tasks import TASKS, Audit, References, Relation, Task, TaskTier, Teaching, draw_problem
from gce.domain.verdicts import Verdict
from gce.errors import BadInput
from gce.testing.scheduling.checkers import accepts
from gce.testing.verifiers.bench import Finding, Overdue, alarm_clock
from gce.testing.verifiers.check import TaskReport, check_task
from gce.testing.verifiers.responses import HOSTILE, NOTHING_SAID, long_texts, mutated, noise, renumbered
from gce.testing.verifiers.severity import Severity

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
fuzz = importlib.import_module("fuzz_my_verifier")
custom = importlib.import_module("custom_task")
sys.path.remove(str(EXAMPLES))


def attack(task: Task, **options: Any) -> TaskReport:
    return check_task(task, **{"problems": 4, "responses": 400, "seconds": 0.3, "accepts": fuzz.accepts} | options)


# Planted bugs


def test_the_sound_verifier_of_the_example_is_clean() -> None:
    report = attack(fuzz.SOUND)
    assert report.ok and not report.not_checked, report
    assert all(report.tried.values())
    assert report.exploits == wilson(0, 400)
    assert report.false_rejects.n > 20 and report.false_rejects.correct == 0


@pytest.mark.slow
@pytest.mark.parametrize(("task", "expected"), fuzz.PLANTED.values(), ids=fuzz.PLANTED)
def test_a_planted_bug_is_found_by_its_check(task: Task, expected: str) -> None:
    report = attack(task)
    assert expected in report.found, report
    assert not report.ok
    assert {finding.check for finding in report.findings} == set(report.found)


@pytest.mark.slow
def test_what_a_task_says_only_illustrates_need_not_be_checked_but_must_be_stated() -> None:
    unchecked, _ = fuzz.PLANTED["states what it never checks"]
    assert {finding.kind for finding in attack(unchecked).findings if finding.check == "agreement"} == {"not checked"}
    illustrates = evolve(unchecked.audit, illustrations=frozenset({"most"}))
    assert "agreement" not in attack(evolve(unchecked, audit=illustrates)).found
    unstated, _ = fuzz.PLANTED["checks what the prompt hides"]
    assert "agreement" in attack(evolve(unstated, audit=illustrates)).found


@pytest.mark.slow
def test_the_example_prints_each_bug_with_the_check_that_found_it() -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "fuzz_my_verifier.py")], capture_output=True, text=True, timeout=300
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("sound: clean\n")
    assert ran.stdout.endswith(f"{len(fuzz.PLANTED)} planted, {len(fuzz.PLANTED)} found\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("takes", "steep"),
    [
        pytest.param(lambda size: size * size * 1e-9, True, id="quadratic, 10 s for the last length"),
        pytest.param(
            lambda size: 0.01 + size * size * 1e-10, True, id="quadratic, 1 s for the last length, 10 ms for none"
        ),
        pytest.param(lambda size: size * size * 1e-7, True, id="quadratic, 4 s for the second length"),
        pytest.param(lambda size: size * 1e-6, False, id="linear"),
        pytest.param(lambda size: size * (1e-7 if size < 50_000 else 3e-7), False, id="slower out of the cache"),
    ],
)
def test_growth_is_steep_where_it_is_so_for_sixteen_times_the_text(takes: Callable[[int], float], steep: bool) -> None:
    """The clock is advanced by the score: 102,400 characters out of the cache take 12 times as long as 25,600."""
    clock = [0.0]

    def score(answer: str, problem: Mapping[str, Any]) -> bool:
        clock[0] += takes(len(answer))
        return answer == str(problem["answer"])

    rows = [{"prompt": f"What is {n} + 7?", "answer": n + 7} for n in range(20)]
    report = check_task(gce.task(rows, score, name="timed"), problems=1, responses=10, now=lambda: clock[0])
    kinds = {finding.kind for finding in report.findings if finding.check == "time"}
    assert kinds == ({"growth"} if steep else set()), report


# Tasks as they are shipped


@pytest.mark.slow
@pytest.mark.parametrize("preset", TASKS["scheduling"].presets)
def test_the_shipped_task_is_clean(preset: str) -> None:
    report = check_task(TASKS["scheduling"], preset=preset, problems=1, responses=300, accepts=accepts)
    assert report.ok, report
    assert (report.exploits.n, report.false_rejects.n > 20) == (300, True)
    first = preset == next(iter(TASKS["scheduling"].presets))
    left = [reason.partition(":")[0] for reason in report.not_checked]
    assert [each for each in left if each != "meaning"] == ([] if first else ["blind"])  # Some attacks lose it.


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_every_shipped_task_is_clean(name: str) -> None:
    report = check_task(TASKS[name], accepts=accepts)
    assert report.ok, report


@pytest.mark.slow
@pytest.mark.parametrize("task", [toy_task.ADDITION, custom.SORTING], ids=["addition", "sorting"])
def test_tasks_of_one_s_own_are_clean_as_far_as_can_be_told(task: Task) -> None:
    report = check_task(task, problems=2)
    assert report.ok, report
    assert [reason.partition(":")[0] for reason in report.not_checked] == ["relations", "hedging", "exploits"]


def test_an_answer_of_one_s_own_task_ends_where_the_response_ends() -> None:
    """Nothing may hide behind 200 spaces."""
    problem = draw_problem(custom.SORTING, "letters", "nine", "test", 0)
    answer = custom.write(custom.in_order(problem.instance))
    assert custom.SORTING.judge(problem, completion(answer + " " * 300))[0].right
    assert not custom.SORTING.judge(problem, completion(answer + " " * 300 + "or not"))[0].right


# What a report says


def completion(text: str) -> Any:
    return fuzz.Completion("k", text, "stop", policy="")


def task_of(verify: Any, **fields: Any) -> Task:
    """Say the number; right answers are the number alone."""
    return Task(
        name="echo",
        presets={"one": (TaskTier("only"),)},
        draw=lambda _preset, _tier, rng, _solve: rng.randrange(10**6),
        prompt=lambda instance, _rng: (Message("user", f"Say {instance}."),),
        digest=lambda instance: f"{instance * 2654435761 % 2**32:08x}",
        verify=verify,
        instance_type=int,
        references=References(heuristics=lambda _: {"says it": lambda problem, _rng: str(problem.instance)}),
        **fields,
    )


def verdict(right: bool) -> tuple[Verdict, ...]:
    return (Verdict("right" if right else "wrong", float(right), "echo", "1"),)


def exactly(problem: Any, text: str) -> bool:
    return text == str(problem.instance)


EXACT = task_of(lambda problem, given, _evidence: verdict(exactly(problem, given.text)))


def test_the_same_seed_gives_the_same_report_and_another_seed_another() -> None:
    loose = evolve(EXACT, verify=lambda problem, given, _: verdict(str(problem.instance) in given.text))
    one, again, other = (check_task(loose, responses=200, seed=seed, accepts=exactly) for seed in (0, 0, 1))
    assert evolve(one, seconds=0.0) == evolve(again, seconds=0.0)
    assert one.findings != other.findings


def test_false_accepts_and_false_rejects_are_counted_apart() -> None:
    """A verifier that takes every text but the right one: all others are exploits, and each right one is refused."""
    upside_down = evolve(EXACT, verify=lambda problem, given, _: verdict(not exactly(problem, given.text)))
    report = check_task(upside_down, responses=200, accepts=exactly)
    assert report.exploits == wilson(195, 200), "five problems, each with one right answer"
    assert report.false_rejects == wilson(5, 5)
    kinds = [finding.kind for finding in report.findings if finding.check == "exploits"]
    assert sorted(kinds) == ["false accept"] + ["false reject"] * 5, "all false accepts shrink to one"
    assert report.found["exploits"] == 200
    assert "right answers: no problem has a known right answer" in str(report)


def test_the_bound_is_below_four_in_a_hundred_thousand_where_nothing_is_found_in_a_hundred_thousand() -> None:
    report = evolve(check_task(EXACT, problems=1, responses=10, accepts=exactly), exploits=wilson(0, 100_000))
    assert report.exploits.high < 0.00004
    assert "wrong generated responses judged right: 0 of 100,000, at most 0.0038 % (95 %)" in str(report)


def test_a_report_is_a_table_of_counts_findings_and_what_was_not_checked() -> None:
    loose = evolve(EXACT, verify=lambda problem, given, _: verdict(str(problem.instance) in given.text))
    report = check_task(loose, responses=200, accepts=exactly)
    lines = str(report).split("\n")
    assert re.fullmatch(r"echo/one: 11 checks tried [\d,]+ answers, \d+\.\d s of computing", lines[0])
    assert lines[1].startswith(f"{len({(each.check, each.kind) for each in report.findings})} holes (")
    assert lines[1].endswith(
        " (267 findings). Decide for each response below whether you would pay for it; "
        "if not, mend the score, or the second judge, and check again."
    )
    table = report.table().split("\n")
    assert table[0].split() == ["check", "tried", "found"]
    assert [line.split()[0] for line in table[1:11]] == [
        *("totality", "time", "determinism", "round", "relations", "blind", "feedback", "agreement", "hedging"),
        "exploits",
    ]
    said = r"high: hedging, any place: a right answer beside 1 wrong is right wherever it stands \(\d+ findings\)"
    assert any(re.fullmatch(said, line) for line in lines)
    said = "high: exploits, false accept: the score takes a response that the second judge refuses ("
    at = next(n for n, line in enumerate(lines) if line.startswith(said))
    assert re.fullmatch(r"    '.*' where the answer is '.*'", lines[at + 1])
    assert lines[at + 2].startswith("    to mend it: ") and not lines[at + 3].startswith("    ")
    assert re.fullmatch(r"\d checks could not try everything: table\(\) says why", lines[-1])
    assert report.text("--verbose").split("\n")[-1].endswith(": --verbose says why")
    all_of_it = report.text("").split("\n")
    at = next(n for n, line in enumerate(all_of_it) if line.startswith(said))
    assert all(" where the answer is " in line for line in all_of_it[at + 1 : at + 3]), "two examples of a kind"
    assert "says why" not in report.text("")
    assert "not checked: relations: the task declares none" in report.table()
    assert "\n".join(lines).isascii(), "what a response holds is escaped"


def test_each_cure_stands_once_and_of_many_holes_the_first_that_it_mends() -> None:
    def finding(check: str, kind: str, severity: Severity = "high") -> Finding:
        return Finding(check, kind, f"{kind} is paid", "echo/one/test/all/0/0", "7 8", severity=severity, known="7")

    def lines(*findings: Finding) -> list[str]:
        found = {each.check: 1 for each in findings}
        return evolve(clean, findings=findings, found=found, notes=(doubtful,)).text("--verbose").split("\n")

    clean = check_task(EXACT, responses=0)
    doubtful = finding("changes", "decimals", "doubtful")
    places = [finding("hedging", f"place {n}") for n in range(3)]
    few = lines(*places, finding("near misses", "a digit"))
    assert [line for line in few if "to mend" in line] == [
        "    to mend it: compare the whole answer for equality, or as numbers",
        "    to mend these 3: take one answer with extract=, or return 0 where there are several",
    ]
    assert sum(line.startswith("high: ") for line in few) == 4
    assert not any("decimals" in line for line in few) and "has 1 remark on doubtful answers" in few[-1]
    many = lines(*places, *(finding("near misses", f"digit {n}") for n in range(4)))
    assert sum(line.startswith("high: ") for line in many) == 2
    assert "    also hedging, place 1; hedging, place 2" in many
    assert "decimals" in evolve(clean, findings=tuple(places), found={"hedging": 3}, notes=(doubtful,)).table()


@pytest.mark.slow
def test_a_report_is_plain_data() -> None:
    report = attack(fuzz.PLANTED["raises on odd digits"][0])
    assert from_plain(TaskReport, json.loads(json.dumps(to_plain(report)))) == report


def test_without_a_second_judge_only_what_answers_nothing_is_known_to_be_wrong() -> None:
    polite = evolve(EXACT, verify=lambda problem, given, _: verdict("verdict: right" in given.text))
    report = check_task(polite)
    assert report.exploits.n == 5 * len(NOTHING_SAID)
    assert report.exploits.correct == 5
    assert any(reason.startswith("exploits: responses that may be right") for reason in report.not_checked)


def test_an_answer_that_the_second_judge_refuses_is_not_taken_for_right() -> None:
    gullible = evolve(EXACT, verify=lambda *_: verdict(True))
    report = check_task(gullible, responses=0, accepts=lambda *_: False)
    assert any(reason.startswith("right answers: no problem has a known right answer") for reason in report.not_checked)


def test_a_second_judge_that_raises_ends_the_check_with_one_line() -> None:
    def judge(_problem: Any, text: str) -> bool:
        return 1 // len(text) > 1

    with pytest.raises(
        BadInput, match=r"accepts raised ZeroDivisionError: .* \(problem, text\) .* any text$"
    ) as caught:
        check_task(EXACT, problems=1, responses=300, accepts=judge)
    assert "\n" not in str(caught.value)


def test_findings_are_listed_by_kind_and_the_rest_of_each_kind_is_counted() -> None:
    """Five problems: 195 of 200 responses are wrong and accepted, and five right ones are refused."""
    upside_down = evolve(EXACT, verify=lambda problem, given, _: verdict(not exactly(problem, given.text)))
    report = check_task(upside_down, responses=200, accepts=exactly)
    listed = [(finding.kind, finding.more) for finding in report.findings if finding.check == "exploits"]
    assert sorted(listed) == [("false accept", 194)] + [("false reject", 0)] * 5, "equal ones are listed once"
    assert [kind for kind, _ in listed] == sorted((kind for kind, _ in listed), key=[k for k, _ in listed].index)
    lines = str(report).split("\n")
    assert (
        "high: exploits, false accept: the score takes a response that the second judge refuses (195 findings)" in lines
    )
    assert (
        "high: exploits, false reject: the score refuses a response that the second judge takes (5 findings)" in lines
    )


def test_hints_name_the_fields_that_a_task_has() -> None:
    said = " ".join(check_task(evolve(EXACT, references=References()), problems=1, responses=0).not_checked)
    assert "`References.heuristics` or `Teaching.demonstration`" in said and "none in `References.limits`" in said


def test_measures_may_differ_from_time_to_time() -> None:
    """They may be seconds; scores and violations may not differ."""
    times = iter(range(10**9))

    def timed(problem: Any, given: Any, _: Any) -> tuple[Any]:
        (found,) = verdict(exactly(problem, given.text))
        return (evolve(found, measures={"seconds": float(next(times))}),)

    assert check_task(evolve(EXACT, verify=timed), responses=0, accepts=exactly).ok
    scored = evolve(EXACT, verify=lambda *_: (Verdict("wrong", next(times) % 7 / 7, "echo", "1"),))
    assert "determinism" in check_task(scored, responses=0).found


def test_a_relation_that_is_broken_names_itself_and_one_that_never_applies_is_listed() -> None:
    longer = Relation(lambda problem, text, _rng: (problem, text + " "), "the verdict stays")
    never = Relation(lambda _problem, _text, _rng: None, "wrong stays wrong")
    larger = Relation(lambda problem, text, _rng: (evolve(problem, instance=problem.instance + 1), text),
                      "right becomes wrong")  # fmt: skip
    relations = {"a space more": longer, "never": never, "one more": larger}
    report = check_task(evolve(EXACT, audit=Audit(relations=relations)), responses=0, accepts=exactly)
    assert {finding.kind for finding in report.findings if finding.check == "relations"} == {"a space more"}
    assert "relations: 'never' never applied" in report.not_checked


@pytest.mark.parametrize(
    ("holds", "change"),
    [
        ("the verdict stays", lambda problem, text: "no"),
        ("wrong stays wrong", lambda problem, text: str(problem.instance)),
        ("right becomes wrong", lambda problem, text: text),
    ],
)
def test_a_relation_of_each_kind_can_be_broken(holds: Any, change: Callable[..., Any]) -> None:
    relation = Relation(lambda problem, text, _rng: (problem, change(problem, text)), holds)
    broken = evolve(EXACT, audit=Audit(relations={"this": relation}))
    assert set(check_task(broken, responses=0).found) == {"relations"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("digits", "feedback", "found"),
    [
        (0, "Wrong. Expected: {}.", "which is right"),
        (0, "Not this; {} it is", "it holds a right answer to the problem "),
        (12, "Not this; {} it is", "of a right answer"),
        (12, "{}", "which is right"),
        (0, "Not this; more than 7 and less than 70 it is", ""),
    ],
)
def test_feedback_that_holds_the_answer_is_found_however_short_it_is(digits: int, feedback: str, found: str) -> None:
    """Twice the number is asked for, so that no answer stands in its prompt."""

    def answer(problem: Any) -> str:
        return f"{2 * problem.instance:0{digits}}"

    def verify(problem: Any, given: Any, _: Any) -> Any:
        right = given.text == answer(problem)
        return tuple(evolve(one, evaluator=answer(problem)) for one in verdict(right))

    twice = evolve(
        EXACT,
        verify=verify,
        references=References(heuristics=lambda _: {"doubles": lambda problem, _rng: answer(problem)}),
        teaching=Teaching(feedback=lambda one: feedback.format(one.evaluator)),
    )
    report = check_task(twice, problems=10, responses=0)
    assert report.ok == (not found)
    assert all(finding.check == "feedback" for finding in report.findings)
    assert not found or any(found in finding.message for finding in report.findings)


def test_padding_that_makes_a_wrong_answer_right_is_a_hedge() -> None:
    credulous = evolve(
        EXACT, verify=lambda problem, given, _: verdict(exactly(problem, given.text) or "I am sure" in given.text)
    )
    report = check_task(credulous, responses=0, accepts=exactly)
    assert ("hedging", "padding") in {(finding.check, finding.kind) for finding in report.findings}


def test_a_changed_problem_gets_its_own_prompt_and_digest() -> None:
    seen = []

    def verify(problem: Any, given: Any, _: Any) -> Any:
        seen.append((problem.instance, problem.prompt[0].content, problem.digest))
        return verdict(exactly(problem, given.text))

    other = Relation(lambda problem, text, _rng: (evolve(problem, instance=7), text), "right becomes wrong")
    check_task(evolve(EXACT, verify=verify, audit=Audit(relations={"seven": other})), problems=1, responses=0)
    assert all((said, digest) == (f"Say {found}.", EXACT.digest(found)) for found, said, digest in seen)
    assert 7 in {found for found, _, _ in seen}


def test_evidence_that_a_task_asks_for_is_said_to_be_missing() -> None:
    asks = evolve(EXACT, request=lambda _problem, _completion: Execution("", "seconds"))
    assert any(reason.startswith("evidence: ") for reason in check_task(asks, responses=0).not_checked)


def test_a_verifier_that_hangs_ends_the_battery_after_three_responses() -> None:
    def verify(problem: Any, given: Any, _: Any) -> Any:
        while "9" * 50 in given.text:
            pass
        return verdict(exactly(problem, given.text))

    report = check_task(evolve(EXACT, verify=verify), responses=100, seconds=0.05, accepts=exactly)
    assert report.found == {"time": 3}
    assert [finding.kind for finding in report.findings] == ["overdue"] * 3
    assert report.not_checked[-1].startswith("since the verifier hangs, the rest of totality, time, ")


def test_the_alarm_of_others_is_put_back() -> None:
    before = signal.signal(signal.SIGPROF, lambda *_: None)
    mine = signal.getsignal(signal.SIGPROF)
    try:
        signal.setitimer(signal.ITIMER_PROF, 1000.0)
        assert check_task(EXACT, problems=1, responses=10).ok
        assert signal.getsignal(signal.SIGPROF) is mine
        assert 900.0 < signal.getitimer(signal.ITIMER_PROF)[0] < 1001.0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def test_it_runs_in_any_thread() -> None:
    """Where no alarm can be set."""
    found = []
    thread = threading.Thread(target=lambda: found.append(check_task(EXACT, problems=1, responses=10)))
    thread.start()
    thread.join()
    assert found[0].ok


def jumpy(readings: random.Random) -> float:
    """Now and then a fiftieth of a second late."""
    return time.process_time() + (0.02 if readings.random() < 0.05 else 0.0)


def coarse(_readings: random.Random) -> float:
    """Ticks a hundred times a second."""
    return time.process_time() // 0.01 * 0.01


@pytest.mark.parametrize("clock", [jumpy, coarse])
def test_linear_time_is_not_accused_whatever_the_clock(clock: Callable[..., Any]) -> None:
    """A verifier that looks at every character."""

    def slowly(problem: Any, given: Any, _: Any) -> Any:
        return verdict(sum(character == "\x01" for character in given.text) == 0 and exactly(problem, given.text))

    readings = random.Random(0)
    report = check_task(evolve(EXACT, verify=slowly), problems=1, responses=0, now=lambda: clock(readings))
    assert "time" not in report.found, report


@pytest.mark.parametrize("options", [{"problems": 0}, {"responses": -1}])
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected problems from 1 and responses from 0"):
        check_task(EXACT, **options)
    with pytest.raises(KeyError):
        check_task(EXACT, preset="two")


# What responses are made of


def test_mutations_are_drawn_from_the_generator_alone_and_hardly_ever_leave_the_text() -> None:
    text = "First A.\nAnswer: A 0, B 12"
    one, again = ([mutated(text, ["Answer: A 1"], random.Random(seed)) for seed in range(300)] for _ in range(2))
    assert one == again
    assert sum(changed == text for changed in one) < 15
    assert len(set(one)) > 200
    for empty in ("", "\n", "\ud800"):
        for seed in range(300):
            mutated(empty, [""], random.Random(seed))


def test_a_number_changes_into_a_number() -> None:
    found = {renumbered("A 3", random.Random(seed)) for seed in range(300)}
    assert {"A 2", "A 4"} <= found and all(text.removeprefix("A ").isdigit() for text in found)
    assert renumbered("none", random.Random(0)).startswith("none ")


@pytest.mark.parametrize("answer", ["Answer: A 0, B 2", "one\ntwo words", "7", ""])
def test_long_texts_are_as_long_as_asked_for(answer: str) -> None:
    for name, text in long_texts(answer, 6_400).items():
        assert 3_200 <= len(text) <= 13_000 or name == "spaces inside an answer", name


def test_hostile_texts_hold_what_breaks_careless_readers() -> None:
    everything = "".join(HOSTILE) + "".join(noise(random.Random(seed)) for seed in range(200))
    for character in "\x00\ud800\u200b\u202e\u0301\u0661\uff11\u00b2":
        assert character in everything
    assert "" in HOSTILE and any(text.isdigit() and len(text) > 4_300 for text in HOSTILE)


def test_an_alarm_in_a_callback_of_the_collector_is_not_lost() -> None:
    """What is raised there is swallowed; so it rings again, where it is heard."""
    heard = []

    def busy(_phase: Any, _info: Any) -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    gc.callbacks.append(busy)
    try:
        with warnings.catch_warnings(record=True) as lost, alarm_clock() as set_alarm:
            try:
                set_alarm(0.005)
                gc.collect()
                end = time.process_time() + 5
                while time.process_time() < end:
                    pass
            except Overdue:
                heard.append(True)
            set_alarm(0.0)
    finally:
        gc.callbacks.remove(busy)
    assert heard and not lost
    assert gc.get_freeze_count() == 0


def test_what_could_not_be_judged_is_in_no_rate_and_is_said() -> None:
    """A second judge that calls everything right finds no false reject where the verifier could not judge."""
    report = check_task(toy_task.UNSURE, problems=2, responses=40, accepts=lambda _problem, _text: True)
    assert report.false_rejects.n == report.exploits.n == 0
    assert sum(report.failed.values()) == report.verdicts > 0
    assert f"could not be judged, {report.verdicts:,} times" in str(report)
