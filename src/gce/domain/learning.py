"""Input and output of a learner: conversations with the turns to train on, training batches and optimizer steps.

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
    "Normalization",
    "Objective",
    "Ratio",
    "Trace",
    "TrainingBatch",
    "Turn",
    "UpdateReport",
    "single_turn",
    "trained_turn",
]

Author = Literal["policy", "model", "user", "task", "tool"]
"""policy: the model being trained. model: another model. user: a person, real or simulated. task: the task's prompt
template, feedback or demonstrations. tool: a tool or an environment."""


@frozen
class Turn:
    """One message of a conversation, its author, and whether it is trained on."""

    author: Author = field(validator=validators.in_(get_args(Author)))
    message: Message
    """The message as the model was shown it."""
    completion: Completion | None = field(default=None, metadata=OMIT_DEFAULT)
    """The completion that a model returned for this turn: tokens, their log-probabilities, and the policy that
    generated them."""
    trained: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Whether the completion's tokens are trained on, including the end-of-turn token if the model generated one."""
    weights: tuple[float, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Loss weight of each token of the completion; a token of weight 0 is not trained on. Empty: 1 for each."""

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
    """Return a turn that shows the completion's text and is trained on."""
    return Turn(author, Message("assistant", completion.text), completion, trained=True)


def single_turn(messages: Sequence[Message], completion: Completion, *, author: Author = "policy") -> tuple[Turn, ...]:
    """Return a conversation that ends with `completion`, the only trained turn; the task wrote all other turns."""
    return (*(Turn("task", message) for message in messages), trained_turn(completion, author=author))


@frozen
class Trace:
    """One rollout with its verdicts, as the replay buffer holds it and the learner trains on it."""

    key: str
    """The rollout's key, unique within a run."""
    problem: str
    """The problem's key."""
    tier: str
    iteration: int = field(validator=validators.ge(0))
    turns: tuple[Turn, ...] = field()
    """The whole conversation; at least one turn is trained on."""
    verdicts: tuple[Verdict, ...]
    content_digest: str
    """Deduplication key: equal for traces of the same problem whose trained turns are equal up to whitespace."""
    reward: float | None = field(
        default=None,
        validator=validators.optional(validators.and_(validators.ge(0.0), validators.le(1.0))),
        metadata=OMIT_DEFAULT,
    )
    """In [0, 1]; None if only the verdicts are known."""
    surprise: float | None = field(
        default=None,
        validator=validators.optional(validators.and_(validators.ge(0.0), validators.le(1.0))),
        metadata=OMIT_DEFAULT,
    )
    """How far its reward was from a critic's prediction; None if there was no critic."""
    tools: tuple[Mapping[str, Any], ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Definitions of the tools shown to the model, in the form that chat templates take: JSON schemas of functions."""

    @turns.validator
    def _has_a_trained_one(self, _attribute: Any, value: tuple[Turn, ...]) -> None:
        if not any(turn.trained for turn in value):
            raise ValueError("expected a turn to train on, got none")

    @property
    def completion(self) -> Completion:
        """The last trained completion; in a single-turn conversation, the answer."""
        return next(turn.completion for turn in reversed(self.turns) if turn.trained and turn.completion is not None)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages shown before the last trained completion."""
        last = max(place for place, turn in enumerate(self.turns) if turn.trained)
        return tuple(turn.message for turn in self.turns[:last])


Ratio = Literal["token", "sequence", "product"]
"""What an importance ratio is of. token: the token alone. sequence: the geometric mean over the trained tokens of its
sequence (GSPO). product: their product, the ratio of the whole sequence (RLOO)."""

Normalization = Literal["token", "sequence", "constant"]
"""What the sum of token losses is divided by. token: the number of trained tokens. sequence: that of the token's own
sequence, times the number of sequences. constant: `Objective.length` times the number of sequences."""


@frozen(kw_only=True)
class Objective:
    """The loss of a batch, apart from its traces and their weights: see `TrainingBatch`."""

    clip: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))
    """Clipping range of PPO below 1; requires log-probabilities of every generated token. None: no clipping."""
    clip_high: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))
    """Clipping range above 1. None: `clip`."""
    ratio: Ratio = field(default="token", validator=validators.in_(get_args(Ratio)))
    normalization: Normalization = field(default="token", validator=validators.in_(get_args(Normalization)))
    length: int = field(default=1, validator=validators.ge(1))
    """Tokens of a sequence that `constant` divides by: the most that a completion may have."""
    kl: float = field(default=0.0, validator=validators.ge(0.0))

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval that ratios are clipped to; unbounded without `clip`."""
        if self.clip is None:
            return 0.0, math.inf
        return 1 - self.clip, 1 + (self.clip if self.clip_high is None else self.clip_high)


@frozen
class TrainingBatch(Objective):
    """Traces for one optimizer step, with their loss weights and the terms of the loss.

    By default the loss is the mean over all trained tokens of -weight * log-probability. A token's weight is its
    trace's weight (its advantage, say) times its own (`Turn.weights`).

    With `clip` the loss of a token is PPO's clipped surrogate, -min(ratio * weight, clip(ratio, 1 - clip, 1 +
    clip_high) * weight). The ratio is the token's current probability over its probability at sampling, both at
    temperature 1, or that of its sequence (`ratio`). A sequence is a trace, or a part of one if the chat template
    rewrites earlier turns.

    With `kl` a penalty is added: `kl` times the KL divergence of the policy from the base model. It is estimated at
    each trained token as exp(d) - d - 1 with d = log base - log policy. This estimates the KL divergence if the current
    policy sampled the tokens; for older tokens it measures the distance from the base model on those tokens only.

    Source: Schulman et al. (2017), Proximal Policy Optimization, equation 7; Schulman (2020), Approximating KL
    Divergence, estimator k3; Zheng et al. (2025), Group Sequence Policy Optimization, equation 7, for ratios of
    sequences; Liu et al. (2025), Understanding R1-Zero-Like Training, section 3, for normalization.
    """

    traces: tuple[Trace, ...] = field(validator=validators.min_len(1))
    weights: tuple[float, ...] = field()
    rate: float = field(default=1.0, validator=validators.gt(0.0), kw_only=True)
    """Factor on the learning rate for this step."""

    @weights.validator
    def _one_for_each(self, _attribute: Any, value: tuple[float, ...]) -> None:
        if len(value) != len(self.traces):
            raise ValueError(f"expected one weight for each of {len(self.traces)} traces, got {len(value)}")


@frozen
class UpdateReport:
    """Result of one optimizer step."""

    loss: float
    """The batch's loss before the step. Without `clip` and `kl` it is the weighted mean negative log-likelihood, in
    nats per token."""
    tokens: int
    """Number of trained tokens: tokens of trained turns with a weight other than 0."""
    gradient_norm: float
    """Norm before gradient clipping."""
    dropped: int = 0
    """Number of token sequences left out because they exceed the model's context. A trace is one sequence, or several
    if the chat template rewrites earlier turns."""
    rate: float = 1.0
    """Factor on the learning rate for this step."""
    kl: float | None = None
    """KL divergence from the base as the loss estimates it, in nats per token; None if the objective has no KL term."""
    approx_kl: float | None = None
    """KL divergence of the policy that sampled from the policy before the step: the mean of ratio - 1 - log(ratio) over
    the trained tokens whose log-probability at sampling is known. None if it is for no token; so are the next two."""
    logp_difference: float | None = None
    """Mean absolute difference between the log-probabilities of these tokens in the learner and at sampling, nats."""
    max_logp_difference: float | None = None
    clipped_low: float | None = None
    """Share of ratios, of tokens or sequences, that are clipped from below; None without `clip`."""
    clipped_high: float | None = None


@frozen(eq=False)
class ModelState:
    """Adapter and optimizer as named arrays; restoring them continues a run to the same bytes."""

    arrays: Mapping[str, np.ndarray]
    """Names start with `adapter.` or `optimizer.`, followed by the full module path."""
    settings: Mapping[str, Any] = field(factory=dict)
    """Plain data: adapted layers, rank, scale, keys ..."""


@frozen
class LayerActivation:
    """Activation statistics of one transformer block over a set of prompts."""

    layer: int
    """0-based block index, counted from the input."""
    mean_square: float
    """Mean square of the block's output, over positions and channels."""
    update_mean_square: float
    """Mean square of (output - input), the block's update to the residual stream."""
