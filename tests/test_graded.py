"""Tasks that return fractions: rewards in `answers()`, mean rewards beside accuracy, one interval a number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.app.evaluation.results import summary
from gce.app.evaluation.scoring import answer_record
from gce.app.evaluation.scoring import stored_reward as answer_reward
from gce.app.tables.cells import and_others
from gce.app.tables.summary import accuracy_rows, reward_rows
from gce.app.training.result import Result
from gce.domain.completions import SampleRequest
from gce.domain.measurements import MeanReward
from gce.domain.outcomes import mean_reward, rate
from gce.domain.statistics import Estimate, interval, mean_of_problems, mean_of_tiers, mean_over_tiers, wilson
from gce.domain.tasks import Task, TaskTier
from gce.domain.verdicts import Verdict


def partly(verdicts: Any) -> float:
    """1 where the answer is right, a quarter for any other number, nothing for none."""
    (verdict,) = verdicts
    grammar = any(violation.kind == "grammar" for violation in verdict.violations)
    return 1.0 if verdict.right else 0.0 if grammar else 0.25


def failing(problem: Any, completion: Any, evidence: Any = None) -> tuple[Verdict, ...]:
    """No verdict on what has no number."""
    found = toy_task.verify(problem, completion, evidence)
    return found if found[0].right or found[0].violations[0].kind == "sum" else (Verdict("failed", None, "sum", "1"),)


def guessing(_config: Any, _task: Any) -> ScriptedModel:
    """A model that is right, off by one, or says nothing that can be read."""

    def answer(request: SampleRequest) -> str:
        a, b, _ = (int(word[1:]) for word in request.messages[0].content.split())
        return (f"w{a + b}", f"w{a + b + 1}", "no idea")[request.seed % 3]

    return ScriptedModel(answer)


GRADED = evolve(toy_task.ADDITION, reward=partly)
ONE_TIER = evolve(GRADED, presets={"small": (TaskTier("T0"),)})
CASES: dict[str, Any] = {"model": "test_graded:guessing", "progress": False}
SMALL: dict[str, Any] = {"problems": 4, "samples": 2, "updates": 1, "iterations": 1, "dev": 1}


def trained(task: Task, **more: Any) -> Result:
    return gce.train(task=task, **CASES, **SMALL, **{"test": 20, **more})


def rows_of(text: str, head: str) -> dict[str, list[float]]:
    """By row name, the point estimates of the table whose first line begins with `head`."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(head))
    found = {}
    for line in lines[start + 2 :]:
        if "(" not in line:
            break
        found[re.split("  +", line)[0]] = [float(each) for each in re.findall(r"([0-9.]+) \(", line)]
    return found


# Rewards of answers


def test_every_answer_of_a_result_and_an_evaluation_has_its_reward() -> None:
    """Whether it is 0, 1 or a fraction; what is stored of 0 and 1 stays as it was."""
    result = trained(GRADED)
    evaluation = gce.evaluate(task=GRADED, n=20, **CASES)
    for answers in (result.answers(), evaluation.answers()):
        records = list(answers)
        rewards = [record["reward"] for record in records]
        assert set(rewards) == {0.0, 0.25, 1.0} and {type(reward) for reward in rewards} == {float}
        assert all(record["right"] == (record["reward"] == 1.0) for record in records)
    with result.run() as run:
        assert {record.get("reward") for record in run.answers("test-after")} == {None, 0.25}
    pytest.importorskip("pandas")
    rewards = [answer.last.reward for answer in evaluation.conversations["zero-shot"]]
    assert evaluation.answers().to_pandas()["reward"].mean() == pytest.approx(sum(rewards) / 60)


def test_so_has_every_answer_of_a_binary_task_and_what_failed_has_none() -> None:
    binary = gce.evaluate(task=toy_task.ADDITION, n=20, **CASES)
    assert {(each["right"], each["reward"]) for each in binary.answers()} == {(True, 1.0), (False, 0.0)}
    task = evolve(toy_task.ADDITION, verify=failing)
    records = list(gce.evaluate(task=task, n=20, **CASES).answers())
    assert {(each["outcome"], each["reward"]) for each in records} == {("right", 1.0), ("wrong", 0.0), ("failed", None)}
    assert not any("reward" in answer_record(each.last) for each in binary.conversations["zero-shot"])


# Mean rewards


def test_a_mean_reward_by_hand() -> None:
    """Of 1, a half, 0 and one that failed: half of three, with the interval of a share of a half."""
    found = mean_reward([1.0, 0.5, None, 0.0])
    mean = mean_of_problems([1.0, 0.5, 0.0])
    assert found == MeanReward(3, 1.5, mean.low, mean.high, graded=True) and found.value == 0.5
    assert mean_reward([None]) == MeanReward(0, 0.0, 0.0, 1.0) and mean_reward([]).value == 0.0


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=30), min_size=1, max_size=4))
def test_where_all_rewards_are_0_or_1_the_mean_reward_is_the_accuracy(tiers: list[list[bool]]) -> None:
    """Of each tier and of the mean, with the same intervals."""
    shares = {f"T{number}": wilson(sum(tier), len(tier)) for number, tier in enumerate(tiers)}
    rewards = {f"T{number}": mean_reward(map(float, tier)) for number, tier in enumerate(tiers)}
    assert not any(found.graded for found in rewards.values())
    for tier, share in shares.items():
        found = rewards[tier]
        assert (found.n, found.value, found.low, found.high) == (share.n, share.share, share.low, share.high)
    assert mean_over_tiers(shares.values()) == mean_over_tiers(rewards.values())


def test_an_evaluation_of_a_graded_task_shows_mean_rewards_beside_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = gce.evaluate(task=GRADED, n=20, **CASES)
    rows = rows_of(str(found), "mean reward")
    assert list(rows) == ["zero-shot", "best prompt-blind", "adds"] and rows["adds"] == [1.0] * 4
    answers = list(found.answers())
    for number, tier in enumerate(("T0", "T1", "T2")):
        rewards = [each["reward"] for each in answers if each["tier"] == tier]
        assert rows["zero-shot"][number] == pytest.approx(sum(rewards) / 20, abs=5.1e-3)
        expected: Any = found.estimates("mean reward")["zero-shot"][tier]
        stored = shown(found)["modes"]["zero-shot"]["tiers"][tier]
        assert (stored["low"], stored["high"], stored["n"]) == (expected.low, expected.high, 20)
    # Always 0 is right or off by some: a quarter and three quarters of the share that is right.
    share = summary(found)[0]["floors"]["always 0"]["T0"]
    assert rows["best prompt-blind"][0] == pytest.approx(0.25 + 0.75 * share["correct"] / 20, abs=5.1e-3)
    assert "mean reward" in found._repr_html_()


def shown(found: Any) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = summary(found)[0]["mean_reward"]
    return plain


def test_the_metric_is_not_shown_a_second_time_and_samples_have_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = gce.evaluate(task=GRADED, n=20, metrics="mean reward", **CASES)
    assert str(found).count("\nmean reward  ") == 1
    several = gce.evaluate(task=GRADED, n=10, samples=2, temperature=1.0, **CASES)
    assert str(several).count("\nmean reward") == 1 and shown(several)["modes"]["zero-shot"]["tiers"]["T0"]["n"] == 10


def test_gains_in_mean_reward_stand_below_those_in_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over tiers of the differences, problem by problem."""
    monkeypatch.setenv("COLUMNS", "200")
    found = gce.evaluate(task=GRADED, n=20, strategies=["zero-shot", "multi-turn"], **CASES)
    differences: dict[str, list[float]] = {}
    both = zip(found.conversations["multi-turn"], found.conversations["zero-shot"], strict=True)
    for later, earlier in both:
        differences.setdefault(later.last.problem.tier, []).append(later.last.reward - earlier.last.reward)  # type: ignore[operator]
    mean = sum(sum(each) / len(each) for each in differences.values()) / len(differences)
    line = next(each for each in str(found).split("gain in mean reward")[1].splitlines() if "multi-turn" in each)
    assert line.split()[1] == f"{mean:+.3f}"
    assert summary(found)[0]["modes"]["multi-turn"]["against_reward"]["mean"]["value"] == pytest.approx(mean)


def test_intervals_are_by_the_method_that_was_asked_for() -> None:
    found = gce.evaluate(task=GRADED, n=20, interval="clopper-pearson", **CASES)
    plain = shown(found)
    for row in (plain["modes"]["zero-shot"]["tiers"], plain["floors"]["always 0"]):
        mean = mean_of_problems([row["T0"]["total"] / 20] * 20, method="clopper-pearson")
        assert (row["T0"]["low"], row["T0"]["high"]) == pytest.approx((mean.low, mean.high))


@pytest.mark.slow
def test_a_run_and_its_report_show_mean_rewards_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("safetensors")  # Runs are kept in directories.
    monkeypatch.setenv("COLUMNS", "200")
    result = gce.train(task="test_graded:GRADED", run=tmp_path / "run", **CASES, **SMALL, test=20)
    rows = rows_of(str(result).replace("\nafter - before", "\n\nafter - before"), "mean reward")
    assert list(rows) == ["before", "after", "best prompt-blind", "adds"]
    for moment in ("before", "after"):
        rewards = [each["reward"] for each in result.answers(moment)]
        assert rows[moment][-1] == pytest.approx(sum(rewards) / 60, abs=5e-4)
    assert set(result.summary["mean_reward"]) == {"before", "after", "floors", "heuristics", "gain"}
    gain = result.summary["mean_reward"]["gain"]["mean"]["value"]
    assert gain == pytest.approx(rows["after"][-1] - rows["before"][-1], abs=1e-3)
    assert f"mean reward, after - before: {gain:+.3f} (" in str(result)
    text = str(gce.report(tmp_path / "run"))
    assert f"Paired gain, mean reward, after - before: {gain:+.3f} (" in text
    assert "Paired gain, after - before: " in text and " points, paired by problem; " in text
    line = next(line for line in text.splitlines() if line.startswith("| mean reward"))
    assert [cell.strip() for cell in line.split("|")[1:-1]] == ["mean reward", "T0", "T1", "T2, held out", "mean"]
    figures = {figure.name: figure for section in gce.report(tmp_path / "run").sections for figure in section.figures}
    drawn: Any = figures["result-reward"]
    assert drawn.unit == "mean reward" and set(drawn.found) == {"before", "after", "best prompt-blind"}
    total = sum(each["reward"] for each in result.answers("after") if each["tier"] == "T0")
    assert drawn.found["after"]["T0"].value == pytest.approx(total / 20)
    assert drawn.table.rows[0][2].startswith(f"{drawn.found['before']['T0'].value:.3f} (")
    training: Any = figures["training"]
    panel = training.panels["mean reward of rollouts"]
    with result.run() as stored:
        for tier, ((_, mean),) in panel.items():
            rewards = [answer_reward(each) for each in stored.read("rollouts") if each["tier"] == tier]
            assert mean == pytest.approx(sum(rewards) / len(rewards))
    assert figures["dev-reward"].intervals["T0"]["T0"][0][1].n == 1  # type: ignore[union-attr]
    head = next(line for line in text.splitlines() if line.startswith("|  | rollouts | right"))
    assert "| mean reward | problems | equal rewards | unreadable |" in head and "raft learns from admitted" in text
    gce.train(task="test_graded:GRADED", run=tmp_path / "other", seed=1, **CASES, **SMALL, test=20)
    compared = gce.report(tmp_path / "run", tmp_path / "other").sections[0].tables[1]
    assert gce.report(tmp_path / "run", tmp_path / "other").sections[0].figures[1].table.head[2] == "mean reward (95 %)"
    assert compared.head[0] == "mean reward" and [row[0] for row in compared.rows] == [
        f"{run}, {moment}" for run in ("run", "other") for moment in ("before", "after")
    ]


@pytest.mark.slow
def test_binary_tasks_show_none_of_it() -> None:
    """Not even where their reward is a function of their own."""
    own = evolve(toy_task.ADDITION, reward=lambda verdicts: float(verdicts[0].right))
    tables = [str(trained(task)).partition("; peak memory")[0] for task in (own, toy_task.ADDITION)]
    assert tables[0] == tables[1] and "mean_reward" not in trained(own).summary
    found, plain = gce.evaluate(task=own, n=4, **CASES), gce.evaluate(task=toy_task.ADDITION, n=4, **CASES)
    assert str(found) == str(plain) and "mean reward" not in str(plain)
    several = gce.evaluate(task=own, n=10, samples=4, temperature=1.0, **CASES)
    assert "mean reward" not in str(several) and "mean_reward" not in summary(several)[0]
    result = trained(own)
    assert "mean reward" not in str(gce.report(result)).lower()
    with result.run() as run:
        for record in run.read("iterations"):
            assert "dev_reward" not in record and not any("reward" in count for count in record["tiers"].values())
    both = gce.evaluate(task=own, n=4, strategies=["zero-shot", "multi-turn"], **CASES)
    assert "reward" not in str(both) and "against_reward" not in summary(both)[0]["modes"]["multi-turn"]
    assert "reward" not in str(gce.audit(toy_task.ADDITION, n=5).plain)
    assert "reward" in str(gce.audit(GRADED, n=20).plain)


def test_an_audit_shows_mean_rewards_and_names_each_limit_that_is_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wrong` gets 0.25 on each of 20 problems, `nothing` 0, whose upper bound of 0.161 is below the limit of 0.2."""
    monkeypatch.setenv("COLUMNS", "200")
    policies = {"nothing": lambda *_: "?", "wrong": lambda *_: "w999", "adds": lambda problem, _: right(problem)}
    references = evolve(ONE_TIER.references, prompt_blind=lambda _: policies, limits={"T0": 0.2})
    strict = evolve(ONE_TIER, verify=exactly, references=references)
    audited = gce.audit(strict, n=20, progress=False)
    quarter, sure = mean_of_problems([0.25] * 20), wilson(20, 20)
    rows = rows_of(str(audited), "mean reward")
    assert {name: rows[name] for name in (*policies, "best prompt-blind")} == {
        "nothing": [0.0],
        "wrong": [0.25],
        "adds": [1.0],
        "best prompt-blind": [1.0],
    }
    lines = [line for line in str(audited).splitlines() if "above the limit" in line]
    assert lines == [
        f"above the limit of 20 %: adds on T0, upper bound {100 * sure.high:.1f} %",
        f"mean reward above the limit of 0.20: wrong on T0, 0.25 by partial credit, upper bound {quarter.high:.3f}",
    ]
    assert "best prompt-blind baseline of each group, by accuracy:" in str(audited)
    binary = str(gce.audit(toy_task.ADDITION, n=5, progress=False))
    assert "mean reward" not in binary and "best prompt-blind baseline of each group:" in binary


def test_an_audit_of_one_tier_without_heuristics_prints_what_exists_and_names_the_best_by_reward() -> None:
    """No baseline is right; `wrong`, the second one, gets 0.25."""
    policies = {"nothing": lambda *_: "?", "wrong": lambda *_: "w999"}
    references = evolve(ONE_TIER.references, prompt_blind=lambda _: policies, heuristics=lambda _: {})
    said = str(gce.audit(evolve(ONE_TIER, verify=exactly, references=references), n=20, progress=False))
    (best,) = [line for line in said.splitlines() if line.startswith("  T0 ")]
    assert best.endswith("  wrong")
    assert "heuristics" not in said and "mean of tiers" not in said


def exactly(problem: Any, completion: Any, _evidence: Any = None) -> tuple[Verdict, ...]:
    """Right where it is the sum itself, so that 999 never is."""
    return toy_task.verify(evolve(problem, instance=evolve(problem.instance, modulus=1000)), completion)


def right(problem: Any) -> str:
    return f"w{problem.instance.a + problem.instance.b}"


def test_the_best_baseline_of_mean_rewards_is_the_best_by_mean_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """`half` is right on every other problem, else unreadable: 0.5 and 0.5; `near` is always wrong: 0 and 0.75."""
    monkeypatch.setenv("COLUMNS", "200")
    policies = {
        "half": lambda problem, _: "?" if problem.id.index % 2 else right(problem),
        "near": lambda *_: "w999",
    }
    task = evolve(
        ONE_TIER,
        verify=exactly,
        reward=lambda verdicts: {0.25: 0.75}.get(partly(verdicts), partly(verdicts)),
        references=evolve(ONE_TIER.references, prompt_blind=lambda _: policies),
    )
    result = trained(task)
    for text in (str(gce.evaluate(task=task, n=20, **CASES)), str(result)):
        (line,) = [line.split() for line in text.splitlines() if line.startswith("best prompt-blind")]
        assert (line[2], line[4]) == ("50.0", "0.750")
    row, *_ = [line for line in str(gce.report(result)).splitlines() if line.startswith("| best prompt-blind")]
    assert [cell.split()[0] for cell in row.split("|")[2:4]] == ["50.0", "0.750"]


@pytest.mark.parametrize(("count", "said"), [(0, ""), (1, "; and 1 other"), (2, "; and 2 others")])
def test_others_are_counted_in_plain_english(count: int, said: str) -> None:
    assert and_others(count) == said


# One interval a number


def test_the_mean_of_one_tier_has_the_tiers_interval() -> None:
    share = wilson(0, 20)
    assert mean_over_tiers([share]) == Estimate(0.0, share.low, share.high)
    assert mean_over_tiers([share, wilson(3, 20)]) == mean_of_tiers([share, wilson(3, 20)])
    exact = interval(3, 20, method="clopper-pearson")
    assert mean_over_tiers([exact]) == Estimate(exact.share, exact.low, exact.high)
    assert mean_over_tiers([]) is mean_over_tiers([rate([])]) is mean_over_tiers([wilson(1, 2), rate([])]) is None
    assert mean_over_tiers([found := mean_reward([0.5, 1.0])]) == Estimate(0.75, found.low, found.high)


def test_so_it_is_in_the_tables() -> None:
    head, ((_, tier, _),) = accuracy_rows({"after": {"all": wilson(0, 12)}}, ["all"])
    assert (head[1:], tier) == (("all", "coverage"), "0.0 (0.0-24.2)"), "one tier alone is its mean"
    head, ((_, tier),) = reward_rows({"after": {"all": mean_reward([0.5] * 12)}}, ["all"])
    assert (head[1:], tier) == (("all",), "0.500 (0.254-0.746)")
    found = gce.evaluate(task=ONE_TIER, n=20, **CASES)
    row = shown(found)["modes"]["zero-shot"]
    assert {name: row["tiers"]["T0"][name] for name in ("low", "high")} == {
        name: row["mean"][name] for name in ("low", "high")
    }
