"""Prompt-blind baselines, which ignore the evidence, and naive agents, which read it but not as Bayes' rule asks."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import fsum

from gce.domain.problems import Problem
from gce.domain.tasks.beliefs.answer import render
from gce.domain.tasks.beliefs.log_odds import log_odds as log_odds_of
from gce.domain.tasks.beliefs.log_odds import shifted
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.parts import Policy

__all__ = ["counts_evidence", "heuristic_policies", "last_evidence", "neglects_base_rate", "prompt_blind_baselines"]

Believe = Callable[[BeliefQuestion], float | None]


def _stating(believe: Believe) -> Policy:
    def policy(problem: Problem, _rng: random.Random) -> str | None:
        belief = believe(problem.instance)
        return None if belief is None else render(belief)

    return policy


def neglects_base_rate(question: BeliefQuestion) -> float | None:
    """Return the posterior as if the prior were 0.5; None if either is unknown."""
    if question.prior is None or question.posterior is None:
        return None
    return shifted(question.posterior, -log_odds_of(question.prior))


def counts_evidence(question: BeliefQuestion) -> float | None:
    """Return the share of the pieces of evidence that speak for the claim, each taken alone; half for one of neither.

    None if there is none, or what it speaks for is unknown.
    """
    signals = _signals(question)
    return fsum((1 + signal) / 2 for signal in signals) / len(signals) if signals else None


def _signals(question: BeliefQuestion) -> Sequence[int]:
    world, prior = question.world, question.prior
    if world is None or prior is None:
        return question.signals
    alone = (world.posterior((piece,)) for piece in range(len(question.evidence)))
    return [0 if abs(each - prior) < 1e-12 else 1 if each > prior else -1 for each in alone]


def last_evidence(question: BeliefQuestion) -> float | None:
    """Return the posterior given the prior and the last piece of evidence alone; None if unknown."""
    if question.world is None or not question.evidence:
        return None
    return question.world.posterior((len(question.evidence) - 1,))


def prompt_blind_baselines(training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Return constants, random beliefs, and the base rate; one constant is fitted to each tier's training problems."""
    targets: dict[str, list[float]] = defaultdict(list)
    for problem in training:
        if problem.instance.target is not None:
            targets[problem.tier].append(problem.instance.target)

    def mean(problem: Problem, _rng: random.Random) -> str | None:
        found = targets.get(problem.tier)
        return render(fsum(found) / len(found)) if found else None

    return {
        "says 50 %": _stating(lambda _question: 0.5),
        "says 0 %": _stating(lambda _question: 0.0),
        "says 100 %": _stating(lambda _question: 1.0),
        "mean of the training targets": mean,
        "random belief": lambda _problem, rng: render(rng.random()),
        "base rate": _stating(lambda question: question.prior),
    }


def heuristic_policies(training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Return exact Bayes and naive agents; one is fitted to the training problems, for questions from a file."""
    return {
        "exact Bayes": _stating(lambda question: question.target if question.posterior is not None else None),
        "neglects the base rate": _stating(neglects_base_rate),
        "counts evidence": _stating(counts_evidence),
        "last evidence only": _stating(last_evidence),
        "rate given the last signal": _stating(_rate_by_signal(training)),
    }


def _rate_by_signal(training: Sequence[Problem]) -> Believe:
    """How often claims came true after each last signal, by Laplace's rule; for rain, this is persistence."""
    found: dict[int, list[int]] = defaultdict(list)
    for problem in training:
        question: BeliefQuestion = problem.instance
        if question.signals and question.outcome is not None:
            found[question.signals[-1]].append(question.outcome)

    def believe(question: BeliefQuestion) -> float | None:
        outcomes = found.get(question.signals[-1]) if question.signals else None
        return (sum(outcomes) + 1) / (len(outcomes) + 2) if outcomes else None

    return believe
