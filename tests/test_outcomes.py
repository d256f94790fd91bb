"""Four outcomes: what failed is outside every rate, tried again, never learned from, and lowers coverage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from present import present
from setting_fields import with_fields

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.runs.memory_store import MemoryRun
from gce.adapters.system.clocks import SystemClock
from gce.app import cli
from gce.app.evaluation.comparison import Measured, against, attempts
from gce.app.evaluation.conversations import converse
from gce.app.evaluation.scoring import (
    accuracy,
    answered,
    check_answers,
    check_coverage,
    judge_each,
    stored_outcome,
)
from gce.app.settings.records import TrainSettings
from gce.app.tables.cells import count_words, coverage_cell
from gce.app.tables.summary import accuracy_rows
from gce.app.terminal import Silent
from gce.app.training.loop import iterate
from gce.app.training.state import Run, RunState, begin
from gce.domain.algorithms import ALGORITHMS
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion, SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.metrics import METRICS, by_tier
from gce.domain.outcomes import coverage, outcome, rate
from gce.domain.statistics import mean_over_tiers, wilson
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.requests import Settings
from gce.domain.tasks import draw_problem, draw_problems
from gce.domain.verdicts import Status, Verdict
from gce.errors import LowCoverage
from gce.ports.model import LearningModel, Sampler

STATUSES: tuple[Status, ...] = ("right", "wrong", "unreadable", "failed")
PROBLEM = draw_problem(toy_task.ADDITION, "small", "T0", "test", 0)
VERIFIER = TaskVerifier(toy_task.ADDITION)
CONFIG = with_fields(
    TrainSettings(), task="toy_task:ADDITION", preset="small", iterations=1, problems=4, samples=6, updates=2, batch=4
)


def completion(finish_reason: str = "stop", key: str = "answer") -> Completion:
    return Completion(key, "w1", finish_reason, "policy")  # type: ignore[arg-type]


def verdict(status: Status) -> Verdict:
    return Verdict(status, {"right": 1.0, "failed": None}.get(status, 0.0), "e", "1")


def judged(status: Status) -> Answer:
    return answered_by(toy_task.ADDITION, PROBLEM, completion(), (verdict(status),))


@pytest.mark.parametrize("status", STATUSES)
def test_one_verdict_is_the_outcome(status: Status) -> None:
    assert judged(status).outcome == status


@given(
    st.lists(st.sampled_from(STATUSES), max_size=4),
    st.booleans(),
    st.sampled_from(["stop", "length", "context", "error"]),
)
def test_failed_comes_first_then_right_then_unreadable(statuses: list[Status], right: bool, reason: str) -> None:
    """Whatever the task admits: with one evaluator that failed there is no reward."""
    found = outcome(completion(reason), map(verdict, statuses), right=right)
    if reason == "error" or "failed" in statuses:
        assert found == "failed"
    elif right:
        assert found == "right"
    else:
        assert found == ("unreadable" if "unreadable" in statuses else "wrong")


@given(st.lists(st.sampled_from(STATUSES)))
def test_what_failed_is_in_no_denominator_and_alone_lowers_coverage(statuses: list[Status]) -> None:
    found = rate(statuses)
    rest = [status for status in statuses if status != "failed"]
    assert (found.n, found.correct) == (len(rest), rest.count("right"))
    assert (found.unreadable, found.failed) == (rest.count("unreadable"), statuses.count("failed"))
    assert (found.low, found.high) == ((plain := wilson(rest.count("right"), len(rest))).low, plain.high)
    assert found.coverage == coverage([found]) == (len(rest) / len(statuses) if statuses else 1.0)


def test_a_rate_by_hand() -> None:
    """Two right of five that were judged, one of them unreadable; the sixth failed."""
    found = rate(["right", "wrong", "failed", "unreadable", "right", "wrong"])
    assert (found.n, found.correct, found.share, found.unreadable, found.failed) == (5, 2, 0.4, 1, 1)
    assert found.coverage == 5 / 6
    assert coverage([found, wilson(1, 4)]) == 9 / 10


def test_a_tier_of_which_all_failed_has_no_share_and_no_mean() -> None:
    found = {"T0": rate(["right"]), "T1": rate(["failed"])}
    assert mean_over_tiers(found.values()) is None
    _, ((*_, first, second, mean, covered),) = accuracy_rows({"after": found}, ["T0", "T1"])
    assert (first[:3], second, mean, covered) == ("100", "-", "-", "50 %")


def test_coverage_is_never_rounded_up_to_all() -> None:
    assert [coverage_cell(share) for share in (1.0, 0.99999, 0.985, 0.0)] == ["100 %", "99.9 %", "98.5 %", "0 %"]


def test_samples_that_failed_are_no_samples_for_pass_at_k() -> None:
    """One of two problems has eight samples left: pass@8 is over that one alone, pass@1 over both."""
    other = draw_problem(toy_task.ADDITION, "small", "T0", "test", 1)
    wrong: list[Status] = ["wrong"] * 7
    statuses: list[Status] = ["failed", *wrong]
    answers = [judged("right")] * 8 + [evolve(judged(s), problem=other) for s in statuses]
    found = [by_tier(METRICS[f"pass@{k}"], [Conversation((each,)) for each in answers]) for k in (1, 8, 64)]
    assert (found[0]["T0"].value, found[1]["T0"].value, found[2]) == (0.5, 1.0, {})


def test_records_of_earlier_versions_have_an_outcome() -> None:
    def record(status: str, reason: str = "stop", right: bool = False) -> dict[str, object]:
        return {"verdicts": [{"status": status}], "finish_reason": reason, "right": right}

    assert stored_outcome(record("no_verdict")) == stored_outcome(record("wrong", "error")) == "failed"
    assert (stored_outcome(record("right", right=True)), stored_outcome(record("wrong"))) == ("right", "wrong")
    assert stored_outcome({**record("wrong"), "outcome": "unreadable"}) == "unreadable"


def test_low_coverage_says_what_failed_and_how_often() -> None:
    failed = evolve(judged("failed"), completion=evolve(completion("error"), error="the server was away"))
    check_answers("test", [judged("right")] * 98 + [failed] * 2, 0.98)
    with pytest.raises(LowCoverage, match=r"3 of 100 .*T0: the server was away \(3 times\)\. Coverage is 97 %"):
        check_answers("test", [judged("wrong")] * 97 + [failed] * 3, 0.98)
    assert LowCoverage.status == 3


def failing(times: int, wanted: Callable[[SampleRequest], bool] = lambda _request: True) -> ScriptedModel:
    """A backend that gives no answer to what is `wanted`, so many times for each request."""
    left: dict[str, int] = {}

    class Failing(ScriptedModel):
        def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
            hit = {request.key for request in requests if wanted(request)}
            for found in super().sample(requests):
                if found.key in hit and left.setdefault(found.key, times) > 0:
                    left[found.key] -= 1
                    yield evolve(found, text="", finish_reason="error", error="away", token_ids=None)
                else:
                    yield found

    def answer(request: SampleRequest) -> str:
        a, b, _ = (int(word[1:]) for word in request.messages[0].content.split()[:3])
        return f"w{request.seed % 7} w{a + b}" if request.seed % 3 else "about w1 or so"

    return Failing(answer)


@pytest.mark.parametrize(("times", "failed"), [(1, 0), (2, 5)])
def test_what_failed_is_asked_again_once(times: int, failed: int) -> None:
    problems = {f"{n}": draw_problem(toy_task.ADDITION, "small", "T0", "test", n) for n in range(5)}
    requests = [SampleRequest(name, problem.prompt, seed=1) for name, problem in problems.items()]
    answers = list(answered(failing(times), toy_task.ADDITION, VERIFIER, requests, problems))
    assert sorted(answer.completion.key for answer in answers) == sorted(problems)
    assert sum(answer.failed for answer in answers) == failed


def test_a_verifier_that_raises_is_asked_again_and_never_makes_an_answer_wrong() -> None:
    calls: list[str] = []

    def verify(problem: Any, found: Any, evidence: Any) -> Any:
        calls.append(found.key)
        if len(calls) == 1:
            raise RuntimeError("no memory\nleft")
        return toy_task.verify(problem, found, evidence)

    task = evolve(toy_task.ADDITION, verify=verify)
    requests = [SampleRequest("a", PROBLEM.prompt, seed=1)]
    model = ScriptedModel(lambda _request: f"w{PROBLEM.instance.a + PROBLEM.instance.b}")
    (answer,) = answered(model, task, TaskVerifier(task), requests, {"a": PROBLEM})
    assert (answer.outcome, calls) == ("right", ["a", "a"])
    calls.clear()
    (found,) = task.judge(PROBLEM, completion())
    assert (found.status, found.score) == ("failed", None)
    assert found.violations[0].message == "the verifier raised RuntimeError: no memory left"


def a_run(model: LearningModel, watcher: Silent | None = None, **settings: Any) -> Run:
    config = with_fields(CONFIG, **settings)
    dev = draw_problems(toy_task.ADDITION, "small", "T0", "dev", 4)
    algorithm, clock = ALGORITHMS[config.objective.algorithm], SystemClock()
    return Run(config, toy_task.ADDITION, VERIFIER, algorithm, model, MemoryRun(), clock, watcher or Silent(), dev)


def finish(run: Run) -> tuple[RunState, Run]:
    *_, (state, _) = iterate(run, begin(run.settings))
    return state, run


@pytest.mark.parametrize("admission", ["verified", "all", "shuffled"])
def test_rollouts_that_failed_are_kept_and_count_for_nothing(admission: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In controls, too, where a wrong answer may be learned from."""
    model = failing(9, lambda request: request.key.startswith("1/") and request.key.endswith("/0"))
    said: list[str] = []
    watcher = Silent()
    monkeypatch.setattr(watcher, "say", said.append)
    state, run = finish(a_run(model, watcher, admission=admission, min_coverage=0.5, per_problem=None))
    (record,) = run.store.read("iterations")
    rollouts = list(run.store.read("rollouts"))
    assert sum(record["failed"].values()) == state.failed == 4
    assert state.rollouts == sum(count["rollouts"] for count in record["tiers"].values()) == 20
    assert [each["outcome"] for each in rollouts].count("failed") == 4
    assert not any(each["admitted"] for each in rollouts if each["outcome"] == "failed")
    assert not any(trace["key"].endswith("/0") for trace in run.store.read("traces"))
    assert sum(state.history.rollouts.values()) == 20
    assert said[0].startswith("warning: 4 of 24 rollouts failed and are excluded; T")


def test_an_iteration_with_too_many_failures_is_not_committed() -> None:
    run = a_run(failing(9, lambda request: request.key.startswith("1/")))
    with pytest.raises(LowCoverage, match=r"rollouts of iteration 1: 24 of 24 .*away"):
        finish(run)
    assert run.store.last() is None and not list(run.store.held())


def test_a_look_at_dev_problems_with_too_many_failures_stops_nothing_and_is_not_committed() -> None:
    run = a_run(failing(9, lambda request: "/dev/" in request.key), until=0.01)
    with pytest.raises(LowCoverage, match="dev problems: 4 of 4"):
        finish(run)
    assert run.store.last() is None


def test_a_conversation_ends_where_a_reply_fails_and_has_failed() -> None:
    """In a draft, too, which nobody judges; the gain is over the problems at which neither mode failed."""
    problems = draw_problems(toy_task.ADDITION, "small", "T0", "test", 6)
    first = problems[0].key

    def measured(mode: str, model: Sampler) -> Measured:
        answers = converse(STRATEGIES[mode], model, toy_task.ADDITION, VERIFIER, problems, Settings())
        return Measured(tuple(answers), 1.0)

    found = {
        "zero-shot": measured("zero-shot", failing(0)),
        "simulate": measured("simulate", failing(9, lambda request: request.key.startswith(first))),
        "multi-turn": measured("multi-turn", failing(9, lambda request: request.key.startswith(first))),
    }
    for mode in ("simulate", "multi-turn"):
        assert [answer.failed for answer in found[mode].judged] == [True, *[False] * 5]
        assert accuracy(found[mode].judged)["T0"].coverage == 5 / 6
    assert attempts(found["multi-turn"]).first.n == 5
    zero = {answer.problem.key: answer.right for answer in found["zero-shot"].judged[1:]}
    gains = against(found)
    for mode, gain in gains.items():
        pairs = [(answer.right, zero[answer.problem.key]) for answer in found[mode].judged[1:]]
        assert (gain.gained, gain.lost) == (pairs.count((True, False)), pairs.count((False, True)))


# On the command line

AWAY: set[str] = set()
"""Tiers to which `unreliable` gives no answer."""


def unreliable(_config: object, _task: object) -> Sampler:
    return failing(10**6, lambda request: any(f"/{tier}/" in request.key for tier in AWAY))


def broken(problem: Any, found: Any, evidence: Any) -> Any:
    """A verifier that breaks on every third test problem."""
    if "/test/" in problem.key and int(problem.key.rsplit("/", 1)[1]) % 3 == 0:
        raise OSError("the sandbox is gone")
    return toy_task.verify(problem, found, evidence)


BROKEN = evolve(toy_task.ADDITION, name="broken", verify=broken)


@pytest.fixture
def away() -> Iterator[set[str]]:
    AWAY.clear()
    yield AWAY
    AWAY.clear()


EVALUATE = ("evaluate", "--task", "toy_task:ADDITION", "--model", "test_outcomes:unreliable", "--n", "4")


def test_an_evaluation_below_the_limit_shows_its_table_and_ends_with_3(
    away: set[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    away.add("T1")
    assert cli.main([*EVALUATE]) == 3
    shown = capsys.readouterr()
    (row,) = [line for line in shown.out.splitlines() if line.startswith("zero-shot  ")]
    assert row.split()[-2:] == ["66.6", "%"] and " - " in row
    assert "zero-shot: 4 of 12 failed and are excluded from accuracy; T1: away" in shown.out
    assert "zero-shot: 4 of 12 answers could not be given or judged: T1: away (4 times)" in shown.err
    assert cli.main([*EVALUATE, "--json"]) == 3
    mode = json.loads(capsys.readouterr().out)["modes"]["zero-shot"]
    assert (mode["coverage"], mode["mean"]) == (8 / 12, None)
    assert (mode["tiers"]["T1"]["n"], mode["tiers"]["T1"]["failed"]) == (0, 4)
    assert cli.main([*EVALUATE, "--min-coverage", "0.6"]) == 0


def test_answers_that_failed_are_asked_again_by_the_same_command(away: set[str], tmp_path: Path) -> None:
    away.add("T1")
    file = tmp_path / "answers.jsonl"
    assert cli.main([*EVALUATE, "--answers", str(file)]) == 3
    away.clear()
    assert cli.main([*EVALUATE, "--answers", str(file)]) == 0
    assert len(file.read_text().splitlines()) == 1 + 12 + 4


def test_one_broken_verifier_does_not_make_a_model_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """The reference row is at 100 % of what could be judged, and audit says that coverage is too low."""
    task = ("--task", "test_outcomes:BROKEN", "--n", "6")
    assert cli.main(["evaluate", *task, "--model", "toy_task:careless", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert {(share["correct"], share["n"], share["failed"]) for share in found["heuristics"]["adds"].values()} == {
        (4, 4, 2)
    }
    assert cli.main(["audit", *task]) == 3
    assert "reference answers: 2 of 6 answers could not be" in capsys.readouterr().err


def test_training_ends_with_3_before_it_learns_from_a_part(
    tmp_path: Path, away: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """And goes on with what it has once all is mended."""
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    away.add("T0")
    run = str(tmp_path / "run")
    settings = [
        "--problems",
        "4",
        "--rollouts",
        "3",
        "--iterations",
        "1",
        "--dev",
        "2",
        "--test",
        "3",
        "--updates",
        "1",
    ]
    toy = ["--task", "toy_task:ADDITION", "--model", "test_outcomes:unreliable"]
    assert cli.main(["train", *toy, *settings, "--run-dir", run]) == 3
    assert "test problems before training: 3 of 9 answers could not" in capsys.readouterr().err
    away.clear()
    assert cli.main(["train", "--run-dir", run, "--resume", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["failed_rollouts"] == 0
    assert all(share["failed"] == 0 and share["n"] == 3 for share in summary["after"].values())


def test_how_many_problems_there_are_is_said_where_tiers_differ() -> None:
    assert count_words({"T0": 200, "T1": 200}, 200) == "n = 200 a tier"
    assert count_words({"T0": 192, "T1": 200, "T2": 200}, 200) == "n = 200 a tier, 192 in T0 (all there are)"
    assert count_words({"T0": 12}, 200) == "n = 12 (all there are)"
    twelve = "12 in T0 (all there are), 12 in T1 (all there are)"
    assert count_words({"T0": 12, "T1": 12, "T2": 200}, 200) == f"n = 200 a tier, {twelve}"


@pytest.mark.parametrize(("failed", "asked", "least"), [(7, 100, 0.93), (8, 10, 0.2), (9, 10, 0.1), (2, 100, 0.98)])
def test_coverage_exactly_at_the_limit_is_enough(failed: int, asked: int, least: float) -> None:
    check_coverage("test", failed, asked, least)
    with pytest.raises(LowCoverage):
        check_coverage("test", failed + 1, asked, least)


def test_a_task_is_not_asked_for_the_reward_of_what_could_not_be_judged() -> None:
    """Its own rule may need the score that a failed verdict does not have."""
    task = evolve(toy_task.UNSURE, reward=lambda verdicts: min(present(verdict.score) for verdict in verdicts))
    (answer,) = judge_each(task, TaskVerifier(task), [(PROBLEM, completion())])
    assert (answer.outcome, answer.right, answer.reward) == ("failed", False, None)


def test_a_dev_tier_that_failed_wholly_says_nothing_of_the_best_iteration() -> None:
    run = a_run(failing(9, lambda request: "/T1/dev" in request.key or "/dev/T1/" in request.key), min_coverage=0.1)
    dev = [
        *draw_problems(toy_task.ADDITION, "small", "T0", "dev", 2),
        *draw_problems(toy_task.ADDITION, "small", "T1", "dev", 2),
    ]
    state, _ = finish(evolve(run, dev=tuple(dev)))
    assert (state.best, state.looks_since_best) == (None, 0)
