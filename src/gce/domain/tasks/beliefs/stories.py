"""The sentences of worlds: background, claim and evidence, in several settings and with names drawn by a generator.

They state all that the posterior depends on. Numbers are whole percents where the world's are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import singledispatch

from attrs import frozen

from gce.domain.tasks.beliefs.counting import Finish, Statement, Urn
from gce.domain.tasks.beliefs.elections import CountNight, Polls
from gce.domain.tasks.beliefs.question import Related, World
from gce.domain.tasks.beliefs.sources import Machine, Source, Witnesses

__all__ = ["NAMES", "Story", "story_of"]

NAMES = ("Ada", "Ben", "Carl", "Dora", "Emma", "Finn", "Greta", "Hugo", "Ida", "Jon", "Kim", "Lena", "Max", "Nora")


@frozen
class Story:
    """A world in words."""

    background: str
    claim: str
    """A clause in lower case; so is `opposite`."""
    opposite: str
    evidence: tuple[str, ...]
    """One sentence or more for each piece."""
    related: tuple[Related, ...] = ()
    """With posteriors given all evidence but the last piece, which is withheld."""


@frozen
class _Setting:
    """A claim about a thing, with a base rate."""

    base_rate: Callable[[int], str]
    claim: str
    opposite: str
    cases: str
    """Things for which the claim is true, in the plural."""
    others: str


_SETTINGS = (
    _Setting(
        lambda rate: f"In {rate} % of all such parcels something is broken. A parcel has arrived.",
        *("something in the parcel is broken", "nothing in the parcel is broken"),
        *("parcels with something broken", "other parcels"),
    ),
    _Setting(
        lambda rate: f"On {rate} % of the days in this season it rains. Tomorrow is such a day.",
        *("it rains tomorrow", "it does not rain tomorrow"),
        *("days with rain", "days without"),
    ),
    _Setting(
        lambda rate: f"In this town {rate} % of the taxis are green and the others are white. A taxi drove past.",
        *("the taxi was green", "the taxi was not green"),
        *("green taxis", "white ones"),
    ),
    _Setting(
        lambda rate: f"Of the paintings in this collection {rate} % are copies. One of them is examined.",
        *("the painting is a copy", "the painting is not a copy"),
        *("copies", "originals"),
    ),
    _Setting(
        lambda rate: f"Of the plants in this field {rate} % are infected. One plant is examined.",
        *("the plant is infected", "the plant is not infected"),
        *("infected plants", "healthy ones"),
    ),
)
_INDEPENDENT = (
    "Sources judge independently of each other unless something else is said, and their rates hold whatever is true.",
    "Unless stated otherwise, no source depends on another. Stated rates hold whatever is true.",
)


@singledispatch
def story_of(world: World, rng: random.Random) -> Story:
    """Return a world in words; setting and names are drawn from `rng`."""
    raise TypeError(f"expected a world, got {type(world).__name__}")


@story_of.register
def _of_witnesses(world: Witnesses, rng: random.Random) -> Story:
    setting, names = rng.choice(_SETTINGS), rng.sample(NAMES, world.pieces)
    evidence = tuple(
        _of_source(source, name, names, setting) for source, name in zip(world.sources, names, strict=True)
    )
    background = f"{setting.base_rate(world.base_rate)} {rng.choice(_INDEPENDENT)}"
    return Story(background, setting.claim, setting.opposite, evidence)


def _of_source(source: Source, name: str, names: Sequence[str], setting: _Setting) -> str:
    says = f"{name} says: {setting.claim if source.yes else setting.opposite}."
    if source.copies >= 0:
        alone = f"otherwise judges alone and is right {source.hit} % of the time"
        return f"With probability {source.copying} % {name} repeats what {names[source.copies]} says; {alone}. {says}"
    if source.runs > 1:
        return (
            f"{name} made {source.runs} separate tests and reports only those that are positive. Each is positive "
            f"with probability {source.hit} % for {setting.cases} and {source.false_alarm} % for {setting.others}. "
            f"{name} reports {source.yes} positive tests."
        )
    if source.symmetric:
        return f"{name} is right {source.hit} % of the time. {says}"
    return (
        f"{name}'s test is positive for {source.hit} % of {setting.cases} and for {source.false_alarm} % of "
        f"{setting.others}. It is {'positive' if source.yes else 'negative'}."
    )


@story_of.register
def _of_machine(world: Machine, rng: random.Random) -> Story:
    name = rng.choice(("pump", "lift", "engine", "furnace"))
    last = world.pieces
    background = (
        f"A {name} is either in order or faulty. On day 1 it is faulty with probability {world.faulty} %. If it is in "
        f"order on one day, it is faulty on the next day with probability {world.breaks} %; if it is faulty, it is in "
        f"order on the next day with probability {world.repairs} %. Each day a sensor gives a warning with probability "
        f"{world.hit} % if the {name} is faulty and {world.false_alarm} % if it is in order."
    )
    evidence = tuple(
        f"On day {day} the sensor gives {'a' if warns else 'no'} warning." for day, warns in enumerate(world.warns, 1)
    )
    claim, opposite = f"the {name} is faulty on day {last}", f"the {name} is in order on day {last}"
    return Story(background, claim, opposite, evidence)


_PARTIES = (("Reds", "Blues"), ("Oaks", "Elms"), ("Larks", "Owls"), ("Suns", "Moons"))


@story_of.register
def _of_count_night(world: CountNight, rng: random.Random) -> Story:
    party, other = rng.choice(_PARTIES)
    chances = ", ".join(f"{number}: {chance} %" for number, chance in enumerate(world.chances, 1))
    lines = [
        f"The {party} and the {other} fight over {len(world.chances)} districts; whoever wins most of them wins the "
        f"election. Chances of the {party} by district: {chances}."
    ]
    if len(world.swings) > 1:
        parts = [
            f"with probability {weight} % " + (f"{points:+d} points" if points else "none")
            for points, weight in world.swings
        ]
        lines.append(f"A national swing changes all these chances by the same amount: {', '.join(parts)}.")
        lines.append("Given the swing, districts are independent.")
    else:
        lines.append("Districts are independent. They are counted one after another.")
    evidence = tuple(
        f"District {number} goes to the {party if won else other}." for number, won in enumerate(world.called, 1)
    )
    claim, opposite = f"the {party} win the election", f"the {party} do not win the election"
    ladder = range(len(world.chances), 0, -1)
    related = Related(
        "implication",
        tuple(f"the {party} win at least {count} districts" for count in ladder),
        tuple(world.at_least(count, range(world.pieces - 1)) for count in ladder),
    )
    return Story(" ".join(lines), claim, opposite, evidence, (related,))


@story_of.register
def _of_polls(world: Polls, rng: random.Random) -> Story:
    party, names = rng.choice(_PARTIES)[0], rng.sample(("Alpha", "Delta", "Omega", "Sigma"), len(world.houses))
    lines = [
        f"Support for the {party} on day 0 is normal with mean {world.start:g} % and standard deviation "
        f"{world.start_sd:g} points. From day to day it changes by an independent normal step with mean 0 and standard "
        f"deviation {world.drift_sd:g} points. The vote is on day {world.days}."
    ]
    if len(world.houses) > 1:
        lines.append(
            "A poll shows support, plus a bias of its house that is the same in all its polls, plus a normal error."
        )
        lines += [
            f"The bias of house {name} is normal with mean {house.bias:+g} and standard deviation {house.bias_sd:g} "
            "points."
            for name, house in zip(names, world.houses, strict=True)
        ]
    else:
        lines.append("A poll shows support plus an independent normal error with mean 0.")
    if world.leans:
        leans = ", ".join(f"{number}: {lean:+d}" for number, lean in enumerate(world.leans, 1))
        lines.append(
            f"There are {len(world.leans)} seats. The vote in a seat is the support on day {world.days} plus the "
            f"seat's lean in points ({leans}) plus an independent normal deviation with mean 0 and standard deviation "
            f"{world.seat_sd:g} points; the {party} win a seat with more than 50 %."
        )
        claim = f"the {party} win most of the {len(world.leans)} seats"
        opposite = f"the {party} do not win most of the {len(world.leans)} seats"
    else:
        claim, opposite = f"the {party} get more than 50 % of the vote", f"the {party} get less than 50 % of the vote"
    evidence = tuple(
        f"Day {poll.day}: a poll{f' of house {names[poll.house]}' if len(names) > 1 else ''} with error "
        f"{poll.sd:g} (standard deviation in points) shows {poll.share:g} %."
        for poll in world.polls
    )
    return Story(" ".join(lines), claim, opposite, evidence)


@story_of.register
def _of_urn(world: Urn, rng: random.Random) -> Story:
    one = rng.choice(("urn", "bag", "box"))
    red, blue = rng.choice((("red", "blue"), ("black", "white"), ("gold", "silver")))
    counts = [of_red for of_red, _ in world.kinds]
    if len({weight for _, weight in world.kinds}) == 1 and len(counts) > 3:
        holds = f"Each number of {red} balls from {counts[0]} to {counts[-1]} is equally likely."
    else:
        parts = [f"{of_red} with probability {weight} %" for of_red, weight in world.kinds]
        holds = f"The number of {red} balls is {', '.join(parts)}."
    how = "put back before the next draw" if world.returned else "not put back"
    background = (
        f"There are {world.balls} balls in {'an' if one == 'urn' else 'a'} {one}, some {red} and the others {blue}. "
        f"{holds} Balls are drawn at random from the {one}, one after another, and {how}."
    )
    evidence = tuple(f"The ball drawn is {red if drawn else blue}." for drawn in world.draws)
    related = Related(
        "partition",
        tuple(f"at the start there are {count} {red} balls in the {one}" for count in counts),
        world.compositions(range(world.pieces - 1)),
    )
    claim, opposite = f"the next ball is {red}", f"the next ball is {blue}"
    if world.next_red > 1:
        claim = f"the next {world.next_red} balls are all {red}"
        opposite = f"the next {world.next_red} balls are not all {red}"
    return Story(background, claim, opposite, evidence, (related,))


@story_of.register
def _of_finish(world: Finish, rng: random.Random) -> Story:
    names = rng.sample(NAMES, world.runners)
    background = (
        f"{', '.join(names[:-1])} and {names[-1]} ran a race. No two arrived together, and every order was equally "
        "likely. A judge who knows the order has been asked some questions about it and answered truthfully."
    )
    evidence = tuple(
        f"Did {_asked(each, names)}? {'Yes' if each.true else 'No'}, says the judge." for each in world.answers
    )
    opposite = _said(world.claim, names, "did not arrive")
    runner = world.claim.runner
    related = Related(
        "partition",
        tuple(f"{names[runner]} arrived in place {place}" for place in range(1, world.runners + 1)),
        world.places(runner, range(world.pieces - 1)),
    )
    return Story(background, _said(world.claim, names), opposite, evidence, (related,))


def _asked(said: Statement, names: Sequence[str]) -> str:
    return f"{names[said.runner]} arrive {_when(said, names)}"


def _said(said: Statement, names: Sequence[str], verb: str = "arrived") -> str:
    return f"{names[said.runner]} {verb} {_when(said, names)}"


def _when(said: Statement, names: Sequence[str]) -> str:
    if said.relation == "within":
        return "first" if said.other == 1 else f"among the first {said.other}"
    return f"{'directly ' if said.relation == 'just before' else ''}before {names[said.other]}"
