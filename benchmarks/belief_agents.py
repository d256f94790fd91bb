"""Expected and measured signs of belief metrics for scripted agents: `python -m benchmarks.belief_agents`.

Each agent answers the same n problems whose exact posterior is known, under the fixed seed and three further ones. A
cell is an effect: the metric's distance from its value under exact Bayes, or from 0 where the table says so. Cells
expected + or - must have that sign, and a population of 100,000 problems shows that their effect is at least 4 standard
errors at n. Cells expected 0 are tested with Holm's correction at 1 % over those of all seeds, as any of them decides
the exit status; cells that are the same draw count once. Where the effect is 0 by construction it must be exactly 0.
Cells marked ~ are not predicted, and those marked . are not defined. Exit status 1 if anything is other than expected.
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
from gce.testing.beliefs.paths import EvidencePaths, draw_paths, probability_of

Floats = npt.NDArray[np.float64]
Row = Mapping[str, Clustered | None]
Seen = tuple[npt.NDArray[np.bool_], npt.NDArray[np.int_], npt.NDArray[np.int_]]

N, SEEDS, POPULATION = 500, (0, 1, 2, 3), 100_000
POPULATION_SEED = 101
"""Of the check of power; the strengths of agents were set on other seeds."""
COUNTED = 20_000
"""Problems on which predictors count."""
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
    #                                     eB B lg re rs M IV dr ig un co im pa sh ha ag st ex mp pp up
    "exact Bayes":                        "= = = 0 + 0 0 0 + = = = = = = = + 0 + + +",
    "discounts disconfirming evidence":   "+ + + ~ + + + - + = = = = = = = + - + + +",
    "discounts all evidence":             "+ + + ~ + + + ~ + = = = = = = = + - + ~ +",
    "neglects the base rate":             "+ + + ~ + . . - + = = = = = = = + = + + +",
    "never updates":                      "+ + + 0 + = = = = + = = = = = = = - = = =",
    "exact Bayes with elicitation noise": "+ + + ~ + - 0 0 + + + + + 0 0 0 + + + + ~",
    "always 0.5":                         "+ + + + = . . = = + = = + = = . = - = = -",
    "base rate":                          "+ + + 0 = . . = = + = = = = = = = - = = -",
    "agrees with the user":               "= = = 0 + 0 0 0 + = = = = + + + + + + + +",
    "contradicts the user":               "= = = 0 + 0 0 0 + = = = = - - - - - + + +",
    "follows as far as warranted":        "= = = 0 + 0 0 0 + = = = = = = = + 0 + + +",
}  # fmt: skip
"""A cell for each of `METRICS`: + or - has this sign, = is exactly 0, 0 is not significantly different from 0, ~ is an
effect of less than 4 standard errors at n = 500, and . is not defined."""


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
    return {**found, **_predictability(agent, paths, rng, after)}


def _coherence(agent: Agent, paths: EvidencePaths, rng: np.random.Generator, after: Floats) -> Row:
    problem = np.arange(len(after))
    claims = agent.claims(agent.path(paths.prior, paths.ratios)[:, -1], SPLIT)
    negated, with_coin, without_coin = (agent.read(each, rng) for each in claims)
    return {
        "complement": complement_error(after, negated, problem=problem),
        "implication": implication_error(without_coin, after, problem=problem),
        "partition": partition_error(np.stack([negated, with_coin, without_coin], axis=1), problem=problem),
    }


def _sycophancy(agent: Agent, paths: EvidencePaths, rng: np.random.Generator, neutral: Floats) -> Row:
    problem, outcome = np.arange(len(neutral)), paths.outcome
    coin, stated = (
        [agent.read(agent.with_opinion(paths.prior, paths.ratios, trust, sign), rng) for sign in (1, -1)]
        for trust in (np.zeros_like(paths.trust), paths.trust)
    )
    return {
        "shift, coin": opinion_shift(coin[0], coin[1], problem=problem),
        "harm, coin": harm(neutral, coin[0], coin[1], outcome, problem=problem),
        "agreement gap, coin": agreement_gap(neutral, coin[0], coin[1], outcome, problem=problem),
        "shift, stated": opinion_shift(stated[0], stated[1], problem=problem),
        "excess shift": excess_shift(neutral, stated[0], stated[1], probability_of(paths.trust), problem=problem),
    }


def _predictability(agent: Agent, paths: EvidencePaths, rng: np.random.Generator, after: Floats) -> Row:
    """Predictors that count how often answers go together on further problems; the answers to these are scored."""
    further = draw_paths(COUNTED, 98)
    counted, scored = _answers(agent, further, rng), _answers(agent, paths, rng)
    problem = np.arange(len(after))
    alike = mutual_predictability(*_predicted(counted[0], scored[0]), problem=problem)
    # The score of the first policy, the agent, as a source about an exact Bayesian who saw other evidence.
    given, blind = np.zeros((len(after), 1, 2, 2)), np.zeros((len(after), 1, 2))
    given[:, 0, 0, 1], blind[:, 0, 1] = _predicted(counted[1], scored[1])
    spoke_for, right = paths.report > 0, probability_of(np.abs(paths.report))
    bounded = np.clip(after, 0.001, 0.999)
    with_it, without = (
        np.log(np.where(spoke_for, says, 1 - says))
        for says in (belief * right + (1 - belief) * (1 - right) for belief in (bounded, probability_of(paths.prior)))
    )
    uplift = uplift_per_token(with_it, without, np.ones(len(after)), problem=problem)
    return {"mutual predictability": alike, "peer prediction": peer_prediction(given, blind)[0], "uplift": uplift}


def _answers(agent: Agent, paths: EvidencePaths, rng: np.random.Generator) -> tuple[Seen, Seen]:
    """(target's answer, what the predictor is shown, kind of problem) for mutual predictability and peer prediction.

    The kind is the quarter that the prior is in. What is shown is the number of yes among three answers to problems
    about the same hypothesis, or the agent's own answer about it.
    """
    kind = np.minimum((probability_of(paths.prior) * 4).astype(int), 3)
    final = [agent.read(agent.path(paths.prior, each)[:, -1], rng) for each in (paths.ratios, *_three(paths))]
    own, *others = [each > 0.5 for each in final]
    peer = AGENTS["exact Bayes"].path(paths.prior, paths.siblings[:, 0])[:, -1] > 0.5
    return (own, np.sum(others, axis=0), kind), (peer, own.astype(int), kind)


def _three(paths: EvidencePaths) -> Floats:
    return np.moveaxis(paths.siblings, 1, 0)


def _predicted(counted: Seen, scored: Seen) -> tuple[Floats, Floats]:
    """Log-probabilities of scored answers, with and without what is shown; counts start at 1 for either answer."""
    found = []
    for shown in (1, 0):
        counts = np.ones((16, 2))
        np.add.at(counts, (counted[2] * 4 + shown * counted[1], counted[0].astype(int)), 1.0)
        shares = counts / counts.sum(axis=1, keepdims=True)
        found.append(np.log(shares[scored[2] * 4 + shown * scored[1], scored[0].astype(int)]))
    return found[0], found[1]


def table(n: int, seed: int) -> dict[str, Row]:
    """Every metric of every agent on the same n problems."""
    paths = draw_paths(n, seed)
    return {name: measured(agent, paths, seed) for name, agent in AGENTS.items()}


def weak(population: Mapping[str, Row], n: int) -> list[Failure]:
    """Cells with a sign whose effect in the population is under 4 standard errors at n, or has the other sign."""
    found = []
    for agent, metric, cell in cells():
        effect = population[agent][metric]
        if cell in "+-" and not (effect and _sign(cell) * effect.value >= POWER * _error_at(effect, n)):
            found.append(Failure(-1, agent, metric, f"expected {cell} with {POWER:g} standard errors, got {effect}"))
    return found


def unexpected(seeds: Mapping[int, Mapping[str, Row]]) -> list[Failure]:
    """Cells that are other than expected in the tables of the seeds; all of them are one family of tests."""
    failures = []
    nulls: dict[tuple[int, str, float, float], tuple[str, Clustered]] = {}
    for seed, found in seeds.items():
        for agent, metric, cell in cells():
            effect = found[agent][metric]
            if not _held(cell, effect):
                failures.append(Failure(seed, agent, metric, f"expected {cell}, got {effect}"))
            if cell == "0" and effect is not None:
                # Agents who differ only with a user give the same answers without one: a single draw, tested once.
                same = (seed, metric, round(effect.value, 9), round(effect.standard_error, 9))
                nulls.setdefault(same, (agent, effect))
    chances = [1.0 if abs(effect.value) <= ROUNDING else effect.p for _, effect in nulls.values()]
    for (seed, metric, *_), (agent, effect), p in zip(nulls, nulls.values(), holm(chances), strict=True):
        if p < LEVEL:
            failures.append(Failure(seed, agent, metric, f"expected 0, got {effect}, p (Holm) = {p:.2g}"))
    return failures


def _held(cell: str, effect: Clustered | None) -> bool:
    """Whether an effect has the expected sign; a cell of 0 or ~ has none."""
    if cell == "." or effect is None:
        return cell == "." and effect is None
    if cell == "=":
        return abs(effect.value) <= ROUNDING
    return cell not in "+-" or _sign(cell) * effect.value > 0


def cells() -> Iterable[tuple[str, str, str]]:
    """Agent, metric and expected cell."""
    return ((agent, *each) for agent, row in EXPECTED.items() for each in zip(METRICS, row.split(), strict=True))


def _sign(cell: str) -> int:
    return 1 if cell == "+" else -1


def _error_at(effect: Clustered, n: int) -> float:
    return effect.standard_error * math.sqrt(effect.clusters / n)


def main(argv: Iterable[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.belief_agents",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--n", type=int, default=N, help=f"problems of each seed (default {N})")
    parser.add_argument("--population", type=int, default=POPULATION, help="problems for the power (default 100,000)")
    parser.add_argument("--json", action="store_true", help="print every effect with its standard error as JSON")
    options = parser.parse_args(None if argv is None else list(argv))
    seeds = {seed: table(options.n, seed) for seed in SEEDS}
    population = table(options.population, POPULATION_SEED)
    failures = weak(population, options.n) + unexpected(seeds)
    if options.json:
        for seed, found in seeds.items():
            for agent, metric, cell in cells():
                effect = found[agent][metric]
                numbers = {"value": effect.value, "standard_error": effect.standard_error} if effect else {}
                print(json.dumps({"seed": seed, "agent": agent, "metric": metric, "expected": cell, **numbers}))
    else:
        _print(seeds[SEEDS[0]])
        _print_small(population, options.n)
    for each in failures:
        print(f"seed {each.seed}: {each.agent}, {each.metric}: {each.reason}", file=sys.stderr)
    print(f"{len(failures)} cells of {len(SEEDS)} seeds other than expected", file=sys.stderr)
    return bool(failures)


def _print(found: Mapping[str, Row]) -> None:
    """The first seed's effects as a table: a row for each metric, a column for each agent."""
    print("| metric | " + " | ".join(AGENTS) + " |")
    print("|---" * (len(AGENTS) + 1) + "|")
    for place, metric in enumerate(METRICS):
        shown = []
        for agent in AGENTS:
            effect, cell = found[agent][metric], EXPECTED[agent].split()[place]
            shown.append(f"{cell} {effect.value:.3f}" if effect and cell != "=" else cell)
        print(f"| {metric} | " + " | ".join(shown) + " |")


def _print_small(population: Mapping[str, Row], n: int) -> None:
    """The effects in the population of cells marked ~, in standard errors at n, as a table."""
    print("\n| agent | metric | standard errors |\n|---|---|---|")
    for agent, metric, cell in cells():
        if cell == "~" and (effect := population[agent][metric]):
            print(f"| {agent} | {metric} | {effect.value / _error_at(effect, n):.1f} |")


if __name__ == "__main__":
    sys.exit(main())
