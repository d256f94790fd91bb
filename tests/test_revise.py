"""The strategy `revise`: when it revises, which answer counts, what is trained on, and that no verifier is asked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from toy_task import ADDITION

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.conversations import converse
from gce.app.evaluation.revisions import revision_parts
from gce.app.wiring.names import find_strategy
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.evaluators.critic import first_half, fit_critic, likelihood
from gce.domain.metrics import METRICS, overall
from gce.domain.problems import Problem
from gce.domain.strategies.requests import Settings, Strategy
from gce.domain.strategies.revise import revise, stated_confidence
from gce.domain.tasks import draw_problem
from gce.domain.traces import turns_of
from gce.errors import BadInput
from gce.testing.contracts.strategy import Script, check_strategy

PROBLEM = draw_problem(ADDITION, "small", "T0", "test", 0)
SUM = f"w{PROBLEM.instance.a + PROBLEM.instance.b}"
OFF = f"w{PROBLEM.instance.a + PROBLEM.instance.b + 1}"


class Unsure(ScriptedModel):
    """Says one text after another, each with the probability of all of its tokens; 0 for none that is known."""

    def __init__(self, *said: tuple[str, float]) -> None:
        super().__init__(lambda request: said[len(request.messages) // 2][0])
        self.said = said

    def sample(self, requests: Any) -> Iterator[Completion]:
        for request, each in zip(requests, super().sample(requests), strict=True):
            p = self.said[len(request.messages) // 2][1]
            known = (math.log(p),) * len(each.token_ids or ()) if p else None
            yield evolve(each, log_probabilities=known, sampling_log_probabilities=None)


class Watched(TaskVerifier):
    """Knows how many completions the model had written when it was asked first."""

    def __init__(self, model: Unsure) -> None:
        super().__init__(ADDITION)
        self.model, self.asked = model, list[str]()

    def judge(self, answers: Iterable[tuple[Problem, Completion]]) -> Any:
        for problem, completion in answers:
            self.asked.append(completion.text)
            yield from super().judge([(problem, completion)])


def held(strategy: str | Strategy, *said: tuple[str, float]) -> Conversation:
    found = find_strategy(strategy) if isinstance(strategy, str) else strategy
    (conversation,) = converse(found, Unsure(*said), ADDITION, TaskVerifier(ADDITION), [PROBLEM], Settings())
    return conversation


@pytest.mark.parametrize(
    ("options", "replies", "kept"),
    [
        ("always", 2, "w0"),
        ("always+keep-always", 2, SUM),
        ("always+keep-first", 2, "w0"),
        ("2+always", 3, OFF),
        ("low", 1, "w0"),
        ("low+0.7", 2, "w0"),
        ("3+low+0.7", 3, OFF),
        ("surprise", 1, "w0"),
    ],
)
def test_when_it_revises_and_what_counts(options: str, replies: int, kept: str) -> None:
    """Predictions 0.6, 0.4, 0.9: the first is below 0.7 and so is the second; nothing moves within an answer."""
    found = held(f"revise@{options}", ("w0", 0.6), (SUM, 0.4), (OFF, 0.9), ("w2", 0.1))
    assert (found.replies, found.last.completion.text) == (replies, kept)
    assert [each.reading for each in found.attempts] == ["first", *["revised"] * (replies - 1), ""]
    assert len(found.tries) == 1 and found.last.right is (kept == SUM)


def test_the_three_ways_to_keep_are_reported_together() -> None:
    """Wrong at 0.6, right at 0.4, wrong at 0.9: keep-first and keep-best are wrong whatever counts."""
    for options in ("2+always", "2+always+keep-always", "2+always+keep-first"):
        found = [held(f"revise@{options}", ("w0", 0.6), (OFF, 0.9), (SUM, 0.4))]
        shares = {name: overall(METRICS[name], found) for name in ("keep-first", "keep-always", "keep-best")}
        assert {name: share and share.correct for name, share in shares.items()} == {
            "keep-first": 0,
            "keep-always": 1,
            "keep-best": 0,
        }
        plain, _ = revision_parts({"revise": found}, "wilson")
        assert plain["revise"]["revised"] == 1 and plain["revise"]["gains"]["keep-always"]["gained"] == 1


def test_no_verifier_is_asked_before_the_conversation_has_ended() -> None:
    model = Unsure(("w0", 0.6), (SUM, 0.4))
    verifier = Watched(model)
    asked: list[int] = []
    strategy = find_strategy("revise@always")

    def talk(*arguments: Any) -> Any:
        exchange = strategy.converse(*arguments)
        reply = yield next(exchange)
        while True:
            asked.append(len(verifier.asked))
            try:
                reply = yield exchange.send(reply)
            except StopIteration as ended:
                return ended.value

    converse(evolve(strategy, converse=talk), model, ADDITION, verifier, [PROBLEM], Settings())
    assert asked == [0, 0] and sorted(verifier.asked) == sorted(["w0", SUM, "w0"])


def test_what_led_to_the_answer_that_counts_is_trained_on() -> None:
    """A kept revision is learned with the answer before it, a kept first answer alone."""
    revised = turns_of(held("revise@always", ("w0", 0.1), (SUM, 0.9)))
    assert [(turn.message.content if turn.trained else "") for turn in revised] == ["", "w0", "", SUM]
    first = turns_of(held("revise@always", (SUM, 0.9), ("w0", 0.1)))
    assert [turn.trained for turn in first] == [False, True] and first[-1].message.content == SUM


def test_sections_and_stated_confidence() -> None:
    """0.9 is stated and 0.2 predicted: 0.49 of the largest disagreement, and confident; 0.6 is neither."""
    said = "REASONING\nw\nCONFIDENCE\n0.9\nANSWER\nw0"
    for trigger in ("disagreement", "confident"):
        found = held(f"revise@{trigger}+sections", (said, 0.2), (SUM, 0.9))
        assert found.replies == 2
        first, second = (turns[-1].content for turns, _ in found.said)
        assert "CHANGES" not in first and "CHANGES, REASONING, CONFIDENCE" in second
        assert held(f"revise@{trigger}+sections", (said.replace("0.9", "0.6"), 0.2), (SUM, 0.9)).replies == 1
        assert held(f"revise@{trigger}+sections", ("w0", 0.2), (SUM, 0.9)).replies == 1, "nothing was stated"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CONFIDENCE\n0.25", 0.25),
        ("**CONFIDENCE**: 80 %", 0.8),
        ("## CONFIDENCE: 1\nCONFIDENCE 0", 0.0),
        ("CONFIDENCE 80", None),
        ("CONFIDENCE: high", None),
        ("my CONFIDENCE 0.5", None),
        ("<think>CONFIDENCE 0.5", None),
        ("CONFIDENCE" + " " * 100_000, None),
        ("", None),
    ],
)
def test_a_confidence_is_read_or_it_is_none(text: str, expected: float | None) -> None:
    assert stated_confidence(text) == expected


@given(st.text())
def test_any_text_has_a_confidence_or_none(text: str) -> None:
    found = stated_confidence(text)
    assert found is None or 0.0 <= found <= 1.0


def test_without_log_probabilities_a_low_score_is_possible_and_nothing_else_fires() -> None:
    for options, replies in (("low", 2), ("surprise", 1), ("disagreement+sections", 1)):
        found = held(f"revise@{options}", *[("CONFIDENCE 0.9", 0.0)] * 2)
        assert (found.replies, "predicted" in found.last.notes) == (replies, False)


@pytest.mark.parametrize("options", ["5+always", "low", "surprise+0.2", "confident+sections", "disagreement+sections"])
@pytest.mark.parametrize("text", ["w1", "", "CONFIDENCE 1e999", "CONFIDENCE 0.99"])
def test_it_keeps_the_contract(options: str, text: str) -> None:
    check_strategy(find_strategy(f"revise@{options}"), ADDITION, PROBLEM, Script(lambda _ask: text))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("often", "got 'often'"),
        ("0", "from 1 to 5, got '0'"),
        ("6", "from 1 to 5, got '6'"),
        ("1.5", "got '1.5'"),
        ("always+0.5", "a threshold with low or disagreement or surprise alone"),
        ("confident", "add \\+sections"),
    ],
)
def test_other_options_are_refused(options: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        find_strategy(f"revise@{options}")


def test_a_critic_of_ones_own_and_the_likelihood() -> None:
    completion = Completion("", "a b c d", "stop", "", token_ids=(1, 2, 3, 4), log_probabilities=(-1.0, -3.0, 0.0, 0.0))
    assert likelihood(completion) == pytest.approx(math.exp(-1.0))
    assert likelihood(first_half(completion)) == pytest.approx(math.exp(-2.0))
    assert likelihood(Completion("", "a", "stop", "")) is None
    found = held(revise(lambda _problem, said: float(said.text == SUM), options="always"), ("w0", 0.9), (SUM, 0.1))
    assert found.last.right and found.last.notes["predicted"] == 1.0


def test_a_fitted_critic_prefers_what_was_right() -> None:
    """Right answers have 4 to 8 tokens, wrong ones 20 to 24; no tier but that of the problem."""
    rng = np.random.default_rng(0)
    lengths = [*rng.integers(4, 9, 50), *rng.integers(20, 25, 50)]
    said = [Completion("", "w " * length, "stop", "") for length in lengths]
    predict = fit_critic(said, [1.0] * 50 + [0.0] * 50, ["T0"] * 100)
    short, long = (predict(PROBLEM, Completion("", "w " * length, "stop", "")) for length in (6, 22))
    assert short > 0.9 > 0.1 > long
    with pytest.raises(ValueError, match="a score and a tier for each"):
        fit_critic(said, [1.0], ["T0"])


def test_the_command_line_shows_all_three(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"text": "Answer: A 0"}\n')
    options = ("--model", f"scripted:{answers}", "--strategies", "revise@2+always", "--tiers", "T0", "--n", "5")
    assert cli.main(("evaluate", *options)) == 0
    said = capsys.readouterr().out
    assert "revise@2+always: 5 of 5 revised" in said and "keep-always" in said
    assert cli.main(("evaluate", *options, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["revisions"]["revise@2+always"]["shares"]["keep-best"]["n"] == 5
    assert cli.main(("evaluate", *options[:-5], "revise@often", "--tiers", "T0")) == 2
    error = capsys.readouterr().err
    assert "got 'often'" in error and "Traceback" not in error
