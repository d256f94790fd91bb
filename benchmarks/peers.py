"""What contestants that run language models share: the model, the conversations, and mlx-lm as a peer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gce.adapters.clocks import SystemClock
from gce.adapters.exact_solver import ExactSolver
from gce.app.resolve import shipped_model_path
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.types import Problem

__all__ = ["cores", "load_mlx_lm", "model_folder", "problems", "turns"]

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gce-benchmarks"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def model_folder(model: str) -> Path:
    """The folder of `gce-tiny`, or of `smollm2`, which is made at its first use.

    Raises:
        FileNotFoundError: the package that carries SmolLM2 is not installed.
    """
    if model == "gce-tiny":
        return shipped_model_path()
    from benchmarks.smollm2 import smollm2_folder

    return smollm2_folder(CACHE)


def problems(count: int, tier: str) -> list[Problem]:
    """Problems of one tier; a prompt of T5 has about 300 tokens for SmolLM2."""
    solve = ExactSolver(SystemClock()).solve
    return draw_problems(TASKS["scheduling"], "grounded", tier, "dev", count, seed=3, solve=solve)


def turns(problem: Problem) -> list[dict[str, str]]:
    """The problem's conversation as chat templates take it."""
    return [{"role": message.role, "content": message.content} for message in problem.prompt]


def load_mlx_lm(model: str, *, fast_blas: bool) -> tuple[Any, Any]:
    """Model and tokenizer in float32 on the CPU, with the BLAS that `gce` puts under mlx, or all as pip installs it.

    Raises:
        RuntimeError: the fast BLAS is not there.
    """
    import mlx.core as mx

    from gce.adapters.blas import use_fast_blas

    mx.set_default_device(mx.cpu)
    if fast_blas:
        report = use_fast_blas(cores())
        if not report.active:
            raise RuntimeError(f"no fast BLAS under mlx: {report.reason}")
        # As in gce: there mlx runs the C++ compiler for each fused kernel, which takes it seconds and gains nothing.
        mx.disable_compile()
    from mlx_lm import load

    loaded, tokenizer = load(str(model_folder(model)))[:2]
    loaded.set_dtype(mx.float32)
    return loaded, tokenizer
