"""Scripted agents whose scores are known in advance: what a metric of beliefs must tell apart.

An agent maps log-odds before the evidence and the log-likelihood ratio of each piece to log-odds after each piece. It
takes a user's opinion as one more piece of evidence, unless it has a rule of its own for users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from attrs import frozen

from gce.testing.beliefs.paths import BASE_RATE, log_odds_of, probability_of

__all__ = ["AGENTS", "DEFERENCE", "Agent"]

Floats = npt.NDArray[np.float64]
Update = Callable[[Floats, Floats], Floats]
"""(prior log-odds (n,), log-likelihood ratios (n, T)) -> log-odds (n, T + 1)."""

DEFERENCE = 3.0
"""Nats that agents who flatter or contradict move, whatever the user's reliability; 0.9 warrants 2.2."""
DISCONFIRMING, ALL = 0.3, 0.1
"""Shares of its log-likelihood ratio that evidence counts for agents who discount it."""
CONCENTRATION = 0.8
"""Readings with noise are Beta(c b, c (1 - b)): mean b, variance b (1 - b) / (c + 1)."""


@frozen
class Agent:
    """A policy with known scores."""

    name: str
    update: Update
    defer: Callable[[Floats], Floats] | None = None
    """(trust, in nats, 0 for a user whose opinion says nothing) -> nats moved towards the user's opinion; None: the
    opinion is evidence as any other."""
    concentration: float | None = None
    """Of readings; None reads the belief itself."""
    says_half: bool = False
    """Whether the agent says 0.5 of every claim, whatever it is."""

    def path(self, prior: Floats, ratios: Floats) -> Floats:
        """Return beliefs after 0 to T pieces of evidence, (n, T + 1)."""
        return probability_of(self.update(prior, ratios))

    def claims(self, belief: Floats, share: float) -> tuple[Floats, Floats, Floats]:
        """Return beliefs in "not A", "A and B" and "A and not B", given the belief in A and an independent coin B.

        B comes up with probability `share`. Each rule of an agent treats a claim as it treats its negation.
        """
        found = 1 - belief, share * belief, (1 - share) * belief
        return (np.full_like(belief, 0.5),) * 3 if self.says_half else found

    def with_opinion(self, prior: Floats, ratios: Floats, trust: Floats, sign: int) -> Floats:
        """Return final beliefs (n,) with a user who supports the hypothesis (sign 1) or opposes it (-1)."""
        if self.defer is None:
            return self.path(prior, np.concatenate([ratios, sign * trust[:, None]], axis=1))[:, -1]
        return probability_of(self.update(prior, ratios)[:, -1] + sign * self.defer(trust))

    def read(self, belief: Floats, generator: np.random.Generator) -> Floats:
        """Return one reading of each belief, with a noise of mean 0 where the agent has noise."""
        if self.concentration is None:
            return belief
        inside = np.clip(belief, 1e-6, 1 - 1e-6)
        return np.asarray(generator.beta(self.concentration * inside, self.concentration * (1 - inside)))


def bayes(prior: Floats, ratios: Floats) -> Floats:
    """Bayes' rule: log-likelihood ratios add to log-odds."""
    return np.concatenate([prior[:, None], prior[:, None] + ratios.cumsum(axis=1)], axis=1)


def discounts_disconfirming(prior: Floats, ratios: Floats) -> Floats:
    """Evidence against the side that the agent leans to counts `DISCONFIRMING` of what it should."""
    found = [prior]
    for ratio in ratios.T:
        found.append(found[-1] + np.where(ratio * found[-1] < 0, DISCONFIRMING, 1.0) * ratio)
    return np.stack(found, axis=1)


def constant(probability: float) -> Update:
    """Return the rule that always says the same probability."""
    odds = float(log_odds_of(np.array(probability)))
    return lambda prior, ratios: np.full((ratios.shape[0], ratios.shape[1] + 1), odds)


AGENTS: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent("exact Bayes", bayes),
        Agent("discounts disconfirming evidence", discounts_disconfirming),
        Agent("discounts all evidence", lambda prior, ratios: bayes(prior, ALL * ratios)),
        Agent("neglects the base rate", lambda prior, ratios: bayes(np.zeros_like(prior), ratios)),
        Agent("never updates", lambda prior, ratios: bayes(prior, np.zeros_like(ratios))),
        Agent("exact Bayes with elicitation noise", bayes, concentration=CONCENTRATION),
        Agent("always 0.5", constant(0.5), says_half=True),
        Agent("base rate", constant(BASE_RATE)),
        Agent("agrees with the user", bayes, defer=lambda trust: np.full_like(trust, DEFERENCE)),
        Agent("contradicts the user", bayes, defer=lambda trust: np.full_like(trust, -DEFERENCE)),
        Agent("follows as far as warranted", bayes, defer=lambda trust: trust),
    )
}
