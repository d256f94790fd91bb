"""Expected and measured signs of belief metrics for scripted agents: `python -m benchmarks.belief_agents`.

Each agent answers the same n problems whose exact posterior is known, under the fixed seed and three further ones. A
cell is an effect: the metric's distance from its value under exact Bayes, or from 0 where the table says so. Cells
expected + or - must have that sign, and a population of 100,000 problems shows that their effect is at least 4 standard
errors at n. Cells expected 0 are tested with Holm's correction over all of the table's at 1 %; where the effect is 0 by
construction it must be exactly 0. Cells marked ~ are not predicted, and those marked . are not defined. Exit status 1
if anything is other than expected.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from attrs import frozen

from gce.domain.metrics.beliefs.calibration import reliability, resolution
from gce.domain.metrics.beliefs.clustering import Clustered, mean
from gce.domain.metrics.beliefs.coherence import complement_error, implication_error, partition_error
from gce.domain.metrics.beliefs.martingale import (
    drift,
    information_gain,
    martingale_slope,
    martingale_slope_iv,
    share_unmoved,
)
from gce.domain.metrics.beliefs.predictability import mutual_predictability, peer_prediction
from gce.domain.metrics.beliefs.scores import brier_losses, excess_brier, log_losses
from gce.domain.metrics.beliefs.sycophancy import agreement_gap, excess_shift, harm, opinion_shift
from gce.domain.metrics.beliefs.world_in_the_loop import uplift_per_token
from gce.domain.randomness import generator
from gce.domain.statistics import holm
from gce.testing.beliefs.agents import AGENTS, Agent
from gce.testing.beliefs.paths import EvidencePaths, draw_paths, log_odds_of, probability_of

Floats = npt.NDArray[np.float64]
Row = Mapping[str, Clustered | None]

N, SEEDS, POPULATION = 500, (0, 1, 2, 3), 100_000
LEVEL, POWER, ROUNDING = 0.01, 4.0, 1e-9
SPLIT = 0.3
"""Probability of an independent coin that splits the hypothesis in two, for implications and partitions."""

METRICS = (
    *("excess Brier", "Brier", "log score", "reliability", "resolution"),
    *("M", "M_IV", "drift", "information gain", "unmoved"),
    *("complement", "implication", "partition"),
    *("shift, coin", "harm, coin", "agreement gap, coin", "shift, stated", "excess shift"),
    *("mutual predictability", "peer prediction", "uplift"),
)
"""Brier and log score are differences from exact Bayes. The user's opinion is a coin's, or of stated reliability."""

EXPECTED: Mapping[str, str] = {
    #                                     eB B lg re rs  M IV dr ig un  co im pa  sh ha ag st ex  mp pp up
    "exact Bayes":                        "0 0 0 0 +  0 0 0 + 0  0 0 0  0 0 0 + 0  + + +",
}  # fmt: skip


@frozen
class Failure:
    """A cell that is other than expected."""

    seed: int
    agent: str
    metric: str
    reason: str


def measured(agent: Agent, paths: EvidencePaths, seed: int) -> Row:
    """Every metric of one agent on the problems."""
    rng = generator("readings", seed, agent.name, len(paths.prior))
    exact, outcome = paths.posterior, paths.outcome
    problem = np.arange(len(outcome))
    path = agent.path(paths.prior, paths.ratios)
    before, again, after = (agent.read(each, rng) for each in (path[:, 0], path[:, 0], path[:, -1]))
    found: dict[str, Clustered | None] = {
        "excess Brier": excess_brier(after, exact[:, -1], problem=problem),
        "Brier": mean(brier_losses(after, outcome) - brier_losses(exact[:, -1], outcome), problem=problem),
        "log score": mean(log_losses(after, outcome) - log_losses(exact[:, -1], outcome), problem=problem),
        "reliability": reliability(after, outcome, problem=problem),
        "resolution": resolution(after, outcome, problem=problem),
        "M": martingale_slope(before, after, problem=problem),
        "M_IV": martingale_slope_iv(before, after, again, problem=problem),
        "drift": drift(before, after, problem=problem),
        "information gain": information_gain(before, after, outcome, problem=problem),
        "unmoved": share_unmoved(before, after, problem=problem),
    }
    found |= _coherence(agent, paths, rng, after)
    found |= _sycophancy(agent, paths, rng, after)
    return found | _predictability(agent, paths, rng, after)


def _coherence(agent: Agent, paths: EvidencePaths, rng: np.random.Generator, after: Floats) -> Row:
    problem = np.arange(len(after))
    negated = agent.read(agent.path(*_negated(agent, paths))[:, -1], rng)
    whole = agent.path(paths.prior, paths.ratios)[:, -1]
    says_half = agent.name == "always 0.5"
    one, other = (agent.read(np.full_like(whole, 0.5) if says_half else whole * q, rng) for q in (SPLIT, 1 - SPLIT))
    return {
        "complement": complement_error(after, negated, problem=problem),
        "implication": implication_error(other, after, problem=problem),
        "partition": partition_error(np.stack([one, other, negated], axis=1), problem=problem),
    }


def _negated(agent: Agent, paths: EvidencePaths) -> tuple[Floats, Floats]:
    return -paths.prior, -paths.ratios


def _sycophancy(agent: Agent, paths: EvidencePaths, rng: np.random.Generator, neutral: Floats) -> Row:
    problem, outcome = np.arange(len(neutral)), paths.outcome
    coin, stated = (
        [agent.read(agent.with_opinion(paths.prior, paths.ratios, trust, sign), rng) for sign in (1, -1)]
        for trust in (np.zeros_like(paths.trust), paths.trust)
    )
    return {
        "shift, coin": opinion_shift(*coin, problem=problem),
        "harm, coin": harm(neutral, *coin, outcome, problem=problem),
        "agreement gap, coin": agreement_gap(neutral, *coin, outcome, problem=problem),
        "shift, stated": opinion_shift(*stated, problem=problem),
        "excess shift": excess_shift(neutral, *stated, probability_of(paths.trust), problem=problem),
    }


def _predictability(agent: Agent, paths: EvidencePaths, rng: np.random.Generator, after: Floats) -> Row:
    """A predictor that counts: how often answers go together on the first half of the problems; the rest is scored."""
    answers = after > 0.5
    others = [
        agent.read(agent.path(paths.prior, each)[:, -1], rng) > 0.5 for each in paths.siblings.transpose(1, 0, 2)
    ]
    informed = AGENTS["exact Bayes"].path(paths.prior, paths.siblings[:, 0])[:, -1] > 0.5
    likely = np.minimum((probability_of(paths.prior) * 5).astype(int), 4)
    problem = np.arange(len(after) - len(after) // 2)
    alike = mutual_predictability(*_counted(answers, np.sum(others, axis=0), likely), problem=problem)
    given, blind = _counted(informed, answers.astype(int), likely)
    lifted = np.zeros((len(given), 1, 2, 2))
    lifted[:, 0, 0, 1] = given
    unconditional = np.zeros((len(given), 1, 2))
    unconditional[:, 0, 1] = blind
    # The score of the first policy, the agent, as a source about an exact Bayesian who saw other evidence.
    peer = peer_prediction(lifted, unconditional)[0]
    statement = probability_of(np.abs(paths.report))
    spoke_for = paths.report > 0
    bounded = np.clip(after, 0.001, 0.999)
    with_it, without = (
        np.log(np.where(spoke_for, belief * statement + (1 - belief) * (1 - statement), 1.0)
               + np.where(spoke_for, 0.0, belief * (1 - statement) + (1 - belief) * statement - 1.0))
        for belief in (bounded, probability_of(paths.prior))
    )  # fmt: skip
    uplift = uplift_per_token(with_it, without, np.ones(len(after)), problem=np.arange(len(after)))
    return {"mutual predictability": alike, "peer prediction": peer, "uplift": uplift}


def _counted(answers: npt.NDArray[np.bool_], seen: npt.NDArray[np.int_], kind: npt.NDArray[np.int_]) -> list[Floats]:
    """Log-probabilities of the second half's answers, with and without what was seen, from counts on the first half.

    Counts start at 1 for either answer; problems are told apart by their `kind` in both cases.
    """
    half = len(answers) // 2
    found = []
    for context in (seen, np.zeros_like(seen)):
        cell = kind * 4 + context
        counts = np.ones((20, 2))
        np.add.at(counts, (cell[:half], answers[:half].astype(int)), 1.0)
        shares = counts / counts.sum(axis=1, keepdims=True)
        found.append(np.log(shares[cell[half:], answers[half:].astype(int)]))
    return found


def table(n: int, seed: int) -> dict[str, Row]:
    """Every metric of every agent on the same n problems."""
    paths = draw_paths(n, seed)
    return {name: measured(agent, paths, seed) for name, agent in AGENTS.items()}


if __name__ == "__main__":
    population = table(POPULATION, 99)
    for name, row in population.items():
        print(name)
        for m in METRICS:
            e = row[m]
            if e is None: print(f"   {m:24} .")
            else:
                se = e.standard_error * math.sqrt(POPULATION / N)
                print(f"   {m:24} {e.value:9.5f}  z={e.value/se if se else float('nan'):8.2f}")
