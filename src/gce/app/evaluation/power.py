"""How many problems a comparison needs: `gce.power`, from assumptions or from the answers of a run or an evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
from gce.domain.text import counted
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
    """The names of the two that are compared; empty for assumptions."""
    n: int
    """Problems per tier; of unequal tiers the mean, rounded down."""
    base: float
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
    """For stored answers, the p value of the comparison, with Holm's correction over the rows."""


@frozen
class Power:
    """Power of the paired exact test (McNemar, two-sided, 5 % divided by the number of comparisons)."""

    assumed: str
    wanted: float
    """The power that `minimal_gain` and `needed` refer to."""
    rows: tuple[PowerRow, ...]

    def __str__(self) -> str:
        """The table."""
        head = ("", "n", "base", "gain", "discordant", "power", "smallest", "needed", "p (Holm)")
        rows = [
            (
                row.what,
                f"{row.n:,}",
                f"{100 * row.base:.1f} %",
                f"{100 * row.gain:+.3g}",
                f"{100 * row.discordant:.1f} %",
                f"{100 * row.power:.1f} %",
                "-" if row.minimal_gain is None else f"{100 * row.minimal_gain:+.1f}",
                "-" if not row.gain else "more" if row.needed is None else f"{row.needed:,}",
                p_cell(row.p),
            )
            for row in self.rows
        ]
        shown = slice(0, 9) if any(row.what for row in self.rows) else slice(1, 8)
        return "\n".join(
            [
                self.assumed,
                table(head[shown], [row[shown] for row in rows]),
                f"smallest: the smallest gain in accuracy found with {100 * self.wanted:g} % power, in points;",
                f"needed: problems per tier that find the gain with it, in at most {MOST_PAIRS:,} pairs",
            ]
        )


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
    power: float = 0.8,
    comparisons: int | None = None,
) -> Power:
    """Compute the power of the paired exact test, the smallest gain that it finds, and the problems that it takes.

    Args:
        run: a run, compared before and after training, or a file of answers of `gce evaluate`, whose strategies are
            compared with zero-shot or the first one. Values that are not given are taken from there.
        n: problems per tier; by default 200.
        gain: the expected difference of solve rates, in [-1, 1]; by default several.
        base: solve rate of the first policy; by default 0.5.
        discordant: share of problems that exactly one of the two solves; by default from `correlation`.
        correlation: of the two outcomes on a problem, in [0, 1].
        tiers: number of tiers with n problems each; by default 1.
        seeds: training seeds whose differences are averaged; see `gce.domain.power.Pairing`.
        power: the wanted power.
        comparisons: rows that are compared with one: the 5 % are divided by it, which is Holm's first step. By default
            1, or those stored.

    Raises:
        BadInput: values that do not go together, or a run or file without pairs of answers.
    """
    compared = {} if run is None else _stored_pairs(str(run))
    p_values = {what: each.adjusted for what, each in paired_gains(compared).items()}
    level = LEVEL / (comparisons or max(1, len(compared)))
    chosen: dict[str, Any] = {"base": base, "discordant": discordant, "tiers": tiers}
    rows: list[PowerRow] = []
    for what, pairs in (compared or {"": []}).items():
        size, gains, pairing = _observed(pairs) if pairs else (200, GAINS, Pairing())
        pairing = evolve(pairing, **{name: value for name, value in chosen.items() if value is not None})
        pairing = evolve(pairing, correlation=correlation, seeds=seeds)
        size, gains = size if n is None else n, gains if gain is None else (gain,)
        if gains is GAINS:
            gains = tuple(each for each in GAINS if pairing.base + each <= 1.0)
        smallest = minimal_gain(pairing, size, power=power, level=level)
        for each in gains:
            try:
                share = sum(pairing.changes(each))
            except ValueError as error:
                raise BadInput(str(error)) from error
            found = pairing.power(size, each, level=level)
            needed = problems_needed(pairing, each, power=power, level=level) if each else None
            rows.append(PowerRow(what, size, pairing.base, each, share, found, smallest, needed, p_values.get(what)))
    where = f"{run}, if the true gain and discordance are those observed" if compared else "assumed"
    said = [f"{where}: {pairing.tiers} tier{'s' * (pairing.tiers > 1)}, McNemar's exact test at {100 * level:g} %"]
    said += [f"correlation {correlation:g}"] if pairing.discordant is None else []
    said += [f"{seeds} seeds, worth {pairing.pairs(size):,} independent pairs"] if seeds > 1 else []
    return Power(", ".join(said), power, tuple(rows))


def _observed(pairs: Sequence[Pair]) -> tuple[int, tuple[float, ...], Pairing]:
    """Problems per tier, gain, and base rate, discordance and tiers."""
    count, tiers = len(pairs), len({tier for tier, *_ in pairs})
    base = sum(before for _, before, _ in pairs) / count
    gain = sum(after for _, _, after in pairs) / count - base
    discordant = sum(before != after for _, before, after in pairs) / count
    return count // tiers, (gain,), Pairing(base=base, discordant=discordant, tiers=tiers)


def gain_found(problems: int, comparisons: int = 1) -> Iterator[str]:
    """Yield a line with the smallest gain that a paired comparison on so many problems finds with 80 % power."""
    if (found := minimal_gain(Pairing(), problems, level=LEVEL / comparisons)) is not None:
        yield (
            f"smallest gain in accuracy found with 80 % power: {100 * found:.1f} points, paired on "
            f"{counted(problems, 'problem')} (base rate 50 %, correlation 0.5; other assumptions: gce power)"
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
            f"{place} has no two sets of answers to the same problems",
            hint="give a run with a test before and after, or a file of {answers} with several {strategies}",
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
