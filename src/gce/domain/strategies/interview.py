"""The interview strategy: auxiliary questions first, then the problem.

Where the questions come from and what they aim at are options. The model's answers and its final answer are trained on;
questions that it writes as the interviewer, and the belief before the interview, are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from gce.domain.problems import Problem
from gce.domain.strategies.reasoning import before_reasoning
from gce.domain.strategies.requests import (
    Ask,
    Exchange,
    Settings,
    Strategy,
    Turns,
    continued,
    instructed,
    whole_number,
)
from gce.domain.tasks.task import Task, without_thinking

__all__ = ["INTERVIEW"]

FIXED = (
    "What is asked, and what is already known about it before any details, in your own words?",
    "Which details speak for it and which against it, and how strongly does each?",
    "Which detail is easily overrated or counted twice, and what would a careful person make of it?",
)
OTHER_DOMAINS = (
    "One person in a hundred has an illness. A test finds nine of ten ill people and gives a false alarm for one of "
    "ten healthy ones. Somebody tests positive. How likely is the illness, and why?",
    "Two newspapers report the same event. The second copied from the first. How much does it add, and why?",
    "A coin showed heads four times in a row. What do you expect of the next toss, and why?",
)
SOURCES: Mapping[str, str] = {
    "fixed": "the same questions about each problem",
    "same-domain": "other problems of the task",
    "other-domains": "the same questions from other domains",
    "written": "questions that the model writes at once",
    "adaptive": "questions that the model writes one after another, given the answers so far",
}
WRITTEN = ("written", "adaptive")
"""Sources whose questions the model writes; only these can have an aim."""
LISTS: Mapping[str, Sequence[str]] = {"fixed": FIXED, "other-domains": OTHER_DOMAINS}
AIMS: Mapping[str, str] = {
    "curriculum": "that go from easy to hard, each building on the one before",
    "contradiction-seeking": "that look for contradictions between what is given, what is assumed and what was said",
    "synergistic": "whose answers together say more about it than each of them alone",
    "socratic": "that probe assumptions, definitions and reasons and never suggest an answer",
}
COUNT, MOST = 3, 10
"""Questions by default, and at most."""
LONGEST = 500
"""Characters of a question that the model writes; the rest is cut off."""

FIRST = "Do not answer yet. First answer the questions of an interviewer, each in a few sentences.\nQuestion 1: {}"
NEXT = "Question {}: {}"
NOW_ANSWER = "The interview is over. Now give the answer to the problem itself, in the form that is asked for."
WRITE = (
    "Do not answer that. You prepare an interview with somebody who will answer it. Write {count} short questions "
    "{aim}, each on a line of its own and nothing else."
)
WRITE_NEXT = (
    "Do not answer that. You interview somebody who will answer it. So far:\n{said}\nWrite the next question, in a "
    "series of questions {aim}, on one line and nothing else."
)
_NUMBER = re.compile(r"^\s*(?:[-*]\s+|(?:Question\s+)?[0-9]{1,3}\s?[.):]\s*)")


@frozen
class _Interview:
    """Options of the strategy."""

    source: str = "fixed"
    aim: str = ""
    """Of questions that the model writes; empty for none in particular."""
    count: int = COUNT

    @property
    def aims(self) -> str:
        """What the questions aim at, in words."""
        return AIMS.get(self.aim, "whose answers help to answer it well")


Questions = Generator[Ask, Any, str | None]
"""Asks for what it takes to find the next question; None if there is no other."""
Interviewer = Callable[[Sequence[tuple[str, str]]], Questions]
"""(questions and answers so far) -> the next question."""


def _listed(questions: Sequence[str]) -> Interviewer:
    def following(said: Sequence[tuple[str, str]]) -> Questions:
        yield from ()
        return questions[len(said)] if len(said) < len(questions) else None

    return following


def _adaptive(chosen: _Interview, prompt: Turns) -> Interviewer:
    def following(said: Sequence[tuple[str, str]]) -> Questions:
        if len(said) == chosen.count:
            return None
        lines = "\n".join(f"Question: {question}\nReply: {reply}" for question, reply in said) or "Nothing was said."
        reply = yield Ask(instructed(prompt, WRITE_NEXT.format(said=lines, aim=chosen.aims)), draft=True)
        return next(iter(_questions_in(reply.completion.text)), None)

    return following


def _questions_in(text: str) -> list[str]:
    """The lines of a text that are not empty, without their numbers."""
    lines = (_NUMBER.sub("", line).strip() for line in without_thinking(text).split("\n"))
    return [line[:LONGEST] for line in lines if line]


def _interviewer(chosen: _Interview, problem: Problem, settings: Settings) -> Generator[Ask, Any, Interviewer]:
    if chosen.source == "adaptive":
        return _adaptive(chosen, problem.prompt)
    if chosen.source == "written":
        asked = instructed(problem.prompt, WRITE.format(count=chosen.count, aim=chosen.aims))
        reply = yield Ask(asked, draft=True)
        return _listed(_questions_in(reply.completion.text)[: chosen.count])
    if chosen.source == "same-domain":
        shown = settings.examples[problem.tier]
        return _listed([each.content for each in shown if each.role == "user"][: chosen.count])
    return _listed(LISTS[chosen.source][: chosen.count])


def _interview(chosen: _Interview) -> Strategy:
    def converse(task: Task, problem: Problem, settings: Settings) -> Exchange:
        asked = before_reasoning(task, problem, settings)
        before = (yield asked) if asked else ()
        interviewer = yield from _interviewer(chosen, problem, settings)
        turns, reply, said = problem.prompt, None, list[tuple[str, str]]()
        while (question := (yield from interviewer(said))) is not None:
            if reply is None:
                turns = instructed(turns, FIRST.format(question))
            else:
                turns = continued(turns, reply, NEXT.format(len(said) + 1, question))
            reply = yield Ask(turns, draft=True)
            said.append((question, reply.completion.text))
        if reply is not None:
            turns = continued(turns, reply, NOW_ANSWER)
        return (*before, (yield Ask(turns)))

    return Strategy(
        "interview",
        converse,
        f"{COUNT} auxiliary questions first; @OPTIONS joined by +: {', '.join(SOURCES)}; {', '.join(AIMS)}; a number",
        needs=frozenset({"sample", "examples"} if chosen.source == "same-domain" else {"sample"}),
        options=_with_options,
    )


def _with_options(written: str) -> Strategy:
    chosen = _Interview()
    for option in written.split("+"):
        if option in SOURCES:
            chosen = evolve(chosen, source=option)
        elif option in AIMS:
            chosen = evolve(chosen, aim=option)
        elif option.isdecimal():
            chosen = evolve(chosen, count=whole_number(option, 1, MOST))
        else:
            raise ValueError(f"expected {', '.join((*SOURCES, *AIMS))} or a number of questions, got {option!r:.40}")
    if chosen.aim and chosen.source not in WRITTEN:
        if any(option in SOURCES for option in written.split("+")):
            raise ValueError(f"expected an aim with {' or '.join(WRITTEN)} questions alone, got {written!r:.60}")
        chosen = evolve(chosen, source="adaptive")
    given = LISTS.get(chosen.source)
    if given and chosen.count > len(given):
        raise ValueError(f"expected at most {len(given)} {chosen.source} questions, got {chosen.count}")
    return _interview(chosen)


INTERVIEW = _interview(_Interview())
