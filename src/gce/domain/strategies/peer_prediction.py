"""The peer-prediction strategy: does a policy's answer help to predict what another policy answers?

Both answer the problem; then both, as judges who know the question but not the evidence, are asked for the
log-probability of the other policy's answer, yes or no, with the evaluated policy's answer in view and without.
"""

from __future__ import annotations

from attrs import evolve

from gce.domain.problems import Problem
from gce.domain.strategies.predictions import LABELS, asked_for_label, belief_in, label_of, log_shares, quoted
from gce.domain.strategies.reasoning import at_once
from gce.domain.strategies.requests import (
    ANOTHER,
    MODEL,
    Exchange,
    Failed,
    Score,
    Settings,
    Strategy,
    beliefs_of,
    instructed,
)
from gce.domain.tasks.task import Task

__all__ = ["PEER_PREDICTION"]

KNOWS = "Somebody who knows all evidence gave this answer:\n{}"
GUESS = "Guess what another person answers who knows all evidence, too."


def _peer_prediction(task: Task, problem: Problem, settings: Settings) -> Exchange:
    last, peer = yield at_once(problem.prompt, settings), at_once(problem.prompt, settings, to=ANOTHER, draft=True)
    if isinstance(peer, Failed):
        return peer
    predicted = belief_in(task, peer)
    if predicted is None:
        return (last,)
    unaware = beliefs_of(task).after(problem, 0).prompt
    told = instructed(unaware, KNOWS.format(quoted(last.completion.text)))
    scores = yield tuple(
        Score(asked_for_label(instructed(turns, GUESS)), LABELS, to=judge)
        for judge in (MODEL, ANOTHER)
        for turns in (told, unaware)
    )
    notes = {}
    names = (f"{who} {what}" for who in ("own", "peer's") for what in ("given", "blind"))
    for name, shares in zip(names, map(log_shares, scores), strict=True):
        if isinstance(shares, Failed):
            return shares
        notes[name] = shares[label_of(predicted)]
    return (evolve(last, notes=notes),)


PEER_PREDICTION = Strategy(
    "peer-prediction",
    _peer_prediction,
    "how much the answer helps two judges without the evidence to predict another model's; needs --models",
    needs=frozenset({"sample", "score", "another.sample", "another.score", "beliefs"}),
)
