"""Trained tokens a second: ours and mlx-lm's LoRA trainer, on the same blocks, batches and traces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.contest import Turn, measured
from benchmarks.rollouts import conversations
from gce.domain.types import Completion, Message, Trace, TrainingBatch, Verdict

RANK = 16
SCALE = 2.0
LEARNING_RATE = 1e-4


def _texts(tokens: int, count: int) -> list[str]:
    """Continuations of about `tokens` tokens each: numbers, which no tokenizer packs much differently."""
    rng = np.random.default_rng(0)
    return [" ".join(map(str, rng.integers(0, 99, tokens // 3))) for _ in range(count)]


def ours(model: str, prompts: int, samples: int, tokens: int, blocks: int, batch: int) -> Callable[[], Turn]:
    """`MlxModel.update`, over every trace once a turn; what is kept between epochs is kept between turns."""
    from gce.adapters.mlx_model import LoraSettings, OptimizerSettings, load_mlx_model

    loaded = load_mlx_model(
        model,
        device="cpu",
        lora=LoraSettings(rank=RANK, scale=SCALE),
        optimizer=OptimizerSettings(learning_rate=LEARNING_RATE),
    )
    loaded.attach(range(loaded.blocks - blocks, loaded.blocks))
    asked = [messages for messages in conversations(prompts) for _ in range(samples)]
    traces = [
        _trace(f"{index}", messages, loaded.prompt_tokens(messages), loaded.text_tokens(text, end=True), text)
        for index, (messages, text) in enumerate(zip(asked, _texts(tokens, len(asked)), strict=True))
    ]

    def work() -> float:
        done = 0.0
        for start in range(0, len(traces), batch):
            part = tuple(traces[start : start + batch])
            loaded.update(TrainingBatch(part, (1.0,) * len(part)))
            done += sum(len(t.completion.prompt_token_ids or ()) + len(t.completion.token_ids or ()) for t in part)
        return done

    return lambda: measured(work)


def _trace(
    key: str, messages: tuple[Message, ...], prompt: tuple[int, ...], written: tuple[int, ...], text: str
) -> Trace:
    completion = Completion(key, text, "stop", "none", prompt_token_ids=prompt, token_ids=written)
    return Trace(key, key, "T0", 0, messages, completion, (Verdict("right", 1.0, "none", "1"),), key)


def mlx_lm(model: str, prompts: int, samples: int, tokens: int, blocks: int, batch: int) -> Callable[[], Turn]:
    """`mlx_lm.tuner.trainer.train` with the BLAS that `gce` puts under mlx; prompts masked, as `mlx_lm.lora` does."""
    import mlx.core as mx
    import mlx.optimizers as optimizers

    from gce.adapters.blas import use_fast_blas

    mx.set_default_device(mx.cpu)
    use_fast_blas(os.cpu_count() or 1)
    from mlx_lm import load
    from mlx_lm.tuner.datasets import CacheDataset, ChatDataset
    from mlx_lm.tuner.trainer import TrainingArgs, default_loss, iterate_batches, train
    from mlx_lm.tuner.utils import linear_to_lora_layers

    loaded, tokenizer = load(model)[:2]
    loaded.set_dtype(mx.float32)
    loaded.freeze()
    linear_to_lora_layers(loaded, blocks, {"rank": RANK, "scale": SCALE, "dropout": 0.0})
    asked = [messages for messages in conversations(prompts) for _ in range(samples)]
    chats = [
        {
            "messages": [
                *({"role": message.role, "content": message.content} for message in messages),
                {"role": "assistant", "content": text},
            ]
        }
        for messages, text in zip(asked, _texts(tokens, len(asked)), strict=True)
    ]
    data = CacheDataset(ChatDataset(chats, tokenizer, mask_prompt=True))
    whole = float(sum(len(data[index][0]) for index in range(len(data))))
    optimizer = optimizers.Adam(learning_rate=LEARNING_RATE)

    def batches(*args: Any, **kwargs: Any) -> Iterator[Any]:
        return iterate_batches(*args, **kwargs)

    def work() -> float:
        args = TrainingArgs(
            batch_size=batch,
            iters=len(chats) // batch,
            steps_per_report=10**9,
            steps_per_save=10**9,
            steps_per_eval=10**9,
            val_batches=0,
            adapter_file="/dev/null",
        )
        train(loaded, optimizer, data, args=args, loss=default_loss, iterate_batches=batches)
        return whole

    return lambda: measured(work)
