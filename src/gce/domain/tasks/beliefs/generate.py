"""Draw questions of belief: a world of a family and level, its story, and the exact posterior after each piece."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from hashlib import blake2b

from attrs import evolve

from gce.domain.tasks.beliefs.counting import Finish, Urn, draw_finish, draw_urn
from gce.domain.tasks.beliefs.elections import CountNight, Polls, draw_count_night, draw_polls
from gce.domain.tasks.beliefs.question import BeliefQuestion, World
from gce.domain.tasks.beliefs.sources import Machine, Witnesses, draw_machine, draw_witnesses
from gce.domain.tasks.beliefs.stories import story_of

__all__ = ["FAMILIES", "LEVELS", "digest_of_world", "draw_question", "draw_world", "question_of_world"]

LEVELS = 5
_KINDS: Mapping[type, tuple[str, str]] = {
    Witnesses: ("witnesses", "sources"),
    Machine: ("hidden Markov chain", "warns"),
    CountNight: ("election night", "called"),
    Polls: ("polls", "polls"),
    Urn: ("urn", "draws"),
    Finish: ("order", "answers"),
}
"""The name of each kind of world, and its field that holds the evidence."""


def _sources(level: int, rng: random.Random) -> tuple[World, bool]:
    if level == LEVELS and rng.random() < 0.5:
        return draw_machine(rng)
    return draw_witnesses(level, rng)


def _elections(level: int, rng: random.Random) -> tuple[World, bool]:
    return draw_count_night(level, rng) if level <= 3 else draw_polls(rng, seats=level == LEVELS)


def _counting(level: int, rng: random.Random) -> tuple[World, bool]:
    if level <= 3:
        return draw_urn(level, rng)
    return draw_finish(5, 3, rng) if level == 4 else draw_finish(6, 4, rng)


FAMILIES: Mapping[str, Callable[[int, random.Random], tuple[World, bool]]] = {
    "sources": _sources,
    "elections": _elections,
    "counting": _counting,
}
"""(level, generator) -> a world, whose last piece of evidence is withheld, and whether its claim is true."""


def draw_world(family: str, level: int, rng: random.Random) -> tuple[World, bool]:
    """Draw a world of a family and level, 1 to 5, and whether its claim is true.

    The truth is drawn from the stated prior and the evidence from the truth, and nothing is drawn again for what came
    of it: priors and posteriors are calibrated.
    """
    return FAMILIES[family](level, rng)


def draw_question(family: str, level: int, rng: random.Random) -> BeliefQuestion:
    """Draw a question of a family and level, 1 to 5."""
    world, true = draw_world(family, level, rng)
    return question_of_world(family, world, true, rng)


def question_of_world(family: str, world: World, true: bool, rng: random.Random) -> BeliefQuestion:
    """Return the question that a world poses, its last piece of evidence withheld; sentences are drawn from `rng`."""
    story, shown = story_of(world, rng), world.pieces - 1
    path = tuple(world.posterior(range(pieces)) for pieces in range(shown + 2))
    return BeliefQuestion(
        family=family,
        claim=story.claim,
        options=(story.claim, story.opposite),
        background=story.background,
        evidence=story.evidence[:shown],
        prior=path[0],
        path=path[1 : shown + 1],
        posterior=path[shown],
        outcome=1 if true else 0,
        withheld=story.evidence[shown],
        posterior_with_withheld=path[shown + 1],
        related=story.related,
        subtype=_KINDS[type(world)][0],
        world=world,
    )


def digest_of_world(world: World, shown: int) -> str:
    """Return 32 hexadecimal digits that name what a world shows: equal where only names or what is withheld differ."""
    field = _KINDS[type(world)][1]
    seen = evolve(world, **{field: getattr(world, field)[:shown]})
    return blake2b(repr((seen.canonical, world.pieces)).encode(), digest_size=16).hexdigest()
