"""A language model that mlx-lm can load, with all four capabilities: it samples, scores, learns and can be probed.

Knows text, chat templates and the records of the domain; token work is done by its neighbours: `mlx_lora` holds the
adapter, `mlx_sampler` and `mlx_learner` run mlx-lm's models, `numpy_decoder` and `numpy_learner` a plain Llama on a CPU
under Linux. It does not know tasks, verdicts or files other than the model's.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from attrs import evolve

from gce.adapters.blas import BlasReport, use_fast_blas
from gce.adapters.examples import Example, Objective
from gce.adapters.hidden_states import HiddenStates
from gce.adapters.numpy_decoder import NumpyDecoder
from gce.adapters.numpy_learner import NumpyLearner
from gce.adapters.numpy_llama import LlamaWeights, merge
from gce.adapters.process import share_heap, usable_cores
from gce.domain.types import (
    Completion,
    LayerActivation,
    Message,
    ModelState,
    SampleRequest,
    TrainingBatch,
    UpdateReport,
)
from gce.errors import MissingExtra, ModelError

try:
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten

    from gce.adapters.mlx_decoder import decoder_maker
    from gce.adapters.mlx_files import Base, load_base
    from gce.adapters.mlx_learner import loss_and_gradients, split_head
    from gce.adapters.mlx_llama import llama_adapter, llama_weights
    from gce.adapters.mlx_lora import Adapter, LoraSettings, OptimizerSettings
    from gce.adapters.mlx_probe import block_statistics
    from gce.adapters.mlx_sampler import Job, Rollout, roll_out
    from gce.adapters.sampler_threads import roll_out_in_threads
except ImportError as error:
    raise MissingExtra((error.name or "mlx").split(".")[0], "mlx") from error

__all__ = ["LoraSettings", "MlxModel", "OptimizerSettings", "load_mlx_model"]

_NUMPY_BATCH = 64
"""Rows that one thread decodes together; more do not multiply faster, and their keys and values leave the caches."""


def load_mlx_model(
    path_or_repo: str | Path,
    *,
    device: Literal["cpu"] | None = None,
    lora: LoraSettings | None = None,
    optimizer: OptimizerSettings | None = None,
    seed: int = 0,
    max_batch: int = 128,
    threads: int | None = None,
) -> MlxModel:
    """Load a model from a directory in the Hugging Face layout, or from the hub by its name.

    Args:
        path_or_repo: a directory with config.json, model*.safetensors, tokenizer.json and tokenizer_config.json.
        device: `cpu` makes the CPU mlx's default device in this process; None takes the default as it is.
        lora: the adapter's shape; blocks may also be chosen later, by `MlxModel.attach`.
        optimizer: how the adapter learns.
        seed: of the adapter's initial values and dropout.
        max_batch: sequences that are sampled in one batch, at most; through numpy 64, in each thread.
        threads: of work on the CPU; None for one on each usable core. Their number does not change any result.

    On a CPU under Linux weights are float32, a plain Llama samples and, without dropout, learns through numpy, and
    where a fast BLAS is installed it is put under mlx for all else; mlx's compiler is switched off, and all threads of
    the process share one heap. What learning keeps of frozen blocks takes up to 1 GiB.
    Raises ModelError where there is no such model, or it cannot be used.
    """
    for name, value in (("max_batch", max_batch), ("threads", threads)):
        if value is not None and value < 1:
            raise ValueError(f"expected {name} of at least 1, got {value!r}")
    threads = threads if threads is not None else usable_cores()
    if device == "cpu":
        mx.set_default_device(mx.cpu)
    on_cpu = mx.default_device() == mx.Device(mx.cpu)
    # One BLAS thread: the threads are spent on whole sequences, which scales better and repeats exactly.
    blas = use_fast_blas(1) if on_cpu else None
    on_linux_cpu = on_cpu and sys.platform.startswith("linux")
    if on_linux_cpu:
        share_heap()  # Threads that decode and learn take and leave hundreds of megabytes.
        # There mlx runs the system's C++ compiler for each fused kernel: seconds, for no gain that was measurable.
        mx.disable_compile()
    base = load_base(path_or_repo, single_precision=on_linux_cpu)
    plain = llama_weights(base.model) if on_linux_cpu else None
    adapter = Adapter(base.model, lora or LoraSettings(), optimizer or OptimizerSettings(), seed=seed)
    return MlxModel(base, adapter, plain=plain, max_batch=max_batch, threads=threads, blas=blas)


class MlxModel:
    """A loaded model with its adapter. Has `Sampler`, `Scorer`, `Learner` and `Probe` of `gce.ports.model`."""

    def __init__(
        self,
        base: Base,
        adapter: Adapter,
        *,
        plain: LlamaWeights | None,
        max_batch: int,
        threads: int,
        blas: BlasReport | None,
    ) -> None:
        self.context = base.context or sys.maxsize
        """Tokens that a prompt and its completion may have together."""
        self.blas = blas
        """What serves matrix products; None away from the CPU."""
        self._model = base.model
        self._tokenizer = base.tokenizer
        self._base_digest = base.digest
        self._adapter = adapter
        self._max_batch = max_batch
        self._threads = threads
        self._head = split_head(base.model)
        self._plain = plain
        self._learner = self._new_learner()
        self._base_scores = HiddenStates(most_bytes=1 << 26)
        self._roll_out: Callable[[Sequence[Job]], Iterator[Rollout]] | None = None
        self._stop = frozenset(int(token) for token in base.tokenizer.eos_token_ids)
        self._end = int(base.tokenizer.eos_token_id)

    @property
    def blocks(self) -> int:
        """How many transformer blocks there are."""
        return len(self._model.layers)

    @property
    def layers(self) -> tuple[int, ...]:
        """The adapted blocks."""
        return self._adapter.layers

    @property
    def adapted_modules(self) -> tuple[str, ...]:
        """Full paths of the linears that learn."""
        return self._adapter.modules

    @property
    def trainable_parameters(self) -> int:
        """Numbers in the adapter."""
        return sum(array.size for array in self._adapter.parameters().values())

    @property
    def total_parameters(self) -> int:
        """Numbers in base and adapter; a packed word of quantized weights counts once."""
        arrays: dict[str, mx.array] = dict(tree_flatten(self._model.parameters()))
        return sum(array.size for array in arrays.values())

    @property
    def policy(self) -> str:
        """SHA-256 over the base's files and the adapter."""
        return hashlib.sha256(f"{self._base_digest} {self._adapter.digest()}".encode()).hexdigest()

    def attach(self, layers: Sequence[int]) -> None:
        """Adapt these blocks alone, from fresh initial values and with a fresh optimizer."""
        self._adapter.attach(layers)
        self._learner = self._new_learner()  # What was kept for other blocks is let go.
        self._roll_out = None

    def prompt_tokens(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The conversation through the chat template, up to where the model is to write."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        return tuple(self._tokenizer.apply_chat_template(turns, add_generation_prompt=True))

    def text_tokens(self, text: str, *, end: bool) -> tuple[int, ...]:
        """`text` as the model would write it, with the end token if asked for."""
        return (*self._tokenizer.encode(text, add_special_tokens=False), *([self._end] if end else []))

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Updates made while the completions come do not affect them."""
        requests = list(requests)
        keys = [request.key for request in requests]
        if len(set(keys)) != len(keys):
            twice = next(key for place, key in enumerate(keys) if key in keys[:place])
            raise ValueError(f"expected one request for each key, got {twice!r} twice")
        if self._roll_out is None:
            self._roll_out = self._roller()
        return self._completions(requests, self._roll_out, self.policy)

    def log_probabilities(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> tuple[float, ...]:
        """See `gce.ports.model.Scorer`."""
        prompt, written = self.prompt_tokens(messages), self.text_tokens(continuation, end=True)
        if adapter:
            return self._scores((*prompt, *written), len(prompt))
        with self._adapter.off():
            return self._scores((*prompt, *written), len(prompt))

    def update(self, batch: TrainingBatch) -> UpdateReport:
        """See `gce.ports.model.Learner`."""
        self._roll_out = None  # Its merged weights are of no use any more.
        if not self._adapter.layers:
            raise ModelError("expected an adapter before the first update: call attach(layers)")
        objective = Objective(batch.clip, batch.kl)
        examples = [
            self._example(trace.messages, trace.completion, weight, objective)
            for trace, weight in zip(batch.traces, batch.weights, strict=True)
        ]
        fitting = [example for example in examples if len(example.tokens) <= self.context]
        trained = sum(len(example.tokens) - example.start for example in fitting)
        dropped = len(examples) - len(fitting)
        if not trained:
            return UpdateReport(loss=0.0, tokens=0, gradient_norm=0.0, dropped=dropped)
        examples = [example for example in fitting if example.start < len(example.tokens)]
        loss, gradients = self._loss_and_gradients(self._with_base(examples, objective), objective)
        norm = float(np.sqrt(sum(float(mx.sum(mx.square(gradient))) for gradient in gradients.values())))
        self._adapter.step(gradients, norm=norm)
        return UpdateReport(loss=loss, tokens=trained, gradient_norm=norm, dropped=dropped)

    def state(self) -> ModelState:
        """See `gce.ports.model.Learner`."""
        return self._adapter.state()

    def restore(self, state: ModelState) -> None:
        """See `gce.ports.model.Learner`. Where no block is adapted yet, those of the state are."""
        self._adapter.restore(state)
        self._roll_out = None

    def activation_statistics(self, prompts: Iterable[Sequence[Message]]) -> tuple[LayerActivation, ...]:
        """See `gce.ports.model.Probe`."""
        with self._adapter.off():
            return block_statistics(self._model, (self.prompt_tokens(messages) for messages in prompts))

    def write_checkpoint(self, directory: str | Path) -> None:
        """Write the adapter so that `mlx_lm.load(base, adapter_path=directory)` reads it."""
        if not self._adapter.layers:
            raise ModelError("expected an adapter to write: call attach(layers)")
        self._adapter.write(Path(directory))

    def _roller(self) -> Callable[[Sequence[Job]], Iterator[Rollout]]:
        """What samples from the model as it is now; later updates do not reach it."""
        if self._plain is None:
            make = decoder_maker(self._adapter.merged())
            return lambda jobs: roll_out(jobs, make, stop=self._stop, max_rows=self._max_batch)
        weights = merge(self._plain, llama_adapter(self._model))
        return lambda jobs: roll_out_in_threads(
            jobs,
            lambda rows, longest: NumpyDecoder(weights, rows, longest),
            stop=self._stop,
            max_rows=min(self._max_batch, _NUMPY_BATCH),
            threads=self._threads,
        )

    def _new_learner(self) -> NumpyLearner | None:
        """One that has kept nothing yet; None where mlx learns."""
        if self._plain is None or self._adapter.lora.dropout:
            return None
        return NumpyLearner(self._plain, tokens_per_pass=self._adapter.settings.tokens_per_pass, threads=self._threads)

    def _scores(self, tokens: Sequence[int], start: int) -> tuple[float, ...]:
        """Log-probabilities of the tokens from `start` on."""
        row = mx.array(list(tokens))
        to_hidden, to_logits = self._head
        logits = to_logits(to_hidden(row[None, :-1])[0, start - 1 :]).astype(mx.float32)
        return tuple(float(value) for value in np.array(-nn.losses.cross_entropy(logits, row[start:])))

    def _with_base(self, examples: Sequence[Example], objective: Objective) -> list[Example]:
        """The examples with the base's log-probabilities, where the objective asks for them."""
        if not objective.kl:
            return list(examples)
        found = []
        with self._adapter.off():
            for example in examples:
                scores = self._base_scores.get(example.tokens)
                if scores is None:
                    scores = np.array(self._scores(example.tokens, example.start))
                    self._base_scores.put(example.tokens, scores)
                found.append(evolve(example, base=tuple(scores.tolist())))
        return found

    def _loss_and_gradients(
        self, examples: Sequence[Example], objective: Objective
    ) -> tuple[float, dict[str, mx.array]]:
        """The loss, and its gradient by full path of each of the adapter's arrays."""
        if self._learner is not None:
            loss, found = self._learner.loss_and_gradients(llama_adapter(self._model), examples, objective)
            sides = (
                (f"{path}.{side}", array)
                for path, pair in found.items()
                for side, array in zip(("lora_a", "lora_b"), pair, strict=True)
            )
            return loss, {path: mx.array(array) for path, array in sides}
        with self._adapter.training():
            return loss_and_gradients(
                self._model,
                self._head,
                examples,
                objective,
                tokens_per_pass=self._adapter.settings.tokens_per_pass,
                streams=_streams(self._threads),
            )

    def _completions(
        self, requests: Sequence[SampleRequest], roll_out: Callable[[Sequence[Job]], Iterator[Rollout]], policy: str
    ) -> Iterator[Completion]:
        tokens: dict[tuple[Message, ...], tuple[int, ...]] = {}
        for request in requests:
            if request.messages not in tokens:
                tokens[request.messages] = self.prompt_tokens(request.messages)
        asked: list[tuple[SampleRequest, Job]] = []
        for request in requests:
            prompt = tokens[request.messages]
            room = self.context - len(prompt)
            if room < 1:
                yield Completion(request.key, "", "error", policy, prompt_token_ids=prompt)
            else:
                limit = min(request.max_tokens, room)
                asked.append((request, Job(prompt, request.seed, request.temperature, limit)))
        jobs = [job for _, job in asked]
        for rollout in roll_out(jobs):
            request, job = asked[rollout.job]
            yield self._completion(request.key, job.prompt, rollout, policy)

    def _completion(self, key: str, prompt: tuple[int, ...], rollout: Rollout, policy: str) -> Completion:
        written = rollout.tokens[:-1] if rollout.stopped else rollout.tokens
        return Completion(
            key=key,
            # Other special tokens stay visible: whoever reads the text shall see what was written.
            text=self._tokenizer.decode(list(written), skip_special_tokens=False),
            finish_reason="stop" if rollout.stopped else "length",
            policy=policy,
            prompt_token_ids=prompt,
            token_ids=rollout.tokens,
            log_probabilities=rollout.log_probabilities,
            sampling_log_probabilities=rollout.sampling_log_probabilities,
        )

    def _example(
        self, messages: Sequence[Message], completion: Completion, weight: float, objective: Objective
    ) -> Example:
        """What was sampled, token for token; from the text where the backend that sampled has no tokens."""
        prompt, written = completion.prompt_token_ids, completion.token_ids
        if objective.clip is not None:
            if prompt is None or written is None or completion.log_probabilities is None:
                raise ValueError(f"clip needs log-probabilities of sampled tokens, and {completion.key} has none")
            return Example((*prompt, *written), len(prompt), weight, sampled=completion.log_probabilities)
        if prompt is None:
            prompt = self.prompt_tokens(messages)
        if written is None:
            written = self.text_tokens(completion.text, end=completion.finish_reason == "stop")
        return Example(tokens=(*prompt, *written), start=len(prompt), weight=weight)


@functools.cache
def _streams(threads: int) -> tuple[mx.Stream, ...]:
    """On a CPU as many streams as threads, for each has a thread of its own; elsewhere the default one."""
    device = mx.default_device()
    if device != mx.Device(mx.cpu):
        return (mx.default_stream(device),)
    return tuple(mx.new_stream(device) for _ in range(threads))
