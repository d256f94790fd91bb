"""Find and load a base model's files. Independent of adapters; runs no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from attrs import frozen
from mlx_lm.utils import dequantize_model, load_model, load_tokenizer

from gce.adapters.models.formats.model_files import check_speaks, directory_digest, find_directory
from gce.errors import ModelError, one_line

__all__ = ["Base", "load_base"]


@frozen(eq=False)
class Base:
    """A base model in memory."""

    model: nn.Module
    tokenizer: Any
    context: int | None
    """Maximum tokens of prompt and completion together; None if the files do not say."""
    digest: str
    """SHA-256 of the names and contents of config and weights."""
    note: str = ""
    """A change to the model that its user may not expect."""


def load_base(path_or_repo: str | Path, *, single_precision: bool) -> Base:
    """Load a base model from a directory in the Hugging Face layout, or from the hub by name.

    With `single_precision`, all weights are converted to float32. Raises ModelError if the model does not exist or
    cannot hold a conversation.
    """
    name = str(path_or_repo)
    directory = find_directory(path_or_repo)
    try:
        model, config = load_model(directory, lazy=True)
        tokenizer = load_tokenizer(directory, eos_token_ids=config.get("eos_token_id"))
    except Exception as error:  # The vendor may raise anything for a damaged or foreign file.
        raise ModelError(f"could not load a model from {name!r}: {one_line(error)}") from error
    check_speaks(name, template=tokenizer.has_chat_template, end=tokenizer.eos_token_id)
    note = ""
    if single_precision:
        if "quantization" in config:
            model = dequantize_model(model)
            note = "its quantized weights were dequantized to float32, which this CPU multiplies faster"
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    context = config.get("max_position_embeddings")
    return Base(model, tokenizer, int(context) if context else None, directory_digest(directory), note)
