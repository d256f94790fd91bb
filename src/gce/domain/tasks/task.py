"""What a kind of problem is made of: one frozen record of functions, so that a user's own needs no base class."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from attrs import define, evolve, field, frozen

from gce.domain.randomness import python_generator
from gce.domain.types import (
    Chart,
    Completion,
    Evidence,
    Execution,
    Message,
    Problem,
    Split,
    Step,
    Verdict,
    Violation,
)

__all__ = [
    "NoProblem",
    "Policy",
    "Relation",
    "Task",
    "TaskTier",
    "draw_problem",
    "draw_problems",
    "problem_of_key",
    "without_thinking",
]

Policy = Callable[[Problem, random.Random], str | None]
"""A way to answer without a model: the response's text, or None where it does not apply to the problem."""

DRAWS = 2_000
"""Draws for one problem at most, those that fall into another split or repeat a problem included."""

SPLITS: Mapping[str, tuple[int, ...]] = {"train": (0, 1), "dev": (2,), "test": (3,)}
"""Which quarters of the space of canonical digests belong to a split."""


@frozen
class TaskTier:
    """One level of a preset."""

    name: str
    held_out: bool = False
    """Never sampled for training; only evaluated."""
    rung: bool = False
    """Below the preset's tiers: sampled for training where a run asks for a ladder, never evaluated."""
    max_tokens: int | None = None
    """Room for a response at most; None for no limit of its own."""


@frozen
class Relation:
    """What must hold between the verdict on a response and that on a changed one, whatever is right (metamorphic)."""

    change: Callable[[Problem, str, random.Random], tuple[Problem, str] | None]
    """Another problem, another response, or both; None where it does not apply. Only the instance has to be changed:
    prompt and digest are made anew."""
    holds: Literal["the verdict stays", "wrong stays wrong", "right becomes wrong"]


class NoProblem(ValueError):
    """A problem that there is not: too few of a tier differ, or a file holds none."""


def without_thinking(text: str) -> str:
    """What comes after the last `</think>`; nothing where a response begins to think and does not end.

    Some models' templates open the block in the prompt, so that only its end is in the text.
    """
    _, ended, rest = text.rpartition("</think>")
    return "" if not ended and text.lstrip().startswith("<think>") else rest


def nothing_to_run(_problem: Problem, _completion: Completion) -> Execution | None:
    """What a task wants to be run whose answers say enough."""
    return None


def _all_right(verdicts: Sequence[Verdict]) -> bool:
    return bool(verdicts) and all(verdict.right for verdict in verdicts)


def _no_policies(_training: Sequence[Problem]) -> Mapping[str, Policy]:
    return {}


def no_steps(_problem: Problem, _text: str) -> tuple[Step, ...]:
    """What a task without written steps finds."""
    return ()


def _said(completion: Completion) -> Completion:
    return evolve(completion, text=without_thinking(completion.text))


@frozen(kw_only=True)
class Task:
    """A kind of problem that a program can judge.

    `draw`, `prompt`, `digest` and `verify` are required; the rest have plain defaults. All are pure: what they draw
    comes from the generator they are given.
    """

    name: str
    draws_as: str = ""
    """Draw the same instances as the task of this name; empty: this one's own."""
    presets: Mapping[str, tuple[TaskTier, ...]]
    """Tiers by preset; the first preset is the default."""
    draw: Callable[[str, str, random.Random, Any], Any]
    """(preset, tier, generator, solve) -> instance. `solve` is an exact solver for tasks that need one, else None."""
    prompt: Callable[[Any, random.Random], tuple[Message, ...]]
    """(instance, generator) -> what the model is shown; the wording is drawn from the generator."""
    digest: Callable[[Any], str]
    """Canonical name of an instance: equal where only labels or wording differ."""
    verify: Callable[[Problem, Completion, Evidence | None], tuple[Verdict, ...]]
    """One verdict for each evaluator. Total: any text gets a verdict in bounded time."""
    instance_type: type
    """For reading instances back from plain data."""
    request: Callable[[Problem, Completion], Execution | None] = nothing_to_run
    """What has to be run before `verify`, whose evidence is what came of it; None where the answer says enough."""
    run: Callable[[Iterable[Execution]], Iterator[Evidence]] | None = None
    """Runs what `request` wants, as the port `Runner` does. The application sets it; a task comes without."""
    distinct: bool = False
    """Whether no two training problems of a tier have the same digest either; see `draw_problem`."""
    listed: Callable[[str, str, Split], Sequence[Any]] | None = None
    """(preset, tier, split) -> its instances, for a task that has a fixed number of them; in place of `draw`."""
    of_records: Callable[[Task, str, Sequence[Any]], Task] | None = None
    """(task, preset's name, records of a file) -> the task over these problems; ValueError says what is wrong."""
    check_steps: Callable[[Problem, str], tuple[Step, ...]] = no_steps
    """Judge written reasoning step by step; nothing where the task has no step grammar."""
    feedback: Callable[[Verdict], str] = field(
        default=lambda verdict: "\n".join([*(violation.message for violation in verdict.violations), "Try again."])
    )
    """The user's turn after a wrong answer: what is wrong, never what is right."""
    worked: Callable[[Problem, Any], str | None] = field(default=lambda _problem, _solve: None)
    """(problem, solve) -> a response with its reasoning written out, to be shown as an example; by a plain rule, or by
    `solve` where one is given; None where there is none. Whether it is right is for `verify` to say."""
    calls: tuple[str, ...] = (
        "Do not answer yet. List what the answer has to satisfy.",
        "Now draft an answer and check it against the list.",
        "Now give the answer alone.",
    )
    """What a model is told, call by call, when it simulates: the first behind the prompt. Only the last is judged."""
    admit: Callable[[Sequence[Verdict]], bool] = _all_right
    """Whether a rollout with these verdicts may enter the buffer."""
    facts: Callable[[Any], Mapping[str, float]] = field(default=lambda _instance: {})
    """Named numbers of an instance, for records."""
    group: Callable[[Any], str] = field(default=lambda _instance: "")
    """Which subtype of its tier an instance is, for the audit; empty where tiers have none."""
    blind: Callable[[Sequence[Problem]], Mapping[str, Policy]] = _no_policies
    """Answers that ignore the problem, or part of it; fitted ones may read the training problems given."""
    heuristics: Callable[[Sequence[Problem]], Mapping[str, Policy]] = _no_policies
    """Answers by plain rules, as reference rows."""
    chart: Callable[[Problem, str], Chart | None] = field(default=lambda _problem, _text: None)
    """An answer as a picture, with its violations; None where it has none. Total, as `verify` is."""
    max_tokens: int = 512
    """Room for a response by default."""
    blind_limits: Mapping[str, float] = field(factory=dict)
    """By tier: the share that no blind answer may exceed; `*` for all others."""
    hidden: frozenset[str] = frozenset()
    """Fields of an instance that the prompt keeps to itself though the verdict follows from them, as hidden tests."""
    shifts: Mapping[str, tuple[str, str]] = field(factory=dict)
    """Problems unlike those trained on, by what differs: the name of a task, or module:ATTR, and its
    preset, or "" for the run's own."""
    relations: Mapping[str, Relation] = field(factory=dict)
    """By what is changed: what `gce check` holds the verifier to without knowing what is right."""

    @property
    def has_steps(self) -> bool:
        """Whether written reasoning can be checked step by step."""
        return self.check_steps is not no_steps

    def repeats(self, split: Split) -> bool:
        """Whether two problems of a split may have the same digest: in training alone, unless `distinct`."""
        return split == "train" and not self.distinct

    def tiers(self, preset: str) -> tuple[TaskTier, ...]:
        """Tiers of a preset, its rungs left out; KeyError where there is no such preset."""
        return tuple(tier for tier in self.presets[preset] if not tier.rung)

    def judge(self, problem: Problem, completion: Completion, evidence: Evidence | None = None) -> tuple[Verdict, ...]:
        """Verdicts on what the model says, without what it thought first: `verify` is never shown that.

        Where evidence is needed and not given, `run` is asked; without it the verdict is `failed`.
        """
        if evidence is None:
            ((_, _, found),) = self.judge_each([(problem, completion)])
            return found
        return self._verified(problem, completion, evidence)

    def _verified(self, problem: Problem, completion: Completion, evidence: Evidence | None) -> tuple[Verdict, ...]:
        """What `verify` says; one that raises has failed, and the answer is neither right nor wrong for that."""
        try:
            return self.verify(problem, _said(completion), evidence)
        except Exception as error:  # It may be anybody's.
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            violation = Violation("verifier", f"the verifier raised {said}")
            return (Verdict("failed", None, self.name, "", {}, (violation,)),)

    def judge_each(
        self, answers: Iterable[tuple[Problem, Completion]]
    ) -> Iterator[tuple[Problem, Completion, tuple[Verdict, ...]]]:
        """Answers with their verdicts, in order; some are taken ahead, where they are run side by side.

        Where the verifier raises, the verdict is `failed`, with what it said.

        Raises:
            ValueError: a runner that gives less evidence than it was asked for.
        """
        if self.run is None:
            for problem, completion in answers:
                yield problem, completion, self._verified(problem, completion, None)
            return
        waiting: deque[tuple[Problem, Completion, bool]] = deque()

        def wanted() -> Iterator[Execution]:
            for problem, completion in answers:
                try:
                    execution = self.request(problem, _said(completion))
                except Exception:  # As `verify`, which will fail for want of evidence.
                    execution = None
                waiting.append((problem, completion, execution is not None))
                if execution is not None:
                    yield execution

        def judged(evidence: Evidence | None) -> tuple[Problem, Completion, tuple[Verdict, ...]]:
            problem, completion, _ = waiting.popleft()
            return problem, completion, self._verified(problem, completion, evidence)

        for evidence in self.run(wanted()):
            while not waiting[0][2]:
                yield judged(None)
            yield judged(evidence)
        while waiting:
            if waiting[0][2]:
                raise ValueError(f"task {self.name}: the runner ended before it had run {waiting[0][1].key}")
            yield judged(None)

    def judge_steps(self, problem: Problem, text: str) -> tuple[Step, ...]:
        """What is to be said of the written steps, without those of what the model thought first, as in `judge`."""
        return self.check_steps(problem, without_thinking(text))

    def room(self, problem: Problem, limit: int | None = None) -> int:
        """Tokens of a response to a problem: `limit`, by default the task's, but not above its tier's."""
        preset = problem.key.rsplit("/", 5)[-5:][0]
        own = next((tier.max_tokens for tier in self.presets.get(preset, ()) if tier.name == problem.tier), None)
        given = limit or self.max_tokens
        return given if own is None else min(own, given)

    def training_tiers(self, preset: str, *, ladder: bool = False) -> tuple[str, ...]:
        """Names of the tiers that training may sample, with the rungs below them where there is to be a ladder."""
        return tuple(tier.name for tier in self.presets[preset] if not tier.held_out and (ladder or not tier.rung))


def draw_problem(
    task: Task, preset: str, tier: str, split: Split, index: int, *, seed: int = 0, solve: Any = None
) -> Problem:
    """Problem number `index` of a tier in one split; the same on every machine.

    A split owns quarters of the space of canonical digests, and a draw that falls outside is drawn again: no problem
    of one split can be one of another with other labels or another wording, however small the space of problems. No
    two dev or test problems of a tier have the same digest (nor training problems of a task that is `distinct`):
    number i follows from those before it, which are drawn first. Where `DRAWS` draws find no further one, the problems
    repeat from the first on, under the keys that they have.

    Raises:
        NoProblem: there is none of this split.
    """
    if task.listed is not None:
        instances = task.listed(preset, tier, split)
        if not instances:
            raise NoProblem(f"task {task.name}, tier {tier}: there are no {split} problems")
        place = index % len(instances)
        rng = python_generator(seed, "problem", task.draws_as or task.name, preset, split, tier, place)
        return _problem(task, preset, tier, split, place, seed, instances[place], rng)
    known, place = _Known(), index
    if not task.repeats(split):
        name = (task.draw, task.digest, task.draws_as or task.name, preset, tier, split, seed)
        known = _KNOWN.setdefault(name, known)
        while len(known.digests) < index and not known.all:
            draw_problem(task, preset, tier, split, len(known.digests), seed=seed, solve=solve)
        place = index % len(known.digests) if known.all else index
    drawn = _draw(task, preset, tier, split, place, seed, solve, known.digests)
    if drawn is None and known.digests:
        known.all, place = True, index % len(known.digests)
        drawn = _draw(task, preset, tier, split, place, seed, solve, known.digests)
    if drawn is None:
        raise NoProblem(
            f"task {task.name}, tier {tier}: {DRAWS:,} draws gave no problem for the {split} split; "
            "its digests must be hexadecimal and spread over the instances"
        )
    problem = _problem(task, preset, tier, split, place, seed, *drawn)
    if not task.repeats(split):
        known.digests.setdefault(problem.digest, place)
    return problem


@define
class _Known:
    """What is known of the problems of a tier and split; draws do not depend on it, only how soon they are done."""

    digests: dict[str, int] = field(factory=dict)
    """Of the first problems, with their numbers."""
    all: bool = False
    """Whether there are no others."""


_KNOWN: dict[tuple[Any, ...], _Known] = {}


def _draw(
    task: Task, preset: str, tier: str, split: Split, place: int, seed: int, solve: Any, known: Mapping[str, int]
) -> tuple[Any, random.Random] | None:
    """An instance of the split unlike those before it, with its generator; None where `DRAWS` draws find none."""
    for attempt in range(DRAWS):
        rng = python_generator(seed, "problem", task.draws_as or task.name, preset, split, tier, place, attempt)
        instance = task.draw(preset, tier, rng, solve)
        digest = task.digest(instance)
        if int(digest[:8], 16) % 4 in SPLITS[split] and known.get(digest, place) >= place:
            return instance, rng
    return None


def _problem(
    task: Task, preset: str, tier: str, split: Split, index: int, seed: int, instance: Any, rng: random.Random
) -> Problem:
    return Problem(
        key=f"{task.name}/{preset}/{split}/{tier}/{seed}/{index}",
        task=task.name,
        tier=tier,
        split=split,
        instance=instance,
        prompt=task.prompt(instance, rng),
        digest=task.digest(instance),
        facts=task.facts(instance),
    )


def problem_of_key(task: Task, key: str) -> Problem:
    """The problem that has this key, drawn again.

    Raises:
        ValueError: the key is not one of this task's.
    """
    name, preset, split, tier, seed, index = [*[""] * 6, *key.rsplit("/", 5)][-6:]
    tiers = [each.name for each in task.presets.get(preset, ())]
    if name != task.name or split not in SPLITS or tier not in tiers or not (seed.isdigit() and index.isdigit()):
        raise ValueError(f"expected a key of task {task.name}, task/preset/split/tier/seed/index, got {key!r}")
    return draw_problem(task, preset, tier, cast(Split, split), int(index), seed=int(seed))


def draw_problems(
    task: Task, preset: str, tier: str, split: Split, count: int, *, seed: int = 0, solve: Any = None
) -> tuple[Problem, ...]:
    """The first `count` problems of a tier in one split; all of them, where it has fewer.

    Those of dev and test differ in their digests, so that as many as there are is the n of an evaluation.
    """
    listed = None if task.listed is None else len(task.listed(preset, tier, split))
    repeats = task.repeats(split)
    drawn: dict[str, Problem] = {}
    for index in range(count if listed is None else listed):
        if len(drawn) == count:
            break
        problem = draw_problem(task, preset, tier, split, index, seed=seed, solve=solve)
        if not repeats and problem.digest in drawn:
            if listed is None:
                break
            continue
        drawn[problem.key if repeats else problem.digest] = problem
    return tuple(drawn.values())
