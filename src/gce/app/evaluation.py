"""Greedy accuracy on given problems: asked of a sampler, judged by the task, with Wilson intervals.

Leaves no trace in the model: greedy decoding draws nothing, and nothing is learned from the answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from attrs import frozen

from gce.domain.randomness import key
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import Estimate, mean_pass_at_k, wilson
from gce.domain.tasks.task import Task
from gce.domain.types import Completion, Interval, Problem, SampleRequest, Verdict
from gce.errors import ModelError
from gce.ports.model import Sampler

__all__ = ["Judged", "accuracy", "answer_record", "ask", "judge", "judge_each", "pass_at", "sampled", "stored_shares"]


@frozen
class Judged:
    """One answer with its verdicts."""

    problem: Problem
    completion: Completion
    verdicts: tuple[Verdict, ...]
    right: bool

    @property
    def unanswered(self) -> bool:
        """Whether the model was asked and could not answer."""
        return self.completion.finish_reason == "error"


def judge(task: Task, problem: Problem, completion: Completion) -> Judged:
    """Verdicts of one answer."""
    (judged,) = judge_each(task, [(problem, completion)])
    return judged


def judge_each(task: Task, answers: Iterable[tuple[Problem, Completion]]) -> Iterator[Judged]:
    """Verdicts of answers, in their order; where they have to be run, several at a time, as they come."""
    for problem, completion, verdicts in task.judge_each(answers):
        yield Judged(problem, completion, verdicts, task.admit(verdicts))


def sampled(model: Sampler, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
    """What the model samples, held to the port's word: one completion for each request, with finite numbers.

    Raises:
        ModelError: an answer to what was not asked, a second one, none to what was, or NaN for a log-probability.
    """
    open_requests = {request.key for request in requests}
    for completion in model.sample(requests):
        if completion.key not in open_requests:
            raise ModelError(f"expected one answer to each request, got one to {completion.key!r}, which is not open")
        open_requests.remove(completion.key)
        for values in (completion.log_probabilities, completion.sampling_log_probabilities):
            if values is not None and not all(map(isfinite, values)):
                raise ModelError(
                    f"rollout {completion.key}: expected log-probabilities that are numbers, got NaN or infinity: the "
                    "model's weights may have overflowed, as where --learning-rate was too large"
                )
        yield completion
    if open_requests:
        raise ModelError(
            f"expected one answer to each request, got none to {len(open_requests)} of {len(requests)}, such as "
            f"{min(open_requests)}: the model's `sample` ended early"
        )


def ask(
    model: Sampler,
    task: Task,
    problems: Sequence[Problem],
    *,
    seed: int,
    max_tokens: int | None = None,
    on_answer: Callable[[], None] = lambda: None,
) -> list[Judged]:
    """A greedy answer to every problem, in the problems' order; `modes.converse` has other ways to ask."""
    by_key = {f"{problem.key}/0": problem for problem in problems}
    requests = [
        SampleRequest(
            name,
            problem.prompt,
            seed=key(seed, "evaluate", name),
            temperature=0.0,
            max_tokens=task.room(problem, max_tokens),
        )
        for name, problem in by_key.items()
    ]
    answers: dict[str, Judged] = {}
    for answer in judge_each(task, ((by_key[found.key], found) for found in sampled(model, requests))):
        answers[answer.completion.key] = answer
        on_answer()
    return [answers[request.key] for request in requests]


def answer_record(answer: Judged) -> dict[str, Any]:
    """An answer as it is stored: what was asked, what was written, and what it was judged to be."""
    completion = answer.completion
    return {
        "problem": answer.problem.key,
        "tier": answer.problem.tier,
        "prompt": to_plain(answer.problem.prompt),
        "text": completion.text,
        "tokens": completion.tokens,
        "finish_reason": completion.finish_reason,
        "policy": completion.policy,
        "right": answer.right,
        "verdicts": to_plain(answer.verdicts),
    }


def accuracy(answers: Iterable[Judged]) -> dict[str, Interval]:
    """Share right by tier, in the order in which tiers come."""
    right: dict[str, list[bool]] = defaultdict(list)
    for answer in answers:
        right[answer.problem.tier].append(answer.right)
    return {tier: wilson(sum(found), len(found)) for tier, found in right.items()}


def stored_shares(row: Mapping[str, Any]) -> dict[str, Interval]:
    """What `accuracy` found, read back from a record."""
    return {tier: from_plain(Interval, found) for tier, found in row.items()}


def pass_at(answers: Iterable[Judged]) -> dict[str, dict[str, Estimate]]:
    """By "pass@k", for k of 1, 8, 64 ... up to the samples a problem has, then by tier: see `mean_pass_at_k`."""
    right: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        right[answer.problem.tier][answer.problem.key].append(answer.right)
    counts = {tier: [(len(each), sum(each)) for each in found.values()] for tier, found in right.items()}
    samples = min((n for found in counts.values() for n, _ in found), default=0)
    passed, k = {}, 1
    while k <= samples:
        passed[f"pass@{k}"] = {tier: mean_pass_at_k(found, k) for tier, found in counts.items()}
        k *= 8
    return passed
