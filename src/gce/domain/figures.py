"""Figures of runs and studies as data: what each shows, and the same as a table. Knows not how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import field, frozen

from gce.domain.measurements import Interval, MeanReward
from gce.domain.statistics import Estimate
from gce.domain.timelines import Chart

__all__ = ["Bars", "Effects", "Figure", "Grid", "Lines", "Measured", "Points", "Ratios", "Stacks", "Table", "Timeline"]

Measured: TypeAlias = Interval | MeanReward
Points = Mapping[str, Sequence[tuple[float, float]]]
"""Lines by name."""


@frozen
class Table:
    """Text in columns; the first is to the left."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@frozen
class Lines:
    """Panels side by side; those named in `shares` run from 0 to 100 %, with intervals where given."""

    name: str
    """For a file."""
    title: str
    panels: Mapping[str, Points]
    across: str = field(default="iteration", kw_only=True)
    shares: Sequence[str] = field(default=(), kw_only=True)
    intervals: Mapping[str, Mapping[str, Sequence[tuple[float, Measured]]]] = field(factory=dict, kw_only=True)
    """By panel and line."""
    doubles: bool = field(default=False, kw_only=True)
    """Whether the axis across is logarithmic with base 2."""
    scattered: Sequence[str] = field(default=(), kw_only=True)
    """Lines whose points are not joined."""
    axes: Mapping[str, tuple[str, str]] = field(factory=dict, kw_only=True)
    """By panel, what stands along its horizontal and its vertical axis; in place of `across`."""

    @property
    def names(self) -> list[str]:
        """Of all panels."""
        return [*self.panels, *(panel for panel in self.intervals if panel not in self.panels)]

    def percent(self, panel: str) -> float:
        """What values of this panel are multiplied by."""
        return 100.0 if panel in self.shares else 1.0

    @property
    def table(self) -> Table:
        """Its data."""
        head = ("panel", "line", self.across, "value")
        rows: list[tuple[str, ...]] = []
        for panel in self.names:
            for line, points in self.panels.get(panel, {}).items():
                rows += [(panel, line, f"{x:g}", f"{self.percent(panel) * y:.4g}") for x, y in points]
            for line, measured in self.intervals.get(panel, {}).items():
                cells = [(x, _estimate(found, self.percent(panel)), found.n) for x, found in measured]
                rows += [(panel, line, f"{x:g}", f"{cell}, n = {n}") for x, cell, n in cells]
        return Table(head, tuple(rows))


@frozen
class Stacks:
    """A bar for each name, made of parts."""

    name: str
    title: str
    found: Mapping[str, Mapping[str, float]]
    unit: str = field(kw_only=True)
    across: str = field(kw_only=True)

    @property
    def parts(self) -> list[str]:
        """Of all bars."""
        return list(dict.fromkeys(part for each in self.found.values() for part in each))

    @property
    def table(self) -> Table:
        """Its data."""
        head = (self.across, "part", self.unit)
        rows = ((place, part, f"{each.get(part, 0):.4g}") for place, each in self.found.items() for part in self.parts)
        return Table(head, tuple(rows))


@frozen
class Grid:
    """Shares as a heat map, a row a name; None is empty. `marked` columns, from 1, are framed."""

    name: str
    title: str
    found: Mapping[str, Sequence[float | None]]
    marked: Mapping[str, int | None]
    across: str = field(kw_only=True)

    @property
    def table(self) -> Table:
        """Its data."""
        head = ("", self.across, "right", "")
        rows = (
            (
                row,
                str(column),
                "-" if value is None else f"{100 * value:.0f} %",
                "first" if self.marked.get(row) == column else "",
            )
            for row, values in self.found.items()
            for column, value in enumerate(values, 1)
        )
        return Table(head, tuple(rows))


@frozen
class Bars:
    """Shares or mean rewards with intervals: a group of bars for each inner name, a bar for each outer one."""

    name: str
    title: str
    found: Mapping[str, Mapping[str, Measured]]
    across: str = field(default="tier", kw_only=True)
    unit: str = field(default="% right", kw_only=True)

    @property
    def percent(self) -> float:
        """What values are multiplied by."""
        return 100.0 if self.unit.startswith("%") else 1.0

    @property
    def table(self) -> Table:
        """Its data."""
        head = ("", self.across, f"{self.unit} (95 %)", "n")
        rows = (
            (row, group, _estimate(interval, self.percent), str(interval.n))
            for row, each in self.found.items()
            for group, interval in each.items()
        )
        return Table(head, tuple(rows))


@frozen
class Effects:
    """Differences of shares with intervals, (value, low, high) each, one below the other beside a line at 0."""

    name: str
    title: str
    found: Mapping[str, tuple[float, float, float]]
    unit: str = field(default="points of test accuracy", kw_only=True)

    @property
    def table(self) -> Table:
        """Its data."""
        head = ("condition", "difference", "95 %")
        rows = (
            (row, f"{100 * value:+.1f}", f"{100 * low:+.1f} to {100 * high:+.1f}")
            for row, (value, low, high) in self.found.items()
        )
        return Table(head, tuple(rows))


@frozen
class Ratios:
    """Ratios with intervals, one below the other on a logarithmic axis, beside a line at 1."""

    name: str
    title: str
    found: Mapping[str, Estimate]
    unit: str = field(default="times as fast", kw_only=True)

    @property
    def table(self) -> Table:
        """Its data."""
        rows = ((row, f"{each.value:.3g}", f"{each.low:.3g} to {each.high:.3g}") for row, each in self.found.items())
        return Table(("", self.unit, "95 %"), tuple(rows))


@frozen
class Timeline:
    """An answer as bars over time; what a violation names stands out, ticks are limits."""

    name: str
    title: str
    chart: Chart

    @property
    def table(self) -> Table:
        """Its data."""
        head = ("job", "start", "end", "deadline", "fault")
        rows = (
            (
                bar.label,
                f"{bar.start:g}",
                f"{bar.end:g}",
                "-" if bar.limit is None else f"{bar.limit:g}",
                "x" * bar.faulty,
            )
            for bar in self.chart.bars
        )
        return Table(head, tuple(rows))


Figure: TypeAlias = Lines | Stacks | Grid | Bars | Effects | Ratios | Timeline


def _estimate(found: Measured, scale: float) -> str:
    value, low, high = (f"{scale * each:.{1 if scale > 1 else 3}f}" for each in (found.value, found.low, found.high))
    return f"{value} ({low}-{high})"
