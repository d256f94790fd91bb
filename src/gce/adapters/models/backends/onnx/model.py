"""The ONNX backend: a decoder that optimum exported, sampled and scored on the CPU, not trained.

Works on tokens, not text. Sequences of different lengths share a batch, padded on the left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gce.adapters.models.backends.onnx.files import OnnxFiles, examine_directory
from gce.adapters.models.backends.onnx.graph import Cache, DecoderGraph
from gce.adapters.models.formats.model_files import end_tokens
from gce.adapters.models.local.chat_format import chat_format
from gce.adapters.models.local.chat_template import TemplateSettings
from gce.adapters.models.local.continuous_batching import Job, Rollout, all_together, roll_out
from gce.adapters.models.local.model import LocalSampler, RollOut
from gce.adapters.models.local.token_sampling import Array, draw
from gce.adapters.system.process import usable_cores
from gce.errors import MissingExtra, ModelError, one_line

try:
    from transformers import AutoTokenizer
except ImportError as error:
    raise MissingExtra("transformers", "onnx") from error

__all__ = ["OnnxDecoder", "OnnxEngine", "load_onnx_model"]

_CACHE_BYTES = 2**30
"""Maximum bytes of keys and values of a batch, unless one sequence takes more. A step holds them twice."""


def load_onnx_model(
    directory: Path, *, threads: int | None = None, max_batch: int = 64, template: TemplateSettings | None = None
) -> LocalSampler:
    """Load a decoder and its tokenizer from a directory in optimum's layout.

    `threads` are those of the CPU, by default one per usable core; their number may change the last bits of results.
    `max_batch` is the maximum number of sequences per sampling batch; `template` says which chat template is used.

    Raises:
        ModelError: the directory holds no such decoder, or none that can hold a conversation.
        BadInput: a file cannot be read.
    """
    files = examine_directory(directory)
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
    except Exception as error:  # The vendor may raise anything for a damaged or foreign file.
        raise ModelError(f"could not load a tokenizer from {str(directory)!r}: {one_line(error)}") from error
    engine = OnnxEngine(DecoderGraph(files.graph, threads=threads or usable_cores()), files, max_batch=max_batch)
    chat = chat_format(str(directory), tokenizer, template, ends=end_tokens(directory), rows=engine.vocabulary)
    return LocalSampler(engine, chat, context=files.context)


class OnnxEngine:
    """A frozen decoder. See `gce.adapters.models.local.model.SamplingEngine`."""

    layers: tuple[int, ...] = ()
    modules: tuple[str, ...] = ()
    trainable_parameters = 0

    def __init__(self, graph: DecoderGraph, files: OnnxFiles, *, max_batch: int) -> None:
        """ModelError if the graph computes something else with a cache than without one."""
        self._graph, self._files = graph, files
        self.blocks, self.total_parameters = graph.blocks, files.parameters
        whole = next(graph.read((0, 1)))[0][-1:]
        self.vocabulary = whole.shape[-1]
        alone, beside = (_after([(0,), (1, 0, 1)][:rows], graph) for rows in (1, 2))
        if not _same(alone, whole):
            raise graph.unlike("logits with a cache differ from those without")
        # Some optimized exports, such as those with GroupQueryAttention, read no padding on the left.
        self._max_batch = max_batch if _same(beside, whole) else 1

    def digest(self) -> str:
        """Return the SHA-256 of the files."""
        return self._files.digest

    def sampler(self, stop: frozenset[int]) -> RollOut:
        """Return a sampler of the model."""
        size = sum(array.itemsize * array.shape[1] * array.shape[3] for array in self._graph.empty)

        def sampled(jobs: Sequence[Job], *, whole: bool = False) -> Iterator[Rollout]:
            length = max((len(job.prompt) + job.limit for job in jobs), default=1)
            rows = max(1, min(self._max_batch, _CACHE_BYTES // (length * size)))
            return roll_out(jobs, lambda rows, _: OnnxDecoder(self._graph, rows), stop=stop, max_rows=rows)

        return sampled

    def deal(self, jobs: Sequence[Job]) -> list[list[int]]:
        """All jobs share one batch."""
        return all_together(jobs)

    def scores(self, tokens: Sequence[int], start: int, *, adapter: bool) -> tuple[float, ...]:
        """Return the log-probabilities of the tokens from `start` on; there is no adapter."""
        found: list[float] = []
        for logits, _ in self._graph.read(tokens[:-1]):
            targets = np.array(tokens[len(found) + 1 :][: len(logits)])
            shifted = logits - logits.max(axis=-1, keepdims=True)
            found += (shifted[np.arange(len(targets)), targets] - np.log(np.exp(shifted).sum(axis=-1))).tolist()
        return tuple(found[start - 1 :])


class OnnxDecoder:
    """Rows in one cache, in whose last columns each has its tokens. See `continuous_batching.Decoder`."""

    def __init__(self, graph: DecoderGraph, rows: int) -> None:
        self.rows = rows
        self._graph = graph
        self._lengths = np.zeros(rows, np.int64)
        self._cache: Cache = [np.repeat(array, rows, axis=0) for array in graph.empty]

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Cache]:
        """Return the cache after each prompt."""
        found = []
        for prompt in prompts:
            cache = self._graph.empty
            for _, cache in self._graph.read(prompt):  # noqa: B007
                pass
            found.append(cache)
        return found

    def place(self, row: int, prefix: Cache) -> None:
        """Copy the prefix's keys and values into the last columns of `row`."""
        length = self._lengths[row] = prefix[0].shape[2]
        width = int(self._lengths.max())
        self._cache = [_widened(array, width) for array in self._cache]
        for array, part in zip(self._cache, prefix, strict=True):
            array[row, :, width - length :] = part[0]

    def release(self, row: int) -> None:
        """Restart `row` at the beginning; its output is not read."""
        self._lengths[row] = 0

    def keep(self, rows: Sequence[int]) -> None:
        """Copy the remaining rows into a smaller cache."""
        self.rows, self._lengths = len(rows), self._lengths[list(rows)]
        self._cache = [_widened(array[list(rows)], int(self._lengths.max())) for array in self._cache]

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Decode one token in all rows."""
        return draw(self.logits(tokens), uniforms, temperatures)

    def logits(self, tokens: Array) -> Array:
        """Append a token to each row; return the logits after it (rows, vocabulary)."""
        width = self._cache[0].shape[2]
        lengths = self._lengths[:, None]
        mask = (np.arange(width + 1) >= width - lengths).astype(np.int64)
        logits, self._cache = self._graph.run(tokens[:, None], mask, lengths, self._cache)
        self._lengths = self._lengths + 1
        return logits[:, -1]


def _widened(array: Array, width: int) -> Array:
    """Return the last `width` columns, with zeros in front where there are fewer."""
    more = width - array.shape[2]
    return np.pad(array, ((0, 0), (0, 0), (more, 0), (0, 0))) if more > 0 else array[:, :, -more:]


def _after(prefixes: Sequence[tuple[int, ...]], graph: DecoderGraph) -> Array:
    """Return the logits after the first of some cached prefixes and token 1."""
    decoder = OnnxDecoder(graph, len(prefixes))
    for row, prefix in enumerate(decoder.prefill(prefixes)):
        decoder.place(row, prefix)
    return decoder.logits(np.ones(len(prefixes), np.int64))[:1]


def _same(found: Array, expected: Array) -> bool:
    """Whether logits are equal but for rounding, in float16 too."""
    return bool(np.abs(found - expected).max() <= 0.01 * np.abs(expected).max())
