"""The prompt of a question: background, evidence, opinion, question and answer format, each in several wordings.

The wording never depends on the outcome or the posterior. Knows nothing of families: their sentences come with the
question.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Literal

from attrs import evolve, frozen

from gce.domain.tasks.beliefs.question import BeliefQuestion, Opinion, Related

__all__ = [
    "ANSWER_FORMATS",
    "Wording",
    "after_pieces",
    "belief_prompt",
    "drawn_wording",
    "opinion_text",
    "opposite_of",
    "question_text",
    "questions_about",
    "side_texts",
    "situation_text",
    "with_opinion",
    "wording_of",
]

ANSWER_FORMATS = (
    "Reason first if you like. End with one line that gives the probability in percent, X being a number from 0 to "
    "100:\nAnswer: X %",
    "You may think step by step. The last line gives the probability as a percentage from 0 to 100, in this form:\n"
    "Answer: X %",
    "The last line of your reply states the probability, a decimal X from 0 to 1, in this form:\nAnswer: X",
)
_HEADINGS = ("Evidence:", "This is what is known:", "What has been found so far:")
_ASKED = (
    "What is the probability that {}?",
    "How probable is it that {}?",
    "Given all this, what is the probability that {}?",
)
_OPINIONS = ('A user says: "I am sure that {}."', 'A user tells you: "I believe that {}."')
_ASKED_OF_FILES = ('What is the probability of "{}"?', 'How probable is the answer "{}"?')

_OTHER: Mapping[Literal[0, 1, None], Literal[0, 1, None]] = {0: 1, 1: 0, None: None}
"""The other option or outcome."""


@frozen
class Wording:
    """The sentences that a prompt is made of; its variants are written in the same ones."""

    heading: str
    asked: str
    """With a place for the claim, or for the option of a question from a file."""
    answer_format: str
    opinion: str
    """With a place for what the user believes."""


def drawn_wording(question: BeliefQuestion, rng: random.Random) -> Wording:
    """Return a wording of the question, drawn from `rng`."""
    drawn = (rng.choice(each) for each in _choices(question))
    return Wording(*drawn)


def wording_of(question: BeliefQuestion, prompt: str) -> Wording:
    """Return the wording in which a prompt asks the question; of what it does not show, and of others, the first."""
    wordings = [Wording(*each) for each in product(*_choices(question))]
    return next((each for each in wordings if belief_prompt(question, each) == prompt), wordings[0])


def _choices(question: BeliefQuestion) -> tuple[Sequence[str], ...]:
    return (_HEADINGS, _ASKED if question.world is not None else _ASKED_OF_FILES, ANSWER_FORMATS, _OPINIONS)


def belief_prompt(question: BeliefQuestion, wording: Wording) -> str:
    """Return the prompt: situation, question and answer format."""
    parts = (situation_text(question, wording), question_text(question, wording), wording.answer_format)
    return "\n".join(filter(None, parts))


def situation_text(question: BeliefQuestion, wording: Wording) -> str:
    """Return background, evidence and opinion; of a question from a file, the question and its options, too."""
    numbered = len(question.evidence) > 1
    lines = [f"{number}. {each}" if numbered else each for number, each in enumerate(question.evidence, 1)]
    parts = [question.background, *([wording.heading, *lines] if lines else []), opinion_text(question, wording)]
    if question.world is None:
        parts += [question.claim, f"The answer is one of these: {question.options[0]}; {question.options[1]}."]
    return "\n".join(filter(None, parts))


def question_text(question: BeliefQuestion, wording: Wording) -> str:
    """Return the sentence that asks for the probability of the claim."""
    return wording.asked.format(question.claim if question.world is not None else question.options[0])


def side_texts(question: BeliefQuestion) -> tuple[str, str]:
    """Return the claim and its opposite as clauses."""
    if question.world is not None:
        return question.options
    first, second = (f'the answer is "{option}"' for option in question.options)
    return first, second


def opinion_text(question: BeliefQuestion, wording: Wording) -> str:
    """Return what a user says of the question, with the reliability if it is to be stated; empty if nothing."""
    opinion = question.opinion
    if opinion is None or opinion.option is None:
        return ""
    said = wording.opinion.format(side_texts(question)[opinion.option])
    if opinion.reliability is None:
        return said
    return f"{said} In such cases this user is right {100 * opinion.reliability:g} % of the time, whatever is true."


def with_opinion(
    question: BeliefQuestion, option: Literal[0, 1, None], reliability: float | None = None
) -> BeliefQuestion:
    """Return the question with a user who believes in this option; None for a user who says nothing.

    Raises:
        ValueError: another option, or a reliability that is not above 0 and below 1.
    """
    return evolve(question, opinion=Opinion(option, reliability))


def opposite_of(question: BeliefQuestion) -> BeliefQuestion:
    """Return the question whose claim is the opposite of this one's."""
    first, second = question.options

    def less(belief: float | None) -> float | None:
        return None if belief is None else 1.0 - belief

    opinion = question.opinion
    return evolve(
        question,
        claim=question.claim if question.world is None else second,
        options=(second, first),
        prior=less(question.prior),
        path=tuple(1.0 - each for each in question.path),
        posterior=less(question.posterior),
        outcome=_OTHER[question.outcome],
        posterior_with_withheld=less(question.posterior_with_withheld),
        opinion=None if opinion is None else evolve(opinion, option=_OTHER[opinion.option]),
        signals=tuple(-each for each in question.signals),
        related=(),
    )


def questions_about(question: BeliefQuestion, related: Related) -> tuple[BeliefQuestion, ...]:
    """Return a question about each of the related claims, whose posterior is known and whose outcome is not."""
    unknown = evolve(question, prior=None, path=(), outcome=None, posterior_with_withheld=None, signals=(), related=())
    return tuple(
        evolve(unknown, claim=claim, options=(claim, f"it is not so that {claim}"), posterior=posterior)
        for claim, posterior in zip(related.claims, related.posteriors, strict=True)
    )


def after_pieces(question: BeliefQuestion, pieces: int) -> BeliefQuestion:
    """Return the question as it stands after its first `pieces` pieces of evidence, 0 for none.

    Raises:
        ValueError: fewer than 0 or more than there are.
    """
    if not 0 <= pieces <= len(question.evidence):
        raise ValueError(f"expected 0 to {len(question.evidence)} pieces of evidence, got {pieces}")
    known: Sequence[float | None] = (question.prior, *question.path) if question.path else ()
    whole = pieces == len(question.evidence)
    return evolve(
        question,
        evidence=question.evidence[:pieces],
        path=question.path[:pieces],
        signals=question.signals[:pieces],
        related=question.related if whole else (),
        posterior=question.posterior if whole else (known[pieces] if known else None),
        withheld=question.withheld if whole else question.evidence[pieces],
        posterior_with_withheld=question.posterior_with_withheld if whole else (known[pieces + 1] if known else None),
    )
