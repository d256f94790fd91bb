"""Sampled tokens a second: ours, mlx-lm's batched generation, transformers on torch, and llama-cpp-python.

Every contestant samples the same prompts, `samples` times each, at temperature 0.8, `tokens` new tokens at most. Ours
computes a prompt once for all its samples, as llama-cpp-python does for samples that follow each other; the other
peers, called as they usually are, compute it for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.contest import Turn, measured
from benchmarks.peers import load_mlx_lm, problems, turns
from benchmarks.quantized import Format, smollm2_file
from gce.app.settings.records import ModelSettings, TrainSettings
from gce.app.wiring.models import find_model, model_directory, smollm2_weights
from gce.domain.completions import SampleRequest
from gce.domain.models import Precision
from gce.domain.tasks import TASKS
from gce.ports.model import Sampler

TEMPERATURE = 0.8


def ours_on_llama(number_format: Format, **shape: Any) -> Callable[[], Turn]:
    """SmolLM2 in llama.cpp, in this format."""
    return ours(model=f"llama:{smollm2_file(number_format)}", **shape)


def ours(
    model: str, prompts: int, samples: int, tokens: int, tier: str, precision: Precision = "float32"
) -> Callable[[], Turn]:
    """The model of this name on the CPU."""
    task = TASKS["scheduling"]
    loaded = find_model(TrainSettings(model=ModelSettings(name=model, device="cpu", precision=precision)), task)
    assert isinstance(loaded, Sampler)
    asked = problems(prompts, tier)
    number = 0

    def work() -> float:
        nonlocal number
        number += 1
        requests = [
            SampleRequest(
                key=f"{problem.key}/{sample}",
                messages=problem.prompt,
                seed=1_000_003 * number + 1_009 * place + sample,
                temperature=TEMPERATURE,
                max_tokens=tokens,
            )
            for place, problem in enumerate(asked)
            for sample in range(samples)
        ]
        return sum(len(completion.token_ids or ()) for completion in loaded.sample(requests))

    return lambda: measured(work)


def mlx_lm(
    model: str, prompts: int, samples: int, tokens: int, tier: str, batch: int, *, fast_blas: bool
) -> Callable[[], Turn]:
    """`mlx_lm.batch_generate`, `batch` sequences together, refilled as they end."""
    loaded, tokenizer = load_mlx_lm(model, fast_blas=fast_blas)
    from mlx_lm import batch_generate
    from mlx_lm.sample_utils import make_sampler

    asked = [
        tokenizer.apply_chat_template(turns(problem), add_generation_prompt=True)
        for problem in problems(prompts, tier)
        for _ in range(samples)
    ]

    def work() -> float:
        # mlx-lm draws from mlx's global generator: other tokens in each turn, as it comes.
        found = batch_generate(
            loaded, tokenizer, asked, max_tokens=tokens, sampler=make_sampler(TEMPERATURE), completion_batch_size=batch
        )
        return float(found.stats.generation_tokens)

    return lambda: measured(work)


def transformers(
    model: str, prompts: int, samples: int, tokens: int, tier: str, batch: int, *, dtype: str
) -> Callable[[], Turn]:
    """`generate` on torch's CPU backend, `batch` sequences together."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = model_directory(model)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    asked = [
        tokenizer.apply_chat_template(turns(problem), add_generation_prompt=True, tokenize=False)
        for problem in problems(prompts, tier)
        for _ in range(samples)
    ]

    def work() -> float:
        written = 0
        for start in range(0, len(asked), batch):
            inputs = tokenizer(asked[start : start + batch], return_tensors="pt", padding=True)
            with torch.inference_mode():
                out = loaded.generate(**inputs, do_sample=True, temperature=TEMPERATURE, top_k=0, max_new_tokens=tokens)
            for row in out[:, inputs["input_ids"].shape[1] :].tolist():
                written += row.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in row else len(row)
        return written

    return lambda: measured(work)


def llama_cpp(prompts: int, samples: int, tokens: int, tier: str) -> Callable[[], Turn]:
    """`Llama.create_chat_completion` on SmolLM2's GGUF file, one sequence after the other: it knows no batches."""
    from llama_cpp import Llama

    loaded = Llama(str(smollm2_weights()), n_ctx=1024, verbose=False)
    number = 0

    def work() -> float:
        nonlocal number
        written = 0
        for problem in problems(prompts, tier):
            for _ in range(samples):
                number += 1
                found = loaded.create_chat_completion(
                    turns(problem),
                    temperature=TEMPERATURE,
                    top_k=0,
                    top_p=1.0,
                    min_p=0.0,
                    max_tokens=tokens,
                    seed=number,
                )
                written += found["usage"]["completion_tokens"]
        return written

    return lambda: measured(work)
