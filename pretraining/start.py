"""Where pretraining starts from: heads that look back a fixed number of tokens, and heads that look a label up.

A look-up ("K 3 ... K" -> 3) takes two steps: each value learns which label stands before it, then a later label finds
that value. Gradient descent finds neither step while the other is missing, and small models wait for millions of
tokens. Both steps are given at the start, as a mimetic initialization (Trockman and Kolter, 2023); which look-up is
called for where, and everything else, is left to be learned. All weights stay trainable.

Numbers get embeddings in which near ones are alike, so that "the next larger one" is a direction to be found and not a
table to be memorized.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["give_look_ups", "order_numbers"]

FAST = 5
"""Rotary frequencies that tell neighbours apart; the others hardly turn from one token to the next."""
SLOW = 6
"""From this frequency on a match of content does not depend on the distance, for some hundreds of tokens."""
SHARPNESS = 7.0
"""Size of queries and keys at each fast frequency: about 6 nats between the right token and its neighbours."""
MATCH = 3.0
"""Size of queries and keys that match what another head wrote: some 7 nats for the right label."""
OWN_MATCH = 1.4
"""The same for queries and keys that match embeddings, which are larger."""
QUIET = 0.1
"""Factor on all other projections into the residual stream."""
CONSTANT = 3.0
"""The first channel of every embedding, in units of the others' standard deviation."""


def give_look_ups(model: Any) -> None:
    """Set the heads in place, in a Llama model of `transformers` with four heads a block, and five blocks or more.

    Heads of block 0 look 1 to 4 tokens back. Heads 0 to 2 of blocks 1 to 3, and head 0 of block 4, find for the token
    at hand what stands 1, 2, 3, and 4 places after its earlier copies. Head 3 of blocks 1 to 3 finds what stands 1, 2,
    and 3 places before them.
    """
    import torch

    config = model.config
    hidden, size, deviation = config.hidden_size, config.head_dim, config.initializer_range
    theta = config.rope_parameters["rope_theta"]
    generator = torch.Generator().manual_seed(0)
    seen = CONSTANT / math.sqrt(1 + CONSTANT**2 / hidden)
    slow = [index + half for half in (0, size // 2) for index in range(SLOW, size // 2)]

    def frame() -> Any:
        return torch.linalg.qr(torch.randn(hidden, size, generator=generator))[0]

    def match(block: int, head: int, asked: Any, found: Any, read: Any, write: Any, strength: float) -> None:
        """One head that finds positions by content: frames of the query, the key, the value and the output."""
        attention = model.model.layers[block].self_attn
        rows = slice(head * size, (head + 1) * size)
        for weight, source in ((attention.q_proj.weight, asked), (attention.k_proj.weight, found)):
            weight[rows] *= 0.1
            weight[[head * size + index for index in slow]] += strength * source.T[: len(slow)]
        attention.v_proj.weight[rows] = read.T
        attention.o_proj.weight[:, rows] = write * deviation * 2.0

    with torch.no_grad():
        for layer in model.model.layers:
            # What blocks add at first must not drown the embeddings that the heads read.
            layer.mlp.down_proj.weight *= QUIET
            layer.self_attn.o_proj.weight *= QUIET
        model.model.embed_tokens.weight[:, 0] = CONSTANT * deviation
        for head, back in enumerate((1, 2, 3, 4)):
            rows = slice(head * size, (head + 1) * size)
            attention = model.model.layers[0].self_attn
            for weight in (attention.q_proj.weight, attention.k_proj.weight):
                weight[rows] *= 0.1
            for index in range(FAST):
                angle = -back * theta ** (-2 * index / size)
                first, second = head * size + index, head * size + index + size // 2
                attention.k_proj.weight[first, 0] = SHARPNESS / seen
                attention.q_proj.weight[first, 0] = SHARPNESS / seen * math.cos(angle)
                attention.q_proj.weight[second, 0] = SHARPNESS / seen * math.sin(angle)
            read, place = frame(), frame()
            read[0] = 0.0
            attention.v_proj.weight[rows] = read.T
            attention.o_proj.weight[:, rows] = place * deviation * 2.0
            for block, at in ((4, 0),) if back == 4 else ((1, head), (2, head), (3, head)):
                copied = frame()
                match(block, at, read, place, copied, copied, MATCH)
            if back < 4:
                own = frame()
                match(back, 3, own, own, place, read, OWN_MATCH)


PERIODS = (200, 80, 40, 20, 10)
NUMBER_SIZE = 3.0
"""Of the channels that carry a number's value, in units of the others' standard deviation."""


def order_numbers(model: Any, tokenizer: Any) -> None:
    """Set channels 1 to 11 of the embeddings of " 0" to " 99" in place: the value, and waves of several periods."""
    import torch

    with torch.no_grad():
        weight = model.model.embed_tokens.weight
        for number in range(100):
            channels = [number / 20 - 1.0]
            for period in PERIODS:
                angle = 2 * math.pi * number / period
                channels += [math.sin(angle), math.cos(angle)]
            size = NUMBER_SIZE * model.config.initializer_range
            row = tokenizer.encode(f" {number}").ids[0]
            weight[row, 1 : 1 + len(channels)] = size * torch.tensor(channels)
