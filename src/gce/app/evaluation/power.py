"""How many problems a comparison needs: `gce.power`, from assumptions or from the answers of a run or an evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from gce.app.evaluation.comparison import stored_pairs
from gce.app.tables.cells import p_cell
from gce.app.tables.layout import table
from gce.app.wiring.files import read_input
from gce.app.wiring.runs import open_run
from gce.domain.paired import Pair, paired_gains
from gce.domain.power import MOST_PAIRS, Pairing, minimal_gain, problems_needed
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.errors import BadInput

__all__ = ["Power", "PowerRow", "gain_found", "power"]

GAINS = (0.01, 0.02, 0.05, 0.1)
"""Gains that are looked at where none is given."""
LEVEL = 0.05
MOST_BYTES = 2**30


@frozen
class PowerRow:
    """What a number of problems can tell about one gain."""

    what: str
    """The names of the two that are compared; empty where nothing stored is."""
    n: int
    """Problems per tier; of unequal tiers the mean, rounded down."""
    gain: float
    discordant: float
    """Share of problems that exactly one of the two solves."""
    power: float
    """Probability that the test finds the gain, in [0, 1]."""
    minimal_gain: float | None
    """Smallest gain that n problems per tier find with the wanted power; None if they find none."""
    needed: int | None
    """Problems per tier that find `gain` with the wanted power; None above 1,000,000 pairs, or for no gain."""
    p: float | None = None
    """Of the stored answers, the p value of the comparison, with Holm's correction over the rows."""


@frozen
class Power:
    """Power of the paired exact test (McNemar, two-sided, 5 % divided by the number of comparisons)."""

    assumed: str
    wanted: float
    """The power that `minimal_gain` and `needed` refer to."""
    rows: tuple[PowerRow, ...]

    def __str__(self) -> str:
        """The table."""
        stored = any(row.p is not None for row in self.rows)
        head: tuple[str, ...] = ("gain", "discordant", "power", "smallest", "needed")
        rows: list[tuple[str, ...]] = [
            (
                f"{100 * row.gain:+.3g}",
                f"{100 * row.discordant:.1f} %",
                f"{100 * row.power:.1f} %",
                "-" if row.minimal_gain is None else f"{100 * row.minimal_gain:+.1f}",
                "-" if not row.gain else "more" if row.needed is None else f"{row.needed:,}",
            )
            for row in self.rows
        ]
        if stored:
            head = ("", "n", *head, "p (Holm)")
            rows = [(row.what, f"{row.n:,}", *cells, p_cell(row.p)) for row, cells in zip(self.rows, rows, strict=True)]
        wanted = f"with {100 * self.wanted:g} % power"
        last = (
            f"gain, smallest: in points; smallest: the smallest gain found {wanted};",
            f"needed: problems per tier that find the gain {wanted}, up to {MOST_PAIRS:,} pairs",
        )
        return "\n".join([self.assumed, table(head, rows), *last])


def power(
    run: str | Path | None = None,
    *,
    n: int | None = None,
    gain: float | None = None,
    base: float | None = None,
    discordant: float | None = None,
    correlation: float = 0.5,
    tiers: int | None = None,
    seeds: int = 1,
    seed_correlation: float = 0.5,
    power: float = 0.8,
    comparisons: int | None = None,
) -> Power:
    """Compute the power of the paired exact test, the smallest gain that it finds, and the problems that it takes.

    Args:
        run: a run, compared before and after training, or a file of answers of `gce evaluate`, whose strategies are
            compared with zero-shot or the first one. They set `n`, `tiers`, `base`, `discordant` and `gain` where these
            are not given.
        n: problems per tier; by default 200.
        gain: the expected difference of solve rates, in [-1, 1]; by default several.
        base: solve rate of the first policy; by default 0.5.
        discordant: share of problems that exactly one of the two solves; by default from `correlation`.
        correlation: of the two outcomes on a problem.
        tiers: number of tiers with n problems each; by default 1.
        seeds: training seeds whose differences are averaged; see `gce.domain.power.Pairing`.
        seed_correlation: correlation of a problem's differences under two seeds.
        power: the wanted power.
        comparisons: how many rows are compared with one: the 5 % are divided by it, which is Holm's first step. By
            default 1, or the number of strategies in the file.

    Raises:
        BadInput: values that do not go together, or a run or file without pairs of answers.
    """
    given = Pairing(
        base=0.5 if base is None else base,
        correlation=correlation,
        discordant=discordant,
        tiers=1 if tiers is None else tiers,
        seeds=seeds,
        seed_correlation=seed_correlation,
    )
    if run is None:
        level = LEVEL / (comparisons or 1)
        size = 200 if n is None else n
        gains = [each for each in GAINS if given.base + each <= 1] if gain is None else [gain]
        rows = [_row("", given, size, each, power, level) for each in gains]
        return Power(_assumed(given, size, comparisons or 1), power, tuple(rows))
    pairs = _stored_pairs(str(run))
    level = LEVEL / (comparisons or len(pairs))
    found = []
    for what, each in paired_gains(pairs).items():
        own = _observed(given, pairs[what], base=base, discordant=discordant, tiers=tiers)
        size = len(pairs[what]) // len({tier for tier, *_ in pairs[what]}) if n is None else n
        observed = (each.gained - each.lost) / len(pairs[what])
        row = _row(what, own, size, observed if gain is None else gain, power, level)
        found.append(evolve(row, p=each.adjusted))
    said = f"{run}: power if the true gain and discordance are those observed, two-sided at {100 * level:g} %"
    return Power(said, power, tuple(found))


def gain_found(problems: int, comparisons: int = 1) -> Iterator[str]:
    """Yield a line with the smallest gain that a paired comparison on so many problems finds with 80 % power."""
    if (found := minimal_gain(Pairing(), problems, level=LEVEL / comparisons)) is not None:
        yield (
            f"smallest gain found with 80 % power: {100 * found:.1f} points, paired on {problems:,} problems "
            "(base rate 50 %, correlation 0.5; other assumptions: gce power)"
        )


@cache
def _smallest(pairing: Pairing, n: int, power: float, level: float) -> float | None:
    return minimal_gain(pairing, n, power=power, level=level)


def _row(what: str, pairing: Pairing, n: int, gain: float, power: float, level: float) -> PowerRow:
    try:
        discordant = sum(pairing.changes(gain))
    except ValueError as error:
        raise BadInput(str(error)) from error
    needed = problems_needed(pairing, gain, power=power, level=level) if gain else None
    smallest = _smallest(pairing, n, power, level)
    return PowerRow(what, n, gain, discordant, pairing.power(n, gain, level=level), smallest, needed)


def _assumed(given: Pairing, n: int, comparisons: int) -> str:
    share = "" if given.discordant is None else f"discordant {100 * given.discordant:g} %"
    words = [
        f"{n:,} problems" + (f" in each of {given.tiers} tiers" if given.tiers > 1 else ""),
        f"base rate {100 * given.base:g} %",
        share or f"correlation {given.correlation:g}",
    ]
    if given.seeds > 1:
        words.append(f"{given.seeds} seeds (as much as {given.pairs(n):,} independent pairs)")
    return f"{', '.join(words)}; McNemar's exact test, two-sided at {100 * LEVEL / comparisons:g} %"


def _observed(
    given: Pairing, pairs: Sequence[Pair], *, base: float | None, discordant: float | None, tiers: int | None
) -> Pairing:
    """The assumptions, completed by what the pairs show."""
    return evolve(
        given,
        base=sum(before for _, before, _ in pairs) / len(pairs) if base is None else base,
        discordant=sum(before != after for _, before, after in pairs) / len(pairs)
        if discordant is None
        else discordant,
        tiers=len({tier for tier, *_ in pairs}) if tiers is None else tiers,
    )


def _stored_pairs(place: str) -> dict[str, list[Pair]]:
    """The comparisons that a run or a file of answers holds, by name."""
    if Path(place).is_file():
        compared = _of_file(Path(place))
    else:
        with open_run(place) as run:
            pairs = stored_pairs(run.each_answer("test-before"), run.each_answer("test-after"))
        compared = {"after - before": pairs}
    compared = {name: pairs for name, pairs in compared.items() if pairs}
    if not compared:
        raise BadInput(
            f"{place} has no two sets of answers to the same problems: give a run with a test before and "
            "after, or answers of gce evaluate with several --strategies"
        )
    return compared


def _of_file(path: Path) -> dict[str, list[Pair]]:
    by_strategy: dict[str, list[Mapping[str, Any]]] = {}
    try:
        for line in read_input(path, MOST_BYTES).splitlines()[1:]:
            record = json.loads(line)
            by_strategy.setdefault(record["mode"], []).append(record)
        first = ZERO_SHOT.name if ZERO_SHOT.name in by_strategy else next(iter(by_strategy), "")
        return {
            f"{name} - {first}": stored_pairs(by_strategy[first], answers)
            for name, answers in by_strategy.items()
            if name != first
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path} has no answers of gce evaluate") from error
