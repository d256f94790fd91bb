"""What a prompting strategy is, what it may ask for, and what it gets back. Knows no model and no environment."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from attrs import field, frozen, validators

from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.models import CAPABILITIES
from gce.domain.problems import Message, Problem
from gce.domain.tasks.task import Task

__all__ = [
    "MODEL",
    "RESET",
    "Act",
    "Ask",
    "Exchange",
    "Failed",
    "Observation",
    "Reply",
    "Request",
    "Score",
    "Settings",
    "Strategy",
    "Turns",
    "draft_of",
]

MODEL = "model"
"""The role of the model under test."""

RESET = "reset"
"""The act that begins an episode, and whose observation is the first."""

_NEEDS = (*sorted(CAPABILITIES), "calls", "environment", "examples")

Turns = tuple[Message, ...]
"""A conversation so far."""


@frozen
class Ask:
    """A completion. The reply is an `Answer`, with verdicts where the model under test is asked and it is no draft."""

    turns: Turns
    to: str = MODEL
    """The role that is asked."""
    draft: bool = False
    """Whether the completion is not judged."""
    max_tokens: int | None = None
    """Generated tokens at most; None takes the settings', or the task's."""
    temperature: float | None = None
    """None takes the settings'."""
    stop: tuple[str, ...] = ()
    """The text ends before the first of these."""


@frozen
class Score:
    """Log-probabilities. The reply has for each continuation those of its tokens, end token included, in nats."""

    turns: Turns
    continuations: tuple[str, ...] = field(validator=validators.min_len(1))
    to: str = MODEL


@frozen
class Act:
    """A tool call or environment step. The reply is an `Observation`."""

    name: str
    """The tool, or `RESET`."""
    arguments: Mapping[str, Any] = field(factory=dict)
    """Plain data."""
    seconds: float = field(default=30.0, validator=validators.gt(0.0))
    """Wall-clock time that it may take."""


@frozen
class Observation:
    """What an environment shows after an act."""

    text: str
    reward: float | None = None
    """None where the environment gives none."""
    done: bool = False
    """Whether the episode has ended."""


@frozen
class Failed:
    """The reply to a request that could not be served, in place of any other."""

    reason: str
    """One sentence."""


Request = Ask | Score | Act
Reply = Answer | tuple[tuple[float, ...], ...] | Observation | Failed
Exchange = Generator[Request | tuple[Request, ...], Any, tuple[Answer, ...] | Failed]
"""One conversation: yields a request and receives its `Reply`, or yields a tuple of requests that may be served in
parallel and receives a tuple of replies. Returns the attempts, of which the last one counts, or why there is none.

Attempts that are drafts are judged when the conversation has ended. A completion of the model under test that failed
ends the conversation, which has failed with it; what else fails comes back as `Failed`.
"""


@frozen
class Settings:
    """How answers are drawn."""

    seed: int = 0
    temperature: float = 0.0
    samples: int = 1
    """Conversations about each problem."""
    max_tokens: int | None = None
    """Generated tokens of one reply; None takes the task's."""
    examples: Mapping[str, Turns] = field(factory=dict)
    """By tier, few-shot examples."""


@frozen
class Strategy:
    """A way to ask a model for an answer to a problem: an entry of `STRATEGIES`."""

    name: str
    converse: Callable[[Task, Problem, Settings], Exchange]
    """Pure: requests follow from the arguments and the replies alone."""
    help: str
    """One line of `gce evaluate --help`."""
    needs: frozenset[str] = field(default=frozenset({"sample"}))
    """What has to be there: capabilities of the model under test (`sample`, `score`) and of other roles
    (`opponent.sample`, `judge.score`), an `environment`, `examples` in the settings, `calls` of the task."""
    attempts: int = 1
    """Answers that are judged at most; above 1, tables show what further attempts recover."""

    @needs.validator
    def _known(self, _attribute: object, needs: frozenset[str]) -> None:
        unknown = [need for need in sorted(needs) if need.rpartition(".")[2] not in _NEEDS]
        if unknown:
            raise ValueError(f"strategy {self.name}: expected needs of {', '.join(_NEEDS)}, got {unknown}")

    @property
    def needs_examples(self) -> bool:
        """Whether the settings must have few-shot examples."""
        return "examples" in self.needs

    @property
    def roles(self) -> frozenset[str]:
        """Roles that it asks besides the model under test."""
        return frozenset(need.partition(".")[0] for need in self.needs if "." in need)


def draft_of(problem: Problem, written: Completion | str) -> Answer:
    """An attempt without verdicts, as one that the strategy puts together itself; judged as every draft is."""
    if isinstance(written, str):
        written = Completion(problem.key, written, "stop", policy="")
    return Answer(problem, written, (), None, False)
