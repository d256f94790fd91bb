"""The scripted agents as models: they read a prompt, find the question in it, and say what the agent believes.

`--model gce.testing.beliefs.models:exact_bayes` evaluates an agent whose scores are known as if it were a model. An
agent knows the questions of a task beforehand; of each it sees the pieces of evidence and the opinion that a prompt
shows, and nothing more. It samples, and scores the letters A and B of two options.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.problems import Message
from gce.domain.randomness import generator
from gce.domain.tasks.beliefs.answer import render
from gce.domain.tasks.beliefs.log_odds import log_odds
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.beliefs.wording import side_texts
from gce.domain.tasks.source import draw_problems
from gce.domain.tasks.task import Task
from gce.testing.beliefs.agents import AGENTS, Agent

__all__ = [
    "BeliefAgent",
    "agrees_with_the_user",
    "exact_bayes",
    "exact_bayes_with_noise",
    "never_updates",
    "questions_of",
]

QUESTIONS = 200
"""Questions of a tier and split that the models below know."""
_RELIABILITY = re.compile(r"this user is right ([0-9.]+) % of the time")


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
            answer = f"{'I weigh what is known.' + chr(10) if self._reasons else ''}{render(float(read[0]))}"
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
        question, belief = self._question(text), self._belief(text)
        first = text.partition("\nA: ")[2].startswith(side_texts(question)[0] + "\n")
        odds = (log_odds(belief) if first else -log_odds(belief)) + self._first_letter
        return (-math.log1p(math.exp(-odds if continuation == "A" else odds)), 0.0)

    def _shown(self, messages: Sequence[Message]) -> str:
        return "\n".join(each.content for each in messages if each.role == "user")

    def _question(self, text: str) -> BeliefQuestion:
        """The question that the text asks first; of those that begin alike, the one with the most evidence in it."""
        found = [
            (-text.index(background), _seen(each, text), -len(each.evidence), -place, each)
            for background, questions in self._questions.items()
            if background in text
            for place, each in enumerate(questions)
            if each.claim in text
        ]
        if not found:
            raise ValueError(f"expected the prompt of a question that the agent knows, got {text[:200]!r}")
        return max(found, key=lambda each: each[:-1])[-1]

    def _belief(self, text: str) -> float:
        question = self._question(text)
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


def _seen(question: BeliefQuestion, text: str) -> int:
    """How many of the first pieces of evidence the text shows; pieces with the same words as often as they come."""
    shown: Counter[str] = Counter()
    for place, piece in enumerate(question.evidence):
        shown[piece] += 1
        if text.count(piece) < shown[piece]:
            return place
    return len(question.evidence)


def questions_of(task: Task, preset: str, *, count: int) -> list[BeliefQuestion]:
    """Return the first `count` questions of each tier of a preset, of the dev and of the test split."""
    return [
        problem.instance
        for tier in task.tiers(preset)
        for split in ("dev", "test")
        for problem in draw_problems(task, preset, tier.name, split, count)
    ]


def _model(name: str) -> Callable[[Any, Task], BeliefAgent]:
    def make(settings: Any, task: Task) -> BeliefAgent:
        preset = settings.preset or next(iter(task.presets))
        return BeliefAgent(AGENTS[name], questions_of(task, preset, count=QUESTIONS))

    return make


exact_bayes = _model("exact Bayes")
never_updates = _model("never updates")
agrees_with_the_user = _model("agrees with the user")
exact_bayes_with_noise = _model("exact Bayes with elicitation noise")
