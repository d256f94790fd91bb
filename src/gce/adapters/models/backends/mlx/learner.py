"""The loss of a batch of token sequences, and its gradient with respect to the adapter, in mlx.

The loss is the mean over the trained tokens of all sequences: see `gce.domain.learning.TrainingBatch`. Works on token
ids and loss weights; independent of traces and optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from gce.adapters.models.local.token_sequences import Example, Objective, batch_arrays, passes

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
) -> tuple[float, dict[str, mx.array]]:
    """Return the loss, and its gradient for each trainable array by full path.

    Passes run in parallel on the streams; their number does not change the result. Blocks below the lowest adapted one
    cost only a forward pass, because mlx differentiates only from the adapter's arrays upwards.
    """
    trained = sum(example.trained for example in examples)
    to_hidden, to_logits = head

    def loss(
        inputs: mx.array, places: mx.array, targets: mx.array, weights: mx.array, sampled: mx.array, base: mx.array
    ) -> mx.array:
        hidden = to_hidden(inputs)
        logits = to_logits(hidden.reshape(-1, hidden.shape[-1])[places])
        found = -nn.losses.cross_entropy(logits.astype(mx.float32), targets)
        return mx.sum(_token_losses(objective, found, weights, sampled, base)) / trained

    gradient_of = nn.value_and_grad(model, loss)
    total, gradients = 0.0, dict[str, mx.array]()
    for chunks in _groups(passes(examples, tokens_per_pass), len(streams)):
        found = []
        for chunk, stream in zip(chunks, streams, strict=False):
            with mx.stream(stream):
                found.append(gradient_of(*map(mx.array, batch_arrays(chunk))))
        mx.eval(found)
        for value, tree in found:
            total += value.item()
            flat = dict(tree_flatten(tree))
            gradients = {path: gradients[path] + gradient if gradients else gradient for path, gradient in flat.items()}
        mx.eval(gradients)
    return total, gradients


def _token_losses(
    objective: Objective, found: mx.array, weights: mx.array, sampled: mx.array, base: mx.array
) -> mx.array:
    """Compute `gce.adapters.models.local.token_sequences.token_losses` in mlx, with automatic differentiation."""
    losses = weights * -found
    if objective.clip is not None:
        ratio = mx.exp(mx.minimum(found - sampled, 80.0))
        losses = -mx.minimum(ratio * weights, mx.clip(ratio, 1 - objective.clip, 1 + objective.clip) * weights)
    if objective.kl:
        apart = mx.minimum(base - found, 80.0)
        losses = losses + objective.kl * (mx.expm1(apart) - apart)
    return losses


def _groups(chunks: Iterator[list[Example]], size: int) -> Iterator[list[list[Example]]]:
    while group := list(islice(chunks, size)):
        yield group
