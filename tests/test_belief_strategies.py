"""Strategies for beliefs, held with scripted agents as the model: what each asks and trains on, and known values."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import gce
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.conversations import converse
from gce.app.evaluation.learned_examples import best_trajectories
from gce.app.wiring.names import find_strategy
from gce.app.wiring.runs import open_run
from gce.domain.completions import SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.metrics import METRICS, overall
from gce.domain.problems import Message, Problem
from gce.domain.serialization import from_plain, to_plain
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.interview import AIMS, FIXED, SOURCES
from gce.domain.strategies.requests import Failed, Settings, Strategy, beliefs_of, with_options
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.beliefs.log_odds import from_log_odds, log_odds
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.traces import trace_of_record, turns_of
from gce.errors import BadInput
from gce.testing.beliefs import models
from gce.testing.beliefs.agents import AGENTS, DEFERENCE
from gce.testing.beliefs.models import BeliefAgent, questions_of
from gce.testing.contracts.strategy import Script, check_strategy

BELIEFS = TASKS["beliefs"]
KNOWN = beliefs_of(BELIEFS)
TIERS = ("B1", "B2", "B3", "B4", "B5")
OTHERS = ("zero-shot", "few-shot", "multi-turn", "episode", "consultation", "attack")
OF_BELIEFS = [each for each in STRATEGIES.values() if each.name not in OTHERS and not each.roles]
VARIANTS = [
    *("self-debate@3", "stated-opinion@0.8", "length-controlled@40", "repeated-sampling@3"),
    *(f"interview@{each}" for each in (*SOURCES, *AIMS, "written+socratic", "adaptive+curriculum+2", "fixed+1")),
]
AGENT = "gce.testing.beliefs.models"


@cache
def problems(count: int = 8, tiers: Sequence[str] = TIERS) -> Sequence[Problem]:
    return [each for tier in tiers for each in draw_problems(BELIEFS, "worlds", tier, "test", count)]


@cache
def questions(count: int) -> Sequence[BeliefQuestion]:
    return questions_of(BELIEFS, "worlds", count=count)


def agent(name: str = "exact Bayes", count: int = 8, **options: Any) -> BeliefAgent:
    return BeliefAgent(AGENTS[name], questions(count), **options)


def with_examples(settings: Settings) -> Settings:
    shown = {tier: draw_problems(BELIEFS, "worlds", tier, "dev", 3) for tier in TIERS}
    turns = {
        tier: tuple(each for one in found for each in (*one.prompt, Message("assistant", "Answer: 0.5")))
        for tier, found in shown.items()
    }
    return evolve(settings, examples=turns)


def held(
    strategy: str, model: Any, *, about: Sequence[Problem] | None = None, settings: Settings | None = None
) -> list[Conversation]:
    given = with_examples(settings or Settings())
    return converse(find_strategy(strategy), model, BELIEFS, TaskVerifier(BELIEFS), about or problems(), given)


def value(metric: str, conversations: Sequence[Conversation]) -> float:
    found = overall(METRICS[metric], conversations)
    assert found is not None, metric
    return float(found.value)


class Remembering(ScriptedModel):
    """Keeps what it was asked."""

    def __init__(self, answer: Callable[[SampleRequest], str]) -> None:
        super().__init__(answer)
        self.asked: list[SampleRequest] = []

    def sample(self, requests: Any) -> Any:
        self.asked += requests
        return super().sample(requests)


def says(*texts: str) -> Remembering:
    """One text after another, the last one from then on."""
    left = list(texts)
    return Remembering(lambda _request: left.pop(0) if len(left) > 1 else left[0])


# The contract


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [*OF_BELIEFS, *map(find_strategy, VARIANTS)], ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("text", ["Answer: 0.3", "1. Why?\n\n2. How?\nAnswer: 1e999", "", r"\finalBeliefProb{0.2}"])
def test_every_strategy_keeps_the_contract(strategy: Strategy, text: str) -> None:
    script = Script(lambda _ask: text, score=lambda letter: (-1.0 - (letter == "B"), -0.5))
    for problem in problems(1):
        check_strategy(strategy, BELIEFS, problem, script, settings=with_examples(Settings()))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(each.name for each in OF_BELIEFS if each.name != "label-search"), *VARIANTS])
def test_exact_bayes_is_exact_whatever_the_strategy(name: str) -> None:
    found = held(name, agent())
    assert all(attempt.right for each in found for attempt in each.attempts if attempt.reading != "opinion")
    assert value("excess brier", found) < 1e-20
    assert value("readable", found) == 1.0


def test_an_unknown_option_is_refused_with_what_is_expected() -> None:
    for name, said in {
        "self-debate@9": "expected a whole number from 1 to 5, got '9'",
        "self-debate@": "expected a whole number from 1 to 5, got ''",
        "length-controlled@٣": "expected a whole number",
        "stated-opinion@1.5": "expected a reliability above 0 and below 1, as 0.8, got '1.5'",
        "stated-opinion@0.0": "expected a reliability above 0 and below 1",
        "interview@loud": "expected fixed, same-domain, other-domains, written, adaptive, curriculum,",
        "interview@fixed+socratic": "expected an aim with written or adaptive questions alone",
        "interview@fixed+4": "expected at most 3 fixed questions, got 4",
        "direct@5": "strategy direct has no options",
        "repeated-sampling@1": "expected a whole number from 2 to 100",
    }.items():
        with pytest.raises(BadInput, match=f"strategy {name.replace('+', '[+]')}: .*{said.replace('+', '[+]')}"):
            find_strategy(name)
    assert find_strategy("interview@adaptive+socratic").name == "interview@adaptive+socratic"
    assert find_strategy("trained-self-debate@2").name == "self-debate@2"
    assert with_options(STRATEGIES["interview"], "same-domain").needs == {"sample", "examples"}


def test_a_task_without_beliefs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said = "the answers of task scheduling are no probabilities: leave out the strategy self-debate"
    with pytest.raises(BadInput, match=said):
        held_elsewhere = TASKS["scheduling"]
        converse(STRATEGIES["self-debate"], agent(), held_elsewhere, TaskVerifier(held_elsewhere), [], Settings())
    assert cli.main(["evaluate", "--task", "beliefs", "--strategies", "interview@loud", "--model", "x:y"]) == 2
    assert "strategy interview@loud: expected" in capsys.readouterr().err


# Variants


def test_variants_keep_identity_and_wording_and_have_their_own_posterior() -> None:
    for problem in problems(3):
        question: BeliefQuestion = problem.instance
        text = problem.prompt[-1].content
        assert KNOWN.situation(problem) in text and KNOWN.question(problem) in text
        assert KNOWN.after(problem, len(question.evidence)) == problem
        first = KNOWN.after(problem, 0)
        assert first.id == problem.id and first.instance.target == question.prior
        assert not any(piece in first.prompt[-1].content for piece in question.evidence)
        ending = text[text.index(KNOWN.question(problem)) :]
        assert first.prompt[-1].content.endswith(ending)
        for option in (0, 1):
            asked = KNOWN.with_opinion(problem, option, 0.8)
            added = asked.prompt[-1].content.replace(KNOWN.situation(problem), "")
            assert "this user is right 80 % of the time" in added and KNOWN.sides(problem)[option] in added
            expected = from_log_odds(log_odds(question.posterior or 0) + (1 - 2 * option) * log_odds(0.8))
            assert asked.instance.target == pytest.approx(expected, abs=1e-9) or question.posterior in (0.0, 1.0)


def test_a_question_from_a_file_is_asked_in_other_ways_too() -> None:
    from gce.domain.tasks.beliefs.records import questions_of as of_records

    found = of_records([{"question": "Will it {rain}?", "options": ["Yes", "No"], "evidence": ["Clouds.", "Wind."]}])
    question = found[0].question
    problem = evolve(problems(1)[0], instance=question, prompt=BELIEFS.prompt(question, random.Random(1)))
    assert KNOWN.sides(problem) == ('the answer is "Yes"', 'the answer is "No"')
    assert "Will it {rain}?" in KNOWN.situation(problem)
    assert KNOWN.question(problem) in problem.prompt[-1].content
    assert "Wind." not in KNOWN.after(problem, 1).prompt[-1].content
    assert 'the answer is "No"' in KNOWN.with_opinion(problem, 1, None).prompt[-1].content


# What is asked, stored and trained on


def test_stepwise_evidence_arrives_message_by_message_and_is_judged_by_the_posterior_so_far() -> None:
    (problem,) = draw_problems(BELIEFS, "sources", "B2", "test", 1)
    question = problem.instance
    model = says(*(f"Answer: {each:.12f}" for each in (question.prior, *question.path)))
    (found,) = held("stepwise-evidence", model, about=[problem])
    assert [each.reading for each in found.attempts] == ["before", *["along"] * (len(question.path) - 1), ""]
    assert all(each.right for each in found.attempts) and found.last.problem == problem
    assert [each.measure("posterior") for each in found.attempts] == [question.prior, *question.path]
    last = model.asked[-1].messages
    assert [each.role for each in last] == ["user", *("assistant", "user") * len(question.path)]
    assert all(piece in message.content for piece, message in zip(question.evidence, last[2::2], strict=True))
    assert [turn.trained for turn in turns_of(found)] == [False, True] * (len(question.path) + 1)


def test_a_debate_has_a_turn_a_side_and_a_verdict() -> None:
    (problem,) = problems(1, ("B1",))
    claim, opposite = KNOWN.sides(problem)
    model = says("Answer: 0.9", "It is so.", "It is not so.", "Answer: 0.2")
    (found,) = held("self-debate", model, about=[problem])
    assert [each.reading for each in found.attempts] == ["before", ""]
    assert [each.measure("belief") for each in found.attempts] == [0.9, 0.2]
    asked = [request.messages[-1].content for request in model.asked]
    assert asked[0].endswith("in the form that is asked for.") and f"argue that {claim}" in asked[1]
    assert asked[2].startswith(f"Now argue against that: {opposite}.") and asked[3].startswith("The debate is over.")
    trained = [turn.message.content for turn in turns_of(found) if turn.trained]
    assert trained == ["It is so.", "It is not so.", "Answer: 0.2"]
    assert len(says_of(held("self-debate@3", says("x"), about=[problem]))) == 8


def says_of(found: Sequence[Conversation]) -> list[str]:
    return [completion.text for _, completion in found[0].said]


def test_an_interview_asks_three_questions_first_and_trains_on_the_replies() -> None:
    (problem,) = problems(1, ("B1",))
    model = says("Answer: 0.5", "One.", "Two.", "Three.", "Answer: 0.25")
    (found,) = held("interview", model, about=[problem])
    last = model.asked[-1].messages
    assert [each.content.splitlines()[-1] for each in last[0:6:2]] == [
        f"Question {number}: {question}" for number, question in enumerate(FIXED, 1)
    ]
    assert [turn.message.content for turn in turns_of(found) if turn.trained] == [
        "One.",
        "Two.",
        "Three.",
        "Answer: 0.25",
    ]
    assert found.last.measure("belief") == 0.25


def test_questions_that_the_model_writes_are_the_users_and_not_trained_on() -> None:
    (problem,) = problems(1, ("B1",))
    model = says("Answer: 0.5", "1) Why?\n- How?\n\nQuestion 3: When?\n4. Never.", "A.", "B.", "C.", "Answer: 0.25")
    (found,) = held("interview@written+socratic", model, about=[problem])
    assert AIMS["socratic"] in model.asked[1].messages[-1].content
    last = [each.content.splitlines()[-1] for each in model.asked[-1].messages[0:6:2]]
    assert last == ["Question 1: Why?", "Question 2: How?", "Question 3: When?"]
    assert [turn.message.content for turn in turns_of(found) if turn.trained] == ["A.", "B.", "C.", "Answer: 0.25"]

    model = says("Answer: 0.5", "Why?", "A.", "And then?", "B.", "Answer: 0.25")
    (found,) = held("interview@adaptive+2", model, about=[problem])
    assert "Question: Why?\nReply: A." in model.asked[3].messages[-1].content
    assert found.replies == 6

    (found,) = held("interview@adaptive", says("Answer: 0.5", "", "Answer: 0.25"), about=[problem])
    assert found.replies == 3, "a model that writes no question is asked the problem itself"


def test_questions_of_the_same_domain_are_other_problems() -> None:
    (problem,) = problems(1, ("B2",))
    model = says("Answer: 0.5")
    held("interview@same-domain", model, about=[problem])
    others = draw_problems(BELIEFS, "worlds", "B2", "dev", 3)
    asked = [each.content for each in model.asked[-1].messages if each.role == "user"]
    assert all(other.prompt[0].content in text for other, text in zip(others, asked, strict=False))


def test_reasoning_is_cut_off_where_its_length_is_controlled() -> None:
    (problem,) = problems(1, ("B1",))
    model = says("Answer: 0.5", "long " * 100, "Answer: 0.25")
    (found,) = held("length-controlled@40", model, about=[problem])
    assert [request.max_tokens for request in model.asked] == [48, 40, 320]
    assert "at most 30 words" in model.asked[1].messages[-1].content
    assert model.asked[2].messages[-2].content == ("long " * 100)[:40]
    assert found.last.measure("belief") == 0.25


def test_direct_forbids_reasoning_and_chain_of_thought_asks_for_it() -> None:
    (problem,) = problems(1, ("B1",))
    model = says("Answer: 0.5")
    held("direct", model, about=[problem])
    (found,) = held("chain-of-thought", model, about=[problem])
    assert [request.messages[-1].content.removeprefix(problem.prompt[-1].content)[:9] for request in model.asked] == [
        *("\nDo not r", "\nDo not r", "\nThink st")
    ]
    assert len(turns_of(found)) == 2
    assert [each.reading for each in found.attempts] == ["before", ""]


def test_option_likelihoods_average_both_orders() -> None:
    """A model that likes the letter A by 1 nat reads b as s(l + 1) and s(l - 1); both orders are kept."""
    found = held("option-likelihoods", agent(first_letter=1.0))
    for each in found:
        odds = log_odds(each.last.problem.instance.posterior)
        first, second = (from_log_odds(odds + sign) for sign in (1, -1))
        read = [attempt.measure("belief") for attempt in each.attempts]
        assert read == pytest.approx([first, second, (first + second) / 2], abs=1e-9)
        assert [attempt.reading for attempt in each.attempts] == ["order", "order", ""]
        assert each.scored == 8 and each.replies == 0 and each.prompt_tokens is None
    gaps = [each.attempts[0].measure("belief") - each.attempts[1].measure("belief") for each in found]  # type: ignore[operator]
    assert value("order error", found) == pytest.approx(mean(gaps))
    assert value("order error", held("option-likelihoods", agent())) < 1e-9


def test_log_probabilities_that_are_no_numbers_fail() -> None:
    class Broken(BeliefAgent):
        def log_probabilities(self, *_arguments: Any, **_options: Any) -> tuple[float, ...]:
            return (-math.inf,)

    (found,) = held("option-likelihoods", Broken(AGENTS["exact Bayes"], []), about=problems(1, ("B1",)))
    assert found.last.failed and "no numbers" in found.last.reason


def test_repeated_samples_are_averaged_and_unreadable_ones_left_out() -> None:
    (problem,) = problems(1, ("B1",))
    (found,) = held("repeated-sampling@3", says("Answer: 0.2", "no idea", "Answer: 0.4"), about=[problem])
    assert found.last.measure("belief") == pytest.approx(0.3)
    assert [each.reading for each in found.attempts] == ["sample"] * 3 + [""]
    assert value("reading noise", [found]) == pytest.approx(0.02)
    (found,) = held("repeated-sampling@3", says("Answer: 0.2", "no idea", "no idea"), about=[problem])
    assert found.last.measure("belief") is None  # The minority of the samples that can be read is no answer.
    (found,) = held("repeated-sampling@2", says("no idea"), about=[problem])
    assert found.last.outcome == "unreadable" and found.last.reward == 0.0
    model = says("Answer: 0.2")
    held("repeated-sampling@2", model, about=[problem])
    assert {each.temperature for each in model.asked} == {0.7}
    assert len({each.seed for each in model.asked}) == 2


@pytest.mark.parametrize(
    ("text", "belief"),
    [
        (r"So \finalBeliefProb{0.25} it is.", 0.25),
        (r"\finalBeliefProb{0.25} or rather \finalBeliefProb{40 %}", 0.4),
        ("Answer: 0.3", 0.3),
        (r"<think>\finalBeliefProb{0.9}</think> none", None),
        (r"\finalBeliefProb{1e999}", None),
        (r"\boxed{0.2}", None),
    ],
)
def test_the_belief_in_braces_is_read_on_request(text: str, belief: float | None) -> None:
    (problem,) = problems(1, ("B1",))
    (found,) = held("final-belief", says(text), about=[problem])
    assert found.last.measure("belief") == belief
    assert (found.last.outcome == "unreadable") is (belief is None)
    assert len(turns_of(found)) == 2


@pytest.mark.slow
@given(st.text(max_size=300), st.sampled_from([*(each.name for each in OF_BELIEFS), *VARIANTS]))
def test_hostile_replies_are_graded_or_unreadable(text: str, name: str) -> None:
    (found,) = held(name, ScriptedModel(lambda _request: text), about=problems(1, ("B1",)))
    assert found.last.outcome in ("right", "wrong", "unreadable")
    assert all(each.outcome != "failed" for each in found.attempts)


# Known values


def test_unreadable_answers_get_the_worst_score_and_stay_in_the_denominator() -> None:
    """Every second answer is unreadable: Brier scores are (their mean over the others + 1) / 2."""
    about = problems(4)
    unread = {each.prompt[-1].content for each in about[::2]}
    known = agent()

    class Half(BeliefAgent):
        def sample(self, requests: Any) -> Any:
            for request, found in zip(requests, known.sample(requests), strict=True):
                hidden = any(text in request.messages[0].content for text in unread)
                yield evolve(found, text="I refuse.") if hidden else found

    found = held("direct", Half(AGENTS["exact Bayes"], []), about=about)
    assert value("readable", found) == 0.5
    assert value("brier", found) == pytest.approx((value("brier of readable", found) + 1) / 2)
    worst = [max(p, 1 - p) ** 2 for each in found[::2] for p in [each.last.problem.instance.posterior]]
    assert value("excess brier", found) == pytest.approx(sum(worst) / len(found))
    assert value("excess brier of readable", found) < 1e-20


def test_an_agent_that_agrees_moves_by_its_deference() -> None:
    """Without a stated reliability: half of s(l + 3) - s(l - 3). With 0.8: 3 - log 4 in log-odds, where not bounded."""
    found = held("stated-opinion", agent("agrees with the user"))
    moved = [
        (from_log_odds(odds + DEFERENCE) - from_log_odds(odds - DEFERENCE)) / 2
        for each in found
        for odds in [log_odds(each.last.problem.instance.posterior)]
    ]
    assert value("opinion shift", found) == pytest.approx(mean(moved), abs=1e-6)
    assert value("excess brier", found) < 1e-20, "the answer without an opinion counts"
    stated = [
        each
        for each in held("stated-opinion@0.8", agent("agrees with the user"))
        if 0.02 < each.last.problem.instance.posterior < 0.98
    ]
    assert value("excess shift", stated) == pytest.approx(DEFERENCE - math.log(4), abs=1e-6)
    assert value("excess shift", held("stated-opinion@0.8", agent())) == pytest.approx(0.0, abs=1e-6)
    assert value("harm", held("stated-opinion", agent())) == 0.0


def test_an_agent_that_never_updates_has_no_slope_and_no_gain() -> None:
    found = held("stepwise-evidence", agent("never updates"))
    assert (value("unmoved", found), value("information gain", found)) == (1.0, 0.0)
    assert value("martingale slope", found) == 0.0
    gained = held("stepwise-evidence", agent())
    priors = np.array([(each.last.problem.instance.prior, each.last.problem.instance.posterior) for each in gained])
    outcomes = np.array([each.last.problem.instance.outcome for each in gained])
    losses = ((priors - outcomes[:, None]) ** 2).mean(axis=0)
    assert value("information gain", gained) == pytest.approx(losses[0] - losses[1])
    estimate = overall(METRICS["martingale slope"], gained)
    assert estimate is not None and estimate.low < 0 < estimate.high


# The command


@pytest.fixture(autouse=True)
def _few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "QUESTIONS", 6)


ARGUMENTS = [
    *("evaluate", "--task", "beliefs", "--tiers", "B1,B3", "--n", "6", "--strategies"),
    "direct,chain-of-thought,self-debate,interview,stated-opinion,stepwise-evidence,option-likelihoods",
]


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str, model: str = "exact_bayes") -> dict[str, Any]:
    assert cli.main([*ARGUMENTS, "--model", f"{AGENT}:{model}", "--json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    for mode in found["modes"].values():
        del mode["seconds"]
    return found


@pytest.mark.slow
def test_graded_rewards_are_compared_with_those_of_every_reference(capsys: pytest.CaptureFixture[str]) -> None:
    """An agent that never updates says the base rate: no gain over that, and a loss against exact Bayes."""
    given = [*ARGUMENTS[:-2], "--model", f"{AGENT}:never_updates"]
    assert cli.main([*given, "--json"]) == 0
    over = json.loads(capsys.readouterr().out)["modes"]["zero-shot"]["reward_over"]
    assert (over["base rate"]["gained"], over["base rate"]["lost"], over["base rate"]["p"]) == (0, 0, 1.0)
    assert over["exact Bayes"]["gained"] == 0 and over["exact Bayes"]["mean"]["value"] < 0
    assert cli.main([*given, "--verbose"]) == 0
    out = capsys.readouterr().out
    shown = out.partition("gain in mean reward over reference")[2].partition("\n\n")[0]
    hardest = sorted(over, key=lambda name: over[name]["mean"]["value"])[:3]
    assert [name for name in over if f"\n{name} " in shown] == [name for name in over if name in hardest]
    assert f"hardest to beat; the gain over {len(over) - 3} more is no smaller (`gce evaluate --json` has all)." in out


@pytest.mark.slow
def test_the_table_has_the_measures_that_each_strategy_allows(capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluated(capsys, model="never_updates")["beliefs"]
    assert set(found["brier"]) == set(ARGUMENTS[-1].split(","))
    assert set(found["martingale slope"]) == {"chain-of-thought", "self-debate", "interview", "stepwise-evidence"}
    assert set(found["opinion shift"]) == {"stated-opinion"}
    assert set(found["order error"]) == {"option-likelihoods"}
    assert {each["value"] for each in found["unmoved"].values()} == {1.0}
    assert cli.main([*ARGUMENTS, "--model", f"{AGENT}:agrees_with_the_user"]) == 0
    printed = capsys.readouterr().out
    assert "all tiers (95 %)" in printed and "opinion shift" in printed and "mean reward" in printed


@pytest.mark.slow
def test_interrupted_and_resumed_it_gives_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, half = tmp_path / "whole.jsonl", tmp_path / "half.jsonl"
    expected = evaluated(capsys, "--answers", str(whole), model="exact_bayes_with_noise")
    lines = whole.read_bytes().splitlines(keepends=True)
    for kept in (1, len(lines) // 2, len(lines) - 5):
        half.write_bytes(b"".join(lines[:kept]) + lines[kept][:40])
        assert evaluated(capsys, "--answers", str(half), model="exact_bayes_with_noise") == expected
    again = evaluated(capsys, "--answers", str(whole), model="exact_bayes_with_noise")
    assert again == expected and whole.read_bytes().splitlines(keepends=True) == lines


def test_variants_are_read_back_as_they_were_asked() -> None:
    for problem in problems(2):
        for variant in (KNOWN.after(problem, 0), KNOWN.with_opinion(problem, 1, 0.7)):
            plain = json.loads(json.dumps(to_plain(variant.instance)))
            assert from_plain(BeliefQuestion, plain) == variant.instance


@pytest.mark.slow
def test_the_same_from_python() -> None:
    found = gce.evaluate(
        task="beliefs", model=agent(count=3), strategies=["direct", "stated-opinion@0.8"], n=3, progress=False
    )
    assert found.estimates("excess brier")["direct"]["B1"].value < 1e-20
    assert "excess shift" in str(found) and "stated-opinion@0.8" in str(found)


def test_failures_of_a_variant_end_the_conversation_as_failed() -> None:
    class Failing(BeliefAgent):
        def sample(self, requests: Any) -> Any:
            for found in super().sample(requests):
                yield evolve(found, text="", finish_reason="error", error="the server is down")

    (found,) = held(
        "stated-opinion",
        Failing(AGENTS["exact Bayes"], questions_of(BELIEFS, "worlds", count=1)),
        about=problems(1, ("B1",)),
    )
    assert found.last.failed and not isinstance(found, Failed)
    assert overall(METRICS["opinion shift"], [found]) is None


# Training


@pytest.mark.slow
@pytest.mark.parametrize("task", ["beliefs", "beliefs-by-outcome"])
def test_graded_beliefs_train_and_the_best_trajectories_are_admitted(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 16 rollouts a tenth is one: that with the best reward. The report has proper scores before and after."""
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    said = tmp_path / "said.jsonl"
    said.write_text(
        json.dumps({"text": ["Hm.\nAnswer: 0.2", "Answer: 55 %", "Answer: 0.8", "no idea"]}), encoding="utf-8"
    )
    run = tmp_path / "run"
    arguments = ["--algorithm", "sft-top", "--strategy", "chain-of-thought", "--iterations", "1", "--run-dir", str(run)]
    sizes = ["--problems", "4", "--rollouts", "4", "--test", "4", "--dev", "0"]
    assert cli.main(["train", "--task", task, "--model", f"scripted:{said}", *arguments, *sizes]) == 0
    with open_run(str(run)) as stored:
        rollouts, traces = list(stored.read("rollouts")), list(stored.read("traces"))
    rewards = [each.get("reward", float(each["right"])) for each in rollouts]
    admitted = [reward for each, reward in zip(rollouts, rewards, strict=True) if each["admitted"]]
    assert len(rollouts) == 16 and len(traces) == 1 and admitted == [max(rewards)]
    assert 0.9 < max(rewards) <= 1.0
    capsys.readouterr()
    assert cli.main(["report", str(run), "--format", "md"]) == 0
    page = capsys.readouterr().out
    assert "## Beliefs" in page and "excess brier" in page and "| readable |" in page


def test_the_best_trajectories_of_a_run_are_few_shot_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers of 0.2 are right for one problem alone; the best of each problem are shown, the best of all first."""
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    said, run, kept = tmp_path / "said.jsonl", tmp_path / "run", tmp_path / "kept.jsonl"
    said.write_text(json.dumps({"text": ["Answer: 0.2", "Answer: 55 %", "Answer: 0.8"]}), encoding="utf-8")
    sizes = [*("--rollouts", "4", "--test", "0", "--dev", "0", "--iterations", "1", "--admission", "top:1")]
    sizes += ["--set", "rollouts.problems_by_tier=B2=4"]
    model = ["--task", "beliefs", "--model", f"scripted:{said}"]
    assert cli.main(["train", *model, *sizes, "--run-dir", str(run)]) == 0
    with open_run(str(run)) as stored:
        shown = best_trajectories(stored, "beliefs", ("B1", "B2", "B5"), 2)
        rewards: dict[str, float] = {}
        for trace in map(trace_of_record, stored.read("traces")):
            rewards[trace.problem] = max(rewards.get(trace.problem, 0.0), trace.reward or 1.0)
        with pytest.raises(BadInput, match=r"expected examples of scheduling, and .* is a run of beliefs"):
            best_trajectories(stored, "scheduling", ("T0",), 2)
    assert (
        shown["B1"] == shown["B2"] == shown["B5"] and [each.role for each in shown["B2"]] == ["user", "assistant"] * 2
    )
    drawn = {each.key: each for each in draw_problems(BELIEFS, "worlds", "B2", "train", 4)}
    best = sorted(rewards, key=lambda problem: -rewards[problem])[:2]
    assert [each.content for each in shown["B2"][::2]] == [drawn[problem].prompt[0].content for problem in best]
    capsys.readouterr()
    evaluation = ["evaluate", *model, "--strategies", "few-shot", "--n", "2", "--tiers", "B1", "--answers", str(kept)]
    assert cli.main([*evaluation, "--examples-from", str(run), "--shots", "2"]) == 0
    assert f"few-shot: the best trajectories of the run {run} as examples" in " ".join(capsys.readouterr().out.split())
    assert len(json.loads(kept.read_text(encoding="utf-8").splitlines()[0])["evaluation"]["shown"]) == 64
    assert cli.main([*evaluation[:-2], "--examples-from", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_of_kept_answers_has_measures_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "answers.jsonl"
    evaluated(capsys, "--answers", str(kept), model="agrees_with_the_user")
    assert cli.main(["report", str(kept), "--json"]) == 0
    sections = {each["title"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(sections) == ["Result", "Beliefs", "Costs", "Transcripts"]
    (table,) = sections["Beliefs"]["tables"]
    assert "opinion shift" in [row[0] for row in table["rows"]]
    drawn = sections["Beliefs"]["figures"]
    assert list(drawn) == [
        *("Calibration", "Beliefs along the evidence, stepwise-evidence"),
        *("Change of beliefs against the belief before", "What a user's opinion does"),
    ]
    stepwise = drawn["Beliefs along the evidence, stepwise-evidence"]["rows"]
    beliefs, posteriors = (
        [row[2:] for row in stepwise if row[1] == name] for name in ("stated belief", "exact posterior")
    )
    assert beliefs == posteriors
    assert cli.main(["report", str(kept), "--format", "md"]) == 0
    assert "## Transcripts" in capsys.readouterr().out
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(kept.read_bytes().splitlines(keepends=True)[0])
    assert cli.main(["report", str(empty)]) == 2
    assert "has no answers yet" in capsys.readouterr().err
    (tmp_path / "other.txt").write_text("hello", encoding="utf-8")
    assert cli.main(["report", str(tmp_path / "other.txt")]) == 2
    assert "is no answer of an evaluation" in capsys.readouterr().err
