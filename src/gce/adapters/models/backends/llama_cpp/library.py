"""llama.cpp through the low-level interface of llama-cpp-python: models, contexts and adapters as objects.

Each object is freed with its last reference, and keeps those alive that it needs. Works on tokens, not text.

Source: `llama.h` of llama.cpp.
"""

from __future__ import annotations

import ctypes
from collections import deque
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np

from gce.adapters.models.local.token_sampling import Array
from gce.errors import MissingExtra, ModelError

try:
    import llama_cpp as api
except ImportError as error:
    raise MissingExtra("llama-cpp-python", "llama-cpp") from error

__all__ = ["MAX_TOKENS", "Context", "GgufModel", "LoraFile"]

MAX_TOKENS = 512
"""Maximum tokens per call of `Context.decode`."""
_ERROR = 4
"""GGML_LOG_LEVEL_ERROR of ggml.h."""
_errors: deque[str] = deque(maxlen=4)


@api.llama_log_callback  # type: ignore[untyped-decorator, unused-ignore]
def _listen(level: int, text: bytes, _: Any) -> None:
    """Keep what llama.cpp logs as an error; drop the rest, which would go to stderr."""
    if level == _ERROR:
        _errors.append(text.decode(errors="replace").strip())


def _why() -> str:
    return _errors[-1] if _errors else "it gave no reason"


class GgufModel:
    """The weights and the vocabulary of a GGUF file."""

    def __init__(self, path: Path, *, gpu: bool) -> None:
        """Load a file; with `gpu`, onto a GPU if the library was built for one. ModelError if it cannot be loaded."""
        api.llama_log_set(_listen, None)
        api.llama_backend_init()
        _errors.clear()
        settings = api.llama_model_default_params()
        settings.n_gpu_layers = -1 if gpu else 0
        self.pointer = api.llama_model_load_from_file(str(path).encode(), settings)
        if not self.pointer:
            raise ModelError(f"llama.cpp could not load {path}: {_why()}")
        finalize(self, api.llama_model_free, self.pointer)
        self.vocabulary: Any = api.llama_model_get_vocab(self.pointer)
        self.tokens = int(api.llama_vocab_n_tokens(self.vocabulary))
        self.blocks = int(api.llama_model_n_layer(self.pointer))
        self.parameters = int(api.llama_model_n_params(self.pointer))
        self.context = int(api.llama_model_n_ctx_train(self.pointer))
        self.heads = int(api.llama_model_n_head(self.pointer))
        self.kv_heads = int(api.llama_model_n_head_kv(self.pointer))
        self.architecture = self.fact("general.architecture")
        if api.llama_model_has_encoder(self.pointer) or not api.llama_model_has_decoder(self.pointer):
            raise ModelError(f"expected a model that generates text, {path} has the architecture {self.architecture}")

    def fact(self, name: str) -> str:
        """Return an entry of the metadata as text; empty if there is none."""
        space = ctypes.create_string_buffer(256)
        api.llama_model_meta_val_str(self.pointer, name.encode(), space, len(space))
        return space.value.decode(errors="replace")

    @property
    def bytes_per_token(self) -> int:
        """Size of a token's keys and values in the cache, in float16."""
        width = int(api.llama_model_n_embd(self.pointer)) // max(1, self.heads)
        size = int(self.fact(f"{self.architecture}.attention.key_length") or width)
        return 4 * self.blocks * max(1, self.kv_heads) * size


class LoraFile:
    """A LoRA adapter in a GGUF file, loaded for one model."""

    def __init__(self, model: GgufModel, path: Path) -> None:
        """Load a file; ValueError if it does not fit the model."""
        _errors.clear()
        self._model = model
        self.pointer = api.llama_adapter_lora_init(model.pointer, str(path).encode())
        if not self.pointer:
            raise ValueError(f"llama.cpp could not load the adapter: {_why()}")
        finalize(self, api.llama_adapter_lora_free, self.pointer)


class Context:
    """Growing sequences over one model, 0, 1, ..., each with keys and values of its own."""

    def __init__(
        self,
        model: GgufModel,
        *,
        sequences: int,
        length: int,
        adapter: LoraFile | None,
        threads: int,
        outputs: int,
    ) -> None:
        """Make room for `length` tokens in each sequence; a call of `decode` returns at most `outputs` rows."""
        _errors.clear()
        settings = api.llama_context_default_params()
        settings.n_seq_max, settings.n_ctx = sequences, sequences * (-(-length // 256) * 256)
        settings.n_batch = settings.n_ubatch = MAX_TOKENS
        # llama.cpp aborts the process if it is below the number of sequences.
        settings.n_outputs_max, settings.n_outputs_max_per_seq = max(outputs, sequences), 0
        settings.n_threads = settings.n_threads_batch = threads
        settings.no_perf = True
        self._model, self._adapter = model, adapter
        self.pointer = api.llama_init_from_model(model.pointer, settings)
        if not self.pointer:
            raise ModelError(f"llama.cpp could not make room for {sequences} sequences of {length} tokens: {_why()}")
        finalize(self, api.llama_free, self.pointer)
        self._memory: Any = api.llama_get_memory(self.pointer)
        if adapter is not None:
            pointers = (api.llama_adapter_lora_p_ctypes * 1)(adapter.pointer)
            api.llama_set_adapters_lora(self.pointer, pointers, 1, (ctypes.c_float * 1)(1.0))

    def clear(self, sequence: int) -> None:
        """Make a sequence empty."""
        api.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def copy(self, source: int, target: int) -> None:
        """Let `target` hold what `source` holds."""
        self.clear(target)
        api.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def decode(self, tokens: Array, positions: Array, sequences: Array, wanted: Array) -> Array:
        """Append at most `MAX_TOKENS` tokens, each to its sequence and at its position there.

        Returns the logits after the tokens that are `wanted`, (wanted tokens, vocabulary). They are valid until the
        next call.
        """
        numbers = [np.ascontiguousarray(array, np.int32) for array in (tokens, positions, sequences)]
        ones, outputs = np.ones(len(tokens), np.int32), np.ascontiguousarray(wanted, np.int8)
        places = numbers[2].ctypes.data + 4 * np.arange(len(tokens), dtype=np.uintp)
        token, position, _ = (array.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)) for array in numbers)
        batch = api.llama_batch(
            n_tokens=len(tokens),
            token=token,
            pos=position,
            n_seq_id=ones.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            seq_id=places.ctypes.data_as(ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
            logits=outputs.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )
        if code := api.llama_decode(self.pointer, batch):
            raise ModelError(f"llama.cpp could not decode {len(tokens)} tokens: code {code}, {_why()}")
        rows = int(outputs.sum())
        if not rows:
            return np.zeros((0, self._model.tokens), np.float32)
        return np.ctypeslib.as_array(api.llama_get_logits(self.pointer), (rows, self._model.tokens))
