"""Figures drawn with matplotlib: as SVG for a page, or as PNG.

In SVG text and axes take the page's colour, so that light and dark both read well.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from gce.domain.figures import Bars, Effects, Figure, Grid, Lines, Measured, Ratios, Stacks, Timeline
from gce.errors import MissingExtra

__all__ = ["can_draw", "png", "svg"]

INK = "#010203"
"""Stands for the page's own text colour until the SVG is written."""
COLOURS = ("#4477aa", "#ee6677", "#228833", "#bb8800", "#55aacc", "#aa3377", "#888888", "#cc6633")
"""Told apart by most eyes, and visible on white and on black (after Paul Tol's bright scheme)."""
FAULT = "#dd3344"
MARKS = "os^Dvp*X"
_DASH = 4.0
"""Length of a dash of lines that share a piece, in widths of the line."""
WIDTH, HEIGHT = 5.4, 3.2
"""Inches. Some are higher or lower than that, as they have much or little to show."""
CHARACTERS_ACROSS = 72
"""Of text, in a figure's width; `KEY_WIDTH` of them stand for a legend's key and the space around it."""
KEY_WIDTH = 7
ROW_HEIGHT = 0.22
"""Inches of a row of a legend."""
LONGEST_NAME, LONGEST_TITLE = 40, 32
"""Characters of a name, and of a panel's title."""
MOST_NUMBERS = 16
"""Numbered ticks side by side."""


@cache
def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def svg(figure: Figure) -> str:
    """One `<svg>` element that scales with the page."""
    with _drawn(figure) as canvas:
        out = io.StringIO()
        canvas.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    width, height = re.findall(r'(?:width|height)="([0-9.]+)pt"', text)[:2]
    label = _escaped(figure.title)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    )
    return re.sub(r"<svg [^>]*>", lambda _: opening, text, count=1)


def png(figure: Figure) -> bytes:
    """The same on white."""
    with _drawn(figure) as canvas:
        out = io.BytesIO()
        canvas.savefig(out, format="png", dpi=160, facecolor="white", metadata={"Software": "gce report"})
    return out.getvalue()


@contextlib.contextmanager
def _drawn(figure: Figure) -> Iterator[Any]:
    """The matplotlib figure, with settings that hold for it alone."""
    try:
        import matplotlib
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
        "legend.frameon": False,
        **dict.fromkeys(inked, INK),
    }
    with matplotlib.rc_context(settings):
        canvas = Canvas(figsize=(WIDTH, HEIGHT), layout="constrained")
        _DRAW[type(figure)](figure, canvas)
        yield canvas


def _lines(figure: Lines, canvas: Any) -> None:
    names = figure.names
    high = -(-len(names) // 2)
    canvas.set_figheight(0.7 + 2.1 * max(high, 1))
    axes = canvas.subplots(high, 2 if len(names) > 1 else 1, squeeze=False)
    flat = list(axes.flat)
    labels: dict[str, Any] = {}
    shown = [[*figure.panels.get(panel, {}), *figure.intervals.get(panel, {})] for panel in names]
    # A name of the legend has one mark and one colour in all panels.
    styles = {
        line: n for n, line in enumerate(dict.fromkeys(line for each in shown if len({*each}) > 1 for line in each))
    }
    for axis in flat[len(names) :]:
        axis.set_axis_off()
    for panel, axis in zip(names, flat, strict=False):
        percent = figure.percent(panel)
        drawn: dict[str, Any] = {}
        found = figure.panels.get(panel, {})
        apart = _apart(found)
        for line, points in found.items():
            style = _line_style(styles.get(line, 0)) | apart[line]
            style |= {"linestyle": "none"} if line in figure.scattered else {}
            (drawn[line],) = axis.plot([x for x, _ in points], [percent * y for _, y in points], **style)
        for place, (line, measured) in enumerate(figure.intervals.get(panel, {}).items()):
            xs = [x * 1.03**place if figure.doubles else x + 0.05 * place for x, _ in measured]
            ys, reach = _heights([found for _, found in measured], percent)
            style = _line_style(styles.get(line, 0))
            drawn[line] = axis.errorbar(xs, ys, yerr=reach, capsize=2, linewidth=1, **style)
        if len(drawn) > 1:  # A single line is what its panel's title says.
            labels |= drawn
        axis.margins(x=0.1)
        axis.set_title(_shortened(panel, LONGEST_TITLE), fontsize=9)
        axis.grid(alpha=0.2)
        if figure.doubles:
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter("{x:g}")
        elif all(float(x).is_integer() for each in figure.panels.get(panel, {}).values() for x, _ in each):
            axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if panel in figure.shares:
            axis.set_ylim(-3, 103)
    for axis in flat[:: len(axes[0])][-1:] + flat[1 : len(names)][-1:]:
        axis.set_xlabel(figure.across)
    for panel, axis in zip(names, flat, strict=False):
        if panel in figure.axes:
            axis.set(**dict(zip(("xlabel", "ylabel"), figure.axes[panel], strict=True)))
    _legend(canvas, labels)


def _stacks(figure: Stacks, canvas: Any) -> None:
    parts = figure.parts
    axis = canvas.subplots()
    bottom = [0.0] * len(figure.found)
    drawn: dict[str, Any] = {}
    for place, part in enumerate(parts):
        values = [float(each.get(part, 0)) for each in figure.found.values()]
        drawn[part] = axis.bar(range(len(values)), values, bottom=bottom, color=_colour(place), width=0.7)
        bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    axis.set_ylabel(figure.unit)
    axis.set_xlabel(figure.across)
    axis.grid(alpha=0.2, axis="y")
    _name_ticks(canvas, axis, list(figure.found))
    _legend(canvas, drawn)


def _grid(figure: Grid, canvas: Any) -> None:
    from matplotlib.patches import Rectangle

    canvas.set_figheight(1.2 + 0.32 * len(figure.found))
    axis = canvas.subplots()
    count = max((len(values) for values in figure.found.values()), default=0)
    numbers = [[float("nan") if v is None else 100 * v for v in values] for values in figure.found.values()]
    if not numbers or not count:
        axis.set_axis_off()
        return
    image = axis.imshow(numbers, aspect="auto", cmap="cividis", vmin=0, vmax=100)
    for place, (row, values) in enumerate(figure.found.items()):
        for column, value in enumerate(values):
            if value is not None and count <= 12:
                ink = "black" if value > 0.6 else "white"
                axis.text(column, place, f"{100 * value:.0f}", ha="center", va="center", color=ink, fontsize=8)
        first = figure.marked.get(row)
        if first is not None:
            frame = Rectangle((first - 1.47, place - 0.46), 0.94, 0.92, fill=False, edgecolor=FAULT, linewidth=2)
            axis.add_patch(frame)
    axis.set_yticks(range(len(figure.found)), list(map(_shortened, figure.found)))
    _name_ticks(canvas, axis, [str(column + 1) for column in range(count)])
    axis.set_xlabel(figure.across)
    canvas.colorbar(image, ax=axis, label="% right")


def _bars(figure: Bars, canvas: Any) -> None:
    groups = list(dict.fromkeys(group for each in figure.found.values() for group in each))
    canvas.set_figheight(2.9)
    axis = canvas.subplots()
    width, percent = 0.8 / max(len(figure.found), 1), figure.percent
    drawn: dict[str, Any] = {}
    for place, (row, each) in enumerate(figure.found.items()):
        xs = [groups.index(group) - 0.4 + width * (place + 0.5) for group in each]
        ys, reach = _heights(list(each.values()), percent)
        style = {"color": _colour(place), "ecolor": INK, "error_kw": {"linewidth": 0.8}}
        drawn[row] = axis.bar(xs, ys, width, yerr=reach, **style)
    _name_ticks(canvas, axis, groups)
    axis.set_ylim(0, 1.05 * percent)
    axis.set_ylabel(figure.unit)
    axis.set_xlabel(figure.across)
    axis.grid(alpha=0.2, axis="y")
    _legend(canvas, drawn)


def _effects(figure: Effects, canvas: Any) -> None:
    canvas.set_figheight(1.0 + 0.28 * len(figure.found))
    axis = canvas.subplots()
    places = range(len(figure.found))
    values = [100 * value for value, _, _ in figure.found.values()]
    reach = [
        [100 * (v - low) for v, low, _ in figure.found.values()],
        [100 * (high - v) for v, _, high in figure.found.values()],
    ]
    axis.errorbar(values, places, xerr=reach, fmt="o", capsize=3, color=COLOURS[0])
    axis.axvline(0, color=INK, linewidth=0.8)
    axis.set_yticks(places, list(map(_shortened, figure.found)))
    axis.set_ylim(len(figure.found) - 0.5, -0.5)
    axis.set_xlabel(figure.unit)
    axis.grid(alpha=0.2, axis="x")


def _ratios(figure: Ratios, canvas: Any) -> None:
    canvas.set_figheight(1.0 + 0.28 * len(figure.found))
    axis = canvas.subplots()
    places = range(len(figure.found))
    values = [each.value for each in figure.found.values()]
    reach = [
        [each.value - each.low for each in figure.found.values()],
        [each.high - each.value for each in figure.found.values()],
    ]
    axis.errorbar(values, places, xerr=reach, fmt="o", capsize=3, color=COLOURS[0])
    axis.axvline(1, color=INK, linewidth=0.8)
    low = min(each.low for each in figure.found.values())
    high = max(each.high for each in figure.found.values())
    axis.set_xscale("log", base=2)
    axis.set_xlim(min(low, 1.0) / 1.1, max(high, 1.9) * 1.1)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_yticks(places, list(map(_shortened, figure.found)))
    axis.set_ylim(len(figure.found) - 0.5, -0.5)
    axis.set_xlabel(figure.unit)
    axis.grid(alpha=0.2, axis="x")


def _timeline(figure: Timeline, canvas: Any) -> None:
    found = figure.chart
    canvas.set_figheight(1.0 + 0.22 * len(found.bars))
    axis = canvas.subplots()
    for place, bar in enumerate(found.bars):
        colour, hatch = (FAULT, "///") if bar.faulty else (COLOURS[0], None)
        axis.barh(place, bar.end - bar.start, left=bar.start, color=colour, height=0.7, hatch=hatch, edgecolor="white")
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
    axis.set_xlabel("time; marks are job deadlines, the dashed line is the overall deadline")
    axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axis.grid(alpha=0.2, axis="x")


def _legend(canvas: Any, drawn: Mapping[str, Any]) -> None:
    """Names below the figure, in as many columns as its width has room for; it grows by the rows."""
    names = list(map(_shortened, drawn))
    if not names:
        return
    columns = max(1, min(6, len(names), CHARACTERS_ACROSS // (max(map(len, names)) + KEY_WIDTH)))
    canvas.set_figheight(canvas.get_figheight() + ROW_HEIGHT * -(-len(names) // columns))
    canvas.legend(drawn.values(), names, loc="outside lower center", ncols=columns)


def _name_ticks(canvas: Any, axis: Any, names: Sequence[str]) -> None:
    """Names below the places 0, 1, ... of an axis: all of them, slanted where they are long, else every n-th number."""
    numbers = all(name.isdigit() for name in names)
    step = max(1, -(-len(names) // MOST_NUMBERS)) if numbers else 1
    names = list(map(_shortened, names))
    axis.set_xticks(range(0, len(names), step), names[::step])
    if not numbers and len(names) * (max(map(len, names)) + 2) > CHARACTERS_ACROSS:
        canvas.set_figheight(canvas.get_figheight() + 0.04 * max(map(len, names)))
        axis.tick_params(axis="x", labelrotation=30)
        for label in axis.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _apart(lines: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, dict[str, Any]]:
    """Return how each line is drawn so that none hides another.

    Of k lines that share a piece or a single point, each has every k-th dash, and a smaller mark than those before it.
    """
    pieces = {line: {*pairwise(points), *((point, point) for point in points[:1])} for line, points in lines.items()}
    groups: list[list[str]] = []
    for line in lines:
        met = [group for group in groups if any(pieces[line] & pieces[other] for other in group)]
        groups = [group for group in groups if group not in met] + [[*(each for group in met for each in group), line]]
    styles: dict[str, dict[str, Any]] = {}
    for group in groups:
        for place, line in enumerate(group if len(group) > 1 else ()):
            dashes = (_DASH * place, (_DASH, _DASH * (len(group) - 1)))
            styles[line] = {"linestyle": dashes, "markersize": 4 + 2.5 * (len(group) - 1 - place), "clip_on": False}
    return {line: styles.get(line, {}) for line in lines}


def _line_style(place: int) -> dict[str, Any]:
    return {"marker": MARKS[place % len(MARKS)], "markersize": 4, "color": _colour(place)}


def _heights(measured: Sequence[Measured], scale: float) -> tuple[list[float], list[list[float]]]:
    """Values, and how far their intervals reach below and above."""
    below = [scale * (found.value - found.low) for found in measured]
    above = [scale * (found.high - found.value) for found in measured]
    return [scale * found.value for found in measured], [below, above]


def _shortened(name: str, most: int = LONGEST_NAME) -> str:
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


_DRAW: Mapping[type[Any], Callable[[Any, Any], None]] = {
    Lines: _lines,
    Stacks: _stacks,
    Grid: _grid,
    Bars: _bars,
    Effects: _effects,
    Ratios: _ratios,
    Timeline: _timeline,
}
"""How each kind of figure is drawn into a matplotlib figure."""
