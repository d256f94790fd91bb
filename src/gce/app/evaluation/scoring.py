"""Answers to given problems: asked of a sampler, judged by the task, tried again where that failed; and their rates.

Leaves no trace in the model: greedy decoding draws nothing, and nothing is learned from the answers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import floor, isfinite
from typing import Any

from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion, SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval
from gce.domain.metrics import by_tier
from gce.domain.metrics.rates import ACCURACY
from gce.domain.outcomes import rate
from gce.domain.problems import Problem
from gce.domain.randomness import key
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks.task import Task
from gce.domain.verdicts import Status
from gce.errors import BadInput, LowCoverage, ModelError
from gce.ports.evaluator import Evaluator
from gce.ports.model import Sampler

__all__ = [
    "COVERAGE_HELP",
    "MIN_COVERAGE",
    "OPTION",
    "RESUME",
    "accuracy",
    "answer_record",
    "answered",
    "ask",
    "check_answers",
    "check_coverage",
    "judge",
    "judge_each",
    "sampled",
    "stored_accuracy",
    "stored_outcome",
    "stored_reward",
    "stored_shares",
]

MIN_COVERAGE = 0.98
COVERAGE_HELP = (
    "minimum share of answers that are given and judged; below it the command exits with status 3 and says what failed"
)
REASONS = 3
"""Of those for which answers failed, that are named."""


RETRIES = 1
"""How often an answer that failed is asked for, or judged, again; servers and sandboxes have tries of their own."""


def judge(task: Task, evaluator: Evaluator, problem: Problem, completion: Completion) -> Answer:
    """One answer, judged."""
    (judged,) = judge_each(task, evaluator, [(problem, completion)])
    return judged


def judge_each(task: Task, evaluator: Evaluator, answers: Iterable[tuple[Problem, Completion]]) -> Iterator[Answer]:
    """Answers judged, in their order; where they have to be run, several at a time, as they come.

    Raises:
        BadInput: the evaluator left one out, or judged what it was not given.
    """
    waiting: deque[str] = deque()

    def noted() -> Iterator[tuple[Problem, Completion]]:
        for problem, completion in answers:
            waiting.append(completion.key)
            yield problem, completion

    for problem, completion, verdicts in evaluator.judge(noted()):
        if not waiting or waiting.popleft() != completion.key:
            raise BadInput(
                f"expected the evaluator to judge each answer once, in order, got {completion.key!r} instead"
            )
        yield answered_by(task, problem, completion, verdicts)
    if waiting:
        raise BadInput(f"expected the evaluator to judge each answer, got no verdict on {waiting[0]!r}")


def answered(
    model: Sampler,
    task: Task,
    evaluator: Evaluator,
    requests: Sequence[SampleRequest],
    about: Mapping[str, Problem],
    *,
    drafts: Container[str] = frozenset(),
) -> Iterator[Answer]:
    """A judged answer to each request, as they come; `drafts`, by key, are not judged.

    What fails is asked for, or judged, again after all others, `RETRIES` times at most, and comes as it is then.
    """
    asked, kept = list(requests), list[Completion]()
    for retry in range(RETRIES + 1):
        failed: list[Answer] = []
        completions = chain(kept, sampled(model, asked) if asked else ())
        for answer in _judged(task, evaluator, completions, about, drafts):
            if answer.failed and retry < RETRIES:
                failed.append(answer)
            else:
                yield answer
        unanswered = {answer.completion.key for answer in failed if answer.completion.finish_reason == "error"}
        asked = [request for request in asked if request.key in unanswered]
        kept = [answer.completion for answer in failed if answer.completion.key not in unanswered]
        if not failed:
            return


def _judged(
    task: Task,
    evaluator: Evaluator,
    completions: Iterable[Completion],
    about: Mapping[str, Problem],
    drafts: Container[str],
) -> Iterator[Answer]:
    unjudged: list[Answer] = []

    def final() -> Iterator[tuple[Problem, Completion]]:
        for completion in completions:
            problem = about[completion.key]
            if completion.key in drafts or completion.finish_reason == "error":
                unjudged.append(Answer(problem, completion, (), None, False))
            else:
                yield problem, completion

    yield from judge_each(task, evaluator, final())
    yield from unjudged


REPEAT = "try again once that is mended"
"""What can be done where answers failed."""
OPTION = f"{REPEAT}, or lower {{min_coverage}}"
"""The same where there is such a setting."""
RESUME = "resume the run once that is mended, or lower {min_coverage}"
"""The same in a training run."""


def check_coverage(
    what: str, failed: int, asked: int, least: float, reasons: Iterable[str] = (), *, hint: str = REPEAT
) -> None:
    """Refuse to go on with rates over too few answers.

    Raises:
        LowCoverage: so many of those `asked` failed that less than the share `least` is left; with the first reasons.
    """
    if not asked or (asked - failed) / asked >= least:
        return
    said = "; ".join(
        f"{reason} ({count} times)" if count > 1 else reason for reason, count in Counter(reasons).most_common(REASONS)
    )
    raise LowCoverage(
        f"{what}: {failed} of {asked} answers could not be given or judged{said and ': '}{said}. Coverage is "
        f"{floor(1000 * (asked - failed) / asked) / 10:g} %, below the limit of {100 * least:g} %",
        hint=hint,
    )


def check_answers(what: str, answers: Iterable[Answer], least: float, *, hint: str = REPEAT) -> None:
    """The same for answers, with why they failed."""
    found = list(answers)
    reasons = [f"{answer.problem.tier}: {answer.reason}" for answer in found if answer.failed]
    check_coverage(what, len(reasons), len(found), least, reasons, hint=hint)


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
                    "model's weights may have overflowed, as where the learning rate was too large"
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
    evaluator: Evaluator,
    problems: Sequence[Problem],
    *,
    seed: int,
    max_tokens: int | None = None,
    on_answer: Callable[[], None] = lambda: None,
) -> list[Answer]:
    """A greedy answer to every problem, in the problems' order; `conversations.converse` has other ways to ask."""
    by_key = {f"{problem.key}/0": problem for problem in problems}
    requests = [
        SampleRequest(
            name,
            problem.prompt,
            seed=key(seed, "evaluate", name),
            temperature=0.0,
            max_tokens=task.token_budget(problem, max_tokens),
        )
        for name, problem in by_key.items()
    ]
    answers: dict[str, Answer] = {}
    for answer in answered(model, task, evaluator, requests, by_key):
        answers[answer.completion.key] = answer
        on_answer()
    return [answers[request.key] for request in requests]


def answer_record(answer: Answer) -> dict[str, Any]:
    """An answer as it is stored: what was asked, what was written, and what it was judged to be.

    The reward is left out where it is 1 for a right answer or 0 for any other, the raw score where there is none.
    """
    completion = answer.completion
    return {
        "problem": answer.problem.key,
        "digest": answer.problem.digest,
        "tier": answer.problem.tier,
        "prompt": to_plain(answer.problem.prompt),
        "text": completion.text,
        **({"reasoning": completion.reasoning} if completion.reasoning else {}),
        "tokens": completion.tokens,
        "finish_reason": completion.finish_reason,
        "policy": completion.policy,
        "right": answer.right,
        "outcome": answer.outcome,
        "verdicts": to_plain(answer.verdicts),
        **({} if answer.reward in (None, float(answer.right)) else {"reward": answer.reward}),
        **({} if answer.score is None else {"score": answer.score}),
    }


def stored_outcome(record: Mapping[str, Any]) -> Status:
    """The outcome of a stored answer or rollout; records of earlier versions do not name it."""
    if "outcome" in record:
        found: Status = record["outcome"]
        return found
    failed = any(verdict["status"] in ("failed", "no_verdict") for verdict in record["verdicts"])
    if record["finish_reason"] == "error" or failed:
        return "failed"
    return "right" if record["right"] else "wrong"


def stored_reward(record: Mapping[str, Any]) -> float | None:
    """The reward of a stored answer; None where it failed."""
    if stored_outcome(record) == "failed":
        return None
    reward: float = record.get("reward", float(record["right"]))
    return reward


def stored_accuracy(records: Iterable[Mapping[str, Any]]) -> dict[str, Interval]:
    """Share right by tier of stored answers, in the order in which tiers come."""
    found: dict[str, list[Status]] = {}
    for record in records:
        found.setdefault(record["tier"], []).append(stored_outcome(record))
    return {tier: rate(each) for tier, each in found.items()}


def accuracy(answers: Iterable[Answer]) -> dict[str, Interval]:
    """Share right by tier, in the order in which tiers come."""
    return by_tier(ACCURACY, [Conversation((answer,)) for answer in answers])


def stored_shares(row: Mapping[str, Any]) -> dict[str, Interval]:
    """What `accuracy` found, read back from a record."""
    return {tier: from_plain(Interval, found) for tier, found in row.items()}
