"""Strategies for coherence, predictability, the world in the loop and a judge, with agents of known sign as models."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.answer_file import stored_conversations
from gce.app.evaluation.conversations import converse
from gce.app.wiring.names import find_strategy
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.metrics import METRICS, overall
from gce.domain.models import ModelInfo
from gce.domain.problems import Message, Problem
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.judge import grade_in
from gce.domain.strategies.predictions import NO, YES, log_shares, quoted
from gce.domain.strategies.requests import Failed, Settings, beliefs_of
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.verdicts import Verdict
from gce.errors import BadInput
from gce.testing.beliefs import models
from gce.testing.contracts.strategy import Script, check_strategy

BELIEFS = TASKS["beliefs"]
KNOWN = beliefs_of(BELIEFS)
AGENT = "gce.testing.beliefs.models"
ALONE = "coherence,mutual-predictability,label-search,world-in-the-loop,judge"
EXAMPLES = Settings(examples={"B1": (Message("user", "Is it so?"), Message("assistant", "Answer: 0.5"))})


@pytest.fixture(autouse=True)
def _few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "QUESTIONS", 6)


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str, n: int = 6) -> dict[str, Any]:
    given = ("evaluate", "--task", "beliefs", "--tiers", "B1,B3", "--n", str(n), "--json", *arguments)
    assert cli.main([*given]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def named(*agents: str) -> str:
    return ",".join(f"{AGENT}:{each}" for each in agents)


def one_problem(family: str = "counting", tier: str = "B1") -> Problem:
    (problem,) = draw_problems(BELIEFS, family, tier, "test", 1)
    return problem


def answer(problem: Problem, measures: dict[str, float], notes: dict[str, float] | None = None) -> Answer:
    verdict = Verdict("wrong", 0.5, "beliefs", "1", measures)
    return Answer(problem, Completion(problem.key, "", "stop", ""), (verdict,), 0.5, False, notes=notes or {})


def value(metric: str, conversations: Sequence[Conversation]) -> float | None:
    found = overall(METRICS[metric], conversations)
    return None if found is None else found.value


# The command: exact Bayes against biased agents


@pytest.mark.slow
def test_agents_have_the_expected_signs_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "exact.jsonl"
    arguments = ("--model", named("exact_bayes"), "--strategies", ALONE, "--answers", str(kept))
    result = evaluated(capsys, *arguments)
    exact = result["beliefs"]
    for metric in ("complement error", "implication error", "partition error"):
        assert exact[metric]["coherence"]["value"] == pytest.approx(0.0, abs=1e-9)
    # Laplace's rule by hand: after three answers that agree, 0.5 * 1.8^3 / (0.5 * 1.8^3 + 0.5) think alike.
    alike = 1.8**3 / (1.8**3 + 1)
    gain = math.log(0.9 * alike + 0.5 * (1 - alike)) - math.log(0.7)
    assert exact["mutual predictability"]["mutual-predictability"]["value"] == pytest.approx(gain)
    assert exact["uplift per token"]["world-in-the-loop"]["value"] > 0.01
    assert exact["grade"]["judge"]["value"] == pytest.approx(1.0)
    assert "judge correlation" not in exact, "exact scores that do not differ have no ranks"
    assert {"prompt tokens", "tokens"} <= set(exact)

    half = evaluated(capsys, "--model", named("always_half"), "--strategies", ALONE)["beliefs"]
    assert half["complement error"]["coherence"]["value"] == 0.0
    assert half["partition error"]["coherence"]["value"] > 0.3
    assert half["uplift per token"]["world-in-the-loop"]["value"] == 0.0
    labels = [each["label accuracy"]["label-search"]["value"] for each in (exact, half)]
    assert labels[0] > 0.75 and labels[0] - labels[1] > 0.2

    noisy = evaluated(capsys, "--model", named("exact_bayes_with_noise"), "--strategies", "coherence,judge")["beliefs"]
    assert noisy["complement error"]["coherence"]["low"] > 0.0
    assert noisy["partition error"]["coherence"]["value"] > 0.1

    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[: len(lines) // 2]))
    again = evaluated(capsys, *arguments)
    assert again["beliefs"] == result["beliefs"], "what is noted is kept with the answers"
    assert len(kept.read_bytes().splitlines()) == len(lines)
    found = stored_conversations(kept)["world-in-the-loop"]
    assert {"report given", "report blind", "report tokens"} == set(found[0].last.notes)


@pytest.mark.slow
def test_a_second_model_is_bound_by_models(capsys: pytest.CaptureFixture[str]) -> None:
    three = named("exact_bayes", "always_half", "exact_bayes")
    assert cli.main(["evaluate", "--task", "beliefs", "--models", three, "--strategies", "peer-prediction"]) == 2
    capsys.readouterr()
    pair = named("exact_bayes", "always_half")
    peers = evaluated(capsys, "--models", pair, "--strategies", "peer-prediction")["beliefs"]["peer prediction"]
    others = evaluated(capsys, "--models", named("never_updates", "exact_bayes"), "--strategies", "peer-prediction")
    assert others["beliefs"]["peer prediction"][named("never_updates")]["value"] == pytest.approx(0.0, abs=1e-9)
    assert others["beliefs"]["peer prediction"][named("exact_bayes")]["value"] != 0.0
    assert peers[named("always_half")]["value"] < 0.1, "a constant tells nothing of the other's answer"

    judged = evaluated(
        capsys, "--models", named("exact_bayes_with_noise", "exact_bayes"), "--strategies", "judge@red+another"
    )["beliefs"]
    assert judged["judge correlation"][named("exact_bayes_with_noise")]["value"] == pytest.approx(1.0)
    assert named("exact_bayes") not in judged["judge correlation"]

    by_another = evaluated(capsys, "--models", pair, "--strategies", "mutual-predictability@another+evaluated")[
        "beliefs"
    ]["mutual predictability"]
    assert by_another[named("always_half")]["value"] < 0.1


def test_a_strategy_for_two_models_says_so_if_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["evaluate", "--task", "beliefs", "--model", named("exact_bayes"), "--strategies", "peer-prediction"]
    assert cli.main([*given, "--n", "2"]) == 2
    assert "needs a model for the role 'another', got none: give two models with --models" in capsys.readouterr().err


# What is asked


VARIANTS = (
    *("mutual-predictability@another+evaluated", "mutual-predictability@evaluated+another", "label-search@3"),
    *("mutual-predictability@another+another", "world-in-the-loop@rephrase+another", "world-in-the-loop@toolcall"),
    *("judge@none", "judge@red_blue+another", "peer-prediction"),
)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("text", ["Answer: 0.3", '{"grade": 1e999}\nAnswer: 2', '"""\n{"grade": {"grade": []}}', ""])
def test_variants_keep_the_contract(name: str, text: str) -> None:
    script = Script(lambda _ask: text, score=lambda label: (-1.0 - (label == "Yes"), -0.5))
    for family in ("sources", "elections", "counting"):
        check_strategy(find_strategy(name), BELIEFS, one_problem(family), script, settings=EXAMPLES)


def test_an_unknown_option_is_refused_with_what_is_expected() -> None:
    for name, said in {
        "mutual-predictability@me": "expected evaluated or another, got 'me'",
        "mutual-predictability@another+me": "expected evaluated or another, got 'me'",
        "world-in-the-loop@plain": "expected vanilla, rephrase, toolcall, got 'plain'",
        "judge@blue": "expected none, red, red_blue, red_blue_resolution, got 'blue'",
        "label-search@0": "expected a whole number from 1 to 1000",
        "peer-prediction@2": "strategy peer-prediction has no options",
    }.items():
        with pytest.raises(BadInput, match=said):
            find_strategy(name)
    assert find_strategy("judge@red+another").needs == {"sample", "beliefs", "another.sample"}


def test_related_claims_are_asked_in_the_wording_of_the_problem() -> None:
    for family in ("sources", "elections", "counting"):
        problem = one_problem(family)
        question = problem.instance
        opposite = KNOWN.opposite(problem)
        assert opposite.id == problem.id
        assert opposite.instance.target == pytest.approx(1 - question.target)
        assert opposite.instance.outcome == 1 - question.outcome
        twice = KNOWN.opposite(opposite).instance
        assert twice.options == question.options and twice.path == pytest.approx(question.path)
        assert opposite.prompt[-1].content == problem.prompt[-1].content.replace(
            f"that {question.options[0]}?", f"that {question.options[1]}?"
        )
        for kind, claims in KNOWN.related(problem).items():
            targets = [each.instance.target for each in claims]
            assert sum(targets) == pytest.approx(1) if kind == "partition" else targets == sorted(targets)
            assert all(KNOWN.situation(each) == KNOWN.situation(problem) for each in claims)
        assert KNOWN.withheld(problem) == question.withheld and question.withheld not in problem.prompt[-1].content


def test_the_forecaster_sees_the_reasoning_and_never_the_evidence_or_the_report() -> None:
    problem = one_problem("elections")
    seen: list[tuple[Message, ...]] = []

    class Forecaster(ScriptedModel):
        def info(self) -> ModelInfo:
            return ModelInfo("forecaster", frozenset({"sample", "score"}))

        def log_probabilities(
            self, messages: Sequence[Message], text: str, *, adapter: bool = True
        ) -> tuple[float, ...]:
            assert text == problem.instance.withheld
            seen.append(tuple(messages))
            return (-1.0, -0.5) if len(seen) % 2 else (-2.0, -0.5)

    for template in ("vanilla", "rephrase", "toolcall"):
        model = Forecaster(lambda _request: 'I see """ nothing.\nAnswer: 0.3')
        strategy = find_strategy(f"world-in-the-loop@{template}")
        (found,) = converse(strategy, model, BELIEFS, TaskVerifier(BELIEFS), [problem], Settings())
        given, blind = ("\n".join(each.content for each in shown) for shown in seen[-2:])
        assert "I see ''' nothing." in given and "I see" not in blind
        assert not any(piece in given + blind for piece in problem.instance.evidence)
        assert found.last.notes == {"report given": -1.5, "report blind": -2.5, "report tokens": 2.0}
        assert value("uplift per token", [found]) == pytest.approx(0.5)


# Metrics by hand


def test_coherence_of_partitions_of_different_sizes_by_hand() -> None:
    problem = one_problem()

    def read(reading: Any, belief: float | None) -> Answer:
        return evolve(answer(problem, {} if belief is None else {"belief": belief}), reading=reading)

    two = Conversation((*(read("partition", each) for each in (0.5, 0.7)), read("complement", 0.6), read("", 0.5)))
    three = Conversation((*(read("partition", each) for each in (0.2, 0.2, 0.2)), read("", 0.5)))
    unread = Conversation((read("partition", None), read("partition", 0.2), read("", 0.5)))
    ladder = Conversation((*(read("implication", each) for each in (0.3, 0.2, 0.6)), read("", 0.5)))
    assert value("partition error", [two, three, unread]) == pytest.approx((0.2 + 0.4) / 2)
    assert value("complement error", [two]) == pytest.approx(0.1)
    assert value("implication error", [ladder]) == pytest.approx(0.05)
    assert value("partition error", [ladder]) is None


def test_noted_log_probabilities_and_grades_by_hand() -> None:
    problem = one_problem()
    noted = {"own given": -0.1, "own blind": -0.6, "peer's given": -0.2, "peer's blind": -0.4}
    assert value("peer prediction", [Conversation((answer(problem, {}, noted),))]) == pytest.approx(0.7)
    assert value("peer prediction", [Conversation((answer(problem, {}, {"own given": -0.1}),))]) is None
    graded = [
        Conversation((answer(problem, {"belief": belief, "target": 0.5}, {"grade": grade}),))
        for belief, grade in ((0.5, 0.9), (0.4, 0.5), (0.9, 0.1))
    ]
    assert value("grade", graded) == pytest.approx(0.5)
    assert value("judge preference", graded) == 1.0
    labels = [evolve(answer(problem, {"belief": b, "posterior": p}), reading="label") for b, p in ((1, 0.7), (1, 0.2))]
    tie = evolve(answer(problem, {"belief": 1.0, "posterior": 0.5}), reading="label")
    assert value("label accuracy", [Conversation((*labels, tie, answer(problem, {})))]) == 0.5


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ('{"grade": 7}', 0.7),
        ('Because {x}: {"grade": 3} or rather {"grade": 4.5}.', 0.45),
        ('{"grade": 3} {"grade": 11}', 0.3),
        ('{"grade": true}', None),
        ('{"grade": NaN}', None),
        ('{"grade": 1' + "0" * 400 + "}", None),
        ('{"grade": "7"}', None),
        ("7", None),
        ("{" * 1000, None),
    ],
)
def test_the_last_valid_grade_counts(text: str, grade: float | None) -> None:
    assert grade_in(text) == grade


def test_log_probabilities_of_labels_are_shares_and_bounded() -> None:
    shares = log_shares(((-1.0, -0.5), (-2.0, -0.5)))
    assert not isinstance(shares, Failed)
    assert math.exp(shares[YES]) == pytest.approx(1 / (1 + math.exp(-1)))
    assert math.exp(shares[YES]) + math.exp(shares[NO]) == pytest.approx(1.0)
    certain = log_shares(((0.0,), (-1e9,)))
    assert not isinstance(certain, Failed) and certain[NO] == pytest.approx(math.log(1e-6))
    assert isinstance(log_shares(((-math.inf,), (-math.inf,))), Failed)
    assert quoted('a\n"""\nAnswer: 1').count('"""') == 2


def test_every_strategy_of_the_table_is_fed_to_a_metric() -> None:
    fed = {
        "coherence": "complement error",
        "mutual-predictability": "mutual predictability",
        "peer-prediction": "peer prediction",
        "label-search": "label accuracy",
        "world-in-the-loop": "uplift per token",
        "judge": "grade",
    }
    assert fed.keys() == {*ALONE.split(","), "peer-prediction"} <= set(STRATEGIES)
    assert set(fed.values()) <= set(METRICS)
