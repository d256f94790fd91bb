"""An analysis of stored answers at four scales: trajectories, runs, setups, and across setups. Asks no problem anew."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import combinations
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen

from gce.app.analysis.evidence import AlongText, along_text, is_scored, spread_over
from gce.app.analysis.sources import AnswerSet, Setup, labels, read_sets
from gce.app.analysis.stages import Kept, Recompute
from gce.app.loaded_model import LoadedModel
from gce.app.training.state import Watcher
from gce.domain.analysis.answer_features import FEATURES
from gce.domain.analysis.associations import Associations, associations
from gce.domain.analysis.correlations import Correlation, rank_correlation
from gce.domain.answers import Answer
from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval
from gce.domain.metrics import METRICS, Metric, by_unit, overall
from gce.domain.metrics.beliefs.entries import BELIEF_METRICS
from gce.domain.metrics.beliefs.judge_agreement import judge_correlation
from gce.domain.metrics.means import PROMPT_TOKENS, REPLIES, REWARD, TOKENS
from gce.domain.metrics.rates import ACCURACY, COVERAGE, TRUNCATED
from gce.domain.paired import Gain, Pair, hierarchical_bootstrap, paired_gains
from gce.domain.randomness import generator
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import Estimate, clustered_mean, holm

__all__ = ["DEFAULT_METRICS", "Analysis", "Comparison", "Evidence", "Held", "Related", "analyze"]

_COSTS: tuple[Metric[Any], ...] = (COVERAGE, REPLIES, PROMPT_TOKENS, TOKENS, TRUNCATED)
DEFAULT_METRICS = (ACCURACY.name, REWARD.name, *(each.name for each in (*_COSTS, *BELIEF_METRICS)))
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_NOT_RELATED = (COVERAGE.name, *(name for name in DEFAULT_METRICS if name.endswith(" of readable")))
"""Metrics that nearly repeat another one, or speak of the machine."""


@frozen
class Held:
    """A line of the catalogue: what there is."""

    run: str
    setup: Setup
    label: str
    """Of the setup."""
    answers: int
    problems: int
    failed: int
    policy: str
    """Identity of the model that answered; empty if several did."""


@frozen
class Comparison:
    """Two setups, or a model before and after training, on the same problems."""

    first: str
    second: str
    n: int
    """Problems."""
    gain: Gain
    """In mean reward, second less first."""
    agreement: float | None
    """Rank correlation over problems of the two setups' rewards; None where one of them is constant."""


@frozen
class Related:
    """Two measures over the setups of one task."""

    task: str
    first: str
    second: str
    correlation: Correlation
    adjusted: float
    """Holm-adjusted p value over all pairs of measures."""


@frozen
class Evidence:
    """Mean log-probabilities of answer lines along the text, over answers of a setup."""

    answer: tuple[Estimate, ...]
    against: tuple[Estimate, ...] | None
    answers: tuple[AlongText, ...]


@frozen
class Analysis:
    """What an analysis found; setups by their labels."""

    catalogue: tuple[Held, ...]
    runs: Mapping[str, Mapping[str, Estimate]]
    """Measures by metric and run."""
    setups: Mapping[str, Mapping[str, Estimate]]
    """Measures by metric and setup, over all of its runs."""
    rewards: Mapping[str, tuple[float, ...]]
    """Least reward, quartiles and largest reward of each setup's answers."""
    associations: Associations | None
    evidence: Mapping[str, Evidence]
    other_model: bool
    """Whether answers were scored by another model than gave them."""
    training: Mapping[str, Comparison]
    """Before and after training, by run."""
    across_seeds: Mapping[str, tuple[int, Estimate]]
    """Number of runs, and gain in mean reward that generalises to other seeds, by trained setup."""
    comparisons: tuple[Comparison, ...]
    """Each setup with the first one of its task, and each trained one with the first trained one, too."""
    related: tuple[Related, ...]
    """By p value."""


def analyze(
    runs: Sequence[str],
    watcher: Watcher,
    *,
    metrics: Mapping[str, Metric[Any]] | None = None,
    recompute: Recompute | None = None,
    keep: Path | None = None,
    model: LoadedModel | None = None,
    scored: int = 8,
    verify: bool = True,
) -> Analysis:
    """Analyze stored answers.

    Args:
        runs: run directories, files of `gce evaluate --answers`, and folders of both.
        watcher: receives progress.
        metrics: what is measured, by name; by default all that answers to test problems allow.
        recompute: when each stage is computed anew.
        keep: a file that keeps metrics and evidence for the next analysis.
        model: scores answers along their text; None for no token-level evidence.
        scored: answers of each setup that it scores at most.
        verify: whether to verify runs.

    Raises:
        BadInput: no answers, or a file that cannot be read or written.
        DamagedStore: a run is not as written.
        ModelError: the model cannot score.
    """
    recompute = recompute or Recompute()
    kept = Kept(keep, recompute)
    sets = read_sets(runs, judging=recompute.beliefs, verify=verify)
    named = labels(each.setup for each in sets)
    pooled: dict[str, tuple[Conversation, ...]] = {}
    for each in sets:
        pooled[named[each.setup]] = pooled.get(named[each.setup], ()) + each.conversations
    chosen = {name: METRICS[name] for name in DEFAULT_METRICS} if metrics is None else metrics
    of_runs = {_name(each, named): each.conversations for each in sets}
    advance = watcher.stage("measures", len(of_runs) + len(pooled))
    by_run = _measured(chosen, of_runs, kept, advance)
    by_setup = _measured(chosen, pooled, kept, advance)
    evidence = {} if model is None else _evidence(model, pooled, scored, kept, watcher)
    kept.write()
    policy = "" if model is None else model.info().identity
    answered = {each.last.completion.policy for held in pooled.values() for each in held}
    tasks = {named[each.setup]: each.setup.task for each in sets}
    trained = {named[each.setup] for each in sets if each.setup.trained}
    return Analysis(
        catalogue=tuple(_held(each, named[each.setup]) for each in sets),
        runs=by_run,
        setups=by_setup,
        rewards={name: found for name, held in pooled.items() if (found := _quantiles(held))},
        associations=_associated(pooled),
        evidence=evidence,
        other_model=bool(evidence) and answered != {policy},
        training=_trained(sets),
        across_seeds=_across_seeds(sets, named),
        comparisons=tuple(_compared(pooled, tasks, trained)),
        related=_related(by_setup, tasks),
    )


def _name(each: AnswerSet, named: Mapping[Setup, str]) -> str:
    """What one set of answers is called: its run, and its moment or setup."""
    return f"{each.run}, {each.moment or named[each.setup]}"


def _held(each: AnswerSet, label: str) -> Held:
    last = [held.last for held in each.conversations]
    policies = {answer.completion.policy for answer in last}
    problems = len({answer.problem.key for answer in last})
    failed = sum(answer.failed for answer in last)
    return Held(each.run, each.setup, label, len(last), problems, failed, policies.pop() if len(policies) == 1 else "")


def _measured(
    metrics: Mapping[str, Metric[Any]], held: Mapping[str, Sequence[Conversation]], kept: Kept, advance: Any
) -> dict[str, dict[str, Estimate]]:
    """Estimates over all tiers together, by metric; metrics that nobody's answers allow are left out."""
    found: dict[str, dict[str, Estimate]] = {name: {} for name in metrics}
    for which, conversations in held.items():
        digest = _digest(conversations) if kept.keeps else ""
        for name, metric in metrics.items():
            source = {"metric": name, "answers": digest}
            estimate = kept.of("evaluations", source, partial(_plain, metric, conversations), _estimate)
            if estimate is not None:
                found[name][which] = estimate
        advance()
    return {name: row for name, row in found.items() if row}


def _plain(metric: Metric[Any], conversations: Sequence[Conversation]) -> list[float | None]:
    """Value and limits, which are None where they are infinite; empty where the metric is not defined."""
    estimate = overall(metric, conversations)
    if estimate is None or (isinstance(estimate, Interval) and not estimate.n):
        return []
    value = estimate.share if isinstance(estimate, Interval) else estimate.value
    return [value, *(each if isfinite(each) else None for each in (estimate.low, estimate.high))]


def _estimate(plain: Sequence[float | None]) -> Estimate | None:
    if not plain:
        return None
    value, low, high = from_plain(tuple[float | None, float | None, float | None], plain)
    return Estimate(value or 0.0, -inf if low is None else low, inf if high is None else high)


def _digest(conversations: Sequence[Conversation]) -> str:
    """SHA-256 of all that a metric may read of stored answers."""
    rows = [
        (each.replies, each.prompt_tokens, each.tokens, each.scored, tuple(map(_row, each.attempts)))
        for each in conversations
    ]
    return sha256(json.dumps(rows).encode()).hexdigest()


def _row(answer: Answer) -> tuple[Any, ...]:
    said = answer.completion
    judged = (answer.reward, answer.right, answer.score, answer.reading, to_plain(answer.verdicts), dict(answer.notes))
    return answer.problem.key, said.text, said.finish_reason, *judged


def _quantiles(conversations: Sequence[Conversation]) -> tuple[float, ...]:
    rewards = [each.last.reward for each in conversations if each.last.reward is not None]
    return tuple(np.quantile(rewards, _QUANTILES).tolist()) if rewards else ()


def _associated(pooled: Mapping[str, Sequence[Conversation]]) -> Associations | None:
    """Of all answers, within tiers of setups."""
    rows = [(name, each) for name, held in pooled.items() for each in held if each.last.reward is not None]
    return associations(
        {name: [read(each) for _, each in rows] for name, read in FEATURES.items()},
        [each.last.reward or 0.0 for _, each in rows],
        group=[(name, each.last.problem.tier) for name, each in rows],
        problem=[each.last.problem.key for _, each in rows],
    )


def _evidence(
    model: LoadedModel, pooled: Mapping[str, Sequence[Conversation]], scored: int, kept: Kept, watcher: Watcher
) -> dict[str, Evidence]:
    chosen = {
        name: spread_over([each.last for each in held if is_scored(each.last)], scored) for name, held in pooled.items()
    }
    advance = watcher.stage("answers scored along their text", sum(map(len, chosen.values())))
    identity, found = model.info().identity, dict[str, list[AlongText]]()
    for name, answers in chosen.items():
        for answer in answers:
            prompt = to_plain(answer.problem.prompt)
            source = {"model": identity, "prompt": prompt, "text": answer.completion.text, "of": answer.problem.key}
            source["belief"] = answer.measure("belief")
            compute = partial(_scored, model, answer)
            if (along := kept.of("evidence", source, compute, partial(from_plain, AlongText))) is not None:
                found.setdefault(name, []).append(along)
            advance()
    return {name: _summed(each) for name, each in found.items()}


def _scored(model: LoadedModel, answer: Answer) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(along_text(model.log_probabilities, answer))
    return plain


def _summed(answers: Sequence[AlongText]) -> Evidence:
    compared = [each for each in answers if each.against is not None]

    def means(of: Sequence[AlongText], read: Any) -> tuple[Estimate, ...]:
        clusters: dict[str, list[tuple[float, ...]]] = {}
        for each in of:
            clusters.setdefault(each.problem, []).append(read(each))
        places = range(len(of[0].answer))
        return tuple(clustered_mean([[row[at] for row in rows] for rows in clusters.values()]) for at in places)

    against = means(compared, lambda each: each.against) if compared else None
    return Evidence(means(answers, lambda each: each.answer), against, tuple(answers))


def _values(conversations: Sequence[Conversation]) -> dict[tuple[str, str], float]:
    """Mean reward of each problem, by tier and key."""
    units = by_unit(REWARD, conversations).items()
    return {(tier, problem): value for (tier, problem, _), value in units if value is not None}


def _pairs(before: Sequence[Conversation], after: Sequence[Conversation]) -> list[Pair]:
    earlier, later = _values(before), _values(after)
    return [(problem[0], earlier[problem], value) for problem, value in later.items() if problem in earlier]


def _comparisons(found: Mapping[tuple[str, str], Sequence[Pair]]) -> dict[tuple[str, str], Comparison]:
    """Paired comparisons by the names of the two, with Holm's correction over all of them."""
    gains = paired_gains({json.dumps(names): pairs for names, pairs in found.items()})
    compared = {}
    for names, pairs in found.items():
        agreement = judge_correlation(*([pair[at] for pair in pairs] for at in (1, 2)), problem=range(len(pairs)))
        value = None if agreement is None else agreement.value
        compared[names] = Comparison(*names, len(pairs), gains[json.dumps(names)], value)
    return compared


def _compared(
    pooled: Mapping[str, Sequence[Conversation]], tasks: Mapping[str, str], trained: Collection[str]
) -> list[Comparison]:
    found: dict[tuple[str, str], list[Pair]] = {}
    for among in (pooled, [name for name in pooled if name in trained]):
        first: dict[str, str] = {}
        for name in among:
            reference = first.setdefault(tasks[name], name)
            if name != reference and (pairs := _pairs(pooled[reference], pooled[name])):
                found[reference, name] = pairs
    return list(_comparisons(found).values())


def _moments(sets: Sequence[AnswerSet]) -> dict[str, dict[str, AnswerSet]]:
    """The sets of each trained run, by moment."""
    found: dict[str, dict[str, AnswerSet]] = {}
    for each in sets:
        if each.moment:
            found.setdefault(each.run, {})[each.moment] = each
    return {run: moments for run, moments in found.items() if len(moments) > 1}


def _trained(sets: Sequence[AnswerSet]) -> dict[str, Comparison]:
    pairs = {
        (f"{run}, before", f"{run}, after"): _pairs(held["before"].conversations, held["after"].conversations)
        for run, held in _moments(sets).items()
    }
    found = _comparisons({names: each for names, each in pairs.items() if each})
    return {first.removesuffix(", before"): each for (first, _), each in found.items()}


def _across_seeds(sets: Sequence[AnswerSet], named: Mapping[Setup, str]) -> dict[str, tuple[int, Estimate]]:
    """Gains of setups of which several runs were trained, over the problems that all of these answered twice."""
    runs: dict[str, list[dict[tuple[str, str], float]]] = {}
    for held in _moments(sets).values():
        before, after = _values(held["before"].conversations), _values(held["after"].conversations)
        gains = {problem: value - before[problem] for problem, value in after.items() if problem in before}
        runs.setdefault(named[held["after"].setup], []).append(gains)
    found = {}
    for name, seeds in runs.items():
        shared = sorted(set.intersection(*map(set, seeds)))
        if len(seeds) < 2 or not shared:
            continue
        tiers = [
            [[seed[problem] for problem in shared if problem[0] == tier] for seed in seeds]
            for tier in dict.fromkeys(tier for tier, _ in shared)
        ]
        found[name] = len(seeds), hierarchical_bootstrap(tiers, generator(0, "gain over seeds"))
    return found


def _related(measures: Mapping[str, Mapping[str, Estimate]], tasks: Mapping[str, str]) -> tuple[Related, ...]:
    found: list[Related] = []
    names = [name for name in measures if name not in _NOT_RELATED]
    for task in dict.fromkeys(tasks.values()):
        for one, other in combinations(names, 2):
            both = [each for each in measures[one] if each in measures[other] and tasks[each] == task]
            columns = ([measures[name][each].value for each in both] for name in (one, other))
            if (correlation := rank_correlation(*columns)) is not None:
                found.append(Related(task, one, other, correlation, 1.0))
    adjusted = holm([each.correlation.p for each in found])
    held = [evolve(each, adjusted=p) for each, p in zip(found, adjusted, strict=True)]
    return tuple(sorted(held, key=lambda each: (each.correlation.p, -abs(each.correlation.value))))
