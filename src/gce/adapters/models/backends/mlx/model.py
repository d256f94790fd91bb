"""The mlx backend for `LocalModel`: any model that mlx-lm can load, computed with mlx, or with numpy if that is faster.

`lora` holds the adapter; `decoder` and `learner` run mlx-lm's models; the modules of `backends.numpy` run a plain Llama
on a CPU under Linux. Works on tokens, not text.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import numpy as np

from gce.adapters.models.backends.mlx.blas import BlasReport, use_fast_blas
from gce.adapters.models.backends.numpy.decoder import NumpyDecoder
from gce.adapters.models.backends.numpy.learner import NumpyLearner
from gce.adapters.models.backends.numpy.llama import merge
from gce.adapters.models.backends.numpy.precision import Lowered, chosen_precision
from gce.adapters.models.backends.numpy.shared_prefixes import Openings
from gce.adapters.models.local.chat_format import chat_format
from gce.adapters.models.local.chat_template import TemplateSettings
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings
from gce.adapters.models.local.model import LocalModel, RollOut
from gce.adapters.models.local.token_sampling import Array
from gce.adapters.models.local.token_sequences import Example, Scored
from gce.adapters.system.process import share_heap, trim_heap, usable_cores
from gce.domain.learning import LayerActivation, ModelState, Objective
from gce.domain.models import BFLOAT16, FLOAT32, Precision
from gce.errors import MissingExtra

try:
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten

    from gce.adapters.models.backends.mlx.decoder import decoder_maker
    from gce.adapters.models.backends.mlx.files import Base, load_base
    from gce.adapters.models.backends.mlx.learner import loss_and_gradients, split_head
    from gce.adapters.models.backends.mlx.llama import llama_adapter
    from gce.adapters.models.backends.mlx.lora import Adapter, twin
    from gce.adapters.models.backends.mlx.probe import block_statistics
    from gce.adapters.models.local.continuous_batching import Job, all_together, roll_out
    from gce.adapters.models.local.threads import deal, roll_out_in_threads
except ImportError as error:
    raise MissingExtra((error.name or "mlx").split(".")[0], "mlx") from error

__all__ = ["LoraSettings", "MlxEngine", "OptimizerSettings", "load_mlx_model"]

_NUMPY_BATCH = 64
"""Rows per thread in one batch; more are not faster, and their keys and values no longer fit in the CPU caches."""


def load_mlx_model(
    path_or_repo: str | Path,
    *,
    device: Literal["cpu"] | None = None,
    lora: LoraSettings | None = None,
    optimizer: OptimizerSettings | None = None,
    seed: int = 0,
    max_batch: int = 128,
    threads: int | None = None,
    precision: Precision = FLOAT32,
    template: TemplateSettings | None = None,
) -> LocalModel:
    """Load a model from a directory in the Hugging Face layout, or from the hub by name.

    Args:
        path_or_repo: a directory with config.json, model*.safetensors, tokenizer.json and tokenizer_config.json.
        device: `cpu` makes the CPU mlx's default device in this process; None keeps the default device.
        lora: shape of the adapter; `LocalModel.attach` can choose its blocks later.
        optimizer: settings of the optimizer.
        seed: seed of the adapter's initial values and of dropout.
        max_batch: maximum sequences per sampling batch; at most 64 per thread with numpy.
        threads: CPU threads; None for one per usable core. The number does not change any result.
        precision: of the matrix products with which a plain Llama samples on a CPU under Linux. `bfloat16` needs torch;
            `auto` takes it if it is there, at least 1.2 times as fast, and accurate enough.
        template: which chat template is used, and how; None for the model's own.

    On a CPU under Linux, weights are float32, and a plain Llama samples and, without dropout, learns with numpy. A fast
    BLAS, if installed, serves mlx for everything else. mlx's compiler is turned off, and all threads of the process
    share one heap. Cached hidden states of frozen blocks take up to 1 GiB.

    Raises:
        ModelError: the model does not exist or cannot be used, or not with this precision.
        MissingExtra: torch is not installed.
    """
    for name, value in (("max_batch", max_batch), ("threads", threads)):
        if value is not None and value < 1:
            raise ValueError(f"expected {name} of at least 1, got {value!r}")
    threads = threads if threads is not None else usable_cores()
    if device == "cpu":
        mx.set_default_device(mx.cpu)
    on_cpu = mx.default_device() == mx.Device(mx.cpu)
    # A single BLAS thread: using threads for whole sequences scales better and is reproducible.
    blas = use_fast_blas(1) if on_cpu else None
    on_linux_cpu = on_cpu and sys.platform.startswith("linux")
    if on_linux_cpu:
        share_heap()  # Threads that decode and learn allocate and free hundreds of megabytes.
        # There mlx runs the system's C++ compiler for each fused kernel: seconds, for no measurable gain.
        mx.disable_compile()
    base = load_base(path_or_repo, single_precision=on_linux_cpu)
    config = base.weights.config
    rows = config.arguments["vocab_size"]
    chat = chat_format(str(path_or_repo), base.tokenizer, template, ends=base.ends, rows=rows)
    adapter = Adapter(twin(base.weights.model), lora or LoraSettings(), optimizer or OptimizerSettings(), seed=seed)
    lowered, said = chosen_precision(base.weights.plain, precision)
    engine = MlxEngine(base, adapter, max_batch=max_batch, threads=threads, blas=blas, lowered=lowered)
    return LocalModel(
        engine,
        chat,
        context=config.context,
        note="; ".join(filter(None, (base.weights.note, said))),
        precision=FLOAT32 if lowered is None else BFLOAT16,
    )


class MlxEngine:
    """Base model and adapter in mlx. See `gce.adapters.models.local.model.Engine`."""

    def __init__(
        self,
        base: Base,
        adapter: Adapter,
        *,
        max_batch: int,
        threads: int,
        blas: BlasReport | None,
        lowered: Lowered | None = None,
    ) -> None:
        self.blas = blas
        """The BLAS for matrix products; None unless on the CPU."""
        self.model = adapter.model
        self._base = base.weights
        self._adapter = adapter
        self._max_batch = max_batch
        self._threads = threads
        self._head = split_head(self.model)
        self._plain = base.weights.plain
        self._lowered = lowered
        self.learner = self._new_learner()
        """The numpy learner; None if mlx learns."""

    @property
    def blocks(self) -> int:
        """Number of transformer blocks."""
        return len(self.model.layers)

    @property
    def layers(self) -> tuple[int, ...]:
        """The adapted blocks."""
        return self._adapter.layers

    @property
    def modules(self) -> tuple[str, ...]:
        """Full paths of the adapted linears."""
        return self._adapter.modules

    @property
    def trainable_parameters(self) -> int:
        """Number of parameters in the adapter."""
        return sum(array.size for array in self._adapter.parameters().values())

    @property
    def total_parameters(self) -> int:
        """Number of parameters in base and adapter; a packed word of quantized weights counts once."""
        arrays: dict[str, mx.array] = dict(tree_flatten(self.model.parameters()))
        return sum(array.size for array in arrays.values())

    def digest(self) -> str:
        """Return the SHA-256 of the base's files and the adapter, and of what rounds them for sampling."""
        rounded = "" if self._lowered is None else f" {BFLOAT16}"
        return hashlib.sha256(f"{self._base.digest} {self._adapter.digest()}{rounded}".encode()).hexdigest()

    def attach(self, layers: Sequence[int]) -> None:
        """Adapt these blocks only, with a newly initialised adapter and optimizer."""
        self._adapter.attach(layers)
        self.clear_caches()  # Those of other blocks.

    def sampler(self, stop: frozenset[int]) -> RollOut:
        """Return a sampler of the model in its current state; later updates do not affect it."""
        if self._plain is None:
            make = decoder_maker(self._adapter.merged())
            return lambda jobs, whole=False: roll_out(jobs, make, stop=stop, max_rows=self._max_batch)
        trim_heap()  # What learning freed; keys and values are not on the heap.
        merged = merge(self._plain, llama_adapter(self.model))
        openings = Openings(merged if self._lowered is None else self._lowered.like(merged))

        def decoder(rows: int, prompts: Sequence[Sequence[int]]) -> NumpyDecoder:
            if self._lowered is not None:
                self._lowered.begin_thread()
            return NumpyDecoder(openings, rows, prompts)

        return lambda jobs, whole=False: roll_out_in_threads(
            jobs,
            decoder,
            stop=stop,
            max_rows=min(self._max_batch, _NUMPY_BATCH),
            threads=self._threads,
            whole=whole,
        )

    def deal(self, jobs: Sequence[Job]) -> list[list[int]]:
        """Return the shares of `roll_out_in_threads`; what mlx samples shares one batch."""
        return all_together(jobs) if self._plain is None else deal(jobs)

    def scores(self, tokens: Sequence[int], start: int, *, adapter: bool) -> tuple[float, ...]:
        """Return the log-probabilities of the tokens from `start` on."""
        with nullcontext() if adapter else self._adapter.off():
            row = mx.array(list(tokens))
            to_hidden, to_logits = self._head
            logits = to_logits(to_hidden(row[None, :-1])[0, start - 1 :]).astype(mx.float32)
            return tuple(float(value) for value in np.array(-nn.losses.cross_entropy(logits, row[start:])))

    def step(self, examples: Sequence[Example], objective: Objective, *, rate: float) -> tuple[float, float, Scored]:
        """See `gce.adapters.models.local.model.Engine`."""
        loss, gradients, scores = self._loss_and_gradients(examples, objective)
        norm = float(np.sqrt(sum(float(mx.sum(mx.square(gradient))) for gradient in gradients.values())))
        self._adapter.step(gradients, norm=norm, rate=rate)
        return loss, norm, scores

    def state(self) -> ModelState:
        """Return a copy of adapter and optimizer."""
        return self._adapter.state()

    def restore(self, state: ModelState) -> None:
        """Continue from `state`; if no block is adapted yet, adapt those of the state."""
        self._adapter.restore(state)

    def block_statistics(self, sequences: Iterable[Sequence[int]]) -> tuple[LayerActivation, ...]:
        """Return activation statistics of each block on token sequences, with the adapter off."""
        with self._adapter.off():
            return block_statistics(self.model, sequences)

    def hidden(self, tokens: Sequence[int], start: int, *, adapter: bool) -> Array:
        """See `gce.adapters.models.local.model.Engine`."""
        with nullcontext() if adapter else self._adapter.off():
            found = self._head[0](mx.array(list(tokens))[None])[0, start:]
            return np.array(found.astype(mx.float32))

    def clear_caches(self) -> None:
        """Free the hidden states that are cached."""
        self.learner = self._new_learner()

    def _new_learner(self) -> NumpyLearner | None:
        """Return a numpy learner with an empty cache; None if mlx learns."""
        if self._plain is None or self._adapter.lora.dropout:
            return None
        return NumpyLearner(self._plain, tokens_per_pass=self._adapter.settings.tokens_per_pass, threads=self._threads)

    def _loss_and_gradients(
        self, examples: Sequence[Example], objective: Objective
    ) -> tuple[float, dict[str, mx.array], Scored]:
        """Return the loss, its gradient for each of the adapter's arrays by full path, and the log-probabilities."""
        if self.learner is not None:
            loss, found, scores = self.learner.loss_and_gradients(llama_adapter(self.model), examples, objective)
            sides = (
                (f"{path}.{side}", array)
                for path, pair in found.items()
                for side, array in zip(("lora_a", "lora_b"), pair, strict=True)
            )
            return loss, {path: mx.array(array) for path, array in sides}, scores
        with self._adapter.training():
            return loss_and_gradients(
                self.model,
                self._head,
                examples,
                objective,
                tokens_per_pass=self._adapter.settings.tokens_per_pass,
                streams=_streams(self._threads),
            )


@functools.cache
def _streams(threads: int) -> tuple[mx.Stream, ...]:
    """Return one stream per thread on a CPU, since each stream has its own thread; elsewhere the default stream."""
    device = mx.default_device()
    if device != mx.Device(mx.cpu):
        return (mx.default_stream(device),)
    return tuple(mx.new_stream(device) for _ in range(threads))
