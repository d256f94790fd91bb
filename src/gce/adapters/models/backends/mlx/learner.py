"""The loss of a batch of token sequences, and its gradient with respect to the adapter, in mlx.

The loss is that of `gce.domain.learning.TrainingBatch`. Works on token ids and loss weights; independent of traces and
optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten

from gce.adapters.models.local.token_sequences import Example, Scored, batch_arrays, passes, pooled, scored
from gce.domain.learning import Objective

__all__ = ["Head", "loss_and_gradients", "split_head"]

Head = tuple[Callable[[mx.array], mx.array], Callable[[mx.array], mx.array]]
"""A function from tokens to hidden states, and one from hidden states to logits."""


def split_head(model: nn.Module) -> Head:
    """Split the model before its head, so that logits are computed only where they are needed.

    If the two parts do not reproduce the model's output, the whole model is the first part and the second does nothing.
    """
    whole: Head = (model, lambda logits: logits)
    inner = getattr(model, "model", None)
    head = getattr(model, "lm_head", None) or getattr(getattr(inner, "embed_tokens", None), "as_linear", None)
    if inner is None or head is None:
        return whole
    tokens = mx.array([[0, 1, 2]])
    try:
        same = mx.array_equal(head(inner(tokens)), model(tokens)).item()
    except (TypeError, ValueError, AttributeError):
        return whole
    return (inner, head) if same else whole


def loss_and_gradients(
    model: nn.Module,
    head: Head,
    examples: Sequence[Example],
    objective: Objective,
    *,
    tokens_per_pass: int,
    streams: Sequence[mx.Stream],
) -> tuple[float, dict[str, mx.array], Scored]:
    """Return the loss, its gradient for each trainable array by full path, and the log-probabilities.

    Passes run in parallel on the streams; their number does not change the result. Blocks below the lowest adapted one
    cost only a forward pass, because mlx differentiates only from the adapter's arrays upwards.
    """
    trained = sum(example.trained for example in examples)
    to_hidden, to_logits = head

    def loss(inputs: mx.array, places: mx.array, targets: mx.array, *of_tokens: mx.array) -> tuple[mx.array, mx.array]:
        hidden = to_hidden(inputs)
        logits = to_logits(hidden.reshape(-1, hidden.shape[-1])[places])
        found = -nn.losses.cross_entropy(logits.astype(mx.float32), targets)
        return mx.sum(_token_losses(objective, found, *of_tokens)) / trained, found

    gradient_of = nn.value_and_grad(model, loss)
    total, gradients, scores = 0.0, dict[str, mx.array](), Scored()
    for chunks in _groups(passes(examples, tokens_per_pass), len(streams)):
        found = []
        for chunk, stream in zip(chunks, streams, strict=False):
            with mx.stream(stream):
                found.append(gradient_of(*map(mx.array, batch_arrays(chunk))))
        mx.eval(found)
        for chunk, ((value, log_probabilities), tree) in zip(chunks, found, strict=True):
            total += value.item()
            scores += scored(chunk, np.array(log_probabilities))
            flat = dict(tree_flatten(tree))
            gradients = {path: gradients[path] + gradient if gradients else gradient for path, gradient in flat.items()}
        mx.eval(gradients)
    return total, gradients, scores


def _token_losses(
    objective: Objective,
    found: mx.array,
    weights: mx.array,
    sampled: mx.array,
    base: mx.array,
    scales: mx.array,
    members: mx.array,
) -> mx.array:
    """Compute `gce.adapters.models.local.token_sequences.token_losses` in mlx, with automatic differentiation."""
    losses = weights * -found
    if objective.clip is not None:
        ratio = mx.exp(mx.minimum(pooled(objective, found - sampled, members), 80.0))
        losses = -mx.minimum(ratio * weights, mx.clip(ratio, *objective.bounds) * weights)
    if objective.kl:
        apart = mx.minimum(base - found, 80.0)
        losses = losses + objective.kl * (mx.expm1(apart) - apart)
    return losses * scales


def _groups(chunks: Iterator[list[Example]], size: int) -> Iterator[list[list[Example]]]:
    while group := list(islice(chunks, size)):
        yield group
