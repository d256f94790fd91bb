"""A watcher that keeps what is said."""

from __future__ import annotations

from gce.app.terminal import Silent


class Listening(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, *lines: str) -> None:
        self.said += lines
