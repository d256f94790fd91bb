"""What a kind of problem is made of: one frozen record of functions, so that a user's own needs no base class."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen, validators

from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Execution
from gce.domain.problems import Message, Problem, Split
from gce.domain.tasks.parts import Audit, References, Teaching
from gce.domain.tasks.reward import Reward, all_right
from gce.domain.text import counted
from gce.domain.verdicts import Step, Verdict, Violation

__all__ = [
    "THINK_END",
    "THINK_START",
    "Batched",
    "Draw",
    "Drawn",
    "Listed",
    "Task",
    "TaskTier",
    "is_unfinished",
    "nothing_to_run",
    "of_listed",
    "verifier_failed",
    "without_thinking",
]

THINK_START, THINK_END = "<think>", "</think>"
"""What a model's thought stands between."""
_SPLITS: tuple[Split, ...] = ("train", "dev", "test")
Draw = Callable[[str, str, random.Random, Any], Any]
"""(preset, tier, generator, solve) -> instance. `solve` is an exact solver for tasks that need one, else None."""


@frozen
class TaskTier:
    """One level of a preset."""

    name: str
    held_out: bool = False
    """Never sampled for training; only evaluated."""
    curriculum_level: bool = False
    """Below the preset's tiers: sampled for training where a run asks for a ladder, never evaluated."""
    max_tokens: int | None = None
    """Maximum tokens of a response, below or above the task's; None for the task's."""


@frozen
class Drawn:
    """How instances are drawn, where a function alone does not say it."""

    draw: Draw
    stream: str = ""
    """Names the random numbers in place of the task: tasks with the same one draw the same instances."""
    distinct: bool = False
    """Whether no two training problems of a tier have the same digest either."""
    of_records: Callable[[Task, str, Sequence[Any]], Task] | None = None
    """(task, preset's name, records of a file) -> the task over these problems; ValueError says what is wrong."""
    takes_folders: bool = False
    """Whether the records may be a folder's files."""


@frozen
class Listed:
    """A fixed number of instances, as from a file."""

    instances: Callable[[str, str, Split], Sequence[Any]]
    """(preset, tier, split) -> its instances."""
    is_fold: bool = False
    """Whether the test instances are one fold of all, of which others are tested elsewhere."""


@frozen
class Batched:
    """A `Task.verify` that judges several answers at once faster than one after another."""

    one: Callable[[Problem, Completion, Evidence | None], tuple[Verdict, ...]]
    all: Callable[[Sequence[tuple[Problem, Completion]]], Sequence[tuple[Verdict, ...]]]
    """Answers -> the same verdicts as `one` gives on each, in order."""

    def __call__(self, problem: Problem, completion: Completion, evidence: Evidence | None) -> tuple[Verdict, ...]:
        """Verdicts on one answer."""
        return self.one(problem, completion, evidence)


def without_thinking(text: str) -> str:
    """What comes after the last `</think>`; nothing where a response begins to think and does not end.

    Some models' templates open the block in the prompt, so that only its end is in the text.
    """
    _, ended, rest = text.rpartition(THINK_END)
    return "" if not ended and text.lstrip().startswith(THINK_START) else rest


def is_unfinished(completion: Completion) -> bool:
    """Whether a model began to think and wrote nothing after it, so that there is no answer to judge.

    Of a server that reports reasoning apart from the text, the text is empty then.
    """
    text = completion.text.lstrip()
    return (text.startswith(THINK_START) and THINK_END not in text) or (not text and bool(completion.reasoning))


def nothing_to_run(_problem: Problem, _completion: Completion) -> Execution | None:
    """What a task wants to be run whose answers say enough."""
    return None


@frozen(kw_only=True, repr=False)
class Task:
    """A kind of problem that a program can judge.

    What has no default is required. All functions are pure: what they draw comes from the generator they are given.
    """

    name: str
    presets: Mapping[str, tuple[TaskTier, ...]]
    """Tiers by preset; the first preset is the default."""
    draw: Draw | Drawn | Listed
    """Where instances come from; `gce.domain.tasks.source` draws problems from it."""
    prompt: Callable[[Any, random.Random], tuple[Message, ...]]
    """(instance, generator) -> what the model is shown; the wording is drawn from the generator."""
    digest: Callable[[Any], str]
    """Canonical name of an instance, any text: equal where only labels or wording differ."""
    verify: Callable[[Problem, Completion, Evidence | None], tuple[Verdict, ...]]
    """One verdict for each evaluator. Total: any text gets a verdict in bounded time. `Batched` where several answers
    at once are faster."""
    instance_type: type
    """For reading instances back from plain data."""
    request: Callable[[Problem, Completion], Execution | None] = nothing_to_run
    """What has to be run before `verify`, whose evidence is what came of it; None where the answer says enough."""
    reward: Reward = all_right
    """Verdicts of an answer -> its reward in [0, 1], None where it could not be judged; `Scored` maps a raw score."""
    admit_at: float = field(default=1.0, validator=[validators.gt(0.0), validators.le(1.0)])
    """The reward from which on an answer counts as right."""
    max_tokens: int = 512
    """Maximum tokens of a response by default."""
    teaching: Teaching = field(factory=Teaching)
    references: References = field(factory=References)
    audit: Audit = field(factory=Audit)

    def __repr__(self) -> str:
        """Name, and the number of questions by split where they are listed, otherwise presets and tiers; one line."""
        admitted = "" if self.admit_at == 1.0 else f", right from a reward of {self.admit_at:g}"
        if isinstance(self.draw, Listed) and len(self.presets) == 1:
            [(preset, tiers)] = self.presets.items()
            sizes = {
                split: sum(len(self.draw.instances(preset, tier.name, split)) for tier in tiers) for split in _SPLITS
            }
            by_split = ", ".join(f"{size:,} {split}" for split, size in sizes.items())
            return f"Task {self.name}: {counted(sum(sizes.values()), 'question')} ({by_split}){admitted}"
        presets = "; ".join(
            f"{preset} ({', '.join(tier.name + ' held out' * tier.held_out for tier in self.tiers(preset))})"
            for preset in self.presets
        )
        return f"Task {self.name}: {presets}{admitted}"

    def tiers(self, preset: str) -> tuple[TaskTier, ...]:
        """Tiers of a preset, its curriculum levels left out; KeyError where there is no such preset."""
        return tuple(tier for tier in self.presets[preset] if not tier.curriculum_level)

    def training_tiers(self, preset: str, *, ladder: bool = False) -> tuple[str, ...]:
        """Names of the tiers that training may sample; with `ladder`, of the curriculum levels below them, too."""
        return tuple(
            tier.name for tier in self.presets[preset] if not tier.held_out and (ladder or not tier.curriculum_level)
        )

    def token_budget(self, problem: Problem, limit: int | None = None) -> int:
        """Maximum tokens of a response: `limit`, by default its tier's or the task's; never above its tier's."""
        tiers = self.presets.get(problem.id.preset, ())
        own = next((tier.max_tokens for tier in tiers if tier.name == problem.tier), None)
        if own is None:
            return limit or self.max_tokens
        return min(own, limit or own)

    def judge(self, problem: Problem, completion: Completion, evidence: Evidence | None = None) -> tuple[Verdict, ...]:
        """What `verify` says of the answer, which is never shown what the model thought first.

        A thought that does not end is unreadable, whatever `verify` would say. Where `verify` raises, it has failed,
        and the answer is neither right nor wrong for that.
        """
        if is_unfinished(completion):
            return self._unfinished()
        try:
            return self.verify(problem, answer_of(completion), evidence)
        except Exception as error:  # It may be anybody's.
            return (verifier_failed(self.name, error),)

    def judge_all(self, answers: Sequence[tuple[Problem, Completion]]) -> Iterator[tuple[Verdict, ...]]:
        """Verdicts on several answers, as `judge` gives them, in order."""
        if isinstance(self.verify, Batched):
            finished = [(about, answer_of(each)) for about, each in answers if not is_unfinished(each)]
            verdicts = iter(self.verify.all(finished) if finished else ())
            yield from (self._unfinished() if is_unfinished(each) else next(verdicts) for _, each in answers)
        else:
            yield from (self.judge(problem, completion) for problem, completion in answers)

    def judge_steps(self, problem: Problem, text: str) -> tuple[Step, ...]:
        """What is to be said of the written steps, without those of what the model thought first, as in `judge`."""
        return self.teaching.check_steps(problem, without_thinking(text))

    def _unfinished(self) -> tuple[Verdict, ...]:
        reason = Violation("unfinished-thought", f"the text ends before {THINK_END}: it has no answer")
        return (Verdict("unreadable", 0.0, self.name, "", violations=(reason,)),)


def verifier_failed(evaluator: str, error: Exception) -> Verdict:
    """The verdict where a verifier raised."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return Verdict("failed", None, evaluator, "", {}, (Violation("verifier", f"the verifier raised {said}"),))


def answer_of(completion: Completion) -> Completion:
    """The completion without what the model thought first."""
    return evolve(completion, text=without_thinking(completion.text))


def of_listed(task: Task, preset: str, found: Iterable[tuple[str, Split, Any]]) -> Task:
    """Return the task over a fixed list of instances, each with its tier and split, under one preset.

    A tier without instances in the training split is held out. Prompt-blind baselines have no limits there.
    """
    listed: dict[tuple[str, Split], list[Any]] = defaultdict(list)
    for tier, split, instance in found:
        listed[tier, split].append(instance)
    tiers = dict.fromkeys(tier for tier, _ in listed)
    return evolve(
        task,
        presets={preset: tuple(TaskTier(tier, held_out=(tier, "train") not in listed) for tier in tiers)},
        draw=Listed(lambda _preset, tier, split: listed.get((tier, split), ())),
        references=evolve(task.references, limits={}),
    )
