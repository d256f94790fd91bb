"""The revise strategy: an answer, revisions of it while a trigger fires, and the answer that a critic prefers.

No verifier is asked before the conversation has ended: triggers and choice know what the critic predicts and what the
model states. All replies that lead to the answer that counts are trained on, so that revising can be learned.
Source: the revision engine of ScalarScope, its sections and thresholds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, get_args

from attrs import evolve, field, frozen, validators

from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.evaluators.critic import first_half, likelihood
from gce.domain.problems import Problem
from gce.domain.strategies.requests import Ask, Exchange, Settings, Strategy, continued, instructed, whole_number
from gce.domain.tasks.task import Task, without_thinking

__all__ = ["REVISE", "Predictor", "Trigger", "revise", "stated_confidence"]

Predictor = Callable[[Problem, Completion], float | None]
"""A critic: predicts the score of an answer, in [0, 1]; None where it cannot."""
Trigger = Literal["always", "low", "disagreement", "surprise", "confident"]
Keep = Literal["keep-best", "keep-always", "keep-first"]
TRIGGERS: Mapping[str, Trigger] = {each: each for each in get_args(Trigger)}
KEEPS: Mapping[str, Keep] = {each: each for each in get_args(Keep)}

MOST = 5
"""Revisions, at most."""
LOW, SURPRISE, DISAGREEMENT, CONFIDENT = 0.5, 0.5, 0.3, 0.7
THRESHOLDS: Mapping[Trigger, float] = {"low": LOW, "disagreement": DISAGREEMENT, "surprise": SURPRISE}
"""By trigger, where no other is given."""

AGAIN = "Check that answer against the problem. Then answer once more, in the form that is asked for."
SECTIONS = (
    "Write these sections, each below its name on a line of its own: {first}REASONING, CONFIDENCE (the probability "
    "from 0 to 1 that the answer is right), ANSWER (in the form that is asked for)."
)
_CONFIDENCE = re.compile(
    r"^[#* ]{0,9}CONFIDENCE[:* ]{0,9}\n?[* ]{0,9}([0-9]{1,3}(?:\.[0-9]{1,9})?) ?(%?)", re.MULTILINE
)


@frozen
class _Options:
    """Options of the strategy."""

    most: int = 1
    trigger: Trigger = field(default="low", validator=validators.in_(TRIGGERS))
    threshold: float | None = None
    """None for that of the trigger."""
    sections: bool = False
    keep: Keep = "keep-best"


@frozen
class _Reply:
    """A reply, and what is known of it without a verifier."""

    answer: Answer
    predicted: float | None
    before: float | None
    """Predicted from its first half."""
    stated: float | None


def revise(
    predict: Predictor = lambda _problem, completion: likelihood(completion),
    *,
    name: str = "revise",
    options: str = "",
) -> Strategy:
    """Return the strategy with a critic of one's own, such as one that `fit_critic` has fitted.

    Args:
        predict: the critic; by default the likelihood of the answer's tokens, their geometric mean probability.
        name: of the strategy.
        options: as after `revise@`: revisions at most, a trigger, a threshold with a decimal point, `sections`, and
            which answer counts.

    Raises:
        ValueError: other options.
    """
    chosen = _read(options) if options else _Options()

    def converse(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
        turns = problem.prompt
        if chosen.sections:
            turns = instructed(turns, SECTIONS.format(first=""))
        again = f"{AGAIN}\n{SECTIONS.format(first='CHANGES, ')}" if chosen.sections else AGAIN
        replies = list[_Reply]()
        while True:
            answer = yield Ask(turns, draft=True)
            replies.append(_assessed(predict, problem, answer))
            full = answer.completion.finish_reason == "context"
            if full or len(replies) > chosen.most or not _fires(chosen, replies[-1]):
                return _attempts(replies[:-1] if full and len(replies) > 1 else replies, chosen.keep)
            turns = continued(turns, answer, again)

    return Strategy(
        name,
        converse,
        f"the answer that a critic prefers, of the first one and revisions; @OPTIONS joined by +: a number (1), "
        f"{', '.join(TRIGGERS)}, a threshold (0.5), sections, {', '.join(KEEPS)}",
        options=lambda written: revise(predict, name=name, options=written),
    )


def stated_confidence(text: str) -> float | None:
    """Return the probability below the last heading CONFIDENCE; None without one in [0, 1]."""
    found = _CONFIDENCE.findall(without_thinking(text))
    value = float(found[-1][0]) / (100.0 if found[-1][1] else 1.0) if found else 2.0
    return value if value <= 1.0 else None


def _read(written: str) -> _Options:
    chosen = _Options()
    for option in written.split("+"):
        if option in TRIGGERS:
            chosen = evolve(chosen, trigger=TRIGGERS[option])
        elif option in KEEPS:
            chosen = evolve(chosen, keep=KEEPS[option])
        elif option == "sections":
            chosen = evolve(chosen, sections=True)
        elif re.fullmatch(r"0\.[0-9]{1,6}", option):
            chosen = evolve(chosen, threshold=float(option))
        elif option.isdecimal():
            chosen = evolve(chosen, most=whole_number(option, 1, MOST))
        else:
            known = ", ".join((*TRIGGERS, "sections", *KEEPS))
            raise ValueError(f"expected {known}, a number of revisions or a threshold as 0.5, got {option!r:.40}")
    if chosen.threshold is not None and chosen.trigger not in THRESHOLDS:
        raise ValueError(f"expected a threshold with {' or '.join(THRESHOLDS)} alone, got {written!r:.60}")
    if chosen.trigger in ("disagreement", "confident") and not chosen.sections:
        raise ValueError(f"{chosen.trigger} needs the model's own confidence: add +sections to {written!r:.60}")
    return chosen


def _assessed(predict: Predictor, problem: Problem, answer: Answer) -> _Reply:
    said: Completion = answer.completion
    predicted, before = predict(problem, said), predict(problem, first_half(said))
    return _Reply(answer, predicted, before, stated_confidence(said.text))


def _fires(chosen: _Options, reply: _Reply) -> bool:
    """Whether a reply is to be revised. What is unknown does not fire, but for a low score, which it may be."""
    limit = THRESHOLDS.get(chosen.trigger, 0.0) if chosen.threshold is None else chosen.threshold
    if chosen.trigger == "always":
        return True
    if reply.predicted is None:
        return chosen.trigger == "low"
    if chosen.trigger == "low":
        return reply.predicted < limit
    if chosen.trigger == "surprise":
        return reply.before is not None and abs(reply.predicted - reply.before) > limit
    if reply.stated is None:
        return False
    # The disagreement of two scores, as of evaluators: their variance as a share of 1/4, the largest possible one.
    apart = (reply.predicted - reply.stated) ** 2
    if chosen.trigger == "disagreement":
        return apart > limit
    return reply.stated > CONFIDENT and reply.predicted < reply.stated and apart > DISAGREEMENT


def _attempts(replies: list[_Reply], keep: Keep) -> tuple[Answer, ...]:
    """The first reply and its revisions as readings, and last the one that counts; of equal ones the earlier."""
    predicted = [-1.0 if each.predicted is None else each.predicted for each in replies]
    kept = {"keep-first": 0, "keep-always": len(replies) - 1}.get(keep, predicted.index(max(predicted)))
    notes = {"kept": float(kept), "best": float(predicted.index(max(predicted)))}
    if replies[kept].predicted is not None:
        notes["predicted"] = predicted[kept]
    counts = evolve(replies[kept].answer, notes=notes)
    first, *revised = (each.answer for each in replies)
    readings = (evolve(first, reading="first"), *(evolve(each, reading="revised") for each in revised))
    return (*readings, counts)


REVISE = revise()
