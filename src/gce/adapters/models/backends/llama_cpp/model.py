"""The llama.cpp backend: any GGUF file in its own quantization, sampled and scored, not trained.

A checkpoint's LoRA adapter is kept beside the weights, not merged. Works on tokens, not text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gce.adapters.models.backends.llama_cpp.decoder import LlamaDecoder
from gce.adapters.models.backends.llama_cpp.library import MAX_TOKENS, Context, GgufModel, LoraFile
from gce.adapters.models.backends.llama_cpp.lora import adapter_of, write_adapter
from gce.adapters.models.backends.llama_cpp.tokenizer import GgufTokenizer
from gce.adapters.models.formats.adapter_files import LowRank
from gce.adapters.models.formats.model_files import file_digest
from gce.adapters.models.local.chat_format import chat_format
from gce.adapters.models.local.chat_template import TemplateSettings
from gce.adapters.models.local.continuous_batching import Job, Rollout, all_together, roll_out
from gce.adapters.models.local.model import AdaptableLocalSampler, RollOut
from gce.adapters.system.process import usable_cores
from gce.domain.learning import ModelState

__all__ = ["LlamaEngine", "load_llama_model"]

_CACHE_BYTES = 2**31
"""Maximum bytes of keys and values of a batch, unless one sequence takes more."""
_MOST_SEQUENCES = 256
"""llama.cpp's limit for a context."""


def load_llama_model(
    path: Path,
    *,
    device: str | None = None,
    threads: int | None = None,
    max_batch: int = 64,
    template: TemplateSettings | None = None,
) -> AdaptableLocalSampler:
    """Load a GGUF file of any architecture that llama.cpp generates text with.

    Args:
        path: the file, not one of several parts.
        device: `cpu` keeps off a GPU; None uses one if llama-cpp-python was built for it.
        threads: CPU threads; None for one per usable core. The number may change the last bits of results.
        max_batch: maximum sequences per sampling batch; fewer if their keys and values exceed 2 GiB.
        template: which chat template is used, and how; None for the file's own.

    Raises:
        ModelError: the file is missing, or no model that can hold a conversation.
    """
    digest = file_digest(path)
    model = GgufModel(path, gpu=device != "cpu")
    tokenizer = GgufTokenizer(model)
    chat = chat_format(str(path), tokenizer, template, ends=tokenizer.ends, rows=None)
    engine = LlamaEngine(model, digest=digest, threads=threads or usable_cores(), max_batch=max_batch)
    return AdaptableLocalSampler(engine, chat, context=model.context or None)


class LlamaEngine:
    """Model and adapter in llama.cpp. See `gce.adapters.models.local.model.AdaptableEngine`."""

    def __init__(self, model: GgufModel, *, digest: str, threads: int, max_batch: int) -> None:
        self._model = model
        self._digest = digest
        self._threads = threads
        self._max_batch = min(max_batch, _MOST_SEQUENCES - 1)
        self._adapter: LowRank | None = None
        self._loaded: LoraFile | None = None
        self.layers: tuple[int, ...] = ()
        """The adapted blocks."""

    @property
    def blocks(self) -> int:
        """Number of transformer blocks."""
        return self._model.blocks

    @property
    def modules(self) -> tuple[str, ...]:
        """Full paths of the adapted linears in the Hugging Face layout."""
        return () if self._adapter is None else tuple(self._adapter.pairs)

    @property
    def trainable_parameters(self) -> int:
        """Number of parameters in the adapter."""
        return 0 if self._adapter is None else sum(a.size + b.size for a, b in self._adapter.pairs.values())

    @property
    def total_parameters(self) -> int:
        """Number of parameters in base and adapter."""
        return self._model.parameters + self.trainable_parameters

    def digest(self) -> str:
        """Return the SHA-256 of the file and the adapter."""
        found = hashlib.sha256(self._digest.encode())
        if self._adapter is not None:
            found.update(repr(self._adapter.scale).encode())
            for path, pair in sorted(self._adapter.pairs.items()):
                found.update(path.encode())
                for array in pair:
                    found.update(array.tobytes())
        return found.hexdigest()

    def sampler(self, stop: frozenset[int]) -> RollOut:
        """Return a sampler of the model in its current state; later adapters do not affect it."""
        adapter = self._loaded

        def sampled(jobs: Sequence[Job], *, whole: bool = False) -> Iterator[Rollout]:
            length = max((len(job.prompt) + job.limit for job in jobs), default=1)
            fitting = _CACHE_BYTES // (length * self._model.bytes_per_token) - 1
            return roll_out(
                jobs,
                lambda rows, _: LlamaDecoder(self._context(adapter, rows + 1, length, outputs=rows), rows),
                stop=stop,
                max_rows=max(1, min(self._max_batch, fitting)),
            )

        return sampled

    def deal(self, jobs: Sequence[Job]) -> list[list[int]]:
        """All jobs share one batch."""
        return all_together(jobs)

    def scores(self, tokens: Sequence[int], start: int, *, adapter: bool) -> tuple[float, ...]:
        """Return the log-probabilities of the tokens from `start` on."""
        context = self._context(self._loaded if adapter else None, 1, len(tokens), outputs=MAX_TOKENS)
        row = np.asarray(tokens)
        found: list[float] = []
        for first in range(0, len(row) - 1, MAX_TOKENS):
            places = np.arange(first, min(first + MAX_TOKENS, len(row) - 1))
            wanted = places >= start - 1
            logits = context.decode(row[places], places, np.zeros_like(places), wanted)
            shifted = logits - logits.max(axis=-1, keepdims=True)
            normal = np.log(np.exp(shifted).sum(axis=-1))
            found += (shifted[np.arange(len(logits)), row[places[wanted] + 1]] - normal).tolist()
        return tuple(found)

    def restore(self, state: ModelState) -> None:
        """Take the adapter of `state`; ValueError if it does not fit the model, and nothing changes."""
        adapter, model = adapter_of(state), self._model
        with TemporaryDirectory(prefix="gce-") as folder:
            path = Path(folder, "adapter.gguf")
            write_adapter(
                path,
                adapter,
                architecture=model.architecture,
                blocks=model.blocks,
                heads={"attn_q": model.heads, "attn_k": model.kv_heads},
            )
            self._loaded = LoraFile(model, path)
        self._adapter = adapter
        self.layers = tuple(sorted(int(layer) for layer in state.settings.get("layers", ())))

    def _context(self, adapter: LoraFile | None, sequences: int, length: int, *, outputs: int) -> Context:
        return Context(
            self._model,
            sequences=sequences,
            length=length,
            adapter=adapter,
            threads=self._threads,
            outputs=outputs,
        )
