"""SmolLM2's GGUF file in other number formats, as llama.cpp converts it."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path
from typing import Any, Literal, get_args

from gce.app.wiring.models import smollm2_weights

__all__ = ["Format", "smollm2_file"]

Format = Literal["Q4_1", "Q8_0", "F32"]
"""Q4_1 is the package's file. F32 holds exactly its numbers; Q8_0 rounds them a second time."""


def smollm2_file(number_format: Format) -> Path:
    """The file in this format, converted once and kept in the directory for temporary files.

    Raises:
        RuntimeError: llama.cpp could not convert it.
    """
    if number_format not in get_args(Format):
        raise ValueError(f"expected one of {', '.join(get_args(Format))}, got {number_format!r}")
    source = smollm2_weights()
    if number_format == "Q4_1":
        return source
    target = Path(tempfile.gettempdir(), f"gce-benchmarks-{source.stem}-{number_format}.gguf")
    if not target.exists():
        import llama_cpp

        api: Any = llama_cpp
        settings = api.llama_model_quantize_default_params()
        settings.ftype = {"Q8_0": api.LLAMA_FTYPE_MOSTLY_Q8_0, "F32": api.LLAMA_FTYPE_ALL_F32}[number_format]
        settings.allow_requantize = True
        unfinished = target.with_suffix(f".{os.getpid()}")
        code = api.llama_model_quantize(str(source).encode(), str(unfinished).encode(), ctypes.byref(settings))
        if code:
            raise RuntimeError(f"llama.cpp could not convert {source.name} to {number_format}: code {code}")
        unfinished.replace(target)
    return target
