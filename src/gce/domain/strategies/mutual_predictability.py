"""The mutual-predictability strategy: does knowing a policy's answers to other questions help to predict this one?

The policy answers other problems of the task and the problem itself; the predictor is asked for the log-probability of
its answer, yes or no, with the others in view and without. The answer to the problem itself counts.
"""

from __future__ import annotations

from attrs import evolve

from gce.domain.problems import Message, Problem
from gce.domain.strategies.predictions import LABELS, asked_for_label, belief_in, label_of, log_shares, needed, who
from gce.domain.strategies.reasoning import at_once
from gce.domain.strategies.requests import MODEL, Exchange, Failed, Score, Settings, Strategy, Turns
from gce.domain.tasks.task import Task

__all__ = ["MUTUAL_PREDICTABILITY"]


def _between(written: str) -> Strategy:
    predictor, plus, predicted = written.partition("+")
    judge, policy = who(predictor), who(predicted if plus else "evaluated")

    def converse(task: Task, problem: Problem, settings: Settings) -> Exchange:
        others: list[Turns] = [(each,) for each in settings.examples[problem.tier] if each.role == "user"]
        own = at_once(problem.prompt, settings)
        asked = [at_once(each, settings, to=policy, draft=True) for each in (*others, problem.prompt)]
        answers = yield (own, *asked[: -1 if policy == MODEL else None])
        last, *said = answers if policy != MODEL else (*answers, answers[0])
        if failed := next((each for each in said if isinstance(each, Failed)), None):
            return failed
        beliefs = [belief_in(task, each) for each in said]
        if beliefs[-1] is None:
            return (last,)
        labelled = _labelled(others, beliefs)
        target = asked_for_label(problem.prompt)
        scores = yield tuple(Score((*shown, *target), LABELS, to=judge) for shown in (labelled, ()))
        given, blind = map(log_shares, scores)
        if isinstance(given, Failed) or isinstance(blind, Failed):
            return given if isinstance(given, Failed) else Failed("the predictor gave no log-probabilities")
        label = label_of(beliefs[-1])
        return (evolve(last, notes={"predicted given": given[label], "predicted blind": blind[label]}),)

    return Strategy(
        "mutual-predictability",
        converse,
        "log-probability of the answer given answers to other questions, as many as shots; @PREDICTOR+PREDICTED: "
        "evaluated or another",
        needs=frozenset({"beliefs", "examples", "sample", needed(judge, "score"), needed(policy, "sample")}),
        options=_between,
    )


def _labelled(others: list[Turns], beliefs: list[float | None]) -> Turns:
    """Return the other questions with the policy's answers, of those that can be read."""
    return tuple(
        turn
        for turns, belief in zip(others, beliefs, strict=False)
        if belief is not None
        for turn in (*asked_for_label(turns), Message("assistant", label_of(belief)))
    )


MUTUAL_PREDICTABILITY = _between("evaluated+evaluated")
