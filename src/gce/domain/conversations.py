"""A conversation about one problem that has ended: its attempts, and what it cost."""

from __future__ import annotations

from attrs import field, frozen

from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.problems import Message

__all__ = ["Conversation"]


@frozen
class Conversation:
    """The attempts at one problem, and what the model under test read and wrote for them."""

    attempts: tuple[Answer, ...]
    """At least one."""
    replies: int = 1
    """Completions that the model was asked for, drafts included."""
    prompt_tokens: int | None = None
    """Tokens read over all replies; None where the backend does not tell."""
    tokens: int | None = None
    """Tokens written over all replies; None where the backend does not tell."""
    said: tuple[tuple[tuple[Message, ...], Completion], ...] = field(default=(), eq=False, repr=False)
    """What the model under test read and wrote, reply by reply; empty where it was read back from a file."""

    @property
    def last(self) -> Answer:
        """The attempt that counts."""
        return self.attempts[-1]
