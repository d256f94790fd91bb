"""A Llama in numpy: weights, a LoRA adapter, and the steps of a block that decoding and learning share.

numpy is several times faster here than mlx on Linux, whose CPU kernels are scalar there. Works on arrays; independent
of mlx and tokenizers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import numpy as np
from attrs import evolve, frozen

from gce.adapters.models.backends.mlx.blas import one_numpy_blas_thread
from gce.adapters.models.local.token_sampling import Array

__all__ = [
    "BlockWeights",
    "LlamaWeights",
    "LowRank",
    "causal_attention",
    "causal_attention_gradients",
    "gate_opening",
    "merge",
    "normed",
    "normed_gradient",
    "rotary_waves",
    "rotated",
    "run_blocks",
    "turned_back",
]

Attend = Callable[[int, Array, Array, Array], Array | None]
"""(block, queries, keys, values), each of (tokens, heads, head size) -> (tokens, heads * head size), or None to stop.
"""

_QUERY_BLOCK = 256
"""Maximum number of query positions per attention block, which bounds the memory of scores."""


@frozen(eq=False)
class BlockWeights:
    """One transformer block in float32, with matrices of (inputs, outputs).

    The weights of each norm are folded into the rows of the following matrix, and the attention scale into the query
    columns.
    """

    queries_keys_values: Array
    output: Array
    gate_up: Array
    down: Array


@frozen(eq=False)
class LlamaWeights:
    """A Llama in float32: no biases, RoPE over halves without scaling."""

    embedding: Array
    blocks: tuple[BlockWeights, ...]
    head: Array
    """(hidden, vocabulary), with the weights of the last norm folded into its rows."""
    heads: int
    kv_heads: int
    head_size: int
    epsilon: float
    rope_base: float


@frozen(eq=False)
class LowRank:
    """LoRA on some columns of a block's matrix, to which it adds scale * (rows of `inputs` times `a`) @ `b`."""

    name: str
    block: int
    matrix: str
    """A field of `BlockWeights`."""
    columns: slice
    a: Array
    """(inputs, rank)."""
    b: Array
    """(rank, columns)."""
    scale: float
    inputs: Array | None = None
    """Factors folded into the matrix's rows; None if there are none."""

    @property
    def first(self) -> Array:
        """`a` with the folded factors, (inputs, rank)."""
        return self.a if self.inputs is None else self.inputs[:, None] * self.a


def merge(weights: LlamaWeights, adapter: Iterable[LowRank]) -> LlamaWeights:
    """Merge the adapter into the weights; matrices without adapter are shared."""
    changed: dict[tuple[int, str], Array] = {}
    with one_numpy_blas_thread():  # More threads would change the order of summation.
        for part in adapter:
            place = part.block, part.matrix
            if place not in changed:
                changed[place] = getattr(weights.blocks[part.block], part.matrix).copy()
            changed[place][:, part.columns] += (np.float32(part.scale) * part.first) @ part.b
    blocks = list(weights.blocks)
    for (block, matrix), array in changed.items():
        blocks[block] = evolve(blocks[block], **{matrix: array})
    return evolve(weights, blocks=tuple(blocks))


def run_blocks(
    weights: LlamaWeights, hidden: Array, positions: Array, attend: Attend, *, stop: int | None = None
) -> Array | None:
    """Run the blocks up to `stop`, or all, over rows of (tokens, hidden); None if `attend` stops early."""
    waves = rotary_waves(weights, positions)
    for index, block in enumerate(weights.blocks[:stop]):
        mixed = normed(hidden, weights.epsilon)[0] @ block.queries_keys_values
        attended = attend(index, *rotated(weights, mixed, waves))
        if attended is None:
            return None
        hidden = hidden + attended @ block.output
        gate, up = np.split(normed(hidden, weights.epsilon)[0] @ block.gate_up, 2, axis=1)
        opening = gate_opening(gate)
        opening *= gate
        opening *= up
        hidden += opening @ block.down
    return hidden


def normed(x: Array, epsilon: float) -> tuple[Array, Array]:
    """RMS-normalise the rows of `x`; return the result and the factors, (rows, 1)."""
    square = np.einsum("ij,ij->i", x, x)
    scale: Array = (1 / np.sqrt(square / np.float32(x.shape[1]) + np.float32(epsilon)))[:, None]
    return x * scale, scale


def normed_gradient(slope: Array, states: Array, scale: Array) -> Array:
    """Return the gradient with respect to `x`, given that of `normed(x)` and the two results of `normed`."""
    mean = np.einsum("ij,ij->i", slope, states) / np.float32(states.shape[1])
    back: Array = slope - states * mean[:, None]
    back *= scale
    return back


def rotary_waves(weights: LlamaWeights, positions: Array) -> tuple[Array, Array]:
    """Return RoPE's cosines and signed sines, tiled over all query and key heads for long inner loops."""
    size, count = weights.head_size, weights.heads + weights.kv_heads
    turns = positions[:, None] * weights.rope_base ** (-np.arange(0, size, 2) / size)
    cosine, sine = (wave(turns).astype(np.float32) for wave in (np.cos, np.sin))
    return np.tile(cosine, 2 * count), np.tile(np.concatenate([-sine, sine], axis=1), count)


def rotated(weights: LlamaWeights, mixed: Array, waves: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """Return queries, keys and values of `mixed`, (tokens, all columns), each as (tokens, heads, head size)."""
    tokens, width = waves[0].shape
    turned = _turned(mixed[:, :width], waves, weights.head_size)
    queries, keys = np.split(
        turned.reshape(tokens, width // weights.head_size, weights.head_size), [weights.heads], axis=1
    )
    return queries, keys, mixed[:, width:].reshape(tokens, weights.kv_heads, weights.head_size)


def turned_back(x: Array, waves: tuple[Array, Array], size: int) -> Array:
    """Invert RoPE on `x`, (tokens, heads of `size` side by side); this is also RoPE's backward pass."""
    cosine, sine = waves
    return _turned(x, (cosine, -sine), size)


def _turned(x: Array, waves: tuple[Array, Array], size: int) -> Array:
    cosine, sine = waves
    halves = x.reshape(len(x), x.shape[1] // size, 2, size // 2)
    turned: Array = halves[:, :, ::-1].reshape(cosine.shape) * sine
    turned += x * cosine
    return turned


def gate_opening(gate: Array) -> Array:
    """Return the logistic function."""
    # Below -88 the exponential overflows to infinity, and the result is rightly 0.
    with np.errstate(over="ignore"):
        opening: Array = np.exp(-gate)
    opening += 1
    return np.reciprocal(opening, out=opening)


def causal_attention(queries: Array, keys: Array, values: Array) -> tuple[Array, Array]:
    """Causal attention of the last positions of one sequence.

    Args:
        queries: scaled, (last positions, heads, size).
        keys: (all positions, kv heads, size), each shared by a group of heads.
        values: as the keys.

    Returns the attention output, (last positions, heads * size), and its log-normalizers, (kv heads, heads per kv head,
    last positions, 1).
    """
    count, heads, size = queries.shape
    grouped, across, along = _grouped(queries, keys, values)
    result = np.empty((count, heads, size), np.float32)
    normalizers = np.empty((*grouped.shape[:3], 1), np.float32)
    for start, stop, seen, mask in _query_blocks(count, len(keys)):
        scores = grouped[:, :, start:stop] @ across[..., :seen]
        scores[..., seen - len(mask) :] += mask
        highest = scores.max(axis=-1, keepdims=True)
        scores -= highest
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
        gathered = scores @ along[:, :, :seen]
        gathered /= total
        result[start:stop] = gathered.transpose(2, 0, 1, 3).reshape(stop - start, heads, size)
        normalizers[:, :, start:stop] = highest + np.log(total)
    return result.reshape(count, heads * size), normalizers


def causal_attention_gradients(
    slope: Array, queries: Array, keys: Array, values: Array, gathered: Array, normalizers: Array
) -> tuple[Array, Array, Array]:
    """Return the gradients with respect to queries, keys and values, each in its shape.

    `slope` is the gradient with respect to the output of `causal_attention`; `gathered` and `normalizers` are its
    results.
    """
    count, heads, size = queries.shape
    kv_heads = keys.shape[1]
    repeats = heads // kv_heads
    grouped, across, along = _grouped(queries, keys, values)
    # FlashAttention's D, the common term of a position's weights: (kv heads, heads per kv head, last positions, 1).
    common = np.einsum("ths,ths->ht", slope.reshape(count, heads, size), gathered.reshape(count, heads, size))
    common = common.reshape(kv_heads, repeats, count, 1)
    incoming = slope.reshape(count, kv_heads, repeats, size).transpose(1, 2, 0, 3)
    to_queries = np.empty((count, heads, size), np.float32)
    to_keys, to_values = np.zeros((2, kv_heads, len(keys), size), np.float32)
    for start, stop, seen, mask in _query_blocks(count, len(keys)):
        part = slice(start, stop)
        weights = grouped[:, :, part] @ across[..., :seen]
        weights -= normalizers[:, :, part]
        weights[..., seen - len(mask) :] += mask
        np.exp(weights, out=weights)
        to_scores = incoming[:, :, part] @ along[:, :, :seen].swapaxes(2, 3)
        to_scores -= common[:, :, part]
        to_scores *= weights
        to_queries[part] = (
            (to_scores @ across[..., :seen].swapaxes(2, 3)).transpose(2, 0, 1, 3).reshape(-1, heads, size)
        )
        for whole, left, right in ((to_values, weights, incoming), (to_keys, to_scores, grouped)):
            whole[:, :seen] += (left.swapaxes(2, 3) @ right[:, :, part]).sum(axis=1)
    return to_queries, to_keys.swapaxes(0, 1), to_values.swapaxes(0, 1)


def _grouped(queries: Array, keys: Array, values: Array) -> tuple[Array, Array, Array]:
    """Return views as (kv heads, heads per kv head, positions, size), with transposed keys."""
    count, heads, size = queries.shape
    kv_heads = keys.shape[1]
    grouped = queries.reshape(count, kv_heads, heads // kv_heads, size).transpose(1, 2, 0, 3)
    return grouped, keys.transpose(1, 2, 0)[:, None], values.transpose(1, 0, 2)[:, None]


def _query_blocks(count: int, length: int) -> list[tuple[int, int, int, Array]]:
    """Divide the last `count` of `length` positions into blocks: start, stop, visible positions, and mask."""
    found = []
    for start in range(0, count, _QUERY_BLOCK):
        stop = min(start + _QUERY_BLOCK, count)
        found.append((start, stop, length - count + stop, _later_positions(stop - start)))
    return found


@functools.cache
def _later_positions(count: int) -> Array:
    """Return minus infinity where a key comes after the query, (queries, keys)."""
    return np.triu(np.full((count, count), -np.inf, np.float32), 1)
