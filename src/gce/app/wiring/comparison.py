"""Compare the model that an exported adapter makes in transformers or PEFT with the model that it is here."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gce.adapters.models.formats.adapter_files import LowRank, state_of
from gce.app.settings.records import LoraSettings, ModelSettings, TrainSettings
from gce.app.wiring.models import HF, find_model
from gce.app.wiring.tasks import find_task
from gce.errors import GceError, MissingExtra, OtherModel, one_line

__all__ = ["LIMIT", "compare_export"]

LIMIT = 1e-3
"""Of the difference of two log-probabilities, in nats."""
TOKENS = 48
"""Maximum tokens that are compared: fewer where the model's context is shorter."""
_HINT = "nothing was written; report it, or write the files all the same with {no_compare}"


def compare_export(folder: Path, base: Path, adapter: LowRank, *, merged: bool, on_torch: bool) -> str:
    """Return a sentence with the largest difference of log-probabilities, or why they were not compared.

    Both models compute in float32 on the CPU. Where the merged weights are of lower precision, this model's adapter is
    rounded as they are before the difference is held to the limit.

    Raises:
        OtherModel: the difference is above `LIMIT`, or PEFT cannot read the export.
    """
    from gce.adapters.models.formats.base_weights import in_float32

    for package in ("torch", "transformers", "peft"):
        if find_spec(package) is None:
            return f"not compared: {MissingExtra(package, 'hf')}"
    single = in_float32(base)
    if not (single or on_torch or sys.platform.startswith("linux")):
        return "not compared: on this platform, gce computes with these weights in their own precision"
    prefix = HF if on_torch else ""
    try:
        from gce.adapters.models.backends.torch.exported import reader, token_log_probabilities

        model = _loaded(f"{prefix}{base}", adapter)
        tokens = _tokens(base, min(TOKENS, (model.info().context or TOKENS) - 1))
        own = _scores(model, tokens)
        rounded = own if single or not merged else _scores(_loaded(f"{prefix}{folder}", None), tokens)
        name = reader(None if merged else base)
        theirs = np.array(token_log_probabilities(folder, None if merged else base, tokens))
    except GceError as error:
        return f"not compared: {error}"
    except Exception as error:  # The vendors may raise anything for a model that they do not know.
        if isinstance(error, ValueError) and not merged:  # PEFT finds no such linears, or takes no adapter on them.
            raise OtherModel(f"{name} cannot read the export: {one_line(error)}", hint=_HINT) from error
        return f"not compared: {one_line(error)}"
    count, difference = len(tokens) - 1, float(np.abs(rounded - theirs).max())
    if not difference <= LIMIT:
        raise OtherModel(
            f"{name} reads the export as another model: log-probabilities of {count} tokens differ by up to "
            f"{difference:.2g} nats, expected at most {LIMIT:g}",
            hint=_HINT,
        )
    said = f"compared with {name} on {count} tokens: maximum difference of log-probabilities {difference:.1g} nats"
    if rounded is own:
        return said
    return f"{said}; rounding the merged weights changes them by up to {float(np.abs(rounded - own).max()):.1g} nats"


def _tokens(base: Path, count: int) -> list[int]:
    """Return one more than `count` fixed tokens from all over the vocabulary."""
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    words = {**config, **(config.get("text_config") or {})}["vocab_size"]
    draw = np.random.Generator(np.random.Philox(0))
    return [int(token) for token in draw.integers(0, words, count + 1)]


def _loaded(name: str, adapter: LowRank | None) -> Any:
    """Return the model of this name, on the CPU, with an adapter."""
    lora = LoraSettings() if adapter is None else LoraSettings(rank=adapter.rank, scale=adapter.scale)
    settings = TrainSettings(model=ModelSettings(name=name, device="cpu"), lora=lora)
    model: Any = find_model(settings, find_task("scheduling"))
    if adapter is not None:
        model.restore(state_of(adapter))
    return model


def _scores(model: Any, tokens: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return the log-probabilities of the tokens after the first."""
    return np.array(model.engine.scores(tokens, 1, adapter=True))
