"""Parts of strategies in which a model predicts somebody's answer: the yes-or-no question, and quoted text."""

from __future__ import annotations

from math import exp, fsum, isfinite, log

from gce.domain.answers import Answer
from gce.domain.strategies.requests import ANOTHER, MODEL, Failed, Reply, Turns, beliefs_of, instructed
from gce.domain.tasks.task import Task, without_thinking

__all__ = [
    "LABELS",
    "LEAST",
    "NO",
    "YES",
    "asked_for_label",
    "belief_in",
    "label_of",
    "log_shares",
    "needed",
    "quoted",
    "who",
]

YES, NO = LABELS = ("Yes", "No")
CHOOSE = "Do not state a probability. Is it at least as likely as not? Reply with the word Yes or No alone."
LEAST = log(1e-6)
"""Least log-probability of a label: less counts as this much."""
LONGEST = 20_000
"""Characters of a quoted text; the rest is cut off."""


def asked_for_label(turns: Turns) -> Turns:
    """Return the conversation with the request for Yes or No in place of a probability."""
    return instructed(turns, CHOOSE)


def belief_in(task: Task, answer: Answer) -> float | None:
    """Return the probability that an answer states, judged or not; None if it states none."""
    return beliefs_of(task).read(without_thinking(answer.completion.text))


def label_of(belief: float) -> str:
    """Return the label that a belief stands for: yes from 0.5."""
    return YES if belief >= 0.5 else NO


def log_shares(reply: Reply) -> dict[str, float] | Failed:
    """Return the log-probability of each of `LABELS` given that it is one of them, at least `LEAST`."""
    if isinstance(reply, Failed):
        return reply
    assert isinstance(reply, tuple)
    yes, no = (fsum(each) for each in reply)
    if not isfinite(yes - no):
        return Failed("the model's log-probabilities of Yes and No are no numbers")
    return {YES: max(-_softplus(no - yes), LEAST), NO: max(-_softplus(yes - no), LEAST)}


def _softplus(x: float) -> float:
    return max(x, 0.0) + log(1.0 + exp(-abs(x)))


def quoted(text: str) -> str:
    """Return a model's text as a quotation, cut to `LONGEST` characters, which no text can end early."""
    inside = without_thinking(text)[:LONGEST].replace('"""', "'''").strip()
    return f'"""\n{inside}\n"""'


def needed(role: str, ability: str) -> str:
    """Return what a strategy needs where the model in this role must be able to do this."""
    return ability if role == MODEL else f"{role}.{ability}"


def who(written: str) -> str:
    """Return the role that an option names.

    Raises:
        ValueError: it names none.
    """
    roles = {"evaluated": MODEL, ANOTHER: ANOTHER}
    if written not in roles:
        raise ValueError(f"expected {' or '.join(roles)}, got {written!r:.40}")
    return roles[written]
