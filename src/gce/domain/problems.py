"""A problem with its identity, and the messages that a model is shown."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, get_args

from attrs import field, frozen, validators

from gce.domain.serialization import OMIT_DEFAULT

__all__ = ["Message", "Problem", "ProblemId", "Role", "Split", "ToolCall"]


Role = Literal["system", "user", "assistant", "tool"]


Split = Literal["train", "dev", "test"]


@frozen
class ToolCall:
    """A model's call of a tool."""

    id: str
    """Unique within the conversation, so that the result can name it; may be empty if the model gives none."""
    name: str
    arguments: str
    """Arguments as the model wrote them: JSON text that may be invalid or not an object."""


@frozen
class Message:
    """One message of a conversation, as the model is shown it."""

    role: Role = field(validator=validators.in_(("system", "user", "assistant", "tool")))
    content: str
    tool_calls: tuple[ToolCall, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """The assistant's tool calls, in order."""
    tool_call_id: str = field(default="", metadata=OMIT_DEFAULT)
    """For a tool's message, the id of the call that it answers."""

    def __attrs_post_init__(self) -> None:
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"expected tool calls of the assistant alone, got some of role {self.role!r}")
        if self.tool_call_id and self.role != "tool":
            raise ValueError(f"expected a tool_call_id of a tool alone, got one of role {self.role!r}")


_without_slash = validators.matches_re(r"[^/]*")


@frozen
class ProblemId:
    """Identity of a problem, printed as `task/preset/split/tier/seed/index`.

    Only the task's name may contain a slash.
    """

    task: str
    preset: str = field(validator=_without_slash)
    split: Split = field(validator=validators.in_(get_args(Split)))
    tier: str = field(validator=_without_slash)
    seed: int
    index: int

    def __str__(self) -> str:
        """The printed form, which `parse` reads."""
        return f"{self.task}/{self.within_task}"

    @property
    def within_task(self) -> str:
        """The printed form without the task."""
        return f"{self.preset}/{self.split}/{self.tier}/{self.seed}/{self.index}"

    @classmethod
    def parse(cls, text: str) -> ProblemId:
        """Return the identity that is printed as `text`.

        Raises:
            ValueError: `text` is not the printed form of an identity.
        """
        try:
            task, preset, split, tier, seed, index = text.rsplit("/", 5)
            found = cls(task, preset, split, tier, int(seed), int(index))  # type: ignore[arg-type]  # it is validated
        except ValueError:
            found = None
        if found is None or str(found) != text:
            raise ValueError(f"expected a problem as task/preset/split/tier/seed/index, got {text!r}")
        return found


@frozen
class Problem:
    """One problem: its identity, its instance and its prompt."""

    id: ProblemId
    instance: Any
    """The task's own frozen record."""
    prompt: tuple[Message, ...]
    digest: str
    """Canonical name of the instance, independent of labels and wording. Equal digests mean the same problem."""

    @cached_property
    def key(self) -> str:
        """The printed identity, unique within a run."""
        return str(self.id)

    @property
    def task(self) -> str:
        """The task's name."""
        return self.id.task

    @property
    def tier(self) -> str:
        """The tier's name."""
        return self.id.tier

    @property
    def split(self) -> Split:
        """The split that the problem belongs to."""
        return self.id.split
