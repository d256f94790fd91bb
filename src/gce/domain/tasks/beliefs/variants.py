"""Variants of a question of belief for strategies: fewer pieces of evidence, a user's opinion, other ways to ask.

All variants of a problem are written in the wording of its prompt. Knows nothing of strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import evolve

from gce.domain.problems import Message, Problem
from gce.domain.tasks.beliefs.answer import parse, render
from gce.domain.tasks.beliefs.generate import digest_of_world
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.beliefs.wording import (
    Wording,
    after_pieces,
    belief_prompt,
    opposite_of,
    question_text,
    questions_about,
    side_texts,
    situation_text,
    with_opinion,
    wording_of,
)
from gce.domain.tasks.parts import Beliefs
from gce.domain.verdicts import Violation

__all__ = ["ELICITING"]


def _wording(problem: Problem) -> Wording:
    return wording_of(problem.instance, problem.prompt[-1].content if problem.prompt else "")


def _variant(problem: Problem, question: BeliefQuestion) -> Problem:
    """The problem with this question in its place; the problem itself if that is its own."""
    if question == problem.instance:
        return problem
    prompt = (Message("user", belief_prompt(question, _wording(problem))),)
    world = question.world
    digest = problem.digest if world is None else digest_of_world(world, len(question.evidence))
    return evolve(problem, instance=question, prompt=(*problem.prompt[:-1], *prompt), digest=digest)


def _after(problem: Problem, pieces: int) -> Problem:
    return _variant(problem, after_pieces(problem.instance, pieces))


def _with_opinion(problem: Problem, option: Literal[0, 1], reliability: float | None) -> Problem:
    return _variant(problem, with_opinion(problem.instance, option, reliability))


def _opposite(problem: Problem) -> Problem:
    return _variant(problem, opposite_of(problem.instance))


def _related(problem: Problem) -> Mapping[Literal["implication", "partition"], tuple[Problem, ...]]:
    question: BeliefQuestion = problem.instance
    return {
        each.kind: tuple(_variant(problem, asked) for asked in questions_about(question, each))
        for each in question.related
    }


def _read(text: str) -> float | None:
    belief = parse(text, final_belief=True)
    return None if isinstance(belief, Violation) else belief


ELICITING = Beliefs(
    evidence=lambda problem: problem.instance.evidence,
    after=_after,
    with_opinion=_with_opinion,
    opposite=_opposite,
    related=_related,
    withheld=lambda problem: problem.instance.withheld,
    situation=lambda problem: situation_text(problem.instance, _wording(problem)),
    question=lambda problem: question_text(problem.instance, _wording(problem)),
    sides=lambda problem: side_texts(problem.instance),
    read=_read,
    write=render,
)
