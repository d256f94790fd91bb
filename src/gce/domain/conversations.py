"""A finished conversation about one problem, with its attempts and its token counts."""

from __future__ import annotations

from attrs import field, frozen

from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.problems import Message

__all__ = ["Conversation"]


@frozen
class Conversation:
    """The attempts at one problem, and the replies of the model under test that led to them."""

    attempts: tuple[Answer, ...]
    """At least one."""
    replies: int = 1
    """Number of completions requested of the model, drafts included."""
    prompt_tokens: int | None = None
    """Total prompt tokens over all replies; None if the backend does not report them, as for scores."""
    tokens: int | None = None
    """Total generated tokens over all replies; None if the backend does not report them."""
    said: tuple[tuple[tuple[Message, ...], Completion], ...] = field(default=(), eq=False, repr=False)
    """Prompt and completion of each reply of the model under test; empty for a conversation read from a file."""
    scored: int = 0
    """Total tokens of continuations whose log-probabilities were asked of the model under test; their prompts, whose
    length models do not report, come on top."""

    @property
    def last(self) -> Answer:
        """The last attempt, which is the one that counts."""
        return self.attempts[-1]

    @property
    def tries(self) -> tuple[Answer, ...]:
        """The attempts at solving the problem, without further readings."""
        return tuple(each for each in self.attempts if not each.reading)
