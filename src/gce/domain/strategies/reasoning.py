"""Strategies that differ in how much a model reasons before it answers: not at all, step by step, or up to a length.

On a task whose answers are probabilities, those with reasoning first ask for the answer without any: how beliefs change
by reasoning is then measured as their change with evidence is. That first answer is not trained on, the reasoning is.
"""

from __future__ import annotations

from attrs import evolve

from gce.domain.problems import Problem
from gce.domain.strategies.requests import (
    MODEL,
    Ask,
    Exchange,
    Settings,
    Strategy,
    Turns,
    continued,
    instructed,
    whole_number,
)
from gce.domain.tasks.task import Task

__all__ = ["CHAIN_OF_THOUGHT", "DIRECT", "LENGTH_CONTROLLED", "STEP_BY_STEP", "at_once", "before_reasoning"]

ANSWER_ALONE = "Do not reason. Reply with the answer alone, in the form that is asked for."
STEP_BY_STEP = "Think step by step before you answer, and write your reasoning down."
DRAFT = "Do not answer yet. Reason about it in at most {words} words."
NOW_ANSWER = "Now give the answer alone, in the form that is asked for."

SHORT = 48
"""Maximum tokens of an answer without reasoning that does not count."""
LENGTH, MOST = 128, 100_000
"""Tokens of reasoning by default, and at most."""
WORDS_PER_TOKEN = 0.75


def before_reasoning(task: Task, problem: Problem, settings: Settings) -> tuple[Ask, ...]:
    """Return the request for a belief before any reasoning; nothing for a task without beliefs."""
    if task.teaching.beliefs is None:
        return ()
    return (evolve(at_once(problem.prompt, settings), reading="before"),)


def at_once(turns: Turns, settings: Settings, *, to: str = MODEL, draft: bool = False) -> Ask:
    """Return the request for an answer without any reasoning."""
    limit = min(settings.max_tokens or SHORT, SHORT)
    return Ask(instructed(turns, ANSWER_ALONE), to=to, draft=draft, max_tokens=limit)


def _direct(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
    return ((yield Ask(instructed(problem.prompt, ANSWER_ALONE))),)


def _chain_of_thought(task: Task, problem: Problem, settings: Settings) -> Exchange:
    asked = Ask(instructed(problem.prompt, STEP_BY_STEP))
    replies = yield (*before_reasoning(task, problem, settings), asked)
    return tuple(replies)


def _with_length(written: str) -> Strategy:
    tokens = whole_number(written, 1, MOST)

    def converse(task: Task, problem: Problem, settings: Settings) -> Exchange:
        turns = instructed(problem.prompt, DRAFT.format(words=max(1, int(WORDS_PER_TOKEN * tokens))))
        asked = Ask(turns, draft=True, max_tokens=tokens)
        *before, draft = yield (*before_reasoning(task, problem, settings), asked)
        return (*before, (yield Ask(continued(turns, draft, NOW_ANSWER))))

    return Strategy(
        "length-controlled",
        converse,
        f"reasoning that is cut off after {LENGTH} tokens, then the answer; @N cuts it off after N",
        options=_with_length,
    )


DIRECT = Strategy("direct", _direct, "the answer alone: the prompt, and that no reasoning is wanted")
CHAIN_OF_THOUGHT = Strategy("chain-of-thought", _chain_of_thought, "step-by-step reasoning, then the answer, in a call")
LENGTH_CONTROLLED = _with_length(str(LENGTH))
