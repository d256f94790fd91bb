"""The scripted agents as models: they read a prompt, find the question in it, and say what the agent believes.

`--model gce.testing.beliefs.models:exact_bayes` evaluates an agent whose scores are known as if it were a model. An
agent knows the questions of a task beforehand; of each it sees the pieces of evidence and the opinion that a prompt
shows, and nothing more. It samples, and scores the letters A and B of two options, the labels Yes and No, and the
world's next report. A quoted belief of somebody else becomes its own, and as a judge it grades answers by their
distance from its own belief.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.problems import Message, Split
from gce.domain.randomness import generator, key
from gce.domain.strategies.peer_prediction import GUESS
from gce.domain.strategies.predictions import YES, asked_for_label
from gce.domain.tasks.beliefs.answer import parse, render
from gce.domain.tasks.beliefs.log_odds import from_log_odds, log_odds
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.beliefs.wording import side_texts
from gce.domain.tasks.source import draw_problems
from gce.domain.tasks.task import Task
from gce.testing.beliefs.agents import AGENTS, Agent

__all__ = [
    "BeliefAgent",
    "agrees_with_the_user",
    "always_half",
    "exact_bayes",
    "exact_bayes_with_noise",
    "never_updates",
    "questions_of",
]

QUESTIONS = 200
"""Questions of a tier and split that the models below know."""
TAUGHT = 20
"""Of a tier's training split, from which examples are taken."""
_RELIABILITY = re.compile(r"this user is right ([0-9.]+) % of the time")
_QUOTED = re.compile(r'"""\n(.*?)\n"""', re.DOTALL)
_LABEL = asked_for_label((Message("user", ""),))[-1].content
_GRADE = '{"grade": X}'
KEPT = 0.9
"""Probability with which somebody who thinks as the agent does gives its answer; others toss a coin."""


class BeliefAgent:
    """An agent as a model. Its answers to a conversation depend on the user's messages alone."""

    def __init__(
        self, agent: Agent, questions: Iterable[BeliefQuestion], *, reasons: bool = True, first_letter: float = 0.0
    ) -> None:
        """Make a model of the agent for these questions.

        Args:
            agent: what it believes.
            questions: those that it knows: with a prior and a path.
            reasons: whether it writes a sentence before the answer.
            first_letter: nats by which the letter A is likelier than it should be, whatever it stands for.
        """
        self._agent = agent
        self._questions: dict[str, list[BeliefQuestion]] = {}
        for question in questions:
            self._questions.setdefault(question.background, []).append(question)
        self._found: dict[str, list[BeliefQuestion]] = {}
        """By text, of those that were asked for before."""
        self._reasons = reasons
        self._first_letter = first_letter

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`."""
        known = repr((self._agent.name, sorted(self._questions), self._reasons, self._first_letter))
        identity = blake2b(known.encode(), digest_size=16).hexdigest()
        return ModelInfo(identity, frozenset({"sample", "score"}))

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Noise depends on the prompt, and if the temperature is not 0 on the seed."""
        policy = self.info().identity
        for request in requests:
            text = self._shown(request.messages)
            belief = self._belief(text)
            seed = request.seed if request.temperature else 0
            read = self._agent.read(np.array([belief]), generator("belief agent", text, seed))
            said = self._graded(text) if _GRADE in text else render(float(read[0]))
            answer = f"{'I weigh what is known.' + chr(10) if self._reasons else ''}{said}"
            words = len(answer.split())
            yield Completion(
                request.key,
                answer,
                "stop",
                policy,
                prompt_tokens=len(text.split()),
                tokens=min(words, request.max_tokens),
            )

    def log_probabilities(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> tuple[float, ...]:
        """See `gce.ports.model.Scorer`. Letters A and B have the probabilities of the options behind them."""
        text = self._shown(messages)
        if text.endswith(_LABEL):
            return (self._label(messages, continuation), 0.0)
        if continuation not in ("A", "B"):
            return (self._report(text, continuation), 0.0)
        question, belief = self._question(text), self._belief(text)
        first = text.partition("\nA: ")[2].startswith(side_texts(question)[0] + "\n")
        odds = (log_odds(belief) if first else -log_odds(belief)) + self._first_letter
        return (-math.log1p(math.exp(-odds if continuation == "A" else odds)), 0.0)

    def _label(self, messages: Sequence[Message], label: str) -> float:
        """How probable the agent takes a label to be, given those of earlier questions.

        An answer of somebody who knows the evidence is yes as surely as the claim holds; of others the agent supposes
        that they think as it does, or else toss a coin, which is as likely until their earlier answers are seen.
        """
        last = messages[-1].content
        belief = self._belief(last)
        if len(messages) == 1 and GUESS in last:
            bounded = min(max(belief, 0.001), 0.999)
            return math.log(bounded if label == YES else 1 - bounded)
        alike = 0.5
        for asked, said in zip(messages[:-1:2], messages[1::2], strict=True):
            agreed = KEPT if (self._belief(asked.content) >= 0.5) == (said.content == YES) else 1 - KEPT
            alike = alike * agreed / (alike * agreed + (1 - alike) * 0.5)
        own = KEPT if (belief >= 0.5) == (label == YES) else 1 - KEPT
        return math.log(alike * own + (1 - alike) * 0.5)

    def _report(self, text: str, report: str) -> float:
        """Log-probability of the evidence that a question withholds, as of a witness as reliable as it is telling."""
        asked = [each for each in self._questions_in(text) if each.withheld == report] or [self._question(text)]
        question, belief = asked[0], min(max(self._belief(text), 0.001), 0.999)
        ratio = log_odds(question.posterior_with_withheld or 0.0) - log_odds(question.posterior or 0.0)
        says = from_log_odds(ratio)
        return math.log(min(max(belief * says + (1 - belief) * (1 - says), 1e-9), 1.0))

    def _graded(self, text: str) -> str:
        """The grade of a quoted answer: 10 for the agent's own belief, less 10 for each unit of distance."""
        belief, said = self._own(text), _stated(text)
        return json.dumps({"grade": 0.0 if said is None else 10 * (1 - abs(belief - said))})

    def _shown(self, messages: Sequence[Message]) -> str:
        return "\n".join(each.content for each in messages if each.role == "user")

    def _question(self, text: str) -> BeliefQuestion:
        """The question that the text asks first; of those that begin alike, the one with the most evidence in it."""
        found = self._questions_in(text)
        if not found:
            raise ValueError(f"expected the prompt of a question that the agent knows, got {text[:200]!r}")
        return found[0]

    def _questions_in(self, text: str) -> list[BeliefQuestion]:
        """The questions that the text may ask, the likeliest first."""
        if text in self._found:
            return self._found[text]
        found = [
            ((text.index(background), -_seen(each, text), len(each.evidence), place), each)
            for background, questions in self._questions.items()
            if background in text
            for place, each in enumerate(questions)
            if any(claim in text for claim in _claims(each))
        ]
        self._found[text] = [each for _, each in sorted(found, key=lambda each: each[0])]
        return self._found[text]

    def _belief(self, text: str) -> float:
        said = _stated(text)
        return self._own(text) if said is None or _GRADE in text else said

    def _own(self, text: str) -> float:
        """The belief in the claim that the text asks about; of a related claim, all that is known is its prior."""
        question = self._question(text)
        claim = _asked(question, text)
        if claim == question.options[1] and claim != question.claim:
            return 1.0 - self._of_claim(question, text)
        known = {name: each for one in question.related for name, each in zip(one.claims, one.posteriors, strict=True)}
        if claim in known and claim != question.claim:
            return float(self._agent.path(np.array([log_odds(known[claim])]), np.zeros((1, 0)))[0, -1])
        return self._of_claim(question, text)

    def _of_claim(self, question: BeliefQuestion, text: str) -> float:
        path = np.array([log_odds(each) for each in (question.prior or 0.0, *question.path)])
        prior, ratios = path[:1], np.diff(path)[None, : _seen(question, text)]
        sides = side_texts(question)
        for place, side in enumerate(sides):
            if f'"I am sure that {side}."' in text or f'"I believe that {side}."' in text:
                stated = _RELIABILITY.search(text)
                trust = log_odds(float(stated[1]) / 100) if stated else 0.0
                found = self._agent.with_opinion(prior, ratios, np.array([trust]), 1 - 2 * place)
                return float(found[0])
        return float(self._agent.path(prior, ratios)[0, -1])


def _stated(text: str) -> float | None:
    """The belief in the last quotation of a text; None if there is none."""
    found = [parse(each) for each in _QUOTED.findall(text)]
    return found[-1] if found and isinstance(found[-1], float) else None


def _claims(question: BeliefQuestion) -> tuple[str, ...]:
    return (question.claim, question.options[1], *(claim for each in question.related for claim in each.claims))


def _asked(question: BeliefQuestion, text: str) -> str:
    """The claim that the text asks about first: the question's own, its opposite or a related one."""
    found = [(text.index(f"that {each}?"), each) for each in _claims(question) if f"that {each}?" in text]
    return min(found)[1] if found else question.claim


def _seen(question: BeliefQuestion, text: str) -> int:
    """How many of the first pieces of evidence the text shows; pieces with the same words as often as they come."""
    shown: Counter[str] = Counter()
    for place, piece in enumerate(question.evidence):
        shown[piece] += 1
        if text.count(piece) < shown[piece]:
            return place
    return len(question.evidence)


def questions_of(task: Task, preset: str, *, count: int) -> list[BeliefQuestion]:
    """Return the first `count` questions of each tier of a preset, of the dev and test split, and some of examples."""
    drawn: list[tuple[Split, int, int]] = [
        ("dev", count, 0),
        ("test", count, 0),
        ("train", min(count, TAUGHT), key("examples")),
    ]
    return [
        problem.instance
        for tier in task.tiers(preset)
        for split, most, seed in drawn
        for problem in draw_problems(task, preset, tier.name, split, most, seed=seed)
    ]


def _model(name: str) -> Callable[[Any, Task], BeliefAgent]:
    def make(settings: Any, task: Task) -> BeliefAgent:
        preset = settings.preset or next(iter(task.presets))
        return BeliefAgent(AGENTS[name], questions_of(task, preset, count=QUESTIONS))

    return make


always_half = _model("always 0.5")
exact_bayes = _model("exact Bayes")
never_updates = _model("never updates")
agrees_with_the_user = _model("agrees with the user")
exact_bayes_with_noise = _model("exact Bayes with elicitation noise")
