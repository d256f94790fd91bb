"""Sampled tokens a second: ours, mlx-lm's batched generation, and transformers on torch.

Every contestant samples the same prompts, `samples` times each, at temperature 0.8, `tokens` new tokens at most.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from benchmarks.contest import Turn, measured
from gce.adapters.clocks import SystemClock
from gce.adapters.exact_solver import ExactSolver
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.types import Message, SampleRequest

TEMPERATURE = 0.8
TIERS = ("T0", "T1", "T2", "T3", "T4", "T5")


def conversations(prompts: int) -> list[tuple[Message, ...]]:
    """Problems of every tier in turn."""
    task = TASKS["scheduling"]
    solve = ExactSolver(SystemClock()).solve
    each = -(-prompts // len(TIERS))
    drawn = [draw_problems(task, "grounded", tier, "dev", each, seed=3, solve=solve) for tier in TIERS]
    return [problem.prompt for group in zip(*drawn, strict=True) for problem in group][:prompts]


def ours(model: str, prompts: int, samples: int, tokens: int, batch: int) -> Callable[[], Turn]:
    """`gce.adapters.mlx_model`."""
    from gce.adapters.mlx_model import load_mlx_model

    loaded = load_mlx_model(model, device="cpu", max_batch=batch)
    asked = conversations(prompts)
    number = 0

    def work() -> float:
        nonlocal number
        number += 1
        requests = [
            SampleRequest(
                key=f"{place}/{sample}",
                messages=messages,
                seed=1_000_003 * number + 1_009 * place + sample,
                temperature=TEMPERATURE,
                max_tokens=tokens,
            )
            for place, messages in enumerate(asked)
            for sample in range(samples)
        ]
        return sum(len(completion.token_ids or ()) for completion in loaded.sample(requests))

    return lambda: measured(work)


def mlx_lm(model: str, prompts: int, samples: int, tokens: int, batch: int, *, fast_blas: bool) -> Callable[[], Turn]:
    """`mlx_lm.batch_generate`, with the BLAS that `gce` puts under mlx or with its own."""
    import mlx.core as mx

    from gce.adapters.blas import use_fast_blas

    mx.set_default_device(mx.cpu)
    if fast_blas:
        use_fast_blas(os.cpu_count() or 1)
    from mlx_lm import batch_generate, load
    from mlx_lm.sample_utils import make_sampler

    loaded, tokenizer = load(model)[:2]
    loaded.set_dtype(mx.float32)
    asked = []
    for messages in conversations(prompts):
        turns = [{"role": message.role, "content": message.content} for message in messages]
        asked += [tokenizer.apply_chat_template(turns, add_generation_prompt=True)] * samples

    def work() -> float:
        # mlx-lm draws from mlx's global generator: other tokens in each turn, as it comes.
        found = batch_generate(
            loaded, tokenizer, asked, max_tokens=tokens, sampler=make_sampler(TEMPERATURE), completion_batch_size=batch
        )
        return float(found.stats.generation_tokens)

    return lambda: measured(work)


def transformers(model: str, prompts: int, samples: int, tokens: int, batch: int, *, dtype: str) -> Callable[[], Turn]:
    """`generate` on torch's CPU backend, `batch` sequences together."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
    asked = []
    for messages in conversations(prompts):
        turns = [{"role": message.role, "content": message.content} for message in messages]
        asked += [tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)] * samples

    def work() -> float:
        written = 0
        for start in range(0, len(asked), batch):
            inputs = tokenizer(asked[start : start + batch], return_tensors="pt", padding=True)
            with torch.inference_mode():
                out = loaded.generate(**inputs, do_sample=True, temperature=TEMPERATURE, top_k=0, max_new_tokens=tokens)
            for row in out[:, inputs["input_ids"].shape[1] :].tolist():
                stop = row.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in row else len(row)
                written += stop
        return written

    return lambda: measured(work)
