"""The world-in-the-loop strategy: does the model's reasoning help a forecaster to predict what the world does next?

The report that is to be predicted is a further piece of evidence, which the simulator drew and the problem withholds.
The forecaster knows the question, not the evidence; its log-probabilities of the report with the model's reasoning in
view and without are noted beside the answer, which counts and is trained on.
"""

from __future__ import annotations

from math import fsum, isfinite

from attrs import evolve

from gce.domain.problems import Message, Problem
from gce.domain.strategies.predictions import needed, quoted, who
from gce.domain.strategies.reasoning import STEP_BY_STEP
from gce.domain.strategies.requests import (
    Ask,
    Exchange,
    Failed,
    Score,
    Settings,
    Strategy,
    Turns,
    beliefs_of,
    instructed,
)
from gce.domain.tasks.task import Task

__all__ = ["WORLD_IN_THE_LOOP"]

TEMPLATES = ("vanilla", "rephrase", "toolcall")
PREDICT = "{}\nAfter that, one more piece of evidence arrives. Write down what it says, and nothing else."
KNOWS = "Somebody who knows the evidence so far wrote:\n{}"
REPHRASE = "State in your own words, in a few sentences, what follows from that. {}"
CALL = "I look up what is known so far: notes()"
RESULT = "The tool notes() returned:\n{}\nNow write down what the next piece of evidence says, and nothing else."


def _with_template(written: str) -> Strategy:
    template, plus, forecaster = written.partition("+")
    if template not in TEMPLATES:
        raise ValueError(f"expected {', '.join(TEMPLATES)}, got {template!r:.40}")
    role = who(forecaster if plus else "evaluated")

    def converse(task: Task, problem: Problem, _settings: Settings) -> Exchange:
        known = beliefs_of(task)
        last = yield Ask(instructed(problem.prompt, STEP_BY_STEP))
        report = known.withheld(problem)
        if not report:
            return (last,)
        question = known.question(problem)
        situation = (Message("user", f"{known.situation(known.after(problem, 0))}\n{question}"),)
        trajectory = quoted(last.completion.text)
        if template == "rephrase":
            told = instructed(situation, f"{KNOWS.format(trajectory)}\n{REPHRASE.format(question)}")
            rephrased = yield Ask(told, to=role, draft=True)
            if isinstance(rephrased, Failed):
                return rephrased
            trajectory = quoted(rephrased.completion.text)
        blind = (Message("user", PREDICT.format(situation[0].content)),)
        given = _shown(template, situation, blind, trajectory)
        scores = yield tuple(Score(turns, (report,), to=role) for turns in (given, blind))
        for each in scores:
            if isinstance(each, Failed):
                return each
        sums = [min(fsum(each), 0.0) for (each,) in scores]
        if not all(map(isfinite, sums)):
            return Failed("the forecaster's log-probabilities of the report are no numbers")
        notes = {"report given": sums[0], "report blind": sums[1], "report tokens": float(len(scores[0][0]))}
        return (evolve(last, notes=notes),)

    return Strategy(
        "world-in-the-loop",
        converse,
        f"how much the reasoning helps to predict the world's next report; @{', @'.join(TEMPLATES)}, then +another",
        needs=frozenset({"sample", "beliefs", needed(role, "score")})
        | ({needed(role, "sample")} if template == "rephrase" else set()),
        options=_with_template,
    )


def _shown(template: str, situation: Turns, blind: Turns, trajectory: str) -> Turns:
    if template == "toolcall":
        return (*blind, Message("assistant", CALL), Message("user", RESULT.format(trajectory)))
    return (Message("user", PREDICT.format(f"{situation[0].content}\n{KNOWS.format(trajectory)}")),)


WORLD_IN_THE_LOOP = _with_template("vanilla")
