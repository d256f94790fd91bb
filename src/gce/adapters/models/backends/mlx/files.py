"""Find and load a base model's files, its weights once for all models that use them. Independent of adapters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import mlx.core as mx
import mlx.nn as nn
from attrs import frozen
from mlx_lm.utils import _get_classes, dequantize_model, load_model
from transformers import AutoTokenizer

from gce.adapters.models.backends.mlx.config import MlxConfig, read_config
from gce.adapters.models.backends.mlx.llama import llama_weights
from gce.adapters.models.backends.numpy.llama import LlamaWeights
from gce.adapters.models.formats.model_files import directory_digest, end_tokens, find_directory
from gce.errors import ModelError, one_line

__all__ = ["Base", "Weights", "load_base", "load_weights"]


@frozen(eq=False)
class Weights:
    """Frozen weights in memory. Nothing changes them: adapters go on a copy of the modules, with the same arrays."""

    model: nn.Module
    plain: LlamaWeights | None
    """The same for numpy, where this is a plain Llama and they are float32."""
    config: MlxConfig
    digest: str
    """SHA-256 of the names and contents of config and weights."""
    note: str = ""
    """A change to the model that its user may not expect."""


@frozen(eq=False)
class Base:
    """A base model in memory."""

    weights: Weights
    tokenizer: Any
    ends: frozenset[int]
    """End tokens that the files name."""


_IN_USE: WeakValueDictionary[tuple[str, bool], Weights] = WeakValueDictionary()
"""Weights by digest and precision: they may take gigabytes, and a notebook trains several adapters on one base."""


def load_base(path_or_repo: str | Path, *, single_precision: bool) -> Base:
    """Load a base model from a directory in the Hugging Face layout, or from the hub by name.

    With `single_precision`, all weights are converted to float32. Weights that are in use are not loaded again. Raises
    ModelError if the model does not exist.
    """
    name = str(path_or_repo)
    directory = find_directory(path_or_repo)
    place = directory_digest(directory), single_precision
    try:
        weights = _IN_USE.get(place) or _load(directory, *place)
        tokenizer = AutoTokenizer.from_pretrained(directory)
    except ModelError:
        raise
    except Exception as error:  # The vendor may raise anything for a damaged or foreign file.
        raise ModelError(f"could not load a model from {name!r}: {one_line(error)}") from error
    return Base(_IN_USE.setdefault(place, weights), tokenizer, frozenset(end_tokens(directory)))


def load_weights(directory: Path, arguments: Mapping[str, Any]) -> tuple[nn.Module, Mapping[str, Any]]:
    """Load a directory's weights lazily into a model with these settings; return it and its config.json."""

    def classes(config: dict[str, Any]) -> tuple[type[nn.Module], Any]:
        model_class, arguments_class = _get_classes(config)
        return model_class, SimpleNamespace(from_dict=lambda _: arguments_class.from_dict(arguments))

    model, config = load_model(directory, lazy=True, get_model_classes=classes)
    return model, config


def _load(directory: Path, digest: str, single_precision: bool) -> Weights:
    read = read_config(directory)
    model, config = load_weights(directory, read.arguments)
    notes = [read.note]
    if single_precision:
        if "quantization" in config:
            model = dequantize_model(model)
            notes.append("its quantized weights were dequantized to float32, which this CPU multiplies faster")
        model.set_dtype(mx.float32)
    mx.eval(model.parameters(), model(mx.array([[0, 1]])))  # Some models load and cannot be computed.
    plain = llama_weights(model) if single_precision else None
    return Weights(model, plain, read, digest, "; ".join(filter(None, notes)))
