"""The task of beliefs: prompts, rewards, opinions, baselines below exact Bayes, splits, and questions from files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from present import present

import gce
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.baselines import audit
from gce.app.wiring.tasks import find_task
from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.randomness import python_generator
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import TASKS, Drawn, Listed, Task, draw_problem, draw_problems
from gce.domain.tasks.beliefs.answer import parse, render
from gce.domain.tasks.beliefs.baselines import counts_evidence, last_evidence, neglects_base_rate
from gce.domain.tasks.beliefs.generate import FAMILIES, draw_question, question_of_world
from gce.domain.tasks.beliefs.log_odds import log_odds
from gce.domain.tasks.beliefs.question import BeliefQuestion, Opinion
from gce.domain.tasks.beliefs.records import questions_of
from gce.domain.tasks.beliefs.sources import Source, Witnesses
from gce.domain.tasks.beliefs.wording import ANSWER_FORMATS, Wording, belief_prompt, drawn_wording, with_opinion
from gce.errors import BadInput, MissingExtra
from gce.testing.verifiers.check import check_task

BELIEFS, BY_OUTCOME = TASKS["beliefs"], TASKS["beliefs-by-outcome"]
TIERS = ("B1", "B2", "B3", "B4", "B5")


def answered(task: Task, problem: Problem, text: str) -> Any:
    completion = Completion("k", text, "stop", "policy")
    return answered_by(task, problem, completion, task.judge(problem, completion))


def wording(question: BeliefQuestion, seed: int = 0, **changes: str) -> Wording:
    return evolve(drawn_wording(question, random.Random(seed)), **changes)


def by_hand(*sources: Source, base_rate: int = 20, true: bool = False) -> BeliefQuestion:
    """The last source is withheld."""
    return question_of_world("sources", Witnesses(base_rate, sources), true, random.Random(0))


# The task


def test_four_presets_have_five_tiers_each_and_the_last_is_held_out() -> None:
    assert list(BELIEFS.presets) == ["worlds", "sources", "elections", "counting"]
    for preset in BELIEFS.presets:
        assert tuple(tier.name for tier in BELIEFS.tiers(preset)) == TIERS
        assert BELIEFS.training_tiers(preset) == TIERS[:-1]
    families = {problem.instance.family for problem in draw_problems(BELIEFS, "worlds", "B1", "dev", 30)}
    assert families == set(FAMILIES)
    for family in FAMILIES:
        assert {each.instance.family for each in draw_problems(BELIEFS, family, "B5", "dev", 5)} == {family}


@pytest.mark.slow
def test_harder_tiers_have_more_to_weigh() -> None:
    """More evidence, or longer prompts, from the first level to the last."""
    for family in FAMILIES:
        length = [
            np.mean([len(each.prompt[0].content) for each in draw_problems(BELIEFS, family, tier, "dev", 30)])
            for tier in TIERS
        ]
        assert length[0] < min(length[3:]), family


@pytest.mark.slow
@pytest.mark.parametrize("preset", BELIEFS.presets)
def test_no_problem_is_in_two_splits(preset: str) -> None:
    for tier in TIERS:
        found = {
            split: {each.digest for each in draw_problems(BELIEFS, preset, tier, split, 30)}
            for split in ("train", "dev", "test")
        }
        assert [len(digests) for digests in found.values()] == [30, 30, 30]
        assert not found["train"] & found["dev"] | found["train"] & found["test"] | found["dev"] & found["test"]


def test_a_problem_is_the_same_again_and_survives_plain_data() -> None:
    for preset, tier in (
        ("sources", "B5"),
        ("elections", "B3"),
        ("elections", "B5"),
        ("counting", "B2"),
        ("counting", "B5"),
    ):
        one, again = (draw_problem(BELIEFS, preset, tier, "train", 3, seed=7) for _ in range(2))
        assert one == again != draw_problem(BELIEFS, preset, tier, "train", 4, seed=7)
        back = from_plain(BeliefQuestion, json.loads(json.dumps(to_plain(one.instance))))
        assert back == one.instance and BELIEFS.digest(back) == one.digest


def test_what_is_withheld_does_not_make_another_problem() -> None:
    """Else the same prompt could be in two splits; another report, or another base rate, does."""
    shown = (Source(80, 20, 1), Source(70, 30, 0))
    one, other = (by_hand(*shown, Source(60, 40, said)) for said in (0, 1))
    assert BELIEFS.digest(one) == BELIEFS.digest(other)
    assert BELIEFS.digest(one) == BELIEFS.digest(by_hand(*shown[::-1], Source(60, 40, 1)))
    assert BELIEFS.digest(one) != BELIEFS.digest(by_hand(Source(80, 20, 0), *shown[1:], Source(60, 40, 1)))
    assert BELIEFS.digest(one) != BELIEFS.digest(by_hand(*shown, Source(60, 40, 1), base_rate=21))


def test_a_prompt_states_the_evidence_and_the_answer_format_and_nothing_that_is_hidden() -> None:
    formats = set()
    for problem in draw_problems(BELIEFS, "worlds", "B4", "dev", 40):
        question, text = problem.instance, problem.prompt[0].content
        assert question.background in text and question.claim in text
        assert all(piece in text for piece in question.evidence)
        assert question.withheld not in text or question.withheld in question.evidence
        assert len(text) < 2_000
        formats |= {each for each in ANSWER_FORMATS if text.endswith(each)}
    assert formats == set(ANSWER_FORMATS)


def test_one_piece_of_evidence_has_no_number_and_none_no_heading() -> None:
    question = by_hand(Source(80, 20, 1), Source(60, 40, 1))
    lines = belief_prompt(question, wording(question, 1, answer_format="")).split("\n")
    assert len(lines) == 4 and lines[2] == question.evidence[0]
    bare = evolve(question, evidence=(), path=(), posterior=0.2)
    assert len(belief_prompt(bare, wording(bare, 1, answer_format="")).split("\n")) == 2


# Rewards


def test_the_reward_is_one_minus_the_squared_distance_from_the_posterior() -> None:
    question = by_hand(Source(80, 20, 1), Source(60, 40, 1))
    assert question.posterior == pytest.approx(0.5)
    problem = evolve(draw_problem(BELIEFS, "sources", "B1", "dev", 0), instance=question)
    for belief, reward, outcome in (
        (0.5, 1.0, "right"),
        (0.51, 0.9999, "right"),
        (0.8, 0.91, "wrong"),
        (0, 0.75, "wrong"),
    ):
        found = answered(BELIEFS, problem, render(belief))
        assert (found.reward, found.outcome) == (pytest.approx(reward), outcome)
    measures = answered(BELIEFS, problem, "Answer: 80 %").verdicts[0].measures
    assert measures == {
        "belief": pytest.approx(0.8),
        "target": pytest.approx(0.5),
        "posterior": pytest.approx(0.5),
        "prior": pytest.approx(0.2),
        "outcome": 0.0,
    }
    assert answered(BY_OUTCOME, problem, "Answer: 80 %").reward == pytest.approx(0.36)
    unreadable = answered(BELIEFS, problem, "I do not know.")
    assert (unreadable.reward, unreadable.outcome) == (0.0, "unreadable")


@given(st.floats(0, 1), st.integers(0, 200))
def test_the_best_belief_is_the_posterior(belief: float, index: int) -> None:
    """And a demonstration, which states it in whole percents, counts as right."""
    problem = draw_problem(BELIEFS, "sources", TIERS[index % 5], "train", index % 3)
    best = answered(BELIEFS, problem, render(problem.instance.posterior))
    assert best.reward == pytest.approx(1.0, abs=1e-12) and best.right
    assert present(answered(BELIEFS, problem, render(belief)).reward) <= best.reward


def test_demonstrations_are_right_and_in_the_format_that_is_asked_for() -> None:
    for preset in FAMILIES:
        for problem in draw_problems(BELIEFS, preset, "B3", "dev", 10):
            shown = present(BELIEFS.teaching.demonstration(problem, None))
            assert answered(BELIEFS, problem, shown).right
            assert shown.endswith("%") == problem.prompt[0].content.endswith("%")


def test_without_a_truth_the_verdict_has_failed_and_keeps_the_belief() -> None:
    """A missing truth is never a score; with an outcome alone, the Brier score counts."""
    question = evolve(by_hand(Source(80, 20, 1), Source(60, 40, 1)), posterior=None, path=(), outcome=None)
    problem = evolve(draw_problem(BELIEFS, "sources", "B1", "dev", 0), instance=question)
    found = answered(BELIEFS, problem, "Answer: 0.3")
    assert (found.outcome, found.reward, found.verdicts[0].measures["belief"]) == ("failed", None, 0.3)
    resolved = evolve(problem, instance=evolve(question, outcome=1))
    assert answered(BELIEFS, resolved, "Answer: 0.3").reward == pytest.approx(0.51)


# Opinions


def test_a_stated_reliability_moves_the_target_and_an_opinion_alone_does_not() -> None:
    """0.5 with a user who is right at 80 %: 0.8 if he believes the claim, 0.2 if its opposite."""
    question = by_hand(Source(80, 20, 1), Source(60, 40, 1))
    assert with_opinion(question, 0, 0.8).target == pytest.approx(0.8)
    assert with_opinion(question, 1, 0.8).target == pytest.approx(0.2)
    for neutral in (with_opinion(question, 0), with_opinion(question, 1), with_opinion(question, None, 0.8)):
        assert neutral.target == question.posterior
    assert Opinion(0, 0.8).shift == pytest.approx(log_odds(0.8)) == -Opinion(1, 0.8).shift
    text = belief_prompt(with_opinion(question, 1, 0.8), wording(question))
    assert question.options[1] in text and "80 % of the time" in text
    assert "user" not in belief_prompt(with_opinion(question, None), wording(question))
    assert "of the time, whatever" not in belief_prompt(with_opinion(question, 1), wording(question))


@pytest.mark.parametrize(("option", "reliability"), [(2, None), (0, 1.0), (0, 0.0), (1, -0.1), (1, float("nan"))])
def test_an_opinion_that_is_none_is_refused(option: Any, reliability: float | None) -> None:
    with pytest.raises(ValueError, match=r"option|reliability"):
        Opinion(option, reliability)


def test_a_path_that_does_not_fit_the_evidence_is_refused() -> None:
    question = by_hand(Source(80, 20, 1), Source(60, 40, 1))
    with pytest.raises(ValueError, match="expected a posterior after each of 1 pieces"):
        evolve(question, path=(0.1, 0.2))


# Baselines


def test_naive_agents_by_hand() -> None:
    """Base rate 20 %, yes at 80 %, no at 90 %, an irrelevant one: exactly 10 %; odds without the base rate 4:9."""
    question = by_hand(Source(80, 20, 1), Source(90, 10, 0), Source(50, 50, 1), Source(60, 40, 1))
    assert question.target == pytest.approx(0.1)
    assert neglects_base_rate(question) == pytest.approx(4 / 13)
    assert counts_evidence(question) == pytest.approx(0.5)
    assert last_evidence(question) == pytest.approx(0.2)
    assert last_evidence(evolve(question, evidence=(), path=(), posterior=0.2)) is None


def excesses(family: str, count: int) -> dict[str, Any]:
    """(b - p)^2 of each policy on as many problems of each tier."""
    found: dict[str, list[float]] = {}
    for tier in TIERS:
        training = draw_problems(BELIEFS, family, tier, "train", 50)
        references = BELIEFS.references
        policies = {**references.prompt_blind(training), **references.heuristics(training)}
        for problem in draw_problems(BELIEFS, family, tier, "test", count):
            for name, policy in policies.items():
                text = policy(problem, python_generator(name, problem.key))
                if text is not None:
                    belief = parse(text)
                    assert isinstance(belief, float)
                    found.setdefault(name, []).append((belief - problem.instance.posterior) ** 2)
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_policies_that_are_not_bayesian_score_measurably_below_exact_bayes(family: str) -> None:
    """By more than four standard errors, and by more than 0.005 in the mean."""
    found = excesses(family, 60)
    assert found.pop("exact Bayes").max() < 1e-25
    assert set(found) == {
        *("says 50 %", "says 0 %", "says 100 %", "mean of the training targets", "random belief", "base rate"),
        *("neglects the base rate", "counts evidence", "last evidence only"),
    }
    for name, values in found.items():
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert values.mean() > max(4 * error, 0.005), (name, values.mean())


@pytest.mark.slow
def test_prompt_blind_baselines_solve_few_problems() -> None:
    """Within two points of the posterior: under a fifth of the problems of each tier."""
    for preset in ("worlds", "sources"):
        for tier in TIERS:
            drawn = draw_problems(BELIEFS, preset, tier, "test", 100)
            training = draw_problems(BELIEFS, preset, tier, "train", 50)
            for name, policy in BELIEFS.references.prompt_blind(training).items():
                texts = [present(policy(each, python_generator(name, each.key))) for each in drawn]
                right = sum(answered(BELIEFS, each, text).right for each, text in zip(drawn, texts, strict=True))
                assert right < 20, (preset, tier, name, right)


@pytest.mark.slow
@pytest.mark.parametrize("task", [BELIEFS, BY_OUTCOME], ids=lambda task: task.name)
def test_the_limits_of_prompt_blind_baselines_hold(task: Task) -> None:
    report = audit(task, TaskVerifier(task), "worlds", TIERS, problems=500, fitted_to=500)
    assert report.above_limit == () and len(report.prompt_blind) == 6 * 5


@pytest.mark.slow
def test_the_verifier_withstands_its_battery() -> None:
    report = check_task(BELIEFS, preset="worlds", problems=2, responses=400)
    assert report.ok, [str(finding) for finding in report.findings]


def half(_settings: Any, _task: Any) -> ScriptedModel:
    """A model that says 50 %, and now and then something that cannot be read."""
    return ScriptedModel(lambda request: "I do not know." if request.seed % 4 == 0 else "Answer: 50 %")


def test_an_evaluation_has_graded_rewards_and_the_belief_of_each_answer() -> None:
    """What cannot be read stays in, with reward 0."""
    found = gce.evaluate(task=BELIEFS, model="test_belief_task:half", n=6, progress=False)
    answers = [conversation.last for conversation in found.conversations["zero-shot"]]
    assert len(answers) == 30 and {answer.outcome for answer in answers} >= {"wrong", "unreadable"}
    for answer in answers:
        (verdict,) = answer.verdicts
        if answer.outcome == "unreadable":
            assert answer.reward == 0.0 and "belief" not in verdict.measures
        else:
            assert verdict.measures["belief"] == 0.5
            assert answer.reward == pytest.approx(1 - (0.5 - answer.problem.instance.posterior) ** 2)


# Questions from files

FORECAST = {
    "id": "1", "source": "s", "title": "Will it snow?", "description": "Any snow.", "category": "weather",
    "endTime": "2025-05-01", "outcomes": ["Yes", "No"], "resolution": "No", "marketType": "binary",
}  # fmt: skip
VIEW = {"id": "a", "op-title": "CMV: Tea is best", "op-text-body": "It is calm."}
PLAIN = {"question": "Is it so?", "evidence": ["A says yes."], "prior": 0.5, "path": [0.8], "resolution": 0}
DAYS = [
    {
        "date": f"2012/{1 + n // 28:02d}/{1 + n % 28:02d}",
        "precipitation": str((n % 3) / 2),
        "temp_max": "9",
        "temp_min": "1",
    }
    for n in range(100)
]


def questions(*records: Any) -> list[BeliefQuestion]:
    return [each.question for each in questions_of(records)]


def test_records_of_each_schema_are_read() -> None:
    (forecast,) = questions(FORECAST)
    assert (forecast.claim, forecast.options, forecast.outcome) == ("Will it snow?", ("Yes", "No"), 0)
    assert forecast.background == "Any snow.\nCategory: weather.\nIt is decided by 2025-05-01."
    assert (forecast.posterior, forecast.target) == (None, 0.0)
    (view,) = questions(VIEW)
    assert view.background == "Somebody holds this view: Tea is best\nTheir reasons: It is calm."
    assert (view.outcome, view.target, view.family) == (None, None, "changemyview")
    (plain,) = questions(PLAIN)
    assert (plain.prior, plain.path, plain.posterior, plain.outcome, plain.target) == (0.5, (0.8,), 0.8, 1, 0.8)
    named = {"question": "Who?", "options": ["Ann", "Bob"], "resolution": " bob "}
    assert questions(named)[0].outcome == 0 and questions({**named, "resolution": None})[0].outcome is None
    question = questions(named)[0]
    text = belief_prompt(question, wording(question))
    assert "Who?" in text and "Ann; Bob" in text and '"Ann"?' in text


def test_a_question_that_comes_twice_is_taken_once() -> None:
    assert len(questions(PLAIN, {**PLAIN, "question": "Is  it so?"})) == 1


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "record 1: expected an object, got list"),
        ({}, "expected a field 'question', 'outcomes'"),
        ({"question": " "}, "expected a text for 'question'"),
        (PLAIN | {"options": ["Yes"]}, "expected 'options' to be a list of two different names"),
        (PLAIN | {"options": ["a", "A"]}, "expected 'options' to be a list of two different names"),
        (PLAIN | {"resolution": "maybe"}, "expected 'resolution' to be 'Yes', 'No', or the index 0 or 1"),
        (PLAIN | {"resolution": True}, "expected 'resolution'"),
        (PLAIN | {"resolution": 0.5}, "expected 'resolution'"),
        (PLAIN | {"resolution": 2}, "expected 'resolution'"),
        (PLAIN | {"prior": 1.5}, "expected 'prior' to be a probability from 0 to 1, got 1.5"),
        (PLAIN | {"prior": True}, "expected 'prior' to be a probability"),
        (PLAIN | {"path": [float("nan")]}, "expected 'path' to be a probability"),
        (PLAIN | {"path": [0.1, 0.2]}, "expected 'path' to be a probability for each of 1 pieces"),
        (PLAIN | {"posterior": 0.3}, "expected 'posterior' to be the last of 'path', 0.8, got 0.3"),
        (PLAIN | {"evidence": "A says yes."}, "expected 'evidence' to be a list of texts, got str"),
        (PLAIN | {"evidence": [3], "path": []}, "expected 'evidence' to be a list of texts that are not empty"),
        (PLAIN | {"split": "exam"}, "expected 'split' to be one of train, dev, test"),
        (PLAIN | {"tier": "a/b"}, "expected 'tier' to be a name without /"),
        (FORECAST | {"title": None}, "expected a text for 'title', got nothing"),
        (FORECAST | {"outcomes": ["a", "b", "c"]}, "expected 'outcomes' to be a list of two different names"),
    ],
)
def test_a_record_that_is_wrong_says_what_was_expected(record: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        questions_of([record])
    assert message in str(caught.value)


def test_splits_are_those_of_the_records_or_cut_by_digest() -> None:
    records = [{"question": f"Is it {n}?", "resolution": n % 2} for n in range(40)]
    found = questions_of(records)
    sizes = {split: sum(each.split == split for each in found) for split in ("train", "dev", "test")}
    assert sizes == {"train": 24, "dev": 6, "test": 10}
    assert {(e.question.digest, e.split) for e in questions_of(records[::-1])} == {
        (e.question.digest, e.split) for e in found
    }
    said = [each | {"split": ("train", "test")[n % 2]} for n, each in enumerate(records)]
    assert [each.split for each in questions_of(said)] == ["train", "test"] * 20
    with pytest.raises(ValueError, match="expected 'split' in all records or in none"):
        questions_of([*said, {"question": "And this?"}])


def test_weather_asks_for_the_next_day_and_keeps_days_of_splits_apart() -> None:
    found = questions_of(DAYS)
    assert {split: sum(each.split == split for each in found) for split in ("train", "dev", "test")} == {
        "train": 57,
        "dev": 12,
        "test": 22,
    }
    first = found[0].question
    assert first.claim == "Does it rain on 4 January?" and first.outcome == 0
    assert first.evidence[1] == "2 January: 0.5 mm of rain, 1 to 9 degrees Celsius."
    assert first.signals == (-1, 1, 1) and counts_evidence(first) == pytest.approx(2 / 3)
    assert first.prior == 0.64, "18 of the 28 days of January, and 2/3 twice more"
    shown = {
        split: {e for each in found if each.split == split for e in each.question.evidence}
        for split in ("train", "test")
    }
    assert not shown["train"] & shown["test"]
    for records, message in (
        (DAYS[:20], "expected at least 28 days, got 20"),
        ([*DAYS, {"date": "soon"}], "record 101: expected 'date'"),
        ([*DAYS, DAYS[0] | {"temp_max": "warm"}], "record 101: expected a number for 'temp_max', got 'warm'"),
    ):
        with pytest.raises(ValueError, match=message):
            questions_of(records)


def test_persistence_learns_how_often_rain_follows_rain() -> None:
    """With rain on two days in three, a dry day is always followed by rain, a wet one half of the time."""
    task = present(BELIEFS.draw.of_records if isinstance(BELIEFS.draw, Drawn) else None)(BELIEFS, "days", DAYS)
    training = draw_problems(task, "days", "all", "train", 500)
    policy = task.references.heuristics(training)["rate given the last signal"]
    for problem in draw_problems(task, "days", "all", "test", 9):
        belief = parse(present(policy(problem, random.Random(0))))
        dry = problem.instance.signals[-1] == -1
        assert belief == pytest.approx(1.0 if dry else 0.5, abs=0.06)


def test_a_task_over_a_file_holds_out_tiers_without_training_questions() -> None:
    task = present(BELIEFS.draw.of_records if isinstance(BELIEFS.draw, Drawn) else None)(
        BELIEFS, "mine", [PLAIN | {"split": "test"}, PLAIN | {"split": "train", "tier": "b"}]
    )
    assert [(tier.name, tier.held_out) for tier in task.presets["mine"]] == [("all", True), ("b", False)]
    assert isinstance(task.draw, Listed) and task.references.limits == {}
    problem = draw_problem(task, "mine", "all", "test", 0)
    assert answered(task, problem, "Answer: 80 %").right


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("forecasting.json", json.dumps([FORECAST, FORECAST | {"title": "Will it rain?"}]), 2),
        ("changemyview.json", json.dumps({"a": {"op-title": "A", "op-text-body": ""}, "b": {"op-title": "B"}}), 2),
        ("mine.jsonl", f"{json.dumps(PLAIN)}\n\n{json.dumps(PLAIN | {'question': 'Or so?'})}\n", 2),
        ("lines.json", f"{json.dumps(PLAIN)}\n{json.dumps(PLAIN | {'question': 'Or so?'})}\n", 2),
        ("one.json", json.dumps(PLAIN), 1),
        ("days.csv", "\n".join([",".join(DAYS[0]), *(",".join(day.values()) for day in DAYS)]), 91),
    ],
)
def test_a_file_is_a_task(name: str, text: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    task = find_task(f"beliefs@{path}")
    assert list(task.presets) == [name.partition(".")[0]]
    found = [draw_problems(task, name.partition(".")[0], "all", split, 1_000) for split in ("train", "dev", "test")]
    assert sum(map(len, found)) == count
    assert cli.main(["show", f"beliefs@{path}", "--split", "test"]) == 0
    assert "[user]\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"a": 1, ', "a.json"),
        ("b.json", "3", "expected a list of records, or an object {id: record}, got 3"),
        ("c.json", "[]", "expected a list of records"),
        ("d.jsonl", '{"question": ""}', "record 1: expected a text for 'question'"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        find_task(f"beliefs@{tmp_path / name}")
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_weather_without_its_package_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(
        MissingExtra, match=r"vega-datasets is not installed: run  pip install 'grounded-eval\[beliefs\]'"
    ):
        find_task("beliefs@seattle-weather")


def test_weather_is_read_from_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package of this name with a small file in its place."""
    (tmp_path / "vega_datasets" / "_data").mkdir(parents=True)
    (tmp_path / "vega_datasets" / "__init__.py").touch()  # or a package that is installed would come first
    lines = [",".join([*DAYS[0], "wind", "weather"]), *(",".join([*day.values(), "4.7", "rain"]) for day in DAYS)]
    (tmp_path / "vega_datasets" / "_data" / "seattle-weather.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    task = find_task("beliefs@seattle-weather")
    assert len(draw_problems(task, "seattle-weather", "all", "test", 100)) == 22


def test_a_drawn_question_and_one_of_a_file_are_read_by_the_same_record() -> None:
    """What metrics read is there in both: evidence, prior, path, posterior, outcome, family, opinion."""
    drawn, (listed,) = draw_question("sources", 2, random.Random(0)), questions(PLAIN)
    for question in (drawn, listed):
        assert len(question.path) == len(question.evidence) and question.prior is not None
        assert question.outcome in (0, 1) and question.family and question.opinion is None
