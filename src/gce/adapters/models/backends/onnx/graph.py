"""A decoder in ONNX Runtime, on the CPU: tokens and a cache of keys and values in, logits and a longer cache out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gce.adapters.models.local.token_sampling import Array
from gce.errors import MissingExtra, ModelError, one_line

try:
    import onnxruntime
except ImportError as error:
    raise MissingExtra("onnxruntime", "onnx") from error

__all__ = ["Cache", "DecoderGraph"]

Cache = list[Array]
"""Keys and values of each block in turn, each (rows, heads, columns, size)."""

_MOST_TOKENS = 512
"""Tokens that are read at once: the graph returns the logits of each."""
_KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class DecoderGraph:
    """A graph with the inputs and outputs that optimum exports for text generation with a cache."""

    def __init__(self, path: Path, *, threads: int) -> None:
        """Load the graph; ModelError if it cannot be loaded or has another layout."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # The vendor may raise anything for a foreign file.
            raise ModelError(f"ONNX Runtime could not load {path}: {one_line(error)}") from error
        self._path = path
        inputs = {each.name: each for each in self._session.get_inputs()}
        self.blocks = max(1, sum(re.fullmatch(r"past_key_values\.[0-9]+\.key", name) is not None for name in inputs))
        parts = [f"{block}.{part}" for block in range(self.blocks) for part in ("key", "value")]
        self._past, self._present = ([f"{name}.{part}" for part in parts] for name in ("past_key_values", "present"))
        wanted = {"input_ids", "attention_mask", "position_ids", *self._past}
        outputs = {each.name for each in self._session.get_outputs()}
        for what, names in (
            ("input", wanted - inputs.keys()),
            ("output", {"logits", *self._present} - outputs),
        ):
            if names:
                raise self.unlike(f"there is no {what} {min(names)}")
        if unknown := inputs.keys() - wanted:
            raise self.unlike(f"there is an input {min(unknown)[:60]}")
        self.empty: Cache = []
        """The cache of one row before its first token."""
        for name in self._past:
            shape, kind = inputs[name].shape, inputs[name].type
            if len(shape) != 4 or not all(isinstance(shape[axis], int) for axis in (1, 3)) or kind not in _KINDS:
                raise self.unlike(f"{name} is a {kind} of shape {shape!s:.80}")
            self.empty.append(np.zeros((1, shape[1], 0, shape[3]), _KINDS[kind]))

    def unlike(self, what: str) -> ModelError:
        """Return an error that says in what the graph is unlike an export of optimum."""
        return ModelError(f"{self._path} is not laid out as optimum exports text-generation-with-past: {what}")

    def run(self, tokens: Array, mask: Array, positions: Array, cache: Cache) -> tuple[Array, Cache]:
        """Append tokens (rows, width) to the cache; return their logits (rows, width, vocabulary) and the new cache.

        `mask` (rows, columns and width) is 1 where a column of the cache, or a new token, belongs to the row.
        """
        given = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions}
        given |= dict(zip(self._past, cache, strict=True))
        try:
            logits, *longer = self._session.run(["logits", *self._present], given)
        except Exception as error:  # The vendor may raise anything for a foreign graph.
            raise ModelError(f"ONNX Runtime could not run {self._path}: {one_line(error)}") from error
        shapes = [(*old.shape[:2], mask.shape[1], old.shape[3]) for old in cache]
        if logits.shape[:2] != tokens.shape or [array.shape for array in longer] != shapes:
            raise self.unlike(f"the outputs have the shapes {logits.shape}, {longer[0].shape}")
        return logits.astype(np.float32, copy=False), longer

    def read(self, tokens: Sequence[int]) -> Iterator[tuple[Array, Cache]]:
        """Read a sequence from its beginning in parts; yield each part's logits and the cache after it."""
        cache = self.empty
        for start in range(0, len(tokens), _MOST_TOKENS):
            part = np.array([tokens[start : start + _MOST_TOKENS]], np.int64)
            end = start + part.shape[1]
            logits, cache = self.run(part, np.ones((1, end), np.int64), np.arange(start, end)[None], cache)
            yield logits[0], cache
