"""Figures of runs and studies: numbers in, a picture and its data out. Needs matplotlib, and nothing else of a run.

A figure is drawn when it is asked for, as SVG for a page (text and axes take the page's colour, so that light and dark
both read well) or as PNG.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from gce.domain.types import Chart, Interval
from gce.errors import MissingExtra

__all__ = ["Figure", "bars", "chart", "effects", "grid", "lines", "stacks"]

INK = "#010203"
"""Stands for the page's own text colour until the SVG is written."""
COLOURS = ("#4477aa", "#ee6677", "#228833", "#bb8800", "#55aacc", "#aa3377", "#888888", "#cc6633")
"""Told apart by most eyes, and visible on white and on black (after Paul Tol's bright scheme)."""
FAULT = "#dd3344"
MARKS = "os^Dvp*X"
WIDTH = 5.4

Points = Mapping[str, Sequence[tuple[float, float]]]


@frozen
class Figure:
    """A picture with what it shows as a table."""

    name: str
    """For a file."""
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Its data, as text."""
    draw: Callable[[Any], None]
    """Draws into a matplotlib figure."""
    height: float = 3.2
    """Inches; the width is that of all figures."""

    def svg(self) -> str:
        """One `<svg>` element that scales with the page."""
        with _drawn(self) as figure:
            out = io.StringIO()
            figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        text = out.getvalue()
        text = text[text.index("<svg") :].replace(INK, "currentColor")
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r'<g id="[^"]*"', "<g", text)
        width, height = re.findall(r'(?:width|height)="([0-9.]+)pt"', text)[:2]
        label = _escaped(self.title)
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
        )
        return re.sub(r"<svg [^>]*>", lambda _: opening, text, count=1)

    def png(self) -> bytes:
        """The same on white."""
        with _drawn(self) as figure:
            out = io.BytesIO()
            figure.savefig(out, format="png", dpi=160, facecolor="white", metadata={"Software": "gce report"})
        return out.getvalue()


@contextlib.contextmanager
def _drawn(figure: Figure) -> Iterator[Any]:
    """The matplotlib figure, with settings that hold for it alone."""
    try:
        import matplotlib
        from cycler import cycler  # which matplotlib brings along
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise MissingExtra("matplotlib", "report") from error
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": figure.name,
        "text.parse_math": False,
        "font.size": 9,
        "font.family": "sans-serif",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "legend.frameon": False,
        **dict.fromkeys(inked, INK),
    }
    with matplotlib.rc_context(settings):
        canvas = Canvas(figsize=(WIDTH, figure.height), layout="constrained")
        figure.draw(canvas)
        yield canvas


def lines(
    name: str,
    title: str,
    panels: Mapping[str, Points],
    *,
    across: str = "iteration",
    shares: Sequence[str] = (),
    intervals: Mapping[str, Mapping[str, Sequence[tuple[float, Interval]]]] | None = None,
) -> Figure:
    """Panels side by side, two in a row; those named in `shares` run from 0 to 100 %, with intervals where given."""
    found = intervals or {}
    names = [*panels, *(panel for panel in found if panel not in panels)]
    rows: list[tuple[str, ...]] = []
    for panel in names:
        percent = 100.0 if panel in shares else 1.0
        for line, points in panels.get(panel, {}).items():
            rows += [(panel, line, f"{x:g}", f"{percent * y:.4g}") for x, y in points]
        for line, measured in found.get(panel, {}).items():
            rows += [
                (panel, line, f"{x:g}", f"{100 * i.share:.1f} ({100 * i.low:.1f}-{100 * i.high:.1f}), n = {i.n}")
                for x, i in measured
            ]
    high = -(-len(names) // 2)

    def draw(canvas: Any) -> None:
        axes = canvas.subplots(high, 2 if len(names) > 1 else 1, squeeze=False)
        flat = list(axes.flat)
        labels: dict[str, Any] = {}
        for axis in flat[len(names) :]:
            axis.set_axis_off()
        for panel, axis in zip(names, flat, strict=False):
            percent = 100.0 if panel in shares else 1.0
            drawn: dict[str, Any] = {}
            for place, (line, points) in enumerate(panels.get(panel, {}).items()):
                style = {"marker": MARKS[place % len(MARKS)], "markersize": 4, "color": COLOURS[place % len(COLOURS)]}
                (drawn[line],) = axis.plot([x for x, _ in points], [percent * y for _, y in points], **style)
            for place, (line, measured) in enumerate(found.get(panel, {}).items()):
                drawn[line] = _with_intervals(axis, place, measured, percent)
            if len(drawn) > 1:  # A single line is what its panel's title says.
                labels |= drawn
            axis.margins(x=0.1)
            axis.set_title(panel, fontsize=9)
            axis.grid(alpha=0.2)
            axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
            if panel in shares:
                axis.set_ylim(-3, 103)
        for axis in flat[:: len(axes[0])][-1:] + flat[1 : len(names)][-1:]:
            axis.set_xlabel(across)
        if labels:
            canvas.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=min(6, len(labels)))

    return Figure(name, title, ("panel", "line", across, "value"), tuple(rows), draw, 0.7 + 2.1 * max(high, 1))


def _with_intervals(axis: Any, place: int, measured: Sequence[tuple[float, Interval]], percent: float) -> Any:
    xs = [x + 0.05 * place for x, _ in measured]
    ys = [percent * found.share for _, found in measured]
    below = [percent * (found.share - found.low) for _, found in measured]
    above = [percent * (found.high - found.share) for _, found in measured]
    style = {"marker": MARKS[place % len(MARKS)], "markersize": 4, "color": COLOURS[place % len(COLOURS)]}
    return axis.errorbar(xs, ys, yerr=[below, above], capsize=2, linewidth=1, **style)


def stacks(name: str, title: str, found: Mapping[str, Mapping[str, float]], *, unit: str, across: str) -> Figure:
    """A bar for each name, made of parts."""
    parts = list(dict.fromkeys(part for each in found.values() for part in each))
    rows = [(place, part, f"{each.get(part, 0):.4g}") for place, each in found.items() for part in parts]

    def draw(canvas: Any) -> None:
        axis = canvas.subplots()
        bottom = [0.0] * len(found)
        for place, part in enumerate(parts):
            values = [float(each.get(part, 0)) for each in found.values()]
            axis.bar(list(found), values, bottom=bottom, label=part, color=COLOURS[place % len(COLOURS)], width=0.7)
            bottom = [low + value for low, value in zip(bottom, values, strict=True)]
        axis.set_ylabel(unit)
        axis.set_xlabel(across)
        axis.grid(alpha=0.2, axis="y")
        if parts:
            canvas.legend(loc="outside lower center", ncols=min(6, len(parts)))

    return Figure(name, title, (across, "part", unit), tuple(rows), draw)


def grid(
    name: str, title: str, found: Mapping[str, Sequence[float | None]], marked: Mapping[str, int | None], *, across: str
) -> Figure:
    """Shares as a heat map, a row a name; None is empty. `marked` columns, from 1, are framed."""
    count = max((len(values) for values in found.values()), default=0)
    rows = [
        (
            row,
            str(column),
            "-" if value is None else f"{100 * value:.0f} %",
            "first" if marked.get(row) == column else "",
        )
        for row, values in found.items()
        for column, value in enumerate(values, 1)
    ]

    def draw(canvas: Any) -> None:
        from matplotlib.patches import Rectangle

        axis = canvas.subplots()
        numbers = [[float("nan") if v is None else 100 * v for v in values] for values in found.values()]
        if not numbers or not count:
            axis.set_axis_off()
            return
        image = axis.imshow(numbers, aspect="auto", cmap="cividis", vmin=0, vmax=100)
        for place, (row, values) in enumerate(found.items()):
            for column, value in enumerate(values):
                if value is not None and count <= 12:
                    ink = "black" if value > 0.6 else "white"
                    axis.text(column, place, f"{100 * value:.0f}", ha="center", va="center", color=ink, fontsize=8)
            first = marked.get(row)
            if first is not None:
                frame = Rectangle((first - 1.47, place - 0.46), 0.94, 0.92, fill=False, edgecolor=FAULT, linewidth=2)
                axis.add_patch(frame)
        axis.set_yticks(range(len(found)), list(found))
        axis.set_xticks(range(count), [str(column + 1) for column in range(count)])
        axis.set_xlabel(across)
        canvas.colorbar(image, ax=axis, label="% right")

    return Figure(name, title, ("", across, "right", ""), tuple(rows), draw, 1.2 + 0.32 * len(found))


def bars(name: str, title: str, found: Mapping[str, Mapping[str, Interval]], *, across: str = "tier") -> Figure:
    """Shares with intervals, groups of bars: a group for each inner name, a bar for each outer one."""
    groups = list(dict.fromkeys(group for each in found.values() for group in each))
    rows = [
        (row, group, f"{100 * i.share:.1f} ({100 * i.low:.1f}-{100 * i.high:.1f})", str(i.n))
        for row, each in found.items()
        for group, i in each.items()
    ]

    def draw(canvas: Any) -> None:
        axis = canvas.subplots()
        width = 0.8 / max(len(found), 1)
        for place, (row, each) in enumerate(found.items()):
            shown = [(groups.index(group), interval) for group, interval in each.items()]
            xs = [x - 0.4 + width * (place + 0.5) for x, _ in shown]
            ys = [100 * interval.share for _, interval in shown]
            below = [100 * (interval.share - interval.low) for _, interval in shown]
            above = [100 * (interval.high - interval.share) for _, interval in shown]
            colour = COLOURS[place % len(COLOURS)]
            axis.bar(
                xs, ys, width, label=row, color=colour, yerr=[below, above], ecolor=INK, error_kw={"linewidth": 0.8}
            )
        axis.set_xticks(range(len(groups)), groups)
        axis.set_ylim(0, 105)
        axis.set_ylabel("% right")
        axis.set_xlabel(across)
        axis.grid(alpha=0.2, axis="y")
        canvas.legend(loc="outside lower center", ncols=3)

    return Figure(name, title, ("", across, "% right (95 %)", "n"), tuple(rows), draw, 2.9 + 0.22 * -(-len(found) // 3))


def effects(name: str, title: str, found: Mapping[str, tuple[float, float, float]]) -> Figure:
    """Differences in points with intervals, (value, low, high) each, one below the other beside a line at 0."""
    rows = [(row, f"{100 * v:+.1f}", f"{100 * low:+.1f} to {100 * high:+.1f}") for row, (v, low, high) in found.items()]

    def draw(canvas: Any) -> None:
        axis = canvas.subplots()
        places = range(len(found))
        values = [100 * value for value, _, _ in found.values()]
        reach = [[100 * (v - low) for v, low, _ in found.values()], [100 * (high - v) for v, _, high in found.values()]]
        axis.errorbar(values, places, xerr=reach, fmt="o", capsize=3, color=COLOURS[0])
        axis.axvline(0, color=INK, linewidth=0.8)
        axis.set_yticks(places, list(found))
        axis.set_ylim(len(found) - 0.5, -0.5)
        axis.set_xlabel("points of test accuracy")
        axis.grid(alpha=0.2, axis="x")

    return Figure(name, title, ("condition", "difference", "95 %"), tuple(rows), draw, 1.0 + 0.28 * len(found))


def chart(name: str, title: str, found: Chart) -> Figure:
    """An answer as bars over time; what a violation names is red and hatched, ticks are limits."""
    rows = [
        (bar.label, f"{bar.start:g}", f"{bar.end:g}", "-" if bar.limit is None else f"{bar.limit:g}", "x" * bar.faulty)
        for bar in found.bars
    ]

    def draw(canvas: Any) -> None:
        axis = canvas.subplots()
        for place, bar in enumerate(found.bars):
            colour, hatch = (FAULT, "///") if bar.faulty else (COLOURS[0], None)
            axis.barh(
                place, bar.end - bar.start, left=bar.start, color=colour, height=0.7, hatch=hatch, edgecolor="white"
            )
            if bar.limit is not None:
                late = FAULT if bar.end > bar.limit else INK
                axis.plot([bar.limit, bar.limit], [place - 0.45, place + 0.45], color=late, linewidth=2)
        if found.limit is not None:
            axis.axvline(found.limit, color=INK, linestyle="--", linewidth=1)
        axis.set_yticks(range(len(found.bars)), [bar.label for bar in found.bars])
        axis.invert_yaxis()
        wanted = [bar.limit for bar in found.bars if bar.limit is not None] + [found.limit or 0.0]
        latest = max(bar.end for bar in found.bars)
        # A start far beyond all limits would hide everything else; the data have it.
        axis.set_xlim(0, min(1.04 * latest, max(4 * max(wanted), 100.0)) if latest > max(wanted) else None)
        axis.set_xlabel("time; ticks are deadlines, dashed is everything's")
        axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        axis.grid(alpha=0.2, axis="x")

    return Figure(
        name, title, ("job", "start", "end", "deadline", "fault"), tuple(rows), draw, 1.0 + 0.22 * len(found.bars)
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
