"""Rollouts of an iteration: which problems are drawn, and answers to them, in waves that a resume finds again.

The store holds each wave with its verdicts as soon as it is whole, so that a run that was cut off draws at most one
wave again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve, field, frozen

from gce.app.evaluation.conversations import Opening, hold
from gce.app.evaluation.demonstrations import Turns, digests_of, turns_before
from gce.app.evaluation.scoring import RESUME, check_answers
from gce.app.settings.records import ADMISSION, TrainSettings
from gce.app.training.changed_rewards import CHANGED_REWARDS, combined
from gce.app.training.early_stop import stopping_early
from gce.app.training.preparation import nothing_to_draw
from gce.app.training.state import Run, RunState
from gce.app.training.time_limit import stage
from gce.domain.admission import positives
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.curriculum import (
    TierRewards,
    needs_demonstrations,
    open_levels,
    plan,
    predicted_wave,
    second_wave,
    tier_rewards,
)
from gce.domain.evaluators.critic import predicted_rewards
from gce.domain.governor import rounds, worth_more
from gce.domain.learning import Turn
from gce.domain.prefix_values import PrefixValues
from gce.domain.problems import Problem
from gce.domain.randomness import key
from gce.domain.serialization import from_plain, to_plain
from gce.domain.strategies.requests import MODEL, Settings, Strategy
from gce.domain.strategies.single_turn import FEW_SHOT, ZERO_SHOT
from gce.domain.tasks import Task
from gce.domain.traces import turns_of
from gce.domain.verdicts import Verdict
from gce.errors import BadInput

__all__ = [
    "Rollout",
    "Sampled",
    "as_predicted",
    "groups_of",
    "rewards_by_tier",
    "rollout_opening",
    "rollout_sampling",
    "sample",
    "without_failed",
]

WITHOUT_DEMONSTRATIONS_EVERY = 4
"""Of a wave's rollouts of a problem that is shown with examples, each fourth has none, and so has the last of fewer."""

MOST_SKIPPED = 1000
"""Problems drawn one after another that are all demonstrations, before it is said that there are no others."""


def _problems(run: Run, state: RunState, number: int) -> tuple[list[Problem], Mapping[str, int]]:
    """The iteration's problems, and how many each tier has had since the start."""
    settings, curriculum = run.settings, run.settings.curriculum
    tiers = open_levels(state.history, run.tiers) if curriculum.ladder else run.tiers
    total = settings.rollouts.problems
    shares = settings.rollouts.problems_by_tier or plan(
        state.history, tiers, problems=total, policy=curriculum.sampling, floor=curriculum.floor
    )
    drawn = dict(state.drawn)
    examples = digests_of(run.demonstrations)
    problems: dict[str, Problem] = {}
    for tier, count in shares.items():
        found = skipped = 0
        while found < count:
            index = drawn.get(tier, 0)
            drawn[tier] = index + 1
            index = index % curriculum.pool if curriculum.pool else index
            problem = run.source.draw(settings.preset, tier, "train", index, seed=settings.seed)
            if problem.digest in examples:  # Its answer is known, and perhaps shown or learned.
                skipped += 1
                if skipped == MOST_SKIPPED:
                    raise nothing_to_draw(tier, curriculum.pool)
                continue
            problems[problem.key] = problem
            found, skipped = found + 1, 0
    return list(problems.values()), drawn


@frozen
class Rollout:
    """An answer, and what learning takes its reward for: as it was judged, unless the admission is another."""

    judged: Answer
    reward: float
    shown: bool
    """Whether its prompt began with demonstrations."""
    positive: bool = False
    """Whether it is a positive among the iteration's rollouts of its problem."""
    turns: tuple[Turn, ...] | None = None
    """The conversation that led to it, with what the model wrote marked trained; None for the prompt and the answer."""
    values: PrefixValues | None = None
    """Of its prefixes; None where credit is for the outcome alone."""
    counts: Mapping[str, int | None] = field(factory=dict)
    """What is stored of the conversation: `replies`, `prompt_tokens` and `tokens`; empty where `turns` is None."""

    @property
    def written(self) -> tuple[Completion, ...]:
        """What the model wrote and is learned: the answer, or its turns of the conversation."""
        if self.turns is None:
            return (self.judged.completion,)
        return tuple(turn.completion for turn in self.turns if turn.trained and turn.completion is not None)

    @property
    def tokens(self) -> int | None:
        """How many tokens the model wrote, over all its replies; None where the backend does not tell."""
        return self.counts["tokens"] if self.counts else self.judged.completion.tokens

    @property
    def prompt_tokens(self) -> int | None:
        """How many tokens its prompts have, over all its requests; None where that is not known."""
        return self.counts["prompt_tokens"] if self.counts else self.judged.completion.prompt_tokens

    @property
    def learnable(self) -> bool:
        """Whether the model wrote an answer, and something that can be learned."""
        return self.judged.completion.finish_reason != "context" and self.turns != ()


@frozen
class Sampled:
    """What was sampled for an iteration."""

    drawn: Mapping[str, int]
    """Problems that each tier has had since the start."""
    rollouts: list[Rollout]
    seconds: float
    staleness: int = 0
    """How many iterations were learned between the weights that wrote it and those that learn from it."""


def sample(run: Run, state: RunState, number: int) -> Sampled:
    """Sample an iteration's rollouts with the model's weights of now.

    Raises:
        LowCoverage: too many failed.
    """
    problems, drawn = _problems(run, state, number)
    rollouts, seconds = _waves(run, state, number, problems)
    rollouts = _with_positives(run, rollouts)
    failed = [rollout.judged for rollout in rollouts if rollout.judged.failed]
    if failed:
        _check_coverage(run, number, rollouts)
        said = f"{failed[0].problem.tier}: {failed[0].reason}"
        run.watcher.say(f"warning: {len(failed)} of {len(rollouts)} rollouts failed and are excluded; {said}")
    return Sampled(drawn, rollouts, seconds)


def _check_coverage(run: Run, number: int, rollouts: Sequence[Rollout]) -> None:
    answers = (rollout.judged for rollout in rollouts)
    check_answers(f"rollouts of iteration {number}", answers, run.settings.stopping.min_coverage, hint=RESUME)


def _waves(run: Run, state: RunState, number: int, problems: Sequence[Problem]) -> tuple[list[Rollout], float]:
    """The iteration's rollouts, and seconds they took, before a resume too."""
    settings = run.settings.rollouts
    first, seconds = _rounds(run, state, number, problems)
    if not settings.second_wave:
        return first, seconds
    groups = groups_of(without_failed(first))
    if run.settings.buffer.admission == "all":
        # With nothing known of the rewards no problem is told from another.
        groups = {problem: [0.0] * len(group) for problem, group in groups.items()}
    if settings.second_wave_by == "critic":
        counts = predicted_wave(groups_of(as_predicted(run, number, without_failed(first))), settings.second_wave)
    else:
        counts = second_wave(groups, settings.second_wave, admit_at=run.admit_at)
    second, more = _wave(run, state, number, counts, problems, settings.samples)
    return first + second, seconds + more


def _rounds(run: Run, state: RunState, number: int, problems: Sequence[Problem]) -> tuple[list[Rollout], float]:
    """The rollouts that the governor lets each problem have, problem by problem; seconds they took."""
    settings, found, seconds, drawn = run.settings.rollouts, list[Rollout](), 0.0, 0
    going_on = {problem.key for problem in problems}
    for size in rounds(settings.samples, "adaptive" if settings.early_stop else settings.governor):
        if drawn and settings.governor == "adaptive":
            going_on = _worth_more(run, state, going_on, without_failed(found))
            if not going_on:
                break
        counts = dict.fromkeys(going_on, size)
        wave, more = _wave(run, state, number, counts, problems, drawn, finished=without_failed(found))
        if not drawn:
            _check_coverage(run, number, wave)
        found, seconds, drawn = found + wave, seconds + more, drawn + size
    order = {problem.key: place for place, problem in enumerate(problems)}
    return sorted(found, key=lambda rollout: order[rollout.judged.problem.key]), seconds


def _worth_more(run: Run, state: RunState, problems: Collection[str], rollouts: Sequence[Rollout]) -> set[str]:
    """The problems of which the governor draws further rollouts."""
    kept, rewards = state.buffer.settings, groups_of(rollouts)
    right: dict[str, list[str]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.reward >= run.admit_at:
            right[rollout.judged.problem.key].append(rollout.judged.completion.text)
    return {
        problem
        for problem in problems
        if worth_more(
            rewards.get(problem, ()),
            right.get(problem, ()),
            run.algorithm,
            per_problem=kept.per_problem,
            deduplicate=kept.deduplicate,
        )
    }


def without_failed(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Those that may be counted, planned by and learned from."""
    return [rollout for rollout in rollouts if not rollout.judged.failed]


def groups_of(rollouts: Sequence[Rollout]) -> dict[str, list[float]]:
    """The rewards of each problem's rollouts, as learning takes them."""
    groups: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.judged.problem.key].append(rollout.reward)
    return groups


def as_predicted(run: Run, number: int, rollouts: Sequence[Rollout]) -> list[Rollout]:
    """The rollouts with the rewards that a critic predicts, which was fitted to those of other problems."""
    answers, rewards = [rollout.judged for rollout in rollouts], [rollout.reward for rollout in rollouts]
    predicted = predicted_rewards(answers, rewards, seed=key(run.settings.seed, "critic", number))
    return [evolve(rollout, reward=reward) for rollout, reward in zip(rollouts, predicted, strict=True)]


def rewards_by_tier(tiers: Sequence[str], rollouts: Sequence[Rollout]) -> dict[str, TierRewards]:
    """What the rollouts showed, with rewards as learning takes them; tiers without rollouts are left out."""
    found: dict[str, dict[str, list[tuple[float, bool]]]] = {tier: defaultdict(list) for tier in tiers}
    for rollout in rollouts:
        problem = rollout.judged.problem
        found.setdefault(problem.tier, defaultdict(list))[problem.key].append((rollout.reward, rollout.shown))
    return {tier: tier_rewards(groups.values()) for tier, groups in found.items() if groups}


def _with_positives(run: Run, rollouts: Sequence[Rollout]) -> list[Rollout]:
    """The rollouts, positives marked: among those of one problem, or of the iteration, that did not fail."""
    top, together = ADMISSION.share(run.settings.buffer.admission), run.algorithm.top is not None
    judged = without_failed(rollouts)
    groups = {"": [rollout.reward for rollout in judged]} if together else groups_of(judged)
    best = run.algorithm.top if top is None else top
    # Rollouts come tier by tier: were equal rewards ranked by place, the first tier alone would be learned from.
    ranks = [key(run.settings.seed, "ties", rollout.judged.completion.key) for rollout in judged] if together else None
    found = {name: iter(positives(rewards, run.admit_at, top=best, ranks=ranks)) for name, rewards in groups.items()}
    return [
        evolve(
            rollout,
            positive=not rollout.judged.failed and next(found["" if together else rollout.judged.problem.key]),
        )
        for rollout in rollouts
    ]


def _wave(
    run: Run,
    state: RunState,
    number: int,
    counts: Mapping[str, int],
    problems: Sequence[Problem],
    first_sample: int,
    *,
    finished: Sequence[Rollout] = (),
) -> tuple[list[Rollout], float]:
    """Rollouts in the order of their requests, whatever the order in which they were finished; seconds they took.

    `finished` are the iteration's earlier rollouts, from which it is predicted which ones to stop early.
    """
    openings: dict[str, Opening] = {}
    shown = set()
    for problem in problems:
        count = counts.get(problem.key, 0)
        before = _turns_before(run, state, number, problem)
        for place in range(count):
            sample = first_sample + place
            name = f"{number}/{problem.key}/{sample}"
            strategy = run.strategy
            # Some go alone, so that it shows when examples are no longer needed.
            if before and not strategy.needs_examples and (place + 1) % min(count, WITHOUT_DEMONSTRATIONS_EVERY):
                strategy = FEW_SHOT
                shown.add(name)
            openings[name] = rollout_opening(run.settings, run.task, strategy, problem, number, sample, before)
    wave = _held(run, number, first_sample, openings.keys())
    if wave is None:
        wave = _drawn(run, number, first_sample, openings, shown, finished)
    rollouts = _read(run, wave, {name: opening.problem for name, opening in openings.items()}, shown)
    return _as_learning_takes(run, f"{number}/{first_sample}", [rollouts[name] for name in openings]), wave["seconds"]


def _turns_before(run: Run, state: RunState, number: int, problem: Problem) -> Turns:
    """Demonstrations to show before a problem, where the strategy or a weak model needs them."""
    shown = run.settings.demonstrations
    bootstrapped = shown.bootstrap != "none" and needs_demonstrations(state.history, problem.tier)
    if not (bootstrapped or run.strategy.needs_examples):
        return ()
    return turns_before(problem, run.demonstrations, shown.shots, number)


def rollout_opening(
    settings: TrainSettings, task: Task, strategy: Strategy, problem: Problem, number: int, sample: int, before: Turns
) -> Opening:
    """The opening of a rollout, the same whenever iteration, problem, sample and the examples before it are."""
    exchange = strategy.converse(task, problem, rollout_sampling(settings, {problem.tier: before}))
    return Opening(problem, exchange, partial(_seed, settings.seed, number, problem.key, sample))


def rollout_sampling(settings: TrainSettings, examples: Mapping[str, Turns]) -> Settings:
    """How conversations are sampled."""
    rollouts = settings.rollouts
    return Settings(
        settings.seed, rollouts.temperature, rollouts.samples, max_tokens=rollouts.max_tokens, examples=examples
    )


def _seed(seed: int, number: int, problem: str, sample: int, request: int, place: int) -> int:
    """Of a completion: see `Opening.seed`."""
    further = (request, place) if request or place else ()
    return key(seed, "rollout", number, problem, sample, *further)


def _drawn(
    run: Run,
    number: int,
    first_sample: int,
    openings: Mapping[str, Opening],
    shown: Container[str],
    finished: Sequence[Rollout],
) -> dict[str, Any]:
    """A wave as it is held: drawn, judged, and as plain as what is read back."""
    began = run.clock.now()
    advance = stage(run, "sample", len(openings))
    rollouts = []

    def ended(name: str, conversation: Conversation) -> None:
        rollouts.append(_plain(name, conversation, shown=name in shown, whole=run.strategy is not ZERO_SHOT))
        advance()

    about = {name: opening.problem for name, opening in openings.items()}
    known = [(rollout.judged, rollout.reward) for rollout in finished]
    model = stopping_early(run.model, about, known, run.settings.rollouts.early_stop)
    held = hold(openings, {MODEL: model}, run.task, run.evaluator, rollout_sampling(run.settings, {}), on_end=ended)
    seconds = run.clock.now() - began
    wave = {"iteration": number, "first_sample": first_sample, "seconds": seconds, "rollouts": rollouts}
    if not any(conversation.last.failed for conversation in held.values()):
        # What failed, as where a server was down, is asked again after a resume.
        run.store.hold(wave)
    return wave


def _plain(name: str, conversation: Conversation, *, shown: bool, whole: bool) -> dict[str, Any]:
    """A rollout as it is held: the attempt that counts, and where it is wanted whole, the conversation."""
    completion = evolve(conversation.last.completion, key=name)
    rollout = {
        "completion": to_plain(_without_demonstrations(completion) if shown else completion),
        "verdicts": to_plain(conversation.last.verdicts),
    }
    if whole:
        rollout["turns"] = to_plain(turns_of(conversation))
        rollout["counts"] = {count: getattr(conversation, count) for count in ("replies", "prompt_tokens", "tokens")}
    return rollout


def _held(run: Run, number: int, first_sample: int, asked: Collection[str]) -> dict[str, Any] | None:
    """A wave that was drawn before the run was cut off; None where it has to be drawn."""
    for wave in run.store.held():
        if (wave.get("iteration"), wave.get("first_sample")) != (number, first_sample):
            continue
        if {each["completion"]["key"] for each in wave["rollouts"]} == set(asked):
            return wave
    return None


def _read(run: Run, wave: Mapping[str, Any], asked: Mapping[str, Problem], shown: Container[str]) -> dict[str, Rollout]:
    """A wave's rollouts by name. Those just drawn are read back, too: then nothing differs where they are resumed."""
    found = {}
    for each in wave["rollouts"]:
        completion = from_plain(Completion, each["completion"])
        try:
            verdicts = from_plain(tuple[Verdict, ...], each["verdicts"])
        except ValueError as error:
            raise BadInput(f"task {run.task.name}: its verdict on {completion.key} cannot be kept: {error}") from error
        answer = answered_by(run.task, asked[completion.key], completion, verdicts)
        turns = from_plain(tuple[Turn, ...], each["turns"]) if "turns" in each else None
        found[completion.key] = Rollout(
            answer, answer.reward or 0.0, completion.key in shown, turns=turns, counts=each.get("counts", {})
        )
    return found


def _without_demonstrations(completion: Completion) -> Completion:
    """As if it had been written without the examples before it: what was said of it with them is left out."""
    return evolve(
        completion,
        prompt_token_ids=None,
        prompt_tokens=None,
        log_probabilities=None,
        sampling_log_probabilities=None,
    )


def _as_learning_takes(run: Run, wave: str, rollouts: Sequence[Rollout]) -> list[Rollout]:
    """What learning may know of the rewards: as they are, as several evaluators or as the admission change them."""
    combination, change = run.settings.evaluators.combination, CHANGED_REWARDS.get(run.settings.buffer.admission)
    judged = [rollout.judged for rollout in rollouts]
    if combination is not None:
        rewards = combined(combination, judged)
    elif change is not None:
        rewards = change(run, wave, judged)
    else:
        return list(rollouts)
    return [evolve(rollout, reward=reward) for rollout, reward in zip(rollouts, rewards, strict=True)]
