"""Progress in a notebook, and who watches where nobody was chosen: a notebook, a terminal, or nobody."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from gce.app.terminal import Silent, Terminal, put
from gce.domain.measurements import IterationRecord
from gce.domain.text import printable

if TYPE_CHECKING:
    from gce.app.training.state import Watcher

__all__ = ["Notebook", "in_notebook", "tell", "watch_of"]

SECONDS_BETWEEN_UPDATES = 0.5


def watch_of(progress: bool) -> Callable[[int], Watcher]:
    """From the number of the last iteration to who watches.

    A notebook gets a bar below the cell, a terminal bars on standard error, a pipe or file a line now and then there.
    """
    if not progress:
        return lambda _last_iteration: Silent()
    return Notebook if in_notebook() else Terminal


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return any(each.__name__ == "ZMQInteractiveShell" for each in type(shell).__mro__)


def tell(*lines: str) -> None:
    """Lines about what is going on: as the cell's output in a notebook, elsewhere on standard error."""
    put(*lines, error=not in_notebook())


class Notebook:
    """One bar below the cell for the stage under way; lines, such as those of iterations, as the cell's output."""

    def __init__(self, iterations: int = 0) -> None:
        from IPython.display import HTML, display

        self._html, self._handle = HTML, display(HTML(""), display_id=True)
        self._text = io.StringIO()
        self._lines = Terminal(iterations, self._text)

    def say(self, *lines: str) -> None:
        """See `gce.app.training.state.Watcher`."""
        for line in lines:
            if line.endswith(" ..."):  # It names what is under way, as the bar does.
                self._handle.update(self._html(escape(printable(line))))
            else:
                put(line)

    def iteration(self, record: IterationRecord) -> None:
        """See `gce.app.training.state.Watcher`."""
        self._lines.iteration(record)
        put(*self._text.getvalue().splitlines())
        self._text.seek(0)
        self._text.truncate()

    def stage(self, name: str, total: int) -> Callable[[], None]:
        """See `gce.app.training.state.Watcher`."""
        began = updated = time.monotonic()
        done = 0

        def advance() -> None:
            nonlocal done, updated
            done += 1
            now = time.monotonic()
            if now - updated >= SECONDS_BETWEEN_UPDATES or done == total:
                updated = now
                left = (now - began) * (total - done) / done
                self._handle.update(self._html(_bar(name, done, total, left)))

        return advance


def _bar(name: str, done: int, total: int, left: float) -> str:
    bar = f'<progress value="{done}" max="{total}"></progress>'
    return f"{escape(printable(name))} {bar} {done}/{total}, {left:.0f} s left"
