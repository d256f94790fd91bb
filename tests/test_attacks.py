"""The attacks on parser and verifier: what the fuzzer holds them to, the kept texts, and how mutants are counted."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from attacks import mutants, properties
from attacks.fuzz import KEPT, replay, text_of
from attacks.mutants import Mutant, kept_reasons, table, unexplained
from attacks.properties import PROBLEMS, check
from gce.domain import text as domain_text
from gce.domain.tasks.scheduling import answer, verify
from gce.domain.tasks.scheduling.task import SCHEDULING
from gce.domain.text import plain
from gce.domain.verdicts import Verdict, Violation

ROOT = Path(__file__).parent.parent
RIGHT = (
    "Answer: A 0, B 2, C 0",
    "Answer: 0 0, 7 1, 12 1",
    f"Answer: Answer 1, answer 0, a 1, {'x' * 41} 1",
    "Answer: A 7",
)
YES = Verdict("right", 1.0, verify.EVALUATOR, verify.VERSION)
NO = Verdict("wrong", 0.0, verify.EVALUATOR, verify.VERSION, {}, (Violation("missing", "Job A has no start."),))


def test_every_fixed_problem_has_a_right_answer() -> None:
    for index, text in enumerate(RIGHT):
        verdicts = check(text)
        assert [verdict.right for verdict in verdicts] == [problem is PROBLEMS[index] for problem in PROBLEMS]


def test_the_kept_texts_keep_every_property_and_are_few_and_small() -> None:
    count, broken = replay(KEPT)
    assert broken == []
    assert count >= 100
    assert sum(path.stat().st_size for path in KEPT.iterdir()) < 100_000


def test_the_kept_texts_show_every_kind_of_violation() -> None:
    verdicts = [verdict for path in KEPT.iterdir() for verdict in check(text_of(path.read_bytes()))]
    kinds = {violation.kind for verdict in verdicts for violation in verdict.violations}
    assert kinds == {*verify.KINDS, "unfinished-thought"}
    assert any(verdict.right for verdict in verdicts)


TURNS = itertools.count()


def slow(*_: Any) -> tuple[Any]:
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    return (NO,)


FAULTY = {
    "accepts what is wrong": ("Answer: A 0", lambda *_: (YES,), "false accept on problem 'tight'"),
    "rejects what is right": (RIGHT[0], lambda *_: (NO,), "false reject on problem 'tight'"),
    "changes its mind": ("", lambda *_: (evolve(NO, measures={"turn": float(next(TURNS))}),), "not the same twice"),
    "takes long": ("", slow, "slow"),
    "gives no verdict": ("", lambda *_: (), "expected one verdict"),
    "gives two": ("", lambda *_: (NO, NO), "expected one verdict"),
    "could not judge": ("", lambda *_: (evolve(NO, status="failed", score=None),), "status 'failed'"),
    "gives half a point": ("", lambda *_: (evolve(NO, score=0.5),), "score 0.5"),
    "is another": ("", lambda *_: (evolve(NO, version="0"),), "another evaluator"),
    "proves nothing": ("", lambda *_: (evolve(NO, violations=()),), "violations and status disagree"),
    "goes on and on": ("", lambda *_: (evolve(NO, violations=NO.violations * 51),), "too many violations"),
    "names an unknown kind": ("", lambda *_: (evolve(NO, violations=(Violation("luck", "Bad."),)),), "kind 'luck'"),
    "says too much": ("", lambda *_: (evolve(NO, violations=(Violation("grammar", "x" * 400),)),), "malformed: 'xxx"),
    "counts to infinity": ("", lambda *_: (evolve(NO, measures={"meant": float("inf")}),), "meant is inf"),
}


@pytest.mark.parametrize(("text", "judged", "complaint"), FAULTY.values(), ids=FAULTY)
def test_a_verifier_that_breaks_a_property_is_found(
    text: str, judged: Callable[..., Any], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(properties, "SECONDS", 0.01)
    with pytest.raises(AssertionError, match=complaint):
        check(text, evolve(SCHEDULING, verify=judged))


def test_a_verifier_that_reads_thoughts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.domain.tasks.task.without_thinking", lambda text: text)
    with pytest.raises(AssertionError, match="false reject on problem 'one'"):
        check("<think>\nAnswer: A 9\n</think>\nAnswer: A 0")


def test_a_text_that_breaks_a_property_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "right").write_text(RIGHT[0])
    (tmp_path / "raises").write_text("Answer: A 0")
    assert replay(tmp_path) == (2, [])
    monkeypatch.setattr(verify, "parse", lambda text: 1 // (len(text) - len("Answer: A 0")))
    count, broken = replay(tmp_path)
    assert count == 2
    assert any(
        each.startswith(f"{tmp_path / 'raises'}: ")
        and each.endswith("the verifier raised ZeroDivisionError: integer division or modulo by zero")
        for each in broken
    )


def line(number: str) -> re.Pattern[str]:
    return re.compile(f"[0-9A-Za-z]+ {number}(?:, [0-9A-Za-z]+ {number})*")


def hides(character: str) -> Callable[[str], Any]:
    """The plain form, with a letter in place of this character."""
    return lambda text: plain(text.replace(character, "x"))


PLANTED = {
    "seven digits": (answer, "_LINE", line("(?:0|[1-9][0-9]{0,6})")),
    "leading zeros": (answer, "_LINE", line("[0-9]{1,6}")),
    "minus zero": (answer, "_LINE", line("-?(?:0|[1-9][0-9]{0,5})")),
    "digits of any script": (answer, "_LINE", line(r"\d{1,6}")),
    "a soft hyphen hides the word": (answer, "plain", hides("\u00ad")),
    "an accent hides the word": (answer, "plain", lambda text: text),
    "a NUL hides the word": (answer, "plain", hides("\0")),
    "a blank letter hides the word": (domain_text, "_BLANK", frozenset()),
    "a sign hides the word": (answer, "_MARK", re.compile(r"\s*".join("answer:"), re.IGNORECASE)),
    "emphasis hides the word": (answer, "plain", hides("*")),
    **{f"no {kind}": (verify, f"_{kind}", lambda *_: iter(())) for kind in verify.KINDS if hasattr(verify, f"_{kind}")},
}


@pytest.mark.parametrize(("module", "name", "planted"), PLANTED.values(), ids=PLANTED)
def test_the_kept_texts_find_a_planted_bug(
    module: Any, name: str, planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(PLANTED) == 17
    monkeypatch.setattr(module, name, planted)
    _, broken = replay(KEPT)
    assert any("false accept" in complaint for complaint in broken)


@given(st.binary(max_size=50))
def test_any_bytes_are_a_response_of_their_own(data: bytes) -> None:
    assert text_of(data).encode("utf-8", "surrogateescape") == data


# Mutants


def test_a_survivor_needs_a_reason_and_a_reason_its_survivor() -> None:
    known, new = Mutant("buffer", "a < b", "a <= b"), Mutant("statistics", "c = 1", "c = 2")
    killed = Mutant("statistics", "d = 1", "d = 2", fate="killed")
    tried = [known, new, killed, Mutant("statistics", "while e:", "while not e:", fate="timed out")]
    assert unexplained(tried, {known: "b is never a", new: "c is not read"}) == []
    assert unexplained(tried, {known: "b is never a"}) == [
        "no test notices, and no reason is kept:\n  statistics\n  - c = 1\n  + c = 2"
    ]
    assert unexplained(tried, {known: "b is never a", new: "c is not read", killed: "d is not read"}) == [
        "a reason is kept for what does not survive:\n  statistics\n  - d = 1\n  + d = 2"
    ]
    assert [line.split() for line in table(tried, {known: "b is never a"}).splitlines()] == [
        ["module", "mutants", "killed", "equivalent", "surviving", "killed,", "%"],
        ["buffer", "1", "0", "1", "0", "0.0"],
        ["statistics", "3", "2", "0", "1", "66.7"],
    ]


def test_a_kept_mutant_changes_a_line_that_is_there_once() -> None:
    """So that a reason given for one place is not taken for another."""
    lines = {module: Counter(map(str.strip, mutants._source_of(module).splitlines())) for module in mutants.MUTATED}
    kept = kept_reasons()
    assert len(kept) > 20
    for mutant, reason in kept.items():
        assert lines[mutant.module][mutant.line] == 1, mutant
        assert mutant.becomes != mutant.line
        assert reason.endswith("."), mutant


@pytest.mark.slow
def test_a_mutant_is_killed_by_a_test_or_by_its_limit() -> None:
    code = f"""
from attacks import mutants
mutants.SECONDS = 2
mutants._prepare()
module = "tasks.scheduling.answer"
source = mutants._source_of(module)
assert source == open({answer.__file__!r}, encoding="utf-8").read()
changes = (("MAX_START = 999_999", "MAX_START = 999_998"), ("        end = match", "        while True: end = match"))
for old, new in changes:
    assert old in source
    print(mutants._fate(mutants.Mutant(module, old, new, source.replace(old, new))))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["killed", "timed out"], done.stderr


@pytest.mark.parametrize(
    ("command", "package"), [(["mutants"], "cosmic_ray"), (["fuzz", "--corpus", "texts"], "atheris")]
)
def test_a_missing_tool_is_named_with_its_pip_command(command: list[str], package: str, tmp_path: Path) -> None:
    code = f"""
import runpy, sys
sys.modules[{package!r}] = None
sys.argv = {command!r}
sys.path.insert(0, {str(ROOT)!r})
runpy.run_module("attacks." + sys.argv[0], run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install '.[attack]'" in done.stderr
    assert mutants.ROOT == ROOT
