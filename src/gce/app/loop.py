"""The loop: plan, sample, judge, admit, learn, measure, commit; again.

The whole state of a run is one value, `RunState`, plus the model's own: it is committed after every iteration and read
back on resume, and every random key follows from it. Inside an iteration the store holds each wave of rollouts with its
verdicts, so that a run that was cut off draws at most one wave again. Nothing here knows a vendor, a terminal or a
particular task.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from itertools import islice
from math import ceil, isfinite
from typing import Any, Protocol

import numpy as np
from attrs import evolve, field, frozen
from numpy.random import Generator

from gce.app.config import WARM_UP_PART, RunConfig
from gce.app.evaluation import RESUME, Judged, accuracy, answered, ask, check_answers
from gce.app.examples import Turns, Worked, digests_of, shown_before
from gce.domain.advantages import ALGORITHMS, drop_decided
from gce.domain.buffer import Buffer, BufferSettings, admit, composition, draw, empty, epoch, only
from gce.domain.outcomes import admitted
from gce.domain.randomness import generator, key
from gce.domain.sampling import TierHistory, climbed, needs_examples, plan, remember, second_wave
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks.task import Task, draw_problem
from gce.domain.traces import trace_digest, trace_of
from gce.domain.types import (
    Completion,
    Interval,
    IterationRecord,
    ModelState,
    Problem,
    SampleRequest,
    TierCount,
    Trace,
    TrainingBatch,
    UpdateReport,
    Verdict,
)
from gce.errors import BadInput, ModelError
from gce.ports.clock import Clock
from gce.ports.model import Learner, Sampler
from gce.ports.store import Store

ALONE_EVERY = 4
"""Of a wave's rollouts of a problem that is shown with examples, each fourth has none, and so has the last of fewer."""

MOST_SKIPPED = 1000
"""Problems drawn one after another that are all worked examples, before it is said that there are no others."""

__all__ = ["LearningModel", "Run", "RunState", "Watcher", "begin", "iterate", "resume", "why_stop"]


class LearningModel(Sampler, Learner, Protocol):
    """What the loop needs of a model."""


class Watcher(Protocol):
    """Shows what is going on; the loop never asks it anything."""

    def stage(self, name: str, total: int) -> Callable[[], None]:
        """A stage of `total` steps begins; call what comes back after each."""
        ...

    def iteration(self, record: IterationRecord) -> None:
        """An iteration is done."""
        ...

    def say(self, text: str) -> None:
        """Something that a person should know."""
        ...


@frozen
class Run:
    """What stays the same throughout: the settings and the adapters."""

    config: RunConfig
    task: Task
    model: Any
    """A `LearningModel`."""
    store: Store
    clock: Clock
    watcher: Watcher
    dev: tuple[Problem, ...]
    start: ModelState | None = None
    """What the model was before it learned anything; needed where every iteration restarts from there."""
    seconds: float | None = None
    """Wall-clock seconds that all iterations may take together; None for no limit."""
    worked: Mapping[str, tuple[Worked, ...]] = field(factory=dict)
    """By tier, examples to show or to learn where the run is to start with them."""

    @property
    def tiers(self) -> tuple[str, ...]:
        """Tiers that training samples."""
        return self.task.training_tiers(self.config.preset, ladder=self.config.ladder)


@frozen
class RunState:
    """What an iteration hands to the next."""

    iteration: int
    """Finished iterations."""
    drawn: Mapping[str, int]
    """Training problems drawn so far, by tier: the next one's index."""
    history: TierHistory
    buffer: Buffer
    first_correct: Mapping[str, int]
    """Iteration (from 1) in which a tier's first correct trace was found."""
    rollouts: int = 0
    """Those that did not fail, as in all counts here."""
    correct: int = 0
    failed: int = 0
    updates: int = 0
    warm_ups: int = 0
    """Finished iterations that were parts of the warm-up."""
    best: tuple[int, float] | None = None
    """Iteration with the best mean accuracy on dev problems so far, and that mean; the earlier one where equal."""
    looks_since_best: int = 0


def begin(config: RunConfig) -> RunState:
    """The state before the first iteration."""
    settings = BufferSettings(per_problem=config.per_problem, deduplicate=config.deduplicate)
    if config.admission == "all":
        # Every rollout: to keep one of several equal answers would make rare ones count for more.
        settings = BufferSettings(per_problem=None, deduplicate=False)
    return RunState(0, {}, TierHistory(), empty(settings), {})


def resume(run: Run) -> RunState:
    """The state of the store's last commit, with the model put back to it; the first state where there is none."""
    state = begin(run.config)
    last = run.store.last()
    if last is None:
        return state
    iteration, model_state, loop = last
    if model_state is not None:
        run.model.restore(model_state)
    traces = (
        from_plain(Trace, record)
        for record in run.store.read("traces")
        if run.config.accumulate or record["iteration"] == iteration
    )
    return evolve(
        state,
        iteration=iteration,
        drawn=loop["drawn"],
        history=from_plain(TierHistory, loop["history"]),
        buffer=admit(state.buffer, traces),
        first_correct=loop["first_correct"],
        rollouts=loop["rollouts"],
        correct=loop["correct"],
        failed=loop.get("failed", 0),
        updates=loop["updates"],
        warm_ups=loop.get("warm_ups", 0),  # Runs of before had their warm-up counted among `iterations`.
        best=None if loop["best"] is None else (loop["best"][0], loop["best"][1]),
        looks_since_best=loop["looks_since_best"],
    )


def iterate(run: Run, state: RunState) -> Iterator[tuple[RunState, IterationRecord]]:
    """One iteration after another, each committed before it is handed out, until there is a reason to stop."""
    while not why_stop(run, state):
        state, record = _one(run, state)
        yield state, record


def why_stop(run: Run, state: RunState) -> str:
    """The reason to begin no further iteration, in words, or nothing."""
    config = run.config
    warming_up = state.updates < config.warm_up
    if not warming_up and state.iteration - state.warm_ups >= config.iterations:
        return f"all {config.iterations} iterations{' after the warm-up' if state.warm_ups else ''} are done"
    if config.until is not None and state.best is not None and state.best[1] >= config.until:
        return f"dev accuracy reached {config.until:.0%} in iteration {state.best[0]}"
    if config.patience is not None and state.looks_since_best >= config.patience:
        return f"no gain on dev problems in {config.patience} looks"
    if run.seconds is not None:
        records = list(run.store.read("iterations"))
        taken = [sum(record["seconds"].values()) for record in records]
        # A warm-up, without rollouts, says nothing of how long the first iteration with them takes.
        next_one = taken[-1] if records and (warming_up or records[-1]["tiers"]) else 0.0
        if sum(taken) + next_one >= run.seconds:
            return f"another iteration would exceed {config.minutes:g} minutes"
    return ""


def _one(run: Run, state: RunState) -> tuple[RunState, IterationRecord]:
    number = state.iteration + 1
    drawn, sampling = state.drawn, 0.0
    rollouts: list[_Rollout] = []
    warming_up = state.updates < run.config.warm_up
    if not warming_up:
        problems, drawn = _draw(run, state, number)
        rollouts, sampling = _sample(run, state, number, problems)
    failed = [rollout.judged for rollout in rollouts if rollout.judged.failed]
    if failed:
        answers = [rollout.judged for rollout in rollouts]
        check_answers(f"rollouts of iteration {number}", answers, run.config.min_coverage, or_else=RESUME)
        said = f"{failed[0].problem.tier}: {failed[0].reason}"
        run.watcher.say(f"warning: {len(failed)} of {len(rollouts)} rollouts failed and count for nothing; {said}")
    everything, rollouts = rollouts, _without_failed(rollouts)
    judged = [rollout.judged for rollout in rollouts]
    began = run.clock.now()
    counts = _count(run.tiers, rollouts, [answer.right for answer in judged])
    credited = _count(run.tiers, rollouts, [rollout.credited for rollout in rollouts])
    buffer, admitted = _admit(run, state, number, rollouts)
    if warming_up:
        reports = list(_warm_up(run, state))
    else:
        reports = list(_learn(run, number, _pool(run, number, buffer, rollouts), credited))
    learned = run.clock.now()
    taken = [report for report in reports if report.tokens]
    if len(taken) < len(reports):
        few = len(reports) - len(taken)
        run.watcher.say(f"warning: {few} of {len(reports)} steps taught nothing: none of their traces fits the context")
    updates = state.updates + len(reports)
    if warming_up:
        due = updates >= run.config.warm_up
    else:
        due = number % run.config.dev_every == 0 or number - state.warm_ups == run.config.iterations
    dev = _look(run) if due else {}
    looked = run.clock.now()

    correct = sum(count.correct for count in counts.values())
    first = {tier: number for tier, count in counts.items() if count.correct}
    best, looks_since_best = state.best, state.looks_since_best
    if dev:
        # Where a tier has no dev answer that was judged, there is no mean, and the evaluation says nothing.
        mean = _mean([found.share for found in dev.values()]) if all(found.n for found in dev.values()) else None
        if mean is not None and (best is None or mean > best[1]):
            best, looks_since_best = (number, mean), 0
        elif mean is not None:
            looks_since_best += 1
    after = RunState(
        iteration=number,
        drawn=drawn,
        history=remember(state.history, credited),
        buffer=buffer,
        first_correct={**first, **state.first_correct},
        rollouts=state.rollouts + len(judged),
        correct=state.correct + correct,
        failed=state.failed + len(failed),
        updates=updates,
        warm_ups=state.warm_ups + warming_up,
        best=best,
        looks_since_best=looks_since_best,
    )
    record = IterationRecord(
        iteration=number,
        tiers=counts,
        buffer=composition(buffer),
        admitted=len(admitted),
        updates=len(taken),
        loss=_mean([report.loss for report in taken]),
        gradient_norm=_mean([report.gradient_norm for report in taken]),
        entropy=_entropy(judged),
        dropped=sum(report.dropped for report in reports),
        dev=dev,
        seconds={"sample": sampling, "train": learned - began, "evaluate": looked - learned},
        failed=Counter(answer.problem.tier for answer in failed),
    )
    _commit(run, after, record, everything, admitted)
    run.watcher.iteration(record)
    return after, record


def _draw(run: Run, state: RunState, number: int) -> tuple[list[Problem], Mapping[str, int]]:
    """The iteration's problems, and how many each tier has had since the start."""
    config = run.config
    tiers = climbed(state.history, run.tiers) if config.ladder else run.tiers
    shares = config.problems_by_tier or plan(
        state.history, tiers, problems=config.problems, policy=config.sampling, floor=config.floor
    )
    drawn = dict(state.drawn)
    examples = digests_of(run.worked)
    problems: dict[str, Problem] = {}
    for tier, count in shares.items():
        found = skipped = 0
        while found < count:
            index = drawn.get(tier, 0)
            drawn[tier] = index + 1
            index = index % config.pool if config.pool else index
            problem = draw_problem(run.task, config.preset, tier, "train", index, seed=config.seed)
            if problem.digest in examples:  # Its answer has been worked out, and perhaps shown or learned.
                skipped += 1
                if skipped == MOST_SKIPPED:
                    raise BadInput(f"all problems of {tier} are worked examples: take fewer --shots or more of --pool")
                continue
            problems[problem.key] = problem
            found, skipped = found + 1, 0
    return list(problems.values()), drawn


@frozen
class _Rollout:
    """An answer, and whether learning takes it for right: as its verdict says, unless the admission is another."""

    judged: Judged
    credited: bool
    shown: bool
    """Whether its prompt began with worked examples."""


def _sample(run: Run, state: RunState, number: int, problems: Sequence[Problem]) -> tuple[list[_Rollout], float]:
    """The iteration's rollouts, and seconds they took, before a resume too."""
    config = run.config
    first, seconds = _wave(run, state, number, {problem.key: config.rollouts for problem in problems}, problems, 0)
    check_answers(
        f"rollouts of iteration {number}", (rollout.judged for rollout in first), config.min_coverage, or_else=RESUME
    )
    if not config.second_wave:
        return first, seconds
    groups = _groups(_without_failed(first))
    if config.admission == "all":
        # With nothing known of the verdicts every problem is as undecided as another.
        groups = {problem: [False] * len(group) for problem, group in groups.items()}
    counts = second_wave(groups, config.second_wave)
    second, more = _wave(run, state, number, counts, problems, config.rollouts)
    return first + second, seconds + more


def _without_failed(rollouts: Sequence[_Rollout]) -> list[_Rollout]:
    """Those that may be counted, planned by and learned from."""
    return [rollout for rollout in rollouts if not rollout.judged.failed]


def _groups(rollouts: Sequence[_Rollout]) -> dict[str, list[bool]]:
    """What each problem's rollouts are taken for."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.judged.problem.key].append(rollout.credited)
    return groups


def _wave(
    run: Run, state: RunState, number: int, counts: Mapping[str, int], problems: Sequence[Problem], first_sample: int
) -> tuple[list[_Rollout], float]:
    """Rollouts in the order of their requests, whatever the order in which they were finished; seconds they took."""
    config = run.config
    asked: dict[str, Problem] = {}
    shown = set()
    requests = []
    for problem in problems:
        count = counts.get(problem.key, 0)
        room = run.task.room(problem, config.max_tokens)
        before: Turns = ()
        if config.bootstrap != "none" and needs_examples(state.history, problem.tier):
            before = shown_before(problem, run.worked, config.shots, number)
        for place in range(count):
            sample = first_sample + place
            name = f"{number}/{problem.key}/{sample}"
            asked[name] = problem
            # Some go alone, so that it shows when examples are no longer needed.
            if before and (place + 1) % min(count, ALONE_EVERY):
                shown.add(name)
            requests.append(
                SampleRequest(
                    name,
                    (*before, *problem.prompt) if name in shown else problem.prompt,
                    seed=key(config.seed, "rollout", number, problem.key, sample),
                    temperature=config.temperature,
                    max_tokens=room,
                )
            )
    wave = _held(run, number, first_sample, asked.keys())
    if wave is None:
        wave = _drawn(run, number, first_sample, requests, asked, shown)
    answers = {answer.completion.key: answer for answer in _read(run, wave, asked)}
    rollouts = _credit(run, f"{number}/{first_sample}", [answers[request.key] for request in requests], shown)
    return rollouts, wave["seconds"]


def _drawn(
    run: Run,
    number: int,
    first_sample: int,
    requests: Sequence[SampleRequest],
    asked: Mapping[str, Problem],
    shown: Container[str],
) -> dict[str, Any]:
    """A wave as it is held: drawn, judged, and as plain as what is read back."""
    began = run.clock.now()
    advance = run.watcher.stage("sample", len(requests))
    rollouts = []
    whole = True
    for answer in answered(run.model, run.task, requests, asked):
        completion = answer.completion
        completion = _alone(completion) if completion.key in shown else completion
        rollouts.append({"completion": to_plain(completion), "verdicts": to_plain(answer.verdicts)})
        whole = whole and not answer.failed
        advance()
    seconds = run.clock.now() - began
    wave = {"iteration": number, "first_sample": first_sample, "seconds": seconds, "rollouts": rollouts}
    if whole:  # What failed, as where a server was down, is asked again after a resume.
        run.store.hold(wave)
    return wave


def _held(run: Run, number: int, first_sample: int, asked: Collection[str]) -> dict[str, Any] | None:
    """A wave that was drawn before the run was cut off; None where it has to be drawn."""
    for wave in run.store.held():
        if (wave.get("iteration"), wave.get("first_sample")) != (number, first_sample):
            continue
        if {each["completion"]["key"] for each in wave["rollouts"]} == set(asked):
            return wave
    return None


def _read(run: Run, wave: Mapping[str, Any], asked: Mapping[str, Problem]) -> Iterator[Judged]:
    """A wave's answers. Those just drawn are read back, too: then nothing differs where they are resumed from."""
    for each in wave["rollouts"]:
        completion = from_plain(Completion, each["completion"])
        try:
            verdicts = from_plain(tuple[Verdict, ...], each["verdicts"])
        except ValueError as error:
            raise BadInput(f"task {run.task.name}: its verdict on {completion.key} cannot be kept: {error}") from error
        yield Judged(asked[completion.key], completion, verdicts, admitted(run.task.admit, verdicts))


def _alone(completion: Completion) -> Completion:
    """As if it had been written without the examples before it: what was said of it with them is left out."""
    return evolve(
        completion,
        prompt_token_ids=None,
        prompt_tokens=None,
        log_probabilities=None,
        sampling_log_probabilities=None,
    )


def _credit(run: Run, wave: str, judged: Sequence[Judged], shown: Container[str]) -> list[_Rollout]:
    """What learning may know of the verdicts: all, or steps too, or, in a control, how many there are, or nothing."""
    match run.config.admission:
        case "all":
            credits = [not answer.failed for answer in judged]
        case "shuffled":
            credits = [answer.right for answer in judged]
            for tier in run.tiers:
                places = [
                    place for place, answer in enumerate(judged) if answer.problem.tier == tier and not answer.failed
                ]
                order = generator(run.config.seed, "shuffled", wave, tier).permutation(len(places))
                for place, other in zip(places, order, strict=True):
                    credits[place] = judged[places[other]].right
        case "reasoned":
            credits = [answer.right and _reasoned(run.task, answer) for answer in judged]
        case _:
            credits = [answer.right for answer in judged]
    return [
        _Rollout(answer, credited, answer.completion.key in shown)
        for answer, credited in zip(judged, credits, strict=True)
    ]


def _reasoned(task: Task, answer: Judged) -> bool:
    """Whether it has steps, and all of them are true."""
    steps = task.judge_steps(answer.problem, answer.completion.text)
    return bool(steps) and all(step.status == "true" for step in steps)


def _count(tiers: Sequence[str], rollouts: Sequence[_Rollout], right: Sequence[bool]) -> dict[str, TierCount]:
    by_tier: dict[str, list[tuple[_Rollout, bool]]] = {tier: [] for tier in tiers}
    for rollout in zip(rollouts, right, strict=True):
        by_tier.setdefault(rollout[0].judged.problem.tier, []).append(rollout)
    return {tier: _count_tier(found) for tier, found in by_tier.items() if found}


def _count_tier(rollouts: Sequence[tuple[_Rollout, bool]]) -> TierCount:
    groups: dict[str, list[bool]] = defaultdict(list)
    for rollout, right in rollouts:
        groups[rollout.judged.problem.key].append(right)
    answers = [rollout.judged for rollout, _ in rollouts]
    lengths = [answer.completion.tokens or 0 for answer in answers]
    return TierCount(
        rollouts=len(answers),
        correct=sum(right for _, right in rollouts),
        problems=len(groups),
        all_right=sum(all(group) for group in groups.values()),
        all_wrong=sum(not any(group) for group in groups.values()),
        truncated=sum(answer.completion.finish_reason == "length" for answer in answers),
        unparsed=sum(_unparsed(answer) for answer in answers),
        distinct=len({_digest(rollout.judged) for rollout, right in rollouts if right}),
        mean_tokens=sum(lengths) / len(lengths),
        shown=sum(rollout.shown for rollout, _ in rollouts),
        shown_correct=sum(right for rollout, right in rollouts if rollout.shown),
    )


UNPARSED = frozenset({"grammar", "missing-answer", "several-answers"})


def _unparsed(answer: Judged) -> bool:
    kinds = (violation.kind for verdict in answer.verdicts for violation in verdict.violations)
    return answer.outcome == "unreadable" or any(kind in UNPARSED for kind in kinds)


def _digest(answer: Judged) -> str:
    return trace_digest(answer.problem, answer.completion.text)


def _trace(answer: Judged, iteration: int) -> Trace:
    return trace_of(answer.problem, answer.completion, answer.verdicts, iteration=iteration)


def _admit(run: Run, state: RunState, number: int, rollouts: Sequence[_Rollout]) -> tuple[Buffer, list[Trace]]:
    """The buffer with what it took of this iteration's answers, and those traces."""
    groups: Mapping[str, Sequence[float]] = _groups(rollouts)
    if run.config.drop_solved:
        groups = drop_decided(groups, all_wrong=False)
    traces = [
        _trace(rollout.judged, number)
        for rollout in rollouts
        if rollout.credited and rollout.judged.problem.key in groups
    ]
    before = state.buffer if run.config.accumulate else only(state.buffer, number)
    buffer = admit(before, traces)
    return buffer, list(islice(buffer, len(before), None))


@frozen
class _Pool:
    """What an iteration learns from."""

    buffer: Buffer
    """Whose traces batches are drawn from."""
    weights: Mapping[str, float] | None
    """By trace; None where each weighs 1."""
    wrong: tuple[Trace, ...] = ()
    """Of which as many are added to each batch, with the weight for wrong ones."""


def _pool(run: Run, number: int, buffer: Buffer, rollouts: Sequence[_Rollout]) -> _Pool:
    """The replay buffer, or this iteration's rollouts with the weights that the algorithm gives them."""
    algorithm = ALGORITHMS[run.config.algorithm]
    judged = [rollout for rollout in rollouts if rollout.judged.completion.finish_reason != "context"]
    if algorithm.weigh is not None and any(each.judged.completion.log_probabilities is None for each in judged):
        raise ModelError(
            f"algorithm {run.config.algorithm} needs log-probabilities of sampled tokens, and the model gives none: "
            "use --algorithm raft"
        )
    if algorithm.weigh is None:
        wrong = [_trace(each.judged, number) for each in judged if not each.credited] if algorithm.opposes else []
        return _Pool(buffer, None, tuple(wrong))
    groups: Mapping[str, Sequence[float]] = _groups(judged)
    if algorithm.drops_decided:
        groups = drop_decided(groups)
    found = {problem: iter(algorithm.weigh(rewards)) for problem, rewards in groups.items()}
    weights = {
        rollout.judged.completion.key: next(found[rollout.judged.problem.key])
        for rollout in judged
        if rollout.judged.problem.key in found
    }
    traces = [_trace(each.judged, number) for each in judged if weights.get(each.judged.completion.key)]
    return _Pool(admit(empty(BufferSettings(per_problem=None, deduplicate=False)), traces), weights)


def _learn(run: Run, number: int, pool: _Pool, counts: Mapping[str, TierCount]) -> Iterator[UpdateReport]:
    config, buffer = run.config, pool.buffer
    if config.restart:
        if run.start is None:
            raise ValueError("expected the model's first state, to restart from it, got none")
        run.model.restore(run.start)
    if not len(buffer):
        return
    rng = generator(config.seed, "batches", number)
    if config.epochs is not None:
        batches = [batch for _ in range(config.epochs) for batch in epoch(buffer, rng, config.batch)]
    else:
        # A tier that was not sampled this time counts as unsolved.
        failure = dict.fromkeys(composition(buffer), 1.0)
        failure |= {tier: 1 - count.correct / count.rollouts for tier, count in counts.items()}
        wanted = config.updates * (number if config.restart else 1)
        updates = min(wanted, ceil(config.reuse * len(buffer) / config.batch))
        batches = [draw(buffer, rng, config.batch, weighting=config.weighting, failure=failure) for _ in range(updates)]
    yield from _take_steps(run, number, [_batch(config, pool, drawn, rng) for drawn in batches])


def _warm_up(run: Run, state: RunState) -> Iterator[UpdateReport]:
    """Learn worked examples themselves, from where the warm-up stands; they never enter the buffer.

    What is drawn, and at which rates, depends on the whole warm-up and not on the parts in which it comes.
    """
    rng = generator(run.config.seed, "warm-up")
    examples = admit(empty(), (each.trace for worked in run.worked.values() for each in worked))
    drawn = [draw(examples, rng, run.config.batch) for _ in range(run.config.warm_up)]
    first, last = run.config.warm_up_rate or run.config.learning_rate, run.config.learning_rate
    rates = np.linspace(first / last, 1.0, len(drawn)).tolist()
    part = slice(state.updates, state.updates + WARM_UP_PART)
    batches = [
        TrainingBatch(traces, (1.0,) * len(traces), kl=run.config.kl, rate=rate)
        for traces, rate in zip(drawn[part], rates[part], strict=True)
    ]
    yield from _take_steps(run, state.iteration + 1, batches)


def _take_steps(run: Run, number: int, batches: Sequence[TrainingBatch]) -> Iterator[UpdateReport]:
    advance = run.watcher.stage("train", len(batches))
    for batch in batches:
        report = run.model.update(batch)
        if not (isfinite(report.loss) and isfinite(report.gradient_norm)):
            raise ModelError(
                f"iteration {number}: expected a loss that is a number, got {report.loss!r} with gradients of norm "
                f"{report.gradient_norm!r}: nothing learned in it is kept: start a run with a smaller --learning-rate"
            )
        yield report
        advance()


def _batch(config: RunConfig, pool: _Pool, drawn: tuple[Trace, ...], rng: Generator) -> TrainingBatch:
    wrong = [pool.wrong[place] for place in rng.permutation(len(pool.wrong))[: len(drawn)].tolist()]
    weights = [1.0 if pool.weights is None else pool.weights[trace.key] for trace in drawn]
    return TrainingBatch(
        (*drawn, *wrong),
        (*weights, *[-config.negative] * len(wrong)),
        clip=None if pool.weights is None else config.clip,
        kl=config.kl,
    )


def _look(run: Run) -> dict[str, Interval]:
    """Accuracy on dev problems."""
    config = run.config
    if not run.dev:
        return {}
    advance = run.watcher.stage("evaluate", len(run.dev))
    answers = ask(run.model, run.task, run.dev, seed=config.seed, max_tokens=config.max_tokens, on_answer=advance)
    check_answers("dev problems", answers, config.min_coverage, or_else=RESUME)
    return accuracy(answers)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _entropy(judged: Sequence[Judged]) -> float | None:
    found = [value for answer in judged for value in answer.completion.log_probabilities or ()]
    return -sum(found) / len(found) if found else None


def _commit(
    run: Run, state: RunState, record: IterationRecord, rollouts: Sequence[_Rollout], admitted: Sequence[Trace]
) -> None:
    taken = {trace.key for trace in admitted}
    for rollout in rollouts:
        answer, completion = rollout.judged, rollout.judged.completion
        run.store.append(
            "rollouts",
            {
                "key": completion.key,
                "problem": answer.problem.key,
                "tier": answer.problem.tier,
                "iteration": record.iteration,
                "text": completion.text,
                "finish_reason": completion.finish_reason,
                "policy": completion.policy,
                "right": answer.right,
                "outcome": answer.outcome,
                "admitted": completion.key in taken,
                "shown": rollout.shown,
                "verdicts": to_plain(answer.verdicts),
            },
        )
    for trace in admitted:
        run.store.append("traces", to_plain(trace))
    run.store.append("iterations", to_plain(record))
    loop = {
        "drawn": dict(state.drawn),
        "history": to_plain(state.history),
        "first_correct": dict(state.first_correct),
        "rollouts": state.rollouts,
        "correct": state.correct,
        "failed": state.failed,
        "updates": state.updates,
        "best": None if state.best is None else list(state.best),
        "warm_ups": state.warm_ups,
        "looks_since_best": state.looks_since_best,
    }
    run.store.commit(record.iteration, run.model.state(), loop)
