"""`gce certify`: what passes, what fails and why, and the file that it writes; planted defects are found."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.app import cli
from gce.app.evaluation import certifying
from gce.app.wiring.again import OtherProcessFailed, in_another_process, source_digests
from gce.domain.near_duplicates import near_duplicates
from gce.domain.problems import Message
from gce.domain.tasks import Listed

HERE = Path(__file__).parent
SMALL = ("--n", 12, "--responses", 50, "--audited", 60)
SPLITS, NEAR, ORACLE, ATTACKED, DETERMINISTIC, BLIND, REPLAYED = (
    "splits disjoint, by digest",
    "near-duplicates",
    "oracle answers accepted",
    "verifier withstands gce check",
    "verifier deterministic over processes and hash seeds",
    "prompt-blind baselines below their limits",
    "problems replayed from their keys",
)
Run = Callable[..., tuple[int, dict[str, Any]]]

HASHED = evolve(
    toy_task.WORKED,
    verify=lambda problem, completion, evidence: (
        tuple(evolve(each, status="wrong", score=0.0) for each in toy_task.verify(problem, completion, evidence))
        if hash(completion.text) % 2
        else toy_task.verify(problem, completion, evidence)
    ),
)
"""Its verdicts depend on the hash seed of the process."""
UNSTEADY = evolve(
    toy_task.WORKED, prompt=lambda found, _rng: (Message("user", f"{toy_task.by_hand.__name__} {hash(str(found))}"),)
)
"""Its prompts depend on the hash seed of the process."""
SHARED = evolve(
    toy_task.WORKED, draw=Listed(lambda _preset, _tier, _split: [toy_task.Addition(a, 1, 2) for a in range(8)])
)
"""Its training questions are its test questions."""
REFUSING = evolve(
    toy_task.WORKED,
    teaching=evolve(toy_task.WORKED.teaching, demonstration=lambda problem, _solve: f"w{problem.instance.a}."),
)
"""Its own answers are wrong."""


@pytest.fixture
def certified(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Status and lines by check, as JSON; other processes find the modules of the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(certifying, "HASH_SEEDS", (0, 1))
    monkeypatch.setattr(certifying, "JUDGED", 1)

    def run(*arguments: str | int | Path) -> tuple[int, dict[str, Any]]:
        status = cli.main(["certify", *map(str, arguments), "--json", "--quiet"])
        found = json.loads(capsys.readouterr().out)
        return status, {**found, "by_check": {line["check"]: line for line in found["lines"]}}

    return run


def results(found: dict[str, Any]) -> dict[str, str]:
    return {name: line["result"] for name, line in found["by_check"].items()}


@pytest.mark.slow
def test_a_sound_task_passes_and_the_file_says_so(certified: Run, tmp_path: Path) -> None:
    status, found = certified("toy_task:WORKED", *SMALL, "--out", tmp_path / "c.json")
    assert results(found) == {
        **dict.fromkeys((SPLITS, ORACLE, ATTACKED, DETERMINISTIC, BLIND, REPLAYED), "pass"),
        NEAR: "pass",
    }, found["lines"]
    assert status == 0 and found["ok"]
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["lines"] == found["lines"] and written["certificate"] == 1
    assert {"gce", "module toy_task", "the problems checked"} <= set(written["digests"])
    assert written["versions"]["gce"]
    assert all(line["limit"] and line["found"] and (line["n"] > 0) for line in written["lines"])


def test_a_task_without_oracle_or_limits_says_that_these_do_not_apply(
    certified: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certifying, "CHECKS", (certifying._oracle, certifying._blind))
    _, found = certified("toy_task:PLAIN", *SMALL)
    assert results(found)[ORACLE] == results(found)[BLIND] == "not applicable"
    assert found["by_check"][ORACLE]["found"] == "the task declares no demonstrations and no own answers"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "check", "failing", "said"),
    [
        ("HASHED", certifying._elsewhere, DETERMINISTIC, "verdicts differ between this one and 2 other processes"),
        ("UNSTEADY", certifying._elsewhere, REPLAYED, "problems differ in 2 other processes"),
        ("SHARED", certifying._splits, SPLITS, "8 of 8 digests in more than one split"),
        ("REFUSING", certifying._oracle, ORACLE, "0 of"),
    ],
)
def test_a_planted_defect_fails_its_line(
    certified: Run, monkeypatch: pytest.MonkeyPatch, name: str, check: Any, failing: str, said: str
) -> None:
    monkeypatch.setattr(certifying, "CHECKS", (check,))
    status, found = certified(f"test_certifying:{name}", *SMALL)
    assert status == 1 and not found["ok"]
    assert results(found)[failing] == "fail" and said in found["by_check"][failing]["found"]


@pytest.mark.slow
def test_a_verifier_that_cannot_judge_is_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["certify", "toy_task:UNSURE", *map(str, SMALL), "--json", "--quiet"]) == 3
    assert "could not be given or judged" in capsys.readouterr().err


def test_bad_input_is_one_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["certify", "toy_task:NOTHING"]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("gce certify: module toy_task has no 'NOTHING'")


@pytest.mark.slow
def test_another_process_that_ends_with_an_error_is_a_failure() -> None:
    with pytest.raises(OtherProcessFailed, match="exit status 2"):
        in_another_process(["gce.app.cli", "generate", "--task", "no-such-task"], hash_seed=0, seconds=60)


def test_a_digest_of_sources_follows_the_module() -> None:
    assert set(source_digests("scheduling")) == {"gce"}
    assert set(source_digests("toy_task:ADDITION")) == {"gce", "module toy_task"}


# Near-duplicates


def test_a_copy_with_another_case_is_a_near_duplicate_and_a_template_is_not() -> None:
    """Of twelve words, eight runs of five; one changed at the end leaves seven of nine."""
    text = "the quick brown fox jumps over the lazy dog near the river"
    assert near_duplicates({"a": text}, {"b": text.upper()}).found[0].similarity == 1.0
    changed = near_duplicates({"a": text}, {"b": text.replace("river", "house")})
    assert (changed.found, changed.highest) == ((), 7 / 9)
    numbers = {f"{n}": f"please add these two numbers now {n}" for n in range(40)}
    found = near_duplicates({k: numbers[k] for k in list(numbers)[:20]}, {k: numbers[k] for k in list(numbers)[20:]})
    assert (found.found, found.compared, found.highest) == ((), 20, 0.0)
    assert near_duplicates({str(n): "the same text" for n in range(20)}, {"b": "the same text"}).template == 1


@given(st.lists(st.sampled_from("abcdef "), max_size=60).map("".join))
def test_a_text_is_most_similar_to_itself(text: str) -> None:
    found = near_duplicates({"one": text}, {"other": text})
    assert found.highest == 1.0 and [each.similarity for each in found.found] == [1.0]
