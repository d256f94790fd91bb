"""What a learner gets and reports: conversations with the turns that are trained on, and optimizer steps.

Log-probabilities are natural logarithms; token ids are the backend's own integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from attrs import field, frozen, validators

from gce.domain.completions import Completion
from gce.domain.problems import Message
from gce.domain.serialization import OMIT_DEFAULT
from gce.domain.verdicts import Verdict

__all__ = [
    "Author",
    "LayerActivation",
    "ModelState",
    "Trace",
    "TrainingBatch",
    "Turn",
    "UpdateReport",
    "single_turn",
    "trained_turn",
]

Author = Literal["policy", "model", "user", "task", "tool"]
"""policy: the model that learns. model: another one. user: a person, simulated or not. task: the task's template, its
feedback, a demonstration. tool: a tool, or an environment."""


@frozen
class Turn:
    """One message of a conversation, who wrote it, and whether it is trained on."""

    author: Author = field(validator=validators.in_(get_args(Author)))
    message: Message
    """As it is shown."""
    completion: Completion | None = field(default=None, metadata=OMIT_DEFAULT)
    """What a model returned for this turn: its tokens, their log-probabilities, and the policy that wrote them."""
    trained: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Whether the completion's tokens are trained on, its end-of-turn token included where the model wrote one."""
    weights: tuple[float, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Factor on the loss of each of the completion's tokens; a token of weight 0 is not trained. Empty: 1 each."""

    def __attrs_post_init__(self) -> None:
        if self.trained and (self.completion is None or self.message.role != "assistant"):
            raise ValueError(
                f"expected an assistant's turn with a completion to train on, got one of role {self.message.role!r}"
            )
        if self.weights:
            written = 0 if self.completion is None else len(self.completion.token_ids or ())
            if len(self.weights) != written or not all(map(math.isfinite, self.weights)):
                raise ValueError(f"expected a finite weight for each of {written} tokens, got {len(self.weights)}")


def trained_turn(completion: Completion, *, author: Author = "policy") -> Turn:
    """A turn that shows a completion's text and is trained on."""
    return Turn(author, Message("assistant", completion.text), completion, trained=True)


def single_turn(messages: Sequence[Message], completion: Completion, *, author: Author = "policy") -> tuple[Turn, ...]:
    """A conversation that ends with `completion`, the only turn trained on; the task wrote all before it."""
    return (*(Turn("task", message) for message in messages), trained_turn(completion, author=author))


@frozen
class Trace:
    """One rollout with its verdicts: what the replay buffer holds and the learner trains on."""

    key: str
    """The rollout's key, unique in a run."""
    problem: str
    """The problem's key."""
    tier: str
    iteration: int = field(validator=validators.ge(0))
    turns: tuple[Turn, ...] = field()
    """The whole conversation; at least one turn is trained on."""
    verdicts: tuple[Verdict, ...]
    content_digest: str
    """Equal for traces that teach the same: same problem, same trained turns up to whitespace."""
    reward: float | None = field(
        default=None,
        validator=validators.optional(validators.and_(validators.ge(0.0), validators.le(1.0))),
        metadata=OMIT_DEFAULT,
    )
    """In [0, 1]; None where only the verdicts say."""
    tools: tuple[Mapping[str, Any], ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Definitions of the tools that the model was shown, as chat templates take them: JSON schemas of functions."""

    @turns.validator
    def _has_a_trained_one(self, _attribute: Any, value: tuple[Turn, ...]) -> None:
        if not any(turn.trained for turn in value):
            raise ValueError("expected a turn to train on, got none")

    @property
    def completion(self) -> Completion:
        """The last one that is trained on: in a conversation of one turn, the answer."""
        return next(turn.completion for turn in reversed(self.turns) if turn.trained and turn.completion is not None)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was shown before that completion."""
        last = max(place for place, turn in enumerate(self.turns) if turn.trained)
        return tuple(turn.message for turn in self.turns[:last])


@frozen
class TrainingBatch:
    """Traces for one optimizer step, the weight of each in the loss, and what else the loss has.

    The loss is the mean over all trained tokens of -weight * log-probability, where a token weighs what its trace does
    times its own factor (`Turn.weights`). With `clip` it is that of PPO instead,
    -min(ratio * weight, ratio cut to [1 - clip, 1 + clip] * weight), where the ratio is the token's probability now
    over that at which it was sampled, both at temperature 1. `kl` times the KL divergence of the base from the policy
    is added, estimated at each trained token as exp(d) - d - 1 with d = log base - log policy; an estimate of the
    divergence where the tokens are the policy's own, and of how far it is on these tokens where they are older.

    Source: Schulman et al. (2017), Proximal Policy Optimization, equation 7; Schulman (2020), Approximating KL
    Divergence, estimator k3.
    """

    traces: tuple[Trace, ...] = field(validator=validators.min_len(1))
    weights: tuple[float, ...] = field()
    clip: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))
    """Needs traces with log-probabilities of every generated token."""
    kl: float = field(default=0.0, validator=validators.ge(0.0))
    rate: float = field(default=1.0, validator=validators.gt(0.0))
    """Factor on the learning rate in this step."""

    @weights.validator
    def _one_for_each(self, _attribute: Any, value: tuple[float, ...]) -> None:
        if len(value) != len(self.traces):
            raise ValueError(f"expected one weight for each of {len(self.traces)} traces, got {len(value)}")


@frozen
class UpdateReport:
    """What one optimizer step did."""

    loss: float
    """The batch's loss before the step: the weighted mean negative log-likelihood, in nats a token, where the batch has
    neither `clip` nor `kl`."""
    tokens: int
    """Trained tokens: those of trained turns whose own weight is not 0."""
    gradient_norm: float
    """Before clipping."""
    dropped: int = 0
    """Token sequences left out because they exceed the model's context: a trace is one, or several where the chat
    template rewrites earlier turns."""


@frozen(eq=False)
class ModelState:
    """Adapter and optimizer as arrays by name, enough to continue a run to the same bytes."""

    arrays: Mapping[str, np.ndarray]
    """Names start with `adapter.` or `optimizer.`; full module paths follow."""
    settings: Mapping[str, Any] = field(factory=dict)
    """Plain data: layers adapted, rank, scale, keys ..."""


@frozen
class LayerActivation:
    """Activation statistics of one block over a set of prompts."""

    layer: int
    """Block index from the input, 0-based."""
    mean_square: float
    """Mean square of the block's output, over positions and channels."""
    update_mean_square: float
    """Mean square of (output - input): what the block itself adds to the residual stream."""
