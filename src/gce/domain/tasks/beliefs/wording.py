"""The prompt of a question: background, evidence, opinion, question and answer format, each in several wordings.

The wording never depends on the outcome or the posterior. Knows nothing of families: their sentences come with the
question.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from attrs import evolve

from gce.domain.tasks.beliefs.question import BeliefQuestion, Opinion

__all__ = ["ANSWER_FORMATS", "after_pieces", "belief_prompt", "opinion_text", "question_text", "with_opinion"]

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
_ASKED_OF_FILES = ('What is the probability of "{option}"?', 'How probable is the answer "{option}"?')


def belief_prompt(question: BeliefQuestion, rng: random.Random, *, answer_format: str | None = None) -> str:
    """Return the prompt; the wording is drawn from `rng`, the answer format too unless one is given ("" for none)."""
    heading, asked = rng.choice(_HEADINGS), question_text(question, rng)
    numbered = len(question.evidence) > 1
    lines = [f"{number}. {each}" if numbered else each for number, each in enumerate(question.evidence, 1)]
    chosen = rng.choice(ANSWER_FORMATS)
    parts = [
        question.background,
        *([heading, *lines] if lines else []),
        opinion_text(question, rng),
        asked,
        chosen if answer_format is None else answer_format,
    ]
    return "\n".join(filter(None, parts))


def question_text(question: BeliefQuestion, rng: random.Random) -> str:
    """Return the sentence that asks for the probability of the claim."""
    if question.world is not None:
        return rng.choice(_ASKED).format(question.claim)
    options = f"The answer is one of these: {question.options[0]}; {question.options[1]}."
    return f"{question.claim}\n{options}\n{rng.choice(_ASKED_OF_FILES).format(option=question.options[0])}"


def opinion_text(question: BeliefQuestion, rng: random.Random) -> str:
    """Return what a user says of the question, with the reliability if it is to be stated; empty if nothing."""
    opinion, wording = question.opinion, rng.choice(_OPINIONS)
    if opinion is None or opinion.option is None:
        return ""
    option = question.options[opinion.option]
    said = wording.format(option if question.world is not None else f'the answer is "{option}"')
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
