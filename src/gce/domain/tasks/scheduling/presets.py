"""Tiers of scheduling problems.

- `grounded` (default) makes reading the problem necessary: labels do not reveal the order, every constraint binds, and
  the project deadline is tied to the optimal makespan.
- `paper` has exactly the parameters of the six tiers of ISOPro 0.3 (edges run from an earlier label to a later one),
  for comparison.
- `larger` is `grounded` with eleven jobs in every tier, and `paper-larger` is `paper` with eleven; the shipped model
  saw up to 14 in pretraining.
- `sixteen` is `grounded` with sixteen jobs in every tier.

L2 and L3, of two and three jobs, are curriculum levels below the six tiers. They are used only in training, and only if
a run asks for them. Independent of wording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

__all__ = ["GROUNDED", "PAPER", "PRESETS", "Family", "Tier"]

Family = str


@frozen
class Tier:
    """One tier: the families of constraints that bind, and the ranges from which its numbers are drawn."""

    name: str
    families: frozenset[Family]
    jobs: int
    edges: int
    durations: tuple[int, int]
    resource_types: int = 0
    capacities: tuple[int, int] = (1, 1)
    demands: tuple[int, int] = (1, 1)
    slack: float = 0.0
    """Grounded: horizon = optimal makespan x (1 + slack), rounded. Paper: int(sum of durations x slack) + 1."""
    deadline_slack: tuple[int, int] = (0, 0)
    """Grounded: hours between a job's end in the plan and its deadline."""
    deadlines: bool = False
    subtypes: tuple[Tier, ...] = ()
    """T4 draws one of its pairs of families."""
    held_out: bool = False
    curriculum_level: bool = False
    """True for a curriculum level below the six tiers, on which a weak model starts."""
    node_limit: int | None = None
    """Nodes of the branch and bound above which a draw is rejected: a limit on the work that reads no clock, so that
    every machine draws the same problems. None for no limit."""


def _tier(name: str, families: str, jobs: int, edges: int, low: int, high: int, **options: object) -> Tier:
    return Tier(name, frozenset(families.split()), jobs, edges, (low, high), **options)  # type: ignore[arg-type]


_TWO = {"resource_types": 2, "demands": (1, 2), "capacities": (2, 4)}
_ONE_CREW = {"resource_types": 1, "demands": (1, 1), "capacities": (1, 1)}

GROUNDED = (
    *(
        _tier(
            f"L{jobs}", "", jobs, 0, 1, 4,
            subtypes=(
                _tier("sequencing", "sequencing", jobs, jobs - 1, 1, 4),
                _tier("resources", "resources", jobs, 0, 1, 4, slack=0.2, **_TWO),
                _tier("deadlines", "deadlines", jobs, 0, 1, 4, deadlines=True, deadline_slack=(0, 2), **_ONE_CREW),
            ),
            curriculum_level=True,
        )
        for jobs in (2, 3)
    ),
    _tier("T0", "sequencing", 4, 2, 1, 4),
    _tier("T1", "sequencing", 5, 4, 1, 4),
    _tier("T2", "resources", 6, 0, 1, 6, slack=0.2, **_TWO),
    _tier("T3", "deadlines", 6, 0, 1, 4, deadlines=True, deadline_slack=(0, 2), **_ONE_CREW),
    _tier(
        "T4", "", 8, 0, 1, 5,
        subtypes=(
            _tier("sequencing+resources", "sequencing resources", 8, 5, 1, 5, slack=0.25, **_TWO),
            _tier(
                "resources+deadlines", "resources deadlines", 8, 0, 1, 5,
                slack=0.3, deadlines=True, deadline_slack=(0, 2), **_TWO,
            ),
            _tier(
                "sequencing+deadlines", "sequencing deadlines", 8, 4, 1, 4,
                deadlines=True, deadline_slack=(0, 2), **_ONE_CREW,
            ),
        ),
    ),
    _tier(
        "T5", "sequencing resources deadlines", 10, 6, 1, 5,
        slack=0.3, deadlines=True, deadline_slack=(0, 1), held_out=True, **_TWO,
    ),
)  # fmt: skip

PAPER = (
    *(
        _tier(
            f"L{jobs}", "", jobs, 0, 1, 4,
            subtypes=(
                _tier("sequencing", "sequencing", jobs, jobs - 1, 1, 2, slack=3.0),
                _tier(
                    "resources+deadlines", "resources deadlines", jobs, 0, 1, 4,
                    slack=2.0, deadlines=True, **_TWO | {"capacities": (2, 3)},
                ),
                _tier("deadlines", "deadlines", jobs, 0, 2, 5, slack=1.15, deadlines=True),
            ),
            curriculum_level=True,
        )
        for jobs in (2, 3)
    ),
    _tier("T0", "sequencing", 4, 2, 1, 2, slack=3.0),
    _tier("T1", "sequencing deadlines", 5, 2, 1, 3, slack=3.0, deadlines=True),
    _tier("T2", "resources deadlines", 6, 0, 1, 4, slack=2.0, deadlines=True, **_TWO | {"capacities": (2, 3)}),
    _tier("T3", "deadlines", 6, 0, 2, 5, slack=1.15, deadlines=True),
    _tier(
        "T4", "", 8, 4, 1, 4,
        subtypes=(
            _tier("sequencing+resources", "sequencing resources", 8, 4, 1, 4, slack=1.5, **_TWO),
            _tier("resources+deadlines", "resources deadlines", 8, 0, 1, 4, slack=1.5, deadlines=True, **_TWO),
            _tier("sequencing+deadlines", "sequencing deadlines", 8, 4, 1, 4, slack=1.5, deadlines=True),
        ),
    ),
    _tier(
        "T5", "sequencing resources deadlines", 10, 6, 1, 5,
        slack=1.3, deadlines=True, held_out=True, **_TWO,
    ),
)  # fmt: skip


def _with_jobs(
    jobs: int, tiers: Sequence[Tier], edges: Sequence[int], *, node_limit: int | None = None
) -> tuple[Tier, ...]:
    """Return the six tiers, without the levels below them, with so many jobs and these numbers of edges."""
    return tuple(
        evolve(
            tier,
            jobs=jobs,
            edges=count,
            node_limit=node_limit,
            subtypes=tuple(
                evolve(pair, jobs=jobs, edges=pair.edges * jobs // pair.jobs, node_limit=node_limit)
                for pair in tier.subtypes
            ),
        )
        for tier, count in zip((tier for tier in tiers if not tier.curriculum_level), edges, strict=True)
    )


LARGER = _with_jobs(11, GROUNDED, (5, 9, 0, 0, 0, 7))
"""`grounded` with more jobs than the shipped model was trained on."""

PAPER_LARGER = _with_jobs(11, PAPER, (5, 4, 0, 0, 4, 7))
"""`paper` with more jobs than its held-out tier."""

SIXTEEN = _with_jobs(16, GROUNDED, (8, 13, 0, 0, 0, 10), node_limit=10_000)
"""`grounded` with many more jobs. Of the draws of T2 about 16 % exceed the node limit, of T4
and T5 less than 5 %."""

PRESETS: Mapping[str, tuple[Tier, ...]] = {
    "grounded": GROUNDED,
    "paper": PAPER,
    "larger": LARGER,
    "paper-larger": PAPER_LARGER,
    "sixteen": SIXTEEN,
}
