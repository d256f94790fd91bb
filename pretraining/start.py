"""Where pretraining starts from: heads that look back a fixed number of tokens, and heads that look a name up.

A look-up ("K 3 ... K" -> 3) takes two steps: each value learns which name stands before it, then a later mention of the
name finds that value. Gradient descent finds neither step while the other is missing, and small models wait for millions
of tokens. Both steps are given at the start, as a mimetic initialization (Trockman and Kolter, 2023); which look-up is
called for where, and everything else, is left to be learned. All weights stay trainable.

What a job is called must not matter, so names are other vectors at each step. They are read in some channels (`READ`)
and written in others (`WRITTEN`): a head that copies takes a vector from the first to the second. With one matrix for
both, each name would predict itself first of all, and no copying is learned (measured: at chance after 28 M tokens).

Numbers get embeddings in which near ones are alike, so that "the next larger one" is a direction to be found and not a
table to be memorized.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import frozen

from gce.domain.randomness import generator

__all__ = ["Names", "give_look_ups", "order_numbers", "redraw"]

READ = slice(12, 44)
"""Channels of an embedding that hold the vector of a name."""
WRITTEN = slice(44, 76)
"""Channels of the output head that hold the same vector."""
BEHIND = (slice(76, 92), slice(92, 108), slice(108, 124))
"""Channels in which a token keeps what stood 1, 2 and 3 places before it: half of the vector, turned."""
FAST = 5
"""Rotary frequencies that tell neighbours apart; the others hardly turn from one token to the next."""
SLOW = 6
"""From this frequency on a match of content does not depend on the distance, for some hundreds of tokens."""
SHARPNESS = 7.0
"""Size of queries and keys at each fast frequency: about 6 nats between the right token and its neighbours."""
MATCH = 3.5
"""Size of matching queries and keys."""
QUIET = 0.1
"""Factor on all other projections into the residual stream."""
CONSTANT = 3.0
"""The first channel of every embedding, in units of the others' standard deviation."""
NAME = 2.0
"""Size of a name's vector in an embedding, in the same units."""
SPACED = 2.0
"""What tells a word with a space in front from one without, in the same units."""


def give_look_ups(model: Any) -> None:
    """Set the heads in place, in a Llama model of `transformers` with four heads of 32 channels a block.

    Heads 0 to 2 of block 0 look 1, 2 and 3 tokens back; those of blocks 1 to 3 find, for the name at hand, what stands
    1, 2 and 3 places after its earlier mentions, and write its vector where the output head reads.
    """
    import torch

    config = model.config
    hidden, size, deviation = config.hidden_size, config.head_dim, config.initializer_range
    theta = config.rope_parameters["rope_theta"]
    random = torch.Generator().manual_seed(0)
    seen = CONSTANT / math.sqrt(1 + CONSTANT**2 / hidden)
    slow = [index + half for half in (0, size // 2) for index in range(SLOW, size // 2)]
    half = BEHIND[0].stop - BEHIND[0].start

    with torch.no_grad():
        for layer in model.model.layers:
            # What blocks add at first must not drown the embeddings that the heads read.
            layer.mlp.down_proj.weight *= QUIET
            layer.self_attn.o_proj.weight *= QUIET
        model.model.embed_tokens.weight[:, 0] = CONSTANT * deviation
        for head, back in enumerate((1, 2, 3)):
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
            turned = torch.linalg.qr(torch.randn(size, size, generator=random))[0][:, :half]
            attention.v_proj.weight[rows] = 0.0
            attention.v_proj.weight[rows][:half, READ] = turned.T
            attention.o_proj.weight[:, rows] = 0.0
            attention.o_proj.weight[BEHIND[head], rows.start : rows.start + half] = torch.eye(half) * deviation * 1.5
            for block in (1, 2, 3):
                attention = model.model.layers[block].self_attn
                for weight in (attention.q_proj.weight, attention.k_proj.weight):
                    weight[rows] *= 0.1
                for number, index in enumerate(slow[:half]):
                    attention.q_proj.weight[rows.start + index, READ] += MATCH * turned[:, number]
                    attention.k_proj.weight[rows.start + index, BEHIND[head].start + number] += MATCH
                attention.v_proj.weight[rows] = 0.0
                attention.v_proj.weight[rows][:, READ] = torch.eye(size)
                attention.o_proj.weight[WRITTEN, rows] = torch.eye(size) * deviation * 2.0


@frozen
class Names:
    """Tokens that are names of whatever a text is about."""

    rows: tuple[int, ...]
    """Their rows in the embeddings and in the output head."""
    words: tuple[int, ...]
    """The number of the word that each is: a word with a space in front and one without are the same name."""
    spaced: tuple[bool, ...]
    """Whether each has a space in front."""


def redraw(embeddings: Any, head: Any, names: Names, deviation: float, *key: str | int) -> None:
    """Draw the names' rows of both matrices anew, in place, from a generator keyed by `key`.

    A word with a space in front and one without differ in one channel.
    """
    import torch

    size = READ.stop - READ.start
    drawn = generator("names", *key).standard_normal((max(names.words) + 1, size), dtype=np.float32)
    drawn *= math.sqrt(size) / np.linalg.norm(drawn, axis=1, keepdims=True)
    drawn = drawn[list(names.words)]
    read, written = np.zeros((2, len(names.rows), embeddings.shape[1]), dtype=np.float32)
    read[:, 0] = CONSTANT
    read[:, 1] = written[:, 1] = np.where(names.spaced, SPACED, -SPACED)
    read[:, READ], written[:, WRITTEN] = NAME * drawn, drawn
    with torch.no_grad():
        embeddings[list(names.rows)] = torch.from_numpy(read * np.float32(deviation))
        head[list(names.rows)] = torch.from_numpy(written * np.float32(deviation))


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
