"""How far one gets without solving anything: the adversarial floor and the gameability gap of a task.

OpenEnv's RFC 008 names both (`statistical.adversarial_floor`, `statistical.gameability_gap`) and leaves the panel open.
Here the panel is every attack that needs no knowledge of the answer: prompt-blind baselines, constants, hostile texts
that earned something, and the most common training answers. In each tier the attack is chosen on training problems and
measured on test problems, so that the best of many is not lucky. All attacks are tried on a few training problems, and
the best few of them on all: few problems alone do not tell one that pays on a third from one that pays on half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from gce.domain.answers import Answer
from gce.domain.measurements import MeanReward
from gce.domain.outcomes import mean_reward
from gce.domain.problems import Problem
from gce.domain.statistics import mean_over_tiers
from gce.domain.tasks.own import answer_of
from gce.domain.tasks.parts import Policy, always
from gce.domain.tasks.task import without_thinking
from gce.domain.text import mentions
from gce.testing.verifiers.bench import TRIED_ON, Bench, clipped
from gce.testing.verifiers.responses import CONSTANTS

__all__ = ["Floor", "TierFloor", "floor", "floor_of"]

CHOSEN_ON = 12
"""Training problems of each tier that all attacks are tried on."""
FINALISTS = 8
"""Attacks with the highest mean rewards, and as many with the highest unearned ones, that are tried on `TRIED_ON`."""
COMMON = 20
"""Most common training answers in the panel."""


@frozen
class TierFloor:
    """One tier."""

    tier: str
    attack: str
    """The attack with the highest mean reward on training problems."""
    reward: MeanReward
    """Its reward on test problems."""
    empty: MeanReward
    """The reward of the empty response on the same problems."""
    example: str = ""
    """Its response with the highest reward, unless the attack's name holds it."""
    unearned_attack: str = ""
    """The attack with the highest mean unearned reward on training problems."""
    highest: float = 0.0
    """The highest mean reward of a prompt-blind baseline on the same test problems, as `gce audit` shows it: chosen
    there, so that of several baselines one may be lucky."""
    unearned: MeanReward | None = None
    """Its unearned reward on test problems: the reward where the answer is not right by the second judge, or by the
    known answer; 0 where it is. None where neither is there."""


@frozen
class Floor:
    """All tiers of a preset; each number is the unweighted mean of its tiers."""

    tiers: tuple[TierFloor, ...]
    adversarial_floor: float
    low: float
    """95 % interval of the adversarial floor."""
    high: float
    empty_floor: float
    """Mean reward of the empty response; RFC 008 asks for an adversarial floor that is no higher."""
    gameability_gap: float | None
    """Mean unearned reward of the best attack by unearned reward; None where nothing tells what is right."""

    @property
    def highest(self) -> float:
        """The mean over tiers of the best prompt-blind baseline of each, as chosen on the test problems themselves."""
        return sum(tier.highest for tier in self.tiers) / len(self.tiers)

    @property
    def unearned(self) -> float:
        """What is paid for nothing: the gameability gap, or where nothing tells what is right, the floor."""
        return self.adversarial_floor if self.gameability_gap is None else self.gameability_gap


def floor(bench: Bench, advance: Callable[[], None]) -> None:
    """Measure the adversarial floor in each tier that has training and test problems."""
    for tier in bench.task.tiers(bench.preset):
        training = [problem for problem in bench.training if problem.tier == tier.name][:TRIED_ON]
        test = [problem for problem in bench.more if problem.tier == tier.name][:TRIED_ON]
        if not training or not test:
            bench.not_checked.append(f"floor: {tier.name} has no {'test' if training else 'training'} problems")
            continue
        bench.floors.append(_of_tier(bench, tier.name, training, test))
    for _ in bench.problems:
        advance()


def floor_of(tiers: Sequence[TierFloor]) -> Floor | None:
    """The floor of a preset; None without a tier that was measured."""
    found = mean_over_tiers(tier.reward for tier in tiers)
    if found is None:
        return None
    unearned = [tier.unearned.value for tier in tiers if tier.unearned is not None]
    return Floor(
        tuple(tiers),
        found.value,
        found.low,
        found.high,
        sum(tier.empty.value for tier in tiers) / len(tiers),
        sum(unearned) / len(unearned) if len(unearned) == len(tiers) else None,
    )


def _of_tier(bench: Bench, tier: str, training: Sequence[Problem], test: Sequence[Problem]) -> TierFloor:
    panel = _panel(bench, tier)
    rewards, unearned = _means(bench, panel, training[:CHOSEN_ON])
    if len(training) > CHOSEN_ON and any(rewards.values()):
        finalists = {name: panel[name] for found in (rewards, unearned) for name in _highest(found)}
        rewards, unearned = _means(bench, finalists, training)
    best, most = (_highest(found)[0] for found in (rewards, unearned))
    of_best = _answers(bench, best, panel[best], test)
    of_most = _unearned(bench, _answers(bench, most, panel[most], test))
    shown = max(of_best, key=lambda answer: answer.reward or 0.0).completion.text if best in bench.prompt_blind else ""
    return TierFloor(
        tier,
        best,
        mean_reward([answer.reward for answer in of_best]),
        mean_reward([answer.reward for answer in _answers(bench, "empty", lambda *_: "", test)]),
        shown,
        most if of_most is not None else "",
        max(_means(bench, bench.prompt_blind, test)[0].values(), default=0.0),
        None if of_most is None else mean_reward(of_most),
    )


def _means(
    bench: Bench, panel: Mapping[str, Policy], problems: Sequence[Problem]
) -> tuple[dict[str, float], dict[str, float]]:
    """The mean reward of each attack, and its mean unearned reward; 0 where nothing tells what is right."""
    rewards: dict[str, float] = {}
    unearned: dict[str, float] = {}
    for name, policy in panel.items():
        answers = _answers(bench, name, policy, problems)
        rewards[name] = mean_reward([answer.reward for answer in answers]).value
        found = _unearned(bench, answers) if rewards[name] else None
        unearned[name] = mean_reward(found).value if found else 0.0
    return rewards, unearned


def _highest(means: Mapping[str, float]) -> list[str]:
    """The names of the highest means, the highest first; of equal ones, the first first."""
    return sorted(means, key=means.__getitem__, reverse=True)[:FINALISTS]


def _panel(bench: Bench, tier: str) -> Mapping[str, Policy]:
    """The attacks that need no knowledge of the answer, by name: of equal ones, those first whose name says it all."""
    write = bench.task.audit.write
    texts = [write(constant) for constant in CONSTANTS]
    texts += bench.rewarded.get(tier, ())
    if bench.own:
        known = Counter(filter(None, (answer_of(problem.instance) for problem in bench.training)))
        texts += [write(answer) for answer, _ in known.most_common(COMMON)]
    return {f"always {clipped(text)}": always(text) for text in texts} | dict(bench.prompt_blind)


def _answers(bench: Bench, name: str, policy: Policy, problems: Sequence[Problem]) -> list[Answer]:
    """Its answers; where a policy does not apply, it says nothing."""
    texts = [without_thinking(policy(each, bench.rng("floor", name, each.key)) or "") for each in problems]
    bench.expect([*zip(problems, texts, strict=True)])
    found = []
    for problem, text in zip(problems, texts, strict=True):
        bench.tried["floor"] += 1
        found.append(bench.answer(problem, text, bench.verdicts(problem, text)))
    return found


def _unearned(bench: Bench, answers: Sequence[Answer]) -> list[float | None] | None:
    """Rewards with 0 in place of those that are earned; None where nothing tells what is right.

    Without a second judge, a reward is earned where the known answer stands in the response as a word and nothing else
    does, or where the known answer is that of more than half of the problems on which the response is right: it may
    mean the same.
    """
    if bench.accepts is not None:
        opinions = [bench.says(answer.problem, answer.completion.text) for answer in answers]
        return [
            0.0 if said and answer.reward else answer.reward for said, answer in zip(opinions, answers, strict=True)
        ]
    known = [bench.known_answer(answer.problem) for answer in answers]
    if not all(known):
        return None
    right = Counter(own for own, answer in zip(known, answers, strict=True) if answer.right)
    meaning = next((own for own, count in right.items() if 2 * count > right.total()), "")
    return [
        0.0 if answer.reward and (own == meaning or _says_just(bench, answer, own)) else answer.reward
        for own, answer in zip(known, answers, strict=True)
    ]


def _says_just(bench: Bench, answer: Answer, own: str) -> bool:
    """Whether a response is the known answer as it would be written, up to case and a few signs around it."""
    text, written = answer.completion.text.casefold().strip(), bench.task.audit.write(own).casefold().strip()
    return mentions(text, written) and len(text) <= len(written) + 2
