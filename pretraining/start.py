"""Where pretraining starts from: heads that look back a fixed number of tokens, and heads that look a name up.

Looking a name up ("K 3 ... K" -> 3) takes two steps: each value learns which name stands before it, then a later
mention of the name finds that value. Gradient descent finds neither step while the other is missing, and small models
wait for millions of tokens. Both steps are given at the start, as a mimetic initialization (Trockman and Kolter,
2023); which look-up is called for where, and everything else, is left to be learned. All weights stay trainable.

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

READ = slice(12, 40)
"""Channels of an embedding that hold the vector of a name."""
WRITTEN = slice(40, 68)
"""Channels of the output head that hold the same vector."""
BEHIND = (slice(68, 96), slice(96, 112), slice(112, 128))
"""Channels in which a token keeps what stood 1, 2 and 3 places before it, turned: all of it, and 16 channels."""
MATCHED = 16
"""Channels in which two names are compared."""
FAST = 5
"""Rotary frequencies that tell neighbours apart; the others hardly turn from one token to the next."""
SLOW = 6
"""From this frequency on a match of content does not depend on the distance, for some hundreds of tokens."""
SHARPNESS = 7.0
"""Size of queries and keys at each fast frequency: about 6 nats between the right token and its neighbours."""
MATCH = 3.5
"""Size of matching queries and keys of names."""
SAME = 4.5
"""The same for other tokens, whose embeddings are smaller."""
ELSEWHERE = 4.5
"""Size of queries and keys that keep a token from finding itself."""
QUIET = 0.02
"""Factor on all other projections into the residual stream."""
CONSTANT = 3.0
"""The first channel of every embedding, in units of the others' standard deviation."""
NAME = 2.0
"""Size of a name's vector in an embedding, in the same units."""
SPACED = 2.0
"""What tells a word with a space in front from one without, in the same units."""


def give_look_ups(model: Any) -> None:
    """Set the heads in place, in a Llama model of `transformers` with four heads of 32 channels a block.

    Heads 0 to 2 of block 0 look 1, 2 and 3 tokens back. Those of blocks 1 and 3 find, for the name at hand, what stands
    1, 2 and 3 places after its earlier mentions, and write its vector where the output head reads; those of block 2 do
    so for the name that stands before the token at hand. Head 3 of blocks 2 and 3 finds earlier mentions of the token
    at hand, and writes the name that stood before them.
    """
    import torch

    config = model.config
    hidden, size, deviation = config.hidden_size, config.head_dim, config.initializer_range
    theta = config.rope_parameters["rope_theta"]
    random = torch.Generator().manual_seed(0)
    seen = CONSTANT / math.sqrt(1 + CONSTANT**2 / hidden)
    slow = [index + half for half in (0, size // 2) for index in range(SLOW, size // 2)][:MATCHED]
    read = READ.stop - READ.start
    turns = [torch.linalg.qr(torch.randn(read, read, generator=random))[0] for _ in BEHIND]

    with torch.no_grad():
        for layer in model.model.layers:
            # What blocks add at first must not drown the embeddings that the heads read.
            layer.mlp.down_proj.weight *= QUIET
            layer.self_attn.o_proj.weight *= QUIET
        model.model.embed_tokens.weight[:, 0] = CONSTANT * deviation
        for head, (turned, behind) in enumerate(zip(turns, BEHIND, strict=True)):
            rows = slice(head * size, (head + 1) * size)
            attention = model.model.layers[0].self_attn
            for weight in (attention.q_proj.weight, attention.k_proj.weight):
                weight[rows] *= 0.1
            for index in range(FAST):
                angle = -(head + 1) * theta ** (-2 * index / size)
                first, second = head * size + index, head * size + index + size // 2
                attention.k_proj.weight[first, 0] = SHARPNESS / seen
                attention.q_proj.weight[first, 0] = SHARPNESS / seen * math.cos(angle)
                attention.q_proj.weight[second, 0] = SHARPNESS / seen * math.sin(angle)
            kept = behind.stop - behind.start
            _carry(attention, rows, READ, turned[:, :kept].T, behind, deviation * 1.5)
            for block in (1, 2, 3):
                attention = model.model.layers[block].self_attn
                for weight in (attention.q_proj.weight, attention.k_proj.weight):
                    weight[rows] *= 0.1
                for number, index in enumerate(slow):
                    asked = turned[:, number]
                    if block == 2:
                        attention.q_proj.weight[rows.start + index, BEHIND[0]] += MATCH * turns[0].T @ asked
                    else:
                        attention.q_proj.weight[rows.start + index, READ] += MATCH * asked
                    attention.k_proj.weight[rows.start + index, behind.start + number] += MATCH
                _carry(attention, rows, READ, torch.eye(read), WRITTEN, deviation * 2.0)
        rows = slice(3 * size, 4 * size)
        for block in (2, 3):
            attention = model.model.layers[block].self_attn
            for weight in (attention.q_proj.weight, attention.k_proj.weight):
                weight[rows] *= 0.1
                weight[[rows.start + index for index in slow], READ] += SAME * turns[0][:, :MATCHED].T
            for index in range(FAST):
                attention.k_proj.weight[rows.start + index, 0] = ELSEWHERE / seen
                attention.q_proj.weight[rows.start + index, 0] = -ELSEWHERE / seen
            _carry(attention, rows, BEHIND[0], turns[0], WRITTEN, deviation * 2.0)


def _carry(attention: Any, rows: slice, source: slice, change: Any, target: slice, scale: float) -> None:
    """Let the head that has these rows take `change` [n, m] times the channels of `source` into those of `target`."""
    attention.v_proj.weight[rows] = 0.0
    attention.v_proj.weight[rows.start : rows.start + len(change), source] = change
    attention.o_proj.weight[:, rows] = 0.0
    for at in range(len(change)):
        attention.o_proj.weight[target.start + at, rows.start + at] = scale


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
