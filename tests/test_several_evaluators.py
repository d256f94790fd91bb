"""Several evaluators: their scores, how they are combined into a reward, and what a run makes of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.app import cli
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
from gce.domain.evaluators.combination import Combination, scores_by_evaluator
from gce.domain.evaluators.comparison import compare_evaluators
from gce.domain.evaluators.scores import scored, scores_of
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.verdicts import Verdict, deciding
from gce.errors import SettingError

SCHEDULING = TASKS["scheduling"]
INSTANCE = Instance(
    jobs=(Job("A", 2, (1,)), Job("B", 2, (1,), 4), Job("C", 1, (1,))),
    precedence=(("A", "C"), ("B", "C")),
    resources=(Resource("crane", 1),),
    horizon=6,
)
"""A and B share a crane, and C follows both: 5 is the least makespan."""
PROBLEM = Problem(ProblemId("scheduling", "grounded", "test", "T2", 0, 0), INSTANCE, (Message("user", "?"),), "digest")


def judged(text: str, tokens: int | None = None) -> Answer:
    completion = Completion("key", text, "stop", policy="test", tokens=tokens)
    own = SCHEDULING.judge(PROBLEM, completion)
    beside = (scored(name, score, PROBLEM, completion, own) for name, score in scores_of(SCHEDULING).items())
    return answered_by(SCHEDULING, PROBLEM, completion, (*own, *beside))


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        # Right, and one hour longer than needed.
        ("A 0, B 2, C 5", {"precedence": 1.0, "capacity": 1.0, "deadlines": 1.0, "optimality": 5 / 6, "format": 1.0}),
        ("B 0, A 2, C 4", {"precedence": 1.0, "capacity": 1.0, "deadlines": 1.0, "optimality": 1.0, "format": 1.0}),
        # A and B overlap: two of three jobs. C starts before both have ended.
        ("A 0, B 0, C 1", {"precedence": 0.0, "capacity": 0.0, "deadlines": 1.0, "optimality": 0.0, "format": 1.0}),
        # B is late, and so is the project: none of two deadlines is kept; C follows A alone.
        ("A 0, B 5, C 3", {"precedence": 0.5, "capacity": 1.0, "deadlines": 0.0, "optimality": 0.0, "format": 1.0}),
        ("A 0", {"precedence": 0.0, "capacity": 0.0, "deadlines": 0.0, "optimality": 0.0, "format": 1.0}),
        ("no idea", {"precedence": 0.0, "capacity": 0.0, "deadlines": 0.0, "optimality": 0.0}),
    ],
)
def test_scores_of_schedules(text: str, scores: dict[str, float]) -> None:
    found = scores_by_evaluator(judged(f"Answer: {text}"))
    assert {name: found[name] for name in scores} == pytest.approx(scores)


def test_length_and_steps() -> None:
    """640 tokens are allowed: 160 leave three quarters; without a count of tokens there is no score."""
    assert scores_by_evaluator(judged("Answer: A 0", 160))["length"] == pytest.approx(0.75)
    assert scores_by_evaluator(judged("Answer: A 0", 10_000))["length"] == 0.0
    assert scores_by_evaluator(judged("Answer: A 0"))["length"] is None
    assert scores_by_evaluator(judged("Answer: A 0"))["steps"] == 0.0, "there are none"


def test_the_critic_is_the_likelihood_and_is_not_judged_again(tmp_path: Path, capsys: Any) -> None:
    """Tokens of probability 1/2 and 1/8 have a geometric mean of 1/4; none without log-probabilities."""
    pytest.importorskip("safetensors")
    said = Completion("key", "A 0", "stop", policy="test", log_probabilities=(math.log(1 / 2), math.log(1 / 8)))
    critic = scores_of(SCHEDULING)["critic"]
    assert critic(PROBLEM, said, ()) == pytest.approx(0.25)
    assert critic(PROBLEM, evolve(said, log_probabilities=None), ()) is None
    run = str(tmp_path / "run")
    sizes = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--iterations", "1", "--problems", "2")
    rest = ("--rollouts", "2", "--dev", "0", "--test", "2", "--updates", "1", "--hold-out-evaluators", "critic,length")
    assert cli.main(("train", *sizes, *rest, "--run-dir", run)) == 0
    assert cli.main(("rescore", run)) == 0
    assert "0 verdicts changed" in capsys.readouterr().out


def test_processor_time_of_faster_programs() -> None:
    """Half as fast as the known form, faster than it, and not equal to the slow one."""
    score = scores_of(TASKS["faster"])["cpu-time"]
    completion = Completion("key", "text", "stop", policy="test")
    for speedup, expected in ((5.0, 0.5), (20.0, 1.0)):
        measures = {"speedup": speedup, "speedup_known": 10.0}
        assert score(PROBLEM, completion, (Verdict("wrong", 0.5, "faster", "2", measures),)) == expected
    assert score(PROBLEM, completion, (Verdict("wrong", 0.0, "faster", "2", {"calls": 8.0}),)) == 0.0


def test_scores_beside_never_decide() -> None:
    """A failed evaluator, and one that gives 0, leave a right answer right."""
    answer = judged("Answer: B 0, A 2, C 4")
    failed = scored("bad", lambda *_: 1 / 0, PROBLEM, answer.completion, answer.verdicts)
    assert failed.status == "failed" and "ZeroDivisionError" in failed.violations[0].message
    worst = scored("worst", lambda *_: 0.0, PROBLEM, answer.completion, answer.verdicts)
    again = answered_by(SCHEDULING, PROBLEM, answer.completion, (*answer.verdicts, failed, worst))
    assert again.right and again.reward == 1.0 and again.outcome == "right" and again.reason == ""
    assert deciding(again.verdicts) == deciding(answer.verdicts) and len(deciding(again.verdicts)) == 1
    for nonsense in (2.0, float("nan"), -0.1, "high"):
        verdict = scored("odd", lambda *_, value=nonsense: value, PROBLEM, answer.completion, ())
        assert verdict.status == "failed" and verdict.beside


def test_a_verdict_that_decides_is_stored_as_before() -> None:
    own, *beside = judged("Answer: A 0").verdicts
    assert "beside" not in to_plain(own) and all(to_plain(each)["beside"] for each in beside)
    assert from_plain(Verdict, to_plain(beside[0])) == beside[0]


def test_scores_of_programs_and_beliefs() -> None:
    """Three of four hidden calls; a belief of 0.7 in what did not happen: 1 - 0.49."""
    part = Verdict("wrong", 0.0, "programs", "2", measures={"calls": 4.0, "calls_right": 3.0})
    completion = Completion("key", "text", "stop", policy="test")
    assert scores_of(TASKS["programs"])["tests"](PROBLEM, completion, (part,)) == 0.75
    question = next(iter(draw_problems(TASKS["beliefs"], "sources", "B1", "test", 1)))
    question = evolve(question, instance=evolve(question.instance, outcome=0))
    stated = Verdict("wrong", 0.5, "beliefs", "1", measures={"belief": 0.7})
    brier = scores_of(TASKS["beliefs"])["brier"]
    assert brier(question, completion, (stated,)) == pytest.approx(0.51)
    assert brier(question, completion, (Verdict("unreadable", 0.0, "beliefs", "1"),)) == 0.0


# Combination


def test_the_sum_weighs_and_is_gated_by_correctness() -> None:
    """(1 * 1 + 0.5 * 0.4) / 1.5 = 0.8; a wrong answer with the best other scores gets 0; what is missing counts 0."""
    rule = Combination({"verifier": 1.0, "steps": 0.5})
    group: list[dict[str, float | None]] = [
        {"verifier": 1.0, "steps": 0.4},
        {"verifier": 0.0, "steps": 1.0},
        {"verifier": 1.0, "steps": None},
    ]
    assert rule.rewards(group, [True, False, True]) == pytest.approx([0.8, 0.0, 2 / 3])
    assert rule.admit_at == pytest.approx(2 / 3), "all right answers are positives"


def test_a_right_answer_is_a_positive_where_the_verifier_is_graded() -> None:
    """A belief within two points is right, and its reward is 0.9998."""
    rule = Combination({"verifier": 1.0, "length": 1.0})
    assert rule.rewards([{"verifier": 0.9998, "length": 0.0}], [True]) == [rule.admit_at]


def test_lexicographic_takes_the_first_difference() -> None:
    rule = Combination({"verifier": 1.0, "steps": 1.0, "length": 1.0}, "lexicographic")
    group = [
        {"verifier": 1.0, "steps": 0.9, "length": 0.1},
        {"verifier": 1.0, "steps": 0.9, "length": 0.2},
        {"verifier": 1.0, "steps": 0.5, "length": 1.0},
        {"verifier": 0.0, "steps": 1.0, "length": 1.0},
    ]
    assert rule.rewards(group, [True, True, True, False]) == [0.0, 1.0, 0.0, 0.0]
    assert rule.rewards(group[3:], [False]) == [0.0]


def test_pareto_admits_what_nothing_dominates() -> None:
    rule = Combination({"verifier": 1.0, "steps": 1.0, "length": 1.0}, "pareto")
    group = [
        {"verifier": 1.0, "steps": 1.0, "length": 0.1},
        {"verifier": 1.0, "steps": 0.5, "length": 0.9},
        {"verifier": 1.0, "steps": 0.4, "length": 0.9},
        {"verifier": 0.0, "steps": 1.0, "length": 1.0},
    ]
    assert rule.rewards(group, [True, True, True, False]) == [1.0, 1.0, 0.0, 0.0]


GROUPS = st.lists(
    st.tuples(st.booleans(), st.floats(0.0, 1.0, allow_subnormal=False), st.floats(0.0, 1.0, allow_subnormal=False)),
    min_size=1,
    max_size=8,
)


@given(GROUPS, st.sampled_from(["sum", "lexicographic", "pareto"]))
def test_what_is_not_right_earns_nothing_and_some_right_answer_something(group: list[Any], rule: Any) -> None:
    combination = Combination({"verifier": 2.0, "one": 1.0, "other": 0.5}, rule)
    scores = [{"verifier": float(right), "one": one, "other": other} for right, one, other in group]
    right = [each for each, _, _ in group]
    rewards = combination.rewards(scores, right)
    assert all(0.0 <= reward <= 1.0 for reward in rewards)
    assert all(is_right for reward, is_right in zip(rewards, right, strict=True) if reward > 0.0)
    assert any(reward >= combination.admit_at - 1e-12 for reward in rewards) is any(right)
    order = list(reversed(range(len(group))))
    again = combination.rewards([scores[place] for place in order], [right[place] for place in order])
    assert again == pytest.approx([rewards[place] for place in order]), "the order of a group does not matter"


@pytest.mark.parametrize("weights", [{}, {"steps": 1.0}, {"verifier": 0.0}, {"verifier": 1.0, "steps": float("inf")}])
def test_weights_that_are_none(weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Combination(weights)


# Before and after


def answers(rows: Sequence[tuple[str, float, float | None]]) -> list[Answer]:
    """Answers of tier T0, each with its reward and the score of one evaluator beside."""
    found = []
    for number, (_, reward, score) in enumerate(rows):
        problem = evolve(PROBLEM, id=ProblemId("scheduling", "grounded", "test", "T0", 0, number))
        own = Verdict("right" if reward == 1.0 else "wrong", reward, "rcpsp", "2")
        beside = Verdict("failed" if score is None else "wrong", score, "taught", "1", beside=True)
        held = Verdict("wrong", reward / 2, "held", "1", beside=True)
        found.append(answered_by(SCHEDULING, problem, Completion("", "", "stop", policy=""), (own, beside, held)))
    return found


def test_the_gap_is_what_those_that_teach_rose_more() -> None:
    """Verifier 0 to 1 and taught 0.2 to 0.6 on each of 12: 0.7 on average; held out 0 to 0.5: a gap of 0.2."""
    before, after = answers([("", 0.0, 0.2)] * 12), answers([("", 1.0, 0.6)] * 12)
    found = compare_evaluators(before, after, {"verifier": 1.0, "taught": 0.5}, ("held",))
    assert [(row.name, row.weight, row.n, row.missing) for row in found.rows] == [
        ("verifier", 1.0, 12, 0),
        ("taught", 0.5, 12, 0),
        ("held", None, 12, 0),
    ]
    assert [row.after for row in found.rows] == pytest.approx([1.0, 0.6, 0.5])
    assert found.gap is not None and found.gap.mean.value == pytest.approx(0.2)
    assert found.answers == 12 and found.effective is not None
    assert from_plain(type(found), json.loads(json.dumps(to_plain(found)))) == found


def test_scores_that_are_missing_are_counted_and_left_out() -> None:
    before, after = answers([("", 0.0, 0.2)] * 3), answers([("", 1.0, 0.6), ("", 1.0, None), ("", 0.0, 0.4)])
    taught = compare_evaluators(before, after, {"verifier": 1.0, "taught": 1.0}, ()).rows[1]
    assert (taught.n, taught.missing) == (2, 1) and taught.after == pytest.approx(0.5)
    assert compare_evaluators(before, after, {"verifier": 1.0}, ("held",)).effective is None, "fewer than ten answers"


# Runs


@pytest.mark.slow
def test_a_run_with_several_evaluators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlx.core")
    place = str(tmp_path / "run")
    options = ("--iterations", "1", "--problems", "5", "--rollouts", "2", "--test", "2", "--dev", "0", "--shifts", "0")
    further = (
        "--evaluators",
        "verifier,steps=0.5,length",
        "--hold-out-evaluators",
        "optimality",
        "--combine",
        "pareto",
    )
    assert cli.main(("train", *options, *further, "--run-dir", place)) == 0
    said = capsys.readouterr().out
    assert (
        "Evaluators: mean scores in [0, 1]" in said
        and "held out" in said
        and "Change of those that teach less that of those held out: " in said
    )
    assert cli.main(("rescore", place)) == 0
    assert cli.main(("report", place)) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "optimality" in page and "steps: 0." in page
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [row["name"] for row in summary["evaluators"]["rows"]] == ["verifier", "steps", "length", "optimality"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--evaluators", "verifier,stepz"), "did you mean steps?"),
        (("--evaluators", "steps"), "must have verifier among them"),
        (("--evaluators", "verifier=-1"), "expected"),
        (("--evaluators", "verifier,steps", "--hold-out-evaluators", "steps"), "name it once"),
        (("--evaluators", "verifier,steps", "--combine", "mean"), "expected"),
        (("--evaluators", "verifier,steps", "--admission", "shuffled"), "--admission must be verified or top:SHARE"),
    ],
)
def test_one_line_says_what_is_wrong(
    options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(("train", *options, "--run-dir", str(tmp_path / "run"))) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error and not (tmp_path / "run").exists()


def test_settings_from_python_are_checked() -> None:
    from gce.app.settings.records import EvaluatorSettings

    with pytest.raises(SettingError, match="correctness gates everything"):
        EvaluatorSettings(teach={"steps": 1.0})
