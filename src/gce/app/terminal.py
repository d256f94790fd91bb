"""What a person sees: lines, and progress bars on a terminal.

All that the commands print goes through `put` and `put_json`, which escape what models, programs, servers and files
wrote: a line stays one line, and nothing in it moves the cursor, changes colours or hides a character. Progress goes to
standard error or to the stream given, so that `--json` keeps standard output for programs.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from gce.app.tables import percent
from gce.domain.diagnosis import diagnose
from gce.domain.measurements import IterationRecord
from gce.domain.text import printable

__all__ = ["Silent", "Terminal", "put", "put_json"]

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
    """Print `data` as JSON in ASCII on standard output; a number without limit, or that is none, is null in JSON."""
    put(*json.dumps(_finite(data), indent=indent, allow_nan=False).replace("\x7f", "\\u007f").split("\n"))


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


class Silent:
    """Shows nothing."""

    def stage(self, name: str, total: int) -> Callable[[], None]:
        """See `gce.app.training.state.Watcher`."""
        return lambda: None

    def iteration(self, record: IterationRecord) -> None:
        """See `gce.app.training.state.Watcher`."""

    def say(self, *lines: str) -> None:
        """See `gce.app.training.state.Watcher`."""


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
        """See `gce.app.training.state.Watcher`."""
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
        """See `gce.app.training.state.Watcher`."""
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
