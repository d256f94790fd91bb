"""What transformers and PEFT compute with exported files, in float32 on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import peft
import torch
import transformers

from gce.adapters.models.backends.torch.model import no_bars

__all__ = ["reader", "token_log_probabilities"]


def reader(base: Path | None) -> str:
    """Return the name and version of what reads an adapter on a base, or a model without one."""
    return f"transformers {transformers.__version__}" if base is None else f"PEFT {peft.__version__}"


def token_log_probabilities(folder: Path, base: Path | None, tokens: Sequence[int]) -> tuple[float, ...]:
    """Return the log-probabilities of the tokens after the first: of the adapter in `folder` on `base`, or the model.

    Raises whatever the vendors do for files that they cannot read.
    """
    row = torch.tensor([list(tokens)])
    with no_bars(), warnings.catch_warnings(action="ignore"), torch.no_grad():
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(base or folder, dtype=torch.float32)
        if base is not None:
            model = peft.PeftModel.from_pretrained(model, str(folder))
        logits = model.eval()(row[:, :-1], use_cache=False).logits[0].float()
    return tuple(logits.log_softmax(dim=-1).gather(1, row[0, 1:, None])[:, 0].tolist())
