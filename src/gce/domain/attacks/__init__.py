"""Attacks on prompts that keep the meaning: one line each in `ATTACKS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from gce.domain.attacks.attack import PromptAttack, keeps_meaning, labels_of, words_of
from gce.domain.attacks.lines import LINE_ATTACKS
from gce.domain.attacks.words import WORD_ATTACKS
from gce.domain.problems import Message, Problem
from gce.domain.randomness import python_generator
from gce.domain.tasks.task import Task

__all__ = ["ATTACKS", "PromptAttack", "attacked", "targets"]

ATTACKS: Mapping[str, PromptAttack] = {attack.name: attack for attack in (*WORD_ATTACKS, *LINE_ATTACKS)}


def targets(problem: Problem, seed: int, *, everything: bool = False) -> list[tuple[int, int]]:
    """Return the words of the prompt's last message that an attack may change, in an order drawn by the seed."""
    words = words_of(problem.prompt[-1].content, labels_of(problem.instance), everything=everything)
    return python_generator(seed, "attack, words", problem.key).sample(words, len(words))


def attacked(
    task: Task, problem: Problem, attack: PromptAttack, edits: int, *, seed: int, words: Sequence[tuple[int, int]]
) -> tuple[Message, ...] | None:
    """Return the prompt with its last message attacked; None if the meaning was not kept or nothing could be changed.

    Without edits it is the prompt. With the same seed, fewer edits are the first of more.
    """
    if edits == 0:
        return problem.prompt
    *before, last = problem.prompt
    rng = python_generator(seed, "attack", attack.name, problem.key)
    text = attack.perturb(last.content, tuple(words), rng, edits)
    if text == last.content or not keeps_meaning(task, problem, text):
        return None
    return (*before, evolve(last, content=text))
