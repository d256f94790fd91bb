"""The attack strategy: the prompt with some of its words or lines disturbed, and its meaning kept.

Where no disturbed prompt keeps the meaning, the conversation fails, and is in no rate. Paraphrases are written by
another model, line by line; a line whose paraphrase does not keep the meaning stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from math import fsum
from typing import Any

from attrs import evolve, frozen

from gce.domain.attacks import ATTACKS, attacked, targets
from gce.domain.attacks.attack import keeps_meaning
from gce.domain.problems import Message, Problem
from gce.domain.randomness import python_generator
from gce.domain.strategies.requests import (
    ANOTHER,
    Ask,
    Exchange,
    Failed,
    Request,
    Score,
    Settings,
    Strategy,
    whole_number,
)
from gce.domain.tasks.task import Task

__all__ = ["ATTACK", "MOST_EDITS", "PARAPHRASE"]

MOST_EDITS = 1000
EVERYTHING, IMPORTANT = "everything", "important"
PARAPHRASE = "paraphrase"
REWRITE = (
    "Rewrite this line in other words. Keep its meaning, and every number and name. Reply with the new line alone."
)
LONGEST = 256
"""Tokens of a paraphrased line."""
DROPPED = "the attacked prompt does not keep the meaning, or nothing in it can be changed"


@frozen
class _Chosen:
    """Options of the strategy."""

    attack: str = "typos"
    edits: int = 4
    seed: int = 0
    everything: bool = False
    """Whether numbers and labels may be changed, too."""
    important: bool = False
    """Whether the words go first without which the model's own answer is least likely."""


def _by_importance(
    problem: Problem, words: list[tuple[int, int]]
) -> Generator[Request | tuple[Request, ...], Any, list[tuple[int, int]] | Failed]:
    """Order words by the log-probability that the model's answer to the whole prompt loses without each of them."""
    *before, last = problem.prompt
    answer = yield Ask(problem.prompt, draft=True)
    if not words or not answer.completion.text:
        return words
    found = []
    for start, end in words:
        without = evolve(last, content=last.content[:start] + last.content[end:])
        scores = yield Score((*before, without), (answer.completion.text,))
        if isinstance(scores, Failed):
            return scores
        found.append((fsum(scores[0]), start, end))
    return [(start, end) for _, start, end in sorted(found)]


def _paraphrased(
    task: Task, problem: Problem, edits: int, seed: int
) -> Generator[Request | tuple[Request, ...], Any, str | Failed]:
    """Return the last message's text with at most `edits` lines in another model's words, none of which loses meaning.

    With the same seed, the lines that are tried with fewer edits are the first of those tried with more.
    """
    text = problem.prompt[-1].content
    lines = text.split("\n")
    places = [place for place, line in enumerate(lines) if any(letter.isalpha() for letter in line)]
    python_generator(seed, "attack", PARAPHRASE, problem.key).shuffle(places)
    for place in places[:edits]:
        asked = (Message("user", f"{REWRITE}\n\n{lines[place]}"),)
        reply = yield Ask(asked, to=ANOTHER, draft=True, max_tokens=LONGEST)
        if isinstance(reply, Failed):
            return reply
        said = reply.completion.text.strip()
        changed = [*lines[:place], said, *lines[place + 1 :]]
        if said and "\n" not in said and keeps_meaning(task, problem, "\n".join(changed)):
            lines = changed
    return "\n".join(lines)


def _paraphrase(chosen: _Chosen) -> Strategy:
    def converse(task: Task, problem: Problem, _settings: Settings) -> Exchange:
        *before, last = problem.prompt
        text = yield from _paraphrased(task, problem, chosen.edits, chosen.seed)
        if isinstance(text, Failed):
            return text
        if chosen.edits and text == last.content:
            return Failed(DROPPED)
        return ((yield Ask((*before, evolve(last, content=text)))),)

    return _strategy(converse, {"sample", f"{ANOTHER}.sample"})


def _attack(chosen: _Chosen) -> Strategy:
    if chosen.attack == PARAPHRASE:
        return _paraphrase(chosen)

    def converse(task: Task, problem: Problem, _settings: Settings) -> Exchange:
        words: Any = targets(problem, chosen.seed, everything=chosen.everything)
        if chosen.important:
            words = yield from _by_importance(problem, words)
            if isinstance(words, Failed):
                return words
        prompt = attacked(task, problem, ATTACKS[chosen.attack], chosen.edits, seed=chosen.seed, words=words)
        if prompt is None:
            return Failed(DROPPED)
        return ((yield Ask(prompt)),)

    return _strategy(converse, {"sample", "score"} if chosen.important else {"sample"})


def _strategy(converse: Callable[[Task, Problem, Settings], Exchange], needs: Collection[str]) -> Strategy:
    return Strategy(
        "attack",
        converse,
        "a disturbed prompt with its meaning kept, 4 typos; @NAME+EDITS+seed=S+everything+important: see gce attack",
        needs=frozenset(needs),
        options=_with_options,
    )


def _with_options(written: str) -> Strategy:
    chosen = _Chosen()
    for option in written.split("+"):
        if option in ATTACKS or option == PARAPHRASE:
            chosen = evolve(chosen, attack=option)
        elif option == EVERYTHING:
            chosen = evolve(chosen, everything=True)
        elif option == IMPORTANT:
            chosen = evolve(chosen, important=True)
        elif option.startswith("seed="):
            chosen = evolve(chosen, seed=whole_number(option.removeprefix("seed="), 0, 10**9 - 1))
        elif option.isdecimal():
            chosen = evolve(chosen, edits=whole_number(option, 0, MOST_EDITS))
        else:
            known = ", ".join((*ATTACKS, PARAPHRASE, EVERYTHING, IMPORTANT, "seed=S"))
            raise ValueError(f"expected {known} or a number of edits, got {option!r:.40}")
    if chosen.attack == PARAPHRASE and (chosen.everything or chosen.important):
        raise ValueError(f"expected {PARAPHRASE} without {EVERYTHING} and {IMPORTANT}: a model chooses its words")
    return _attack(chosen)


ATTACK = _attack(_Chosen())
