"""What a person sees: lines, progress bars on a terminal, and tables of results.

All that the commands print goes through `put` and `put_json`, which escape what models, programs, servers and files
wrote: a line stays one line, and nothing in it moves the cursor, changes colours or hides a character. Progress goes to
standard error or to the stream given, so that `--json` keeps standard output for programs.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from gce.domain.diagnosis import diagnose, run_counts
from gce.domain.outcomes import coverage
from gce.domain.statistics import Estimate, mean_of_tiers
from gce.domain.text import printable
from gce.domain.types import Interval, IterationRecord

__all__ = [
    "Silent",
    "Terminal",
    "accuracy_rows",
    "count_words",
    "coverage_cell",
    "difference_cell",
    "interval_cell",
    "p_cell",
    "percent",
    "put",
    "put_json",
    "rollout_rows",
    "share_cell",
    "table",
]

BAR_WIDTH = 24
SECONDS_BETWEEN_PAINTS = 0.1
SECONDS_BETWEEN_LINES = 300.0
"""Where there is no terminal, and a stage goes on for long."""


def put(*lines: str, error: bool = False, stream: TextIO | None = None) -> None:
    """Print each of `lines` as one line, on standard output, standard error or `stream`.

    What is not seen as itself is escaped (`printable`), line ends within a line and what the stream cannot encode too.
    """
    out = stream or (sys.stderr if error else sys.stdout)
    encoding = getattr(out, "encoding", None) or "utf-8"
    for line in lines:
        out.write(printable(line).encode(encoding, "backslashreplace").decode(encoding) + "\n")
    out.flush()


def put_json(data: Any, *, indent: int | None = None) -> None:
    """Print `data` as JSON in ASCII on standard output."""
    put(*json.dumps(data, indent=indent).replace("\x7f", "\\u007f").split("\n"))


class Silent:
    """Shows nothing."""

    def stage(self, name: str, total: int) -> Callable[[], None]:
        """See `gce.app.loop.Watcher`."""
        return lambda: None

    def iteration(self, record: IterationRecord) -> None:
        """See `gce.app.loop.Watcher`."""

    def say(self, text: str) -> None:
        """See `gce.app.loop.Watcher`."""


class Terminal:
    """Bars with pace and time left on a terminal, elsewhere a line now and then; a line for each iteration."""

    def __init__(self, iterations: int = 0, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.iterations = iterations
        self.live = self.stream.isatty()
        self._records: list[IterationRecord] = []
        self._warned: dict[str, str] = {}

    def say(self, *lines: str) -> None:
        """One line, or several."""
        self._clear()
        put(*lines, stream=self.stream)

    def stage(self, name: str, total: int) -> Callable[[], None]:
        """See `gce.app.loop.Watcher`."""
        began = painted = time.monotonic()
        done = 0

        def advance() -> None:
            nonlocal done, painted
            done += 1
            now = time.monotonic()
            if self.live and (now - painted >= SECONDS_BETWEEN_PAINTS or done == total):
                painted = now
                self._paint(name, done, total, now - began)
                if done == total:
                    self._clear()
            elif not self.live and now - painted >= SECONDS_BETWEEN_LINES and done < total:
                painted = now
                self.say(f"{name} {_progress(done, total, now - began)}")

        return advance

    def iteration(self, record: IterationRecord) -> None:
        """See `gce.app.loop.Watcher`."""
        tiers = list(record.tiers)
        if not tiers and not self._records:
            self.say("Worked examples are learned, without rollouts; greedy accuracy on dev problems in brackets.")
        elif tiers and not any(earlier.tiers for earlier in self._records):
            self.say("Training rollouts that were right, by tier; greedy accuracy on dev problems in brackets.")
        if not self._records or tiers != list(self._records[-1].tiers):
            columns = "".join(f"{tier:>14}" for tier in tiers)
            self.say(f"{'iter':>7}  {columns}   buffer  updates    loss  entropy  seconds")
        cells = ""
        for tier in tiers:
            count = record.tiers[tier]
            dev = f" [{percent(record.dev[tier].share)}]" if tier in record.dev and record.dev[tier].n else ""
            cells += f"{percent(count.correct / count.rollouts) + dev:>14}"
        self._records.append(record)
        others = [
            f"{tier} [{percent(found.share)}]" for tier, found in record.dev.items() if tier not in tiers and found.n
        ]
        loss = "      -" if record.loss is None else f"{record.loss:7.3f}"
        entropy = "        -" if record.entropy is None else f"{record.entropy:9.3f}"
        self.say(
            f"{record.iteration:>3}/{self.iterations:<3}  {cells}{sum(record.buffer.values()):>9}{record.updates:>9} "
            f"{loss}{entropy}{sum(record.seconds.values()):9.1f}  {' '.join(others)}".rstrip()
        )
        found = diagnose(self._records)
        for tier, words in found.items():
            if tier not in self._warned:
                self.say(f"warning: {tier + ': ' if tier else ''}{words}")
        self._warned = found

    def _paint(self, name: str, done: int, total: int, seconds: float) -> None:
        filled = BAR_WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        self.stream.write(f"\r\x1b[K{printable(name):>9} [{bar}] {_progress(done, total, seconds)}")
        self.stream.flush()

    def _clear(self) -> None:
        if self.live:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def _progress(done: int, total: int, seconds: float) -> str:
    rate = done / seconds if seconds else 0.0
    left = (total - done) / rate if rate else 0.0
    pace = f"{rate:.1f}/s" if rate >= 0.1 or not rate else f"{1 / rate:.0f} s each"
    return f"{done}/{total}  {pace}  {left:.0f} s left"


def percent(share: float) -> str:
    """A share as a percentage without decimals, as "7%"."""
    return f"{100 * share:.0f}%"


def share_cell(share: float, low: float, high: float, *, digits: int = 1) -> str:
    """A share with its interval in percent, as "7.5 (4.1-12.3)"."""
    return f"{100 * share:.{digits}f} ({100 * low:.{digits}f}-{100 * high:.{digits}f})"


def interval_cell(found: Interval, *, digits: int = 1) -> str:
    """The same of a measured share."""
    return share_cell(found.share, found.low, found.high, digits=digits)


def difference_cell(found: Estimate, *, digits: int = 1) -> str:
    """A difference of shares with its interval in points, as "+7.5 (-4.1 to +12.3)"."""
    value, low, high = (f"{100 * each:+.{digits}f}" for each in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"


def coverage_cell(share: float) -> str:
    """A coverage in percent, as "100 %"; never rounded up to that."""
    return f"{math.floor(1000 * share) / 10:g} %"


def p_cell(p: float | None) -> str:
    """A p value."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def count_words(counts: Mapping[str, int], asked: int) -> str:
    """How many problems tiers have, by tier, of so many `asked` for; a tier that has fewer says that these are all."""
    most = max(counts.values())
    all_of_them = {tier: " (all there are)" if n < asked else "" for tier, n in counts.items()}
    usual = next(tier for tier, n in counts.items() if n == most)
    fewer = [f", {n} in {tier}{all_of_them[tier]}" for tier, n in counts.items() if n < most]
    return f"n = {most} a tier{all_of_them[usual]}{''.join(fewer)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False) -> str:
    """Columns of even width, the first to the left and the others to the right, or to the left where they are words.

    A row is a line, whatever its cells hold.
    """
    head, *rows = ([printable(cell) for cell in row] for row in (head, *rows))
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        place = str.ljust if words else str.rjust
        rest = "  ".join(place(cell, width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return f"{cells[0]:<{widths[0]}}  {rest}".rstrip()

    return "\n".join([line(head), line(["-" * width for width in widths]), *map(line, rows)])


def rollout_rows(records: Sequence[IterationRecord]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """What the training rollouts of a run were like, a row a tier: head and rows."""
    shares = ("right", "problems", "all wrong", "all right", "cut off", "unreadable", "distinct", "coverage")
    head = ("", "rollouts", *shares)
    failed: Counter[str] = Counter()
    for record in records:
        failed.update(record.failed)
    rows = tuple(
        (
            tier,
            f"{count.rollouts}",
            percent(count.correct / count.rollouts),
            f"{count.problems}",
            percent(count.all_wrong / count.problems),
            percent(count.all_right / count.problems),
            percent(count.truncated / count.rollouts),
            percent(count.unparsed / count.rollouts),
            f"{count.distinct}",
            coverage_cell(count.rollouts / (count.rollouts + failed[tier])),
        )
        for tier, count in run_counts(records).items()
    )
    return head, rows


def accuracy_rows(
    rows: Mapping[str, Mapping[str, Interval]], tiers: Sequence[str], held_out: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Shares in every tier and their mean, with intervals, a row a name; a dash where it was not measured.

    The last column is the coverage.
    """
    lines = []
    for name, row in rows.items():
        found = {tier: share for tier, share in row.items() if share.n}
        line = [name, *(interval_cell(found[tier], digits=0) if tier in found else "-" for tier in tiers)]
        if set(tiers) <= set(found):
            mean = mean_of_tiers([found[tier] for tier in tiers])
            line.append(share_cell(mean.value, mean.low, mean.high))
        else:
            line.append("-")
        lines.append((*line, coverage_cell(coverage(row.values()))))
    columns = (f"{tier}, held out" if tier in held_out else tier for tier in tiers)
    return ("", *columns, "mean", "coverage"), tuple(lines)
