"""Rewards as learning takes them where an admission does not take them as they were judged: filters and controls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from gce.app.training.state import Run
from gce.domain.answers import Answer
from gce.domain.evaluators.combination import Combination, scores_by_evaluator
from gce.domain.measurements import is_unparsed
from gce.domain.randomness import generator

__all__ = ["CHANGED_REWARDS", "combined"]

Change = Callable[[Run, str, Sequence[Answer]], list[float]]
"""(run, name of the wave, its answers) -> a reward in [0, 1] for each."""


def _reward(answer: Answer) -> float:
    return answer.reward or 0.0


def _by_tier(run: Run, answers: Sequence[Answer]) -> Iterator[tuple[str, list[int]]]:
    """The places of each tier's answers, without those that failed."""
    for tier in run.tiers:
        yield tier, [place for place, answer in enumerate(answers) if answer.problem.tier == tier and not answer.failed]


def _all(_run: Run, _wave: str, answers: Sequence[Answer]) -> list[float]:
    return [1.0] * len(answers)


def _shuffled(run: Run, wave: str, answers: Sequence[Answer]) -> list[float]:
    """The same rewards, permuted within each tier."""
    rewards = list(map(_reward, answers))
    for tier, places in _by_tier(run, answers):
        order = generator(run.settings.seed, "shuffled", wave, tier).permutation(len(places))
        for place, other in zip(places, order, strict=True):
            rewards[place] = _reward(answers[places[other]])
    return rewards


def _reasoned(run: Run, _wave: str, answers: Sequence[Answer]) -> list[float]:
    """Nothing for an answer that is not right, has no steps, or has one that is not true."""

    def has_true_steps(answer: Answer) -> bool:
        steps = run.task.judge_steps(answer.problem, answer.completion.text)
        return bool(steps) and all(step.status == "true" for step in steps)

    return [_reward(each) if each.right and has_true_steps(each) else 0.0 for each in answers]


def _format(_run: Run, _wave: str, answers: Sequence[Answer]) -> list[float]:
    """1 for an answer that can be read, whatever it says."""
    return [0.0 if is_unparsed(answer) else 1.0 for answer in answers]


def _random(run: Run, wave: str, answers: Sequence[Answer]) -> list[float]:
    """1 with the tier's probability: that of the settings, else the share of the wave's answers that are right."""
    rates, rewards = run.settings.buffer.random_rates or {}, [0.0] * len(answers)
    for tier, places in _by_tier(run, answers):
        own = sum(answers[place].right for place in places) / max(1, len(places))
        drawn = generator(run.settings.seed, "random reward", wave, tier).random(len(places))
        for place, number in zip(places, drawn.tolist(), strict=True):
            rewards[place] = float(number < rates.get(tier, own))
    return rewards


def combined(combination: Combination, answers: Sequence[Answer]) -> list[float]:
    """The rewards of several evaluators, combined among a wave's answers to each problem."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place, answer in enumerate(answers):
        if not answer.failed:
            groups[answer.problem.key].append(place)
    rewards = [0.0] * len(answers)
    for places in groups.values():
        group = [scores_by_evaluator(answers[place]) for place in places]
        found = combination.rewards(group, [answers[place].right for place in places])
        for place, reward in zip(places, found, strict=True):
            rewards[place] = reward
    return rewards


CHANGED_REWARDS: Mapping[str, Change] = {
    "all": _all,
    "shuffled": _shuffled,
    "reasoned": _reasoned,
    "format": _format,
    "random": _random,
}
"""By admission; the other admissions take rewards as they are."""
